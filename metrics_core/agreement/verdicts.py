"""Plain sentences on agreement: can a metric be trusted here? The rules are in `verdict` and `system_verdict`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from metrics_core.agreement.same_items import Coefficient, SameItems

Level = Literal["undefined", "open", "nothing", "against", "below baseline", "baseline", "above baseline", "ceiling"]
"""How far a metric can be trusted; see `verdict`."""

FEWEST_SYSTEMS = 5
"""Of 4 systems even the very same order has p = 2/24 by Kendall's test, of 5 systems 2/120."""
MOST_CHANCE = 0.05
"""An order of systems that is likelier by chance is no claim."""
WIDEST = 0.5
"""A wider interval does not tell a weak metric from one that is as good as a rater."""
BETTER = " better than one more rater"
ALIKE = " about as well as one more rater"
LESS = " less well than one more rater"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A sentence about one metric and one aspect."""

    level: Level
    sentence: str


def verdict(metric: str, aspect: str, same: SameItems, things: str = "captions") -> Verdict:
    """Say how well a metric orders things by an aspect, beside one more rater and the strongest baseline.

    The rules, in this order:

    - No coefficient: undefined. No interval, as of one video: open.
    - The interval holds 0: the metric says nothing. It lies below 0: the metric goes against people.
    - The interval is wider than `WIDEST`: open.
    - The difference from the strongest baseline lies below 0: below the baseline. It holds 0: like the baseline.
    - Otherwise: above the baseline; at the ceiling where the rater's value lies inside or below the metric's interval.

    >>> found, rater = Coefficient("ECS", 0.6, 0.55, 0.65, 90), Coefficient("one rater", 0.62, 0.6, 0.64, 90)
    >>> words, more = Coefficient("words in common", 0.5, 0.45, 0.56, 90), Coefficient("words", 0.1, 0.04, 0.15, 90)
    >>> verdict("ECS", "coverage", SameItems(found, rater, words, more)).sentence
    'ECS orders captions by coverage about as well as one more rater, and clearly better than words in common.'
    """
    return Verdict(*_judged(metric, aspect, same, things))


def _judged(metric: str, aspect: str, same: SameItems, things: str) -> tuple[Level, str]:
    found, does = same.found, f"{metric} orders {things} by {aspect}"
    if found.value is None:
        if not found.n:
            return "undefined", f"{metric} cannot be compared by {aspect}: none of the rated {things} has a score."
        return "undefined", f"{metric} cannot be compared by {aspect}: its values or the ratings are all equal."
    if found.low is None or found.high is None:
        return "open", f"Whether {does} is open: it takes the ratings of several videos."
    if found.low <= 0 <= found.high:
        return "nothing", f"{metric} says nothing about {aspect}."
    if found.high < 0:
        return "against", f"{metric} goes against {aspect}: better {things} score lower."
    if found.high - found.low > WIDEST:
        return "open", f"{does}, but how well is open: it takes more rated videos."
    beside = _beside_rater(found, same.ceiling)
    above: Level = "ceiling" if beside in (BETTER, ALIKE) else "above baseline"
    return _beside_baseline(does, beside, above, same)


def _beside_baseline(does: str, beside: str, above: Level, same: SameItems) -> tuple[Level, str]:
    """Finish the sentence with the strongest baseline, where there is one."""
    more = same.difference
    if same.strongest is None or more is None or more.low is None or more.high is None:
        return above, f"{does}{beside}."
    baseline = same.strongest.name
    if more.high < 0:
        return "below baseline", f"{does}, but worse than {baseline} alone."
    if more.low <= 0:
        return "baseline", f"{does}{beside}, but not clearly better than {baseline} alone."
    return above, f"{does}{beside}{', and' if beside else ''} clearly better than {baseline}."


def _beside_rater(found: Coefficient, ceiling: Coefficient | None) -> str:
    """How the metric's interval lies to the value of one more rater; "" without one."""
    if ceiling is None or ceiling.value is None or found.low is None or found.high is None:
        return ""
    if found.low > ceiling.value:
        return BETTER
    return ALIKE if found.high >= ceiling.value else LESS


def system_verdict(metric: str, aspect: str, found: Coefficient) -> str:
    """Say whether a metric orders systems as people do; `found.n` counts systems. Of few systems nothing is claimed.

    A claim needs an interval over videos above 0, and an order that is more than chance for so many systems.

    >>> system_verdict("ECS", "coverage", Coefficient("ECS", 1.0, 1.0, 1.0, 4))
    '4 systems are too few for a claim about their order by coverage: it takes 5.'
    """
    name, n = metric, found.n
    if n < 2:
        return f"There is no order of systems by {aspect}: it takes several systems with scores and ratings."
    if n < FEWEST_SYSTEMS:
        return f"{n} systems are too few for a claim about their order by {aspect}: it takes {FEWEST_SYSTEMS}."
    if found.value is None or found.low is None or found.high is None:
        return f"{name} gives the {n} systems no order by {aspect} that could be compared."
    if found.low <= 0 <= found.high or chance_of_order(found.value, n) > MOST_CHANCE:
        return f"Whether {name} orders the {n} systems by {aspect} is open: it may be chance."
    return f"{name} orders the {n} systems {'by' if found.value > 0 else 'against'} {aspect}."


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
