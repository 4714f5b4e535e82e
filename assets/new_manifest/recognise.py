"""What a folder or a file holds: tar shards, tables, or videos with captions beside them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from assets.new_manifest.beside import captions_beside, clips_beside
from assets.new_manifest.found import Clip, NoManifest
from assets.new_manifest.media_files import is_video
from assets.new_manifest.tables import TABLE_SUFFIXES, TableReader, tables_below
from assets.new_manifest.tars import SHARD_SUFFIXES, clips_of_shard, shards_below

# Files that tell a folder of Hugging Face, where a table counts before texts beside the videos.
_HUGGING_FACE = re.compile(r"(.*/)?(metadata\.(csv|jsonl|parquet)|[^/]+\.arrow|dataset_info\.json)")


@dataclass(frozen=True, slots=True)
class Source:
    """What a source was taken for, in words, and its clips."""

    kind: str
    clips: Iterator[Clip]


def recognise(source: Path, reader: TableReader) -> Source:
    """What a folder or file holds. Raises NoManifest where it is nothing that a manifest can be made of."""
    if not source.is_dir():
        return _file(source, reader)
    if shards := shards_below(source):
        return _shards(source, shards, reader)
    tables = tables_below(source)
    has_captions = captions_beside(source).keys() & {path.rpartition(".")[0] for path in reader.media}
    if tables and (not has_captions or any(map(_HUGGING_FACE.fullmatch, tables))):
        return _tables(source, tables, reader)
    for table in tables:
        reader.findings.leave_out("a table, since captions lie beside the videos: name the table to read it", table)
    if has_captions:
        return Source("videos with captions beside them", clips_beside(source, reader.media, reader.findings))
    if len(reader.media):
        raise NoManifest(
            f"{source}: {len(reader.media)} videos and no captions: put clip.txt, .json, .vtt or .srt beside "
            "clip.mp4, or a table with columns video and caption into the folder"
        )
    raise NoManifest(
        f"{source}: no videos with captions beside them, no table ({', '.join(TABLE_SUFFIXES)}) and no tar shards: "
        f"give a folder that holds one of these{f' (left out: {said})' if (said := reader.findings.said()) else ''}"
    )


def _file(source: Path, reader: TableReader) -> Source:
    if source.name.lower().endswith(SHARD_SUFFIXES):
        return _shards(source.parent, [source.name], reader)
    if source.suffix.lower() in TABLE_SUFFIXES:
        return Source("a table", _rows([source], reader))
    what = "a video, so give its folder" if is_video(source.name) else "no table and no tar shard"
    raise NoManifest(f"{source}: it is {what}: give a folder, or a file {', '.join((*TABLE_SUFFIXES, '.tar'))}")


def _tables(source: Path, tables: Sequence[str], reader: TableReader) -> Source:
    """The tables that have a column of videos and one of captions; where none has, the first says what is missing."""
    usable = [path for path in tables if reader.columns(source / path).are_complete]
    for path in tables:
        if path not in usable and usable:
            reader.findings.leave_out("a table without columns of videos and captions", path)
    kind = "a table" if len(usable or tables) == 1 else f"{len(usable or tables)} tables"
    if any(map(_HUGGING_FACE.fullmatch, tables)) or all(path.startswith("data/") for path in tables):
        kind = f"a folder of Hugging Face datasets with {kind}"
    chosen = usable or tables[:1]
    return Source(kind, _rows([source / path for path in chosen], reader))


def _rows(tables: Sequence[Path], reader: TableReader) -> Iterator[Clip]:
    for table in tables:
        yield from reader.clips(table)
    reader.media.leave_out_others()


def _shards(folder: Path, shards: Sequence[str], reader: TableReader) -> Source:
    extracted = reader.extracted
    size = sum((folder / shard).stat().st_size for shard in shards)
    free = shutil.disk_usage(_existing(extracted.target)).free
    if not extracted.is_trial and size > free + extracted.size_there():
        raise NoManifest(
            f"{folder}: its videos take up to {size / 1e9:.1f} GB outside the shards, and {extracted.target} has "
            f"{free / 1e9:.1f} GB free: make room, or give another folder with --to"
        )
    clips = (clip for shard in shards for clip in clips_of_shard(folder / shard, shard, extracted, reader.findings))
    return Source("WebDataset shards" if len(shards) > 1 else "a WebDataset shard", clips)


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())
