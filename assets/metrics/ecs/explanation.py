"""The explanation of an ECS score: for every keypoint the decision, and the sentence or words that decided it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from assets.metrics.ecs.verification import KeypointVerification
from assets.scores.base import Explanation
from db.evidence.entailments import load_entailments
from db.evidence.models import find_model_id
from db.schema.inputs import KEYPOINTS
from db.scores.pending import PendingSample
from metrics_core.protocols import find_weigher

_VERDICTS = sa.text(
    "SELECT dimension, keypoint_id, keypoint_text, covered, probability, threshold, is_lower_bound, label, sentence "
    "FROM keypoint_verdicts WHERE sample_id = :sample_id "
    'ORDER BY dimension COLLATE "C", segment_index, keypoint COLLATE "C"'
)
_ANSWER = {True: "yes", False: "no", None: None}


def explain_ecs(
    connection: Connection,
    sample: PendingSample,
    components: Mapping[str, Any],
    verification: KeypointVerification,
    proof_threshold: float,
) -> Explanation:
    """Return a row for every keypoint of a sample, read from view keypoint_verdicts, and lines about how many are
    covered. A row has the decision, its probability and threshold, a person's label, and the sentence that decided.
    proof_threshold: the P(entailment) from which one sentence proves a keypoint by itself. components: those stored
    with the score.

    If the verifier weighs the whole text, a keypoint may be covered without such a sentence; then the words that it
    shares with the text are shown.
    """
    verdicts = connection.execute(_VERDICTS, {"sample_id": sample.sample_id}).all()
    proven = _find_proven_keypoints(connection, verdicts, verification, proof_threshold)
    texts = dict(
        zip((k.keypoint_id for k in sample[KEYPOINTS]), verification.choose_premises(sample).premises, strict=True)
    )
    rows = [
        {
            "covered": _ANSWER[row.covered],
            "p": row.probability,
            "from": row.threshold,
            "label": _ANSWER[row.label],
            "keypoint": f"{row.dimension}: {row.keypoint_text}",
            "why": _explain_decision(row, verification, texts[row.keypoint_id], is_proven=row.keypoint_id in proven),
        }
        for row in verdicts
    ]
    covered, total = sum(components["covered"].values()), sum(components["keypoints"].values())
    lines = [f"{covered} of {total} keypoints covered; mode {components['mode']}"]
    if by_words := sum(bool(row.covered) for row in verdicts) - len(proven):
        lines.append(
            f"{by_words} of them covered by words of the whole text, since no single sentence reaches p "
            f"{proof_threshold:.2f}"
        )
    if why := components.get("parse_error"):
        lines.append(f"the output of the caption's model could not be read: {why}")
    return Explanation(lines, rows)


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
        bound = "(at least) " if row.is_lower_bound else ""
        return None if row.sentence is None else f"{bound}{row.sentence}"
    weigher = find_weigher(verification.model)
    if not row.covered or weigher is None:
        return f"nearest: {row.sentence}"
    shared_words = weigher.list_shared_words(verification.split_sentences(text), row.keypoint_text)
    return f"words of the whole text: {', '.join(shared_words)}"
