"""VCS: captions against the references of their video, the best reference counting."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from pydantic import BaseModel, Field
from sqlalchemy.engine import Connection

from assets.models.settings import SplitterSettings, TextEncoderSettings
from assets.scores.base import Explanation, Outcome
from assets.scores.vcs_explained import explain_vcs
from assets.sources.base import Evidence, Source
from assets.sources.texts import TextVectors, Vectors
from db.inputs import REFERENCES, TEXT, Input, ReferenceText
from db.work import PendingSample
from metrics_core.arrays import FloatArray
from metrics_core.protocols import SentenceSplitter, TextEncoder
from metrics_core.vcs import VCSResult, best_reference, chunk_segments, vcs_batch
from metrics_core.vcs.embeddings import similarities_of_pairs

COMPONENTS = ("gas", "las", "sas", "nas", "nas_d", "nas_l", "window_regularizer", "margin", "always_zero")


class ReferenceSettings(TextEncoderSettings):
    """What VCS and VCS_short share."""

    vcs_context_cutoff: float = Field(default=0.6)
    vcs_context_window_control: float = Field(default=4.0, gt=0.0)
    vcs_short_text: bool = Field(default=False, description="whether shapes that are always 0 get a score")
    vcs_shape_zeros: bool = Field(default=False, description="whether they keep their 0, as in the papers' tables")


class VCSSettings(ReferenceSettings, SplitterSettings):
    """The settings of VCS."""

    vcs_chunk_size: int = Field(default=1, ge=1, description="sentences per chunk")
    vcs_lct: float = Field(default=0.0, ge=0.0, description="local chronology tolerance")


class ReferenceScorer:
    """Captions against references, chunk by chunk; the maximum over the references. A metric says what a chunk is."""

    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    inputs: ClassVar[Collection[Input[Any]]] = (TEXT, REFERENCES)
    rests_on: ClassVar[tuple[type[Source[Any]], ...]] = (TextVectors,)
    # What a chunk is called in the components, what a text without any lacks, and what to do where a shape forces 0.
    chunk: ClassVar[str]
    content: ClassVar[str]
    too_short: ClassVar[str]

    def __init__(
        self, settings: ReferenceSettings, text_encoder: TextEncoder, chunks_of: Callable[[str], list[str]], lct: float
    ) -> None:
        self.vectors = TextVectors(text_encoder, self.texts, self.inputs)
        self.sources: tuple[Source[Any], ...] = (self.vectors,)
        self._short_text = settings.vcs_short_text
        self._shape_zeros = settings.vcs_shape_zeros
        self._parameters: dict[str, Any] = {
            "lct": lct,
            "context_cutoff": settings.vcs_context_cutoff,
            "context_window_control": settings.vcs_context_window_control,
        }
        # References recur for every sample of a video: their chunks are found once per batch or so.
        self._chunks = lru_cache(maxsize=4096)(chunks_of)

    def models(self) -> dict[str, Any]:
        """The text encoder."""
        return {"text_encoder": self.vectors.encoder.identity.as_dict()}

    def params(self) -> dict[str, Any]:
        """The parameters of the metric."""
        # Named only where they are set, so that scorers from before there were such settings keep their fingerprint.
        switches = {"short_text": self._short_text, "shape_zeros": self._shape_zeros}
        switched_on = {name: True for name, is_on in switches.items() if is_on}
        return {**self._parameters, **switched_on, "references": "maximum"}

    def texts(self, sample: PendingSample) -> Iterator[str]:
        """The whole text and the chunks of the caption and of each reference."""
        if sample.kind != "caption" or not sample.text or not sample[REFERENCES]:
            return
        for text in (sample.text, *(reference.text for reference in sample[REFERENCES])):
            yield text
            yield from self._chunks(text)

    def score(self, samples: Sequence[PendingSample], evidence: Evidence) -> list[Outcome]:
        """One outcome per sample; all samples are compared with all their references at once."""
        usable = [self._usable_references(sample) for sample in samples]
        pairs = [
            (reference.text, sample.text)
            for sample, references in zip(samples, usable, strict=True)
            for reference in references
        ]
        results = iter(self._compare(pairs, evidence[self.vectors]))
        return [
            self._best(references, list(islice(results, len(references)))) if references else self._refusal(sample)
            for sample, references in zip(samples, usable, strict=True)
        ]

    def explain(
        self, connection: Connection, sample: PendingSample, evidence: Evidence, components: Mapping[str, Any]
    ) -> Explanation:
        """Which chunk met which in the best reference, and where the order broke."""
        text = next(r.text for r in sample[REFERENCES] if r.key == components["reference"])
        pairs = self._similarities([(text, sample.text)], evidence[self.vectors])
        (result,) = vcs_batch(pairs, short_text=self._short_text, **self._parameters)
        return explain_vcs(self._chunks(text), self._chunks(sample.text), pairs[0][0], result)

    def _usable_references(self, sample: PendingSample) -> list[ReferenceText]:
        if sample.kind != "caption" or not self._chunks(sample.text):
            return []
        return [reference for reference in sample[REFERENCES] if self._chunks(reference.text)]

    def _compare(self, pairs: Sequence[tuple[str, str]], vectors: Vectors) -> list[VCSResult]:
        return vcs_batch(self._similarities(pairs, vectors), short_text=self._short_text, **self._parameters)

    def _similarities(self, pairs: Sequence[tuple[str, str]], vectors: Vectors) -> list[tuple[FloatArray, float]]:
        distinct = {text for pair in pairs for text in pair}
        chunks = {text: np.stack([vectors[chunk] for chunk in self._chunks(text)]) for text in distinct}
        return similarities_of_pairs(
            (chunks[reference], chunks[generated], vectors[reference], vectors[generated])
            for reference, generated in pairs
        )

    def _best(self, references: Sequence[ReferenceText], results: Sequence[VCSResult]) -> Outcome:
        best = best_reference(results)
        result = results[best]
        components = {name: getattr(result, name) for name in COMPONENTS} | {
            f"n_reference_{self.chunk}s": len(result.match_recall),
            f"n_generated_{self.chunk}s": len(result.match_precision),
            "reference": references[best].key,
            "n_references": len(references),
        }
        # Where one reference has a shape that can score, the 0 is earned.
        if not self._shape_zeros and all(each.always_zero for each in results):
            return Outcome(
                None, "too_short", f"texts of this shape score 0 whatever they say: {self.too_short}", components
            )
        return Outcome(result.vcs, components=components)

    def _refusal(self, sample: PendingSample) -> Outcome:
        if sample.kind != "caption":
            return Outcome(
                None, "not_applicable", "VCS compares captions with references; this is a question-answer pair"
            )
        if not sample[REFERENCES]:
            return Outcome(None, "no_reference", "the video has no reference to compare with")
        if not self._chunks(sample.text):
            return Outcome(None, "empty_text", f"the caption holds no {self.content}")
        return Outcome(None, "no_reference", f"no reference of the video holds a {self.content}")


class VCSScorer(ReferenceScorer):
    """Video Comprehension Score (code 1.0.0 of its authors) on chunks of sentences."""

    metric: ClassVar[str] = "vcs"
    code_version: ClassVar[str] = "2"
    settings: ClassVar[type[BaseModel]] = VCSSettings
    chunk = "chunk"
    content = "sentence"
    too_short = "use vcs_short, or set REELSIEVE_VCS_SHORT_TEXT=true"

    def __init__(self, settings: VCSSettings, text_encoder: TextEncoder, splitter: SentenceSplitter) -> None:
        super().__init__(settings, text_encoder, self._split, settings.vcs_lct)
        self._splitter = splitter
        self._chunk_size = settings.vcs_chunk_size

    @classmethod
    def from_settings(cls, settings: VCSSettings) -> VCSScorer:
        """The scorer that the settings describe, with its real models."""
        return cls(settings, settings.make_text_encoder(), settings.make_splitter())

    def models(self) -> dict[str, Any]:
        """Text encoder and sentence splitter."""
        return {**super().models(), "sentence_splitter": self._splitter.identity.as_dict()}

    def params(self) -> dict[str, Any]:
        """Chunking and the parameters of the metric."""
        return {**super().params(), "chunk_size": self._chunk_size}

    def _split(self, text: str) -> list[str]:
        return chunk_segments(self._splitter.split(text), self._chunk_size)
