"""The walk over nested sets, strictest first: the last set that is confirmed before one is not keeps a promise.

Shares of an order are fixed before the first answer. A set is tested by its own answers at the whole level. The walk
continues only if the set is confirmed, so it can only err where it confirms its first false set; the number of sets
costs nothing. Another attempt on the same answers, by another order, limit or list, has half the level of the attempt
before, so that all attempts together err with at most the whole level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import BoolArray, IntArray
from metrics_core.promise.sequence import (
    Prior,
    compute_error_bounds,
    compute_least_log_evidence,
    count_allowed_errors,
)

DEFAULT_SHARES = (0.06, 0.09, 0.125, 0.18, 0.25, 0.35, 0.5, 0.7, 1.0)
"""Shares of an order that a walk tries, strictest first; `benchmarks.promise_worlds` compares them with other lists."""
RIGHT, WRONG, UNANSWERED = 0, 1, -1
"""The answers about a candidate, as `collect_set_answers` takes them."""
# So many numbers of answers are tried to find the smallest that suffices.
_TRIED = 4096


@dataclass(frozen=True, slots=True)
class SetState:
    """A set of `size` members after `n_asked` answers that count, of which `n_wrong` are errors. The set has at most
    `bound` errors, at the level of its test, and keeps its promise with up to `n_allowed`.
    """

    size: int
    n_asked: int
    n_wrong: int
    bound: int
    n_allowed: int

    @property
    def is_confirmed(self) -> bool:
        """Whether the set keeps its promise, at the level of its test."""
        return self.bound <= self.n_allowed


@dataclass(frozen=True, slots=True)
class NeededAnswers:
    """The number of answers in all that a set needs to be confirmed: `least`, if no further one is an error, and
    `likely`, if errors are as frequent as so far. likely is None without an answer, and where so many errors would not
    confirm the set. least is None where errors already exceed what is allowed.
    """

    least: int | None
    likely: int | None


def compute_attempt_level(level: float, attempt: int) -> float:
    """Compute the level of an attempt, counted from 1, so that all attempts on the same answers together err with a
    chance of at most `level`.

    >>> compute_attempt_level(0.05, 1), compute_attempt_level(0.05, 3)
    (0.025, 0.00625)
    """
    return math.ldexp(level, -attempt)


def collect_set_answers(
    draws: npt.ArrayLike, answers: npt.ArrayLike, set_places: npt.ArrayLike, n_sets: int
) -> list[BoolArray]:
    """Return for all n_sets nested sets whether their answers are errors, in the order of the draw, up to the first
    member without an answer. draws: (n,), random numbers of the candidates, the lowest asked first. answers: (n,),
    RIGHT (0), WRONG (1) or UNANSWERED (-1). set_places: (n,), the strictest set that holds a candidate; n_sets for
    none.

    >>> parts = collect_set_answers([0.1, 0.2, 0.3, 0.4], [0, -1, 1, 0], [0, 1, 0, 1], 2)
    >>> [part.tolist() for part in parts]
    [[False, True], [False]]
    """
    order = np.argsort(np.asarray(draws), kind="stable")
    answer, place = np.asarray(answers)[order], np.asarray(set_places)[order]
    collected = []
    for number in range(n_sets):
        of_set = answer[place <= number]
        gaps = np.flatnonzero(of_set == UNANSWERED)
        collected.append(of_set[: gaps[0] if gaps.size else of_set.size] == WRONG)
    return collected


def walk_sets(
    sizes: Sequence[int], answers: Sequence[npt.ArrayLike], limit: float, level: float, prior: Prior | None = None
) -> list[SetState]:
    """Return the states of nested sets from the strictest on: those confirmed to hold at most the share `limit` of
    errors, and the first that is not. The chance that any confirmed set holds more is at most `level`. sizes: rising.
    answers: by set, from `collect_set_answers`. prior: chosen before the first answer, by default Prior.build(limit).

    >>> states = walk_sets([12, 24], [[False] * 8, [False] * 9], 0.25, 0.05, Prior(1, 1))
    >>> [(state.bound, state.n_allowed, state.is_confirmed) for state in states]
    [(3, 3, True), (8, 6, False)]
    """
    prior = Prior.build(limit) if prior is None else prior
    states: list[SetState] = []
    for size, of_set in zip(sizes, answers, strict=True):
        wrong = np.asarray(of_set, dtype=np.bool_)
        bounds = compute_error_bounds(size, wrong, level, prior)
        bound = int(bounds[-1]) if bounds.size else size
        states.append(SetState(size, wrong.size, int(wrong.sum()), bound, count_allowed_errors(size, limit)))
        if not states[-1].is_confirmed:
            break
    return states


def count_needed_answers(state: SetState, limit: float, level: float, prior: Prior | None = None) -> NeededAnswers:
    """Count how many answers in all the set of `state` would need until it is confirmed at `level`. For large numbers
    the count is up to 1 % too high. limit, prior: as in `walk_sets`.

    >>> count_needed_answers(SetState(10_000, 0, 0, 10_000, 500), 0.05, 0.05, Prior(1, 1))
    NeededAnswers(least=156, likely=None)
    >>> count_needed_answers(SetState(10_000, 100, 2, 900, 500), 0.05, 0.05, Prior(1, 1))
    NeededAnswers(least=251, likely=587)
    """
    prior = Prior.build(limit) if prior is None else prior
    tried = _list_tried_numbers(max(state.n_asked, 1), state.size)
    rate = state.n_wrong / state.n_asked if state.n_asked else None

    def find_first(n_wrong: npt.ArrayLike) -> int | None:
        wrong = np.minimum(np.broadcast_to(np.asarray(n_wrong, dtype=np.int64), tried.shape), tried)
        evidence = compute_least_log_evidence(state.size, state.n_allowed + 1, tried, wrong, prior)
        enough = np.flatnonzero((evidence >= -np.log(level)) & (wrong <= state.n_allowed))
        return int(tried[enough[0]]) if enough.size else None

    further = tried - state.n_asked
    likely = None if rate is None else find_first(state.n_wrong + np.ceil(rate * further))
    return NeededAnswers(find_first(state.n_wrong), likely)


def _list_tried_numbers(lowest: int, highest: int) -> IntArray:
    most = max(lowest, highest)
    # By rounding, the last number may be a little above.
    numbers = np.minimum(np.geomspace(lowest, most, _TRIED), most)
    return np.unique(np.concatenate([np.arange(lowest, min(lowest + _TRIED, highest) + 1), np.ceil(numbers)])).astype(
        np.int64
    )
