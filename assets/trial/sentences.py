"""The conclusions of a trial as sentences: the result first, then the terms under which it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from assets.trial.arms import ALL, COPY, NOISE_SHARE, NOISY
from assets.trial.parts import BEST_RATED
from assets.words.text import format_count, format_percent, join_names
from db.selection.trials import ArmResult, Trial

MEASURE_NAMES = {"mrr": "mean reciprocal rank"}
_SIDES = {"frames": "the frames of a video", "references": "the references of a video, not its frames"}
_SHORT = {"mrr": "MRR", "recall_at_1": "R@1", "recall_at_5": "R@5"}
_CONTROLS = (NOISY, COPY)


def explain_trial(trial: Trial) -> list[str]:
    """Return the sentences of a trial: one for every arm and one on the curve, then the smallest difference that it can
    see, and the terms under which they hold.

    Where the selection differs from itself in another order, nothing else is concluded. Where planted noise was not
    found, a sentence warns that an undecided arm proves little.
    """
    first, *others = trial.arms
    if first.status != "ok":
        return [f"Nothing is compared, because {first.arm} has no value: {first.reason}."]
    by_name = {arm.arm: arm for arm in others}
    copy, noise = by_name[COPY], by_name[NOISY]
    if _is_void(trial):
        return [
            f"Open: {first.arm} and the same rows in another order differ by {_format_size(copy)}, so that this trial "
            "proves nothing."
        ]
    limits = (
        [] if trial.detectable is None else [f"Differences below {trial.detectable:.3f} would probably not be seen."]
    )
    lines = [_explain_arm(first, arm) for arm in others if arm.share is None and arm.arm not in _CONTROLS]
    lines += [
        f"The control {arm.arm} has no value, so that this trial is not checked by it: {arm.reason}."
        for arm in (noise, copy)
        if arm.value is None
    ]
    if noise.value is not None and noise.conclusion != "better":
        lines.append(
            f"This trial does not find that {format_percent(NOISE_SHARE)} of the captions of {first.arm} were swapped"
            f"{_format_needed(noise)}: it may miss such differences between other arms, too."
        )
    if described := _describe_curve(trial):
        lines.append(f"Of the shares tried, {described}.")
    return [line[0].upper() + line[1:] for line in (*lines, *limits, *_explain_terms(trial))]


def _is_void(trial: Trial) -> bool:
    """Whether the selection differs from itself in another order, so that nothing can be concluded from a trial."""
    return any(arm.arm == COPY and arm.conclusion in ("better", "worse") for arm in trial.arms)


def _find_best_arm(trial: Trial) -> ArmResult | None:
    """The arm of the curve that trained best, with which the others are compared."""
    return next((arm for arm in trial.curve if arm.difference is None), None)


def _describe_curve(trial: Trial) -> str | None:
    """The share of the samples that trained best, and which others it is better than; None without two shares that have
    a value, and for a trial from which nothing can be concluded.
    """
    best = _find_best_arm(trial)
    if best is None or len(trial.curve) < 2 or _is_void(trial):
        return None
    parts = []
    for conclusion, words in (
        ("better", "better than"),
        ("no difference", "no different from"),
        ("open", "open against"),
    ):
        if shares := [f"{arm.share:g}" for arm in trial.curve if arm.conclusion == conclusion]:
            parts.append(f"{words} {join_names(shares)}")
    if not parts:
        return None
    return f"{best.share:g} trained best, at {best.value:.3f}: {', '.join(parts)}"


def advise_size(trials: Sequence[Trial]) -> tuple[float | None, str]:
    """Return (share of the captions that trained best, advice on the size of a selection), by the first of these trials
    with a curve; without one (None, how to make a curve).
    """
    for trial in trials:
        if (described := _describe_curve(trial)) and (best := _find_best_arm(trial)):
            return best.share, f"of the shares tried for selection {trial.selection_id}, {described}"
    return None, "reelsieve prove SELECTION --curve 0.25 --curve 0.5 tries which share trains best"


def _explain_arm(first: ArmResult, arm: ArmResult) -> str:
    name = first.arm
    if arm.rows_sha256 == first.rows_sha256:
        return f"{arm.arm} has the same rows as {name}."
    other = f"{arm.arm} ({format_count(arm.n, 'row')})"
    # More rows take more steps, so that a fixed number of steps would decide this comparison.
    steps = f", each at its own best step ({first.steps:,} and {arm.steps:,})" if arm.arm == ALL and arm.steps else ""
    if arm.difference is None or arm.low is None or arm.high is None:
        return f"{name} is not compared with {arm.arm}, which has no value: {arm.reason}."
    if arm.conclusion in ("better", "worse"):
        return f"{name} trains {arm.conclusion} than {other} by {_format_size(arm)}{steps}."
    if arm.conclusion == "no difference":
        return f"{name} and {other}: no difference above {max(abs(arm.low), abs(arm.high)):.3f}{steps}."
    is_certain = arm.low > 0 or arm.high < 0
    needed = _format_needed(arm) or ("; with so many arms it may be chance" if is_certain else "")
    return f"{name} or {other}: open, {_format_difference(arm)}{steps}{needed}."


def _explain_terms(trial: Trial) -> list[str]:
    chance = "" if trial.chance is None else f" (chance {trial.chance:.3f})"
    texts = [
        f"Measured: {MEASURE_NAMES.get(trial.measure, trial.measure)} of "
        f"{format_count(trial.n_test_videos, 'held-out video')}{chance}, {format_count(trial.n_seeds, 'seed')}, "
        "95 % intervals over seeds and videos."
    ]
    if trial.settings.get("clean_texts") == BEST_RATED:
        texts.append("Without references, the best rated caption of a held-out video is its clean text.")
    if trial.video_side != "media":
        side = _SIDES.get(trial.video_side, trial.video_side)
        texts.append(f"The student is a small head on frozen vectors of captions and of {side}; your model may differ.")
    else:
        texts.append(f"The students were trained by {trial.trainer}.")
    if first_steps := trial.arms[0].steps:
        others = format_count(trial.n_validation_videos, "other held-out video")
        texts.append(
            f"Every student stopped at its own best step on {others} ({trial.arms[0].arm}: {first_steps:,}), since a "
            "fixed number of steps would decide comparisons with all."
        )
    if unfinished := [arm.arm for arm in trial.arms if arm.steps and arm.steps == trial.settings.get("max_steps")]:
        texts.append(
            f"Best at the maximum of {trial.settings['max_steps']:,} steps: {join_names(unfinished)}; what is compared "
            "with such an arm stays open."
        )
    if trial.n_changed:
        changed = format_count(trial.n_changed, "caption")
        texts.append(f"{changed} of the selection changed or went since: the frozen text trains.")
    return texts


def _format_size(arm: ArmResult) -> str:
    """How large a difference is, whichever sign it has, with its interval."""
    size, *ends = (abs(end or 0.0) for end in (arm.difference, arm.low, arm.high))
    return f"{size:.3f} ({min(ends):.3f} to {max(ends):.3f})"


def _format_difference(arm: ArmResult) -> str | None:
    return None if arm.difference is None else f"{arm.difference:.3f} ({arm.low:.3f} to {arm.high:.3f})"


def _format_needed(arm: ArmResult) -> str:
    if not arm.n_more_videos:
        return ""
    return f"; about {format_count(arm.n_more_videos, 'more test video')} would decide it"


def list_arm_rows(trial: Trial) -> list[dict[str, object]]:
    """Return a table row for every arm of a trial: its number of rows, its measures, and how much the arm that it is
    compared with is above it.
    """
    names = list(dict.fromkeys(name for arm in trial.arms for name in arm.measures))
    return [
        {
            "arm": arm.arm,
            "rows": arm.n,
            **{_SHORT.get(name, name): arm.measures.get(name) for name in names},
            **({} if arm.steps is None else {"steps": arm.steps}),
            "compared with": arm.compared_with,
            "above this by": _format_difference(arm) or arm.reason,
            "seconds": arm.seconds,
        }
        for arm in trial.arms
    ]


def describe_trial(trial: Trial) -> dict[str, Any]:
    """Return a trial as plain data for JSON, with its sentences."""
    return {**asdict(trial), "sentences": explain_trial(trial)}
