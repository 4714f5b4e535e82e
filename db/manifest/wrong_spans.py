"""Words of a caption that a rater marks as wrong in a browser, in table `wrong_span`."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from db.manifest.rating import CaptionToRate, Rater
from db.schema import sample, wrong_span

Span = tuple[int, int]
"""Numbers of characters of a text before the words, and up to their end."""


def list_spans(connection: Connection, rater: Rater, caption: CaptionToRate) -> list[Span]:
    """List what the rater marked in the caption's text, in the order of the text."""
    columns = wrong_span.c.start_at, wrong_span.c.end_at
    rows = connection.execute(sa.select(*columns).where(*_list_conditions(rater, caption)).order_by(*columns))
    return [(row[0], row[1]) for row in rows]


def store_span(connection: Connection, rater: Rater, caption: CaptionToRate, span: Span, *, is_planted: bool) -> bool:
    """Store that the rater calls these words of the caption wrong, and return True. Return False, storing nothing, if
    the rater has marked one of them already, or the caption was dropped. is_planted: whether the text is that of an
    attention check.
    """
    start, end = span
    overlaps = (wrong_span.c.start_at < end, wrong_span.c.end_at > start)
    is_marked = sa.select(sa.literal(1)).where(*_list_conditions(rater, caption), *overlaps).exists()
    values = (rater.name, caption.text_sha256, start, end, caption.text[start:end], is_planted)
    query = sa.select(sample.c.sample_id, *map(sa.literal, values), sa.func.statement_timestamp())
    query = query.where(sample.c.sample_id == caption.sample_id, ~is_marked).with_for_update(key_share=True)
    new = insert(wrong_span).from_select([column.name for column in wrong_span.c], query).on_conflict_do_nothing()
    return connection.execute(new.returning(wrong_span.c.start_at)).one_or_none() is not None


def delete_span(connection: Connection, rater: Rater, caption: CaptionToRate, span: Span) -> bool:
    """Delete the mark on these words of the caption's text, and return True; False if the rater has not marked them."""
    is_same = (wrong_span.c.start_at == span[0], wrong_span.c.end_at == span[1])
    return connection.execute(sa.delete(wrong_span).where(*_list_conditions(rater, caption), *is_same)).rowcount > 0


def _list_conditions(rater: Rater, caption: CaptionToRate) -> tuple[sa.ColumnElement[bool], ...]:
    """List the SQL conditions that a row of table `wrong_span` is by this rater in this text."""
    columns = wrong_span.c
    is_same = (columns.sample_id == caption.sample_id, columns.text_sha256 == caption.text_sha256)
    return (*is_same, columns.rater == rater.name)
