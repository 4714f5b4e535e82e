"""Questions written by rule, without a model: coverage and chronology from notes, factuality from the summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from metrics_core.protocols import ModelIdentity, SentenceSplitter
from metrics_core.qeva.categories import CATEGORIES, categories
from metrics_core.qeva.chronology import chronology_questions
from metrics_core.qeva.records import NO, YES, Dimension, Question, QuestionSet, VideoFrames, VideoNotes
from metrics_core.qeva.statements import MIN_WORDS, statements
from metrics_core.qeva.texts import distinct

VERSION = 1
"""Raised by hand whenever the rules write other questions."""

NO_FRAMES = "rules cannot write questions from frames: set a video model, or give the video references or keypoints"


@dataclass(frozen=True)
class RuleVideoExaminer:
    """Writes at most n coverage and n chronology questions from the notes of a video; fulfils VideoExaminer.

    A coverage question asks whether a fact holds. Facts are drawn from n equal stretches of the list, one from each, so
    that the questions are spread as the facts are: over dimensions and time where `notes.video_notes` made the list.
    The same notes and seed give the same questions. A video given as frames gets a set with the status "refused".
    """

    n: int = 10
    seed: int = 0

    @property
    def identity(self) -> ModelIdentity:
        """The rules, their version, the number of questions and the seed."""
        return ModelIdentity("rules:video-examiner", str(VERSION), {"n": self.n, "seed": self.seed})

    def coverage(self, videos: Sequence[VideoFrames | VideoNotes]) -> list[QuestionSet]:
        """Coverage questions, one set for each video, in order."""
        return [self._coverage(video) for video in videos]

    def chronology(self, videos: Sequence[VideoFrames | VideoNotes]) -> list[QuestionSet]:
        """Questions about the order of the notes' events, one set for each video, in order."""
        return [self._chronology(video) for video in videos]

    def _coverage(self, video: VideoFrames | VideoNotes) -> QuestionSet:
        if isinstance(video, VideoFrames):
            return _refused("coverage", self.n)
        facts = distinct(fact for fact in video.facts if len(fact.split()) >= MIN_WORDS)
        chosen = spread(len(facts), self.n, Random("\n".join((str(self.seed), *facts))))
        questions = tuple(_whether("coverage", facts[place]) for place in chosen)
        n_malformed = len(video.facts) - len(facts)
        reason = None if facts else "the notes of the video hold no fact of three words or more"
        return QuestionSet("coverage", questions, self.n, n_malformed, reason=reason)

    def _chronology(self, video: VideoFrames | VideoNotes) -> QuestionSet:
        if isinstance(video, VideoFrames):
            return _refused("chronology", self.n)
        return chronology_questions(video.events, self.n, self.seed)


@dataclass(frozen=True)
class RuleSummaryExaminer:
    """Writes at most n questions whether what a summary states is true; fulfils SummaryExaminer.

    Statements come from `statements.statements`. Each category that a statement speaks of gets one question, the rarest
    category first; what is left of n is drawn from the other statements, spread over the summary. The same summary and
    seed give the same questions.
    """

    splitter: SentenceSplitter
    n: int = 10
    seed: int = 0

    @property
    def identity(self) -> ModelIdentity:
        """The rules, their version, the splitter, the number of questions and the seed."""
        params = {"n": self.n, "seed": self.seed, "splitter": self.splitter.identity.as_dict()}
        return ModelIdentity("rules:summary-examiner", str(VERSION), params)

    def factuality(self, summaries: Sequence[str]) -> list[QuestionSet]:
        """One set for each summary, in order."""
        return [self._factuality(summary) for summary in summaries]

    def _factuality(self, summary: str) -> QuestionSet:
        stated = statements(summary, self.splitter)
        rng = Random("\n".join((str(self.seed), *stated)))
        chosen = by_category([categories(each) for each in stated], self.n, rng)
        questions = tuple(_whether("factuality", stated[place], category) for place, category in sorted(chosen.items()))
        reason = None if stated else "the summary has no statement of three words or more"
        return QuestionSet("factuality", questions, self.n, reason=reason)


def spread(n_items: int, n: int, rng: Random) -> list[int]:
    """Draw at most n of the items 0 to n_items - 1, one from each of n equal stretches, in order.

    >>> spread(3, 10, Random(0)), [place // 5 for place in spread(50, 10, Random(0))]
    ([0, 1, 2], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    if n_items <= n:
        return list(range(n_items))
    edges = [i * n_items // n for i in range(n + 1)]
    return [rng.randrange(low, high) for low, high in pairwise(edges)]


def by_category(of_statement: Sequence[Sequence[str]], n: int, rng: Random) -> dict[int, str]:
    """Draw at most n statements, given the categories of each: place in the text, and the category it stands for.

    >>> by_category([("actions",), ("actions", "colours"), ("actions",)], 2, Random(0))[1]
    'colours'
    """
    members = {name: [i for i, names in enumerate(of_statement) if name in names] for name in CATEGORIES}
    chosen: dict[int, str] = {}
    for name in sorted(CATEGORIES, key=lambda name: len(members[name])):
        free = [place for place in members[name] if place not in chosen]
        if free and len(chosen) < n:
            chosen[rng.choice(free)] = name
    rest = [place for place in range(len(of_statement)) if place not in chosen]
    for place in spread(len(rest), n - len(chosen), rng) if len(chosen) < n else []:
        chosen[rest[place]] = min(of_statement[rest[place]], key=lambda name: len(members[name]))
    return chosen


def _whether(dimension: Dimension, statement: str, category: str | None = None) -> Question:
    return Question(
        dimension, "yes_no", f"Is this so? “{statement}”", YES, (YES, NO), category, statements=(statement,)
    )


def _refused(dimension: Dimension, n: int) -> QuestionSet:
    return QuestionSet(dimension, (), n, status="refused", reason=NO_FRAMES)
