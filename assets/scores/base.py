"""The protocol of a scorer, and its results. A scorer knows neither Dagster nor how its evidence was made."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

from pydantic import BaseModel
from sqlalchemy.engine import Connection

from assets.sources.base import Evidence, Source
from assets.words.marked_text import Mark
from db.schema.inputs import Input
from db.scores.pending import PendingSample


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a scorer for one sample: a `value` with status "ok", or None with another status and a `reason`.
    components: details by name, ready for JSON, which are stored with the score and handed to `explain`.

    A sample with status "failed" is tried again by the next run; every other status, such as "no_reference", is final
    for these inputs.
    """

    value: float | None
    status: str = "ok"
    reason: str | None = None
    components: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reasons for a sample's score: lines of text, and rows of a table as dicts that all have the same columns.
    reference: the key of the reference that decided, if the metric compares with several and only one counts; else
    None. marks: the wrong pieces of the text, in its order and without overlap, which pages mark.
    """

    lines: Sequence[str] = ()
    rows: Sequence[Mapping[str, Any]] = ()
    reference: str | None = None
    marks: Sequence[Mark] = ()


class Scorer(Protocol):
    """A metric with fixed models and parameters; it computes scores from the evidence of its `sources` and asks no
    model itself. The class names the inputs and the classes of the sources that the metric needs, so Dagster needs no
    model for them.
    """

    metric: ClassVar[str]
    # Raised by hand when numbers change, and only then; golden tests guard it.
    code_version: ClassVar[str]
    # The range of a defined value, for the asset check.
    value_range: ClassVar[tuple[float, float]]
    # The inputs of a score. When one of them changes, the score is stale.
    inputs: ClassVar[Collection[Input[Any]]]
    # The classes of the sources that the scorer reads; `sources` has one source of every class, in this order.
    rests_on: ClassVar[tuple[type[Source[Any]], ...]]
    # The group of settings. Field X is the environment variable REELSIEVE_X. Metrics may share fields.
    settings: ClassVar[type[BaseModel]]

    sources: tuple[Source[Any], ...]

    @classmethod
    def from_settings(cls, settings: Any) -> Scorer:
        """Make the scorer from an object of the class in `settings`, which has its models and parameters. Its models
        load when they are first used.
        """
        ...

    def models(self) -> dict[str, Any]:
        """Return the identity of every model as a dict with model_id, revision and params, by the model's role; {}
        without models. The identities are part of the scorer's fingerprint, so no model is loaded for them.
        """
        ...

    def params(self) -> dict[str, Any]:
        """Return all parameters that can change a value, by name, ready for JSON; part of the scorer's fingerprint."""
        ...

    def score(self, samples: Sequence[PendingSample], evidence: Evidence) -> list[Outcome]:
        """Return one outcome for every sample, in order, computed from the evidence that was loaded for these samples.
        `evidence[source]` is that of one of the `sources`. A sample that cannot be scored gets a status and a reason;
        none raises.
        """
        ...

    def explain(
        self, connection: Connection, sample: PendingSample, evidence: Evidence, components: Mapping[str, Any]
    ) -> Explanation:
        """Return lines and table rows that explain a sample's score, made from the evidence it was computed from.
        components: those stored with the score. connection: an open connection to the database, for rows that are not
        part of the evidence.
        """
        ...


@runtime_checkable
class Refusing(Protocol):
    """A scorer with a method `refusal`: before any model is asked, it knows of some samples that they cannot have a
    value.
    """

    def refusal(self, sample: PendingSample) -> Outcome | None:
        """Return the outcome, with status and reason, of a sample that cannot have a value whatever models answer. None
        if the sample may get a value. Asks no model.
        """
        ...


@runtime_checkable
class NeedsSetting(Protocol):
    """A scorer that has no value for any sample before a setting names its model."""

    @property
    def missing_setting(self) -> str | None:
        """The name of that variable, such as REELSIEVE_JUDGE_MODEL; None where it is set."""
        ...


def find_missing_setting(scorer: Scorer) -> str | None:
    """Return the setting without which a scorer has no value for any sample, as a variable; None for a scorer that
    needs none, or has it.
    """
    return scorer.missing_setting if isinstance(scorer, NeedsSetting) else None
