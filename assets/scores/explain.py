"""Explanations of single scores: the stored score, with the lines and rows that its scorer makes from its evidence."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy.engine import Engine, RowMapping

from assets.scores.base import Explanation, Scorer
from assets.scores.pending import find_scorer_id
from assets.sources.base import load_evidence
from db.evidence.facts import load_facts
from db.manifest.datasets import Dataset
from db.scores.pending import load_samples
from db.scores.sample_scores import find_sample_id, find_sample_score


@dataclass(frozen=True, slots=True)
class ExplainedScore:
    """A sample's score by a metric as stored, with an explanation of the value. sample: the sample's key. status: None
    for a sample without a score. error: the reason for a missing value. models: names of the scorer's models.
    explanation: empty if there is nothing to explain or the scorer is not installed here.
    """

    metric: str
    sample: str
    system: str
    text: str
    value: float | None
    status: str | None
    error: str | None
    models: list[str] = field(default_factory=list)
    explanation: Explanation = field(default_factory=Explanation)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name, ready for JSON; `explanation` becomes a dict of lines, rows and reference."""
        return asdict(self)


def explain_score(
    engine: Engine, metric: str, scorer: Scorer | None, dataset: Dataset, key: str, kind: str | None = None
) -> ExplainedScore | None:
    """Load the sample's score by the metric's active scorer and explain it from stored evidence; None if the dataset
    has no sample of this key. scorer: the metric's scorer with the present settings; None for imported scores, which
    get no explanation. kind: "caption" or "qa"; None takes the caption if both have the key.

    A score by another scorer than `scorer` gets one line that gives the reason instead of an explanation. Raises
    MissingEvidence if evidence of the score is gone.
    """
    with engine.connect() as connection:
        score = find_sample_score(connection, dataset.dataset_id, key, metric, kind)
    if score is None:
        return None
    models = [model["model_id"] for model in (score["models"] or {}).values()]
    return ExplainedScore(
        metric,
        score["sample"],
        score["system"],
        score["text"],
        score["value"],
        score["status"],
        score["error"],
        models,
        _explain(engine, scorer, score) if scorer and _has_explanation(score) else Explanation(),
    )


def load_facts_of_key(engine: Engine, dataset: Dataset, key: str) -> dict[str, Any]:
    """Load the known facts about a sample's text and video, by name; {} if the dataset has no sample of this key. key:
    the sample's; a caption comes before a question-answer pair of the same key.
    """
    with engine.connect() as connection:
        sample_id = find_sample_id(connection, dataset.dataset_id, key)
        return {} if sample_id is None else load_facts(connection, [sample_id])[sample_id]


def _has_explanation(score: RowMapping) -> bool:
    """Whether the score has a value, or else components that the scorer stored for the present inputs."""
    return score["value"] is not None or bool(score["components"] and score["status"] != "stale")


def _explain(engine: Engine, scorer: Scorer, score: RowMapping) -> Explanation:
    with engine.connect() as connection:
        if find_scorer_id(connection, scorer) != score["scorer_id"]:
            return Explanation(
                ["no explanation: this score was made with settings that are no longer in force. Set them again"]
            )
        samples = load_samples(connection, [score["sample_id"]], scorer.inputs, score["scorer_id"])
        evidence = load_evidence(engine, score["scorer_id"], scorer.sources, samples)
        return scorer.explain(connection, samples[0], evidence, score["components"])
