"""kill -9 of commands and of the server at random moments: the same commands again end where undisturbed ones do.

What was computed and stored before a kill is not computed again.

Run it with `python -m tests.attack.kills --kills 25 --seed 1`. With `--workers 3` three commands score at once and one
of them is killed; with `--engine ray` actors score. Then only scoring is disturbed: the other commands are the same.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
import typer

from orchestration.sharing import AT_LEAST
from tests.attack.campaign import Campaign, Seed
from tests.attack.differences import difference
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
N_VIDEOS, N_SHARDS = 40, 4
# Workers and actors make batches of other members, which round otherwise in the last digits of float32.
ROUNDING = 1e-5
State = dict[str, Any]


def main(kills: int = 25, seed: Seed = None, workers: int = 1, engine: str = "process") -> None:
    """Kill so many times."""
    campaign = Campaign("kills", seed)
    campaign.counts["workers"] = workers
    with TemporaryDirectory(prefix="reelsieve-attack-") as name:
        folder = Path(name)
        # The server runs as another user where this is root, and must get through.
        folder.chmod(0o711)
        warm_up()
        encoder, verifier = (folder / kind for kind in ("encoder", "verifier"))
        encoder.mkdir()
        # A worker takes no fewer shards than these, so that with fewer the others would have nothing to do.
        scoring = Scoring(workers, engine, N_SHARDS if workers == 1 else workers * AT_LEAST)
        targets = TARGETS if scoring == ALONE else ("score", "server")
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
) -> None:
    """Kill each target in turn, in rounds that each begin with an empty home, and compare after every round.

    A command that ends before its moment comes is no kill; there are at most twice as many rounds as kills need.
    """
    manifest = _manifest(folder / "manifest")
    alone = _Round(folder / "undisturbed", manifest, encoder, verifier, Scoring(n_shards=scoring.n_shards))
    undisturbed, n_computed, seconds = _undisturbed(alone)
    undisturbed, tolerance = _comparable(undisturbed, scoring), 0.0 if scoring == ALONE else ROUNDING
    # No command of the campaign cuts scores.
    empty = [table for table, found in undisturbed.items() if not found and table != "score_threshold"]
    campaign.expect(not empty, f"nothing to compare: {empty}")
    for number in range(2 * math.ceil(kills / len(targets))):
        of_round = targets[: kills - campaign.counts["kills"]]
        if not of_round:
            break
        of = _Round(folder / f"round_{number}", manifest, encoder, verifier, scoring)
        try:
            state = _comparable(_disturbed(of, of_round, seconds, campaign), scoring)
        except AssertionError as error:
            campaign.expect(False, f"round {number}: {error}")
        else:
            for table, found in undisturbed.items():
                other = difference(state[table], found, tolerance)
                campaign.expect(other is None, f"round {number}: {table} differs from an undisturbed run: {other}")
                campaign.counts["rows compared"] += len(found)
            again = of.n_computed() - n_computed
            campaign.counts["scores and verdicts computed again"] += again
            campaign.expect(again == 0, f"round {number}: {again} scores and verdicts were computed again")
        finally:
            removed(of.home)


def _manifest(folder: Path) -> Path:
    """A folder with rows of every kind, one of them to be refused."""
    folder.mkdir()
    write_manifest(folder, n_videos=N_VIDEOS)
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

    def start(self, name: str) -> list[Command]:
        """Start one of COMMANDS, the scoring as often as there are workers; `export` needs what `select` said."""
        parquet, lines = self.exports / "best.parquet", self.exports / "best.jsonl"
        # Exports overwrite nothing: what a command wrote whole before it was killed has to go first.
        for path in self.exports.glob({"select": "best.parquet*", "export": "best.jsonl*"}.get(name, "nothing")):
            path.unlink()
        arguments = {
            "ingest": (str(self._manifest), "-d", "d", "--shards", str(self.scoring.n_shards)),
            "score": ("-d", "d", "--engine", self.scoring.engine),
            "calibrate": ("-d", "d"),
            "select": ("-d", "d", "--keep", "0.5", "--export", str(parquet)),
            "export": (self._selection, "--to", str(lines)),
        }
        n = self.scoring.workers if name == "score" else 1
        return [self.home.run(name, *arguments[name], "--json") for _ in range(n)]

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

    def state(self) -> State:
        """All that the commands have stored and written, without times and numbers that are handed out."""
        url = self.home.url
        # A passport has the time of the export.
        exported = {path.name: _exported(path) for path in self.exports.iterdir() if "passport" not in path.name}
        stale = rows(url, "SELECT count(*) FROM current_score WHERE status = 'stale'")
        return {**ingested(url), **scored(url), **concluded(url), "stale": stale, "exports": sorted(exported.items())}


def _comparable(state: State, scoring: Scoring) -> State:
    """The state without the digests of what scores depend on where thresholds may differ in their last digits."""
    return state if scoring == ALONE else {**state, "score": [row[:-1] for row in state["score"]]}


def _exported(path: Path) -> str:
    if path.suffix == ".parquet":
        return repr(pq.read_table(path).to_pylist())
    return path.read_text()


def _undisturbed(of: _Round) -> tuple[State, int, Mapping[str, float]]:
    """What all commands store when nothing happens, how much they compute, and how long each takes."""
    of.home.run("--help").wait()  # so that the first command does not wait for the process that all are forked from
    seconds = {}
    for name in COMMANDS:
        started = time.monotonic()
        of.finish(name)
        seconds[name] = time.monotonic() - started
    state, n_computed = of.state(), of.n_computed()
    removed(of.home)
    return state, n_computed, seconds


def _disturbed(of: _Round, targets: Sequence[str], seconds: Mapping[str, float], campaign: Campaign) -> State:
    """The same after each target has been killed once, and the command run again."""
    under_which = campaign.random.choice(COMMANDS[1:]) if of.scoring == ALONE else "score"
    for name in COMMANDS:
        if name in targets:
            _kill_command(of, name, seconds[name], campaign)
        if "server" in targets and name == under_which:
            _kill_server(of, name, seconds[name], campaign)
        of.finish(name)
    statuses = set(run_statuses(of.home.url))
    campaign.expect(statuses <= {"SUCCESS", "FAILURE"}, f"runs are left as {sorted(statuses)}")
    campaign.expect(slots_taken(of.home.url) == 0, "a dead run still holds the encoder")
    return of.state()


def _kill_command(of: _Round, name: str, seconds: float, campaign: Campaign) -> None:
    command, *others = of.start(name)
    moment = campaign.random.uniform(0, seconds)
    if command.runs_after(moment):
        command.kill()
        campaign.counts.update(("kills", f"kills of {name}"))
    else:
        campaign.counts["commands that ended before their moment"] += 1
    for other in others:
        campaign.expect(other.wait() == 0, f"{name} beside a killed one ended badly: {other.stderr}")


def _kill_server(of: _Round, name: str, seconds: float, campaign: Campaign) -> None:
    commands = of.start(name)
    commands[0].runs_after(campaign.random.uniform(0, seconds))
    of.home.kill_server()
    campaign.counts.update(("kills", "kills of the server"))
    for command in commands:
        code = command.wait()
        said = command.stderr
        campaign.expect(code in (0, 1), f"{name} ended with {code} when the server was killed: {said}")
        campaign.expect("Traceback" not in said, f"{name} printed a traceback when the server was killed: {said}")
        campaign.expect(code == 0 or "error: " in said, f"{name} failed without a word when the server was killed")


if __name__ == "__main__":
    typer.run(main)
