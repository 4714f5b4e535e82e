"""Question-answer pairs of the demo and of the real clips, their noisy twins, and EVQAScore's numbers of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assets.media.decoders import count_cores, count_cores_per_encoder
from benchmarks.ecs_data import DEMO_SEED, read_lines, require
from benchmarks.papers.recipes import text_encoder
from lab.demo.build import build_manifest_rows, make_demo_clips
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
from metrics_core.protocols import TextEncoder
from metrics_core.stress.rewrites import REWRITE_KINDS, CaptionToRewrite, rewrite_caption

N_CLIPS, EVERY, MIN_TWINS = 60, 30, 10
EVQA, RAW, COARSE = "EVQAScore", "EVQAScore without ln(n + 1)", "coarse score alone"
COUNT, LENGTH, RANDOM = "number of keywords", "length of the answer", "random"
COSINE = "cosine of question and answer"
KEYWORD, OTHER_VIDEO = "one keyword", "answer of another video"
REWRITTEN = {"negated": "negation", "colours swapped": "swapped_colours", "counts swapped": "swapped_numbers"}
"""Kinds of noise of full length, with the rewrites of `reelsieve stress` that make them."""


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
    from assets.home.settings import read_settings
    from orchestration.settings.groups import list_settings_groups

    settings: Any = read_settings(list_settings_groups()[0])
    return settings.make_image_text_encoder()


def models() -> dict[str, Any]:
    """The image-text encoder's identity."""
    return {
        "image-text encoder": encoder().identity.as_dict(),
        "keywords": RuleKeywords().identity.as_dict(),
        "text encoder": text_encoder().identity.as_dict(),
    }


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
    return Pairs(rows, clip_features([(row["video_id"], folder / row["path"]) for row in videos], EVERY))


def clip_features(files: Sequence[tuple[str, Path]], every: int) -> dict[str, NDArray[np.float32]]:
    """Features of every so many frames of videos by name; videos that do not decode are left out."""
    pool = DecoderPool(count_cores_per_encoder(count_cores()))
    videos = [VideoToEncode(*each) for each in files]
    encoded = dict(compute_frame_features(FrameEncoder(encoder(), every), videos, pool))
    return {name: each.features for name, each in encoded.items() if isinstance(each, FrameFeatures)}


def noisy_by_kind(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Good pairs, each followed by its noisy twin, by kind of noise; pairs that a kind does not fit are left out, and
    kinds with fewer than MIN_TWINS twins.

    An answer of another video is the answer at the same place of the next video. The keyword twins are the rows' own.
    """
    good = [row for row in rows if row["quality"] == "good"]
    wrong = {OTHER_VIDEO: answers_of_other_videos(good)}
    wrong |= {label: [rewritten(row, name) for row in good] for label, name in REWRITTEN.items()}
    kinds = {KEYWORD: list(rows)}
    for label, answers in wrong.items():
        twins = [
            (row, answer) for row, answer in zip(good, answers, strict=True) if answer not in (None, row["answer"])
        ]
        if len(twins) >= MIN_TWINS:
            kinds[label] = [
                each for row, answer in twins for each in (row, {**row, "answer": answer, "quality": "noisy"})
            ]
    return kinds


def answers_of_other_videos(rows: Sequence[Mapping[str, Any]]) -> list[str | None]:
    """For every row the answer at the same place of the next video; None where that has fewer answers."""
    by_video: dict[str, list[str]] = {}
    for row in rows:
        by_video.setdefault(row["video_id"], []).append(row["answer"])
    own = list(by_video.values())
    return [
        other[place] if place < len(other) else None
        for answers, other in zip(own, [*own[1:], *own[:1]], strict=True)
        for place in range(len(answers))
    ]


def rewritten(row: Mapping[str, Any], name: str) -> str | None:
    """The answer of a row after a rewrite; None where the rewrite does not fit."""
    kind = next(kind for kind in REWRITE_KINDS if kind.name == name)
    caption = CaptionToRewrite(row["qa_id"], row["answer"], RuleSplitter().split(row["answer"]))
    return rewrite_caption(kind, caption, seed=0)


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


def scores_of(pairs: Pairs, texts_by: TextEncoder) -> dict[str, FloatArray]:
    """Every rule's score of every pair; without features those that need no frames."""
    texts = [f"{row['question'].strip()} {row['answer'].strip()}" for row in pairs.rows]
    found = {
        COUNT: np.array([float(len(extract_keywords(text, RuleKeywords()).cleaned)) for text in texts]),
        LENGTH: np.array([float(len(split_words(row["answer"]))) for row in pairs.rows]),
        COSINE: cosines_of(pairs.rows, texts_by),
        RANDOM: np.zeros(len(texts)),
    }
    if pairs.features:
        results = [scored(pairs.features[row["video_id"]], text) for row, text in zip(pairs.rows, texts, strict=True)]
        of_pairs = {EVQA: qa_score, RAW: lambda each: each.score, COARSE: lambda each: each.coarse}
        found |= {
            name: np.array([value(each) for each in results], dtype=np.float64) for name, value in of_pairs.items()
        }
    return found


def cosines_of(rows: Sequence[Mapping[str, Any]], texts_by: TextEncoder) -> FloatArray:
    """The cosine of question and answer of every pair."""
    sides = [[row[field].strip() for row in rows] for field in ("question", "answer")]
    strings = list(dict.fromkeys(sides[0] + sides[1]))
    vectors = dict(zip(strings, texts_by.encode(strings), strict=True))
    return np.array([float(vectors[one] @ vectors[other]) for one, other in zip(*sides, strict=True)])
