"""Sentences on single raters: whose ratings do not count, who is far from the others, who answers in a pattern, and who
fails attention checks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from assets.agreement.judged import SEED, JudgedSamples
from assets.words.text import format_count, format_number, join_names
from db.reports.judgements import CheckCount, RaterAnswer
from metrics_core.agreement.rater_checks import AnswerPattern, RaterCheck, compare_raters, find_pattern
from metrics_core.agreement.raters import FEWEST_SHARED

MOST_NAMED = 6
# The answers to which of two captions is better, as the page shows them.
_CHOICES: Mapping[float, str] = {1.0: "A", 0.0: "neither", -1.0: "B"}


def compare_each_rater(judged: JudgedSamples, aspect: str) -> dict[str, RaterCheck]:
    """Compare the ratings of each rater by one aspect with all others'; return the results by rater, {} for a single
    one.
    """
    raters = judged.raters[aspect]
    if len(raters) < 2:
        return {}
    return dict(zip(raters, compare_raters(judged.ratings[aspect], judged.videos, seed=SEED), strict=True))


def explain_raters(checks: Mapping[str, RaterCheck]) -> Iterator[str]:
    """Yield sentences on raters of one aspect who share fewer than 30 captions (FEWEST_SHARED) with others, and so do
    not count for the human ceiling. Sentences follow on raters who are far from the others. checks: by rater.
    """
    if left_out := [f"{name} ({check.n_shared})" for name, check in checks.items() if not check.is_counted]:
        who = _format_names(left_out)
        if len(left_out) == len(checks):
            yield f"There is no human ceiling, since no rater shares {FEWEST_SHARED} captions with the others: {who}."
        else:
            yield f"The human ceiling leaves out raters with fewer than {FEWEST_SHARED} shared captions: {who}."
    yield from (_explain_far_rater(name, check) for name, check in checks.items() if check.is_far)


def _explain_far_rater(name: str, check: RaterCheck) -> str:
    """Return a sentence on a rater who is far from the others."""
    coefficient = check.coefficient
    assert coefficient is not None
    interval = f"{format_number(coefficient.low)} to {format_number(coefficient.high)}"
    return (
        f"{name} is far from the other raters: τ-b with their mean is {format_number(coefficient.value)} ({interval}), "
        f"while another rater has {format_number(check.ceiling_without_rater)} on average with the mean of the rest."
    )


def _format_names(names: Sequence[str]) -> str:
    """Return names for a sentence: at most six, and how many more.

    >>> _format_names(["a", "b"]), _format_names(list("abcdefgh"))
    ('a and b', 'a, b, c, d, e, f and 2 more')
    """
    more = [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
    return join_names([*names[:MOST_NAMED], *more])


def explain_patterns(answers: Iterable[RaterAnswer]) -> dict[tuple[str, bool, str], str]:
    """Return a sentence for every rater whose answers repeat a pattern that chance hardly gives, by (aspect, whether
    captions were compared, rater). answers: of all raters, those given in a browser in the order given. Answers in an
    unknown order only count where they are all the same; repeated answers without a time are left out.
    """
    grouped: dict[tuple[str, bool], dict[str, list[RaterAnswer]]] = {}
    for answer in answers:
        # Without a time, the place of a repeated answer in the order is unknown.
        if answer.first_value is not None and not answer.is_timed:
            continue
        grouped.setdefault((answer.aspect, answer.is_comparison), {}).setdefault(answer.rater, []).append(answer)
    sentences = {}
    for (aspect, pairs), by_rater in grouped.items():
        counts = {rater: Counter(answer.shown for answer in rater_answers) for rater, rater_answers in by_rater.items()}
        for rater, rater_answers in by_rater.items():
            if pattern := _find_rater_pattern(rater_answers, _compute_commonest_share(counts, rater)):
                sentences[aspect, pairs, rater] = _explain_pattern(pattern, rater, aspect, pairs)
    return sentences


def _compute_commonest_share(counts: Mapping[str, Counter[float]], rater: str) -> float:
    """Compute the share of the commonest answer among those of the other raters; 0 without any."""
    others = sum((count for name, count in counts.items() if name != rater), Counter[float]())
    return max(others.values(), default=0) / max(1, others.total())


def _find_rater_pattern(answers: Sequence[RaterAnswer], share: float) -> AnswerPattern | None:
    """Find a pattern in a rater's answers in order, or in all others if these are the same; None without one."""
    timed, untimed = ([answer.shown for answer in answers if answer.is_timed == is_timed] for is_timed in (True, False))
    return find_pattern(timed, share) or (find_pattern(untimed, share) if len(set(untimed)) == 1 else None)


def _explain_pattern(pattern: AnswerPattern, rater: str, aspect: str, pairs: bool) -> str:
    """Return a sentence on a rater whose answers repeat a pattern."""
    cycle = [_CHOICES.get(value, f"{value:g}") if pairs else f"{value:g}" for value in pattern.cycle]
    how = f"are all {cycle[0]}" if len(cycle) == 1 else f"repeat {', '.join(cycle)}"
    of_all = f" of {pattern.n_answers:,}" if pattern.n < pattern.n_answers else ""
    return (
        f"{rater} gave {pattern.n:,}{of_all} answers in a row that {how} ({aspect}): this is hardly chance, so check "
        "them before you use them."
    )


def explain_checks(count: CheckCount) -> str:
    """Return a sentence on how many attention checks a rater passed.

    >>> explain_checks(CheckCount("ann", "coverage", False, 3, 4))
    'ann passed 3 of 4 attention checks (coverage).'
    """
    asked = f"{count.aspect}, two captions side by side" if count.is_comparison else count.aspect
    return f"{count.rater} passed {count.n_passed:,} of {format_count(count.n, 'attention check')} ({asked})."


def explain_failed_checks(counts: Iterable[CheckCount]) -> dict[tuple[str, bool, str], str]:
    """Return a sentence for every rater who passed fewer than half of the attention checks, by (aspect, whether
    captions were compared, rater).

    >>> list(explain_failed_checks([CheckCount("ann", "fun", False, 1, 2), CheckCount("bob", "fun", False, 0, 1)]))
    [('fun', False, 'bob')]
    """
    return {
        (count.aspect, count.is_comparison, count.rater): (
            f"{explain_checks(count)[:-1]}: check the {'preferences' if count.is_comparison else 'ratings'} before you "
            "use them."
        )
        for count in counts
        if 2 * count.n_passed < count.n
    }
