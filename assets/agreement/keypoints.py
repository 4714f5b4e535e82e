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
    """Compute how well decisions on keypoints match labels: accuracy, F1, MCC and kappa, in total and by dimension.
    Labels that a threshold was chosen on are left out; n_undefined counts labels without a decision.
    """
    held_out = drop_calibration_labels(decided)
    by_aspect = {KEYPOINTS_ASPECT: held_out} if held_out else {}
    dimensions = sorted({each.dimension for each in held_out})
    if len(dimensions) > 1:
        by_aspect |= {
            f"keypoints: {name} (labels)": [each for each in held_out if each.dimension == name] for name in dimensions
        }
    return [
        row for aspect, of_aspect in by_aspect.items() for row in _compute_aspect_rows(aspect, of_aspect, seed=seed)
    ]


def drop_calibration_labels(decided: Sequence[KeypointDecision]) -> list[KeypointDecision]:
    """Return the decisions without those on labels that a threshold was chosen on, where it looks better than it is."""
    calibrates = mark_calibration_keys(each.group for each in decided).tolist()
    return [
        each
        for each, inside in zip(decided, calibrates, strict=True)
        if each.chosen_on is None or (each.chosen_on == "calibration" and not inside)
    ]


def _compute_aspect_rows(aspect: str, decided: Sequence[KeypointDecision], *, seed: int) -> Iterator[AgreementRow]:
    """Yield the rows of one aspect for every metric, over the labels that it has a decision for."""
    for metric in sorted({each.metric for each in decided}):
        asked = [each for each in decided if each.metric == metric]
        found = [each for each in asked if each.covered is not None]
        rows = build_label_rows(
            {metric: [bool(each.covered) for each in found]},
            [each.label for each in found],
            [each.group for each in found],
            aspect,
            seed=seed,
        )
        yield from (replace(row, n_undefined=len(asked) - len(found)) for row in rows)
