"""Opens the video files of a selection, and checks that they are byte for byte the ones that were frozen."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

from sqlalchemy.engine import Engine

from assets.media.address import is_address, is_member_address, parse_member_address
from assets.media.errors import MediaUnavailable
from assets.media.files import hold_ingested_file
from assets.progress import LineWriter
from assets.selection.export_input import Batch, ExportInput, require_all_rows
from assets.selection.formats.json_lines import build_row_objects
from db.selection.exports import load_current_videos, load_export_batch
from db.selection.recipes import SelectionError


class HashedFile:
    """A file that is read once from its beginning to its end, and hashed while it is read. size: its bytes when it was
    opened. digest: the SHA-256 of the bytes that were read so far.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.size = os.fstat(file.fileno()).st_size
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """Read and return the next bytes, at most `size` (all that are left for -1), and add them to the digest. b"" at
        the end.
        """
        block = self._file.read(size)
        self.digest.update(block)
        return block


class MediaRows:
    """An iterable over the rows of a selection, as dicts by column, which also opens their video files. The rows are
    read in batches, and no transaction stays open while files are copied, which may take hours.
    """

    def __init__(self, engine: Engine, source: ExportInput, tell: LineWriter) -> None:
        self._engine = engine
        self._source = source
        self._tell = tell
        self._videos: Mapping[str, Any] = {}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the rows in order of rank. Raises SelectionError at the end if rows are missing."""
        for batch in require_all_rows(self._source.frozen, self._batches(), lambda line: None):
            for row in build_row_objects(self._source.columns, batch):
                yield row
                self._tell(f"{row['rank']:,} of {self._source.frozen.n:,} rows")

    @contextmanager
    def open_media(self, row: Mapping[str, Any]) -> Iterator[HashedFile]:
        """Open the video file of a row for the block, to be read to its end. A remote file is copied to this machine
        first. Raises SelectionError where it cannot be read, and at the end of the block where its content is not the
        frozen one.
        """
        try:
            with hold_ingested_file(self._find_video(row)) as held, _open_hashed(held.path) as file:
                yield file
                if held.is_hashed and file.digest.hexdigest() != row["content_sha256"]:
                    raise MediaUnavailable(
                        "unusable", "it has changed since the selection was made: restore the original file"
                    )
        except MediaUnavailable as error:
            described_row = f"row {row['rank']}, sample {row['sample']!r}, video {row['video']!r}"
            raise SelectionError(f"{described_row}: its file cannot be exported: {error}") from None

    def _batches(self) -> Iterator[Batch]:
        """Yield the rows in batches, and load the present state of their videos."""
        after = 0
        while True:
            with self._engine.connect() as connection:
                batch = load_export_batch(connection, self._source.query, after)
                keys = {row.video for row in batch}
                self._videos = load_current_videos(connection, self._source.frozen.dataset_id, keys)
            if not batch:
                return
            yield batch
            after = batch[-1].rank

    def _find_video(self, row: Mapping[str, Any]) -> Any:
        """Return the frozen file as a row of table `video`, with its size and times if the dataset still has
        this file.
        """
        uri = self._find_uri(row["media"])
        content = bytes.fromhex(row["content_sha256"])
        current = self._videos.get(row["video"])
        if current is not None and (current.uri, bytes(current.content_sha256 or b"")) == (uri, content):
            return current
        # The video is gone from the dataset, or has another file there: nothing but the content is known.
        size = None if is_address(uri) else _find_size(Path(uri))
        unknown = dict.fromkeys(("mtime_ns", "ctime_ns", "inode", "etag", "member_offset"))
        return SimpleNamespace(key=row["video"], uri=uri, content_sha256=content, size_bytes=size, **unknown)

    def _find_uri(self, media: str) -> str:
        """Return the path or address of a file as the database has it."""
        root = self._source.media_root or "/"
        if is_member_address(media):
            member = parse_member_address(media)
            inside = replace(member, container=os.path.join(root, member.container))
            return media if is_address(member.container) else str(inside)
        return media if is_address(media) else os.path.join(root, media)


@contextmanager
def _open_hashed(path: Path) -> Iterator[HashedFile]:
    """Open a file to be hashed while it is read. Raises MediaUnavailable."""
    try:
        file = path.open("rb")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise MediaUnavailable("unusable", f"{reason}: make it readable") from None
    with file:
        yield HashedFile(file)


def _find_size(path: Path) -> int | None:
    """Return a file's size in bytes; None where it cannot be read."""
    try:
        return path.stat().st_size
    except OSError:
        return None  # opening the file raises with the reason
