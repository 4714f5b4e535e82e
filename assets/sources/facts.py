"""Facts about the texts and videos of a shard, each measured once. They describe: a higher number is not better."""

from __future__ import annotations

from functools import partial
from itertools import islice

from sqlalchemy.engine import Engine

from assets.media.decoders import choose_decoder_pool, count_cores, count_held_bytes, count_pixels
from assets.progress import LineWriter
from assets.sources.frames import VIDEOS_PER_WRITE, build_video_facts, hold_video_file
from assets.words.text import format_count
from db.evidence.facts import (
    VideoFacts,
    count_unmeasured,
    list_undescribed_texts,
    list_unmeasured_videos,
    store_text_facts,
    store_video_facts,
)
from db.evidence.frames import StoredVideo
from db.manifest.datasets import Dataset
from metrics_core.facts.languages import detect_languages
from metrics_core.facts.pictures import PICTURE_FACTS_VERSION
from metrics_core.facts.texts import TEXT_FACTS_VERSION, compute_text_facts
from metrics_core.frames import FrameReadError
from metrics_core.frames.memory import estimate_video_bytes
from metrics_core.frames.pool import TakeDecoder, compute_time_limit
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
        facts = compute_text_facts(list(texts.values()), split, detect_languages)
        rows = {key: measured._asdict() for key, measured in zip(texts, facts, strict=True)}
        store_text_facts(engine, TEXT_FACTS_VERSION, rows)
        n += len(rows)
        tell(f"{format_count(n, 'text')} described")


def measure_videos(engine: Engine, dataset: Dataset, shard: int, tell: LineWriter, models: str | None = None) -> int:
    """Measure and store facts about those videos of a shard whose present file has none by the present rules and
    models; return their number. They are decoded in a process per core, or as `decoders` says. A video that cannot be
    measured counts, with a status and a reason. models: from `find_fact_models`; None measures neither text nor speech.

    The status is "failed" if the file is missing or has changed since it was ingested, or if the decoder died or ran
    out of time; the next run tries it again. It is "unreadable" for a file that does not decode.
    """
    with engine.connect() as connection:
        videos = list_unmeasured_videos(connection, PICTURE_FACTS_VERSION, models, dataset.dataset_id, shard)
    pool = choose_decoder_pool(count_cores(), videos, tell, with_models=models is not None)
    measure = partial(_measure_video, with_models=models is not None)
    n, measured = 0, pool.decode_in_order(videos, measure, _estimate_bytes)
    while batch := [facts for _, facts in islice(measured, VIDEOS_PER_WRITE)]:
        store_video_facts(engine, PICTURE_FACTS_VERSION, models, batch)
        n += len(batch)
        tell(f"{n:,} of {format_count(len(videos), 'video')} measured")
    return n


def count_unmeasured_videos(engine: Engine, dataset: Dataset, models: str | None = None) -> int:
    """Count the videos of a dataset that `measure_videos`, with the same models, would measure in all of its shards."""
    with engine.connect() as connection:
        return count_unmeasured(connection, PICTURE_FACTS_VERSION, models, dataset.dataset_id)


def _estimate_bytes(video: StoredVideo) -> int:
    return estimate_video_bytes(count_pixels(video), 0, None) + count_held_bytes(video)


def _measure_video(take_decoder: TakeDecoder, video: StoredVideo, *, with_models: bool) -> VideoFacts:
    try:
        with hold_video_file(video) as path, take_decoder() as worker:
            limit = compute_time_limit(video.duration_s)
            measurement = worker.measure_video(path, with_models=with_models, timeout_s=limit)
    except FrameReadError as error:
        return build_video_facts(video, error)
    return build_video_facts(video, measurement)
