"""What tests of scoring share: models that need no weights, sources made on a shard, a dataset from rows to scores."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Engine

from assets.ingest.run import ingest_folder
from assets.metrics.ecs.scorer import ECSScorer, ECSSettings
from assets.metrics.ecs.verdicts import KeypointVerdicts
from assets.metrics.simple import CosineScorer, WordsInCommonScorer
from assets.planning.unstored_samples import build_unstored_inputs
from assets.scores.base import Outcome, Scorer
from assets.scores.pending import list_samples_to_score, make_evidence, store_scorer
from assets.scores.run import score_shard, score_without_database
from assets.sources.base import Order, Source, sort_source_classes
from assets.sources.texts import TextVectors
from db.manifest.datasets import Dataset, find_dataset
from db.schema.inputs import VideoState
from db.scores.pending import PendingSample
from metrics_core.models.nli_inputs import HypothesisTooLong
from metrics_core.models.sentence_splitter import RuleSplitter
from metrics_core.protocols import Entailments, ModelIdentity, TextEncoder
from tests.assets.manifests import Row, write_manifest
from tests.conftest import filled_template

Pair = tuple[str, str]
Says = Callable[[str, str], float]
# What a source reports: counts and names.
Counts = Mapping[str, int | str]
DIM = 48


def dataset_of(engine: Engine, name: str) -> Dataset:
    """The dataset of this name, which must be there."""
    with engine.connect() as connection:
        dataset = find_dataset(connection, name)
    assert dataset is not None
    return dataset


def order_for(engine: Engine, scorer: Scorer, dataset: Dataset, shard: int = 0, **options: bool) -> Order:
    """Work for the scorer's sources on a shard."""
    return Order(engine, dataset, shard, store_scorer(engine, scorer), "run", options=options)


def make_kind(
    engine: Engine, scorer: Scorer, kind: type[Source[Any]], dataset: Dataset, shard: int = 0, **options: bool
) -> Counts:
    """Make what the scorer lacks of one kind of source on a shard; its counts."""
    return make_evidence(scorer, kind, [order_for(engine, scorer, dataset, shard, **options)])


def make_sources(
    engine: Engine, scorer: Scorer, dataset: Dataset, shard: int = 0, **options: bool
) -> dict[str, Counts]:
    """Make all that the scorer lacks on a shard, in the order of the assets; the counts by asset."""
    kinds = sort_source_classes(scorer.rests_on)
    return {asset: make_kind(engine, scorer, kind, dataset, shard, **options) for asset, kind in kinds.items()}


def build_samples(
    captions: Sequence[Row], qa: Iterable[Row] = (), keypoints: Sequence[Row] = ()
) -> list[PendingSample]:
    """Samples of rows of a manifest that are in no database."""
    texts = [(row["caption_id"], "caption", row) for row in captions if row["role"] == "candidate"]
    asked = [(row["qa_id"], "qa", {**row, "text": f"{row['question']} {row['answer']}"}) for row in qa]
    samples = []
    for number, (key, kind, row) in enumerate([*texts, *asked], 1):
        of_video = [other for other in captions if (other["role"], other["video_id"]) == ("reference", row["video_id"])]
        of_video.sort(key=lambda other: other["caption_id"])
        points = sorted(
            (each for each in keypoints if each["video_id"] == row["video_id"]), key=lambda each: each["keypoint_id"]
        )
        inputs = build_unstored_inputs(row, of_video, points, VideoState("text_only"))
        own = (row.get("system", ""), row["text"], row.get("question"), row.get("answer"))
        samples.append(PendingSample(number, "set", key, kind, *own, number, inputs=inputs))
    return samples


def score_rows(
    scorer: Scorer, captions: Sequence[Row], *, qa: Iterable[Row] = (), keypoints: Sequence[Row] = ()
) -> dict[str, Outcome]:
    """What the scorer says of rows of a manifest without any database, by the key of the sample."""
    samples = build_samples(captions, qa, keypoints)
    outcomes = score_without_database(scorer, samples, lambda video_ids: [])
    return {sample.key: outcome for sample, outcome in zip(samples, outcomes, strict=True)}


