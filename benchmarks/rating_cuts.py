"""The threshold by ratings on VATEX-EVAL, by the platform's own commands: `python -m benchmarks.rating_cuts`.

In a fresh home, with one reference: `reelsieve ingest`, `reelsieve score` with VCS_short, the asset `rating_threshold`,
and the stored row by SQL: the cut with its interval, and what such cuts reach on videos that they were not found on,
beside cuts on the number of words and on words in common with the reference. Nothing was chosen on these ratings but
the cuts themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.measure import RESULTS, save
from benchmarks.vatex_platform import COMMAND, METRIC, Step, on_vatex_eval, process
from lab.adapters import vatex_eval

DATASET = "vatex"
THRESHOLD = (
    "import sys; from orchestration.runs import run_job; run_job('dataset_job', sys.argv[1], {}, ['rating_threshold'])"
)
QUERY = (
    "SELECT metric, objective, at_least, low, high, n, n_good, details FROM dataset_thresholds "
    f"WHERE dataset = '{DATASET}' AND method = 'ratings'"
)


def measure(source: Path, folder: Path) -> dict[str, Any]:
    """Run every step; the stored thresholds and what each step took."""
    steps: list[Step] = []
    vatex_eval.convert(source, folder / DATASET, references=1)
    process(steps, "ingest", COMMAND, "ingest", str(folder / DATASET), "--dataset", DATASET, "--json")
    process(steps, "score", COMMAND, "score", "-d", DATASET, "--metric", METRIC, "--json")
    process(steps, "rating_threshold", THRESHOLD, DATASET)
    thresholds = json.loads(process(steps, "sql", COMMAND, "sql", QUERY, "--json"))
    return {"steps": [asdict(step) for step in steps], "thresholds": thresholds}


def table(thresholds: list[dict[str, Any]]) -> Iterator[str]:
    """The cut, and Youden's J of cuts on other videos beside the baselines."""
    for row in thresholds:
        details = row["details"]
        yield (
            f"{row['metric']}, {row['objective']}: at least {row['at_least']:.4f} ({row['low']:.4f} to "
            f"{row['high']:.4f}), {row['n']} captions, {row['n_good']} of them rated {details['least_rating']:g} or "
            f"higher; keeps {details['kept_good']:.3f} of these and {details['kept_others']:.3f} of the others"
        )
        reached = {row["metric"]: details["youden_held_out"], **details["baselines_held_out"]}
        for name, found in reached.items():
            yield f"  J on other videos, {name:<16}{found['value']:>7.3f} ({found['low']:.3f} to {found['high']:.3f})"
        for name, found in details["baselines_held_out"].items():
            gain = found["gain"]
            yield f"  more than {name:<25}{gain['value']:>7.3f} ({gain['low']:.3f} to {gain['high']:.3f})"


def main() -> None:
    """Run on VATEX-EVAL, print the figures and write the result."""
    result = on_vatex_eval(measure)
    print(*table(result["thresholds"]), sep="\n")
    print(f"written to {save(RESULTS / 'rating_cuts.json', result)}")


if __name__ == "__main__":
    main()
