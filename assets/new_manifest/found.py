"""What is found in a source of data: clips with their captions, what was guessed, and what was left out and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

# Who wrote a caption whose source does not say so.
UNNAMED_SYSTEM = "captions"


class NoManifest(ValueError):
    """A manifest cannot be made of this source, or not there; the message names the remedy."""

    plain = True


@dataclass(frozen=True, slots=True)
class Caption:
    """A caption of a clip. segments: objects of `start_s`, `end_s` in seconds and `text`. extra: fields of its own."""

    text: str
    role: Literal["reference", "candidate"] = "candidate"
    system: str | None = None
    caption_id: str | None = None
    segments: Sequence[Mapping[str, Any]] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Clip:
    """A video and captions of it. path: as the manifest writes it; None for a video that is text only."""

    video_id: str
    path: str | None
    captions: tuple[Caption, ...]


@dataclass(slots=True)
class LeftOut:
    """Things that were left out for one reason: how many, and the first of them."""

    first: str
    n: int = 0


@dataclass(slots=True)
class Findings:
    """What was guessed about a source, in sentences, and what was left out, by the reason."""

    guesses: list[str] = field(default_factory=list)
    left_out: dict[str, LeftOut] = field(default_factory=dict)

    def guess(self, sentence: str) -> None:
        """Remember a guess once."""
        if sentence not in self.guesses:
            self.guesses.append(sentence)

    def leave_out(self, why: str, what: str, n: int = 1) -> None:
        """Count something that does not go into the manifest."""
        self.left_out.setdefault(why, LeftOut(what)).n += n

    def said(self) -> str:
        """What was left out, in words; nothing where all was taken."""
        return "; ".join(f"{row['left out']} ({row['n']}, such as {row['first']})" for row in self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """What was left out as rows of a table."""
        return [{"left out": why, "n": each.n, "first": each.first} for why, each in self.left_out.items()]
