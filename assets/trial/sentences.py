"""The conclusions of a trial as sentences: the result first, then the terms under which it holds."""

from __future__ import annotations

from collections.abc import Sequence

from assets.reports.text import format_count, format_percent
from assets.trial.arms import COPY, NOISE_SHARE, NOISY
from assets.trial.trial import ArmResult, Trial
from metrics_core.trial import ArmDifference


def explain_trial(trial: Trial) -> list[str]:
    """Return the sentences of a trial: one for every arm, then the terms under which they hold.

    Where the selection differs from itself in another order, nothing else is concluded. Where planted noise was not
    found, a sentence warns that an undecided arm proves little.
    """
    first, *others = trial.arms
    if first.status != "ok":
        return [f"Nothing is compared: {first.name} has {first.reason}."]
    by_name = {arm.name: arm for arm in others}
    copy, noise = by_name[COPY].difference, by_name[NOISY].difference
    if copy is not None and copy.conclusion in ("better", "worse"):
        return [
            f"Open: {first.name} and the same rows in another order differ by {_format_size(copy)}, so that this trial "
            "proves nothing."
        ]
    lines = [_explain_arm(first.name, arm) for arm in others if arm.name not in (NOISY, COPY)]
    if noise is None or noise.conclusion != "better":
        lines.append(
            f"This trial does not find that {format_percent(NOISE_SHARE)} of the captions of {first.name} were swapped"
            f"{_format_needed(noise)}: it may miss such differences between other arms, too."
        )
    return [*lines, *_explain_terms(trial)]


def _explain_arm(name: str, arm: ArmResult) -> str:
    other = f"{arm.name} ({format_count(arm.n, 'row')})"
    difference = arm.difference
    if difference is None:
        return f"{name} is not compared with {arm.name}: {arm.reason}."
    if difference.conclusion in ("better", "worse"):
        return f"{name} trains {difference.conclusion} than {other} by {_format_size(difference)}."
    if difference.conclusion == "no difference":
        largest = max(abs(difference.low), abs(difference.high))
        return f"{name} and {other}: no difference above {largest:.3f}."
    needed = _format_needed(difference) or "; with so many arms it may be chance"
    return f"{name} or {other}: open, {_format_difference(difference)}{needed}."


def _explain_terms(trial: Trial) -> list[str]:
    side = "the frames of a video" if trial.video_side == "frames" else "the references of a video, not its frames"
    texts = [
        f"Measured: mean reciprocal rank of {format_count(trial.n_test_videos, 'held-out video')} "
        f"(chance {trial.chance:.3f}), {format_count(trial.n_seeds, 'seed')}, 95 % intervals over seeds and videos.",
    ]
    if trial.detectable is not None:
        texts.append(f"Differences below {trial.detectable:.3f} would probably not be seen.")
    texts.append(f"The student is a small head on frozen vectors of captions and of {side}; your model may differ.")
    if trial.n_changed:
        texts.append(f"{format_count(trial.n_changed, 'caption')} changed since: the frozen text is trained on.")
    return texts


def _format_size(difference: ArmDifference) -> str:
    """How large a difference is, whichever sign it has, with its interval."""
    low, high = sorted((abs(difference.low), abs(difference.high)))
    return _format_interval(abs(difference.value), low, high)


def _format_difference(difference: ArmDifference) -> str:
    return _format_interval(difference.value, difference.low, difference.high)


def _format_interval(value: float, low: float, high: float) -> str:
    return f"{value:.3f} ({low:.3f} to {high:.3f})"


def _format_needed(difference: ArmDifference | None) -> str:
    if difference is None or not difference.n_more_videos:
        return ""
    return f"; about {format_count(difference.n_more_videos, 'more test video')} would decide it"


def list_arm_rows(arms: Sequence[ArmResult]) -> list[dict[str, object]]:
    """Return a row of a table for every arm: its rows, measures, and the selection's difference to it."""
    return [
        {
            "arm": arm.name,
            "rows": arm.n,
            "MRR": arm.mrr,
            "R@1": arm.recall_at_1,
            "R@5": arm.recall_at_5,
            "selection - arm": _format_difference(arm.difference) if arm.difference else None,
            "seconds": arm.seconds,
        }
        for arm in arms
    ]
