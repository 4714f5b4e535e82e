"""Makes a manifest of a folder or a file: the tables that `reelsieve ingest` reads.

A source holds tar shards, tables, or videos with captions beside them; the first of these counts that it has.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from assets.holdings import Holdings
from assets.home import DEMO_DATASET
from assets.ingest.files import require_regular
from assets.ingest.rejects import ManifestError
from assets.media.settings import MediaSettings
from assets.new_manifest.caption_files import captions_beside, clips_beside
from assets.new_manifest.columns import Named
from assets.new_manifest.extract import FOLDER, Extracted, workspace
from assets.new_manifest.folder import SHARD_SUFFIXES, TABLE_SUFFIXES, Folder, Kind, is_video, kind_of, stem
from assets.new_manifest.found import Clip, Findings, NoManifest
from assets.new_manifest.shards import ShardReader
from assets.new_manifest.tables import TableReader
from assets.new_manifest.videos import Places, Videos
from assets.new_manifest.write import Written, require_no_manifest, write_manifest
from assets.settings import read_settings

# Files that tell a folder of Hugging Face, where a table counts before texts beside the videos.
_HUGGING_FACE = re.compile(r"(.*/)?(metadata\.(csv|jsonl|parquet)|[^/]+\.arrow|dataset_info\.json)")
_NO_NAME = re.compile(r"^[^A-Za-z0-9]+|[^A-Za-z0-9_.-]+")
_TELL_EVERY = 1000
_OTHER = "a file that is no video, caption file, table or tar shard"
# Why a file is left out that nobody read, by what the source was taken for.
_REST: Mapping[str, Mapping[Kind, str]] = {
    "beside": {
        "video": "a video without a caption beside it",
        "caption": "a caption file without a video beside it",
        "table": "a table, since captions lie beside the videos: name the table to read it",
        "other": _OTHER,
    },
    "tables": {
        "video": "a video without a caption in a table",
        "caption": "a caption file, since a table has the captions",
        "table": "a table without columns of videos and captions",
        "other": _OTHER,
    },
    "shards": {
        "video": "a video, since tar shards have the videos",
        "caption": "a caption file, since tar shards have the captions",
        "table": "a table, since the folder has tar shards: name the table to read it",
        "other": _OTHER,
    },
}
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Made:
    """What was made of a source: the manifest's folder, what the source was taken for, and what is in it.

    new_root: name and folder of a root that a machine needs to find the videos; None where it needs none.
    """

    folder: Path
    kind: str
    written: Written
    findings: Findings
    extracted: Extracted
    new_root: tuple[str, Path] | None

    @property
    def holdings(self) -> Holdings:
        """What its tables have for scorers."""
        return self.written.holdings

    @property
    def dataset(self) -> str:
        """A name for the dataset, made of the folder's."""
        return dataset_named_after(self.folder)


def dataset_named_after(folder: Path) -> str:
    """A name for the dataset of a folder, made of the folder's.

    >>> dataset_named_after(Path("/data/my clips")), dataset_named_after(Path("demo"))
    ('my_clips', 'mine')
    """
    name = _NO_NAME.sub("_", folder.name).strip("_")[:100]
    return name if name and name != DEMO_DATASET else "mine"


def make_manifest(
    source: Path,
    target: Path | None = None,
    *,
    named: Named | None = None,
    is_trial: bool = False,
    tell: Tell = lambda _: None,
) -> Made:
    """Make a manifest of a folder or a file. target: the manifest's folder; the source's where it is None.

    named: names of the columns of a table that are not to be guessed. is_trial: write nothing, only count. Nothing is
    overwritten, and nothing of the source is run or unpickled. Raises NoManifest where nothing can be made of the
    source, and ManifestError for a file that is no regular one.
    """
    source = existing_source(source)
    folder = source if source.is_dir() else source.parent
    target = _free_target(target or folder)
    findings = Findings()
    listing = _listed(source, folder, findings)
    places = Places.of(folder, target, read_settings(MediaSettings).media_roots)
    with nullcontext() if is_trial else workspace(target) as scratch, _folder_of_tables(scratch) as unfinished:
        videos, named = Videos(listing, places, findings), named or Named()
        extracted = Extracted(target, videos, findings, scratch)
        tables = TableReader(videos, extracted, findings, named)
        shards = ShardReader(videos, extracted, findings, named)
        found = _recognise(source, tables, shards)
        clips = _with_ratings(_told(found.clips, tell), source, named, findings)
        written = write_manifest(clips, unfinished, target, findings, is_trial=is_trial)
        _name_the_rest(listing, found.rest, extracted)
        if not written.holdings.videos:
            why = findings.said() or "it is empty"
            raise NoManifest(f"{source}: {found.kind}, but no video with a caption in it: {why}")
    root = (places.new_root, folder) if places.new_root and written.in_roots else None
    return Made(target, found.kind, written, findings, extracted, root)


@contextmanager
def _folder_of_tables(scratch: Path | None) -> Iterator[Path]:
    """The folder for tables under way: that of unfinished files, or in a trial one that is removed with them."""
    if scratch is not None:
        yield scratch
        return
    with TemporaryDirectory() as folder:
        yield Path(folder)


