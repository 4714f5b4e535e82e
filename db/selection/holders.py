"""Datasets and frozen selections that hold a video, for a request to delete it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.schema import dataset, selection, selection_item, video
from db.selection.exports import MEMBER_SCHEMES


@dataclass(frozen=True, slots=True)
class HeldVideo:
    """A video that a user looks for. `name` is what the user calls it: its key, the source it was collected from, its
    address, or the end of that address after some slash. `uris` are other addresses of its file, or of what holds it.
    `sha256` is the hash of its bytes (32 bytes), None if not known.
    """

    name: str
    uris: tuple[str, ...] = ()
    sha256: bytes | None = None


def list_holding_datasets(connection: Connection, held: HeldVideo) -> list[dict[str, Any]]:
    """List the videos of all datasets that are the video `held`, as dicts with dataset, video (its key), uri and
    source_url, ordered by dataset and key. Videos with the same file as a video or frozen row of that name count too.
    """
    query = (
        sa.select(dataset.c.name.label("dataset"), video.c.key.label("video"), video.c.uri, video.c.source_url)
        .join(dataset, dataset.c.dataset_id == video.c.dataset_id)
        .where(sa.or_(_is_named(video.c.key, video, held), _has_content(video, held)))
        .order_by(dataset.c.name, video.c.key)
    )
    return [dict(row) for row in connection.execute(query).mappings()]


def list_holding_selections(connection: Connection, held: HeldVideo) -> list[dict[str, Any]]:
    """List the frozen selections with a row of this video, the newest first, as dicts with selection, dataset, made (a
    time), rows (how many are of such a video) and videos (their keys). A row counts as in `list_holding_datasets`, by
    its name and file when it was frozen, or by a name that its video has now.
    """
    item = selection_item.c
    named_now = sa.and_(
        video.c.dataset_id == selection.c.dataset_id,
        video.c.key == item.video,
        _is_named(video.c.key, video, held),
    )
    is_held = sa.or_(_is_named(item.video, selection_item, held), _has_content(selection_item, held))
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


def _is_named(key: sa.ColumnElement[str], rows: sa.FromClause, held: HeldVideo) -> sa.ColumnElement[bool]:
    uri, name = rows.c.uri, held.name
    inner = name.removeprefix("tar://").removeprefix("lance://").removeprefix("./")
    return sa.or_(
        key == name,
        uri == name,
        rows.c.source_url == name,
        uri.in_(held.uris),
        uri.endswith(f"/{inner}", autoescape=True),
        *[uri.startswith(f"{scheme}{file}#", autoescape=True) for file in held.uris for scheme in MEMBER_SCHEMES],
    )


def _has_content(rows: sa.FromClause, held: HeldVideo) -> sa.ColumnElement[bool]:
    """Return the condition that a row's file is that of this video, or of a video or frozen row that is this one."""
    stored, frozen = video.alias(), selection_item.alias()
    digests = [
        sa.select(named.c.content_sha256).where(_is_named(key, named, held))
        for named, key in ((stored, stored.c.key), (frozen, frozen.c.video))
    ]
    has_known = rows.c.content_sha256.in_(sa.union(*digests))
    return has_known if held.sha256 is None else sa.or_(has_known, rows.c.content_sha256 == held.sha256)
