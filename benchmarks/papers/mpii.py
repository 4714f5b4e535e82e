"""The VCS authors' corruption test: descriptions, their variants, and the published values of every variant."""

from __future__ import annotations

import gzip
import json
import string
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from benchmarks.ecs_data import require
from benchmarks.papers.recovered import recovered_segments
from metrics_core.models.sentence_splitter import RuleSplitter

VALID_CATEGORIES = {"Word-Level and Grammar", "Brevity and Verbosity"}
# The only valid one of its category: the paper's attribute injection.
VALID_NAMES = {"Insert Attributes, Emotions and Scene"}
UNPUNCTUATED = (
    "Reverse Segments Order",
    "Jumble Segments Order",
    "Rotate Half Paragraph",
    "Scattered Segments Repetition (~50%)",
)
"""The variants that the file holds without punctuation."""
PUNCTUATION = str.maketrans("", "", string.punctuation)
SPLITTER = RuleSplitter()


@dataclass(frozen=True)
class Variant:
    """A changed description; `valid` says that it still tells the same story. published: the authors' values."""

    name: str
    category: str
    text: str
    published: Mapping[str, float]

    @property
    def valid(self) -> bool:
        """Whether the paper counts this kind of change as legitimate."""
        return self.category in VALID_CATEGORIES or self.name in VALID_NAMES


@dataclass(frozen=True)
class Base:
    """A description and its variants."""

    name: str
    text: str
    variants: tuple[Variant, ...]


@lru_cache(maxsize=1)
def bases() -> dict[str, Base]:
    """The 150 descriptions, by id."""
    with gzip.open(require("mpii_corruption") / "corruption.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    found = (Base(row["id"], row["ground_truth"], tuple(Variant(**each) for each in row["variants"])) for row in rows)
    return {base.name: base for base in found}


def segments_of(text: str) -> list[str]:
    """Sentences by the rule splitter, without punctuation, as the authors compare them."""
    return bare_segments(SPLITTER.split(text))


def segments_recovered(text: str, base: str) -> list[str]:
    """Segments of a text without punctuation, by the words that it shares with the base description."""
    return bare_segments(recovered_segments(text, SPLITTER.split(base)))


def bare_segments(segments: list[str]) -> list[str]:
    """Segments without punctuation, and without those that were nothing else."""
    return [bare for segment in segments if (bare := segment.translate(PUNCTUATION).strip())]
