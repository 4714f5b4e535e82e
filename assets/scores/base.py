"""What every metric's scorer offers. Rows in, rows out: a scorer knows neither Dagster nor how its sources are made."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel
from sqlalchemy.engine import Connection

from assets.sources.base import Evidence, Source
from db.inputs import Input
from db.work import PendingSample


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a scorer says of one sample: a value and its components, or a status with a reason.

    The status is "ok" exactly where there is a value. "failed" is tried again by the next run; every other status, such
    as "no_reference", is final for these inputs.
    """

    value: float | None
    status: str = "ok"
    reason: str | None = None
    components: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a sample has its score: sentences, then a table whose rows all have the same columns."""

    lines: Sequence[str] = ()
    rows: Sequence[Mapping[str, Any]] = ()


class Scorer(Protocol):
    """A metric with fixed models and parameters. What it rests on follows from the class, without a model.

    It turns what its sources found out into numbers and asks no model itself.
    """

    metric: ClassVar[str]
    # Bumped by hand when numbers change; golden tests guard it. A refactor leaves it alone.
    code_version: ClassVar[str]
    # The range a defined value lies in, for the asset check.
    value_range: ClassVar[tuple[float, float]]
    # What a score depends on: when one of them changes, the score is stale.
    inputs: ClassVar[Collection[Input[Any]]]
    # The kinds of sources that it reads. `sources` holds one of each kind, in this order.
    rests_on: ClassVar[tuple[type[Source[Any]], ...]]
    # Its settings: a field X is the environment variable REELSIEVE_X. Metrics may share fields.
    settings: ClassVar[type[BaseModel]]

    sources: tuple[Source[Any], ...]

    @classmethod
    def from_settings(cls, settings: Any) -> Scorer:
        """The scorer that its settings describe, with its real models, which load when they are first used."""
        ...

    def models(self) -> dict[str, Any]:
        """Identities of the models, for the fingerprint."""
        ...

    def params(self) -> dict[str, Any]:
        """All parameters that move the value, for the fingerprint."""
        ...

    def score(self, samples: Sequence[PendingSample], evidence: Evidence) -> list[Outcome]:
        """One outcome per sample, in order. Anything that a single bad sample can cause is an outcome, not an error."""
        ...

    def explain(
        self, connection: Connection, sample: PendingSample, evidence: Evidence, components: Mapping[str, Any]
    ) -> Explanation:
        """Why a scored sample has its value, from the same evidence; components: those stored with the score."""
        ...