class HashEncoder:
    """The normalised sum of one random vector per word, so that texts with common words are alike. Counts its work."""

    def __init__(self, revision: str = "1") -> None:
        self.identity = ModelIdentity("words", revision, {"dim": DIM})
        self.encoded: list[str] = []

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.encoded += texts
        return np.stack([self.vector(text) for text in texts])

    def vector(self, text: str) -> NDArray[np.float32]:
        words = re.findall(r"\w+", text.lower()) or [text]
        total = np.sum([self._word(word) for word in words], axis=0)
        return np.asarray(total / np.linalg.norm(total), dtype=np.float32)

    def _word(self, word: str) -> NDArray[np.float64]:
        seed = hashlib.sha256(word.encode()).digest()[:8]
        return np.random.default_rng(int.from_bytes(seed, "big")).normal(size=DIM)


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
    return ECSScorer(ECSSettings(**{"ecs_threshold": 0.5, **settings}), encoder or HashEncoder(), RuleSplitter(), model)


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
        return dataset_of(self.engine, self.name)

    def make(self, scorer: Scorer, **options: bool) -> dict[str, Counts]:
        """Make all sources on all shards; the counts on the last shard, by asset."""
        dataset = self.dataset
        return [make_sources(self.engine, scorer, dataset, i, **options) for i in range(dataset.n_shards)][-1]

    def embed(self, scorer: Scorer) -> Counts:
        """Embed the texts on the first shard."""
        return make_kind(self.engine, scorer, TextVectors, self.dataset)

    def verify(self, scorer: ECSScorer) -> Counts:
        """Embed and verify all shards; the counts of verifying the last."""
        return self.make(scorer)[KeypointVerdicts.asset]

    def score(self, scorer: Scorer) -> int:
        """Score all shards; the number of scores written."""
        shards = range(self.dataset.n_shards)
        return sum(score_shard(self.engine, scorer, self.dataset, i, run_id="run").n_written for i in shards)

    def run(self, scorer: Scorer, **options: bool) -> dict[str, Any]:
        """Make all sources, then score; the rows of table score by the key of their sample."""
        self.make(scorer, **options)
        self.score(scorer)
        return self.scores(scorer)

    def scores(self, scorer: Scorer) -> dict[str, Any]:
        """Rows of table score by the key of their sample."""
        return {row.key: row for row in self._rows(scorer, "SELECT s.key, c.* FROM score c JOIN sample s")}

    def values(self, scorer: Scorer) -> dict[str, float | None]:
        """Scores by the key of their sample."""
        return {key: row.value for key, row in self.scores(scorer).items()}

    def sets(self, scorer: ECSScorer) -> dict[str, Any]:
        """Rows of table verdict_set by the key of their caption."""
        return {row.key: row for row in self._rows(scorer, "SELECT s.key, c.* FROM verdict_set c JOIN sample s")}

    def passes(self, scorer: ECSScorer) -> dict[str, int]:
        """Passes of the verifier by the key of their caption."""
        return {key: row.n_passes for key, row in self.sets(scorer).items()}

    def verdicts(self, scorer: ECSScorer) -> dict[Pair, Any]:
        """Rows of table ecs_verdict by the keys of caption and keypoint."""
        query = (
            "SELECT s.key, k.key AS keypoint, c.* FROM ecs_verdict c JOIN keypoint k USING (keypoint_id) JOIN sample s"
        )
        return {(row.key, row.keypoint): row for row in self._rows(scorer, query)}

    def pending(self, scorer: Scorer) -> set[str]:
        """Keys of the samples that are to be scored."""
        shards = range(self.dataset.n_shards)
        return self._keys(
            i for shard in shards for i in list_samples_to_score(self.engine, scorer, self.dataset, shard)
        )

    def unverified(self, scorer: ECSScorer) -> set[str]:
        """Keys of the captions that are to be verified."""
        dataset = self.dataset
        orders = [order_for(self.engine, scorer, dataset, i) for i in range(dataset.n_shards)]
        return self._keys(i for order in orders for i in scorer.verdicts.pending(order, list))

    def count(self, table: str) -> int:
        """Rows of a table."""
        with self.engine.connect() as connection:
            return int(connection.scalar(sa.text(f"SELECT count(*) FROM {table}")) or 0)

    def execute(self, statement: str, **values: Any) -> None:
        """Run a statement."""
        with self.engine.begin() as connection:
            connection.execute(sa.text(statement), values)

    def _rows(self, scorer: Scorer, select: str) -> Sequence[Any]:
        query = sa.text(f"{select} USING (sample_id) WHERE c.scorer_id = :scorer AND s.dataset_id = :dataset")
        values = {"scorer": store_scorer(self.engine, scorer), "dataset": self.dataset.dataset_id}
        with self.engine.connect() as connection:
            return connection.execute(query, values).all()

    def _keys(self, sample_ids: Iterable[int]) -> set[str]:
        with self.engine.connect() as connection:
            query = sa.text("SELECT key FROM sample WHERE sample_id = ANY(:ids)")
            return set(connection.scalars(query, {"ids": list(sample_ids)}))


def filled_bench(fill: Callable[[Bench], object], name: str = "set") -> Any:
    """Return a fixture `template` of a module: a database with what `fill` does on a bench of this name."""
    return filled_template(lambda engine: fill(Bench(engine, Path(tempfile.mkdtemp()), name)))


def score_simply(engine: Engine, dataset: Dataset, encoder: TextEncoder | None = None) -> dict[str, int]:
    """Make the words in common of a dataset and, with an encoder, the cosine; the numbers of their scorers by name."""
    scorers: list[Scorer] = [WordsInCommonScorer(), *([CosineScorer(encoder)] if encoder else [])]
    for scorer in scorers:
        for shard in range(dataset.n_shards):
            make_sources(engine, scorer, dataset, shard)
            score_shard(engine, scorer, dataset, shard, run_id="run")
    return {scorer.metric: store_scorer(engine, scorer) for scorer in scorers}
