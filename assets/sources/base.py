"""What a source offers: it makes evidence with its models, stores it, and loads it for a batch of samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from db.evidence.frames import LoadVideos
from db.evidence.models import find_model_id
from db.manifest.datasets import Dataset
from db.schema.inputs import Input
from db.scores.pending import PendingSample, load_samples, split_ids
from metrics_core.protocols import ModelIdentity

T = TypeVar("T")
LineWriter = Callable[[str], None]
# Samples loaded at a time.
BATCH_SIZE = 256


class MissingEvidence(RuntimeError):
    """A source has not made the evidence that a scorer reads; the message names the asset to materialise."""

    plain = True


class NeedsDatabase(RuntimeError):
    """A source makes its evidence for stored datasets alone."""

    plain = True


@dataclass(frozen=True, slots=True)
class Order:
    """Work for a source: one shard, for one scorer.

    tell: takes lines about progress. options: values of the source's options that differ from the defaults, by name.
    """

    engine: Engine
    dataset: Dataset
    shard: int
    scorer_id: int
    run_id: str
    tell: LineWriter = lambda _: None
    options: Mapping[str, bool] = field(default_factory=dict)

    def samples(
        self, sample_ids: list[int], inputs: Collection[Input[Any]], size: int = BATCH_SIZE
    ) -> Iterator[list[PendingSample]]:
        """Load the samples with these inputs, `size` at a time."""
        for ids in split_ids(sample_ids, size):
            with self.engine.connect() as connection:
                loaded = load_samples(connection, ids, inputs, self.scorer_id)
            # Models take their time with a batch: meanwhile no connection and no transaction is held.
            yield loaded


@dataclass(frozen=True, slots=True)
class Examination:
    """The result of a source's checks on a shard: `passed` by the name of the check, and the counts behind it."""

    passed: Mapping[str, bool]
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a model would be asked, before it is: calls at most, and about how many tokens and how much money."""

    role: str
    model: str
    n_requests: int
    tokens_in: int
    tokens_out: int
    money: float | None


class Source(ABC, Generic[T]):
    """A kind of evidence that models find out about samples, bound to one scorer. T is the type that `load` returns.

    The class holds everything that Dagster must know without a model; an object is bound to the models of a scorer.
    """

    # The asset that makes the evidence, with its description, its group, and the assets of ingest that it reads.
    asset: ClassVar[str]
    description: ClassVar[str]
    group: ClassVar[str]
    reads: ClassVar[tuple[str, ...]]
    kinds: ClassVar[frozenset[str]] = frozenset({"postgres", "pytorch"})
    # Kinds of sources whose evidence must be made first.
    rests_on: ClassVar[tuple[type[Source[Any]], ...]] = ()
    # The checks of the asset: by name, a sentence that says what holds where the check passes.
    checks: ClassVar[Mapping[str, str]] = {}
    # The checks among them that only warn; a score is made all the same, and its status gives the reason.
    warnings: ClassVar[frozenset[str]] = frozenset()
    # Options that a run may set, with their defaults. No fingerprint contains their values.
    options: ClassVar[Mapping[str, bool]] = {}
    # Tables that db.schema does not contain. Only a source from outside this project has any.
    tables: ClassVar[tuple[sa.Table, ...]] = ()

    # The inputs that `make` loads samples with, and one source of every kind in `rests_on`.
    inputs: Collection[Input[Any]]
    sources: tuple[Source[Any], ...] = ()

    @property
    @abstractmethod
    def model(self) -> ModelIdentity:
        """The identity of the model that makes the evidence. Asking for it must not load the model."""

    @property
    def asks_servers(self) -> bool:
        """Whether the evidence comes from servers, which may cost money; a source that forecasts costs may say no."""
        return type(self).forecast is not Source.forecast

    @abstractmethod
    def make(self, order: Order, sample_ids: list[int]) -> Mapping[str, int | str]:
        """Make and store the evidence that these samples lack. Return counts and names for people to read.

        The samples may be of several shards; the order then names the first of these. Models are loaded only when
        evidence is missing. Results are stored in small transactions, so that a crash costs little.
        """

    @abstractmethod
    def load(self, engine: Engine, scorer_id: int, samples: Sequence[PendingSample]) -> T:
        """Load the evidence about these samples. Raises MissingEvidence where `make` has not seen one of them."""

    def ask(self, samples: Sequence[PendingSample], files: LoadVideos, below: Evidence) -> T:
        """Ask the models about these samples now: what `load` gives after `make`, without a database.

        below: the evidence of the sources that this one rests on. Raises WithoutDatabase where a source cannot do it.
        """
        raise NeedsDatabase(f"{self.asset} is made for stored datasets alone: ingest the data and use reelsieve score")

    @abstractmethod
    def try_out(self) -> str:
        """Make the model do a small piece of work and describe the result in a line. Raises the model's errors."""

    def model_id(self, connection: Connection) -> int | None:
        """Return the id of the model in table `model`; None when the model has done no work yet."""
        return find_model_id(connection, self.model.as_dict())

    def missing(self, what: str) -> MissingEvidence:
        """Make the error for evidence that is missing. `what` says what is missing; the error adds the remedy."""
        return MissingEvidence(f"{what}: materialise {self.asset} for this shard first")

    def pending(self, order: Order, asked: Callable[[], list[int]]) -> list[int]:
        """Return the ids of the samples that lack evidence.

        asked: returns the samples that the scorer, or the source that rests on this one, has still to do.
        """
        return asked()

    def outstanding(self, engine: Engine, scorer_id: int, dataset_id: int) -> Collection[int]:
        """Return the shards where an option left evidence incomplete, although the samples may have scores."""
        return ()

    def forecast(self, order: Order, sample_ids: list[int]) -> Sequence[Forecast]:
        """What `make` would ask models that cost money about these samples. Asks nothing and stores nothing."""
        return ()

    def examine(self, order: Order) -> Examination:
        """Run the checks on the evidence stored for the shard."""
        return Examination({}, {})


