"""VCS_short on VATEX-EVAL against people, through the platform: `python -m benchmarks.vatex_eval`.

The captions are ingested twice, with one and with nine references, into a database of their own, their texts and words
embedded with the bundled MiniLM (REELSIEVE_TEXT_ENCODER names another encoder), scored at two tolerances and joined
with the ratings by SQL. The convention is that of VATEX-EVAL: scores rounded to 4 decimals, Kendall's tau-b and
Spearman's rho with each of the three raters over all captions, the mean of the three. Beside VCS_short stand:

- zeros by margin: VCS_short, with `margin` (never positive there) in the place of a score of 0;
- GAS: the cosine of the whole texts, with the reference that VCS_short found best;
- highest GAS: the same with whichever reference it is highest for.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.ingest.run import ingest_folder
from assets.metrics.vcs.scorer import VCSShortScorer, VCSShortSettings
from assets.scores.pending import make_evidence, store_scorer
from assets.scores.run import score_shard
from assets.sources.base import Order
from assets.sources.texts import TextVectors
from benchmarks.installation import temporary_engine
from benchmarks.measure import RESULTS, TEXT_ENCODER, save, vatex_source
from db.manifest.datasets import Dataset, find_dataset
from db.schema.inputs import REFERENCES
from db.scores.pending import load_samples
from lab.adapters import vatex_eval

REFERENCE_COUNTS = (1, 9)
TOLERANCES = (1.0, 0.0)
JUDGED = """
    SELECT s.sample_id,
           c.value,
           CAST(c.components->>'margin' AS double precision) AS margin,
           CAST(c.components->>'gas' AS double precision) AS gas,
           CAST(c.components->>'always_zero' AS boolean) AS always_zero,
           array_agg(r.value ORDER BY r.rater) AS ratings,
           s.video_id,
           s.system
    FROM score c
    JOIN scorer USING (scorer_id)
    JOIN sample s USING (sample_id)
    JOIN rating r USING (sample_id)
    WHERE scorer.metric = 'vcs_short' AND scorer.status = 'active' AND s.dataset_id = :dataset_id AND c.status = 'ok'
    GROUP BY s.sample_id, c.value, c.components, s.video_id, s.system
    ORDER BY s.sample_id
"""


class Clock:
    """What each step took, in its order."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []

    def time(self, step: str, function: Callable[[], Any]) -> Any:
        """The function's result; wall and CPU seconds of this process and the machine's load go down under `step`."""
        wall, cpu = time.perf_counter(), time.process_time()
        result = function()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        self.steps.append({"step": step, "wall_s": wall, "cpu_s": cpu, "load_average": os.getloadavg()[0]})
        print(f"{step:<36}{wall:>8.1f} s wall{cpu:>8.1f} s CPU   load {os.getloadavg()[0]:.1f}", flush=True)
        return result


def evaluate(engine: Engine, source: Path, folder: Path, n_references: int, clock: Clock) -> list[dict[str, Any]]:
    """Ingest the dataset with so many references; one row of results per tolerance."""
    dataset = ingested(engine, source, folder, n_references, clock)
    return [
        {"references": n_references, "lct": lct, **score_and_judge(engine, dataset, lct, clock)} for lct in TOLERANCES
    ]


def ingested(engine: Engine, source: Path, folder: Path, n_references: int, clock: Clock) -> Dataset:
    """Ingest the dataset with so many references."""
    name = f"vatex_{n_references}"
    vatex_eval.convert(source, folder, references=n_references)
    report = clock.time(f"{name}: ingest", lambda: ingest_folder(engine, folder, name))
    if report.rejected:
        raise SystemExit(f"{report.rejected} rows of {source.name} were refused: see table ingest_reject")
    with engine.connect() as connection:
        dataset = find_dataset(connection, name)
    assert dataset is not None
    return dataset


def score_and_judge(engine: Engine, dataset: Dataset, lct: float, clock: Clock) -> dict[str, Any]:
    """Embed, score and query a dataset at one tolerance; the scores' correlations with each rater."""
    judged, texts_embedded = judged_captions(engine, dataset, lct, clock)
    scores = scores_by_name(engine, judged, lct)
    ratings = np.array([row.ratings for row in judged])
    return {
        "captions": len(judged),
        "zeros": int((scores["vcs_short"] == 0).sum()),
        "always_zero": sum(row.always_zero for row in judged),
        "texts_embedded": texts_embedded,
        "correlations": clock.time(
            f"{dataset.name}, lct {lct:g}: correlate",
            lambda: {name: correlations(each, ratings) for name, each in scores.items()},
        ),
    }


