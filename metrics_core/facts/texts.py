"""Facts about a text: its length, what it repeats, and which of its words are stock phrases, digits or names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# Raised by hand when a number changes; texts are then described anew.
TEXT_RULE = "1"
# Words whose sequence counts as repeated: shorter ones recur in good prose, such as "in the".
REPEATED_WORDS = 3

# A character of a script without spaces is a word of its own: Han and kana.
_ALONE = "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]"
_LETTERS = rf"(?:(?!{_ALONE})[^\W_])+"
_WORD = re.compile(rf"{_ALONE}|{_LETTERS}(?:['’.-]{_LETTERS})*")
_MEDIUM = r"(?:video|clip|footage|image|picture|scene|frame)s?"
_SHOWING = (
    r"(?:show|depict|feature|capture|showcase|display|present|portray|illustrate|begin|start|open|end|conclude)"
    r"(?:s|ed|ing)?"
)
# English phrases that speak of the video instead of what is in it, and closing words that say nothing.
_STOCK = re.compile(
    rf"\b(?:the|this) (?:\w+ )?{_MEDIUM} {_SHOWING}\b"
    rf"|\b(?:in|throughout|across|within|during) (?:the|this) (?:\w+ )?{_MEDIUM}\b"
    r"|\b(?:overall|in summary|in conclusion|to summarize)\b,"
    r"|\bas an ai\b|\bi (?:cannot|can't|am unable to)\b"
    r"|\bthe overall (?:atmosphere|mood|tone|scene)\b"
    r"|\b(?:adding|creating|contributing) (?:to )?(?:a|the|an) (?:\w+ )?(?:sense|atmosphere|mood|ambiance|feel)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class TextFacts:
    """Facts about one text; None where a text is too short to tell. Shares lie between 0 and 1.

    Attributes:
        words: number of words; a Han or kana character is a word.
        sentences: number of sentences.
        repetition: share of the sequences of three words that stood in the text before.
        boilerplate: share of the sentences with an English stock phrase, such as "the video shows".
        digit_share: share of the words that hold a digit.
        name_share: share of the words inside sentences, the first of each left out, that begin with a capital letter;
            so nouns of German count too.
        language: ISO 639 code.
    """

    words: int
    sentences: int
    repetition: float | None
    boilerplate: float | None
    digit_share: float | None
    name_share: float | None
    language: str | None


def words_in(text: str) -> list[str]:
    """Split a text into words, without combining marks.

    >>> words_in("The man's T-shirt cost 3.50; 煎饼!")
    ['The', "man's", 'T-shirt', 'cost', '3.50', '煎', '饼']
    """
    composed = unicodedata.normalize("NFC", text)
    bare = "".join(character for character in composed if not unicodedata.category(character).startswith("M"))
    return _WORD.findall(bare)


def text_facts(text: str, split: Callable[[str], Sequence[str]], language_of: Callable[[str], str | None]) -> TextFacts:
    """Describe a text.

    Args:
        text: any text, also an empty one.
        split: splits a text into sentences.
        language_of: names the language of a text, or returns None.

    Examples:
        >>> text = "The video shows Ann. Ann runs, Ann runs, Ann runs."
        >>> facts = text_facts(text, lambda text: text.split(". "), lambda text: "en")
        >>> facts.words, facts.sentences, facts.repetition, facts.boilerplate
        (10, 2, 0.25, 0.5)
    """
    sentences = split(text)
    of_sentences = [words_in(sentence) for sentence in sentences]
    words = words_in(text)
    inside = [word for sentence in of_sentences for word in sentence[1:] if word[0].isalpha()]
    return TextFacts(
        words=len(words),
        sentences=len(sentences),
        repetition=repeated_share(words),
        boilerplate=_share(sum(bool(_STOCK.search(sentence)) for sentence in sentences), len(sentences)),
        digit_share=_share(sum(any(map(str.isdigit, word)) for word in words), len(words)),
        name_share=_share(sum(word[0].isupper() and word != "I" for word in inside), len(inside)),
        language=language_of(text),
    )


def repeated_share(words: Sequence[str]) -> float | None:
    """Return the share of the sequences of three words that stood before; None with fewer than three words.

    >>> repeated_share("a b c a b c".split())
    0.25
    """
    lower = [word.casefold() for word in words]
    sequences = list(zip(*(lower[place:] for place in range(REPEATED_WORDS)), strict=False))
    return 1 - len(set(sequences)) / len(sequences) if sequences else None


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
