"""Agreement with people on VATEX-EVAL, and what its intervals cost: `python -m benchmarks.agreement`.

VCS_short and the scores beside it are made through the platform, as in benchmarks.vatex_eval, with one reference and
tolerance 1. First `metrics_core.agreement` computes the figures of that benchmark anew: they must be its own on the
same scores, and those of benchmarks/results/vatex_eval.json but for scores that another machine rounds otherwise. Then
one core computes the whole table of five metrics (the four scores and noise) on 9,048 captions. At the end come the
baselines, the raters, the coefficients of papers that the table does not hold, and the paired tests of every two
metrics.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy.engine import Engine
from threadpoolctl import threadpool_limits

from benchmarks.installation import temporary_engine
from benchmarks.measure import RESULTS, save, vatex_source
from benchmarks.papers.coefficients import compute_others
from benchmarks.rank_agreement import correlation
from benchmarks.vatex_eval import (
    Clock,
    correlations,
    ingested,
    judged_captions,
    scorer_at,
    scores_by_name,
)
from db.schema.inputs import REFERENCES
from db.scores.pending import load_samples
from metrics_core.agreement import (
    AgreementRow,
    compare_with_people,
    compute_agreement_rows,
    compute_words_in_common,
    count_words,
)

REFERENCES_USED, TOLERANCE = 1, 1.0
DECIMALS = 4
# Other vector instructions move some scores across the fourth decimal: a tenth of what the tables show, times 100.
ROUNDED = 1e-3


def texts_of(engine: Engine, sample_ids: list[int]) -> tuple[list[str], list[list[str]]]:
    """The captions and their references."""
    with engine.connect() as connection:
        samples = load_samples(connection, sample_ids, scorer_at(TOLERANCE).inputs)
    return [sample.text for sample in samples], [[each.text for each in sample[REFERENCES]] for sample in samples]


def check_figures(scores: dict[str, np.ndarray], ratings: np.ndarray) -> dict[str, Any]:
    """The mean of each score's correlations with the raters, beside the record; a difference ends the benchmark."""
    recorded = json.loads((RESULTS / "vatex_eval.json").read_text(encoding="utf-8"))["results"]
    wanted = next(row for row in recorded if (row["references"], row["lct"]) == (REFERENCES_USED, TOLERANCE))
    figures = {}
    for name, values in scores.items():
        by_rater = [correlation(np.round(values, DECIMALS), rater) for rater in ratings.T]
        for statistic in ("kendall", "spearman"):
            found = float(np.mean([getattr(each, statistic) for each in by_rater]))
            record = wanted["correlations"][name][f"mean_{statistic}"]
            figures[f"{name}, {statistic}"] = {"found": found, "recorded": record}
            same = correlations(values, ratings)[f"mean_{statistic}"]
            if abs(found - same) > 1e-12 or abs(found - record) > ROUNDED:
                raise SystemExit(f"{name}: {statistic} is {found:.6f}, by SciPy {same:.6f}, recorded {record:.6f}")
    return figures


def timed(make: Callable[[], tuple[Any, ...]]) -> tuple[tuple[Any, ...], dict[str, float]]:
    """The result, and wall and CPU seconds on one core."""
    with threadpool_limits(limits=1):
        wall, cpu = time.perf_counter(), time.process_time()
        rows = make()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return rows, {"wall_s": wall, "cpu_s": cpu, "load_average": os.getloadavg()[0], "rows": len(rows)}


def table(rows: tuple[AgreementRow, ...]) -> Iterator[str]:
    """Kendall's tau-b by metric and what is compared, times 100."""
    for row in rows:
        if (row.statistic, row.against) == ("kendall_b", "people") and row.value is not None:
            limits = "" if row.low is None or row.high is None else f"{100 * row.low:>8.1f}{100 * row.high:>8.1f}"
            yield f"{row.metric:<18}{row.over:<16}{100 * row.value:>8.1f}{limits}   n {row.n}"


def measure(engine: Engine, source: Path, folder: Path) -> dict[str, Any]:
    """Score the captions and compute everything."""
    clock = Clock()
    dataset = ingested(engine, source, folder, REFERENCES_USED, clock)
    judged, _ = judged_captions(engine, dataset, TOLERANCE, clock)
    scores, ratings = scores_by_name(engine, judged, TOLERANCE), np.array([row.ratings for row in judged])
    figures = check_figures(scores, ratings)
    texts, references = texts_of(engine, [row.sample_id for row in judged])
    lengths, videos, systems = count_words(texts), [row.video_id for row in judged], [row.system for row in judged]
    noise = np.random.default_rng(0).normal(size=len(judged))
    five, people = {**scores, "noise": noise}, {"mean rating": ratings.mean(axis=1, keepdims=True)}
    costs = {}
    _, costs["5 metrics"] = timed(lambda: compute_agreement_rows(five, people, videos, systems))
    baselines = {"length": lengths, "words in common": compute_words_in_common(texts, references)}
    rows, costs["with baselines and raters"] = timed(
        lambda: compute_agreement_rows(scores, {"consistency": ratings}, videos, systems, baselines=baselines)
    )
    everything = {**scores, **baselines}.items()
    others = {name: compute_others(values, ratings, videos, systems, lengths) for name, values in everything}
    pairs = list(combinations(everything, 2))
    tests, costs["paired tests"] = timed(
        lambda: [compare_with_people(one, two, {"consistency": ratings}, videos)[0] for (_, one), (_, two) in pairs]
    )
    print(*table(rows), *others.items(), *costs.items(), sep="\n")
    return {
        "figures": figures,
        "costs": costs,
        "rows": [asdict(row) for row in rows],
        "others": others,
        "tests": [
            {"metric": one, "other": two, **asdict(test)}
            for ((one, _), (two, _)), test in zip(pairs, tests, strict=True)
        ],
    }


def main() -> None:
    """Run on VATEX-EVAL, print the table and write the result."""
    source = vatex_source()
    with (
        tempfile.TemporaryDirectory(prefix="reelsieve-") as temporary,
        temporary_engine(Path(temporary) / "home") as engine,
    ):
        result = measure(engine, source, Path(temporary) / "references")
    print(f"\nwritten to {save(RESULTS / 'agreement.json', result)}")


if __name__ == "__main__":
    main()
