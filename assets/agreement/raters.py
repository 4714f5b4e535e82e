"""Sentences on single raters: whose ratings do not count, who is far from the others, and who answers in a pattern."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from assets.agreement.judged import SEED, AspectRatings
from assets.reports.text import format_number, join_names
from db.reports.agreement import RaterAnswer
from metrics_core.agreement.rater_checks import AnswerPattern, RaterCheck, compare_raters, find_pattern
from metrics_core.agreement.raters import FEWEST_SHARED

MOST_NAMED = 6
# The answers to which of two captions is better, as the page shows them.
_CHOICES: Mapping[float, str] = {1.0: "A", 0.0: "neither", -1.0: "B"}


def explain_raters(rated: AspectRatings, videos: Sequence[int]) -> Iterator[str]:
    """Yield sentences on raters of an aspect who share too few captions to count for the human ceiling, and on those
    far from the others. Nothing for a single rater.

    videos: of the rated samples (n,).
    """
    if len(rated.raters) < 2:
        return
    checks = dict(zip(rated.raters, compare_raters(rated.values, videos, seed=SEED), strict=True))
    if left_out := [f"{name} ({check.n_shared})" for name, check in checks.items() if not check.is_counted]:
        who = _format_names(left_out)
        if len(left_out) == len(checks):
            yield f"There is no human ceiling: no rater shares {FEWEST_SHARED} captions with the others, only {who}."
        else:
            yield f"One more rater leaves out those who share fewer than {FEWEST_SHARED} captions with others: {who}."
    yield from (_explain_far_rater(name, check) for name, check in checks.items() if check.is_far)


def _explain_far_rater(name: str, check: RaterCheck) -> str:
    """Return a sentence on a rater who is far from the others."""
    own = check.coefficient
    assert own is not None
    return (
        f"{name} is far from the other raters: τ-b {format_number(own.value)} ({format_number(own.low)} to {format_number(own.high)}) with "
        f"their mean, where one of them has {format_number(check.ceiling_without_rater)} with the rest."
    )


def _format_names(names: Sequence[str]) -> str:
    """Return names for a sentence: at most six, and how many more.

    >>> _format_names(["a", "b"]), _format_names(list("abcdefgh"))
    ('a and b', 'a, b, c, d, e, f and 2 more')
    """
    more = [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
    return join_names([*names[:MOST_NAMED], *more])


def explain_patterns(answers: Iterable[RaterAnswer]) -> Iterator[str]:
    """Yield a sentence for every rater and aspect whose answers repeat a pattern that chance hardly gives.

    answers: of all raters, those of a browser in the order in which a rater gave them. Answers whose order is not known
    only count where they are all the same.
    """
    given: dict[tuple[str, bool], dict[str, list[RaterAnswer]]] = {}
    for each in answers:
        # Without a time nobody knows where an answer to what was asked again belongs.
        if each.first_value is not None and not each.is_timed:
            continue
        given.setdefault((each.aspect, each.is_comparison), {}).setdefault(each.rater, []).append(each)
    for (aspect, pairs), by_rater in given.items():
        counts = {rater: Counter(each.shown for each in own) for rater, own in by_rater.items()}
        for rater, own in by_rater.items():
            if found := _find_rater_pattern(own, _compute_commonest_share(counts, rater)):
                yield _explain_pattern(found, rater, aspect, pairs)


def _compute_commonest_share(counts: Mapping[str, Counter[float]], rater: str) -> float:
    """Compute the share of the commonest answer among those of the other raters; 0 without any."""
    others = sum((each for name, each in counts.items() if name != rater), Counter[float]())
    return max(others.values(), default=0) / max(1, others.total())


def _find_rater_pattern(own: Sequence[RaterAnswer], share: float) -> AnswerPattern | None:
    """Find a pattern in a rater's answers in order, or in all others if these are the same; None without one."""
    timed, rest = ([each.shown for each in own if each.is_timed == is_timed] for is_timed in (True, False))
    return find_pattern(timed, share) or (find_pattern(rest, share) if len(set(rest)) == 1 else None)


def _explain_pattern(found: AnswerPattern, rater: str, aspect: str, pairs: bool) -> str:
    """Return a sentence on a rater whose answers repeat a pattern."""
    cycle = [_CHOICES.get(each, f"{each:g}") if pairs else f"{each:g}" for each in found.cycle]
    how = f"are all {cycle[0]}" if len(cycle) == 1 else f"repeat {', '.join(cycle)}"
    of_all = f" of {found.n_answers:,}" if found.n < found.n_answers else ""
    return (
        f"{rater} gave {found.n:,}{of_all} answers in a row that {how} ({aspect}): chance hardly does, so look at them "
        "before you count on them."
    )
