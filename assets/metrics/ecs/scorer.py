"""The scorer of ECS: the share of a video's keypoints that a caption entails, or SodaM's F1 if both have times."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import sqlalchemy as sa
from pydantic import BaseModel, Field
from sqlalchemy.engine import Connection

from assets.home.settings import NamedModel
from assets.metrics.ecs.labelling import KeypointLabeller
from assets.metrics.ecs.verdicts import KeypointVerdicts
from assets.metrics.ecs.verification import KeypointPremises, KeypointVerification, MissingTimes, is_verifiable
from assets.models.chat import CHAT_MODEL
from assets.models.settings import SplitterSettings, TextEncoderSettings
from assets.models.verifiers import EVEN_ODDS, OFFLINE, find_pair_threshold, make_verifier
from assets.scores.base import Explanation, Outcome
from assets.sources.base import Evidence, Source
from assets.sources.texts import TextVectors
from db.evidence.entailments import load_entailments
from db.evidence.models import find_model_id
from db.evidence.verdicts import VERDICT_INPUTS, VerdictRow, VerdictSet
from db.schema.inputs import KEYPOINTS, SEGMENTS, THRESHOLDS, Input
from db.scores.pending import PendingSample
from metrics_core.ecs import ECSResult, KeypointVerdict, Thresholds, compute_flat_score, compute_sodam_score
from metrics_core.models.chat.protocol import ChatModel
from metrics_core.protocols import EntailmentModel, SentenceSplitter, TextEncoder, find_weigher

_VERDICTS = sa.text(
    "SELECT dimension, keypoint_id, keypoint_text, covered, probability, threshold, label, sentence "
    "FROM keypoint_verdicts WHERE sample_id = :sample_id "
    'ORDER BY dimension COLLATE "C", segment_index, keypoint COLLATE "C"'
)
_ANSWER = {True: "yes", False: "no", None: None}


class ECSSettings(TextEncoderSettings, SplitterSettings):
    """Settings of ECS. They are those of text encoder and sentence splitter, verifier, mode, threshold and judge."""

    ecs_verifier: NamedModel = Field(
        default=NamedModel(model=OFFLINE, precision="fp32"),
        description="folder or hub id of an NLI model, `offline` or `lexical`",
    )
    ecs_sentences: Annotated[int, Field(ge=1)] | Literal["all"] = Field(
        default=8, description="sentences verified per keypoint, the nearest first, or `all`"
    )
    ecs_mode: Literal["auto", "flat_micro", "flat_macro", "sodam"] = Field(
        default="auto", description="`auto`: `sodam` where both sides have times, else `flat_micro`"
    )
    ecs_threshold: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="threshold of dimensions without a calibrated one; default: the verifier's",
    )
    ecs_judge: NamedModel = Field(default=CHAT_MODEL, description="chat model that labels keypoints for calibration")


class ECSScorer:
    """Scores captions by Entailment-Checklist Scoring: the share of a video's keypoints that a caption covers, or
    SodaM's F1 if caption and reference have times. It compares stored verdicts on keypoints with thresholds, without a
    model. A sample that is no caption, or whose video has no keypoints, gets a status.

    labeller: makes labels by the judge for calibration; no score depends on it.
    """

    metric: ClassVar[str] = "ecs"
    code_version: ClassVar[str] = "1"
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    inputs: ClassVar[Collection[Input[Any]]] = (*VERDICT_INPUTS, THRESHOLDS)
    rests_on: ClassVar[tuple[type[Source[Any]], ...]] = (KeypointVerdicts,)
    settings: ClassVar[type[BaseModel]] = ECSSettings

    def __init__(
        self,
        settings: ECSSettings,
        encoder: TextEncoder,
        splitter: SentenceSplitter,
        model: EntailmentModel,
        judge: ChatModel | None = None,
    ) -> None:
        threshold = settings.ecs_threshold
        self.verification = KeypointVerification(
            model,
            splitter,
            None if settings.ecs_sentences == "all" else settings.ecs_sentences,
            settings.ecs_mode,
            _find_default_threshold(settings.ecs_verifier.model) if threshold is None else threshold,
        )
        self.vectors = TextVectors(encoder, self.verification.list_texts, VERDICT_INPUTS)
        self.verdicts = KeypointVerdicts(self.verification, self.vectors)
        self.sources: tuple[Source[Any], ...] = (self.verdicts,)
        self.labeller = KeypointLabeller(judge, settings, self.verification)
        self._proof_threshold = find_pair_threshold(settings.ecs_verifier.model)

    @classmethod
    def from_settings(cls, settings: ECSSettings) -> ECSScorer:
        """Make the scorer with the models of the settings, which load when they are first used."""
        return cls(
            settings,
            settings.make_text_encoder(),
            settings.make_splitter(),
            make_verifier(settings.ecs_verifier.model, settings.ecs_verifier.precision),
            settings.make_chat_model("ecs_judge"),
        )

    def models(self) -> dict[str, Any]:
        """Return the identities of the models as dicts, by role: verifier and sentence_splitter. text_encoder, which
        chooses sentences, is among them unless all sentences are verified. whole_text is among them if the verifier
        weighs the whole text.
        """
        checklist = self.verification
        retrieval = {} if checklist.n_sentences is None else {"text_encoder": self.vectors.encoder.identity.as_dict()}
        weigher = find_weigher(checklist.model)
        whole_text = {} if weigher is None else {"whole_text": weigher.identity.as_dict()}
        return {
            **retrieval,
            **whole_text,
            "verifier": checklist.model.identity.as_dict(),
            "sentence_splitter": checklist.splitter.identity.as_dict(),
        }

    def params(self) -> dict[str, Any]:
        """Return the number of sentences per keypoint, the mode and the default threshold, by name. Calibrated
        thresholds are data, not parameters.
        """
        return {
            "sentences": self.verification.n_sentences or "all",
            "mode": self.verification.mode,
            "default_threshold": self.verification.default_threshold,
        }

    def score(self, samples: Sequence[PendingSample], evidence: Evidence) -> list[Outcome]:
        """Return one outcome for every sample, in order, from its stored verdicts and the dataset's thresholds.
        Components have the counts of covered keypoints by dimension. A sample that is no caption, has no keypoints or
        could not be verified gets a status and a reason.
        """
        return [self._score_one(sample, evidence[self.verdicts].get(sample.sample_id)) for sample in samples]

    def explain(
        self, connection: Connection, sample: PendingSample, evidence: Evidence, components: Mapping[str, Any]
    ) -> Explanation:
        """Return lines about how many keypoints are covered, and a row for every keypoint, read from view
        keypoint_verdicts: the decision, its probability and threshold, a person's label, and the sentence that decided.
        components: those stored with the score.

        If the verifier weighs the whole text, a keypoint may be covered without such a sentence; then the words that it
        shares with the text are shown.
        """
        verdicts = connection.execute(_VERDICTS, {"sample_id": sample.sample_id}).all()
        proven = _find_proven_keypoints(connection, verdicts, self.verification, self._proof_threshold)
        texts = self.verification.choose_premises(sample).premises
        by_keypoint = {keypoint.keypoint_id: text for keypoint, text in zip(sample[KEYPOINTS], texts, strict=True)}
        rows = [
            {
                "covered": _ANSWER[row.covered],
                "p": row.probability,
                "from": row.threshold,
                "label": _ANSWER[row.label],
                "keypoint": f"{row.dimension}: {row.keypoint_text}",
                "why": _explain_decision(
                    row, self.verification, by_keypoint[row.keypoint_id], is_proven=row.keypoint_id in proven
                ),
            }
            for row in verdicts
        ]
        covered, total = sum(components["covered"].values()), sum(components["keypoints"].values())
        lines = [f"{covered} of {total} keypoints covered; mode {components['mode']}"]
        if by_words := sum(bool(row.covered) for row in verdicts) - len(proven):
            lines.append(
                f"{by_words} of them covered by words of the whole text, since no single sentence reaches p "
                f"{self._proof_threshold:.2f}"
            )
        if why := components.get("parse_error"):
            lines.append(f"the output of the caption's model could not be read: {why}")
        return Explanation(lines, rows)

    def refusal(self, sample: PendingSample) -> Outcome | None:
        """Return the outcome, with status and reason, of a sample that has no value whatever models answer; else None.
        Such a sample is no caption, has no keypoints, or lacks the times that the mode needs.
        """
        if refused := self._find_obstacle(sample):
            return refused
        try:
            self.verification.choose_premises(sample)
        except MissingTimes as error:
            return Outcome(None, "unverifiable", str(error))
        return None

    def _find_obstacle(self, sample: PendingSample) -> Outcome | None:
        """Return the outcome of a sample that is no caption, or whose video has no keypoints; else None."""
        if is_verifiable(sample):
            return None
        if sample.kind != "caption":
            why = "ECS compares captions with keypoints; this is a question-answer pair"
            return Outcome(None, "not_applicable", why)
        return Outcome(None, "no_keypoints", "the video has no keypoint to cover")

    def _score_one(self, sample: PendingSample, verdict_set: VerdictSet | None) -> Outcome:
        if refused := self._find_obstacle(sample):
            return refused
        assert verdict_set is not None
        if verdict_set.status != "ok":
            return Outcome(None, verdict_set.status, verdict_set.error)
        thresholds = Thresholds(sample[THRESHOLDS], self.verification.default_threshold)
        rows = {row.keypoint_id: row for row in verdict_set.verdicts}
        verdicts = [
            _build_verdict(rows[keypoint.keypoint_id]).apply_threshold(thresholds.require_threshold(keypoint.dimension))
            for keypoint in sample[KEYPOINTS]
        ]
        result = _compute_result(sample, self.verification.choose_premises(sample), verdicts, verdict_set.n_sentences)
        return Outcome(result.score, components=_build_components(sample, verdict_set, result, thresholds))


def _build_verdict(row: VerdictRow) -> KeypointVerdict:
    return KeypointVerdict(row.probability, row.sentence_index, None)


def _compute_result(
    sample: PendingSample, premises: KeypointPremises, verdicts: Sequence[KeypointVerdict], n_sentences: int
) -> ECSResult:
    dimensions = [keypoint.dimension for keypoint in sample[KEYPOINTS]]
    if premises.mode != "sodam":
        return compute_flat_score(dimensions, verdicts, mode=premises.mode)
    assert premises.alignment is not None
    members: list[list[int]] = [[] for _ in range(premises.n_segments)]
    for place, keypoint in enumerate(sample[KEYPOINTS]):
        assert keypoint.segment_index is not None
        members[keypoint.segment_index].append(place)
    return compute_sodam_score(
        premises.alignment,
        [[dimensions[i] for i in places] for places in members],
        [[verdicts[i] for i in places] for places in members],
        n_sentences=n_sentences,
    )


def _build_components(
    sample: PendingSample, verdict_set: VerdictSet, result: ECSResult, thresholds: Thresholds
) -> dict[str, Any]:
    aligned = result.sodam_result
    times = {} if aligned is None else {"precision": aligned.precision, "recall": aligned.recall}
    return {
        "mode": result.mode,
        "outcome": result.status,
        "by_dimension": dict(result.by_dimension),
        "covered": {name: covered for name, (covered, _) in result.covered_counts.items()},
        "keypoints": {name: total for name, (_, total) in result.covered_counts.items()},
        "thresholds": {name: thresholds.require_threshold(name) for name in result.covered_counts},
        "calibrated": sorted(name for name in result.covered_counts if name in sample[THRESHOLDS]),
        "n_sentences": verdict_set.n_sentences,
        **times,
        **({"parse_error": sample[SEGMENTS].parse_error} if sample[SEGMENTS].parse_error else {}),
    }


def _find_proven_keypoints(
    connection: Connection, verdicts: Any, verification: KeypointVerification, proof_threshold: float
) -> set[int]:
    """Return the ids of the covered keypoints that a single sentence proves."""
    covered = [row for row in verdicts if row.covered and row.sentence is not None]
    model_id = find_model_id(connection, verification.model.identity.as_dict())
    if find_weigher(verification.model) is None or model_id is None:
        return {row.keypoint_id for row in covered}
    pairs = {row.keypoint_id: (row.sentence, row.keypoint_text) for row in covered}
    stored = load_entailments(connection.engine, model_id, pairs.values())
    return {i for i, pair in pairs.items() if pair in stored and stored[pair].probability >= proof_threshold}


def _explain_decision(row: Any, verification: KeypointVerification, text: str, *, is_proven: bool) -> str | None:
    if row.sentence is None or is_proven:
        return None if row.sentence is None else str(row.sentence)
    weigher = find_weigher(verification.model)
    if not row.covered or weigher is None:
        return f"nearest: {row.sentence}"
    shared_words = weigher.list_shared_words(verification.split_sentences(text), row.keypoint_text)
    return f"words of the whole text: {', '.join(shared_words)}"


def _find_default_threshold(verifier: str) -> float:
    """Return the probability from which a keypoint counts as covered, in dimensions without a calibrated threshold. It
    is 0.5 for every verifier but `offline`, whose file has it.
    """
    if verifier == OFFLINE:
        from metrics_core.ecs.verifier import read_default_threshold

        return read_default_threshold()
    return EVEN_ODDS
