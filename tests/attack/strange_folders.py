"""Folders of somebody else, with a home and settings that run programs, send keys away and hang who looks at them.

A command in such a folder, or below it, does and prints what it does and prints in an empty folder: nothing in it is
read or runs, nothing in it or beside it changes, and no server is connected to. Run it with
`python -m tests.attack.strange_folders --seed 1`.
"""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest.mock import patch

import typer

from db.server.embedded import start_embedded, stop_embedded
from db.server.processes import list_running_homes
from tests.attack.campaign import Campaign, Seed, limited
from tests.command_line import Done, run_command
from tests.homes import copy_home, make_home
from tests.orchestration.conftest import forget_installation

# More than any of these commands takes on a busy machine.
HANGS_S = 60
COMMANDS = (
    *("dataset list", "db start", "db stop", "db url", "db migrate", "sql SELECT", "config --json", "search dog"),
    *("score -d x", "report -d x", "selections", "db prune --yes", "dataset drop -d x --yes", "dataset scores -d x"),
)
KEY = "the-key-of-somebody-else"


class Listener:
    """A server on loopback that counts who connects to it."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.n_connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Listen no more."""
        self._socket.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.n_connections += 1
                connection.close()


def main(folders: int = 300, seed: Seed = None) -> None:
    """Try so many folders."""
    campaign = Campaign("strange_folders", seed)
    with TemporaryDirectory(prefix="reelsieve-attack-") as name:
        home = Path(name) / "template"
        make_home(home)
        attack(home, Path(name) / "work", folders, campaign)
    campaign.finish()


def attack(template: Path, work: Path, folders: int, campaign: Campaign) -> None:
    """Make so many folders, and run a command in each. template: a home to copy, whose server stands still."""
    listener, account = Listener(), work.with_name("account")
    home = account / "reelsieve"
    home.parent.mkdir()
    copy_home(template, home)
    try:
        work.mkdir()
        # The first time each changes the account's home.
        for _ in range(2):
            usual = {command: _run(command, work, account) for command in COMMANDS}
        work.rmdir()
        for _ in range(folders):
            work.mkdir()
            _try(template, work, account, usual, listener, campaign)
            shutil.rmtree(work)
    finally:
        listener.close()
        stop_embedded(home)


def _try(
    template: Path, work: Path, account: Path, usual: dict[str, Done], listener: Listener, campaign: Campaign
) -> None:
    random = campaign.random
    folder, trace, precious = work / "theirs", work / "trace", work / "precious"
    (folder / "deeper").mkdir(parents=True)
    precious.write_text("kept")
    home = _strange_home(random, template, folder, trace, precious)
    kinds = [home] + ([_strange_file(random, folder, trace, listener.port)] if random.random() < 0.6 else [])
    place, command = random.choice([folder, folder / "deeper"]), random.choice(COMMANDS)
    shown = f"{command} beside {' and '.join(kinds)}"
    before, connections = _state(work), listener.n_connections
    done = _run(command, place, account)
    campaign.expect(done == usual[command], f"{shown}: {done} instead of {usual[command]}")
    campaign.expect(_state(work) == before, f"{shown}: something was written")
    campaign.expect(not trace.exists(), f"{shown}: a program ran")
    campaign.expect(precious.read_text() == "kept", f"{shown}: another file changed")
    campaign.expect(listener.n_connections == connections, f"{shown}: a server was connected to")
    running = [other for other in list_running_homes() if other.is_relative_to(work)]
    campaign.expect(not running, f"{shown}: a server was started")
    campaign.counts[f"homes: {home}"] += 1
    campaign.counts["commands"] += 1


def _run(command: str, folder: Path, account: Path) -> Done:
    """Run a command in the folder, as an account that has keys and no settings, and whose server runs."""
    start_embedded(account / "reelsieve")
    with _in_folder(folder, account), limited(HANGS_S):
        return run_command(*command.split())


def _strange_home(random: Random, template: Path, folder: Path, trace: Path, precious: Path) -> str:
    """Make a home in the folder, and say of which kind."""
    home = folder / random.choice([".reelsieve", "h"])
    kind = random.choice(sorted(HOMES))
    HOMES[kind](home, template, trace, precious)
    if home.name == "h":
        for name in ("reelsieve.toml", ".env"):
            (folder / name).write_text('home = "h"\n' if name != ".env" else "REELSIEVE_HOME=h\n")
        return f"{kind} that a file names"
    return kind


