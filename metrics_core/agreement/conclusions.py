"""Conclusions in plain words: whether a metric orders captions as people do (`explain_agreement`), and systems
(`explain_system_order`).

The p-values of a page's claims are corrected together in two families, see `correct_p_values_of_claims`. Below
FEWEST_VIDEOS videos nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from metrics_core.agreement.coefficients import FEWEST_SYSTEMS, KENDALL, kendall_p_value
from metrics_core.agreement.row import DIFFERENCE, ONE_RATER, PEOPLE, SIMPLE, AgreementRow
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
"""Whether a metric ranks systems as people do ("alike"), the other way round ("against"), or it is not known ("open");
see `explain_system_order`.
"""
MANY_SYSTEMS = 8
"""With fewer systems only nearly the same order is more than chance, so a page shows where that begins."""
MAX_P_VALUE = 0.05
"""The highest p-value of a claim."""
WIDEST_INTERVAL = 0.5
"""The largest width of an interval that can separate a weak metric from one that is as good as a rater."""
NEAR_RATER = 0.1
"""A metric orders about as well as a rater where the interval of the difference of their tau-b holds 0 and lies above
minus this number.
"""
BETTER = " better than one more rater"
ALIKE = " about as well as one more rater"
LESS = " less well than one more rater"


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The conclusion on one metric and one aspect. level: a name such as "above baseline", see `explain_agreement`; for
    an order of systems see `explain_system_order`. sentence: the conclusion for people. short: a form of it without the
    names of metric and aspect.
    """

    level: TrustLevel | SystemOrder
    sentence: str
    short: str


def correct_p_values_of_claims(
    rows: Sequence[AgreementRow], others: Sequence[float | None] = ()
) -> tuple[list[AgreementRow], list[float | None]]:
    """Return the rows of the agreement table and `others`, the p-values of a page's further claims, both in their order
    and corrected by Holm. One family has `others` and the metrics' tau-b with people over captions and systems, another
    the differences from the strongest simple score. None stays None and does not count.

    Within a family the chance of any false claim is at most MAX_P_VALUE. For a whole page it can be higher, since there
    are two families, and claims about one more rater are not corrected. A claim about a simple score is only made where
    the metric is shown to order as people do.
    """
    corrected = list(rows)

    def correct(chosen: Sequence[int], more: Sequence[float | None]) -> list[float | None]:
        p_values = correct_defined_p_values([*(rows[i].p for i in chosen), *more])
        for i, p in zip(chosen, p_values, strict=False):
            corrected[i] = replace(rows[i], p=p)
        return p_values[len(chosen) :]

    orders = [
        i
        for i, row in enumerate(rows)
        if (row.against, row.statistic) == (PEOPLE, KENDALL)
        and row.over in ("captions", "systems")
        and not row.baseline
        and row.metric != ONE_RATER
    ]
    correct([i for i, row in enumerate(rows) if row.statistic == DIFFERENCE and row.against != ONE_RATER], ())
    return corrected, correct(orders, others)


def explain_agreement(metric: str, aspect: str, rows: Mapping[tuple[str, str], AgreementRow]) -> Conclusion:
    """Conclude how well a metric orders captions by an aspect, compared with one more rater and with the strongest
    simple score. Return a level such as "above baseline", a sentence and its short form. `metric` and `aspect` are
    words of the sentence. rows: the metric's by `index_comparisons`, with the row of tau-b against people; p-values
    should be corrected by `correct_p_values_of_claims`.

    The rules, in this order:

    - No coefficient: undefined. Fewer than FEWEST_VIDEOS videos, or no interval: open.
    - The interval holds 0: the metric orders no better than chance, or, where the interval is wider than
      WIDEST_INTERVAL, open.
    - The corrected p-value of the coefficient is above MAX_P_VALUE, or undefined: open.
    - The interval lies below 0: the metric goes against people. It is wider than WIDEST_INTERVAL: open how well.
    - The difference from the strongest simple score is more than chance and below 0: below the baseline. It may be
      chance: like the baseline.
    - Otherwise, and without a simple score: at the ceiling where the interval of the difference from one more rater
      lies above 0, or holds 0 and lies above -NEAR_RATER; else above the baseline.

    >>> from metrics_core.agreement.row import index_comparisons
    >>> def row(against, statistic, value, low, high, p):
    ...     names = "ecs", "coverage", "captions", against, statistic
    ...     return AgreementRow(*names, value, low, high, p, 90, 30, 0, 0, False)
    >>> rows = [row("people", "kendall_b", 0.6, 0.55, 0.65, 0.001)]
    >>> rows += [row("words", "kendall_b_difference", 0.1, 0.04, 0.15, 0.002)]
    >>> rows += [row("one rater", "kendall_b_difference", -0.02, -0.06, 0.02, 0.3)]
    >>> explain_agreement("ECS", "coverage", index_comparisons(rows)).sentence
    'ECS orders captions by coverage about as well as one more rater, and clearly better than words.'
    """
    own, does = rows[PEOPLE, KENDALL], f"{metric} orders captions by {aspect}"
    if own.value is None:
        why = "its values or the ratings are all equal" if own.n else "none of the rated captions has a score"
        return Conclusion("undefined", f"{metric} cannot be compared by {aspect}: {why}.", f"cannot be compared: {why}")
    if few := explain_too_few_videos(own.n_videos):
        return Conclusion("open", f"Whether {does} is open: {few}.", f"open: {few}")
    wide = own.low is None or own.high is None or own.high - own.low > WIDEST_INTERVAL
    more = Conclusion("open", f"Whether {does} is open: rate more videos.", "open: more videos needed")
    if own.low is None or own.high is None:
        return more
    if own.low <= 0 <= own.high:
        nothing = f"{metric} orders captions by {aspect} no better than chance."
        return more if wide else Conclusion("nothing", nothing, "no better than chance")
    if own.p is None or own.p > MAX_P_VALUE:
        why = "open: may be chance"
        return Conclusion(
            "open", f"Whether {does} is open: with so many comparisons, such a result may be chance.", why
        )
    if own.high < 0:
        return Conclusion("against", f"{metric} goes against {aspect}: better captions score lower.", "against people")
    if wide:
        how = f"{does}, but how well is open: rate more videos."
        return Conclusion("open", how, "open: how well")
    return _conclude_with_rivals(does, rows.get((SIMPLE, DIFFERENCE)), rows.get((ONE_RATER, DIFFERENCE)))


