"""Rules that score keypoints without a verifier, and what the ECS tables' cells are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from benchmarks import ecs_data
from benchmarks.cosine_verifier import CosineVerifier
from benchmarks.ecs_run import Embeddings, Items, plans_of, scores_of
from metrics_core.agreement import AgreementRow, agreement_rows, label_rows
from metrics_core.arrays import FloatArray
from metrics_core.models.lexical_verifier import LexicalVerifier

WHOLE = "content words in the whole text"
SENTENCE = "content words in the best sentence"
COSINE = "cosine of the best sentence"
LENGTH = "length"
SIMPLE = (WHOLE, SENTENCE, COSINE, LENGTH)


def floors(data: ecs_data.DataSet, encoder: Embeddings) -> dict[str, FloatArray]:
    """Each simple rule's score of every keypoint."""
    every_sentence = plans_of(data.captions)
    return {
        WHOLE: whole_text_floor(data),
        SENTENCE: scores_of(every_sentence, LexicalVerifier()),
        COSINE: scores_of(every_sentence, CosineVerifier(encoder)),
        LENGTH: Items(data.captions).words(),
    }


def whole_text_floor(data: ecs_data.DataSet) -> FloatArray:
    """For each keypoint the share of its content words that stand anywhere in the caption."""
    joined = [replace(each, sentences=(" ".join(each.sentences),)) for each in data.captions]
    return scores_of(plans_of(joined), LexicalVerifier())


def passes_of(data: ecs_data.DataSet, r: int | None) -> int:
    """Pairs that the verifier reads for the judged captions: min(r, m) for a keypoint of a caption of m sentences."""
    sizes = [(len(each.sentences), len(each.keypoints)) for each in data.judged().captions]
    return sum((m if r is None else min(r, m)) * n for m, n in sizes)


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
