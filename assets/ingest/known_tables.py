"""Tables of a manifest that the dataset holds unchanged: they are recognised by their content and skipped."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from assets.ingest.files import open_table
from assets.ingest.manifest import Manifest
from assets.media.address import is_address, is_member_address, parse_member_address
from assets.media.file_state import FileState
from db.manifest.store import IngestedTable, IngestStore

_RULES, _PART = Path(__file__).parent, 2**20


class KnownTables:
    """The tables of one ingest, compared in order with those of the last ingest. A table is known if nothing that it
    depends on has changed: its file and folder, the tables before it, the dimensions, the origin, the scales of
    ratings, the columns that the user named, the files of videos, and the code of ingest.

    A table's digest includes those of the tables before it, since its rows point to theirs, and the code of ingest,
    since other rules may refuse other rows.
    """

    def __init__(self, store: IngestStore, manifest: Manifest) -> None:
        self._store = store
        with store.open_transaction():
            self._stored, scales = store.load_ingested_tables(), store.load_scales()
        fields = (manifest.origin, scales, manifest.columns)
        declared = (sorted(manifest.dimensions), *(sorted(by_name.items()) for by_name in fields))
        self._digest = hashlib.sha256(repr((_rules_sha256(), str(manifest.folder.resolve()), declared)).encode())
        self._all_known = True
        self._tables: list[IngestedTable] = []

    def find_unchanged(self, kind: str, path: Path) -> IngestedTable | None:
        """Return the record of a table as it was last ingested, or None if it must be ingested again, and then
        recorded. Call it for every table in order: a changed table makes all later ones count as changed. The table's
        file is only read where it may be unchanged.

        A table of videos is also changed where a video's file is another one, was refused or did not decode, or lies at
        an address.
        """
        stored = self._stored.get(kind)
        if not self._all_known or stored is None:
            self._all_known = False
            return None
        before, content = self._digest.copy(), hashlib.sha256()
        with open_table(path) as file:
            while part := file.read(_PART):
                content.update(part)
        self.record(kind, path.name, content.digest(), stored.n_rows, stored.n_rejected)
        if self._tables[-1] == stored and (kind != "video" or self._media_are_same(stored)):
            return stored
        self._digest, self._all_known = before, False
        self._tables.pop()
        return None

    def record(self, kind: str, file_name: str, content_sha256: bytes, n_rows: int, n_rejected: int) -> None:
        """Note the content of a table's file that was ingested, and its counts of rows and refused rows, for
        `store_records`.
        """
        self._digest.update(repr((kind, file_name, content_sha256)).encode())
        self._tables.append(IngestedTable(kind, self._digest.digest(), n_rows, n_rejected))

    def store_records(self) -> None:
        """Store the tables that `record` noted in the database, for the next ingest; they replace those of the last
        one.
        """
        with self._store.open_transaction():
            self._store.replace_ingested_tables(self._tables)

    def _media_are_same(self, stored: IngestedTable) -> bool:
        """Return whether no video would be read again; a refused one, or one that did not decode, always would."""
        if stored.n_rejected:
            return False
        with self._store.open_transaction():
            for video in self._store.load_video_files():
                # A store, or a root that may lead elsewhere now, is always asked.
                path = parse_member_address(video.uri).container if is_member_address(video.uri) else video.uri
                if video.status == "undecodable" or is_address(path):
                    return False
                try:
                    if not FileState.build_from_stat(os.stat(path)).matches(video):
                        return False
                except OSError:
                    return False
        return True


def _rules_sha256() -> str:
    """Compute a digest of the code that decides about rows."""
    digest = hashlib.sha256()
    for path in sorted(_RULES.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
