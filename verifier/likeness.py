"""Likeness of words: cosines of the word vectors of all-MiniLM-L6-v2, so that a synonym counts for a part."""

from __future__ import annotations

from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from metrics_core.arrays import FloatArray
from metrics_core.models.text_encoder import bundled_minilm
from verifier.lexical import content, stem, words

# Word pieces before the network's first layer; a word of several pieces is their sum.
TABLE = "embeddings.word_embeddings.weight"
DIGITS = 6


class WordLikeness:
    """Compares words by the encoder's table of word pieces. No text passes through the network."""

    def __init__(self) -> None:
        self._vector = lru_cache(maxsize=65536)(self._unit_vector)
        self._text = lru_cache(maxsize=1024)(self._words_of)

    def likeness(self, text: str, hypothesis: str) -> tuple[float, float]:
        """Find the word of the text that is most like each content word of the hypothesis: mean and least likeness.

        Both lie in [0, 1]. A word that occurs in the text in any form has likeness 1, others their greatest cosine with
        a content word of the text. Without a content word in the hypothesis both are 1.

        >>> mean, least = WordLikeness().likeness("A dog runs.", "The dogs sprint.")
        >>> mean == (1 + least) / 2, 0.1 < least < 1
        (True, True)
        """
        wanted = list(dict.fromkeys(content(words(hypothesis))))
        if not wanted:
            return 1.0, 1.0
        stems, vectors = self._text(text)
        if not len(vectors):
            return 0.0, 0.0
        nearest = (np.stack([self._vector(word) for word in wanted]) @ vectors.T).max(axis=1)
        found = np.array([stem(word) in stems for word in wanted])
        # Rounded, because the last digits of a product vary with the order of its rows.
        values = np.where(found, 1.0, nearest.clip(0, 1).round(DIGITS))
        return float(values.mean()), float(values.min())

    def nearest(self, text: str, hypothesis: str) -> list[tuple[str, str, float]]:
        """Find for each content word of the hypothesis the word of the text that is most like it, and the likeness.

        The word is "" where the text has no content word.

        >>> WordLikeness().nearest("A man is walking his dogs.", "A dog!")
        [('dog', 'dogs', 1.0)]
        """
        stems, vectors = self._text(text)
        told = list(dict.fromkeys(content(words(text))))
        same = {stem(word): word for word in reversed(words(text))}
        found = []
        for word in dict.fromkeys(content(words(hypothesis))):
            if stem(word) in stems:
                found.append((word, same[stem(word)], 1.0))
            elif told:
                cosines = vectors @ self._vector(word)
                found.append((word, told[int(cosines.argmax())], float(cosines.max().clip(0, 1))))
            else:
                found.append((word, "", 0.0))
        return found

    def _words_of(self, text: str) -> tuple[frozenset[str], FloatArray]:
        """Return the stems of all words of a text, and the vectors (n, 384) of its content words."""
        split = words(text)
        vectors = [self._vector(word) for word in dict.fromkeys(content(split))]
        return frozenset(map(stem, split)), np.array(vectors)

    def _unit_vector(self, word: str) -> FloatArray:
        pieces = self._tokenizer.encode(word, add_special_tokens=False).ids
        vector: FloatArray = self._table[pieces].sum(axis=0)
        unit: FloatArray = vector / np.linalg.norm(vector)
        return unit

    @cached_property
    def _table(self) -> FloatArray:
        """The vectors of all word pieces, less their mean, which all share and which tells nothing."""
        from safetensors import safe_open

        with safe_open(Path(bundled_minilm()) / "model.safetensors", "numpy") as file:
            table: npt.NDArray[Any] = file.get_tensor(TABLE)
        wide = table.astype(np.float64)
        centred: FloatArray = wide - wide.mean(axis=0)
        return centred

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        """The network's own, read from its file: the import of transformers would take seconds of every explanation."""
        found = Tokenizer.from_file(str(Path(bundled_minilm()) / "tokenizer.json"))
        found.no_truncation()
        found.no_padding()
        return found
