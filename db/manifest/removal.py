"""Drop datasets and imported scores. Frozen selections keep their rows and the dataset's name."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.schema import (
    METADATA,
    dataset,
    frame_embedding,
    frame_set,
    keypoint,
    qeva_question_set,
    sample,
    score,
    scorer,
    selection,
    selection_item,
    video,
)
from db.schema.marks import lock_shards
from db.scores.imported_scores import list_imported_scorers
from db.scores.store import activate_scorer, find_active_scorer

# Tables whose rows are counted for people, with the plural word for a row.
TABLE_WORDS = {
    "video": "videos",
    "reference": "references",
    "keypoint": "keypoints",
    "sample": "samples",
    "rating": "ratings",
    "preference": "preferences",
    "keypoint_label": "labels on keypoints",
    "remark": "tags and notes",
    "saved_view": "saved views",
    "attention_check": "answers to attention checks",
    "wrong_span": "marks on wrong words",
    "score": "scores",
    "past_score": "replaced scores",
    "ecs_verdict": "verdicts on keypoints",
    "qeva_question": "questions",
    "qeva_answer": "answers",
    "frame_embedding": "vectors of frames",
    "video_embedding": "vectors of videos",
    "keypoint_threshold": "thresholds on keypoints",
    "score_threshold": "thresholds on scores",
    "agreement": "rows of agreement",
    "estimated_mean": "estimated means",
    "ingest_reject": "refused rows",
}
# Columns that relate a row to a dataset through another table; the first one that a table has is used.
_PARENT_TABLES: dict[str, sa.Table] = {
    "sample_id": sample,
    "video_id": video,
    "keypoint_id": keypoint,
    "question_set_id": qeva_question_set,
}


def count_contents(connection: Connection, target: Dataset, scorers: Collection[int] | None = None) -> dict[str, int]:
    """Count the rows of a dataset in the tables of TABLE_WORDS, as {"videos": 7, "references": 9} and so on; tables
    without rows are left out. scorers: count only rows made by scorers with these ids, such as scores and verdicts;
    None for all rows.
    """
    counts = {words: count_dataset_rows(connection, target, name, scorers) for name, words in TABLE_WORDS.items()}
    return {words: n for words, n in counts.items() if n}


def count_dataset_rows(
    connection: Connection, target: Dataset, name: str, scorers: Collection[int] | None = None
) -> int:
    """Return the number of rows of one table that belong to a dataset, by their own column or through other tables;
    vectors of frames count in files too. name: of the table. scorers: count only rows made by scorers with these ids;
    then 0 for a table without scorers.
    """
    table = METADATA.tables[name]
    if scorers is not None and not _is_of_scorer(table):
        return 0
    conditions = [_build_dataset_condition(table, target.dataset_id)] + (
        [] if scorers is None else [_build_scorer_condition(table, scorers)]
    )
    count = connection.scalar(sa.select(sa.func.count()).select_from(table).where(*conditions)) or 0
    if table is not frame_embedding:
        return count
    of_dataset = _build_dataset_condition(frame_set, target.dataset_id)
    n_sampled = sa.func.coalesce(sa.func.sum(frame_set.c.n_sampled), 0)
    return count + (connection.scalar(sa.select(n_sampled).where(of_dataset, frame_set.c.file_id.is_not(None))) or 0)


def count_selections(connection: Connection, target: Dataset) -> int:
    """Return the number of frozen selections that were made from a dataset."""
    count = sa.select(sa.func.count()).where(selection.c.dataset_id == target.dataset_id)
    return connection.scalar(count) or 0


def delete_dataset(connection: Connection, target: Dataset) -> None:
    """Delete a dataset and all its rows, scores and evidence; its frozen selections stay. Vectors and entailments of
    texts and replies of model servers stay too, since several datasets may share them. Waits for an ingest in progress,
    and does not commit.

    Imported scorers without any other score are deleted. If a metric of these then has no active scorer, its newest one
    with a score becomes active.
    """
    _lock(connection, target)
    lock_shards(connection, target.dataset_id)
    # Only now: a batch of scores that holds its shard writes rows that point to the dataset.
    _lock(connection, target, is_exclusive=True)
    imported = list_imported_scorers(connection, target.dataset_id)
    # From the leaves on, every table at once: cascades would delete row by row and call the triggers for every row.
    for table in reversed(METADATA.sorted_tables):
        if table not in (selection, selection_item) and _leads_to_dataset(table):
            connection.execute(sa.delete(table).where(_build_dataset_condition(table, target.dataset_id)))
    connection.execute(sa.delete(dataset).where(dataset.c.dataset_id == target.dataset_id))
    _delete_unused_scorers(connection, imported)


def delete_imported_scores(connection: Connection, target: Dataset, scorers: Collection[int]) -> None:
    """Delete all that these imported scorers have in a dataset: scores, replaced scores, thresholds and the like.
    Scorers that then have no score in any dataset are deleted too. Waits for an ingest in progress, and does not
    commit. scorers: their ids.

    If a metric of the deleted scorers then has no active one, its newest scorer with a score becomes active.
    """
    _lock(connection, target)
    lock_shards(connection, target.dataset_id)
    for table in reversed(METADATA.sorted_tables):
        if _is_of_scorer(table):
            connection.execute(
                sa.delete(table).where(
                    _build_dataset_condition(table, target.dataset_id), _build_scorer_condition(table, scorers)
                )
            )
    _delete_unused_scorers(connection, scorers)


def _lock(connection: Connection, target: Dataset, *, is_exclusive: bool = False) -> None:
    """Wait for an ingest that is under way, and keep the next one waiting. With `is_exclusive`, nobody else writes a
    row that points to the dataset either.
    """
    row = sa.select(dataset.c.dataset_id).where(dataset.c.dataset_id == target.dataset_id)
    connection.execute(row.with_for_update(key_share=not is_exclusive))


def _delete_unused_scorers(connection: Connection, scorers: Collection[int]) -> None:
    """Delete those of the given scorers that have no score. The newest other scorer of their metrics becomes active."""
    # Waits for scores that are being written: the next statement sees them, and must not delete their scorer.
    locked = sa.select(scorer.c.scorer_id).where(_build_scorer_condition(scorer, scorers)).order_by(scorer.c.scorer_id)
    connection.execute(locked.with_for_update())
    has_scores = sa.exists().where(score.c.scorer_id == scorer.c.scorer_id)
    unused = (
        sa.delete(scorer)
        .where(_build_scorer_condition(scorer, scorers), sa.not_(has_scores))
        .returning(scorer.c.metric)
    )
    metrics = connection.scalars(unused).all()
    datasets = connection.scalars(sa.select(dataset.c.dataset_id)).all()
    others = sa.select(scorer.c.metric, scorer.c.scorer_id).where(scorer.c.metric.in_(metrics))
    for metric, scorer_id in connection.execute(others.order_by(scorer.c.scorer_id.desc())).all():
        if find_active_scorer(connection, metric) is None:
            activate_scorer(connection, scorer_id, datasets)


def _leads_to_dataset(table: sa.Table) -> bool:
    return table is not dataset and any(name in table.c for name in ("dataset_id", *_PARENT_TABLES))


def _is_of_scorer(table: sa.Table) -> bool:
    """Whether rows of the table are made by a scorer for a dataset."""
    return "scorer_id" in table.c and _leads_to_dataset(table)


def _build_scorer_condition(table: sa.Table, scorers: Collection[int]) -> sa.ColumnElement[bool]:
    return table.c.scorer_id.in_(list(scorers))


def _build_dataset_condition(table: sa.Table, dataset_id: int) -> sa.ColumnElement[bool]:
    """Return the SQL condition that a row belongs to the dataset, by its own column or through the row that it points
    to.
    """
    if "dataset_id" in table.c:
        return table.c.dataset_id == dataset_id
    name, parent = next((name, parent) for name, parent in _PARENT_TABLES.items() if name in table.c)
    return table.c[name].in_(sa.select(parent.c[name]).where(_build_dataset_condition(parent, dataset_id)))