def existing_source(source: Path) -> Path:
    """The folder or regular file that the user names, without links. Raises NoManifest, and ManifestError."""
    source = Path(os.path.expanduser(source))
    if not source.exists():
        raise NoManifest(f"{source}: no such folder or file: give a folder of videos, a table or tar shards")
    if not source.is_dir():
        require_regular(source)
    return source.resolve()


def _free_target(target: Path) -> Path:
    """The folder that is to hold the manifest, which may not exist yet."""
    target = Path(os.path.realpath(os.path.expanduser(target)))
    if os.path.lexists(target) and not target.is_dir():
        raise NoManifest(f"{target}: it is no folder: give another one with --to")
    require_no_manifest(target)
    return target


def _listed(source: Path, folder: Path, findings: Findings) -> Folder:
    """The files that belong to a source; beside a table that the user names, only those that it names."""
    if source.is_dir():
        return Folder.of(folder, findings)
    if kind_of(source.name) != "table":
        return Folder(folder, findings)
    listing = Folder.of(folder, Findings())
    listing.findings = findings
    return listing


def _name_the_rest(listing: Folder, why: Mapping[Kind, str], extracted: Extracted) -> None:
    """Leave out the files that nobody read. Videos that an earlier try extracted from the source are no files of it."""
    there = extracted.target / FOLDER
    if there.is_relative_to(listing.path):
        for path in extracted.paths:
            listing.take((there / path).relative_to(listing.path).as_posix())
    listing.leave_out_rest(why)


@dataclass(frozen=True, slots=True)
class _Source:
    """What a source was taken for, in words, its clips, and why files of a kind are left out that nobody read."""

    kind: str
    clips: Iterator[Clip]
    rest: Mapping[Kind, str]


def _recognise(source: Path, tables: TableReader, shards: ShardReader) -> _Source:
    """What a folder or file holds. Raises NoManifest where it is nothing that a manifest can be made of."""
    if not source.is_dir():
        return _file(source, tables, shards)
    listing, findings = tables.videos.folder, tables.findings
    if files := listing.files("shard"):
        kind = "WebDataset shards" if len(files) > 1 else "a WebDataset shard"
        return _Source(kind, shards.clips(files), _REST["shards"])
    has_captions = captions_beside(listing).keys() & set(map(stem, listing.files("video")))
    files = listing.files("table")
    if files and (not has_captions or any(map(_HUGGING_FACE.fullmatch, files))):
        return _tables(files, tables)
    if has_captions:
        clips = clips_beside(tables.videos, findings, tables.named)
        return _Source("videos with captions beside them", clips, _REST["beside"])
    said = findings.said()
    left_out = f" (left out: {said})" if said else ""
    if n := len(listing.files("video")):
        raise NoManifest(
            f"{source}: {n} videos and no captions: put clip.txt, .json, .vtt or .srt beside clip.mp4, or a table with "
            f"columns video and caption into the folder{left_out}"
        )
    raise NoManifest(
        f"{source}: no videos with captions beside them, no table ({', '.join(TABLE_SUFFIXES)}) and no tar shards: "
        f"give a folder that holds one of these{left_out}"
    )


def _file(source: Path, tables: TableReader, shards: ShardReader) -> _Source:
    kind = kind_of(source.name)
    if kind == "shard":
        return _Source("a WebDataset shard", shards.clips([source.name]), {})
    if kind == "table":
        return _Source("a table", tables.clips(source.name), {"video": _REST["tables"]["video"]})
    what = "a video, so give its folder" if is_video(source.name) else "no table and no tar shard"
    raise NoManifest(
        f"{source}: it is {what}: give a folder, or a file {', '.join((*TABLE_SUFFIXES, *SHARD_SUFFIXES))}"
    )


def _tables(files: Sequence[str], tables: TableReader) -> _Source:
    """The tables that have a column of videos and one of captions; where none has, the first says what is missing."""
    usable: list[str] = []
    others: list[str] = []
    for table in files:
        try:
            (usable if tables.columns(table).are_complete else others).append(table)
        except ManifestError as error:
            tables.videos.folder.take(table)
            tables.findings.leave_out(f"a table that cannot be read: {error}", table)
    chosen = usable or others[:1]
    kind = "a table" if len(chosen) <= 1 else f"{len(chosen)} tables"
    if any(map(_HUGGING_FACE.fullmatch, files)) or all(path.startswith("data/") for path in files):
        kind = f"a folder of Hugging Face datasets with {kind}"
    return _Source(kind, chain.from_iterable(map(tables.clips, chosen)), _REST["tables"])


def _with_ratings(clips: Iterable[Clip], source: Path, named: Named, findings: Findings) -> Iterator[Clip]:
    """The clips; at the end NoManifest where no row has a column of ratings that the user named."""
    yield from clips
    for column in named.ratings:
        if column.strip().lower() not in findings.rated:
            raise NoManifest(f"{source}: no row with a caption has a column {column!r} of ratings: see --rating")


def _told(clips: Iterable[Clip], tell: Tell) -> Iterator[Clip]:
    for n, clip in enumerate(clips, 1):
        yield clip
        if n % _TELL_EVERY == 0:
            tell(f"{n} rows read")
