"""A dataset that is dropped or renamed beside a command: kept from it while a run works, else told in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg
import pytest
import sqlalchemy as sa

from assets.dataset_changes import DatasetChanged, report_dataset_changes
from assets.datasets import require_dataset
from assets.leases import hold_datasets
from assets.partitions import build_range_tags
from db.manifest.datasets import Dataset, find_dataset
from db.manifest.removal import drop_dataset, rename_dataset
from db.schema import video
from orchestration.dead_runs import LEASED
from orchestration.definitions import defs
from orchestration.installation import get_installation
from orchestration.launch import run_ingest, run_scoring
from reelsieve.dagster import definitions as definitions_beside
from tests.command_line import run_command
from tests.orchestration.conftest import Installation

RENAMED = "error: dataset 'd' was renamed to 'e' meanwhile: use the new name; all stored data is kept\n"
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


def change(how: str) -> None:
    """Drop dataset `d` or rename it to `e`, in a way that asks nobody."""
    with get_installation().engine.begin() as connection:
        found = find_dataset(connection, "d")
        assert found is not None
        drop_dataset(connection, found) if how == "drop" else rename_dataset(connection, found, "e")


@contextmanager
def changed_at(words: str, how: str) -> Iterator[list[str]]:
    """Change the dataset right before the first statement that has these words; yields that statement, once met."""
    met: list[str] = []

    def meet(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if words in statement and not met:
            met.append(statement)
            change(how)

    sa.event.listen(get_installation().engine, "before_cursor_execute", meet)
    try:
        yield met
    finally:
        sa.event.remove(get_installation().engine, "before_cursor_execute", meet)


@contextmanager
def named_again() -> Iterator[None]:
    """Give the dataset its name back afterwards."""
    yield
    with get_installation().engine.begin() as connection:
        found = find_dataset(connection, "e")
        assert found is not None
        rename_dataset(connection, found, "d")


def test_a_dataset_that_a_command_scores_is_kept(scored: Installation) -> None:
    scoring: Any = run_scoring(get_installation(), "d", ["evqa"])
    next(scoring)
    for command in (("drop", "d", "--yes"), ("rename", "d", "e")):
        done = run_command(*command)
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

    def rename(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "score_threshold" in statement and not refused:
            refused.append("")
            refused[0] = run_command("rename", "d", "e").stderr

    job, run_id = build().resolve_job_def("dataset_job"), "0" * 32
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("dataset", ["d"])
        sa.event.listen(get_installation().engine, "before_cursor_execute", rename)
        try:
            tags = {**build_range_tags("d", "d"), LEASED: run_id}
            done = job.execute_in_process(
                instance=instance, run_id=run_id, tags=tags, asset_selection=[dg.AssetKey("threshold")]
            )
        finally:
            sa.event.remove(get_installation().engine, "before_cursor_execute", rename)
    assert done.success
    assert "works on dataset 'd': wait for it, or stop it with Ctrl-C" in refused[0]
    with named_again():
        assert run_command("rename", "d", "e").returncode == 0


def test_who_works_on_a_dataset_shares_it_and_no_other_name_is_kept(scored: Installation) -> None:
    engine = get_installation().engine
    with hold_datasets(engine, "d"), hold_datasets(engine, "other", "d"):
        assert run_command("rename", "d", "e").returncode == 1
    with hold_datasets(engine, "e"):
        assert "works on dataset 'e'" in run_command("rename", "d", "e").stderr, "an ingest may be about to make it"
    with named_again():
        assert run_command("rename", "d", "e").returncode == 0
    assert run_command("scores", "-d", "d").returncode == 0


def test_a_command_whose_dataset_is_renamed_says_so(scored: Installation) -> None:
    with named_again(), changed_at("FROM sample", "rename") as met:
        done = run_command("explain", "clip_00_nothing", "-d", "d")
    assert met
    assert (done.returncode, done.stderr) == (1, RENAMED)


def test_an_error_of_a_dataset_that_is_as_it_was_stays(scored: Installation) -> None:
    done = run_command("explain", "clip_00_nothing", "-d", "d")
    assert done.returncode == 1
    assert "meanwhile" not in done.stderr


@report_dataset_changes()
def renamed_between_two_looks() -> None:
    require_dataset(get_installation().engine, "d")
    change("rename")
    require_dataset(get_installation().engine, "d")


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


def test_an_error_says_that_a_dataset_was_renamed(scored: Installation) -> None:
    with named_again(), pytest.raises(DatasetChanged, match="'d' was renamed to 'e' meanwhile"):
        renamed_between_two_looks()
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
        drop_dataset(connection, of)


def test_a_command_whose_dataset_is_dropped_says_so(scored: Installation) -> None:
    with changed_at("FROM scorer", "drop") as met:
        done = run_command("explain", "clip_00_brief_0", "-d", "d")
    assert met
    assert (done.returncode, done.stderr) == (1, DROPPED)
