"""The protocol of a scorer, and its results. A scorer knows neither Dagster nor how its evidence was made."""

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
    """The result of a scorer for one sample: a value with its components, or a status and a reason instead of a value.

    The status is "ok" if and only if there is a value. A sample with status "failed" is tried again by the next run;
    every other status, such as "no_reference", is final for these inputs.
    """

    value: float | None
    status: str = "ok"
    reason: str | None = None
    components: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reasons for a sample's score: lines of text, then rows of a table that all have the same columns.

    reference: key of the reference that decided, if the metric compares with several and only one counts; else None.
    """

    lines: Sequence[str] = ()
    rows: Sequence[Mapping[str, Any]] = ()
    reference: str | None = None


class Scorer(Protocol):
    """A metric with fixed models and parameters; it computes scores from evidence of its sources, without a model.

    The class names the inputs and the classes of the sources that the metric needs, so Dagster needs no model for them.
    """

    metric: ClassVar[str]
    # Raised by hand when numbers change, and only then; golden tests guard it.
    code_version: ClassVar[str]
    # The range of a defined value, for the asset check.
    value_range: ClassVar[tuple[float, float]]
    # The inputs of a score. When one of them changes, the score is stale.
    inputs: ClassVar[Collection[Input[Any]]]
    # The classes of the sources that the scorer reads; `sources` has one source of every class, in this order. Before
    # it there may be a source that the same asset makes first, because another source needs it.
    rests_on: ClassVar[tuple[type[Source[Any]], ...]]
    # The group of settings. Field X is the environment variable REELSIEVE_X. Metrics may share fields.
    settings: ClassVar[type[BaseModel]]

    sources: tuple[Source[Any], ...]

    @classmethod
    def from_settings(cls, settings: Any) -> Scorer:
        """Make the scorer with the models and parameters of the settings. Its models load when they are first used."""
        ...

    def models(self) -> dict[str, Any]:
        """Return the identity of every model as a dict, by the model's role; part of the scorer's fingerprint."""
        ...

    def params(self) -> dict[str, Any]:
        """Return all parameters that can change a value, by name, ready for JSON; part of the scorer's fingerprint."""
        ...

    def score(self, samples: Sequence[PendingSample], evidence: Evidence) -> list[Outcome]:
        """Return one outcome for every sample, in order. A sample that cannot be scored gets a status; none raises."""
        ...

    def explain(
        self, connection: Connection, sample: PendingSample, evidence: Evidence, components: Mapping[str, Any]
    ) -> Explanation:
        """Return lines and table rows that explain a sample's value, made from the evidence it was computed from.

        components: the components stored with the score.
        """
        ...


@runtime_checkable
class Refusing(Protocol):
    """A scorer that knows, before any model is asked, that some samples cannot have a value."""

    def refusal(self, sample: PendingSample) -> Outcome | None:
        """Return the outcome, with status and reason, of a sample that cannot have a value; None if it may get one.

        No model is asked: the sample could not have a value whatever models answer.
        """
        ...
