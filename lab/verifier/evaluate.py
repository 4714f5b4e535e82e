"""Measures the verifier on held-out pairs: three classes on SNLI, agreement with people on REALSumm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.verifier.data import CHOICE, TEST, Pair, Statement, realsumm, snli
from metrics_core.arrays import BoolArray, FloatArray
from metrics_core.calibration import find_best_threshold
from metrics_core.ecs.verifier.lexical import split_number_words, stemmed_content_recall
from metrics_core.ecs.verifier.model import CLASSES, OfflineVerifier
from metrics_core.protocols import EntailmentModel


def measure(verifier: OfflineVerifier, data: Path, part: str = TEST) -> dict[str, Any]:
    """Measure three classes on SNLI, and find the threshold of single sentences on REALSumm's articles for choices."""
    chosen = realsumm(data)[CHOICE]
    level = threshold(chosen, entailment_scores(verifier, chosen))
    return {"snli": three_way(verifier, snli(data)[part]), "pair_threshold": round(level, 4)}


def three_way(verifier: OfflineVerifier, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Compute accuracy in total and by class, and count the answers (columns) by true class (rows)."""
    logits, _ = verifier.compute_logits([(pair.premise, pair.hypothesis) for pair in pairs])
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
    """Compute content-word recall of statements by the best sentence of the summary."""
    pairs = {(sentence, statement.text) for statement in statements for sentence in statement.sentences}
    return _best_of_sentences(statements, {pair: stemmed_content_recall(*pair) for pair in pairs})


def whole_recall_scores(statements: Sequence[Statement]) -> FloatArray:
    """Compute content-word recall of statements by the whole summary."""
    return np.array([stemmed_content_recall(" ".join(each.sentences), each.text) for each in statements])


def cosine_scores(statements: Sequence[Statement]) -> FloatArray:
    """Compute the cosine of statements and the nearest sentence of the summary, by all-MiniLM-L6-v2."""
    from metrics_core.models.text_encoder import make_text_encoder

    texts = list(dict.fromkeys(text for each in statements for text in (each.text, *each.sentences)))
    vector = dict(zip(texts, make_text_encoder("offline").encode(texts), strict=True))
    pairs = {(sentence, each.text) for each in statements for sentence in each.sentences}
    return _best_of_sentences(statements, {pair: float(vector[pair[0]] @ vector[pair[1]]) for pair in pairs})


def length_scores(statements: Sequence[Statement]) -> FloatArray:
    """Count the words of the summary, the same for all its statements."""
    return np.array([len(split_number_words(" ".join(each.sentences))) for each in statements], dtype=np.float64)


def threshold(statements: Sequence[Statement], scores: FloatArray) -> float:
    """Find the threshold with the best F1. Raises ValueError where no statement is present."""
    value = find_best_threshold(scores, [statement.present for statement in statements]).at_least
    if value is None:
        raise ValueError("no statement of the part for choices is present, so that there is no threshold for it")
    return value


def agreement(statements: Sequence[Statement], covered: BoolArray) -> dict[str, float]:
    """Compare decisions (n,) with the majority of the votes: over statements, over summaries' shares, over systems'."""
    present = np.array([statement.present for statement in statements])
    clips = [(statement.article, statement.system) for statement in statements]
    systems = [statement.system for statement in statements]
    people, machine = (_means(values, clips) for values in (present, covered))
    return {
        "accuracy": round(float((covered == present).mean()), 4),
        "f1": round(float(2 * (covered & present).sum() / (covered.sum() + present.sum())), 4),
        "kendall": round(kendall(machine, people), 4),
        "system_kendall": round(kendall(_means(covered, systems), _means(present, systems)), 4),
    }


def spearman(left: FloatArray, right: FloatArray) -> float:
    """Spearman's correlation, with mean ranks for ties; NaN where one side is constant.

    >>> round(spearman(np.array([1.0, 2.0, 2.0]), np.array([0.1, 0.3, 0.4])), 4)
    0.866
    """
    from scipy.stats import rankdata

    return float(np.corrcoef(rankdata(left), rankdata(right))[0, 1])


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
