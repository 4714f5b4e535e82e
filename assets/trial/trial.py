"""A training trial of a selection: splits the videos, has students trained on all arms, compares and stores them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
from sqlalchemy.engine import Connection, Engine, RowMapping

from assets.datasets.leases import hold_datasets
from assets.progress import LineWriter
from assets.scores.base import Scorer
from assets.trial.arms import RANDOM, Arm, TrialRun
from assets.trial.parts import TrialParts, compute_digest
from assets.trial.setup import TrialRequest, TrialSetup, prepare_trial
from assets.trial.trainer import Trainer
from assets.words.text import format_count
from db.manifest.datasets import Dataset, find_dataset
from db.selection.recipes import SelectionError, build_recipe
from db.selection.stored_selections import require_selection
from db.selection.trials import ArmResult, TrainedRun, Trial, load_run, store_run, store_trial
from metrics_core.arrays import FloatArray
from metrics_core.trial import compare_arms, compute_detectable_difference, find_best_step


@dataclass(frozen=True)
class _TrainedArm:
    """The runs of an arm by seed, with the digest of its rows in all seeds."""

    arm: Arm
    rows_sha256: bytes
    runs: list[TrainedRun] = field(default_factory=list)

    @property
    def failure(self) -> tuple[str, str | None] | None:
        """Status and reason of the first run without values; None if all have some."""
        for seed, run in enumerate(self.runs):
            if run.status != "ok":
                return run.status, run.reason if run.status == "too_few_rows" else f"seed {seed}: {run.reason}"
        if len({run.measure for run in self.runs}) > 1 or len({len(run.test_values) for run in self.runs}) > 1:
            return "bad_output", "its seeds have different measures: print the same measure first in all runs"
        return None

    @property
    def values(self) -> FloatArray:
        """The deciding measure by seed and test video (seeds, videos), or in total (seeds, 1)."""
        return np.array([run.test_values for run in self.runs], dtype=np.float64)


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
        setup = prepare_trial(engine, scorers, home, dataset, recipe, request, tell)
        parts, arms, trainer = setup.parts, setup.arms, setup.trainer
        runs = [run for arm in arms for run in _list_runs(arm, parts, trainer, request.n_seeds)]
        done: dict[bytes, TrainedRun] = {}
        by_name: dict[str, TrialRun] = {}
        for run in runs:
            by_name.setdefault(f"trial run {run.sha256.hex()}", run)

        def wait(name: str) -> None:
            tell(f"waits for {by_name[name].arm}, which {leases.find_holder(name) or 'another process'} trains")

        for (name,) in leases.take_in_turn(by_name, wait):
            run = by_name[name]
            done[run.sha256] = _train(engine, dataset, trainer, run)
            tell(f"{len(done):,} of {format_count(len(by_name), 'student')}: {_describe(run, done[run.sha256])}")
        trained = [_collect(arm, [run for run in runs if run.arm == arm.name], done) for arm in arms]
        trial = _build_trial(request, dataset, setup, trained)
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
            f"needs its videos and references; ingest it again as {name}, and the frozen texts train"
        )
    return dataset


def _list_runs(arm: Arm, parts: TrialParts, trainer: Trainer, n_seeds: int) -> Iterator[TrialRun]:
    """Yield the runs of an arm. Equal rows have equal digests in all arms, and are trained once."""
    captions, keys = parts.captions, {video.video_id: video.key for video in parts.train_videos}
    identity, held_out = dict(trainer.identity), parts.held_out_sha256.hex()
    for seed in range(n_seeds):
        rows = arm.draw(seed)
        texts = [captions.texts[place] for place in rows.texts.tolist()]
        videos = [keys[number] for number in captions.video_ids[rows.videos].tolist()]
        rows_sha256 = compute_digest({"held_out": held_out, "rows": [texts, videos], "seed": seed})
        yield TrialRun(arm.name, seed, rows, rows_sha256, compute_digest([identity, rows_sha256.hex()]))


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


def _collect(arm: Arm, runs: Sequence[TrialRun], done: Mapping[bytes, TrainedRun]) -> _TrainedArm:
    return _TrainedArm(arm, compute_digest([run.rows_sha256.hex() for run in runs]), [done[run.sha256] for run in runs])


def _build_trial(request: TrialRequest, dataset: Dataset, setup: TrialSetup, trained: Sequence[_TrainedArm]) -> Trial:
    """The trial with all arms compared: those of the curve with the best share, the others with the selection."""
    parts, trainer = setup.parts, setup.trainer
    measure = next((str(arm.runs[0].measure) for arm in trained if arm.failure is None), "none")
    complete = [arm for arm in trained if arm.failure is None and arm.runs[0].measure == measure]
    by_total = min((arm.values.shape[1] for arm in complete), default=1) == 1
    values = {arm.arm.name: arm.values.mean(axis=1, keepdims=True) if by_total else arm.values for arm in complete}
    curve = [arm.arm.name for arm in trained if arm.arm.share is not None]
    best = max((name for name in curve if name in values), key=lambda name: values[name].mean(), default=None)
    first = trained[0].arm.name
    results = {arm.arm.name: _build_result(arm, measure) for arm in trained}
    for reference, names in ((first, [name for name in results if name not in curve]), (best, curve)):
        # An arm of the same rows needs no comparison, which would only weigh on the others.
        rows = results[reference].rows_sha256 if reference else None
        compared = {name: values[name] for name in names if name in values and results[name].rows_sha256 != rows}
        if reference in values and compared:
            for name, difference in compare_arms(values[reference], compared).items():
                shown = asdict(difference)
                shown["difference"] = shown.pop("value")
                # Students that would still improve show what a budget of steps makes of them, and not more.
                if any(results[each].steps == trainer.settings.get("max_steps", 0) for each in (name, reference)):
                    shown |= {"conclusion": "open", "n_more_videos": 0}
                results[name] = replace(results[name], compared_with=reference, **shown)
    random = values.get(RANDOM) if first in values else None
    digests = [arm.rows_sha256.hex() for arm in trained]
    return Trial(
        selection_id=request.selection_id,
        dataset=dataset.name,
        trial_sha256=compute_digest([dict(trainer.identity), list(results), digests]),
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
        settings={**trainer.settings, "clean_texts": setup.clean_texts},
        arms=tuple(results.values()),
    )


def _build_result(trained: _TrainedArm, measure: str) -> ArmResult:
    arm = ArmResult(trained.arm.name, trained.arm.n, trained.rows_sha256, share=trained.arm.share)
    if trained.failure is not None:
        status, reason = trained.failure
        return replace(arm, status=status, reason=reason)
    if trained.runs[0].measure != measure:
        reason = f"its first measure is {trained.runs[0].measure}, while {measure} is compared"
        return replace(arm, status="bad_output", reason=reason)
    means = {
        name: float(np.mean([run.measures[name] for run in trained.runs if name in run.measures]))
        for name in trained.runs[0].measures
    }
    curves = [run.curve for run in trained.runs]
    reached = [step for step in curves[0] if all(step in curve for curve in curves)]
    return replace(
        arm,
        value=float(trained.values.mean()),
        measures=means,
        seconds=sum(run.seconds or 0.0 for run in trained.runs),
        steps=round(float(np.median([find_best_step(curve) for curve in curves]))) if reached else None,
        curve={step: float(np.mean([curve[step] for curve in curves])) for step in reached},
    )
