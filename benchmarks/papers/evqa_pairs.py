"""Question-answer pairs and captions of the demo and of the real clips, with EVQAScore's numbers of each."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assets.media.decoders import count_cores, count_cores_per_encoder
from benchmarks.ecs_data import DEMO_SEED, read_lines, require
from demo.build import build_manifest_rows, make_demo_clips
from lab.encoder.data import frames_at
from metrics_core.arrays import FloatArray
from metrics_core.evqa import EVQAResult, evqa_from_prepared_frames, prepare_frames, qa_score
from metrics_core.frames.features import FrameEncoder, FrameFeatures, VideoToEncode, compute_frame_features
from metrics_core.frames.pool import DecoderPool
from metrics_core.keywords import RuleKeywords, extract_keywords
from metrics_core.long_text import average_chunk_features, split_into_chunks
from metrics_core.models.clip_encoder import OpenClipEncoder
from metrics_core.models.sentence_splitter import RuleSplitter
from metrics_core.models.word_tokenizer import split_words

N_CLIPS, EVERY = 60, 30
EVQA, RAW, COARSE = "EVQAScore", "EVQAScore without ln(n + 1)", "coarse score alone"
COUNT, LENGTH, RANDOM = "number of keywords", "length of the answer", "random"


@dataclass(frozen=True)
class Pairs:
    """Question-answer pairs, and features of every video's sampled frames; no features without a model."""

    rows: Sequence[Mapping[str, Any]]
    features: Mapping[str, NDArray[np.float32]]


def is_demo() -> bool:
    """Whether no image-text encoder is configured but the demo's own."""
    return "REELSIEVE_IMAGE_TEXT_ENCODER" not in os.environ


def encoder() -> OpenClipEncoder:
    """The configured image-text encoder."""
    from assets.models.settings import ImageTextSettings

    names = ("image_text_encoder", "image_text_checkpoint", "image_text_precision")
    given = {
        name: os.environ[f"REELSIEVE_{name.upper()}"] for name in names if f"REELSIEVE_{name.upper()}" in os.environ
    }
    return ImageTextSettings(**given).make_image_text_encoder()


def models() -> dict[str, Any]:
    """The image-text encoder's identity."""
    return {"image-text encoder": encoder().identity.as_dict(), "keywords": RuleKeywords().identity.as_dict()}


def drawn_features(every: int) -> dict[str, NDArray[np.float32]]:
    """Features of every so many frames of the demo's clips, drawn, not decoded."""
    clips = make_demo_clips(N_CLIPS, DEMO_SEED)
    return {
        name: encoder().encode_images(list(frames_at(clip, range(0, clip.n_frames, every))))
        for name, clip in clips.items()
    }


def demo_pairs() -> Pairs:
    """The demo's pairs."""
    rows = build_manifest_rows(make_demo_clips(N_CLIPS, DEMO_SEED))["qa"]
    return Pairs(rows, drawn_features(EVERY))


def clip_pairs() -> Pairs:
    """The pairs of the real clips."""
    folder = require("clips")
    rows = read_lines(folder / "qa.jsonl")
    if is_demo():
        return Pairs(rows, {})
    wanted = {row["video_id"] for row in rows}
    videos = [row for row in read_lines(folder / "videos.jsonl") if row["video_id"] in wanted]
    files = [VideoToEncode(row["video_id"], folder / row["path"]) for row in videos]
    encoded = dict(
        compute_frame_features(
            FrameEncoder(encoder(), EVERY), files, DecoderPool(count_cores_per_encoder(count_cores()))
        )
    )
    return Pairs(rows, {name: each.features for name, each in encoded.items() if isinstance(each, FrameFeatures)})


def text_units(text: str) -> tuple[FloatArray, NDArray[np.float32]]:
    """The vector of a whole text, which is cut into chunks where it is long, and those of its keywords."""
    model, splitter = encoder(), RuleSplitter()
    plan = split_into_chunks(
        text, limit=model.context_length, split_sentences=splitter.split, count_tokens=model.count_tokens
    )
    vectors = model.encode_texts([*plan.chunks, *extract_keywords(text, RuleKeywords()).cleaned])
    n_chunks = len(plan.chunks)
    return average_chunk_features(vectors[:n_chunks], plan.tokens), vectors[n_chunks:]


def scored(frames: NDArray[np.float32], text: str) -> EVQAResult:
    """EVQAScore of one text."""
    whole, keywords = text_units(text)
    return evqa_from_prepared_frames(prepare_frames(frames), keywords, whole)


def scores_of(pairs: Pairs) -> dict[str, FloatArray]:
    """Every rule's score of every pair; without features those that need no model."""
    texts = [f"{row['question'].strip()} {row['answer'].strip()}" for row in pairs.rows]
    found = {
        COUNT: np.array([float(len(extract_keywords(text, RuleKeywords()).cleaned)) for text in texts]),
        LENGTH: np.array([float(len(split_words(row["answer"]))) for row in pairs.rows]),
        RANDOM: np.zeros(len(texts)),
    }
    if pairs.features:
        results = [scored(pairs.features[row["video_id"]], text) for row, text in zip(pairs.rows, texts, strict=True)]
        of_pairs = {EVQA: qa_score, RAW: lambda each: each.score, COARSE: lambda each: each.coarse}
        found |= {
            name: np.array([value(each) for each in results], dtype=np.float64) for name, value in of_pairs.items()
        }
    return found
