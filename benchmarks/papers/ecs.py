"""Tables 1 and 2 of the ECS paper in form: captions and keypoints against labels, on REALSumm and on the real clips."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks import ecs_ablation, ecs_agreement, ecs_data
from benchmarks.ecs_run import Answers, Embeddings, Items, levels_of, plans_of, scores_of
from benchmarks.ecs_tables import EXHAUSTIVE, GLOBAL, NEAREST
from benchmarks.papers.recipes import Recipe, text_encoder
from benchmarks.papers.records import Row, Table, against, strongest
from benchmarks.papers.stages import Stages
from metrics_core.agreement import AgreementRow, agreement_rows, label_rows
from metrics_core.arrays import FloatArray
from metrics_core.models.lexical_verifier import LexicalVerifier
from verifier import offline_verifier

WHOLE = "content words in the whole text"
SENTENCE = "content words in the best sentence"
COSINE = "cosine of the best sentence"
LENGTH = "length"
BERTSCORE = "BERTScore"
ECS = "ECS"
SIMPLE = (WHOLE, SENTENCE, COSINE, LENGTH)
NAMES = {"length-only": LENGTH, "lexical": SENTENCE, "embedding-only": COSINE, ecs_agreement.ECS: ECS}
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
VARIANTS = {
    GLOBAL: ("one threshold", {"Spearman": 0.452, "keypoint F1": 0.422, "pairs .10 apart": 0.629, "passes": 357_000}),
    NEAREST: ("a threshold per dimension", PUBLISHED[ECS] | {"passes": 357_000}),
    EXHAUSTIVE: (
        "no retrieval",
        {"Spearman": 0.290, "keypoint F1": 0.547, "pairs .10 apart": 0.601, "passes": 2_360_000},
    ),
}
CODE = (
    "benchmarks/papers/ecs.py",
    "benchmarks/ecs_data.py",
    "benchmarks/ecs_run.py",
    "benchmarks/ecs_agreement.py",
    "benchmarks/ecs_ablation.py",
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


def whole_text_floor(data: ecs_data.DataSet) -> FloatArray:
    """For each keypoint the share of its content words that stand anywhere in the caption."""
    joined = [replace(each, sentences=(" ".join(each.sentences),)) for each in data.captions]
    return scores_of(plans_of(joined), LexicalVerifier())


def first(load: str, name: str, stages: Stages) -> Table:
    """Table 1 on one data set."""
    data: ecs_data.DataSet = getattr(ecs_data, load)()
    found = ecs_agreement.scores_by_rule(data, Embeddings(text_encoder()), Answers(offline_verifier()))
    scores = {WHOLE: whole_text_floor(data)} | {NAMES.get(rule, rule): each for rule, each in found.items()}
    order = [ECS, *SIMPLE]
    rows = [row for rule in order for row in first_rows(name, rule, data, scores[rule])]
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


def limits_of(found: Mapping[str, Any], value: float | None, n: int) -> dict[str, Any]:
    """A value, its interval and its number of items, as fields of a row."""
    return {"ours": value, "low": found["low"], "high": found["high"], "n": n}


def cell_of(rows: Sequence[AgreementRow], metric: str, statistic: str) -> dict[str, Any]:
    """The same of a row of an agreement table over all items."""
    row = next(r for r in rows if (r.metric, r.grouping, r.statistic) == (metric, "pooled", statistic))
    return limits_of(asdict(row), row.value, row.n)


def captions_of(data: ecs_data.DataSet, scores: FloatArray, levels: FloatArray) -> dict[str, dict[str, Any]]:
    """Rank correlations of captions' covered shares and of their mean scores with what people say."""
    judged, kept = data.judged(), ~np.isnan(levels)
    items = Items(judged.captions)
    values = {"share": items.means(scores[kept] >= levels[kept]), "mean": items.means(scores[kept])}
    people, clips = {"covered": items.means(items.labels)[:, None]}, [each.clip for each in judged.captions]
    rows = agreement_rows(values, people, clips)
    return {
        "Spearman": cell_of(rows, "share", "spearman"),
        "Kendall": cell_of(rows, "share", "kendall_b"),
        "Spearman of mean scores": cell_of(rows, "mean", "spearman"),
    }


def keypoints_of(data: ecs_data.DataSet, scores: FloatArray, levels: FloatArray) -> dict[str, dict[str, Any]]:
    """Accuracy and F1 of keypoints, with intervals over clips."""
    kept = ~np.isnan(levels)
    items = Items(data.judged().captions)
    rows = label_rows({"rule": scores[kept] >= levels[kept]}, items.labels, items.clips.tolist())
    return {
        f"keypoint {label}": cell_of(rows, "rule", name) for label, name in (("accuracy", "accuracy"), ("F1", "f1"))
    }


def second(load: str, name: str, stages: Stages) -> Table:
    """Table 2 on one data set: what thresholds and retrieval change."""
    data: ecs_data.DataSet = getattr(ecs_data, load)()
    found = ecs_ablation.quality(data, Embeddings(text_encoder()), Answers(offline_verifier())).rows
    columns = {"Spearman": "spearman", "keypoint F1": "keypoint_f1", "pairs .10 apart": "pairwise", "passes": "passes"}
    n, points = len(data.judged().captions), sum(len(each.keypoints) for each in data.judged().captions)
    rows = [
        Row(name, label, column, figures.get(column), found[variant][key], n=points, source=PAPER.format(2))
        for variant, (label, figures) in VARIANTS.items()
        for column, key in columns.items()
    ]
    sizes = [len(each.sentences) for each in data.judged().captions]
    summary = [
        f"{n:,} captions of {min(sizes)} to {max(sizes)} sentences: with 8 sentences verified per keypoint, retrieval "
        f"saves {1 - found[NEAREST]['passes'] / found[EXHAUSTIVE]['passes']:.0%} of the passes here; the paper's "
        "captions have some 50 sentences."
    ]
    remarks = [
        "Time is not compared: `python -m benchmarks.ecs_ablation` measures it. No intervals: one run, three settings."
    ]
    return Table(name, f"ECS, Table 2 in form: {data.name}", summary, shown_models(), rows, 3, remarks)


RECIPES = tuple(
    Recipe(name, (load,), (), CODE, models, partial(make, load, name))
    for make, number in ((first, 1), (second, 2))
    for load in ("realsumm", "clips")
    for name in (f"ecs_{number}_{load}",)
)
