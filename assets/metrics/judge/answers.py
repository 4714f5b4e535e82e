"""The source of a judge's answers: asks a vision model about texts and frames, and stores what it answers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

from sqlalchemy.engine import Connection, Engine

from assets.metrics.judge.settings import JudgeSettings
from assets.metrics.video_material import CHANGED_VIDEO, FramesMaterial, UnreadableVideo
from assets.sources.base import ERRORS_RARE, Batch, Forecast, Order, Source, are_errors_rare
from db.evidence.judge import Row, list_unrepeated_samples, load_judge_answers, store_judge_answers
from db.evidence.store import Table
from db.schema.inputs import TEXT, VIDEO, Input, build_draw_input
from db.scores.pending import PendingSample
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
# A request without frames and text.
_PROMPT_TOKENS = estimate_tokens(build_judge_request("", None, VideoAsFrames((), {})))
# Rules of thumb: the number and time of a frame, and an answer with two spans.
_FRAME_MARK_TOKENS, _ANSWER_TOKENS = 8, 120


@dataclass(frozen=True, slots=True)
class _AnswerKey:
    """The key of a judge's answer about a sample. repeat: the number of the answer from 0; the first one, 0, makes the
    score. context_sha256: the digest of the text and video that it is about. text: the sample's, by which the cost is
    estimated.
    """

    sample_id: int
    repeat: int
    context_sha256: bytes
    text: str = field(compare=False)


_Answers = Mapping[_AnswerKey, JudgeAnswer]


def _load_answers(engine: Engine, model_id: int, keys: Collection[_AnswerKey]) -> _Answers:
    n_answers = 1 + max((key.repeat for key in keys), default=0)
    with engine.connect() as connection:
        rows = load_judge_answers(connection, model_id, {key.sample_id for key in keys}, n_answers)
    found = {key: rows.get((key.sample_id, key.repeat)) for key in keys}
    return {
        key: _build_answer(row)
        for key, row in found.items()
        if row and bytes(row["context_sha256"]) == key.context_sha256
    }


def _store_answers(engine: Engine, model_id: int, run_id: str, answers: _Answers) -> None:
    rows = [
        {
            "sample_id": key.sample_id,
            "repeat": key.repeat,
            "context_sha256": key.context_sha256,
            **{name: getattr(answer, name) for name in ("score", "value", "value_from", "why", "status", "reason")},
            **asdict(answer.found),
        }
        for key, answer in answers.items()
    ]
    store_judge_answers(engine, model_id, run_id, rows)


def _build_answer(row: Row) -> JudgeAnswer:
    """Return the answer in a row of table judge_answer."""
    found = FoundSpans(tuple(WrongSpan(**span) for span in row["spans"]), row["n_not_in_text"], row["n_surplus"])
    return JudgeAnswer(row["score"], row["value"], row["value_from"], found, row["why"], row["status"], row["reason"])


class JudgeAnswers(Source[Mapping[int, JudgeAnswer]]):
    """The source of a judge's answers about samples; `load` and `ask` return the first ones by sample_id. A sample that
    is not drawn, or that cannot be judged, has none. can_judge: decides the latter without a model.
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
        ERRORS_RARE: "Fewer than 20 % of the answers have no score.",
    }
    warnings: ClassVar[frozenset[str]] = frozenset({ERRORS_RARE})
    can_repeat: ClassVar[bool] = True
    table: ClassVar[Table[Any, Any]] = Table(_load_answers, _store_answers)
    product: ClassVar[str] = "answer"
    model_role: ClassVar[str] = "judged_by"
    progress: ClassVar[str] = "{done} of {total} samples judged"
    # Table chat_reply keeps replies that a crash kept out of table judge_answer.
    at_a_time: ClassVar[int] = 256

    inputs: Collection[Input[Any]] = INPUTS

    def __init__(self, chat: ChatModel, settings: JudgeSettings, can_judge: Callable[[PendingSample], bool]) -> None:
        self.material = FramesMaterial(settings.judge_frames, settings.judge_frame_size)
        self._chat = chat
        self._settings = settings
        self._can_judge = can_judge

    @property
    def model(self) -> ModelIdentity:
        """The identity of the judge with its prompt, and of the form in which it is shown a video. Answers are stored
        under it.
        """
        judge = ChatJudge(self._chat).identity
        return ModelIdentity(
            judge.model_id, judge.revision, {**judge.params, "video": self.material.identity.as_dict()}
        )

    @property
    def chat_models(self) -> Collection[ChatModel]:
        """The judge."""
        return (self._chat,)

    def pending(self, order: Order, asked: Callable[[], list[int]]) -> list[int]:
        """Return the ids of the samples to judge: those of `asked` that draws of the dataset have reached, all without
        a draw, and scored ones for which draws want further answers. Most samples of a dataset with a draw are thereby
        left out before their texts are loaded.
        """
        wanted = asked()
        with order.engine.connect() as connection:
            drawn = filter_asked_samples(connection, order.dataset, METRIC, wanted)
            unrepeated = self._list_unrepeated(connection, order.scorer_id, order.dataset.dataset_id)
        return sorted({*drawn, *(sample_id for sample_id, shard in unrepeated if shard == order.shard)})

    def outstanding(self, engine: Engine, scorer_id: int, dataset_id: int) -> Collection[int]:
        """Return the numbers of a dataset's shards with scored samples for which draws want further answers."""
        with engine.connect() as connection:
            return {shard for _, shard in self._list_unrepeated(connection, scorer_id, dataset_id)}

    def keys(self, batch: Batch) -> Iterator[_AnswerKey]:
        """Yield the keys of the answers that are wanted about the samples: the first ones, and with an order as many as
        draws or the order want. After a first answer that has no score, and did not fail, no other is wanted. Raises
        MissingEvidence where a video changed during the run.
        """
        # The samples of an order are drawn, or are to be counted as if they were.
        asked = [one for one in batch.samples if self._can_judge(one) and (batch.order or one[DRAW])]
        videos = self.material.require_digests(batch.files, asked, self.missing)
        first = [_AnswerKey(one.sample_id, 0, _compute_context(one, videos[one.video_id]), one.text) for one in asked]
        yield from first
        n_wished: Mapping[int, int] = {}
        if order := batch.order:
            with order.engine.connect() as connection:
                drawn = load_answer_counts(connection, METRIC, [key.sample_id for key in first])
            n_wished = {key.sample_id: max(drawn.get(key.sample_id, 1), order.n_answers) for key in first}
        repeated = [key for key in first if n_wished.get(key.sample_id, 1) > 1]
        given = batch.store.load(repeated)
        for key in repeated:
            if key not in given or given[key].status in ("ok", "failed"):
                yield from (replace(key, repeat=repeat) for repeat in range(1, n_wished[key.sample_id]))

    def compute(self, keys: Sequence[_AnswerKey], batch: Batch) -> Iterator[_Answers]:
        """Ask the judge for the first answers and yield them, then for the others where the first one has a score. A
        video that cannot be read gives an answer without a score.
        """
        judge = ChatJudge(batch.prepare_chat(self._chat, self._settings))
        if first := [key for key in keys if key.repeat == 0]:
            yield self._ask(judge, first, batch)
        others = {key: replace(key, repeat=0) for key in keys if key.repeat}
        given = batch.store.load(list(dict.fromkeys(others.values())))
        if further := [key for key, first in others.items() if first in given and given[first].status == "ok"]:
            yield self._ask(judge, further, batch)

    def is_final(self, value: JudgeAnswer) -> bool:
        """Whether an answer stays, since it did not fail."""
        return value.status != "failed"

    def gather(self, values: _Answers, batch: Batch) -> Mapping[int, JudgeAnswer]:
        """Return the first answers by sample_id."""
        return {key.sample_id: answer for key, answer in values.items() if key.repeat == 0}

    def estimate(self, keys: Sequence[_AnswerKey]) -> Sequence[Forecast]:
        """Estimate one request for every answer, as if all first answers had a score. Videos count as square frames;
        frames of other proportions have fewer tokens.
        """
        size = self._settings.judge_frame_size
        video_tokens = self._settings.judge_frames * (estimate_image_tokens(size, size) + _FRAME_MARK_TOKENS)
        tokens_in = sum(_PROMPT_TOKENS + estimate_text_tokens(key.text) + video_tokens for key in keys)
        name, tokens_out = self._chat.identity.model_id, len(keys) * _ANSWER_TOKENS
        money = compute_call_usage(tokens_in, tokens_out, self._settings.find_prices(name)).money
        return [Forecast("judgements", name, len(keys), tokens_in, tokens_out, money)]

    def count(self, values: _Answers) -> Mapping[str, int]:
        """Return counts of first and further answers, of those without a score, and of pieces that a text does not
        have.
        """
        return {
            "judged": sum(key.repeat == 0 for key in values),
            "repeated": sum(key.repeat > 0 for key in values),
            "without_score": sum(answer.value is None for answer in values.values()),
            "spans_not_in_text": sum(answer.found.n_not_in_text for answer in values.values()),
        }

    def measure(self, keys: Sequence[_AnswerKey], batch: Batch) -> Mapping[str, int]:
        """Return counts of samples to be judged, and of those without a first answer and without a score."""
        first = [key for key in keys if key.repeat == 0]
        counts = self.count(batch.store.load(first))
        return {
            "to_judge": len(first),
            "unanswered": len(first) - counts["judged"],
            "without_score": counts["without_score"],
        }

    def judge_counts(self, counts: Mapping[str, int]) -> Mapping[str, bool]:
        """Return whether all samples to be judged have an answer, and fewer than 20 % of the answers no score."""
        return {
            "texts_judged": counts["unanswered"] == 0,
            ERRORS_RARE: are_errors_rare(counts["without_score"], counts["to_judge"]),
        }

    def try_out(self) -> str:
        """Show the judge one grey frame with a caption, and return its score as a line of text. Raises ModelUnusable if
        it gives none.
        """
        (answer,) = ChatJudge(self._chat).judge_texts([JudgedText("A grey image.", _make_grey_video())])
        if answer.value is None:
            raise ModelUnusable(f"{self.model.model_id} gave no score: {answer.reason}")
        how = "by the probabilities of its tokens" if answer.value_from == "logprobs" else "by its answer"
        return f"judges a grey image at {answer.value:.2f}, {how}"

    def _ask(self, judge: ChatJudge, keys: Sequence[_AnswerKey], batch: Batch) -> _Answers:
        samples = {sample.sample_id: sample for sample in batch.samples}
        videos = {samples[key.sample_id].video_id for key in keys}
        shown = self.material.load(batch.files, batch.samples, videos)
        texts: dict[_AnswerKey, JudgedText] = {}
        unreadable: dict[_AnswerKey, JudgeAnswer] = {}
        for key in keys:
            sample = samples[key.sample_id]
            video = shown.get(sample.video_id, CHANGED_VIDEO)
            if isinstance(video, UnreadableVideo):
                unreadable[key] = JudgeAnswer(status="refused" if video.is_final else "failed", reason=video.reason)
            else:
                texts[key] = JudgedText(get_judged_text(sample), video, sample.question, key.repeat)
        return {**dict(zip(texts, judge.judge_texts(list(texts.values())), strict=True)), **unreadable}

    def _list_unrepeated(self, connection: Connection, scorer_id: int, dataset_id: int) -> list[tuple[int, int]]:
        return list_unrepeated_samples(connection, self.model_id(connection), scorer_id, dataset_id, METRIC)


def get_judged_text(sample: PendingSample) -> str:
    """Return the text of a sample that the judge is shown, in which spans are counted: the caption, or the answer of a
    question-answer pair.
    """
    return sample.text if sample.question is None else sample.answer or ""


def _compute_context(sample: PendingSample, video: bytes) -> bytes:
    texts = (sample.question or "", get_judged_text(sample))
    parts = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
    return hashlib.sha256(b"".join([*parts, video])).digest()


def _make_grey_video() -> VideoAsFrames:
    from io import BytesIO

    from PIL import Image

    held = BytesIO()
    Image.new("RGB", (64, 64), "grey").save(held, "JPEG")
    return VideoAsFrames((JpegFrame(held.getvalue(), 0.0, 64, 64),), {"frames": 1})
