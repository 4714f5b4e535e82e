"""A training trial of a selection: splits the videos, trains the students of all arms, and compares them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection, Engine, RowMapping

from assets.reports.text import format_count
from assets.scores.base import Scorer
from assets.sources.base import BATCH_SIZE, LineWriter
from assets.sources.frames import SampledFrames
from assets.trial.arms import RANDOM, Arm, build_arms, build_controls, build_fixed_arm
from assets.trial.vectors import TrialVectors, build_trial_vectors, find_frozen_positions
from db.evidence.frames import load_frames
from db.manifest.datasets import Dataset, find_dataset
from db.scores.pending import split_ids
from db.selection.recipes import SelectionError, convert_rule, parse_recipe
from db.selection.stored_selections import require_selection
from db.selection.trial_rows import (
    FrozenCaption,
    TrialCaptions,
    TrialVideo,
    load_frozen_captions,
    load_mean_ratings,
    load_trial_captions,
    load_trial_videos,
)
from metrics_core.arrays import FloatArray
from metrics_core.trial import (
    ArmDifference,
    StudentSettings,
    TrainingPairs,
    compare_arms,
    compute_detectable_difference,
    measure_retrieval,
    train_student,
)
from metrics_core.trial.retrieval import RetrievalMeasures, compute_chance
from metrics_core.trial.student import Vectors

LEAST_TEST_VIDEOS = 50
N_SEEDS = 5


@dataclass(frozen=True)
class ArmResult:
    """The result of one arm. status: "ok", or "too_few_rows" with the reason, and no measures.

    n: its rows. mrr, recall_at_1, recall_at_5: means over seeds, test videos and both directions. seconds: for all
    seeds. difference: by how much the selection is above this arm; None for the selection itself.
    """

    name: str
    n: int
    status: str
    reason: str | None = None
    mrr: float | None = None
    recall_at_1: float | None = None
    recall_at_5: float | None = None
    seconds: float | None = None
    difference: ArmDifference | None = None


@dataclass(frozen=True)
class Trial:
    """The result of a trial of one selection. arms: the selection first, the two controls last. chance: the mean
    reciprocal rank of a random order. detectable: the least difference that the trial finds in 80 % of cases, None
    without a random arm. video_side: what the vectors of videos are made of, "frames" or "references". n_changed: rows
    whose text differs from the sample's present one; they train with the frozen text.
    """

    selection_id: int
    dataset: str
    n_train_videos: int
    n_test_videos: int
    n_left_out_videos: int
    n_changed: int
    video_side: str
    n_seeds: int
    chance: float
    detectable: float | None
    settings: StudentSettings
    arms: tuple[ArmResult, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the trial as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class _TrainedArm:
    """Reciprocal ranks (seeds, test videos) of an arm's students, their mean recalls, and the seconds they took."""

    reciprocal_rank: FloatArray
    recall_at_1: float
    recall_at_5: float
    seconds: float


def run_trial(
    engine: Engine,
    scorers: Mapping[str, Scorer],
    selection_id: int,
    others: Sequence[int],
    tell: LineWriter,
    n_seeds: int = N_SEEDS,
) -> Trial:
    """Train students on a selection and on the arms that it is compared with, and return what they reached.

    Stores nothing. scorers: by metric; frames that one of them has stored make the vectors of videos, references do
    where a video has none. others: further selections of the dataset, compared as arms. tell: takes lines of progress.
    Raises SelectionError for an unknown selection, one of a dropped or another dataset or of question-answer pairs, and
    where fewer than 50 test videos have a clean text.
    """
    settings = StudentSettings()
    with engine.connect() as connection:
        selection = require_selection(connection, selection_id)
        dataset = _require_dataset(connection, selection)
        recipe = parse_recipe(convert_rule(selection["spec"]))
    with engine.begin() as connection:
        captions = load_trial_captions(connection, dataset, recipe)
        videos = load_trial_videos(connection, dataset)
        ratings = load_mean_ratings(connection, dataset)
        frozen, *further = [_require_captions(connection, number, dataset) for number in (selection_id, *others)]
        model_id = _find_frame_model(connection, scorers)
    frames = None if model_id is None else _load_frame_vectors(engine, model_id, videos)
    captions, n_changed = _use_frozen_texts(captions, frozen)
    vectors = build_trial_vectors(captions, videos, frames)
    _require_test_videos(dataset.name, vectors)
    chosen = find_frozen_positions(vectors, captions, frozen)
    more = {
        f"selection {n}": find_frozen_positions(vectors, captions, rows)
        for n, rows in zip(others, further, strict=True)
    }
    arms = [
        build_fixed_arm(f"selection {selection_id}", chosen),
        *build_arms(captions, vectors.training, chosen, ratings, more),
        *build_controls(captions, chosen),
    ]
    results = _train_arms(arms, vectors, n_seeds, settings, tell)
    random = results.get(RANDOM)
    n_test = len(vectors.test_videos)
    return Trial(
        selection_id=selection_id,
        dataset=dataset.name,
        n_train_videos=len(vectors.videos) - n_test,
        n_test_videos=n_test,
        n_left_out_videos=vectors.n_left_out,
        n_changed=n_changed,
        video_side=vectors.video_side,
        n_seeds=n_seeds,
        chance=compute_chance(n_test),
        detectable=None if random is None else compute_detectable_difference(random.reciprocal_rank),
        settings=settings,
        arms=tuple(_build_results(arms, results)),
    )


