"""The result of a stress of a metric: what is stored of it, and rewrites to look at."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from assets.stress.sentences import explain_effect, explain_stress, find_label
from db.scores.stress import Stress


@dataclass(frozen=True, slots=True)
class ShownRewrite:
    """A caption and one rewrite of it, with both values. status: "ok" where the rewrite has a value."""

    sample: str
    kind: str
    text: str
    rewrite: str
    before: float
    after: float | None
    status: str


@dataclass(frozen=True, slots=True)
class StressResult:
    """The outcome of a stress of one scorer on a dataset (`stress`), as it is stored, with the names of the dataset and
    of the scorer's models. shown: for the first captions of the draw, every rewrite.
    """

    dataset: str
    models: tuple[str, ...]
    stress: Stress
    shown: tuple[ShownRewrite, ...]

    @property
    def scorer(self) -> str:
        """Metric and id of the scorer, such as `vcs@3`."""
        return f"{self.stress.metric}@{self.stress.scorer_id}"

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, with the sentences that follow from the effects."""
        metric = self.stress.metric
        plain = asdict(self.stress)
        del plain["scorer_id"], plain["stressed_at"]
        return {
            "dataset": self.dataset,
            "scorer": self.scorer,
            "models": self.models,
            **plain,
            "sentences": explain_stress(self.stress, metric),
            "effects": [
                {**asdict(effect), "label": find_label(effect), "sentence": explain_effect(effect, metric)}
                for effect in self.stress.effects
            ],
            "shown": [asdict(rewrite) for rewrite in self.shown],
        }
