"""The one resource that assets ask for: the database, the scorers and the home folder, each made when first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy.engine import Engine

from assets.agreement.judged import Judgements
from assets.home import make_home_folder
from assets.results import Results
from assets.scores.base import Scorer

if TYPE_CHECKING:
    from assets.steps import Take


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
    ) -> None:
        self._open_home = open_home
        self._settings = settings
        self._connect = connect
        self._scorers = scorers
        # Who takes the steps of runs instead of this process.
        self.others: Take | None = None
        # Of the run under way; the runs of a process follow one another.
        self.results = Results()
        self.judgements = Judgements()

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
        """One scorer per metric; the models behind them load when they are first used."""
        return {metric: scorer.from_settings(self._settings) for metric, scorer in self._scorers.items()}

    def folder(self, name: str) -> Path:
        """A folder below the home folder, made when it is missing."""
        return make_home_folder(self.home, name)
