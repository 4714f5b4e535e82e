"""The EVQAScore scorer: captions and question-answer pairs against the sampled frames of their video."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assets.scores.base import Features, Outcome, ScorerSettings
from assets.scores.checklist import Checklist
from assets.scores.image_text import make_image_text_encoder
from db.frames import VideoFrames
from db.work import PendingSample
from metrics_core.evqa import BadFeature, EVQAResult, FrameFeatures, evqa_of_text, prepare_frames, qa_score
from metrics_core.frames.encoding import FrameEncoder
from metrics_core.keywords import Keywords, RuleKeywords, keywords_of
from metrics_core.long_text import ChunkPlan, plan_chunks, weighted_mean
from metrics_core.models.clip_encoder import ClipTexts, OpenClipEncoder
from metrics_core.models.sentence_splitter import make_splitter
from metrics_core.protocols import KeywordExtractor, SentenceSplitter, TextEncoder

NUMBERS = ("precision", "recall", "f1", "coarse", "score")


@dataclass(frozen=True, slots=True)
class _Reading:
    """A text as it is scored: its keywords, and the chunks whose vectors make up the vector of the whole."""

    keywords: Keywords
    plan: ChunkPlan


class EVQAScorer:
    """EVQAScore (arXiv 2411.06908); a question-answer pair scores score * ln(n + 1), with n its keywords."""

    metric = "evqa"
    code_version = "1"
    # A caption lies in [-1, 1]; ln(n + 1) takes a question-answer pair beyond, to 6.9 with 1,000 keywords.
    value_range = (-7.0, 7.0)
    inputs = frozenset({"text", "video"})
    checklist: Checklist | None = None

    def __init__(
        self,
        settings: ScorerSettings,
        encoder: OpenClipEncoder,
        extractor: KeywordExtractor,
        splitter: SentenceSplitter,
    ) -> None:
        self.text_encoder: TextEncoder = ClipTexts(encoder)
        self.frame_encoder: FrameEncoder | None = FrameEncoder(encoder, settings.frames_every, settings.frames_cap)
        self._settings = settings
        self._encoder = encoder
        self._extractor = extractor
        self._splitter = splitter
        # Asked once for the texts to be embedded and once for the score.
        self._read = lru_cache(maxsize=4096)(self._read_text)

    @classmethod
    def from_settings(cls, settings: ScorerSettings) -> EVQAScorer:
        """The scorer that the settings describe, with its real models."""
        encoder = make_image_text_encoder(
            settings.image_text_encoder, settings.image_text_checkpoint, settings.image_text_precision
        )
        return cls(settings, encoder, RuleKeywords(), make_splitter(settings.sentence_splitter))

    def models(self) -> dict[str, Any]:
        """Image-text encoder, keyword extractor and sentence splitter."""
        return {
            "image_text_encoder": self._encoder.identity.as_dict(),
            "keyword_extractor": self._extractor.identity.as_dict(),
            "sentence_splitter": self._splitter.identity.as_dict(),
        }

    def params(self) -> dict[str, Any]:
        """Sampling, long texts and keywords."""
        return {
            "frames_every": self._settings.frames_every,
            "frames_cap": self._settings.frames_cap,
            "long_text": self._settings.evqa_long_text,
            "keywords_from": self._settings.evqa_keywords_from,
            "dedup": self._settings.evqa_dedup,
            "qa_factor": "ln(n + 1)",
        }

    def texts(self, sample: PendingSample) -> Iterator[str]:
        """The chunks of the text and its keywords; none where there are no frames to compare them with."""
        if _has_frames(sample):
            reading = self._read(sample.text, sample.answer)
            yield from reading.plan.chunks
            yield from reading.keywords.cleaned

    def score(self, samples: Sequence[PendingSample], features: Features) -> list[Outcome]:
        """One outcome per sample; a video is prepared once for all its samples."""
        videos = {video_id: prepare_frames(frames.features) for video_id, frames in features.frames.items()}
        return [self._score_one(sample, features, videos) for sample in samples]

    def _score_one(self, sample: PendingSample, features: Features, videos: Mapping[int, FrameFeatures]) -> Outcome:
        if not _has_frames(sample):
            return Outcome(None, "no_frames", _why_no_file(sample))
        frames = features.frames[sample.video_id]
        if frames.status != "ok":
            return _without_frames(frames)
        reading = self._read(sample.text, sample.answer)
        notes = self._notes(reading, len(frames.features))
        if not reading.plan.chunks:
            return Outcome(None, "empty_text", "the caption is empty", notes)
        try:
            whole = weighted_mean(_rows(reading.plan.chunks, features.texts), reading.plan.tokens)
        except BadFeature as error:
            return Outcome(None, "bad_feature", str(error), notes)
        keywords = _rows(reading.keywords.cleaned, features.texts)
        result = evqa_of_text(videos[sample.video_id], keywords, whole)
        value = result.score if sample.kind == "caption" else qa_score(result)
        return Outcome(value, result.status, result.reason, {**_numbers(result), **notes})

    def _read_text(self, text: str, answer: str | None) -> _Reading:
        source = answer if answer is not None and self._settings.evqa_keywords_from == "answer" else text
        return _Reading(keywords_of(source, self._extractor, dedup=self._settings.evqa_dedup), self._plan(text))

    def _plan(self, text: str) -> ChunkPlan:
        limit, count = self._encoder.context_length, self._encoder.count_tokens
        if self._settings.evqa_long_text == "chunk_mean":
            return plan_chunks(text, limit=limit, split_sentences=self._splitter.split, count_tokens=count)
        tokens = count(text)
        return ChunkPlan((text,), (min(tokens, limit),), tokens, tokens > limit)

    def _notes(self, reading: _Reading, n_frames: int) -> dict[str, Any]:
        return {
            "n_keywords": len(reading.keywords.cleaned),
            "keywords": list(reading.keywords.cleaned),
            "keywords_raw": list(reading.keywords.raw),
            "text_tokens": reading.plan.text_tokens,
            "text_chunks": len(reading.plan.chunks),
            "text_truncated": reading.plan.truncated,
            "n_frames": n_frames,
        }


def _has_frames(sample: PendingSample) -> bool:
    return sample.video_status in ("ok", "damaged")


def _why_no_file(sample: PendingSample) -> str:
    if sample.video_status == "text_only":
        return "the video has no file: EVQAScore compares texts with frames"
    return f"the video cannot be decoded: {sample.video_error}"


def _without_frames(frames: VideoFrames) -> Outcome:
    return Outcome(None, "failed" if frames.status == "failed" else "no_frames", frames.error)


def _rows(texts: Sequence[str], vectors: Mapping[str, NDArray[np.float32]]) -> list[NDArray[np.float32]]:
    return [vectors[text] for text in texts]


def _numbers(result: EVQAResult) -> dict[str, float | None]:
    return {name: getattr(result, name) for name in NUMBERS}
