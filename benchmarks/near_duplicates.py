"""Near-duplicates and diversity: `python -m benchmarks.near_duplicates [--samples 100000] [--texts 5000]`.

`--cells 1000000` measures only the search by cells, on so many planted rows, and on at most 100,000 rows what it keeps
otherwise than the exact walk; `--gpu 1000000` only an exact walk on a GPU (torch).

Two sets of vectors: random directions of which some are near another one by known cosines, and texts of VATEX-EVAL by
the bundled encoder. On each the exact walk stands beside pgvector's HNSW index: seconds to build and to ask, pairs of
cosine .95 or more that the index finds, and samples that a selection by these pairs would keep otherwise. HNSW is asked
only for rows that have such a pair, and the seconds for all rows are projected. The exact walk is checked against the
products of all rows. K-center greedy takes an eighth, and stands beside a stretch of choosing one by one.

Then a recipe of each kind runs over a database of as many samples, in a process of its own, whose peak of memory is
taken; the vectors themselves take 1.5 KB a sample.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy.engine import Engine, make_url

from assets.selection.select import make_selection
from benchmarks.installation import temporary_engine
from benchmarks.measure import RESULTS, TEXT_ENCODER, Spread, peak_kb, save_with_load, timed
from benchmarks.million_fill import NAME, fill
from benchmarks.near_index import hnsw
from benchmarks.near_vectors import (
    COSINES,
    Pairs,
    Planted,
    Rows,
    all_pairs,
    keep_by,
    one_by_one,
    plant,
    real_texts,
    walk_on,
)
from db.evidence.embeddings import TextVector, store_text_vectors
from db.evidence.models import register_model
from db.manifest.datasets import find_dataset
from db.schema import sample
from db.selection.recipes import parse_recipe
from db.server.engine import open_engine
from metrics_core.models.text_encoder import make_text_encoder
from metrics_core.protocols import ModelIdentity
from metrics_core.selection import duplicates
from metrics_core.selection.diversity import choose_diverse_rows
from metrics_core.selection.duplicates import estimate_missed, mark_distinct_rows

AT_LEAST, SHARE, DIMENSIONS, SEED = 0.95, 0.05, 384, 7
STRETCH = 300
# Of more rows the exact walk takes minutes.
EXACT_ROWS = 100_000
RECIPES = {
    "dedupe": {"by": "vcs", "dedupe": AT_LEAST, "keep": 0.125},
    "diverse": {"by": "vcs", "choose": "diverse", "keep": 0.125},
}


class Stored:
    """An encoder whose vectors are all stored."""

    identity = ModelIdentity("benchmark encoder of texts", "1", {})

    def encode(self, texts: Sequence[str]) -> Rows:
        """Never asked."""
        raise AssertionError(f"{len(texts)} texts have no vector")


def exact(units: Rows, repeats: int) -> tuple[dict[str, Any], Pairs, npt.NDArray[np.bool_]]:
    """The exact walk, checked; all pairs and what stays."""
    seconds, keeps = zip(
        *[timed("exact walk", lambda: mark_distinct_rows(units, AT_LEAST)) for _ in range(repeats)], strict=True
    )
    all_s, pairs = timed("products of all rows", lambda: all_pairs(units, AT_LEAST))
    assert (keeps[0] == keep_by(len(units), pairs)).all(), "the walk differs from the products of all rows"
    found = {"rows": len(units), "pairs": len(pairs), "duplicates": int((~keeps[0]).sum())}
    return {**found, "walk_s": Spread.of(seconds).as_dict(), "products_of_all_rows_s": all_s}, pairs, keeps[0]


def by_cells(n: int) -> dict[str, Any]:
    """The search by cells among n planted rows: seconds, copies that it drops by their cosine, and its own estimate."""
    planted = plant(n, DIMENSIONS, SHARE, SEED)
    keep = mark_distinct_rows(planted.units, AT_LEAST) if n <= EXACT_ROWS else None
    duplicates.EXACT_UP_TO = 0
    used, taken = time.process_time(), timed("search by cells", lambda: mark_distinct_rows(planted.units, AT_LEAST))
    used = time.process_time() - used
    estimate_s, missed = timed("estimate", lambda: estimate_missed(planted.units, taken[1], AT_LEAST))
    dropped = {
        str(cosine): float((~taken[1][planted.pairs[planted.cosines == cosine, 1]]).mean())
        for cosine in COSINES
        if cosine > AT_LEAST
    }
    found = {"rows": n, "wall_s": taken[0], "cpu_s": used, "estimate_s": estimate_s, "dropped_by_cosine": dropped}
    if keep is not None:
        found |= {"duplicates": int((~keep).sum()), "kept_otherwise": int((keep != taken[1]).sum())}
    return found | {"estimate": missed and asdict(missed)}


def on_gpu(n: int) -> dict[str, Any]:
    """An exact walk among n planted rows on the GPU of this machine."""
    units = plant(n, DIMENSIONS, SHARE, SEED).units
    seconds, keep = timed("exact walk on the GPU", lambda: walk_on("cuda", units, AT_LEAST))
    return {"rows": n, "walk_s": seconds, "duplicates": int((~keep).sum())}


def spread(units: Rows, repeats: int) -> dict[str, Any]:
    """K-center greedy of an eighth, beside a stretch of it one by one."""
    n = len(units) // 8
    runs = [
        timed(f"k-center greedy, {n} of {len(units)}", lambda: choose_diverse_rows(units, n)) for _ in range(repeats)
    ]
    stretch = min(STRETCH, n)
    one_s, first = timed(f"one by one, the first {stretch}", lambda: one_by_one(units, stretch))
    same = int((runs[0][1][:stretch] == first).sum())
    seconds = Spread.of([taken for taken, _ in runs]).as_dict()
    projected = one_s / max(1, stretch) * n
    return {"chosen": n, "seconds": seconds, "one_by_one_s_projected": projected, "same_of_stretch": [same, stretch]}


def whole_commands(url: str, engine: Engine, units: Rows) -> dict[str, Any]:
    """A recipe of each kind in a process of its own, over a database of as many samples."""
    fill(engine, len(units), max(1, len(units) // 4000))
    with engine.begin() as connection:
        texts = list(connection.scalars(sa.select(sample.c.text).order_by(sample.c.sample_id)))
        model_id = register_model(connection, Stored.identity.as_dict())
    for start in range(0, len(texts), 10_000):
        lot = slice(start, start + 10_000)
        store_text_vectors(engine, model_id, dict(zip(texts[lot], map(TextVector, units[lot]), strict=True)))
    found = {}
    for name, said in RECIPES.items():
        command = [sys.executable, "-m", "benchmarks.near_duplicates", "--once", url, json.dumps(said)]
        run = partial(subprocess.run, command, check=True, capture_output=True, text=True)
        _, done = timed(f"selection, {name}", run)
        found[name] = json.loads(done.stdout)
    return found


def once(url: str, said: str) -> dict[str, Any]:
    """The selection of a process of its own, its seconds and its peak of memory."""
    engine = open_engine(make_url(url))
    with engine.connect() as connection:
        dataset = find_dataset(connection, NAME)
    assert dataset is not None
    started, before = time.perf_counter(), peak_kb()
    chosen = make_selection(engine, dataset, parse_recipe(json.loads(said)), Stored, lambda line: None)
    taken = time.perf_counter() - started
    return {"wall_s": taken, "n": chosen.n, "duplicates": chosen.n_duplicates, "kb": [before, peak_kb()]}


def main() -> None:
    """Measure, print and write results/near_duplicates.json; with --once be the process whose peak is measured."""
    if sys.argv[1:2] == ["--once"]:
        print(json.dumps(once(*sys.argv[2:])))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--texts", type=int, default=5_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, default=RESULTS / "near_duplicates.json")
    parser.add_argument("--cells", type=int)
    parser.add_argument("--gpu", type=int)
    given = parser.parse_args()
    before = os.getloadavg()
    if given.cells or given.gpu:
        print(json.dumps(by_cells(given.cells) if given.cells else on_gpu(given.gpu), indent=1), f"load {before}")
        return
    planted = plant(given.samples, DIMENSIONS, SHARE, SEED)
    texts = real_texts(given.texts)
    _, real = timed("texts embedded", lambda: make_text_encoder(TEXT_ENCODER).encode(texts))
    sets: dict[str, tuple[Rows, Planted | None]] = {"planted": (planted.units, planted), "VATEX-EVAL": (real, None)}
    result: dict[str, Any] = {"at_least": AT_LEAST, "share_planted": SHARE}
    with tempfile.TemporaryDirectory(prefix="reelsieve-") as folder, temporary_engine(Path(folder), NAME) as engine:
        url = engine.url
        for name, (units, known) in sets.items():
            print(name, flush=True)
            found, pairs, keep = exact(units, given.repeats)
            result[name] = {**found, "hnsw": hnsw(engine, units, pairs, keep, known, AT_LEAST)}
            result[name]["k_center"] = spread(units, given.repeats)
        result["selections"] = whole_commands(url.render_as_string(hide_password=False), engine, planted.units)
    print(json.dumps(result, indent=1))
    save_with_load(given.json, result, before)


if __name__ == "__main__":
    main()
