"""Times VCS against its authors' package, embeddings given: `python -m benchmarks.vcs [RESULT.json]`.

Both sides get the same ready embeddings and run alternately in one process and on one thread, so that other load on
the machine meets both alike; a run repeats its call until it has taken 50 ms, so that neither starts with the other's
data in the processor's caches. As in timeit, the collector of reference cycles is off meanwhile. Times are medians, the
spread is the range of the middle half of the runs. The authors' package is no dependency of this project: run this with
the Python of an environment of its own that has it.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import numpy as np  # after the number of threads is set, which it reads once

from benchmarks.measure import RESULTS, save, spread
from metrics_core.vcs import vcs_from_embeddings
from metrics_core.vcs.batch import vcs_batch, vcs_per_tolerance
from metrics_core.vcs.embeddings import compute_pair_similarities, compute_similarities

RESULT = RESULTS / "vcs.json"
DIMENSIONS = 384
RUN_MS = 50.0
HOW_TO_INSTALL = """The authors' package is not installed here. Give it an environment outside this folder:
    uv venv ../vcs_official
    uv pip install --python ../vcs_official/bin/python video-comprehension-score==1.0.0 torch
    ../vcs_official/bin/python -m benchmarks.vcs"""


@dataclass(frozen=True)
class Pair:
    """Embeddings of one pair of texts, unit rows in float32."""

    reference_chunks: np.ndarray
    generated_chunks: np.ndarray
    reference_text: np.ndarray
    generated_text: np.ndarray

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """In the order of `vcs_from_embeddings`."""
        return self.reference_chunks, self.generated_chunks, self.reference_text, self.generated_text


@dataclass(frozen=True)
class Case:
    """Two functions that score pairs, how many pairs each scores per run, how many runs, and the speed-up wanted."""

    name: str
    official: Callable[[], list[float]]
    ours: Callable[[], list[float]]
    n_official: int
    n_ours: int
    runs: int
    target: float


def make_pair(rng: np.random.Generator, n_chunks: int, common: float = 0.0) -> Pair:
    """A story and a noisy retelling; `common` adds one direction to all chunks, which makes them similar."""
    shared = rng.normal(size=DIMENSIONS) * common
    reference = rng.normal(size=(n_chunks, DIMENSIONS))
    generated = reference + rng.normal(size=reference.shape)
    texts = reference.sum(axis=0), generated.sum(axis=0)
    return Pair(*(unit(vectors) for vectors in (reference + shared, generated + shared, *texts)))


def unit(vectors: np.ndarray) -> np.ndarray:
    """Rows of length 1 in float32, as text encoders give them."""
    rows: np.ndarray = (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)
    return rows


def official_scorer(official: ModuleType, pair: Pair, lct: float) -> Callable[[], float]:
    """One call of the authors' package whose segmenter and encoders only look up what is ready."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    chunks = {"reference": pair.reference_chunks, "generated": pair.generated_chunks}
    segments = {name: [f"{name} {i}" for i in range(len(rows))] for name, rows in chunks.items()}
    ready = {segments[name][0]: torch.from_numpy(rows) for name, rows in chunks.items()}
    texts = torch.from_numpy(np.stack([pair.reference_text, pair.generated_text]))

    def score() -> float:
        found = official.compute_vcs_score(
            "reference", "generated", segments.__getitem__, lambda chunk: ready[chunk[0]], lambda _: texts, lct=lct
        )
        return float(found["VCS"])

    return score


def single_case(
    official: ModuleType, name: str, n_chunks: int, lct: float, runs: int, target: float, common: float = 0.0
) -> Case:
    """One pair per run, from embeddings to the score."""
    pair = make_pair(np.random.default_rng(n_chunks), n_chunks, common)
    theirs = official_scorer(official, pair, lct)
    return Case(name, lambda: [theirs()], lambda: [vcs_from_embeddings(*pair.arrays, lct=lct).vcs], 1, 1, runs, target)


