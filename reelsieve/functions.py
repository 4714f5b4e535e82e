"""A metric that is one function. A metric that asks a model, keeps evidence or has settings is a class of
reelsieve.metrics.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, update_wrapper
from numbers import Real
from typing import TYPE_CHECKING, Any

from reelsieve.errors import ReelsieveError

if TYPE_CHECKING:
    from assets.scores.base import Explanation, Outcome
    from assets.sources.base import Evidence
    from db.schema.inputs import Input
    from db.scores.pending import PendingSample

# The parameters that a function may have: the caption, and texts that people wrote about its video.
PARAMETERS = ("text", "references", "keypoints")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
STATUS_PATTERN = re.compile(r"[a-z][a-z_]{1,39}")


class FunctionMetric:
    """A metric that is one Python function, with the members of `reelsieve.metrics.Scorer`; `reelsieve.metric` makes
    one. Calling it calls the function. value_range: the lowest and the highest number that the function may return.
    """

    rests_on = ()
    sources = ()

    def __init__(self, function: Callable[..., Any], name: str, version: str, value_range: tuple[float, float]) -> None:
        self.metric = name
        self.code_version = version
        self.value_range = value_range
        self._function = function
        self._parameters = tuple(inspect.signature(function).parameters)
        update_wrapper(self, function)

    def __repr__(self) -> str:
        low, high = self.value_range
        return f"<metric {self.metric!r}, version {self.code_version!r}, from {low} to {high}>"

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call the function with these arguments, and return its result unchanged."""
        return self._function(*args, **named)

    @cached_property
    def inputs(self) -> tuple[Input[Any], ...]:
        """The inputs that a score depends on, of text, references and keypoints: those that the function has as
        parameters, in the parameters' order.
        """
        from db.schema.inputs import KEYPOINTS, REFERENCES, TEXT

        by_name: dict[str, Input[Any]] = dict(zip(PARAMETERS, (TEXT, REFERENCES, KEYPOINTS), strict=True))
        return tuple(by_name[name] for name in self._parameters)

    @property
    def settings(self) -> Any:
        """A pydantic class without fields, since such a metric has no settings."""
        return _no_settings()

    def from_settings(self, settings: Any) -> FunctionMetric:
        """Return this metric itself and ignore the settings, since it has none."""
        return self

    def models(self) -> dict[str, Any]:
        """Return a dict with one key "function", for fingerprints. The value is a dict: model_id is the function's
        module and name, revision the metric's version, and params is empty.
        """
        from metrics_core.protocols import ModelIdentity

        name = f"{self._function.__module__}.{self._function.__qualname__}"
        return {"function": ModelIdentity(name, self.code_version, {}).as_dict()}

    def params(self) -> dict[str, Any]:
        """Return an empty dict: the metric has no parameters."""
        return {}

    def refusal(self, sample: PendingSample) -> Outcome | None:
        """Return an Outcome of status "not_applicable" for an answer to a question; None for a caption, which can be
        scored.
        """
        from assets.scores.base import Outcome

        if sample.kind == "caption":
            return None
        return Outcome(None, "not_applicable", f"{self.metric} judges captions; this is a question-answer pair")

    def score(self, samples: Sequence[PendingSample], evidence: Evidence) -> list[Outcome]:
        """Return the outcomes of samples in their order, by one call of the function for every caption. A call that
        raises, or returns no number in the value range, gives an Outcome with a status and a reason instead; None gives
        "undefined". The evidence is not used.
        """
        return [self.refusal(sample) or self._score_one(sample) for sample in samples]

    def explain(
        self, connection: Any, sample: PendingSample, evidence: Evidence, components: Mapping[str, Any]
    ) -> Explanation:
        """Return an explanation of one line: the function's name and the first line of its docstring. All arguments are
        ignored.
        """
        from assets.scores.base import Explanation

        about = inspect.getdoc(self._function) or "it has no docstring"
        return Explanation([f"{self.metric} is the function {self._function.__qualname__}: {about.splitlines()[0]}"])

    def _score_one(self, sample: PendingSample) -> Outcome:
        from assets.scores.base import Outcome

        values = self._list_arguments(sample)
        try:
            result = self._function(*(values[name] for name in self._parameters))
        except Exception as error:
            return Outcome(
                None, "failed", _one_line(f"{self.metric} raised {type(error).__name__}: {_show(str, error)}")
            )
        return self._check_outcome(result) if isinstance(result, Outcome) else self._build_outcome(result)

    def _check_outcome(self, outcome: Outcome) -> Outcome:
        """Return an outcome that can be stored: a number in range, or a status and a reason of plain text."""
        from assets.scores.base import Outcome

        if outcome.status == "ok":
            return replace(self._build_outcome(outcome.value), components=outcome.components)
        if (
            outcome.value is not None
            or not isinstance(outcome.status, str)
            or not STATUS_PATTERN.fullmatch(outcome.status)
        ):
            remedy = "give an Outcome a value, or a status such as no_audio"
            shown = f"value {_show(repr, outcome.value)} and status {_show(repr, outcome.status)}"
            return Outcome(None, "failed", _one_line(f"{self.metric} returned {shown}: {remedy}"))
        reason = f"{self.metric} gives no reason" if outcome.reason is None else _show(str, outcome.reason)
        return replace(outcome, reason=_one_line(reason))

    def _list_arguments(self, sample: PendingSample) -> dict[str, Any]:
        from db.schema.inputs import KEYPOINTS, REFERENCES

        values: dict[str, Any] = {"text": sample.text}
        for input_ in (REFERENCES, KEYPOINTS):
            values[input_.name] = [row.text for row in sample.inputs.get(input_.name, ())]
        return values

    def _build_outcome(self, result: Any) -> Outcome:
        from assets.scores.base import Outcome

        if result is None:
            return Outcome(None, "undefined", f"{self.metric} gives this caption no value")
        low, high = self.value_range
        value = convert_to_float(result)
        if value is None or math.isnan(value):
            remedy = "return a number, None, or an Outcome with a status and a reason"
            return Outcome(None, "failed", _one_line(f"{self.metric} returned {_show(repr, result)}: {remedy}"))
        if not low <= value <= high:
            remedy = "correct the function or its value_range"
            return Outcome(None, "failed", f"{self.metric} returned {value:g}, not {low:g} to {high:g}: {remedy}")
        return Outcome(value)


