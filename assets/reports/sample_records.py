"""Records of the samples that a report's page shows, with their scores and references."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar


@dataclass(frozen=True, eq=False)
class ShownScore:
    """A metric's result for one shown sample: value or status, rank, and the explanation as lines of text and table
    rows.

    rank: the sample's place among all samples of its kind, from 0 (worst) to 1. reference: key of the reference that
    decided the score, where one of several did.
    """

    metric: str
    value: float | None
    status: str
    error: str | None
    rank: float | None
    lines: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]
    reference: str | None = None


@dataclass(frozen=True, eq=False)
class ShownReference:
    """A reference of a shown sample's video. decided: the metrics whose score was computed from this reference."""

    text: str
    decided: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ShownSample:
    """A sample that a report shows: its texts, frames, scores with explanations, facts and ratings, and why it is
    shown.

    frames: seconds and JPEG bytes; no_frames: the reason where there are none. references: those that decided a score
    first, then some others, of n_references in all. facts: of its text and its video, by name. ratings: by aspect, then
    by rater.
    """

    key: str
    kind: str
    system: str
    video: str
    text: str
    question: str | None
    answer: str | None
    references: tuple[ShownReference, ...]
    n_references: int
    why: tuple[str, ...]
    scores: tuple[ShownScore, ...]
    facts: Mapping[str, Any]
    ratings: Mapping[str, Mapping[str, float]]
    frames: tuple[tuple[float, bytes], ...]
    no_frames: str | None


T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class SampleGroup(Generic[T]):
    """Samples chosen for one reason. They are ids with a reason first, and records once their contents are loaded."""

    title: str
    name: str
    samples: tuple[T, ...]
