"""Drops beside every command: a dataset goes while something works on it.

A command is held where it reads or writes a table. Then its dataset is dropped, by `reelsieve` or by SQL that asks
nobody, and the command goes on. It finishes, or ends with one sentence and exit code 1; and what is stored then is
whole: no row without its dataset, no partition without its rows, no lease, no unended run, no partial file.

Run it with `python -m tests.attack.drops --drops 80 --seed 1`.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psycopg
import sqlalchemy as sa
import typer

from db.manifest.datasets import find_dataset
from db.manifest.removal import delete_dataset
from db.schema import METADATA
from db.server.embedded import stop_embedded
from db.server.engine import open_engine
from db.server.urls import DAGSTER, build_sibling_url
from tests.attack.campaign import Campaign, Seed, open_folder
from tests.homes import make_home
from tests.orchestration.conftest import save_text_encoder, save_verifier, write_manifest
from tests.orchestration.survival import Command, Home, copied, removed, rows, slots_taken, until, warm_up

# Dataset d is scored, with thresholds and a subset; nobody has scored n.
PREPARED = (
    "ingest MANIFEST -d d --shards 2",
    "score -d d",
    "calibrate -d d",
    "select -d d --keep 0.5",
    "ingest MANIFEST -d n --shards 2",
)
COMMANDS = {
    "ingest": "ingest CHANGED -d n",
    "ingest --dry-run": "ingest CHANGED -d n --dry-run",
    "try": "try CHANGED -d n",
    "facts": "facts -d n",
    "score": "score -d n",
    "score --dry-run": "score -d n --dry-run",
    "calibrate": "calibrate -d d",
    "select": "select -d d --keep 0.25",
    "select by a threshold": "select -d d --by vcs --at-least vcs=f1",
    "export": "export 1 --to OUT/best.parquet",
    "report": "report -d d --to OUT/page",
    "compare": "compare vcs ecs -d d",
    "stress": "stress vcs -d d",
    "prove": "prove 1",
    "explain": "explain clip_00_brief_0 -d d",
    "dataset scores": "dataset scores -d d",
    "dataset list": "dataset list -d d",
    "dataset rejects": "dataset rejects -d d",
    "dataset holds": "dataset holds clip_00",
    "search": "search rain -d d",
    "selections": "selections -d d",
    "db prune": "db prune",
    "db dump": "db dump OUT/dump",
}
# Where commands are held; those that never come there are not disturbed.
TABLES = ("dataset", "video", "sample", "score", "scorer", "text_fact", "keypoint", "selection", "rating")
WAYS = ("reelsieve", "SQL")
N_VIDEOS = 6


class Drop(NamedTuple):
    """Whose dataset is dropped, and how, while the command is held at a table."""

    command: str
    way: str
    table: str

    @property
    def dataset(self) -> str:
        """The name of the dataset that the command works on."""
        return "n" if " n" in COMMANDS[self.command] else "d"


def main(drops: int = 80, seed: Seed = None) -> None:
    """Drop the dataset of a command so many times."""
    campaign = Campaign("drops", seed)
    with open_folder() as folder:
        warm_up()
        encoder, verifier = (folder / kind for kind in ("encoder", "verifier"))
        encoder.mkdir()
        models = save_text_encoder(encoder), save_verifier(verifier)
        attack(folder, *models, drawn(campaign, drops), campaign)
    campaign.finish()


def drawn(campaign: Campaign, n: int) -> list[Drop]:
    """So many drops; the commands take turns, the rest is left to chance."""
    names, choice = list(COMMANDS), campaign.random.choice
    return [Drop(names[place % len(names)], choice(WAYS), choice(TABLES)) for place in range(n)]


def attack(folder: Path, encoder: Path, verifier: Path, drops: Sequence[Drop], campaign: Campaign) -> None:
    """Prepare a home, and make each drop in a copy of it."""
    manifest, changed = (folder / name for name in ("manifest", "changed"))
    manifest.mkdir()
    write_manifest(manifest, n_videos=N_VIDEOS)
    shutil.copytree(manifest, changed)
    captions = changed / "captions.jsonl"
    captions.write_text(captions.read_text().replace("A bird sings", "A bird hums"))
    home = Home(folder / "home", encoder, verifier)
    home.folder.mkdir()
    make_home(home.folder)
    for words in PREPARED:
        command = home.run(*words.replace("MANIFEST", str(manifest)).split())
        assert command.wait() == 0, command.stderr
    stop_embedded(home.folder)
    for number, drop in enumerate(drops):
        place = folder / f"drop_{number}"
        place.mkdir()
        of = _Disturbed(copied(home, place), drop, changed, campaign)
        try:
            of.run()
        except AssertionError as error:
            campaign.expect(False, f"{drop}: {error}")
        finally:
            removed(of.home)
            shutil.rmtree(place)


class _Disturbed:
    """A command whose dataset is dropped while it is held."""

    def __init__(self, home: Home, drop: Drop, manifest: Path, campaign: Campaign) -> None:
        self.home, self._drop, self._campaign = home, drop, campaign
        self._out = home.folder.parent / "out"
        self._out.mkdir()
        self._words = COMMANDS[drop.command].replace("CHANGED", str(manifest)).replace("OUT", str(self._out)).split()

    def run(self) -> None:
        """Hold the command, drop its dataset, let it go on, and check how it ended and what it left."""
        engine = open_engine(self.home.url)
        try:
            with engine.begin() as connection:
                connection.execute(sa.text(f"LOCK TABLE {self._drop.table} IN ACCESS EXCLUSIVE MODE"))
                command = self.home.run(*self._words)
                until(lambda: not command.is_running or self._waiting() > 0, "the command is held")
                if not command.is_running:
                    self._campaign.counts["commands that never came to the table"] += 1
                    return
                other = self._by_sql(connection) if self._drop.way == "SQL" else self._by_command()
        finally:
            engine.dispose()
        self._campaign.counts.update(("drops", f"by {self._drop.way}"))
        self._check_words(self._drop.command, command)
        if isinstance(other, Command):
            self._check_words("drop", other)
        self._check_state()

    def _waiting(self) -> int:
        """How many sessions wait for a lock."""
        return int(rows(self.home.url, "SELECT count(*) FROM pg_locks WHERE NOT granted")[0][0])

    def _by_sql(self, connection: sa.Connection) -> None:
        """In the transaction that holds the command, unless the command holds the dataset."""
        try:
            with connection.begin_nested():
                connection.execute(sa.text("SET LOCAL lock_timeout = '1s'"))
                of = find_dataset(connection, self._drop.dataset)
                assert of is not None
                delete_dataset(connection, of)
        except sa.exc.OperationalError as error:
            if not isinstance(error.orig, psycopg.errors.LockNotAvailable):
                raise
            self._campaign.counts["drops that the command kept out"] += 1

    def _by_command(self) -> Command:
        """By `reelsieve`, which ends, or waits behind the same lock."""
        other = self.home.run("dataset", "drop", self._drop.dataset, "--yes")
        until(lambda: not other.is_running or self._waiting() > 1, "the drop ends or waits")
        return other

    def _check_words(self, name: str, command: Command) -> None:
        code, said = command.wait(), command.stderr
        errors = [line for line in said.splitlines() if line.startswith("error: ")]
        is_plain = "Traceback" not in said and "fault of Reelsieve" not in said and len(errors) == code
        self._expect(code in (0, 1) and is_plain, f"{name} ended with {code}: {said}")
        self._campaign.counts[f"{name} ended with {code}"] += 1
        for line in errors:
            self._campaign.counts[f"said: {_pattern(line)}"] += 1

    def _check_state(self) -> None:
        url = self.home.url
        for table in METADATA.sorted_tables:
            if "dataset_id" in table.c and table.name not in ("dataset", "selection"):
                query = f"SELECT count(*) FROM {table.name} WHERE dataset_id NOT IN (SELECT dataset_id FROM dataset)"
                self._expect(rows(url, query) == [(0,)], f"{table.name} has rows of no dataset")
        dagster = build_sibling_url(url, DAGSTER)
        statuses = {row[0] for row in rows(dagster, "SELECT status FROM runs")}
        self._expect(statuses <= {"SUCCESS", "FAILURE"}, f"runs are left as {sorted(statuses)}")
        self._expect(slots_taken(url) == 0, "an ended run still holds the encoder")
        leases = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted"
        until(lambda: rows(url, leases) == [(0,)], "leases are given back")
        partial = [path.name for path in self._out.rglob("*partial*")]
        self._expect(not partial, f"partial files are left: {partial}")
        if self._drop.way == "reelsieve":
            known = {
                row[0].rpartition(":")[0] or row[0] for row in rows(dagster, "SELECT partition FROM dynamic_partitions")
            }
            stored = {row[0] for row in rows(url, "SELECT name FROM dataset")}
            self._expect(known == stored, f"Dagster knows {sorted(known)}, and stored are {sorted(stored)}")

    def _expect(self, holds: bool, fault: str) -> None:
        self._campaign.expect(holds, f"{self._drop}: {fault}")


def _pattern(line: str) -> str:
    """The first words of an error, by which they are counted."""
    return " ".join(line.removeprefix("error: ").split()[:6])


if __name__ == "__main__":
    typer.run(main)
