"""The scores of a dataset as a table, best first."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest.datasets import find_dataset
from db.schema import score
from db.schema.views import prepare_for_joins
from db.scores.present import (
    PresentScores,
    active_scorers,
    compared_scores,
    known_metrics,
    sample_scores,
    still_fresh,
    stored_scores,
)


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
    metrics = known_metrics(connection)
    compared = compared_scores(found, metrics)
    query = _table(compared, by, metrics, components, kind)
    if limit is not None:
        # Without much memory: to remember what a few rows were joined to takes longer than to look it up again.
        prepare_for_joins(connection)
        scorers = active_scorers(connection, found)
        stored = stored_scores(found, by, metrics, scorers)
        if stored is not None:
            # Asked once more in the statement itself, which has a snapshot of its own.
            best = _table(stored, by, metrics, components, kind)
            best = best.where(stored.columns[by].is_not(None), still_fresh(found))
        else:
            sample_ids = _best(dataset, by, metrics, scorers[by].scorer_id if by in scorers else None, limit, kind)
            best = query.where(compared.columns["sample_id"] == sa.any_(sa.func.array(sample_ids)))
        rows = connection.execute(best.limit(limit)).mappings().all()
        if len(rows) == limit:
            return [dict(row) for row in rows]
    return [dict(row) for row in connection.execute(query.limit(limit)).mappings()]


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


def _best(
    dataset: str, by: str, metrics: list[str], scorer_id: int | None, limit: int, kind: str | None
) -> sa.ScalarSelect[Any]:
    """The samples with the best values that the view shows: an index has them in order, so no other is looked at."""
    view = sample_scores(metrics).alias("best")
    query = (
        sa.select(view.c.sample_id)
        .join_from(score, view, view.c.sample_id == score.c.sample_id)
        .where(score.c.scorer_id == scorer_id, view.c.dataset == dataset, view.c[by].is_not(None))
        .order_by(score.c.value.desc().nulls_last(), view.c.kind, sa.collate(view.c.sample, "C"))
        .limit(limit)
    )
    return (query if kind is None else query.where(view.c.kind == kind)).scalar_subquery()
