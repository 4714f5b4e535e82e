"""How steady a judge is: the variance of its repeated answers about samples, as numbers and as sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy.engine import Connection

from assets.words.text import format_count, format_percent, format_short
from db.evidence.judge import load_repeated_answers
from db.evidence.models import find_model_id
from db.manifest.datasets import Dataset
from db.scores.scorers import StoredScorer
from metrics_core.judge import JudgeVariance, VariancePart, compute_judge_variance

FEWEST_TEXTS = 10
"""With fewer texts, shares of variance are anybody's guess, and none are shown."""
_NORMAL_95 = 1.96


@dataclass(frozen=True, slots=True)
class JudgeSteadiness:
    """The variance of the repeated answers of a scorer's judge about the samples of a dataset. scorer: its name."""

    scorer: str
    variance: JudgeVariance

    @property
    def sentences(self) -> list[str]:
        """Two sentences: where the variance comes from, and what that means for one answer."""
        return _explain_variance(self.scorer, self.variance)

    def as_dict(self) -> dict[str, Any]:
        """Return the variance as plain data for JSON, with its shares and the sentences."""
        shares = self.variance.shares
        return {
            "scorer": self.scorer,
            **asdict(self.variance),
            "shares": None if shares is None else dict(shares),
            "deviation": self.variance.deviation,
            "sentences": self.sentences,
        }


def load_judge_steadiness(
    connection: Connection, dataset: Dataset, scorers: Sequence[StoredScorer]
) -> list[JudgeSteadiness]:
    """Load the repeated answers of these scorers' judges about a dataset, and compute their variance: one result for
    every scorer with repeated answers about FEWEST_TEXTS (10) samples or more. Answers about texts and videos that have
    changed since do not count, and neither do first answers, which are given at another temperature.
    """
    steadiness = []
    for scorer in scorers:
        for identity in scorer.models.values():
            variance = _load_variance(connection, dataset, scorer.scorer_id, identity)
            if variance is not None and variance.n_texts >= FEWEST_TEXTS:
                steadiness.append(JudgeSteadiness(scorer.name, variance))
    return steadiness


def _explain_variance(scorer: str, variance: JudgeVariance) -> list[str]:
    """Return sentences on the variance of a judge's answers: where it comes from, and what one answer is worth.

    >>> parts = {"system": 0.0041, "video": 0.0035, "text": 0.0, "answer": 0.0024}
    >>> for sentence in _explain_variance("judge@3", JudgeVariance(90, 30, parts, 0.05)):
    ...     print(sentence.replace(", ", ",\\n").replace("; ", ";\\n"))
    Of the variance of 90 answers of judge@3 about 30 texts,
    41 % is between systems,
    35 % between videos,
    0 % between texts otherwise,
    and 24 % is the judge's own;
    two answers about one text differ by .050 on average.
    One answer lies .049 from the mean of many (standard deviation),
    so a difference below .136 between two texts that are judged once may be the judge's own;
    the mean of 4 answers halves both.
    """
    counts = f"{variance.n_answers:,} answers of {scorer} about {format_count(variance.n_texts, 'text')}"
    shares = variance.shares
    if shares is None:
        return [f"All {counts} are equal: this judge gives all texts the same score."]
    names: dict[VariancePart, str] = {
        "system": "systems",
        "video": "videos",
        "text": "texts otherwise" if len(shares) > 2 else "texts",
    }
    between = [f"{format_percent(shares[part])} between {name}" for part, name in names.items() if part in shares]
    between[0] = between[0].replace(" between", " is between")
    own = f"{format_percent(shares['answer'])} is the judge's own"
    differ = f"two answers about one text differ by {format_short(variance.mean_difference)} on average"
    first = f"Of the variance of {counts}, {', '.join(between)}, and {own}; {differ}."
    if not variance.deviation:
        return [first, "All answers about a text are equal, so that one is as good as many."]
    apart = format_short(_NORMAL_95 * 2**0.5 * variance.deviation)
    return [
        first,
        f"One answer lies {format_short(variance.deviation)} from the mean of many (standard deviation), so a "
        f"difference below {apart} between two texts that are judged once may be the judge's own; the mean of 4 "
        "answers halves both.",
    ]


def _load_variance(
    connection: Connection, dataset: Dataset, scorer_id: int, identity: Mapping[str, Any]
) -> JudgeVariance | None:
    model_id = find_model_id(connection, identity)
    if model_id is None:
        return None
    answers = load_repeated_answers(connection, model_id, scorer_id, dataset.dataset_id)
    return compute_judge_variance(
        [answer.value for answer in answers],
        [answer.sample_id for answer in answers],
        [answer.video_id for answer in answers],
        [answer.system for answer in answers],
    )
