"""Back-ups tampered with, and restores killed: all of it is restored, or nothing, and nothing of a back-up is run.

Run it with `python -m tests.attack.backups --tampered 76 --kills 25 --seed 1`.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import typer
from sqlalchemy.engine import URL

from assets.metrics.registry import METRIC_INPUTS, SOURCE_TABLES
from db.schema.migrate import REVISION, migrate
from db.selection.recipes import parse_recipe
from db.server.backup import write_backup
from db.server.dump_rows import BackupError
from db.server.embedded import start_embedded
from db.server.engine import open_connection, open_engine
from db.server.restore import restore_backup
from db.server.urls import CURATION, DAGSTER, build_sibling_url
from orchestration.installation import create_dagster_tables
from tests.attack.campaign import Campaign, Seed, temporary_home
from tests.attack.filters import fill
from tests.attack.state import changed, state_of_database
from tests.attack.tampering import Forger
from tests.db.builders import add_sample, add_video
from tests.db.freezing import freeze_recipe
from tests.orchestration.survival import Command, Home, until, warm_up

NAMES = (CURATION, DAGSTER)
# When a restore is killed: between the two databases, at any moment, as they get their names; or its server is.
WAYS = ("between", "moment", "renaming", "moment", "server")
# Texts that a reader of dumps could take for something else.
TEXTS = ["\\.", "\\N", "a\\.\nb\tc\r\n\\", "\nCOPY public.score (value) FROM stdin;\n", "x\u2028é\U0001f600\x1b", ""]
State = dict[str, dict[str, str]]


def main(tampered: int = 76, kills: int = 25, seed: Seed = None) -> None:
    """Tamper with so many back-ups, and kill so many restores."""
    campaign = Campaign("backups", seed)
    warm_up()
    with temporary_home() as home:
        # The server runs as another user where this is root, and must get through.
        home.parent.chmod(0o711)
        attack(home, tampered, kills, campaign)
    campaign.finish()


def attack(home: Path, tampered: int, kills: int, campaign: Campaign) -> None:
    """Restore tampered back-ups on a server of its own, and kill restores of the right one."""
    folder = home.parent / "backups"
    folder.mkdir()
    (folder / "open").mkdir()
    (folder / "open").chmod(0o777)
    of = _Server(start_embedded(home), folder, campaign)
    of.back_up()
    forger = Forger(of.url, of.right, folder / "open" / "canary", campaign.random)
    for number in range(tampered):
        _tamper(of, forger, folder / f"tampered_{number}", number)
    seconds = _undisturbed(of, home)
    for number in range(kills):
        _kill(of, home, number, seconds)


class _Server:
    """A server with the databases that were backed up, under other names, and room for them to be restored."""

    def __init__(self, url: URL, folder: Path, campaign: Campaign) -> None:
        self.url, self.right, self.campaign = url, folder / "right", campaign
        self.expected: State = {}

    def back_up(self) -> None:
        """Make databases with rows of many kinds, back them up, and put them aside."""
        migrate(self.url, METRIC_INPUTS)
        create_dagster_tables(build_sibling_url(self.url, DAGSTER))
        engine = open_engine(self.url)
        clips = fill(engine, self.campaign.random)
        video = add_video(engine, clips, "odd")
        for number, text in enumerate(TEXTS):
            add_sample(engine, clips, video, f"odd {number}", text)
        with engine.begin() as connection:
            freeze_recipe(connection, clips, parse_recipe({"by": "vcs", "keep": 1.0}))
        engine.dispose()
        with open_connection(build_sibling_url(self.url, DAGSTER)) as connection:
            for number, text in enumerate(TEXTS):
                row = [f"run {number}", text, "SUCCESS"]
                connection.execute("INSERT INTO runs (run_id, run_body, status) VALUES (%s, %s, %s)", row)
        write_backup(self.url, self.right, REVISION, print_nothing)
        self.expected = self.state()
        for name in NAMES:
            self.run(f"ALTER DATABASE {name} RENAME TO source_{name}")

    def state(self) -> State:
        """Digests of both databases; of one that does not exist, or has no table, nothing."""
        there = [name for name in NAMES if name in self.databases()]
        return {name: digests for name in there if (digests := self._digests(name))}

    def _digests(self, name: str) -> dict[str, str]:
        digests = state_of_database(build_sibling_url(self.url, name))
        return digests if any(what.startswith("rows of ") for what in digests) else {}

    def databases(self) -> set[str]:
        """The names of all databases but those that every server has."""
        with open_connection(build_sibling_url(self.url, "postgres")) as connection:
            names = {name for (name,) in connection.execute("SELECT datname FROM pg_database")}
        return names - {"postgres", "template0", "template1", *(f"source_{name}" for name in NAMES)}

    def n_sessions(self) -> int:
        """The number of the sessions of others."""
        with open_connection(build_sibling_url(self.url, "postgres")) as connection:
            others = "SELECT FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            return len(connection.execute(others).fetchall())

    def clear(self) -> None:
        """Drop what was restored."""
        for name in NAMES:
            self.run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def run(self, statement: str) -> None:
        """Run a statement outside both databases."""
        with open_connection(build_sibling_url(self.url, "postgres"), autocommit=True) as connection:
            connection.execute(statement.encode())

    def expect_whole(self, what: str, *, rows: bool = True) -> None:
        """Expect what was backed up; without rows, its tables and whatever else is no row."""
        found = self.state()
        for name in NAMES:
            others = changed(found.get(name, {}), self.expected[name])
            others = [one for one in others if rows or not one.startswith(("rows of", "sequences"))]
            self.campaign.expect(not others, f"{what}: database {name} is not what it was: {others}")
        self.campaign.counts["digests compared"] += sum(map(len, self.expected.values()))

    def expect_nothing_left(self, what: str) -> None:
        """Expect no database beside the two."""
        left = self.databases() - set(NAMES)
        self.campaign.expect(not left, f"{what}: left behind {sorted(left)}")


def print_nothing(_line: str) -> None:
    """Takes lines of progress."""


def _tamper(of: _Server, forger: Forger, folder: Path, number: int) -> None:
    kind, outcome = forger.forge(folder, number)
    what = f"tampering {number}, {kind}"
    campaign, before = of.campaign, of.databases()
    try:
        restore_backup(of.url, folder, METRIC_INPUTS, SOURCE_TABLES, create_dagster_tables, print_nothing)
    except BackupError as error:
        campaign.counts["refused"] += 1
        campaign.expect(outcome != "whole", f"{what}: refused: {error}")
        campaign.expect("\n" not in str(error), f"{what}: not one sentence: {error}")
        campaign.expect(of.databases() == before, f"{what}: databases are now {sorted(of.databases())}")
    except Exception as error:
        campaign.expect(False, f"{what}: {error!r}")
    else:
        campaign.counts["restored"] += 1
        campaign.expect(outcome != "refused", f"{what}: it was restored")
        of.expect_whole(what, rows=outcome != "forged")
        of.expect_nothing_left(what)
        of.clear()
    campaign.counts["tampered"] += 1
    campaign.expect(not forger.canary.exists(), f"{what}: a program of the back-up was run")
    forger.canary.unlink(missing_ok=True)
    shutil.rmtree(folder)


def _undisturbed(of: _Server, home: Path) -> float:
    """How long the right back-up takes to be restored by the command, which must make all of it."""
    started = time.monotonic()
    code = _start(of, home).wait()
    seconds = time.monotonic() - started
    of.campaign.expect(code == 0, f"the right back-up was refused: {code}")
    of.expect_whole("the right back-up")
    of.expect_nothing_left("the right back-up")
    of.clear()
    return seconds


def _kill(of: _Server, home: Path, number: int, seconds: float) -> None:
    """Kill a restore, or the server under it; then the same command must bring all of it."""
    random, campaign = of.campaign.random, of.campaign
    way = WAYS[number % len(WAYS)]
    if random.random() < 0.5 or way == "renaming":  # databases that hold nothing, as after any other command
        for name in NAMES:
            of.run(f"CREATE DATABASE {name}")
    command = _start(of, home)
    match way:
        case "between":
            until(lambda: _fills_dagster(of) or not command.is_running, "the second database is filled")
        case "renaming":
            until(lambda: CURATION not in of.databases() or not command.is_running, "the databases are renamed")
        case _:
            command.runs_after(random.uniform(0, seconds))
    if not command.is_running:
        campaign.counts["restores that ended before their moment"] += 1
    elif way == "server":
        Home(home, Path("offline")).kill_server()
        code = command.wait()
        said = command.stderr
        campaign.expect(code == 1 and said.count("error: ") == 1, f"kill {number}: {code} and {said!r}")
        of.url = start_embedded(home)
        campaign.counts.update(("kills", "kills of the server"))
    else:
        command.kill()
        # The server goes on with the killed one's last statement, which may drop or rename a database.
        until(lambda: not of.n_sessions(), "the sessions of the killed restore have ended")
        campaign.counts.update(("kills", f"kills: {way}"))
    is_whole = of.state() != {}
    if is_whole:
        campaign.counts["whole at the kill"] += 1
        of.expect_whole(f"kill {number} ({way})")
    again = _start(of, home)
    code = again.wait()
    campaign.expect(code == 0, f"kill {number} ({way}): the same command again: {code}, {again.stderr!r}")
    of.expect_whole(f"kill {number} ({way}) and the same command again")
    of.expect_nothing_left(f"kill {number} ({way}) and the same command again")
    of.clear()


def _start(of: _Server, home: Path) -> Command:
    return Home(home, Path("offline")).run("db", "restore", str(of.right), "--json")


def _fills_dagster(of: _Server) -> bool:
    with open_connection(build_sibling_url(of.url, "postgres")) as connection:
        query = "SELECT 1 FROM pg_stat_activity WHERE datname LIKE 'reelsieve\\_restore\\_%dagster' LIMIT 1"
        return connection.execute(query).fetchone() is not None


if __name__ == "__main__":
    typer.run(main)
