"""What is odd about single raters, in sentences: who does not count, is far from others, or answers in a pattern."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from assets.agreement.judged import SEED, Rated
from assets.reports.text import listed, number
from db.reports.agreement import GivenAnswer
from metrics_core.agreement.rater_checks import Pattern, RaterCheck, compare_raters, find_pattern
from metrics_core.agreement.raters import FEWEST_SHARED

MOST_NAMED = 6
# The answers to which of two captions is better, as the page shows them.
_CHOICES: Mapping[float, str] = {1.0: "A", 0.0: "neither", -1.0: "B"}


def rater_sentences(rated: Rated, videos: Sequence[int]) -> Iterator[str]:
    """Name the raters of an aspect whom the human ceiling leaves out, and those far from the others, with figures.

    videos: of the rated samples (n,). There is nothing to say of a single rater.
    """
    if len(rated.raters) < 2:
        return
    checks = dict(zip(rated.raters, compare_raters(rated.values, videos, seed=SEED), strict=True))
    if left_out := [f"{name} ({check.n_shared})" for name, check in checks.items() if not check.counts]:
        who = _shortened(left_out)
        if len(left_out) == len(checks):
            yield f"There is no human ceiling: no rater shares {FEWEST_SHARED} captions with the others, only {who}."
        else:
            yield f"One more rater leaves out those who share fewer than {FEWEST_SHARED} captions with others: {who}."
    yield from (_far(name, check) for name, check in checks.items() if check.is_far)


def _far(name: str, check: RaterCheck) -> str:
    own = check.own
    assert own is not None
    return (
        f"{name} is far from the other raters: τ-b {number(own.value)} ({number(own.low)} to {number(own.high)}) with "
        f"their mean, where one of them has {number(check.others)} with the rest."
    )


def _shortened(names: Sequence[str]) -> str:
    """Names in a sentence, of many the first ones.

    >>> _shortened(["a", "b"]), _shortened(list("abcdefgh"))
    ('a and b', 'a, b, c, d, e, f and 2 more')
    """
    more = [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
    return listed([*names[:MOST_NAMED], *more])


def pattern_sentences(answers: Iterable[GivenAnswer]) -> Iterator[str]:
    """Name the raters who gave the same answers over and over again, by aspect.

    answers: of all raters, those of a browser in the order in which a rater gave them. Of answers whose order is not
    known only those count that are all the same.
    """
    given: dict[tuple[str, bool], dict[str, list[GivenAnswer]]] = {}
    for each in answers:
        # Without a time nobody knows where an answer to what was asked again belongs.
        if each.first is not None and not each.is_timed:
            continue
        given.setdefault((each.aspect, each.pairs), {}).setdefault(each.rater, []).append(each)
    for (aspect, pairs), by_rater in given.items():
        counts = {rater: Counter(each.shown for each in own) for rater, own in by_rater.items()}
        for rater, own in by_rater.items():
            if found := _pattern(own, _share_of_others(counts, rater)):
                yield _in_words(found, rater, aspect, pairs)


def _share_of_others(counts: Mapping[str, Counter[float]], rater: str) -> float:
    """The share of the commonest answer among those of the other raters; 0 without any."""
    others = sum((each for name, each in counts.items() if name != rater), Counter[float]())
    return max(others.values(), default=0) / max(1, others.total())


def _pattern(own: Sequence[GivenAnswer], share: float) -> Pattern | None:
    timed, rest = ([each.shown for each in own if each.is_timed == is_timed] for is_timed in (True, False))
    return find_pattern(timed, share) or (find_pattern(rest, share) if len(set(rest)) == 1 else None)


def _in_words(found: Pattern, rater: str, aspect: str, pairs: bool) -> str:
    cycle = [_CHOICES.get(each, f"{each:g}") if pairs else f"{each:g}" for each in found.cycle]
    how = f"are all {cycle[0]}" if len(cycle) == 1 else f"repeat {', '.join(cycle)}"
    of_all = f" of {found.n_answers:,}" if found.n < found.n_answers else ""
    return (
        f"{rater} gave {found.n:,}{of_all} answers in a row that {how} ({aspect}): chance hardly does, so look at them "
        "before you count on them."
    )