def sweep_case(official: ModuleType) -> Case:
    """One pair at five tolerances, each a run of its own in the authors' package."""
    pair, lcts = make_pair(np.random.default_rng(5), 100), (0, 1, 2, 3, 4)
    theirs = [official_scorer(official, pair, lct) for lct in lcts]
    return Case(
        "100 x 100, lct 0 to 4 (sweep)",
        lambda: [score() for score in theirs],
        lambda: [result.vcs for result in vcs_per_tolerance(*compute_similarities(*pair.arrays), lcts)],
        1,
        1,
        runs=11,
        target=10,
    )


def batch_case(official: ModuleType) -> Case:
    """10,000 small pairs at once; the authors' package scores the first 200 of them, one by one."""
    rng = np.random.default_rng(10)
    pairs = [make_pair(rng, 10) for _ in range(10_000)]
    theirs = [official_scorer(official, pair, 0) for pair in pairs[:200]]
    return Case(
        "10 x 10, lct 0, per pair of 10,000",
        lambda: [score() for score in theirs],
        lambda: [result.vcs for result in vcs_batch(compute_pair_similarities(pair.arrays for pair in pairs))],
        len(theirs),
        len(pairs),
        runs=5,
        target=10,
    )


def measure(case: Case) -> dict[str, Any]:
    """Both sides in alternation after one run to warm up; times in milliseconds per pair."""
    pairs = list(zip(case.official(), case.ours(), strict=False))
    official, ours = [], []
    for _ in range(case.runs):
        official.append(timed(case.official) / case.n_official)
        ours.append(timed(case.ours) / case.n_ours)
    return {
        "case": case.name,
        "runs": case.runs,
        "official_ms": spread(official),
        "ours_ms": spread(ours),
        "speedup": spread([theirs / mine for theirs, mine in zip(official, ours, strict=True)]),
        "target": case.target,
        "largest_difference": max(abs(theirs - mine) for theirs, mine in pairs),
    }


def timed(function: Callable[[], object]) -> float:
    """Milliseconds that one call takes, the mean of calls that take RUN_MS together."""
    gc.collect()
    gc.disable()
    try:
        start, calls, elapsed = time.perf_counter(), 0, 0.0
        while elapsed < RUN_MS:
            function()
            calls += 1
            elapsed = (time.perf_counter() - start) * 1000
        return elapsed / calls
    finally:
        gc.enable()


def warm_up_allocator() -> None:
    """Free one large block, as any process has that loaded an encoder.

    glibc then keeps freed memory. In a fresh process it returns the 400 x 400 arrays to the system after each call, and
    taking them back costs more than the arithmetic on machines where a page fault is expensive.
    """
    np.zeros(1 << 21)


def line(row: dict[str, Any]) -> str:
    """One line of the table."""
    official, ours, speedup = row["official_ms"], row["ours_ms"], row["speedup"]
    return (
        f"{row['case']:<36}{official['median']:>10.3f} ms{ours['median']:>10.3f} ms"
        f"{speedup['median']:>8.1f}x  ({speedup['low']:.1f} to {speedup['high']:.1f})"
        f"  wanted {row['target']:.0f}x  difference {row['largest_difference']:.0e}"
    )


def main(result: Path) -> None:
    """Measure every case, print the table and write it to `result`."""
    try:
        official = importlib.import_module("vcs")
        importlib.import_module("torch")
    except ModuleNotFoundError as error:
        raise SystemExit(f"{HOW_TO_INSTALL}\n({error})") from error
    cases: tuple[Callable[[], Case], ...] = (
        lambda: single_case(official, "100 x 100, lct 0", 100, 0, runs=15, target=10),
        lambda: single_case(official, "100 x 100, lct 1", 100, 1, runs=15, target=10),
        lambda: single_case(official, "400 x 400, lct 0", 400, 0, runs=11, target=10),
        lambda: single_case(official, "400 x 400, lct 1", 400, 1, runs=11, target=10),
        lambda: single_case(official, "400 x 400, lct 1, similar chunks", 400, 1, runs=7, target=50, common=5.0),
        lambda: sweep_case(official),
        lambda: batch_case(official),
    )
    warm_up_allocator()
    print(f"{'':<36}{'authors':>13}{'here':>13}{'speed-up':>9}")
    rows = []
    for make in cases:
        rows.append(measure(make()))
        print(line(rows[-1]), flush=True)
    save(result, {"cases": rows}, numpy=np.__version__, torch=importlib.import_module("torch").__version__)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULT)
