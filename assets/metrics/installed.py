"""Metrics of other installed packages, which are found by entry points. A broken metric keeps no other from loading."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from importlib.metadata import EntryPoint, entry_points
from numbers import Real
from typing import Any, NamedTuple, cast

from pydantic import BaseModel

from assets.scores.base import Scorer
from assets.sources.base import Source, sort_source_classes
from db.schema import METADATA
from db.schema.inputs import Input, build_digest_sql
from db.scores.imported_scores import RESERVED_NAMES
from db.scores.sample_scores import list_columns_without_metrics

# The group of entry points in which a package names the classes of its scorers.
ENTRY_POINTS = "reelsieve.metrics"

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
# The columns of a metric in view sample_scores: its name with these endings.
_COLUMNS = ("", "_status", "_is_stale", "_models")
_METHODS = ("from_settings", "models", "params", "score", "explain")


class BrokenMetric(NamedTuple):
    """A metric of an installed package that cannot be used. name: the name of its entry point. package: name and
    version of the package. reason: the problem in words, such as "pkg:Scorer is not a scorer: it lacks params".
    """

    name: str
    package: str
    reason: str

    @property
    def remedy(self) -> str:
        """The reason, then the advice to correct, update or uninstall the package, as part of a sentence."""
        return f"{self.reason}: correct, update or uninstall {self.package}"


class UnusableMetric(RuntimeError):
    """Raised when a broken metric of an installed package is asked for; the message has the remedy."""

    plain = True


class InstalledMetrics(NamedTuple):
    """The metrics of installed packages. scorers: the classes of the scorers that can be used. broken: the metrics that
    cannot be used, with the reasons.
    """

    scorers: tuple[type[Scorer], ...]
    broken: tuple[BrokenMetric, ...]


class _Unusable(ValueError):
    """Raised when a scorer's class lacks a member or has a wrong one; the message is the reason."""


def find_package(metric: str) -> str:
    """Return name and version of the installed package that provides a metric, such as "mypackage 1.2"; "the package of
    METRIC" if none does. Imports the modules that the entry points of installed metrics name, and passes over those
    that fail.
    """
    for point in entry_points(group=ENTRY_POINTS):
        with suppress(Exception, SystemExit):
            if point.load().metric == metric:
                return _format_package(point)
    return f"the package of {metric}"


def import_installed_metrics(points: Iterable[EntryPoint], built_in: Sequence[type[Scorer]]) -> InstalledMetrics:
    """Import and check the scorers that entry points name; return the usable classes, and the metrics that failed with
    the reasons. Importing runs the code of the packages, and no error of it is raised. A metric with the name of an
    earlier one, or of one in `built_in`, counts as broken.

    built_in: the scorers of Reelsieve itself.
    """
    scorers: list[type[Scorer]] = []
    broken = []
    for point in points:
        package = _format_package(point)
        try:
            scorer = point.load()
        except (Exception, SystemExit) as error:
            broken.append(BrokenMetric(point.name, package, f"importing {point.value} raises {format_error(error)}"))
            continue
        try:
            _check_scorer(scorer, [*built_in, *scorers])
        except _Unusable as error:
            broken.append(BrokenMetric(point.name, package, f"{point.value} {error}"))
        except Exception as error:
            broken.append(BrokenMetric(point.name, package, f"reading {point.value} raises {format_error(error)}"))
        else:
            scorers.append(scorer)
    return InstalledMetrics(tuple(scorers), tuple(broken))


def _format_package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else f"the package of {point.module}"


def _check_scorer(scorer: Any, others: Sequence[type[Scorer]]) -> None:
    """Raise _Unusable if a scorer's class lacks a member, has a wrong one, or collides with another scorer."""
    missing = [name for name in (*_list_required_members(), *_METHODS) if not hasattr(scorer, name)]
    if missing:
        raise _Unusable(f"is not a scorer: it lacks {', '.join(missing)}")
    if wrong := [name for name in _METHODS if not callable(getattr(scorer, name))]:
        raise _Unusable(f"is not a scorer: its member {wrong[0]} is not a method")
    _check_name(scorer.metric, {other.metric for other in others})
    if not isinstance(scorer.code_version, str):
        raise _Unusable(f"has code_version {scorer.code_version!r}, which is not text")
    if not _is_range(scorer.value_range):
        raise _Unusable(f"has value_range {scorer.value_range!r}, which is not a pair of a lowest and a highest value")
    _check_settings(scorer.settings)
    _check_evidence(scorer.inputs, scorer.rests_on, others)


def _list_required_members() -> list[str]:
    """Return the names of the attributes that the class of a scorer must have."""
    return [name for name in Scorer.__annotations__ if name != "sources"]


def _check_name(metric: Any, others: Collection[str]) -> None:
    if not isinstance(metric, str) or not _NAME.fullmatch(metric):
        raise _Unusable(
            f"has metric name {metric!r}, which is not at most 40 lower-case letters, digits and _, a letter first"
        )
    if metric in others:
        raise _Unusable(f"has metric name {metric!r}, which another metric has")
    taken = {
        *list_columns_without_metrics(),
        *RESERVED_NAMES,
        *(f"{other}{part}" for other in others for part in _COLUMNS),
    }
    if columns := [name for part in _COLUMNS if (name := f"{metric}{part}") in taken]:
        raise _Unusable(f"has metric name {metric!r}, but {columns[0]!r} is another column of sample_scores")


def _is_range(value_range: Any) -> bool:
    if not isinstance(value_range, Sequence) or len(value_range) != 2:
        return False
    low, high = value_range
    return isinstance(low, Real) and isinstance(high, Real) and not math.isnan(low) and low < high


def _check_settings(settings: Any) -> None:
    if not isinstance(settings, type) or not issubclass(settings, BaseModel):
        raise _Unusable("has settings that are not a subclass of pydantic's BaseModel")
    if needed := [name for name, field in settings.model_fields.items() if field.is_required()]:
        raise _Unusable(f"has the setting {needed[0]} without a default, which every command would need")


def _check_evidence(inputs: Any, rests_on: Any, others: Sequence[type[Scorer]]) -> None:
    if not isinstance(inputs, Collection) or not inputs or not all(isinstance(item, Input) for item in inputs):
        raise _Unusable("has inputs that are not a list of at least one Input of reelsieve.metrics")
    try:
        build_digest_sql(inputs)
    except ValueError as error:
        raise _Unusable(f"has inputs that cannot be used: {error}") from None
    if not all(isinstance(kind, type) and issubclass(kind, Source) for kind in rests_on):
        raise _Unusable("has an item in rests_on that is not a subclass of Source of reelsieve.metrics")
    known = sort_source_classes([source for other in others for source in other.rests_on])
    new = sort_source_classes(cast(Sequence[type[Source[Any]]], rests_on))
    if clash := [asset for asset, source in new.items() if known.get(asset, source) is not source]:
        raise _Unusable(f"needs a source whose asset {clash[0]!r} is also that of another source")
    source_tables = {table.name for source in (*known.values(), *new.values()) for table in source.tables}
    for item in inputs:
        for table in item.tables:
            if table not in METADATA.tables and table not in source_tables:
                raise _Unusable(
                    f"has an input that reads table {table!r}, which neither Reelsieve nor an installed package has"
                )


def format_error(error: BaseException) -> str:
    """Return the class name of an error, and in brackets the first line of its message, cut at 200 characters. An error
    without a message, or whose message cannot be made, gives the class name only.
    """
    try:
        lines = str(error).strip().splitlines()
    except Exception:
        lines = []
    return f"{type(error).__name__}{f' ({lines[0][:200]})' if lines else ''}"
