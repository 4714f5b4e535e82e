"""Matchers of open answers against people on VAQ-Bench: `python -m benchmarks.qeva_matchers`.

900 questions about videos with a reference answer and 2,666 answers, each labelled right or wrong by a person. Half of
the questions, by the hash of their name, is there for choices: which form of an entailment matcher, and the thresholds.
The other half is reported: area under the ROC curve, and accuracy and balanced accuracy at the chosen threshold, each
with a bootstrap interval over questions. Most wrong answers are made up (answers to other questions, and answers
altered by a program); "models" are the answers of three models alone, which are harder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import rankdata

from benchmarks.ecs_data import require
from benchmarks.ecs_run import Answers, Embeddings
from benchmarks.measure import RESULTS, save
from metrics_core.arrays import BoolArray, FloatArray, IntArray
from metrics_core.ecs.verifier import make_offline_verifier
from metrics_core.models.text_encoder import make_text_encoder
from metrics_core.qeva.offline.answerers import CosineMatcher, EntailmentMatcher, token_f1
from metrics_core.qeva.records import Question, Reply

RESAMPLES = 1000
FORMS = {
    "candidate entails reference": ("{answer}", "{reference}"),
    "reference entails candidate": ("{reference}", "{answer}"),
    "question, candidate entails reference": ("{question} {answer}", "{question} {reference}"),
    "question, reference entails candidate": ("{question} {reference}", "{question} {answer}"),
}


@dataclass(frozen=True)
class Answer:
    """One labelled answer: the number of its question, whether that is for choices, and who gave it."""

    question: str
    reference: str
    answer: str
    right: bool
    number: int
    for_choices: bool
    by_model: bool


def answers() -> list[Answer]:
    """All labelled answers."""
    rows = json.loads((require("vaq_bench") / "VAQ_Bench.json").read_text(encoding="utf-8"))
    return [
        Answer(
            row["question"],
            row["ground_truth"],
            # A cut for the slower forms: the verifier reads 512 tokens of a premise, and less of a hypothesis.
            " ".join(given["text"].split()[:150]),
            given["label"] == 1,
            number,
            hashlib.sha256(row["question_id"].encode()).digest()[0] % 2 == 0,
            name.startswith("Model"),
        )
        for number, row in enumerate(rows)
        for name, given in row["candidates"].items()
    ]


def scores_of(given: Sequence[Answer], verifier: Answers, encoder: Embeddings) -> dict[str, FloatArray]:
    """The score of every answer by every matcher."""
    pairs = [(asked(each), Reply("ok", each.answer, each.answer)) for each in given]
    found = {
        "token F1": np.array([token_f1(each.answer, each.reference) for each in given]),
        "cosine": np.array(CosineMatcher(encoder).compute_cosines(pairs)),
        "the default: EntailmentMatcher": np.array(
            EntailmentMatcher(verifier, 0.5).compute_probabilities(pairs), dtype=np.float64
        ),
    }
    for name, (premise, hypothesis) in FORMS.items():
        texts = [(premise.format(**vars(each)), hypothesis.format(**vars(each))) for each in given]
        found[name] = verifier.entailment(texts).probabilities
    forwards, backwards, *_ = (found[name] for name in FORMS)
    return found | {"both directions, the lower": np.minimum(forwards, backwards)}


def asked(each: Answer) -> Question:
    """The question of an answer."""
    return Question("coverage", "open", each.question, each.reference)


def auc(scores: FloatArray, right: BoolArray) -> float:
    """The share of pairs of a right and a wrong answer in which the right one scores higher; ties count half."""
    n_right = int(right.sum())
    ranks = rankdata(scores)[right].sum()
    return float((ranks - n_right * (n_right + 1) / 2) / (n_right * (len(right) - n_right)))


def balanced_accuracy(scores: FloatArray, right: BoolArray, threshold: float) -> float:
    """The mean of the shares of right and of wrong answers that are judged rightly."""
    judged = scores >= threshold
    return float((judged[right].mean() + (~judged[~right]).mean()) / 2)


def accuracy(scores: FloatArray, right: BoolArray, threshold: float) -> float:
    """The share of answers that are judged rightly."""
    return float(((scores >= threshold) == right).mean())


def best_threshold(scores: FloatArray, right: BoolArray) -> float:
    """The score with the best balanced accuracy as a threshold."""
    return float(max(np.unique(scores), key=lambda threshold: balanced_accuracy(scores, right, threshold)))


def with_interval(measure: Any, scores: FloatArray, right: BoolArray, question: IntArray) -> dict[str, float]:
    """A measure with its 95 % percentile interval; every resample draws questions with all their answers."""
    rng = np.random.default_rng(0)
    members = [np.flatnonzero(question == number) for number in np.unique(question)]
    values = []
    for _ in range(RESAMPLES):
        rows = np.concatenate([members[i] for i in rng.integers(0, len(members), len(members))])
        values.append(measure(scores[rows], right[rows]))
    low, high = np.quantile(values, [0.025, 0.975])
    return {"value": measure(scores, right), "low": float(low), "high": float(high)}


def row_of(scores: FloatArray, given: Sequence[Answer]) -> dict[str, Any]:
    """One matcher: its area on the half for choices, its threshold, and its results on the other half."""
    right, choices, by_model = (
        np.array([getattr(each, name) for each in given]) for name in ("right", "for_choices", "by_model")
    )
    number = np.array([each.number for each in given])
    threshold = best_threshold(scores[choices], right[choices])
    row: dict[str, Any] = {"threshold": threshold, "auc_for_choices": auc(scores[choices], right[choices])}
    for name, part in (("all", ~choices), ("models", ~choices & by_model)):
        measures = {
            "auc": auc,
            "accuracy": partial(accuracy, threshold=threshold),
            "balanced_accuracy": partial(balanced_accuracy, threshold=threshold),
        }
        row[name] = {
            measured: with_interval(measure, scores[part], right[part], number[part])
            for measured, measure in measures.items()
        }
        row[name] |= {"answers": int(part.sum()), "right": float(right[part].mean())}
    return row


def table(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The lines to print."""
    lines = []
    for name, row in rows.items():
        lines.append(f"{name}: threshold {row['threshold']:.4f}, AUC for choices {row['auc_for_choices']:.3f}")
        for part in ("all", "models"):
            cells = [
                f"{measured} {each['value']:.3f} [{each['low']:.3f}, {each['high']:.3f}]"
                for measured, each in row[part].items()
                if isinstance(each, dict)
            ]
            lines.append(
                f"    {part:7s}{row[part]['answers']:6d} answers, {row[part]['right']:.3f} right; " + "; ".join(cells)
            )
    return lines


def main() -> None:
    """Score all answers, print the table and write results/qeva_matchers.json."""
    import torch

    torch.set_num_threads(1)
    verifier, encoder = Answers(make_offline_verifier()), Embeddings(make_text_encoder("offline"))
    given = answers()
    rows = {name: row_of(scores, given) for name, scores in scores_of(given, verifier, encoder).items()}
    print(*table(rows), sep="\n")
    result = {"verifier": verifier.identity.as_dict(), "encoder": encoder.identity.as_dict(), "matchers": rows}
    result["cost"] = {"judging_s": verifier.seconds, "embedding_s": encoder.seconds, "pairs": verifier.n_pairs}
    print(f"written to {save(RESULTS / 'qeva_matchers.json', result)}")


if __name__ == "__main__":
    main()
