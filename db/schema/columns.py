"""The metadata that all tables belong to, and the kinds of columns that many of them have."""

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
    """The number of a row, which Postgres gives."""
    return sa.Column(name, sa.BigInteger, sa.Identity(), primary_key=True)


def parent_column(column: str, *, primary_key: bool = False) -> sa.Column[int]:
    """A reference such as "video.video_id", in a column of the same name; the row goes with the one it points to."""
    name = column.split(".")[1]
    key = sa.ForeignKey(column, ondelete="CASCADE")
    return sa.Column(name, sa.BigInteger, key, primary_key=primary_key, nullable=False)


def text_column(name: str, *, nullable: bool = False) -> sa.Column[str]:
    """A text."""
    return sa.Column(name, sa.Text, nullable=nullable)


def key_copy_column(name: str) -> sa.Column[str]:
    """The key under the name of its table, as views have it; without it that name would be the whole row in SQL."""
    return sa.Column(name, sa.Text, sa.Computed("key", persisted=True))


def digest_column(name: str, *, nullable: bool = False) -> sa.Column[bytes]:
    """A SHA-256."""
    return sa.Column(name, sa.LargeBinary, nullable=nullable)


def time_column(name: str) -> sa.Column[object]:
    """A time with its zone: when the row was inserted, unless it is given."""
    return sa.Column(name, sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now())


def json_column(name: str, *, nullable: bool = True) -> sa.Column[object]:
    """JSON, where None is stored as NULL."""
    return sa.Column(name, JSONB(none_as_null=True), nullable=nullable)
