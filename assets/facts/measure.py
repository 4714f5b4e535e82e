"""The measurement of facts about the texts and videos of a shard. Every distinct text and video is measured once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from itertools import islice
from queue import SimpleQueue

from sqlalchemy.engine import Engine

from assets.sources.base import LineWriter
from assets.sources.frames import VIDEOS_PER_WRITE, hold_video_file
from db.evidence.facts import (
    VideoFacts,
    list_undescribed_texts,
    list_unmeasured_videos,
    store_text_facts,
    store_video_facts,
)
from db.evidence.frames import Status, StoredVideo
from db.manifest.datasets import Dataset
from metrics_core.facts.languages import detect_language
from metrics_core.facts.pictures import PICTURE_FACTS_VERSION
from metrics_core.facts.texts import TEXT_FACTS_VERSION, measure_text
from metrics_core.frames import DecodingWorker, FrameReadError
from metrics_core.frames.features import MAX_DECODERS, TIMEOUT_PER_SECOND_OF_VIDEO, TIMEOUT_S
from metrics_core.frames.records import DecoderFailed
from metrics_core.models.sentence_splitter import RuleSplitter

# Texts between two writes: a crash costs at most so many.
TEXTS_PER_WRITE = 1_000


def measure_texts(engine: Engine, dataset: Dataset, shard: int, tell: LineWriter) -> int:
    """Measure and store facts about the distinct texts of a shard's samples that have none by the present rules; return
    the number of texts. Facts of 1,000 texts are stored at a time. tell: takes lines about progress.
    """
    split, n = RuleSplitter().split, 0
    while True:
        with engine.connect() as connection:
            texts = list_undescribed_texts(connection, TEXT_FACTS_VERSION, dataset.dataset_id, shard, TEXTS_PER_WRITE)
        if not texts:
            return n
        facts = {key: asdict(measure_text(text, split, detect_language)) for key, text in texts.items()}
        store_text_facts(engine, TEXT_FACTS_VERSION, facts)
        n += len(facts)
        tell(f"{n} texts described")


def measure_videos(engine: Engine, dataset: Dataset, shard: int, tell: LineWriter) -> int:
    """Measure and store facts about the videos of a shard whose file has none by the present rules; return the number
    of videos. Several videos are decoded at once, in processes of their own. A video that cannot be measured counts
    too, and is stored with a status and a reason. tell: takes lines about progress.

    The status is "failed" if the file is missing or has changed since it was ingested, or if the decoder died or ran
    out of time; the next run tries it again. It is "unreadable" for a file that does not decode.
    """
    with engine.connect() as connection:
        videos = list_unmeasured_videos(connection, PICTURE_FACTS_VERSION, dataset.dataset_id, shard)
    n, measured = 0, _measure_in_order(videos)
    while batch := list(islice(measured, VIDEOS_PER_WRITE)):
        store_video_facts(engine, PICTURE_FACTS_VERSION, batch)
        n += len(batch)
        tell(f"{n} of {len(videos)} videos measured")
    return n


def _measure_in_order(videos: list[StoredVideo]) -> Iterator[VideoFacts]:
    """Yield the facts about these videos in order; several are measured at once, as many as decoders would run."""
    n_decoders = max(1, min(MAX_DECODERS, (os.cpu_count() or 1) // 2, len(videos)))
    with ExitStack() as stack:
        free: SimpleQueue[DecodingWorker] = SimpleQueue()
        for _ in range(n_decoders):
            free.put(stack.enter_context(DecodingWorker()))
        # Entered last, so closed first: a thread that still runs would start its closed worker again. One thread more
        # than decoders: it fetches the next video meanwhile.
        pool = stack.enter_context(ThreadPoolExecutor(n_decoders + 1, thread_name_prefix="measurer"))
        yield from pool.map(lambda video: _measure(video, free), videos)


def _measure(video: StoredVideo, free: SimpleQueue[DecodingWorker]) -> VideoFacts:
    limit = TIMEOUT_S + TIMEOUT_PER_SECOND_OF_VIDEO * (video.duration_s or 0.0)
    try:
        with hold_video_file(video) as path, _take_decoder(free) as decoder:
            facts, has_sound = decoder.measure_video(path, timeout_s=limit)
    except FrameReadError as error:
        status: Status = "failed" if isinstance(error, DecoderFailed) else "unreadable"
        return VideoFacts(video.video_id, video.content_sha256, {}, status, f"{video.uri}: {error.reason}")
    signature = None if facts.signature is None else bytes.fromhex(facts.signature)
    known = {**asdict(facts), "signature": signature, "has_sound": has_sound}
    return VideoFacts(video.video_id, video.content_sha256, known)


@contextmanager
def _take_decoder(free: SimpleQueue[DecodingWorker]) -> Iterator[DecodingWorker]:
    decoder = free.get()
    try:
        yield decoder
    finally:
        free.put(decoder)
