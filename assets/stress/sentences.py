"""A stress of a metric in words: sentences, the holes that it found first, and the rows of a report."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from datetime import timezone
from typing import Any

from assets.stress.stress import Stress
from assets.words.text import format_count, format_name, format_percent, format_short
from metrics_core.calibration.rated_search import FEWEST_VIDEOS
from metrics_core.stress.effects import Effect
from metrics_core.stress.rewrites import REWRITE_KINDS

_LABELS = {kind.name: kind.label for kind in REWRITE_KINDS}
_HOLES = ("gains_from_nothing", "does_not_lose")
_ORDER = (*_HOLES, "open", "fine")


def describe_stress(stress: Stress) -> dict[str, Any]:
    """Return a stress as plain data for JSON, with its sentences and those of every effect."""
    plain = asdict(stress)
    del plain["scorer_id"], plain["stressed_at"]
    for effect, row in zip(stress.effects, plain["effects"], strict=True):
        row |= {"label": _find_label(effect), "sentence": explain_effect(effect, stress.metric)}
    return {**plain, "sentences": explain_stress(stress, stress.metric)}


def describe_holes(stress: Stress, label: str, dataset: str) -> dict[str, Any]:
    """Return a stress as a row of a report: the metric, a sentence on the whole (`summary`), the largest hole with the
    remedy (`warning`, None without a hole), a sentence on every hole, the largest gain first, and the stress itself.
    label: of the metric, as sentences show it.
    """
    holes, warning = _list_holes(stress), None
    day = f"{stress.stressed_at.astimezone(timezone.utc):%Y-%m-%d}"
    if holes:
        others = f", and showed {format_count(len(holes) - 1, 'more hole')}" if holes[1:] else ""
        command = f"reelsieve stress {stress.metric} --dataset {shlex.quote(dataset)} --show 3"
        warning = (
            f"{_explain_hole(holes[0], label)}; {_format_stressed(stress)} were stressed on {day}{others}. "
            f"Look at such captions before you select by it: {command}."
        )
    return {
        "metric": stress.metric,
        "summary": f"{_summarise(stress, label)}, {day}.",
        "warning": warning,
        "holes": [f"{explain_effect(effect, label)}." for effect in holes],
        "stress": stress,
    }


def explain_stress(stress: Stress, name: str) -> list[str]:
    """Explain the outcome: a sentence on the whole, then one on every kind of rewrite, the metric's holes first. name:
    of the metric, as sentences show it.
    """
    return [_summarise(stress, name), *(explain_effect(effect, name) for effect in _sort_effects(stress))]


def _summarise(stress: Stress, name: str) -> str:
    """How many kinds of rewrites find a hole, in a sentence without a full stop."""
    adding, harming = (
        [effect.conclusion for effect in stress.effects if effect.keeps_truth is keeps and effect.n]
        for keeps in (True, False)
    )
    of = _format_stressed(stress)
    if not _list_holes(stress):
        decided = (adding + harming).count("fine")
        n_open = len(adding + harming) - decided
        if not decided:
            return f"{name} shows no hole, but all kinds of rewrites are open: {of}"
        left = f", and {n_open} {'is' if n_open == 1 else 'are'} open" if n_open else ""
        return f"{name} shows no hole in {format_count(decided, 'kind')} of rewrites{left}: {of}"
    return (
        f"{name} gains from {adding.count('gains_from_nothing')} of {len(adding)} kinds of rewrites that add no truth, "
        f"and does not lose by {harming.count('does_not_lose')} of {len(harming)} that take some away: {of}"
    )


def _format_stressed(stress: Stress) -> str:
    return f"{format_count(stress.n_captions, 'caption')} of {format_count(stress.n_videos, 'video')}"


def _list_holes(stress: Stress) -> list[Effect]:
    """The effects that are holes of the metric: it gains from a rewrite without truth, or does not lose by harm. Gains
    come first, and of these the largest.
    """
    return [effect for effect in _sort_effects(stress) if effect.conclusion in _HOLES]


def explain_effect(effect: Effect, name: str) -> str:
    """Explain what one kind of rewrite does to a metric's values, in a sentence without a full stop. name: of the
    metric, as the sentence shows it.
    """
    if not effect.n:
        return f"{_find_label(effect)}: {_explain_nothing_scored(effect)}"
    change, label = format_change(effect), _find_label(effect)
    if effect.conclusion == "open":
        verb = "gains from" if effect.keeps_truth else "loses by"
        few = f"; {format_count(effect.n_videos, 'video')}, and {FEWEST_VIDEOS} are needed"
        return f"whether {name} {verb} {label} is open: {change}{few if effect.n_videos < FEWEST_VIDEOS else ''}"
    if effect.conclusion == "fine":
        ends = "does not gain from {}" if effect.keeps_truth else "loses by {} as it should"
        return f"{name} {ends.format(label)}: {change}"
    sentence = _explain_hole(effect, name)
    if effect.conclusion == "does_not_lose":
        return sentence
    return f"{sentence} of its value; {_format_tenths(effect.rise_share)} captions rise{_explain_look_alikes(effect)}"


def _explain_hole(effect: Effect, name: str) -> str:
    """The rewrite that raises the metric, or the harm that it overlooks, and the change."""
    can = "can be raised by" if effect.conclusion == "gains_from_nothing" else _choose_verb(effect)
    return f"{name} {can} {_find_label(effect)}: {format_change(effect)}"


def _find_label(effect: Effect) -> str:
    """The noun phrase for a kind of rewrite; its name as words where another version of the rules stored it."""
    return _LABELS.get(effect.rewrite, format_name(effect.rewrite))


def format_change(effect: Effect) -> str:
    """Return the change of the value with its sign and, if it has one, its interval, such as `+.190 (.151 to .230)`. A
    dash for none.
    """
    value, low, high = effect.change, effect.low, effect.high
    shown = format_short(value)
    sign = "+" if value is not None and value > 0 and shown.strip("0.") else ""
    interval = "" if low is None or high is None else f" ({format_short(low)} to {format_short(high)})"
    return f"{sign}{shown}{interval}"


def _sort_effects(stress: Stress) -> list[Effect]:
    """Holes come first and kinds that fit no caption last; of the same conclusion, the largest change comes first."""
    return sorted(
        stress.effects, key=lambda effect: (not effect.n, _ORDER.index(effect.conclusion), -(effect.change or 0.0))
    )


def _choose_verb(effect: Effect) -> str:
    """The verb for a metric that does not lose by a harm as it should."""
    if effect.low is not None and effect.low > 0:
        return "even gains from"
    return "hardly loses by" if effect.high is not None and effect.high < 0 else "does not notice"


def _explain_nothing_scored(effect: Effect) -> str:
    if not effect.unscored:
        return "no drawn caption has anything that this rewrite changes"
    statuses = sorted(effect.unscored.items(), key=lambda item: (-item[1], item[0]))
    return f"no rewrite has a value ({', '.join(f'{format_name(status)} {n:,}' for status, n in statuses)})"


def _explain_look_alikes(effect: Effect) -> str:
    if effect.best_look_alike is None:
        return ""
    best, of_all = format_percent(effect.best_look_alike), format_percent(effect.all_look_alike)
    return f"; {best} of the best eighth look so already, {of_all} of all"


def _format_tenths(share: float | None) -> str:
    return f"{round(10 * (share or 0.0))} of 10"
