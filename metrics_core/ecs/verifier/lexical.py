"""Lexical features: numbers from the words only that help to decide whether a premise entails a hypothesis."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

LEXICAL_VERSION = 1
"""Increased by hand whenever a feature changes, because the weights were trained on exactly these numbers."""

_TOKEN = re.compile(r"[a-z]+|\d+(?:[.,]\d+)*")
_CLITIC = re.compile(r"n't\b|n’t\b")
_NAME = re.compile(r"(?<!^)(?<![.!?] )\b[A-Z][a-z]+")


def _split_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTION_WORDS = _split_set(
    "a about after all also am an and any are as at be because been before being both but by can could did do does "
    "doing down each few for from further had has have having he her here hers him his how i if in into is it its "
    "just may me might more most must my of off on once only or other our out over own s same shall she should so "
    "some such t than that the their them then there these they this those through to too under until up upon us very "
    "was we were what when where which while who whom why will with would you your"
)
NEGATIONS = _split_set("not no never none nobody nothing neither nor without cannot nowhere")
COLOURS = _split_set(
    "black white red green blue yellow orange purple violet pink brown gray grey tan beige maroon teal turquoise "
    "silver gold golden blond blonde magenta cyan navy scarlet crimson"
)
FEMALE = _split_set("woman women girl girls lady ladies female females mother mom daughter sister sisters wife")
MALE = _split_set("man men boy boys guy guys gentleman male males father dad son brother brothers husband")
_COUNTING = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
NUMBERS = {word: str(value) for value, word in enumerate(_COUNTING.split(" "))}

LEXICAL_FEATURES = (
    "content_recall",
    "form_recall",
    "pair_recall",
    "letter_recall",
    "long_word_recall",
    "premise_share",
    "order",
    "missing_words",
    "all_words_found",
    "hypothesis_has_number",
    "number_recall",
    "number_conflict",
    "hypothesis_has_name",
    "name_recall",
    "colour_conflict",
    "gender_conflict",
    "hypothesis_negated",
    "premise_negated",
    "negation_differs",
    "premise_length",
    "hypothesis_length",
)


def split_number_words(text: str) -> list[str]:
    """Split a text into lower-case words of the letters a to z and numbers, in order; [] without any. "n't" becomes
    "not"; number words up to twenty become digits.

    >>> split_number_words("Two dogs don't run.")
    ['2', 'dogs', 'do', 'not', 'run']
    """
    plain = _CLITIC.sub(" not", text.lower().replace("can't", "can not").replace("won't", "will not"))
    return [NUMBERS.get(word, word) for word in _TOKEN.findall(plain)]


@lru_cache(maxsize=65536)
def stem_word(word: str) -> str:
    """Return a lower-case word without a common English ending (-ies, -ing, -ed, -es, -s, -ly). A doubled last letter
    other than s and l loses one of the two, and a final e goes. Words of up to three letters stay as they are.

    >>> [stem_word(word) for word in ("running", "runs", "stopped", "babies", "the")]
    ['run', 'run', 'stop', 'baby', 'the']
    """
    for ending, instead in (("ies", "y"), ("ing", ""), ("ed", ""), ("es", "e"), ("s", ""), ("ly", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word.removesuffix(ending) + instead
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "sl":
        word = word[:-1]
    return word.removesuffix("e") if len(word) > 3 else word


def filter_content_words(text_words: Sequence[str]) -> list[str]:
    """Return the words that are neither function words nor negations, in order, repeated ones too. text_words: in lower
    case, as from `split_number_words`.
    """
    return [word for word in text_words if word not in FUNCTION_WORDS and word not in NEGATIONS]


def stemmed_content_recall(premise: str, hypothesis: str) -> float:
    """Return the share of the hypothesis's different content words, stemmed, that the premise contains; 1 where the
    hypothesis has no content word.

    >>> stemmed_content_recall("A man is riding a horse.", "The man rides a camel.")
    0.6666666666666666
    """
    return _share(
        {stem_word(word) for word in filter_content_words(split_number_words(hypothesis))},
        {stem_word(word) for word in split_number_words(premise)},
    )


def compute_lexical_features(premise: str, hypothesis: str) -> list[float]:
    """Return the numbers named in LEXICAL_FEATURES, in that order: shares and flags in [0, 1], and the two lengths as
    log(1 + words) / 5. A share of nothing is 1: where the hypothesis names no number, no number is missing.

    >>> dict(zip(LEXICAL_FEATURES, compute_lexical_features("Two red cars.", "Three blue cars.")))["colour_conflict"]
    1.0
    """
    left, right = split_number_words(premise), split_number_words(hypothesis)
    names = {word.lower() for word in _NAME.findall(hypothesis)} - FUNCTION_WORDS
    return [
        *_compute_overlap(left, right),
        *_compare_particulars(set(left), set(right), names),
        float(np.log1p(len(left)) / 5),
        float(np.log1p(len(right)) / 5),
    ]


def compute_feature_matrix(pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float32]:
    """Return the lexical features of (premise, hypothesis) pairs, one row per pair: (n, len(LEXICAL_FEATURES)) in
    float32.
    """
    rows = [compute_lexical_features(premise, hypothesis) for premise, hypothesis in pairs]
    return np.array(rows, dtype=np.float32).reshape(len(pairs), len(LEXICAL_FEATURES))


def _compute_overlap(left: Sequence[str], right: Sequence[str]) -> tuple[float, ...]:
    """Compute how much of the hypothesis the premise contains: the features content_recall to all_words_found."""
    right_content = filter_content_words(right)
    left_stems, right_stems = [stem_word(word) for word in left], [stem_word(word) for word in right_content]
    content_stems = [stem_word(word) for word in filter_content_words(left)]
    missing = set(right_stems) - set(left_stems)
    return (
        _share(set(right_stems), set(left_stems)),
        _share(set(right_content), set(left)),
        _share(_neighbours(right_stems), _neighbours(content_stems)),
        _share(_trigrams(right_content), _trigrams(left)),
        _weighted_share(set(right_stems), set(left_stems)),
        _share(set(content_stems), set(right_stems)),
        _order(left_stems, right_stems),
        min(len(missing), 5) / 5,
        float(not missing),
    )


def _compare_particulars(left: set[str], right: set[str], names: set[str]) -> tuple[float, ...]:
    """Compare numbers, names, colours, gender and negation: hypothesis_has_number to negation_differs."""
    numbers_left, numbers_right = _numbers(left), _numbers(right)
    negated_left, negated_right = bool(left & NEGATIONS), bool(right & NEGATIONS)
    return (
        float(bool(numbers_right)),
        _share(numbers_right, numbers_left),
        _conflict(numbers_left, numbers_right),
        float(bool(names)),
        _share(names, left),
        _conflict(left & COLOURS, right & COLOURS),
        float(_other_gender(left, right, MALE, FEMALE) or _other_gender(left, right, FEMALE, MALE)),
        float(negated_right),
        float(negated_left),
        float(negated_left != negated_right),
    )


def _other_gender(left: set[str], right: set[str], one: frozenset[str], other: frozenset[str]) -> bool:
    return bool(left & one and right & other) and not (left & other or right & one)


def _share(right: set[str], left: set[str]) -> float:
    """Share of the items of `right` that are also in `left`; 1 where `right` is empty."""
    return len(right & left) / len(right) if right else 1.0


def _weighted_share(right: set[str], left: set[str]) -> float:
    """Share as in `_share`, where a word counts as many times as it has letters."""
    total = sum(len(word) for word in right)
    return sum(len(word) for word in right & left) / total if total else 1.0


def _neighbours(stems: Sequence[str]) -> set[str]:
    return {f"{first} {second}" for first, second in pairwise(stems)}


def _trigrams(text_words: Sequence[str]) -> set[str]:
    return {f"^{word}$"[i : i + 3] for word in text_words for i in range(len(word))}


def _numbers(text_words: set[str]) -> set[str]:
    return {word for word in text_words if word[0].isdigit()}


def _conflict(left: set[str], right: set[str]) -> float:
    return float(bool(left) and bool(right - left))


def _order(left: Sequence[str], right: Sequence[str]) -> float:
    """Largest share of the hypothesis's content words that occur in the premise in the same order."""
    if not right:
        return 1.0
    best = [0] * (len(left) + 1)
    for word in right:
        before = 0
        for place, other in enumerate(left, start=1):
            previous, best[place] = best[place], before + 1 if word == other else max(best[place], best[place - 1])
            before = previous
    return best[-1] / len(right)
