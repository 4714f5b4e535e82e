"""The resource `curation` that all assets use: the database, the scorers and the home folder, opened on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Engine

from assets.agreement.judged import RunJudgements
from assets.datasets.lookup import RunShard
from assets.definitions.results import RunResults
from assets.home.files import create_home_folder
from assets.metrics.installed import BrokenMetric, UnusableMetric, find_package, format_error
from assets.metrics.registry import INSTALLED_METRICS, METRICS
from assets.progress import LineWriter
from assets.scores.base import Scorer, find_missing_setting
from metrics_core.models.chat.outbox import Outbox


@dataclass(frozen=True, slots=True)
class Step:
    """One asset to compute on these shards: evidence for all `metrics` that need it, or the scores of one metric.
    `run_id` is the run that results are stored under, and `options` the values of the evidence's options, by name.
    `outbox` takes the requests to chat models instead of their servers; None sends them.
    """

    asset: str
    shards: tuple[RunShard, ...]
    metrics: tuple[str, ...]
    run_id: str
    options: Mapping[str, bool] = field(default_factory=dict)
    outbox: Outbox | None = None


class _Scorers(dict[str, Scorer]):
    """The usable scorers by metric; a look-up of a broken metric raises UnusableMetric with the reason."""

    def __init__(self, broken: Mapping[str, BrokenMetric]) -> None:
        super().__init__()
        self._broken = broken

    def __missing__(self, metric: str) -> Scorer:
        if metric not in self._broken:
            raise KeyError(metric)
        raise UnusableMetric(f"metric {metric} cannot be used, since {self._broken[metric].remedy}")


class Curation:
    """The database, scorers and home folder of an installation, as the Dagster resource `curation` of the assets; all
    three are opened on first use. It also holds the results and judgements of the current run.

    A plain object rather than a configurable resource: the database's URL may hold a password, and Dagster shows and
    stores the configuration of its resources.
    """

    def __init__(
        self,
        open_home: Callable[[], Path],
        settings: object,
        connect: Callable[[], Engine],
        scorers: Mapping[str, type[Scorer]],
        report_broken: Callable[[BrokenMetric], None] = lambda _: None,
    ) -> None:
        """report_broken: called once for each metric of an installed package that turns out to be broken."""
        self._open_home = open_home
        self._settings = settings
        self._connect = connect
        self._scorers = scorers
        self._report_broken = report_broken
        # The metrics of installed packages that turned out to be unusable so far, by name.
        self.broken_metrics: dict[str, BrokenMetric] = {}
        # Computes the steps of runs in place of this process; None where this process does.
        self.step_runner: Callable[[Step, LineWriter], Iterator[tuple[str, Any]]] | None = None
        # Of the current run; a process has one run after the other.
        self.results = RunResults()
        self.judgements = RunJudgements()

    @cached_property
    def home(self) -> Path:
        """The path of the home folder. The first use creates the folder if it is missing, and raises
        SettingsError for one of another account.

        A process that only computes for another machine never needs it.
        """
        return self._open_home()

    @cached_property
    def engine(self) -> Engine:
        """The SQLAlchemy engine of the curation database, connected on first use."""
        return self._connect()

    @cached_property
    def scorers(self) -> dict[str, Scorer]:
        """One scorer for every metric and simple score that can be used, by name, built from the settings on first use.
        No model loads before a scorer needs it. A look-up of a metric whose package is broken raises UnusableMetric;
        any other unknown name raises KeyError.
        """
        made = _Scorers(self.broken_metrics)
        for metric, scorer in self._scorers.items():
            if metric in self.broken_metrics:
                continue
            try:
                made[metric] = scorer.from_settings(self._settings)
            except Exception as error:
                if metric not in INSTALLED_METRICS:
                    raise
                self.leave_out_metric(metric, f"making its scorer from the settings raises {format_error(error)}")
        return made

    @property
    def metrics(self) -> list[str]:
        """The names of the metrics that can be used, in their fixed order; simple scores are not among them, nor is a
        metric that has no value before a setting names its model.
        """
        return [
            metric for metric in METRICS if metric in self.scorers and not find_missing_setting(self.scorers[metric])
        ]

    def leave_out_metric(self, metric: str, reason: str) -> None:
        """Mark a metric of an installed package as broken: drop its scorer, and report the reason to the user. reason:
        part of a sentence that says what is wrong.
        """
        self.broken_metrics[metric] = BrokenMetric(metric, find_package(metric), reason)
        self.__dict__.get("scorers", {}).pop(metric, None)
        self._report_broken(self.broken_metrics[metric])

    def create_folder(self, name: str) -> Path:
        """Return the path of the folder `name` in the home folder; create it, for this account only, where it is
        missing.
        """
        return create_home_folder(self.home, name)