def explain_too_few_videos(n_videos: int) -> str | None:
    """Explain why n_videos videos allow no claim, such as `3 videos, 10 needed`. None from FEWEST_VIDEOS (10) videos
    on.
    """
    videos = f"{n_videos} video{'' if n_videos == 1 else 's'}"
    return f"{videos}, {FEWEST_VIDEOS} needed" if n_videos < FEWEST_VIDEOS else None


def _conclude_with_rivals(does: str, more: AgreementRow | None, above_rater: AgreementRow | None) -> Conclusion:
    """Conclude from the differences from the strongest simple score (`more`) and from one more rater, where there are
    any.
    """
    rater_words = _format_rater_comparison(above_rater)
    above: TrustLevel = "ceiling" if rater_words in (BETTER, ALIKE) else "above baseline"
    like_rater = "like one more rater" if above == "ceiling" else None
    if more is None or more.value is None:
        return Conclusion(above, f"{does}{rater_words}.", like_rater or "orders as people do")
    if more.p is None or more.p > MAX_P_VALUE:
        words = f"not clearly better than {more.against}, a simple score"
        return Conclusion("baseline", f"{does}{rater_words}, but {words}.", "like a simple score")
    if more.value < 0:
        worse = f"{does} better than chance, but worse than {more.against}, a simple score."
        return Conclusion("below baseline", worse, "worse than a simple score")
    sentence = f"{does}{rater_words}{', and' if rater_words else ''} clearly better than {more.against}."
    return Conclusion(above, sentence, like_rater or "better than simple scores")


def _format_rater_comparison(above: AgreementRow | None) -> str:
    """Format how a metric compares with one more rater; "" without one, and where the interval leaves it open."""
    if above is None or above.low is None or above.high is None:
        return ""
    if above.low > 0:
        return BETTER
    if above.high < 0:
        return LESS
    return ALIKE if above.low > -NEAR_RATER else ""


def explain_system_order(row: AgreementRow) -> Conclusion:
    """Conclude whether a metric ranks systems as people do: "alike", "against" or "open", with words that follow the
    metric's name (`short`). row: tau-b over systems, whose n counts them, with its p-value corrected by
    `correct_p_values_of_claims`.

    How well the metric orders captions does not matter here. A claim needs FEWEST_SYSTEMS systems, FEWEST_VIDEOS
    videos, an interval that does not hold 0, and an order that is more than chance.

    >>> def row(n, p):
    ...     names = "ecs", "coverage", "systems", "people", "kendall_b"
    ...     return AgreementRow(*names, 1.0, 0.9, 1.0, p, n, 30, 0, 0, False)
    >>> explain_system_order(row(6, 0.003)).short
    'ranks the 6 systems as people do'
    >>> explain_system_order(row(4, None)).short
    "ranks 4 systems, too few for a claim: even people's own order has p 0.083"
    """
    level, words = _judge_system_order(row)
    return Conclusion(level, f"{row.metric} {words}.", words)


def _judge_system_order(row: AgreementRow) -> tuple[SystemOrder, str]:
    """Return the level of an order of systems, and the words for it."""
    n = row.n
    if n < 2:
        return "open", f"ranks no systems: {'only one has' if n else 'none has'} scores and ratings"
    if n < FEWEST_SYSTEMS:
        least = f"even people's own order has p {kendall_p_value(1.0, n):.2g}"
        return "open", f"ranks {n} systems, too few for a claim: {least}"
    if row.value is None or row.low is None or row.high is None or row.p is None:
        return "open", f"cannot be compared by its order of {n} systems: its means or people's are equal"
    if why := _explain_open_order(row.value, row.low, row.high, row.p, n, row.n_videos):
        return "open", f"is not shown to rank the {n} systems as people do: {why}"
    if row.value > 0:
        return "alike", f"ranks the {n} systems as people do"
    return "against", f"ranks the {n} systems against people's order"


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
    """Find the lowest tau of an order of n systems that is more than chance, which means p of at most MAX_P_VALUE by
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
