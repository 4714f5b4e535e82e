"""Fits and measures the evidence of the whole text: `python -m verifier.training.whole_text DATA [FOLDER]`.

DATA is the folder that `verifier.training.data` describes. FOLDER, by default the package `verifier`, holds the
network's weights and its record. Weights go to whole_text.json, measurements into the record. Some minutes on one core.

The network's probability is too good on the articles that it was trained on, and a regression there would trust it too
much. So two regressions are fitted. The first sees features of the whole text alone, on all articles. The second weighs
the network against the first, on articles that the network never saw. Both also see SNLI pairs that the network never
saw, so that another colour, number or gender counts as a conflict.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import BoolArray, FloatArray
from metrics_core.calibration import best_threshold
from verifier import FOLDER, WEIGHTS, WHOLE_TEXT
from verifier.classifier import OfflineVerifier
from verifier.training.data import CHOICE, TRAIN, Pair, Statement, realsumm, snli
from verifier.training.evaluate import entailment_scores
from verifier.training.logistic import Logistic, fit_logistic
from verifier.whole_text import EVIDENCE, Evidence, log_odds

PENALTY = 1.0
# All SNLI pairs together count a tenth of all statements that a regression sees.
SNLI_SHARE = 0.1
PARTS = 6
DIGITS = 4


@dataclass(frozen=True)
class Material:
    """Statements against texts, as the regressions see them, and what people say of them.

    evidence: features of the whole text (n, len(EVIDENCE)). network: log-odds (n,) of the best sentence. shares (n,):
    of the votes that say present. present (n,): the majority. articles (n,). unseen (n,): whether the network never saw
    the article.
    """

    evidence: FloatArray
    network: FloatArray
    shares: FloatArray
    present: BoolArray
    articles: npt.NDArray[np.str_]
    unseen: BoolArray

    def rows(self, chosen: BoolArray) -> Material:
        """Keep the chosen rows (n,)."""
        return Material(
            self.evidence[chosen],
            self.network[chosen],
            self.shares[chosen],
            self.present[chosen],
            self.articles[chosen],
            self.unseen[chosen],
        )


@dataclass(frozen=True)
class Fitted:
    """Both regressions, and the threshold with the best F1 on the unseen articles."""

    evidence: Logistic
    combination: Logistic
    threshold: float

    def probabilities(self, material: Material) -> FloatArray:
        """Compute the corrected probabilities (n,)."""
        odds = np.column_stack([material.network, self.evidence.log_odds(material.evidence)])
        return 1 / (1 + np.exp(-self.combination.log_odds(odds)))


def fit(news: Material, pairs: Material) -> Fitted:
    """Fit both regressions and the threshold on statements of articles and on SNLI pairs.

    The second regression sees each article through a first regression without this article's part, as it will see new
    articles.
    """
    evidence = fit_evidence(news, pairs)
    crossed = np.zeros(len(news.network))
    part = part_of(news.articles)
    for number in range(PARTS):
        inside = part == number
        if inside.any():
            crossed[inside] = fit_evidence(news.rows(~inside), pairs).log_odds(news.evidence[inside])
    odds = np.column_stack([news.network, crossed])[news.unseen]
    of_pairs = np.column_stack([pairs.network, evidence.log_odds(pairs.evidence)])
    combination = fit_with_pairs(odds, news.shares[news.unseen], of_pairs, pairs.shares)
    threshold = best_threshold(1 / (1 + np.exp(-combination.log_odds(odds))), news.present[news.unseen]).value
    if threshold is None:
        raise ValueError("no statement of the unseen articles is present, so that there is no threshold for them")
    return Fitted(evidence, combination, threshold)


def fit_evidence(news: Material, pairs: Material) -> Logistic:
    """Fit votes and labels by the features of the whole text alone."""
    return fit_with_pairs(news.evidence, news.shares, pairs.evidence, pairs.shares)


def fit_with_pairs(news: FloatArray, votes: FloatArray, pairs: FloatArray, labels: FloatArray) -> Logistic:
    """Fit votes on statements (n,) by features (n, d), and labels of SNLI pairs (m,) by theirs (m, d)."""
    weights = np.concatenate([np.ones(len(news)), np.full(len(pairs), SNLI_SHARE * len(news) / len(pairs))])
    return fit_logistic(np.concatenate([news, pairs]), np.concatenate([votes, labels]), weights, PENALTY)


def part_of(articles: npt.NDArray[np.str_]) -> npt.NDArray[np.int64]:
    """Deal the articles, in the order of their names, to PARTS parts: the part (n,) of every row."""
    return np.unique(articles, return_inverse=True)[1].astype(np.int64) % PARTS


def of_statements(statements: Sequence[Statement], probabilities: FloatArray, seen: set[str]) -> Material:
    """Make the material of statements. seen: the articles that the network was trained on."""
    return Material(
        Evidence().matrix([(" ".join(each.sentences), each.text) for each in statements]),
        np.array([log_odds(each) for each in probabilities]),
        np.array([each.share for each in statements]),
        np.array([each.present for each in statements]),
        np.array([each.article for each in statements]),
        np.array([each.article not in seen for each in statements]),
    )


def of_pairs(pairs: Sequence[Pair], probabilities: FloatArray) -> Material:
    """Make the material of pairs, whose premise is the whole text."""
    entailed = np.array([pair.entailed for pair in pairs])
    return Material(
        Evidence().matrix([(pair.premise, pair.hypothesis) for pair in pairs]),
        np.array([log_odds(each) for each in probabilities]),
        entailed,
        entailed > 0,
        np.array([pair.premise for pair in pairs]),
        np.ones(len(pairs), dtype=np.bool_),
    )


def plain_weights(fitted: Fitted) -> dict[str, Any]:
    """Join both regressions into the numbers of whole_text.json, of few digits, which other machines find too.

    Raises ValueError where a greater probability of the network would lower the result.
    """
    slope, weight = (float(value) for value in fitted.combination.weights)
    if slope <= 0:
        raise ValueError(f"the network's probability has the weight {slope}: it must be above 0")
    evidence = dict(zip(EVIDENCE, (weight * fitted.evidence.weights).round(DIGITS).tolist(), strict=True))
    bias = fitted.combination.bias + weight * fitted.evidence.bias
    numbers = {"probability": slope, "bias": bias, "threshold": fitted.threshold}
    return {name: round(value, DIGITS) for name, value in numbers.items()} | {"evidence": evidence}


def add_whole_text(data: Path, folder: Path) -> None:
    """Fit on all articles, write the weights, measure article by article, and complete the record."""
    from verifier.training.agreement import measure_evidence
    from verifier.training.record import record_evidence

    network, news, pairs = OfflineVerifier(folder / WEIGHTS), realsumm(data), snli(data)
    statements = [each for part in news.values() for each in part]
    best = entailment_scores(network, statements)
    given = network.entailment([(pair.premise, pair.hypothesis) for pair in pairs[CHOICE]]).probabilities
    material = of_statements(statements, best, {each.article for each in news[TRAIN]})
    apart = of_pairs(pairs[CHOICE], given)
    fitted = fit(material, apart)
    (folder / WHOLE_TEXT).write_text(json.dumps(plain_weights(fitted), indent=1) + "\n", encoding="utf-8")
    record_evidence(folder, WHOLE_TEXT, measure_evidence(statements, material, apart, network, data))


def main() -> None:
    """Fit, measure, and print the record."""
    data, folder = Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else FOLDER
    add_whole_text(data, folder)
    print((folder / "RECORD.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
