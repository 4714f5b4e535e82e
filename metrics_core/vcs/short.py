"""VCS_short: VCS of short captions. Every word is a segment, and of several references the best one counts."""

from __future__ import annotations

import string
from collections.abc import Sequence

from metrics_core.vcs.references import VCSCaptionResult, Vectors, vcs_captions

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


def split_content_words(text: str) -> list[str]:
    """Split a text into the words that VCS_short compares, in order, without ASCII punctuation and English stop words;
    [] where none is left.

    Punctuation is deleted, not replaced: "man's" becomes "mans", and "don't" becomes "dont", which is no stop word.
    Stop words are recognised in upper and lower case; other words keep their case.

    >>> split_content_words("The man's dog doesn't like  swimming, but HE does.")
    ['mans', 'dog', 'doesnt', 'like', 'swimming']
    """
    return [word for word in text.translate(DELETE_PUNCTUATION).split() if word.lower() not in STOP_WORDS]


def vcs_short(
    references: Sequence[str],
    generated: str,
    vectors: Vectors,
    *,
    lct: float = 0,
    context_cutoff: float = 0.6,
    context_window_control: float = 4.0,
    short_text: bool = False,
) -> VCSCaptionResult:
    """Return the VCS_short of one caption, word by word; the best of its references counts. vectors: the embedding of
    every whole text (for GAS) and every word of `split_content_words`, by text. Without a word left, the caption or its
    references give a status. Raises ValueError for a text or word without a vector.

    Parameters are the same as in `vcs_from_similarity`; a caption of one or two words scores 0 unless `short_text` is
    set. `vcs_captions` scores many captions at once.

    >>> import numpy as np
    >>> vectors = dict(zip(["A red dog runs.", "red", "dog", "runs"], np.eye(4), strict=True))
    >>> vcs_short(["It is.", "A red dog runs."], "A red dog runs.", vectors).best_reference_index
    1
    >>> vcs_short(["A red dog runs."], "He is.", vectors).status
    'empty_text'
    """
    (result,) = vcs_captions(
        [(references, generated)],
        vectors,
        split_content_words,
        lct=lct,
        context_cutoff=context_cutoff,
        context_window_control=context_window_control,
        short_text=short_text,
    )
    return result
