"""What an ingest has come to, in counts: the value that ingest returns, and its plain form for `--json`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from assets.ingest.manifest_tables import MANIFEST_TABLES


@dataclass(frozen=True, slots=True)
class IngestReport:
    """The counts of an ingest: rows new or changed and rows already stored, by manifest table, and rows refused.

    Both counters name every table of a manifest, even where its count is 0.
    """

    dataset: str
    accepted: Counter[str]
    unchanged: Counter[str]
    rejected: int

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "dataset": self.dataset,
            "accepted": dict(self.accepted),
            "unchanged": dict(self.unchanged),
            "rejected": self.rejected,
        }


@dataclass(slots=True)
class IngestCounts:
    """The counts of an ingest that is under way, by manifest table."""

    accepted: Counter[str] = field(default_factory=Counter)
    unchanged: Counter[str] = field(default_factory=Counter)
    rejected: int = 0

    def build_report(self, dataset: str) -> IngestReport:
        """Return the counts so far as the report of an ingest into this dataset."""
        names = [table.name for table in MANIFEST_TABLES.values()]
        accepted, unchanged = (Counter({name: n[name] for name in names}) for n in (self.accepted, self.unchanged))
        return IngestReport(dataset, accepted, unchanged, self.rejected)
