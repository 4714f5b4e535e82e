"""The one resource that assets ask for: the database, the scorers and the home folder, each made when first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy.engine import Engine

from assets.agreement.judged import RunJudgements
from assets.home_files import create_home_folder
from assets.results import RunResults
from assets.scores.base import Scorer
from assets.scores.installed_metrics import BrokenMetric, UnusableMetric, find_package, format_error
from assets.scores.registry import INSTALLED_METRICS, METRICS

if TYPE_CHECKING:
    from assets.steps import StepRunner


class _Scorers(dict[str, Scorer]):
    """The scorers that can be used, by metric."""

    def __init__(self, broken: Mapping[str, BrokenMetric]) -> None:
        super().__init__()
        self._broken = broken

    def __missing__(self, metric: str) -> Scorer:
        if metric not in self._broken:
            raise KeyError(metric)
        raise UnusableMetric(f"metric {metric} cannot be used, since {self._broken[metric].remedy}")


class Curation:
    """Database, scorers and folders of this installation.

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
        """tell_broken: called once for each metric of an installed package that turns out to be broken."""
        self._open_home = open_home
        self._settings = settings
        self._connect = connect
        self._scorers = scorers
        self._report_broken = report_broken
        # The metrics of installed packages that cannot be used, by name, as far as they were tried.
        self.broken_metrics: dict[str, BrokenMetric] = {}
        # Who takes the steps of runs instead of this process.
        self.step_runner: StepRunner | None = None
        # Of the run under way; the runs of a process follow one another.
        self.results = RunResults()
        self.judgements = RunJudgements()

    @cached_property
    def home(self) -> Path:
        """The home folder, made and checked on first use: who only computes for another machine needs none."""
        return self._open_home()

    @cached_property
    def engine(self) -> Engine:
        """The engine of the curation database, opened on first use."""
        return self._connect()

    @cached_property
    def scorers(self) -> dict[str, Scorer]:
        """One scorer per metric that can be used; the models behind them load when they are first used.

        To ask for one that is broken raises UnusableMetric.
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
        """The metrics that can be used, in order; without the simple scores."""
        return [metric for metric in METRICS if metric in self.scorers]

    def leave_out_metric(self, metric: str, reason: str) -> None:
        """Do without a metric of an installed package. reason: part of a sentence that says what is wrong."""
        self.broken_metrics[metric] = BrokenMetric(metric, find_package(metric), reason)
        self.__dict__.get("scorers", {}).pop(metric, None)
        self._report_broken(self.broken_metrics[metric])

    def create_folder(self, name: str) -> Path:
        """A folder below the home folder, made when it is missing."""
        return create_home_folder(self.home, name)
