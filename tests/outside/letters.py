"""The metric `letters`: how many letters a model counts in a caption, as a share of the most that a setting allows.

All that a package must bring along: a table, a source that fills it, a scorer, a setting. The entry point is in
`test_outside_metric.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import sqlalchemy as sa
from pydantic import BaseModel, Field
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection, Engine

from reelsieve.metrics import (
    TEXT,
    Evidence,
    Examination,
    Explanation,
    ModelIdentity,
    Order,
    Outcome,
    PendingSample,
    Source,
    sample,
)

letter_count = sa.Table(
    "letter_count",
    sa.MetaData(),
    sa.Column("sample_id", sa.ForeignKey(sample.c.sample_id, ondelete="CASCADE"), primary_key=True),
    sa.Column("text_sha256", sa.LargeBinary, nullable=False),
    sa.Column("n", sa.Integer, nullable=False),
)


class LetterSettings(BaseModel):
    letters_most: int = Field(default=200, ge=1)


class LetterCounts(Source[Mapping[int, int]]):
    asset: ClassVar[str] = "letter_count"
    description: ClassVar[str] = "Letters of every caption of the shard that has no letters score."
    group: ClassVar[str] = "letters"
    reads: ClassVar[tuple[str, ...]] = ("sample",)
    checks: ClassVar[Mapping[str, str]] = {"letters_counted": "No count is negative."}
    tables: ClassVar[tuple[sa.Table, ...]] = (letter_count,)
    inputs = (TEXT,)

    @property
    def model(self) -> ModelIdentity:
        return ModelIdentity("abacus", "1", {})

    def make(self, order: Order, sample_ids: list[int]) -> Mapping[str, int | str]:
        for samples in order.samples(sample_ids, self.inputs):
            rows = [{"sample_id": s.sample_id, "text_sha256": s.input_sha256, "n": count(s.text)} for s in samples]
            new = insert(letter_count)
            replaced = {name: new.excluded[name] for name in ("text_sha256", "n")}
            with order.engine.begin() as connection:
                connection.execute(new.on_conflict_do_update(index_elements=["sample_id"], set_=replaced), rows)
        return {"counted": len(sample_ids)}

    def load(self, engine: Engine, scorer_id: int, samples: Sequence[PendingSample]) -> Mapping[int, int]:
        wanted = {s.sample_id: s.input_sha256 for s in samples}
        with engine.connect() as connection:
            rows = connection.execute(sa.select(letter_count).where(letter_count.c.sample_id.in_(wanted))).all()
        found = {row.sample_id: row.n for row in rows if bytes(row.text_sha256) == wanted[row.sample_id]}
        if len(found) < len(wanted):
            raise self.missing(f"{len(wanted) - len(found)} captions are not counted")
        return found

    def try_out(self) -> str:
        return f"counts {count('two words')} letters in two words"

    def examine(self, order: Order) -> Examination:
        with order.engine.connect() as connection:
            negative = connection.scalar(sa.select(sa.func.count()).where(letter_count.c.n < 0)) or 0
        return Examination({"letters_counted": negative == 0}, {"negative": negative})


class LetterScorer:
    metric: ClassVar[str] = "letters"
    code_version: ClassVar[str] = "1"
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    inputs = (TEXT,)
    rests_on: ClassVar[tuple[type[Source[Any]], ...]] = (LetterCounts,)
    settings: ClassVar[type[BaseModel]] = LetterSettings

    def __init__(self, settings: LetterSettings) -> None:
        self.counts = LetterCounts()
        self.sources: tuple[Source[Any], ...] = (self.counts,)
        self._most = settings.letters_most

    @classmethod
    def from_settings(cls, settings: LetterSettings) -> LetterScorer:
        return cls(settings)

    def models(self) -> dict[str, Any]:
        return {"counter": self.counts.model.as_dict()}

    def params(self) -> dict[str, Any]:
        return {"most": self._most}

    def score(self, samples: Sequence[PendingSample], evidence: Evidence) -> list[Outcome]:
        counts = evidence[self.counts]
        return [
            Outcome(min(1.0, counts[s.sample_id] / self._most), components={"n": counts[s.sample_id]}) for s in samples
        ]

    def explain(
        self, connection: Connection, sample: PendingSample, evidence: Evidence, components: Mapping[str, Any]
    ) -> Explanation:
        return Explanation([f"{evidence[self.counts][sample.sample_id]} letters of at most {self._most}"])


def count(text: str) -> int:
    return sum(character.isalpha() for character in text)
