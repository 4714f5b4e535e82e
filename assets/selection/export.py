"""Exports a frozen selection as a file or a folder, which is written whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, BinaryIO

from sqlalchemy.engine import Engine

from assets.media.address import is_address
from assets.media.files import IngestedFileUnreadable, ingested_file
from assets.selection.formats.hugging_face import write_hugging_face
from assets.selection.formats.json_lines import as_objects, write_json_lines
from assets.selection.formats.label_studio import write_label_studio
from assets.selection.formats.parquet import write_parquet
from assets.selection.formats.spreadsheet import write_csv
from assets.selection.formats.web_dataset import WHOLE_SHARDS, Limits, complete_shards, write_shards
from assets.selection.partial_file import partial_file, remove_abandoned
from assets.selection.reading import Batch, Reading, all_batches, as_json, counted, prepare
from assets.sources.base import Tell
from db.selection.exports import export_batch, videos_now
from db.selection.recipes import SelectionError
from metrics_core.frames import content_sha256

# Folders that exist whole or not at all: until a folder is complete, its name ends in `.partial`.

SUFFIX = ".partial"
# Which export the folder is to become, and the lock of whoever writes it; both go when it is complete.
_MARK, _NEW_MARK, _LOCK = ".export.json", ".export.json.new", ".lock"


@contextmanager
def partial_folder(target: Path, export: Mapping[str, Any], *, resumable: bool) -> Iterator[Path]:
    """A folder beside `target` that gets its name when the block ends well.

    export: plain data that tells this export from others, its `format` too. A folder that is resumable stays when the
    block fails, and is given to the same export again as it was left; any other one is removed, or emptied where a
    killed process left it. Raises OSError, and SelectionError where the folder is in the way or another process writes
    it.
    """
    folder = target.with_name(target.name + SUFFIX)
    try:
        folder.mkdir()
    except FileExistsError:
        _check_ours(folder)
    with _held(folder):
        _check_same(folder, export, resumable=resumable)
        try:
            if not resumable:
                _empty(folder)
            _write_mark(folder, export)
            yield folder
        except BaseException:
            if not resumable or not (folder / _MARK).exists():
                shutil.rmtree(folder, ignore_errors=True)
            raise
        _flush(folder)
        folder.rename(target)
        _flush(target.parent)
        for name in (_MARK, _LOCK):
            (target / name).unlink()


def _check_ours(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else {""}
    if _MARK not in names and names - {_LOCK, _NEW_MARK}:
        raise SelectionError(f"{folder} is in the way, and no half export: move it, or give another name")


def _check_same(folder: Path, export: Mapping[str, Any], *, resumable: bool) -> None:
    """An export that is not resumed may begin anew where its own kind left a folder."""
    mark = folder / _MARK
    if not mark.exists():
        return
    known = json.loads(mark.read_text())
    if known != export and (resumable or known["format"] != export["format"]):
        raise SelectionError(f"{folder} holds the half of another export: remove it, or give another name")


@contextmanager
def _held(folder: Path) -> Iterator[BinaryIO]:
    with (folder / _LOCK).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SelectionError(
                f"another process is writing {folder}: wait until it ends, or give another name"
            ) from None
        except OSError:
            pass  # some file systems of clusters have no locks
        yield file


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != _LOCK:
            path.unlink()


def _write_mark(folder: Path, export: Mapping[str, Any]) -> None:
    new = folder / _NEW_MARK
    new.write_text(json.dumps(export))
    new.replace(folder / _MARK)


def _flush(folder: Path) -> None:
    """Put the names of a folder's files on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # not every file system can
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Where an export may be written: checked before the work, so that a path that cannot be costs nothing.


class ExportFormat(str, Enum):
    """How an export is written: the first four are files, the others folders."""

    PARQUET = "parquet"
    JSON_LINES = "jsonl"
    CSV = "csv"
    LABEL_STUDIO = "label-studio"
    WEB_DATASET = "webdataset"
    HUGGING_FACE = "hf"


BY_SUFFIX: Mapping[str, ExportFormat] = {
    ".parquet": ExportFormat.PARQUET,
    ".jsonl": ExportFormat.JSON_LINES,
    ".csv": ExportFormat.CSV,
    ".json": ExportFormat.LABEL_STUDIO,
}
PASSPORT_SUFFIX = ".passport.json"


def format_of(path: Path, form: ExportFormat | None) -> ExportFormat:
    """The format that is given, or else the one that the suffix tells.

    Raises SelectionError where the suffix tells none, or another one than is given.

    >>> format_of(Path("best.csv"), None).value, format_of(Path("clips"), ExportFormat.HUGGING_FACE).value
    ('csv', 'hf')
    """
    told = BY_SUFFIX.get(path.suffix)
    if form is None and told is None:
        raise SelectionError(
            f"{path.name}: cannot export to {path.suffix or 'a file without suffix'}: use .parquet, .jsonl or .csv, or "
            "name a --format"
        )
    if form is not None and told not in (None, form):
        raise SelectionError(f"{path.name}: the suffix says {told.value}, and the format is {form.value}: change one")
    return form or BY_SUFFIX[path.suffix]


