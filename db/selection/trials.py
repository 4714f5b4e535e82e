"""Training trials as they are stored, rows with JSON: their arms with what they reached, and single students."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection, RowMapping

from db.schema import selection, selection_trial, trial_run

# Columns of their own; all else of a trial is its result.
_COLUMNS = ("selection_id", "dataset", "trial_sha256", "trial_id", "tried_at")


@dataclass(frozen=True)
class ArmResult:
    """The result of one arm of a trial: what its students reached.

    n: number of training rows. status: "ok", or why there is no value, with the reason. share: the share of the
    captions, for an arm of the curve. value: the mean of the deciding measure over seeds and test videos; measures: the
    means of all measures. seconds: for all seeds. steps: the median of the steps after which built-in students were
    best; curve: their mean reciprocal rank of the validation videos by step, up to the last common one. difference:
    by how much the arm `compared_with` is above this one, with its 95 % interval, corrected p-value and conclusion, and
    the number of test videos that an open one lacks; None without a value, and for the arm that others are compared
    with.
    """

    arm: str
    n: int
    rows_sha256: str
    status: str = "ok"
    reason: str | None = None
    share: float | None = None
    value: float | None = None
    measures: Mapping[str, float] = field(default_factory=dict)
    seconds: float | None = None
    steps: int | None = None
    curve: Mapping[int, float] = field(default_factory=dict)
    compared_with: str | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    conclusion: str | None = None
    n_more_videos: int | None = None


@dataclass(frozen=True)
class Trial:
    """A training trial of a selection. arms: the selection first, then the arms that it is compared with, the arms of
    the curve, and the two controls.

    dataset: its name. trial_sha256: the digest of everything that decides the result, in hexadecimal digits like all
    digests. trainer: what was trained, for people. measure: the name of the deciding measure. n_validation_videos: the
    videos that stop the training of students. n_changed: rows whose sample changed or is gone; they train with the
    frozen text. test_sha256: the digest of the test videos' keys and texts. video_side: what a student gets of a video:
    "frames", "references", "media", or words with an encoder's name. chance: the measure of a random order; detectable:
    the smallest difference that the trial finds in 80 % of cases; both None where unknown. trial_id, tried_at: None
    before it is stored.
    """

    selection_id: int
    dataset: str
    trial_sha256: str
    trainer: str
    measure: str
    n_seeds: int
    n_train_videos: int
    n_left_out_videos: int
    n_validation_videos: int
    n_test_videos: int
    n_changed: int
    test_sha256: str
    video_side: str
    chance: float | None
    detectable: float | None
    settings: Mapping[str, Any]
    arms: tuple[ArmResult, ...]
    trial_id: int | None = None
    tried_at: datetime | None = None

    @property
    def curve(self) -> list[ArmResult]:
        """The arms with a value that make the curve over shares of the rows, by rising share."""
        arms = [arm for arm in self.arms if arm.share is not None and arm.value is not None]
        return sorted(arms, key=lambda arm: arm.share or 0.0)


class TrainedRun(NamedTuple):
    """The result of one trained model. status: "ok", or why there are no values, with the reason.

    measure: the name of the deciding measure; test_values: its value for every test video in order, or only one for all
    of them. measures: the means of all measures. curve: the mean reciprocal rank of the validation videos by step, of a
    built-in student.
    """

    status: str
    reason: str | None = None
    measure: str | None = None
    test_values: tuple[float, ...] = ()
    measures: Mapping[str, float] = {}
    seconds: float | None = None
    curve: Mapping[int, float] = {}


def load_run(connection: Connection, run_sha256: str) -> TrainedRun | None:
    """Load the result of a trained model by the digest of its rows, test, trainer and seed; None if none is stored."""
    is_this = trial_run.c.run_sha256 == bytes.fromhex(run_sha256)
    result = connection.scalar(sa.select(trial_run.c.result).where(is_this))
    if result is None:
        return None
    run = TrainedRun(**result)
    return run._replace(test_values=tuple(run.test_values), curve=_read_curve(result["curve"]))


def store_run(connection: Connection, run_sha256: str, dataset_id: int, run: TrainedRun) -> None:
    """Store the result of a trained model, in place of an earlier run of the same digest."""
    values = {"dataset_id": dataset_id, "result": run._asdict(), "trained_at": sa.func.now()}
    statement = insert(trial_run).values(run_sha256=bytes.fromhex(run_sha256), **values)
    connection.execute(statement.on_conflict_do_update(index_elements=["run_sha256"], set_=values))


def store_trial(connection: Connection, trial: Trial) -> int:
    """Store a trial, in place of one with the same digest, and return its number."""
    result = {name: value for name, value in asdict(trial).items() if name not in _COLUMNS}
    keys = {"selection_id": trial.selection_id, "trial_sha256": bytes.fromhex(trial.trial_sha256)}
    values = {"result": result, "tried_at": sa.func.now()}
    statement = insert(selection_trial).values(**keys, **values)
    replacing = statement.on_conflict_do_update(index_elements=list(keys), set_=values)
    return int(connection.execute(replacing.returning(selection_trial.c.trial_id)).scalar_one())


def load_trials(
    connection: Connection, *, selection_id: int | None = None, dataset_id: int | None = None
) -> list[Trial]:
    """Load the stored trials of a selection, or of all selections of a dataset, the newest first."""
    stored, given = selection_trial.c, {"selection_id": selection_id, "dataset_id": dataset_id}
    query = sa.select(selection_trial, selection.c.dataset_name.label("dataset")).join(selection)
    query = query.where(*[selection.c[name] == number for name, number in given.items() if number is not None])
    rows = connection.execute(query.order_by(stored.tried_at.desc(), stored.trial_id.desc())).mappings()
    return [_read_trial(row) for row in rows]


def _read_trial(row: RowMapping) -> Trial:
    result = row["result"]
    arms = [ArmResult(**{**arm, "curve": _read_curve(arm["curve"])}) for arm in result["arms"]]
    columns = {name: row[name] for name in _COLUMNS}
    return Trial(**{**columns, **result, "trial_sha256": bytes(row["trial_sha256"]).hex(), "arms": tuple(arms)})


def _read_curve(stored: Mapping[str, float]) -> dict[int, float]:
    """A curve whose steps JSON holds as text, in the order of its steps."""
    return {step: stored[str(step)] for step in sorted(map(int, stored))}
