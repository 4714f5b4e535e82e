"""The plan of a dataset before anything is computed: what it holds, what can be scored, and what is missing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from assets.home.folder import DEMO_DATASET
from assets.models.settings import DEMO_ENCODER, HUMAN_NOTES, NO_JUDGE
from assets.planning.holdings import Holdings
from assets.scores.base import Refusing, Scorer
from assets.scores.pending import count_refusals, format_refusals
from assets.words.text import format_count, group_names, join_names
from db.schema.facts import FACTS_BY_MODELS, TEXT_FACTS, VIDEO_FACTS
from db.schema.inputs import KEYPOINTS, REFERENCES, VIDEO, Input
from metrics_core.facts.models import find_fact_models

# The sentences on the model that a metric needs, by the model that cannot see the videos.
_BETTER_MODELS = {
    DEMO_ENCODER: "another encoder: the built-in encoder only works on the demo. Set REELSIEVE_IMAGE_TEXT_ENCODER "
    "and REELSIEVE_IMAGE_TEXT_CHECKPOINT",
    NO_JUDGE: "a vision model as judge. Set REELSIEVE_JUDGE_MODEL",
    HUMAN_NOTES: "a model that sees videos, in place of captions by people. Set REELSIEVE_QEVA_VIDEO_MODEL",
}
_NOTHING_TO_SCORE = "candidate captions"


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a dataset or manifest: its `holdings`, the names of the `metrics` that can score some samples of its
    first 500 videos in the order of keys, and `needs`, what is missing by name of every other metric. fact_models: the
    models that measure text on screen and speech; None if not installed.

    A metric that can score may still give no value where models find nothing good enough, such as questions for QEVA.
    """

    holdings: Holdings
    metrics: tuple[str, ...]
    needs: Mapping[str, str]
    fact_models: str | None

    def format_lines(self) -> Iterator[str]:
        """Yield the lines of the plan: counts of what it holds, facts if there are any, text and speech if there are
        videos, the metrics that can score, and a line "METRIC needs ..." for those that cannot, by need.
        """
        yield f"holds: {_format_counts(self.holdings)}"
        texts, videos = self.holdings.samples > 0, self.holdings.files > 0
        n_by_models = len(FACTS_BY_MODELS)
        facts = [f"{len(TEXT_FACTS)} about each caption"] * texts
        facts += [f"{len(VIDEO_FACTS) - n_by_models} about each video"] * videos
        if facts:
            yield f"facts: {' and '.join(facts)}; no model needed"
        if videos and self.fact_models:
            yield f"text on screen and speech: {n_by_models} more facts about each video, by {self.fact_models}"
        elif videos:
            yield "text on screen and speech: not measured; install the extra `facts` (pip install 'reelsieve[facts]')"
        yield f"scores: {', '.join(self.metrics) or 'no metric can score this yet'}"
        for needs, metrics in group_names(self.needs).items():
            yield f"{join_names(metrics)} need{'s' if len(metrics) == 1 else ''} {needs}"


def build_plan(holdings: Holdings, scorers: Mapping[str, Scorer]) -> Plan:
    """Build the plan for these holdings. A metric needs something where there are no samples, where the holdings have
    none of the inputs that it can use, or where its scorer would refuse all first samples. scorers: by metric. Loads no
    model.
    """
    needs = {metric: lacks for metric, scorer in scorers.items() if (lacks := _explain_missing(holdings, scorer))}
    metrics = tuple(metric for metric in scorers if metric not in needs)
    return Plan(holdings, metrics, needs, find_fact_models())


def list_scorer_inputs(scorers: Iterable[Scorer]) -> list[Input[Any]]:
    """List the inputs that any of the scorers needs, one of each name, in the order in which they first occur."""
    return list({needed.name: needed for scorer in scorers for needed in scorer.inputs}.values())


def _explain_missing(holdings: Holdings, scorer: Scorer) -> str | None:
    """Explain what the scorer would need to score one of the samples; None where it can."""
    if not holdings.samples:
        return _NOTHING_TO_SCORE
    known = holdings.first_samples[0].inputs if holdings.first_samples else {}
    if not isinstance(scorer, Refusing) or any(needed.name not in known for needed in scorer.inputs):
        return _explain_missing_inputs(holdings, scorer)
    if (reasons := count_refusals(scorer, holdings.first_samples)) is None:
        return None
    n, why = format_refusals(reasons)
    these = f"these {n:,}" if n > 1 else "this one"
    if len(holdings.first_samples) < holdings.samples:
        n_videos = len({sample.video_id for sample in holdings.first_samples})
        these = f"the {n:,} of the first {format_count(n_videos, 'video')}"
    return _explain_missing_inputs(holdings, scorer) or f"other samples than {these}: {why}"


def _explain_missing_inputs(holdings: Holdings, scorer: Scorer) -> str | None:
    """Name the inputs that the dataset lacks, where the scorer can use none of those that it has; else None."""
    has = {REFERENCES: holdings.references, KEYPOINTS: holdings.keypoints, VIDEO: holdings.files}
    used = [name for name in has if name in scorer.inputs]
    stand_in = _find_stand_in(holdings, scorer) if VIDEO in used else None
    if not used or any(has[needed] and not (needed is VIDEO and stand_in) for needed in used):
        return None
    missing = [f"{needed.label}s" for needed in used if not has[needed]]
    model = [_BETTER_MODELS[stand_in]] if stand_in else []
    # A model that sees the video is of no use without one.
    if missing and model and VIDEO in used and not has[VIDEO]:
        missing, model = missing[:-1], [f"{missing[-1]} and {model[0]}"]
    return " or ".join([*missing, *model]) + ("" if model else ": none found")


def _find_stand_in(holdings: Holdings, scorer: Scorer) -> str | None:
    """Find the scorer's model that replaces one that sees these videos; None where there is none."""
    known: Collection[str] = {DEMO_ENCODER} if holdings.dataset == DEMO_DATASET else ()
    names = (model["model_id"] for model in scorer.models().values())
    return next((name for name in names if name in _BETTER_MODELS and name not in known), None)


def _format_counts(holdings: Holdings) -> str:
    """Format the counts as a sentence, then what is missing.

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
    contents = [format_count(holdings.videos, "video") + (f" ({without:,} without a file)" if without else "")]
    contents += [format_count(n, name.removesuffix("s")) for name, n in counts.items() if n]
    missing = [name for name, n in counts.items() if not n and name != "questions"]
    return ", ".join(contents) + (f"; no {', '.join(missing)}" if missing else "")
