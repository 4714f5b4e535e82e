"""The statement that ranks samples and freezes the best of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import aggregate_order_by

from db.manifest import Dataset
from db.schema import sample, scorer, selection, selection_item, video


def freezing(
    dataset: Dataset, view: sa.TableClause, eligible: sa.ColumnElement[bool], spec: dict[str, Any], metrics: list[str]
) -> sa.Select[Any]:
    """One statement that ranks, looks for a selection like it and stores a new one.

    All is of one moment, then, while others still score. Rows are cut before anything is joined to them.
    """
    chosen = _chosen(view, eligible, spec["by"], spec["keep"])
    summary = _summary(chosen, spec)
    existing = (
        sa.select(selection.c.selection_id)
        .where(selection.c.dataset_id == dataset.dataset_id)
        .where(selection.c.score_hash == summary.c.score_hash, selection.c.spec == summary.c.spec)
        .limit(1)
        .cte("existing")
    )
    columns = ("n", "cutoff", "score_hash", "spec")
    row = sa.select(sa.literal(dataset.dataset_id), *[summary.c[name] for name in columns]).where(
        summary.c.n > 0, ~sa.exists(sa.select(existing.c.selection_id))
    )
    added = (
        sa.insert(selection)
        .from_select(["dataset_id", *columns], row)
        .returning(selection.c.selection_id)
        .cte("added", nesting=False)
    )
    items = sa.insert(selection_item).from_select(
        ["selection_id", "rank", "sample_id", "value", "row"], _items(chosen, added, view, metrics)
    )
    return sa.select(
        summary.c.n,
        summary.c.n_eligible,
        summary.c.cutoff,
        summary.c.score_hash,
        sa.select(existing.c.selection_id).scalar_subquery().label("existing_id"),
        sa.select(added.c.selection_id).scalar_subquery().label("new_id"),
    ).add_cte(items.cte("items"))


def _summary(chosen: sa.CTE, spec: dict[str, Any]) -> sa.CTE:
    """One row: how many were chosen of how many, the worst value, a hash over samples and values, and the rule."""
    of_hash = sa.func.concat_ws("\t", chosen.c.kind, chosen.c.key, sa.cast(chosen.c.value, sa.Text)) + "\n"
    line = sa.func.convert_to(of_hash, "UTF8")
    lines = sa.func.string_agg(line, aggregate_order_by(sa.literal(b""), chosen.c.rank))
    return sa.select(
        sa.func.count().label("n"),
        sa.func.min(chosen.c.n_eligible).label("n_eligible"),
        sa.func.min(chosen.c.value).label("cutoff"),
        sa.func.encode(sa.func.sha256(lines), "hex").label("score_hash"),
        sa.type_coerce(_whole_spec(spec), selection.c.spec.type).label("spec"),
    ).cte("summary")


def _chosen(view: sa.TableClause, eligible: sa.ColumnElement[bool], by: str, keep: float) -> sa.CTE:
    """The best rows with their ranks; equal values by kind and key."""
    values = sa.select(view.c.sample_id, view.c[by].label("value")).where(eligible).cte("eligible")
    size = (
        sa.select(
            sa.func.count().label("n_eligible"),
            sa.func.greatest(1, sa.func.floor(sa.cast(str(keep), sa.Numeric) * sa.func.count())).label("n"),
        )
        .select_from(values)
        .cte("size")
    )
    n = sa.cast(sa.select(size.c.n).scalar_subquery(), sa.BigInteger)
    best = sa.select(values).order_by(values.c.value.desc()).fetch(n, with_ties=True).cte("best")
    order = (best.c.value.desc(), sample.c.kind, sa.collate(sample.c.key, "C"))
    ranked = (
        sa.select(best, sample.c.kind, sample.c.key, sa.func.row_number().over(order_by=order).label("rank"))
        .join(sample, sample.c.sample_id == best.c.sample_id)
        .subquery("ranked")
    )
    return sa.select(ranked, size.c.n_eligible).where(ranked.c.rank <= size.c.n).cte("chosen")


def _whole_spec(spec: dict[str, Any]) -> sa.ColumnElement[Any]:
    is_active = sa.and_(scorer.c.metric == spec["by"], scorer.c.status == "active")
    fingerprint = sa.select(scorer.c.fingerprint).where(is_active).scalar_subquery()
    given = sa.cast(sa.literal(spec, selection.c.spec.type), selection.c.spec.type)
    return given.op("||")(sa.func.jsonb_build_object(sa.literal("scorer"), fingerprint))


def _items(chosen: sa.CTE, added: sa.CTE, view: sa.TableClause, metrics: list[str]) -> sa.Select[Any]:
    frozen = sa.func.jsonb_build_object(*_pairs(frozen_columns(view, metrics)))
    return sa.select(added.c.selection_id, chosen.c.rank, chosen.c.sample_id, chosen.c.value, frozen).select_from(
        chosen.join(added, sa.true())
        .join(view, view.c.sample_id == chosen.c.sample_id)
        .join(sample, sample.c.sample_id == chosen.c.sample_id)
        .join(video, video.c.video_id == sample.c.video_id)
    )


def frozen_columns(view: sa.TableClause, metrics: Sequence[str]) -> dict[str, sa.ColumnElement[Any]]:
    """What a frozen row keeps of a sample."""
    columns: dict[str, sa.ColumnElement[Any]] = {
        name: view.c[name] for name in ("dataset", "sample", "video", "kind", "system", "text")
    }
    columns |= {"question": sample.c.question, "answer": sample.c.answer, "uri": video.c.uri}
    columns["content_sha256"] = sa.func.encode(video.c.content_sha256, "hex", type_=sa.Text)
    return columns | {name: view.c[name] for metric in metrics for name in (metric, f"{metric}_models")}


def _pairs(fields: dict[str, Any]) -> list[Any]:
    return [part for name, column in fields.items() for part in (sa.literal(name), column)]
