"""Plain words on agreement: can a metric be trusted here? The rules are in `verdict` and `system_verdict`.

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

FEWEST_SYSTEMS = 5
"""Of 4 systems even the very same order has p = 2/24 by Kendall's test, of 5 systems 2/120."""
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
    found: Mapping[K, SameItems], leads: Sequence[float | None] = ()
) -> tuple[dict[K, SameItems], list[float | None]]:
    """Correct the chances of all claims on one page by Holm, so that any false one is likely at most MOST_CHANCE.

    leads: the chances of the other claims of the page. That a metric orders as people do, and `leads`, are one family,
    that it is above or below a baseline another one, which only counts after the first.
    """
    own = holm_defined([*(each.found.p for each in found.values()), *leads])
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
        words = f"not clearly better than {baseline} alone"
        return Verdict("baseline", f"{does}{beside}, but {words}.", "no clear gain")
    if more.value < 0:
        return Verdict("below baseline", f"{does}, but worse than {baseline} alone.", "worse than a simple score")
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


def system_verdict(found: Coefficient, n_videos: int, *, knows: bool) -> str:
    """Say whether a metric orders systems as people do, as what stands behind its name; `found.n` counts systems.

    Of few systems and of few videos nothing is claimed. A claim needs a metric that knows people's order of captions
    (`knows`), an interval that does not hold 0, and an order that is more than chance for so many systems.

    >>> system_verdict(Coefficient("ECS", 1.0, 1.0, 1.0, 4), 30, knows=True)
    '4 systems are too few for a claim about their order: it takes 5'
    """
    n = found.n
    if n < 2:
        return f"there is no order of systems, since {'one' if n else 'none'} has scores and ratings"
    if n < FEWEST_SYSTEMS:
        return f"{n} systems are too few for a claim about their order: it takes {FEWEST_SYSTEMS}"
    if few := too_few(n_videos):
        return f"the order of {n} systems is open: {few}"
    if found.value is None or found.low is None or found.high is None:
        return f"{n} systems have no order that could be compared"
    if not knows or found.low <= 0 <= found.high or chance_of_order(found.value, n) > MOST_CHANCE:
        return f"whether {n} systems stand in people's order is open: it may be chance"
    return f"{n} systems stand {'in' if found.value > 0 else 'against'} people's order"


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
