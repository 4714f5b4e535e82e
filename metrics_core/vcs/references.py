"""VCS of captions against the references of their videos: the best of several references counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray
from metrics_core.vcs.batch import vcs_batch
from metrics_core.vcs.embeddings import compute_pair_similarities
from metrics_core.vcs.result import VCSResult, choose_best_reference

Status = Literal["ok", "empty_text", "no_reference"]
Vectors = Mapping[str, npt.NDArray[np.floating[Any]]]
ChunkSplitter = Callable[[str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class VCSCaptionResult:
    """VCS of one caption against its references, or a status that explains why there is no result. result_by_reference:
    the result with every reference that has a chunk, by the reference's position. best_reference_index: the position of
    the best one. Without a result they are empty and None: the caption has no chunk ("empty_text"), or no reference has
    one ("no_reference").
    """

    status: Status
    best_reference_index: int | None = None
    result_by_reference: Mapping[int, VCSResult] = field(default_factory=dict)

    @property
    def result(self) -> VCSResult | None:
        """The VCS with the best reference; None, never 0, where the status is not "ok"."""
        return None if self.best_reference_index is None else self.result_by_reference[self.best_reference_index]

    @property
    def always_zero(self) -> bool:
        """Whether the numbers of chunks force VCS to 0 with every reference, whatever the texts say; False without a
        result.
        """
        return bool(self.result_by_reference) and all(
            result.always_zero for result in self.result_by_reference.values()
        )


def vcs_captions(
    captions: Sequence[tuple[Sequence[str], str]],
    vectors: Vectors,
    split_chunks: ChunkSplitter,
    *,
    lct: float = 0,
    context_cutoff: float = 0.6,
    context_window_control: float = 4.0,
    short_text: bool = False,
) -> list[VCSCaptionResult]:
    """Return the VCS of every caption, in order, where the best of its references counts. captions: (references,
    caption) texts. split_chunks: cuts a text into chunks; a text may have none, which gives a status. vectors: the
    embedding of every whole text (for GAS) and every chunk, by text. Others: as in `vcs_from_similarity`.

    All are scored at once. Raises ValueError for a text or chunk without a vector.

    >>> vectors = dict(zip(["red dog", "red", "dog", "dog red"], np.eye(4), strict=True))
    >>> first, second = vcs_captions([(["", "red dog"], "red dog"), ([""], "dog red")], vectors, str.split)
    >>> first.best_reference_index, second.status
    (1, 'no_reference')
    """
    compared = [_list_comparable_references(references, generated, split_chunks) for references, generated in captions]
    pairs = [
        (references[i], generated)
        for (references, generated), places in zip(captions, compared, strict=True)
        for i in places
    ]
    results = iter(
        vcs_batch(
            compute_text_similarities(pairs, vectors, split_chunks),
            lct=lct,
            context_cutoff=context_cutoff,
            context_window_control=context_window_control,
            short_text=short_text,
        )
    )
    return [
        _build_best_result({i: next(results) for i in places})
        if places
        else _build_empty_result(generated, split_chunks)
        for (_, generated), places in zip(captions, compared, strict=True)
    ]


def compute_text_similarities(
    pairs: Sequence[tuple[str, str]], vectors: Vectors, split_chunks: ChunkSplitter
) -> list[tuple[FloatArray, float]]:
    """Return (chunk cosines, cosine of the whole texts) of every (reference, caption) pair of texts, in order, as
    `vcs_batch` takes them. vectors: embeddings by text. Every text must have a chunk. Raises ValueError for a text or
    chunk without a vector.
    """
    chunks = {text: _stack_vectors(vectors, split_chunks(text)) for pair in pairs for text in pair}
    texts = {text: _stack_vectors(vectors, [text])[0] for text in chunks}
    return compute_pair_similarities(
        (chunks[reference], chunks[generated], texts[reference], texts[generated]) for reference, generated in pairs
    )


def _list_comparable_references(references: Sequence[str], generated: str, split_chunks: ChunkSplitter) -> list[int]:
    """Return the indices of the references that have a chunk; [] where the caption has none itself."""
    return [i for i, text in enumerate(references) if split_chunks(text)] if split_chunks(generated) else []


def _build_best_result(results: Mapping[int, VCSResult]) -> VCSCaptionResult:
    places = list(results)
    return VCSCaptionResult("ok", places[choose_best_reference([results[i] for i in places])], results)


def _build_empty_result(generated: str, split_chunks: ChunkSplitter) -> VCSCaptionResult:
    return VCSCaptionResult("no_reference" if split_chunks(generated) else "empty_text")


def _stack_vectors(vectors: Vectors, texts: Sequence[str]) -> npt.NDArray[np.floating[Any]]:
    missing = [text for text in texts if text not in vectors]
    if missing:
        raise ValueError(f"There is no vector for {missing[0]!r}: embed every whole text and all its chunks.")
    return np.stack([vectors[text] for text in texts])
