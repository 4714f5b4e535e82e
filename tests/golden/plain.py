"""Plain implementations of whole metrics, made of the oracles beside the tests. Nothing here uses metrics_core."""

from __future__ import annotations

import math
from typing import Any

from tests.metrics_core import vcs_oracle
from tests.metrics_core.evqa_oracle import by_loops, cosine
from tests.metrics_core.sodam_oracle import best_matching, f1_by_hand, fraction_iou, merged_by_loops

Case = dict[str, Any]


def vcs(case: Case) -> Case:
    """Every number of one pair, under the names of VCSResult."""
    return vcs_oracle.vcs(case["similarity"], case["gas"], **case["parameters"])


def vcs_short(case: Case) -> Case:
    """The best reference of a caption and its numbers, from the words that the case lists for every text."""
    vectors, words = case["vectors"], case["words"]
    if not words[case["generated"]]:
        return {"status": "empty_text", "reference": None, "result": None}
    numbers = {}
    for i, reference in enumerate(case["references"]):
        if words[reference]:
            similarity = [[cosine(vectors[r], vectors[g]) for g in words[case["generated"]]] for r in words[reference]]
            gas = cosine(vectors[reference], vectors[case["generated"]])
            numbers[i] = vcs_oracle.vcs(similarity, gas, **case["parameters"])
    if not numbers:
        return {"status": "no_reference", "reference": None, "result": None}
    best = max(numbers, key=lambda i: numbers[i]["vcs"])
    names = ("vcs", "gas", "sas", "las", "nas", "nas_d", "nas_l", "match_precision", "match_recall")
    return {"status": "ok", "reference": best, "result": {name: numbers[best][name] for name in names}}


def evqa(case: Case) -> Case:
    """Precision, recall, F1, coarse part and score, and the score of a question with its answer."""
    numbers = by_loops(case)
    f1 = 2 / (1 / numbers["precision"] + 1 / numbers["recall"])
    score = (numbers["coarse"] + f1) / 2
    return {**numbers, "f1": f1, "score": score, "qa_score": score * math.log(len(case["keywords"]) + 1)}


def alignment(case: Case) -> Case:
    """The alignment of whole seconds; anchors, groups and orphans hold indices of the input."""
    sides = [[(start, end) for start, end in case[side]] for side in ("references", "predictions")]
    orders = [sorted(range(len(side)), key=side.__getitem__) for side in sides]
    references, predictions = ([side[i] for i in order] for side, order in zip(sides, orders, strict=True))
    iou = [[fraction_iou(reference, prediction) for prediction in predictions] for reference in references]
    value, anchors = best_matching(iou, len(predictions))
    members, orphans = merged_by_loops(references, predictions, {j: i for i, j in anchors}, official=False)
    return {
        "value": float(value),
        "anchors": [[orders[0][i], orders[1][j]] for i, j in anchors],
        "groups": {str(orders[0][i]): [orders[1][j] for j in group] for i, group in members.items()},
        "orphans": [orders[1][j] for j in orphans],
    }


def sodam(case: Case) -> Case:
    """The alignment, and precision, recall and F1 in total and by dimension."""
    aligned = alignment(case)
    return {"alignment": aligned, "scores": f1_by_dimension(aligned, case["counts"])}


def f1_by_dimension(aligned: Case, counts: list[dict[str, list[int]]]) -> Case:
    """(Precision, recall, F1) by dimension, and under "total" over all dimensions."""
    dimensions = sorted({dimension for segment in counts for dimension in segment})
    parts = {name: [tuple(segment.get(name, (0, 0))) for segment in counts] for name in dimensions}
    parts["total"] = [tuple(sum(count[i] for count in segment.values()) for i in (0, 1)) for segment in counts]
    matched, n_orphans = [int(reference) for reference in aligned["groups"]], len(aligned["orphans"])
    numbers = {name: f1_by_hand(matched, n_orphans, segments) for name, segments in parts.items()}
    return {name: [None if x is None else float(x) for x in numbers[name]] for name in numbers}


def ecs(case: Case) -> Case:
    """Verdicts on all sentences with the flat scores, and verdicts on the merged sentences with SodaM's."""
    aligned = alignment(case)
    everything = list(range(len(case["sentences"])))
    flat = [_verdict(case, keypoint, everything) for segment in case["keypoints"] for keypoint in segment]
    merged = [
        [i for prediction in aligned["groups"].get(str(reference), []) for i in case["sentences_of"][prediction]]
        for reference in range(len(case["references"]))
    ]
    timed = [
        [_verdict(case, keypoint, sentences) for keypoint in segment]
        for segment, sentences in zip(case["keypoints"], merged, strict=True)
    ]
    covered = [sum(verdict["covered"] for verdict in flat), len(flat)]
    by_dimension = _counts([keypoint for segment in case["keypoints"] for keypoint in segment], flat)
    shares = {name: hits / total for name, (hits, total) in by_dimension.items()}
    counts = [_counts(*segment) for segment in zip(case["keypoints"], timed, strict=True)]
    return {
        "flat": flat,
        "flat_micro": covered[0] / covered[1],
        "flat_macro": sum(shares.values()) / len(shares),
        "by_dimension": shares,
        "timed": timed,
        "sodam": f1_by_dimension(aligned, counts),
    }


def _verdict(case: Case, keypoint: Case, sentences: list[int]) -> Case:
    """The best probability among the nearest r sentences; the nearer of two equal ones is named."""

    def nearness(i: int) -> float:
        return cosine(case["vectors"][keypoint["text"]], case["vectors"][case["sentences"][i]])

    ranked = sorted(sentences, key=lambda i: -nearness(i))[: case["r"]]
    if not ranked:
        return {"probability": None, "sentence": None, "covered": False}
    best = max(ranked, key=lambda i: case["probabilities"][keypoint["text"]][i])
    probability = case["probabilities"][keypoint["text"]][best]
    threshold = case["thresholds"][keypoint["dimension"]]
    return {"probability": probability, "sentence": best, "covered": probability >= threshold}


def _counts(keypoints: list[Case], verdicts: list[Case]) -> dict[str, list[int]]:
    counts: dict[str, list[int]] = {}
    for keypoint, verdict in zip(keypoints, verdicts, strict=True):
        count = counts.setdefault(keypoint["dimension"], [0, 0])
        count[0] += verdict["covered"]
        count[1] += 1
    return counts
