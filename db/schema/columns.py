"""Metadata that all tables belong to, and constructors of columns that many tables have."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

METADATA = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)


def id_column(name: str) -> sa.Column[int]:
    """Return a primary-key column of this name, a bigint that Postgres assigns to every new row."""
    return sa.Column(name, sa.BigInteger, sa.Identity(), primary_key=True)


def parent_column(column: str, *, primary_key: bool = False) -> sa.Column[int]:
    """Return a foreign-key column for a target such as "video.video_id", under the name of the target's column, here
    video_id. It is NOT NULL, and deleting the target's row deletes the rows that point to it.
    """
    name = column.split(".")[1]
    key = sa.ForeignKey(column, ondelete="CASCADE")
    return sa.Column(name, sa.BigInteger, key, primary_key=primary_key, nullable=False)


def text_column(name: str, *, nullable: bool = False) -> sa.Column[str]:
    """Return a text column; NOT NULL unless `nullable`."""
    return sa.Column(name, sa.Text, nullable=nullable)


def key_copy_column(name: str) -> sa.Column[str]:
    """Return a text column that Postgres fills with a copy of column `key`. `name` is the name that views use, such as
    "video"; without such a column, this name would mean the whole row in SQL.
    """
    return sa.Column(name, sa.Text, sa.Computed("key", persisted=True))


def digest_column(name: str, *, nullable: bool = False) -> sa.Column[bytes]:
    """Return a column of bytes for a SHA-256; NOT NULL unless `nullable`."""
    return sa.Column(name, sa.LargeBinary, nullable=nullable)


def time_column(name: str) -> sa.Column[object]:
    """Return a NOT NULL column for a time with its zone; a row inserted without a value gets the time at which its
    transaction began.
    """
    return sa.Column(name, sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now())


def json_column(name: str, *, nullable: bool = True) -> sa.Column[object]:
    """Return a JSONB column, in which Python's None is stored as NULL; NOT NULL only if `nullable` is false."""
    return sa.Column(name, JSONB(none_as_null=True), nullable=nullable)
