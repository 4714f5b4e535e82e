"""Measures the evidence of the whole text on REALSumm, article by article, beside rules without a verifier.

Everything that decides about an article (settings, regression, all thresholds) is chosen and fitted without it. A
summary's score is the share of its statements at or above the threshold, as the metric `ecs` computes it, or the mean
of their numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from lab.verifier.data import TEST, Statement, snli
from lab.verifier.evaluate import (
    agreement,
    cosine_scores,
    length_scores,
    recall_scores,
    spearman,
    whole_recall_scores,
)
from lab.verifier.regression import Fitted, Material, Settings, fit, of_pairs
from metrics_core.arrays import BoolArray, FloatArray
from metrics_core.calibration import find_best_threshold
from metrics_core.protocols import EntailmentModel

RESAMPLES = 1000
LENGTH, COSINE = "length of the text", "cosine of the best sentence"
BEST, WHOLE = "content words in the best sentence", "content words in the whole text"
NETWORK, MEAN = "network, best sentence", "mean of network and content words in the whole text"
OURS = "network and whole text"
FLOORS = (LENGTH, COSINE, BEST, WHOLE)


def measure_evidence(
    fitted: Fitted,
    statements: Sequence[Statement],
    news: Material,
    pairs: Material,
    network: EntailmentModel,
    data: Path,
) -> dict[str, Any]:
    """Measure all rules on the statements, and the fit on SNLI's test pairs."""
    words = whole_recall_scores(statements)
    probability = 1 / (1 + np.exp(-news.network))
    given = {
        LENGTH: length_scores(statements),
        COSINE: cosine_scores(statements),
        BEST: recall_scores(statements),
        WHOLE: words,
        NETWORK: probability,
        MEAN: (probability + words) / 2,
    }
    rules = {name: (values, covered_elsewhere(news, values)) for name, values in given.items()}
    rules[OURS], chosen = judged_elsewhere(news, pairs)
    return {
        "unseen": compare(statements, rules, OURS),
        "settings": settings_of(fitted.settings),
        "settings_by_article": [{**settings_of(each), "articles": n} for each, n in Counter(chosen).most_common()],
        "snli": on_snli(fitted, network, data),
        "threshold": round(fitted.threshold, 4),
    }


def judged_elsewhere(news: Material, pairs: Material) -> tuple[tuple[FloatArray, BoolArray], list[Settings]]:
    """Judge every article by a fit without it: values and decisions (n,), and the settings that each fit chose."""
    values, covered = np.zeros(len(news.network)), np.zeros(len(news.network), dtype=np.bool_)
    chosen = []
    for article in np.unique(news.groups):
        inside = news.groups == article
        fitted = fit(news.rows(~inside), pairs)
        values[inside] = fitted.probabilities(news.rows(inside))
        covered[inside] = values[inside] >= fitted.threshold
        chosen.append(fitted.settings)
    return (values, covered), chosen


def settings_of(settings: Settings) -> dict[str, Any]:
    """Settings as the record shows them."""
    return {**asdict(settings), "features": list(settings.features)}


def covered_elsewhere(news: Material, values: FloatArray) -> BoolArray:
    """Decide every article at the threshold that says yes on the other articles as often as people do."""
    covered = np.zeros(len(values), dtype=np.bool_)
    for article in np.unique(news.groups):
        inside = news.groups == article
        threshold = find_best_threshold(values[~inside], news.present[~inside], objective="coverage").at_least
        covered[inside] = values[inside] >= (np.inf if threshold is None else threshold)
    return covered


