"""EVQAScore: captions and question-answer pairs against the sampled frames of their video."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field
from sqlalchemy.engine import Connection

from assets.models.settings import DEMO_DATASET, DEMO_ENCODER, FrameSettings, ImageTextSettings, SplitterSettings
from assets.scores.base import Explanation, Outcome
from assets.sources.base import Evidence, Source
from assets.sources.frames import SampledFrames
from assets.sources.texts import TextVectors, Vectors
from db.frames import VideoFrames
from db.inputs import TEXT, VIDEO, Input
from db.work import PendingSample
from metrics_core.evqa import (
    BadFeature,
    EVQAResult,
    FrameFeatures,
    evqa_of_text,
    prepare_frames,
    qa_score,
    similarity_to_frames,
)
from metrics_core.frames.encoding import FrameEncoder
from metrics_core.keywords import Keywords, RuleKeywords, keywords_of
from metrics_core.long_text import ChunkPlan, plan_chunks, weighted_mean
from metrics_core.models.clip_encoder import ClipTexts, OpenClipEncoder
from metrics_core.protocols import KeywordExtractor, SentenceSplitter

NUMBERS = ("precision", "recall", "f1", "coarse", "score")


@dataclass(frozen=True, slots=True)
class _Reading:
    """A text as it is scored: its keywords, and the chunks whose vectors make up the vector of the whole."""

    keywords: Keywords
    plan: ChunkPlan


class EVQASettings(ImageTextSettings, FrameSettings, SplitterSettings):
    """The settings of EVQAScore."""

    evqa_long_text: Literal["chunk_mean", "truncate"] = "chunk_mean"
    evqa_keywords_from: Literal["question_and_answer", "answer"] = "question_and_answer"
    evqa_dedup: bool = Field(default=True, description="whether a keyword that repeats another counts once")


class EVQAScorer:
    """EVQAScore (arXiv 2411.06908); a question-answer pair scores score * ln(n + 1), with n its keywords."""

    metric: ClassVar[str] = "evqa"
    code_version: ClassVar[str] = "1"
    # A caption lies in [-1, 1]; ln(n + 1) takes a question-answer pair beyond, to 6.9 with 1,000 keywords.
    value_range: ClassVar[tuple[float, float]] = (-7.0, 7.0)
    inputs: ClassVar[Collection[Input[Any]]] = (TEXT, VIDEO)
    rests_on: ClassVar[tuple[type[Source[Any]], ...]] = (TextVectors, SampledFrames)
    settings: ClassVar[type[BaseModel]] = EVQASettings

    def __init__(
        self,
        settings: EVQASettings,
        encoder: OpenClipEncoder,
        extractor: KeywordExtractor,
        splitter: SentenceSplitter,
    ) -> None:
        frames = FrameEncoder(encoder, settings.frames_every, settings.frames_cap)
        self.vectors = TextVectors(ClipTexts(encoder), self.texts, self.inputs)
        self.frames = SampledFrames(frames, self._is_scorable, self.inputs)
        self.sources: tuple[Source[Any], ...] = (self.vectors, self.frames)
        self._settings = settings
        self._encoder = encoder
        self._extractor = extractor
        self._splitter = splitter
        # Asked once for the texts to be embedded and once for the score.
        self._read = lru_cache(maxsize=4096)(self._read_text)

    @classmethod
    def from_settings(cls, settings: EVQASettings) -> EVQAScorer:
        """The scorer that the settings describe, with its real models."""
        return cls(settings, settings.make_image_text_encoder(), RuleKeywords(), settings.make_splitter())

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
        if self._is_scorable(sample):
            reading = self._read(sample.text, sample.answer)
            yield from reading.plan.chunks
            yield from reading.keywords.cleaned

    def score(self, samples: Sequence[PendingSample], evidence: Evidence) -> list[Outcome]:
        """One outcome per sample; a video is prepared once for all its samples."""
        videos = {video_id: prepare_frames(frames.features) for video_id, frames in evidence[self.frames].items()}
        return [self._refusal(sample) or self._score_one(sample, evidence, videos) for sample in samples]

    def explain(
        self, connection: Connection, sample: PendingSample, evidence: Evidence, components: Mapping[str, Any]
    ) -> Explanation:
        """Each keyword with the frame that shows it best."""
        keywords = self._read(sample.text, sample.answer).keywords.cleaned
        frames = evidence[self.frames][sample.video_id]
        cosines = similarity_to_frames(_rows(keywords, evidence[self.vectors]), frames.features)
        rows = [
            {
                "keyword": keyword,
                "cosine": float(of_frames.max()),
                "best frame at s": frames.times_s[of_frames.argmax()],
            }
            for keyword, of_frames in zip(keywords, cosines, strict=True)
        ]
        parts = ", ".join(f"{name} {components[name]:.4f}" for name in NUMBERS if components.get(name) is not None)
        return Explanation([f"{len(frames.times_s)} frames; {parts}"], rows)

    @cached_property
    def _knows_the_demo_alone(self) -> bool:
        return self._encoder.identity.model_id == DEMO_ENCODER

    def _is_scorable(self, sample: PendingSample) -> bool:
        return self._refusal(sample) is None

    def _refusal(self, sample: PendingSample) -> Outcome | None:
        """Why nothing can be said of a sample, known before any model looks at it."""
        video = sample[VIDEO]
        if video.status == "text_only":
            return Outcome(None, "no_frames", "the video has no file: EVQAScore compares texts with frames")
        if video.status not in ("ok", "damaged"):
            return Outcome(None, "no_frames", f"the video cannot be decoded: {video.error}")
        if self._knows_the_demo_alone and sample.dataset != DEMO_DATASET:
            return Outcome(
                None,
                "no_model",
                "the demo encoder knows the clips of the demo alone: set REELSIEVE_IMAGE_TEXT_ENCODER and "
                "REELSIEVE_IMAGE_TEXT_CHECKPOINT to a real encoder",
            )
        return None

    def _score_one(self, sample: PendingSample, evidence: Evidence, videos: Mapping[int, FrameFeatures]) -> Outcome:
        frames, vectors = evidence[self.frames][sample.video_id], evidence[self.vectors]
        if frames.status != "ok":
            return _without_frames(frames)
        reading = self._read(sample.text, sample.answer)
        notes = self._notes(reading, len(frames.features))
        if not reading.plan.chunks:
            return Outcome(None, "empty_text", "the caption is empty", notes)
        try:
            whole = weighted_mean(_rows(reading.plan.chunks, vectors), reading.plan.tokens)
        except BadFeature as error:
            return Outcome(None, "bad_feature", str(error), notes)
        keywords = _rows(reading.keywords.cleaned, vectors)
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


def _without_frames(frames: VideoFrames) -> Outcome:
    return Outcome(None, "failed" if frames.status == "failed" else "no_frames", frames.error)


def _rows(texts: Sequence[str], vectors: Vectors) -> list[NDArray[np.float32]]:
    return [vectors[text] for text in texts]


def _numbers(result: EVQAResult) -> dict[str, float | None]:
    return {name: getattr(result, name) for name in NUMBERS}