class Evidence:
    """The evidence of several sources about a batch of samples: `evidence[source]` is the result of `source.load`."""

    def __init__(self, by_source: Mapping[Source[Any], Any]) -> None:
        self._by_source = by_source

    def __getitem__(self, source: Source[T]) -> T:
        evidence: T = self._by_source[source]
        return evidence


def load_evidence(
    engine: Engine, scorer_id: int, sources: Sequence[Source[Any]], samples: Sequence[PendingSample]
) -> Evidence:
    """Load the evidence of all these sources about the samples. Raises MissingEvidence where a source lacks some."""
    return Evidence({source: source.load(engine, scorer_id, samples) for source in sources})


def ask_for_evidence(sources: Sequence[Source[Any]], samples: Sequence[PendingSample], files: LoadVideos) -> Evidence:
    """Ask the models of all these sources, and of those below them, about the samples; stores nothing."""
    found: dict[Source[Any], Any] = {}
    for source in walk_sources(sources):
        if source not in found:
            found[source] = source.ask(samples, files, Evidence(found))
    return Evidence(found)


def walk_sources(sources: Sequence[Source[Any]]) -> Iterator[Source[Any]]:
    """Yield the sources and all sources below them. A source comes after the sources that it rests on."""
    for source in sources:
        yield from walk_sources(source.sources)
        yield source


def sort_source_classes(classes: Sequence[type[Source[Any]]]) -> dict[str, type[Source[Any]]]:
    """Return the kinds and all kinds below them, by asset. A kind comes after the kinds that it rests on."""
    by_asset: dict[str, type[Source[Any]]] = {}
    for kind in classes:
        by_asset |= sort_source_classes(kind.rests_on)
        by_asset[kind.asset] = kind
    return by_asset
