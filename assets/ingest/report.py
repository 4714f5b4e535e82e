"""The counts of an ingest: those that it returns, and their plain form for `--json`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from assets.ingest.manifest_tables import MANIFEST_TABLES


@dataclass(frozen=True, slots=True)
class IngestReport:
    """The counts of a finished ingest: rows `accepted` (new or changed) and rows `unchanged`, by manifest table, and
    the number of `rejected` rows. Both counters name every table of a manifest, even where its count is 0.
    """

    dataset: str
    accepted: Counter[str]
    unchanged: Counter[str]
    rejected: int

    def as_dict(self) -> dict[str, Any]:
        """Return the report as a dict of dataset, accepted, unchanged and rejected, as `--json` prints it."""
        return {
            "dataset": self.dataset,
            "accepted": dict(self.accepted),
            "unchanged": dict(self.unchanged),
            "rejected": self.rejected,
        }


@dataclass(slots=True)
class IngestCounts:
    """The counts of an ingest that is still running: rows `accepted` (new or changed) and rows `unchanged`, by manifest
    table, and the number of `rejected` rows.
    """

    accepted: Counter[str] = field(default_factory=Counter)
    unchanged: Counter[str] = field(default_factory=Counter)
    rejected: int = 0

    def build_report(self, dataset: str) -> IngestReport:
        """Build the report of an ingest into the dataset of this name from the counts so far."""
        names = [table.name for table in MANIFEST_TABLES.values()]
        accepted, unchanged = (Counter({name: n[name] for name in names}) for n in (self.accepted, self.unchanged))
        return IngestReport(dataset, accepted, unchanged, self.rejected)
