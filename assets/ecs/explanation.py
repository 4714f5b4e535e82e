"""Why a caption has its ECS: for every keypoint the decision, and the sentence or the words behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from assets.ecs.verification import KeypointVerification
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
    """Give every keypoint a row, from view keypoint_verdicts; `label` is the answer of a person.

    least: the P(entailment) from which on a sentence proves a keypoint by itself. Where the verifier weighs the whole
    text, a keypoint may be covered without such a sentence: the words that it shares with the text stand in its place.
    """
    found = connection.execute(_VERDICTS, {"sample_id": sample.sample_id}).all()
    proven = _find_proven_keypoints(connection, found, verification, proof_threshold)
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
        for row in found
    ]
    covered, total = sum(components["covered"].values()), sum(components["keypoints"].values())
    lines = [f"{covered} of {total} keypoints covered; mode {components['mode']}"]
    if by_words := sum(bool(row.covered) for row in found) - len(proven):
        lines.append(
            f"{by_words} of them by words of the whole text: no sentence by itself reaches p {proof_threshold:.2f}"
        )
    if why := components.get("parse_error"):
        lines.append(f"the prediction could not be read: {why}")
    return Explanation(lines, rows)


def _find_proven_keypoints(
    connection: Connection, found: Any, verification: KeypointVerification, proof_threshold: float
) -> set[int]:
    """The covered keypoints that a single sentence proves, by id."""
    covered = [row for row in found if row.covered and row.sentence is not None]
    model_id = find_model_id(connection, verification.model.identity.as_dict())
    if find_weigher(verification.model) is None or model_id is None:
        return {row.keypoint_id for row in covered}
    pairs = {row.keypoint_id: (row.sentence, row.keypoint_text) for row in covered}
    alone = load_entailments(connection.engine, model_id, pairs.values())
    return {i for i, pair in pairs.items() if pair in alone and alone[pair].probability >= proof_threshold}


def _explain_decision(row: Any, verification: KeypointVerification, text: str, *, is_proven: bool) -> str | None:
    if row.sentence is None or is_proven:
        bound = "(at least) " if row.is_lower_bound else ""
        return None if row.sentence is None else f"{bound}{row.sentence}"
    weigher = find_weigher(verification.model)
    if not row.covered or weigher is None:
        return f"nearest: {row.sentence}"
    return f"words of the whole text: {', '.join(weigher.list_shared_words(verification.split_sentences(text), row.keypoint_text))}"
