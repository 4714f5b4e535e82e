"""The state of a promise: nested sets of a recipe's order, the answers about them, and how far they are confirmed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sqlalchemy.engine import Connection

from assets.progress import LineWriter
from assets.promise.terms import JUDGE, PromiseTerms
from assets.selection.pick import pick_samples
from db.scores.sample_scores import ActiveScorer
from db.selection.candidates import PickedSamples, load_candidates
from db.selection.eligible import EligibleSamples
from db.selection.promises import (
    AnswerSource,
    Attempt,
    DrawNumbers,
    list_changed_samples,
    load_draw_numbers,
    load_people_answers,
    load_score_answers,
)
from db.selection.recipes import SelectionError
from metrics_core.arrays import BoolArray, IntArray, find_values
from metrics_core.promise import (
    RIGHT,
    UNANSWERED,
    WRONG,
    NeededAnswers,
    SetState,
    collect_set_answers,
    compute_attempt_level,
    count_needed_answers,
    walk_sets,
)
from metrics_core.protocols import TextEncoder

Positions = npt.NDArray[np.intp]


@dataclass(frozen=True)
class PromiseSets:
    """The nested sets of a recipe's order, strictest first, as arrays (n,) over the largest set's members in the order
    of the draw. sample_ids: their ids. set_places: the strictest set that holds a member, as its index. picked, shares:
    the sets and their shares of the order. candidate_ids: of all samples that the recipe may take. order_sha256: their
    digest.
    """

    eligible: EligibleSamples
    shares: Sequence[float]
    picked: Sequence[PickedSamples]
    sample_ids: npt.NDArray[np.int64]
    set_places: Positions
    candidate_ids: IntArray
    order_sha256: bytes

    @property
    def sizes(self) -> list[int]:
        """The numbers of members of the sets."""
        return [len(picked.sample_ids) for picked in self.picked]


@dataclass(frozen=True)
class PromiseState:
    """How far the sets of a promise are confirmed. states: of all sets, the strictest first, each by its own answers at
    the `level` of this attempt. n_confirmed: the sets before the first one that is not confirmed. answers: RIGHT, WRONG
    or UNANSWERED by member, in the order of `sets.sample_ids`.
    """

    terms: PromiseTerms
    sets: PromiseSets
    attempt: Attempt
    answers: npt.NDArray[np.int8]
    states: Sequence[SetState]

    @property
    def level(self) -> float:
        """The highest chance that this attempt breaks its promise."""
        return compute_attempt_level(self.terms.level, self.attempt.attempt)

    @property
    def n_confirmed(self) -> int:
        """How many sets are confirmed, from the strictest on; the largest of them keeps the promise."""
        return next((place for place, state in enumerate(self.states) if not state.is_confirmed), len(self.states))

    def list_counted(self, place: int) -> IntArray:
        """List the ids of the samples whose answers count for the set at this place, in the order of the draw."""
        return self.sets.sample_ids[self.sets.set_places <= place][: self.states[place].n_asked]

    def list_next_ids(self) -> list[int]:
        """List the ids of the samples to ask next: those without an answer in the first set that is not confirmed, in
        the order of the draw. Empty if all sets are confirmed, and where no answer can help that set.
        """
        place = self.n_confirmed
        if place == len(self.states) or self.count_needed(place).least is None:
            return []
        is_next = (self.sets.set_places <= place) & (self.answers == UNANSWERED)
        ids: list[int] = self.sets.sample_ids[is_next].tolist()
        return ids

    def count_needed(self, place: int) -> NeededAnswers:
        """Return how many samples still need an answer until the set at index `place` (0 is the strictest) is
        confirmed: the fewest, if no further answer is an error, and `likely`, if errors stay as frequent. None where
        that cannot confirm it; `likely` is also None before the first answer. Answers after a gap need no repeat.
        """
        needed = count_needed_answers(self.states[place], self.terms.limit, self.level)
        answers = self.answers[self.sets.set_places <= place]

        def count_unanswered(n: int | None) -> int | None:
            return None if n is None else int((answers[:n] == UNANSWERED).sum())

        return NeededAnswers(count_unanswered(needed.least), count_unanswered(needed.likely))


def load_promise_sets(
    connection: Connection,
    eligible: EligibleSamples,
    terms: PromiseTerms,
    encoder: TextEncoder | None,
    tell: LineWriter,
) -> PromiseSets:
    """Load the nested sets of a recipe: what it would take for every share of the terms. Sets that are no
    larger than the one before are left out. encoder, tell: as in `pick_samples`. Raises what `pick_samples` raises, and
    SelectionError for question-answer pairs where people are to answer, since people rate captions.
    """
    if terms.aspect is not None and eligible.kind != "caption":
        raise SelectionError("people rate captions only: give kind caption (--kind), or promise by the judge")
    candidates = load_candidates(connection, eligible)
    recipes = [eligible.recipe.model_copy(update={"keep": share}) for share in terms.shares]
    shares: list[float] = []
    picked: list[PickedSamples] = []
    for share, taken in zip(terms.shares, pick_samples(connection, candidates, recipes, encoder, tell), strict=True):
        if not picked or len(taken.sample_ids) > len(picked[-1].sample_ids):
            shares.append(share)
            picked.append(taken)
    draws = load_draw_numbers(connection, eligible.dataset, terms.seed)
    rows = np.searchsorted(draws.sample_ids, picked[-1].sample_ids)
    rows = rows[np.argsort(draws.numbers[rows], kind="stable")]
    place_by_row = np.full(len(draws.sample_ids), len(picked), dtype=np.intp)
    for place in reversed(range(len(picked))):
        place_by_row[np.searchsorted(draws.sample_ids, picked[place].sample_ids)] = place
    set_places = place_by_row[rows]
    digest = _compute_order_digest(draws, rows, set_places)
    return PromiseSets(eligible, shares, picked, draws.sample_ids[rows], set_places, candidates.sample_ids, digest)


def load_promise_answers(
    connection: Connection, eligible: EligibleSamples, terms: PromiseTerms, sample_ids: npt.NDArray[np.int64]
) -> npt.NDArray[np.int8]:
    """Load the answers about samples as an array (n,) of RIGHT (0), WRONG (1) and UNANSWERED (-1). A sample that cannot
    be judged is WRONG. Raises SelectionError where the judge is to answer and has no scores.
    """
    source = AnswerSource(eligible.dataset, terms.aspect)
    ids, is_wrong = load_source_answers(connection, source, terms, find_judge_id(eligible, terms))
    return find_values(sample_ids, ids, np.where(is_wrong, WRONG, RIGHT).astype(np.int8), UNANSWERED)


def load_source_answers(
    connection: Connection, source: AnswerSource, terms: PromiseTerms, judge_id: int | None
) -> tuple[IntArray, BoolArray]:
    """Load the ids of a dataset's samples with an answer, and whether it is an error by these terms, as arrays (n,).
    judge_id: as from `find_judge_id`.
    """
    if source.aspect is not None:
        known = load_people_answers(connection, source.dataset, source.aspect, terms.n_raters)
    else:
        assert judge_id is not None
        known = load_score_answers(connection, source.dataset, judge_id)
    # NaN is not at least anything: what cannot be judged is an error.
    return known.sample_ids, ~(known.values >= terms.error_below)


def check_unchanged(
    connection: Connection, eligible: EligibleSamples, terms: PromiseTerms, sample_ids: npt.NDArray[np.int64]
) -> None:
    """Raise SelectionError if some of the samples were changed after they were asked in the order of the draw."""
    n_changed = int(np.isin(list_changed_samples(connection, eligible.dataset, terms.seed), sample_ids).sum())
    if n_changed:
        changed = "1 caption was" if n_changed == 1 else f"{n_changed:,} captions were"
        raise SelectionError(
            f"{changed} changed after captions were asked, so the answers are no longer a random sample: use "
            "another --seed"
        )


def compute_promise_state(
    terms: PromiseTerms, sets: PromiseSets, attempt: Attempt, answers: npt.NDArray[np.int8]
) -> PromiseState:
    """Compute how far the sets of a promise are confirmed by answers, as from `load_promise_answers` for the samples of
    the sets.
    """
    level = compute_attempt_level(terms.level, attempt.attempt)
    by_set = collect_set_answers(np.arange(answers.size), answers, sets.set_places, len(sets.picked))
    states = [
        walk_sets([size], [of_set], terms.limit, level)[0] for size, of_set in zip(sets.sizes, by_set, strict=True)
    ]
    return PromiseState(terms, sets, attempt, answers, states)


def name_answer_source(eligible: EligibleSamples, aspect: str | None) -> str:
    """Return the name of those who answer, under which attempts are counted: people with their aspect, or the judge
    with its fingerprint. Raises SelectionError where the judge is to answer and none has scores.
    """
    if aspect is not None:
        return f"people: {aspect}"
    return f"{JUDGE} {_require_judge(eligible).fingerprint}"


def find_judge_id(eligible: EligibleSamples, terms: PromiseTerms) -> int | None:
    """Return the id of the judge's scorer; None where people answer. Raises SelectionError if there is no judge."""
    return None if terms.aspect is not None else _require_judge(eligible).scorer_id


def _require_judge(eligible: EligibleSamples) -> ActiveScorer:
    """Return the scorer that judges. Raises SelectionError if there is none."""
    scorer = eligible.scorers.get(JUDGE)
    if scorer is None:
        raise SelectionError(
            f"{eligible.dataset.name} has no scores of {JUDGE}: run reelsieve score --dataset {eligible.dataset.name} "
            f"--metric {JUDGE} first"
        )
    return scorer


def _compute_order_digest(draws: DrawNumbers, rows: Positions, set_places: Positions) -> bytes:
    """Return the SHA-256 over members, their texts and their sets, in order of ids."""
    by_id = np.argsort(draws.sample_ids[rows])
    parts = (draws.sample_ids[rows][by_id], draws.text_sha256[rows][by_id], set_places[by_id].astype(np.int64))
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.tobytes())
    return digest.digest()
