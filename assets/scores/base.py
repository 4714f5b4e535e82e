"""What every metric's scorer offers. Rows in, rows out: a scorer knows neither Dagster nor how evidence is made."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

from pydantic import BaseModel
from sqlalchemy.engine import Connection

from assets.sources.base import Evidence, Source
from db.schema.inputs import Input
from db.scores.pending import PendingSample


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a scorer for one sample: a value and its components, or a status with a reason.

    The status is "ok" exactly where there is a value. "failed" is tried again by the next run; every other status, such
    as "no_reference", is final for these inputs.
    """

    value: float | None
    status: str = "ok"
    reason: str | None = None
    components: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a sample has its score: lines of text, then a table whose rows all have the same columns.

    reference: key of the reference that decided, where the metric compares with several and one counts.
    """

    lines: Sequence[str] = ()
    rows: Sequence[Mapping[str, Any]] = ()
    reference: str | None = None


class Scorer(Protocol):
    """A metric with fixed models and parameters. It turns the evidence of its sources into numbers, without a model.

    The class says which inputs and kinds of sources the metric needs, so Dagster learns them without a model.
    """

    metric: ClassVar[str]
    # Raised by hand when numbers change, and only then; golden tests guard it.
    code_version: ClassVar[str]
    # The range of a defined value, for the asset check.
    value_range: ClassVar[tuple[float, float]]
    # The inputs of a score. When one of them changes, the score is stale.
    inputs: ClassVar[Collection[Input[Any]]]
    # The kinds of sources that the scorer reads. `sources` holds one source of every kind, in this order. A source that
    # the same asset makes first, because another source needs it, may stand before.
    rests_on: ClassVar[tuple[type[Source[Any]], ...]]
    # The group of settings. Field X is the environment variable REELSIEVE_X. Metrics may share fields.
    settings: ClassVar[type[BaseModel]]

    sources: tuple[Source[Any], ...]

    @classmethod
    def from_settings(cls, settings: Any) -> Scorer:
        """Make the scorer that the settings describe. Its real models load when they are first used."""
        ...

    def models(self) -> dict[str, Any]:
        """Return the identities of the models, for the fingerprint."""
        ...

    def params(self) -> dict[str, Any]:
        """Return all parameters that can change a value, for the fingerprint."""
        ...

    def score(self, samples: Sequence[PendingSample], evidence: Evidence) -> list[Outcome]:
        """Score samples: one outcome per sample, in order. A bad sample gets a status and raises no error."""
        ...

    def explain(
        self, connection: Connection, sample: PendingSample, evidence: Evidence, components: Mapping[str, Any]
    ) -> Explanation:
        """Explain a sample's value from the same evidence. components: the components stored with the score."""
        ...


@runtime_checkable
class Refusing(Protocol):
    """A scorer that knows of some samples, before any model is asked, that they cannot have a value."""

    def refusal(self, sample: PendingSample) -> Outcome | None:
        """The outcome of a sample that cannot have a value, whatever models say; else None."""
        ...
