"""The base class of sources, which make evidence with models, store it, and load it for a batch of samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from assets.progress import LineWriter
from db.evidence.frames import LoadVideos
from db.evidence.models import find_model_id
from db.manifest.datasets import Dataset
from db.schema.inputs import Input
from db.scores.pending import PendingSample, load_samples, split_ids
from metrics_core.protocols import ModelIdentity

T = TypeVar("T")
# Samples loaded at a time.
BATCH_SIZE = 256


class MissingEvidence(RuntimeError):
    """Raised when evidence that a scorer reads is not in the database; the message names the asset to materialise."""

    plain = True


class NeedsDatabase(RuntimeError):
    """Raised when a source that works only on datasets in the database is asked about samples without one."""

    plain = True


@dataclass(frozen=True, slots=True)
class Order:
    """The work that a source is asked to do: make the evidence of one shard of a dataset for one scorer. run_id: the
    run that results are stored under. tell: takes lines about progress. options: values of the source's options that
    differ from the defaults, by name. n_answers: for a forecast, how many answers about a sample are wished at least.
    """

    engine: Engine
    dataset: Dataset
    shard: int
    scorer_id: int
    run_id: str
    tell: LineWriter = lambda _: None
    options: Mapping[str, bool] = field(default_factory=dict)
    n_answers: int = 1

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


class Source(ABC, Generic[T]):
    """A step that makes one sort of evidence about samples with the models of one scorer, and stores and loads it. T is
    the type of the evidence that `load` returns. The class has everything that Dagster must know without a model; an
    object has the models of a scorer.
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

    # The inputs that `make` loads samples with, and one source of every class in `rests_on`.
    inputs: Collection[Input[Any]]
    sources: tuple[Source[Any], ...] = ()

    @property
    @abstractmethod
    def model(self) -> ModelIdentity:
        """The identity of the model that makes the evidence, which is known without loading the model."""

    @property
    def asks_servers(self) -> bool:
        """Whether servers make the evidence, which may cost money; by default True if the class has a `forecast` of its
        own.
        """
        return type(self).forecast is not Source.forecast

    @abstractmethod
    def make(self, order: Order, sample_ids: list[int]) -> Mapping[str, int | str]:
        """Make the evidence that these samples lack, with the models of the scorer, and store it in the database.
        Returns counts and names of models, by name, for people.

        The samples may be of several shards; the order then names the first of these. Models are loaded only when
        evidence is missing. Results are stored in small transactions, so that a crash costs little.
        """

    @abstractmethod
    def load(self, engine: Engine, scorer_id: int, samples: Sequence[PendingSample]) -> T:
        """Load the evidence about these samples from the database, where `make` stored it. scorer_id: the scorer that
        reads it. Raises MissingEvidence if a sample lacks its evidence.
        """

    def ask(self, samples: Sequence[PendingSample], files: LoadVideos, below: Evidence) -> T:
        """Return the evidence about these samples by asking the models now, without a database; it equals `load`'s.
        files: returns the video files for a set of video ids. below: the evidence of the sources that this one needs.
        Raises NeedsDatabase, by default, if the source works only with a database.
        """
        raise NeedsDatabase(f"{self.asset} is made for stored datasets only: ingest the data and use reelsieve score")

    @abstractmethod
    def try_out(self) -> str:
        """Load the model, let it do a small piece of work, and return the result as a line of text for `doctor`. Raises
        the model's errors, and ModelUnusable for a result that is no use.
        """

    def model_id(self, connection: Connection) -> int | None:
        """Return the id of the model in table `model`; None if the model has stored no evidence yet."""
        return find_model_id(connection, self.model.as_dict())

    def missing(self, what: str) -> MissingEvidence:
        """Return, without raising it, the error for missing evidence: `what` is missing, then the remedy."""
        return MissingEvidence(f"{what}: materialise {self.asset} for this shard first")

    def pending(self, order: Order, asked: Callable[[], list[int]]) -> list[int]:
        """Return the ids of the shard's samples that this source must make evidence for; by default those of `asked`.
        asked: returns the ids of the samples that the scorer, or the source that needs this one, has still to do.
        """
        return asked()

    def outstanding(self, engine: Engine, scorer_id: int, dataset_id: int) -> Collection[int]:
        """Return the numbers of the shards of a dataset where evidence is missing, or further answers are wished; () by
        default. The samples of these shards may have scores.
        """
        return ()

    def forecast(self, order: Order, sample_ids: list[int]) -> Sequence[Forecast]:
        """Estimate the requests that `make` would send for these samples to models that may cost money, one Forecast
        per model; () for none. Asks no model and stores nothing.
        """
        return ()

    def examine(self, order: Order) -> Examination:
        """Run the source's checks on the evidence stored for the shard; return what passed and counts, both by name. By
        default there are no checks, and both are empty.
        """
        return Examination({}, {})


class Evidence:
    """The evidence of several sources about one batch of samples: `evidence[source]` is what the source's `load` or
    `ask` returned. KeyError for another source.
    """

    def __init__(self, by_source: Mapping[Source[Any], Any]) -> None:
        self._by_source = by_source

    def __getitem__(self, source: Source[T]) -> T:
        evidence: T = self._by_source[source]
        return evidence


def load_evidence(
    engine: Engine, scorer_id: int, sources: Sequence[Source[Any]], samples: Sequence[PendingSample]
) -> Evidence:
    """Load the evidence of all these sources about the samples from the database; the result maps a source to what its
    `load` returned. Sources that these need are not loaded. Raises MissingEvidence if a sample lacks evidence of a
    source.
    """
    return Evidence({source: source.load(engine, scorer_id, samples) for source in sources})


def ask_for_evidence(sources: Sequence[Source[Any]], samples: Sequence[PendingSample], files: LoadVideos) -> Evidence:
    """Return evidence about the samples, by source, by asking the models of these sources and of the sources that they
    need. files: returns the video files for a set of video ids. Reads and stores nothing in a database. Raises
    NeedsDatabase if a source works only with one.
    """
    by_source: dict[Source[Any], Any] = {}
    for source in walk_sources(sources):
        if source not in by_source:
            by_source[source] = source.ask(samples, files, Evidence(by_source))
    return Evidence(by_source)


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
