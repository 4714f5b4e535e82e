"""How long ingest, facts and scores of a manifest will take, measured by doing all of it for the first rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from assets.holdings import Holdings, size_of_file
from assets.ingest.rejects import Reject
from assets.ingest.rows import VideoRow
from assets.reports.text import listed, plural
from assets.scores.base import Refusing, Scorer
from assets.scores.run import score_now
from assets.sources.base import WithoutDatabase, chain
from assets.unstored import unstored_video
from db.evidence.frames import PendingVideo
from db.scores.work import PendingSample
from metrics_core.facts.languages import language_of
from metrics_core.facts.texts import text_facts
from metrics_core.frames import DecodingWorker, FrameReadError
from metrics_core.models.sentence_splitter import RuleSplitter
from metrics_core.models.unusable import ModelUnusable

T = TypeVar("T")
Clock = Callable[[], float]
# A rate is known well enough after so many seconds of work, whatever the rows are like.
LONG_ENOUGH_S = 1.0
# Runs work on many rows at once; on a busy machine a call for one row takes many times its share.
SECOND_LOT = 4
# What the runs of a command and its page cost beside the work on rows, on two cores.
START_S = 8.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """About how long everything takes, in seconds, once the models are loaded.

    videos, scores: how many were done to measure it. not_timed: metrics whose time is not in it, as servers answer.
    """

    seconds: float
    videos: int
    scores: int
    not_timed: tuple[str, ...] = ()

    def line(self) -> str:
        """The estimate as a sentence of the plan.

        >>> Estimate(66, 1, 9).line()
        'time: about 70 s for all of it, measured on 1 video and 9 scores of the first captions'
        >>> Estimate(400, 0, 0, ("qeva",)).line()
        'time: about 7 minutes for all of it but qeva, whose servers were not asked'
        """
        measured = [plural(self.videos, "video")] if self.videos else []
        measured += [f"{plural(self.scores, 'score')} of the first captions"] if self.scores else []
        but = f" but {listed(self.not_timed)}, whose servers were not asked" if self.not_timed else ""
        return f"time: {in_words(self.seconds)} for all of it{but}" + (
            f", measured on {listed(measured)}" if measured else ""
        )


@dataclass(frozen=True, slots=True)
class Rate:
    """Seconds for a unit of work, and how many things were done to measure it."""

    seconds: float
    n: int


def estimate(
    folder: Path, holdings: Holdings, scorers: Collection[Scorer], clock: Clock = time.perf_counter
) -> Estimate:
    """Estimate how long everything takes for the holdings of a manifest in this folder, with these scorers.

    Decodes the first files, describes the first texts and scores the first samples that can be scored, each for about a
    second beside the loading of models, which then stay loaded. Stores nothing and asks no server.
    """
    videos = _time_of_videos(folder, holdings, clock)
    texts = rate(_describe, [sample.text for sample in holdings.first], clock)
    timed = [scorer for scorer in scorers if not any(source.asks_servers for source in chain(scorer.sources))]
    scores = [_time_of_scores(folder, holdings, scorer, clock) for scorer in timed]
    seconds = START_S + videos.seconds * holdings.size_bytes + holdings.samples * texts.seconds
    return Estimate(
        seconds + sum(each.seconds for each in scores) * holdings.samples,
        videos.n,
        sum(each.n for each in scores),
        tuple(scorer.metric for scorer in scorers if scorer not in timed),
    )


def rate(
    work: Callable[[Sequence[T]], object], things: Sequence[T], clock: Clock, size: Callable[[T], float] = lambda _: 1.0
) -> Rate:
    """Measure how long the work takes for each unit of size.

    The first thing pays for whatever is loaded, and counts only if it is the only one. Then SECOND_LOT of the others
    are done at once, then twice as many, until they have taken LONG_ENOUGH_S or all are done.
    """
    spans: list[float] = []
    sizes: list[float] = []
    place, wanted = 0, 1
    while place < len(things) and sum(spans[1:]) < LONG_ENOUGH_S:
        chunk = things[place : place + wanted]
        began = clock()
        work(chunk)
        spans.append(clock() - began)
        sizes.append(sum(map(size, chunk)))
        wanted = 2 * wanted if place else SECOND_LOT
        place += len(chunk)
    seconds, units = (sum(each[1:] or each) for each in (spans, sizes))
    return Rate(seconds / units if units else 0.0, place)


def _time_of_videos(folder: Path, holdings: Holdings, clock: Clock) -> Rate:
    """Seconds for each byte of the files: to examine them as ingest does, and to measure them for facts."""
    rows = [(row, size) for row in holdings.videos_of_first.values() if (size := size_of_file(folder, row.path or ""))]

    def look(chunk: Sequence[tuple[VideoRow, int]]) -> None:
        for row, _ in chunk:
            for video in _files(folder, row, 0):
                with suppress(FrameReadError):
                    worker.measure(Path(video.uri))

    with DecodingWorker() as worker:
        return rate(look, rows, clock, lambda of_row: of_row[1])


def _describe(texts: Sequence[str]) -> None:
    for text in texts:
        text_facts(text, RuleSplitter().split, language_of)


def _time_of_scores(folder: Path, holdings: Holdings, scorer: Scorer, clock: Clock) -> Rate:
    """Seconds of a scorer for each sample of the holdings; one that it refuses takes none."""
    samples = [each for each in holdings.first if not (isinstance(scorer, Refusing) and scorer.refusal(each))]

    def files(video_ids: Collection[int]) -> list[PendingVideo]:
        known = holdings.videos_of_first
        return [video for number in video_ids for video in _files(folder, known[number], number)]

    def work(chunk: Sequence[PendingSample]) -> None:
        score_now(scorer, chunk, files)

    try:
        found = rate(work, samples, clock)
    except (WithoutDatabase, ModelUnusable):
        # The scoring says so, or can do what cannot be done here.
        return Rate(0.0, 0)
    return Rate(found.seconds * len(samples) / max(1, len(holdings.first)), found.n)


def _files(folder: Path, row: VideoRow, number: int) -> Iterator[PendingVideo]:
    found = unstored_video(folder, row, number)
    if not isinstance(found, Reject):
        yield from found[1]


def in_words(seconds: float) -> str:
    """A duration as one says it.

    >>> [in_words(s) for s in (22, 100, 5000, 20_000)]
    ['about 30 s', 'about 2 minutes', 'about 83 minutes', 'about 6 hours']
    """
    if seconds < 90:
        return f"about {max(1, round(seconds / 10 + 0.4)) * 10:.0f} s"
    return f"about {seconds / 60:.0f} minutes" if seconds < 7200 else f"about {seconds / 3600:.0f} hours"
