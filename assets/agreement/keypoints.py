"""Compares decisions on single keypoints with people's labels, and with baselines that do not read the caption."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from db.scores.keypoint_decisions import KeypointDecision
from metrics_core.agreement import AgreementRow, build_label_rows
from metrics_core.calibration import mark_calibration_keys

KEYPOINTS_ASPECT = "keypoints (labels)"
"""The aspect of all labelled keypoints together; that of one dimension is `keypoints: NAME (labels)`."""


def compute_keypoint_rows(decided: Sequence[KeypointDecision], *, seed: int) -> list[AgreementRow]:
    """Compute rows of table `agreement` on how well metrics' decisions on keypoints match people's labels: accuracy,
    F1, MCC and kappa. They are computed over all dimensions together and, where there are several, for every dimension.
    Labels that a threshold was chosen on are left out; n_undefined counts labels without a decision. Empty without any
    other label. seed: of the resampling.
    """
    held_out = _exclude_calibration_labels(decided)
    by_aspect = {KEYPOINTS_ASPECT: held_out} if held_out else {}
    dimensions = sorted({decision.dimension for decision in held_out})
    if len(dimensions) > 1:
        by_aspect |= {
            f"keypoints: {name} (labels)": [decision for decision in held_out if decision.dimension == name]
            for name in dimensions
        }
    return [
        row for aspect, decisions in by_aspect.items() for row in _compute_aspect_rows(aspect, decisions, seed=seed)
    ]


def _exclude_calibration_labels(decided: Sequence[KeypointDecision]) -> list[KeypointDecision]:
    """Return the decisions on labels that no threshold was chosen on, in their order. Decisions by a threshold that was
    chosen on all labels are dropped. For one chosen on calibration videos, the decisions on these videos are dropped.
    There a threshold looks better than it is.
    """
    calibrates = mark_calibration_keys(decision.group for decision in decided).tolist()
    return [
        decision
        for decision, is_calibration in zip(decided, calibrates, strict=True)
        if decision.chosen_on is None or (decision.chosen_on == "calibration" and not is_calibration)
    ]


def _compute_aspect_rows(aspect: str, decided: Sequence[KeypointDecision], *, seed: int) -> Iterator[AgreementRow]:
    """Yield the rows of one aspect for every metric, over the labels that it has a decision for."""
    for metric in sorted({decision.metric for decision in decided}):
        asked = [decision for decision in decided if decision.metric == metric]
        answered = [decision for decision in asked if decision.covered is not None]
        rows = build_label_rows(
            {metric: [bool(decision.covered) for decision in answered]},
            [decision.label for decision in answered],
            [decision.group for decision in answered],
            aspect,
            seed=seed,
        )
        yield from (replace(row, n_undefined=len(asked) - len(answered)) for row in rows)
