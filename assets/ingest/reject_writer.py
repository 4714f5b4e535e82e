"""The refused rows of a file into table `ingest_reject`, of which no file can make more rows than a limit."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from assets.ingest.hygiene import storable
from assets.ingest.rejects import Code, Reject
from assets.ingest.rows import RawRow
from assets.media.address import hide_credentials, is_address, without_credentials
from db.manifest.rejects import RejectRow
from db.manifest.store import IngestStore

# Refused rows of one file with one code. A CSV file of three megabytes can hold more than a million empty records.
MAX_LISTED = 10_000


@dataclass(slots=True)
class RejectWriter:
    """Stores the refused rows of one file: the first rows of every code one by one, the rest as one count per code."""

    store: IngestStore
    _counts: Counter[Code] = field(default_factory=Counter)
    _first_unlisted: dict[Code, tuple[RawRow, Reject]] = field(default_factory=dict)

    def add(self, refused: Sequence[tuple[RawRow, Reject]]) -> None:
        """Store the rows up to MAX_LISTED per code, and count the others. Call it in a transaction."""
        listed = []
        for row, reject in refused:
            self._counts[reject.code] += 1
            if self._counts[reject.code] <= MAX_LISTED:
                listed.append(_record(row, reject.code, reject.reason, 1))
            else:
                self._first_unlisted.setdefault(reject.code, (row, reject))
        self.store.write_rejects(listed)

    def finish(self) -> None:
        """Store one row per code for all rows that `add` only counted, at the line of the first. Call it last."""
        records = []
        for code, (row, reject) in self._first_unlisted.items():
            n_unlisted = self._counts[code] - MAX_LISTED
            reason = reject.reason
            if n_unlisted > 1:
                reason += f" (and {n_unlisted - 1} rows more with code {code}, which are counted here and not listed)"
            records.append(_record(row, code, reason, n_unlisted))
        self.store.write_rejects(records)


def _record(row: RawRow, code: Code, reason: str, n_rows: int) -> RejectRow:
    return RejectRow(row.source, row.line, code, hide_credentials(reason), _raw(row), n_rows)


def _raw(row: RawRow) -> str:
    """The beginning of the row without the credentials of addresses in it."""
    path = (row.payload or {}).get("path")
    if isinstance(path, str) and is_address(path) and without_credentials(path) != path:
        # Escapes may hide an address in the text of the row.
        row_without = json.dumps({**(row.payload or {}), "path": without_credentials(path)}, ensure_ascii=False)
        return hide_credentials(storable(row_without.encode(errors="backslashreplace")))
    return hide_credentials(row.raw)
