"""The scores of a dataset as a table, best first."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest.datasets import find_dataset
from db.scores.present import PresentScores, active_scorers, known_metrics, prepare_for_joins, present_scores


def list_scores(
    connection: Connection,
    dataset: str,
    by: str,
    limit: int | None,
    *,
    kind: str | None = None,
    components: bool = False,
) -> list[dict[str, Any]]:
    """Samples of a dataset with value, status and models of every metric, best first, undefined values last as None.

    kind: of which samples; None for all. components: whether the parts of each score come along as
    `<metric>_components`; those of a stale score are None.
    """
    found = find_dataset(connection, dataset)
    if found is None:
        return []
    metrics, scorers = known_metrics(connection), active_scorers(connection, found)
    prepare_for_joins(connection)
    if limit is not None:
        best = _table(present_scores(found, metrics, scorers, by), by, metrics, components, kind)
        rows = connection.execute(best.limit(limit)).mappings().all() if by in scorers else []
        if len(rows) == limit:
            return [dict(row) for row in rows]
    everything = _table(present_scores(found, metrics, scorers), by, metrics, components, kind)
    return [dict(row) for row in connection.execute(everything.limit(limit)).mappings()]


def _table(
    scores: PresentScores, by: str, metrics: list[str], components: bool, kind_wanted: str | None
) -> sa.Select[Any]:
    of_metrics = [f"{metric}{about}" for metric in metrics for about in ("", "_status", "_models")]
    columns = [scores.columns[name].label(name) for name in ("sample", "video", "kind", "system", *of_metrics)]
    if components:
        columns += [scores.components[metric].label(f"{metric}_components") for metric in metrics]
    kind, key = scores.columns["kind"], sa.collate(scores.columns["sample"], "C")
    in_order = (scores.columns[by].desc().nulls_last(), kind, key)
    query = sa.select(*columns).select_from(scores.rows).where(scores.of_dataset).order_by(*in_order)
    return query if kind_wanted is None else query.where(kind == kind_wanted)