def export_target(path: Path, form: ExportFormat | None = None, *, replace: bool = False) -> Path:
    """Check that an export can be written to this path, and return it as an absolute one.

    replace: whether a regular file may exist there. Raises SelectionError for a format that cannot be told, for a path
    that exists, for a name that the file system refuses, and for a folder that is missing or not writable.
    """
    found = format_of(path, form)
    try:
        target = path.expanduser().resolve()
        if not target.parent.is_dir():
            raise SelectionError(f"{target.parent}: no such folder: make it first")
        _check_free(path, target, may_be_file=replace and found in BY_SUFFIX.values())
        if not os.access(target.parent, os.W_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        for suffix in _further(found):
            beside = target.with_name(target.name + suffix)
            if suffix == PASSPORT_SUFFIX:
                _check_free(beside, beside, may_be_file=replace or _is_left_over(beside, target))
            _status(beside)
    except (OSError, RuntimeError) as error:  # RuntimeError: the home folder of nobody
        raise cannot_write(path, error) from error
    return target


def cannot_write(path: Path, error: OSError | RuntimeError, stays: str = "") -> SelectionError:
    """The sentence for an error of the file system. `stays` says what is kept."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    shown = f"{str(path)[:80]}…" if len(str(path)) > 200 else path
    remedy = f"{stays}: mend that and run the same command again" if stays else "mend that or give another name"
    return SelectionError(f"{shown}: cannot be written ({reason}): {remedy}")


def _check_free(path: Path, target: Path, *, may_be_file: bool) -> None:
    status = _status(target)
    if status is None or (may_be_file and stat.S_ISREG(status.st_mode)):
        return
    if stat.S_ISREG(status.st_mode):
        kind = "it exists"
    else:
        kind = "it is a folder" if stat.S_ISDIR(status.st_mode) else "it is no regular file"
    raise SelectionError(f"{path}: cannot export to it, because {kind}: move it away, or give another name")


def _is_left_over(beside: Path, target: Path) -> bool:
    """Whether this is the passport of an export to `target` that was killed just before the file got its name."""
    if target.exists() or not beside.is_file():
        return False
    try:
        passport = json.loads(beside.read_bytes())
        return bool(passport["format"] in BY_SUFFIX.values() and passport["files"][0]["name"] == target.name)
    except (ValueError, TypeError, LookupError):
        return False


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _further(form: ExportFormat) -> tuple[str, ...]:
    """What is added to the target's name for the files and folders that come with it."""
    if form is ExportFormat.PARQUET:
        return ()
    return (PASSPORT_SUFFIX,) if form in BY_SUFFIX.values() else (SUFFIX,)


# The files of a selection's videos: each is the one that was frozen, byte for byte.


class MediaGone(SelectionError):
    """The file of a row's video is missing, out of reach, or not the one that was frozen."""


class HashedFile:
    """A file that is read once, from its beginning to its end."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.size = os.fstat(file.fileno()).st_size
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        block = self._file.read(size)
        self.digest.update(block)
        return block


class MediaRows:
    """The rows of a selection behind a rank, as objects, and the files of their videos.

    No transaction stays open while files are copied: that may take hours.
    """

    def __init__(self, engine: Engine, reading: Reading, after: int, tell: Tell) -> None:
        self._engine = engine
        self._reading = reading
        self._after = after
        self._tell = tell
        self._videos: Mapping[str, Any] = {}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in counted(self._reading.frozen, self._batches(), lambda line: None, before=self._after):
            for row in as_objects(self._reading.columns, batch):
                yield row
                self._tell(f"{row['rank']:,} of {self._reading.frozen.n:,} rows")

    @contextmanager
    def open(self, row: Mapping[str, Any]) -> Iterator[HashedFile]:
        """The file of a row's video, to be read from its beginning to its end during the block.

        Raises MediaGone where it cannot be had.
        """
        try:
            with ingested_file(self._video(row)) as path, _opened(path) as file:
                yield file
                if file.digest.hexdigest() != row["content_sha256"]:
                    raise IngestedFileUnreadable("it is not the file that was frozen: put that one back")
        except IngestedFileUnreadable as error:
            named = f"row {row['rank']}, sample {row['sample']!r}, video {row['video']!r}"
            raise MediaGone(f"{named}: its file cannot be had: {error}") from None

    def _batches(self) -> Iterator[Batch]:
        after = self._after
        while True:
            with self._engine.connect() as connection:
                batch = export_batch(connection, self._reading.query, after)
                keys = {row.video for row in batch}
                self._videos = videos_now(connection, self._reading.frozen.dataset_id, keys)
            if not batch:
                return
            yield batch
            after = batch[-1].rank

    def _video(self, row: Mapping[str, Any]) -> Any:
        """The frozen file as a row of table `video`, in the state that is known of it."""
        address = row["media"]
        uri = address if is_address(address) else os.path.join(self._reading.root or "/", address)
        content = bytes.fromhex(row["content_sha256"])
        now = self._videos.get(row["video"])
        if now is not None and (now.uri, bytes(now.content_sha256 or b"")) == (uri, content):
            return now
        # The video is gone from the dataset, or has another file there: nothing but the content is known.
        size = None if is_address(uri) else _size(Path(uri))
        unknown = dict.fromkeys(("mtime_ns", "ctime_ns", "inode", "etag"))
        return SimpleNamespace(key=row["video"], uri=uri, content_sha256=content, size_bytes=size, **unknown)


@contextmanager
def _opened(path: Path) -> Iterator[HashedFile]:
    try:
        file = path.open("rb")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise IngestedFileUnreadable(f"{reason}: make it readable") from None
    with file:
        yield HashedFile(file)


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None  # whoever opens the file says why


@dataclass(frozen=True, slots=True)
class Exported:
    """A complete export. media_root: the folder that its media addresses are relative to; None without local files."""

    path: Path
    form: ExportFormat
    rows: int
    media_root: str | None


def _silent(line: str) -> None:
    pass


def export_selection(
    engine: Engine,
    selection_id: int,
    path: Path,
    form: ExportFormat | None = None,
    *,
    replace: bool = False,
    tell: Tell = _silent,
    limits: Limits = WHOLE_SHARDS,
) -> Exported:
    """Write the rows of a selection in order of rank. Without a format the suffix decides.

    replace: whether a file that is there is replaced. limits: where a shard of WebDataset ends. Partial files of killed
    exports in the same folder are removed. Raises SelectionError for an unknown selection, for a path that cannot be
    written, and for media that cannot be had.
    """
    found, target = format_of(path, form), export_target(path, form, replace=replace)
    stays = f"what is complete stays in {target.name}{SUFFIX}" if found is ExportFormat.WEB_DATASET else ""
    try:
        remove_abandoned(target.parent)
        if found is ExportFormat.WEB_DATASET:
            reading = _export_shards(engine, selection_id, target, tell, limits)
        else:
            reading = _export_rows(engine, selection_id, target, found, tell)
    except MediaGone as error:
        raise SelectionError(f"{error}; {stays}, and the same command goes on from there") from error
    except OSError as error:
        raise cannot_write(path, error, stays) from error
    return Exported(target, found, reading.frozen.n, reading.root)


def _export_rows(engine: Engine, selection_id: int, target: Path, form: ExportFormat, tell: Tell) -> Reading:
    """All that is read comes from one snapshot."""
    with (
        engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection,
        connection.begin(),
    ):
        reading = prepare(connection, selection_id, form.value)
        batches = all_batches(connection, reading, tell)
        if form is ExportFormat.PARQUET:
            with partial_file(target) as file:
                write_parquet(file, reading.columns, reading.passport, batches)
        elif form is ExportFormat.HUGGING_FACE:
            with partial_folder(target, _identity(reading), resumable=False) as folder:
                write_hugging_face(folder, reading, batches)
        else:
            _write_beside_passport(target, form, reading, batches)
    return reading


def _export_shards(engine: Engine, selection_id: int, target: Path, tell: Tell, limits: Limits) -> Reading:
    with engine.connect() as connection:
        reading = prepare(connection, selection_id, ExportFormat.WEB_DATASET.value)
    without = reading.passport["counts"]["rows_without_media"]
    if without:
        raise SelectionError(
            f"{without} of the {reading.frozen.n} rows of selection {selection_id} have a video without a file: select "
            "with --where \"video_status != 'text_only'\", or use another format"
        )
    with partial_folder(target, _identity(reading), resumable=True) as folder:
        done = complete_shards(folder)
        rows = MediaRows(engine, reading, done[-1].last_rank if done else 0, tell)
        write_shards(folder, reading.passport, rows, rows.open, limits)
    return reading


def _write_beside_passport(target: Path, form: ExportFormat, reading: Reading, batches: Iterator[Batch]) -> None:
    """The passport gets its name first: a file without one is no export of ours."""
    write = _WRITERS[form]
    with partial_file(target) as file:
        write(file, reading.columns, batches)
        file.flush()
        # On the disk before the passport has its name: what fails later is no more than a name.
        os.fsync(file.fileno())
        written = {"name": target.name, "bytes": file.tell(), "sha256": content_sha256(Path(file.name))}
        with partial_file(target.with_name(target.name + PASSPORT_SUFFIX)) as beside:
            beside.write(as_json({**reading.passport, "files": [written]}).encode())


_WRITERS = {
    ExportFormat.JSON_LINES: write_json_lines,
    ExportFormat.CSV: write_csv,
    ExportFormat.LABEL_STUDIO: write_label_studio,
}


def _identity(reading: Reading) -> dict[str, object]:
    """What tells this export from others. The same number may be another selection in another database."""
    return {
        "format": reading.passport["format"],
        "selection_id": reading.frozen.selection_id,
        "score_hash": reading.frozen.record["score_hash"],
        "columns": [column.name for column in reading.columns],
        "media_root": reading.root,
    }
