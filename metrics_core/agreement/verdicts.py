"""Plain words on agreement: does a metric order captions as people do (`verdict`), and systems (`order_verdict`)?

A claim must be more than chance for all claims of a page together: see `corrected`. Below FEWEST_VIDEOS there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from metrics_core.agreement.same_items import Coefficient, SameItems
from metrics_core.arithmetic import holm_defined
from metrics_core.calibration.rated import FEWEST_VIDEOS

Level = Literal["undefined", "open", "nothing", "against", "below baseline", "baseline", "above baseline", "ceiling"]
"""How far a metric can be trusted; see `verdict`."""
CLAIMS: tuple[Level, ...] = ("against", "below baseline", "baseline", "above baseline", "ceiling")
"""The levels that say that a metric orders as people do, or against them."""

BETTER_THAN_SIMPLE: tuple[Level, ...] = ("above baseline", "ceiling")
"""The levels of metrics that tell more about captions than any simple score."""

Order = Literal["alike", "against", "open"]
"""Whether a metric ranks systems as people do, the other way round, or as may be chance; see `order_verdict`."""
FEWEST_SYSTEMS = 5
"""Of 4 systems even the very same order has p = 2/24 by Kendall's test, of 5 systems 2/120."""
MANY_SYSTEMS = 8
"""Of fewer systems only nearly the same order is more than chance, so a page says where that begins."""
MOST_CHANCE = 0.05
"""What is likelier by chance is no claim."""
WIDEST = 0.5
"""A wider interval does not tell a weak metric from one that is as good as a rater."""
NEAR = 0.1
"""A metric whose tau-b is surely less than this below a rater's orders about as well."""
BETTER = " better than one more rater"
ALIKE = " about as well as one more rater"
LESS = " less well than one more rater"

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of one metric and one aspect, in a sentence, and shortly, without either name."""

    level: Level
    sentence: str
    short: str


def corrected(
    found: Mapping[K, SameItems], others: Sequence[float | None] = ()
) -> tuple[dict[K, SameItems], list[float | None]]:
    """Correct the chances of all claims on one page by Holm, so that any false one is likely at most MOST_CHANCE.

    others: the chances of the other claims of the page. That a metric orders captions as people do, and `others`, are
    one family, that it is above or below a baseline another one, which only counts after the first.
    """
    own = holm_defined([*(each.found.p for each in found.values()), *others])
    beside = holm_defined([each.above_baseline.p if each.above_baseline else None for each in found.values()])
    pages = {
        key: replace(
            each,
            found=replace(each.found, p=p),
            above_baseline=replace(each.above_baseline, p=other) if each.above_baseline else None,
        )
        for (key, each), p, other in zip(found.items(), own, beside, strict=False)
    }
    return pages, own[len(found) :]


def verdict(metric: str, aspect: str, same: SameItems, things: str = "captions") -> Verdict:
    """Say how well a metric orders things by an aspect, beside one more rater and the strongest baseline.

    The rules, in this order:

    - No coefficient: undefined. Fewer than FEWEST_VIDEOS videos, or no interval: open.
    - The interval holds 0: the metric says nothing, or, where the interval is wider than WIDEST, open.
    - Among all claims of the page it may be chance: open.
    - The interval lies below 0: the metric goes against people. It is wider than WIDEST: open how well.
    - The difference from the strongest baseline is more than chance and below 0: below the baseline. It may be chance:
      like the baseline.
    - Otherwise: above the baseline; at the ceiling where the metric is surely less than NEAR below one more rater.

    >>> found, words = Coefficient("ECS", 0.6, 0.55, 0.65, 90, 0.001), Coefficient("words", 0.5, 0.45, 0.56, 90)
    >>> rater, more = Coefficient("rater", -0.02, -0.06, 0.02, 90), Coefficient("words", 0.1, 0.04, 0.15, 90, 0.002)
    >>> verdict("ECS", "coverage", SameItems(found, None, words, more, rater, 30)).sentence
    'ECS orders captions by coverage about as well as one more rater, and clearly better than words.'
    """
    found, does = same.found, f"{metric} orders {things} by {aspect}"
    if found.value is None:
        why = "its values or the ratings are all equal" if found.n else f"none of the rated {things} has a score"
        return Verdict("undefined", f"{metric} cannot be compared by {aspect}: {why}.", f"cannot be compared: {why}")
    if few := too_few(same.n_videos):
        return Verdict("open", f"Whether {does} is open: {few}.", f"open: {few}")
    wide = found.low is None or found.high is None or found.high - found.low > WIDEST
    more = Verdict("open", f"Whether {does} is open: it takes more rated videos.", "open: more videos needed")
    if found.low is None or found.high is None:
        return more
    if found.low <= 0 <= found.high:
        nothing = f"{metric} says nothing about {aspect}."
        return more if wide else Verdict("nothing", nothing, "says nothing")
    if found.p is None or found.p > MOST_CHANCE:
        why = "open: may be chance"
        return Verdict("open", f"Whether {does} is open: of so many comparisons, one like it may be chance.", why)
    if found.high < 0:
        return Verdict("against", f"{metric} goes against {aspect}: better {things} score lower.", "the wrong way")
    if wide:
        how = f"{does}, but how well is open: it takes more rated videos."
        return Verdict("open", how, "open: how well")
    return _beside_baseline(does, same)


def too_few(n_videos: int) -> str | None:
    """Why so few videos bear no claim: `3 videos, 10 needed`; None where they are enough."""
    videos = f"{n_videos} video{'' if n_videos == 1 else 's'}"
    return f"{videos}, {FEWEST_VIDEOS} needed" if n_videos < FEWEST_VIDEOS else None


def _beside_baseline(does: str, same: SameItems) -> Verdict:
    """The rest of the sentence: one more rater, and the strongest baseline, where there are any."""
    more, beside = same.above_baseline, _beside_rater(same.above_rater)
    above: Level = "ceiling" if beside in (BETTER, ALIKE) else "above baseline"
    like_rater = "like one more rater" if above == "ceiling" else None
    if same.strongest is None or more is None or more.value is None:
        return Verdict(above, f"{does}{beside}.", like_rater or "orders alike")
    baseline = same.strongest.name
    if more.p is None or more.p > MOST_CHANCE:
        words = f"not clearly better than {baseline}, a simple score"
        return Verdict("baseline", f"{does}{beside}, but {words}.", "like a simple score")
    if more.value < 0:
        worse = f"{does} better than chance, but worse than {baseline}, a simple score."
        return Verdict("below baseline", worse, "worse than a simple score")
    sentence = f"{does}{beside}{', and' if beside else ''} clearly better than {baseline}."
    return Verdict(above, sentence, like_rater or "better than simple scores")


def _beside_rater(above: Coefficient | None) -> str:
    """How a metric stands to one more rater; "" without one, and where the interval leaves it open."""
    if above is None or above.low is None or above.high is None:
        return ""
    if above.low > 0:
        return BETTER
    if above.high < 0:
        return LESS
    return ALIKE if above.low > -NEAR else ""


@dataclass(frozen=True, slots=True)
class OrderVerdict:
    """Whether a metric ranks systems as people do, and that in words that follow the metric's name."""

    order: Order
    words: str


