"""Tags and notes that people write on samples in a browser, and saved views of a dataset's pages."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.schema import remark, sample, saved_view

RemarkKind = Literal["tag", "note"]


class Remark(NamedTuple):
    """A tag or a note that a person wrote on a sample. made_at: when it was stored; None before."""

    sample_id: int
    kind: RemarkKind
    text: str
    made_by: str
    made_at: datetime | None = None


_COLUMNS = [remark.c[name] for name in Remark._fields]


def store_remarks(connection: Connection, dataset: Dataset, remarks: Collection[Remark]) -> list[int]:
    """Store tags and notes with the present time, and return the ids of the samples that they were stored on. A remark
    is left out if its sample is not in the dataset, or has one of the same kind and text already, which keeps its
    author and time.
    """
    fields = {"sample_id": sa.BigInteger, "kind": sa.Text, "text": sa.Text, "made_by": sa.Text}
    arrays: list[sa.ColumnElement[Any]] = [
        sa.literal([getattr(new, name) for new in remarks], ARRAY(kind)) for name, kind in fields.items()
    ]
    new = sa.func.unnest(*arrays).table_valued(*fields).render_derived(name="new")
    rows = sa.select(*new.c, sample.c.dataset_id).join(sample, sample.c.sample_id == new.c.sample_id)
    # In one order: two people who tag the same samples at once wait for each other once, not in a circle.
    rows = rows.where(sample.c.dataset_id == dataset.dataset_id).order_by(sample.c.sample_id)
    # No sample is deleted until its remarks are stored.
    rows = rows.with_for_update(read=True, key_share=True, of=sample)
    stored = insert(remark).from_select([*fields, "dataset_id"], rows).on_conflict_do_nothing()
    return sorted(connection.scalars(stored.returning(remark.c.sample_id)))


def delete_remarks(
    connection: Connection, dataset: Dataset, kind: str, text: str, sample_ids: Sequence[int]
) -> list[Remark]:
    """Delete the tag or note of this text from samples of the dataset, and return what was deleted, ordered by sample;
    [] if no sample had it.
    """
    same = (remark.c.dataset_id == dataset.dataset_id, remark.c.kind == kind, remark.c.text == text)
    deleted = sa.delete(remark).where(*same, remark.c.sample_id.in_(sample_ids)).returning(*_COLUMNS)
    return sorted((Remark(*row) for row in connection.execute(deleted)), key=lambda old: old.sample_id)


def load_stored_time(connection: Connection) -> datetime:
    """Load the time that this transaction stores with its tags and notes."""
    return connection.execute(sa.select(sa.func.now())).scalar_one()


def delete_added_tags(connection: Connection, dataset: Dataset, text: str, made_by: str, made_at: datetime) -> int:
    """Delete the tag `text` from the samples that this person gave it at this time; return the number of samples."""
    same = (remark.c.dataset_id == dataset.dataset_id, remark.c.kind == "tag", remark.c.text == text)
    made = (remark.c.made_by == made_by, remark.c.made_at == made_at)
    return connection.execute(sa.delete(remark).where(*same, *made)).rowcount


def load_remarks(connection: Connection, dataset: Dataset, sample_id: int) -> list[Remark]:
    """Load the tags and then the notes of a sample, both from old to new; [] for a sample of another dataset."""
    of_sample = (remark.c.dataset_id == dataset.dataset_id, remark.c.sample_id == sample_id)
    query = sa.select(*_COLUMNS).where(*of_sample).order_by(remark.c.kind.desc(), remark.c.made_at)
    return [Remark(*row) for row in connection.execute(query)]


def list_tags(connection: Connection, dataset: Dataset) -> list[str]:
    """List the different tags that samples of a dataset have, sorted."""
    query = sa.select(remark.c.text).where(remark.c.dataset_id == dataset.dataset_id, remark.c.kind == "tag")
    return sorted(connection.scalars(query.distinct()))


def build_tag_list(sample_id: sa.ColumnElement[int]) -> sa.ColumnElement[Any]:
    """Return an SQL expression for the sorted list of a sample's tags; an empty list without tags."""
    tags = sa.select(remark.c.text).where(remark.c.sample_id == sample_id, remark.c.kind == "tag")
    # Without a type: the driver makes a list of an array, and SQLAlchemy would make it anew.
    return sa.func.array(tags.order_by(remark.c.text.collate("C")).scalar_subquery())


def save_view(connection: Connection, dataset: Dataset, name: str, query: str) -> bool:
    """Store a view of a dataset's pages under a name and return True; False, storing nothing, if the name is taken.
    query: the query string of the page's address, beginning with `?`.
    """
    new = insert(saved_view).values(dataset_id=dataset.dataset_id, name=name, query=query).on_conflict_do_nothing()
    return connection.execute(new.returning(saved_view.c.name)).one_or_none() is not None


def delete_view(connection: Connection, dataset: Dataset, name: str) -> str | None:
    """Delete a saved view of a dataset and return its query string; None if there is none of this name."""
    same = (saved_view.c.dataset_id == dataset.dataset_id, saved_view.c.name == name)
    query: str | None = connection.scalar(sa.delete(saved_view).where(*same).returning(saved_view.c.query))
    return query


def list_views(connection: Connection, dataset: Dataset) -> list[tuple[str, str]]:
    """List (name, query string) of the saved views of a dataset, ordered by name."""
    query = sa.select(saved_view.c.name, saved_view.c.query).where(saved_view.c.dataset_id == dataset.dataset_id)
    return sorted((row[0], row[1]) for row in connection.execute(query))
