"""Writes the keys of a selection by tar file and Lance table, and the places of its videos in tar files, so that a
loader reads the subset where it lies.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from assets.media.address import is_member_address, parse_member_address
from assets.selection.export_input import Batch
from assets.words.text import format_count
from db.selection.exports import ExportColumn
from db.selection.recipes import SelectionError

if TYPE_CHECKING:
    import pyarrow as pa

# A row group has whole tar files, and so many rows where there are as many: loaders share out the groups.
ROWS_OF_A_GROUP = 1000


def write_shard_keys(
    file: BinaryIO,
    ranges_file: BinaryIO,
    columns: Sequence[ExportColumn],
    batches: Iterable[Batch],
    *,
    load_media: Callable[[Collection[str]], Iterable[str]],
) -> None:
    """Write a JSON object for every column of a Lance table with videos of the rows, then for every tar file with some,
    by name: `lance`, `column` (null where unnamed) and `rows`, the sorted ids; or `tar`, its path or address, and
    `keys`, the sorted keys of the samples in it.

    ranges_file: gets, as Parquet, the place of each row's video in its tar file. batches: rows with a value for every
    column, in their order, and the two of `add_member_places`. load_media: returns the media of all stored videos in
    tar files, as column `media` has them. Raises SelectionError where a row's video is in no tar file and no table, or
    is no longer the file that the dataset has, and where another video of a tar file has the key of a chosen one.
    """
    import pyarrow as pa

    text = pa.large_string()
    schema = pa.schema(
        {"tar": text, "key": text, "member": text, "offset": pa.int64(), "size": pa.int64(), "rank": pa.int64()}
        | {"text": text}
    )
    media_at, rank_at, text_at = ([column.name for column in columns].index(name) for name in ("media", "rank", "text"))
    # By tar file and key, the members that are chosen.
    keys: dict[str, dict[str, set[str]]] = {}
    rows: dict[tuple[str, str], set[int]] = {}
    ranges = [schema.empty_table()]
    n = n_elsewhere = n_replaced = 0
    for batch in batches:
        places = []
        for row in batch:
            n += 1
            media, offset, size = row[media_at], *row[-2:]
            if media is None or not is_member_address(media):
                n_elsewhere += 1
                continue
            address = parse_member_address(media)
            if address.scheme == "lance":
                column, _, row_id = address.name.rpartition("/")
                rows.setdefault((address.container, column), set()).add(int(row_id))
                continue
            n_replaced += offset is None
            key = find_sample_key(address.name)
            keys.setdefault(address.container, {}).setdefault(key, set()).add(address.name)
            places.append((address.container, key, address.name, offset, size, row[rank_at], row[text_at]))
        if places:
            ranges.append(pa.table(list(zip(*places, strict=True)), schema=schema))
    if n_elsewhere:
        raise SelectionError(
            f"the videos of {n_elsewhere:,} of the {format_count(n, 'row')} are in no tar file and no Lance table, and "
            "have no key there: use another format"
        )
    if n_replaced:
        raise SelectionError(
            f"the dataset no longer has the files of {n_replaced:,} of the {n:,} rows, so that their places in the tar "
            "files are unknown: ingest the dataset and select again, or use --format webdataset"
        )
    _require_own_keys(keys, load_media)
    lines: list[dict[str, Any]] = [
        {"lance": table, "column": column or None, "rows": sorted(ids)} for (table, column), ids in sorted(rows.items())
    ]
    lines += [{"tar": tar, "keys": sorted(chosen)} for tar, chosen in sorted(keys.items())]
    file.writelines(f"{json.dumps(line, ensure_ascii=False)}\n".encode() for line in lines)
    _write_ranges(ranges_file, pa.concat_tables(ranges))


def find_sample_key(member: str) -> str:
    """Return the key of the sample that a member of a WebDataset shard belongs to: its name up to the first dot of the
    last part.

    >>> find_sample_key("day.1/000.left.mp4")
    'day.1/000'
    """
    folder, slash, name = member.rpartition("/")
    return folder + slash + name.partition(".")[0]


def _require_own_keys(
    keys: dict[str, dict[str, set[str]]], load_media: Callable[[Collection[str]], Iterable[str]]
) -> None:
    """Raise SelectionError where a video that is not chosen has the key of a chosen one."""
    for media in load_media(keys):
        address = parse_member_address(media)
        key = find_sample_key(address.name)
        chosen = keys[address.container].get(key, set())
        if chosen and address.name not in chosen:
            raise SelectionError(
                f"{address.container}: {min(chosen)} is selected and {address.name} is not, but WebDataset reads both "
                f"by the key {key!r}, which ends at the first dot: select both, or use --format webdataset"
            )


def _write_ranges(file: BinaryIO, ranges: pa.Table) -> None:
    """Write the places of videos in the order of tar files and of their bytes."""
    import pyarrow.parquet as pq

    ranges = ranges.sort_by([(name, "ascending") for name in ("tar", "offset", "rank")])
    with pq.ParquetWriter(file, ranges.schema, compression="zstd") as writer:
        begin = n = 0
        for n_of_tar in Counter(ranges["tar"].to_pylist()).values():
            n += n_of_tar
            if n >= ROWS_OF_A_GROUP or begin + n == len(ranges):
                writer.write_table(ranges.slice(begin, n), n)
                begin, n = begin + n, 0
