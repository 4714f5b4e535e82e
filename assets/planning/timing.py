"""An estimate of how long facts and scores of a stored dataset will take, measured on its first rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from statistics import fmean
from typing import TypeVar

from sqlalchemy.engine import Engine

from assets.home.settings import read_settings
from assets.media.decoders import count_cores
from assets.media.settings import MediaSettings
from assets.planning.holdings import Holdings
from assets.scores.base import Refusing, Scorer
from assets.scores.run import score_without_database
from assets.sources.base import NeedsDatabase, walk_sources
from assets.sources.frames import hold_video_file
from assets.words.text import format_count, join_names
from db.evidence.facts import count_unmeasured, list_unmeasured_videos
from db.evidence.frames import StoredVideo, make_video_loader
from db.manifest.datasets import Dataset
from db.scores.pending import PendingSample
from metrics_core.facts.languages import detect_languages
from metrics_core.facts.models import find_fact_models
from metrics_core.facts.pictures import PICTURE_FACTS_VERSION
from metrics_core.facts.texts import compute_text_facts
from metrics_core.frames import DecodingWorker, FrameReadError
from metrics_core.frames.pool import compute_time_limit
from metrics_core.models.errors import ModelUnusable
from metrics_core.models.sentence_splitter import RuleSplitter

T = TypeVar("T")
Clock = Callable[[], float]
# A rate is known well enough after so many seconds of work, whatever the rows are like.
MEASURED_S = 1.0
# Runs work on many rows at once; on a busy machine a call for one row takes many times its share.
SECOND_CHUNK = 4
# Seconds that the runs of a command and its page take in addition to the work on rows, on two cores.
START_S = 6.0


@dataclass(frozen=True, slots=True)
class MeasuredTime:
    """The measured seconds per unit of work, such as a byte or a sample, and the number of things that were done to
    measure it.
    """

    seconds: float
    n_measured: int


def estimate_time(
    engine: Engine,
    dataset: Dataset,
    holdings: Holdings,
    scorers: Collection[Scorer],
    clock: Clock = time.perf_counter,
) -> str:
    """Estimate how long the missing facts and the scores of a stored dataset take, and return the line of the plan that
    begins with "time:". The first ones are done for about a second; models stay loaded, and nothing is stored. Scorers
    that ask model servers are left out, and named. clock: returns the time in seconds.
    """
    seconds, n_videos = _measure_videos(engine, dataset, clock)
    texts = measure_seconds_per_unit(_compute_facts, [sample.text for sample in holdings.first_samples], clock)
    timed = [scorer for scorer in scorers if not any(source.asks_servers for source in walk_sources(scorer.sources))]
    scores = [_measure_scores(engine, holdings, scorer, clock) for scorer in timed]
    seconds += START_S + (texts.seconds + sum(measured.seconds for measured in scores)) * holdings.samples
    untimed = [scorer.metric for scorer in scorers if scorer not in timed]
    return _format_line(seconds, n_videos, sum(measured.n_measured for measured in scores), untimed)


def _format_line(seconds: float, n_videos: int, n_scores: int, untimed_metrics: Sequence[str]) -> str:
    """Format an estimate with what was done to measure it, and the metrics that are not included.

    >>> _format_line(66, 1, 9, [])
    'time: about 70 s for facts and scores, measured on 1 video and 9 scores of the first captions'
    >>> _format_line(400, 0, 0, ["qeva"])
    'time: about 7 minutes for facts and scores but qeva, whose servers were not asked'
    """
    measured = [format_count(n_videos, "video")] if n_videos else []
    measured += [f"{format_count(n_scores, 'score')} of the first captions"] if n_scores else []
    but = f" but {join_names(untimed_metrics)}, whose servers were not asked" if untimed_metrics else ""
    return f"time: {format_duration(seconds)} for facts and scores{but}" + (
        f", measured on {join_names(measured)}" if measured else ""
    )


def measure_seconds_per_unit(
    work: Callable[[Sequence[T]], object],
    things: Sequence[T],
    clock: Clock,
    size: Callable[[T], float] = lambda _: 1.0,
    n_second: int = SECOND_CHUNK,
) -> MeasuredTime:
    """Measure the seconds that `work` takes for each unit of size, by doing the first things for about a second; 0
    without things. size: of a thing, by default 1. clock: returns the time in seconds.

    The first thing pays for whatever is loaded, and counts only if it is the only one. Then `n_second` of the others
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
        n_next = 2 * n_next if place else n_second
        place += len(chunk)
    seconds, units = (sum(values[1:] or values) for values in (spans, sizes))
    return MeasuredTime(seconds / units if units else 0.0, place)


