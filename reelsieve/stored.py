"""Reads the tables of a home folder or a server, and freezes selections there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelsieve.errors import ReelsieveError, raise_reelsieve_errors

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

Place = str | os.PathLike[str]
_RATINGS = (
    "SELECT s.key AS sample, s.kind, s.system, r.rater, r.aspect, r.value "
    "FROM current_rating r JOIN sample s USING (sample_id) JOIN dataset d USING (dataset_id) "
    "WHERE d.name = {} ORDER BY s.kind, s.key, r.rater, r.aspect"
)
_SELECTIONS = (
    "SELECT selection_id, dataset_name AS dataset, n, n_eligible, cutoff, n_tied, n_tied_left, score_hash, "
    "created_at, spec, promise FROM selection ORDER BY selection_id"
)
# Columns of `Connection.estimated_means`, the fields of an EstimatedMean: texts, and then numbers.
_MEAN_NAMES = ("expensive_score", "group_kind", "group_name", "helper")
_MEAN_NUMBERS = ("value", "low", "high", "n", "size", "plain", "gain", "half_width", "n_more")
_ITEMS = "SELECT * FROM selection_item WHERE selection_id = {} ORDER BY rank"


class Connection:
    """A database of Reelsieve, read by a role that can change nothing; `connect` makes one. Its methods query the
    database at every call, and return pandas tables, or pyarrow tables if pandas is not installed.
    """

    def __init__(self, url: URL) -> None:
        self._url = url

    def __repr__(self) -> str:
        from db.server.urls import format_url

        return f"<Connection to {format_url(self._url)}>"

    @raise_reelsieve_errors
    def datasets(self) -> Any:
        """Return a table with a row for every dataset, by name, with the columns of view `dataset_summary`: its numbers
        of videos, samples, scores and so on.
        """
        return self.sql("SELECT * FROM dataset_summary ORDER BY dataset")

    @raise_reelsieve_errors
    def scores(self, dataset: str, columns: Sequence[str] | None = None) -> Any:
        """Return a table with a row for every sample of a dataset, scored or not: scores, statuses, simple scores and
        facts, as view `sample_scores` has them. columns: the names of the columns wanted, in this order, such as
        ["sample", "vcs"]; None for all. Raises ReelsieveError for an unknown dataset or column.
        """
        from psycopg import sql

        wanted = "*" if columns is None else self._format_score_columns(columns)
        query = sql.SQL("SELECT {} FROM sample_scores WHERE dataset = {{}} ORDER BY kind, sample")
        return self._query_dataset(query.format(sql.SQL(wanted)).as_string(None), dataset)

    @raise_reelsieve_errors
    def ratings(self, dataset: str) -> Any:
        """Return a table with a row for every current rating of a dataset's samples: sample, kind, system, rater,
        aspect and value. Raises ReelsieveError for an unknown dataset.
        """
        return self._query_dataset(_RATINGS, dataset)

    @raise_reelsieve_errors
    def selections(self) -> Any:
        """Return a table with a row for every frozen selection, the oldest first: its number, dataset, sizes, threshold
        (as `cutoff`), time, recipe (as `spec`), and what is promised about it (as `promise`). Selections of dropped
        datasets are included.
        """
        return self.sql(_SELECTIONS)

    @raise_reelsieve_errors
    def selection(self, selection_id: int) -> Any:
        """Return a table with the samples of a frozen selection, the best first: rank, value, text, scores and other
        columns as they were frozen. Raises ReelsieveError for an unknown number, and for a selection without samples.
        """
        rows = self.sql(_ITEMS.format(int(selection_id)))
        if not len(rows):
            raise ReelsieveError(f"there is no selection {selection_id}: selections() lists them")
        return rows

    @raise_reelsieve_errors
    def estimated_means(self, dataset: str, scorer: str) -> Any:
        """Return a table with the means of ratings and of the metric judge over all captions of a dataset, estimated
        from the part with answers and corrected by a scorer such as "vcs": a row for the dataset, every system
        and every selection of the newest ten. Raises ReelsieveError for an unknown dataset or scorer.

        Columns: expensive_score (aspect of the ratings, or judge), group_kind and group_name, helper (None where the
        scorer lacks a value for a caption of the group), value, low and high (95 % interval), n of size captions that
        count, plain (their mean), gain (times as many answers that the plain mean would need), and n_more (answers
        that would probably narrow the interval to half_width on either side). Answers count up to the first caption
        without one, in the order in which `reelsieve rate` and draws ask.
        """
        from assets.agreement.scorer_names import require_named_scorer
        from assets.datasets.lookup import require_dataset
        from assets.promise.estimated_means import estimate_means
        from db.scores.scorers import list_scorers
        from db.server.engine import open_engine

        engine = open_engine(self._url)
        try:
            stored = require_dataset(engine, dataset)
            with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
                connection.exec_driver_sql("SET TRANSACTION READ ONLY")
                named = require_named_scorer(list_scorers(connection), scorer)
                means = estimate_means(connection, stored, [named])
        finally:
            engine.dispose()
        columns = [*((name, False) for name in _MEAN_NAMES), *((name, True) for name in _MEAN_NUMBERS)]
        rows = [tuple(mean.as_dict()[name] for name, _ in columns) for mean in means]
        return _build_table(columns, rows)

    @raise_reelsieve_errors
    def sql(self, query: str) -> Any:
        """Return all rows of one SQL statement as a pandas table; as a pyarrow table if pandas is not installed. In
        pandas a number that is missing is NaN, and never 0. Raises ReelsieveError for a statement that fails or would
        change something.

        docs/sql.md has the views and sixteen questions.
        """
        from db.server.reader import open_read_only_query

        with open_read_only_query(self._url, query, tell=_warn) as answer:
            return _build_table([(column.name, column.is_number) for column in answer.columns], list(answer.rows))

    def _query_dataset(self, query: str, dataset: str) -> Any:
        from psycopg import sql

        from db.spelling import suggest_name

        names = [row["name"] for row in self._rows("SELECT name FROM dataset")]
        if dataset not in names:
            raise ReelsieveError(f"there is no dataset {dataset!r}{suggest_name(str(dataset), names)}")
        return self.sql(query.format(sql.Literal(dataset).as_string(None)))

    def _format_score_columns(self, columns: Sequence[str]) -> str:
        """Format names of columns of view `sample_scores` for a query. Raises ReelsieveError for an unknown name."""
        from psycopg import sql

        from db.spelling import suggest_name

        if isinstance(columns, str) or not isinstance(columns, Iterable):
            example = columns if isinstance(columns, str) else "vcs"
            raise ReelsieveError(f"columns is {columns!r}: give a list, such as [{example!r}]")
        query = "SELECT attname FROM pg_attribute WHERE attrelid = 'sample_scores'::regclass AND attnum > 0"
        known = [row["attname"] for row in self._rows(query)]
        for name in columns:
            if name not in known:
                raise ReelsieveError(f"sample_scores has no column {name!r}{suggest_name(str(name), known)}")
        return sql.SQL(", ").join(map(sql.Identifier, columns)).as_string(None)

    def _rows(self, query: str) -> list[dict[str, Any]]:
        from db.server.reader import run_read_only

        return run_read_only(self._url, query, tell=_warn)


@raise_reelsieve_errors
def connect(home: Place | None = None, url: str | None = None) -> Connection:
    """Open the database of a home folder, or of a server by its URL, and return a Connection that only reads. Starts
    the home's server if it does not run, and brings the tables up to date. Without home and url, the settings of
    commands count. Raises ReelsieveError where there is no data.

    Commands use REELSIEVE_HOME and CURATION_DB_URL, else the account's own home folder.

    >>> import reelsieve as rs
    >>> rs.connect("no such home")
    Traceback (most recent call last):
    ...
    reelsieve.ReelsieveError: there is no data in 'no such home': ingest some with reelsieve ingest
    """
    from orchestration.installation import open_migrated_engine

    database = find_connection_url(home, url)
    open_migrated_engine(database).dispose()
    return Connection(database)


def find_connection_url(home: Place | None, url: str | None) -> URL:
    """Return the URL of the database that `connect` opens: that of `url`, of the folder `home`, or of the settings of
    commands. Starts the home's server if it does not run. Raises ReelsieveError if the home has no data.
    """
    from assets.home.folder import locate_home
    from db.server.embedded import find_or_start_server
    from db.server.processes import has_embedded_data
    from orchestration.settings import get_settings

    folder = locate_home(home) if home is not None else get_settings().home_folder
    server = url or (None if home is not None else get_settings().database_url)
    if server is None and not has_embedded_data(folder):
        shown = str(home) if home is not None else str(folder)
        raise ReelsieveError(f"there is no data in {shown!r}: ingest some with reelsieve ingest")
    return find_or_start_server(folder, server)


@raise_reelsieve_errors
def select(
    recipe: Mapping[str, Any] | Place, dataset: str, *, home: Place | None = None, url: str | None = None
) -> dict[str, Any]:
    """Freeze a selection of a dataset in the database, and return the JSON that `reelsieve select --recipe --json`
    prints: selection_id, n, n_eligible, cutoff, score_hash and others. recipe: a mapping, or the path of a YAML file.
    Runs that command in a process of its own.

    The same recipe and scores give the same selection. home, url: as in `connect`. Raises ReelsieveError for a bad
    recipe, and for one without a size; then the message lists how many samples some sizes would keep.

    >>> import reelsieve as rs
    >>> rs.select({"by": "vcs", "kep": 0.5}, "mine")
    Traceback (most recent call last):
    ...
    reelsieve.ReelsieveError: the recipe has no field 'kep', did you mean 'keep'?
    """
    from db.selection.recipes import parse_recipe

    if isinstance(recipe, str | os.PathLike):
        recipe = os.path.abspath(Path(recipe).expanduser())
        return _run_command(["select", "--dataset", dataset, "--recipe", recipe], home, url)
    rule = parse_recipe(recipe)
    with tempfile.TemporaryDirectory() as folder:
        # JSON is YAML, too.
        file = Path(folder, "recipe.yaml")
        file.write_text(json.dumps(rule.spec()), encoding="utf-8")
        return _run_command(["select", "--dataset", dataset, "--recipe", str(file)], home, url)


def _run_command(arguments: list[str], home: Place | None, url: str | None) -> dict[str, Any]:
    """Return the JSON of a command that runs in a process of its own, so that runs and signals do not reach the
    caller's.
    """
    from metrics_core.child_processes import PACKAGES_FOLDER, build_child_environment

    place = {} if home is None else {"REELSIEVE_HOME": str(Path(home).expanduser().resolve()), "CURATION_DB_URL": ""}
    place |= {} if url is None else {"CURATION_DB_URL": url}
    done = subprocess.run(
        [sys.executable, "-m", "reelsieve", *arguments, "--json"],
        env=build_child_environment(sys.path) | place,
        cwd=PACKAGES_FOLDER,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        # The sentence may be folded, and lines about the run may come before it.
        message = " ".join(done.stderr.rpartition("error: ")[2].split())
        raise ReelsieveError(message or f"reelsieve {arguments[0]} was stopped")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _warn(sentence: str) -> None:
    import warnings

    warnings.warn(sentence, stacklevel=2)


def _build_table(columns: list[tuple[str, bool]], rows: list[tuple[Any, ...]]) -> Any:
    """Return rows as a table; columns are (name, whether its values are numbers)."""
    values = {name: [row[place] for row in rows] for place, (name, _) in enumerate(columns)}
    try:
        import pandas as pd
    except ImportError:
        import pyarrow as pa

        return pa.table(values)
    table = pd.DataFrame({name: pd.Series(column, dtype=object) for name, column in values.items()})
    return table.assign(**{name: pd.to_numeric(table[name]) for name, is_number in columns if is_number})
