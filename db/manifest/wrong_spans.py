"""Words of a caption that a rater marks as wrong in a browser, in table `wrong_span`."""

from __future__ import annotations

import sqlalchemy as sa
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
    # A mark from a second window waits here for this one.
    locked = sa.select(sample.c.sample_id).where(sample.c.sample_id == caption.sample_id)
    overlaps = (wrong_span.c.start_at < end, wrong_span.c.end_at > start)
    is_marked = sa.select(sa.literal(1)).where(*_list_conditions(rater, caption), *overlaps)
    if not connection.scalar(locked.with_for_update(key_share=True)) or connection.scalar(is_marked):
        return False
    new = {"sample_id": caption.sample_id, "rater": rater.name, "text_sha256": caption.text_sha256}
    new |= {"start_at": start, "end_at": end, "words": caption.text[start:end], "is_planted": is_planted}
    connection.execute(sa.insert(wrong_span).values(new))
    return True


def delete_span(connection: Connection, rater: Rater, caption: CaptionToRate, span: Span) -> bool:
    """Delete the mark on these words of the caption's text, and return True; False if the rater has not marked them."""
    is_same = (wrong_span.c.start_at == span[0], wrong_span.c.end_at == span[1])
    return connection.execute(sa.delete(wrong_span).where(*_list_conditions(rater, caption), *is_same)).rowcount > 0


def _list_conditions(rater: Rater, caption: CaptionToRate) -> tuple[sa.ColumnElement[bool], ...]:
    """List the SQL conditions that a row of table `wrong_span` is by this rater in this text."""
    columns = wrong_span.c
    is_same = (columns.sample_id == caption.sample_id, columns.text_sha256 == caption.text_sha256)
    return (*is_same, columns.rater == rater.name)
