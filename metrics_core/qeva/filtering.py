"""Which replies are right, and which questions are kept (paper 3.3; spec 3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from metrics_core.qeva.records import (
    Answerer,
    AnswerJudgement,
    AnswerMatcher,
    Context,
    ContextQuestion,
    Decision,
    Failure,
    Question,
    Reply,
    ReplyStatus,
)

# "error" is every reply that says nothing about its context: failed, refused or unreadable, or not to be judged.
AnswerOutcome = Literal["correct", "wrong", "abstain", "error"]


def judge_replies(
    answered: Sequence[tuple[Question, Reply]], matcher: AnswerMatcher | None = None
) -> list[AnswerJudgement]:
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
    matched = iter(matcher.judge_answers(to_match) if to_match and matcher is not None else [])
    return [
        next(matched)
        if of_open
        else AnswerJudgement(reply.normalised == question.answer if reply.status == "ok" else None)
        for (question, reply), of_open in zip(answered, is_open, strict=True)
    ]


def choose_outcome(status: ReplyStatus, correct: bool | None) -> AnswerOutcome:
    """The outcome of a reply with this status that was judged so, also of a stored one.

    >>> choose_outcome("ok", False), choose_outcome("abstain", None), choose_outcome("refused", None), choose_outcome("ok", None)
    ('wrong', 'abstain', 'error', 'error')
    """
    if status == "abstain":
        return "abstain"
    if status != "ok" or correct is None:
        return "error"
    return "correct" if correct else "wrong"


def judge_outcomes(
    answered: Sequence[tuple[Question, Reply]], matcher: AnswerMatcher | None = None
) -> list[AnswerOutcome]:
    """Judge replies and give their outcomes, in order. Errors are those of `judge_replies`."""
    judged = judge_replies(answered, matcher)
    return [
        choose_outcome(reply.status, judgement.correct) for (_, reply), judgement in zip(answered, judged, strict=True)
    ]


FilterFailure: TypeAlias = Failure


@dataclass(frozen=True, slots=True)
class FilterMark:
    """What filtering says of a question.

    closed_book: the outcome of every vote without a context; voting ends with the first vote that is wrong or
    abstains, as the question cannot be trivial any more. open_book: the outcome with the source in sight, None where it
    was not asked. reason: the reply that decided, or why there is an error. failure: for an error, the status of the
    reply that failed, or of the judgement on it.
    """

    closed_book: tuple[AnswerOutcome, ...]
    open_book: AnswerOutcome | None
    decision: Decision
    reason: str | None = None
    failure: FilterFailure | None = None


def is_nontrivial(closed_book: Sequence[AnswerOutcome]) -> bool:
    """Whether a vote has failed to answer the question: it is not trivial, whatever the other votes say."""
    return "wrong" in closed_book or "abstain" in closed_book


def decide_question(closed_book: Sequence[AnswerOutcome], open_book: AnswerOutcome | None = None) -> Decision:
    """Decide about a question: trivial iff all votes are correct, low quality unless its source gives the key.

    A vote without an outcome sets the question aside as "error", unless another vote has failed to answer it. Raises
    ValueError without votes, and for a question that survived them and has no open-book outcome.

    >>> decide_question(["correct"]), decide_question(["abstain"], "correct"), decide_question(["wrong"], "abstain"), decide_question(["error"])
    ('trivial', 'keep', 'low_quality', 'error')
    """
    if not closed_book:
        raise ValueError("A question needs at least one closed-book vote.")
    if not is_nontrivial(closed_book):
        return "error" if "error" in closed_book else "trivial"
    if open_book is None:
        raise ValueError("A question that survived the closed-book votes needs an open-book outcome.")
    if open_book == "error":
        return "error"
    return "keep" if open_book == "correct" else "low_quality"


def filter_questions(
    asked: Sequence[tuple[Question, Context]],
    closed_book: Answerer,
    open_book: Answerer,
    matcher: AnswerMatcher | None = None,
    votes: int = 1,
) -> list[FilterMark]:
    """Filter questions, each with the source it was written from, and give their marks in order.

    All questions are asked without a context first, vote by vote, with the seeds 0 to votes - 1; those that survive are
    asked with their source. Every stage is one batch for the answerer and one for the matcher, which open questions
    need. votes: closed-book votes a question; 1 is the paper's, more spare questions that a guess happens to answer, as
    far as the answerer says something else with another seed (see `ChatAnswerer.answer`).
    Raises ValueError for fewer votes than 1, and for open questions without a matcher.
    """
    if votes < 1:
        raise ValueError(f"Questions need at least one closed-book vote, not {votes}.")
    cast: list[list[AnswerOutcome]] = [[] for _ in asked]
    last: list[_JudgedReply | None] = [None for _ in asked]
    for vote in range(votes):
        voting = [i for i in range(len(asked)) if not is_nontrivial(cast[i])]
        judged = _ask_and_judge([ContextQuestion(asked[i][0], None, vote) for i in voting], closed_book, matcher)
        for i, one in zip(voting, judged, strict=True):
            cast[i].append(one.outcome)
            last[i] = one if last[i] is None or one.outcome != "correct" else last[i]
    opened: list[AnswerOutcome | None] = [None for _ in asked]
    survivors = [i for i in range(len(asked)) if is_nontrivial(cast[i])]
    for i, one in zip(
        survivors, _ask_and_judge([ContextQuestion(*asked[i]) for i in survivors], open_book, matcher), strict=True
    ):
        opened[i], last[i] = one.outcome, one
    return [_build_mark(*each) for each in zip(cast, opened, last, strict=True)]


@dataclass(frozen=True, slots=True)
class _JudgedReply:
    reply: Reply
    judgement: AnswerJudgement

    @property
    def outcome(self) -> AnswerOutcome:
        return choose_outcome(self.reply.status, self.judgement.correct)


def _ask_and_judge(
    asked: Sequence[ContextQuestion], answerer: Answerer, matcher: AnswerMatcher | None
) -> list[_JudgedReply]:
    """Ask a batch, and have the replies judged."""
    replies = answerer.answer(asked) if asked else []
    judgements = judge_replies([(one.question, reply) for one, reply in zip(asked, replies, strict=True)], matcher)
    return [_JudgedReply(*each) for each in zip(replies, judgements, strict=True)]


def _build_mark(cast: Sequence[AnswerOutcome], opened: AnswerOutcome | None, last: _JudgedReply | None) -> FilterMark:
    """The mark of a question, with the words of the reply that decided, or why it or its judgement failed."""
    decision = decide_question(cast, opened)
    assert last is not None
    reply, judgement = last.reply, last.judgement
    if decision != "error":
        reason = reply.raw if reply.status == "ok" else reply.reason
        return FilterMark(tuple(cast), opened, decision, reason or None)
    failed = judgement if reply.status == "ok" else reply
    failure = failed.status if failed.status in ("malformed", "refused") else "error"
    return FilterMark(tuple(cast), opened, decision, failed.reason or "the matcher failed to judge an answer", failure)
