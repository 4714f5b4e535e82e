"""Compare picked samples with a random choice of the same size, without freezing anything."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.selection.candidates import PickedSamples
from db.selection.eligible import EligibleSamples
from db.selection.freeze import SelectionSummary, build_summary
from db.server.arrays import pack_column, unpack_column


@dataclass(frozen=True, slots=True)
class Preview:
    """A selection that a recipe would make now: its numbers (`summary`), and rows as plain data, for every system with
    eligible samples and for every metric that an eligible sample has a value by.

    systems: sorted by name; how many samples the recipe may choose from (`eligible`), and how many of these it takes
    (`chosen`). metrics: the means over the n chosen samples with a value (`chosen`, None for n = 0), and over all
    eligible ones (`random`), which a random choice would give; `margin` is how far chance moves a mean of n eligible
    values, as 1.96 standard errors, for draws without replacement, None for n = 0 or fewer than two eligible values.
    """

    summary: SelectionSummary
    systems: list[dict[str, Any]]
    metrics: list[dict[str, Any]]


def compute_preview(connection: Connection, eligible: EligibleSamples, picked: PickedSamples) -> Preview:
    """Compare the picked samples with all eligible ones, by system and by metric, and return both with the numbers of
    the selection. Must run in the transaction that picked them. Nothing is stored.
    """
    columns, n_metrics = eligible.columns, len(eligible.metrics)
    nothing = sa.literal(math.nan, sa.Double)
    values = [sa.func.coalesce(sa.cast(columns[metric], sa.Double), nothing) for metric in eligible.metrics]
    packed = [pack_column(value) for value in (eligible.scores.columns["sample_id"], *values)]
    query = sa.select(columns["system"], *packed).select_from(eligible.scores.from_clause).where(*eligible.conditions)
    systems: list[dict[str, Any]] = []
    is_chosen: list[npt.NDArray[np.bool_]] = []
    scores: list[list[npt.NDArray[np.float64]]] = [[] for _ in range(n_metrics)]
    for system, ids, *of_metrics in sorted(tuple(row) for row in connection.execute(query.group_by(columns["system"]))):
        mask = np.isin(unpack_column(ids, "i8"), picked.sample_ids)
        systems.append({"system": system, "eligible": mask.size, "chosen": int(mask.sum())})
        is_chosen.append(mask)
        for parts, part in zip(scores, of_metrics, strict=True):
            parts.append(unpack_column(part, "f8"))
    chosen = np.concatenate(is_chosen)
    shifts = [
        _compute_shift(metric, np.concatenate(parts), chosen)
        for metric, parts in zip(eligible.metrics, scores, strict=True)
    ]
    return Preview(build_summary(eligible, picked), systems, [shift for shift in shifts if shift is not None])


def _compute_shift(
    metric: str, values: npt.NDArray[np.float64], is_chosen: npt.NDArray[np.bool_]
) -> dict[str, Any] | None:
    """Return the means of a metric over eligible samples and the chosen ones among them; None without any value."""
    is_known = ~np.isnan(values)
    known, chosen = values[is_known], values[is_known & is_chosen]
    if not known.size:
        return None
    mean = float(chosen.mean()) if chosen.size else None
    margin = _compute_margin(chosen.size, known.size, float(known.std()))
    return {"metric": metric, "n": chosen.size, "chosen": mean, "random": float(known.mean()), "margin": margin}


def _compute_margin(n: int, n_eligible: int, deviation: float) -> float | None:
    """Return 1.96 standard errors of the mean of n of `n_eligible` values, drawn without replacement; None for too few.

    deviation: the standard deviation of all `n_eligible` values, divided by their number.
    """
    if n == 0 or n_eligible < 2:
        return None
    return 1.96 * deviation / math.sqrt(n) * math.sqrt((n_eligible - n) / (n_eligible - 1))
