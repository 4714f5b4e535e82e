"""The scorers of VCS and VCS_short, which compare a caption with its references by sentence or by word."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field
from sqlalchemy.engine import Connection

from assets.models.settings import SplitterSettings, TextEncoderSettings
from assets.scores.base import Explanation, Outcome
from assets.sources.base import Evidence, Source
from assets.sources.texts import TextVectors
from db.schema.inputs import REFERENCES, TEXT, Input, ReferenceText
from db.scores.pending import PendingSample
from metrics_core.protocols import SentenceSplitter, TextEncoder
from metrics_core.vcs import VCSCaptionResult, VCSResult, chunk_segments, split_content_words, vcs_batch, vcs_captions
from metrics_core.vcs.references import compute_text_similarities

COMPONENTS = ("gas", "las", "sas", "nas", "nas_d", "nas_l", "window_regularizer", "margin", "always_zero")
NOT_A_CAPTION = Outcome(None, "not_applicable", "VCS compares captions with references; this is a question-answer pair")


class ReferenceSettings(TextEncoderSettings):
    """Settings that VCS and VCS_short share. They are those of the text encoder, and the parameters of both."""

    vcs_context_cutoff: float = Field(
        default=0.6, description="tau of VCS: from this similarity of the best match, less similar chunks may match too"
    )
    vcs_context_window_control: float = Field(
        default=4.0, gt=0.0, description="k of VCS: the greater, the fewer chunks besides the best may match"
    )
    vcs_short_text: bool = Field(
        default=False, description="whether texts that are too short for VCS, and always score 0, get a score"
    )
    vcs_shape_zeros: bool = Field(
        default=False, description="whether texts that always score 0 keep their 0, as in the papers' tables"
    )


class VCSSettings(ReferenceSettings, SplitterSettings):
    """Settings of VCS. They are those it shares with VCS_short, the sentence splitter, chunk size and tolerance."""

    vcs_chunk_size: int = Field(default=1, ge=1, description="sentences per chunk")
    vcs_lct: float = Field(default=0.0, ge=0.0, description="local chronology tolerance")


def _list_distinct_references(sample: PendingSample) -> list[ReferenceText]:
    """Return the references of a sample's video in their order, without later ones that repeat a text; [] if there are
    none.
    """
    first: dict[str, ReferenceText] = {}
    for reference in sample[REFERENCES]:
        first.setdefault(reference.text, reference)
    return list(first.values())


class ReferenceScorer:
    """The base class of scorers that compare captions with references chunk by chunk by VCS; the best reference counts.
    A subclass hands in `chunks_of`, the function that splits a text into chunks, and `lct`, the local chronology
    tolerance of VCS.
    """

    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    inputs: ClassVar[Collection[Input[Any]]] = (TEXT, REFERENCES)
    rests_on: ClassVar[tuple[type[Source[Any]], ...]] = (TextVectors,)
    # The name of a chunk in the components, the content that a text without chunks lacks, the remedy for short texts.
    chunk_name: ClassVar[str]
    content_name: ClassVar[str]
    short_text_remedy: ClassVar[str]

    def __init__(
        self, settings: ReferenceSettings, text_encoder: TextEncoder, chunks_of: Callable[[str], list[str]], lct: float
    ) -> None:
        self.vectors = TextVectors(text_encoder, self.list_texts, self.inputs)
        self.sources: tuple[Source[Any], ...] = (self.vectors,)
        self._short_text = settings.vcs_short_text
        self._shape_zeros = settings.vcs_shape_zeros
        self._parameters: dict[str, Any] = {
            "lct": lct,
            "context_cutoff": settings.vcs_context_cutoff,
            "context_window_control": settings.vcs_context_window_control,
        }
        # Every sample of a video has the same references, so the chunks of a text are kept.
        self._chunks = lru_cache(maxsize=4096)(chunks_of)
        self._always_zero = lru_cache(maxsize=4096)(self._is_zero_shape)
        self._too_short_outcome = Outcome(
            None, "too_short", f"texts with so few chunks always score 0: {self.short_text_remedy}"
        )

    def models(self) -> dict[str, Any]:
        """Return {"text_encoder": identity of the text encoder, as a dict}."""
        return {"text_encoder": self.vectors.encoder.identity.as_dict()}

    def params(self) -> dict[str, Any]:
        """Return the parameters of VCS by name, ready for JSON. The switches short_text and shape_zeros are among them
        only if they are on.
        """
        # Only a switch that is on is named, so that scorers from before the switches existed keep their fingerprint.
        switches = {"short_text": self._short_text, "shape_zeros": self._shape_zeros}
        switched_on = {name: True for name, is_on in switches.items() if is_on}
        return {**self._parameters, **switched_on, "references": "maximum"}

    def list_texts(self, sample: PendingSample) -> Iterator[str]:
        """Yield the texts of a sample that need a vector: caption and distinct references, every text followed by its
        chunks. Yield nothing for a question-answer pair, an empty caption, or a video without references.
        """
        if sample.kind != "caption" or not sample.text or not sample[REFERENCES]:
            return
        for text in (sample.text, *(reference.text for reference in _list_distinct_references(sample))):
            yield text
            yield from self._chunks(text)

    def score(self, samples: Sequence[PendingSample], evidence: Evidence) -> list[Outcome]:
        """Return one outcome for every sample, in order: the highest VCS of its caption with a reference of its video.
        Components have the parts of the score and the reference's key. A question-answer pair gets status
        not_applicable; a caption without anything to compare, or too short for VCS, gets a status too.
        """
        captions = [sample for sample in samples if sample.kind == "caption"]
        vectors = evidence[self.vectors]
        results = iter(
            vcs_captions(
                [
                    ([reference.text for reference in _list_distinct_references(sample)], sample.text)
                    for sample in captions
                ],
                vectors,
                self._chunks,
                short_text=self._short_text,
                **self._parameters,
            )
        )
        return [
            self._build_outcome(sample, next(results), vectors.in_chunks) if sample.kind == "caption" else NOT_A_CAPTION
            for sample in samples
        ]

    def explain(
        self, connection: Connection, sample: PendingSample, evidence: Evidence, components: Mapping[str, Any]
    ) -> Explanation:
        """Return lines about the best reference and the parts of the score, and a row for every caption chunk. A row
        has the most similar reference chunk, and where the order differs. components: those stored with the score,
        where "reference" is the best reference's key.
        """
        best = next(reference for reference in sample[REFERENCES] if reference.key == components["reference"])
        vectors = evidence[self.vectors]
        pairs = compute_text_similarities([(best.text, sample.text)], vectors, self._chunks)
        (result,) = vcs_batch(pairs, short_text=self._short_text, **self._parameters)
        rank = f", the best of {n}" if (n := components["n_references"]) > 1 else ""
        lines = [f"reference {best.key}{rank}: {best.text}"]
        lines += [
            f"the {name} is too long to be encoded at once: it was read in {vectors.in_chunks[text]} chunks"
            for name, text in (("reference", best.text), ("caption", sample.text))
            if text in vectors.in_chunks
        ]
        explanation = _explain_chunks(self._chunks(best.text), self._chunks(sample.text), pairs[0][0], result)
        return replace(explanation, lines=[*lines, *explanation.lines], reference=best.key)

    def refusal(self, sample: PendingSample) -> Outcome | None:
        """Return the outcome, with status and reason, of a sample that has no value whatever its vectors are; else
        None. Such samples are question-answer pairs, and captions without a chunk or without a reference that has one.
        Captions that have too few chunks for a score above 0 with any reference are refused too, unless setting
        vcs_shape_zeros is on.
        """
        if sample.kind != "caption":
            return NOT_A_CAPTION
        generated = len(self._chunks(sample.text))
        shapes = [
            (n, generated)
            for reference in _list_distinct_references(sample)
            if (n := len(self._chunks(reference.text)))
        ]
        if not generated or not shapes:
            return self._build_undefined_outcome(sample, "no_reference" if generated else "empty_text")
        is_zero = not self._shape_zeros and all(self._always_zero(*shape) for shape in shapes)
        return self._too_short_outcome if is_zero else None

    def _is_zero_shape(self, n_reference: int, n_generated: int) -> bool:
        """Whether texts with so many chunks always score 0, whatever they contain; any cosines show it."""
        alike = np.ones((n_reference, n_generated))
        (result,) = vcs_batch([(alike, 1.0)], short_text=self._short_text, **self._parameters)
        return result.always_zero

    def _build_outcome(self, sample: PendingSample, caption: VCSCaptionResult, in_chunks: Mapping[str, int]) -> Outcome:
        result = caption.result
        if caption.best_reference_index is None or result is None:
            return self._build_undefined_outcome(sample, caption.status)
        reference = _list_distinct_references(sample)[caption.best_reference_index]
        texts = {"reference": reference.text, "generated": sample.text}
        components = {name: getattr(result, name) for name in COMPONENTS} | {
            f"n_reference_{self.chunk_name}s": len(result.match_recall),
            f"n_generated_{self.chunk_name}s": len(result.match_precision),
            "reference": reference.key,
            "n_references": len(caption.result_by_reference),
            # Named only where the encoder could not read the text at once.
            **{f"{side}_text_chunks": in_chunks[text] for side, text in texts.items() if text in in_chunks},
        }
        # Where the shape with one of the references allows a score, a 0 is earned.
        if caption.always_zero and not self._shape_zeros:
            return replace(self._too_short_outcome, components=components)
        return Outcome(result.vcs, components=components)

    def _build_undefined_outcome(self, sample: PendingSample, status: str) -> Outcome:
        if not sample[REFERENCES]:
            return Outcome(None, "no_reference", "the video has no reference to compare with")
        if status == "empty_text":
            return Outcome(None, status, f"the caption has no {self.content_name}")
        return Outcome(None, status, f"no reference of the video has a {self.content_name}")


class VCSScorer(ReferenceScorer):
    """Scores captions by the Video Comprehension Score (code 1.0.0 of its authors): whether a caption has the content
    of a reference in the same order. It compares chunks of one or more sentences, and the best reference counts.
    """

    metric: ClassVar[str] = "vcs"
    code_version: ClassVar[str] = "3"
    settings: ClassVar[type[BaseModel]] = VCSSettings
    chunk_name = "chunk"
    content_name = "sentence"
    short_text_remedy = "use vcs_short, or set REELSIEVE_VCS_SHORT_TEXT=true"

    def __init__(self, settings: VCSSettings, text_encoder: TextEncoder, splitter: SentenceSplitter) -> None:
        super().__init__(settings, text_encoder, self._split, settings.vcs_lct)
        self._splitter = splitter
        self._chunk_size = settings.vcs_chunk_size

    @classmethod
    def from_settings(cls, settings: VCSSettings) -> VCSScorer:
        """Make the scorer with the text encoder and splitter of the settings, which load when they are first used."""
        return cls(settings, settings.make_text_encoder(), settings.make_splitter())

    def models(self) -> dict[str, Any]:
        """Return the identities of text encoder and sentence splitter, as dicts by role: text_encoder and
        sentence_splitter.
        """
        return {**super().models(), "sentence_splitter": self._splitter.identity.as_dict()}

    def params(self) -> dict[str, Any]:
        """Return the chunk size, as chunk_size, and the other parameters of VCS by name, ready for JSON."""
        return {**super().params(), "chunk_size": self._chunk_size}

    def _split(self, text: str) -> list[str]:
        return chunk_segments(self._splitter.split(text), self._chunk_size)


class VCSShortSettings(ReferenceSettings):
    """Settings of VCS_short. They are those it shares with VCS, and its own tolerance."""

    vcs_short_lct: float = Field(default=1.0, ge=0.0, description="local chronology tolerance of VCS_short")


class VCSShortScorer(ReferenceScorer):
    """Scores captions by VCS_short: VCS whose chunks are single words, without punctuation and English stop words. The
    best reference counts.
    """

    metric: ClassVar[str] = "vcs_short"
    code_version: ClassVar[str] = "2"
    settings: ClassVar[type[BaseModel]] = VCSShortSettings
    chunk_name = "word"
    content_name = "word besides stop words"
    short_text_remedy = "set REELSIEVE_VCS_SHORT_TEXT=true"

    def __init__(self, settings: VCSShortSettings, text_encoder: TextEncoder) -> None:
        super().__init__(settings, text_encoder, split_content_words, settings.vcs_short_lct)

    @classmethod
    def from_settings(cls, settings: VCSShortSettings) -> VCSShortScorer:
        """Make the scorer with the text encoder of the settings, which loads when it is first used."""
        return cls(settings, settings.make_text_encoder())


def _explain_chunks(
    reference: Sequence[str], generated: Sequence[str], similarity: NDArray[np.floating[Any]], result: VCSResult
) -> Explanation:
    """Return the explanation of a VCS score: its parts in one line, a row for every caption chunk with its most similar
    reference chunk, and a line for every reference chunk that none matches. reference, generated: the texts of the
    chunks. similarity: the cosines (R, G) of reference and caption chunks, from which `result` was computed.
    """
    rows = [
        {
            "caption": f"{i + 1} {text}",
            "meets in the reference": f"{met + 1} {reference[met]}",
            "similarity": float(similarity[met, i]),
            "order": _explain_order(result, i),
        }
        for i, (text, met) in enumerate(zip(generated, result.match_precision, strict=True))
    ]
    unmet = sorted(set(range(len(reference))) - set(result.match_precision))
    lines = [
        f"same content (SAS) {result.sas:.4f}, same order (NAS) {result.nas:.4f}: whole texts {result.gas:.4f}, "
        f"chunk by chunk {result.las:.4f}, places {result.nas_d:.4f}, steps {result.nas_l:.4f}, permissive windows "
        f"{result.window_regularizer:.4f}"
    ]
    lines += [f"no chunk of the caption matches chunk {i + 1} of the reference: {reference[i]}" for i in unmet]
    return Explanation(lines, rows)


def _explain_order(result: VCSResult, i: int) -> str:
    """Return how the match of caption chunk i differs from the reference's order; "" if it does not."""
    met, (start, end) = result.match_precision[i], result.windows_precision[i]
    notes = []
    if not start <= met < end:
        expected = f"{start + 1}" if end - start == 1 else f"{start + 1} to {end}"
        notes.append(f"expected at {expected}")
    if i and met < result.match_precision[i - 1]:
        notes.append("goes back")
    return ", ".join(notes)