def _measure_videos(engine: Engine, dataset: Dataset, clock: Clock) -> tuple[float, int]:
    """Measure how many seconds the facts about videos that are missing take, by the bytes of the first of these videos;
    return them, and how many videos were measured for it.
    """
    models = find_fact_models()
    with engine.connect() as connection:
        n = count_unmeasured(connection, PICTURE_FACTS_VERSION, models, dataset.dataset_id)
        shards = (
            list_unmeasured_videos(connection, PICTURE_FACTS_VERSION, models, dataset.dataset_id, shard)
            for shard in range(dataset.n_shards)
        )
        videos = next(filter(None, shards), [])
    if not videos:
        return 0.0, 0

    def measure(lot: Sequence[StoredVideo]) -> None:
        for video in lot:
            with suppress(FrameReadError), hold_video_file(video) as path:
                limit = compute_time_limit(video.duration_s)
                worker.measure_video(path, with_models=models is not None, timeout_s=limit)

    with DecodingWorker() as worker:
        measured = measure_seconds_per_unit(measure, videos, clock, lambda video: video.size_bytes, n_second=1)
    n_decoders = min(read_settings(MediaSettings).decoders or count_cores(), n)
    return measured.seconds * fmean(video.size_bytes for video in videos) * n / n_decoders, measured.n_measured


def _compute_facts(texts: Sequence[str]) -> None:
    compute_text_facts(texts, RuleSplitter().split, detect_languages)


def _measure_scores(engine: Engine, holdings: Holdings, scorer: Scorer, clock: Clock) -> MeasuredTime:
    """Measure the seconds of a scorer for each sample of the holdings; a sample that it refuses takes none."""
    # A video's frames and references serve all of its captions.
    by_video: dict[int, list[PendingSample]] = {}
    for sample in holdings.first_samples:
        if not (isinstance(scorer, Refusing) and scorer.refusal(sample)):
            by_video.setdefault(sample.video_id, []).append(sample)
    n_samples = sum(map(len, by_video.values()))
    files = make_video_loader(engine)

    def work(videos: Sequence[Sequence[PendingSample]]) -> None:
        score_without_database(scorer, list(chain.from_iterable(videos)), files)

    try:
        measured = measure_seconds_per_unit(work, list(by_video.values()), clock, len)
    except (NeedsDatabase, ModelUnusable):
        # The scoring itself reports this, or can do what is not possible here.
        return MeasuredTime(0.0, 0)
    n_measured = sum(map(len, list(by_video.values())[: measured.n_measured]))
    return MeasuredTime(measured.seconds * n_samples / max(1, len(holdings.first_samples)), n_measured)


def format_duration(seconds: float) -> str:
    """Format a number of seconds for people, such as "about 2 minutes": below 90 in steps of ten seconds, from two
    hours on in hours.

    >>> [format_duration(s) for s in (22, 100, 5000, 20_000)]
    ['about 30 s', 'about 2 minutes', 'about 83 minutes', 'about 6 hours']
    """
    if seconds < 90:
        return f"about {max(1, round(seconds / 10 + 0.4)) * 10:.0f} s"
    return f"about {seconds / 60:.0f} minutes" if seconds < 7200 else f"about {seconds / 3600:.0f} hours"
