"""The base class of sources, which make evidence with models, store it, and load it for a batch of samples.

A source declares the keys of the values that samples need, how values are computed, and where they lie. What follows is
written once, over a store: asking only for what is missing, saving it batch by batch, loading, forecasts and checks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from assets.models.chat import ChatSettings, ChatTally
from assets.progress import LineWriter
from assets.words.text import format_portion
from db.evidence.frames import LoadVideos, make_video_loader
from db.evidence.models import find_model_id
from db.evidence.store import DictStore, PostgresStore, Store, Table
from db.manifest.datasets import Dataset
from db.schema.inputs import Input
from db.scores.pending import PendingSample, list_shard_samples, load_samples, sort_by_video, split_ids
from metrics_core.models.chat.outbox import Outbox
from metrics_core.models.chat.protocol import ChatModel
from metrics_core.protocols import ModelIdentity

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
# Samples loaded at a time.
BATCH_SIZE = 256
# The check that warns where the share of answers without a value is so great that somebody should look at the server.
ERRORS_RARE = "errors_rare"
_MAX_ERROR_SHARE = 0.2


class MissingEvidence(RuntimeError):
    """Raised when evidence that a scorer reads is not in the database; the message names the asset to materialise."""

    plain = True


class NeedsDatabase(RuntimeError):
    """Raised when a source that works only on datasets in the database gets samples without one."""

    plain = True


@dataclass(frozen=True, slots=True)
class Order:
    """The work that a source is to do: make the evidence of one shard of a dataset for one scorer. run_id: the run that
    results are stored under. tell: takes lines about progress. options: values of the source's options that differ from
    the defaults, by name. n_answers: for a forecast, how many answers a sample needs at least.

    outbox: takes the requests to chat models instead of their servers; None sends them.
    """

    engine: Engine
    dataset: Dataset
    shard: int
    scorer_id: int
    run_id: str
    tell: LineWriter = lambda _: None
    options: Mapping[str, bool] = field(default_factory=dict)
    n_answers: int = 1
    outbox: Outbox | None = None

    def samples(
        self, sample_ids: list[int], inputs: Collection[Input[Any]], size: int = BATCH_SIZE
    ) -> Iterator[list[PendingSample]]:
        """Load samples from the database with the values of these inputs, and yield them in lists of at most `size`,
        every list sorted by id. Unknown ids are left out.

        No connection is open while the caller works on a list.
        """
        for ids in split_ids(sample_ids, size):
            with self.engine.connect() as connection:
                loaded = load_samples(connection, ids, inputs, self.scorer_id)
            # Models take their time with a batch: meanwhile no connection and no transaction is held.
            yield loaded


@dataclass(frozen=True, slots=True)
class Examination:
    """The result of a source's checks on a shard. passed: whether each check passed, by its name. counts: numbers that
    explain it, by name, for people.
    """

    passed: Mapping[str, bool]
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Forecast:
    """An estimate of what one model will be asked: at most so many requests, about so many tokens, and their price.
    role: what the model is asked for, such as "keywords". money: None where the model's prices are not set.
    """

    role: str
    model: str
    n_requests: int
    tokens_in: int
    tokens_out: int
    money: float | None


class Evidence:
    """The evidence of several sources about one batch of samples: `evidence[source]` is what the source's `load` or
    `ask` returned. load: returns the evidence of a source that is not in `by_source`; without it such a source raises
    KeyError.
    """

    def __init__(self, by_source: Mapping[Source[Any], Any], load: Callable[[Source[Any]], Any] | None = None) -> None:
        self._by_source = dict(by_source)
        self._load = load

    def __getitem__(self, source: Source[T]) -> T:
        if self._load is not None and source not in self._by_source:
            self._by_source[source] = self._load(source)
        evidence: T = self._by_source[source]
        return evidence


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples, and what a source may read about them. files: returns the video files for a set of video ids. below: the
    evidence of sources that this one needs, loaded when first read. store: where values are kept. order: the work in
    the database; None where values are only loaded. tally: counts requests. n_done: samples of the order before these.
    """

    samples: Sequence[PendingSample]
    files: LoadVideos
    below: Evidence
    store: Store[Any, Any]
    order: Order | None = None
    tally: ChatTally = field(default_factory=ChatTally)
    counts: Counter[str] = field(default_factory=Counter)
    n_done: int = 0

    def prepare_chat(self, chat: ChatModel, settings: ChatSettings) -> ChatModel:
        """Return a copy of a chat model whose replies are counted in `tally`. If the batch has an order, the copy also
        keeps replies and records requests in the database. Every call with the same model returns the same copy.
        """
        order = self.order
        return self.tally.count(
            chat,
            lambda bare: settings.add_cache(bare, order.engine, order.run_id, order.outbox) if order else bare,
        )


