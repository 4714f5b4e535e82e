"""Answers of a judge about the texts of samples (table `judge_answer`); rows are mappings by column.

The model of an answer stands for the judge with its prompt and the form in which it is shown a video.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection, Engine

from db.schema import judge_answer, sample
from db.server.locking import lock_ids
from db.sql import read_sql

Row: TypeAlias = Mapping[str, Any]
_KEY = ("sample_id", "model_id", "repeat")


class RepeatedAnswer(NamedTuple):
    """An answer of a judge that was asked again about a sample: the sample, its video and system, and the value."""

    sample_id: int
    video_id: int
    system: str
    value: float


def store_judge_answers(engine: Engine, model_id: int, run_id: str, answers: Sequence[Row]) -> int:
    """Store answers in one transaction, in place of older ones, and return how many were stored. An answer without a
    score does not replace one with a score about the same text and video. An answer whose sample was deleted is left
    out.

    answers: columns of `judge_answer`, without model and run. context_sha256: the digest of what was judged.
    """
    columns = judge_answer.c
    with engine.begin() as connection:
        samples = lock_ids(connection, sample.c.sample_id, [answer["sample_id"] for answer in answers])
        rows = [
            {**answer, "model_id": model_id, "run_id": run_id}
            for answer in sorted(answers, key=lambda answer: (answer["sample_id"], answer["repeat"]))
            if answer["sample_id"] in samples
        ]
        if not rows:
            return 0
        new = insert(judge_answer).values(rows)
        replaced = {name: new.excluded[name] for name in rows[0] if name not in _KEY}
        is_better = sa.or_(
            columns.context_sha256 != new.excluded.context_sha256, columns.status != "ok", new.excluded.status == "ok"
        )
        written = new.on_conflict_do_update(
            index_elements=_KEY, set_={**replaced, "answered_at": sa.func.now()}, where=is_better
        )
        return len(connection.scalars(written.returning(columns.sample_id)).all())


def load_judge_answers(
    connection: Connection, model_id: int, sample_ids: Collection[int], n_answers: int
) -> dict[tuple[int, int], Row]:
    """Load a judge's first `n_answers` answers about every given sample, as {(sample id, number of the answer from
    0): columns of `judge_answer`}; answers that it never gave are left out. An answer stays in the result even if its
    text or video has changed since.
    """
    columns = judge_answer.c
    query = sa.select(judge_answer).where(
        columns.model_id == model_id, columns.sample_id.in_(sample_ids), columns.repeat < n_answers
    )
    return {(row["sample_id"], row["repeat"]): dict(row) for row in connection.execute(query).mappings()}


def list_unrepeated_samples(
    connection: Connection, model_id: int | None, scorer_id: int, dataset_id: int, metric: str
) -> list[tuple[int, int]]:
    """List (sample id, shard), by sample id, of a dataset's samples with a current score by the scorer that need
    further answers of its judge. metric: whose draws set the number of answers. model_id: None for a judge that was
    never asked; then the list is empty.
    """
    values = {"model_id": model_id, "scorer_id": scorer_id, "dataset_id": dataset_id, "metric": metric}
    return [tuple(row) for row in connection.execute(sa.text(read_sql("unrepeated_samples")), values)]


def load_repeated_answers(
    connection: Connection, model_id: int, scorer_id: int, dataset_id: int
) -> list[RepeatedAnswer]:
    """Load the values that a judge gave when it was asked again about samples of a dataset, by sample id and number of
    the answer. Only samples with a current value by the scorer, and answers about their present text and video, count;
    first answers do not, since they are given at another temperature.
    """
    values = {"model_id": model_id, "scorer_id": scorer_id, "dataset_id": dataset_id}
    return [RepeatedAnswer(*row) for row in connection.execute(sa.text(read_sql("repeated_answers")), values)]
