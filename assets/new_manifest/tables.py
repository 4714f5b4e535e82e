"""Videos and captions from the rows of tables: CSV, TSV, JSON Lines, JSON, Parquet, and Arrow of Hugging Face."""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path, PurePosixPath
from typing import Any

from assets.ingest.encodings import UTF_8
from assets.ingest.files import OpenFile, open_table
from assets.ingest.paths import PathRejected, resolve_inside
from assets.ingest.rejects import ManifestError, Reject
from assets.ingest.rows import ORIGIN_FIELDS, MediaBytes
from assets.media.address import is_address
from assets.new_manifest.caption_files import group_caption_files
from assets.new_manifest.clip_folders import CLIP_META
from assets.new_manifest.columns import ColumnMap, MappedColumn, check_columns, guess_columns
from assets.new_manifest.extract import VIDEO_FOLDER, choose_file_name
from assets.new_manifest.findings import KEPT_FOR_FACTS, CaptionedVideo, Findings, NoManifest, Place, Reason
from assets.new_manifest.folder import FileKind, is_table_name, is_video_name, strip_suffix
from assets.new_manifest.json_rows import TIDY_COLUMNS, has_captions, parse_list_cells, tidy_captions
from assets.new_manifest.rows import parse_id, parse_row
from assets.new_manifest.source import UNREAD_REASONS, FoundRows, Source
from assets.new_manifest.table_files import TableFile
from assets.new_manifest.videos import JudgedCells, VideoEntry

# Bytes of a JSON file in which captions are looked for.
_LOOKED_AT_BYTES = 2**24

_NO_CELLS = JudgedCells({}, has_usable=False)

# Files that show a folder of Hugging Face, where a table counts before caption files.
_HUGGING_FACE = re.compile(r"(.*/)?(metadata\.(csv|jsonl|parquet)|[^/]+\.arrow|dataset_info\.json)")
_UNREAD: Mapping[FileKind, Reason] = {
    **UNREAD_REASONS,
    "video": Reason.VIDEO_IN_NO_TABLE,
    "caption": Reason.CAPTION_FILE_BY_TABLE,
    "table": Reason.TABLE_WITHOUT_COLUMNS,
}


def find_tables(source: Source) -> FoundRows | None:
    """Find the rows of a source's only file if it is a table, of a folder's tables with a column of videos and one of
    captions, or else of such JSON files; else of the first table, to show what is missing. None without a table, and
    where caption files are next to videos outside a folder of Hugging Face.

    Raises NoManifest where only a JSON file in another form seems to hold captions.
    """
    reader, folder = _TableReader(source), source.folder
    if folder.file is not None:
        if not is_table_name(folder.file):
            return None
        return FoundRows("a table", reader.read_videos(folder.file), {"video": Reason.VIDEO_IN_NO_TABLE})
    captions, files = group_caption_files(folder), folder.list_files("table")
    are_apart = not any(Path(stem).parent == Path(path).parent for stem, paths in captions.items() for path in paths)
    are_of_hub = any(map(_HUGGING_FACE.fullmatch, files))
    if not are_apart and not are_of_hub:
        return None
    paired = frozenset(chain.from_iterable(captions.values()))
    usable, others = reader.choose_tables(files)
    usable = usable or reader.list_json_tables(paired)
    if not usable and (paired or not files):
        return None
    chosen = usable or others[:1]
    kind = "a table" if len(chosen) <= 1 else f"{len(chosen)} tables"
    if are_of_hub or (files and all(path.startswith("data/") for path in files)):
        kind = f"a folder of Hugging Face datasets with {kind}"
    return FoundRows(kind, reader.read_all(chosen), _UNREAD)