class Source(ABC, Generic[T]):
    """A step that makes one sort of evidence about samples with the models of one scorer, and stores and loads it. T is
    the type of the evidence that `load` returns. The class has everything that Dagster must know without a model; an
    object has the models of a scorer.

    A source has `table`, `keys` and `compute`, and works with and without a database. A source that keeps its evidence
    in another way has its own `make` and `load` instead.
    """

    # The asset that makes the evidence, with its description, its group, and the assets of ingest that it reads.
    asset: ClassVar[str]
    description: ClassVar[str]
    group: ClassVar[str]
    reads: ClassVar[tuple[str, ...]]
    kinds: ClassVar[frozenset[str]] = frozenset({"postgres", "pytorch"})
    # Classes of the sources whose evidence must be made first.
    rests_on: ClassVar[tuple[type[Source[Any]], ...]] = ()
    # The checks of the asset: by name, a sentence that is true if the check passes.
    checks: ClassVar[Mapping[str, str]] = {}
    # The checks among them that only warn; a score is made all the same, and its status gives the reason.
    warnings: ClassVar[frozenset[str]] = frozenset()
    # Options that a run may set, with their defaults. No fingerprint contains their values.
    options: ClassVar[Mapping[str, bool]] = {}
    # Whether the model can be asked several times about a sample, as score --repeat wishes.
    can_repeat: ClassVar[bool] = False
    # Tables that db.schema does not contain. Only a source from outside this project has any.
    tables: ClassVar[tuple[sa.Table, ...]] = ()
    # How the values lie in the database, by key.
    table: ClassVar[Table[Any, Any]]
    # The words for what has a key, and for its value: "text", "keywords".
    noun: ClassVar[str] = "sample"
    product: ClassVar[str] = "evidence"
    # The line of progress, with the numbers `done` and `total`; empty for none.
    progress: ClassVar[str] = ""
    # Among what `make` returns, the name of the model, and of the count of keys that samples need, computed now or
    # before; empty to leave the count out. All these names begin with the prefix.
    model_role: ClassVar[str] = "model"
    wanted: ClassVar[str] = ""
    prefix: ClassVar[str] = ""
    # How many samples are worked on at a time, which is what a crash may cost. None if samples share keys: then the
    # keys of all of them are collected first, and `compute` decides how many values it yields at a time.
    at_a_time: ClassVar[int | None] = None

    # The inputs that `make` loads samples with, and one source of every class in `rests_on`.
    inputs: Collection[Input[Any]]
    sources: tuple[Source[Any], ...] = ()

    @property
    @abstractmethod
    def model(self) -> ModelIdentity:
        """The identity of the model that makes the evidence, which is known without loading the model."""

    @abstractmethod
    def try_out(self) -> str:
        """Load the model, let it do a small piece of work, and return the result as a line of text for `doctor`. Raises
        the model's errors, and ModelUnusable for a result that is no use.
        """

    # What a source declares

    def keys(self, batch: Batch) -> Iterable[Any]:
        """Yield the keys of the values that the samples of a batch need; repeated ones may come again."""
        raise NeedsDatabase(f"{self.asset} is made for stored datasets only: ingest the data and use reelsieve score")

    def compute(self, keys: Sequence[Any], batch: Batch) -> Iterator[Mapping[Any, Any]]:
        """Compute the values of these different keys with the models, and yield them by key, a few at a time. They are
        stored before the next ones are computed, and can then be read from `batch.store`. batch: that of the keys; it
        has no samples if `at_a_time` is None.
        """
        raise NotImplementedError

    def is_final(self, value: Any) -> bool:
        """Whether a stored value stays; one that does not is computed again by the next `make`. By default all stay."""
        return True

    def gather(self, values: Mapping[Any, Any], batch: Batch) -> T:
        """Combine the stored values of a batch's keys into the evidence that scorers read about its samples; by default
        the values by key.
        """
        return values  # type: ignore[return-value]  # then T is the mapping of values

    def estimate(self, keys: Sequence[Any]) -> Sequence[Forecast]:
        """Estimate the requests to servers that computing the values of these keys takes, one Forecast per model and
        role; () for none. Asks no model.
        """
        return ()

    def count(self, values: Mapping[Any, Any]) -> Mapping[str, int]:
        """Return counts of computed values, by name, for people; zeros for no values. `make` sums them."""
        return {}

    def explain_failure(self, value: Any) -> str | None:
        """Return the reason why a computed value is of no use; None for a good one. By default all are good."""
        return None

    def measure(self, keys: Sequence[Any], batch: Batch) -> Mapping[str, int]:
        """Return counts, by name, of what is stored for these keys of the shard; `judge_counts` gets their sums. batch:
        that of the keys, without samples if `at_a_time` is None. By default `missing`, the number of keys without a
        value.
        """
        return {"missing": len(batch.store.list_missing(keys, lambda _: True))}

    def judge_counts(self, counts: Mapping[str, int]) -> Mapping[str, bool]:
        """Return whether each of `checks` passes, by name. counts: the sums of what `measure` returned for the shard.
        By default a check passes if no key lacks its value.
        """
        return dict.fromkeys(self.checks, counts["missing"] == 0)

    @property
    def chat_models(self) -> Collection[ChatModel]:
        """The chat models that `compute` asks by `Batch.prepare_chat`; () for none."""
        return ()

    # What follows from it

    @property
    def asks_servers(self) -> bool:
        """Whether servers make the evidence, which may cost money; by default True if the class has a `forecast` or
        `estimate` of its own.
        """
        return type(self).forecast is not Source.forecast or type(self).estimate is not Source.estimate

    def make(self, order: Order, sample_ids: list[int]) -> Mapping[str, int | str]:
        """Make the evidence that these samples lack, with the models of the scorer, and store it in the database.
        Returns counts and names of models, by name, for people.

        The samples may be of several shards; the order then names the first of these. Models are loaded only when
        evidence is missing. Results are stored in small transactions, so that a crash costs little.
        """
        n_useless, reason = 0, ""
        for batch, keys in self._list_keys(order, sample_ids):
            n_of_batch, first_of_batch = self._fill(batch, keys)
            n_useless, reason = n_useless + n_of_batch, reason or first_of_batch
            if self.progress and batch.samples:
                done = batch.n_done + len(batch.samples)
                order.tell(self.progress.format(done=done, total=len(sample_ids)))
        if n_useless:
            has = f"{self.noun} has" if n_useless == 1 else f"{self.noun}s have"
            order.tell(f"{n_useless:,} {has} no {self.product}; reason of the first: {reason}")
        # There is a batch without samples too, and all share their counts.
        made = {**batch.counts, **batch.tally.as_metadata(), self.model_role: self.model.model_id}
        return {f"{self.prefix}{name}": value for name, value in made.items()}

    def load(self, engine: Engine, scorer_id: int, samples: Sequence[PendingSample]) -> T:
        """Load the evidence about these samples from the database, where `make` stored it. scorer_id: the scorer that
        reads it. Raises MissingEvidence if a sample lacks its evidence.
        """
        below = load_evidence(engine, scorer_id, (), samples)
        batch = Batch(samples, make_video_loader(engine), below, self.open_store(engine, scorer_id))
        keys = list(dict.fromkeys(self.keys(batch)))
        values = batch.store.load(keys)
        self.require_all(keys, values)
        return self.gather(values, batch)

    def ask(self, samples: Sequence[PendingSample], files: LoadVideos, below: Evidence) -> T:
        """Return the evidence about these samples by asking the models now, without a database; it equals `load`'s.
        files: returns the video files for a set of video ids. below: the evidence of the sources that this one needs.
        Raises NeedsDatabase, by default, if the source works only with a database.
        """
        batch = Batch(samples, files, below, DictStore())
        keys = list(dict.fromkeys(self.keys(batch)))
        self._fill(batch, keys)
        return self.gather(batch.store.load(keys), batch)

    def forecast(self, order: Order, sample_ids: list[int]) -> Sequence[Forecast]:
        """Estimate the requests that `make` would send for these samples to models that may cost money, one Forecast
        per model; () for none. Asks no model and stores nothing.
        """
        if not self.asks_servers:
            return ()
        missing = [
            key
            for batch, keys in self._list_keys(order, sample_ids)
            for key in batch.store.list_missing(keys, self.is_final)
        ]
        return self.estimate(list(dict.fromkeys(missing))) if missing else []

    def examine(self, order: Order) -> Examination:
        """Run the source's checks on the evidence stored for the shard; return what passed and counts, both by name. By
        default there are no checks, and both are empty.
        """
        if not self.checks:
            return Examination({}, {})
        with order.engine.connect() as connection:
            of_shard = partial(list_shard_samples, connection, order.dataset.dataset_id, order.shard)
            sample_ids = self.pending(order, of_shard)
        counts: Counter[str] = Counter()
        seen: set[Any] = set()
        for batch, keys in self._list_keys(order, sample_ids):
            counts.update(self.measure([key for key in keys if key not in seen], batch))
            seen.update(keys)
        return Examination(self.judge_counts(counts), dict(counts))

    def pending(self, order: Order, asked: Callable[[], list[int]]) -> list[int]:
        """Return the ids of the shard's samples that this source must make evidence for; by default those of `asked`.
        asked: returns the ids of the samples that the scorer, or the source that needs this one, has still to do.
        """
        return asked()

    def outstanding(self, engine: Engine, scorer_id: int, dataset_id: int) -> Collection[int]:
        """Return the numbers of the shards of a dataset where evidence is missing, or further answers are wanted; () by
        default. The samples of these shards may have scores.
        """
        return ()

    def open_store(self, engine: Engine, scorer_id: int, run_id: str = "") -> Store[Any, Any]:
        """Return the store of the values in the database: by default those of the model, in `table`."""
        return PostgresStore(engine, self.table, self.model.as_dict(), run_id)

    def model_id(self, connection: Connection) -> int | None:
        """Return the id of the model in table `model`; None if the model has stored no evidence yet."""
        return find_model_id(connection, self.model.as_dict())

    def missing(self, what: str) -> MissingEvidence:
        """Return, without raising it, the error for missing evidence: `what` is missing, then the remedy."""
        return MissingEvidence(f"{what}: materialise {self.asset} for this shard first")

    def require_all(self, keys: Sequence[Any], values: Mapping[Any, Any]) -> None:
        """Raise MissingEvidence if a key has no value."""
        if missing := [key for key in keys if key not in values]:
            lack = self.format_lack(missing)
            raise self.missing(format_portion(len(missing), len(keys), self.noun, f"has {lack}", f"have {lack}"))

    def format_lack(self, missing: Sequence[Any]) -> str:
        """Return what these keys lack, such as "no vector of MODEL"."""
        return f"no {self.product} of {self.model.model_id}"

    def _list_keys(self, order: Order, sample_ids: list[int]) -> Iterator[tuple[Batch, list[Any]]]:
        """Yield every batch of samples with the different keys that it needs; one batch without samples, with all keys,
        if `at_a_time` is None or there are no samples.
        """
        store = self.open_store(order.engine, order.scorer_id, order.run_id)
        shared = Batch((), make_video_loader(order.engine), Evidence({}), store, order)
        all_keys: dict[Any, None] = {}
        n_done = 0
        if self.at_a_time is not None:
            # What is prepared of a video then serves all of its samples.
            with order.engine.connect() as connection:
                sample_ids = sort_by_video(connection, sample_ids)
        for samples in order.samples(sample_ids, self.inputs, self.at_a_time or BATCH_SIZE):
            below = load_evidence(order.engine, order.scorer_id, (), samples)
            batch = replace(shared, samples=samples, below=below, n_done=n_done)
            keys = dict.fromkeys(self.keys(batch))
            if self.at_a_time is None:
                all_keys |= keys
            else:
                yield batch, list(keys)
            n_done += len(samples)
        if self.at_a_time is None or not n_done:
            yield shared, list(all_keys)

    def _fill(self, batch: Batch, keys: list[Any]) -> tuple[int, str]:
        """Compute the values that are missing, store and count them; return (number of values that are of no use, the
        reason of the first).
        """

        def tell(done: int, total: int) -> None:
            if batch.order is not None and self.at_a_time is None and self.progress:
                batch.order.tell(self.progress.format(done=done, total=total))

        if self.wanted:
            batch.counts[self.wanted] += len(keys)
        batch.counts.update(self.count({}))
        n_useless, reason = 0, ""
        missing = batch.store.list_missing(keys, self.is_final)
        for values in save_computed(batch.store, missing, lambda keys: self.compute(keys, batch), tell):
            batch.counts.update(self.count(values))
            reasons = [*filter(None, map(self.explain_failure, values.values()))]
            n_useless, reason = n_useless + len(reasons), reason or "".join(reasons[:1])
        return n_useless, reason


