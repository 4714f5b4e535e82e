"""The result of a stress of a metric: the effect of every kind of rewrite, and rewrites to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from metrics_core.stress.effects import Effect
from metrics_core.stress.rewrites import RewriteKind


@dataclass(frozen=True, slots=True)
class LookAlikes:
    """The shares of captions that look like a rewrite as they are: among the n_best best ones, and among all n."""

    best: float
    n_best: int
    all: float
    n: int


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
class StressedKind:
    """One kind of rewrite with its effect on a metric.

    n_not_applicable: drawn captions that the rule does not fit. unscored: rewrites without a value, by status.
    look_alikes: None where such captions have no simple sign.
    """

    kind: RewriteKind
    effect: Effect
    n_not_applicable: int
    unscored: Mapping[str, int]
    look_alikes: LookAlikes | None

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "name": self.kind.name,
            "label": self.kind.label,
            "description": self.kind.description,
            "keeps_truth": self.kind.keeps_truth,
            **asdict(self.effect),
            "n_not_applicable": self.n_not_applicable,
            "unscored": dict(self.unscored),
            "look_alikes": None if self.look_alikes is None else asdict(self.look_alikes),
        }


@dataclass(frozen=True)
class StressResult:
    """The outcome of a stress of one scorer on one dataset.

    scorer: its name, such as `vcs@3`. n_drawn: captions drawn. n_timed: those left out because they have times.
    n_unscored: those left out because they got no value again. n_captions, n_videos: those that were rewritten, and
    their videos. small_change: the least change of the value that counts. shown: for the first captions of the draw,
    every rewrite.
    """

    dataset: str
    metric: str
    scorer: str
    models: tuple[str, ...]
    seed: int
    n_drawn: int
    n_timed: int
    n_unscored: int
    n_captions: int
    n_videos: int
    small_change: float
    kinds: tuple[StressedKind, ...]
    shown: tuple[ShownRewrite, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, with the sentences that follow from the effects."""
        from assets.stress.sentences import explain_kind, explain_stress

        plain = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in ("kinds", "shown")}
        return {
            **plain,
            "sentences": explain_stress(self),
            "kinds": [{**each.as_dict(), "sentence": explain_kind(self.metric, each)} for each in self.kinds],
            "shown": [asdict(each) for each in self.shown],
        }
