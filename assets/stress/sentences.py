"""Sentences on a stress of a metric, the holes that it found first."""

from __future__ import annotations

from assets.reports.text import format_count, format_name, format_percent
from assets.stress.records import StressedKind, StressResult
from metrics_core.calibration.rated_search import FEWEST_VIDEOS
from metrics_core.intervals import Estimate

_ORDER = ("gains_from_nothing", "does_not_lose", "open", "fine")


def explain_stress(result: StressResult) -> list[str]:
    """Explain the outcome: a sentence on the whole, then one on every kind of rewrite, the metric's holes first."""
    kinds = sorted(result.kinds, key=lambda each: _ORDER.index(each.effect.conclusion))
    return [_summarise(result), *(explain_kind(result.metric, each) for each in kinds)]


def explain_kind(metric: str, stressed: StressedKind) -> str:
    """Explain what one kind of rewrite does to a metric's values, in a sentence without a full stop."""
    effect, label = stressed.effect, stressed.kind.label
    if not effect.n:
        return f"{label}: {_explain_nothing_scored(stressed)}"
    change = format_change(effect.change)
    if effect.conclusion == "gains_from_nothing":
        rising = f"{_format_tenths(effect.rise_share)} captions rise"
        return f"{metric} can be raised by {label}: {change} of its value; {rising}{_explain_look_alikes(stressed)}"
    if effect.conclusion == "does_not_lose":
        return f"{metric} {_choose_verb(effect.change)} {label}: {change}"
    if effect.conclusion == "open":
        verb = "gains from" if stressed.kind.keeps_truth else "loses by"
        few = f"; {format_count(effect.n_videos, 'video')}, and {FEWEST_VIDEOS} are needed"
        return f"whether {metric} {verb} {label} is open: {change}{few if effect.n_videos < FEWEST_VIDEOS else ''}"
    if stressed.kind.keeps_truth:
        return f"{metric} does not gain from {label}: {change}"
    return f"{metric} loses by {label} as it should: {change}"


def format_change(change: Estimate) -> str:
    """Format a change with its sign and its interval.

    >>> format_change(Estimate(0.19, 0.151, 0.23)), format_change(Estimate(-0.0004, None, None))
    ('+.190 (.151 to .230)', '.000')
    """
    if change.value is None:
        return "no value"
    sign = "+" if change.value > 0 and format_short(change.value).strip("0.") else ""
    shown = f"{sign}{format_short(change.value)}"
    if change.low is None or change.high is None:
        return shown
    return f"{shown} ({format_short(change.low)} to {format_short(change.high)})"


def format_short(value: float) -> str:
    """Format a number with three decimals and without a zero before them; from 10 on with one decimal.

    >>> format_short(-0.0312), format_short(-0.0001), format_short(12.345)
    ('-.031', '.000', '12.3')
    """
    shown = f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"
    bare = shown.lstrip("-")
    sign = "-" if shown.startswith("-") and bare.strip("0.") else ""
    return sign + (bare[1:] if bare.startswith("0.") else bare)


def _summarise(result: StressResult) -> str:
    adding = [each.effect.conclusion for each in result.kinds if each.kind.keeps_truth and each.effect.n]
    harming = [each.effect.conclusion for each in result.kinds if not each.kind.keeps_truth and each.effect.n]
    captions, videos = format_count(result.n_captions, "caption"), format_count(result.n_videos, "video")
    return (
        f"{result.metric} gains from {adding.count('gains_from_nothing')} of {len(adding)} kinds of rewrites that add "
        f"no truth, and does not lose by {harming.count('does_not_lose')} of {len(harming)} that take some away: "
        f"{captions} of {videos} of {result.dataset}"
    )


def _choose_verb(change: Estimate) -> str:
    """The verb for a metric that does not lose by a harm as it should."""
    if change.low is not None and change.low > 0:
        return "even gains from"
    return "hardly loses by" if change.high is not None and change.high < 0 else "does not notice"


def _explain_nothing_scored(stressed: StressedKind) -> str:
    if not stressed.unscored:
        return "no drawn caption has anything that this rewrite changes"
    counts = ", ".join(f"{format_name(status)} {n:,}" for status, n in stressed.unscored.items())
    return f"no rewrite has a value ({counts})"


def _explain_look_alikes(stressed: StressedKind) -> str:
    if (alike := stressed.look_alikes) is None:
        return ""
    return f"; {format_percent(alike.best)} of the best eighth look so already, {format_percent(alike.all)} of all"


def _format_tenths(share: float | None) -> str:
    return f"{round(10 * (share or 0.0))} of 10"
