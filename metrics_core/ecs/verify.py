"""Driving a verifier over plans: every planned pair once, or rank by rank until the thresholds are reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from metrics_core.ecs.plan import KeypointPlan, Pair, unique_pairs
from metrics_core.ecs.verdict import KeypointVerdict, decide, decide_so_far
from metrics_core.protocols import EntailmentModel


@dataclass(frozen=True, slots=True)
class Verification:
    """Verdicts in the order of the plans, and what they cost.

    passes: for each plan, the pairs that were judged for it. n_pairs: different pairs among them, which is what the
    model was given. n_truncated: those of n_pairs whose premise was cut to fit into the model.
    """

    verdicts: tuple[KeypointVerdict, ...]
    passes: tuple[int, ...]
    n_pairs: int
    n_truncated: int

    @property
    def n_passes(self) -> int:
        """Pairs judged for some keypoint, each keypoint counting its own (the paper's NLI passes)."""
        return sum(self.passes)


class Answers:
    """Probabilities by pair; asks the model for a pair once."""

    def __init__(self, model: EntailmentModel) -> None:
        self._model = model
        self.probability_of: dict[Pair, float] = {}
        self.n_truncated = 0

    def ask(self, pairs: Sequence[Pair]) -> None:
        """Have every pair judged, in one batch, that was not judged before."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self.probability_of]
        if not new:
            return
        found = self._model.entailment(new)
        self.probability_of.update(zip(new, found.probabilities.tolist(), strict=True))
        self.n_truncated += int(found.truncated.sum())


def verify(
    plans: Sequence[KeypointPlan], model: EntailmentModel, thresholds: Sequence[float] | None = None
) -> Verification:
    """Judge all planned pairs, of one caption or of many, in one batch without repetitions.

    thresholds: one for each plan; without them the verdicts have a probability and no decision, as calibration needs
    them. Raises ValueError for another number of thresholds and for probabilities that `decide` refuses.
    """
    levels = [None] * len(plans) if thresholds is None else thresholds
    check_thresholds(levels, plans)
    answers = Answers(model)
    answers.ask(unique_pairs(plans))
    verdicts = tuple(
        decide(plan, [answers.probability_of[pair] for pair in plan.pairs], level)
        for plan, level in zip(plans, levels, strict=True)
    )
    passes = tuple(plan.n_passes for plan in plans)
    return Verification(verdicts, passes, len(answers.probability_of), answers.n_truncated)


def verify_early_exit(
    plans: Sequence[KeypointPlan], model: EntailmentModel, thresholds: Sequence[float]
) -> Verification:
    """Judge the pairs rank by rank, and leave a keypoint alone once it reaches its threshold.

    What is covered is what `verify` says, as long as the model gives a pair the same probability each time; there are
    fewer passes. The probability of a keypoint that was left early is a lower bound, of no use for calibration. Each
    rank is one batch over all plans, so give the plans of many captions together. Errors are those of `verify`.
    """
    check_thresholds(thresholds, plans)
    answers = Answers(model)
    seen: list[list[float]] = [[] for _ in plans]
    undecided = list(range(len(plans)))
    rank = 0
    while undecided := [i for i in undecided if rank < plans[i].n_passes]:
        asked = {i: (plans[i].premises[rank], plans[i].hypothesis) for i in undecided}
        answers.ask(list(asked.values()))
        for i, pair in asked.items():
            seen[i].append(answers.probability_of[pair])
        # "not >=" keeps NaN among the undecided; the decision refuses it.
        undecided = [i for i in undecided if not seen[i][-1] >= thresholds[i]]
        rank += 1
    verdicts = tuple(
        decide_so_far(plan, probabilities, level)
        for plan, probabilities, level in zip(plans, seen, thresholds, strict=True)
    )
    return Verification(verdicts, tuple(map(len, seen)), len(answers.probability_of), answers.n_truncated)


def check_thresholds(thresholds: Sequence[float | None], plans: Sequence[KeypointPlan]) -> None:
    """ValueError unless there is one for each plan."""
    if len(thresholds) != len(plans):
        raise ValueError(f"There are {len(thresholds)} thresholds for {len(plans)} plans: give one for each.")
