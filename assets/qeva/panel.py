"""Who is asked what: the models in their roles, and their identities."""

from __future__ import annotations

from dataclasses import dataclass

from assets.models.chat import Tally
from db.fingerprint import fingerprint
from metrics_core.models.unusable import ModelUnusable
from metrics_core.protocols import ModelIdentity
from metrics_core.qeva.records import Answerer, Asked, Dimension, Matcher, Question, SummaryExaminer, VideoExaminer


@dataclass(frozen=True, slots=True)
class Panel:
    """Those who write questions, filter them, answer them and judge the answers.

    votes: closed-book votes for each question. tally: what chat models were asked. warnings: what makes scores worth
    less.
    """

    video_examiner: VideoExaminer
    summary_examiner: SummaryExaminer
    video_filter: Answerer
    summary_filter: Answerer
    video_answerer: Answerer
    summary_answerer: Answerer
    matcher: Matcher
    votes: int
    tally: Tally
    warnings: tuple[str, ...] = ()

    @property
    def questions_by(self) -> ModelIdentity:
        """All that decides which questions there are and which are kept."""
        return _together(
            {
                "video_examiner": self.video_examiner.identity,
                "summary_examiner": self.summary_examiner.identity,
                "video_filter": self.video_filter.identity,
                "summary_filter": self.summary_filter.identity,
                "matcher": self.matcher.identity,
            },
            {"votes": self.votes},
        )

    @property
    def answers_by(self) -> ModelIdentity:
        """All that decides what the answers are and whether they are right."""
        return _together(
            {
                "video_answerer": self.video_answerer.identity,
                "summary_answerer": self.summary_answerer.identity,
                "matcher": self.matcher.identity,
            },
            {},
        )

    def try_out(self, *answerers: Answerer) -> str:
        """Have each of these answer a question about a text; says the answers. Raises ModelUnusable without one."""
        question = Question("coverage", "yes_no", "Does a dog run?", "yes", ("yes", "no"), statements=("A dog runs.",))
        said = []
        for answerer in {str(one.identity): one for one in answerers}.values():
            (reply,) = answerer.answer([Asked(question, "A red dog runs over the lawn.")])
            if reply.status in ("refused", "error", "malformed"):
                raise ModelUnusable(f"{answerer.identity.model_id} gave no answer: {reply.reason}")
            said.append(f"{answerer.identity.model_id} answers {reply.normalised or reply.status!r}")
        return f"asked whether a dog runs that runs, {', '.join(said)}"

    def filter_of(self, dimension: Dimension) -> Answerer:
        """Whoever filters the questions of a dimension: with the source in sight from which they were written."""
        return self.summary_filter if dimension == "factuality" else self.video_filter


def _together(roles: dict[str, ModelIdentity], params: dict[str, int]) -> ModelIdentity:
    """One identity for several models: their names, and all their identities by role."""
    names = ", ".join(dict.fromkeys(identity.model_id for identity in roles.values()))
    by_role = {role: identity.as_dict() for role, identity in roles.items()}
    return ModelIdentity(names, fingerprint(by_role), {**by_role, **params})
