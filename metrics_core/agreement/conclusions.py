"""Conclusions in plain words: whether a metric orders captions as people do (`explain_agreement`), and systems
(`explain_system_order`).

The p-values of a page's claims are corrected together in two families, see `correct_comparisons`. Below FEWEST_VIDEOS
videos nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from metrics_core.agreement.baseline_comparison import BaselineComparison, Coefficient
from metrics_core.agreement.coefficients import FEWEST_SYSTEMS, kendall_p_value
from metrics_core.arithmetic import correct_defined_p_values
from metrics_core.calibration.rated_search import FEWEST_VIDEOS

TrustLevel = Literal[
    "undefined", "open", "nothing", "against", "below baseline", "baseline", "above baseline", "ceiling"
]
"""How far a metric can be trusted; see `explain_agreement`."""
CLAIMS: tuple[TrustLevel, ...] = ("against", "below baseline", "baseline", "above baseline", "ceiling")
"""The levels at which a metric is shown to order as people do, or against them."""

BETTER_THAN_SIMPLE: tuple[TrustLevel, ...] = ("above baseline", "ceiling")
"""The levels of metrics that order captions better than any simple score."""

SystemOrder = Literal["alike", "against", "open"]
"""Whether a metric ranks systems as people do (alike), the other way round (against), or it is not known (open); see
`explain_system_order`.
"""
MANY_SYSTEMS = 8
"""With fewer systems only nearly the same order is more than chance, so a page shows where that begins."""
MAX_P_VALUE = 0.05
"""The greatest p-value of a claim."""
WIDEST_INTERVAL = 0.5
"""The greatest width of an interval that can separate a weak metric from one that is as good as a rater."""
NEAR_RATER = 0.1
"""A metric orders about as well as a rater where the interval of the difference of their tau-b holds 0 and lies above
minus this number.
"""
BETTER = " better than one more rater"
ALIKE = " about as well as one more rater"
LESS = " less well than one more rater"

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The conclusion on one metric and one aspect. level: a name such as "above baseline", see `explain_agreement`.
    sentence: the conclusion for people; short: a short form of it without the names of metric and aspect.
    """

    level: TrustLevel
    sentence: str
    short: str


def correct_comparisons(
    comparisons: Mapping[K, BaselineComparison], others: Sequence[float | None] = ()
) -> tuple[dict[K, BaselineComparison], list[float | None]]:
    """Correct the p-values of the claims of one page by Holm, in two families. The first has the p-values of the
    metrics' coefficients with people and `others`, the p-values of further claims. The second has those of the
    differences from the strongest baseline. Return the comparisons by their keys with corrected p-values, and the
    corrected `others` in their order; None stays None and does not count.

    Within a family the chance of any false claim is at most MAX_P_VALUE. For a whole page it can be higher, since there
    are two families, and claims about one more rater are not corrected. A claim about a baseline is only made where the
    metric is shown to order as people do.
    """
    order_p_values = [comparison.coefficient.p for comparison in comparisons.values()]
    corrected = correct_defined_p_values([*order_p_values, *others])
    baseline_p_values = correct_defined_p_values(
        [comparison.above_baseline.p if comparison.above_baseline else None for comparison in comparisons.values()]
    )
    corrected_comparisons = {
        key: replace(
            comparison,
            coefficient=replace(comparison.coefficient, p=p),
            above_baseline=replace(comparison.above_baseline, p=baseline_p) if comparison.above_baseline else None,
        )
        for (key, comparison), p, baseline_p in zip(comparisons.items(), corrected, baseline_p_values, strict=False)
    }
    return corrected_comparisons, corrected[len(comparisons) :]


