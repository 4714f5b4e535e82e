"""Tables 1 to 4 of the QEVA paper in form, on two annotators of ActivityNet Captions.

No person rated these summaries and no chat model is asked: rules write the questions, an entailment model answers them.
Instead of ratings stands what was done to a summary: as it was written, in another order, with a quarter of its
sentences from other videos, without half of its sentences, or with one of another video put in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.papers import meteor
from benchmarks.papers.coefficients import correlate
from benchmarks.papers.meteor import METEOR
from benchmarks.papers.qeva_published import MODELS_2, PAPER, TABLE_1, TABLE_2, TABLE_3, TABLE_4
from benchmarks.papers.qeva_scores import (
    CHAT,
    DATA_SET,
    HALVED,
    LEXICAL,
    OFFLINE,
    QEVA,
    SIMPLE,
    VALUE_CODE,
    WRONG,
    Values,
    answerers,
    values,
)
from benchmarks.papers.recipes import Recipe, text_encoder
from benchmarks.papers.records import Comparison, Row, Table, strongest
from benchmarks.papers.stages import Stages
from metrics_core.ecs.verifier import make_offline_verifier
from metrics_core.qeva.records import DIMENSIONS

STATISTICS = {"kendall_b": "tau-b", "kendall_c": "tau-c", "spearman": "Spearman"}
SPOILT = {kind: f"written against {kind}" for kind in ("shuffled", "exchanged", HALVED, WRONG)}
ALL = "written against all four"
NO_CHAT = (
    "not measured: no package brings a chat model that answers. With one served: REELSIEVE_QEVA_TEXT_MODEL=NAME "
    "REELSIEVE_QEVA_TEXT_URL=ADDRESS make papers TABLES='qeva_2 qeva_4'"
)
MEANT = {"coverage": HALVED, "factuality": "exchanged", "chronology": "shuffled"}
REMARKS = (
    "200 videos of ActivityNet Captions. The first annotator's timed sentences stand in for the video and are the "
    "reference of the n-gram rows; the second's are the summary. In place of people's ratings: 1 for the summary as "
    "written, 0 for a spoilt one. Correlations over all summaries; intervals draw videos.",
    "shuffled: its sentences in another order. exchanged: a quarter of them, at least one, from other videos. halved: "
    "half of them left out. wrong sentence: one of another video put in. A metric that knows no order cannot tell a "
    "shuffled summary, and length tells a halved one by itself.",
)


def models() -> dict[str, Any]:
    """The identities of the answerers and of WordNet."""
    return {name: bench.answerer().identity.as_dict() for name, bench in answerers().items()} | meteor.identity()


def shown_models() -> dict[str, str]:
    """Models as the page names them."""
    return {
        "questions": "rules, no chat model",
        "answers": f"{make_offline_verifier().identity.model_id} by entailment, a small stand-in",
        "text encoder": text_encoder().identity.model_id,
    }


def correlations(
    found: Values, scores: Mapping[str, Any], spoilt: Sequence[str]
) -> dict[tuple[str, str], dict[str, Any]]:
    """Fields of a row by metric and statistic: each metric against written (1) or spoilt (0)."""
    kept = np.isin(found.systems, ["written", *spoilt])
    written = np.array([float(system == "written") for system in found.systems])
    videos = [v for v, k in zip(found.videos, kept, strict=True) if k]
    return {
        (name, statistic): cell
        for name, side in scores.items()
        for statistic, cell in correlate(np.asarray(side, dtype=np.float64)[kept], written[kept], videos).items()
    }


def first(name: str, stages: Stages) -> Table:
    """Every metric against what was done to the summaries."""
    found = values(stages)
    cells = correlations(found, found.scores[OFFLINE] | found.simple, list(SPOILT))
    rows = []
    for metric in dict.fromkeys([QEVA, *found.simple, *TABLE_1]):
        figures = TABLE_1.get(metric, (None,) * 3)
        note = meteor.ABSENT if metric == METEOR and metric not in found.simple else ""
        for published, (statistic, column) in zip(figures, STATISTICS.items(), strict=True):
            source = PAPER.format(1) if metric in TABLE_1 else ""
            cell = cells.get((metric, statistic), {})
            rows.append(Row(name, metric, column, published, **cell, note=note, source=source))
    comparison = compared(rows, "tau-b", ALL)
    title = "QEVA, Table 1 in form: does a metric rank summaries as written above spoilt ones?"
    return Table(name, title, [], shown_models(), rows, 3, REMARKS, comparison.baseline, [comparison])


def compared(rows: Sequence[Row], column: str, what: str) -> Comparison:
    """QEVA against the strongest simple rule of a column."""
    ours = {row.row: row.ours for row in rows if row.column == column}
    best = strongest({rule: ours.get(rule) for rule in SIMPLE})
    return Comparison(f"tau-b of QEVA, {what}", ours[QEVA], best, ours[best])


def second(name: str, stages: Stages) -> Table:
    """The same by kind of spoiling, where the paper has the summaries of one model each."""
    found = values(stages)
    cells = {kind: correlations(found, found.scores[OFFLINE] | found.simple, [kind]) for kind in SPOILT}
    rows = []
    for metric in dict.fromkeys([QEVA, *found.simple]):
        rows += [
            Row(name, metric, column, **cells[kind].get((metric, "kendall_b"), {})) for kind, column in SPOILT.items()
        ]
        figures = TABLE_2.get(metric, ())
        rows += [
            Row(name, metric, model, figure, source=PAPER.format(2))
            for model, figure in zip(MODELS_2, figures, strict=False)
        ]
    comparisons = [compared(rows, column, column) for column in SPOILT.values()]
    rows += others(name, found)
    title = "QEVA, Table 2 in form: tau-b by what was done to the summary"
    remarks = ("The last four columns are the paper's: the summaries of four models.", *REMARKS)
    best = compared(rows, SPOILT["exchanged"], "").baseline
    return Table(name, title, [], shown_models(), rows, 3, remarks, best, comparisons)


def others(name: str, found: Values) -> Iterator[Row]:
    """QEVA of Table 2 by the other answerers, with a note about the chat model where none is served."""
    for answerer, scores in found.scores.items():
        for kind, column in SPOILT.items() if answerer != OFFLINE else ():
            cell = correlations(found, {QEVA: scores[QEVA]}, [kind])[QEVA, "kendall_b"]
            yield Row(name, f"QEVA, answered by {answerer}", column, **cell)
    if CHAT not in found.scores:
        yield Row(name, f"QEVA, answered by {CHAT}", SPOILT["shuffled"], note=NO_CHAT)


def third(name: str, stages: Stages) -> Table:
    """Each dimension against the spoiling that it should notice, with the strongest simple rule on the same texts."""
    found = values(stages)
    rows: list[Row] = []
    comparisons = []
    for dimension in DIMENSIONS:
        kind = MEANT[dimension]
        scores = {dimension: found.scores[OFFLINE][dimension], **found.simple}
        cells = correlations(found, scores, [kind])
        best = strongest({rule: cells.get((rule, "kendall_b"), {}).get("ours") for rule in SIMPLE})
        for metric, label, figures in (
            (dimension, dimension, TABLE_3[dimension]),
            (best, f"strongest simple baseline, {SPOILT[kind]}: {best}", (None,) * 3),
        ):
            for published, (statistic, column) in zip(figures, STATISTICS.items(), strict=True):
                source = PAPER.format(3) if metric == dimension else ""
                rows.append(Row(name, label, column, published, **cells[metric, statistic], source=source))
        ours = [cells[metric, "kendall_b"]["ours"] for metric in (dimension, best)]
        comparisons.append(Comparison(f"tau-b of {dimension}, {SPOILT[kind]}", ours[0], best, ours[1]))
    rows = list({(row.row, row.column): row for row in rows}.values())
    title = "QEVA, Table 3 in form: each dimension against the spoiling that it should notice"
    return Table(name, title, [], shown_models(), rows, 3, REMARKS, None, comparisons)


def fourth(name: str, stages: Stages) -> Table:
    """Other models behind the same questions, beside the strongest simple rule."""
    found = values(stages)
    simple = correlations(found, found.simple, list(SPOILT))
    best = strongest({rule: simple.get((rule, "kendall_b"), {}).get("ours") for rule in SIMPLE})
    rows, comparisons = [], []
    for model, scores in found.scores.items():
        cells = correlations(found, {QEVA: scores[QEVA]}, list(SPOILT))
        rows += [
            Row(name, f"rules + {model}", column, **cells[QEVA, statistic]) for statistic, column in STATISTICS.items()
        ]
        ours = cells[QEVA, "kendall_b"]["ours"]
        comparisons.append(Comparison(f"tau-b of QEVA by {model}", ours, best, simple[best, "kendall_b"]["ours"]))
    if CHAT not in found.scores:
        rows.append(Row(name, f"rules + {CHAT}", "tau-b", note=NO_CHAT))
    rows += [Row(name, best, column, **simple[best, statistic]) for statistic, column in STATISTICS.items()]
    for model, figures in TABLE_4.items():
        rows += [
            Row(name, model, column, published, source=PAPER.format(4))
            for published, column in zip(figures, STATISTICS.values(), strict=True)
        ]
    remarks = (f"{LEXICAL}: a statement holds where half of its content words stand in a sentence.", *REMARKS)
    title = "QEVA, Table 4 in form: other models behind the same questions"
    return Table(name, title, [], shown_models(), rows, 3, remarks, best, comparisons)


CODE = ("benchmarks/papers/qeva.py", "benchmarks/papers/qeva_published.py", *VALUE_CODE, "metrics_core/agreement")
RECIPES = tuple(
    Recipe(name, (DATA_SET,), ("nltk", "rouge-score"), CODE, models, partial(make, name))
    for number, make in enumerate((first, second, third, fourth), 1)
    for name in (f"qeva_{number}",)
)
