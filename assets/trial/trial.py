"""A training trial of a selection: splits the videos, has students trained on all arms, compares and stores them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from sqlalchemy.engine import Connection, Engine, RowMapping

from assets.datasets.leases import hold_datasets
from assets.progress import LineWriter
from assets.scores.base import Scorer
from assets.trial.arms import RANDOM, Arm, TrialRun
from assets.trial.parts import TrialParts, compute_digest
from assets.trial.setup import Trainer, TrialRequest, prepare_trial
from assets.words.text import format_count
from db.manifest.datasets import Dataset, find_dataset
from db.selection.recipes import SelectionError, build_recipe
from db.selection.stored_selections import require_selection
from db.selection.trials import ArmResult, TrainedRun, Trial, load_run, store_run, store_trial
from metrics_core.arrays import FloatArray
from metrics_core.trial.comparison import compare_arms, compute_detectable_difference
from metrics_core.trial.student import find_best_step


def run_trial(
    engine: Engine, scorers: Mapping[str, Scorer], home: Path, request: TrialRequest, tell: LineWriter
) -> Trial:
    """Train students on a selection and on the arms that it is compared with, and return what they reached. The trial
    is stored, unless the selection itself has no value.

    A run that is stored is not trained again, so a trial that was killed continues, and several machines share the runs
    of the same trial. scorers: by metric; frames that one of them has stored make the vectors of videos, references do
    where a video has none. home: the home folder, for the folders of an own trainer. tell: takes lines of progress.
    Raises SelectionError for an unknown selection, one of a dropped or another dataset or of question-answer pairs, and
    where fewer than 50 test videos have a clean text.
    """
    with engine.connect() as connection:
        selection = require_selection(connection, request.selection_id)
    with hold_datasets(engine, selection["dataset_name"]) as leases:
        with engine.connect() as connection:
            dataset = _require_dataset(connection, selection)
        recipe = build_recipe(selection["spec"])
        parts, arms, trainer = prepare_trial(engine, scorers, home, dataset, recipe, request, tell)
        runs = {arm.name: list(_list_runs(arm, parts, trainer, request.n_seeds)) for arm in arms}
        by_name: dict[str, TrialRun] = {}
        for run in (run for of_arm in runs.values() for run in of_arm):
            by_name.setdefault(f"trial run {run.sha256}", run)

        def wait(name: str) -> None:
            tell(f"waits for {by_name[name].arm}, which {leases.find_holder(name) or 'another process'} trains")

        done: dict[str, TrainedRun] = {}
        for (name,) in leases.take_in_turn(by_name, wait):
            run = by_name[name]
            done[run.sha256] = trained = _train(engine, dataset, trainer, run)
            tell(f"{len(done):,} of {format_count(len(by_name), 'student')}: {_describe(run, trained)}")
        trial = _build_trial(request, dataset, parts, trainer, arms, runs, done)
        if trial.arms[0].value is None:
            return trial
        with engine.begin() as connection:
            return replace(trial, trial_id=store_trial(connection, trial))


def _require_dataset(connection: Connection, selection: RowMapping) -> Dataset:
    """The dataset that has the name of a selection's dataset; it may have been dropped and ingested again."""
    name = selection["dataset_name"]
    dataset = find_dataset(connection, name)
    if dataset is None:
        raise SelectionError(
            f"selection {selection['selection_id']} cannot be tested: its dataset {name} was dropped, and a trial "
            f"needs its videos and references; ingest it again as {name}, then the frozen texts train"
        )
    return dataset


def _list_runs(arm: Arm, parts: TrialParts, trainer: Trainer, n_seeds: int) -> Iterator[TrialRun]:
    """Yield the runs of an arm. Equal rows have equal digests in all arms, and are trained once."""
    captions, keys = parts.captions, {video.video_id: video.key for video in parts.train_videos}
    identity, held_out = dict(trainer.identity), parts.held_out_sha256
    for seed in range(n_seeds):
        of_texts, of_videos = arm.draw(seed)
        texts = [captions.texts[place] for place in of_texts.tolist()]
        videos = [keys[number] for number in captions.video_ids[of_videos].tolist()]
        rows_sha256 = compute_digest({"held_out": held_out, "rows": [texts, videos], "seed": seed})
        sha256 = compute_digest([identity, rows_sha256])
        yield TrialRun(arm.name, seed, of_texts, of_videos, rows_sha256, sha256)


def _train(engine: Engine, dataset: Dataset, trainer: Trainer, run: TrialRun) -> TrainedRun:
    """The stored result of a run, or that of the trainer, which is stored."""
    with engine.connect() as connection:
        stored = load_run(connection, run.sha256) if trainer.keeps_runs else None
    if stored is not None and stored.status == "ok":
        return stored
    trained = trainer.train(run)
    with engine.begin() as connection:
        store_run(connection, run.sha256, dataset.dataset_id, trained)
    return trained


def _describe(run: TrialRun, trained: TrainedRun) -> str:
    reached = (
        trained.reason if trained.measure is None else f"{trained.measure} {trained.measures[trained.measure]:.3f}"
    )
    return f"{run.arm}, seed {run.seed}, {reached}"


