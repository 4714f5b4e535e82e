"""VCS_short: VCS of short captions. Every word is a segment, and of several references the best one counts."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from metrics_core.vcs.batch import vcs_batch
from metrics_core.vcs.embeddings import similarities_of_pairs
from metrics_core.vcs.result import VCSResult, best_reference

# The words of NLTK's English stop word list (an enlarged list of the Snowball project), written down as facts about
# the list. Entries with an apostrophe are left out, because no word keeps an apostrophe once punctuation is deleted.
# NLTK's lists of 179 and of 198 entries differ only in such entries, so both come down to these words.
FUNCTION_WORDS = """
    i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
    it its itself they them their theirs themselves what which who whom this that these those
    am is are was were be been being have has had having do does did doing will can should
    a an the and but if or because as until while of at by for with about against between into through during
    before after above below to from up down in out on off over under again further then once here there
    when where why how all any both each few more most other some such no nor not only own same so than too very
    just now s t d ll m o re ve y don ain aren couldn didn doesn hadn hasn haven isn ma mightn mustn needn shan
    shouldn wasn weren won wouldn
"""
STOP_WORDS = frozenset(FUNCTION_WORDS.split())
DELETE_PUNCTUATION = str.maketrans("", "", string.punctuation)

Status = Literal["ok", "empty_text", "no_reference"]


@dataclass(frozen=True, slots=True)
class ShortResult:
    """VCS_short of one caption: the result with the best reference, or a status that says why there is no result.

    `reference` is the index of the best reference. `status` is "empty_text" where the caption has no word left, and
    "no_reference" where no reference has a word left; `result` and `reference` are then None, never 0.
    """

    status: Status
    result: VCSResult | None = None
    reference: int | None = None


def words_of(text: str) -> list[str]:
    """Split a text into the words that VCS_short compares, without ASCII punctuation and English stop words.

    Punctuation is deleted, not replaced: "man's" becomes "mans", and "don't" becomes "dont", which is no stop word.
    Stop words are recognised in upper and lower case; other words keep their case.

    >>> words_of("The man's dog doesn't like  swimming, but HE does.")
    ['mans', 'dog', 'doesnt', 'like', 'swimming']
    """
    return [word for word in text.translate(DELETE_PUNCTUATION).split() if word.lower() not in STOP_WORDS]


def vcs_short(
    references: Sequence[str],
    generated: str,
    vectors: Mapping[str, npt.NDArray[np.floating]],
    *,
    lct: float = 0,
    context_cutoff: float = 0.6,
    context_window_control: float = 4.0,
    short_text: bool = False,
) -> ShortResult:
    """Score one caption against its references; the maximum over the references with a word left counts.

    `vectors` maps every raw text (for GAS) and every word of `words_of` to its embedding. Settings are the same as in
    `vcs_from_similarity`; a caption of one or two words scores 0 unless `short_text` is set. Raises ValueError for a
    text or word without a vector.

    >>> vectors = dict(zip(["A red dog runs.", "red", "dog", "runs"], np.eye(4), strict=True))
    >>> vcs_short(["It is.", "A red dog runs."], "A red dog runs.", vectors).reference
    1
    >>> vcs_short(["A red dog runs."], "He is.", vectors).status
    'empty_text'
    """
    generated_words = words_of(generated)
    if not generated_words:
        return ShortResult("empty_text")
    usable = [(i, text, words) for i, text in enumerate(references) if (words := words_of(text))]
    if not usable:
        return ShortResult("no_reference")
    generated_chunks, generated_text = _stacked(vectors, generated_words), _stacked(vectors, [generated])[0]
    results = vcs_batch(
        similarities_of_pairs(
            (_stacked(vectors, words), generated_chunks, _stacked(vectors, [text])[0], generated_text)
            for _, text, words in usable
        ),
        lct=lct,
        context_cutoff=context_cutoff,
        context_window_control=context_window_control,
        short_text=short_text,
    )
    best = best_reference(results)
    return ShortResult("ok", results[best], usable[best][0])


def _stacked(vectors: Mapping[str, npt.NDArray[np.floating]], texts: list[str]) -> npt.NDArray[np.floating]:
    missing = [text for text in texts if text not in vectors]
    if missing:
        raise ValueError(f"There is no vector for {missing[0]!r}: embed every raw text and all its words_of().")
    return np.stack([vectors[text] for text in texts])
