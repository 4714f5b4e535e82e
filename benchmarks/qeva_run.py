"""QEVA without a server over videos with summaries: questions, filtering, answers, scores; stages on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from benchmarks.ecs_run import Answers, Embeddings
from metrics_core.arithmetic import wilson_interval
from metrics_core.arrays import FloatArray
from metrics_core.ecs import split_premises
from metrics_core.ecs.verifier import make_offline_verifier, read_pair_threshold
from metrics_core.models.sentence_splitter import RuleSplitter
from metrics_core.models.text_encoder import make_text_encoder
from metrics_core.qeva.filtering import AnswerOutcome, FilterMark, filter_questions, judge_outcomes
from metrics_core.qeva.offline.answerers import DEFAULT_R, EntailmentAnswerer
from metrics_core.qeva.offline.rules import RuleSummaryExaminer, RuleVideoExaminer
from metrics_core.qeva.records import DIMENSIONS, Answerer, Context, ContextQuestion, QuestionSet, VideoNotes
from metrics_core.qeva.score import QevaScore, compute_dimension_score, compute_summary_score

T = TypeVar("T")
SPLITTER = RuleSplitter()
RESAMPLES = 2000
TIE = 1e-12


@dataclass(frozen=True)
class Judged:
    """The notes of a video and the summaries to score, by system."""

    notes: VideoNotes
    summaries: Mapping[str, str]


@dataclass
class Bench:
    """The offline models, each asked once for everything, and the seconds of every stage."""

    verifier: Answers = field(default_factory=lambda: Answers(make_offline_verifier()))
    encoder: Embeddings = field(default_factory=lambda: Embeddings(make_text_encoder("offline")))
    seconds: dict[str, float] = field(default_factory=dict)

    def answerer(self, r: int = DEFAULT_R) -> Answerer:
        """The answerer with the verifier's own threshold, which verifies r sentences for a statement."""
        return EntailmentAnswerer(self.verifier, read_pair_threshold(), SPLITTER, self.encoder, r)

    def timed(self, stage: str, call: Callable[[], T]) -> T:
        """Say that a stage begins, and keep its seconds."""
        print(f"{stage}", file=sys.stderr, flush=True)
        started = time.perf_counter()
        done = call()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - started
        return done


@dataclass(frozen=True)
class Paper:
    """A question set with the source it was written from, and the context that it is answered in."""

    questions: QuestionSet
    source: Context
    context: Context


def scores(videos: Sequence[Judged], bench: Bench) -> list[dict[str, QevaScore]]:
    """QEVA of every summary, by system, in the order of the videos."""
    # As on the platform, filters look at the nearest sentence alone.
    answerer, filtering = bench.answerer(), bench.answerer(r=1)
    keys = [(i, system) for i, video in enumerate(videos) for system in video.summaries]
    papers = bench.timed("write the questions", lambda: papers_of(videos, keys))
    marks = bench.timed("filter the questions", lambda: marks_of(papers, filtering))
    outcomes = bench.timed("answer the questions", lambda: answers_of(papers, marks, answerer))
    dimensions = [
        compute_dimension_score(paper.questions, given, found)
        for paper, given, found in zip(papers, marks, outcomes, strict=True)
    ]
    scored: list[dict[str, QevaScore]] = [{} for _ in videos]
    for (i, system), first in zip(keys, range(0, len(dimensions), 3), strict=True):
        n_sentences = len(split_premises(videos[i].summaries[system], SPLITTER))
        scored[i][system] = compute_summary_score(
            dict(zip(DIMENSIONS, dimensions[first : first + 3], strict=True)), n_sentences
        )
    return scored


def papers_of(videos: Sequence[Judged], keys: Sequence[tuple[int, str]]) -> list[Paper]:
    """Coverage, factuality and chronology of every summary, one after the other."""
    examiner, notes = RuleVideoExaminer(), [video.notes for video in videos]
    coverage, chronology = examiner.compose_coverage_questions(notes), examiner.compose_chronology_questions(notes)
    summaries = [videos[i].summaries[system] for i, system in keys]
    factuality = RuleSummaryExaminer(SPLITTER).compose_factuality_questions(summaries)
    papers = []
    for (i, _), summary, facts in zip(keys, summaries, factuality, strict=True):
        papers += [
            Paper(coverage[i], notes[i], summary),
            Paper(facts, summary, notes[i]),
            Paper(chronology[i], notes[i], summary),
        ]
    return papers


def marks_of(papers: Sequence[Paper], answerer: Answerer) -> list[list[FilterMark]]:
    """The marks of every paper; the questions of a video are filtered once."""
    asked = {(question, paper.source): None for paper in papers for question in paper.questions.questions}
    marks = dict(zip(asked, filter_questions(list(asked), answerer, answerer), strict=True))
    return [[marks[question, paper.source] for question in paper.questions.questions] for paper in papers]


def answers_of(
    papers: Sequence[Paper], marks: Sequence[Sequence[FilterMark]], answerer: Answerer
) -> list[list[AnswerOutcome]]:
    """The outcomes of every paper's kept questions."""
    kept = [
        [question for question, mark in zip(paper.questions.questions, given, strict=True) if mark.decision == "keep"]
        for paper, given in zip(papers, marks, strict=True)
    ]
    asked = [
        ContextQuestion(question, paper.context) for paper, own in zip(papers, kept, strict=True) for question in own
    ]
    replies = answerer.answer(asked)
    outcomes = iter(judge_outcomes([(one.question, reply) for one, reply in zip(asked, replies, strict=True)]))
    return [[next(outcomes) for _ in own] for own in kept]


def mean_with_interval(values: Sequence[float | None]) -> dict[str, float | int | None]:
    """The mean of one value for each video with its 95 % percentile bootstrap interval; None values are counted."""
    known: FloatArray = np.array([value for value in values if value is not None], dtype=np.float64)
    undefined = len(values) - len(known)
    if not len(known):
        return {"mean": None, "low": None, "high": None, "n": 0, "undefined": undefined}
    rng = np.random.default_rng(0)
    means = known[rng.integers(0, len(known), (RESAMPLES, len(known)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    mean = float(known.mean())
    return {"mean": mean, "low": float(low), "high": float(high), "n": len(known), "undefined": undefined}


def how_often_above(pairs: Iterable[tuple[float | None, float | None]]) -> dict[str, float | int | None]:
    """In how many videos the first value is above the second, with Wilson's 95 % interval; a tie is not above.

    Videos without one of the values are counted as undefined and left out.
    """
    listed = list(pairs)
    known = [(one, other) for one, other in listed if one is not None and other is not None]
    # Means of different sums of the same values differ in their last digits.
    above, ties = (
        sum(test(one - other) for one, other in known) for test in (lambda d: d > TIE, lambda d: abs(d) <= TIE)
    )
    low, high = wilson_interval(above, len(known))
    return {
        "above": above,
        "ties": ties,
        "of": len(known),
        "low": low,
        "high": high,
        "undefined": len(listed) - len(known),
    }


def how_often(each: Mapping[str, float | int | None]) -> str:
    """A result of `how_often_above` in words."""
    interval = "-" if each["low"] is None else f"[{each['low']:.3f}, {each['high']:.3f}]"
    return f"{each['above']} of {each['of']} {interval}, {each['ties']} ties, {each['undefined']} undefined"
