"""An estimate of how long ingest, facts and scores of a manifest will take, measured on its first rows."""

from __future__ import annotations

import time
from bisect import bisect
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import accumulate, chain
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.engine import Engine

from assets.home.settings import read_settings
from assets.ingest.rejects import Reject
from assets.ingest.rows import VideoRow
from assets.media.decoders import count_cores
from assets.media.settings import MediaSettings
from assets.planning.holdings import Holdings, measure_file_size
from assets.planning.unstored_samples import inspect_unstored_video
from assets.scores.base import Refusing, Scorer
from assets.scores.run import score_without_database
from assets.sources.base import NeedsDatabase, walk_sources
from assets.sources.frames import hold_video_file
from assets.sources.texts import EmbeddedTexts
from assets.words.text import format_count, join_names
from db.evidence.embeddings import load_text_vectors
from db.evidence.frames import StoredVideo
from db.evidence.models import find_model_id
from db.scores.pending import PendingSample
from metrics_core.facts.languages import detect_languages
from metrics_core.facts.models import find_fact_models
from metrics_core.facts.texts import compute_text_facts
from metrics_core.frames import DecodingWorker, FrameReadError
from metrics_core.models.errors import ModelUnusable
from metrics_core.models.sentence_splitter import RuleSplitter
from metrics_core.protocols import ModelIdentity, TextEncoder

T = TypeVar("T")
Clock = Callable[[], float]
# A rate is known well enough after so many seconds of work, whatever the rows are like.
MEASURED_S = 1.0
# Runs work on many rows at once; on a busy machine a call for one row takes many times its share.
SECOND_CHUNK = 4
# Two to this power is the number of draws of a byte among those of all files.
_DRAWS_BITS = 6
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
    folder: Path,
    holdings: Holdings,
    scorers: Collection[Scorer],
    clock: Clock = time.perf_counter,
    engine: Engine | None = None,
) -> TimeEstimate:
    """Estimate how long ingest, facts and scores take for a manifest, by doing each for about a second on some of its
    first 500 videos. Files are decoded or fetched, and models load and stay loaded. Nothing is stored; scorers that ask
    model servers are left out.

    folder: that of the manifest. clock: returns the time in seconds. engine: a database whose vectors of texts are not
    made again; None without one.
    """
    videos = _measure_videos(folder, holdings, clock)
    texts = measure_rate(_compute_facts, [sample.text for sample in holdings.first_samples], clock)
    timed = [scorer for scorer in scorers if not any(source.asks_servers for source in walk_sources(scorer.sources))]
    with _remember_texts(timed, engine):
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
    """Measure the seconds for each byte of the files: to inspect them as ingest does, and to compute facts, which
    several decoders do at once. Videos are drawn by their size, so that small ones do not count for the large.
    """
    rows = [
        (row, size) for row in holdings.first_videos.values() if (size := measure_file_size(folder, row.path or ""))
    ]
    if not rows:
        return MeasuredRate(0.0, 0)
    with_models = find_fact_models() is not None
    n_decoders = min(read_settings(MediaSettings).decoders or count_cores(), holdings.files)
    ends = list(accumulate(size for _, size in rows))
    seconds: dict[int, float] = {}
    drawn: list[float] = []

    def look(row: VideoRow) -> float:
        began = clock()
        videos = list(_inspect_files(folder, row, 0))
        inspected = clock()
        for video in videos:
            with suppress(FrameReadError), hold_video_file(video) as path:
                worker.measure_video(path, with_models=with_models)
        return inspected - began + (clock() - inspected) / n_decoders

    with DecodingWorker() as worker:
        if len(rows) > 1:
            look(min(rows, key=lambda row: row[1])[0])  # pays for whatever is loaded
        for n in range(1, 1 << _DRAWS_BITS):
            # Evenly spread, whenever it ends: a half, a quarter, three quarters, an eighth ..
            share = int(f"{n:0{_DRAWS_BITS}b}"[::-1], 2) / (1 << _DRAWS_BITS)
            place = bisect(ends, share * ends[-1])
            if place not in seconds:
                if sum(seconds.values()) >= MEASURED_S:
                    break
                seconds[place] = look(rows[place][0])
            drawn.append(seconds[place] / rows[place][1])
    return MeasuredRate(fmean(drawn), len(seconds))


@dataclass
class _RememberingEncoder:
    """A text encoder that asks another one only for texts without a vector, here or in the database."""

    encoder: TextEncoder
    engine: Engine | None
    vectors: dict[str, NDArray[np.float32]] = field(default_factory=dict)

    @property
    def identity(self) -> ModelIdentity:
        return self.encoder.identity

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.engine is not None and (new := [text for text in texts if text not in self.vectors]):
            with self.engine.connect() as connection:
                model_id = find_model_id(connection, self.identity.as_dict())
            self.vectors |= {} if model_id is None else load_text_vectors(self.engine, model_id, new)
        if new := [text for text in dict.fromkeys(texts) if text not in self.vectors]:
            self.vectors.update(zip(new, self.encoder.encode(new), strict=True))
        return np.stack([self.vectors[text] for text in texts])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.encoder, name)


@contextmanager
def _remember_texts(scorers: Collection[Scorer], engine: Engine | None) -> Iterator[None]:
    """Have the scorers share vectors of texts within the block, as they do by the database."""
    encoders: dict[str, _RememberingEncoder] = {}
    with ExitStack() as stack:
        for source in chain.from_iterable(walk_sources(scorer.sources) for scorer in scorers):
            if isinstance(source, EmbeddedTexts) and not isinstance(source.encoder, _RememberingEncoder):
                stack.callback(setattr, source, "encoder", source.encoder)
                key = str(source.model.as_dict())
                source.encoder = encoders.setdefault(key, _RememberingEncoder(source.encoder, engine))
        yield


def _compute_facts(texts: Sequence[str]) -> None:
    compute_text_facts(texts, RuleSplitter().split, detect_languages)


def _measure_scores(folder: Path, holdings: Holdings, scorer: Scorer, clock: Clock) -> MeasuredRate:
    """Measure the seconds of a scorer for each sample of the holdings; a sample that it refuses takes none."""
    # A video's frames and references serve all of its captions.
    by_video: dict[int, list[PendingSample]] = {}
    for sample in holdings.first_samples:
        if not (isinstance(scorer, Refusing) and scorer.refusal(sample)):
            by_video.setdefault(sample.video_id, []).append(sample)
    n_samples = sum(map(len, by_video.values()))

    def files(video_ids: Collection[int]) -> list[StoredVideo]:
        known = holdings.first_videos
        return [video for number in video_ids for video in _inspect_files(folder, known[number], number)]

    def work(videos: Sequence[Sequence[PendingSample]]) -> None:
        score_without_database(scorer, list(chain.from_iterable(videos)), files)

    try:
        rate = measure_rate(work, list(by_video.values()), clock, len)
    except (NeedsDatabase, ModelUnusable):
        # The scoring itself reports this, or can do what is not possible here.
        return MeasuredRate(0.0, 0)
    n_measured = sum(map(len, list(by_video.values())[: rate.n_measured]))
    return MeasuredRate(rate.seconds * n_samples / max(1, len(holdings.first_samples)), n_measured)


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