def _real(home: Path, template: Path, trace: Path, _: Path) -> None:
    copy_home(template, home)
    with (home / "postgres" / "postgresql.auto.conf").open("a") as file:
        file.write(f"archive_mode = on\narchive_command = 'touch {trace}'\nrestore_command = 'touch {trace}'\n")


def _with(make: Callable[[Path, Path], object], *names: str) -> Callable[[Path, Path, Path, Path], None]:
    def home_with(home: Path, _template: Path, _trace: Path, precious: Path) -> None:
        for name in names:
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            make(home / name, precious)

    return home_with


def _link(path: Path, target: Path) -> None:
    path.symlink_to(target)


def _pipe(path: Path, _: Path) -> None:
    os.mkfifo(path)


def _endless(path: Path, _: Path) -> None:
    path.symlink_to("/dev/zero")


def _lock_of_this_process(path: Path, _: Path) -> None:
    path.write_text(f"{os.getpid()}\n{path.parent}\n1\n5432\n/tmp\n\n1 1\nready\n")


def _port(path: Path, _: Path) -> None:
    path.write_text('{"port": 1, "password": "x"}')


HOMES: dict[str, Callable[[Path, Path, Path, Path], None]] = {
    "a home that runs programs": _real,
    "links to another file": _with(_link, "start.lock", "logs", "postgres/log"),
    "a link as data folder": _with(_link, "postgres"),
    "a link as inbox": _with(_link, "inbox"),
    "pipes": _with(_pipe, "reelsieve.toml", "postgres/PG_VERSION", "postgres/postmaster.pid", "start.lock"),
    "a pipe as port": _with(_pipe, "listening.json"),
    "endless files": _with(
        _endless, "reelsieve.toml", "postgres/PG_VERSION", "postgres/postmaster.pid", "listening.json"
    ),
    "the lock of another process": _with(_lock_of_this_process, "postgres/PG_VERSION", "postgres/postmaster.pid"),
    "a port with a password": _with(_port, "listening.json"),
}


def _strange_file(random: Random, folder: Path, trace: Path, port: int) -> str:
    """Add to the settings file of the folder what would harm, and say what."""
    lines = {
        "a server of a database": f'curation_db_url = "postgresql://127.0.0.1:{port}/films"',
        "a server of vectors with a key": f'models.text_encoder.url = "http://127.0.0.1:{port}/v1"\n'
        'models.text_encoder.key_variable = "AWS_SECRET_ACCESS_KEY"',
        "a command": f'failure_command = "touch {trace}"',
        "a model from a folder": 'models.text_encoder.model = "./theirs"',
        "a folder of copies": f'media_cache = "{trace.parent}"',
        "places of media": f'media_roots = {{clips = "http://127.0.0.1:{port}"}}',
        "a number": "frames_cap = 1",
        "no settings": "] [",
    }
    kind = random.choice(sorted(lines))
    with (folder / "reelsieve.toml").open("a") as file:
        file.write(lines[kind] + "\n")
    return kind


@contextmanager
def _in_folder(folder: Path, account: Path) -> Iterator[None]:
    """This process as that of an account that stands in the folder, has keys, and has set nothing."""
    before = Path.cwd()
    variables = {"XDG_CONFIG_HOME": str(account), "XDG_DATA_HOME": str(account)}
    forget_installation()
    try:
        with patch.dict(os.environ, {**variables, "AWS_SECRET_ACCESS_KEY": KEY, "PGPASSWORD": KEY}):
            for name in ("REELSIEVE_HOME", "REELSIEVE_CONFIG", "CURATION_DB_URL"):
                os.environ.pop(name, None)
            os.chdir(folder)
            yield
    finally:
        os.chdir(before)
        forget_installation()


def _state(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Kind, size and time of change of everything below the folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        found[str(path)] = (state.st_mode, state.st_size, state.st_mtime_ns)
    return found


if __name__ == "__main__":
    typer.run(main)
