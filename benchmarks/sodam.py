"""Times the alignment of SodaM on real and on long clips: `python -m benchmarks.sodam [RESULT.json]`.

Three ways run in alternation in one process and on one thread, so that other load on the machine meets all alike:
`align` once per clip; `align_batch`; and as a yardstick plain loops over the recurrence. The loops stop at the greatest
sum: they check nothing and find neither anchors nor groups, so on small clips they are hard to beat. Times are medians,
the spread is the range of the middle half of the runs. The real clips are those of ActivityNet Captions with two
annotators, the times of whose sentences are aligned; they are looked for as the tests do, where REELSIEVE_TEST_DATA
points.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import numpy as np  # after the number of threads is set, which it reads once

from benchmarks.measure import DATA, RESULTS, save, spread
from metrics_core.sodam import align, align_batch

RESULT = RESULTS / "sodam.json"
Spans = list[list[float]]
Pair = tuple[Spans, Spans]


@dataclass(frozen=True)
class Case:
    """Clips to align, how many runs, and within how many seconds all of them are to be aligned at once."""

    name: str
    pairs: list[Pair]
    runs: int
    target_s: float


def activitynet_case() -> Case:
    """Annotator 1 as the reference, annotator 2 as the prediction."""
    files = [DATA / "anet_captions" / f"val_{i}.json" for i in (1, 2)]
    missing = [str(file) for file in files if not file.is_file()]
    if missing:
        raise SystemExit(f"{missing[0]} does not exist: set REELSIEVE_TEST_DATA to the folder of the test data.")
    first, second = (json.loads(file.read_text(encoding="utf-8")) for file in files)
    pairs = [(first[key]["timestamps"], second[key]["timestamps"]) for key in first if key in second]
    return Case(f"ActivityNet, {len(pairs):,} clips", pairs, runs=7, target_s=5.0)


def long_case(n_segments: int, n_clips: int) -> Case:
    """Clips cut into segments at random, and a second cutting near the first."""
    rng = np.random.default_rng(n_segments)
    pairs = []
    for _ in range(n_clips):
        cuts = np.sort(rng.uniform(0, 10 * n_segments, n_segments + 1))
        moved = np.sort(cuts + rng.normal(0, 3, cuts.size))
        pairs.append(tuple(np.stack([ends[:-1], ends[1:]], axis=1).tolist() for ends in (cuts, moved)))
    return Case(f"{n_segments} x {n_segments} segments, {n_clips} clip(s)", pairs, runs=5, target_s=1.0)


def by_loops(references: Spans, predictions: Spans) -> float:
    """The greatest sum of IoU of one clip: the published recurrence, one cell at a time."""
    row = [0.0] * (len(predictions) + 1)
    for start, end in sorted(references):
        above, row = row, [0.0]
        for j, (other_start, other_end) in enumerate(sorted(predictions)):
            overlap = min(end, other_end) - max(start, other_start)
            iou = overlap / (max(end, other_end) - min(start, other_start)) if overlap > 0 else 0.0
            row.append(max(above[j + 1], row[j], above[j] + iou))
    return row[-1]


def measure(case: Case) -> dict[str, Any]:
    """All three in alternation after one run to warm up; times in milliseconds for all clips."""
    ways: dict[str, Callable[[], list[float]]] = {
        "loops": lambda: [by_loops(*pair) for pair in case.pairs],
        "single": lambda: [align(*pair).total_iou for pair in case.pairs],
        "batch": lambda: [alignment.total_iou for alignment in align_batch(case.pairs)],
    }
    values = {name: way() for name, way in ways.items()}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(case.runs):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            times[name].append((time.perf_counter() - start) * 1000)
    return {
        "case": case.name,
        "clips": len(case.pairs),
        "runs": case.runs,
        **{f"{name}_ms": spread(each) for name, each in times.items()},
        "target_ms": case.target_s * 1000,
        "largest_difference": max(
            abs(mine - plain)
            for name in ("single", "batch")
            for mine, plain in zip(values[name], values["loops"], strict=True)
        ),
        "anchors": sum(len(alignment.anchors) for alignment in align_batch(case.pairs)),
        "macro": macro(case.pairs, values["batch"]),
    }


def macro(pairs: list[Pair], values: list[float]) -> dict[str, float]:
    """Means over the clips of precision, recall and F1 of the overlap alone."""
    sizes = np.array([(len(predictions), len(references)) for references, predictions in pairs])
    worth = np.array(values)
    f1 = 2 * worth / sizes.sum(axis=1)
    means = (worth / sizes[:, 0]).mean(), (worth / sizes[:, 1]).mean(), f1.mean()
    return dict(zip(("precision", "recall", "f1"), map(float, means), strict=True))


def line(row: dict[str, Any]) -> str:
    """One line of the table."""
    batch = row["batch_ms"]
    medians = "".join(f"{row[f'{name}_ms']['median']:>10.1f} ms" for name in ("loops", "single", "batch"))
    return (
        f"{row['case']:<34}{medians}  ({batch['low']:.1f} to {batch['high']:.1f})"
        f"  wanted {row['target_ms']:.0f} ms  difference {row['largest_difference']:.0e}"
    )


def main(result: Path) -> None:
    """Measure every case, print the table and write it to `result`."""
    cases = activitynet_case(), long_case(20, 500), long_case(100, 20), long_case(400, 1)
    print(f"{'':<34}{'loops':>13}{'align':>13}{'align_batch':>13}")
    rows = []
    for case in cases:
        rows.append(measure(case))
        print(line(rows[-1]), flush=True)
    save(result, {"cases": rows}, numpy=np.__version__)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULT)
