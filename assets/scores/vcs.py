"""The VCS scorer: captions against the references of their video, the best reference counting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assets.scores.base import Features, Outcome, ScorerSettings
from assets.scores.checklist import Checklist
from db.work import PendingSample, ReferenceText
from metrics_core.frames.encoding import FrameEncoder
from metrics_core.models.sentence_splitter import make_splitter
from metrics_core.models.text_encoder import make_text_encoder
from metrics_core.protocols import SentenceSplitter, TextEncoder
from metrics_core.vcs import VCSResult, best_reference, chunk_segments, vcs_batch
from metrics_core.vcs.embeddings import similarities_of_pairs

COMPONENTS = ("gas", "las", "sas", "nas", "nas_d", "nas_l", "window_regularizer", "margin", "always_zero")


class ReferenceScorer:
    """Captions against references, chunk by chunk; the maximum over the references. A metric says what a chunk is."""

    value_range = (0.0, 1.0)
    inputs = frozenset({"text", "references"})
    frame_encoder: FrameEncoder | None = None
    checklist: Checklist | None = None
    # What a chunk is called in the components, and what a text without any lacks.
    chunk: str
    content: str

    def __init__(
        self, settings: ScorerSettings, text_encoder: TextEncoder, chunks_of: Callable[[str], list[str]], lct: float
    ) -> None:
        self.text_encoder = text_encoder
        self._short_text = settings.vcs_short_text
        self._parameters: dict[str, Any] = {
            "lct": lct,
            "context_cutoff": settings.vcs_context_cutoff,
            "context_window_control": settings.vcs_context_window_control,
        }
        # References recur for every sample of a video: their chunks are found once per batch or so.
        self._chunks = lru_cache(maxsize=4096)(chunks_of)

    def models(self) -> dict[str, Any]:
        """The text encoder."""
        return {"text_encoder": self.text_encoder.identity.as_dict()}

    def params(self) -> dict[str, Any]:
        """The parameters of the metric."""
        # Named only where it is set, so that scorers from before there was such a setting keep their fingerprint.
        switched_on = {"short_text": True} if self._short_text else {}
        return {**self._parameters, **switched_on, "references": "maximum"}

    def texts(self, sample: PendingSample) -> Iterator[str]:
        """The whole text and the chunks of the caption and of each reference."""
        if sample.kind != "caption" or not sample.text or not sample.references:
            return
        for text in (sample.text, *(reference.text for reference in sample.references)):
            yield text
            yield from self._chunks(text)

    def score(self, samples: Sequence[PendingSample], features: Features) -> list[Outcome]:
        """One outcome per sample; all samples are compared with all their references at once."""
        usable = [self._usable_references(sample) for sample in samples]
        pairs = [
            (reference.text, sample.text)
            for sample, references in zip(samples, usable, strict=True)
            for reference in references
        ]
        results = iter(self._compare(pairs, features.texts))
        return [
            self._best(references, list(islice(results, len(references)))) if references else self._refusal(sample)
            for sample, references in zip(samples, usable, strict=True)
        ]

    def _usable_references(self, sample: PendingSample) -> list[ReferenceText]:
        if sample.kind != "caption" or not self._chunks(sample.text):
            return []
        return [reference for reference in sample.references if self._chunks(reference.text)]

    def _compare(self, pairs: Sequence[tuple[str, str]], vectors: Mapping[str, NDArray[np.float32]]) -> list[VCSResult]:
        distinct = {text for pair in pairs for text in pair}
        chunks = {text: np.stack([vectors[chunk] for chunk in self._chunks(text)]) for text in distinct}
        similarities = similarities_of_pairs(
            (chunks[reference], chunks[generated], vectors[reference], vectors[generated])
            for reference, generated in pairs
        )
        return vcs_batch(similarities, short_text=self._short_text, **self._parameters)

    def _best(self, references: Sequence[ReferenceText], results: Sequence[VCSResult]) -> Outcome:
        best = best_reference(results)
        result = results[best]
        components = {name: getattr(result, name) for name in COMPONENTS} | {
            f"n_reference_{self.chunk}s": len(result.match_recall),
            f"n_generated_{self.chunk}s": len(result.match_precision),
            "reference": references[best].key,
            "n_references": len(references),
        }
        return Outcome(result.vcs, components=components)

    def _refusal(self, sample: PendingSample) -> Outcome:
        if sample.kind != "caption":
            return Outcome(
                None, "not_applicable", "VCS compares captions with references; this is a question-answer pair"
            )
        if not sample.references:
            return Outcome(None, "no_reference", "the video has no reference to compare with")
        if not self._chunks(sample.text):
            return Outcome(None, "empty_text", f"the caption holds no {self.content}")
        return Outcome(None, "no_reference", f"no reference of the video holds a {self.content}")


class VCSScorer(ReferenceScorer):
    """Video Comprehension Score (code 1.0.0 of its authors) on chunks of sentences."""

    metric = "vcs"
    code_version = "2"
    chunk = "chunk"
    content = "sentence"

    def __init__(self, settings: ScorerSettings, text_encoder: TextEncoder, splitter: SentenceSplitter) -> None:
        super().__init__(settings, text_encoder, self._split, settings.vcs_lct)
        self._splitter = splitter
        self._chunk_size = settings.vcs_chunk_size

    @classmethod
    def from_settings(cls, settings: ScorerSettings) -> VCSScorer:
        """The scorer that the settings describe, with its real models."""
        encoder = make_text_encoder(settings.text_encoder)
        return cls(settings, encoder, make_splitter(settings.sentence_splitter))

    def models(self) -> dict[str, Any]:
        """Text encoder and sentence splitter."""
        return {**super().models(), "sentence_splitter": self._splitter.identity.as_dict()}

    def params(self) -> dict[str, Any]:
        """Chunking and the parameters of the metric."""
        return {**super().params(), "chunk_size": self._chunk_size}

    def _split(self, text: str) -> list[str]:
        return chunk_segments(self._splitter.split(text), self._chunk_size)