def order_verdict(found: Coefficient, n_videos: int) -> OrderVerdict:
    """Return whether a metric ranks systems as people do.

    found: the coefficient of the systems' means by the metric with their mean ratings; `found.n` counts systems, and
    `found.p` is the chance of such an order (`chance_of_order`), corrected for all claims of the page.

    How well the metric orders captions does not matter here. A claim needs FEWEST_SYSTEMS systems, FEWEST_VIDEOS
    videos, an interval that does not hold 0, and an order that is more than chance.

    >>> order_verdict(Coefficient("ECS", 1.0, 0.9, 1.0, 6, 0.003), 30).words
    'ranks the 6 systems as people do'
    >>> order_verdict(Coefficient("ECS", 1.0, 1.0, 1.0, 4), 30).words
    'ranks 4 systems, too few for a claim: even the very same order has p 0.083'
    """
    n = found.n
    if n < 2:
        return OrderVerdict("open", f"ranks no systems: {'only one has' if n else 'none has'} scores and ratings")
    if n < FEWEST_SYSTEMS:
        least = f"even the very same order has p {chance_of_order(1.0, n):.2g}"
        return OrderVerdict("open", f"ranks {n} systems, too few for a claim: {least}")
    if found.value is None or found.low is None or found.high is None or found.p is None:
        return OrderVerdict("open", f"cannot be compared by its order of {n} systems: its means or people's are equal")
    if why := _open_order(found.value, found.low, found.high, found.p, n, n_videos):
        return OrderVerdict("open", f"is not shown to rank the {n} systems as people do: {why}")
    if found.value > 0:
        return OrderVerdict("alike", f"ranks the {n} systems as people do")
    return OrderVerdict("against", f"ranks the {n} systems against people's order")


def _open_order(value: float, low: float, high: float, p: float, n: int, n_videos: int) -> str | None:
    """Why an order of systems bears no claim; None where it does."""
    if few := too_few(n_videos):
        return few
    if chance_of_order(value, n) > MOST_CHANCE:
        return "such an order may be chance"
    if low <= 0 <= high:
        return "it takes more rated videos"
    return "of so many comparisons, one like it may be chance" if p > MOST_CHANCE else None


def least_order(n: int) -> float | None:
    """Return the least tau of an order of n systems that is more than chance; None where none is.

    >>> least_order(4), least_order(5), round(least_order(6), 2)
    (None, 1.0, 0.87)
    """
    pairs = n * (n - 1) // 2
    taus = [1 - 2 * turned / pairs for turned in range(pairs // 2 + 1)] if pairs else []
    return min((tau for tau in taus if chance_of_order(tau, n) <= MOST_CHANCE), default=None)


def few_systems(n: int) -> str | None:
    """Return in a sentence how little the order of n systems, 2 or more, can show; None from MANY_SYSTEMS on.

    >>> few_systems(6)
    'Of 6 systems, τ-b below 0.87 may be chance; the very same order has p 0.0028.'
    """
    same = f"the very same order has p {chance_of_order(1.0, n):.2g}"
    if n < FEWEST_SYSTEMS:
        return f"{n} systems are too few to show whether a metric ranks them as people do: {same}."
    if n < MANY_SYSTEMS:
        return f"Of {n} systems, τ-b below {least_order(n):.2f} may be chance; {same}."
    return None


def chance_of_order(tau: float, n: int) -> float:
    """The chance that a random order of n systems is as close to a given one as |tau| says, or as far: two-sided.

    It is Kendall's exact test, which knows no ties; tau of tied systems is taken as if it came from an order.

    >>> round(chance_of_order(1.0, 4), 4), round(chance_of_order(1.0, 5), 4), chance_of_order(0.0, 5)
    (0.0833, 0.0167, 1.0)
    """
    # The orders of n things by the number of pairs that are turned round: Mahonian numbers.
    counts = [1]
    for size in range(2, n + 1):
        counts = [sum(counts[max(0, k - size + 1) : k + 1]) for k in range(len(counts) + size - 1)]
    pairs = n * (n - 1) // 2
    turned = (1 - abs(tau)) * pairs / 2
    as_far = sum(count for k, count in enumerate(counts) if k <= turned + 1e-9)
    return min(1.0, 2 * as_far / sum(counts))
