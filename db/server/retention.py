"""Find and delete evidence that nothing needs any more: vectors and entailments of models that only retired scorers
used, and files of vectors that nothing points to.

Scores, past scores, selections, verdicts and everything that a model server was paid for are never touched.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from db.evidence.vector_files import delete_unused_files, is_unused
from db.schema import entailment, frame_embedding, frame_set, model, scorer, text_embedding, vector_file

# All of these can be made again from the texts and videos.
_EVIDENCE = (text_embedding, frame_embedding, frame_set, entailment)
_BATCH = 50_000
_FILE_BYTES = sa.func.coalesce(sa.func.sum(vector_file.c.n_bytes), 0)


@dataclass(frozen=True, slots=True)
class UnneededRows:
    """How many rows of one table of evidence belong to a model that only retired scorers name, and their size in bytes
    without indexes.
    """

    model_id: int
    model: str
    table: str
    rows: int
    bytes: int


def list_unneeded_evidence(connection: Connection, in_use: Collection[tuple[str, str]]) -> list[UnneededRows]:
    """List the rows of evidence that only retired scorers used, counted by model and table: vectors, frames and
    entailments. Files of vectors that no row points to are listed for every model. `in_use` has (name, revision) of the
    models in the present settings, which are kept. A model that no scorer ever named is kept too.

    A scorer names a model by name and revision, whatever the parameters.
    """
    candidates = connection.execute(_select_retired_models().add_columns(model.c.name, model.c.revision)).all()
    unneeded = []
    for model_id, name, revision in candidates:
        for table in (*_EVIDENCE, vector_file):
            size = sa.func.coalesce(sa.func.sum(sa.func.pg_column_size(sa.literal_column(f'"{table.name}".*'))), 0)
            if table is vector_file:
                size = _FILE_BYTES
            query = sa.select(sa.func.count(), size).select_from(table).where(table.c.model_id == model_id)
            rows, n_bytes = connection.execute(query).one()
            if rows and (name, revision) not in in_use:
                unneeded.append(UnneededRows(model_id, name, table.name, rows, int(n_bytes)))
    ids = [of_model.model_id for of_model in unneeded]
    left = sa.select(model.c.model_id, model.c.name, sa.func.count(), _FILE_BYTES).join(vector_file)
    left = left.where(is_unused(), model.c.model_id.not_in(ids)).group_by(model.c.model_id).order_by(model.c.name)
    for model_id, name, rows, n_bytes in connection.execute(left):
        unneeded.append(UnneededRows(model_id, name, vector_file.name, rows, int(n_bytes)))
    return unneeded


def delete_evidence(engine: Engine, unneeded: Collection[UnneededRows]) -> int:
    """Delete the evidence of all models and tables that `list_unneeded_evidence` listed, then all files of vectors that
    nothing points to, and return the number of deleted rows and files. A model that a scorer in use names by now keeps
    its rows. Every 50,000 rows are a transaction of their own, so an error undoes only the last one.
    """
    freed = 0
    tables = {table.name: table for table in _EVIDENCE}
    for rows_of_model in unneeded:
        if rows_of_model.table == vector_file.name:
            continue
        table = tables[rows_of_model.table]
        rows: sa.Select[Any] = (
            sa.select(sa.literal_column("ctid")).select_from(table).where(table.c.model_id == rows_of_model.model_id)
        )
        still = sa.exists(_select_retired_models().where(model.c.model_id == rows_of_model.model_id))
        batch = sa.delete(table).where(sa.literal_column("ctid").in_(rows.where(still).limit(_BATCH)))
        while True:
            with engine.begin() as connection:
                gone = connection.execute(batch).rowcount
            freed += gone
            if not gone:
                break
    return freed + delete_unused_files(engine)


def _select_retired_models() -> sa.Select[tuple[int]]:
    """Return a query for models that a retired scorer names, and no candidate or active one."""
    return sa.select(model.c.model_id).where(
        _build_scorer_condition("= 'retired'"), sa.not_(_build_scorer_condition("<> 'retired'"))
    )


def _build_scorer_condition(status: str) -> sa.ColumnElement[bool]:
    """Return the SQL condition that a scorer of this status has the model, by name and revision, among its models."""
    return sa.exists(
        sa.select(scorer.c.scorer_id).where(
            sa.text(f"scorer.status {status}"),
            sa.func.jsonb_path_exists(
                scorer.c.models,
                sa.text("'$.**.* ? (@.model_id == $name && @.revision == $revision)'"),
                sa.func.jsonb_build_object("name", model.c.name, "revision", model.c.revision),
            ),
        )
    ).correlate(model)