def scorer_at(lct: float) -> VCSShortScorer:
    """VCS_short at one tolerance."""
    # As in the paper's tables, a caption whose shape forces a 0 counts with that 0.
    settings = VCSShortSettings(text_encoder={"model": TEXT_ENCODER}, vcs_short_lct=lct, vcs_shape_zeros=True)
    return VCSShortScorer.from_settings(settings)


def judged_captions(engine: Engine, dataset: Dataset, lct: float, clock: Clock) -> tuple[list[Any], int]:
    """Embed, score and query a dataset at one tolerance; how many texts were embedded."""
    scorer = scorer_at(lct)
    shards, step = range(dataset.n_shards), f"{dataset.name}, lct {lct:g}"
    scorer_id = store_scorer(engine, scorer)
    orders = [Order(engine, dataset, shard, scorer_id, run_id=step) for shard in shards]
    embedded = clock.time(f"{step}: embed", lambda: [make_evidence(scorer, TextVectors, [order]) for order in orders])
    clock.time(f"{step}: score", lambda: [score_shard(engine, scorer, dataset, i, run_id=step) for i in shards])
    judged = clock.time(f"{step}: query", lambda: query(engine, dataset))
    return judged, sum(int(counts["texts_embedded"]) for counts in embedded)


def scores_by_name(engine: Engine, judged: list[Any], lct: float) -> dict[str, np.ndarray]:
    """VCS_short and the three scores beside it, of every judged caption."""
    values = np.array([row.value for row in judged])
    return {
        "vcs_short": values,
        "zeros by margin": np.where(values > 0, values, [row.margin for row in judged]),
        "gas": np.array([row.gas for row in judged]),
        "highest gas": highest_gas(engine, scorer_at(lct), [row.sample_id for row in judged]),
    }


def query(engine: Engine, dataset: Dataset) -> list[Any]:
    """Each scored caption with its ratings, in the order of the raters."""
    with engine.connect() as connection:
        return list(connection.execute(sa.text(JUDGED), {"dataset_id": dataset.dataset_id}))


def highest_gas(engine: Engine, scorer: VCSShortScorer, sample_ids: list[int]) -> np.ndarray:
    """The highest cosine of each caption and its references, from the stored vectors."""
    with engine.connect() as connection:
        samples = load_samples(connection, sample_ids, scorer.inputs)
    vectors = scorer.vectors.load(engine, store_scorer(engine, scorer), samples)
    return np.array(
        [
            max(float(vectors[reference.text] @ vectors[sample.text]) for reference in sample[REFERENCES])
            for sample in samples
        ]
    )


def correlations(scores: np.ndarray, ratings: np.ndarray) -> dict[str, Any]:
    """Tau-b and rho with each rater, (captions, raters), and their means."""
    from scipy.stats import kendalltau, spearmanr

    rounded = np.round(scores, 4)
    found = {
        "kendall": [float(kendalltau(rounded, rater).statistic) for rater in ratings.T],
        "spearman": [float(spearmanr(rounded, rater).statistic) for rater in ratings.T],
    }
    return {
        **found,
        "mean_kendall": statistics.fmean(found["kendall"]),
        "mean_spearman": statistics.fmean(found["spearman"]),
    }


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The lines of the table, correlations times 100."""
    yield f"{'references':<12}{'lct':<6}{'score':<18}{'Kendall':>8}{'Spearman':>10}"
    for row in rows:
        for name, found in row["correlations"].items():
            means = 100 * found["mean_kendall"], 100 * found["mean_spearman"]
            yield f"{row['references']:<12}{row['lct']:<6g}{name:<18}{means[0]:>8.1f}{means[1]:>10.1f}"
        yield (
            f"   {row['captions']} captions, {row['zeros']} scored 0 ({row['always_zero']} by shape alone), "
            f"{row['texts_embedded']} texts embedded"
        )


def main() -> None:
    """Evaluate both settings, print the table and write the result."""
    source = vatex_source()
    clock, rows = Clock(), []
    with (
        tempfile.TemporaryDirectory(prefix="reelsieve-") as temporary,
        temporary_engine(Path(temporary) / "home") as engine,
    ):
        for n_references in REFERENCE_COUNTS:
            folder = Path(temporary) / f"references_{n_references}"
            rows += evaluate(engine, source, folder, n_references, clock)
    print(*table(rows), sep="\n")
    save(RESULTS / "vatex_eval.json", {"steps": clock.steps, "results": rows})


if __name__ == "__main__":
    main()
