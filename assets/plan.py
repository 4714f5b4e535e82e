"""The plan of a dataset, before anything is computed: what is there, which columns that gives, what else would need."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from assets.holdings import Holdings
from assets.home import DEMO_DATASET
from assets.models.settings import DEMO_ENCODER
from assets.reports.labels import STAND_INS
from assets.reports.text import format_count
from assets.scores.base import Refusing, Scorer
from assets.scores.pending import count_refusals, format_refusals
from db.schema.facts import TEXT_FACTS, VIDEO_FACTS
from db.schema.inputs import KEYPOINTS, REFERENCES, VIDEO, Input

_NOTHING_TO_SCORE = "captions that are no references"


@dataclass(frozen=True, slots=True)
class Plan:
    """What can be made of holdings. metrics: those that can score some sample. needs: by other metric, what it lacks.

    A metric that needs something gives none of the samples a value that it was asked about. One that can score may
    still give none where models find nothing good enough, such as questions for QEVA.
    """

    holdings: Holdings
    metrics: tuple[str, ...]
    needs: Mapping[str, str]

    def format_lines(self) -> Iterator[str]:
        """The plan in sentences."""
        yield f"there: {_format_counts(self.holdings)}"
        texts, videos = self.holdings.samples > 0, self.holdings.files > 0
        columns = [f"{len(TEXT_FACTS)} of texts"] * texts + [f"{len(VIDEO_FACTS)} of videos"] * videos
        if columns:
            yield f"facts: {' and '.join(columns)}, without a model"
        yield f"scores: {', '.join(self.metrics) or 'no metric can score this yet'}"
        for metric, needs in self.needs.items():
            yield f"{metric} needs {needs}"


def build_plan(holdings: Holdings, scorers: Mapping[str, Scorer]) -> Plan:
    """The plan of what is there: each scorer is asked what it would say of the first samples. Loads no model."""
    needs = {metric: lacks for metric, scorer in scorers.items() if (lacks := _explain_missing(holdings, scorer))}
    metrics = tuple(metric for metric in scorers if metric not in needs)
    return Plan(holdings, metrics, needs)


def list_scorer_inputs(scorers: Iterable[Scorer]) -> list[Input[Any]]:
    """The inputs of several scorers, each once."""
    return list({each.name: each for scorer in scorers for each in scorer.inputs}.values())


def _explain_missing(holdings: Holdings, scorer: Scorer) -> str | None:
    """What the scorer would need to score one of the samples; None where it can."""
    if not holdings.samples:
        return _NOTHING_TO_SCORE
    known = holdings.first_samples[0].inputs if holdings.first_samples else {}
    if not isinstance(scorer, Refusing) or any(each.name not in known for each in scorer.inputs):
        return _explain_missing_inputs(holdings, scorer)
    if (reasons := count_refusals(scorer, holdings.first_samples)) is None:
        return None
    n, why = format_refusals(reasons)
    these = f"these {n:,}" if n > 1 else "this one"
    if len(holdings.first_samples) < holdings.samples:
        these = f"the {n:,} of the first {format_count(len({sample.video_id for sample in holdings.first_samples}), 'video')}"
    return _explain_missing_inputs(holdings, scorer) or f"other samples than {these}: {why}"


def _explain_missing_inputs(holdings: Holdings, scorer: Scorer) -> str | None:
    """Which inputs the whole dataset lacks, where the scorer has use for none of those that it has; else None."""
    has = {REFERENCES: holdings.references, KEYPOINTS: holdings.keypoints, VIDEO: holdings.files}
    wanted = [each for each in has if each in scorer.inputs]
    stand_in = _find_stand_in(holdings, scorer) if VIDEO in wanted else None
    if not wanted or any(has[each] and not (each is VIDEO and stand_in) for each in wanted):
        return None
    missing = [f"{each.label}s" for each in wanted if not has[each]]
    model = [f"another model than {stand_in!r}, since {STAND_INS[stand_in]}"] if stand_in else []
    # A model that sees the video helps nobody without one.
    if missing and model and VIDEO in wanted and not has[VIDEO]:
        missing, model = missing[:-1], [f"{missing[-1]} and {model[0]}"]
    return " or ".join([*missing, *model]) + ("" if model else ": none found")


def _find_stand_in(holdings: Holdings, scorer: Scorer) -> str | None:
    """The model of the scorer that only stands in for one that sees these videos."""
    known: Collection[str] = {DEMO_ENCODER} if holdings.dataset == DEMO_DATASET else ()
    names = (model["model_id"] for model in scorer.models().values())
    return next((name for name in names if name in STAND_INS and name not in known), None)


def _format_counts(holdings: Holdings) -> str:
    """The counts in words, then what is not there.

    >>> _format_counts(Holdings(videos=2, files=2, captions=1))
    '2 videos, 1 caption; no references, keypoints, ratings'
    >>> _format_counts(Holdings(2, 1, 1, references=1, keypoints=3, ratings=2, questions=1))
    '2 videos (1 without a file), 1 caption, 1 reference, 3 keypoints, 2 ratings, 1 question'
    """
    counts = {
        "captions": holdings.captions,
        "references": holdings.references,
        "keypoints": holdings.keypoints,
        "ratings": holdings.ratings,
        "questions": holdings.questions,
    }
    without = holdings.videos - holdings.files
    there = [_format_number(holdings.videos, "videos") + (f" ({without:,} without a file)" if without else "")]
    there += [_format_number(n, name) for name, n in counts.items() if n]
    missing = [name for name, n in counts.items() if not n and name != "questions"]
    return ", ".join(there) + (f"; no {', '.join(missing)}" if missing else "")


def _format_number(n: int, name: str) -> str:
    return f"{n:,} {name if n != 1 else name.removesuffix('s')}"