def explain_agreement(metric: str, aspect: str, comparison: BaselineComparison) -> Conclusion:
    """Conclude how well a metric orders captions by an aspect, compared with one more rater and with the strongest
    simple score. Return a level such as "above baseline", a sentence and its short form. `metric` and `aspect`
    are words of the sentence; p-values should be corrected by `correct_comparisons`.

    The rules, in this order:

    - No coefficient: undefined. Fewer than FEWEST_VIDEOS videos, or no interval: open.
    - The interval holds 0: the metric orders no better than chance, or, where the interval is wider than
      WIDEST_INTERVAL, open.
    - The corrected p-value of the coefficient is above MAX_P_VALUE, or undefined: open.
    - The interval lies below 0: the metric goes against people. It is wider than WIDEST_INTERVAL: open how well.
    - The difference from the strongest baseline is more than chance and below 0: below the baseline. It may be chance:
      like the baseline.
    - Otherwise, and without a baseline: at the ceiling where the interval of the difference from one more rater lies
      above 0, or holds 0 and lies above -NEAR_RATER; else above the baseline.

    >>> ecs, words = Coefficient("ECS", 0.6, 0.55, 0.65, 90, 0.001), Coefficient("words", 0.5, 0.45, 0.56, 90)
    >>> rater, more = Coefficient("rater", -0.02, -0.06, 0.02, 90), Coefficient("words", 0.1, 0.04, 0.15, 90, 0.002)
    >>> explain_agreement("ECS", "coverage", BaselineComparison(ecs, None, words, more, rater, 30)).sentence
    'ECS orders captions by coverage about as well as one more rater, and clearly better than words.'
    """
    coefficient, does = comparison.coefficient, f"{metric} orders captions by {aspect}"
    if coefficient.value is None:
        why = "its values or the ratings are all equal" if coefficient.n else "none of the rated captions has a score"
        return Conclusion("undefined", f"{metric} cannot be compared by {aspect}: {why}.", f"cannot be compared: {why}")
    if few := explain_too_few_videos(comparison.n_videos):
        return Conclusion("open", f"Whether {does} is open: {few}.", f"open: {few}")
    wide = coefficient.low is None or coefficient.high is None or coefficient.high - coefficient.low > WIDEST_INTERVAL
    more = Conclusion("open", f"Whether {does} is open: rate more videos.", "open: more videos needed")
    if coefficient.low is None or coefficient.high is None:
        return more
    if coefficient.low <= 0 <= coefficient.high:
        nothing = f"{metric} orders captions by {aspect} no better than chance."
        return more if wide else Conclusion("nothing", nothing, "no better than chance")
    if coefficient.p is None or coefficient.p > MAX_P_VALUE:
        why = "open: may be chance"
        return Conclusion(
            "open", f"Whether {does} is open: with so many comparisons, such a result may be chance.", why
        )
    if coefficient.high < 0:
        return Conclusion("against", f"{metric} goes against {aspect}: better captions score lower.", "against people")
    if wide:
        how = f"{does}, but how well is open: rate more videos."
        return Conclusion("open", how, "open: how well")
    return _conclude_with_baseline(does, comparison)


def explain_too_few_videos(n_videos: int) -> str | None:
    """Explain why n_videos videos allow no claim, such as `3 videos, 10 needed`. None from FEWEST_VIDEOS (10) videos
    on.
    """
    videos = f"{n_videos} video{'' if n_videos == 1 else 's'}"
    return f"{videos}, {FEWEST_VIDEOS} needed" if n_videos < FEWEST_VIDEOS else None


def _conclude_with_baseline(does: str, comparison: BaselineComparison) -> Conclusion:
    """Conclude from the comparisons with one more rater and with the strongest baseline, where there are any."""
    more, rater_words = comparison.above_baseline, _format_rater_comparison(comparison.above_rater)
    above: TrustLevel = "ceiling" if rater_words in (BETTER, ALIKE) else "above baseline"
    like_rater = "like one more rater" if above == "ceiling" else None
    if comparison.strongest_baseline is None or more is None or more.value is None:
        return Conclusion(above, f"{does}{rater_words}.", like_rater or "orders as people do")
    baseline = comparison.strongest_baseline.name
    if more.p is None or more.p > MAX_P_VALUE:
        words = f"not clearly better than {baseline}, a simple score"
        return Conclusion("baseline", f"{does}{rater_words}, but {words}.", "like a simple score")
    if more.value < 0:
        worse = f"{does} better than chance, but worse than {baseline}, a simple score."
        return Conclusion("below baseline", worse, "worse than a simple score")
    sentence = f"{does}{rater_words}{', and' if rater_words else ''} clearly better than {baseline}."
    return Conclusion(above, sentence, like_rater or "better than simple scores")


