"""Rewrites of a caption by rules, seeded: kinds that keep its truth and add none, and kinds that take truth away."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from metrics_core.facts.texts import list_words
from metrics_core.keywords import FUNCTION_WORDS, NOUN_OPENERS, NUMBERS, PHRASE_BREAK, PICTURE_WORDS, VERB_FORMS, WORD
from metrics_core.stress.tables import (
    COLOURS,
    GENERIC_SENTENCES,
    INSTRUCTIONS,
    LONGER_SYNONYMS,
    NAMES,
    NUMBER_WORDS,
    STOCK_OPENINGS,
)

MAX_LISTED_NOUNS = 8
N_SEQUENCES = 6
_NEGATED = re.compile(r"\b(?:not|never|no|nobody|nothing|none|cannot)\b|n['’]t\b", re.IGNORECASE)
_AUXILIARY = re.compile(r"\b(?:is|are|was|were|will|has been|have been)\b", re.IGNORECASE)
_NAME = re.compile(r"(?<![\w'’-])[A-Z][a-z]+(?![\w-])")
_DOUBT, _DENIAL, _QUESTION = "Perhaps {} can be seen.", "No {} can be seen.", "Can {} be seen?"
_ARTICLES = ("a", "an", "the", "his", "her", "its", "their", "another")
_WORD_OR_NUMBER = re.compile(r"(?<![\w-])(?:(?P<article>[Aa]n?)(?P<space>\s+))?(?P<word>[^\W_]+)(?![\w-])")


@dataclass(frozen=True, slots=True)
class CaptionToRewrite:
    """A caption with the texts that its rewrites are made of.

    key: with the seed it decides all draws. sentences: of the text, in order. references: texts of the same video.
    others: by other video the sentences of a caption. common_sequences: see `list_common_sequences`.
    """

    key: str
    text: str
    sentences: Sequence[str]
    references: Sequence[str] = ()
    others: Sequence[Sequence[str]] = ()
    common_sequences: Sequence[str] = ()


_Rewrite = Callable[[CaptionToRewrite, Random], str | None]


@dataclass(frozen=True, slots=True)
class RewriteKind:
    """One way to rewrite captions.

    label: a noun phrase for sentences. keeps_truth: True where the new text states what the caption states and adds no
    truth, False where it states less truth. rewrite: returns the new text, or None for a caption that the rule does not
    fit.
    """

    name: str
    label: str
    keeps_truth: bool
    rewrite: _Rewrite


def rewrite_caption(kind: RewriteKind, caption: CaptionToRewrite, seed: int) -> str | None:
    """Return the caption rewritten by a rule; None where the rule does not fit it or would change no word.

    The same seed, key and texts give the same rewrite.

    >>> caption = CaptionToRewrite("c1", "Two red cars stop.", ["Two red cars stop."])
    >>> {kind.name: rewrite_caption(kind, caption, 0) for kind in REWRITE_KINDS}["negation"]
    'It is not true that two red cars stop.'
    """
    rewritten = kind.rewrite(caption, Random(f"{seed}:{kind.name}:{caption.key}"))
    return None if rewritten is None or list_words(rewritten) == list_words(caption.text) else rewritten


def list_nouns(text: str) -> list[str]:
    """List the different words of an English text that look like nouns, in their order; names keep their capital.

    A noun is the last word of a run of content words after an article, a preposition or a number. The rules know no
    grammar: a verb that follows such a run without an object may be taken for a noun.

    >>> list_nouns("A man rides a red bicycle to Anna. Two dogs run behind the man.")
    ['man', 'bicycle', 'Anna', 'dogs']
    """
    nouns: dict[str, None] = {}
    for segment in PHRASE_BREAK.split(text.replace("\u2019", "'")):
        words = WORD.findall(segment)
        lower, place = [word.lower() for word in words], 0
        while place < len(words):
            end = place + 1
            if lower[place] in NOUN_OPENERS | NUMBERS or lower[place].isdigit():
                while end < len(words) and lower[end] not in FUNCTION_WORDS | NUMBERS:
                    end += 1
                head = _find_head(lower[place], words[place + 1 : end], lower[end] if end < len(words) else "")
                nouns |= {head: None} if head else {}
            elif place and _NAME.fullmatch(words[place]) and lower[place] not in FUNCTION_WORDS:
                nouns[words[place]] = None
            place = end
    return list(nouns)


def list_common_sequences(references: Sequence[Sequence[str]]) -> list[str]:
    """List the six sequences of three words that the references of the most videos have, the commonest first.

    references: the texts by video. Equally common sequences are in the order of the alphabet.

    >>> list_common_sequences([["A man is here.", "A man is there."], ["Look, a man is here."]])[:2]
    ['a man is', 'man is here']
    """
    videos = Counter(
        sequence
        for texts in references
        for sequence in {
            " ".join(words[place : place + 3])
            for words in (list_words(text.lower()) for text in texts)
            for place in range(len(words) - 2)
        }
    )
    return sorted(videos, key=lambda sequence: (-videos[sequence], sequence))[:N_SEQUENCES]


def _find_head(opener: str, run: Sequence[str], following: str) -> str | None:
    """The noun of a run of words, without a verb behind it; None where there is none."""
    words = list(run)
    # After "a" comes a singular noun, and between two nouns with an article a verb: "the red coat hides a hat".
    is_before_verb = opener in ("a", "an", "another", "one") or following in _ARTICLES
    if len(words) > 1 and is_before_verb and words[-1].endswith("s") and not words[-1].endswith("ss"):
        words.pop()
    while len(words) > 1 and (words[-1] in VERB_FORMS or words[-1].endswith(("ing", "ly", "ed"))):
        words.pop()
    is_noun = words and words[-1].isalpha() and len(words[-1]) > 2 and not words[-1].endswith("ly")
    return words[-1] if is_noun and words[-1].lower() not in PICTURE_WORDS else None


def _add_generic_sentence(caption: CaptionToRewrite, random: Random) -> str | None:
    return _append(caption.text, random.choice(GENERIC_SENTENCES))


def _double_sentences(caption: CaptionToRewrite, random: Random) -> str | None:
    return " ".join(sentence for sentence in _close_sentences(caption) for _ in range(2)) or None


def _restate_sentences(caption: CaptionToRewrite, random: Random) -> str | None:
    sentences = _close_sentences(caption)
    return " ".join(f"{sentence} In other words, {_lower_start(sentence)}" for sentence in sentences) or None


def _add_noun_list(caption: CaptionToRewrite, random: Random) -> str | None:
    nouns = list_nouns(caption.text)[:MAX_LISTED_NOUNS]
    return _append(caption.text, _format_list(nouns)) if len(nouns) > 1 else None


def _add_reference_words(caption: CaptionToRewrite, random: Random) -> str | None:
    nouns = _list_reference_nouns(caption)
    return _append(caption.text, _format_list(nouns)) if nouns else None


def _list_reference_nouns(caption: CaptionToRewrite) -> list[str]:
    """The nouns that only the references have, at most eight."""
    own = {word.lower() for word in list_words(caption.text)}
    nouns = dict.fromkeys(
        noun for reference in caption.references for noun in list_nouns(reference) if noun.lower() not in own
    )
    return list(nouns)[:MAX_LISTED_NOUNS]


def _add_noun_sentences(form: str) -> _Rewrite:
    """A rewrite that adds a sentence of this form for each noun that only the references have."""

    def rewrite(caption: CaptionToRewrite, random: Random) -> str | None:
        nouns = _list_reference_nouns(caption)
        return _append(caption.text, " ".join(form.format(noun) for noun in nouns)) if nouns else None

    return rewrite


def _add_common_sequences(caption: CaptionToRewrite, random: Random) -> str | None:
    return _append(caption.text, _format_list(caption.common_sequences)) if caption.common_sequences else None


def _add_other_captions(caption: CaptionToRewrite, random: Random) -> str | None:
    added = [_close_sentence(sentence) for sentences in caption.others for sentence in sentences]
    return _append(caption.text, " ".join(added)) if len(caption.others) > 1 else None


def _lengthen_synonyms(caption: CaptionToRewrite, random: Random) -> str | None:
    return _replace_words(caption.text, LONGER_SYNONYMS)


def _add_stock_opening(caption: CaptionToRewrite, random: Random) -> str | None:
    return random.choice(STOCK_OPENINGS) + caption.text if caption.text.strip() else None


def _hide_instruction(caption: CaptionToRewrite, random: Random) -> str | None:
    return _append(caption.text, random.choice(INSTRUCTIONS))


def _negate(caption: CaptionToRewrite, random: Random) -> str | None:
    return " ".join(map(_negate_sentence, caption.sentences)) or None


def _swap_names(caption: CaptionToRewrite, random: Random) -> str | None:
    inside = [name for sentence in caption.sentences for name in _list_inner_names(sentence)]
    free = [name for name in NAMES if name not in caption.text]
    named = list(dict.fromkeys(inside))[: len(free)]
    swapped = dict(zip(named, random.sample(free, len(named)), strict=True))
    return _NAME.sub(lambda match: swapped.get(match[0], match[0]), caption.text) if named else None


def _swap_numbers(caption: CaptionToRewrite, random: Random) -> str | None:
    words, added = _shift(NUMBER_WORDS, random), random.randrange(1, 9)
    digits = {number: str(int(number) + added) for number in re.findall(r"(?<![\w-])[0-9]{1,9}(?![\w-])", caption.text)}
    return _replace_words(caption.text, {**words, **digits})


def _swap_colours(caption: CaptionToRewrite, random: Random) -> str | None:
    swapped = _shift(COLOURS, random)
    return _replace_words(caption.text, {**swapped, "gray": swapped["grey"]})


def _reverse_sentences(caption: CaptionToRewrite, random: Random) -> str | None:
    return " ".join(reversed(_close_sentences(caption))) if len(caption.sentences) > 1 else None


def _insert_other_sentence(caption: CaptionToRewrite, random: Random) -> str | None:
    strange = [sentence for sentence in next(iter(caption.others), ()) if sentence not in caption.sentences]
    if not strange or not caption.sentences:
        return None
    sentences = _close_sentences(caption)
    sentences[random.randrange(len(sentences))] = _close_sentence(random.choice(strange))
    return " ".join(sentences)


REWRITE_KINDS = (
    RewriteKind("generic_sentence", "an added generic sentence", True, _add_generic_sentence),
    RewriteKind("doubled_sentences", "sentences that come twice", True, _double_sentences),
    RewriteKind("restated_sentences", "sentences that are restated", True, _restate_sentences),
    RewriteKind("noun_list", "a list of its own nouns", True, _add_noun_list),
    RewriteKind("reference_words", "a list of the references' nouns", True, _add_reference_words),
    RewriteKind("doubted_words", "doubts about the references' nouns", True, _add_noun_sentences(_DOUBT)),
    RewriteKind("denied_words", "denials of the references' nouns", True, _add_noun_sentences(_DENIAL)),
    RewriteKind("asked_words", "questions about the references' nouns", True, _add_noun_sentences(_QUESTION)),
    RewriteKind("common_sequences", "the references' commonest word sequences", True, _add_common_sequences),
    RewriteKind("other_captions", "captions of two other videos", True, _add_other_captions),
    RewriteKind("longer_synonyms", "longer synonyms", True, _lengthen_synonyms),
    RewriteKind("stock_opening", "a stock opening", True, _add_stock_opening),
    RewriteKind("hidden_instruction", "a hidden instruction", True, _hide_instruction),
    RewriteKind("negation", "negation", False, _negate),
    RewriteKind("swapped_names", "swapped names", False, _swap_names),
    RewriteKind("swapped_numbers", "swapped numbers", False, _swap_numbers),
    RewriteKind("swapped_colours", "swapped colours", False, _swap_colours),
    RewriteKind("reversed_order", "reversed sentences", False, _reverse_sentences),
    RewriteKind("other_sentence", "a sentence of another video", False, _insert_other_sentence),
)
"""All kinds of rewrites: first those that keep the truth of a caption, then those that take some away."""


def _append(text: str, sentence: str) -> str | None:
    """Add a sentence behind a text; None for a text without a letter or digit."""
    return f"{_close_sentence(text)} {sentence}" if any(map(str.isalnum, text)) else None


def _close_sentences(caption: CaptionToRewrite) -> list[str]:
    return list(map(_close_sentence, caption.sentences))


def _close_sentence(text: str) -> str:
    """Add a full stop to a text that ends without punctuation."""
    bare = text.rstrip()
    return bare if not bare or not bare[-1].isalnum() else f"{bare}."


def _format_list(nouns: Sequence[str]) -> str:
    return f"{nouns[0][0].upper()}{', '.join(nouns)[1:]}."


def _negate_sentence(sentence: str) -> str:
    if _NEGATED.search(sentence):
        return _close_sentence(sentence)
    if match := _AUXILIARY.search(sentence):
        auxiliary, *rest = match[0].split(" ")
        negated = " ".join([auxiliary, "not", *rest])
        return _close_sentence(f"{sentence[: match.start()]}{negated}{sentence[match.end() :]}")
    return _close_sentence(f"It is not true that {_lower_start(sentence)}")


def _lower_start(sentence: str) -> str:
    """The sentence for the middle of another one: its first letter is lower, unless its first word may be a name."""
    first = sentence.split(maxsplit=1)[0].lower()
    starts_lower = (first in FUNCTION_WORDS | NUMBERS and first != "i") or first.rstrip(",").endswith(
        ("ing", "ly", "ed")
    )
    return sentence[0].lower() + sentence[1:] if starts_lower else sentence


def _list_inner_names(sentence: str) -> list[str]:
    """The capitalised words of a sentence after its first word."""
    start = re.search(r"[^\W_]+", sentence)
    return [
        match[0]
        for match in _NAME.finditer(sentence, start.end() if start else 0)
        if match[0].lower() not in FUNCTION_WORDS
    ]


def _shift(words: Sequence[str], random: Random) -> dict[str, str]:
    """Give every word another one of the same list, and no two words the same one."""
    step = random.randrange(1, len(words))
    return {word: words[(place + step) % len(words)] for place, word in enumerate(words)}


def _replace_words(text: str, new_words: Mapping[str, str]) -> str | None:
    """Replace words without regard to their case, and fit "a" and "an" to them; None where the text has none."""
    n_replaced = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal n_replaced
        word = match["word"]
        if (new := new_words.get(word.lower())) is None:
            return match[0]
        n_replaced += 1
        new = new[0].upper() + new[1:] if word[0].isupper() else new
        if not (article := match["article"]):
            return new
        return f"{article[0]}{'n' if new[0].lower() in 'aeiou' else ''}{match['space']}{new}"

    replaced = _WORD_OR_NUMBER.sub(replace, text)
    return replaced if n_replaced else None