def are_errors_rare(n_failed: int, n: int) -> bool:
    """Return whether fewer than 20 % of n answers failed; True for none."""
    return n == 0 or n_failed < _MAX_ERROR_SHARE * n


def save_computed(
    store: Store[K, V],
    missing: Sequence[K],
    compute: Callable[[Sequence[K]], Iterable[Mapping[K, V]]],
    tell: Callable[[int, int], None],
) -> Iterator[Mapping[K, V]]:
    """Save the values that `compute` yields, a few at a time, then yield them. Nothing is computed if no key is
    missing. tell: takes the numbers of values done and of all, at first and after every save. An error of `compute` or
    of the store is raised; values that were saved stay.
    """
    if not missing:
        return
    done = 0
    tell(done, len(missing))
    for values in compute(missing):
        store.save(values)
        done += len(values)
        tell(done, len(missing))
        yield values


def load_evidence(
    engine: Engine, scorer_id: int, sources: Sequence[Source[Any]], samples: Sequence[PendingSample]
) -> Evidence:
    """Load the evidence of all these sources about the samples from the database; the result maps a source to what its
    `load` returned. Sources that these need are loaded when they are read. Raises MissingEvidence if a sample lacks
    evidence of a source.
    """
    by_source = {source: source.load(engine, scorer_id, samples) for source in sources}
    return Evidence(by_source, lambda source: source.load(engine, scorer_id, samples))


def ask_for_evidence(sources: Sequence[Source[Any]], samples: Sequence[PendingSample], files: LoadVideos) -> Evidence:
    """Return evidence about the samples, by source, by asking the models of these sources and of the sources that they
    need. files: returns the video files for a set of video ids. Reads and stores nothing in a database. Raises
    NeedsDatabase if a source works only with one.
    """
    evidence = Evidence({}, lambda source: source.ask(samples, files, evidence))
    for source in walk_sources(sources):
        evidence[source]  # asks now, while models may use all threads
    return evidence


def walk_sources(sources: Sequence[Source[Any]]) -> Iterator[Source[Any]]:
    """Yield these sources and all sources that they need; a source comes after those that it needs. A source that two
    others need comes twice.
    """
    for source in sources:
        yield from walk_sources(source.sources)
        yield source


def sort_source_classes(classes: Sequence[type[Source[Any]]]) -> dict[str, type[Source[Any]]]:
    """Return these classes of sources and all classes that they need, by asset; a class comes after those it needs."""
    by_asset: dict[str, type[Source[Any]]] = {}
    for kind in classes:
        by_asset |= sort_source_classes(kind.rests_on)
        by_asset[kind.asset] = kind
    return by_asset
