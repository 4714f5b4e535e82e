"""The logistic regression that weighs the network against features of the whole text, and how a fit chooses.

It is fitted on articles that the network never saw: on others its probability is too good, and a regression would trust
it too much. It also sees SNLI pairs that the network never saw, so that another colour, number or gender counts as a
conflict. Which features count, how strongly their weights are held back, and how much the pairs count is chosen by
cross-validation, as a part of every fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from lab.verifier.data import Pair, Statement
from metrics_core.arrays import BoolArray, FloatArray
from metrics_core.calibration import find_best_threshold
from metrics_core.ecs.verifier.whole_text import WHOLE_TEXT_FEATURES, WholeTextFeatures, compute_log_odds

FEW = ("content_recall", "likeness", "least_likeness")
# Nearly the same words found in other ways.
FINER = ("form_recall", "long_word_recall", "all_words_found")
FEATURES = (FEW, tuple(name for name in WHOLE_TEXT_FEATURES if name not in FINER), WHOLE_TEXT_FEATURES)
PENALTIES = (1.0, 10.0, 100.0, 1000.0)
# All SNLI pairs together count this share of all statements.
SNLI_SHARES = (0.1, 0.3, 1.0)
PARTS = 5
STEPS = 25
CLOSE = 1e-10


@dataclass(frozen=True)
class Logistic:
    """log-odds = features @ weights (d,) + bias."""

    weights: FloatArray
    bias: float

    def log_odds(self, features: FloatArray) -> FloatArray:
        """Compute the log-odds (n,) of features (n, d)."""
        result: FloatArray = features @ self.weights + self.bias
        return result


def fit_logistic(features: FloatArray, shares: FloatArray, weights: FloatArray, penalty: float) -> Logistic:
    """Fit shares (n,) in [0, 1] of the answer yes by features (n, d), by maximum likelihood.

    weights (n,): how much each row counts. penalty: of half the sum of the squared weights of standardised features;
    it must be above 0. The bias is free.

    >>> fitted = fit_logistic(np.array([[0.0], [1.0]]), np.array([0.25, 0.75]), np.ones(2), penalty=1e-9)
    >>> (1 / (1 + np.exp(-fitted.log_odds(np.array([[0.0], [1.0]]))))).round(4).tolist()
    [0.25, 0.75]
    """
    middle, spread = features.mean(axis=0), features.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    rows = np.column_stack([(features - middle) / spread, np.ones(len(features))])
    ridge = np.diag([penalty] * features.shape[1] + [0.0])
    values = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        expected = 1 / (1 + np.exp(-(rows @ values)))
        slope = rows.T @ (weights * (shares - expected)) - ridge @ values
        curvature = (rows * (weights * expected * (1 - expected))[:, None]).T @ rows + ridge
        step = np.linalg.solve(curvature, slope)
        values = values + step
        if np.abs(step).max() < CLOSE:
            break
    plain = values[:-1] / spread
    return Logistic(plain, float(values[-1] - plain @ middle))


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
    threshold = find_best_threshold(found, news.present, objective="coverage").at_least
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