def metric(
    name: str, *, version: str, value_range: tuple[float, float]
) -> Callable[[Callable[..., Any]], FunctionMetric]:
    """Return a decorator that turns a function into a metric of this name. The function's parameters say what it reads
    of a caption: `text` (a str), `references` and `keypoints` (lists of str). It returns a number in `value_range`,
    None for no value, or an Outcome. Raise `version` when its numbers change: old scores are then computed again.

    `reelsieve.score` takes the metric itself. For commands to know it, its package must name it as an entry point of
    the group `reelsieve.metrics`; then it has an asset, columns, staleness, and a place in reports and agreement.

    Raises ReelsieveError for a bad or used name, and the decorator for other parameters.

    >>> import reelsieve as rs
    >>> @rs.metric("letters", version="1", value_range=(0, 1))
    ... def letters(text: str) -> float:
    ...     "The share of characters that are letters."
    ...     return sum(map(str.isalpha, text)) / len(text)
    >>> letters("ab12")
    0.5
    """
    # Imported late: it loads the tables, which the mere import of the package need not do.
    from db.scores.sample_scores import SIMPLE_SCORES, list_columns_without_metrics

    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ReelsieveError(
            f"metric name {name!r}: write a lower-case letter, then at most 39 lower-case letters, digits and _"
        )
    if name in {*list_columns_without_metrics(), *SIMPLE_SCORES}:
        raise ReelsieveError(f"metric name {name!r} is that of a column of sample_scores already: choose another")

    def make(function: Callable[..., Any]) -> FunctionMetric:
        parameters = list(inspect.signature(function).parameters)
        if not parameters or not set(parameters) <= {*PARAMETERS}:
            known, unknown = ", ".join(PARAMETERS), [each for each in parameters if each not in PARAMETERS]
            why = f"has the unknown parameter {unknown[0]}" if unknown else "has no parameter"
            raise ReelsieveError(f"metric {name}: its function {why}: give it some of {known}")
        return FunctionMetric(function, name, version, value_range)

    return make


@lru_cache(maxsize=1)
def _no_settings() -> Any:
    from pydantic import BaseModel

    class NoSettings(BaseModel):
        """No settings."""

    return NoSettings


def convert_to_float(given: Any) -> float | None:
    """Return a real number as a float; inf or -inf if it is too large for one. None for anything else, such as a text.

    >>> convert_to_float(10**400), convert_to_float(3), convert_to_float("3"), convert_to_float(True)
    (inf, 3.0, None, 1.0)
    """
    is_real = isinstance(given, Real)
    try:
        return float(given) if is_real else None
    except OverflowError:
        return math.inf if given > 0 else -math.inf
    except Exception:
        return None  # a class of its own, whose conversion fails


def _show(how: Callable[[Any], str], given: object) -> str:
    """Return `str` or `repr` of an object of somebody else's class, or a note if its own code fails."""
    try:
        return how(given)
    except Exception as error:
        return f"an object that cannot be shown ({type(error).__name__})"


def _one_line(text: str) -> str:
    """Return the text in one line of at most 500 characters that every table can store."""
    from assets.ingest.hygiene import format_raw_row

    return " ".join(format_raw_row(text.encode("utf-8", "backslashreplace")).split())[:500]