def compare(
    statements: Sequence[Statement], rules: Mapping[str, tuple[FloatArray, BoolArray]], ours: str
) -> dict[str, Any]:
    """Compare values and decisions of every rule with people, and ours with the floor that orders summaries best.

    Intervals hold 95 % of resamples of whole articles. "yes": the share of statements that a rule calls covered.
    """
    series = {
        (name, way): np.asarray(each, dtype=np.float64)
        for name, both in rules.items()
        for way, each in zip(("mean", "share"), both, strict=True)
    }
    found, resampled = correlations(statements, series)
    floor = max(((name, way) for name in FLOORS for way in ("mean", "share")), key=found.__getitem__)
    rows: dict[str, dict[str, Any]] = {}
    for name, (values, covered) in rules.items():
        auc = area(values, [each.present for each in statements])
        rows[name] = {"auc": round(auc, 4), "yes": round(float(covered.mean()), 4), **agreement(statements, covered)}
        for way in ("share", "mean"):
            key = name, way
            rows[name][f"spearman_{way}"] = with_interval(found[key], resampled[key])
    gains = {
        way: with_interval(found[ours, way] - found[floor], resampled[ours, way] - resampled[floor])
        for way in ("share", "mean")
    }
    sizes = {"articles": len({each.article for each in statements}), "statements": len(statements)}
    people = round(float(np.mean([each.present for each in statements])), 4)
    return {**sizes, "people_yes": people, "rules": rows, "floor": list(floor), "gains": gains}


def correlations(
    statements: Sequence[Statement], series: Mapping[tuple[str, str], FloatArray], n_resamples: int = RESAMPLES
) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], FloatArray]]:
    """Spearman over summaries of every series of numbers, on all articles and on resamples of whole articles."""
    summaries = sorted({(each.article, each.system) for each in statements})
    place = {key: index for index, key in enumerate(summaries)}
    rows = np.array([place[each.article, each.system] for each in statements])
    counts = np.bincount(rows)
    people = np.bincount(rows, [each.present for each in statements]) / counts
    means = {key: np.bincount(rows, values) / counts for key, values in series.items()}
    articles = np.unique([article for article, _ in summaries], return_inverse=True)[1]
    members = [np.flatnonzero(articles == number) for number in range(articles.max() + 1)]
    rng = np.random.default_rng(0)
    draws = [
        np.concatenate([members[i] for i in rng.integers(0, len(members), len(members))]) for _ in range(n_resamples)
    ]
    found = {key: spearman(values, people) for key, values in means.items()}
    resampled = {key: np.array([spearman(values[d], people[d]) for d in draws]) for key, values in means.items()}
    return found, resampled


def with_interval(value: float, resampled: FloatArray) -> dict[str, float]:
    """A number with the limits of the middle 95 % of its resamples."""
    low, high = np.quantile(resampled, [0.025, 0.975])
    return {"value": round(value, 4), "low": round(float(low), 4), "high": round(float(high), 4)}


def on_snli(fitted: Fitted, network: EntailmentModel, data: Path) -> dict[str, Any]:
    """Judge SNLI's test pairs as texts of one sentence: entailed or not, by the network and with the whole text."""
    pairs = snli(data)[TEST]
    found = network.entailment([(pair.premise, pair.hypothesis) for pair in pairs]).probabilities
    material = of_pairs(pairs, found)
    weighed = fitted.probabilities(material)
    return {
        "pairs": len(pairs),
        "auc": {NETWORK: round(area(found, material.present), 4), OURS: round(area(weighed, material.present), 4)},
        "accuracy": {
            NETWORK: round(float(((found >= 0.5) == material.present).mean()), 4),
            OURS: round(float(((weighed >= fitted.threshold) == material.present).mean()), 4),
        },
    }


def area(values: FloatArray, labels: Sequence[bool] | BoolArray) -> float:
    """Area under the ROC curve: how often a row with label yes has the greater value; ties count half.

    >>> area(np.array([0.9, 0.4, 0.4]), [True, True, False])
    0.75
    """
    from scipy.stats import rankdata

    yes = np.asarray(labels, dtype=np.bool_)
    n_yes, n_no = int(yes.sum()), int((~yes).sum())
    return float((rankdata(values)[yes].sum() - n_yes * (n_yes + 1) / 2) / (n_yes * n_no))
