"""The metrics that installed packages bring along. Each is loaded by itself, so that a broken one stops no other."""

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

# A package that brings a metric names its scorer's class in this group.
ENTRY_POINTS = "reelsieve.metrics"

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
# What view sample_scores has of a metric, behind its name.
_COLUMNS = ("", "_status", "_is_stale", "_models")
_METHODS = ("from_settings", "models", "params", "score", "explain")


class BrokenMetric(NamedTuple):
    """A metric of an installed package that cannot be used. name: of its entry point; reason: part of a sentence."""

    name: str
    package: str
    reason: str

    @property
    def remedy(self) -> str:
        """The reason, and what to do."""
        return f"{self.reason}: correct, update or uninstall {self.package}"


class UnusableMetric(RuntimeError):
    """A metric of an installed package was asked for that cannot be used; the message says why, with the remedy."""

    plain = True


class InstalledMetrics(NamedTuple):
    """The scorers of installed packages that can be used, and the metrics that cannot."""

    scorers: tuple[type[Scorer], ...]
    broken: tuple[BrokenMetric, ...]


class _Unusable(ValueError):
    """A scorer's class lacks something; the message is the reason."""


def find_package(metric: str) -> str:
    """Return the name and the version of the installed package that brings a metric along."""
    for point in entry_points(group=ENTRY_POINTS):
        with suppress(Exception, SystemExit):
            if point.load().metric == metric:
                return _format_package(point)
    return f"the package of {metric}"


def import_installed_metrics(points: Iterable[EntryPoint], built_in: Sequence[type[Scorer]]) -> InstalledMetrics:
    """Load the metrics behind entry points. Of several with one name the first counts; `ours` come before all.

    Importing a package runs its code; whatever this raises makes its metric a broken one.
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
    """Raise _Unusable where a scorer's class lacks a member or has one that others rule out."""
    missing = [name for name in (*_list_required_members(), *_METHODS) if not hasattr(scorer, name)]
    if missing:
        raise _Unusable(f"is no scorer, since it lacks {', '.join(missing)}")
    if wrong := [name for name in _METHODS if not callable(getattr(scorer, name))]:
        raise _Unusable(f"is no scorer, since {wrong[0]} cannot be called")
    _check_name(scorer.metric, {other.metric for other in others})
    if not isinstance(scorer.code_version, str):
        raise _Unusable(f"has code_version {scorer.code_version!r}, which is no text")
    if not _is_range(scorer.value_range):
        raise _Unusable(f"has value_range {scorer.value_range!r}, which is no pair of a least and a greatest value")
    _check_settings(scorer.settings)
    _check_evidence(scorer.inputs, scorer.rests_on, others)


def _list_required_members() -> list[str]:
    """The members that the class of a scorer must have a value for."""
    return [name for name in Scorer.__annotations__ if name != "sources"]


def _check_name(metric: Any, others: Collection[str]) -> None:
    if not isinstance(metric, str) or not _NAME.fullmatch(metric):
        raise _Unusable(f"has metric name {metric!r}, which is not at most 40 lower-case letters, digits and _")
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
        raise _Unusable("has settings that are no class of pydantic")
    if needed := [name for name, field in settings.model_fields.items() if field.is_required()]:
        raise _Unusable(f"has the setting {needed[0]} without a default, which every command would need")


def _check_evidence(inputs: Any, rests_on: Any, others: Sequence[type[Scorer]]) -> None:
    if not isinstance(inputs, Collection) or not inputs or not all(isinstance(each, Input) for each in inputs):
        raise _Unusable("has inputs that are no Input of reelsieve.metrics")
    try:
        build_digest_sql(inputs)
    except ValueError as error:
        raise _Unusable(f"has inputs that cannot be used: {error}") from None
    if not all(isinstance(kind, type) and issubclass(kind, Source) for kind in rests_on):
        raise _Unusable("rests on something that is no Source of reelsieve.metrics")
    known = sort_source_classes([kind for other in others for kind in other.rests_on])
    own = sort_source_classes(cast(Sequence[type[Source[Any]]], rests_on))
    if clash := [asset for asset, kind in own.items() if known.get(asset, kind) is not kind]:
        raise _Unusable(f"rests on a source with asset {clash[0]!r}, which another source has")
    of_sources = {table.name for kind in (*known.values(), *own.values()) for table in kind.tables}
    for each in inputs:
        for table in each.tables:
            if table not in METADATA.tables and table not in of_sources:
                raise _Unusable(f"has an input that reads table {table!r}, which no installed source has")


def format_error(error: BaseException) -> str:
    """The kind of an error and the first line of its message, in at most 200 letters."""
    try:
        lines = str(error).strip().splitlines()
    except Exception:
        lines = []
    return f"{type(error).__name__}{f' ({lines[0][:200]})' if lines else ''}"
