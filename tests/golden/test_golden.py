"""All metrics against the project's own golden cases, which need no other data."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metrics_core.ecs import (
    KeypointVerdict,
    choose_premises,
    compute_flat_score,
    compute_sodam_score,
    decide_keypoint,
    rank_nearest_sentences,
)
from metrics_core.evqa import evqa_from_features, qa_score
from metrics_core.sodam import align, score_alignment
from metrics_core.sodam.result import AlignmentScore
from metrics_core.vcs import split_content_words, vcs_batch, vcs_from_similarity, vcs_short
from tests.golden.make import METRICS
from tests.golden.plain import Case
from tests.metrics_core.test_vcs import differences

FOLDER = Path(__file__).parent
N_CASES = {"vcs": 12, "vcs_short": 5, "evqa": 6, "sodam": 6, "ecs": 3}


def stored(metric: str) -> list[Case]:
    cases: list[Case] = json.loads((FOLDER / f"{metric}.json").read_text(encoding="utf-8"))
    return cases


def unlike(actual: Any, expected: Any, where: str = "") -> list[str]:
    """The places where two structures differ: real numbers by more than 1e-9, everything else at all."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        if actual.keys() != expected.keys():
            return [f"{where}: {sorted(actual)}, expected {sorted(expected)}"]
        return [line for name in expected for line in unlike(actual[name], expected[name], f"{where}.{name}")]
    if isinstance(expected, list) and isinstance(actual, list | tuple):
        if len(actual) != len(expected):
            return [f"{where}: {len(actual)} values, expected {len(expected)}"]
        return [
            line for i, pair in enumerate(zip(actual, expected, strict=True)) for line in unlike(*pair, f"{where}[{i}]")
        ]
    if type(expected) is float and type(actual) is float:
        same = math.isclose(actual, expected, rel_tol=0, abs_tol=1e-9)
    else:
        same = type(actual) is type(expected) and actual == expected
    return [] if same else [f"{where}: {actual!r}, expected {expected!r}"]


def test_the_structures_are_compared_to_the_last_value() -> None:
    assert unlike({"a": (1.0, [2, None])}, {"a": [1.0 + 1e-12, [2, None]]}) == []
    changed = [{"a": [1.0, [3, None]]}, {"a": [1.0, [2, 0.0]]}, {"a": [1.001, [2, None]]}, {"a": [1.0]}, {"b": 1.0}]
    assert all(unlike(other, {"a": [1.0, [2, None]]}) for other in changed)


@pytest.mark.parametrize("metric", METRICS)
def test_the_stored_results_are_those_of_the_plain_implementation(metric: str) -> None:
    cases = stored(metric)
    assert len(cases) == N_CASES[metric]
    _, score = METRICS[metric]
    assert not unlike(json.loads(json.dumps([score(case) for case in cases])), [case["expected"] for case in cases])


def test_vcs() -> None:
    cases = stored("vcs")
    results = [vcs_from_similarity(case["similarity"], case["gas"], **case["parameters"]) for case in cases]
    for case, result in zip(cases, results, strict=True):
        assert not differences(asdict(result), case["expected"])
        pair = np.array(case["similarity"]), case["gas"]
        assert vcs_batch([pair], **case["parameters"]) == [result]
    assert sum(result.vcs > 0.1 for result in results) >= 6


def test_vcs_short() -> None:
    statuses = []
    for case in stored("vcs_short"):
        for text, words in case["words"].items():
            assert split_content_words(text) == words
        vectors = {text: np.array(vector) for text, vector in case["vectors"].items()}
        found = vcs_short(case["references"], case["generated"], vectors, **case["parameters"])
        expected = case["expected"]
        assert (found.status, found.best_reference_index) == (expected["status"], expected["reference"])
        statuses.append((found.status, found.best_reference_index))
        if found.result is None:
            assert expected["result"] is None
        else:
            numbers = asdict(found.result)
            assert not unlike({name: numbers[name] for name in expected["result"]}, expected["result"])
    assert {("ok", 0), ("ok", 1), ("empty_text", None), ("no_reference", None)} <= set(statuses)


