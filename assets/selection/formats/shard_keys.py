"""Writes the keys of a selection by tar file and Lance table, so that a loader reads the subset where it lies."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, BinaryIO

from assets.media.address import is_member_address, parse_member_address
from assets.selection.export_input import Batch
from db.selection.exports import ExportColumn
from db.selection.recipes import SelectionError


def write_shard_keys(
    file: BinaryIO,
    columns: Sequence[ExportColumn],
    batches: Iterable[Batch],
    *,
    load_media: Callable[[Collection[str]], Iterable[str]],
) -> None:
    """Write a JSON object for every column of a Lance table with videos of the rows, then for every tar file with some,
    by name: `lance`, `column` (null where unnamed) and `rows`, the sorted ids; or `tar`, its path or address, and
    `keys`, the sorted keys of the samples in it.

    batches: rows with a value for every column, in their order. load_media: returns the media of all stored videos in
    tar files, as column `media` has them. Raises SelectionError where a row's video is in no tar file and no table, and
    where another video of a tar file has the key of a chosen one.
    """
    place = [column.name for column in columns].index("media")
    # By tar file and key, the members that are chosen.
    keys: dict[str, dict[str, set[str]]] = {}
    rows: dict[tuple[str, str], set[int]] = {}
    n = n_elsewhere = 0
    for media in (row[place] for batch in batches for row in batch):
        n += 1
        if media is None or not is_member_address(media):
            n_elsewhere += 1
            continue
        address = parse_member_address(media)
        if address.scheme == "tar":
            members = keys.setdefault(address.container, {}).setdefault(find_sample_key(address.name), set())
            members.add(address.name)
        else:
            column, _, row_id = address.name.rpartition("/")
            rows.setdefault((address.container, column), set()).add(int(row_id))
    if n_elsewhere:
        raise SelectionError(
            f"the videos of {n_elsewhere:,} of the {n:,} rows are in no tar file and no Lance table, and have no key "
            "there: use another format"
        )
    for media in load_media(keys):
        address = parse_member_address(media)
        key = find_sample_key(address.name)
        chosen = keys[address.container].get(key, set())
        if chosen and address.name not in chosen:
            raise SelectionError(
                f"{address.container}: {min(chosen)} is selected and {address.name} is not, but WebDataset reads both "
                f"by the key {key!r}, which ends at the first dot: select both, or use --format webdataset"
            )
    lines: list[dict[str, Any]] = [
        {"lance": table, "column": column or None, "rows": sorted(ids)} for (table, column), ids in sorted(rows.items())
    ]
    lines += [{"tar": tar, "keys": sorted(chosen)} for tar, chosen in sorted(keys.items())]
    file.writelines(f"{json.dumps(line, ensure_ascii=False)}\n".encode() for line in lines)


def find_sample_key(member: str) -> str:
    """Return the key of the sample that a member of a WebDataset shard belongs to: its name up to the first dot of the
    last part.

    >>> find_sample_key("day.1/000.left.mp4")
    'day.1/000'
    """
    folder, slash, name = member.rpartition("/")
    return folder + slash + name.partition(".")[0]
