"""Records of a report's first screen: which metric to trust, which system is best, what is unusual, and what to do
next.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

TrafficLight = Literal["good", "middle", "bad", "open"]
"""The colour of an answer: good is green, middle slate (a finding without a clear gain), bad red (it misleads), and
open (not decided) grey. A text always comes with it.
"""


@dataclass(frozen=True, slots=True)
class ReportAnswer:
    """One answer of a report's first screen: its colour (`light`), a headline of a few words, and the sentences that
    explain it.
    """

    light: TrafficLight
    headline: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NextStep:
    """One proposal of what to do next: a sentence, and a shell command that does it; None where one command is not
    enough.
    """

    sentence: str
    command: str | None = None


@dataclass(frozen=True, slots=True)
class ReportAnswers:
    """The first screen of a report. trust: the answer to which metric to trust; best: to which system is best. caveat:
    who rated if no people did, and what is used in place of models; None for neither. notable: sentences on videos or
    captions that are unusual by their facts. steps: at most three next steps, the most helpful first.
    """

    trust: ReportAnswer
    best: ReportAnswer
    caveat: str | None
    notable: tuple[str, ...]
    steps: tuple[NextStep, ...]

    @classmethod
    def read(cls, numbers: Path) -> ReportAnswers:
        """Read the first screen of a report from the file of its numbers, `report.json`."""
        given = json.loads(numbers.read_text(encoding="utf-8"))["answers"]
        trust, best = (
            ReportAnswer(**{**given[name], "sentences": tuple(given[name]["sentences"])}) for name in ("trust", "best")
        )
        steps = tuple(NextStep(**step) for step in given["steps"])
        return cls(trust, best, given["caveat"], tuple(given["notable"]), steps)

    def format_lines(self) -> Iterator[tuple[str, str]]:
        """Yield the first screen as plain text, a (name, text) pair for every item. The names are "trust", "best
        system", "caveat" if there is one, then "stands out" for every unusual fact and "next" for every step, whose
        text ends with its command if it has one.
        """
        for name, answer in (("trust", self.trust), ("best system", self.best)):
            yield name, f"{answer.headline}. {' '.join(answer.sentences)}".rstrip()
        if self.caveat:
            yield "caveat", self.caveat
        yield from (("stands out", sentence) for sentence in self.notable)
        for step in self.steps:
            yield "next", f"{step.sentence}{f' {step.command}' if step.command else ''}"
