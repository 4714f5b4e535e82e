"""Measures the evidence of the whole text on REALSumm, article by article, beside rules that only count words.

Everything that decides about an article (both regressions, all thresholds) is fitted without it. A summary's score is
the share of its statements at or above the threshold, as the metric `ecs` computes it, or the mean of their numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metrics_core.arrays import BoolArray, FloatArray
from metrics_core.calibration import best_threshold
from metrics_core.protocols import EntailmentModel
from verifier.training.data import TEST, Statement, snli
from verifier.training.evaluate import agreement, recall_scores, spearman, whole_recall_scores
from verifier.training.whole_text import Fitted, Material, fit, fit_evidence, of_pairs

RESAMPLES = 1000
BEST, WHOLE = "content words in the best sentence", "content words in the whole text"
NETWORK, MEAN = "network, best sentence", "mean of network and content words in the whole text"
OURS, EVIDENCE_ALONE = "network and whole text", "features of the whole text alone"
FLOORS = (BEST, WHOLE)


def measure_evidence(
    statements: Sequence[Statement], news: Material, pairs: Material, network: EntailmentModel, data: Path
) -> dict[str, Any]:
    """Measure all rules on the articles that the network never saw, and on SNLI's test pairs."""
    words = {BEST: recall_scores(statements), WHOLE: whole_recall_scores(statements)}
    probability = 1 / (1 + np.exp(-news.network))
    given = {**words, NETWORK: probability, MEAN: (probability + words[WHOLE]) / 2}
    ours, ours_covered = np.zeros(len(statements)), np.zeros(len(statements), dtype=np.bool_)
    for article in np.unique(news.articles[news.unseen]):
        inside = news.articles == article
        fitted = fit(news.rows(~inside), pairs)
        ours[inside] = fitted.probabilities(news.rows(inside))
        ours_covered[inside] = ours[inside] >= fitted.threshold
    kept = [each for each, unseen in zip(statements, news.unseen, strict=True) if unseen]
    rows = {name: (values, covered_elsewhere(news, values, news.unseen)) for name, values in given.items()}
    rows[OURS] = ours, ours_covered
    unseen = {name: (values[news.unseen], covered[news.unseen]) for name, (values, covered) in rows.items()}
    full = fit(news, pairs)
    return {
        "unseen": compare(kept, unseen, OURS),
        "all_articles": compare(statements, on_all_articles(news, pairs, words), EVIDENCE_ALONE),
        "snli": on_snli(full, network, data),
        "threshold": round(full.threshold, 4),
    }


def on_all_articles(
    news: Material, pairs: Material, words: Mapping[str, FloatArray]
) -> dict[str, tuple[FloatArray, BoolArray]]:
    """Judge all articles by words alone, without the network: each by a fit without it."""
    values = np.zeros(len(news.network))
    for article in np.unique(news.articles):
        inside = news.articles == article
        odds = fit_evidence(news.rows(~inside), pairs).log_odds(news.evidence[inside])
        values[inside] = 1 / (1 + np.exp(-odds))
    every = np.ones(len(values), dtype=np.bool_)
    rules = {**words, EVIDENCE_ALONE: values}
    return {name: (each, covered_elsewhere(news, each, every)) for name, each in rules.items()}


def covered_elsewhere(news: Material, values: FloatArray, judged: BoolArray) -> BoolArray:
    """Decide every judged article at the threshold with the best F1 on the other judged articles."""
    covered = np.zeros(len(values), dtype=np.bool_)
    for article in np.unique(news.articles[judged]):
        inside = news.articles == article
        others = judged & ~inside
        threshold = best_threshold(values[others], news.present[others]).value
        covered[inside] = values[inside] >= (np.inf if threshold is None else threshold)
    return covered


def compare(
    statements: Sequence[Statement], rules: Mapping[str, tuple[FloatArray, BoolArray]], ours: str
) -> dict[str, Any]:
    """Compare values and decisions of every rule with people, and ours with the floor that orders summaries best.

    Intervals hold 95 % of resamples of whole articles.
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
        rows[name] = {"auc": round(auc, 4), **agreement(statements, covered)}
        for way in ("share", "mean"):
            key = name, way
            rows[name][f"spearman_{way}"] = with_interval(found[key], resampled[key])
    gains = {
        way: with_interval(found[ours, way] - found[floor], resampled[ours, way] - resampled[floor])
        for way in ("share", "mean")
    }
    sizes = {"articles": len({each.article for each in statements}), "statements": len(statements)}
    return {**sizes, "rules": rows, "floor": list(floor), "gains": gains}


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
