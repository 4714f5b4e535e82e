"""Fits and measures the evidence of the whole text: `python -m lab.verifier.whole_text DATA [FOLDER]`.

DATA is the folder that `lab.verifier.data` describes. FOLDER, by default the package of the verifier, holds the
network's weights and its record. Weights go to whole_text.json, measurements into the record. Some minutes on one core.

One regression weighs the network against features of the whole text, on articles that the network never saw: on others
its probability is too good, and a regression would trust it too much. It also sees SNLI pairs that the network never
saw, so that another colour, number or gender counts as a conflict. Which features count, how strongly their weights are
held back, and how much the pairs count is chosen by cross-validation, as a part of every fit.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.verifier.data import CHOICE, TEST, Pair, Statement, realsumm, snli
from lab.verifier.evaluate import entailment_scores
from lab.verifier.logistic import Logistic, fit_logistic
from metrics_core.arrays import BoolArray, FloatArray
from metrics_core.calibration import find_best_threshold
from metrics_core.ecs.verifier import FOLDER, WEIGHTS, WHOLE_TEXT
from metrics_core.ecs.verifier.model import OfflineVerifier
from metrics_core.ecs.verifier.whole_text import WHOLE_TEXT_FEATURES, WholeTextFeatures, compute_log_odds

FEW = ("content_recall", "likeness", "least_likeness")
# Nearly the same words found in other ways.
FINER = ("form_recall", "long_word_recall", "all_words_found")
FEATURES = (FEW, tuple(name for name in WHOLE_TEXT_FEATURES if name not in FINER), WHOLE_TEXT_FEATURES)
PENALTIES = (1.0, 10.0, 100.0, 1000.0)
# All SNLI pairs together count this share of all statements.
SNLI_SHARES = (0.1, 0.3, 1.0)
PARTS = 5
DIGITS = 4


@dataclass(frozen=True)
class Material:
    """Statements against texts, as the regression sees them, and what people say of them.

    evidence: features of the whole text (n, len(EVIDENCE)). network: log-odds (n,) of the best sentence. shares (n,):
    of the votes that say present. present (n,): the majority. groups (n,): the article, or the premise of a pair.
    """

    evidence: FloatArray
    network: FloatArray
    shares: FloatArray
    present: BoolArray
    groups: npt.NDArray[np.str_]

    def rows(self, chosen: BoolArray) -> Material:
        """Keep the chosen rows (n,)."""
        return Material(
            self.evidence[chosen], self.network[chosen], self.shares[chosen], self.present[chosen], self.groups[chosen]
        )

    def columns(self, features: Sequence[str]) -> FloatArray:
        """The log-odds of the network and the chosen features (n, 1 + len(features))."""
        return np.column_stack([self.network, self.evidence[:, [WHOLE_TEXT_FEATURES.index(name) for name in features]]])


@dataclass(frozen=True)
class Settings:
    """What a fit chooses: features, the penalty on their weights, and how much SNLI's pairs count."""

    features: tuple[str, ...]
    penalty: float
    snli: float


CHOICES = tuple(Settings(*each) for each in product(FEATURES, PENALTIES, SNLI_SHARES))


@dataclass(frozen=True)
class Fitted:
    """The regression, and the threshold that says yes as often as people do."""

    settings: Settings
    regression: Logistic
    threshold: float

    def probabilities(self, material: Material) -> FloatArray:
        """Compute the corrected probabilities (n,)."""
        return probabilities(self.regression, material.columns(self.settings.features))


def fit(news: Material, pairs: Material) -> Fitted:
    """Choose the settings, fit the regression, and find the threshold, on statements of articles and on SNLI pairs."""
    settings = min(CHOICES, key=lambda each: held_out_loss(each, news, pairs))
    regression = fit_with(settings, news, pairs)
    found = probabilities(regression, news.columns(settings.features))
    threshold = find_best_threshold(found, news.present, objective="coverage").value
    if threshold is None:
        raise ValueError("there is no statement, so that there is no threshold for statements")
    return Fitted(settings, regression, threshold)


def fit_with(settings: Settings, news: Material, pairs: Material) -> Logistic:
    """Fit votes on statements and labels of pairs."""
    n_news, n_pairs = len(news.network), len(pairs.network)
    columns = np.concatenate([each.columns(settings.features) for each in (news, pairs)])
    weights = np.concatenate([np.ones(n_news), np.full(n_pairs, settings.snli * n_news / n_pairs)])
    return fit_logistic(columns, np.concatenate([news.shares, pairs.shares]), weights, settings.penalty)


