"""Measures facts about a text: its length, its repetitions, and which of its words are stock phrases, digits or
names.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import NamedTuple

# Raised by hand when a number changes; texts are then described anew.
TEXT_FACTS_VERSION = "2"
# Words whose sequence counts as repeated: shorter ones recur in good prose, such as "in the".
REPEATED_WORDS = 3

# A character of a script without spaces is a word of its own: Han and kana.
_ALONE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_LETTERS = rf"[^\W_{_ALONE}]+"
_WORD = re.compile(rf"[{_ALONE}]|{_LETTERS}(?:['’.-]{_LETTERS})*")
# A video that is spoken of, and no thing whose name begins or ends with the same word: a video game, a photo frame, a
# hair clip.
_MEDIUM = (
    r"(?<!hair )(?<!paper )(?<!money )(?<!tie )(?<!picture )(?<!photo )(?<!window )(?<!door )(?<!bike )(?<!bed )"
    r"(?:videos?(?: clips?| footage| sequences?| segments?)?|clips?|footage|recording|montage|compilation|vlog"
    r"|images?|pictures?|scenes?|frames?)\b"
    r"(?! (?:games?|gaming|gamers?|cameras?|players?|screens?|monitors?|calls?|chats?|conferences?|cassettes?|tapes?"
    r"|recorders?|editors?|editing|stores?|shops?|walls?|arcades?|consoles?|frames?|books?|windows?|boards?)\b)"
)
_THE = r"\b(?:the|this|these|that|our) (?:\w+ )?"
# Words that may stand before a verb.
_HOW = r"(?:\w+ly |then |also |further |first |now |next )*"
_SHOWING = (
    r"(?:show|depict|feature|capture|showcase|display|present|portray|illustrate|begin|start|open|end|conclude|continue"
    r"|focus(?:es)?|highlight|follow|reveal|convey|provide|transition|switch(?:es)?|shift|unfold|include|document)"
    r"(?:s|es|d|ed|ing)?"
)
# A clip may be a thing, too: one that is red, or removed, is not spoken of.
_BEING = (
    rf"(?:is|was|appears|seems) {_HOW}(?:to be )?(?:an?|about|of|set|shot|filmed|taken|recorded|captured"
    r"|presented|titled|likely|focused|centered|divided|composed|accompanied|short|brief|silent|from|part"
    r"|in (?:black|slow|colou?r))"
)
_MOOD = r"(?:sense|atmosphere|mood|ambiance|ambience|feel|vibe)\b"
# English phrases that speak of the video instead of what is in it, and closing words without content.
_PHRASES = (
    rf"{_THE}{_MEDIUM} {_HOW}(?:{_SHOWING}|{_BEING}|takes? place|cuts? to|fades?)\b",
    rf"\b(?:in|throughout|across|within|during) (?:the|this) (?:\w+ )?{_MEDIUM}",
    rf"\b(?:this|that|it|here|there)(?:'s| is| was| are| we have) (?:some |an? |the )?(?:\w+ )?{_MEDIUM} "
    r"(?:of|showing|that|which|where|about|featuring|in which)\b",
    rf"^\W*(?:(?:an?|some|the|this) )?(?:\w+ )?(?!images?|pictures?|scenes?|frames?){_MEDIUM} "
    r"(?:of|showing|shows?|that shows|depicting|featuring|capturing|in which|where|about)\b",
    # We see, of somebody who describes what is shown. Somebody in the video may see something, too.
    r"(?:^\W*(?:(?:as|and|then|next|now|first|here),? )?|[,;] )(?:we|you|one|viewers|the viewers?) "
    r"(?:can |could |also |then |now |first |next |clearly |get to )*(?:see|watch|observe|notice|witness)\b",
    r"\b(?:we|viewers|the viewers?) (?:are|is) (?:then |also |first )?"
    r"(?:shown|introduced|presented|taken|given|greeted)\b",
    r"\bwe (?:get|catch) a (?:\w+ )?(?:glimpse|view|look|sense|shot)\b",
    # The camera, where it introduces what comes next. Where it moves, as to the left, is content.
    rf"\bthe camera {_HOW}(?:focuses|captures|shows|reveals|highlights)\b",
    rf"\bthe camera {_HOW}(?:pans?|tilts?|zooms?|cuts?|moves?|shifts?|switches|turns?|swings?)"
    r"(?: (?:over|across|around|away|back|down|up|in|out|slowly))* (?:to|on|onto|towards?) "
    r"(?!the (?:left|right|side)\b)",
    # Answers of a model to a person who asked it.
    r"\b(?:sure|certainly|of course)[,!] (?:here|the|this)\b",
    r"\bhere(?:'s| is) (?:an?|the|my) (?:\w+ )?(?:description|caption|summary)\b",
    rf"\b(?:based on|according to|judging by) (?:the|this|these) (?:\w+ )?{_MEDIUM}",
    r"\bas an ai\b|\bi(?: am|'m) (?:sorry|unable)\b|\bi (?:cannot|can't|am unable to)\b",
    # Closings, and words of mood.
    r"\b(?:overall|in summary|in conclusion|in essence|to summarize|to sum up|to conclude|all in all),",
    r"\bas the (?:video|clip|footage|scene) (?:progresses|continues|unfolds|goes on|ends|begins|opens|concludes)\b",
    r"\b(?:it is|it's) (?:worth|important to) not(?:e|ing)\b",
    r"\bthe (?:overall|general) (?:atmosphere|mood|tone|scene|impression|ambiance|feel|vibe)\b",
    r"\bthe (?:atmosphere|mood|ambiance|tone)(?: of the \w+)? (?:is|appears|feels|seems|remains)\b",
    r"\b(?:add|creat|contribut|convey|evok|giv|lend)(?:e|es|s|ed|ing) (?:to )?(?:a|the|an) (?:overall )?"
    rf"(?:\w+ ){{0,2}}{_MOOD}",
    r"\b(?:is|are|serves as|stands as) a testament to\b",
    r"\bleav(?:es|ing) (?:the )?(?:viewers?|audience|us) with\b",
)
_STOCK = re.compile("|".join(_PHRASES), re.IGNORECASE)
# One of these words is in every phrase. Few sentences have one, and the phrases take many times as long to look for.
_TOKENS = re.compile(r"\w+")
_SIGNS = frozenset(
    _TOKENS.findall(
        "video videos clip clips footage recording montage compilation vlog image images picture pictures scene scenes "
        "frame frames camera we you one viewer viewers audience us sure certainly course description caption summary i "
        "overall conclusion essence summarize sum conclude all worth important general atmosphere mood ambiance "
        "ambience tone sense feel vibe testament"
    )
)


class TextFacts(NamedTuple):
    """Facts about one text, such as its number of words and its language. Shares lie between 0 and 1; they are None
    where the text is too short to measure, and the language is None where it was not detected.

    Attributes:
        words: number of words; a Han or kana character is a word.
        sentences: number of sentences.
        repetition: share of the sequences of three words that stood in the text before.
        boilerplate: share of the sentences with an English stock phrase, such as "the video shows" or "we can see".
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


