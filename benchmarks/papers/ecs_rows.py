"""Rules that score keypoints without a verifier, and what the ECS tables' cells are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks import ecs_data
from benchmarks.cosine_verifier import CosineVerifier
from benchmarks.ecs_run import Answers, Embeddings, Items, plans_of, scores_of
from benchmarks.papers.coefficients import correlate
from benchmarks.papers.recipes import text_encoder
from metrics_core.agreement import AgreementRow, build_label_rows
from metrics_core.arrays import FloatArray
from metrics_core.ecs.verifier import make_offline_verifier
from metrics_core.models.lexical_verifier import LexicalVerifier

WHOLE = "content words in the whole text"
SENTENCE = "content words in the best sentence"
COSINE = "cosine of the best sentence"
LENGTH = "length"
SIMPLE = (WHOLE, SENTENCE, COSINE, LENGTH)
PAPER = "ECS paper, Table {}: OmniDCBench, other captions and labels by Gemini (not at hand), so no target of ours"
CODE = (
    "benchmarks/papers/ecs_rows.py",
    "benchmarks/ecs_data.py",
    "benchmarks/ecs_run.py",
    "benchmarks/ecs_agreement.py",
    "benchmarks/cosine_verifier.py",
    "metrics_core/agreement",
    "metrics_core/calibration",
    "metrics_core/ecs",
    "metrics_core/models",
)
REMARKS = (
    "A caption's score is the share of its keypoints that reach their threshold, which is the best for F1 on other "
    "articles or clips; of mean scores: the mean of its keypoints' scores, without thresholds.",
    "Intervals draw articles or clips; those of pairs are Wilson's and too narrow, because pairs of one clip are not "
    "independent.",
)


def models() -> dict[str, Any]:
    """The verifier's and the encoder's identities."""
    return {"verifier": make_offline_verifier().identity.as_dict(), "text encoder": text_encoder().identity.as_dict()}


def shown_models() -> dict[str, str]:
    """Models as the page names them."""
    return {
        "verifier": f"{make_offline_verifier().identity.model_id}, a small stand-in for a large NLI model",
        "text encoder": text_encoder().identity.model_id,
    }


@lru_cache(maxsize=1)
def asked_once() -> tuple[Embeddings, Answers]:
    """The encoder and the verifier, which all tables of a run share, so that each text and pair is judged once."""
    return Embeddings(text_encoder()), Answers(make_offline_verifier())


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
    """The same of a row about labels."""
    row = next(r for r in rows if (r.metric, r.statistic) == (metric, statistic))
    return limits_of(asdict(row), row.value, row.n)


def captions_of(data: ecs_data.DataSet, scores: FloatArray, levels: FloatArray) -> dict[str, dict[str, Any]]:
    """Rank correlations of captions' covered shares and of their mean scores with what people say."""
    judged, kept = data.judged(), ~np.isnan(levels)
    items = Items(judged.captions)
    people, clips = items.means(items.labels), [each.clip for each in judged.captions]
    of_share, of_mean = (
        correlate(items.means(values), people, clips) for values in (scores[kept] >= levels[kept], scores[kept])
    )
    return {
        "Spearman": of_share["spearman"],
        "Kendall": of_share["kendall_b"],
        "Spearman of mean scores": of_mean["spearman"],
    }


def keypoints_of(data: ecs_data.DataSet, scores: FloatArray, levels: FloatArray) -> dict[str, dict[str, Any]]:
    """Accuracy and F1 of keypoints, with intervals over clips."""
    kept = ~np.isnan(levels)
    items = Items(data.judged().captions)
    rows = build_label_rows({"rule": scores[kept] >= levels[kept]}, items.labels, items.clips.tolist())
    return {
        f"keypoint {label}": cell_of(rows, "rule", name) for label, name in (("accuracy", "accuracy"), ("F1", "f1"))
    }
