"""The ECS scorer: the share of a video's keypoints that a caption entails, or SodaM's F1 where both have times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from assets.scores.base import Features, Outcome, ScorerSettings
from assets.scores.checklist import INPUTS, Checklist, Reading, is_verifiable
from assets.scores.verifiers import default_threshold, make_verifier
from db.verdicts import VerdictRow, VerdictSet
from db.work import PendingSample
from metrics_core.ecs import ECSResult, KeypointVerdict, Thresholds, flat_score, sodam_score
from metrics_core.frames.encoding import FrameEncoder
from metrics_core.models.sentence_splitter import make_splitter
from metrics_core.models.text_encoder import make_text_encoder
from metrics_core.protocols import EntailmentModel, SentenceSplitter, TextEncoder


class ECSScorer:
    """Entailment-Checklist Scoring: verdicts on keypoints, decided at the thresholds in force, without a model."""

    metric = "ecs"
    code_version = "1"
    value_range = (0.0, 1.0)
    inputs = INPUTS | {"thresholds"}
    frame_encoder: FrameEncoder | None = None

    def __init__(
        self, settings: ScorerSettings, encoder: TextEncoder, splitter: SentenceSplitter, model: EntailmentModel
    ) -> None:
        threshold = settings.ecs_threshold
        self.text_encoder = encoder
        self.checklist: Checklist | None = Checklist(
            model,
            splitter,
            None if settings.ecs_sentences == "all" else settings.ecs_sentences,
            settings.ecs_mode,
            default_threshold(settings.ecs_verifier) if threshold is None else threshold,
        )

    @classmethod
    def from_settings(cls, settings: ScorerSettings) -> ECSScorer:
        """The scorer that the settings describe, with its real models."""
        return cls(
            settings,
            make_text_encoder(settings.text_encoder),
            make_splitter(settings.sentence_splitter),
            make_verifier(settings.ecs_verifier, settings.ecs_verifier_precision),
        )

    def models(self) -> dict[str, Any]:
        """Verifier, sentence splitter, and the text encoder where it chooses sentences."""
        retrieval = {} if self._how.n_sentences is None else {"text_encoder": self.text_encoder.identity.as_dict()}
        return {
            **retrieval,
            "verifier": self._how.model.identity.as_dict(),
            "sentence_splitter": self._how.splitter.identity.as_dict(),
        }

    def params(self) -> dict[str, Any]:
        """Retrieval, mode and default threshold. Calibrated thresholds are data: each score's components name them."""
        return {
            "sentences": self._how.n_sentences or "all",
            "mode": self._how.mode,
            "default_threshold": self._how.default_threshold,
        }

    def texts(self, sample: PendingSample) -> Iterator[str]:
        """The keypoints and the caption's sentences."""
        return self._how.texts(sample)

    def score(self, samples: Sequence[PendingSample], features: Features) -> list[Outcome]:
        """One outcome per sample, from its verdicts and the thresholds that came with it."""
        return [self._score_one(sample, features.verdicts.get(sample.sample_id)) for sample in samples]

    @property
    def _how(self) -> Checklist:
        assert self.checklist is not None
        return self.checklist

    def _score_one(self, sample: PendingSample, found: VerdictSet | None) -> Outcome:
        if not is_verifiable(sample):
            return _refusal(sample)
        assert found is not None
        if found.status != "ok":
            return Outcome(None, found.status, found.error)
        thresholds = Thresholds(sample.thresholds, self._how.default_threshold)
        rows = {row.keypoint_id: row for row in found.verdicts}
        try:
            verdicts = [
                _verdict(rows[keypoint.keypoint_id]).at(thresholds.of(keypoint.dimension))
                for keypoint in sample.keypoints
            ]
        except ValueError as error:
            return Outcome(None, "failed", str(error))
        result = _result(sample, self._how.reading(sample), verdicts, found.n_sentences)
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
    dimensions = [keypoint.dimension for keypoint in sample.keypoints]
    if reading.mode != "sodam":
        return flat_score(dimensions, verdicts, mode=reading.mode)
    assert reading.alignment is not None
    members: list[list[int]] = [[] for _ in range(reading.n_segments)]
    for place, keypoint in enumerate(sample.keypoints):
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
        "calibrated": sorted(name for name in result.counts if name in sample.thresholds),
        "n_sentences": found.n_sentences,
        "n_passes": sum(row.n_passes for row in found.verdicts),
        **times,
        **({"parse_error": sample.parse_error} if sample.parse_error else {}),
    }
