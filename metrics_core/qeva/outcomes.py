"""Whether replies are right: by the key where a question has choices, by a matcher where it is open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from metrics_core.qeva.protocols import Matcher
from metrics_core.qeva.records import Judgement, Question, Reply, ReplyStatus

# "error" is every reply that says nothing about its context: failed, refused or unreadable, or not to be judged.
Outcome = Literal["correct", "wrong", "abstain", "error"]


def judge_replies(answered: Sequence[tuple[Question, Reply]], matcher: Matcher | None = None) -> list[Judgement]:
    """Say of each reply whether it is right, in order. A reply with a status other than "ok" has nothing to judge.

    >>> whether = Question("factuality", "yes_no", "Is it red?", "yes", ("yes", "no"))
    >>> [each.correct for each in judge_replies([(whether, Reply("ok", "No.", "no")), (whether, Reply("abstain"))])]
    [False, None]

    The matcher is asked once, for the open questions. Raises ValueError for an open question without a matcher.
    """
    is_open = [reply.status == "ok" and question.kind == "open" for question, reply in answered]
    to_match = [pair for pair, of_open in zip(answered, is_open, strict=True) if of_open]
    if to_match and matcher is None:
        raise ValueError("Open questions need a matcher: give one, or leave the open questions out.")
    matched = iter(matcher.match(to_match) if to_match and matcher is not None else [])
    return [
        next(matched) if of_open else Judgement(reply.normalised == question.answer if reply.status == "ok" else None)
        for (question, reply), of_open in zip(answered, is_open, strict=True)
    ]


def outcome_of(status: ReplyStatus, correct: bool | None) -> Outcome:
    """The outcome of a reply with this status that was judged so, also of a stored one.

    >>> outcome_of("ok", False), outcome_of("abstain", None), outcome_of("refused", None), outcome_of("ok", None)
    ('wrong', 'abstain', 'error', 'error')
    """
    if status == "abstain":
        return "abstain"
    if status != "ok" or correct is None:
        return "error"
    return "correct" if correct else "wrong"


def outcomes_of(answered: Sequence[tuple[Question, Reply]], matcher: Matcher | None = None) -> list[Outcome]:
    """Judge replies and give their outcomes, in order. Errors are those of `judge_replies`."""
    judged = judge_replies(answered, matcher)
    return [outcome_of(reply.status, judgement.correct) for (_, reply), judgement in zip(answered, judged, strict=True)]
