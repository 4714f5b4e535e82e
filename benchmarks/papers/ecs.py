"""Tables 1 and 2 of the ECS paper in form: captions and keypoints against labels, on REALSumm and on the real clips."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

from benchmarks import ecs_agreement, ecs_data
from benchmarks.ecs_run import Answers, Embeddings, levels_of, plans_of, scores_of
from benchmarks.papers.ecs_rows import (
    COSINE,
    LENGTH,
    SIMPLE,
    captions_of,
    floors,
    keypoints_of,
    limits_of,
    passes_of,
)
from benchmarks.papers.recipes import Recipe, text_encoder
from benchmarks.papers.records import Row, Table, against, strongest
from benchmarks.papers.stages import Stages
from metrics_core.arrays import FloatArray
from metrics_core.ecs import DEFAULT_R
from verifier import offline_verifier

BERTSCORE = "BERTScore"
ECS = "ECS"
COLUMNS = ("Spearman", "Kendall", "Spearman of mean scores", "pairs .10 apart", "keypoint accuracy", "keypoint F1")
SYSTEMS = "systems, Kendall"
PAPER = "ECS paper, Table {}: OmniDCBench, other captions and labels by Gemini (not at hand), so no target of ours"
PUBLISHED: Mapping[str, Mapping[str, float]] = {
    LENGTH: {"Spearman": 0.133, "Kendall": 0.092, "pairs .10 apart": 0.559, SYSTEMS: -1.0},
    BERTSCORE: {"Spearman": -0.052, "Kendall": -0.042, "pairs .10 apart": 0.009},
    COSINE: {"Spearman": 0.409, "Kendall": 0.285, "pairs .10 apart": 0.685, SYSTEMS: -1.0},
    ECS: {
        "Spearman": 0.330,
        "Kendall": 0.227,
        "pairs .10 apart": 0.676,
        "keypoint accuracy": 0.717,
        "keypoint F1": 0.511,
        SYSTEMS: 1.0,
    },
}
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
CODE = (
    "benchmarks/papers/ecs.py",
    "benchmarks/papers/ecs_rows.py",
    "benchmarks/ecs_data.py",
    "benchmarks/ecs_run.py",
    "benchmarks/ecs_agreement.py",
    "benchmarks/cosine_verifier.py",
    "metrics_core/agreement",
    "metrics_core/calibration",
    "metrics_core/ecs",
    "metrics_core/models",
    "verifier",
)


def models() -> dict[str, Any]:
    """The verifier's and the encoder's identities."""
    return {"verifier": offline_verifier().identity.as_dict(), "text encoder": text_encoder().identity.as_dict()}


def shown_models() -> dict[str, str]:
    """Models as the page names them."""
    return {
        "verifier": f"{offline_verifier().identity.model_id}, a small stand-in for a large NLI model",
        "text encoder": text_encoder().identity.model_id,
    }


@lru_cache(maxsize=1)
def asked_once() -> tuple[Embeddings, Answers]:
    """The encoder and the verifier, which all tables of a run share, so that each text and pair is judged once."""
    return Embeddings(text_encoder()), Answers(offline_verifier())


def first(load: str, name: str, stages: Stages) -> Table:
    """Table 1 on one data set."""
    data: ecs_data.DataSet = getattr(ecs_data, load)()
    encoder, answers = asked_once()
    scores = {ECS: scores_of(plans_of(data.captions, encoder, DEFAULT_R), answers), **floors(data, encoder)}
    rows = [row for rule, each in scores.items() for row in first_rows(name, rule, data, each)]
    rows += [
        Row(name, BERTSCORE, column, value, source=PAPER.format(1)) for column, value in PUBLISHED[BERTSCORE].items()
    ]
    of = {column: {row.row: row.ours for row in rows if row.column == column} for column in COLUMNS}
    best = strongest({rule: of["Spearman"][rule] for rule in SIMPLE})
    summary = [
        against(f"{column[0].upper()}{column[1:]} of ECS", of[column][ECS], top, of[column][top])
        for column in ("Spearman", "Spearman of mean scores", "keypoint accuracy")
        for top in [strongest({rule: of[column][rule] for rule in SIMPLE})]
    ]
    return Table(
        name, f"ECS, Table 1 in form: {data.name}, {data.note}", summary, shown_models(), rows, 3, REMARKS, best
    )


REMARKS = (
    "A caption's score is the share of its keypoints that reach their threshold, which is the best for F1 on other "
    "articles or clips; of mean scores: the mean of its keypoints' scores, without thresholds.",
    "Intervals draw articles or clips; those of pairs are Wilson's and too narrow, because pairs of one clip are not "
    "independent.",
)


def first_rows(name: str, rule: str, data: ecs_data.DataSet, scores: FloatArray) -> Iterator[Row]:
    """The row of one rule."""
    levels = levels_of(data, scores)
    found = ecs_agreement.agreement(data, scores, levels)
    cells = {
        **captions_of(data, scores, levels),
        "pairs .10 apart": limits_of(found["pairwise"], found["pairwise"]["share"], found["pairwise"]["n_eligible"]),
        **keypoints_of(data, scores, levels),
        SYSTEMS: limits_of(found["systems"], found["systems"]["kendall"], found["systems"]["n_systems"]),
    }
    figures = PUBLISHED.get(rule, {})
    source = PAPER.format(1) if figures else ""
    for column, cell in cells.items():
        yield Row(name, rule, column, figures.get(column), **cell, source=source)


def second(load: str, name: str, stages: Stages) -> Table:
    """Table 2 on one data set: what thresholds and retrieval change, beside the strongest rule without a model."""
    data: ecs_data.DataSet = getattr(ecs_data, load)()
    encoder, answers = asked_once()
    rows, passes = [], {}
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
    Recipe(name, (load,), (), CODE, models, partial(make, load, name))
    for make, number in ((first, 1), (second, 2))
    for load in ("realsumm", "clips")
    for name in (f"ecs_{number}_{load}",)
)
