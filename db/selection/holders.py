"""Datasets and frozen selections that hold a video, for a request to delete it."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.schema import dataset, selection, selection_item, video


def list_holding_datasets(connection: Connection, name: str) -> list[dict[str, Any]]:
    """List the videos of all datasets that have this name, as dicts with dataset, video (its key), uri and source_url,
    ordered by dataset and key. The name is their key, address, path or source, or that of another video or frozen row
    with the same file.
    """
    query = (
        sa.select(dataset.c.name.label("dataset"), video.c.key.label("video"), video.c.uri, video.c.source_url)
        .join(dataset, dataset.c.dataset_id == video.c.dataset_id)
        .where(sa.or_(_is_named(video.c.key, video, name), _has_content(video, name)))
        .order_by(dataset.c.name, video.c.key)
    )
    return [dict(row) for row in connection.execute(query).mappings()]


def list_holding_selections(connection: Connection, name: str) -> list[dict[str, Any]]:
    """List the frozen selections with a row of a video of this name, the newest first, as dicts with selection,
    dataset, made (a time), rows (how many are of such a video) and videos (their keys). The name counts as in
    `list_holding_datasets`, as it was when the row was frozen, and as it is by now.
    """
    item = selection_item.c
    named_now = sa.and_(
        video.c.dataset_id == selection.c.dataset_id,
        video.c.key == item.video,
        _is_named(video.c.key, video, name),
    )
    is_held = sa.or_(_is_named(item.video, selection_item, name), _has_content(selection_item, name))
    query = (
        sa.select(
            selection.c.selection_id.label("selection"),
            selection.c.dataset_name.label("dataset"),
            selection.c.created_at.label("made"),
            sa.func.count().label("rows"),
            sa.func.array_agg(sa.collate(item.video, "C").distinct()).label("videos"),
        )
        .join(selection_item, item.selection_id == selection.c.selection_id)
        .where(sa.or_(is_held, sa.exists().where(named_now)))
        .group_by(selection.c.selection_id)
        .order_by(selection.c.selection_id.desc())
    )
    return [dict(row) for row in connection.execute(query).mappings()]


def _is_named(key: sa.ColumnElement[str], rows: sa.FromClause, name: str) -> sa.ColumnElement[bool]:
    return sa.or_(key == name, rows.c.uri == name, rows.c.source_url == name)


def _has_content(rows: sa.FromClause, name: str) -> sa.ColumnElement[bool]:
    """Return the condition that a row's file is that of a video or frozen row of this name."""
    stored, frozen = video.alias(), selection_item.alias()
    digests = [
        sa.select(named.c.content_sha256).where(_is_named(key, named, name))
        for named, key in ((stored, stored.c.key), (frozen, frozen.c.video))
    ]
    return rows.c.content_sha256.in_(sa.union(*digests))
