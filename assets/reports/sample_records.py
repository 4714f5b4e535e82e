"""The facts about a sample to look at on a report's page, as plain records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar


@dataclass(frozen=True, eq=False)
class ShownScore:
    """A metric's score of one sample. rank: its place among all samples of its kind, from 0 (worst) to 1.

    reference: key of the reference that decided, where one of several did.
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
    """A reference of a sample's video. decided: the metrics whose score it made."""

    text: str
    decided: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ShownSample:
    """A sample to look at. frames: the seconds and JPEG bytes of some frames; no_frames: why there are none.

    references: those that decided come first, and some others; n_references: of how many. facts: by name, those that
    are known of its text and its video.
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
    """Samples chosen for one reason: their facts, or before these are read their ids."""

    title: str
    name: str
    samples: tuple[T, ...]
