"""Compare picked samples with a random choice of the same size, without freezing anything."""

from __future__ import annotations

import math
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.selection.chosen_table import CHOSEN_TABLE, PickedSamples, create_chosen_table
from db.selection.eligible import EligibleSamples
from db.selection.freeze import SelectionSummary, build_summary


@dataclass(frozen=True, slots=True)
class SystemShare:
    """One system with two numbers of its samples: how many the recipe may choose from (`eligible`), and how many of
    these it takes (`chosen`).
    """

    system: str
    eligible: int
    chosen: int


@dataclass(frozen=True, slots=True)
class MetricShift:
    """The mean of a metric over the chosen samples (`chosen`), next to its mean over all eligible samples (`random`),
    which a random choice would give. `n` is the number of chosen samples with a value; `chosen` is None if there are
    none. `margin` is how far chance moves a mean of `n` eligible values, as 1.96 standard errors.

    margin: for draws without replacement; None if `n` is 0, or for fewer than two eligible values.
    """

    metric: str
    n: int
    chosen: float | None
    random: float
    margin: float | None


@dataclass(frozen=True, slots=True)
class Preview:
    """A selection that a recipe would make now: its numbers (`summary`), the share of every system with eligible
    samples, sorted by name, and the means of every metric that an eligible sample has a value by.
    """

    summary: SelectionSummary
    systems: list[SystemShare]
    metrics: list[MetricShift]


def compute_preview(connection: Connection, eligible: EligibleSamples, picked: PickedSamples) -> Preview:
    """Compare the picked samples with all eligible ones, by system and by metric, and return both with the numbers of
    the selection. Must run in the transaction that picked them. Creates the temporary table `chosen`, and stores no
    selection.
    """
    scores, metrics = eligible.scores, list(eligible.metrics)
    create_chosen_table(connection, eligible, picked)
    system = eligible.columns["system"]
    by_system = (
        sa.select(system, sa.func.count()).select_from(scores.from_clause).where(*eligible.conditions).group_by(system)
    )
    chosen_query = sa.select(CHOSEN_TABLE.c.system, sa.func.count()).group_by(CHOSEN_TABLE.c.system)
    counts = {row[0]: row[1] for row in connection.execute(chosen_query)}
    eligible_counts = sorted(tuple(row) for row in connection.execute(by_system))
    systems = [SystemShare(name, n, counts.get(name, 0)) for name, n in eligible_counts]
    moments = [
        part
        for metric in metrics
        for value in [eligible.columns[metric]]
        for part in (sa.func.count(value), sa.func.avg(value), sa.func.stddev_pop(value))
    ]
    eligible_moments = connection.execute(
        sa.select(*moments).select_from(scores.from_clause).where(*eligible.conditions)
    ).one()
    values = [CHOSEN_TABLE.c.scores[place] for place in range(1, len(metrics) + 1)]
    counts_and_means = [part for value in values for part in (sa.func.count(value), sa.func.avg(value))]
    chosen_moments = connection.execute(sa.select(*counts_and_means).select_from(CHOSEN_TABLE)).one()
    shifts = [
        MetricShift(metric, n_chosen, mean_chosen, float(mean), _compute_margin(n_chosen, n, deviation))
        for place, metric in enumerate(metrics)
        for n_chosen, mean_chosen in [chosen_moments[2 * place : 2 * place + 2]]
        for n, mean, deviation in [eligible_moments[3 * place : 3 * place + 3]]
        if n
    ]
    return Preview(build_summary(eligible, picked), systems, shifts)


def _compute_margin(n: int, n_eligible: int, deviation: float) -> float | None:
    """Return 1.96 standard errors of the mean of n of `n_eligible` values, drawn without replacement; None for too few.

    deviation: the standard deviation of all `n_eligible` values, divided by their number.
    """
    if n == 0 or n_eligible < 2:
        return None
    return 1.96 * deviation / math.sqrt(n) * math.sqrt((n_eligible - n) / (n_eligible - 1))