def _require_dataset(connection: Connection, selection: RowMapping) -> Dataset:
    dataset = None if selection["dataset_id"] is None else find_dataset(connection, selection["dataset_name"])
    if dataset is None:
        raise SelectionError(
            f"selection {selection['selection_id']} cannot be tested: its dataset {selection['dataset_name']} was "
            "dropped, and a trial needs the videos and references of it"
        )
    return dataset


def _find_frame_model(connection: Connection, scorers: Mapping[str, Scorer]) -> int | None:
    """The id of the image-text encoder whose frames a scorer reads; None where none has stored any."""
    sources = (source for scorer in scorers.values() for source in scorer.sources)
    return next((source.model_id(connection) for source in sources if isinstance(source, SampledFrames)), None)


def _require_captions(connection: Connection, selection_id: int, dataset: Dataset) -> list[FrozenCaption]:
    """The rows of a selection. Raises SelectionError for one of another dataset, or with question-answer pairs."""
    selection = require_selection(connection, selection_id)
    if selection["dataset_id"] != dataset.dataset_id:
        raise SelectionError(
            f"selection {selection_id} is of dataset {selection['dataset_name']}, not of {dataset.name}: compare "
            "selections of one dataset"
        )
    rows = load_frozen_captions(connection, selection_id)
    if any(row.kind != "caption" for row in rows):
        raise SelectionError(f"selection {selection_id} holds question-answer pairs: a trial trains on captions")
    return rows


def _require_test_videos(dataset: str, vectors: TrialVectors) -> None:
    n, text = len(vectors.test_videos), "a reference" if vectors.video_side == "frames" else "two references"
    if n < LEAST_TEST_VIDEOS:
        raise SelectionError(
            f"dataset {dataset} has {format_count(n, 'test video')} with {text}, and a trial needs "
            f"{LEAST_TEST_VIDEOS}: add references or videos; a fifth of the videos test"
        )


def _use_frozen_texts(captions: TrialCaptions, frozen: Sequence[FrozenCaption]) -> tuple[TrialCaptions, int]:
    """The captions with the texts that a selection froze, and how many of these are others than now."""
    texts, position = list(captions.texts), captions.positions
    changed = [row for row in frozen if row.sample_id in position and texts[position[row.sample_id]] != row.text]
    for row in changed:
        texts[position[row.sample_id]] = row.text
    return replace(captions, texts=texts), len(changed)


def _load_frame_vectors(engine: Engine, model_id: int, videos: Sequence[TrialVideo]) -> dict[int, Vectors]:
    """The mean over time of the frames' vectors, by the id of every video that has stored frames."""
    means: dict[int, Vectors] = {}
    # The frames of a large dataset do not fit into memory, their means do.
    for ids in split_ids([video.video_id for video in videos], BATCH_SIZE):
        frames = load_frames(engine, model_id, ids)
        means |= {number: stored.features.mean(axis=0) for number, stored in frames.items() if len(stored.features)}
    return means


def _train_arms(
    arms: Sequence[Arm], vectors: TrialVectors, n_seeds: int, settings: StudentSettings, tell: LineWriter
) -> dict[str, _TrainedArm]:
    """Train the students of all arms that have enough rows, and return their measures by arm."""
    trained = {}
    for arm in arms:
        if arm.n < settings.batch:
            continue
        started = time.perf_counter()
        measures = [_train_once(arm, vectors, seed, settings) for seed in range(n_seeds)]
        seconds = time.perf_counter() - started
        trained[arm.name] = _TrainedArm(
            np.stack([each.reciprocal_rank for each in measures]),
            float(np.mean([each.recall_at_1 for each in measures])),
            float(np.mean([each.recall_at_5 for each in measures])),
            seconds,
        )
        tell(f"{arm.name}: {format_count(arm.n, 'row')}, {format_count(n_seeds, 'student')} in {seconds:.1f} s")
    return trained


def _train_once(arm: Arm, vectors: TrialVectors, seed: int, settings: StudentSettings) -> RetrievalMeasures:
    rows = arm.draw(seed)
    pairs = TrainingPairs(vectors.captions[rows.texts], vectors.video_places[rows.videos])
    student = train_student(pairs, vectors.videos, seed, settings)
    return measure_retrieval(student, vectors.test_texts, vectors.videos[vectors.test_videos])


def _build_results(arms: Sequence[Arm], trained: Mapping[str, _TrainedArm]) -> list[ArmResult]:
    """The results of all arms in their order, with the difference of the first to every other one."""
    first, *others = arms
    differences: dict[str, ArmDifference] = {}
    if first.name in trained:
        compared = {arm.name: trained[arm.name].reciprocal_rank for arm in others if arm.name in trained}
        differences = compare_arms(trained[first.name].reciprocal_rank, compared)
    results = []
    for arm in arms:
        if arm.name not in trained:
            reason = f"{format_count(arm.n, 'training row')}: fewer than a batch"
            results.append(ArmResult(arm.name, arm.n, "too_few_rows", reason))
            continue
        found = trained[arm.name]
        results.append(
            ArmResult(
                name=arm.name,
                n=arm.n,
                status="ok",
                mrr=float(found.reciprocal_rank.mean()),
                recall_at_1=found.recall_at_1,
                recall_at_5=found.recall_at_5,
                seconds=found.seconds,
                difference=differences.get(arm.name),
            )
        )
    return results
