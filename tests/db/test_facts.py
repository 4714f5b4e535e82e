"""Facts about texts: each distinct text once, never those of another text, beside the scores."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.sources.facts import measure_texts
from db.evidence.facts import list_undescribed_texts, load_fact_spreads, store_text_facts
from db.manifest.datasets import Dataset
from db.schema import text_fact
from metrics_core.facts.texts import TEXT_FACTS_VERSION
from tests.db.builders import add_sample, add_video, change_text, make_dataset

TEXTS = {"s0": "Two men wrestle.", "s1": "Two men wrestle.", "s2": "The video shows a brown dog on grass. It runs."}


@pytest.fixture
def clips(engine: Engine) -> Dataset:
    dataset = make_dataset(engine)
    video_id = add_video(engine, dataset, "v")
    for key, text in TEXTS.items():
        add_sample(engine, dataset, video_id, key, text)
    return dataset


def shown(engine: Engine, columns: str) -> dict[str, tuple[Any, ...]]:
    with engine.connect() as connection:
        rows = connection.exec_driver_sql(f"SELECT sample, {columns} FROM sample_scores ORDER BY sample")
        return {row[0]: tuple(row[1:]) for row in rows}


def describe(engine: Engine, dataset: Dataset) -> int:
    return sum(measure_texts(engine, dataset, shard, lambda _: None) for shard in range(dataset.n_shards))


def test_every_distinct_text_is_described_once(engine: Engine, clips: Dataset) -> None:
    assert describe(engine, clips) == 2
    assert describe(engine, clips) == 0
    assert shown(engine, "words, sentences, words_per_second, boilerplate") == {
        "s0": (3, 1, 0.75, 0.0),
        "s1": (3, 1, 0.75, 0.0),
        "s2": (10, 2, 2.5, 0.5),
    }


def test_a_changed_text_has_no_facts_of_the_old_one(engine: Engine, clips: Dataset) -> None:
    assert shown(engine, "words") == {"s0": (None,), "s1": (None,), "s2": (None,)}
    describe(engine, clips)
    with engine.connect() as connection:
        changed = connection.scalar(sa.text("SELECT sample_id FROM sample WHERE key = 's0'"))
    change_text(engine, changed, "One man.")
    assert shown(engine, "words, language") == {"s0": (None, None), "s1": (3, None), "s2": (10, "en")}
    assert describe(engine, clips) == 1
    assert shown(engine, "words")["s0"] == (2,)


def test_a_new_rule_describes_everything_anew(engine: Engine, clips: Dataset) -> None:
    describe(engine, clips)
    shard = next(shard for shard in range(clips.n_shards) if _pending(engine, "another rule", clips, shard))
    assert len(_pending(engine, "another rule", clips, shard)) == 2
    assert len(_pending(engine, "another rule", clips, shard, most=1)) == 1
    (key, text), *_ = _pending(engine, "another rule", clips, shard).items()
    facts = dict.fromkeys(("repetition", "boilerplate", "digit_share", "name_share", "language"))
    store_text_facts(engine, "another rule", {key: {"words": 99, "sentences": 9, **facts}})
    assert text not in _pending(engine, "another rule", clips, shard).values()
    with engine.connect() as connection:
        rules = connection.scalars(sa.select(text_fact.c.rule).order_by(text_fact.c.rule)).all()
    assert rules == [TEXT_FACTS_VERSION, "another rule"]


def test_the_spread_of_each_fact(engine: Engine, clips: Dataset) -> None:
    describe(engine, clips)
    with engine.connect() as connection:
        spreads = {spread.fact: tuple(spread[1:]) for spread in load_fact_spreads(connection, clips.name)}
        empty = {spread.fact: tuple(spread[1:]) for spread in load_fact_spreads(connection, "nothing")}
    assert spreads["words"] == (3, 3.0, 3.0, 10.0, None)
    assert spreads["language"] == (1, None, None, None, "en")
    assert set(empty.values()) == {(0, None, None, None, None)}


def _pending(engine: Engine, rule: str, dataset: Dataset, shard: int, most: int = 10) -> dict[bytes, str]:
    with engine.connect() as connection:
        return list_undescribed_texts(connection, rule, dataset.dataset_id, shard, most)