def test_evqa() -> None:
    for case in stored("evqa"):
        result = evqa_from_features(
            case["frames"],
            case["keywords"],
            case["text"],
            keyword_weights=case["weights"],
            regions=case["regions"],
        )
        assert result.status == "ok"
        numbers = {**asdict(result), "qa_score": qa_score(result)}
        assert not unlike({name: numbers[name] for name in case["expected"]}, case["expected"])


def numbers_of(score: AlignmentScore) -> dict[str, list[float | None]]:
    by_dimension = {name: [part.precision, part.recall, part.f1] for name, part in score.by_dimension.items()}
    return {**by_dimension, "total": [score.precision, score.recall, score.f1]}


def test_sodam() -> None:
    for case in stored("sodam"):
        alignment = align(case["references"], case["predictions"])
        found = {
            "value": alignment.total_iou,
            "anchors": alignment.anchors,
            "groups": {str(reference): members for reference, members in alignment.groups.items()},
            "orphans": alignment.orphans,
        }
        assert not unlike(found, case["expected"]["alignment"])
        counts = [{name: (covered, total) for name, (covered, total) in s.items()} for s in case["counts"]]
        assert not unlike(numbers_of(score_alignment(alignment, counts)), case["expected"]["scores"])


def verdicts_on(case: Case, keypoints: list[Case], sentences: list[int]) -> list[KeypointVerdict]:
    """Verdicts on keypoints from the caption's sentences with these indices."""
    sides = ([keypoint["text"] for keypoint in keypoints], [case["sentences"][i] for i in sentences])
    nearest = rank_nearest_sentences(*([case["vectors"][text] for text in side] for side in sides), case["r"])
    verdicts = []
    for keypoint, plan in zip(keypoints, choose_premises(*sides, nearest), strict=True):
        probabilities = [case["probabilities"][keypoint["text"]][sentences[i]] for i in plan.sentence_indices]
        verdicts.append(decide_keypoint(plan, probabilities, case["thresholds"][keypoint["dimension"]]))
    return verdicts


def as_stored(verdict: KeypointVerdict, sentences: list[int]) -> Case:
    """A verdict with the sentence's place in the whole caption."""
    place = None if verdict.sentence is None else sentences[verdict.sentence]
    return {"probability": verdict.probability, "sentence": place, "covered": verdict.covered}


def test_ecs() -> None:
    for case in stored("ecs"):
        expected, keypoints = case["expected"], case["keypoints"]
        everything = list(range(len(case["sentences"])))
        flat = [keypoint for segment in keypoints for keypoint in segment]
        verdicts = verdicts_on(case, flat, everything)
        assert not unlike([as_stored(verdict, everything) for verdict in verdicts], expected["flat"])
        dimensions = [keypoint["dimension"] for keypoint in flat]
        micro = compute_flat_score(dimensions, verdicts)
        assert not unlike([micro.score, dict(micro.by_dimension)], [expected["flat_micro"], expected["by_dimension"]])
        assert not unlike(compute_flat_score(dimensions, verdicts, mode="flat_macro").score, expected["flat_macro"])

        alignment = align(case["references"], case["predictions"])
        merged = [
            [i for prediction in alignment.groups.get(reference, ()) for i in case["sentences_of"][prediction]]
            for reference in range(len(keypoints))
        ]
        timed = [verdicts_on(case, *segment) for segment in zip(keypoints, merged, strict=True)]
        shown = [[as_stored(v, places) for v in part] for part, places in zip(timed, merged, strict=True)]
        assert not unlike(shown, expected["timed"])
        by_segment = [[keypoint["dimension"] for keypoint in segment] for segment in keypoints]
        aligned = compute_sodam_score(alignment, by_segment, timed, n_sentences=len(everything)).sodam_result
        assert aligned is not None
        assert not unlike(numbers_of(aligned), expected["sodam"])
