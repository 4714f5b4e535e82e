"""Records of the samples that a report's page shows, with their scores and references."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from assets.words.marked_text import Mark, TextPiece


@dataclass(frozen=True, eq=False)
class ShownScore:
    """A metric's result for one shown sample: value or status, rank, and the explanation as lines of text and table
    rows. rank: the share of samples of its kind that are worse, from 0 to 1, with equal ones counted half; None without
    a value. error: the reason why there is no value. reference: key of the reference that decided the score, where one
    of several did. marks: the pieces of the text that the metric calls wrong.
    """

    metric: str
    value: float | None
    status: str
    error: str | None
    rank: float | None
    lines: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]
    reference: str | None = None
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, eq=False)
class ShownReference:
    """A reference of a shown sample's video. decided: the metrics whose score of the sample was computed from this
    reference.
    """

    text: str
    decided: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ShownSample:
    """A sample that a report shows: its texts, frames, scores with explanations, facts and ratings, and why it is
    shown. frames: (seconds, JPEG bytes); no_frames: the reason where there are none. references: those that decided a
    score first, then some others, of n_references in all. facts: of its text and its video, by name. ratings: by
    aspect, then by rater. pieces: the caption or the answer, divided at what a metric calls wrong; () without such.
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
    pieces: tuple[TextPiece, ...] = ()


T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class SampleGroup(Generic[T]):
    """Samples that a report shows for one reason, with a title for the page and a short name. The samples are (id,
    reason) pairs when they are chosen, and records (`ShownSample`) once their contents are loaded.
    """

    title: str
    name: str
    samples: tuple[T, ...]
