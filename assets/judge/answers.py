"""The source of a judge's answers: asks a vision model about texts and frames, and stores what it answers."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar

from sqlalchemy.engine import Engine

from assets.judge.settings import JudgeSettings
from assets.models.chat import ChatTally, CountingChatModel
from assets.qeva.video_material import CHANGED_VIDEO, FramesMaterial, UnreadableVideo
from assets.reports.text import format_portion
from assets.sources.base import Evidence, Examination, Forecast, Order, Source
from db.evidence.frames import LoadVideos, make_video_loader
from db.evidence.judge import Row, load_judge_answers, store_judge_answers
from db.evidence.models import register_model
from db.schema.inputs import TEXT, VIDEO, Input, build_draw_input
from db.scores.pending import PendingSample, list_shard_samples
from db.selection.draws import filter_asked_samples
from metrics_core.judge import ChatJudge, FoundSpans, JudgeAnswer, JudgedText, WrongSpan
from metrics_core.judge.prompt import build_judge_request
from metrics_core.models.chat.protocol import ChatModel
from metrics_core.models.chat.token_estimates import estimate_tokens
from metrics_core.models.errors import ModelUnusable
from metrics_core.models.server.spending import compute_call_usage
from metrics_core.models.server.tokens import estimate_image_tokens, estimate_text_tokens
from metrics_core.protocols import ModelIdentity
from metrics_core.qeva.records import JpegFrame, VideoAsFrames

METRIC = "judge"
DRAW: Input[bool] = build_draw_input(METRIC)
INPUTS: tuple[Input[Any], ...] = (TEXT, VIDEO, DRAW)
# Samples asked about between two writes. Table chat_reply keeps replies that a crash kept out of table judge_answer.
SAMPLES_AT_A_TIME = 64
# With a greater share of answers without a score, look at the server.
MAX_ERROR_SHARE = 0.2
# A request without frames and text.
PROMPT_TOKENS = estimate_tokens(build_judge_request("", None, VideoAsFrames((), {})))
# Rules of thumb: the number and time of a frame, and an answer with two spans.
FRAME_MARK_TOKENS, ANSWER_TOKENS = 8, 120

Answers = Mapping[int, JudgeAnswer]


class JudgeAnswers(Source[Answers]):
    """The source of a judge's answers about samples; `load` and `ask` return them by sample_id. A sample that is not to
    be asked about has none: see `is_asked`, which decides that without a model.
    """

    asset: ClassVar[str] = "judge_answer"
    description: ClassVar[str] = (
        "What a vision model answers about the text of every sample, or of the drawn ones, by frames of its video: a "
        "score, the pieces of the text that are wrong, and why."
    )
    group: ClassVar[str] = "judge"
    reads: ClassVar[tuple[str, ...]] = ("sample", "video")
    kinds: ClassVar[frozenset[str]] = frozenset({"postgres"})
    checks: ClassVar[Mapping[str, str]] = {
        "texts_judged": "Every sample that is to be judged has an answer, or a reason why it has none.",
        "errors_rare": "Fewer than 20 % of the answers have no score.",
    }
    warnings: ClassVar[frozenset[str]] = frozenset({"errors_rare"})

    inputs: Collection[Input[Any]] = INPUTS

    def __init__(self, chat: ChatModel, settings: JudgeSettings, is_asked: Callable[[PendingSample], bool]) -> None:
        self.material = FramesMaterial(settings.judge_frames, settings.judge_frame_size, settings.judge_frame_quality)
        self._chat = chat
        self._settings = settings
        self._is_asked = is_asked

    @property
    def model(self) -> ModelIdentity:
        """The identity of the judge with its prompt, and of the form in which it is shown a video. Answers are stored
        under it.
        """
        judge = ChatJudge(self._chat).identity
        return ModelIdentity(
            judge.model_id, judge.revision, {**judge.params, "video": self.material.identity.as_dict()}
        )

    def pending(self, order: Order, asked: Callable[[], list[int]]) -> list[int]:
        """Return the ids of the samples of `asked` that draws of the dataset have reached; all of them without a draw.
        Most samples of a dataset with a draw are thereby left out before their texts are loaded.
        """
        with order.engine.connect() as connection:
            return filter_asked_samples(connection, order.dataset, METRIC, asked())

    def make(self, order: Order, sample_ids: list[int]) -> Mapping[str, int | str]:
        """Ask about the samples that have no answer about their present text and video, or one that failed, and store
        the answers, 64 samples at a time. Return counts of answers, requests and tokens by name, and the model's name.
        """
        counts: Counter[str] = Counter(judged=0, without_score=0, spans_not_in_text=0)
        tally, done, files = ChatTally(), 0, make_video_loader(order.engine)
        chat = CountingChatModel(self._settings.add_cache(self._chat, order.engine, order.run_id), tally)
        with order.engine.begin() as connection:
            model_id = register_model(connection, self.model.as_dict())
        for samples in order.samples(sample_ids, self.inputs, SAMPLES_AT_A_TIME):
            contexts = self._find_contexts(files, samples)
            stored = self._load_current(order.engine, model_id, contexts)
            missing = [
                sample
                for sample in samples
                if sample.sample_id in contexts
                and (sample.sample_id not in stored or stored[sample.sample_id].status == "failed")
            ]
            answers = self._ask(ChatJudge(chat), files, missing)
            rows = [_build_row(sample_id, contexts[sample_id], answer) for sample_id, answer in answers.items()]
            store_judge_answers(order.engine, model_id, order.run_id, rows)
            counts.update(
                judged=len(rows),
                without_score=sum(answer.value is None for answer in answers.values()),
                spans_not_in_text=sum(answer.found.n_not_in_text for answer in answers.values()),
            )
            done += len(samples)
            order.tell(f"{done} of {len(sample_ids)} samples judged")
        return {**counts, **tally.as_metadata(), "judged_by": self.model.model_id}

    def load(self, engine: Engine, scorer_id: int, samples: Sequence[PendingSample]) -> Answers:
        """Load the answers about the present text and video of the samples that are to be judged, by sample_id. Raises
        MissingEvidence if one of them has none. The scorer makes no difference.
        """
        contexts = self._find_contexts(make_video_loader(engine), samples)
        answers = self._load_stored(engine, contexts)
        if n_missing := len(contexts) - len(answers):
            lack = f"no answer of {self.model.model_id}"
            raise self.missing(format_portion(n_missing, len(contexts), "sample", f"has {lack}", f"have {lack}"))
        return answers

    def ask(self, samples: Sequence[PendingSample], files: LoadVideos, below: Evidence) -> Answers:
        """Ask about the samples that are to be judged now; return the answers by sample_id, and store nothing."""
        return self._ask(ChatJudge(self._chat), files, [sample for sample in samples if self._is_asked(sample)])

    def try_out(self) -> str:
        """Show the judge one grey frame with a caption, and return its score as a line of text. Raises ModelUnusable if
        it gives none.
        """
        (answer,) = ChatJudge(self._chat).judge_texts([JudgedText("A grey picture.", _make_grey_video())])
        if answer.value is None:
            raise ModelUnusable(f"{self.model.model_id} gave no score: {answer.reason}")
        how = "by the probabilities of its tokens" if answer.value_from == "logprobs" else "by its answer"
        return f"judges a grey picture at {answer.value:.2f}, {how}"

    def forecast(self, order: Order, sample_ids: list[int]) -> Sequence[Forecast]:
        """Estimate one request for every sample that has no answer about its present text and video, or one that
        failed, as one Forecast; [] if there is no such sample. It counts as if a draw had reached all these samples.
        Asks no model and stores nothing.
        """
        n = tokens_in = 0
        with order.engine.connect() as connection:
            model_id = self.model_id(connection)
        files = make_video_loader(order.engine)
        for loaded in order.samples(sample_ids, self.inputs):
            samples = [replace(sample, inputs={**sample.inputs, DRAW.name: True}) for sample in loaded]
            contexts = self._find_contexts(files, samples)
            stored = {} if model_id is None else self._load_current(order.engine, model_id, contexts)
            for sample in samples:
                answer = stored.get(sample.sample_id)
                if sample.sample_id in contexts and (answer is None or answer.status == "failed"):
                    n += 1
                    tokens_in += PROMPT_TOKENS + estimate_text_tokens(sample.text) + self._estimate_video_tokens()
        if not n:
            return []
        name, tokens_out = self._chat.identity.model_id, n * ANSWER_TOKENS
        money = compute_call_usage(tokens_in, tokens_out, self._settings.find_prices(name)).money
        return [Forecast("judgements", name, n, tokens_in, tokens_out, money)]

    def examine(self, order: Order) -> Examination:
        """Check two things about the shard, with counts of samples to be judged, and of those without an answer and
        without a score. texts_judged: all have an answer. errors_rare: fewer than 20 % of the answers have no score.
        """
        with order.engine.connect() as connection:
            shard = list_shard_samples(connection, order.dataset.dataset_id, order.shard)
            sample_ids = filter_asked_samples(connection, order.dataset, METRIC, shard)
        counts: Counter[str] = Counter(to_judge=0, unanswered=0, without_score=0)
        files = make_video_loader(order.engine)
        for samples in order.samples(sample_ids, self.inputs):
            contexts = self._find_contexts(files, samples)
            answers = self._load_stored(order.engine, contexts)
            counts.update(
                to_judge=len(contexts),
                unanswered=len(contexts) - len(answers),
                without_score=sum(answer.value is None for answer in answers.values()),
            )
        passed = {
            "texts_judged": counts["unanswered"] == 0,
            "errors_rare": counts["without_score"] < MAX_ERROR_SHARE * counts["to_judge"] or counts["to_judge"] == 0,
        }
        return Examination(passed, dict(counts))

    def _estimate_video_tokens(self) -> int:
        """Estimate the tokens of a video as square frames; frames of other proportions have fewer."""
        size = self._settings.judge_frame_size
        return self._settings.judge_frames * (estimate_image_tokens(size, size) + FRAME_MARK_TOKENS)

    def _find_contexts(self, files: LoadVideos, samples: Sequence[PendingSample]) -> dict[int, bytes]:
        """Return the digest of text and video of every sample that is to be judged, by sample_id. Raises
        MissingEvidence where a video changed during the run.
        """
        asked = [sample for sample in samples if self._is_asked(sample)]
        videos = self.material.compute_digests(files, asked)
        if changed := [sample.key for sample in asked if sample.video_id not in videos]:
            have = "sample has" if len(changed) == 1 else "samples have"
            raise self.missing(f"{len(changed):,} {have} a video that changed during the run, such as {changed[0]!r}")
        return {sample.sample_id: _compute_context(sample, videos[sample.video_id]) for sample in asked}

    def _ask(self, judge: ChatJudge, files: LoadVideos, samples: Sequence[PendingSample]) -> dict[int, JudgeAnswer]:
        """Ask the judge about these samples, and return its answers by sample_id. A video that cannot be read gives an
        answer without a score.
        """
        shown = self.material.load(files, samples, {sample.video_id for sample in samples}) if samples else {}
        videos = {sample.sample_id: shown.get(sample.video_id, CHANGED_VIDEO) for sample in samples}
        texts = {
            sample.sample_id: JudgedText(get_judged_text(sample), video, sample.question)
            for sample in samples
            if not isinstance(video := videos[sample.sample_id], UnreadableVideo)
        }
        unreadable = {
            sample_id: JudgeAnswer(status="refused" if video.is_final else "failed", reason=video.reason)
            for sample_id, video in videos.items()
            if isinstance(video, UnreadableVideo)
        }
        return {**dict(zip(texts, judge.judge_texts(list(texts.values())), strict=True)), **unreadable}

    def _load_stored(self, engine: Engine, contexts: Mapping[int, bytes]) -> dict[int, JudgeAnswer]:
        with engine.connect() as connection:
            model_id = self.model_id(connection)
        return {} if model_id is None else self._load_current(engine, model_id, contexts)

    def _load_current(self, engine: Engine, model_id: int, contexts: Mapping[int, bytes]) -> dict[int, JudgeAnswer]:
        """Load the answers about these texts and videos by sample_id; answers about earlier ones are left out."""
        with engine.connect() as connection:
            rows = load_judge_answers(connection, model_id, list(contexts))
        return {
            sample_id: _build_answer(row)
            for sample_id, row in rows.items()
            if bytes(row["context_sha256"]) == contexts[sample_id]
        }


def get_judged_text(sample: PendingSample) -> str:
    """Return the text that the judge is shown of a sample, and that places of spans refer to: the caption, or the
    answer of a question-answer pair.
    """
    return sample.text if sample.question is None else sample.answer or ""


def _compute_context(sample: PendingSample, video: bytes) -> bytes:
    texts = (sample.question or "", get_judged_text(sample))
    parts = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
    return hashlib.sha256(b"".join([*parts, video])).digest()


def _build_row(sample_id: int, context: bytes, answer: JudgeAnswer) -> Row:
    """Return an answer as a row of table judge_answer."""
    return {
        "sample_id": sample_id,
        "repeat": 0,
        "context_sha256": context,
        "score": answer.score,
        "value": answer.value,
        "value_from": answer.value_from,
        "spans": [asdict(span) for span in answer.found.spans],
        "n_not_in_text": answer.found.n_not_in_text,
        "n_surplus": answer.found.n_surplus,
        "why": answer.why,
        "status": answer.status,
        "reason": answer.reason,
    }


def _build_answer(row: Row) -> JudgeAnswer:
    """Return the answer in a row of table judge_answer."""
    found = FoundSpans(tuple(WrongSpan(**span) for span in row["spans"]), row["n_not_in_text"], row["n_surplus"])
    return JudgeAnswer(row["score"], row["value"], row["value_from"], found, row["why"], row["status"], row["reason"])


def _make_grey_video() -> VideoAsFrames:
    from io import BytesIO

    from PIL import Image

    held = BytesIO()
    Image.new("RGB", (64, 64), "grey").save(held, "JPEG")
    return VideoAsFrames((JpegFrame(held.getvalue(), 0.0, 64, 64),), {"frames": 1})
