"""The source of a judge's answers: asks a vision model about texts and frames, and stores what it answers."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar, Literal

from sqlalchemy.engine import Connection, Engine

from assets.metrics.judge.settings import JudgeSettings
from assets.metrics.video_material import CHANGED_VIDEO, FramesMaterial, UnreadableVideo
from assets.models.chat import ChatTally, CountingChatModel
from assets.sources.base import Evidence, Examination, Forecast, Order, Source
from assets.words.text import format_portion
from db.evidence.frames import LoadVideos, make_video_loader
from db.evidence.judge import Row, list_unrepeated_samples, load_judge_answers, store_judge_answers
from db.evidence.models import register_model
from db.schema.inputs import TEXT, VIDEO, Input, build_draw_input
from db.scores.pending import PendingSample, list_shard_samples
from db.selection.draws import filter_asked_samples, load_answer_counts
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
NumberedAnswers = Mapping[tuple[int, int], JudgeAnswer]
"""Answers by sample_id and their number from 0; the first one, 0, makes the score."""


class JudgeAnswers(Source[Answers]):
    """The source of a judge's answers about samples; `load` and `ask` return the first ones by sample_id. A sample that
    is not to be asked about has none: see `is_asked`, which decides that without a model.
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
    can_repeat: ClassVar[bool] = True

    inputs: Collection[Input[Any]] = INPUTS

    def __init__(self, chat: ChatModel, settings: JudgeSettings, is_asked: Callable[[PendingSample], bool]) -> None:
        self.material = FramesMaterial(settings.judge_frames, settings.judge_frame_size)
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
        """Return the ids of the samples of `asked` that draws of the dataset have reached, all of them without a draw,
        and of scored samples that draws wish further answers about. Most samples of a dataset with a draw are thereby
        left out before their texts are loaded.
        """
        wanted = asked()
        with order.engine.connect() as connection:
            drawn = filter_asked_samples(connection, order.dataset, METRIC, wanted)
            unrepeated = self._list_unrepeated(connection, order.scorer_id, order.dataset.dataset_id)
        return sorted({*drawn, *(sample_id for sample_id, shard in unrepeated if shard == order.shard)})

    def outstanding(self, engine: Engine, scorer_id: int, dataset_id: int) -> Collection[int]:
        """Return the numbers of a dataset's shards with scored samples that draws wish further answers about."""
        with engine.connect() as connection:
            return {shard for _, shard in self._list_unrepeated(connection, scorer_id, dataset_id)}

    def make(self, order: Order, sample_ids: list[int]) -> Mapping[str, int | str]:
        """Ask about the samples that have no answer about their present text and video, or one that failed, and store
        the answers, 64 samples at a time. Where a draw wishes several answers, samples whose first has a score get the
        others. Return counts of answers, requests and tokens by name, and the model's name.
        """
        counts: Counter[str] = Counter(judged=0, repeated=0, without_score=0, spans_not_in_text=0)
        tally, done, files = ChatTally(), 0, make_video_loader(order.engine)
        chat = CountingChatModel(self._settings.add_cache(self._chat, order.engine, order.run_id), tally)
        with order.engine.begin() as connection:
            model_id = register_model(connection, self.model.as_dict())
        for samples in order.samples(sample_ids, self.inputs, SAMPLES_AT_A_TIME):
            contexts = self._find_contexts(files, samples)
            wished = _load_answer_counts(order, samples)
            stored = self._load_current(order.engine, model_id, contexts, wished)
            judged = [sample for sample in samples if sample.sample_id in contexts]
            answers = self._ask_missing(ChatJudge(chat), files, judged, stored, wished)
            rows = [_build_row(key, contexts[key[0]], answer) for key, answer in answers.items()]
            store_judge_answers(order.engine, model_id, order.run_id, rows)
            counts.update(
                judged=sum(repeat == 0 for _, repeat in answers),
                repeated=sum(repeat > 0 for _, repeat in answers),
                without_score=sum(answer.value is None for answer in answers.values()),
                spans_not_in_text=sum(answer.found.n_not_in_text for answer in answers.values()),
            )
            done += len(samples)
            order.tell(f"{done} of {len(sample_ids)} samples judged")
        return {**counts, **tally.as_metadata(), "judged_by": self.model.model_id}

    def load(self, engine: Engine, scorer_id: int, samples: Sequence[PendingSample]) -> Answers:
        """Load the first answers about the present text and video of the samples that are to be judged, by sample_id.
        Raises MissingEvidence if one of them has none. The scorer makes no difference.
        """
        contexts = self._find_contexts(make_video_loader(engine), samples)
        answers = self._load_stored(engine, contexts)
        if n_missing := len(contexts) - len(answers):
            lack = f"no answer of {self.model.model_id}"
            raise self.missing(format_portion(n_missing, len(contexts), "sample", f"has {lack}", f"have {lack}"))
        return answers

    def ask(self, samples: Sequence[PendingSample], files: LoadVideos, below: Evidence) -> Answers:
        """Ask once about the samples that are to be judged now; return answers by sample_id, and store nothing."""
        asked = [(sample, 0) for sample in samples if self._is_asked(sample)]
        return _choose_first(self._ask(ChatJudge(self._chat), files, asked))

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
        """Estimate one request for every answer that a sample lacks about its present text and video, or that failed,
        as one Forecast; [] if there is no such answer. It counts as if a draw had reached all these samples, and as if
        all first answers had a score. Asks no model and stores nothing.
        """
        n = tokens_in = 0
        with order.engine.connect() as connection:
            model_id = self.model_id(connection)
        files = make_video_loader(order.engine)
        for loaded in order.samples(sample_ids, self.inputs):
            samples = [replace(sample, inputs={**sample.inputs, DRAW.name: True}) for sample in loaded]
            contexts = self._find_contexts(files, samples)
            wished = _load_answer_counts(order, samples)
            stored = self._load_current(order.engine, model_id, contexts, wished)
            for sample in samples:
                if sample.sample_id in contexts:
                    n_missing = len(_list_missing(stored, sample.sample_id, wished[sample.sample_id]))
                    tokens = PROMPT_TOKENS + estimate_text_tokens(sample.text) + self._estimate_video_tokens()
                    n += n_missing
                    tokens_in += n_missing * tokens
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
        videos = self.material.require_digests(files, asked, self.missing)
        return {sample.sample_id: _compute_context(sample, videos[sample.video_id]) for sample in asked}

    def _ask_missing(
        self,
        judge: ChatJudge,
        files: LoadVideos,
        samples: Sequence[PendingSample],
        stored: NumberedAnswers,
        wished: Mapping[int, int],
    ) -> NumberedAnswers:
        """Ask for the first answers that are missing, and then for the others, where the first one has a score."""
        first = self._ask(judge, files, [(one, 0) for one in samples if 0 in _list_missing(stored, one.sample_id, 1)])
        known = {**stored, **first}
        further = [
            (one, repeat)
            for one in samples
            if known[one.sample_id, 0].status == "ok"
            for repeat in _list_missing(known, one.sample_id, wished[one.sample_id])
        ]
        return {**first, **self._ask(judge, files, further)}

    def _ask(self, judge: ChatJudge, files: LoadVideos, asked: Sequence[tuple[PendingSample, int]]) -> NumberedAnswers:
        """Ask the judge for these answers, given as samples with the number of the answer. A video that cannot be read
        gives an answer without a score.
        """
        samples = list({sample.sample_id: sample for sample, _ in asked}.values())
        shown = self.material.load(files, samples, {sample.video_id for sample in samples}) if samples else {}
        texts: dict[tuple[int, int], JudgedText] = {}
        unreadable: dict[tuple[int, int], JudgeAnswer] = {}
        for sample, repeat in asked:
            video = shown.get(sample.video_id, CHANGED_VIDEO)
            if isinstance(video, UnreadableVideo):
                status: Literal["refused", "failed"] = "refused" if video.is_final else "failed"
                unreadable[sample.sample_id, repeat] = JudgeAnswer(status=status, reason=video.reason)
            else:
                judged = JudgedText(get_judged_text(sample), video, sample.question, repeat)
                texts[sample.sample_id, repeat] = judged
        return {**dict(zip(texts, judge.judge_texts(list(texts.values())), strict=True)), **unreadable}

    def _list_unrepeated(self, connection: Connection, scorer_id: int, dataset_id: int) -> list[tuple[int, int]]:
        return list_unrepeated_samples(connection, self.model_id(connection), scorer_id, dataset_id, METRIC)

    def _load_stored(self, engine: Engine, contexts: Mapping[int, bytes]) -> Answers:
        """Load the first answers about these texts and videos by sample_id."""
        with engine.connect() as connection:
            model_id = self.model_id(connection)
        return _choose_first(self._load_current(engine, model_id, contexts, {}))

    def _load_current(
        self, engine: Engine, model_id: int | None, contexts: Mapping[int, bytes], wished: Mapping[int, int]
    ) -> NumberedAnswers:
        """Load the answers about these texts and videos, up to the greatest number that is wished; those about earlier
        ones are left out. model_id: None for a model that was never asked.
        """
        if model_id is None:
            return {}
        with engine.connect() as connection:
            rows = load_judge_answers(connection, model_id, list(contexts), max(wished.values(), default=1))
        return {
            key: _build_answer(row) for key, row in rows.items() if bytes(row["context_sha256"]) == contexts[key[0]]
        }


