"""The VCS scorer: captions against the references of their video, the best reference counting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from assets.scores.base import Features, Outcome, ScorerSettings
from db.work import PendingSample
from metrics_core.frames.encoding import FrameEncoder
from metrics_core.models.sentence_splitter import make_splitter
from metrics_core.models.text_encoder import make_text_encoder
from metrics_core.protocols import SentenceSplitter, TextEncoder
from metrics_core.vcs import VCSResult, best_reference, chunk_segments, vcs_from_embeddings

COMPONENTS = ("gas", "las", "sas", "nas", "nas_d", "nas_l", "window_regularizer", "margin", "always_zero")


class VCSScorer:
    """Video Comprehension Score (code 1.0.0 of its authors) on sentence chunks; the maximum over the references."""

    metric = "vcs"
    code_version = "1"
    value_range = (0.0, 1.0)
    inputs = frozenset({"text", "references"})
    frame_encoder: FrameEncoder | None = None

    def __init__(self, settings: ScorerSettings, text_encoder: TextEncoder, splitter: SentenceSplitter) -> None:
        self.text_encoder = text_encoder
        self._splitter = splitter
        self._settings = settings
        # References recur for every sample of a video: their chunks are found once per batch or so.
        self._chunks = lru_cache(maxsize=4096)(self._split)

    @classmethod
    def from_settings(cls, settings: ScorerSettings) -> VCSScorer:
        """The scorer that the settings describe, with its real models."""
        encoder = make_text_encoder(settings.text_encoder)
        return cls(settings, encoder, make_splitter(settings.sentence_splitter))

    def models(self) -> dict[str, Any]:
        """Text encoder and sentence splitter."""
        return {
            "text_encoder": self.text_encoder.identity.as_dict(),
            "sentence_splitter": self._splitter.identity.as_dict(),
        }

    def params(self) -> dict[str, Any]:
        """Chunking and the parameters of the metric."""
        return {
            "chunk_size": self._settings.vcs_chunk_size,
            "lct": self._settings.vcs_lct,
            "context_cutoff": self._settings.vcs_context_cutoff,
            "context_window_control": self._settings.vcs_context_window_control,
            "references": "maximum",
        }

    def texts(self, sample: PendingSample) -> Iterator[str]:
        """The whole text and the chunks of the caption and of each reference."""
        if sample.kind != "caption" or not sample.references:
            return
        for text in (sample.text, *(reference.text for reference in sample.references)):
            yield text
            yield from self._chunks(text)

    def score(self, samples: Sequence[PendingSample], features: Features) -> list[Outcome]:
        """One outcome per sample."""
        return [self._score_one(sample, features) for sample in samples]

    def _score_one(self, sample: PendingSample, features: Features) -> Outcome:
        if sample.kind != "caption":
            return Outcome(
                None,
                "not_applicable",
                "VCS compares captions with references; this is a question-answer pair",
            )
        if not sample.references:
            return Outcome(None, "no_reference", "the video has no reference to compare with")
        if not self._chunks(sample.text):
            return Outcome(None, "empty_text", "the caption holds no sentence")
        usable = [reference for reference in sample.references if self._chunks(reference.text)]
        if not usable:
            return Outcome(None, "no_reference", "no reference of the video holds a sentence")
        results = [self._compare(reference.text, sample.text, features) for reference in usable]
        best = best_reference(results)
        return Outcome(results[best].vcs, components=_components(results[best], usable[best].key, len(usable)))

    def _compare(self, reference: str, generated: str, features: Features) -> VCSResult:
        vectors = features.texts
        return vcs_from_embeddings(
            np.stack([vectors[chunk] for chunk in self._chunks(reference)]),
            np.stack([vectors[chunk] for chunk in self._chunks(generated)]),
            vectors[reference],
            vectors[generated],
            lct=self._settings.vcs_lct,
            context_cutoff=self._settings.vcs_context_cutoff,
            context_window_control=self._settings.vcs_context_window_control,
        )

    def _split(self, text: str) -> list[str]:
        return chunk_segments(self._splitter.split(text), self._settings.vcs_chunk_size)


def _components(result: VCSResult, reference: str, n_references: int) -> dict[str, Any]:
    scalars = {name: getattr(result, name) for name in COMPONENTS}
    sizes = {
        "n_reference_chunks": len(result.match_recall),
        "n_generated_chunks": len(result.match_precision),
    }
    return {**scalars, **sizes, "reference": reference, "n_references": n_references}
