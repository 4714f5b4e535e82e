"""Correct the probability of a single sentence by the words of the whole text, with a small logistic regression."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from metrics_core.arrays import FloatArray
from metrics_core.ecs.verifier.lexical import (
    LEXICAL_FEATURES,
    LEXICAL_VERSION,
    compute_lexical_features,
    filter_content_words,
    split_number_words,
    stem_word,
)
from metrics_core.file_hash import compute_file_sha256
from metrics_core.models.revision import find_model_revision
from metrics_core.models.text_encoder import find_bundled_minilm, find_original_minilm
from metrics_core.protocols import ModelIdentity

USED_LEXICAL_FEATURES = (
    "content_recall",
    "form_recall",
    "letter_recall",
    "long_word_recall",
    "missing_words",
    "all_words_found",
    "hypothesis_has_number",
    "number_recall",
    "number_conflict",
    "hypothesis_has_name",
    "name_recall",
    "colour_conflict",
    "gender_conflict",
    "negation_differs",
)
"""The lexical features that may count: those that see neither the order of the words nor the length of the text.

A text of the same sentences in another order says the same, and a text gains nothing by being long.
"""

WHOLE_TEXT_FEATURES = (*USED_LEXICAL_FEATURES, "likeness", "least_likeness")
# Keeps the log-odds of 0 and 1 finite.
MARGIN = 1e-4


class LearnedWholeTextWeigher:
    """A rule with learned weights that corrects P(entailment) of single sentences by the words of the whole text that
    contains them. file: a JSON file of the weights, read at first use.

    The network reads one sentence at a time. A statement whose parts are spread over several sentences is entailed by
    none of them, and the words of the whole text then show more. The weights are in a JSON file: "probability" for the
    log-odds of a sentence's probability, "bias", and "evidence" by the features that count; "threshold" is the lowest
    result at which a statement counts as covered.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._log_odds = lru_cache(maxsize=16384)(self._compute_text_log_odds)

    @cached_property
    def identity(self) -> ModelIdentity:
        """The weigher's name, the hash of its weights, and everything else that changes the output: word vectors and
        lexical features.
        """
        params = {"words": f"all-MiniLM-L6-v2 {find_model_revision(find_bundled_minilm())}", "lexical": LEXICAL_VERSION}
        return ModelIdentity("reelsieve-whole-text", f"sha256:{compute_file_sha256(self._file).hex()}", params)

    @property
    def threshold(self) -> float:
        """The lowest corrected probability at which a statement counts as covered, for use without labels to calibrate
        on. Read from the file.
        """
        threshold: float = self._weights["threshold"]
        return threshold

    def weigh(self, probabilities: Sequence[float], sentences: Sequence[str], hypothesis: str) -> list[float]:
        """Return the probabilities of single sentences entailing the hypothesis, corrected by the whole text: numbers
        in [0, 1], in order. sentences: all sentences of the text, whichever of them the probabilities belong to. A
        greater probability never has a smaller result. Raises ValueError for a probability outside [0, 1].
        """
        odds = self._log_odds(" ".join(sentences), hypothesis)
        slope: float = self._weights["probability"]
        return [1 / (1 + math.exp(-(slope * compute_log_odds(probability) + odds))) for probability in probabilities]

    def list_shared_words(self, sentences: Sequence[str], hypothesis: str) -> list[str]:
        """Return a phrase for each different content word of the hypothesis, in order, for people to read: the word
        itself where the text has it in any form; else "no", the word, and in brackets the nearest word of the text with
        its likeness, if the text has a content word.

        >>> from metrics_core.ecs.verifier import make_offline_verifier
        >>> make_offline_verifier().whole_text.list_shared_words(["A man is walking his dogs."], "A dog runs.")
        ['dog', 'no runs (walking 0.14)']
        """
        triples = self.feature_computer.word_likeness.find_nearest_words(" ".join(sentences), hypothesis)
        notes = {word: f" ({nearest} {likeness:.2f})" if nearest else "" for word, nearest, likeness in triples}
        return [word if likeness == 1 else f"no {word}{notes[word]}" for word, _, likeness in triples]

    def _compute_text_log_odds(self, text: str, hypothesis: str) -> float:
        features = self.feature_computer.compute_features(text, hypothesis)
        weights: dict[str, float] = self._weights["evidence"]
        return float(self._weights["bias"] + sum(weight * features[name] for name, weight in weights.items()))

    @cached_property
    def feature_computer(self) -> WholeTextFeatures:
        """The object that computes WHOLE_TEXT_FEATURES of texts and hypotheses, made at first use."""
        return WholeTextFeatures()

    @cached_property
    def _weights(self) -> dict[str, Any]:
        weights: dict[str, Any] = json.loads(self._file.read_text(encoding="utf-8"))
        return weights


