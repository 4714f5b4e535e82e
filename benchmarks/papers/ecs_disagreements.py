"""What ECS and people disagree about on REALSumm: sampled keypoints, looked at by rule for partial coverage.

The paper's authors read 150 disagreements themselves and call 77.3 % partial coverage. Here a rule looks: a keypoint is
partly covered where some of its content words stand in the summary, and some do not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from benchmarks import ecs_data
from benchmarks.ecs_run import Items, levels_of, plans_of, scores_of
from benchmarks.papers.ecs_rows import CODE, asked_once, models, shown_models, whole_text_floor
from benchmarks.papers.recipes import Recipe
from benchmarks.papers.records import Comparison, Row, Table
from benchmarks.papers.stages import Stages
from metrics_core.arithmetic import wilson_interval
from metrics_core.arrays import BoolArray, FloatArray, IntArray
from metrics_core.ecs import DEFAULT_R

NAME, SAMPLED = "ecs_disagreements", 100
PARTIAL, COMPLETE, NONE = "some content words there", "all there", "none there"
ALL, AGREED = "disagreements", "keypoints on which both agree"
PAPER = "ECS paper, section on errors: 150 disagreements with Gemini on OmniDCBench, read by the authors"


def disagreements(stages: Stages) -> Table:
    """Shares of keypoints by how many of their content words stand in the summary, with the same of agreements."""
    data = ecs_data.realsumm()
    encoder, answers = asked_once()
    scores = scores_of(plans_of(data.captions, encoder, DEFAULT_R), answers)
    levels = levels_of(data, scores)
    kept = ~np.isnan(levels)
    covered, present = scores[kept] >= levels[kept], Items(data.captions).labels[kept]
    names = [f"{each.clip} {each.system} {text}" for each in data.captions for text in each.keypoints]
    order = hash_order([name for name, judged in zip(names, kept, strict=True) if judged])
    recall = whole_text_floor(data)[kept]
    sample = first_of(order, covered != present)
    parts = {
        ALL: sample,
        "of these: ECS says covered, people do not": sample[covered[sample]],
        "of these: people say covered, ECS does not": sample[present[sample]],
        AGREED: first_of(order, covered == present),
    }
    rows = [row for label, places in parts.items() for row in rows_of(label, recall[places])]
    of = {row.row: row.ours for row in rows if row.column == PARTIAL}
    summary = [f"ECS and people disagree about {int((covered != present).sum()):,} of {covered.size:,} keypoints."]
    remarks = [
        f"{SAMPLED} keypoints of both kinds, the first by the hash of their texts. Intervals are Wilson's. The rule "
        "counts words, so it cannot see the other causes that the paper names: world knowledge, discourse, style.",
    ]
    comparisons = [Comparison("partial coverage among disagreements", of[ALL], f"among {AGREED}", of[AGREED])]
    title = "ECS, errors in form: are disagreements partial coverage?"
    return Table(NAME, title, summary, shown_models(), rows, 3, remarks, AGREED, comparisons)


def hash_order(names: list[str]) -> IntArray:
    """Places in the order of the hashes of their names."""
    return np.array(sorted(range(len(names)), key=lambda i: hashlib.sha256(names[i].encode()).digest()), dtype=np.int64)


def first_of(order: IntArray, chosen: BoolArray) -> IntArray:
    """The first places of an order that are chosen, at most SAMPLED."""
    return order[chosen[order]][:SAMPLED]


def rows_of(label: str, recall: FloatArray) -> Iterator[Row]:
    """The shares of keypoints with some, all and none of their content words in the summary."""
    complete, none = recall == 1, recall == 0
    for column, those in ((PARTIAL, ~complete & ~none), (COMPLETE, complete), (NONE, none)):
        low, high = wilson_interval(int(those.sum()), those.size)
        share = float(those.mean()) if those.size else None
        published = 0.773 if (label, column) == (ALL, PARTIAL) else None
        source = PAPER if published else ""
        yield Row(NAME, label, column, published, share, low, high, those.size, source=source)


RECIPES = (Recipe(NAME, ("realsumm",), (), (*CODE, "benchmarks/papers/ecs_disagreements.py"), models, disagreements),)
