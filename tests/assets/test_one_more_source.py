"""A source of sixty lines has all that follows from its declaration, with a database and without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from assets.sources.base import Batch, Evidence, Examination, MissingEvidence, Order
from db.scores.pending import list_shard_samples, load_samples
from tests.assets.manifests import candidate
from tests.assets.verifying import Bench, Crash
from tests.assets.vowels import VowelCounts, vowel_count

TEXTS = {"one": "a dog", "two": "a dog", "none": "hm", "more": "a green tree"}
COUNTS = {"a dog": 2, "hm": 0, "a green tree": 5}


class Dying(VowelCounts):
    """Dies after so many texts."""

    def compute(self, keys: Sequence[str], batch: Batch) -> Iterator[Mapping[str, int]]:
        yield from super().compute(keys[:1], batch)
        raise Crash


@pytest.fixture
def bench(engine: Engine, tmp_path: Path) -> Bench:
    vowel_count.create(engine)
    bench = Bench(engine, tmp_path)
    bench.ingest(["v"], captions=[candidate(key, "v", text) for key, text in TEXTS.items()])
    return bench


def ids_of(bench: Bench) -> list[int]:
    with bench.engine.connect() as connection:
        return list_shard_samples(connection, bench.dataset.dataset_id, 0)


def test_it_is_made_stored_loaded_and_examined(bench: Bench) -> None:
    source, told, ids = VowelCounts(), list[str](), ids_of(bench)
    order = Order(bench.engine, bench.dataset, 0, 0, "run", told.append)
    with bench.engine.connect() as connection:
        samples = load_samples(connection, ids, source.inputs)
        source.pending = lambda *_: ids  # type: ignore[method-assign]  # no scorer asks
        assert source.model_id(connection) is None
    with pytest.raises(MissingEvidence, match=r"^All 3 texts have no vowels of abacus: materialise vowel_count for"):
        source.load(bench.engine, 0, samples)
    assert source.examine(order) == Examination({"vowels_counted": False}, {"missing": 3})
    assert source.make(order, ids) == {"model": "abacus"}
    assert told == [f"{done} of 3 texts read" for done in range(4)]
    assert source.load(bench.engine, 0, samples) == COUNTS
    assert source.examine(order).passed == {"vowels_counted": True}
    # What is not final is computed again, and nothing else.
    assert source.make(order, ids)
    assert told[4:] == [f"{done} of 1 texts read" for done in range(2)]
    assert (source.asks_servers, source.forecast(order, ids)) == (False, ())


def test_a_crash_keeps_what_was_stored(bench: Bench) -> None:
    told = list[str]()
    order = Order(bench.engine, bench.dataset, 0, 0, "run", told.append)
    with pytest.raises(Crash):
        Dying().make(order, ids_of(bench))
    VowelCounts().make(order, ids_of(bench))
    assert told == [*(f"{done} of 3 texts read" for done in (0, 1)), *(f"{done} of 2 texts read" for done in range(3))]


def test_without_a_database_it_gives_the_same(bench: Bench) -> None:
    with bench.engine.connect() as connection:
        samples = load_samples(connection, ids_of(bench), VowelCounts.inputs)
    assert VowelCounts().ask(samples, lambda _: [], Evidence({})) == COUNTS
    assert bench.count("vowel_count") == 0
