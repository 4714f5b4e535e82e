"""Makes a manifest from a folder or a file: the tables that `reelsieve ingest` reads.

A source holds tar shards, tables, or videos with caption files; the first of these that it has counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from assets.home.folder import DEMO_DATASET
from assets.home.settings import read_settings
from assets.ingest.declarations import ORIGIN_FILE
from assets.media.settings import MediaSettings
from assets.new_manifest.caption_files import find_captioned_videos
from assets.new_manifest.clip_folders import read_clip_folder
from assets.new_manifest.columns import ColumnNames, parse_ratings
from assets.new_manifest.data_juicer import read_data_juicer
from assets.new_manifest.extract import VIDEO_FOLDER, VideoExtractor, open_workspace
from assets.new_manifest.findings import CaptionedVideo, Findings, NoManifest, Reason
from assets.new_manifest.folder import (
    SHARD_SUFFIXES,
    TABLE_SUFFIXES,
    FileKind,
    SourceFolder,
    guess_file_kind,
    is_picture_name,
    is_video_name,
    require_source,
)
from assets.new_manifest.lance_source import read_lance_tables
from assets.new_manifest.source import UNREAD_REASONS, FoundRows, Source
from assets.new_manifest.tables import find_tables
from assets.new_manifest.tar_shards import find_shards
from assets.new_manifest.tool_names import TOOL_NAMES, Tool
from assets.new_manifest.videos import PathNaming, VideoRegistry
from assets.new_manifest.write import WrittenTables, link_tables, require_free_target, write_tables
from assets.planning.holdings import Holdings
from assets.words.text import format_count

_NO_NAME = re.compile(r"^[^A-Za-z0-9]+|[^A-Za-z0-9_.-]+")
_TELL_EVERY = 1000
_UNREAD_OF_TOOL: Mapping[FileKind, Reason] = {
    **UNREAD_REASONS,
    "video": Reason.VIDEO_OF_NO_METADATA,
    "caption": Reason.TOOL_FILE_OF_NO_CLIP,
    "table": Reason.TABLE_WITHOUT_TOOL,
    "shard": Reason.SHARD_BY_TOOL,
    "other": Reason.FILE_OF_NO_TOOL,
}
# The first that finds something counts.
_KINDS = (find_shards, find_tables, find_captioned_videos)
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
    path, findings, column_names = require_source(source), Findings(), column_names or ColumnNames()
    folder = SourceFolder.find(path, findings, is_lance=tool == "lance")
    target = require_free_target(target or folder.path)
    with TemporaryDirectory() if is_trial else open_workspace(target) as workspace:
        unfinished = Path(workspace)
        places = PathNaming.choose(folder.path, target, read_settings(MediaSettings).media_roots)
        videos = VideoRegistry(folder, places, findings)
        extractor = VideoExtractor(target, videos, findings, None if is_trial else unfinished)
        read = Source(videos, extractor, findings, column_names, unfinished)
        found = _find_rows(read) if tool is None else _find_tool_rows(tool, read)
        captioned = _check_named_columns(_tell_progress(found.videos, tell), path, column_names, findings)
        written = write_tables(captioned, unfinished, target, findings, are_rated=bool(column_names.ratings))
        folder.mark_read(ORIGIN_FILE)
        _leave_out_unread_files(folder, found.unread_reasons, extractor)
        if not written.holdings.videos:
            raise NoManifest(_explain_no_video(path, found, findings))
        chosen = () if is_trial else tuple(choose_ratings(findings))
        if not is_trial and not chosen:
            link_tables(written, unfinished, target, findings.rating_scales)
    if chosen:
        column_names = replace(column_names, ratings=(*column_names.ratings, *chosen))
        return create_manifest(path, target, column_names=column_names, tool=tool, tell=tell)
    root = (places.new_root, folder.path) if places.new_root and written.n_videos_in_roots else None
    return NewManifest(target, found.description, written, findings, extractor, root)


def _explain_no_video(source: Path, found: FoundRows, findings: Findings) -> str:
    """Explain why a source has no video with a caption: by the errors of its tables if all are unreadable."""
    errors = [str(dict(details)["error"]) for reason, details in findings.left_out if reason is Reason.UNREADABLE_TABLE]
    if errors and len(errors) == len(findings.left_out):
        return "; ".join(errors)
    reasons = findings.format_left_out()
    left_out = f"left out: {reasons}" if reasons else "it is empty"
    return f"{source}: no video with a caption in {found.description}; {left_out}"


def _leave_out_unread_files(
    listing: SourceFolder, reasons: Mapping[FileKind, Reason], extractor: VideoExtractor
) -> None:
    """Leave out the files that were not read, except videos that an earlier try extracted from the source."""
    folder = extractor.target / VIDEO_FOLDER
    if folder.is_relative_to(listing.path):
        for path in extractor.paths:
            listing.mark_read((folder / path).relative_to(listing.path).as_posix())
    listing.leave_out_unread(reasons)


def _find_rows(source: Source) -> FoundRows:
    """Find the rows of a source. Raises NoManifest where no kind of source finds any."""
    found = next((found for find in _KINDS if (found := find(source)) is not None), None)
    if found is None:
        raise NoManifest(_explain_folder(source) if source.folder.file is None else _explain_file(source.folder))
    return found


def _explain_folder(source: Source) -> str:
    """Explain why no rows are found in a folder."""
    folder, reasons = source.folder, source.findings.format_left_out()
    left_out = f" (left out: {reasons})" if reasons else ""
    if n := sum(map(is_picture_name, folder.list_files("other"))):
        return (
            f"{folder.path}: {format_count(n, 'image')} and no video: make a clip of every image, such as a.mp4 by "
            "ffmpeg -loop 1 -i a.jpg -t 1 -pix_fmt yuv420p a.mp4, or one clip of the frames of a video, and put its "
            f"caption into a.txt next to it{left_out}"
        )
    if files := folder.list_files("packed"):
        return f"{folder.path}: only packed files, such as {files[0]}: unpack them{left_out}"
    if files := folder.list_files("lance"):
        return f"{folder.path}: {format_count(len(files), 'Lance table')}, such as {files[0]}: add --from lance"
    return (
        f"{folder.path}: no videos with caption files, no table ({', '.join(TABLE_SUFFIXES)}) and no tar shards: "
        f"give a folder that holds one of these{left_out}"
    )


def _explain_file(folder: SourceFolder) -> str:
    """Explain why the only file of a source has no rows."""
    file = folder.path / (folder.file or "")
    if is_video_name(file.name):
        return f"{file}: it is a single video: give the folder that holds it"
    if guess_file_kind(file.name) == "packed":
        return f"{file}: it is a packed file: unpack it, and give what was in it"
    suffixes = ", ".join((*TABLE_SUFFIXES, ".json", *SHARD_SUFFIXES))
    return f"{file}: it is neither a table nor a tar shard: give a folder, or a file that ends in one of {suffixes}"


def _find_tool_rows(tool: Tool, source: Source) -> FoundRows:
    """Find the rows in the output folder of a tool. Raises NoManifest for a file, and where its metadata is missing."""
    folder, videos, findings, name = source.folder, source.videos, source.findings, TOOL_NAMES[tool]
    path = folder.path / (folder.file or "")
    if not path.is_dir():
        raise NoManifest(f"{path}: it is a file: give the folder that {name} wrote to")
    if tool == "lance":
        tables = folder.list_files("lance") if folder.file is None else [folder.file]
        rows = read_lance_tables(name, tables, videos, findings, source.column_names)
        return FoundRows("a Lance table" if len(tables) == 1 else "Lance tables", rows, _UNREAD_OF_TOOL)
    read = read_data_juicer if tool == "data-juicer" else read_clip_folder
    return FoundRows(f"a folder of {name}", read(name, videos, findings), _UNREAD_OF_TOOL)


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
            tell(f"{n:,} rows read")
