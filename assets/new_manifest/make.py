"""Makes a manifest from a folder or a file: the tables that `reelsieve ingest` reads.

A source holds tar shards, tables, or videos with caption files; the first of these that it has counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from assets.home.folder import DEMO_DATASET
from assets.home.settings import read_settings
from assets.ingest.declarations import ORIGIN_FILE
from assets.ingest.files import check_regular_file
from assets.ingest.rejects import ManifestError
from assets.media.settings import MediaSettings
from assets.new_manifest.caption_files import group_caption_files, read_captioned_videos
from assets.new_manifest.clip_folders import CLIP_META, read_clip_folder
from assets.new_manifest.columns import ColumnNames, parse_ratings
from assets.new_manifest.data_juicer import read_data_juicer
from assets.new_manifest.extract import VIDEO_FOLDER, VideoExtractor, open_workspace
from assets.new_manifest.findings import CaptionedVideo, Findings, NoManifest, Reason
from assets.new_manifest.folder import (
    SHARD_SUFFIXES,
    TABLE_SUFFIXES,
    FileKind,
    SourceFolder,
    drop_suffix,
    guess_file_kind,
    is_lance_name,
    is_picture_name,
    is_video_name,
)
from assets.new_manifest.lance_source import read_lance_tables
from assets.new_manifest.tables import TableReader
from assets.new_manifest.tar_shards import TarShardReader
from assets.new_manifest.tool_names import TOOL_NAMES, Tool
from assets.new_manifest.videos import PathNaming, VideoRegistry
from assets.new_manifest.write import WrittenTables, check_no_manifest, link_tables, write_tables
from assets.planning.holdings import Holdings
from assets.words.text import format_count

# Files that show a folder of Hugging Face, where a table counts before caption files.
_HUGGING_FACE = re.compile(r"(.*/)?(metadata\.(csv|jsonl|parquet)|[^/]+\.arrow|dataset_info\.json)")
_NO_NAME = re.compile(r"^[^A-Za-z0-9]+|[^A-Za-z0-9_.-]+")
_TELL_EVERY = 1000
# Why an unread file is left out, however the source was understood.
_UNREAD: Mapping[FileKind, Reason] = {
    "packed": Reason.PACKED_FILE,
    "lance": Reason.LANCE_TABLE,
    "other": Reason.OTHER_FILE,
}
# Why an unread file is left out, by how the source was understood.
_UNREAD_REASONS: Mapping[str, Mapping[FileKind, Reason]] = {
    "captions": {
        "caption": Reason.CAPTION_WITHOUT_VIDEO,
        "table": Reason.TABLE_BY_CAPTION_FILES,
        **_UNREAD,
    },
    "tables": {
        "video": Reason.VIDEO_IN_NO_TABLE,
        "caption": Reason.CAPTION_FILE_BY_TABLE,
        "table": Reason.TABLE_WITHOUT_COLUMNS,
        **_UNREAD,
    },
    "shards": {
        "video": Reason.VIDEO_BY_SHARDS,
        "caption": Reason.CAPTION_FILE_BY_SHARDS,
        "table": Reason.TABLE_BY_SHARDS,
        **_UNREAD,
    },
    "tool": {
        "video": Reason.VIDEO_OF_NO_METADATA,
        "caption": Reason.TOOL_FILE_OF_NO_CLIP,
        "table": Reason.TABLE_WITHOUT_TOOL,
        "shard": Reason.SHARD_BY_TOOL,
        **_UNREAD,
        "other": Reason.FILE_OF_NO_TOOL,
    },
}
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class NewManifest:
    """A manifest that was made from a source, or tried: its folder, a description of the source, and what the tables
    hold. `findings` are guesses and things left out, and `extractor` counts extracted videos. `new_root` is name and
    folder of a root that a machine needs to find the videos; None where it needs none.
    """

    folder: Path
    source_description: str
    tables: WrittenTables
    findings: Findings
    extractor: VideoExtractor
    new_root: tuple[str, Path] | None

    @property
    def holdings(self) -> Holdings:
        """The counts of the manifest's tables, and its first samples, from which a plan is made."""
        return self.tables.holdings


def suggest_dataset_name(folder: Path) -> str:
    """Return a valid dataset name made from the last part of a folder's path: other characters become `_`, and 100 are
    kept. It is "mine" where nothing is left of the name, or where it is `demo`.

    >>> suggest_dataset_name(Path("/data/my clips")), suggest_dataset_name(Path("demo"))
    ('my_clips', 'mine')
    """
    name = _NO_NAME.sub("_", folder.name).strip("_")[:100]
    return name if name and name != DEMO_DATASET else "mine"


