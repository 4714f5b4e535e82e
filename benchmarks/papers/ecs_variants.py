"""Table 2 of the ECS paper in form: what thresholds and retrieval change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from benchmarks import ecs_agreement, ecs_data
from benchmarks.ecs_run import levels_of, plans_of, scores_of
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
from benchmarks.papers.recipes import Recipe
from benchmarks.papers.records import Row, Table, against, strongest
from benchmarks.papers.stages import Stages
from metrics_core.arrays import FloatArray
from metrics_core.ecs import DEFAULT_R

PASSES = "passes"
VARIANTS: Mapping[str, tuple[int | None, bool, dict[str, float]]] = {
    "one threshold": (
        DEFAULT_R,
        False,
        {"Spearman": 0.452, "keypoint F1": 0.422, "pairs .10 apart": 0.629, PASSES: 357_000},
    ),
    "a threshold per dimension": (
        DEFAULT_R,
        True,
        {"Spearman": 0.330, "keypoint F1": 0.511, "pairs .10 apart": 0.676, PASSES: 357_000},
    ),
    "no retrieval": (
        None,
        True,
        {"Spearman": 0.290, "keypoint F1": 0.547, "pairs .10 apart": 0.601, PASSES: 2_360_000},
    ),
}


def second(load: str, name: str, stages: Stages) -> Table:
    """Table 2 on one dataset: what thresholds and retrieval change, beside the strongest rule without a model."""
    data: ecs_data.DataSet = getattr(ecs_data, load)()
    encoder, answers = asked_once()
    rows: list[Row] = []
    passes: dict[str, int] = {}
    for label, (r, per_dimension, figures) in VARIANTS.items():
        scores = scores_of(plans_of(data.captions, None if r is None else encoder, r), answers)
        passes[label] = passes_of(data, r)
        rows += second_rows(name, label, data, scores, per_dimension, figures, passes[label])
    simple = floors(data, encoder)
    of_rules = {
        rule: captions_of(data, each, levels_of(data, each))["Spearman"]["ours"] for rule, each in simple.items()
    }
    best = strongest(of_rules)
    rows += second_rows(name, best, data, simple[best], True, {}, None)
    of = {row.row: row.ours for row in rows if row.column == "Spearman"}
    sizes = [len(each.sentences) for each in data.judged().captions]
    saved = 1 - passes["a threshold per dimension"] / passes["no retrieval"]
    summary = [
        *(against(f"Spearman with {label}", of[label], best, of[best]) for label in VARIANTS),
        f"Captions have {min(sizes)} to {max(sizes)} sentences: verifying the {DEFAULT_R} nearest saves {saved:.0%} of "
        "the passes. The paper's captions have some 50.",
    ]
    remarks = ["Time is not compared: `python -m benchmarks.ecs_ablation` measures it.", *REMARKS]
    return Table(name, f"ECS, Table 2 in form: {data.name}", summary, shown_models(), rows, 3, remarks, best)


def second_rows(
    name: str,
    label: str,
    data: ecs_data.DataSet,
    scores: FloatArray,
    per_dimension: bool,
    figures: Mapping[str, float],
    passes: int | None,
) -> Iterator[Row]:
    """The row of one variant."""
    levels = levels_of(data, scores, per_dimension=per_dimension)
    found = ecs_agreement.agreement(data, scores, levels)["pairwise"]
    cells = {
        "Spearman": captions_of(data, scores, levels)["Spearman"],
        "keypoint F1": keypoints_of(data, scores, levels)["keypoint F1"],
        "pairs .10 apart": limits_of(found, found["share"], found["n_eligible"]),
        PASSES: {"ours": passes},
    }
    for column, cell in cells.items():
        yield Row(name, label, column, figures.get(column), **cell, source=PAPER.format(2) if figures else "")


RECIPES = tuple(
    Recipe(name, (load,), (), (*CODE, "benchmarks/papers/ecs_variants.py"), models, partial(second, load, name))
    for load in ("realsumm", "clips")
    for name in (f"ecs_2_{load}",)
)
