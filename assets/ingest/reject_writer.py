"""Refused rows of a file, stored in table `ingest_reject` up to a limit for each code."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from assets.ingest.hygiene import format_raw_row
from assets.ingest.rejects import Code, Reject
from assets.ingest.rows import RawRow
from assets.media.address import hide_address_credentials, hide_credentials, is_address
from assets.words.text import format_count
from db.manifest.rejects import RejectRow
from db.manifest.store import IngestStore

# Refused rows of one file with one code. A CSV file of three megabytes can hold more than a million empty records.
MAX_ROWS_PER_CODE = 10_000


@dataclass(slots=True)
class RejectWriter:
    """A writer that stores the refused rows of one file in ingest_reject. The first 10,000 with a code are stored one
    by one, the others as one row with their number.
    """

    store: IngestStore
    _counts: Counter[Code] = field(default_factory=Counter)
    _first_unlisted: dict[Code, tuple[RawRow, Reject]] = field(default_factory=dict)

    def write_rows(self, refused: Sequence[tuple[RawRow, Reject]]) -> None:
        """Store refused rows, up to 10,000 of a code in all calls, and count the others. Credentials in addresses are
        hidden. The store needs an open transaction.
        """
        listed = []
        for row, reject in refused:
            self._counts[reject.code] += 1
            if self._counts[reject.code] <= MAX_ROWS_PER_CODE:
                listed.append(_build_reject_row(row, reject.code, reject.reason, 1))
            else:
                self._first_unlisted.setdefault(reject.code, (row, reject))
        self.store.store_rejects(listed)

    def write_counts(self) -> None:
        """Store one row per code for the rows that `write_rows` only counted, with the line of the first. Call it last,
        in an open transaction.
        """
        records = []
        for code, (row, reject) in self._first_unlisted.items():
            n_unlisted = self._counts[code] - MAX_ROWS_PER_CODE
            reason = reject.reason
            if n_unlisted > 1:
                more = format_count(n_unlisted - 1, "more row")
                reason += f" (and {more} with code {code}, counted here and not listed)"
            records.append(_build_reject_row(row, code, reason, n_unlisted))
        self.store.store_rejects(records)


def _build_reject_row(row: RawRow, code: Code, reason: str, n_rows: int) -> RejectRow:
    return RejectRow(row.source, row.line, code, hide_credentials(reason), _hide_raw_credentials(row), n_rows)


def _hide_raw_credentials(row: RawRow) -> str:
    """Return the beginning of the row without the credentials of addresses in it."""
    path = (row.fields or {}).get("path")
    if isinstance(path, str) and is_address(path) and hide_address_credentials(path) != path:
        # Escapes may hide an address in the text of the row.
        row_without = json.dumps({**(row.fields or {}), "path": hide_address_credentials(path)}, ensure_ascii=False)
        return hide_credentials(format_raw_row(row_without.encode(errors="backslashreplace")))
    return hide_credentials(row.raw)
