"""The origin of a selection: the scorers and thresholds behind it, and what has happened to its samples since."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.schema import keypoint_threshold, sample, score_threshold, scorer, selection_item, video
from db.selection.exports import FrozenSelection, strip_folders

_A_PATH = re.compile(r"(\w+:)?/[^/]")
# What is shown of each table of thresholds; its first four columns order it.
_THRESHOLDS = {
    score_threshold: (
        *("scorer_id", "kind", "method", "objective", "at_least"),
        *("low", "high", "n", "n_kept", "n_good", "details", "created_at"),
    ),
    keypoint_threshold: (
        *("scorer_id", "dimension", "method", "objective"),
        *("threshold", "n", "n_positive", "created_at"),
    ),
}


def list_frozen_scorers(connection: Connection, frozen: FrozenSelection) -> list[dict[str, Any]]:
    """List the scorers that may have made a selection's scores, in the order of its metrics, as dicts with id,
    fingerprint, models, parameters, version and status. `is_certain` is false if several scorers of a metric fit. Names
    are without local folders.

    A scorer whose fingerprint is in the selection's recipe is certain. Of other metrics a selection keeps only the
    names of the models: all scorers with these models that existed then are listed.
    """
    named = set(_list_texts(frozen.record["spec"]))
    stored = connection.execute(sa.select(scorer).order_by(scorer.c.scorer_id)).mappings().all()
    scorers = []
    for metric, models in frozen.models.items():
        metric_rows = [row for row in stored if row["metric"] == metric]
        matching = [row for row in metric_rows if row["fingerprint"] in named] or [
            row
            for row in metric_rows
            if _match_names(row["models"], models) and row["created_at"] <= frozen.record["created_at"]
        ]
        scorers += [_describe_scorer(row, is_certain=len(matching) == 1) for row in matching]
    return scorers


def load_thresholds(
    connection: Connection, frozen: FrozenSelection, scorer_ids: Sequence[int]
) -> dict[str, list[dict[str, Any]]]:
    """Load the present thresholds of these scorers on the whole dataset of a selection, as {"score_thresholds": rows,
    "keypoint_thresholds": rows}. Rows are dicts by column, ordered by scorer; the lists are empty if the dataset was
    dropped.
    """
    rows_by_table = {}
    for table, shown in _THRESHOLDS.items():
        columns = [table.c[name] for name in shown]
        query = (
            sa.select(*columns)
            .where(table.c.dataset_id == frozen.dataset_id, table.c.shard.is_(None), table.c.scorer_id.in_(scorer_ids))
            .order_by(*columns[:4])
        )
        rows_by_table[f"{table.name}s"] = [dict(row) for row in connection.execute(query).mappings()]
    return rows_by_table


def count_selection_rows(connection: Connection, frozen: FrozenSelection) -> dict[str, Any]:
    """Count the rows and videos of a selection, its rows without a video file, and the samples that were deleted or
    have another text since it was frozen. Keys: rows, videos, rows_without_media, samples_gone_since,
    samples_changed_since, and rows_by_system (a list of dicts with kind, system and rows).
    """
    item = selection_item.c
    in_selection = item.selection_id == frozen.selection_id
    systems = sa.select(item.kind, item.system, sa.func.count()).where(in_selection).group_by(item.kind, item.system)
    rows = connection.execute(systems.order_by(sa.collate(item.kind, "C"), sa.collate(item.system, "C"))).all()
    videos = sa.select(sa.collate(item.video, "C").label("video")).where(in_selection).distinct().subquery()
    pairs = [(item[name], sample.c[name]) for name in ("text", "question", "answer")]
    is_gone = sample.c.sample_id.is_(None)
    is_changed = sa.or_(*[frozen_text.is_distinct_from(now) for frozen_text, now in pairs])
    since = (
        sa.select(
            sa.func.count().filter(is_gone),
            sa.func.count().filter(~is_gone, is_changed),
            sa.func.count().filter(item.uri.is_(None)),
        )
        .select_from(selection_item.outerjoin(sample, sample.c.sample_id == item.sample_id))
        .where(in_selection)
    )
    gone, changed, without_media = connection.execute(since).one()
    return {
        "rows": sum(row[2] for row in rows),
        "videos": connection.scalar(sa.select(sa.func.count()).select_from(videos)),
        "rows_without_media": without_media,
        "samples_gone_since": gone,
        "samples_changed_since": changed,
        "rows_by_system": [{"kind": kind, "system": system, "rows": n} for kind, system, n in rows],
    }


def count_selection_origins(connection: Connection, frozen: FrozenSelection) -> dict[str, Any]:
    """Count a selection's rows and videos by licence as they were frozen. Keys: licences (a list of dicts with licence,
    rows and videos, the commonest first; licence None is none), rows_without_source, and rows_opted_out, of videos
    whose owner asks by now to leave them out (0 where the dataset was dropped).
    """
    item = selection_item.c
    in_selection, n = item.selection_id == frozen.selection_id, sa.func.count()
    key = sa.collate(item.video, "C")
    licences = sa.select(item.licence, n, sa.func.count(key.distinct())).where(in_selection).group_by(item.licence)
    is_video = sa.and_(video.c.dataset_id == frozen.dataset_id, video.c.key == item.video)
    others = sa.select(n.filter(item.source_url.is_(None)), n.filter(video.c.opt_out))
    joined = others.select_from(selection_item.outerjoin(video, is_video)).where(in_selection)
    without_source, opted_out = connection.execute(joined).one()
    rows = connection.execute(licences.order_by(n.desc(), sa.collate(item.licence, "C")))
    return {
        "licences": [{"licence": licence, "rows": n_rows, "videos": n_videos} for licence, n_rows, n_videos in rows],
        "rows_without_source": without_source,
        "rows_opted_out": opted_out,
    }


def _describe_scorer(row: Any, *, is_certain: bool) -> dict[str, Any]:
    shown = ("metric", "scorer_id", "fingerprint", "models", "params", "code_version", "status", "created_at")
    return {**{name: _strip_folders(row[name]) for name in shown}, "is_certain": is_certain}


def _match_names(models: dict[str, Any], names: str | None) -> bool:
    """Whether these models have the names that a selection stored, in any order."""
    return sorted(strip_folders(model["model_id"]) for model in models.values()) == sorted(
        names.split(", ") if names else []
    )


def _strip_folders(value: Any) -> Any:
    if isinstance(value, str):
        return strip_folders(value) if _A_PATH.match(value) else value
    if isinstance(value, list):
        return [_strip_folders(part) for part in value]
    if isinstance(value, dict):
        return {name: _strip_folders(part) for name, part in value.items()}
    return value


def _list_texts(value: Any) -> Iterator[str]:
    """Yield all texts within plain data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _list_texts(part)