def create_manifest(
    source: Path,
    target: Path | None = None,
    *,
    column_names: ColumnNames | None = None,
    tool: Tool | None = None,
    is_trial: bool = False,
    tell: Tell = lambda _: None,
    choose_ratings: Callable[[Findings], Sequence[str]] = lambda _: (),
) -> NewManifest:
    """Write the tables of a manifest for a folder or file of one's own data, and return where it is and what it holds.
    Videos inside tables and compressed tar shards are extracted. target: the manifest's folder, by default the
    source's. is_trial: only count, and write nothing but temporary files.

    column_names: names of the columns of a table that are not to be guessed. tool: the tool whose output folder the
    source is; None to recognise the source by its files. tell: called with a line of progress every
    1,000 rows. choose_ratings: called with the findings before anything is written for good; returns values of the
    option --rating with which the source is then read again.
    Nothing is overwritten, and nothing of the source is run or unpickled. Raises NoManifest where nothing can be made
    of the source, and ManifestError for a file that is not regular.
    """
    source = require_source(source)
    # A Lance table is a folder, and no place for a manifest.
    is_folder = source.is_dir() and not (tool == "lance" and is_lance_name(source.name))
    folder = source if is_folder else source.parent
    target = _require_free_target(target or folder)
    findings = Findings()
    listing = _list_source_files(source, folder, findings)
    places = PathNaming.choose(folder, target, read_settings(MediaSettings).media_roots)
    with TemporaryDirectory() if is_trial else open_workspace(target) as workspace:
        unfinished = Path(workspace)
        videos, column_names = VideoRegistry(listing, places, findings), column_names or ColumnNames()
        extractor = VideoExtractor(target, videos, findings, None if is_trial else unfinished)
        tables = TableReader(videos, extractor, findings, column_names, unfinished)
        shards = TarShardReader(videos, extractor, findings, column_names)
        recognised = (
            _recognise_source(source, tables, shards)
            if tool is None
            else _recognise_tool(tool, source, videos, findings, column_names)
        )
        captioned = _check_named_columns(_tell_progress(recognised.videos, tell), source, column_names, findings)
        written = write_tables(captioned, unfinished, target, findings, are_rated=bool(column_names.ratings))
        listing.mark_read(ORIGIN_FILE)
        _leave_out_unread_files(listing, recognised.unread_reasons, extractor)
        if not written.holdings.videos:
            raise NoManifest(_explain_no_video(source, recognised, findings))
        chosen = () if is_trial else tuple(choose_ratings(findings))
        if not is_trial and not chosen:
            link_tables(written, unfinished, target, findings.rating_scales)
    if chosen:
        column_names = replace(column_names, ratings=(*column_names.ratings, *chosen))
        return create_manifest(source, target, column_names=column_names, tool=tool, tell=tell)
    root = (places.new_root, folder) if places.new_root and written.n_videos_in_roots else None
    return NewManifest(target, recognised.description, written, findings, extractor, root)


def _explain_no_video(source: Path, recognised: _Source, findings: Findings) -> str:
    """Explain why a source has no video with a caption: by the errors of its tables if all are unreadable."""
    errors = [str(dict(details)["error"]) for reason, details in findings.left_out if reason is Reason.UNREADABLE_TABLE]
    if errors and len(errors) == len(findings.left_out):
        return "; ".join(errors)
    reasons = findings.format_left_out()
    left_out = f"left out: {reasons}" if reasons else "it is empty"
    return f"{source}: no video with a caption in {recognised.description}; {left_out}"


def require_source(source: Path) -> Path:
    """Return the absolute path, without links, of the folder or regular file that the user names; `~` is expanded. A
    link to a file of another suffix stays one, since its name shows the format. Raises NoManifest where there is none,
    and ManifestError for a file that is not regular.
    """
    source = Path(os.path.expanduser(source))
    if not source.exists():
        raise NoManifest(f"{source}: no such folder or file: give a folder of videos, a table or tar shards")
    if not source.is_dir():
        check_regular_file(source)
        if source.resolve().suffix.lower() != source.suffix.lower():
            return source.parent.resolve() / source.name
    return source.resolve()


def _require_free_target(target: Path) -> Path:
    """Return the folder that is to hold the manifest, which may not exist yet. Raises NoManifest where it holds one."""
    target = Path(os.path.realpath(os.path.expanduser(target)))
    if os.path.lexists(target) and not target.is_dir():
        raise NoManifest(f"{target}: it is not a folder: give another one with --to")
    check_no_manifest(target)
    return target