@dataclass(frozen=True, slots=True)
class _TableReader:
    """A reader of videos and captions from the tables of a source. The columns have names that the user gave, or that
    are guessed.
    """

    source: Source
    # By table, its file, its columns, and what its cells of videos mean.
    _read: dict[str, tuple[TableFile, ColumnMap, JudgedCells]] = field(default_factory=dict)
    # Of files with rows: a table that could not be read to its end may have left one.
    _numbers: Iterator[int] = field(default_factory=count)
    # Of the video files of the source.
    _names: set[str] = field(default_factory=set)

    def choose_tables(self, files: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return the tables that have a column of videos and one of captions, and the others that can be read."""
        usable, others = list[str](), list[str]()
        for table in files:
            try:
                (usable if self.read_columns(table).has_video_and_text else others).append(table)
            except ManifestError as error:
                self.source.folder.mark_read(table)
                self.source.findings.leave_out_table(error, table, is_whole=True)
        return usable, others

    def list_json_tables(self, paired: Collection[str]) -> list[str]:
        """List the JSON files that are tables of videos and captions. paired: the caption files that have a video."""
        listing = self.source.folder
        files = [
            file for file in listing.list_files("caption") if file.lower().endswith(".json") and file not in paired
        ]
        if any(map(CLIP_META.fullmatch, files)):
            raise NoManifest(
                f"{listing.path}: a folder of NeMo Curator or Cosmos-Curate: add --from curator or --from cosmos"
            )
        usable, faults = [], []
        for file in files:
            try:
                if self._holds_captions(file):
                    usable.append(file)
            except ManifestError as error:
                listing.mark_read(file)
                faults.append(str(error))
                self.source.findings.leave_out_table(error, file, is_whole=True)
        if faults and not usable and not paired:
            raise NoManifest(faults[0])
        return usable

    def read_all(self, tables: Sequence[str]) -> Iterator[CaptionedVideo]:
        """Yield the videos of the rows of tables and, where there are any, those that no row names."""
        has_rows = False
        for video in chain.from_iterable(map(self.read_videos, tables)):
            has_rows = True
            yield video
        if has_rows:
            yield from self._read_unnamed_videos()

    def read_columns(self, table: str) -> ColumnMap:
        """Return the columns of a table by their meaning; table: its path relative to the source folder. A table with
        videos and texts is read for that, from any other one only names.

        Of several columns that may be the one of videos the first counts that holds videos or names of files in the
        folder, else the first usable one. Raises ManifestError if the file cannot be read.
        """
        if table not in self._read:
            path = self._require_path(table)
            with open_table(path) as file:
                opened = TableFile.start(file, path, self.source.aside / f"{next(self._numbers)}.rows", self._is_video)
                columns, judged = guess_columns(opened.names, self.source.column_names), _NO_CELLS
                if columns.has_video_and_text:
                    columns, judged = self._judge_videos(opened, file, columns, table)
            self._read[table] = opened, columns, judged
        return self._read[table][1]

    def read_videos(self, table: str) -> Iterator[CaptionedVideo]:
        """Yield the video and captions of every row of a table that has both. Other rows, and the rest of a table that
        becomes unreadable, are counted in `findings` as left out. Videos inside the table are extracted to the
        manifest's folder.

        table: its path relative to the source folder. Raises NoManifest where no column is known as video or as text.
        """
        self.source.folder.mark_read(table)
        number = 0
        try:
            self.read_columns(table)
            file, columns, judged = self._read[table]
            if file.encoding != UTF_8:
                self.source.findings.add_guess(f"{table} is not UTF-8, and is read as {file.encoding}")
            if not columns.has_video_and_text and self._is_row(file.names):
                raise NoManifest(
                    f"{table}: the first line is a row, not a header: write a line with the names of the columns "
                    "above it, such as video,caption"
                )
            check_columns(table, file.names, columns)
            self.source.findings.add_guess(columns.format_guess())
            if unknown := columns.format_unknown(file.names):
                self.source.findings.add_guess(f"nothing about {unknown}: --column FIELD=COLUMN gives one a meaning")
            for number, content in file.read_rows(columns, self.source.findings):
                if isinstance(content, Reject):
                    if content.code == "invalid_utf8":
                        self.source.findings.leave_out(Reason.ROW_NOT_UTF_8, f"{table}:{number}")
                    else:
                        self.source.findings.leave_out_unreadable("a row", content.code, f"{table}:{number}")
                elif (video := self._build_video(content, columns, judged, table, number)) is not None:
                    yield video
        except ManifestError as error:
            self.source.findings.leave_out_table(error, f"{table}:{number + 1}", is_whole=number == 0)

    def _holds_captions(self, file: str) -> bool:
        """Return whether a JSON file of the source is a table of videos and captions. Raises ManifestError where it
        seems to hold captions in a form that is not read.
        """
        path = self._require_path(file)
        try:
            return self.read_columns(file).has_video_and_text
        except ManifestError:
            with open_table(path) as opened:
                if has_captions(opened.read(_LOOKED_AT_BYTES).decode("utf-8", "replace"), file, self._is_video):
                    raise
        return False

    def _is_row(self, cells: Iterable[str]) -> bool:
        """Return whether one of the cells names a video file."""
        return any(is_video_name(cell) or is_address(cell) or self._is_video(cell) for cell in cells)

    def _is_video(self, name: str) -> bool:
        """Return whether the source has a video file of this name, with or without its suffix and folder."""
        if not self._names:
            for file in self.source.folder.list_files("video"):
                self._names.update((PurePosixPath(file).name, PurePosixPath(strip_suffix(file)).name))
        return PurePosixPath(name).name in self._names

    def _read_unnamed_videos(self) -> Iterator[CaptionedVideo]:
        """Yield the videos of the source that no row names, without captions. Files in folders with videos that come
        from a table are not among them, since an earlier run may have written them.
        """
        folder, written = self.source.folder, self.source.extractor.target / VIDEO_FOLDER
        extracted = {(written / path).parent for path in self.source.extractor.paths}
        for file in folder.list_unread("video"):
            if (folder.path / file).parent in extracted or (place := self.source.videos.register_file(file)) is None:
                continue
            folder.mark_read(file)
            self.source.findings.add_guess(KEPT_FOR_FACTS)
            yield CaptionedVideo(place.video_id, place.path, ())

    def _judge_videos(
        self, opened: TableFile, file: OpenFile, columns: ColumnMap, table: str
    ) -> tuple[ColumnMap, JudgedCells]:
        """Read the rows of a table, and return its columns, with the one of videos chosen, and what its cells mean."""
        cells: dict[str, dict[str, None]] = {}
        while video := guess_columns([name for name in opened.names if name not in cells], self.source.column_names)[
            "video"
        ]:
            cells[video] = {}
        holding = set[str]()
        with suppress(ManifestError):  # reading the rows says so
            for row in opened.read_cells(file, columns, list(cells)):
                present = {name: row[name] for name in cells.keys() & row.keys()}
                for name, value in parse_list_cells(present, columns, Place(Findings(), "")).items():
                    value = value[0] if isinstance(value, list) and len(value) == 1 else value
                    if isinstance(value, MediaBytes):
                        holding.add(name)
                    elif (cell := parse_id(value)) is not None:
                        cells[name][cell] = None
        folder = PurePosixPath(table).parent.as_posix()
        judged = {name: self.source.videos.judge_cells(listed, folder) for name, listed in cells.items()}
        best = max(cells, key=lambda name: (name in holding or bool(judged[name].files), judged[name].has_usable))
        return guess_columns(opened.names, self.source.column_names, by_content={"video": best}), judged[best]

    def _require_path(self, table: str) -> Path:
        try:
            resolve_inside(self.source.folder.path, table)
        except PathRejected as refused:
            # A table that the user names may be a link out of its folder.
            if table in self.source.folder.list_files("table"):
                raise ManifestError(
                    f"{table}: it is no longer a regular file inside the folder: run the same command again"
                ) from refused
        # The name of a link shows the format, and that of the file it leads to may not.
        return self.source.folder.path / table

    def _build_video(
        self, fields: Mapping[str, Any], columns: ColumnMap, judged: JudgedCells, table: str, number: int
    ) -> CaptionedVideo | None:
        row = Place(self.source.findings, f"{table}:{number}")
        origin = _take_origin(fields)
        own = {name: value for name, value in fields.items() if name not in origin}
        is_named = not columns.column_names.by_field.keys().isdisjoint(TIDY_COLUMNS)
        tidied = own if is_named else tidy_captions(own)
        if tidied is not own:
            others = {name: column for name, column in columns.by_field.items() if name not in TIDY_COLUMNS}
            tidy = {name: MappedColumn(name, "content") for name in TIDY_COLUMNS if name in tidied}
            columns = replace(columns, by_field=others | tidy)
        cells = parse_list_cells(tidied, columns, row)
        captions, pairs = parse_row(cells, columns, row)
        found = self._find_video({**fields, **cells}, columns, judged, table, number) if captions or pairs else None
        if found is None:
            return None
        return CaptionedVideo(found.video_id, found.path, captions, origin, where=row.where, pairs=pairs)

    def _find_video(
        self, fields: Mapping[str, Any], columns: ColumnMap, judged: JudgedCells, table: str, number: int
    ) -> VideoEntry | None:
        row, cell = f"{table}:{number}", fields.get(columns["video"] or "")
        if isinstance(cell, list):
            if len(cell) != 1:
                self.source.findings.leave_out(Reason.NOT_ONE_VIDEO, row)
                return None
            cell = cell[0]
        own_id = parse_id(value) if (value := fields.get(columns["video_id"] or "")) is not None else None
        if value is not None and own_id is None:
            self.source.findings.leave_out(Reason.BAD_VIDEO_ID, row)
            return None
        if isinstance(cell, MediaBytes):
            return self._extract_video(cell, own_id, table, number)
        if (name := parse_id(cell)) is None:
            is_empty = cell is None or isinstance(cell, str)
            self.source.findings.leave_out(Reason.NO_VIDEO if is_empty else Reason.VIDEO_NOT_TEXT, row)
            return None
        return self.source.videos.register_cell(name, judged, own_id, row)

    def _extract_video(self, media: MediaBytes, own_id: str | None, table: str, number: int) -> VideoEntry | None:
        row = f"{table}:{number}"
        wanted = f"{strip_suffix(table)}/{choose_file_name(media, number)}"
        if not self.source.extractor.accept_path(wanted):
            return None
        staged = self.source.extractor.stage_video(io.BytesIO(media.content), len(media.content), row)
        return self.source.extractor.keep_video(staged, wanted, own_id, row)


def _take_origin(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a row that are the origin of its video, without values that an origin cannot have."""
    present = {name: fields[name] for name in ORIGIN_FIELDS if fields.get(name) is not None}
    nowhere = Place(Findings(), "")
    return {
        name: value for name, value in present.items() if nowhere.accept_row("video", {"video_id": "v", name: value})
    }