def _format_rater_comparison(above: Coefficient | None) -> str:
    """Format how a metric compares with one more rater; "" without one, and where the interval leaves it open."""
    if above is None or above.low is None or above.high is None:
        return ""
    if above.low > 0:
        return BETTER
    if above.high < 0:
        return LESS
    return ALIKE if above.low > -NEAR_RATER else ""


@dataclass(frozen=True, slots=True)
class OrderConclusion:
    """The conclusion whether a metric ranks systems as people do. order: "alike" as people do, "against" the other way
    round, or "open". words: the conclusion without its subject, to follow the metric's name.
    """

    order: SystemOrder
    words: str


def explain_system_order(coefficient: Coefficient, n_videos: int) -> OrderConclusion:
    """Conclude whether a metric ranks systems as people do: "alike", "against" or "open", with words that follow the
    metric's name. coefficient: tau-b of the systems' mean scores with their mean ratings; its n counts systems, and its
    p comes from `kendall_p_value`, corrected by `correct_comparisons`. n_videos: the videos behind the means.

    How well the metric orders captions does not matter here. A claim needs FEWEST_SYSTEMS systems, FEWEST_VIDEOS
    videos, an interval that does not hold 0, and an order that is more than chance.

    >>> explain_system_order(Coefficient("ECS", 1.0, 0.9, 1.0, 6, 0.003), 30).words
    'ranks the 6 systems as people do'
    >>> explain_system_order(Coefficient("ECS", 1.0, 1.0, 1.0, 4), 30).words
    "ranks 4 systems, too few for a claim: even people's own order has p 0.083"
    """
    n = coefficient.n
    if n < 2:
        return OrderConclusion("open", f"ranks no systems: {'only one has' if n else 'none has'} scores and ratings")
    if n < FEWEST_SYSTEMS:
        least = f"even people's own order has p {kendall_p_value(1.0, n):.2g}"
        return OrderConclusion("open", f"ranks {n} systems, too few for a claim: {least}")
    if coefficient.value is None or coefficient.low is None or coefficient.high is None or coefficient.p is None:
        return OrderConclusion(
            "open", f"cannot be compared by its order of {n} systems: its means or people's are equal"
        )
    if why := _explain_open_order(coefficient.value, coefficient.low, coefficient.high, coefficient.p, n, n_videos):
        return OrderConclusion("open", f"is not shown to rank the {n} systems as people do: {why}")
    if coefficient.value > 0:
        return OrderConclusion("alike", f"ranks the {n} systems as people do")
    return OrderConclusion("against", f"ranks the {n} systems against people's order")


def _explain_open_order(value: float, low: float, high: float, p: float, n: int, n_videos: int) -> str | None:
    """Explain why an order of systems allows no claim; None where it does."""
    if few := explain_too_few_videos(n_videos):
        return few
    if kendall_p_value(value, n) > MAX_P_VALUE:
        return "such an order may be chance"
    if low <= 0 <= high:
        return "rate more videos"
    return "with so many comparisons, such a result may be chance" if p > MAX_P_VALUE else None


def find_least_tau(n: int) -> float | None:
    """Find the least tau of an order of n systems that is more than chance, which means p of at most MAX_P_VALUE by
    `kendall_p_value`. None where even the very same order may be chance.

    >>> find_least_tau(4), find_least_tau(5), round(find_least_tau(6), 2)
    (None, 1.0, 0.87)
    """
    pairs = n * (n - 1) // 2
    taus = [1 - 2 * turned / pairs for turned in range(pairs // 2 + 1)] if pairs else []
    return min((tau for tau in taus if kendall_p_value(tau, n) <= MAX_P_VALUE), default=None)


def explain_few_systems(n: int) -> str | None:
    """Explain in a sentence how little the order of n systems can show, for n of 2 or more. None from MANY_SYSTEMS (8)
    systems on.

    >>> explain_few_systems(6)
    "With 6 systems, a τ-b below 0.87 may be chance; people's own order has p 0.0028."
    """
    same = f"people's own order has p {kendall_p_value(1.0, n):.2g}"
    if n < FEWEST_SYSTEMS:
        return f"{n} systems are too few to show whether a metric ranks them as people do: {same}."
    if n < MANY_SYSTEMS:
        return f"With {n} systems, a τ-b below {find_least_tau(n):.2f} may be chance; {same}."
    return None
