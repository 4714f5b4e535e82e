"""Decide which replies are right, and which questions are kept (paper 3.3; spec 3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

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

# "error" is every reply that shows nothing about its context: failed, refused, unreadable, or not judged.
AnswerOutcome = Literal["correct", "wrong", "abstain", "error"]


def judge_replies(
    answered: Sequence[tuple[Question, Reply]], matcher: AnswerMatcher | None = None
) -> list[AnswerJudgement]:
    """Return for every (question, reply), in order, whether the reply is right. A closed question's reply is right if
    it equals the key; the matcher judges open ones, in one batch. A reply with a status other than "ok" is not judged:
    its `correct` is None. Raises ValueError for an answered open question without a matcher.

    >>> red = Question("factuality", "yes_no", "Is it red?", "yes", ("yes", "no"))
    >>> [result.correct for result in judge_replies([(red, Reply("ok", "No.", "no")), (red, Reply("abstain"))])]
    [False, None]
    """
    needs_matcher = [reply.status == "ok" and question.kind == "open" for question, reply in answered]
    to_match = [pair for pair, is_open in zip(answered, needs_matcher, strict=True) if is_open]
    if to_match and matcher is None:
        raise ValueError("Open questions need a matcher: give one, or leave the open questions out.")
    matched = iter(matcher.judge_answers(to_match) if to_match and matcher is not None else [])
    return [
        next(matched)
        if is_open
        else AnswerJudgement(reply.normalised == question.answer if reply.status == "ok" else None)
        for (question, reply), is_open in zip(answered, needs_matcher, strict=True)
    ]


def choose_outcome(status: ReplyStatus, correct: bool | None) -> AnswerOutcome:
    """Return the outcome of a reply: "abstain" for this status, "correct" or "wrong" for a judged answer, else "error".
    status: of the reply. correct: the judgement on it, None where there is none.

    >>> choose_outcome("ok", False), choose_outcome("abstain", None), choose_outcome("refused", None)
    ('wrong', 'abstain', 'error')
    >>> choose_outcome("ok", None)
    'error'
    """
    if status == "abstain":
        return "abstain"
    if status != "ok" or correct is None:
        return "error"
    return "correct" if correct else "wrong"


def judge_outcomes(
    answered: Sequence[tuple[Question, Reply]], matcher: AnswerMatcher | None = None
) -> list[AnswerOutcome]:
    """Judge every (question, reply), and return the outcomes, in order: "correct", "wrong", "abstain" or "error". The
    matcher judges open questions. Raises ValueError for an answered open question without a matcher.
    """
    judged = judge_replies(answered, matcher)
    return [
        choose_outcome(reply.status, judgement.correct) for (_, reply), judgement in zip(answered, judged, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class FilterMark:
    """The decision of filtering on one question ("keep", "trivial", "low_quality" or "error"), with the outcomes that
    led to it. closed_book: the outcome of every vote without a context. open_book: the outcome with the source in
    sight, None where it was not asked. reason: the reply that decided, or why there is an error.

    Voting ends with the first vote that is wrong or abstains, as the question cannot be trivial any more. failure: for
    an error, the status of the reply that failed, or of the judgement on it.
    """

    closed_book: tuple[AnswerOutcome, ...]
    open_book: AnswerOutcome | None
    decision: Decision
    reason: str | None = None
    failure: Failure | None = None


def _is_nontrivial(closed_book: Sequence[AnswerOutcome]) -> bool:
    """Return whether a closed-book vote, an answer without a context, was wrong or abstained. The question is then not
    trivial, whatever the other votes are.
    """
    return "wrong" in closed_book or "abstain" in closed_book


def decide_question(closed_book: Sequence[AnswerOutcome], open_book: AnswerOutcome | None = None) -> Decision:
    """Decide whether to keep a question: "trivial" if all closed-book votes (answers without a context) are correct,
    else "keep" if the open-book answer is correct, else "low_quality"; "error" if the open-book answer failed, or a
    vote failed and none is wrong or abstains. Raises ValueError without votes, and without an open-book outcome that is
    needed.

    >>> decide_question(["correct"]), decide_question(["error"])
    ('trivial', 'error')
    >>> decide_question(["abstain"], "correct"), decide_question(["wrong"], "abstain")
    ('keep', 'low_quality')
    """
    if not closed_book:
        raise ValueError("A question needs at least one closed-book vote.")
    if not _is_nontrivial(closed_book):
        return "error" if "error" in closed_book else "trivial"
    if open_book is None:
        raise ValueError("A question that is not trivial needs an open-book outcome.")
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
    """Ask each question without and with the source it was written from, and return one mark per question, in order,
    with the decision whether to keep it. asked: (question, source). closed_book and open_book answer without and with
    the source; the matcher judges open questions. votes: the most closed-book answers to a question.

    All questions are asked without a context first, vote by vote, with the seeds 0 to votes - 1; those that are not
    trivial are asked with their source. Every stage is one batch for the answerer and one for the matcher. One vote is
    the paper's number; more spare questions that a guess happens to answer, if the answerer gives another answer with
    another seed (see `ChatAnswerer.answer`). Raises ValueError for fewer votes than 1, and for open questions without a
    matcher.
    """
    if votes < 1:
        raise ValueError(f"Questions need at least one closed-book vote, not {votes}.")
    cast: list[list[AnswerOutcome]] = [[] for _ in asked]
    last: list[_JudgedReply | None] = [None for _ in asked]
    for vote in range(votes):
        voting = [i for i in range(len(asked)) if not _is_nontrivial(cast[i])]
        judged = _ask_and_judge([ContextQuestion(asked[i][0], None, vote) for i in voting], closed_book, matcher)
        for i, reply in zip(voting, judged, strict=True):
            cast[i].append(reply.outcome)
            last[i] = reply if last[i] is None or reply.outcome != "correct" else last[i]
    with_source: list[AnswerOutcome | None] = [None for _ in asked]
    survivors = [i for i in range(len(asked)) if _is_nontrivial(cast[i])]
    judged = _ask_and_judge([ContextQuestion(*asked[i]) for i in survivors], open_book, matcher)
    for i, reply in zip(survivors, judged, strict=True):
        with_source[i], last[i] = reply.outcome, reply
    return [_build_mark(*results) for results in zip(cast, with_source, last, strict=True)]


@dataclass(frozen=True, slots=True)
class _JudgedReply:
    reply: Reply
    judgement: AnswerJudgement

    @property
    def outcome(self) -> AnswerOutcome:
        return choose_outcome(self.reply.status, self.judgement.correct)


def _ask_and_judge(
    questions: Sequence[ContextQuestion], answerer: Answerer, matcher: AnswerMatcher | None
) -> list[_JudgedReply]:
    """Return the replies to questions, in order, with their judgements."""
    replies = answerer.answer(questions) if questions else []
    answered = [(question.question, reply) for question, reply in zip(questions, replies, strict=True)]
    return [_JudgedReply(*pair) for pair in zip(replies, judge_replies(answered, matcher), strict=True)]


def _build_mark(
    closed_book: Sequence[AnswerOutcome], open_book: AnswerOutcome | None, last: _JudgedReply | None
) -> FilterMark:
    """Build the mark of a question, with the words of the reply that decided, or why it or its judgement failed."""
    decision = decide_question(closed_book, open_book)
    assert last is not None
    reply, judgement = last.reply, last.judgement
    if decision != "error":
        reason = reply.raw if reply.status == "ok" else reply.reason
        return FilterMark(tuple(closed_book), open_book, decision, reason or None)
    failed = judgement if reply.status == "ok" else reply
    failure = failed.status if failed.status in ("malformed", "refused") else "error"
    return FilterMark(
        tuple(closed_book), open_book, decision, failed.reason or "the matcher failed to judge an answer", failure
    )