class WholeTextFeatures:
    """A calculator of the numbers named in WHOLE_TEXT_FEATURES, which compare the words of a hypothesis with those of a
    whole text.
    """

    def __init__(self) -> None:
        self.word_likeness = WordLikeness()

    def compute_features(self, text: str, hypothesis: str) -> dict[str, float]:
        """Return the features of one text and one hypothesis by name, all in [0, 1], in the order of
        WHOLE_TEXT_FEATURES.
        """
        lexical = dict(zip(LEXICAL_FEATURES, compute_lexical_features(text, hypothesis), strict=True))
        mean, least = self.word_likeness.compute_mean_and_least(text, hypothesis)
        return {name: lexical[name] for name in USED_LEXICAL_FEATURES} | {"likeness": mean, "least_likeness": least}

    def compute_matrix(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Return the features of (text, hypothesis) pairs, one row per pair: (n, len(WHOLE_TEXT_FEATURES))."""
        rows = [list(self.compute_features(*pair).values()) for pair in pairs]
        return np.array(rows, dtype=np.float64).reshape(len(pairs), len(WHOLE_TEXT_FEATURES))


def compute_log_odds(probability: float) -> float:
    """Return the log-odds of a probability, kept finite at 0 and 1. Raises ValueError outside [0, 1].

    >>> compute_log_odds(0.5), round(compute_log_odds(1.0), 4)
    (0.0, 9.2104)
    """
    if not 0 <= probability <= 1:
        raise ValueError(f"The probability is {probability}: it must lie in [0, 1].")
    return math.log((probability + MARGIN) / (1 - probability + MARGIN))


# Word pieces before the network's first layer; a word of several pieces is their sum.
TABLE = "embeddings.word_embeddings.weight"
DIGITS = 6


class WordLikeness:
    """A comparison of words by the cosines of their vectors in the table of word pieces of the bundled
    all-MiniLM-L6-v2. No text passes through the network.
    """

    def __init__(self) -> None:
        self._vector = lru_cache(maxsize=65536)(self._unit_vector)
        self._text = lru_cache(maxsize=1024)(self._compute_stems_and_vectors)

    def compute_mean_and_least(self, text: str, hypothesis: str) -> tuple[float, float]:
        """Return the (mean, lowest) likeness, in [0, 1], of the hypothesis's content words with their nearest words of
        the text: 1 for a word that occurs there in any form, else its highest cosine with a content word. Both are 1
        without a content word in the hypothesis, else 0 without one in the text.

        >>> mean, least = WordLikeness().compute_mean_and_least("A dog runs.", "The dogs sprint.")
        >>> mean == (1 + least) / 2, 0.1 < least < 1
        (True, True)
        """
        hypothesis_words = list(dict.fromkeys(filter_content_words(split_number_words(hypothesis))))
        if not hypothesis_words:
            return 1.0, 1.0
        stems, vectors = self._text(text)
        if not len(vectors):
            return 0.0, 0.0
        nearest = (np.stack([self._vector(word) for word in hypothesis_words]) @ vectors.T).max(axis=1)
        is_in_text = np.array([stem_word(word) in stems for word in hypothesis_words])
        # Rounded, because the last digits of a product vary with the order of its rows.
        values = np.where(is_in_text, 1.0, nearest.clip(0, 1).round(DIGITS))
        return float(values.mean()), float(values.min())

    def find_nearest_words(self, text: str, hypothesis: str) -> list[tuple[str, str, float]]:
        """Return (word, nearest word of the text, likeness in [0, 1]) for each different content word of the
        hypothesis, in order. The likeness is 1 where the text has the word in any form. Where the text has no content
        word, the nearest word is "" and the likeness 0.

        >>> WordLikeness().find_nearest_words("A man is walking his dogs.", "A dog!")
        [('dog', 'dogs', 1.0)]
        """
        stems, vectors = self._text(text)
        text_words = list(dict.fromkeys(filter_content_words(split_number_words(text))))
        same = {stem_word(word): word for word in reversed(split_number_words(text))}
        triples = []
        for word in dict.fromkeys(filter_content_words(split_number_words(hypothesis))):
            if stem_word(word) in stems:
                triples.append((word, same[stem_word(word)], 1.0))
            elif text_words:
                cosines = vectors @ self._vector(word)
                triples.append((word, text_words[int(cosines.argmax())], float(cosines.max().clip(0, 1))))
            else:
                triples.append((word, "", 0.0))
        return triples

    def _compute_stems_and_vectors(self, text: str) -> tuple[frozenset[str], FloatArray]:
        """Return the stems of all words of a text, and the vectors (n, 384) of its content words."""
        split = split_number_words(text)
        vectors = [self._vector(word) for word in dict.fromkeys(filter_content_words(split))]
        return frozenset(map(stem_word, split)), np.array(vectors)

    def _unit_vector(self, word: str) -> FloatArray:
        pieces = self._tokenizer.encode(word, add_special_tokens=False).ids
        vector: FloatArray = self._table[pieces].sum(axis=0)
        unit: FloatArray = vector / np.linalg.norm(vector)
        return unit

    @cached_property
    def _table(self) -> FloatArray:
        """The vectors of all word pieces, less their mean, which carries no meaning because all share it."""
        from safetensors import safe_open

        with safe_open(Path(find_original_minilm()) / "model.safetensors", "numpy") as file:
            table: npt.NDArray[Any] = file.get_tensor(TABLE)
        wide = table.astype(np.float64)
        centred: FloatArray = wide - wide.mean(axis=0)
        return centred

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        """The network's own, read from its file: the import of transformers would take seconds of every explanation."""
        tokenizer = Tokenizer.from_file(str(Path(find_bundled_minilm()) / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer
