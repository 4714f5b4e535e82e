"""VATEX-EVAL from its file to the report's page by the platform's own commands: `python -m benchmarks.vatex_platform`.

In a fresh home, with one and with nine references: `reelsieve ingest`, `reelsieve score` with VCS_short at tolerances 1
and 0, the asset `agreement` after each, `reelsieve compare` of the two tolerances, and `reelsieve report`. Every step
is a process of its own, whose wall time and peak memory are measured. The stored scores must correlate with each rater
as benchmarks/results/vatex_eval.json has it, which another program computed, but for rounding in the fourth decimal.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.agreement import ROUNDED
from benchmarks.measure import RESULTS, save, vatex_source
from benchmarks.papers.over_raters import over_raters
from benchmarks.vatex_eval import REFERENCE_COUNTS, TOLERANCES
from db.server.embedded import stop_embedded
from lab.adapters import vatex_eval

COMMAND = "from orchestration.cli import main; main()"
AGREEMENT = "import sys; from orchestration.runs import run_job; run_job('dataset_job', sys.argv[1], {}, ['agreement'])"
METRIC = "vcs_short"


@dataclass(frozen=True)
class Step:
    """One process: its wall seconds, the peak of its memory in MiB, and the machine's load at its end."""

    step: str
    wall_s: float
    peak_mib: float
    load_average: float


def process(steps: list[Step], name: str, program: str, *arguments: str, **variables: str) -> str:
    """Run a Python program in a process of its own, note what it took, and return what it printed."""
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen(
            [sys.executable, "-c", program, *arguments], stdout=out, env={**os.environ, **variables}
        )
        _, status, usage = os.wait4(child.pid, 0)
        if os.waitstatus_to_exitcode(status):
            raise SystemExit(f"{name} failed")
        out.seek(0)
        printed = out.read()
    steps.append(Step(name, time.perf_counter() - started, usage.ru_maxrss / 1024, os.getloadavg()[0]))
    print(
        f"{name:<32}{steps[-1].wall_s:>8.1f} s{steps[-1].peak_mib:>8.0f} MiB   load {steps[-1].load_average:.1f}",
        flush=True,
    )
    return printed


def check(rows: list[dict[str, Any]], references: int, lct: float) -> Iterator[dict[str, Any]]:
    """Each mean over raters beside the recorded one; a difference ends the benchmark. rows: ratings with scores."""
    recorded = json.loads((RESULTS / "vatex_eval.json").read_text(encoding="utf-8"))["results"]
    wanted = next(row for row in recorded if (row["references"], row["lct"]) == (references, lct))
    captions = {row["sample_id"]: row for row in rows}
    raters = sorted({row["rater"] for row in rows})
    given = {(row["sample_id"], row["rater"]): row["rating"] for row in rows}
    ratings = np.array([[given[caption, rater] for rater in raters] for caption in captions])
    scores = np.array([row["score"] for row in captions.values()])
    by_statistic = over_raters(scores, ratings, [row["video_id"] for row in captions.values()])
    for statistic, name in (("kendall_b", "kendall"), ("spearman", "spearman")):
        found = {**asdict(by_statistic[statistic]), "n": len(captions)}
        record = wanted["correlations"][METRIC][f"mean_{name}"]
        if abs(found["value"] - record) > ROUNDED:
            raise SystemExit(
                f"{references} references, lct {lct:g}: {name} is {found['value']:.6f}, recorded {record:.6f}"
            )
        yield {"references": references, "lct": lct, "statistic": statistic, **found, "recorded": record}


def one_setting(steps: list[Step], dataset: str, references: int, lct: float) -> list[dict[str, Any]]:
    """Score at one tolerance, make the table `agreement`, and check the scores with the ratings."""
    setting = {"REELSIEVE_VCS_SHORT_LCT": f"{lct:g}", "REELSIEVE_VCS_SHAPE_ZEROS": "true"}
    name = f"{dataset}, lct {lct:g}"
    process(steps, f"{name}: score", COMMAND, "score", "-d", dataset, "--metric", METRIC, "--json", **setting)
    process(steps, f"{name}: agreement", AGREEMENT, dataset, **setting)
    query = (
        f"SELECT sample_id, sample.video_id, rater, rating.value AS rating, {METRIC} AS score "
        "FROM rating JOIN sample USING (sample_id) JOIN sample_scores USING (sample_id) "
        f"WHERE dataset = '{dataset}' AND {METRIC} IS NOT NULL ORDER BY sample_id"
    )
    rows = json.loads(process(steps, f"{name}: sql", COMMAND, "sql", query, "--json"))
    return list(check(rows, references, lct))


def scorers(steps: list[Step]) -> list[str]:
    """The names of the two tolerances' scorers, in their order."""
    query = f"SELECT scorer_id FROM scorer WHERE metric = '{METRIC}' ORDER BY CAST(params->>'lct' AS float) DESC"
    rows = json.loads(process(steps, "scorers: sql", COMMAND, "sql", query, "--json"))
    return [f"{METRIC}@{row['scorer_id']}" for row in rows]


def measure(source: Path, folder: Path) -> dict[str, Any]:
    """Run every step; the figures, the comparisons and what each step took."""
    steps: list[Step] = []
    figures, comparisons, pages = [], {}, {}
    for references in REFERENCE_COUNTS:
        dataset = f"vatex_{references}"
        vatex_eval.convert(source, folder / dataset, references=references)
        process(steps, f"{dataset}: ingest", COMMAND, "ingest", str(folder / dataset), "--dataset", dataset, "--json")
        for lct in TOLERANCES:
            figures += one_setting(steps, dataset, references, lct)
        pair = scorers(steps)
        said = process(steps, f"{dataset}: compare", COMMAND, "compare", *pair, "-d", dataset, "--json")
        comparisons[dataset] = json.loads(said)
        print(process(steps, f"{dataset}: compare, shown", COMMAND, "compare", *pair, "-d", dataset, COLUMNS="80"))
        written = json.loads(process(steps, f"{dataset}: report", COMMAND, "report", "-d", dataset, "--json"))
        pages[dataset] = Path(written["page"]).stat().st_size
    taken = [asdict(step) for step in steps]
    return {"steps": taken, "figures": figures, "comparisons": comparisons, "page_bytes": pages}


def table(figures: list[dict[str, Any]]) -> Iterator[str]:
    """Each figure beside the recorded one, times 100."""
    for row in figures:
        setting = f"{row['references']} references, lct {row['lct']:g}, {row['statistic']:<10}"
        yield f"{setting}{100 * row['value']:>6.1f}, recorded {100 * row['recorded']:.1f}"


def on_vatex_eval(measure: Callable[[Path, Path], dict[str, Any]]) -> dict[str, Any]:
    """What `measure` finds on the file of VATEX-EVAL, given a folder for the time being, in a home of its own."""
    source = vatex_source()
    os.environ.pop("CURATION_DB_URL", None)
    with tempfile.TemporaryDirectory(prefix="reelsieve-") as temporary:
        os.environ["REELSIEVE_HOME"] = str(Path(temporary) / "home")
        try:
            return measure(source, Path(temporary))
        finally:
            stop_embedded(Path(temporary) / "home")


def main() -> None:
    """Run on VATEX-EVAL, print the figures and write the result."""
    result = on_vatex_eval(measure)
    print(*table(result["figures"]), sep="\n")
    print(f"written to {save(RESULTS / 'vatex_platform.json', result)}")


if __name__ == "__main__":
    main()
