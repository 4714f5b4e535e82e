"""Why a sample has its score: the stored score, and an explanation that the scorer makes from the same evidence."""

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
    """A sample's score by a metric. `status` is None for a sample without a score; `error` says why it has no value."""

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
        """Return plain data for JSON."""
        return asdict(self)


def explain_score(
    engine: Engine, metric: str, scorer: Scorer | None, dataset: Dataset, key: str, kind: str | None = None
) -> ExplainedScore | None:
    """Explain the sample's score by the metric's active scorer; None where there is no such sample.

    scorer: None where the scores were made elsewhere. kind: of which kind the sample is, where a caption and a
    question-answer pair may have the same key.
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
    """The facts of a sample's text and video that are known, by name; a caption's where a question has the same key."""
    with engine.connect() as connection:
        sample_id = find_sample_id(connection, dataset.dataset_id, key)
        return {} if sample_id is None else load_facts(connection, [sample_id])[sample_id]


def _has_explanation(score: RowMapping) -> bool:
    """Whether there is a value, or without one what the scorer noted about its present inputs."""
    return score["value"] is not None or bool(score["components"] and score["status"] != "stale")


def _explain(engine: Engine, scorer: Scorer, score: RowMapping) -> Explanation:
    with engine.connect() as connection:
        if find_scorer_id(connection, scorer) != score["scorer_id"]:
            return Explanation(
                ["this score was made with other settings than the present ones: set those again to see why"]
            )
        samples = load_samples(connection, [score["sample_id"]], scorer.inputs, score["scorer_id"])
        evidence = load_evidence(engine, score["scorer_id"], scorer.sources, samples)
        return scorer.explain(connection, samples[0], evidence, score["components"])
