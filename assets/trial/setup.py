"""Prepares a trial: both parts of the dataset, the arms, and the trainer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.engine import Connection, Engine

from assets.progress import LineWriter
from assets.scores.base import Scorer
from assets.selection.pick import pick_samples
from assets.selection.select import embed_for_recipe
from assets.selection.vectors import find_text_encoder
from assets.sources.base import BATCH_SIZE
from assets.sources.frames import SampledFrames
from assets.trial.arms import Arm, build_arms, build_controls, build_fixed_arm
from assets.trial.own_trainer import OwnTrainer
from assets.trial.parts import (
    BEST_RATED,
    REFERENCES,
    TrialParts,
    compute_digest,
    replace_references_with_best_rated,
    split_captions,
)
from assets.trial.student_trainer import SeenVectors, StudentTrainer
from assets.trial.trainer import Trainer
from db.evidence.frames import load_frames
from db.evidence.video_vectors import list_encoders, load_video_vectors
from db.manifest.datasets import Dataset
from db.reports.judgements import MeanRatings, load_mean_ratings
from db.scores.pending import split_ids
from db.selection.candidates import NothingToSelect, load_candidates
from db.selection.eligible import find_eligible_samples
from db.selection.recipes import Recipe, SelectionError
from db.selection.stored_selections import require_selection
from db.selection.trial_rows import (
    FrozenCaption,
    TrialVideo,
    load_frozen_captions,
    load_trial_captions,
    load_trial_videos,
)
from metrics_core.trial.student import Vectors

N_SEEDS = 5
LIMIT_S = 24 * 3600.0


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
    limit_s: float = LIMIT_S

    def __post_init__(self) -> None:
        """Raise SelectionError for a share outside (0, 1]."""
        for share in self.shares:
            if not 0 < share <= 1:
                raise SelectionError(f"a share of the curve is {share:g}: give shares above 0 and up to 1 (--curve)")


@dataclass(frozen=True)
class TrialSetup:
    """Both parts of a dataset, the arms of a trial, the selection first, the kind of clean texts, and what trains the
    students.
    """

    parts: TrialParts
    arms: Sequence[Arm]
    clean_texts: str
    trainer: Trainer


def prepare_trial(
    engine: Engine,
    scorers: Mapping[str, Scorer],
    home: Path,
    dataset: Dataset,
    recipe: Recipe,
    request: TrialRequest,
    tell: LineWriter,
) -> TrialSetup:
    """Split a dataset, draw up the arms of a trial, and make its trainer.

    recipe: that of the selection. Raises what `run_trial` raises.
    """
    is_own = bool(request.command or request.results)
    with engine.begin() as connection:
        captions = load_trial_captions(connection, dataset, recipe)
        videos = load_trial_videos(connection, dataset)
        ratings = _choose_ratings(load_mean_ratings(connection, dataset))
        numbers = (request.selection_id, *request.others)
        frozen, *further = [_require_captions(connection, number, dataset) for number in numbers]
        model_id = None if is_own else _find_frame_model(connection, scorers)
    seen = None if is_own else _load_seen_vectors(engine, dataset, model_id, videos)
    clean_texts = REFERENCES
    if ratings is not None and not any(video.references for video in videos):
        clean_texts, videos = BEST_RATED, replace_references_with_best_rated(videos, captions, ratings[1])
    parts = split_captions(dataset.name, captions, videos, frozen, 2 if seen is None and not is_own else 1)
    chosen = parts.find_positions([row.sample for row in frozen])
    if not len(chosen):
        raise SelectionError(
            f"no caption of selection {request.selection_id} can train: their videos are held out, copies of held-out "
            "ones, or without a reference; try a selection with more videos"
        )
    others = {
        f"selection {number}": parts.find_positions([row.sample for row in rows])
        for number, rows in zip(request.others, further, strict=True)
        if number != request.selection_id
    }
    arms = [
        build_fixed_arm(f"selection {request.selection_id}", chosen),
        *build_arms(parts.captions, parts.training, chosen, ratings, others),
        *_build_curve(engine, scorers, dataset, recipe, request.shares, parts, tell),
        *build_controls(parts.captions, chosen),
    ]
    if is_own:
        folder = request.results or home / "trials" / compute_digest(request.command).hex()[:12]
        is_shared = request.results is None
        trainer = OwnTrainer(parts, request.command, folder, request.limit_s, is_shared=is_shared)
        return TrialSetup(parts, arms, clean_texts, trainer)
    return TrialSetup(parts, arms, clean_texts, StudentTrainer(parts, seen))


def _choose_ratings(by_aspect: Mapping[str, MeanRatings]) -> tuple[str, dict[int, float]] | None:
    """Return the aspect by which most captions are rated, and the mean rating by sample, the highest being best; None
    where none is rated.
    """
    if not by_aspect:
        return None
    aspect = min(by_aspect, key=lambda name: (-by_aspect[name].sample_ids.size, name))
    rated = by_aspect[aspect]
    return aspect, dict(zip(rated.sample_ids.tolist(), rated.goodness.tolist(), strict=True))


def _require_captions(connection: Connection, selection_id: int, dataset: Dataset) -> list[FrozenCaption]:
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


def _build_curve(
    engine: Engine,
    scorers: Mapping[str, Scorer],
    dataset: Dataset,
    recipe: Recipe,
    shares: Sequence[float],
    parts: TrialParts,
    tell: LineWriter,
) -> Iterator[Arm]:
    """Yield an arm for every share of the samples that the recipe takes, and for all of them."""
    if not shares:
        return
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
    places = parts.captions.positions_by_id
    for share, numbers in zip(tried, taken, strict=True):
        keys = [parts.captions.keys[places[number]] for number in numbers if number in places]
        yield build_fixed_arm(f"share {share:g}", parts.find_positions(keys), share)


def _find_frame_model(connection: Connection, scorers: Mapping[str, Scorer]) -> int | None:
    """The id of the image-text encoder whose frames a scorer reads; None where none has stored any."""
    sources = (source for scorer in scorers.values() for source in scorer.sources)
    return next((source.model_id(connection) for source in sources if isinstance(source, SampledFrames)), None)


def _load_seen_vectors(
    engine: Engine, dataset: Dataset, model_id: int | None, videos: Sequence[TrialVideo]
) -> SeenVectors | None:
    """Return the vectors of the videos' frames by an own encoder, else those that the manifest brought, of the first
    encoder by name; None where neither has one for every video.
    """
    if model_id is not None:
        frames = _load_frame_vectors(engine, model_id, videos)
        if len(frames) == len(videos):
            return SeenVectors(model_id, frames, "frames")
    with engine.begin() as connection:
        for name in list_encoders(connection, dataset):
            vectors = load_video_vectors(connection, dataset, name, [video.video_id for video in videos])
            if len(vectors) == len(videos):
                # Another manifest may bring other vectors for the same files.
                digest = compute_digest([vectors[video.video_id].tolist() for video in videos])
                return SeenVectors([name, digest.hex()], vectors, f"the videos by {name}")
    return None


def _load_frame_vectors(engine: Engine, model_id: int, videos: Sequence[TrialVideo]) -> dict[int, Vectors]:
    """The mean over time of the frames' vectors, by the id of every video that has stored frames."""
    means: dict[int, Vectors] = {}
    # The frames of a large dataset do not fit into memory, their means do.
    for ids in split_ids([video.video_id for video in videos], BATCH_SIZE):
        frames = load_frames(engine, model_id, ids)
        means |= {number: stored.features.mean(axis=0) for number, stored in frames.items() if len(stored.features)}
    return means
