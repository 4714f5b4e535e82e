"""Measures how well an image-text encoder ranks true captions of new demo clips above false ones, by EVQAScore."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lab.demo.story import make_clip
from lab.demo.systems import build_candidates, find_least_similar_clip
from lab.demo.world import DemoClip
from lab.encoder.data import frames_at
from metrics_core.evqa import VideoFeatures, evqa_from_prepared_frames, prepare_frames
from metrics_core.keywords import RuleKeywords, extract_keywords
from metrics_core.long_text import average_chunk_features, split_into_chunks
from metrics_core.models.clip_encoder import OpenClipEncoder
from metrics_core.models.sentence_splitter import RuleSplitter

FIRST_SEED = 2_000_000
EVERY = 30  # frames: two seconds


def evaluate(encoder: OpenClipEncoder, n_clips: int = 200, first_seed: int = FIRST_SEED) -> dict[str, float]:
    """Measure an encoder on `n_clips` clips.

    "faithful above" a system: share of clips, 0 to 1, whose sys_faithful caption scores above the system's. "mean": the
    mean EVQAScore of a system. "unscored": share of its captions without a score (see EVQAResult's statuses), which
    count nowhere else. clip_of_caption: share of faithful captions whose own clip has the highest coarse cosine of all
    clips. Every 30th frame is used as drawn, without a video codec.
    """
    clips = [make_clip(first_seed + index) for index in range(n_clips)]
    videos = [video_features(encoder, clip) for clip in clips]
    scores: dict[str, list[float | None]] = {}
    pooled, captions = [], []
    for index, (clip, video) in enumerate(zip(clips, videos, strict=True)):
        for candidate in build_candidates(clip, find_least_similar_clip(clips, index)):
            text = text_feature(encoder, candidate.text)
            keywords = encoder.encode_texts(extract_keywords(candidate.text, RuleKeywords()).cleaned)
            scores.setdefault(candidate.system, []).append(evqa_from_prepared_frames(video, keywords, text).score)
            if candidate.system == "sys_faithful":
                pooled.append(video.pooled_vector)
                captions.append(text)
    is_own_clip = (np.stack(captions) @ np.stack(pooled).T).argmax(axis=1) == np.arange(n_clips)
    result = {"clip_of_caption": float(is_own_clip.mean())}
    for system, others in scores.items():
        pairs = [(a, b) for a, b in zip(scores["sys_faithful"], others, strict=True) if a is not None and b is not None]
        result[f"mean {system}"] = float(np.mean([score for score in others if score is not None]))
        result[f"unscored {system}"] = others.count(None) / n_clips
        if system != "sys_faithful":
            result[f"faithful above {system}"] = sum(a > b for a, b in pairs) / len(pairs)
    return {name: round(value, 4) for name, value in result.items()}


def video_features(encoder: OpenClipEncoder, clip: DemoClip) -> VideoFeatures:
    """Encode every 30th frame of a clip."""
    return prepare_frames(encoder.encode_images(list(frames_at(clip, range(0, clip.n_frames, EVERY)))))


def text_feature(encoder: OpenClipEncoder, text: str) -> NDArray[np.float64]:
    """Encode a text of any length into a unit feature (d,), as the mode chunk_mean does."""
    plan = split_into_chunks(
        text, limit=encoder.context_length, split_sentences=RuleSplitter().split, count_tokens=encoder.count_tokens
    )
    return average_chunk_features(encoder.encode_texts(plan.chunks), plan.tokens)