def _list_source_files(source: Path, folder: Path, findings: Findings) -> SourceFolder:
    """Return the files of a source; files next to a single table that it does not name are not reported."""
    if source == folder:
        return SourceFolder.scan(folder, findings)
    if guess_file_kind(source.name) != "table" and source.suffix.lower() != ".json":
        return SourceFolder(folder, findings)
    listing = SourceFolder.scan(folder, Findings())
    listing.findings = findings
    return listing


def _leave_out_unread_files(
    listing: SourceFolder, reasons: Mapping[FileKind, Reason], extractor: VideoExtractor
) -> None:
    """Leave out the files that were not read, except videos that an earlier try extracted from the source."""
    folder = extractor.target / VIDEO_FOLDER
    if folder.is_relative_to(listing.path):
        for path in extractor.paths:
            listing.mark_read((folder / path).relative_to(listing.path).as_posix())
    listing.leave_out_unread(reasons)


@dataclass(frozen=True, slots=True)
class _Source:
    """A source that was recognised: its description, its videos, and why unread files of a kind are left out."""

    description: str
    videos: Iterator[CaptionedVideo]
    unread_reasons: Mapping[FileKind, Reason]


def _recognise_source(source: Path, tables: TableReader, shards: TarShardReader) -> _Source:
    """Recognise what a folder or file holds. Raises NoManifest where no manifest can be made of it."""
    if not source.is_dir():
        return _recognise_file(source, tables, shards)
    listing, findings = tables.videos.folder, tables.findings
    if files := listing.list_files("shard"):
        kind = "WebDataset shards" if len(files) > 1 else "a WebDataset shard"
        return _Source(kind, shards.read_videos(files), _UNREAD_REASONS["shards"])
    stems = set(map(drop_suffix, listing.list_files("video")))
    captions = {stem: paths for stem, paths in group_caption_files(listing).items() if stem in stems}
    are_apart = not any(Path(stem).parent == Path(path).parent for stem, paths in captions.items() for path in paths)
    files = listing.list_files("table")
    may_be_tables = are_apart or any(map(_HUGGING_FACE.fullmatch, files))
    paired = frozenset(chain.from_iterable(captions.values()))
    if may_be_tables and (recognised := _recognise_tables(files, tables, paired)) is not None:
        return recognised
    if listing.list_files("video"):
        for file in listing.list_files("caption"):
            if file.lower().endswith(".json") and file not in paired:
                listing.mark_read(file)
                findings.leave_out(Reason.JSON_OF_NO_VIDEO, file)
        videos = read_captioned_videos(tables.videos, findings, tables.column_names)
        kind = "videos with caption files" if captions else "videos without captions"
        return _Source(kind, videos, _UNREAD_REASONS["captions"])
    reasons = findings.format_left_out()
    left_out = f" (left out: {reasons})" if reasons else ""
    if n := sum(map(is_picture_name, listing.list_files("other"))):
        raise NoManifest(
            f"{source}: {format_count(n, 'picture')} and no video: make a clip of every picture, such as a.mp4 by "
            "ffmpeg -loop 1 -i a.jpg -t 1 -pix_fmt yuv420p a.mp4, or one clip of the frames of a video, and put its "
            f"caption into a.txt next to it{left_out}"
        )
    if files := listing.list_files("packed"):
        raise NoManifest(f"{source}: only packed files, such as {files[0]}: unpack them{left_out}")
    if files := listing.list_files("lance"):
        raise NoManifest(f"{source}: {format_count(len(files), 'Lance table')}, such as {files[0]}: add --from lance")
    raise NoManifest(
        f"{source}: no videos with caption files, no table ({', '.join(TABLE_SUFFIXES)}) and no tar shards: "
        f"give a folder that holds one of these{left_out}"
    )


def _recognise_tool(
    tool: Tool, source: Path, videos: VideoRegistry, findings: Findings, column_names: ColumnNames
) -> _Source:
    """Recognise the output folder of a tool. Raises NoManifest for a file, and where the tool's metadata is missing."""
    if not source.is_dir():
        raise NoManifest(f"{source}: it is a file: give the folder that {TOOL_NAMES[tool]} wrote to")
    if tool == "lance":
        tables = videos.folder.list_files("lance") if source == videos.folder.path else [source.name]
        rows = read_lance_tables(TOOL_NAMES[tool], tables, videos, findings, column_names)
        return _Source("a Lance table" if len(tables) == 1 else "Lance tables", rows, _UNREAD_REASONS["tool"])
    read = read_data_juicer if tool == "data-juicer" else read_clip_folder
    name = TOOL_NAMES[tool]
    return _Source(f"a folder of {name}", read(name, videos, findings), _UNREAD_REASONS["tool"])


