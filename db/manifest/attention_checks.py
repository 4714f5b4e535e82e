"""Attention checks while people rate in a browser: when one is due, which caption is planted, storing the answer in
`attention_check`, and taking it back.

A check looks like any question. An answer to it names the sample in whose place the planted caption is shown, with the
digest of the planted text. The sample has another text, so the answer can never be stored as a rating or a preference.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from db.manifest.draws import build_draw_number
from db.manifest.rating import (
    CaptionIds,
    CaptionToRate,
    Rater,
    build_timed_json,
    draw_from_values,
    list_new_captions,
    load_answer_count,
)
from db.schema import attention_check, reference, sample, video


class AttentionCheck(NamedTuple):
    """A question with a caption of another video. items: the captions to show, one, or two from left to right; the one
    at `place` has the planted text and the id of the sample in whose place it is shown. planted_id: the caption of the
    other video.
    """

    items: tuple[CaptionToRate, ...]
    place: int
    planted_id: int


def find_due_check(
    connection: Connection, rater: Rater, every: int, skipped: Collection[CaptionIds] = ()
) -> AttentionCheck | None:
    """Find the attention check that the rater must answer now; None if another question is due. One in `every` answers
    is to a check, at a random place per rater. Video and planted caption are drawn anew for every check by a hash of
    the rater. skipped: ids of captions or pairs not to show, not as a check either.

    The planted caption differs from every caption and reference of the shown video, apart from case and spaces
    around it, and its video has another file. There is no check where no caption is like that, nor where everything is
    answered.
    """
    block, place = divmod(count_questions(connection, rater), every)
    number = draw_from_values([rater.name, rater.aspect, rater.pairs, rater.seed, block, "check"])
    if place != number % every:
        return None
    # In an order of its own, so that the right caption of the video does not follow directly.
    seed = number >> 1
    items = list_new_captions(connection, rater._replace(seed=seed))
    if not items or tuple(sorted(item.sample_id for item in items)) in set(skipped):
        return None
    place = draw_from_values([seed, "place"]) % len(items)
    planted = _find_planted_caption(connection, rater, items[place].video_id, seed)
    if planted is None or _has_check(connection, rater, items[place].sample_id, planted.sample_id):
        return None
    items[place] = items[place]._replace(text=planted.text, text_sha256=planted.text_sha256)
    return AttentionCheck(tuple(items), place, planted.sample_id)


def _has_check(connection: Connection, rater: Rater, sample_id: int, planted_id: int) -> bool:
    """Whether the rater has answered the check with this caption in the place of that one."""
    columns = attention_check.c
    same = (*_list_conditions(rater), columns.sample_id == sample_id, columns.planted_id == planted_id)
    return connection.scalar(sa.select(sa.literal(1)).where(*same)) is not None


def _find_planted_caption(connection: Connection, rater: Rater, video_id: int, seed: int) -> CaptionToRate | None:
    """Find the first caption, in a random order by the seed, that is of another video than this and differs from all
    of its texts; None if there is none.
    """
    own = [
        sa.select(sa.func.lower(sa.func.btrim(table.c.text))).where(table.c.video_id == video_id)
        for table in (sample, reference)
    ]
    content = video.c.content_sha256
    copies = sa.select(content).where(video.c.video_id == video_id, content.is_not(None))
    query = sa.select(sample.c.sample_id, sample.c.text, sample.c.text_sha256, sample.c.video_id).join(video)
    others = query.where(
        *(rater.caption_condition, sample.c.video_id != video_id),
        sa.or_(content.is_(None), content.not_in(copies)),
        sa.func.lower(sa.func.btrim(sample.c.text)).not_in(sa.union_all(*own)),
    )
    row = connection.execute(others.order_by(build_draw_number(seed), sample.c.sample_id).limit(1)).one_or_none()
    return None if row is None else CaptionToRate(row[0], row[1], bytes(row[2]), row[3])


def store_check(
    connection: Connection,
    rater: Rater,
    check: AttentionCheck,
    value: float,
    extra: dict[str, Any],
    *,
    has_passed: bool,
) -> bool:
    """Store the answer to an attention check and return True; False, storing nothing, if it was answered or one of its
    captions was dropped meanwhile. value: the rating; of two captions 1 if the planted one is preferred, -1 if the
    other one is, 0 for neither. extra: further fields to store with the answer.
    """
    shown, planted = check.items[check.place], sample.alias("planted")
    values = map(sa.literal, (rater.name, rater.aspect, rater.pairs))
    query = sa.select(sample.c.sample_id, *values, planted.c.sample_id, sa.literal(shown.text_sha256)).select_from(
        sample
    )
    query = query.add_columns(sa.literal(value), sa.literal(has_passed), build_timed_json(extra))
    query = query.join(planted, planted.c.sample_id == check.planted_id).where(sample.c.sample_id == shown.sample_id)
    # Neither caption is deleted until the answer is stored.
    names = [column.name for column in attention_check.c]
    new = insert(attention_check).from_select(names, query.with_for_update(read=True, key_share=True))
    stored = new.on_conflict_do_nothing().returning(attention_check.c.sample_id)
    return connection.execute(stored).one_or_none() is not None


def delete_last_check(connection: Connection, rater: Rater) -> bool:
    """Delete the answer to an attention check if it is the last answer that the rater gave for this aspect and dataset,
    and return True; else return False.
    """
    _, last_answer = load_answer_count(connection, rater)
    given_at = attention_check.c.extra["rated_at"].astext
    last = sa.select(sa.func.max(given_at)).where(*_list_conditions(rater), given_at > last_answer).scalar_subquery()
    return connection.execute(sa.delete(attention_check).where(*_list_conditions(rater), given_at == last)).rowcount > 0


def count_questions(connection: Connection, rater: Rater) -> int:
    """Return the number of answers that the rater gave for this aspect and dataset, those to repeats and to attention
    checks included.
    """
    n_checks = connection.scalar(sa.select(sa.func.count()).where(*_list_conditions(rater))) or 0
    return load_answer_count(connection, rater)[0] + n_checks


def _list_conditions(rater: Rater) -> tuple[sa.ColumnElement[bool], ...]:
    """List the SQL conditions that a row of table `attention_check` is by this rater for this aspect and dataset."""
    columns = attention_check.c
    captions = sa.select(sample.c.sample_id).where(rater.caption_condition)
    is_by_rater = (columns.rater == rater.name, columns.aspect == rater.aspect, columns.is_comparison == rater.pairs)
    return (*is_by_rater, columns.sample_id.in_(captions))
