"""Facts about the texts of a shard, each distinct text once. Knows no Dagster."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy.engine import Engine

from assets.sources.base import Tell
from db.evidence.facts import store_text_facts, undescribed_texts
from db.manifest.datasets import Dataset
from metrics_core.facts.languages import language_of
from metrics_core.facts.texts import TEXT_RULE, text_facts
from metrics_core.models.sentence_splitter import RuleSplitter

# Texts between two writes: a crash costs at most so many.
TEXTS_PER_WRITE = 1_000


def describe_texts(engine: Engine, dataset: Dataset, shard: int, tell: Tell) -> int:
    """Describe the texts of a shard that lack facts by the present rule; returns their number."""
    split, n = RuleSplitter().split, 0
    while True:
        with engine.connect() as connection:
            texts = undescribed_texts(connection, TEXT_RULE, dataset.dataset_id, shard, TEXTS_PER_WRITE)
        if not texts:
            return n
        facts = {key: asdict(text_facts(text, split, language_of)) for key, text in texts.items()}
        store_text_facts(engine, TEXT_RULE, facts)
        n += len(facts)
        tell(f"{n} texts described")