def _recognise_file(source: Path, tables: TableReader, shards: TarShardReader) -> _Source:
    kind = guess_file_kind(source.name)
    if kind == "shard":
        return _Source("a WebDataset shard", shards.read_videos([source.name]), {})
    if kind == "table" or source.suffix.lower() == ".json":
        return _Source("a table", tables.read_videos(source.name), {"video": _UNREAD_REASONS["tables"]["video"]})
    if is_video_name(source.name):
        raise NoManifest(f"{source}: it is a single video: give the folder that holds it")
    if kind == "packed":
        raise NoManifest(f"{source}: it is a packed file: unpack it, and give what was in it")
    suffixes = ", ".join((*TABLE_SUFFIXES, ".json", *SHARD_SUFFIXES))
    raise NoManifest(
        f"{source}: it is neither a table nor a tar shard: give a folder, or a file that ends in one of {suffixes}"
    )


def _recognise_tables(files: Sequence[str], tables: TableReader, paired: Collection[str]) -> _Source | None:
    """Choose the tables that have a column of videos and one of captions, or else the JSON files that are such tables;
    where none has, the first table shows what is missing. paired: the caption files that have a video. Returns None
    where there is no table.

    Raises NoManifest where only a JSON file in another form seems to hold captions.
    """
    usable: list[str] = []
    others: list[str] = []
    for table in files:
        try:
            (usable if tables.read_columns(table).has_video_and_text else others).append(table)
        except ManifestError as error:
            tables.videos.folder.mark_read(table)
            tables.findings.leave_out_table(error, table, is_whole=True)
    usable = usable or _list_json_tables(tables, paired)
    if not usable and (paired or not files):
        return None
    chosen = usable or others[:1]
    kind = "a table" if len(chosen) <= 1 else f"{len(chosen)} tables"
    if any(map(_HUGGING_FACE.fullmatch, files)) or (files and all(path.startswith("data/") for path in files)):
        kind = f"a folder of Hugging Face datasets with {kind}"
    return _Source(kind, _read_tables(chosen, tables), _UNREAD_REASONS["tables"])


def _read_tables(files: Iterable[str], tables: TableReader) -> Iterator[CaptionedVideo]:
    """Yield the videos of the rows and, where there are any, those that no row names."""
    has_rows = False
    for video in chain.from_iterable(map(tables.read_videos, files)):
        has_rows = True
        yield video
    if has_rows:
        yield from tables.read_unnamed_videos()


def _list_json_tables(tables: TableReader, paired: Collection[str]) -> list[str]:
    """List the JSON files, other than those of a video, that are tables of videos and captions."""
    listing = tables.videos.folder
    files = [file for file in listing.list_files("caption") if file.lower().endswith(".json") and file not in paired]
    if any(map(CLIP_META.fullmatch, files)):
        raise NoManifest(
            f"{listing.path}: a folder of NeMo Curator or Cosmos-Curate: add --from curator or --from cosmos"
        )
    usable, faults = [], []
    for file in files:
        try:
            if tables.holds_captions(file):
                usable.append(file)
        except ManifestError as error:
            listing.mark_read(file)
            faults.append(str(error))
            tables.findings.leave_out_table(error, file, is_whole=True)
    if faults and not usable and not paired:
        raise NoManifest(faults[0])
    return usable


def _check_named_columns(
    videos: Iterable[CaptionedVideo], source: Path, column_names: ColumnNames, findings: Findings
) -> Iterator[CaptionedVideo]:
    """Yield the videos; at the end raise NoManifest where no row has a column that the user named."""
    yield from videos
    named = [(column, "--column") for column in column_names.by_field.values()]
    rated = parse_ratings(column_names.ratings, findings.named_columns)
    for column, option in [*named, *((column.name, "--rating") for column in rated)]:
        if column not in findings.named_columns:
            raise NoManifest(
                f"{source}: no row with a caption has the column {column!r} that {option} names: check its name"
            )


def _tell_progress(videos: Iterable[CaptionedVideo], tell: Tell) -> Iterator[CaptionedVideo]:
    for n, video in enumerate(videos, 1):
        yield video
        if n % _TELL_EVERY == 0:
            tell(f"{n} rows read")
