"""A worker that is stopped between load and write while an ingest changes the rows: nothing stale is shown as current.

The worker stops itself (SIGSTOP) when it has computed vectors or scores and before it stores them. Then rows change,
and perhaps another worker scores them; then it goes on. Run it with
`python -m tests.attack.stopped --stops 100 --seed 1`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray
from sqlalchemy.engine import URL, Engine, make_url

from assets.metrics.registry import METRIC_INPUTS
from assets.metrics.vcs.scorer import VCSScorer, VCSSettings
from assets.scores.base import Outcome
from assets.scores.run import score_shard
from assets.sources.base import MissingEvidence
from db.schema.migrate import migrate
from db.server.embedded import start_embedded
from db.server.engine import open_engine
from metrics_core.models.sentence_splitter import RuleSplitter
from tests.assets.verifying import HashEncoder, dataset_of, make_sources
from tests.attack.campaign import Campaign, Seed, temporary_home
from tests.attack.world import DATASET, N_SHARDS, World, answer, same, scorer, shown
from tests.db.marks import wrong_marks

PROGRAM = "from tests.attack.stopped import work; work()"
PLACES = ("vectors", "scores")


def main(stops: int = 100, seed: Seed = None) -> None:
    """Stop a worker so many times."""
    campaign = Campaign("stopped", seed)
    with temporary_home() as home:
        url = start_embedded(home)
        migrate(url, METRIC_INPUTS)
        engine = open_engine(url)
        attack(engine, url, home.parent / "manifest", stops, campaign)
        engine.dispose()
    campaign.finish()


def attack(engine: Engine, url: URL, folder: Path, stops: int, campaign: Campaign) -> None:
    """Change rows while the worker stands still, and compare what is shown with the oracle, until it stood so often."""
    world = World(campaign.random)
    _change(world, engine, folder, 40)
    with _worker(url) as worker:
        while campaign.counts["stops"] < stops:
            place, call = campaign.random.choice(PLACES), campaign.random.randrange(2)
            if not _stops(worker, f"{place} {call}"):
                _change(world, engine, folder, 5)
                continue
            campaign.counts.update(("stops", f"stops before {place} are stored"))
            _change(world, engine, folder, campaign.random.randrange(1, 12))
            _check(engine, world, "while it stands still", campaign)
            if campaign.random.random() < 0.5:
                _score_all(engine, scorer())
                campaign.counts["scored by another worker meanwhile"] += 1
                _check(engine, world, "after another worker", campaign)
            worker.send_signal(signal.SIGCONT)
            assert _line(worker) == "done"
            _check(engine, world, "after it went on", campaign)
            _score_all(engine, scorer())
            _check(engine, world, "at the end", campaign, is_complete=True)


def _change(world: World, engine: Engine, folder: Path, n: int) -> None:
    for _ in range(n):
        world.change()
    world.ingest(engine, folder)


def _check(engine: Engine, world: World, when: str, campaign: Campaign, *, is_complete: bool = False) -> None:
    """Whatever is shown is right or called stale."""
    found, inputs = shown(engine), world.inputs()
    for key, (status, value) in found.items():
        is_right = (status, value) == ("stale", None) or same((status, value), answer(inputs[key]))
        campaign.counts["values compared" if value is not None else f"shown: {status}"] += 1
        campaign.expect(is_right, f"{when}: {key} is {(status, value)}, not {answer(inputs[key])}")
    with engine.connect() as connection:
        wrong = wrong_marks(connection.exec_driver_sql)
    campaign.expect(not wrong, f"{when}: {wrong[:3]}")
    if is_complete:
        campaign.expect(found.keys() == inputs.keys(), f"{when}: {inputs.keys() - found.keys()} have no score")
        stale = [key for key, (status, _) in found.items() if status == "stale"]
        campaign.expect(not stale, f"{when}: {stale} are stale")


def _score_all(engine: Engine, of: VCSScorer) -> None:
    """Score every shard; again where rows changed after the vectors were made, as a run does."""
    dataset = dataset_of(engine, DATASET)
    for shard in range(N_SHARDS):
        while True:
            make_sources(engine, of, dataset, shard)
            try:
                score_shard(engine, of, dataset, shard, run_id="run")
            except MissingEvidence:
                continue
            break


# The worker: it is told on standard input before what, and at which call, it is to stop.


@contextmanager
def _worker(url: URL) -> Generator[subprocess.Popen[str], None, None]:
    command = [sys.executable, "-c", PROGRAM, url.render_as_string(hide_password=False)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _stops(worker: subprocess.Popen[str], order: str) -> bool:
    """Whether the worker stands still now; else there was not so much to do."""
    assert worker.stdin
    print(order, file=worker.stdin, flush=True)
    if _line(worker) == "done":
        return False
    _, status = os.waitpid(worker.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    return True


def _line(worker: subprocess.Popen[str]) -> str:
    assert worker.stdout
    return worker.stdout.readline().strip()


class _Stop:
    """The place before which this process is to stop, and how often it still passes it."""

    place, left = "", 0

    def __call__(self, place: str) -> None:
        if place == self.place:
            self.left -= 1
            if self.left < 0:
                self.place = ""
                print("stops", flush=True)
                os.kill(os.getpid(), signal.SIGSTOP)


class _Encoder(HashEncoder):
    def __init__(self, stop: _Stop) -> None:
        super().__init__()
        self._stop = stop

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = super().encode(texts)
        self._stop("vectors")
        return vectors


class _Scorer(VCSScorer):
    def __init__(self, stop: _Stop) -> None:
        super().__init__(VCSSettings(), _Encoder(stop), RuleSplitter())
        self._stop = stop

    def score(self, samples: Any, evidence: Any) -> list[Outcome]:
        outcomes = super().score(samples, evidence)
        self._stop("scores")
        return outcomes


def work() -> None:
    """In the worker's process: score everything at each order."""
    engine = open_engine(make_url(sys.argv[1]))
    stop = _Stop()
    stopping = _Scorer(stop)
    for line in sys.stdin:
        place, call = line.split()
        stop.place, stop.left = place, int(call)
        _score_all(engine, stopping)
        stop.place = ""
        print("done", flush=True)


if __name__ == "__main__":
    typer.run(main)
