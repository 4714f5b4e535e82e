"""Table 2 of the ECS paper in form: what thresholds and retrieval change."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks import ecs_agreement, ecs_data
from benchmarks.ecs_run import Answers, Embeddings, levels_of, plans_of, scores_of
from benchmarks.papers.ecs_rows import (
    CODE,
    PAPER,
    REMARKS,
    asked_once,
    captions_of,
    floors,
    keypoints_of,
    limits_of,
    models,
    passes_of,
    shown_models,
)
from benchmarks.papers.recipes import Recipe, text_encoder
from benchmarks.papers.records import Comparison, Row, Table, strongest
from benchmarks.papers.stages import Stages
from metrics_core.arrays import FloatArray
from metrics_core.ecs import DEFAULT_R
from metrics_core.ecs.verifier import make_offline_verifier

PASSES, SECONDS = "passes", "CPU seconds"
DENSE = "dense_captions"
VARIANTS: Mapping[str, tuple[int | None, bool, dict[str, float]]] = {
    "one threshold": (
        DEFAULT_R,
        False,
        {"Spearman": 0.452, "keypoint F1": 0.422, "pairs .10 apart": 0.629, PASSES: 357_000},
    ),
    "a threshold per dimension": (
        DEFAULT_R,
        True,
        {"Spearman": 0.330, "keypoint F1": 0.511, "pairs .10 apart": 0.676, PASSES: 357_000, SECONDS: 1861},
    ),
    "no retrieval": (
        None,
        True,
        {"Spearman": 0.290, "keypoint F1": 0.547, "pairs .10 apart": 0.601, PASSES: 2_360_000, SECONDS: 8874},
    ),
}


def second(load: str, name: str, stages: Stages) -> Table:
    """Table 2 on one dataset: what thresholds and retrieval change, beside the strongest rule without a model."""
    data: ecs_data.DataSet = getattr(ecs_data, load)()
    encoder, answers = asked_once()
    rows: list[Row] = []
    judged = {r: judge(data, r, *((encoder, answers) if load != DENSE else fresh())) for r in (DEFAULT_R, None)}
    for label, (r, per_dimension, figures) in VARIANTS.items():
        costs = {PASSES: passes_of(data, r), **({SECONDS: judged[r].seconds} if load == DENSE else {})}
        rows += second_rows(name, label, data, judged[r].scores, per_dimension, figures, costs)
    simple = floors(data, encoder)
    of_rules = {
        rule: captions_of(data, each, levels_of(data, each))["Spearman"]["ours"] for rule, each in simple.items()
    }
    best = strongest(of_rules)
    rows += second_rows(name, best, data, simple[best], True, {}, {})
    of = {row.row: row.ours for row in rows if row.column == "Spearman"}
    summary = [cost_sentence(data, judged, timed=load == DENSE)]
    comparisons = [Comparison(f"Spearman with {label}", of[label], best, of[best]) for label in VARIANTS]
    time_of = "Seconds: of the processor, on one thread, each pair judged once, embedding in the time of retrieval."
    remarks = [time_of if load == DENSE else "Time is compared on captions of 50 sentences.", *REMARKS]
    return Table(
        name, f"ECS, Table 2 in form: {data.name}", summary, shown_models(), rows, 3, remarks, best, comparisons
    )


@dataclass(frozen=True)
class Judgement:
    """Each keypoint's score with the nearest sentences or all of them, and the CPU seconds that it took."""

    scores: FloatArray
    seconds: float


def fresh() -> tuple[Embeddings, Answers]:
    """A loaded encoder and verifier that have judged nothing yet."""
    encoder, verifier = text_encoder(), make_offline_verifier()
    encoder.encode(["A dog."])
    verifier.entailment([("A dog.", "A dog.")])
    return Embeddings(encoder), Answers(verifier)


def judge(data: ecs_data.DataSet, r: int | None, encoder: Embeddings, answers: Answers) -> Judgement:
    """Scores by the r nearest sentences, or by all."""
    started = time.process_time()
    scores = scores_of(plans_of(data.captions, None if r is None else encoder, r), answers)
    return Judgement(scores, time.process_time() - started)


def cost_sentence(data: ecs_data.DataSet, judged: Mapping[int | None, Judgement], *, timed: bool) -> str:
    """What retrieval saves, and the share of keypoints that both depths decide alike, each by its own thresholds."""
    sizes = [len(each.sentences) for each in data.judged().captions]
    fewer = passes_of(data, None) / passes_of(data, DEFAULT_R)
    ratio = judged[None].seconds / judged[DEFAULT_R].seconds
    faster = f" (paper: 6.6), is {ratio:.1f} times as fast (paper: 4.8)" if timed else ""
    levels = {r: levels_of(data, own.scores) for r, own in judged.items()}
    kept = ~np.isnan(levels[None])
    one, other = (judged[r].scores[kept] >= levels[r][kept] for r in judged)
    return (
        f"Captions have {min(sizes)} to {max(sizes)} sentences, the paper's some 50: verifying the {DEFAULT_R} nearest "
        f"needs {fewer:.1f} times fewer passes{faster}, and decides {(one == other).mean():.1%} of the keypoints as "
        "verifying all does."
    )


def second_rows(
    name: str,
    label: str,
    data: ecs_data.DataSet,
    scores: FloatArray,
    per_dimension: bool,
    figures: Mapping[str, float],
    costs: Mapping[str, float],
) -> Iterator[Row]:
    """The row of one variant."""
    levels = levels_of(data, scores, per_dimension=per_dimension)
    found = ecs_agreement.agreement(data, scores, levels)["pairwise"]
    cells = {
        "Spearman": captions_of(data, scores, levels)["Spearman"],
        "keypoint F1": keypoints_of(data, scores, levels)["keypoint F1"],
        "pairs .10 apart": limits_of(found, found["share"], found["n_eligible"]),
        **{column: {"ours": cost} for column, cost in costs.items()},
    }
    for column, cell in cells.items():
        yield Row(name, label, column, figures.get(column), **cell, source=PAPER.format(2) if figures else "")


RECIPES = tuple(
    Recipe(name, (folder,), (), (*CODE, "benchmarks/papers/ecs_variants.py"), models, partial(second, load, name))
    for load, folder in (("realsumm", "realsumm"), ("clips", "clips"), (DENSE, "dream1k"))
    for name in (f"ecs_2_{load}",)
)
