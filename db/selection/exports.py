"""The rows of an export: frozen rows, with the references, durations and own fields that the dataset has now."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest.remarks import build_tag_list
from db.schema import reference, sample, selection, selection_item, video
from db.selection.stored_selections import build_id_condition

ROWS_AT_A_TIME = 2000
ExportKind = Literal["integer", "number", "boolean", "text", "texts", "json"]
# They begin the address of a file inside a tar file or a Lance table.
MEMBER_SCHEMES = ("tar://", "lance://")
_FOLDERS = re.compile(r"(^|[\s:,])/(?:[^/,]+/)*([^/,]+)")


@dataclass(frozen=True, slots=True)
class ExportColumn:
    """A column of an export: its name, the kind of its values, and a sentence about its meaning. Kind "texts" is a list
    of texts, "json" any value as JSON text. Any value may be missing.
    """

    name: str
    kind: ExportKind
    meaning: str


@dataclass(frozen=True, slots=True)
class FrozenSelection:
    """A stored selection of `n` rows. `dataset` is the name of its dataset, and `dataset_id` None if that was dropped.
    `record` is its row of table `selection`, and `models` has by metric the names of the models behind the scores,
    without local folders, or None.
    """

    selection_id: int
    dataset_id: int | None
    dataset: str
    n: int
    record: Mapping[str, Any]
    models: Mapping[str, str | None]


_ITEM = selection_item.c
_FROM_ITEM: tuple[tuple[str, ExportKind, str], ...] = (
    ("kind", "text", "caption or qa"),
    ("sample", "text", "key of the sample"),
    ("system", "text", "who or what wrote the sample"),
    ("video", "text", "key of the video"),
)
_MEDIA = ExportColumn(
    "media", "text", "file of the video: a path relative to the media root, or an address of a store or a named root"
)
_ORIGIN: tuple[tuple[str, ExportKind, str], ...] = (
    ("licence", "text", "licence of the video"),
    ("source_url", "text", "web address that the video was collected from"),
)
_ABOUT: tuple[tuple[str, ExportKind, str], ...] = (
    ("text", "text", "the caption, or question and answer in one"),
    ("question", "text", "of a question-answer pair"),
    ("answer", "text", "of a question-answer pair"),
)


def strip_folders(models: str) -> str:
    """Return a text of model names, joined by commas, without the folders of local models; web addresses and names such
    as BAAI/bge-m3 stay.

    >>> strip_folders("BAAI/bge-m3, sat:/home/ann/models/sat-12l"), strip_folders("https://models.example/a/b")
    ('BAAI/bge-m3, sat:sat-12l', 'https://models.example/a/b')
    """
    return _FOLDERS.sub(r"\1\2", models)


def find_frozen_selection(connection: Connection, selection_id: int) -> FrozenSelection | None:
    """Return the stored selection of this number; None if there is none."""
    query = sa.select(selection, selection.c.dataset_name.label("dataset"))
    row = connection.execute(query.where(build_id_condition(selection_id))).mappings().one_or_none()
    if row is None:
        return None
    names = [None if models is None else strip_folders(models) for models in row["models"]]
    by_metric = dict(zip(row["metrics"], names, strict=True))
    return FrozenSelection(selection_id, row["dataset_id"], row["dataset"], row["n"], dict(row), by_metric)


def find_media_root(connection: Connection, frozen: FrozenSelection) -> str | None:
    """Return the path of the deepest folder that contains all local video files of the selection and of its dataset,
    and the tar files and Lance tables of those inside one; None if no video has a local file. Only paths in the
    database are compared.
    """
    bounds: list[str] = []
    for uri, condition in (
        (video.c.uri, video.c.dataset_id == frozen.dataset_id),
        (selection_item.c.uri, selection_item.c.selection_id == frozen.selection_id),
    ):
        # In the order of bytes, all texts lie between the first and the last one, and share what these two share.
        in_bytes = sa.collate(uri, "C")
        for begin in ("/", *(f"{scheme}/" for scheme in MEMBER_SCHEMES)):
            query = sa.select(sa.func.min(in_bytes), sa.func.max(in_bytes)).where(condition, uri.startswith(begin))
            bounds += [_find_folder(bound) for bound in connection.execute(query).one() if bound is not None]
    return os.path.commonpath(bounds) if bounds else None


def _find_folder(uri: str) -> str:
    """Return the folder of a local file, or of the tar file or table that holds it; a member's name is no part of the
    path.
    """
    if uri.startswith("/"):
        return os.path.dirname(uri)
    scheme, _, inside = uri.partition("://")
    return os.path.dirname(re.split(rf"(?i)(?<=\.{scheme})#", inside)[0])


def build_export_columns(frozen: FrozenSelection) -> dict[ExportColumn, sa.ColumnElement[Any]]:
    """Return the columns of an export in their order, each with the SQL expression for its value. Column `media` has
    the stored path or address of the video. Every metric has two columns, its score and `<metric>_models`.
    """
    # Without a type: the driver makes a list of an array, and SQLAlchemy would make it anew.
    texts: sa.ColumnElement[Any] = sa.literal_column("texts.texts")
    item = dict(_ITEM.items())
    columns: dict[ExportColumn, sa.ColumnElement[Any]] = {
        ExportColumn("rank", "integer", "place in the selection, 1 is best"): item["rank"],
        ExportColumn("value", "number", "the number that the selection ranks by"): item["value"],
        ExportColumn("dataset", "text", "name of the dataset"): sa.literal(frozen.dataset, sa.Text),
        **{ExportColumn(*description): item[description[0]] for description in _FROM_ITEM},
        _MEDIA: item["uri"],
        ExportColumn("duration_s", "number", "length of the video in seconds"): video.c.duration_s,
        ExportColumn("content_sha256", "text", "digest of the video's file, see selection.identities"): sa.func.encode(
            item["content_sha256"], "hex"
        ),
        **{ExportColumn(*description): item[description[0]] for description in (*_ORIGIN, *_ABOUT)},
        ExportColumn("collected_at", "text", "date at which the video was collected"): video.c.collected_at,
        ExportColumn("opt_out", "boolean", "whether the video's owner asks by now to leave it out"): video.c.opt_out,
        ExportColumn("segments", "json", "times of the sample's parts"): sa.cast(sample.c.segments, sa.Text),
        ExportColumn("references", "texts", "reference texts of the video, in the order of their keys"): texts,
        ExportColumn("tags", "texts", "tags that people gave the sample"): sa.func.nullif(
            build_tag_list(item["sample_id"]), sa.literal_column("CAST('{}' AS text[])")
        ),
        ExportColumn("extra", "json", "own fields of the sample in the manifest"): sa.cast(sample.c.extra, sa.Text),
        ExportColumn("video_extra", "json", "own fields of the video in the manifest"): sa.cast(video.c.extra, sa.Text),
    }
    for place, (metric, models) in enumerate(frozen.models.items(), start=1):
        made_by = sa.case((item["is_scored"][place], sa.literal(models, sa.Text)))
        columns[ExportColumn(metric, "number", f"score by {metric}; absent where there is none")] = item["scores"][
            place
        ]
        columns[ExportColumn(f"{metric}_models", "text", f"the models behind {metric}")] = made_by
    return columns


def build_export_query(frozen: FrozenSelection, root: str | None) -> sa.Select[Any]:
    """Return a query for the rows of a frozen selection, best rank first, in the columns of `build_export_columns`.
    Only column `media` differs: paths of local files in the folder `root` become relative to it. With `root` None they
    stay as stored.
    """
    # Equal references are one.
    distinct = (
        sa.select(reference.c.text, sa.func.min(reference.c.key.collate("C")).label("key"))
        .where(reference.c.video_id == video.c.video_id)
        .group_by(reference.c.text)
        .correlate(video)
        .lateral("reference")
    )
    texts = (
        sa.select(sa.func.array_agg(sa.text('reference.text ORDER BY reference.key COLLATE "C"')).label("texts"))
        .select_from(distinct)
        .lateral("texts")
    )
    is_video = sa.and_(video.c.dataset_id == frozen.dataset_id, video.c.key == _ITEM.video)
    rows = selection_item.outerjoin(sample, sample.c.sample_id == _ITEM.sample_id)
    rows = rows.outerjoin(video, is_video).outerjoin(texts, sa.true())
    columns = build_export_columns(frozen)
    columns[_MEDIA] = _build_relative_path(_ITEM.uri, root)
    named = [expression.label(column.name) for column, expression in columns.items()]
    return sa.select(*named).select_from(rows).where(_ITEM.selection_id == frozen.selection_id).order_by(_ITEM.rank)


def add_member_places(query: sa.Select[Any]) -> sa.Select[Any]:
    """Return a query of `build_export_query` with two more columns, `member_offset` and `size_bytes`: where the frozen
    file lies in its tar file. Both are None where the dataset has another file by now, or none.
    """
    is_same = sa.and_(video.c.uri == _ITEM.uri, video.c.content_sha256.is_not_distinct_from(_ITEM.content_sha256))
    places = (video.c.member_offset, video.c.size_bytes)
    return query.add_columns(*[sa.case((is_same, place)).label(place.name) for place in places])


def load_export_batches(connection: Connection, query: sa.Select[Any]) -> Iterator[list[sa.Row[Any]]]:
    """Yield the rows of a query of `build_export_query`, best rank first, in lists of up to 2,000 rows; nothing for a
    selection without rows.

    Each list comes from a statement of its own: one statement for all rows would sort them on the server's disk.
    """
    after = 0
    while rows := load_export_batch(connection, query, after):
        yield rows
        after = rows[-1].rank


def load_export_batch(connection: Connection, query: sa.Select[Any], after: int) -> list[sa.Row[Any]]:
    """Load the next rows of a query of `build_export_query`, those with a rank greater than `after`, at most 2,000; []
    after the last one.
    """
    # Between two ranks: Postgres has no statistics of rows frozen a moment ago, and would join and sort all the rest
    # for each batch. Ranks follow one another unless someone deleted rows.
    rows = list(connection.execute(query.where(_ITEM.rank > after, _ITEM.rank <= after + ROWS_AT_A_TIME)).all())
    if not rows:
        following = query.where(_ITEM.rank > after).with_only_columns(_ITEM.rank).limit(1)
        if (rank := connection.scalar(following)) is not None:
            return load_export_batch(connection, query, rank - 1)
    return rows


def load_current_videos(
    connection: Connection, dataset_id: int | None, keys: Collection[str]
) -> dict[str, sa.Row[Any]]:
    """Load the present rows of table `video` with these keys in a dataset, as {key: row}. A key without a video is left
    out; {} if `dataset_id` is None.
    """
    query = sa.select(video).where(video.c.dataset_id == dataset_id, video.c.key.in_(keys))
    return {row.key: row for row in connection.execute(query)}


def load_media_in_tars(connection: Connection, root: str | None, tars: Collection[str]) -> Iterator[str]:
    """Yield the addresses of all stored videos, of any dataset, in these tar files. tars: paths or addresses, as in
    column `media` of an export with the media root `root`; the addresses are in the same form.
    """
    media = _build_relative_path(video.c.uri, root)
    # As one value: a statement has no room for the names of 100,000 tar files.
    wanted = sa.any_(sa.literal(list(tars), sa.ARRAY(sa.Text)))
    is_inside = sa.func.substring(media, "^tar://(.*?[.][tT][aA][rR])#") == wanted
    query = sa.select(media).where(video.c.uri.startswith("tar://"), is_inside)
    yield from connection.scalars(query, execution_options={"yield_per": 10_000})


def _build_relative_path(uri: sa.ColumnElement[str], root: str | None) -> sa.ColumnElement[str]:
    if root is None:
        return uri
    prefix = root.rstrip("/") + "/"
    return sa.case(
        (sa.func.starts_with(uri, prefix), sa.func.substr(uri, len(prefix) + 1)),
        *[
            (
                sa.func.starts_with(uri, scheme + prefix),
                sa.literal(scheme).concat(sa.func.substr(uri, len(scheme + prefix) + 1)),
            )
            for scheme in MEMBER_SCHEMES
        ],
        else_=uri,
    )
