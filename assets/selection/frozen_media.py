"""The files of a selection's videos: each is the one that was frozen, byte for byte."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

from sqlalchemy.engine import Engine

from assets.media.address import is_address
from assets.media.files import IngestedFileUnreadable, ingested_file
from assets.selection.formats.json_lines import as_objects
from assets.selection.reading import Batch, Reading, counted
from assets.sources.base import Tell
from db.selection.exports import export_batch, videos_now
from db.selection.recipes import SelectionError


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
