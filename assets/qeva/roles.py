"""From settings to a panel: chat models where they are named, else rules and the verifier; and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from assets.ecs.verifiers import OFFLINE, find_pair_threshold, make_verifier
from assets.models.chat import ChatTally, CountingChatModel, make_recording_encoder
from assets.qeva.settings import ROLES, QEVASettings
from assets.qeva.video_material import FramesMaterial, NotesMaterial, VideoMaterial
from assets.sources.base import Forecast, Order
from assets.sources.cached_models import CachingEncoder, CachingVerifier
from db.evidence.models import compute_fingerprint
from db.scores.pending import PendingSample
from metrics_core.ecs.premises import split_premises
from metrics_core.models.chat.protocol import ChatModel
from metrics_core.models.errors import ModelUnusable
from metrics_core.models.served_encoder import ServedTextEncoder
from metrics_core.models.server.spending import Prices, compute_call_usage
from metrics_core.models.server.tokens import estimate_image_tokens
from metrics_core.protocols import EntailmentModel, ModelIdentity, SentenceSplitter, TextEncoder
from metrics_core.qeva import DimensionScore, find_question_shortage
from metrics_core.qeva.by_chat.answerers import ChatAnswerer, ChatMatcher
from metrics_core.qeva.by_chat.examiners import ChatSummaryExaminer, ChatVideoExaminer
from metrics_core.qeva.by_chat.model_calls import (
    ModelCalls,
    count_answer_calls,
    count_factuality_calls,
    count_video_calls,
    multiply_calls,
)
from metrics_core.qeva.by_chat.requests import CATEGORY_MEANINGS
from metrics_core.qeva.offline.answerers import (
    DEFAULT_R,
    CosineMatcher,
    EntailmentAnswerer,
    EntailmentMatcher,
    TokenF1Matcher,
)
from metrics_core.qeva.offline.rules import RuleSummaryExaminer, RuleVideoExaminer
from metrics_core.qeva.records import (
    Answerer,
    AnswerMatcher,
    ContextQuestion,
    Dimension,
    Question,
    QuestionSet,
    SummaryExaminer,
    VideoExaminer,
    VideoNotes,
)


@dataclass(frozen=True, slots=True)
class QEVAModels:
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
    matcher: AnswerMatcher
    votes: int
    tally: ChatTally
    warnings: tuple[str, ...] = ()

    @property
    def question_identity(self) -> ModelIdentity:
        """All that decides which questions there are and which are kept."""
        return _merge_identities(
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
    def answer_identity(self) -> ModelIdentity:
        """All that decides what the answers are and whether they are right."""
        return _merge_identities(
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
            (reply,) = answerer.answer([ContextQuestion(question, "A red dog runs over the lawn.")])
            if reply.status in ("refused", "error", "malformed"):
                raise ModelUnusable(f"{answerer.identity.model_id} gave no answer: {reply.reason}")
            said.append(f"{answerer.identity.model_id} answers {reply.normalised or reply.status!r}")
        return f"asked whether a dog runs that runs, {', '.join(said)}"

    def choose_filter(self, dimension: Dimension) -> Answerer:
        """Whoever filters the questions of a dimension: with the source in sight from which they were written."""
        return self.summary_filter if dimension == "factuality" else self.video_filter


def _merge_identities(roles: dict[str, ModelIdentity], params: dict[str, int]) -> ModelIdentity:
    """One identity for several models: their names, and all their identities by role."""
    names = ", ".join(dict.fromkeys(identity.model_id for identity in roles.values()))
    by_role = {role: identity.as_dict() for role, identity in roles.items()}
    return ModelIdentity(names, compute_fingerprint(by_role), {**by_role, **params})


# A prompt with its schema and question; a short answer. Lists of questions are longer, but there are few of them.
TOKENS_OF_PROMPT, TOKENS_OF_ANSWER = 350, 50
# A caption of some 150 words.
SUMMARY_TOKENS = 250


@dataclass(frozen=True, slots=True)
class InputTokens:
    """Tokens of a video and of a summary in a request, by a rule of thumb."""

    video: int
    summary: int

    @classmethod
    def build_for_frames(cls, n_frames: int, frame_size: int) -> InputTokens:
        """The weight of a video of square frames; a frame of other proportions weighs less."""
        return cls(n_frames * estimate_image_tokens(frame_size, frame_size), SUMMARY_TOKENS)

    @classmethod
    def build_for_notes(cls) -> InputTokens:
        """The weight of a video that people's notes stand for: twice a summary."""
        return cls(2 * SUMMARY_TOKENS, SUMMARY_TOKENS)


