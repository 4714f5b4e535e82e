"""The models of QEVA by role, made from settings: chat models if they are named, else rules; and their forecast."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from assets.metrics.qeva.settings import QEVASettings
from assets.metrics.video_material import FramesMaterial, NotesMaterial, VideoMaterial
from assets.models.chat import make_recording_encoder
from assets.models.verifiers import OFFLINE, find_pair_threshold, make_verifier
from assets.sources.base import Batch, Forecast
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
    """The models, or rules instead of them, that write QEVA's questions, filter and answer them, and judge the answers.
    votes: how often a question is asked without its source. matcher: decides whether answers to open questions are
    right.
    """

    video_examiner: VideoExaminer
    summary_examiner: SummaryExaminer
    video_filter: Answerer
    summary_filter: Answerer
    video_answerer: Answerer
    summary_answerer: Answerer
    matcher: AnswerMatcher
    votes: int

    @property
    def question_identity(self) -> ModelIdentity:
        """The joint identity of all models that write and filter questions, and the number of votes. Question sets are
        stored under this identity. Its name joins those of the models, and its revision is a hash of their identities.
        """
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
        """The joint identity of all models that answer questions and judge the answers. Answers are stored under this
        identity. Its name joins those of the models, and its revision is a hash of their identities.
        """
        return _merge_identities(
            {
                "video_answerer": self.video_answerer.identity,
                "summary_answerer": self.summary_answerer.identity,
                "matcher": self.matcher.identity,
            },
            {},
        )

    def try_out(self, *answerers: Answerer) -> str:
        """Ask every distinct answerer one small question about a text, and return the answers as a line of text. Raises
        ModelUnusable if one refuses, fails or answers in a form that cannot be read.
        """
        question = Question("coverage", "yes_no", "Does a dog run?", "yes", ("yes", "no"), statements=("A dog runs.",))
        answers = []
        for answerer in {str(answerer.identity): answerer for answerer in answerers}.values():
            (reply,) = answerer.answer([ContextQuestion(question, "A red dog runs over the lawn.")])
            if reply.status in ("refused", "error", "malformed"):
                raise ModelUnusable(f"{answerer.identity.model_id} gave no answer: {reply.reason}")
            answers.append(f"{answerer.identity.model_id} answers {reply.normalised or reply.status!r}")
        return f"asked whether a running dog runs, {', '.join(answers)}"

    def choose_filter(self, dimension: Dimension) -> Answerer:
        """Return the model that filters the questions of a dimension: `summary_filter` for factuality, else
        `video_filter`.
        """
        return self.summary_filter if dimension == "factuality" else self.video_filter


def _merge_identities(roles: dict[str, ModelIdentity], params: dict[str, int]) -> ModelIdentity:
    """Return one identity for several models: their names joined, a hash as revision, and their identities by role."""
    names = ", ".join(dict.fromkeys(identity.model_id for identity in roles.values()))
    by_role = {role: identity.as_dict() for role, identity in roles.items()}
    return ModelIdentity(names, compute_fingerprint(by_role), {**by_role, **params})


# A prompt with its schema and question; a short answer. Lists of questions are longer, but there are few of them.
PROMPT_TOKENS, ANSWER_TOKENS = 350, 50
# A caption of some 150 words.
SUMMARY_TOKENS = 250


def _build_forecast(role: str, model: str, calls: ModelCalls, video_tokens: int, prices: Prices | None) -> Forecast:
    """Estimate requests, tokens and price of one role's calls to a model, if the first attempt at every call succeeds.
    video_tokens: those of one video, to which, as to a summary's, the prompt and a short answer are added. prices: None
    gives a forecast without money.
    """
    tokens_in = calls.video * (video_tokens + PROMPT_TOKENS) + calls.text * (SUMMARY_TOKENS + PROMPT_TOKENS)
    tokens_out = (calls.video + calls.text) * ANSWER_TOKENS
    money = compute_call_usage(tokens_in, tokens_out, prices).money
    return Forecast(role, model, calls.video + calls.text, tokens_in, tokens_out, money)


# For every role, the models that can do its work, the best first. A text model reads the notes about a video, since the
# verifier cannot answer the questions that a text model asks.
SUBSTITUTES: Mapping[str, tuple[str, ...]] = {
    "video": ("video", "text"),
    "text": ("text",),
    "filter_video": ("filter_video", "video", "filter_text", "text"),
    "filter_text": ("filter_text", "text"),
}


class QEVAModelFactory:
    """Makes the models of QEVA from its settings, with or without caches in the database, and forecasts their cost.
    chats: chat models by role; other roles are done by rules or the verifier. threshold: P(entailment) from which the
    verifier says yes. material: how models get a video: as frames where there is a video model, else as notes.
    """

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
        self.material: VideoMaterial = self._notes or FramesMaterial(settings.qeva_frames, settings.qeva_frame_size)
        # All samples of a video have the same notes.
        self._sets_from_notes = lru_cache(maxsize=1024)(self._write_from_notes)

    @classmethod
    def from_settings(cls, settings: QEVASettings) -> QEVAModelFactory:
        """Make the factory with the models of the settings, which load or are asked when they are first used. If the
        settings name no model for a filter, the model that writes the questions filters them.
        """
        chats = {role: chat for role in SUBSTITUTES if (chat := settings.make_chat_model(f"qeva_{role}"))}
        return cls(
            settings,
            chats,
            make_verifier(OFFLINE, "fp32"),
            find_pair_threshold(OFFLINE),
            settings.make_text_encoder(),
            settings.make_splitter(),
        )

    def list_identities(self) -> dict[str, Any]:
        """Return the identities for the scorer's fingerprint, as dicts by name: video (the form in which models get
        it), questions, answers and sentence_splitter.
        """
        models = self.make_models(None)
        identities = {
            "video": self.material.identity,
            "questions": models.question_identity,
            "answers": models.answer_identity,
        }
        identities["sentence_splitter"] = self._splitter.identity
        return {name: identity.as_dict() for name, identity in identities.items()}

    @property
    def chat_models(self) -> Collection[ChatModel]:
        """The chat models that have a role."""
        return self._chats.values()

    @property
    def asks_servers(self) -> bool:
        """Whether making evidence asks a server: a chat model has a role of QEVA, or the text encoder is a server's."""
        return bool(self._chats) or isinstance(self._encoder, ServedTextEncoder)

    def count_sentences(self, summary: str) -> int:
        """Return the number of sentences of a summary by the sentence splitter; 0 for a text without a letter or
        digit.
        """
        return len(split_premises(summary, self._splitter))

    def list_shortages(self, sample: PendingSample) -> list[DimensionScore]:
        """Return a score without a value, but with status and reason, for every dimension in which rules write fewer
        than 3 questions for a sample. Asks no model. A dimension whose questions a chat model writes is never returned,
        as their number is not known.
        """
        notes = self._notes and self._notes.find_notes(sample)
        sets = list(self._sets_from_notes(notes)) if notes else []
        if "text" not in self._chats:
            sets += self._uncached_models.summary_examiner.compose_factuality_questions([sample.text])
        return [shortage for question_set in sets if (shortage := find_question_shortage(question_set))]

    def _write_from_notes(self, notes: VideoNotes) -> tuple[QuestionSet, ...]:
        examiner = self._uncached_models.video_examiner
        return (*examiner.compose_coverage_questions([notes]), *examiner.compose_chronology_questions([notes]))

    @property
    def warnings(self) -> list[str]:
        """Sentences about chat models that filter the questions that they write themselves; [] if there are none."""
        return [
            f"{self._chats[role].identity.model_id} filters the questions that it writes itself: set "
            f"REELSIEVE_QEVA_FILTER_{role.upper()}_MODEL to another model"
            for role in ("video", "text")
            if role in self._chats
            and (chosen := _choose_chat_model(f"filter_{role}", self._chats))
            and chosen.identity == self._chats[role].identity
        ]

    def forecast_questions(self, n_videos: int, n_summaries: int) -> list[Forecast]:
        """Return an estimate, for every role, of the requests to write and filter the questions about n_videos videos
        and n_summaries summaries. A role without a chat model or without work has no entry. Asks no model.
        """
        n, votes = self._settings.qeva_questions, self._settings.qeva_closed_book_votes
        return self._build_forecasts(
            multiply_calls(count_video_calls(n, votes, "video" in self._chats), n_videos),
            multiply_calls(count_factuality_calls(self._n_factuality, votes), n_summaries),
        )

    def forecast_answers(self, n_summaries: int) -> list[Forecast]:
        """Return an estimate, for every role, of the requests to answer all questions about n_summaries summaries. A
        role without a chat model or without work has no entry. Asks no model.
        """
        calls = count_answer_calls(self._settings.qeva_questions, self._n_factuality, "video" in self._chats)
        return self._build_forecasts(multiply_calls(calls, n_summaries))

    @property
    def _n_factuality(self) -> int:
        """The number of questions about a summary's facts: that of the settings, or one a category by a chat model."""
        return len(CATEGORY_MEANINGS) if "text" in self._chats else self._settings.qeva_questions

    def _build_forecasts(self, *parts: Mapping[str, ModelCalls]) -> list[Forecast]:
        """Return a forecast for every role that a chat model has work in."""
        settings, size = self._settings, self._settings.qeva_frame_size
        # Square frames, since those of other proportions have fewer tokens; notes of people are twice a summary.
        seen = settings.qeva_frames * estimate_image_tokens(size, size)
        video_tokens = seen if "video" in self._chats else 2 * SUMMARY_TOKENS
        calls: dict[str, ModelCalls] = {}
        for part in parts:
            for role, more in part.items():
                calls[role] = calls.get(role, ModelCalls(0, 0)) + more
        return [
            _build_forecast(
                role, chat.identity.model_id, n_calls, video_tokens, settings.find_prices(chat.identity.model_id)
            )
            for role, n_calls in calls.items()
            if n_calls != ModelCalls(0, 0) and (chat := _choose_chat_model(role, self._chats))
        ]

    def make_models(self, batch: Batch | None) -> QEVAModels:
        """Return the models in their roles. For a batch of an order, they use and fill caches in its database, record
        requests under its run, and are counted in its tally. Without an order, all calls return the same models, which
        ask anew and store nothing.
        """
        if batch is None or (order := batch.order) is None:
            return self._uncached_models
        engine, tell = order.engine, order.tell
        return self._make_models(
            lambda chat: batch.prepare_chat(chat, self._settings),
            CachingVerifier(engine, self._verifier, "questions and answers", tell),
            CachingEncoder(engine, make_recording_encoder(self._encoder, engine, order.run_id), tell),
        )

    @cached_property
    def _uncached_models(self) -> QEVAModels:
        return self._make_models(lambda chat: chat, self._verifier, self._encoder)

    def _make_models(
        self,
        behind: Callable[[ChatModel], ChatModel],
        verifier: EntailmentModel,
        encoder: TextEncoder,
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
    """Return the chat model that does the work of a role; None if rules or the verifier do it."""
    return next((chats[name] for name in SUBSTITUTES[role] if name in chats), None)
