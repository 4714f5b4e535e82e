"""What the tests of ECS share: a verifier that says what it is told, and a data set on its way from rows to scores."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.embeddings.run import embed_shard
from assets.ingest.run import ingest_folder
from assets.scores.base import ScorerSettings
from assets.scores.ecs import ECSScorer
from assets.scores.pending import pending, register, unverified
from assets.scores.run import score_shard
from assets.verdicts.run import ShardVerdicts, verify_shard
from db.manifest import Dataset, find_dataset
from metrics_core.models.nli_inputs import HypothesisTooLong
from metrics_core.models.sentence_splitter import RuleSplitter
from metrics_core.protocols import Entailments, ModelIdentity, TextEncoder
from tests.assets.manifests import Row, write_manifest
from tests.assets.test_scoring import HashEncoder

Pair = tuple[str, str]
Says = Callable[[str, str], float]


class Crash(RuntimeError):
    """What a verifier raises in the middle."""


def overlap(premise: str, hypothesis: str) -> float:
    """The share of the hypothesis's words that the premise has."""
    wanted, found = (set(re.findall(r"\w+", text.lower())) for text in (hypothesis, premise))
    return len(wanted & found) / len(wanted)


def entailed(*pairs: Pair) -> Says:
    """0.9 for these (premise, hypothesis), 0.1 for all others."""
    return lambda premise, hypothesis: 0.9 if (premise, hypothesis) in pairs else 0.1


class ToldVerifier:
    """Says of a pair what it is told, and keeps the pairs that it was asked for.

    limit: raises Crash once so many pairs were judged. max_words: of a hypothesis, more of which are too long.
    """

    def __init__(
        self, says: Says = overlap, *, revision: str = "1", limit: int | None = None, max_words: int | None = None
    ) -> None:
        self.identity = ModelIdentity("told", revision, {})
        self.asked: list[Pair] = []
        self._says = says
        self._limit = limit
        self._max_words = max_words

    def entailment(self, pairs: Sequence[Pair]) -> Entailments:
        if self._limit is not None and len(self.asked) >= self._limit:
            raise Crash
        hypotheses = dict.fromkeys(hypothesis for _, hypothesis in pairs)
        if too_long := [text for text in hypotheses if self._max_words and len(text.split()) > self._max_words]:
            raise HypothesisTooLong(too_long, 99)
        self.asked += pairs
        probabilities = np.array([self._says(*pair) for pair in pairs], dtype=np.float64)
        return Entailments(probabilities, np.zeros(len(pairs), dtype=np.bool_))


def no_model() -> ToldVerifier:
    """A verifier that must not be asked."""
    return ToldVerifier(limit=0)


def ecs(model: ToldVerifier, encoder: TextEncoder | None = None, **settings: Any) -> ECSScorer:
    """A scorer whose threshold is 0.5 unless it is given."""
    return ECSScorer(
        ScorerSettings(**{"ecs_threshold": 0.5, **settings}), encoder or HashEncoder(), RuleSplitter(), model
    )


@dataclass(frozen=True, slots=True)
class Bench:
    """A dataset in a database, and the folder that it comes from."""

    engine: Engine
    folder: Path
    name: str = "set"

    def ingest(self, videos: Iterable[str | Row], *, n_shards: int = 1, **tables: Iterable[Row]) -> None:
        """Write the rows as a folder and read it into the database, where none may be refused."""
        folder = write_manifest(self.folder / self.name, videos, **tables)
        assert ingest_folder(self.engine, folder, self.name, n_shards=n_shards).rejected == 0

    @property
    def dataset(self) -> Dataset:
        with self.engine.connect() as connection:
            found = find_dataset(connection, self.name)
        assert found is not None
        return found

    def verify(self, scorer: ECSScorer, *, early_exit: bool = False) -> ShardVerdicts:
        """Embed and verify all shards; the report of the last."""
        for shard in range(self.dataset.n_shards):
            embed_shard(self.engine, scorer, self.dataset, shard)
            found = verify_shard(
                self.engine,
                scorer,
                self.dataset,
                shard,
                run_id="run",
                tell=lambda _: None,
                early_exit=early_exit,
            )
        return found

    def score(self, scorer: ECSScorer) -> int:
        """Score all shards; the number of scores written."""
        shards = range(self.dataset.n_shards)
        return sum(score_shard(self.engine, scorer, self.dataset, i, run_id="run").n_written for i in shards)

    def run(self, scorer: ECSScorer, *, early_exit: bool = False) -> dict[str, Any]:
        """Verify, then score; the rows of table score by the key of their sample."""
        self.verify(scorer, early_exit=early_exit)
        self.score(scorer)
        return self.scores(scorer)

    def scores(self, scorer: ECSScorer) -> dict[str, Any]:
        """Rows of table score by the key of their sample."""
        return {row.key: row for row in self._rows(scorer, "SELECT s.key, c.* FROM score c JOIN sample s")}

    def values(self, scorer: ECSScorer) -> dict[str, float | None]:
        """Scores by the key of their sample."""
        return {key: row.value for key, row in self.scores(scorer).items()}

    def sets(self, scorer: ECSScorer) -> dict[str, Any]:
        """Rows of table verdict_set by the key of their caption."""
        return {row.key: row for row in self._rows(scorer, "SELECT s.key, c.* FROM verdict_set c JOIN sample s")}

    def verdicts(self, scorer: ECSScorer) -> dict[Pair, Any]:
        """Rows of table ecs_verdict by the keys of caption and keypoint."""
        query = (
            "SELECT s.key, k.key AS keypoint, c.* FROM ecs_verdict c JOIN keypoint k USING (keypoint_id) JOIN sample s"
        )
        return {(row.key, row.keypoint): row for row in self._rows(scorer, query)}

    def pending(self, scorer: ECSScorer) -> set[str]:
        """Keys of the samples that are to be scored."""
        shards = range(self.dataset.n_shards)
        return self._keys(i for shard in shards for i in pending(self.engine, scorer, self.dataset, shard))

    def unverified(self, scorer: ECSScorer, *, in_full: bool = True) -> set[str]:
        """Keys of the captions that are to be verified."""
        shards = range(self.dataset.n_shards)
        return self._keys(
            i for shard in shards for i in unverified(self.engine, scorer, self.dataset, shard, in_full=in_full)
        )

    def count(self, table: str) -> int:
        """Rows of a table."""
        with self.engine.connect() as connection:
            return int(connection.scalar(sa.text(f"SELECT count(*) FROM {table}")) or 0)

    def execute(self, statement: str, **values: Any) -> None:
        """Run a statement."""
        with self.engine.begin() as connection:
            connection.execute(sa.text(statement), values)

    def _rows(self, scorer: ECSScorer, select: str) -> Sequence[Any]:
        query = sa.text(f"{select} USING (sample_id) WHERE c.scorer_id = :scorer AND s.dataset_id = :dataset")
        values = {"scorer": register(self.engine, scorer), "dataset": self.dataset.dataset_id}
        with self.engine.connect() as connection:
            return connection.execute(query, values).all()

    def _keys(self, sample_ids: Iterable[int]) -> set[str]:
        with self.engine.connect() as connection:
            query = sa.text("SELECT key FROM sample WHERE sample_id = ANY(:ids)")
            return set(connection.scalars(query, {"ids": list(sample_ids)}))
