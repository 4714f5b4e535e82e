"""Training trials as they are stored: their arms with what they reached, and the runs of single students."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection, RowMapping

from db.schema import selection, selection_trial, trial_arm, trial_run


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
    rows_sha256: bytes
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
    """A training trial of a selection. arms: the selection first, then arms that it is compared with, the curve, and
    the two controls.

    dataset: its name. trial_sha256: the digest of everything that decides the result. trainer: what was trained, for
    people. measure: the name of the deciding measure. n_validation_videos: the videos that stop the training of
    students. n_changed: rows whose sample changed or is
    gone; they train with the frozen text. test_sha256: the digest of the test videos' keys and texts. video_side: what
    a student gets of a video: "frames", "references", "media", or words with an encoder's name. chance: the measure of
    a random order; detectable: the smallest difference that the trial finds in 80 % of cases; both None where unknown.
    trial_id, tried_at: None before it is stored.
    """

    selection_id: int
    dataset: str
    trial_sha256: bytes
    trainer: str
    measure: str
    n_seeds: int
    n_train_videos: int
    n_left_out_videos: int
    n_validation_videos: int
    n_test_videos: int
    n_changed: int
    test_sha256: bytes
    video_side: str
    chance: float | None
    detectable: float | None
    settings: Mapping[str, Any]
    arms: tuple[ArmResult, ...]
    trial_id: int | None = None
    tried_at: datetime | None = None

    @property
    def curve(self) -> list[ArmResult]:
        """The arms of the curve that have a value, by rising share."""
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


def load_run(connection: Connection, run_sha256: bytes) -> TrainedRun | None:
    """Load what a model reached whose rows, test, trainer and seed have this digest; None if none is stored."""
    columns = [trial_run.c[name] for name in TrainedRun._fields]
    row = connection.execute(sa.select(*columns).where(trial_run.c.run_sha256 == run_sha256)).one_or_none()
    if row is None:
        return None
    return TrainedRun(*row)._replace(test_values=tuple(row.test_values), curve=_read_curve(row.curve))


def store_run(connection: Connection, run_sha256: bytes, dataset_id: int, run: TrainedRun) -> None:
    """Store what a model reached, in place of an earlier run of the same digest."""
    values = {**run._asdict(), "test_values": list(run.test_values), "dataset_id": dataset_id}
    statement = insert(trial_run).values(run_sha256=run_sha256, **values)
    changed = {**values, "trained_at": sa.func.now()}
    connection.execute(statement.on_conflict_do_update(index_elements=["run_sha256"], set_=changed))


def store_trial(connection: Connection, trial: Trial) -> int:
    """Store a trial and its arms, in place of one with the same digest, and return its number."""
    columns = {
        column.name: getattr(trial, column.name)
        for column in selection_trial.columns
        if column.name not in ("trial_id", "tried_at")
    }
    statement = insert(selection_trial).values(columns)
    trial_id = connection.execute(
        statement.on_conflict_do_update(
            constraint="uq_selection_trial_selection_id_trial_sha256", set_={**columns, "tried_at": sa.func.now()}
        ).returning(selection_trial.c.trial_id)
    ).scalar_one()
    connection.execute(sa.delete(trial_arm).where(trial_arm.c.trial_id == trial_id))
    rows = [{"trial_id": trial_id, "place": place, **asdict(arm)} for place, arm in enumerate(trial.arms)]
    connection.execute(sa.insert(trial_arm), rows)
    return int(trial_id)


def load_trials(connection: Connection, selection_id: int) -> list[Trial]:
    """Load the stored trials of a selection, the newest first."""
    return _load_trials(connection, selection.c.selection_id == selection_id)


def load_dataset_trials(connection: Connection, dataset_id: int) -> list[Trial]:
    """Load the stored trials of a dataset's selections, the newest first."""
    return _load_trials(connection, selection.c.dataset_id == dataset_id)


def choose_newest_trials(trials: Sequence[Trial]) -> tuple[Trial, ...]:
    """Return the first trial of every selection in a list."""
    newest: dict[int, Trial] = {}
    for trial in trials:
        newest.setdefault(trial.selection_id, trial)
    return tuple(newest.values())


def _load_trials(connection: Connection, condition: sa.ColumnElement[bool]) -> list[Trial]:
    query = sa.select(selection_trial, selection.c.dataset_name).join(selection).where(condition)
    order = (selection_trial.c.tried_at.desc(), selection_trial.c.trial_id.desc())
    return [_load_trial(connection, row) for row in connection.execute(query.order_by(*order)).mappings()]


def _load_trial(connection: Connection, row: RowMapping) -> Trial:
    query = sa.select(trial_arm).where(trial_arm.c.trial_id == row["trial_id"]).order_by(trial_arm.c.place)
    fields = {name: row[name] for name in Trial.__dataclass_fields__ if name in row}
    digests = {name: bytes(row[name]) for name in ("trial_sha256", "test_sha256")}
    arms = tuple(
        ArmResult(
            **{
                **{name: arm[name] for name in ArmResult.__dataclass_fields__},
                "rows_sha256": bytes(arm["rows_sha256"]),
                "curve": _read_curve(arm["curve"]),
            }
        )
        for arm in connection.execute(query).mappings()
    )
    return Trial(**{**fields, **digests, "dataset": row["dataset_name"], "arms": arms})


def _read_curve(stored: Mapping[str, float]) -> dict[int, float]:
    """A curve whose steps JSON holds as text, in the order of its steps."""
    return {step: stored[str(step)] for step in sorted(map(int, stored))}