def build_forecast(role: str, model: str, calls: ModelCalls, tokens: InputTokens, prices: Prices | None) -> Forecast:
    """The cost of calls of a role, each answered at the first attempt."""
    tokens_in = calls.video * (tokens.video + TOKENS_OF_PROMPT) + calls.text * (tokens.summary + TOKENS_OF_PROMPT)
    tokens_out = (calls.video + calls.text) * TOKENS_OF_ANSWER
    money = compute_call_usage(tokens_in, tokens_out, prices).money
    return Forecast(role, model, calls.video + calls.text, tokens_in, tokens_out, money)


# Who does the work of a role that has no model of its own. A text model reads the notes that stand for a video, since
# the verifier cannot answer what a text model asks.
SUBSTITUTES: Mapping[str, tuple[str, ...]] = {
    "video": ("video", "text"),
    "text": ("text",),
    "filter_video": ("filter_video", "video", "filter_text", "text"),
    "filter_text": ("filter_text", "text"),
}


class QEVAModelFactory:
    """The models of the settings. `panel` seats them: for a run behind their tables, without one as they are."""

    def __init__(
        self,
        settings: QEVASettings,
        chats: Mapping[str, ChatModel],
        verifier: EntailmentModel,
        threshold: float,
        encoder: TextEncoder,
        splitter: SentenceSplitter,
    ) -> None:
        self._settings = settings
        self._chats = chats
        self._verifier = verifier
        self._threshold = threshold
        self._encoder = encoder
        self._splitter = splitter
        self._notes = None if "video" in chats else NotesMaterial(splitter)
        self.material: VideoMaterial = self._notes or FramesMaterial(
            settings.qeva_frames, settings.qeva_frame_size, settings.qeva_frame_quality
        )
        # All samples of a video have the same notes.
        self._sets_from_notes = lru_cache(maxsize=1024)(self._write_from_notes)

    @classmethod
    def from_settings(cls, settings: QEVASettings) -> QEVAModelFactory:
        """The roles with their real models; a filter that is not named is the model whose questions it filters."""
        chats = {
            role: settings.make_chat_model(model, settings.find_url(role), settings.find_key_variable(role))
            for role in ROLES
            if (model := settings.find_model_name(role))
        }
        return cls(
            settings,
            chats,
            make_verifier(OFFLINE, "fp32"),
            find_pair_threshold(OFFLINE),
            settings.make_text_encoder(),
            settings.make_splitter(),
        )

    def list_identities(self) -> dict[str, Any]:
        """What stands for the video, and all models in their roles."""
        panel = self.make_models(None)
        identities = {
            "video": self.material.identity,
            "questions": panel.question_identity,
            "answers": panel.answer_identity,
        }
        identities["sentence_splitter"] = self._splitter.identity
        return {name: identity.as_dict() for name, identity in identities.items()}

    @property
    def asks_servers(self) -> bool:
        """Whether some role is a chat model's, or the encoder is a server's."""
        return bool(self._chats) or isinstance(self._encoder, ServedTextEncoder)

    def count_sentences(self, summary: str) -> int:
        """The number of sentences of a summary."""
        return len(split_premises(summary, self._splitter))

    def list_shortages(self, sample: PendingSample) -> list[DimensionScore]:
        """The dimensions of a sample for which the rules write too few questions for a value; asks no model.

        A chat model in the place of the rules may write any number, so that its dimensions are never among them.
        """
        notes = self._notes and self._notes.find_notes(sample)
        sets = list(self._sets_from_notes(notes)) if notes else []
        if "text" not in self._chats:
            sets += self._uncached_models.summary_examiner.compose_factuality_questions([sample.text])
        return [short for each in sets if (short := find_question_shortage(each))]

    def _write_from_notes(self, notes: VideoNotes) -> tuple[QuestionSet, ...]:
        examiner = self._uncached_models.video_examiner
        return (*examiner.compose_coverage_questions([notes]), *examiner.compose_chronology_questions([notes]))

    @property
    def warnings(self) -> list[str]:
        """What makes a score worth less: questions that are filtered by the model that wrote them."""
        return [
            f"{self._chats[role].identity.model_id} filters the questions that it writes itself: set "
            f"REELSIEVE_QEVA_FILTER_{role.upper()}_MODEL to another model"
            for role in ("video", "text")
            if role in self._chats and self._choose_filter_model(role).identity == self._chats[role].identity
        ]

    def forecast_questions(self, n_videos: int, n_summaries: int) -> list[Forecast]:
        """What writing and filtering the questions about so many videos and summaries would cost."""
        n, votes = self._settings.qeva_questions, self._settings.qeva_closed_book_votes
        return self._build_forecasts(
            multiply_calls(count_video_calls(n, votes, "video" in self._chats), n_videos),
            multiply_calls(count_factuality_calls(self._n_factuality, votes), n_summaries),
        )

    def forecast_answers(self, n_summaries: int) -> list[Forecast]:
        """What answering the questions about so many summaries would cost."""
        calls = count_answer_calls(self._settings.qeva_questions, self._n_factuality, "video" in self._chats)
        return self._build_forecasts(multiply_calls(calls, n_summaries))

    @property
    def _n_factuality(self) -> int:
        """A chat model asks about every category, whatever the settings say."""
        return len(CATEGORY_MEANINGS) if "text" in self._chats else self._settings.qeva_questions

    def _build_forecasts(self, *parts: Mapping[str, ModelCalls]) -> list[Forecast]:
        """The cost for every role that a chat model stands in."""
        settings = self._settings
        is_seen = "video" in self._chats
        weight = (
            InputTokens.build_for_frames(settings.qeva_frames, settings.qeva_frame_size)
            if is_seen
            else InputTokens.build_for_notes()
        )
        calls: dict[str, ModelCalls] = {}
        for part in parts:
            for role, each in part.items():
                calls[role] = calls.get(role, ModelCalls(0, 0)) + each
        return [
            build_forecast(role, chat.identity.model_id, each, weight, settings.find_prices(chat.identity.model_id))
            for role, each in calls.items()
            if each != ModelCalls(0, 0) and (chat := _choose_chat_model(role, self._chats))
        ]

    def make_models(self, order: Order | None) -> QEVAModels:
        """The models in their roles; with an order, behind the tables in which answers are kept."""
        if order is None:
            return self._uncached_models
        settings, tally = self._settings, ChatTally()
        engine, run_id, tell = order.engine, order.run_id, order.tell
        return self._make_models(
            lambda chat: CountingChatModel(settings.add_cache(chat, engine, run_id), tally),
            CachingVerifier(engine, self._verifier, "questions and answers", tell),
            CachingEncoder(engine, make_recording_encoder(self._encoder, engine, run_id), tell),
            tally,
        )

    @cached_property
    def _uncached_models(self) -> QEVAModels:
        return self._make_models(lambda chat: chat, self._verifier, self._encoder, ChatTally())

    def _choose_filter_model(self, role: str) -> ChatModel:
        return self._chats.get(f"filter_{role}") or self._chats[role]

    def _make_models(
        self,
        behind: Callable[[ChatModel], ChatModel],
        verifier: EntailmentModel,
        encoder: TextEncoder,
        tally: ChatTally,
    ) -> QEVAModels:
        settings = self._settings
        chats = {role: behind(chat) for role, chat in self._chats.items()}
        n, forced = settings.qeva_questions, settings.qeva_forced

        def answerer(role: str) -> Answerer:
            if chat := _choose_chat_model(role, chats):
                return ChatAnswerer(chat, forced=forced)
            # A rule takes a question from one sentence of its source: the nearest sentence is all that a filter needs.
            r = 1 if role.startswith("filter") else DEFAULT_R
            return EntailmentAnswerer(verifier, self._threshold, self._splitter, encoder, r, forced)

        video, text = chats.get("video"), chats.get("text")
        return QEVAModels(
            ChatVideoExaminer(video, n, settings.qeva_chronology) if video else RuleVideoExaminer(n),
            ChatSummaryExaminer(text) if text else RuleSummaryExaminer(self._splitter, n),
            answerer("filter_video"),
            answerer("filter_text"),
            answerer("video"),
            answerer("text"),
            self._make_matcher(text, verifier, encoder),
            settings.qeva_closed_book_votes,
            tally,
            tuple(self.warnings),
        )

    def _make_matcher(self, text: ChatModel | None, verifier: EntailmentModel, encoder: TextEncoder) -> AnswerMatcher:
        name = self._settings.qeva_matcher
        if text and name in ("auto", "judge"):
            return ChatMatcher(text)
        if name == "token_f1":
            return TokenF1Matcher()
        if name == "cosine":
            return CosineMatcher(encoder)
        return EntailmentMatcher(verifier, self._threshold)


def _choose_chat_model(role: str, chats: Mapping[str, ChatModel]) -> ChatModel | None:
    """The chat model that does the work of a role, if any does."""
    return next((chats[name] for name in SUBSTITUTES[role] if name in chats), None)
