"""Captions that already look as a rewrite makes them: simple signs in an English text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from metrics_core.facts.texts import compute_repeated_share, has_stock_phrase, list_words
from metrics_core.keywords import FUNCTION_WORDS, VERB_FORMS

MIN_REPEATED_SHARE = 0.3
"""A text whose sentences all come twice repeats some half of its sequences of three words."""
_INSTRUCTION = re.compile(
    r"\bignore (?:all |any )?(?:previous|prior|above) instructions\b"
    r"|\b(?:give|assign|award) (?:it|this|the caption)[\w ]*"
    r" (?:highest|maximum|full|best|perfect) (?:score|mark|rating)"
    r"|\bnote to the (?:evaluator|judge|grader|rater)\b",
    re.IGNORECASE,
)


def _ends_generically(sentences: Sequence[str]) -> bool:
    """Tell whether the last of several sentences has a stock phrase."""
    return len(sentences) > 1 and has_stock_phrase(sentences[-1])


def _opens_generically(sentences: Sequence[str]) -> bool:
    """Tell whether the first sentence has a stock phrase."""
    return bool(sentences) and has_stock_phrase(sentences[0])


def _repeats_itself(sentences: Sequence[str]) -> bool:
    """Tell whether a text repeats at least MIN_REPEATED_SHARE of its sequences of three words."""
    return (compute_repeated_share(list_words(" ".join(sentences))) or 0.0) >= MIN_REPEATED_SHARE


def _ends_with_list(sentences: Sequence[str]) -> bool:
    """Tell whether the last of several sentences lists two words or more, with commas and without a verb.

    >>> _ends_with_list(["A man runs.", "Man, dog, street."]), _ends_with_list(["A man runs.", "Then, he stops."])
    (True, False)
    """
    if len(sentences) < 2:
        return False
    items = [list_words(part.lower()) for part in sentences[-1].split(",")]
    known = FUNCTION_WORDS | VERB_FORMS
    return len(items) > 1 and all(len(item) in (1, 2) and not known.intersection(item) for item in items)


def _instructs_judge(sentences: Sequence[str]) -> bool:
    """Tell whether a text addresses the judge of it instead of what there is to see."""
    return any(map(_INSTRUCTION.search, sentences))


DETECTORS: Mapping[str, Callable[[Sequence[str]], bool]] = {
    "generic_sentence": _ends_generically,
    "doubled_sentences": _repeats_itself,
    "noun_list": _ends_with_list,
    "stock_opening": _opens_generically,
    "hidden_instruction": _instructs_judge,
}
"""By the name of a kind of rewrite, the function that recognises its outcome by the sentences of a text."""