def _build_trial(
    request: TrialRequest,
    dataset: Dataset,
    parts: TrialParts,
    trainer: Trainer,
    arms: Sequence[Arm],
    runs: Mapping[str, Sequence[TrialRun]],
    done: Mapping[str, TrainedRun],
) -> Trial:
    """The trial with all arms compared: those of the curve with the best share, the others with the selection.

    runs: by arm. done: what they reached, by their digest.
    """
    trained = {arm.name: [done[run.sha256] for run in runs[arm.name]] for arm in arms}
    rows = {arm.name: compute_digest([run.rows_sha256 for run in runs[arm.name]]) for arm in arms}
    measure = next((str(each[0].measure) for each in trained.values() if _find_failure(each) is None), "none")
    results = {arm.name: _summarise_arm(arm, rows[arm.name], trained[arm.name], measure) for arm in arms}
    values = _stack_values({name: trained[name] for name, result in results.items() if result.status == "ok"})
    first, curve = arms[0].name, [arm.name for arm in arms if arm.share is not None]
    best = max((name for name in curve if name in values), key=lambda name: values[name].mean(), default=None)
    max_steps = trainer.settings.get("max_steps", 0)
    for reference, names in ((first, [name for name in results if name not in curve]), (best, curve)):
        if reference in values:
            results |= _compare(reference, {name: results[name] for name in names}, values, max_steps)
    random = values.get(RANDOM) if first in values else None
    return Trial(
        selection_id=request.selection_id,
        dataset=dataset.name,
        trial_sha256=compute_digest([dict(trainer.identity), list(results), list(rows.values())]),
        trainer=trainer.name,
        measure=measure,
        n_seeds=request.n_seeds,
        n_train_videos=len(parts.train_videos),
        n_left_out_videos=parts.n_left_out,
        n_validation_videos=len(parts.validation_videos),
        n_test_videos=len(parts.test_videos),
        n_changed=parts.n_changed,
        test_sha256=parts.test_sha256,
        video_side=trainer.video_side,
        chance=trainer.chance,
        detectable=None if random is None else compute_detectable_difference(values[first], random),
        settings={**trainer.settings, "clean_texts": parts.clean_texts},
        arms=tuple(results.values()),
    )


def _find_failure(runs: Sequence[TrainedRun]) -> tuple[str, str | None] | None:
    """Status and reason of an arm's first run without values; None if all have some, of the same measure."""
    for seed, run in enumerate(runs):
        if run.status != "ok":
            return run.status, run.reason if run.status == "too_few_rows" else f"seed {seed}: {run.reason}"
    if len({run.measure for run in runs}) > 1 or len({len(run.test_values) for run in runs}) > 1:
        return "bad_output", "its seeds have different measures: print the same measure first in all runs"
    return None


def _summarise_arm(arm: Arm, rows_sha256: str, runs: Sequence[TrainedRun], measure: str) -> ArmResult:
    """The means of an arm's runs; a status and a reason where they have no value, or not of the deciding measure."""
    result, failure = ArmResult(arm.name, arm.n, rows_sha256, share=arm.share), _find_failure(runs)
    if failure is None and runs[0].measure != measure:
        failure = "bad_output", f"its first measure is {runs[0].measure}, while {measure} is compared"
    if failure is not None:
        status, reason = failure
        return replace(result, status=status, reason=reason)
    curves = [run.curve for run in runs]
    reached = [step for step in curves[0] if all(step in curve for curve in curves)]
    return replace(
        result,
        value=float(np.array([run.test_values for run in runs], dtype=np.float64).mean()),
        measures={
            name: float(np.mean([run.measures[name] for run in runs if name in run.measures]))
            for name in runs[0].measures
        },
        seconds=sum(run.seconds or 0.0 for run in runs),
        steps=round(float(np.median([find_best_step(curve) for curve in curves]))) if reached else None,
        curve={step: float(np.mean([curve[step] for curve in curves])) for step in reached},
    )


def _stack_values(runs: Mapping[str, Sequence[TrainedRun]]) -> dict[str, FloatArray]:
    """The deciding measure of every arm by seed and test video (seeds, videos); in total (seeds, 1) where one has no
    more.
    """
    values = {name: np.array([run.test_values for run in each], dtype=np.float64) for name, each in runs.items()}
    if min((each.shape[1] for each in values.values()), default=1) == 1:
        return {name: each.mean(axis=1, keepdims=True) for name, each in values.items()}
    return values


def _compare(
    reference: str, arms: Mapping[str, ArmResult], values: Mapping[str, FloatArray], max_steps: int
) -> dict[str, ArmResult]:
    """The arms that an arm is compared with, with their differences. arms: by name, the reference included."""
    first = arms[reference]
    # An arm of the same rows needs no comparison, which would only weigh on the others.
    compared = {
        name: values[name] for name, arm in arms.items() if name in values and arm.rows_sha256 != first.rows_sha256
    }
    found = {}
    for name, difference in compare_arms(values[reference], compared).items():
        shown = asdict(difference)
        shown["difference"] = shown.pop("value")
        # Students that would still improve show what a budget of steps makes of them, and not more.
        if max_steps in (arms[name].steps, first.steps):
            shown |= {"conclusion": "open", "n_more_videos": 0}
        found[name] = replace(arms[name], compared_with=reference, **shown)
    return found
