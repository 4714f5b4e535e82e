"""What a report says first, as plain records: two answers, what stands out, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

TrafficLight = Literal["good", "middle", "bad", "open"]
"""A colour with a mark of its own; words stand beside it."""


@dataclass(frozen=True, slots=True)
class ReportAnswer:
    """A few words, the sentences that explain them, and how good the news is."""

    light: TrafficLight
    headline: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NextStep:
    """What to do next, and the command that does it where one is enough."""

    sentence: str
    command: str | None = None


@dataclass(frozen=True, slots=True)
class ReportAnswers:
    """The first screen of a report. notable: what stands out among the facts, in sentences."""

    trust: ReportAnswer
    best: ReportAnswer
    notable: tuple[str, ...]
    steps: tuple[NextStep, ...]

    def format_lines(self) -> Iterator[tuple[str, str]]:
        """The answers as plain text: a name and a sentence each."""
        for name, answer in (("trust", self.trust), ("best system", self.best)):
            yield name, f"{answer.headline}. {' '.join(answer.sentences)}".rstrip()
        yield from (("stands out", sentence) for sentence in self.notable)
        for step in self.steps:
            yield "next", f"{step.sentence}{f' {step.command}' if step.command else ''}"
