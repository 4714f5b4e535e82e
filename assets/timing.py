"""An estimate of how long ingest, facts and scores of a manifest will take, measured on its first rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from assets.holdings import Holdings, measure_file_size
from assets.ingest.rejects import Reject
from assets.ingest.rows import VideoRow
from assets.reports.text import format_count, join_names
from assets.scores.base import Refusing, Scorer
from assets.scores.run import score_without_database
from assets.sources.base import NeedsDatabase, walk_sources
from assets.sources.frames import hold_video_file
from assets.unstored_samples import inspect_unstored_video
from db.evidence.frames import StoredVideo
from db.scores.pending import PendingSample
from metrics_core.facts.languages import detect_languages
from metrics_core.facts.models import find_fact_models
from metrics_core.facts.texts import compute_text_facts
from metrics_core.frames import DecodingWorker, FrameReadError
from metrics_core.models.errors import ModelUnusable
from metrics_core.models.sentence_splitter import RuleSplitter

T = TypeVar("T")
Clock = Callable[[], float]
# A rate is known well enough after so many seconds of work, whatever the rows are like.
MEASURED_S = 1.0
# Runs work on many rows at once; on a busy machine a call for one row takes many times its share.
SECOND_CHUNK = 4
# Seconds that the runs of a command and its page take in addition to the work on rows, on two cores.
START_S = 8.0


@dataclass(frozen=True, slots=True)
class TimeEstimate:
    """The estimated seconds of ingest, facts and scores of a manifest once the models are loaded. `n_videos` and
    `n_scores` count what was done to measure it. `untimed_metrics` are not included, since model servers answer for
    them.
    """

    seconds: float
    n_videos: int
    n_scores: int
    untimed_metrics: tuple[str, ...] = ()

    def format_line(self) -> str:
        """Format the estimate as a line of the plan that begins with "time:", with what was measured for it.

        >>> TimeEstimate(66, 1, 9).format_line()
        'time: about 70 s for all of it, measured on 1 video and 9 scores of the first captions'
        >>> TimeEstimate(400, 0, 0, ("qeva",)).format_line()
        'time: about 7 minutes for all of it but qeva, whose servers were not asked'
        """
        measured = [format_count(self.n_videos, "video")] if self.n_videos else []
        measured += [f"{format_count(self.n_scores, 'score')} of the first captions"] if self.n_scores else []
        but = f" but {join_names(self.untimed_metrics)}, whose servers were not asked" if self.untimed_metrics else ""
        return f"time: {format_duration(self.seconds)} for all of it{but}" + (
            f", measured on {join_names(measured)}" if measured else ""
        )


@dataclass(frozen=True, slots=True)
class MeasuredRate:
    """The measured seconds per unit of work, such as a byte or a sample, and the number of things that were done to
    measure it.
    """

    seconds: float
    n_measured: int


def estimate_time(
    folder: Path, holdings: Holdings, scorers: Collection[Scorer], clock: Clock = time.perf_counter
) -> TimeEstimate:
    """Estimate how long ingest, facts and scores take for a manifest, by doing each for about a second on its first
    rows. Files are decoded or fetched, and models load and stay loaded. Nothing is stored; scorers that ask model
    servers are left out.

    folder: that of the manifest. clock: returns the time in seconds.
    """
    videos = _measure_videos(folder, holdings, clock)
    texts = measure_rate(_compute_facts, [sample.text for sample in holdings.first_samples], clock)
    timed = [scorer for scorer in scorers if not any(source.asks_servers for source in walk_sources(scorer.sources))]
    scores = [_measure_scores(folder, holdings, scorer, clock) for scorer in timed]
    seconds = START_S + videos.seconds * holdings.size_bytes + holdings.samples * texts.seconds
    return TimeEstimate(
        seconds + sum(rate.seconds for rate in scores) * holdings.samples,
        videos.n_measured,
        sum(rate.n_measured for rate in scores),
        tuple(scorer.metric for scorer in scorers if scorer not in timed),
    )


def measure_rate(
    work: Callable[[Sequence[T]], object], things: Sequence[T], clock: Clock, size: Callable[[T], float] = lambda _: 1.0
) -> MeasuredRate:
    """Measure the seconds that `work` takes for each unit of size, by doing the first things for about a second; 0
    without things. size: of a thing, by default 1. clock: returns the time in seconds.

    The first thing pays for whatever is loaded, and counts only if it is the only one. Then SECOND_CHUNK of the others
    are done at once, then twice as many, until they have taken MEASURED_S or all are done.
    """
    spans: list[float] = []
    sizes: list[float] = []
    place, n_next = 0, 1
    while place < len(things) and sum(spans[1:]) < MEASURED_S:
        chunk = things[place : place + n_next]
        began = clock()
        work(chunk)
        spans.append(clock() - began)
        sizes.append(sum(map(size, chunk)))
        n_next = 2 * n_next if place else SECOND_CHUNK
        place += len(chunk)
    seconds, units = (sum(values[1:] or values) for values in (spans, sizes))
    return MeasuredRate(seconds / units if units else 0.0, place)


def _measure_videos(folder: Path, holdings: Holdings, clock: Clock) -> MeasuredRate:
    """Measure the seconds for each byte of the files: to inspect them as ingest does, and to compute facts."""
    rows = [
        (row, size) for row in holdings.first_videos.values() if (size := measure_file_size(folder, row.path or ""))
    ]

    with_models = find_fact_models() is not None

    def look(chunk: Sequence[tuple[VideoRow, int]]) -> None:
        for row, _ in chunk:
            for video in _inspect_files(folder, row, 0):
                with suppress(FrameReadError), hold_video_file(video) as path:
                    worker.measure_video(path, with_models=with_models)

    with DecodingWorker() as worker:
        return measure_rate(look, rows, clock, lambda sized_row: sized_row[1])


def _compute_facts(texts: Sequence[str]) -> None:
    compute_text_facts(texts, RuleSplitter().split, detect_languages)


def _measure_scores(folder: Path, holdings: Holdings, scorer: Scorer, clock: Clock) -> MeasuredRate:
    """Measure the seconds of a scorer for each sample of the holdings; a sample that it refuses takes none."""
    samples = [
        sample for sample in holdings.first_samples if not (isinstance(scorer, Refusing) and scorer.refusal(sample))
    ]

    def files(video_ids: Collection[int]) -> list[StoredVideo]:
        known = holdings.first_videos
        return [video for number in video_ids for video in _inspect_files(folder, known[number], number)]

    def work(chunk: Sequence[PendingSample]) -> None:
        score_without_database(scorer, chunk, files)

    try:
        rate = measure_rate(work, samples, clock)
    except (NeedsDatabase, ModelUnusable):
        # The scoring itself reports this, or can do what is not possible here.
        return MeasuredRate(0.0, 0)
    return MeasuredRate(rate.seconds * len(samples) / max(1, len(holdings.first_samples)), rate.n_measured)


def _inspect_files(folder: Path, row: VideoRow, number: int) -> Iterator[StoredVideo]:
    inspected = inspect_unstored_video(folder, row, number)
    if not isinstance(inspected, Reject):
        yield from inspected[1]


def format_duration(seconds: float) -> str:
    """Format a number of seconds for people, such as "about 2 minutes": below 90 in steps of ten seconds, from two
    hours on in hours.

    >>> [format_duration(s) for s in (22, 100, 5000, 20_000)]
    ['about 30 s', 'about 2 minutes', 'about 83 minutes', 'about 6 hours']
    """
    if seconds < 90:
        return f"about {max(1, round(seconds / 10 + 0.4)) * 10:.0f} s"
    return f"about {seconds / 60:.0f} minutes" if seconds < 7200 else f"about {seconds / 3600:.0f} hours"
