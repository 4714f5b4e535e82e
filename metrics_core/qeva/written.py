"""What a model wrote as questions, checked and put in order; what is unusable is left out and counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from metrics_core.qeva.chronology import ORDERS, order_question
from metrics_core.qeva.event_pairs import shuffled
from metrics_core.qeva.normalise import cleaned, normalise, yes_or_no
from metrics_core.qeva.records import NO, YES, Dimension, Kind, Question, QuestionSet


def one_line(text: str) -> str:
    """A text on one line, with single spaces."""
    return " ".join(text.split())


def distinct_texts(texts: Sequence[str]) -> list[str]:
    """The texts with words, each once, in order.

    >>> distinct_texts(["Why?", " why ", "", "How?"])
    ['Why?', 'How?']
    """
    first = {cleaned(text): one_line(text) for text in reversed(texts)}
    return [first[key] for key in dict.fromkeys(map(cleaned, texts)) if any(map(str.isalnum, key))]


def closed_question(
    dimension: Dimension, written: Mapping[str, Any], seed: int, category: str | None = None
) -> Question | None:
    """A question with choices as a model wrote it; None unless it has 2 or 4 that differ, one of which is the key.

    Choices other than yes and no are shuffled by the seed, as models like to put the right one first.

    >>> closed_question("factuality", {"question": "Is it red?", "choices": ["No", "Yes"], "answer": "yes."}, 0).choices
    ('yes', 'no')
    """
    text, choices = one_line(written["question"]), distinct_texts(written["choices"])
    if not any(map(str.isalnum, text)) or len(choices) != len(written["choices"]) or len(choices) not in (2, 4):
        return None
    is_yes_no = {yes_or_no(cleaned(choice)) for choice in choices} == {YES, NO}
    kind: Kind = "yes_no" if is_yes_no else "choice"
    choices = [YES, NO] if is_yes_no else choices
    question = Question(dimension, kind, text, "", tuple(choices), category)
    key = normalise(question, written["answer"]).normalised
    if key is None:
        return None
    if not is_yes_no:
        choices = shuffled(choices, Random(f"{seed}\n{text}"))
    return replace(question, answer=key, choices=tuple(choices))


def ordering(written: Mapping[str, Any], seed: int) -> Question | None:
    """A question for the order of three events as a model wrote it, the events under new letters by the seed."""
    events = distinct_texts(written["choices"])
    if len(events) != 3 or len(written["choices"]) != 3:
        return None
    as_written = Question("chronology", "order", "", "", ORDERS)
    key = normalise(as_written, written["answer"]).normalised
    if key is None:
        return None
    in_time = [events["ABC".index(letter)].rstrip(" .,;") for letter in key]
    new_key = Random("\n".join((str(seed), *in_time))).choice(ORDERS)
    return replace(order_question(range(3), in_time, new_key), events=())


def chronology_of(written: Mapping[str, Any], n: int, seed: int) -> QuestionSet:
    """The chronology questions that a model wrote in one go: at most n, none twice."""
    questions: dict[tuple[str, frozenset[str]], Question] = {}
    for one in written["questions"]:
        is_order = one["kind"] == "order"
        question = ordering(one, seed) if is_order else closed_question("chronology", one, seed)
        if question is not None and question.kind == one["kind"]:
            # What is asked of the same events is the same question, whichever letters they have.
            about = frozenset(map(cleaned, question.statements if is_order else question.choices))
            questions.setdefault((one["kind"] if is_order else cleaned(question.text), about), question)
    kept = tuple(questions.values())[:n]
    reason = None if kept else "the model wrote no usable question"
    return QuestionSet("chronology", kept, n, len(written["questions"]) - len(kept), reason=reason)


def factuality_of(written: Mapping[str, Any], categories: Sequence[str], seed: int) -> QuestionSet:
    """The factuality questions that a model wrote; a category for which it wrote null is not malformed."""
    given = [(category, written[category]) for category in categories if written.get(category) is not None]
    questions: dict[str, Question] = {}
    for category, one in given:
        question = closed_question("factuality", one, seed, category)
        if question is not None:
            questions.setdefault(cleaned(question.text), question)
    reason = None if questions else "the summary gave no usable question"
    n_malformed = len(given) - len(questions)
    return QuestionSet("factuality", tuple(questions.values()), len(categories), n_malformed, reason=reason)