def held_out_loss(settings: Settings, news: Material, pairs: Material) -> float:
    """Mean log loss of the statements plus that of the pairs, each article and premise judged by a fit without it."""
    part_of_news, part_of_pairs = part_of(news.groups), part_of(pairs.groups)
    losses: dict[str, list[FloatArray]] = {"news": [], "pairs": []}
    for number in range(PARTS):
        ours, others = part_of_news == number, part_of_pairs == number
        regression = fit_with(settings, news.rows(~ours), pairs.rows(~others))
        for name, part in (("news", news.rows(ours)), ("pairs", pairs.rows(others))):
            found = probabilities(regression, part.columns(settings.features))
            losses[name].append(-(part.shares * np.log(found) + (1 - part.shares) * np.log(1 - found)))
    return sum(float(np.concatenate(each).mean()) for each in losses.values())


def probabilities(regression: Logistic, columns: FloatArray) -> FloatArray:
    """Compute what the regression says (n,) of columns (n, d)."""
    return 1 / (1 + np.exp(-regression.log_odds(columns)))


def part_of(groups: npt.NDArray[np.str_]) -> npt.NDArray[np.int64]:
    """Deal the groups, in the order of their names, to PARTS parts: the part (n,) of every row."""
    return np.unique(groups, return_inverse=True)[1].astype(np.int64) % PARTS


def of_statements(statements: Sequence[Statement], best: FloatArray) -> Material:
    """Make the material of statements with the network's probabilities (n,) of their best sentences."""
    return Material(
        WholeTextFeatures().compute_matrix([(" ".join(each.sentences), each.text) for each in statements]),
        np.array([compute_log_odds(each) for each in best]),
        np.array([each.share for each in statements]),
        np.array([each.present for each in statements]),
        np.array([each.article for each in statements]),
    )


def of_pairs(pairs: Sequence[Pair], given: FloatArray) -> Material:
    """Make the material of pairs, whose premise is the whole text, with the network's probabilities (n,)."""
    entailed = np.array([pair.entailed for pair in pairs])
    return Material(
        WholeTextFeatures().compute_matrix([(pair.premise, pair.hypothesis) for pair in pairs]),
        np.array([compute_log_odds(each) for each in given]),
        entailed,
        entailed > 0,
        np.array([pair.premise for pair in pairs]),
    )


def plain_weights(fitted: Fitted) -> dict[str, Any]:
    """Return the numbers of whole_text.json, of few digits, which other machines find too.

    Raises ValueError where a greater probability of the network would lower the result.
    """
    slope, *weights = fitted.regression.weights.round(DIGITS).tolist()
    if slope <= 0:
        raise ValueError(f"the network's probability has the weight {slope}: it must be above 0")
    numbers = {"bias": fitted.regression.bias, "threshold": fitted.threshold}
    rounded = {name: round(value, DIGITS) for name, value in numbers.items()}
    return {"probability": slope, **rounded, "evidence": dict(zip(fitted.settings.features, weights, strict=True))}


def add_whole_text(data: Path, folder: Path) -> None:
    """Fit on all articles that the network never saw, write the weights, measure article by article, and record it."""
    from lab.verifier.agreement import measure_evidence
    from lab.verifier.record import record_evidence

    network, news, pairs = OfflineVerifier(folder / WEIGHTS), realsumm(data), snli(data)
    statements = [*news[TEST], *news[CHOICE]]
    given = network.entailment([(pair.premise, pair.hypothesis) for pair in pairs[CHOICE]]).probabilities
    material, apart = of_statements(statements, entailment_scores(network, statements)), of_pairs(pairs[CHOICE], given)
    fitted = fit(material, apart)
    (folder / WHOLE_TEXT).write_text(json.dumps(plain_weights(fitted), indent=1) + "\n", encoding="utf-8")
    record_evidence(folder, WHOLE_TEXT, measure_evidence(fitted, statements, material, apart, network, data))


def main() -> None:
    """Fit, measure, and print the record."""
    data, folder = Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else FOLDER
    add_whole_text(data, folder)
    print((folder / "RECORD.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
