"""The rows of Table 1 of the VCS paper: fidelity of the n-gram metrics, and means by variant."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.papers import meteor
from benchmarks.papers.corruption import (
    DATA_SET,
    NGRAM_CODE,
    PACKAGES,
    SIMPLE,
    TOLERANCES,
    VCS_CODE,
    values,
)
from benchmarks.papers.meteor import METEOR
from benchmarks.papers.ngrams import CORRUPTION_METRICS
from benchmarks.papers.recipes import Recipe, text_encoder
from benchmarks.papers.records import Row, Table, number
from benchmarks.papers.stages import Stages
from benchmarks.papers.vcs_published import MEANS, PRINTED
from benchmarks.papers.vcs_separation import SEPARATION, SOURCE, separation, shown_models
from benchmarks.qeva_run import mean_with_interval

GAP = "mean absolute difference"
FIDELITY, VARIANTS = "vcs_1_fidelity", "vcs_1_variants"
COSINE = SIMPLE[-1]
SHOWN = ("BLEU-4", "ROUGE-L", *TOLERANCES, COSINE)
CAUSES = (
    "encoder and splitter differ, and our encoder reads 256 word pieces at once, about half of a description, where "
    "NV-Embed-v2 reads all"
)
CODE = (
    "benchmarks/papers/vcs_corruption_tables.py",
    "benchmarks/papers/vcs_published.py",
    "benchmarks/papers/vcs_separation.py",
    *NGRAM_CODE,
    *meteor.CODE,
    *VCS_CODE,
)
JUDGING = ("benchmarks/papers/separation.py", "metrics_core/agreement", "metrics_core/calibration")


def models() -> dict[str, Any]:
    """The identities of the text encoder and of WordNet."""
    return {"text encoder": text_encoder().identity.as_dict(), **meteor.identity()}


def fidelity(stages: Stages) -> Table:
    """Mean absolute difference of our values of the metrics of words from the published ones."""
    found = values(stages, None)
    rows, worst = [], 0.0
    compared = [name for name in (*CORRUPTION_METRICS, METEOR) if name in found.ours]
    for name in compared:
        gaps = np.abs(found.ours[name] - found.published[name])
        worst = max(worst, float(gaps.mean()))
        by_base = [float(gaps[np.array(found.base) == base].mean()) for base in dict.fromkeys(found.base)]
        limits = mean_with_interval(by_base)
        figures = {
            "mean, all variants": (float(found.published[name].mean()), float(found.ours[name].mean())),
            GAP: (None, float(gaps.mean())),
            "greatest difference": (None, float(gaps.max())),
        }
        rows += [
            Row(FIDELITY, name, column, published, ours, n=gaps.size, source=SOURCE)
            if column != GAP
            else Row(FIDELITY, name, column, None, ours, limits["low"], limits["high"], gaps.size)
            for column, (published, ours) in figures.items()
        ]
    if METEOR not in compared:
        mean, n = float(found.published[METEOR].mean()), len(found.names)
        rows.append(Row(FIDELITY, METEOR, "mean, all variants", mean, n=n, note=meteor.ABSENT, source=SOURCE))
    *families, last = dict.fromkeys(name.split("-")[0] for name in compared)
    said = "within" if worst < 0.01 else "not within"
    summary = [
        f"{', '.join(families)} and {last} are {said} .01 of the authors' values of each variant on average: "
        f"the greatest mean absolute difference is {worst:.5f}. Published values have three decimals, which alone "
        "makes .00025."
    ]
    title = "VCS, Table 1: do our metrics of words give the authors' values?"
    shown = {
        "BLEU": "NLTK, smoothing method 1",
        "ROUGE": "rouge-score, stemmed",
        METEOR: "NLTK, WordNet 3.0 of Debian's package wordnet-base" if METEOR in compared else "none",
    }
    return Table(FIDELITY, title, summary, shown, rows, 4)


def variants(stages: Stages) -> Table:
    """Mean values of each kind of variant, the form of the paper's table."""
    found = values(stages, text_encoder())
    names, rows = np.array(found.names), []
    for kind in dict.fromkeys(found.names):
        kept = names == kind
        marks = f"{kind} ({'valid' if found.valid[kept][0] else 'invalid'})"
        for metric in SHOWN:
            published = float(found.published[metric][kept].mean()) if metric in found.published else None
            ours = mean_with_interval(found.ours[metric][kept].tolist())
            limits = ours["mean"], ours["low"], ours["high"]
            rows.append(Row(VARIANTS, marks, metric, published, *limits, n=int(kept.sum()), source=SOURCE))
        rows += printed(kind, marks)
    gaps = {name: float(np.abs(found.ours[name] - found.published[name]).mean()) for name in TOLERANCES}
    summary = [
        f"Our {name} differs from the published one by {number(gap, 3)} on average: {CAUSES}."
        for name, gap in gaps.items()
    ]
    title = "VCS, Table 1 in form: mean value of each kind of variant"
    remarks = [
        f"{COSINE} is the GAS inside VCS. These are means: they say nothing of how well a metric ranks. Intervals "
        "draw base descriptions. Variants without punctuation have recovered segments."
    ]
    return Table(VARIANTS, title, summary, shown_models(), rows, 3, remarks)


def printed(kind: str, marks: str) -> list[Row]:
    """What the paper's own table prints of a kind of variant, near the means of the published values."""
    return [
        Row(VARIANTS, marks, f"{name} in the paper", mean / 100, source=PRINTED)
        for name, mean in zip(TOLERANCES, MEANS.get(kind, ()), strict=False)
    ]


RECIPES = (
    Recipe(FIDELITY, (DATA_SET,), PACKAGES, CODE, meteor.identity, fidelity),
    Recipe(SEPARATION, (DATA_SET,), PACKAGES, (*CODE, *JUDGING), models, separation),
    Recipe(VARIANTS, (DATA_SET,), PACKAGES, CODE, models, variants),
)
