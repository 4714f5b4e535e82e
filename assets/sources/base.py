"""What a source offers: how to make what its models find out, and how to load it for a batch of samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from db.inputs import Input
from db.manifest import Dataset
from db.models import find_model
from db.work import PendingSample, batches, load_samples
from metrics_core.protocols import ModelIdentity

T = TypeVar("T")
Tell = Callable[[str], None]
# Samples loaded at a time.
BATCH_SIZE = 256


class MissingEvidence(RuntimeError):
    """A source has not made yet what a scorer reads of it; the message names the asset to materialise."""

    plain = True


@dataclass(frozen=True, slots=True)
class Order:
    """Work for a source: one shard, for one scorer.

    tell: takes lines about progress. options: the source's own, by name, where they differ from their defaults.
    """

    engine: Engine
    dataset: Dataset
    shard: int
    scorer_id: int
    run_id: str
    tell: Tell = lambda _: None
    options: Mapping[str, bool] = field(default_factory=dict)

    def samples(
        self, sample_ids: list[int], inputs: Collection[Input[Any]], size: int = BATCH_SIZE
    ) -> Iterator[list[PendingSample]]:
        """The samples with these inputs, some at a time."""
        for ids in batches(sample_ids, size):
            with self.engine.connect() as connection:
                yield load_samples(connection, ids, inputs, self.scorer_id)


@dataclass(frozen=True, slots=True)
class Examination:
    """Whether the checks of a source hold on a shard, by the name of the check, and the counts behind them."""

    passed: Mapping[str, bool]
    counts: Mapping[str, int]


class Source(ABC, Generic[T]):
    """What models find out about samples, for one scorer. T is what `load` gives.

    The class says what Dagster must know without loading a model; an object is bound to the models of a scorer.
    """

    # The asset that makes it, with its group, its kinds, and the assets of ingest that it reads.
    asset: ClassVar[str]
    description: ClassVar[str]
    group: ClassVar[str]
    reads: ClassVar[tuple[str, ...]]
    kinds: ClassVar[frozenset[str]] = frozenset({"postgres", "pytorch"})
    # Kinds of sources that must be made first.
    rests_on: ClassVar[tuple[type[Source[Any]], ...]] = ()
    # What its asset is checked for: a sentence by the name of each check.
    checks: ClassVar[Mapping[str, str]] = {}
    # What a run may ask of it, by name with the default; the values are part of no fingerprint.
    options: ClassVar[Mapping[str, bool]] = {}
    # Tables that are no part of db.schema: those of a source from outside this project.
    tables: ClassVar[tuple[sa.Table, ...]] = ()

    # What samples are loaded with for `make`, and the sources of the kinds in `rests_on`.
    inputs: Collection[Input[Any]]
    sources: tuple[Source[Any], ...] = ()

    @property
    @abstractmethod
    def model(self) -> ModelIdentity:
        """The model that finds it out. Knowing the identity must not load the model."""

    @abstractmethod
    def make(self, order: Order, sample_ids: list[int]) -> Mapping[str, int | str]:
        """Find out and store what is missing for these samples; returns counts and names for people.

        Models are loaded only when there is something for them to do. What is done is stored in small transactions, so
        that a crash costs little.
        """

    @abstractmethod
    def load(self, engine: Engine, scorer_id: int, samples: Sequence[PendingSample]) -> T:
        """What was found out about some samples; MissingEvidence where `make` has not seen them."""

    @abstractmethod
    def try_out(self) -> str:
        """Make the model do one piece of work and say in a line what came out. Errors are those of the model."""

    def model_id(self, connection: Connection) -> int | None:
        """The id of the model in table `model`, or None when it has done no work yet."""
        return find_model(connection, self.model.as_dict())

    def missing(self, what: str) -> MissingEvidence:
        """The error to raise where `make` has not seen everything: what is missing, and the remedy."""
        return MissingEvidence(f"{what}: materialise {self.asset} for this shard first")

    def pending(self, order: Order, asked: Callable[[], list[int]]) -> list[int]:
        """Ids of the samples to be made. asked: gives those that whoever rests on this source has still to do."""
        return asked()

    def outstanding(self, order: Order) -> int:
        """How many samples are left to be made that no missing score tells of, because an option left them open."""
        return 0

    def examine(self, order: Order) -> Examination:
        """The checks on what is stored for the shard."""
        return Examination({}, {})


class Evidence:
    """What sources found out about a batch of samples: `evidence[source]` is what `source.load` gave."""

    def __init__(self, found: Mapping[Source[Any], Any]) -> None:
        self._found = found

    def __getitem__(self, source: Source[T]) -> T:
        found: T = self._found[source]
        return found


def load_evidence(
    engine: Engine, scorer_id: int, sources: Sequence[Source[Any]], samples: Sequence[PendingSample]
) -> Evidence:
    """What each of the sources found out about the samples; MissingEvidence where one has not made it."""
    return Evidence({source: source.load(engine, scorer_id, samples) for source in sources})


def chain(sources: Sequence[Source[Any]]) -> Iterator[Source[Any]]:
    """The sources and all that they rest on, those first that others rest on."""
    for source in sources:
        yield from chain(source.sources)
        yield source


def chain_of_kinds(kinds: Sequence[type[Source[Any]]]) -> dict[str, type[Source[Any]]]:
    """The kinds and all that they rest on by asset, those first that others rest on."""
    found: dict[str, type[Source[Any]]] = {}
    for kind in kinds:
        found |= chain_of_kinds(kind.rests_on)
        found[kind.asset] = kind
    return found
