"""The scorer of EVQAScore, which compares captions and question-answer pairs with the sampled frames of their video."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel
from sqlalchemy.engine import Connection

from assets.home.folder import DEMO_DATASET
from assets.metrics.evqa.prepared_text import TextPreparer
from assets.metrics.evqa.settings import EVQASettings
from assets.models.settings import DEMO_ENCODER
from assets.scores.base import Explanation, Outcome
from assets.sources.base import Evidence, Source
from assets.sources.frames import SampledFrames
from assets.sources.keywords import ExtractedKeywords, FindExtraction, KeywordVectors
from assets.sources.texts import TextVectors
from db.evidence.embeddings import StoredVectors
from db.schema.inputs import TEXT, VIDEO, Input
from db.scores.pending import PendingSample
from metrics_core.evqa import (
    BadFeature,
    EVQAResult,
    VideoFeatures,
    compute_keyword_frame_cosines,
    evqa_from_prepared_frames,
    prepare_frames,
    qa_score,
)
from metrics_core.frames.features import FrameEncoder
from metrics_core.keywords import clean_keywords
from metrics_core.long_text import average_chunk_features
from metrics_core.models.chat_keywords import ChatKeywordExtractor
from metrics_core.models.clip_encoder import ClipTextEncoder, OpenClipEncoder
from metrics_core.protocols import KeywordExtractor, SentenceSplitter

NUMBER_NAMES = ("precision", "recall", "f1", "coarse", "score")


class EVQAScorer:
    """Scores captions and question-answer pairs by EVQAScore (arXiv 2411.06908), from vectors of keywords, texts and
    sampled frames. For a question-answer pair with n keywords, EVQAScore is multiplied by ln(n + 1).
    """

    metric: ClassVar[str] = "evqa"
    code_version: ClassVar[str] = "1"
    # A caption's value lies in [-1, 1]; a question-answer pair with 1,000 keywords may reach 6.9.
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
        frames = FrameEncoder(encoder, settings.frames_every, settings.frames_cap, settings.frame_reader)
        self.frames = SampledFrames(frames, self._is_scorable, self.inputs)
        self.keywords: ExtractedKeywords | None = None
        self.vectors = TextVectors(ClipTextEncoder(encoder), self._list_texts_by_rule, self.inputs)
        if isinstance(extractor, ChatKeywordExtractor):
            self.keywords = ExtractedKeywords(extractor, settings, self._list_keyword_texts, self.inputs)
            self.vectors = KeywordVectors(ClipTextEncoder(encoder), self.keywords, self.list_texts, self.inputs)
        self.sources: tuple[Source[Any], ...] = (self.vectors, self.frames)
        self._settings = settings
        self._encoder = encoder
        self._extractor = extractor
        self._splitter = splitter
        self._preparer = TextPreparer(
            encoder, extractor, splitter, settings.evqa_long_text, settings.evqa_keywords_from, settings.evqa_dedup
        )

    @classmethod
    def from_settings(cls, settings: EVQASettings) -> EVQAScorer:
        """Make the scorer with encoder, keyword extractor and splitter of the settings; they load at first use."""
        return cls(settings, settings.make_image_text_encoder(), settings.make_extractor(), settings.make_splitter())

    def models(self) -> dict[str, Any]:
        """Return the identities of the models as dicts, by role: image_text_encoder, keyword_extractor and
        sentence_splitter.
        """
        return {
            "image_text_encoder": self._encoder.identity.as_dict(),
            "keyword_extractor": self._extractor.identity.as_dict(),
            "sentence_splitter": self._splitter.identity.as_dict(),
        }

    def params(self) -> dict[str, Any]:
        """Return the parameters of frame sampling, long texts and keywords, by name, ready for JSON."""
        return {
            "frames_every": self._settings.frames_every,
            "frames_cap": self._settings.frames_cap,
            "long_text": self._settings.evqa_long_text,
            "keywords_from": self._settings.evqa_keywords_from,
            "dedup": self._settings.evqa_dedup,
            "qa_factor": "ln(n + 1)",
        }

    def list_texts(self, sample: PendingSample, find: FindExtraction) -> Iterator[str]:
        """Yield the texts of a sample that need a vector: the chunks of its text, then its cleaned keywords. find:
        returns the keyword extraction of a text. Yield nothing if the extraction failed, if the video has no readable
        file, or if the encoder is the demo's and the dataset is not.
        """
        for text in self._list_keyword_texts(sample):
            extraction = find(text)
            if extraction.status == "ok":
                yield from self._preparer.prepare(sample.text, extraction.keywords).texts

    def score(self, samples: Sequence[PendingSample], evidence: Evidence) -> list[Outcome]:
        """Return one outcome for every sample, in order, from the stored frames, vectors and keywords. Components have
        the parts of the score and the keywords. A sample without frames, text or a usable encoder, or whose keywords
        failed, gets a status and a reason.
        """
        videos = {video_id: prepare_frames(frames.features) for video_id, frames in evidence[self.frames].items()}
        find = self._choose_extractions(evidence)
        return [self._find_obstacle(sample) or self._score_one(sample, evidence, videos, find) for sample in samples]

    def explain(
        self, connection: Connection, sample: PendingSample, evidence: Evidence, components: Mapping[str, Any]
    ) -> Explanation:
        """Return a line with the number of frames and the score's parts, and a row for every keyword. A row has the
        keyword's highest cosine with a frame, and that frame's time in seconds. components: those stored with the
        score.
        """
        raw = self._choose_extractions(evidence)(self._preparer.choose_keyword_text(sample)).keywords
        keywords = self._preparer.prepare(sample.text, raw).keywords.cleaned
        frames = evidence[self.frames][sample.video_id]
        cosines = compute_keyword_frame_cosines(_list_vectors(keywords, evidence[self.vectors]), frames.features)
        rows = [
            {
                "keyword": keyword,
                "cosine": float(frame_cosines.max()),
                "best frame at s": frames.times_s[frame_cosines.argmax()],
            }
            for keyword, frame_cosines in zip(keywords, cosines, strict=True)
        ]
        parts = ", ".join(f"{name} {components[name]:.4f}" for name in NUMBER_NAMES if components.get(name) is not None)
        return Explanation([f"{len(frames.times_s)} frames; {parts}"], rows)

    @cached_property
    def _is_demo_encoder(self) -> bool:
        return self._encoder.identity.model_id == DEMO_ENCODER

    def refusal(self, sample: PendingSample) -> Outcome | None:
        """Return the outcome, with status and reason, of a sample that has no value whatever models answer; else None.
        Its video has no readable file, or rules find no keywords in its text. The demo encoder also refuses all
        datasets but the demo.
        """
        if refused := self._find_obstacle(sample):
            return refused
        if self.keywords is None and not self._extract_keywords_by_rule(sample):
            return Outcome(None, "no_keywords", "the text has no keyword")
        return None

    def _extract_keywords_by_rule(self, sample: PendingSample) -> list[str]:
        raw = self._preparer.extract_by_rule(self._preparer.choose_keyword_text(sample)).keywords
        return clean_keywords(raw, dedup=self._settings.evqa_dedup)

    def _is_scorable(self, sample: PendingSample) -> bool:
        return self._find_obstacle(sample) is None

    def _find_obstacle(self, sample: PendingSample) -> Outcome | None:
        """Return the outcome of a sample whose video has no readable file, or that the demo encoder cannot encode.

        None for any other sample.
        """
        video = sample[VIDEO]
        if video.status == "text_only":
            return Outcome(None, "no_frames", "the video has no file: EVQAScore compares texts with frames")
        if video.status not in ("ok", "damaged"):
            return Outcome(None, "no_frames", f"the video cannot be decoded: {video.error}")
        if self._is_demo_encoder and sample.dataset != DEMO_DATASET:
            return Outcome(
                None,
                "no_model",
                "the built-in encoder only works on the demo: set REELSIEVE_IMAGE_TEXT_ENCODER and "
                "REELSIEVE_IMAGE_TEXT_CHECKPOINT to a real encoder",
            )
        return None

    def _choose_extractions(self, evidence: Evidence) -> FindExtraction:
        return self._preparer.extract_by_rule if self.keywords is None else evidence[self.keywords].__getitem__

    def _list_texts_by_rule(self, sample: PendingSample) -> Iterator[str]:
        return self.list_texts(sample, self._preparer.extract_by_rule)

    def _list_keyword_texts(self, sample: PendingSample) -> Iterator[str]:
        if self._is_scorable(sample):
            yield self._preparer.choose_keyword_text(sample)

    def _score_one(
        self, sample: PendingSample, evidence: Evidence, videos: Mapping[int, VideoFeatures], find: FindExtraction
    ) -> Outcome:
        frames, vectors = evidence[self.frames][sample.video_id], evidence[self.vectors]
        if frames.status != "ok":
            return Outcome(None, "failed" if frames.status == "failed" else "no_frames", frames.error)
        extraction = find(self._preparer.choose_keyword_text(sample))
        if extraction.status != "ok":
            return Outcome(None, extraction.status, f"no keywords: {extraction.reason}")
        prepared = self._preparer.prepare(sample.text, extraction.keywords)
        components = {**prepared.components, "n_frames": len(frames.features)}
        if not prepared.chunk_plan.chunks:
            return Outcome(None, "empty_text", "the caption is empty", components)
        try:
            whole = average_chunk_features(
                _list_vectors(prepared.chunk_plan.chunks, vectors), prepared.chunk_plan.tokens
            )
        except BadFeature as error:
            return Outcome(None, "bad_feature", str(error), components)
        keywords = _list_vectors(prepared.keywords.cleaned, vectors)
        result = evqa_from_prepared_frames(videos[sample.video_id], keywords, whole)
        value = result.score if sample.kind == "caption" else qa_score(result)
        return Outcome(value, result.status, result.reason, {**_build_number_components(result), **components})


def _list_vectors(texts: Sequence[str], vectors: StoredVectors) -> list[NDArray[np.float32]]:
    return [vectors[text] for text in texts]


def _build_number_components(result: EVQAResult) -> dict[str, float | None]:
    return {name: getattr(result, name) for name in NUMBER_NAMES}
