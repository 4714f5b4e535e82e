"""One more source: how many vowels a model counts in every distinct text, in a table of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import ClassVar

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Engine

from reelsieve.metrics import TEXT, Batch, ModelIdentity, Source, Table

vowel_count = sa.Table(
    "vowel_count",
    sa.MetaData(),
    sa.Column("model_id", sa.BigInteger, primary_key=True),
    sa.Column("text", sa.Text, primary_key=True),
    sa.Column("n", sa.Integer, nullable=False),
)


def load(engine: Engine, model_id: int, texts: Collection[str]) -> Mapping[str, int]:
    query = sa.select(vowel_count.c.text, vowel_count.c.n)
    with engine.connect() as connection:
        rows = connection.execute(query.where(vowel_count.c.model_id == model_id, vowel_count.c.text.in_(texts)))
        return {row.text: row.n for row in rows}


def save(engine: Engine, model_id: int, run_id: str, counts: Mapping[str, int]) -> None:
    new = insert(vowel_count)
    replaced = new.on_conflict_do_update(index_elements=["model_id", "text"], set_={"n": new.excluded.n})
    with engine.begin() as connection:
        connection.execute(replaced, [{"model_id": model_id, "text": text, "n": n} for text, n in counts.items()])


class VowelCounts(Source[Mapping[str, int]]):
    asset, group, reads = "vowel_count", "vowels", ("sample",)
    description: ClassVar[str] = "Vowels of every text."
    checks: ClassVar[Mapping[str, str]] = {"vowels_counted": "Every text has its count."}
    tables, table = (vowel_count,), Table(load, save)
    noun, product, progress = "text", "vowels", "{done} of {total} texts read"
    inputs = (TEXT,)
    model = ModelIdentity("abacus", "1", {})  # type: ignore[assignment]  # known from the start

    def keys(self, batch: Batch) -> Iterator[str]:
        return (sample.text for sample in batch.samples)

    def compute(self, keys: Sequence[str], batch: Batch) -> Iterator[Mapping[str, int]]:
        for text in keys:
            yield {text: sum(letter in "aeiou" for letter in text)}

    def is_final(self, value: int) -> bool:
        return value > 0

    def try_out(self) -> str:
        return "counts"
