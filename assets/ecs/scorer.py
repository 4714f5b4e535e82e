"""ECS: the share of a video's keypoints that a caption entails, or SodaM's F1 where both have times."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, Field
from sqlalchemy.engine import Connection

from assets.ecs.checklist import Checklist, Reading, is_verifiable
from assets.ecs.explained import explain_ecs
from assets.ecs.verdicts import KeypointVerdicts
from assets.ecs.verifiers import default_threshold, make_verifier
from assets.models.settings import SplitterSettings, TextEncoderSettings
from assets.scores.base import Explanation, Outcome
from assets.sources.base import Evidence, Source
from assets.sources.texts import TextVectors
from db.inputs import KEYPOINTS, SEGMENTS, THRESHOLDS, Input
from db.verdicts import VERDICT_INPUTS, VerdictRow, VerdictSet
from db.work import PendingSample
from metrics_core.ecs import ECSResult, KeypointVerdict, Thresholds, flat_score, sodam_score
from metrics_core.protocols import EntailmentModel, SentenceSplitter, TextEncoder


class ECSSettings(TextEncoderSettings, SplitterSettings):
    """The settings of ECS."""

    ecs_verifier: str = Field(default="offline", description="folder or hub id of an NLI model, `offline`, `lexical`")
    ecs_verifier_precision: Literal["fp32", "bf16", "fp16"] = Field(default="fp32", description="counts on a GPU only")
    ecs_sentences: Annotated[int, Field(ge=1)] | Literal["all"] = Field(
        default=8, description="sentences verified per keypoint, the nearest first, or `all`"
    )
    ecs_mode: Literal["auto", "flat_micro", "flat_macro", "sodam"] = "auto"
    ecs_threshold: float | None = Field(
        default=None, ge=0.0, le=1.0, description="where no labels were calibrated on; default: the verifier's own"
    )


class ECSScorer:
    """Entailment-Checklist Scoring: verdicts on keypoints, decided at the thresholds in force, without a model."""

    metric: ClassVar[str] = "ecs"
    code_version: ClassVar[str] = "1"
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    inputs: ClassVar[Collection[Input[Any]]] = (*VERDICT_INPUTS, THRESHOLDS)
    rests_on: ClassVar[tuple[type[Source[Any]], ...]] = (KeypointVerdicts,)
    settings: ClassVar[type[BaseModel]] = ECSSettings

    def __init__(
        self, settings: ECSSettings, encoder: TextEncoder, splitter: SentenceSplitter, model: EntailmentModel
    ) -> None:
        threshold = settings.ecs_threshold
        self.checklist = Checklist(
            model,
            splitter,
            None if settings.ecs_sentences == "all" else settings.ecs_sentences,
            settings.ecs_mode,
            default_threshold(settings.ecs_verifier) if threshold is None else threshold,
        )
        self.vectors = TextVectors(encoder, self.checklist.texts, VERDICT_INPUTS)
        self.verdicts = KeypointVerdicts(self.checklist, self.vectors)
        self.sources: tuple[Source[Any], ...] = (self.verdicts,)

    @classmethod
    def from_settings(cls, settings: ECSSettings) -> ECSScorer:
        """The scorer that the settings describe, with its real models."""
        return cls(
            settings,
            settings.make_text_encoder(),
            settings.make_splitter(),
            make_verifier(settings.ecs_verifier, settings.ecs_verifier_precision),
        )

    def models(self) -> dict[str, Any]:
        """Verifier, sentence splitter, and the text encoder where it chooses sentences."""
        how = self.checklist
        retrieval = {} if how.n_sentences is None else {"text_encoder": self.vectors.encoder.identity.as_dict()}
        return {
            **retrieval,
            "verifier": how.model.identity.as_dict(),
            "sentence_splitter": how.splitter.identity.as_dict(),
        }

    def params(self) -> dict[str, Any]:
        """Retrieval, mode and default threshold. Calibrated thresholds are data: each score's components name them."""
        return {
            "sentences": self.checklist.n_sentences or "all",
            "mode": self.checklist.mode,
            "default_threshold": self.checklist.default_threshold,
        }

    def score(self, samples: Sequence[PendingSample], evidence: Evidence) -> list[Outcome]:
        """One outcome per sample, from its verdicts and the thresholds that came with it."""
        return [self._score_one(sample, evidence[self.verdicts].get(sample.sample_id)) for sample in samples]

    def explain(
        self, connection: Connection, sample: PendingSample, evidence: Evidence, components: Mapping[str, Any]
    ) -> Explanation:
        """Each keypoint: whether it is covered, and the sentence that decided."""
        return explain_ecs(connection, sample.sample_id, components)

    def _score_one(self, sample: PendingSample, found: VerdictSet | None) -> Outcome:
        if not is_verifiable(sample):
            return _refusal(sample)
        assert found is not None
        if found.status != "ok":
            return Outcome(None, found.status, found.error)
        thresholds = Thresholds(sample[THRESHOLDS], self.checklist.default_threshold)
        rows = {row.keypoint_id: row for row in found.verdicts}
        try:
            verdicts = [
                _verdict(rows[keypoint.keypoint_id]).at(thresholds.of(keypoint.dimension))
                for keypoint in sample[KEYPOINTS]
            ]
        except ValueError as error:
            return Outcome(None, "failed", str(error))
        result = _result(sample, self.checklist.reading(sample), verdicts, found.n_sentences)
        return Outcome(result.score, components=_components(sample, found, result, thresholds))


def _refusal(sample: PendingSample) -> Outcome:
    if sample.kind != "caption":
        return Outcome(None, "not_applicable", "ECS holds captions against keypoints; this is a question-answer pair")
    return Outcome(None, "no_keypoints", "the video has no keypoint to cover")


def _verdict(row: VerdictRow) -> KeypointVerdict:
    return KeypointVerdict(row.probability, row.sentence_index, None, row.is_lower_bound)


def _result(
    sample: PendingSample, reading: Reading, verdicts: Sequence[KeypointVerdict], n_sentences: int
) -> ECSResult:
    dimensions = [keypoint.dimension for keypoint in sample[KEYPOINTS]]
    if reading.mode != "sodam":
        return flat_score(dimensions, verdicts, mode=reading.mode)
    assert reading.alignment is not None
    members: list[list[int]] = [[] for _ in range(reading.n_segments)]
    for place, keypoint in enumerate(sample[KEYPOINTS]):
        assert keypoint.segment_index is not None
        members[keypoint.segment_index].append(place)
    return sodam_score(
        reading.alignment,
        [[dimensions[i] for i in places] for places in members],
        [[verdicts[i] for i in places] for places in members],
        n_sentences=n_sentences,
    )


def _components(sample: PendingSample, found: VerdictSet, result: ECSResult, thresholds: Thresholds) -> dict[str, Any]:
    aligned = result.aligned
    times = {} if aligned is None else {"precision": aligned.precision, "recall": aligned.recall}
    return {
        "mode": result.mode,
        "outcome": result.status,
        "by_dimension": dict(result.by_dimension),
        "covered": {name: covered for name, (covered, _) in result.counts.items()},
        "keypoints": {name: total for name, (_, total) in result.counts.items()},
        "thresholds": {name: thresholds.of(name) for name in result.counts},
        "calibrated": sorted(name for name in result.counts if name in sample[THRESHOLDS]),
        "n_sentences": found.n_sentences,
        **times,
        **({"parse_error": sample[SEGMENTS].parse_error} if sample[SEGMENTS].parse_error else {}),
    }
