"""Parse answers to questions, and compare texts by their words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from metrics_core.qeva.records import Question, Reply

# The words with which an answerer is to abstain where the context does not give the answer.
ABSTAIN = "cannot tell"

YES_WORDS, NO_WORDS = frozenset({"yes", "true", "y"}), frozenset({"no", "false", "n"})
EDGES = " \"'`´‘’“”„«»()[]{}*_.,;:!?"
LEAD = re.compile(
    r"^(?:(?:my |the )?(?:final |correct |right )?(?:answer|order|sequence)(?: is\b|:)|it is\b|it's\b)\W*"
)
LABEL = re.compile(r"^((?:option|choice|letter|number)\s+)?\W?([a-z]|\d{1,2})$")
LABEL_AND_TEXT = re.compile(r"^((?:option|choice)\s+)?([a-z]|\d{1,2})\s?[).:\]]\s*(.+)$")
ORDER_FILLER = re.compile(r"\b(?:first|then|next|and|finally|lastly|last)\b")

_WHO = r"(?:i'm|i|we|you|one|it|this|that|(?:the )?(?:context|summary|text|video|passage|answer|question|frames?))"
_NOT = (
    r"(?:is |was |am |are |does |do |can |could )?"
    r"(?:not|cannot|can't|couldn't|don't|doesn't|isn't|wasn't)(?: \w+ly)?(?: be)?"
)
_KNOWN = (
    r"(?:tell|told|say|said|know|known|determined?|answer(?:ed)?|infer(?:red)?|mention(?:ed)?|stated?"
    r"|specif(?:y|ied)|given|clear|sure|enough information)"
)
_UNKNOWN = (
    r"(?:is |was |am )?"
    r"(?:unknown|unclear|undetermined|unanswerable|unsure|unspecified|impossible to (?:tell|say|know))"
)
_MISSING = r"(?:there is )?(?:not enough|insufficient|no) (?:information|context|answer)"
_ABOUT = (
    r"(?: (?:from|in|by|based|given|about|whether|who|what|when|where|why|how|which|if|this|that|it|for)\b.{0,80})?"
)
ABSTENTION = re.compile(rf"(?:(?:{_WHO} )?(?:{_NOT} {_KNOWN}|{_UNKNOWN})|{_MISSING}){_ABOUT}|n/a|abstain")


def parse_reply(question: Question, raw: str) -> Reply:
    """Parse the words `raw` of an answer to a question. The reply has the status "ok" with one of the choices, or for
    an open question the words themselves; "abstain" where they say that the context does not give the answer; and else
    "malformed". No text raises an error.

    A closed question accepts a choice's text, its letter ("B", "option b", "b) the text"), or its number from 1, in
    the order of `question.choices`; the text of a choice counts before its letter. A yes_no question accepts "true",
    "y" and the like too, an order "A, C, B", "a->c->b" and "1-3-2". An open question accepts any words.

    >>> colours = Question("factuality", "choice", "Which colour is the car?", "red", ("red", "blue"))
    >>> [parse_reply(colours, raw).normalised for raw in ("Blue.", "b)", "Option A", "either A or B")]
    ['blue', 'blue', 'red', None]
    >>> parse_reply(colours, "The summary does not say.").status
    'abstain'
    """
    text = clean_reply_text(raw)
    if not any(map(str.isalnum, text)):
        return Reply("malformed", raw, reason="the reply is empty")
    if question.kind == "open":
        if ABSTENTION.fullmatch(text):
            return _build_abstention(raw)
        return Reply("ok", raw, " ".join(raw.split()))
    chosen = _find_choice(question, text)
    if chosen is not None:
        return Reply("ok", raw, chosen)
    if ABSTENTION.fullmatch(text):
        return _build_abstention(raw)
    return Reply("malformed", raw, reason="the reply names none of the choices, or more than one")


def _build_abstention(raw: str) -> Reply:
    """Build the reply for words `raw` that say that the context does not give the answer: status "abstain"."""
    return Reply("abstain", raw, reason="the answerer cannot tell")


def clean_reply_text(text: str) -> str:
    """Return a text as replies are compared: NFKC, case-folded, single spaces, without quotes and punctuation at its
    ends.

    >>> clean_reply_text(" “The  Dog!” ")
    'the dog'
    """
    straight = unicodedata.normalize("NFKC", text).replace("’", "'")
    return " ".join(straight.casefold().split()).strip(EDGES)


def _find_choice(question: Question, text: str) -> str | None:
    """Return the choice that a reply names, also after words such as "the answer is"; None where it names none or
    several. text: the reply as `clean_reply_text` returns it.
    """
    bare = LEAD.sub("", text).strip(EDGES)
    named = _match_choice(question, text)
    return _match_choice(question, bare) if named is None else named


def _match_choice(question: Question, text: str) -> str | None:
    """Return the choice whose text, letter or number from 1 a reply is; None for none or several. An order also matches
    with arrows and the like. text: the reply as `clean_reply_text` returns it.
    """
    by_text = [choice for choice in question.choices if clean_reply_text(choice) == text]
    if by_text:
        return by_text[0] if len(by_text) == 1 else None
    if question.kind == "order":
        return _parse_order(question, text)
    if question.kind == "yes_no" and (answer := parse_yes_no(text)) is not None:
        return answer if answer in question.choices else None
    if match := LABEL.match(text):
        labelled = _find_labelled_choice(question, match[2])
        # "option 2" where "2" is the text of another choice can mean either.
        also = [choice for choice in question.choices if match[1] and clean_reply_text(choice) == match[2]]
        return labelled if set(also) <= {labelled} else None
    if match := LABEL_AND_TEXT.match(text):
        labelled = _find_labelled_choice(question, match[2])
        return labelled if labelled is not None and clean_reply_text(labelled) == match[3].strip(EDGES) else None
    return None


def parse_yes_no(text: str) -> str | None:
    """Return "yes" or "no" for a word that means it, such as "true" or "n"; None for another text. text: cleaned by
    `clean_reply_text`.
    """
    return "yes" if text in YES_WORDS else "no" if text in NO_WORDS else None


def _find_labelled_choice(question: Question, label: str) -> str | None:
    """Return the choice with this label, a lower-case letter or a number from 1; None where there is none."""
    place = int(label) - 1 if label.isdecimal() else ord(label) - ord("a")
    return question.choices[place] if 0 <= place < len(question.choices) else None


def _parse_order(question: Question, text: str) -> str | None:
    """Return the order, one of the choices, that a reply spells with letters or with numbers from 1; None where it
    spells none, or has an arrow to the left. text: the reply as `clean_reply_text` returns it.
    """
    if "<" in text or "←" in text:
        return None
    marks = re.sub(r"[\W_]+", "", ORDER_FILLER.sub(" ", text))
    if marks.isascii() and marks.isdecimal():
        marks = "".join(chr(ord("a") + int(digit) - 1) for digit in marks)
    return next((choice for choice in question.choices if choice.casefold() == marks), None)


def has_same_words(left: str, right: str) -> bool:
    """Whether two texts differ at most in case, spaces and the punctuation around them.

    >>> has_same_words("A dog  runs.", "a dog runs"), has_same_words("A dog.", "A cat.")
    (True, False)
    """
    return clean_reply_text(left) == clean_reply_text(right)


def list_distinct_texts(texts: Iterable[str]) -> list[str]:
    """Return the texts in order, without a text that has the same words as an earlier one.

    >>> list_distinct_texts(["A dog.", "A cat.", "a dog"])
    ['A dog.', 'A cat.']
    """
    seen: dict[str, str] = {}
    for text in texts:
        seen.setdefault(clean_reply_text(text), text)
    return list(seen.values())
