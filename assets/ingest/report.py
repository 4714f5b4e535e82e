"""The counts of an ingest, and their plain form for `--json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from assets.ingest.manifest_tables import MANIFEST_TABLES


def _count_nothing() -> Counter[str]:
    return Counter({table.name: 0 for table in MANIFEST_TABLES.values()})


@dataclass(slots=True)
class IngestReport:
    """The counts of an ingest: rows `accepted` (new or changed) and rows `unchanged`, by manifest table, and the number
    of `rejected` rows. Both counters name every table of a manifest, even where its count is 0. notes: sentences on
    files that were read in another encoding, and on named columns that no table has. A running ingest adds to them.
    """

    dataset: str
    accepted: Counter[str] = field(default_factory=_count_nothing)
    unchanged: Counter[str] = field(default_factory=_count_nothing)
    rejected: int = 0
    notes: list[str] = field(default_factory=list)

    def count_shared(self, n_videos: int, notes: Iterable[str]) -> None:
        """Count videos as accepted that were stored before the tables were ingested, which found them unchanged."""
        name = MANIFEST_TABLES["video"].name
        n = min(n_videos, self.unchanged[name])
        self.accepted[name] += n
        self.unchanged[name] -= n
        self.notes += notes

    def as_dict(self) -> dict[str, Any]:
        """Return the report as a dict of dataset, accepted, unchanged and rejected, as `--json` prints it."""
        return {
            "dataset": self.dataset,
            "accepted": dict(self.accepted),
            "unchanged": dict(self.unchanged),
            "rejected": self.rejected,
        }
