"""Faults at random moments: kill -9 of commands and of the server, and full disks. No fault leaves anything wrong.

What is stored right after a fault is a part of what undisturbed commands store, and the same commands again end where
those do; what was stored before is not computed again. Whether undisturbed commands are right is asked elsewhere, of an
oracle and without faults (answers.py).

Run it with `python -m tests.attack.kills --kills 25 --seed 1`. With `--workers 3` three commands score at once, one of
them is killed, and another takes its place, several times; with `--engine ray` actors score. Then only scoring is
disturbed: the other commands are the same.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import compress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import typer

from assets.definitions.steps import MIN_SHARDS
from tests.attack.campaign import Campaign, Seed
from tests.attack.differences import difference
from tests.db.marks import wrong_marks
from tests.orchestration.conftest import save_text_encoder, save_verifier, write_manifest
from tests.orchestration.divided import COUNTED, computed, count_computed
from tests.orchestration.survival import (
    Command,
    Home,
    concluded,
    ingested,
    removed,
    rows,
    run_statuses,
    scored,
    slots_taken,
    warm_up,
)

COMMANDS = ("ingest", "score", "calibrate", "select", "export")
TARGETS = (*COMMANDS, "server")
DISK, DISK_SIZE = "disk", "1g"
N_VIDEOS, N_SHARDS = 40, 4
# Of a scoring that several commands share.
KILLS_OF_ONE_SCORING = 8
# Between two commands these may be what they are at the end of none: a scorer is a candidate until it has a good score,
# and a score is stale until it is made again.
UNFINISHED = {"scorer", "stale"}
# Several workers, actors, and runs that go on make batches of other members, which round otherwise in float32.
ROUNDING = 1e-5
State = dict[str, Any]


def main(kills: int = 25, seed: Seed = None, workers: int = 1, engine: str = "process") -> None:
    """Kill or fill the disk so many times."""
    campaign = Campaign("kills", seed)
    campaign.counts["workers"] = workers
    with TemporaryDirectory(prefix="reelsieve-attack-") as name, small_disk(Path(name)) as is_small:
        folder = Path(name)
        # The server runs as another user where this is root, and must get through.
        folder.chmod(0o711)
        warm_up()
        encoder, verifier = (folder / kind for kind in ("encoder", "verifier"))
        encoder.mkdir()
        # A worker takes no fewer shards than these, so that with fewer the others would have nothing to do.
        scoring = Scoring(workers, engine, N_SHARDS if workers == 1 else workers * MIN_SHARDS)
        of_scoring = ("server", *["score"] * (1 if workers == 1 else KILLS_OF_ONE_SCORING))
        targets: tuple[str, ...] = TARGETS if scoring == ALONE else of_scoring
        if is_small and scoring == ALONE:
            targets += (DISK,)
        else:
            typer.echo("no full disks: they are for one worker, and for a user who may mount a file system")
        attack(folder, save_text_encoder(encoder), save_verifier(verifier), targets, kills, campaign, scoring)
    campaign.finish()


@dataclass(frozen=True, slots=True)
class Scoring:
    """How a disturbed round scores: so many commands at once, on an engine, a dataset of so many shards."""

    workers: int = 1
    engine: str = "process"
    n_shards: int = N_SHARDS


ALONE = Scoring()


def attack(
    folder: Path,
    encoder: Path,
    verifier: Path,
    targets: Sequence[str],
    kills: int,
    campaign: Campaign,
    scoring: Scoring = ALONE,
    n_videos: int = N_VIDEOS,
) -> None:
    """Kill each target in turn, in rounds that each begin with an empty home, and compare after every fault and round.

    A command that stands among the targets several times is killed as often while it runs once.
    A command that ends before its moment comes is no kill; there are at most twice as many rounds as kills need.
    """
    manifest = _manifest(folder / "manifest", n_videos)
    alone = _Round(folder / "undisturbed", manifest, encoder, verifier, Scoring(n_shards=scoring.n_shards))
    undisturbed = _undisturbed(alone)
    # No command of the campaign cuts scores.
    empty = [table for table, found in undisturbed.end.items() if not found and table != "score_threshold"]
    campaign.expect(not empty, f"nothing to compare: {empty}")
    for number in range(2 * math.ceil(kills / len(targets))):
        of_round = targets[: kills - campaign.counts["faults"]]
        if not of_round:
            break
        of = _Round(folder / f"round_{number}", manifest, encoder, verifier, scoring)
        try:
            _Disturbed(of, undisturbed, campaign, f"round {number}").run(of_round)
        except AssertionError as error:
            campaign.expect(False, f"round {number}: {error}")
        finally:
            of.remove()
        typer.echo(f"{campaign.counts['kills']} kills after round {number}")


@contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """Put a small file system of its own into the folder, where this user may; whether it is there."""
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_SIZE}", "tmpfs", folder], capture_output=True)
    try:
        yield done.returncode == 0
    finally:
        if done.returncode == 0:
            # A process that was killed a moment ago may not have let go of its files yet.
            subprocess.run(["umount", "--lazy", folder], check=True)


def _manifest(folder: Path, n_videos: int) -> Path:
    """A folder with rows of every kind, one of them to be refused."""
    folder.mkdir()
    write_manifest(folder, n_videos=n_videos)
    with (folder / "captions.jsonl").open("a") as captions:
        captions.write('{"caption_id": "of nothing"}\n')
    return folder


class _Round:
    """A home, the commands that fill it, and the folder they export to."""

    def __init__(self, folder: Path, manifest: Path, encoder: Path, verifier: Path, scoring: Scoring = ALONE) -> None:
        folder.mkdir()
        self.scoring = scoring
        self.home = Home(folder / "home", encoder, verifier)
        self.exports = folder / "exports"
        self.exports.mkdir()
        self._manifest = manifest
        self._selection = ""
        self._started: list[Command] = []

    def start(self, name: str) -> list[Command]:
        """Start one of COMMANDS, the scoring as often as there are workers."""
        return [self.start_one(name) for _ in range(self.scoring.workers if name == "score" else 1)]

    def start_one(self, name: str) -> Command:
        """Start one of COMMANDS once; `export` needs what `select` said."""
        lines = self.exports / "best.jsonl"
        # Exports overwrite nothing: what a command wrote whole before it was killed has to go first.
        for path in self.exports.glob("best.jsonl*") if name == "export" else ():
            path.unlink()
        arguments = {
            "ingest": (str(self._manifest), "-d", "d", "--shards", str(self.scoring.n_shards)),
            "score": ("-d", "d", "--engine", self.scoring.engine),
            "calibrate": ("-d", "d"),
            "select": ("-d", "d", "--keep", "0.5"),
            "export": (self._selection, "--to", str(lines)),
        }
        self._started.append(self.home.run(name, *arguments[name], "--json"))
        return self._started[-1]

    def remove(self) -> None:
        """End what still runs, and remove the home."""
        for command in self._started:
            if command.is_running:
                command.kill()
        removed(self.home)

    def finish(self, name: str) -> None:
        """Run one of COMMANDS to its end, which must be a good one."""
        answer, *_ = [command.json() for command in self.start(name)]
        if name == "select":
            self._selection = str(answer["selection_id"])
        if name == "ingest":
            for table, key in COUNTED.items():
                count_computed(self.home.url, table, key)

    def n_computed(self) -> int:
        """How many scores and sets of verdicts were computed and committed, each time counted."""
        return sum(computed(self.home.url, table).total() for table in COUNTED)

    def state(self, *, is_part: bool = False) -> State:
        """All that the commands have stored and written, without times and numbers that are handed out.

        is_part: a command was disturbed, so its partial files may stand there until the next one.
        """
        url = self.home.url
        # A passport has the time of the export.
        passed = ("passport", ".partial") if is_part else ("passport",)
        files = [path for path in self.exports.iterdir() if not any(word in path.name for word in passed)]
        exported = sorted((path.name, path.read_text()) for path in files)
        stale = rows(url, "SELECT count(*) FROM current_score WHERE status = 'stale'")
        return {**ingested(url), **scored(url), **concluded(url), "stale": stale, "exports": exported}


@dataclass(frozen=True, slots=True)
class _Undisturbed:
    """What is stored after each command when nothing happens, how much they compute, and how long each takes."""

    after: Mapping[str, State]
    n_computed: int
    seconds: Mapping[str, float]

    @property
    def end(self) -> State:
        """What is stored at the end."""
        return self.after[COMMANDS[-1]]


def _undisturbed(of: _Round) -> _Undisturbed:
    of.home.run("--help").wait()  # so that the first command does not wait for the process that all are forked from
    after, seconds = {}, {}
    for name in COMMANDS:
        started = time.monotonic()
        of.finish(name)
        seconds[name] = time.monotonic() - started
        after[name] = of.state()
    n_computed = of.n_computed()
    of.remove()
    return _Undisturbed(after, n_computed, seconds)


class _Disturbed:
    """A round in which each target meets its fault once, and the command is run again."""

    def __init__(self, of: _Round, undisturbed: _Undisturbed, campaign: Campaign, name: str) -> None:
        self._of, self._undisturbed, self._campaign, self._name = of, undisturbed, campaign, name

    def run(self, targets: Sequence[str]) -> None:
        """Run all commands, with their faults, and compare."""
        is_alone = self._of.scoring == ALONE
        under_which, full_under_which = (
            self._campaign.random.choice(COMMANDS[1:]) if is_alone else "score" for _ in range(2)
        )
        for name in COMMANDS:
            # Commands that share their work leave nothing to do: the server is killed first.
            if "server" in targets and name == under_which:
                self._kill_server(name)
                self._check_part(name)
            if name in targets:
                self._kill_commands(name, targets.count(name))
                self._check_part(name)
            if DISK in targets and name == full_under_which:
                self._fill_disk(name)
                self._check_part(name)
            self._of.finish(name)
        statuses = set(run_statuses(self._of.home.url))
        self._expect(statuses <= {"SUCCESS", "FAILURE"}, f"runs are left as {sorted(statuses)}")
        self._expect(slots_taken(self._of.home.url) == 0, "a dead run still holds the encoder")
        self._check_end()

    def _kill_commands(self, name: str, times: int) -> None:
        """Kill any of the commands that share the work, so many times; another takes its place, but for the last."""
        commands = self._of.start(name)
        for left in reversed(range(times)):
            victim = self._campaign.random.choice(commands)
            if not victim.runs_after(self._moment(name) / times):
                self._campaign.counts["commands that ended before their moment"] += 1
                continue
            victim.kill()
            commands.remove(victim)
            self._campaign.counts.update(("faults", "kills", f"kills of {name}"))
            if left:
                commands.append(self._of.start_one(name))
        for other in commands:
            self._expect(other.wait() == 0, f"{name} beside a killed one ended badly: {other.stderr}")

    def _kill_server(self, name: str) -> None:
        commands = self._of.start(name)
        commands[0].runs_after(self._moment(name))
        self._of.home.kill_server()
        self._campaign.counts.update(("faults", "kills", "kills of the server"))
        self._check_words(name, commands, "the server was killed")

    def _fill_disk(self, name: str) -> None:
        """Leave the disk some pages at a random moment, and make room again when the command has ended."""
        commands = self._of.start(name)
        commands[0].runs_after(self._moment(name))
        with _full(self._of.exports.parent, self._campaign.random.choice((0, 100_000, 1_000_000))):
            for command in commands:
                command.wait()
        self._campaign.counts.update(("faults", "full disks"))
        self._check_words(name, commands, "the disk was full")

    def _moment(self, name: str) -> float:
        return self._campaign.random.uniform(0, self._undisturbed.seconds[name])

    def _check_words(self, name: str, commands: Sequence[Command], when: str) -> None:
        for command in commands:
            code, said = command.wait(), command.stderr
            self._expect(code in (0, 1), f"{name} ended with {code} when {when}: {said}")
            n_errors = sum(line.startswith("error: ") for line in said.splitlines())
            is_plain = "Traceback" not in said and "parameters:" not in said and n_errors <= 1
            self._expect(is_plain, f"{name} said too much when {when}: {said}")
            self._expect(code == 0 or "error: " in said, f"{name} failed without a word when {when}")

    def _check_part(self, name: str) -> None:
        """All that is stored now is what undisturbed commands store by now, but perhaps not all of it."""
        before = self._undisturbed.after[COMMANDS[max(0, COMMANDS.index(name) - 1)]]
        part = self._part()
        if part:
            self._check_marks()
        for table, found in part.items():
            if table in UNFINISHED:
                continue
            known = _by_words(self._comparable(table, [*before[table], *self._undisturbed.after[name][table]]))
            wrong = [
                row
                for words, rows in _by_words(self._comparable(table, found)).items()
                for row in rows
                if all(difference(row, other, ROUNDING) for other in known.get(words, ()))
            ]
            self._campaign.counts["rows compared after a fault"] += len(found)
            self._expect(not wrong, f"after a fault of {name}, {table} has what no undisturbed one has: {wrong[:2]}")

    def _check_marks(self) -> None:
        """Each mark is what a comparison says, and each count what the rows say."""
        wrong = wrong_marks(partial(rows, self._of.home.url))
        self._expect(not wrong, f"marks or counts are wrong: {wrong[:3]}")

    def _part(self) -> State:
        """What is stored now; nothing where the first command did not even make the tables."""
        try:
            return self._of.state(is_part=True)
        except (psycopg.OperationalError, psycopg.errors.UndefinedTable):
            return {}

    def _check_end(self) -> None:
        """The end is that of undisturbed commands, and nothing stored was computed twice."""
        self._check_marks()
        state = self._of.state()
        for table, found in self._undisturbed.end.items():
            other = difference(self._comparable(table, state[table]), self._comparable(table, found), ROUNDING)
            self._expect(other is None, f"{table} differs from an undisturbed run: {other}")
            self._campaign.counts["rows compared"] += len(found)
        again = self._of.n_computed() - self._undisturbed.n_computed
        self._campaign.counts["scores and verdicts computed again"] += again
        self._expect(again == 0, f"{again} scores and verdicts were computed again")

    def _comparable(self, table: str, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """The rows, of scores without the digest of their inputs, since thresholds may differ in their last digits."""
        return [row[:-1] for row in rows] if table == "score" else list(rows)

    def _expect(self, holds: bool, fault: str) -> None:
        self._campaign.expect(holds, f"{self._name}: {fault}")


def _by_words(rows: Iterable[tuple[Any, ...]]) -> dict[tuple[Any, ...], list[tuple[Any, ...]]]:
    """The rows by their cells of words and bytes, which no rounding changes."""
    found = defaultdict[tuple[Any, ...], list[tuple[Any, ...]]](list)
    for row in rows:
        is_exact = (isinstance(cell, bytes) or (isinstance(cell, str) and not cell.startswith("{")) for cell in row)
        found[tuple(compress(row, is_exact))].append(row)
    return found


@contextmanager
def _full(folder: Path, left: int) -> Iterator[None]:
    """Fill the disk of a folder but for so many bytes."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        free = shutil.disk_usage(folder).free
        with suppress(OSError):  # others write too
            os.posix_fallocate(file.fileno(), 0, max(1, free - left))
    try:
        yield
    finally:
        filler.unlink()


if __name__ == "__main__":
    typer.run(main)