def list_words(text: str) -> list[str]:
    """List the words of a text in order and in their own case, without combining marks. A Han or kana character is a
    word of its own.

    >>> list_words("The man's T-shirt cost 3.50; 煎饼!")
    ['The', "man's", 'T-shirt', 'cost', '3.50', '煎', '饼']
    """
    if not text.isascii():
        composed = unicodedata.normalize("NFC", text)
        text = "".join(character for character in composed if not unicodedata.category(character).startswith("M"))
    return _WORD.findall(text)


def compute_text_facts(
    texts: Sequence[str],
    split_sentences: Callable[[str], Sequence[str]],
    detect_languages: Callable[[Sequence[str]], Sequence[str | None]],
) -> list[TextFacts]:
    """Compute the facts about texts, also empty ones, in order: words, sentences, repetition, stock phrases and so on.
    split_sentences: splits a text into sentences. detect_languages: returns the language of every text, or None.

    Examples:
        >>> text = "The video shows Ann. Ann runs, Ann runs, Ann runs."
        >>> (facts,) = compute_text_facts([text], lambda text: text.split(". "), lambda texts: ["en"])
        >>> facts.words, facts.sentences, facts.repetition, facts.boilerplate
        (10, 2, 0.25, 0.5)
    """
    languages = detect_languages(texts)
    return [_measure_text(text, split_sentences(text), code) for text, code in zip(texts, languages, strict=True)]


def _measure_text(text: str, sentences: Sequence[str], language: str | None) -> TextFacts:
    words = list_words(text)
    by_sentence = [words if sentence == text else list_words(sentence) for sentence in sentences]
    inside = [word for sentence in by_sentence for word in sentence[1:] if word[0].isalpha()]
    return TextFacts(
        words=len(words),
        sentences=len(sentences),
        repetition=compute_repeated_share(words),
        boilerplate=_share(sum(map(has_stock_phrase, sentences)), len(sentences)),
        # Most words are of letters only, which is quickly seen.
        digit_share=_share(sum(not word.isalpha() and any(map(str.isdigit, word)) for word in words), len(words)),
        name_share=_share(sum(word[0].isupper() and word != "I" for word in inside), len(inside)),
        language=language,
    )


def has_stock_phrase(sentence: str) -> bool:
    """Whether a sentence has an English stock phrase that speaks of the video instead of its content, such as "the
    video shows" or "we can see", or a closing phrase such as "overall,".

    >>> has_stock_phrase("We see a man."), has_stock_phrase("A man sees a video game.")
    (True, False)
    """
    # Outside ASCII the phrases take some letters for others, such as the long s for an s.
    if sentence.isascii() and _SIGNS.isdisjoint(_TOKENS.findall(sentence.lower())):
        return False
    return bool(_STOCK.search(" ".join(sentence.replace("’", "'").split())))


def compute_repeated_share(words: Sequence[str]) -> float | None:
    """Compute the share of the sequences of three words that occurred before in the list, in any case of letters, in
    [0, 1). None with fewer than three words.

    >>> compute_repeated_share("a b c a b c".split())
    0.25
    """
    lower = [word.casefold() for word in words]
    sequences = list(zip(*(lower[place:] for place in range(REPEATED_WORDS)), strict=False))
    return 1 - len(set(sequences)) / len(sequences) if sequences else None


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
