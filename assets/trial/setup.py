"""Prepares a trial: the parts of the dataset, the arms, and the trainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.engine import Connection, Engine

from assets.progress import LineWriter
from assets.scores.base import Scorer
from assets.selection.pick import pick_samples
from assets.selection.select import embed_for_recipe
from assets.selection.vectors import find_text_encoder
from assets.trial.arms import Arm, build_arms
from assets.trial.own_trainer import OwnTrainer
from assets.trial.parts import TrialParts, compute_digest, split_captions
from assets.trial.student_trainer import StudentTrainer, load_seen_vectors
from db.manifest.datasets import Dataset
from db.reports.judgements import load_mean_ratings
from db.selection.candidates import NothingToSelect, load_candidates
from db.selection.eligible import find_eligible_samples
from db.selection.recipes import Recipe, SelectionError
from db.selection.stored_selections import require_selection
from db.selection.trial_rows import FrozenCaption, load_frozen_captions, load_trial_captions, load_trial_videos
from metrics_core.arrays import IntArray

N_SEEDS = 5
Trainer = StudentTrainer | OwnTrainer


@dataclass(frozen=True)
class TrialRequest:
    """A request for a trial of a selection.

    others: further selections of the dataset. shares: the curve, shares of the samples by the selection's recipe.
    command: an own trainer, "" for the built-in student. results: the folder of its runs; without a command, results
    are handed in there. limit_s: seconds after which a run of the command is ended.
    """

    selection_id: int
    others: Sequence[int] = ()
    shares: Sequence[float] = ()
    n_seeds: int = N_SEEDS
    command: str = ""
    results: Path | None = None
    limit_s: float = 24 * 3600.0

    def __post_init__(self) -> None:
        """Raise SelectionError for a share outside (0, 1]."""
        for share in self.shares:
            if not 0 < share <= 1:
                raise SelectionError(f"a share of the curve is {share:g}: give shares above 0 and up to 1 (--curve)")

    @property
    def has_own_trainer(self) -> bool:
        """Whether students are trained outside, or their results handed in."""
        return bool(self.command or self.results)


def prepare_trial(
    engine: Engine,
    scorers: Mapping[str, Scorer],
    home: Path,
    dataset: Dataset,
    recipe: Recipe,
    request: TrialRequest,
    tell: LineWriter,
) -> tuple[TrialParts, list[Arm], Trainer]:
    """Split a dataset, draw up the arms of a trial, the selection first, and make its trainer.

    recipe: that of the selection. Raises what `run_trial` raises.
    """
    with engine.begin() as connection:
        captions = load_trial_captions(connection, dataset, recipe)
        videos = load_trial_videos(connection, dataset)
        ratings = _load_ratings(connection, dataset)
        numbers = dict.fromkeys((request.selection_id, *request.others))
        frozen, *others = [_load_frozen_captions(connection, number, dataset) for number in numbers]
    seen = None if request.has_own_trainer else load_seen_vectors(engine, scorers, dataset, videos)
    # Without frames, a video's vector is that of its references but for the first one, which is its clean text.
    n_references = 1 if request.has_own_trainer or seen is not None else 2
    parts = split_captions(dataset.name, captions, videos, frozen, n_references, ratings and ratings[1])
    selections = {
        f"selection {number}": parts.find_positions([row.sample for row in rows])
        for number, rows in zip(numbers, (frozen, *others), strict=True)
    }
    if not len(selections[f"selection {request.selection_id}"]):
        raise SelectionError(
            f"no caption of selection {request.selection_id} can train: their videos are held out, copies of held-out "
            "ones, or without a reference; try a selection with more videos"
        )
    shares = _pick_shares(engine, scorers, dataset, recipe, request.shares, parts, tell)
    arms = build_arms(parts.captions, parts.training, selections, shares, ratings)
    trainer = _make_own_trainer(parts, request, home) if request.has_own_trainer else StudentTrainer(parts, seen)
    return parts, arms, trainer


def _load_ratings(connection: Connection, dataset: Dataset) -> tuple[str, dict[int, float]] | None:
    """The aspect by which most captions are rated, and the mean rating by sample, the highest being best; None where
    none is rated.
    """
    by_aspect = load_mean_ratings(connection, dataset)
    if not by_aspect:
        return None
    aspect = min(by_aspect, key=lambda name: (-by_aspect[name].sample_ids.size, name))
    rated = by_aspect[aspect]
    return aspect, dict(zip(rated.sample_ids.tolist(), rated.goodness.tolist(), strict=True))


def _load_frozen_captions(connection: Connection, selection_id: int, dataset: Dataset) -> list[FrozenCaption]:
    """The rows of a selection. Raises SelectionError for one of another dataset, or with question-answer pairs."""
    selection = require_selection(connection, selection_id)
    if selection["dataset_name"] != dataset.name:
        raise SelectionError(
            f"selection {selection_id} is of dataset {selection['dataset_name']}, not of {dataset.name}: compare "
            "selections of one dataset"
        )
    rows = load_frozen_captions(connection, selection_id)
    if any(row.kind != "caption" for row in rows):
        raise SelectionError(f"selection {selection_id} holds question-answer pairs: a trial trains on captions")
    return rows


def _pick_shares(
    engine: Engine,
    scorers: Mapping[str, Scorer],
    dataset: Dataset,
    recipe: Recipe,
    shares: Sequence[float],
    parts: TrialParts,
    tell: LineWriter,
) -> dict[float, IntArray]:
    """The training captions that the recipe takes for every share of the samples, and for all of them."""
    if not shares:
        return {}
    whole = recipe.model_copy(update={"keep": 1.0, "count": None, "quotas": {}, "at_least": {}, "stale": "leave_out"})
    tried = sorted({*(float(f"{share:g}") for share in shares), 1.0})
    recipes = [whole.model_copy(update={"keep": share}) for share in tried]
    encoder = embed_for_recipe(engine, dataset, whole, lambda: find_text_encoder(scorers), tell)
    with engine.begin() as connection:
        try:
            candidates = load_candidates(connection, find_eligible_samples(connection, dataset, whole, lock=False))
            picked = pick_samples(connection, candidates, recipes, encoder, tell)
            taken = [one.sample_ids.tolist() for one in picked]
        except NothingToSelect:
            taken = [[]] * len(tried)
    places, keys = parts.captions.positions_by_id, parts.captions.keys
    return {
        share: parts.find_positions([keys[places[number]] for number in numbers if number in places])
        for share, numbers in zip(tried, taken, strict=True)
    }


def _make_own_trainer(parts: TrialParts, request: TrialRequest, home: Path) -> OwnTrainer:
    """The own trainer of a request; without a folder for its runs, trials of its command share one of the home."""
    shared = home / "trials" / compute_digest(request.command)[:12]
    is_shared = request.results is None
    return OwnTrainer(parts, request.command, request.results or shared, request.limit_s, is_shared=is_shared)
