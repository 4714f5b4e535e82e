"""The pages of `reelsieve look`: what the database says, as HTML. An address says all that a page shows."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import yaml
from sqlalchemy.engine import Connection, Engine
from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from assets.agreement.settling import Draws
from assets.datasets import dataset_of_key
from assets.scores.base import Explanation, Scorer
from assets.scores.explain import explain_score
from assets.selection.select import make_selection, preview_selection
from assets.selection.wording import tell_ties
from assets.sources.base import MissingEvidence
from db.evidence.facts import facts_of
from db.manifest.datasets import Dataset, list_datasets
from db.reports.histograms import UNCOUNTED, Histogram, distribution_of, has_numbers
from db.reports.pages import MOST_COUNTED, count, ids_of_video, page_of, rows_of
from db.reports.samples import history_of, ratings_of, references_of, video_of
from db.reports.sight import Ground, ground, suggested_columns
from db.reports.sight_sql import build_sql
from db.scores.present import SIMPLE_SCORES
from db.selection.conditions import FilterError
from db.selection.recipes import Recipe, SelectionError
from metrics_core.models.unusable import ModelUnusable
from orchestration.look.answering import Headed, NotFound, page, told
from orchestration.look.labelling import LabelPages
from orchestration.look.media import VideoFile, no_file, sheet
from orchestration.look.rating import RatePages
from orchestration.look.view import View, after, bars, equals, links, quoted


class RowId(Convertor[int]):
    """The number of a row in a path. Python reads no number of thousands of digits: one too long for a row is 2^63."""

    regex = "[0-9]+"

    def convert(self, value: str) -> int:
        """Read the number."""
        return int(value) if len(value) <= 30 else 2**63

    def to_string(self, value: int) -> str:
        """Write the number."""
        return str(value)


register_url_convertor("row", RowId())
FILES = Path(__file__).parent / "files"
PER_PAGE = 24
# Rows of an explanation on a page.
MOST_ROWS = 100
MOST_VALUES = 8
# Lines that an explanation begins with, and rows that are shown before somebody asks for them.
FEW = {"lines": 3, "rows": 16}
# The address of a file has the hash of its content.
FOR_A_DAY = {"Cache-Control": "private, max-age=86400"}


@dataclass(frozen=True)
class Look:
    """What the pages rest on.

    make_scorers: of all metrics. has_lineage: whether Dagster serves beside. draws: those that are made already.
    """

    engine: Engine
    make_scorers: Callable[[], Mapping[str, Scorer]]
    has_lineage: bool
    draws: Draws | None = None
    explaining: Lock = field(default_factory=Lock, init=False)

    @cached_property
    def scorers(self) -> Mapping[str, Scorer]:
        """One scorer for each metric; the models behind them load when they are first used, and here none is."""
        return self.make_scorers()

    def app(self) -> ASGIApp:
        """The pages below /look, as an ASGI application."""
        own = "/look/{dataset}"
        pages = {
            "/look": self.datasets,
            own: self.grid,
            f"{own}/histogram": self.histogram,
            f"{own}/sample/{{sample_id:row}}": self.sample,
            f"{own}/video/{{video_id:row}}": self.video,
            f"{own}/video/{{video_id:row}}/file": self.file,
            f"{own}/video/{{video_id:row}}/frames.jpg": self.frames,
            f"{own}/selection": self.selection,
            f"{own}/sql": self.sql,
        }
        routes = [Route(path, told(answer)) for path, answer in pages.items()]
        routes.append(Route(f"{own}/selection", told(self.freeze), methods=["POST"]))
        draws = self.draws or Draws(self.engine)
        routes += RatePages(self.engine, draws).routes(own) + LabelPages(self.engine).routes(own)
        routes.append(Route("/", lambda _: RedirectResponse("/look")))
        files = Mount("/look/files", StaticFiles(directory=FILES))
        return Starlette(routes=[files, *routes], middleware=[Middleware(Headed)])

    def dataset(self, request: Request) -> Dataset:
        """The dataset that the address names. Raises UnknownDataset."""
        return dataset_of_key(self.engine, request.path_params["dataset"])

    @contextmanager
    def _seen(self, request: Request) -> Iterator[tuple[View, Ground]]:
        """The view of an address, and what its statements rest on, in one transaction."""
        # Looked up before: whoever held a connection and waited for a second one could wait for ever.
        dataset = self.dataset(request)
        with self.engine.connect() as connection, connection.begin():
            yield self._ground(connection, request, dataset)

    def _ground(self, connection: Connection, request: Request, dataset: Dataset) -> tuple[View, Ground]:
        bare = ground(connection, View().sight(dataset))
        shown = [metric for metric in bare.metrics if metric not in SIMPLE_SCORES]
        scored = [metric for metric in shown if metric in bare.scorers and bare.scorers[metric].n_defined]
        view = View.of(request.query_params, scored)
        return view, Ground(connection, view.sight(dataset), bare.metrics, bare.scorers)

    # Pages.

    def datasets(self, request: Request) -> Response:
        """All datasets."""
        with self.engine.connect() as connection:
            found = [(each.name, count(ground(connection, View().sight(each)))) for each in list_datasets(connection)]
        return page("datasets.html", datasets=found)

    def grid(self, request: Request) -> Response:
        """The cards of a page. A condition that does not hold is told beside its field, and everything else stays."""
        with self._seen(request) as (view, on):
            columns = suggested_columns(on)
            said: dict[str, Any] = {
                "dataset": on.sight.dataset.name,
                "view": view,
                "metrics": on.metrics,
                "columns": columns,
            }
            said["names"] = [quoted(name) for name in columns]
            try:
                rows, end = page_of(on, view.place(), PER_PAGE)
                n = count(on)
            except (FilterError, SelectionError) as error:
                # The field completes names, so that they need not be listed.
                short = getattr(error, "brief", str(error))
                return page("grid.html", 400, **said, **self._common(), error=short, rows=[], n=0, next=None)
        following = view.query(after=after(end)) if end else None
        return page("grid.html", **said, **self._common(), error=None, rows=rows, n=n, next=following)

    def _common(self) -> dict[str, Any]:
        return {"most": MOST_COUNTED, "uncounted": UNCOUNTED, "has_lineage": self.has_lineage}

    def histogram(self, request: Request) -> Response:
        """The values of a column under the view's other conditions, as a part of a page."""
        column = request.query_params.get("column", "")
        with self._seen(request) as (view, on):
            found = distribution_of(on, column)
        clear = view.query(only=view.others(column)) if view.others(column) != view.only else None
        said: dict[str, Any] = {"dataset": on.sight.dataset.name, "view": view, "column": column, "clear": clear}
        if isinstance(found, Histogram):
            return page("histogram.html", **said, found=found, bars=bars(found), quoted=quoted(column))
        return page("values.html", **said, values=found[:MOST_VALUES], n_more=len(found) - MOST_VALUES, equals=equals)

    def sample(self, request: Request) -> Response:
        """One sample with all that is known of it."""
        dataset, sample_id = self.dataset(request), request.path_params["sample_id"]
        with self._seen(request) as (view, on):
            row = next(iter(rows_of(on, [sample_id] if sample_id < 2**63 else [])), None)
            if row is None:
                raise NotFound(f"dataset {dataset.name} has no sample of this address: it was dropped, or never there")
            video = self._video(on.connection, dataset, row["video_id"])
            found: dict[str, Any] = {"references": references_of(on.connection, row["video_id"])}
            found |= {"history": history_of(on.connection, sample_id), "ratings": ratings_of(on.connection, sample_id)}
            found["facts"] = facts_of(on.connection, [sample_id])[sample_id]
        scores = [self._explained(dataset, metric, row) for metric in on.metrics if metric in on.scorers]
        return page(
            "sample.html",
            **(found | self._common() | _of_video(video)),
            dataset=dataset.name,
            shard=dataset.shard_of(row["video"]),
            view=view,
            row=row,
            scores=scores,
            made_here=self.scorers.keys(),
            simple=SIMPLE_SCORES,
            most_rows=MOST_ROWS,
            few=FEW,
        )

    def _explained(self, dataset: Dataset, metric: str, row: Mapping[str, Any]) -> dict[str, Any]:
        """A score of a sample, and why."""
        try:
            # One at a time: each takes several connections, and scorers are made for one thread.
            with self.explaining:
                found = explain_score(
                    self.engine, metric, self.scorers.get(metric), dataset, row["sample"], row["kind"]
                )
        except (ModelUnusable, MissingEvidence) as error:
            return {
                "metric": metric,
                "explanation": Explanation([f"it cannot be explained here: {error}"]),
                "links": [],
            }
        if found is None:
            raise NotFound(f"sample {row['sample']!r} was dropped meanwhile: go back and look again")
        drawn = links(found.explanation.rows)
        return {"metric": metric, "found": found, "explanation": found.explanation, "links": drawn}

    def video(self, request: Request) -> Response:
        """All samples of a video side by side."""
        dataset, video_id = self.dataset(request), request.path_params["video_id"]
        with self._seen(request) as (view, on):
            video = self._video(on.connection, dataset, video_id)
            rows = rows_of(on, ids_of_video(on, video_id))
            references = references_of(on.connection, video_id)
        said: dict[str, Any] = {
            "dataset": dataset.name,
            "view": view,
            "metrics": on.metrics,
            "references": references,
            "rows": rows,
        }
        return page("video.html", **(said | self._common() | _of_video(video)))

    def _video(self, connection: Connection, dataset: Dataset, video_id: int) -> dict[str, Any]:
        """A video of a dataset. Raises NotFound."""
        found = video_of(connection, dataset.dataset_id, video_id) if video_id < 2**63 else None
        if found is None:
            raise NotFound(f"dataset {dataset.name} has no video of this address: it was dropped, or never there")
        return found

    def file(self, request: Request) -> Response:
        """The file of a video."""
        return VideoFile(self._asked_video(request), FOR_A_DAY)  # type: ignore[return-value]  # an ASGI application

    def frames(self, request: Request) -> Response:
        """A sheet of frames of a video."""
        return Response(sheet(self._asked_video(request)), media_type="image/jpeg", headers=FOR_A_DAY)

    def _asked_video(self, request: Request) -> dict[str, Any]:
        """The video that an address names; while its file is read no connection is held."""
        dataset = self.dataset(request)
        with self.engine.connect() as connection:
            return self._video(connection, dataset, request.path_params["video_id"])

    # What one sees, as a selection and as SQL.

    def selection(self, request: Request) -> Response:
        """The recipe that takes what is seen, and what it takes; nothing is frozen."""
        dataset, recipe, view = self._recipe(request)
        seen = preview_selection(self.engine, dataset, recipe, _no_encoder, lambda _: None)
        command = ["reelsieve", "select", "--dataset", dataset.name, "--by", *recipe.by, "--keep", "1"]
        command += ["--where", recipe.where] if recipe.where else []
        command += ["--kind", recipe.kind] if recipe.kind else []
        summary = seen.summary
        ties = [*tell_ties(summary.n, summary.n_tied, summary.n_tied_left, recipe.spec())]
        said: dict[str, Any] = {"dataset": dataset.name, "view": view, "seen": seen, "ties": ties}
        said["command"] = shlex.join(command)
        return page("selection.html", **said, recipe=yaml.safe_dump(recipe.spec(), allow_unicode=True, sort_keys=False))

    def freeze(self, request: Request) -> Response:
        """Freeze it."""
        dataset, recipe, _ = self._recipe(request)
        made = make_selection(self.engine, dataset, recipe, _no_encoder, lambda _: None)
        known = "" if made.is_new else ", made before and unchanged"
        export = f"reelsieve export {made.selection_id} --to FILE.parquet writes them"
        return JSONResponse({"told": f"selection {made.selection_id} has {made.n:,} samples{known}: {export}"})

    def _recipe(self, request: Request) -> tuple[Dataset, Recipe, View]:
        """What takes all that a view shows, best first where it is in the order of a number."""
        with self._seen(request) as (view, on):
            rows, _ = page_of(on, None, 1)
            by = view.sort if view.sort and has_numbers(on, view.sort) else "n_characters"
            kinds = distribution_of(on, "kind")
        if not rows:
            raise SelectionError("the view has no sample that could be frozen: loosen its conditions")
        assert isinstance(kinds, list)
        said: dict[str, Any] = {"by": {by: 1.0}, "keep": 1.0, "where": view.condition or None}
        return on.sight.dataset, Recipe(**said, kind="all" if len(kinds) > 1 else None), view

    def sql(self, request: Request) -> Response:
        """The statement that gives the same samples."""
        with self._seen(request) as (view, on):
            statement = build_sql(on)
        command = shlex.join(["reelsieve", "sql", statement])
        return page("sql.html", dataset=on.sight.dataset.name, view=view, statement=statement, command=command)


def _of_video(video: Mapping[str, Any]) -> dict[str, Any]:
    """What a page says of a video."""
    return {"video": video, "no_file": no_file(video)}


def _no_encoder() -> Any:
    raise AssertionError("this recipe compares no texts")
