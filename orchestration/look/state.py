"""State that the pages of a server share between requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import NamedTuple, cast

from markupsafe import Markup
from sqlalchemy.engine import Engine
from starlette.requests import Request

from assets.datasets.lookup import require_dataset
from assets.promise.cache import PromiseCache
from assets.sample_map import MapCache
from assets.scores.base import Scorer
from assets.selection.vectors import find_text_encoder
from db.manifest.datasets import Dataset


class RatingSetup(NamedTuple):
    """Extras of the page for one aspect. guidelines: as HTML, shown next to the question. check_every: one in so many
    questions is an attention check, if the scale has two ends. None for none.
    """

    guidelines: Markup | None = None
    check_every: int | None = None


@dataclass(frozen=True)
class LookState:
    """State that the pages share between requests: the database of one installation, and what takes long to make.
    make_scorers: makes one scorer for every metric. has_lineage: whether Dagster's pages are served too. setups:
    by aspect. explain_lock: lets one score be explained at a time.
    """

    engine: Engine
    make_scorers: Callable[[], Mapping[str, Scorer]]
    has_lineage: bool
    setups: Mapping[str, RatingSetup]
    explain_lock: Lock = field(default_factory=Lock, init=False)

    @cached_property
    def scorers(self) -> Mapping[str, Scorer]:
        """One scorer for every metric, by name, made at the first access; their models are not loaded then."""
        return self.make_scorers()

    @cached_property
    def maps(self) -> MapCache:
        """The maps that pages have shown, kept until others take their place."""
        return MapCache(self.engine, lambda: self.scorers)

    @cached_property
    def promises(self) -> PromiseCache:
        """The sets of the promises that raters were asked for."""
        return PromiseCache(self.engine, lambda: find_text_encoder(self.scorers))


def get_state(request: Request) -> LookState:
    """Return the LookState of a request's server."""
    return cast(LookState, request.app.state.look)


def require_asked_dataset(request: Request) -> Dataset:
    """Return the dataset that the path of a request names. Reads the database; raises UnknownDataset."""
    return require_dataset(get_state(request).engine, request.path_params["dataset"])
