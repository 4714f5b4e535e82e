"""Chooses the threshold at which scores fit labels best, with its interval; one for every dimension of labels; and
those that keep a share of the scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import BoolArray, FloatArray, IntArray, number_groups
from metrics_core.calibration.result import Confusion, Objective, Status, Threshold
from metrics_core.intervals import LEVEL
from metrics_core.selection.distribution import Groups
from metrics_core.selection.strata import count_in_share

KEPT_SHARES = (0.5, 0.25, 0.125, 0.0625)
"""The best half, quarter, eighth and sixteenth."""
RESAMPLES = 1000
FEWEST_LABELS = 20
"""With fewer labels of its own, a dimension gets the threshold of all dimensions."""
# A threshold that says yes to fewer or to more than these shares of the scores hardly separates any scores.
FEW, MANY = 0.05, 0.95
# Resamples are drawn in batches whose weights hold up to this many numbers (8 MiB); a batch has at least one resample.
CELLS = 1 << 20

_REASONS: dict[Status, str] = {
    "no_labels": "there is no label",
    "no_positive": "no label says yes",
    "no_negative": "no label says no",
}


def find_best_threshold(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    objective: Objective = "f1",
    groups: Sequence[object] | None = None,
    *,
    n_resamples: int = 0,
    seed: int = 0,
) -> Threshold:
    """Find the threshold t at which the predictions score >= t fit the labels best by an objective, with its interval;
    only a status where the objective is undefined. scores (n,) are finite, labels (n,) True or False. groups (n,): each
    label's group, such as its video; None makes every label a group. n_resamples: 0 for no interval.

    Candidates are all distinct scores and a value just above them. Of equally good ones, the largest wins. "f1" is
    Eq. 3 of the ECS paper.

    ==========  ==========================================================================================
    objective   the best threshold has
    ==========  ==========================================================================================
    f1          the highest 2TP / (2TP + FP + FN)
    youden      the highest recall minus false positive rate
    mcc         the highest Matthews correlation; predicting all or nothing counts as 0
    coverage    as many predictions of yes as labels of yes, which keeps a system's mean at its labels' mean
    ==========  ==========================================================================================

    The interval has the middle 95 % of the thresholds of resamples that draw groups with replacement, at random by the
    seed; its limits are thresholds that occurred. The labels of a video resemble each other, so drawing them one by one
    makes it too narrow. It is None with fewer than two groups. The result warns of constant scores, and of a threshold
    that says yes to more than 95 % or less than 5 % of the scores. Raises ValueError for shapes that do not fit, a
    score that is not finite, a label that is neither yes nor no, and an unknown objective.

    >>> threshold = find_best_threshold([0.95, 0.90, 0.80, 0.60, 0.55, 0.30, 0.20, 0.05], [1, 1, 0, 1, 0, 0, 1, 0])
    >>> threshold.at_least, threshold.counts.f1
    (0.6, 0.75)
    >>> find_best_threshold([0.9, 0.2], [False, False]).status
    'no_positive'
    >>> threshold = find_best_threshold([0.9, 0.8, 0.7, 0.3, 0.2, 0.1], [1, 1, 1, 0, 0, 0], n_resamples=1000)
    >>> threshold.low, threshold.high
    (0.7, 0.9)
    """
    return _search(_sort_labelled(scores, labels, groups, objective)[0], objective, n_resamples, seed)


def find_dimension_thresholds(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    dimensions: Sequence[str],
    objective: Objective = "f1",
    groups: Sequence[object] | None = None,
    *,
    n_resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[Threshold, dict[str, Threshold]]:
    """Find the best threshold of all labels together, and that of every dimension by name. A dimension with fewer than
    20 labels, no label of yes, or an undefined objective gets the pooled threshold and a warning; its counts are of its
    own labels. dimensions: (n,), by label. Other arguments and errors as in `find_best_threshold`.

    >>> scores, labels = [0.9, 0.8, 0.3, 0.2] * 5 + [0.6], [True, True, False, False] * 5 + [False]
    >>> _, by_dimension = find_dimension_thresholds(scores, labels, ["events"] * 20 + ["camera"])
    >>> {name: (threshold.at_least, threshold.pooled) for name, threshold in by_dimension.items()}
    {'events': (0.8, False), 'camera': (0.8, True)}
    """
    everything, order = _sort_labelled(scores, labels, groups, objective)
    if len(dimensions) != order.size:
        raise ValueError(f"There are {len(dimensions)} dimensions for {order.size} labels: give one for each label.")
    dimension_of = np.array(dimensions, dtype=object)[order]
    pooled = _search(everything, objective, n_resamples, seed)
    by_dimension = {}
    for name in dict.fromkeys(dimensions):
        own = _Labelled(*(column[dimension_of == name] for column in everything))
        why = _explain_pooled(own, objective)
        threshold = _fall_back(own, pooled, why) if why else _search(own, objective, n_resamples, seed)
        by_dimension[name] = replace(threshold, aspect=name)
    return pooled, by_dimension


def compute_share_thresholds(values: FloatArray, groups: Groups | None = None) -> list[Threshold]:
    """Return the thresholds that keep the `KEPT_SHARES` of the values, in their order: the lowest of the best
    floor(share * n) values, at least one. More pass where several equal it. values: (n,), finite. groups: (n,), the
    shard of every value; with them, every shard has thresholds of its own, in ascending order.

    >>> _, threshold, *_ = compute_share_thresholds(np.array([0.5, 0.1, 0.9, 0.9]))
    >>> threshold.objective, threshold.at_least, threshold.n_kept
    ('keep 0.25', 0.9, 2)
    """
    thresholds = []
    for shard, ordered in [(None, np.sort(values))] if groups is None else _sort_groups(values, groups):
        for share in KEPT_SHARES:
            value = ordered[ordered.size - count_in_share(share, ordered.size)]
            n_kept = ordered.size - int(np.searchsorted(ordered, value))
            thresholds.append(
                Threshold(
                    objective=f"keep {share:g}", n=ordered.size, at_least=float(value), n_kept=n_kept, shard=shard
                )
            )
    return thresholds


def _sort_groups(values: FloatArray, groups: Groups) -> Iterator[tuple[int, FloatArray]]:
    """Yield the number of every group, in ascending order, with its values in ascending order."""
    # NumPy sorts short integers in linear time.
    order = np.argsort(groups, kind="stable")
    numbers, starts = np.unique(groups[order], return_index=True)
    yield from zip(numbers.tolist(), map(np.sort, np.split(values[order], starts[1:])), strict=False)


class _Labelled(NamedTuple):
    """Scores (n,) sorted from the highest down, with their labels (n,) of 0 (no) and 1 (yes), and the numbers (n,) of
    the labels' groups.
    """

    scores: FloatArray
    labels: IntArray
    groups: IntArray


def _sort_labelled(
    scores: npt.ArrayLike, labels: npt.ArrayLike, groups: Sequence[object] | None, objective: Objective
) -> tuple[_Labelled, IntArray]:
    """Check scores, labels and groups, and sort them; also return the positions (n,) that sort them. Raises ValueError
    as `find_best_threshold` does; the text has the position.
    """
    values, answers = np.asarray(scores, dtype=np.float64), np.asarray(labels)
    if objective not in get_args(Objective):
        raise ValueError(f"objective is {objective!r}: give one of {', '.join(get_args(Objective))}.")
    if values.ndim != 1 or answers.shape != values.shape:
        raise ValueError(
            f"scores have shape {values.shape}, labels {answers.shape}: give one label for each score, (n,)."
        )
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise ValueError(f"score {bad[0]} is {values[bad[0]]}: give finite scores, and leave out what was not scored.")
    odd = np.flatnonzero(~((answers == 0) | (answers == 1)))
    if odd.size:
        raise ValueError(f"label {odd[0]} is {answers[odd[0]]}: give True or False, and leave out what has no label.")
    if groups is not None and len(groups) != values.size:
        raise ValueError(f"There are {len(groups)} groups for {values.size} labels: give one for each label.")
    order = np.argsort(-values, kind="stable")
    numbers = np.arange(values.size) if groups is None else number_groups(groups)
    return _Labelled(values[order], answers[order].astype(np.int64), numbers[order]), order


def _search(labelled: _Labelled, objective: Objective, n_resamples: int, seed: int) -> Threshold:
    """Find the best threshold of sorted labelled scores, as `find_best_threshold` does."""
    n, n_positive = labelled.labels.size, int(labelled.labels.sum())
    n_groups = int(np.count_nonzero(np.bincount(labelled.groups)))
    possible = _list_possible(labelled.scores)
    low = high = None
    n_undefined = 0
    if n_resamples and n_groups > 1:
        # Numbered along the sorted labels, so that equal labels give equal intervals whatever labels came along.
        resamples = draw_resamples(number_groups(labelled.groups.tolist()), n_groups, n_resamples, seed)
        drawn = _resample_thresholds(labelled, possible, objective, resamples)
        n_undefined = n_resamples - drawn.size
        if drawn.size:
            outside = (1 - LEVEL) / 2
            low, high = np.quantile(drawn, [outside, 1 - outside], method="inverted_cdf").tolist()
    status = _find_status(objective, n_positive, n)
    threshold = Threshold(
        objective=objective,
        n=n,
        n_good=n_positive,
        n_videos=n_groups,
        low=low,
        high=high,
        n_undefined=n_undefined,
        status=status,
        reason=_REASONS.get(status),
    )
    if status != "ok":
        return threshold
    hits, predicted = (possible.sum_reaching(weights) for weights in (labelled.labels, np.ones_like(labelled.labels)))
    best = int(_choose_best(objective, hits, predicted, np.array([n_positive]), np.array([n])))
    threshold = replace(
        threshold,
        at_least=float(possible.thresholds[best]),
        n_kept=int(predicted[best]),
        n_kept_good=int(hits[best]),
    )
    assert threshold.counts is not None
    return replace(threshold, warnings=_explain_doubts(labelled.scores, threshold.counts))


class _Possible(NamedTuple):
    """The thresholds to choose from: every distinct score, and one value above them all. thresholds: (c,), from the
    largest down. n_reaching: (c,), how many scores are as high as the threshold or higher.
    """

    thresholds: FloatArray
    n_reaching: IntArray

    def sum_reaching(self, weights: IntArray) -> IntArray:
        """Sum the weights of the scores that reach a threshold, for every threshold: an array (.., c). weights:
        (.., n), in the order of the scores from the highest down.
        """
        sums = np.zeros((*weights.shape[:-1], weights.shape[-1] + 1), dtype=np.int64)
        weights.cumsum(axis=-1, out=sums[..., 1:])
        counts: IntArray = sums[..., self.n_reaching]
        return counts


def _list_possible(scores: FloatArray) -> _Possible:
    rising = scores[::-1]
    distinct = np.unique(rising)
    thresholds = np.append(distinct, np.nextafter(distinct[-1:], np.inf))[::-1]
    return _Possible(thresholds, rising.size - np.searchsorted(rising, thresholds, side="left"))


def _find_status(objective: Objective, n_positive: int, n: int) -> Status:
    """Return "ok" where the objective is defined if `n_positive` of `n` labels say yes, otherwise what is missing."""
    if n == 0:
        return "no_labels"
    if n_positive == 0 and objective != "coverage":
        return "no_positive"
    if n_positive == n and objective in ("youden", "mcc"):
        return "no_negative"
    return "ok"


def _choose_best(
    objective: Objective, hits: IntArray, predicted: IntArray, n_positive: IntArray, n: IntArray
) -> npt.NDArray[np.intp]:
    """Choose the threshold that is best by the objective: its index among the c thresholds, in an integer array (..).
    Of equally good ones the first one counts, which is the largest. At a threshold, `predicted` (.., c) scores say yes,
    and `hits` (.., c) of these predictions are right. `n_positive` of `n` labels say yes, both (.., 1).

    The numbers compared are whole, or one quotient of whole numbers, because more rounding would break ties. A
    threshold that predicts all or nothing has no MCC and ranks as 0, because such a prediction has no information.
    """
    ranked: FloatArray
    # The numerator of Youden's J and of MCC. The factors n_positive and n_negative of their denominators never change.
    association = (hits * n - predicted * n_positive).astype(np.float64)
    if objective == "f1":
        ranked = 2 * hits / (n_positive + predicted)
    elif objective == "coverage":
        ranked = -np.abs(predicted - n_positive).astype(np.float64)
    elif objective == "youden":
        ranked = association
    else:
        margins = (predicted * (n - predicted)).astype(np.float64)
        signed_square = association * np.abs(association)
        ranked = np.divide(signed_square, margins, out=np.zeros_like(margins), where=margins > 0)
    best: npt.NDArray[np.intp] = np.argmax(ranked, axis=-1)
    return best


def draw_resamples(group_of: IntArray, n_groups: int, n_resamples: int, seed: int) -> Iterator[IntArray]:
    """Yield batches of bootstrap resamples as counts (resamples, n): how often every label was drawn, at random by the
    seed. group_of: (n,), the number of each label's group, from 0 to n_groups - 1. A resample draws n_groups groups
    with replacement, and a label is drawn as often as its group.
    """
    rng = np.random.default_rng(seed)
    at_once = max(1, CELLS // group_of.size)
    for start in range(0, n_resamples, at_once):
        rows = min(at_once, n_resamples - start)
        drawn = rng.integers(n_groups, size=(rows, n_groups)) + n_groups * np.arange(rows)[:, None]
        yield np.bincount(drawn.ravel(), minlength=rows * n_groups).reshape(rows, n_groups)[:, group_of]


def _resample_thresholds(
    labelled: _Labelled, possible: _Possible, objective: Objective, resamples: Iterator[IntArray]
) -> FloatArray:
    """Return the best thresholds (m,) of the resamples that have one. resamples: as from `draw_resamples`."""
    batches = []
    for weights in resamples:
        totals = np.stack([weights @ labelled.labels, weights.sum(axis=1)], axis=1)
        defined = np.array([_find_status(objective, *row) == "ok" for row in totals.tolist()])
        n_positive, n = totals[defined, :1], totals[defined, 1:]
        hits, predicted = (
            possible.sum_reaching(weights[defined] * labelled.labels),
            possible.sum_reaching(weights[defined]),
        )
        batches.append(possible.thresholds[_choose_best(objective, hits, predicted, n_positive, n)])
    return np.concatenate(batches)


def _explain_pooled(own: _Labelled, objective: Objective) -> str:
    """Say why a dimension needs the pooled threshold in place of one on its own labels; "" where it does not."""
    n, n_positive = own.labels.size, int(own.labels.sum())
    if n < FEWEST_LABELS:
        return f"the dimension has {n} {'label' if n == 1 else 'labels'}, fewer than {FEWEST_LABELS}"
    return _REASONS.get(_find_status(objective, n_positive, n) if n_positive else "no_positive", "")


def _fall_back(own: _Labelled, pooled: Threshold, why: str) -> Threshold:
    """Return the pooled threshold with the counts of a dimension's own labels, and a warning that says why."""
    n_positive = int(own.labels.sum())
    threshold = replace(pooled, n=own.labels.size, n_good=n_positive, pooled=True)
    if pooled.at_least is None:
        return threshold
    passes: BoolArray = own.scores >= pooled.at_least
    warning = f"The threshold of all dimensions together applies, because {why}."
    n_kept, n_kept_good = int(passes.sum()), int(own.labels[passes].sum())
    return replace(threshold, n_kept=n_kept, n_kept_good=n_kept_good, warnings=(warning,))


def _explain_doubts(scores: FloatArray, counts: Confusion) -> tuple[str, ...]:
    """List sentences on why a threshold may be of no use: all scores are equal, or more than 95 % or less than 5 % of
    the scores reach it. () without doubts. counts: how its predictions agree with the labels.
    """
    sentences = []
    if scores[0] == scores[-1]:
        sentences.append(f"All {counts.n} scores are {scores[0]:g}: no threshold can tell these labels apart.")
    rate = counts.n_predicted / counts.n
    if not FEW <= rate <= MANY:
        sentence = (
            f"The threshold predicts yes for {rate:.1%} of the labels, while {counts.prevalence:.1%} of them are yes"
        )
        if counts.f1 is not None and counts.all_positive_f1 is not None:
            sentence += f": F1 is {counts.f1:.3f}, and {counts.all_positive_f1:.3f} for always predicting yes"
        sentences.append(f"{sentence}.")
    return tuple(sentences)
