"""Measures the verifier on held-out pairs: three classes on SNLI, agreement with people on REALSumm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray
from metrics_core.calibration import best_threshold
from metrics_core.protocols import EntailmentModel
from verifier.classifier import OfflineVerifier
from verifier.lexical import content_recall
from verifier.model import CLASSES
from verifier.training.data import CHOICE, TEST, Pair, Statement, realsumm, snli


@dataclass(frozen=True)
class Checklist:
    """Agreement with the people of REALSumm: accuracy and F1 over statements, correlations over summaries.

    A summary's score is the share of its statements at or above `threshold`; for `spearman_mean`, their mean score.
    `system_kendall` compares the systems by their shares.
    """

    statements: int
    articles: int
    threshold: float
    accuracy: float
    f1: float
    spearman: float
    kendall: float
    spearman_mean: float
    system_kendall: float


def measure(verifier: OfflineVerifier, data: Path, part: str = TEST) -> dict[str, Any]:
    """Measure three classes on SNLI, and the agreement of the verifier and of content-word recall on REALSumm.

    Both thresholds have the best F1 on the articles for choices.
    """
    news = realsumm(data)
    held_out, chosen = news[part], news[CHOICE]
    scorers: dict[str, Callable[[Sequence[Statement]], FloatArray]] = {
        "realsumm": partial(entailment_scores, verifier),
        "realsumm_content_recall": recall_scores,
    }
    agreements = {
        name: asdict(agreement(held_out, scores(held_out), threshold(chosen, scores(chosen))))
        for name, scores in scorers.items()
    }
    return {"snli": three_way(verifier, snli(data)[part]), **agreements}


def three_way(verifier: OfflineVerifier, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Compute accuracy in total and by class, and count the answers (columns) by true class (rows)."""
    logits, _ = verifier.logits([(pair.premise, pair.hypothesis) for pair in pairs])
    table = np.zeros((len(CLASSES), len(CLASSES)), dtype=int)
    truth = [CLASSES.index(pair.label) for pair in pairs if pair.label]
    np.add.at(table, (truth, logits.argmax(axis=1)), 1)
    of_class = (table.diagonal() / table.sum(axis=1)).round(4).tolist()
    return {
        "pairs": len(pairs),
        "accuracy": round(float(table.trace() / table.sum()), 4),
        "accuracy_of_class": dict(zip(CLASSES, of_class, strict=True)),
        "answers_by_class": dict(zip(CLASSES, table.tolist(), strict=True)),
    }


def entailment_scores(model: EntailmentModel, statements: Sequence[Statement]) -> FloatArray:
    """Compute P(entailment) of statements by the best sentence of the summary; 0 for a summary without a sentence."""
    pairs = [(sentence, statement.text) for statement in statements for sentence in statement.sentences]
    different = list(dict.fromkeys(pairs))
    probability_of = dict(zip(different, model.entailment(different).probabilities.tolist(), strict=True))
    return _best_of_sentences(statements, probability_of)


def recall_scores(statements: Sequence[Statement]) -> FloatArray:
    """Compute content-word recall of statements by the best sentence of the summary. It is the floor to beat."""
    pairs = {(sentence, statement.text) for statement in statements for sentence in statement.sentences}
    return _best_of_sentences(statements, {pair: content_recall(*pair) for pair in pairs})


def threshold(statements: Sequence[Statement], scores: FloatArray) -> float:
    """Find the threshold with the best F1. Raises ValueError where no statement is present."""
    value = best_threshold(scores, [statement.present for statement in statements]).value
    if value is None:
        raise ValueError("no statement of the part for choices is present, so that there is no threshold for it")
    return value


def agreement(statements: Sequence[Statement], scores: FloatArray, level: float) -> Checklist:
    """Compare scores, at threshold `level`, with the majority of the votes."""
    present = np.array([statement.present for statement in statements])
    covered = scores >= level
    clips = [(statement.article, statement.system) for statement in statements]
    systems = [statement.system for statement in statements]
    people, machine, mean = (_means(values, clips) for values in (present, covered, scores))
    return Checklist(
        statements=len(statements),
        articles=len({statement.article for statement in statements}),
        threshold=round(level, 4),
        accuracy=round(float((covered == present).mean()), 4),
        f1=round(float(2 * (covered & present).sum() / (covered.sum() + present.sum())), 4),
        spearman=round(spearman(machine, people), 4),
        kendall=round(kendall(machine, people), 4),
        spearman_mean=round(spearman(mean, people), 4),
        system_kendall=round(kendall(_means(covered, systems), _means(present, systems)), 4),
    )


def spearman(left: FloatArray, right: FloatArray) -> float:
    """Spearman's correlation, with mean ranks for ties; NaN where one side is constant.

    >>> round(spearman(np.array([1.0, 2.0, 2.0]), np.array([0.1, 0.3, 0.4])), 4)
    0.866
    """
    ranks = [np.sign(values[:, None] - values).sum(axis=1) for values in (left, right)]
    return float(np.corrcoef(ranks)[0, 1])


def kendall(left: FloatArray, right: FloatArray) -> float:
    """Kendall's tau-b; NaN where one side is constant.

    >>> round(kendall(np.array([1.0, 2.0, 2.0]), np.array([0.1, 0.3, 0.4])), 4)
    0.8165
    """
    one, other = (np.sign(values[:, None] - values) for values in (left, right))
    return float((one * other).sum() / np.sqrt((one**2).sum() * (other**2).sum()))


def _best_of_sentences(statements: Sequence[Statement], score_of: dict[tuple[str, str], float]) -> FloatArray:
    """Greatest score of every statement's (sentence, statement) pairs; 0 without a sentence."""
    return np.array(
        [
            max((score_of[sentence, statement.text] for sentence in statement.sentences), default=0.0)
            for statement in statements
        ]
    )


def _means(values: npt.NDArray[Any], groups: Sequence[Any]) -> FloatArray:
    """Average the values of every group, in the order of the sorted groups."""
    names = sorted(set(groups))
    place = {name: index for index, name in enumerate(names)}
    rows = [place[group] for group in groups]
    means: FloatArray = np.bincount(rows, weights=values, minlength=len(names)) / np.bincount(rows)
    return means
