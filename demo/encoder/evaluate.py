"""How well an image-text encoder ranks true captions of fresh demo clips above false ones, by EVQAScore."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from demo.encoder.data import frames_at
from demo.story import make_clip
from demo.systems import candidates, least_alike
from demo.world import Clip
from metrics_core.evqa import FrameFeatures, evqa_of_text, prepare_frames
from metrics_core.keywords import RuleKeywords, keywords_of
from metrics_core.long_text import plan_chunks, weighted_mean
from metrics_core.models.clip_encoder import OpenClipEncoder
from metrics_core.models.sentence_splitter import RuleSplitter

FIRST_SEED = 2_000_000
EVERY = 30  # frames: two seconds


def evaluate(encoder: OpenClipEncoder, n_clips: int = 200, first_seed: int = FIRST_SEED) -> dict[str, float]:
    """Shares of clips, 0 to 1, in which sys_faithful scores above another system, and measures of retrieval.

    clip_of_caption: share of faithful captions whose own clip has the highest coarse cosine among all clips.
    A caption without a score (see EVQAResult's statuses) counts in "unscored" and nowhere else. "mean" is the mean
    EVQAScore of a system. Frames are every 30th, as drawn, without a video codec.
    """
    clips = [make_clip(first_seed + index) for index in range(n_clips)]
    videos = [video_features(encoder, clip) for clip in clips]
    scores: dict[str, list[float | None]] = {}
    pooled, captions = [], []
    for index, (clip, video) in enumerate(zip(clips, videos, strict=True)):
        for candidate in candidates(clip, least_alike(clips, index)):
            text = text_feature(encoder, candidate.text)
            keywords = encoder.encode_texts(keywords_of(candidate.text, RuleKeywords()).cleaned)
            scores.setdefault(candidate.system, []).append(evqa_of_text(video, keywords, text).score)
            if candidate.system == "sys_faithful":
                pooled.append(video.pooled)
                captions.append(text)
    found = (np.stack(captions) @ np.stack(pooled).T).argmax(axis=1) == np.arange(n_clips)
    result = {"clip_of_caption": float(found.mean())}
    for system, others in scores.items():
        pairs = [(a, b) for a, b in zip(scores["sys_faithful"], others, strict=True) if a is not None and b is not None]
        result[f"mean {system}"] = float(np.mean([score for score in others if score is not None]))
        result[f"unscored {system}"] = others.count(None) / n_clips
        if system != "sys_faithful":
            result[f"faithful above {system}"] = sum(a > b for a, b in pairs) / len(pairs)
    return {name: round(value, 4) for name, value in result.items()}


def video_features(encoder: OpenClipEncoder, clip: Clip) -> FrameFeatures:
    """The features of every 30th frame of a clip."""
    return prepare_frames(encoder.encode_images(list(frames_at(clip, range(0, clip.n_frames, EVERY)))))


def text_feature(encoder: OpenClipEncoder, text: str) -> NDArray[np.float64]:
    """The unit feature (d,) of a text of any length, as chunk_mean has it."""
    plan = plan_chunks(
        text, limit=encoder.context_length, split_sentences=RuleSplitter().split, count_tokens=encoder.count_tokens
    )
    return weighted_mean(encoder.encode_texts(plan.chunks), plan.tokens)