def get_judged_text(sample: PendingSample) -> str:
    """Return the text that the judge is shown of a sample, and that places of spans refer to: the caption, or the
    answer of a question-answer pair.
    """
    return sample.text if sample.question is None else sample.answer or ""


def _load_answer_counts(order: Order, samples: Sequence[PendingSample]) -> dict[int, int]:
    """Load how many answers are wished about samples, by sample_id: as many as draws or the order wish."""
    with order.engine.connect() as connection:
        drawn = load_answer_counts(connection, METRIC, [sample.sample_id for sample in samples])
    return {sample.sample_id: max(drawn.get(sample.sample_id, 1), order.n_answers) for sample in samples}


def _list_missing(known: NumberedAnswers, sample_id: int, n_wished: int) -> list[int]:
    """List the numbers of the answers about a sample that are missing or have failed. After a first answer without a
    score, the others are not wished.
    """
    first = known.get((sample_id, 0))
    if first is not None and first.status not in ("ok", "failed"):
        return []
    answers = ((repeat, known.get((sample_id, repeat))) for repeat in range(n_wished))
    return [repeat for repeat, answer in answers if answer is None or answer.status == "failed"]


def _choose_first(answers: NumberedAnswers) -> Answers:
    return {sample_id: answer for (sample_id, repeat), answer in answers.items() if repeat == 0}


def _compute_context(sample: PendingSample, video: bytes) -> bytes:
    texts = (sample.question or "", get_judged_text(sample))
    parts = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
    return hashlib.sha256(b"".join([*parts, video])).digest()


def _build_row(key: tuple[int, int], context: bytes, answer: JudgeAnswer) -> Row:
    """Return an answer as a row of table judge_answer. key: the sample's id, and the number of the answer."""
    return {
        "sample_id": key[0],
        "repeat": key[1],
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
