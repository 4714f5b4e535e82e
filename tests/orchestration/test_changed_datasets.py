"""A dataset that is dropped beside a command: kept from it while a run works, else told in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg
import pytest
import sqlalchemy as sa

from assets.datasets.changes import DatasetChanged, report_dataset_changes
from assets.datasets.leases import hold_datasets
from assets.datasets.lookup import require_dataset
from assets.definitions.partitions import build_range_tags
from db.manifest.datasets import Dataset
from db.manifest.removal import delete_dataset
from db.schema import video
from orchestration.dead_runs import LEASED
from orchestration.definitions import defs
from orchestration.installation import get_installation
from orchestration.launch import run_ingest, run_scoring
from reelsieve.dagster import definitions as definitions_beside
from tests.command_line import run_command
from tests.orchestration.conftest import Installation

pytestmark = pytest.mark.slow

DROPPED = "error: dataset 'd' was dropped meanwhile: to store it again, run reelsieve ingest FOLDER --dataset d\n"


@pytest.fixture(scope="module")
def scored(installation: Installation) -> Installation:
    """A scored dataset `d`."""
    run_ingest(get_installation(), installation.manifest, "d", None, 2)
    list(run_scoring(get_installation(), "d", ["vcs"]))
    return installation


def datasets() -> list[str]:
    with get_installation().engine.connect() as connection:
        return list(connection.scalars(sa.text("SELECT name FROM dataset ORDER BY name")))


@contextmanager
def dropped_at(words: str) -> Iterator[list[str]]:
    """Drop `d`, asking nobody, right before the first statement that has these words; yields it, once met."""
    met: list[str] = []

    def meet(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if words in statement and not met:
            met.append(statement)
            drop(require_dataset(get_installation().engine, "d"))

    sa.event.listen(get_installation().engine, "before_cursor_execute", meet)
    try:
        yield met
    finally:
        sa.event.remove(get_installation().engine, "before_cursor_execute", meet)


def test_a_dataset_that_a_command_scores_is_kept(scored: Installation) -> None:
    scoring: Any = run_scoring(get_installation(), "d", ["evqa"])
    next(scoring)
    done = run_command("dataset", "drop", "d", "--yes")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "works on dataset 'd': wait for it, or stop it with Ctrl-C" in done.stderr
    assert datasets() == ["d"]
    scoring.close()


@pytest.mark.parametrize("build", [defs, definitions_beside])
def test_a_dataset_is_kept_while_a_run_that_no_command_started_is_under_way(
    scored: Installation, build: Callable[[], dg.Definitions]
) -> None:
    """Also a run of somebody else's Dagster, which no list of ours has."""
    refused: list[str] = []

    def drop_meanwhile(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "score_threshold" in statement and not refused:
            refused.append("")
            refused[0] = run_command("dataset", "drop", "d", "--yes").stderr

    job, run_id = build().resolve_job_def("dataset_job"), "0" * 32
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("dataset", ["d"])
        sa.event.listen(get_installation().engine, "before_cursor_execute", drop_meanwhile)
        try:
            tags = {**build_range_tags("d", "d"), LEASED: run_id}
            done = job.execute_in_process(
                instance=instance, run_id=run_id, tags=tags, asset_selection=[dg.AssetKey("threshold")]
            )
        finally:
            sa.event.remove(get_installation().engine, "before_cursor_execute", drop_meanwhile)
    assert done.success
    assert "works on dataset 'd': wait for it, or stop it with Ctrl-C" in refused[0]
    assert datasets() == ["d"]


def test_who_works_on_a_dataset_shares_it_and_no_other_name_is_kept(scored: Installation) -> None:
    engine = get_installation().engine
    run_ingest(get_installation(), scored.manifest, "short", None, 1)
    with hold_datasets(engine, "short"), hold_datasets(engine, "other", "short"):
        assert run_command("dataset", "drop", "short", "--yes").returncode == 1
    with hold_datasets(engine, "e"):
        assert run_command("dataset", "drop", "short", "--yes").returncode == 0
    assert datasets() == ["d"]


def test_an_error_of_a_dataset_that_is_as_it_was_stays(scored: Installation) -> None:
    done = run_command("explain", "clip_00_nothing", "-d", "d")
    assert done.returncode == 1
    assert "meanwhile" not in done.stderr


@report_dataset_changes()
def dropped_and_made_anew(again: Callable[[], Any]) -> None:
    of = require_dataset(get_installation().engine, "short")
    drop(of)
    again()
    insert = sa.insert(video).values(dataset_id=of.dataset_id, shard=0, key="v", status="ok")
    with get_installation().engine.begin() as connection:
        connection.execute(insert)


@report_dataset_changes()
def fails_of_itself() -> None:
    require_dataset(get_installation().engine, "d")
    raise KeyError("of something else")


def test_an_error_of_another_cause_stays(scored: Installation) -> None:
    with pytest.raises(KeyError):
        fails_of_itself()


def test_a_row_of_a_dropped_dataset(scored: Installation) -> None:
    """A foreign key refuses the row; the dataset that has the name by then is another one."""
    run_ingest(get_installation(), scored.manifest, "short", None, 1)
    with pytest.raises(DatasetChanged, match="dataset 'short' was dropped meanwhile") as refused:
        dropped_and_made_anew(lambda: run_ingest(get_installation(), scored.manifest, "short", None, 1))
    assert isinstance(refused.value.__cause__, sa.exc.IntegrityError)
    drop(require_dataset(get_installation().engine, "short"))


def drop(of: Dataset) -> None:
    with get_installation().engine.begin() as connection:
        delete_dataset(connection, of)


def test_a_command_whose_dataset_is_dropped_says_so(scored: Installation) -> None:
    with dropped_at("FROM scorer") as met:
        done = run_command("explain", "clip_00_brief_0", "-d", "d")
    assert met
    assert (done.returncode, done.stderr) == (1, DROPPED)
