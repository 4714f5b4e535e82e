"""Compares the weights of the whole text with those before them: `python -m lab.verifier.earlier DATA [FOLDER]`.

DATA is the folder that `lab.verifier.data` describes, FOLDER that of the network's weights, by default the verifier's.

On 42 articles that this project does not have, the present weights had Spearman .573, those before them .594, and the
strongest floor .556. This rule, written before any comparison was computed here, decides which weights are used:

- Both ways to fit judge each of the 26 articles that the network never saw, always by a fit without that article. The
  network is the same. Each way has its own features, other articles, and rule for the threshold.
- What counts is Spearman over summaries of the share of covered statements, which is what `ecs` computes. The gain of
  the earlier way is paired by article, with a 95 % interval from 10,000 resamples of whole articles.
- The earlier weights come back if that interval lies above 0. Else the present ones stay: the earlier ones see the
  order of words, so that a shuffled caption can score above the faithful one, and other weights make all ECS scores
  stale.
- The comparison is made once, and the record states its result whatever it is.
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

from lab.verifier.agreement import correlations, judged_elsewhere, with_interval
from lab.verifier.data import CHOICE, TRAIN, realsumm, snli
from lab.verifier.evaluate import entailment_scores
from lab.verifier.logistic import Logistic, fit_logistic
from lab.verifier.record import record_comparison
from lab.verifier.whole_text import Material, of_pairs, of_statements
from metrics_core.arrays import BoolArray, FloatArray
from metrics_core.calibration import find_best_threshold
from metrics_core.ecs.verifier import FOLDER, WEIGHTS
from metrics_core.ecs.verifier.lexical import LEXICAL_FEATURES, compute_lexical_features
from metrics_core.ecs.verifier.model import OfflineVerifier
from metrics_core.ecs.verifier.whole_text import WordLikeness

LEXICAL = (
    "content_recall",
    "missing_words",
    "letter_recall",
    "pair_recall",
    "order",
    "hypothesis_has_number",
    "number_recall",
    "number_conflict",
    "hypothesis_has_name",
    "name_recall",
    "colour_conflict",
    "gender_conflict",
    "negation_differs",
)
PENALTY = 1.0
# All SNLI pairs together count a tenth of all statements that a regression sees.
SNLI_SHARE = 0.1
PARTS = 6
RESAMPLES = 10_000


@dataclass(frozen=True)
class Rows:
    """Statements or pairs as the earlier regressions see them.

    evidence: features (n, 15) of the whole text. network: log-odds (n,) of the best sentence. shares (n,): of the votes
    that say present. present (n,): the majority. groups (n,): the article, or the premise. unseen (n,): whether the
    network never saw the group.
    """

    evidence: FloatArray
    network: FloatArray
    shares: FloatArray
    present: BoolArray
    groups: npt.NDArray[np.str_]
    unseen: BoolArray

    def only(self, chosen: BoolArray) -> Rows:
        """Keep the chosen rows (n,)."""
        return Rows(
            self.evidence[chosen],
            self.network[chosen],
            self.shares[chosen],
            self.present[chosen],
            self.groups[chosen],
            self.unseen[chosen],
        )


def features_of(texts: Sequence[tuple[str, str]]) -> FloatArray:
    """Compute the earlier features (n, 15) of (text, hypothesis) pairs; two of them see the order of words."""
    likeness = WordLikeness().compute_mean_and_least
    lexical = [dict(zip(LEXICAL_FEATURES, compute_lexical_features(*pair), strict=True)) for pair in texts]
    rows = [[*(each[name] for name in LEXICAL), *likeness(*pair)] for each, pair in zip(lexical, texts, strict=True)]
    return np.array(rows, dtype=np.float64)


def judged_without(news: Rows, pairs: Rows) -> tuple[FloatArray, BoolArray]:
    """Judge every unseen article by the earlier fit without it: values and decisions of the unseen rows, in order."""
    values, covered = np.zeros(len(news.network)), np.zeros(len(news.network), dtype=np.bool_)
    for article in np.unique(news.groups[news.unseen]):
        inside = news.groups == article
        first, second, threshold = fit(news.only(~inside), pairs)
        values[inside] = weighed(first, second, news.only(inside))
        covered[inside] = values[inside] >= threshold
    return values[news.unseen], covered[news.unseen]


def fit(news: Rows, pairs: Rows) -> tuple[Logistic, Logistic, float]:
    """Fit the earlier two regressions and their threshold.

    The first sees features of the whole text, on all articles. The second weighs the network against the first on
    unseen articles, each through a first regression without the article's part. The threshold has the best F1 there.
    """
    first = fit_first(news, pairs)
    crossed, part = np.zeros(len(news.network)), np.unique(news.groups, return_inverse=True)[1] % PARTS
    for number in range(PARTS):
        inside = part == number
        crossed[inside] = fit_first(news.only(~inside), pairs).log_odds(news.evidence[inside])
    odds = np.column_stack([news.network, crossed])[news.unseen]
    of_pairs = np.column_stack([pairs.network, first.log_odds(pairs.evidence)])
    second = fit_with_pairs(odds, news.shares[news.unseen], of_pairs, pairs.shares)
    threshold = find_best_threshold(1 / (1 + np.exp(-second.log_odds(odds))), news.present[news.unseen]).value
    if threshold is None:
        raise ValueError("no statement of the unseen articles is present, so that there is no threshold for them")
    return first, second, threshold


def fit_first(news: Rows, pairs: Rows) -> Logistic:
    """Fit votes and labels by the features of the whole text."""
    return fit_with_pairs(news.evidence, news.shares, pairs.evidence, pairs.shares)


def fit_with_pairs(news: FloatArray, votes: FloatArray, pairs: FloatArray, labels: FloatArray) -> Logistic:
    """Fit votes on statements (n,) by features (n, d), and labels of SNLI pairs (m,) by theirs (m, d)."""
    weights = np.concatenate([np.ones(len(news)), np.full(len(pairs), SNLI_SHARE * len(news) / len(pairs))])
    return fit_logistic(np.concatenate([news, pairs]), np.concatenate([votes, labels]), weights, PENALTY)


def weighed(first: Logistic, second: Logistic, rows: Rows) -> FloatArray:
    """Compute the corrected probabilities (n,)."""
    odds = np.column_stack([rows.network, first.log_odds(rows.evidence)])
    probabilities: FloatArray = 1 / (1 + np.exp(-second.log_odds(odds)))
    return probabilities


def rows_of(material: Material, texts: Sequence[tuple[str, str]], unseen: BoolArray) -> Rows:
    """Give the material the earlier features."""
    return Rows(features_of(texts), material.network, material.shares, material.present, material.groups, unseen)


def compare_weights(data: Path, folder: Path) -> dict[str, Any]:
    """Judge the unseen articles both ways: Spearman of shares and of means, and what the earlier way gains."""
    network, parts, pairs = OfflineVerifier(folder / WEIGHTS), realsumm(data), snli(data)[CHOICE]
    statements = [each for part in parts.values() for each in part]
    seen = {each.article for each in parts[TRAIN]}
    unseen = np.array([each.article not in seen for each in statements])
    material = of_statements(statements, entailment_scores(network, statements))
    given = network.entailment([(pair.premise, pair.hypothesis) for pair in pairs]).probabilities
    apart = of_pairs(pairs, given)
    earlier = judged_without(
        rows_of(material, [(" ".join(each.sentences), each.text) for each in statements], unseen),
        rows_of(apart, [(pair.premise, pair.hypothesis) for pair in pairs], np.ones(len(pairs), dtype=np.bool_)),
    )
    present, _ = judged_elsewhere(material.rows(unseen), apart)
    series = {
        (name, way): np.asarray(each, dtype=np.float64)
        for name, both in (("earlier", earlier), ("present", present))
        for way, each in zip(("mean", "share"), both, strict=True)
    }
    judged = [each for each, is_unseen in zip(statements, unseen, strict=True) if is_unseen]
    found, resampled = correlations(judged, series, RESAMPLES)
    return {
        way: {
            **{name: with_interval(found[name, way], resampled[name, way]) for name in ("earlier", "present")},
            "gain of earlier": with_interval(
                found["earlier", way] - found["present", way], resampled["earlier", way] - resampled["present", way]
            ),
        }
        for way in ("share", "mean")
    }


def main() -> None:
    """Compare, print the result, and record it."""
    data, folder = Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else FOLDER
    compared = compare_weights(data, folder)
    record_comparison(folder, compared)
    print(json.dumps(compared, indent=1))


if __name__ == "__main__":
    main()
