"""Recipes of each kind beside a scan: `python -m benchmarks.recipes [--samples 1000000] [--repeats 1]`.

Fills a database as `benchmarks.million` does. Each recipe is chosen and frozen in a transaction that is taken back,
beside a scan of one metric's values, and a COPY of the candidates in order of kind and key. Then a process of its own
chooses among a tenth and among all of the samples, and their peaks of memory are compared. CPU seconds, of the server
and of this process, suffer less from other load than the wall time does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Engine, make_url

from assets.selection.select import choose_samples
from benchmarks.in_turn import in_turn
from benchmarks.measure import RESULTS, peak_kb, save_with_load
from benchmarks.million import Bench, filled_bench, look
from benchmarks.million_fill import NAME
from db.manifest.datasets import Dataset, find_dataset
from db.selection.freeze import freeze_selection
from db.selection.recipes import parse_recipe
from db.server.engine import open_engine, open_psycopg_transaction

RECIPES: Mapping[str, Mapping[str, Any]] = {
    "best 12.5 %": {"by": "vcs", "keep": 0.125},
    "condition over two metrics": {"by": "vcs", "where": "vcs > 0.3 and evqa > 0.2", "keep": 0.125},
    "least values": {"by": "vcs", "at_least": {"vcs": 0.5, "evqa": 0.5}, "keep": 0.5},
    "mean of ranks": {"by": {"ecs": 2, "vcs": 1}, "keep": 0.125},
    "count by system": {"by": "vcs", "per": "system", "count": 1000},
    "quotas by band": {"by": "vcs", "per": "duration_s", "bands": [5, 20], "quotas": {"*": 1000}},
    "length of texts": {"by": "n_characters", "keep": 0.125},
    "random": {"by": "vcs", "choose": "random", "keep": 0.125},
}
# The videos whose number ends in 0.
TENTH = "sample like '%0_s_'"
SCAN = "SELECT count(value), sum(value) FROM score WHERE scorer_id = :scorer_id"
COPY = (
    "COPY (SELECT s.sample_id, c.value, s.system FROM score c JOIN sample s USING (sample_id) "
    'WHERE c.scorer_id = {scorer_id} AND value IS NOT NULL ORDER BY s.kind, s.key COLLATE "C") TO STDOUT'
)


def select(engine: Engine, dataset: Dataset, said: Mapping[str, Any]) -> int:
    """The number of rows of a selection that is stored and taken back."""
    recipe = parse_recipe(said)
    with engine.connect() as connection:
        n = freeze_selection(connection, *choose_samples(connection, dataset, recipe, None, print, lock=True)).n
        connection.rollback()
    return n


def copy_candidates(engine: Engine, scorer_id: int) -> None:
    """The candidates of a recipe in the order of their keys, thrown away."""
    statement = COPY.format(scorer_id=scorer_id).encode()
    with open_psycopg_transaction(engine) as connection, connection.cursor().copy(statement) as copy:
        for _ in copy:
            pass


def peaks(url: str) -> dict[str, Any]:
    """Kilobytes at most of a process that chooses among a tenth of the samples and among all of them, by recipe."""
    found = {}
    for name, said in RECIPES.items():
        tenth = f"({said['where']}) and {TENTH}" if "where" in said else TENTH
        kb = [_peak(url, {**said, "where": tenth}), _peak(url, said)]
        found[name] = {"peak_kb": kb, "ratio": round(kb[1] / kb[0], 3)}
        print(f"{name:<44}{kb[0] / 1024:>9.0f} MB{kb[1] / 1024:>9.0f} MB", flush=True)
    return found


def _peak(url: str, said: Mapping[str, Any]) -> int:
    command = [sys.executable, "-m", "benchmarks.recipes", "--once", url, json.dumps(said)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def once(url: str, said: str) -> int:
    """The peak of a process that chooses once."""
    engine = open_engine(make_url(url))
    with engine.connect() as connection:
        dataset = find_dataset(connection, NAME)
    assert dataset is not None
    select(engine, dataset, json.loads(said))
    return peak_kb()


def measure(bench: Bench, repeats: int) -> dict[str, Any]:
    """The floors and each recipe in turn."""
    scorer_id = bench.filled.scorers["vcs"]
    # As every command that scores leaves it: known to be fresh.
    bench.time("first look at everything", lambda: look(bench))
    scan = bench.query(SCAN, "SET LOCAL enable_indexonlyscan = off", scorer_id=scorer_id)
    calls: dict[str, Callable[[], object]] = {
        "scan": scan,
        "copy of the candidates": partial(copy_candidates, bench.engine, scorer_id),
    }
    calls |= {name: partial(select, bench.engine, bench.filled.dataset, said) for name, said in RECIPES.items()}
    found = in_turn(bench, calls, repeats)
    copied = found["copy of the candidates"]["cpu_s"]["median"]
    return {name: {**row, "to_copy_in_cpu": round(row["cpu_s"]["median"] / copied, 2)} for name, row in found.items()}


def main() -> None:
    """Fill, measure, print and write results/recipes.json; with --once be the process whose peak is measured."""
    if sys.argv[1:2] == ["--once"]:
        print(once(*sys.argv[2:]))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--json", type=Path, default=RESULTS / "recipes.json")
    given = parser.parse_args()
    before = os.getloadavg()
    with tempfile.TemporaryDirectory(prefix="reelsieve-") as name, filled_bench(Path(name), given.samples) as bench:
        found: dict[str, Any] = {"samples": given.samples, "recipes": measure(bench, given.repeats)}
        found["memory"] = peaks(bench.engine.url.render_as_string(hide_password=False))
    print(json.dumps(found, indent=1))
    save_with_load(given.json, found, before)


if __name__ == "__main__":
    main()
