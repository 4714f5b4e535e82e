"""Answers that people give in a browser: ratings, preferences, labels of keypoints, answers to attention checks, and
marks on wrong words. They are stored and taken back here.

Each answer is about the texts that were shown. It is refused if one has changed since, stored once however often it is
sent, and replaces one of the same person about older texts. It is read like an ingested one; its field `extra` has the
time and how it was asked, and keeps the second answer to a repeated question under "again".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from db.evidence.verdicts import MANIFEST_LABEL_SOURCE
from db.manifest.questions import (
    Key,
    Question,
    Rater,
    build_check_condition,
    find_due_repeat,
    get_answer_table,
    load_question,
    read_times,
)
from db.schema import attention_check, keypoint, rating, sample, wrong_span
from db.server.locking import lock_ids

CHOSEN_FIELD = "to_settle"
"""The field of a rating's `extra` with the reason why its caption was chosen, as {"question": "promise 7"}; view
random_rating leaves such ratings out, since they are no random sample.
"""
Span = tuple[int, int]
"""Numbers of characters of a text before the marked words, and up to their end."""
# The time of Postgres, in the form in which times sort as texts.
_NOW = sa.func.to_char(sa.text("statement_timestamp() AT TIME ZONE 'UTC'"), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')


class TextChanged(ValueError):
    """Raised when an answer is about a text that has changed, or was dropped, since it was shown."""

    plain = True

    def __init__(self) -> None:
        super().__init__(
            "your answer was not stored: a text was changed or dropped after it was shown; open the page again"
        )


def require_seen(
    connection: Connection,
    rater: Rater,
    seen: str,
    sample_ids: Sequence[int],
    keypoint_id: int | None = None,
    check: Question | None = None,
) -> Question:
    """Return the question that a rater saw, and keep its rows until the transaction ends. seen: its hash, as
    `Question.seen`. sample_ids: its captions in the order shown. check: the attention check that is due. Raises
    TextChanged if the hash is of neither the check nor the present texts.
    """
    is_check = check is not None and (check.seen, check.sample_ids) == (seen, (*sample_ids,))
    shown = check if is_check else None
    # The first caption keeps its text meanwhile, and a second answer about it waits here. Only deletion of the others
    # waits: an ingest changes rows in an order of its own.
    locked = sa.select(sample.c.sample_id).where(sample.c.sample_id.in_(sample_ids[:1]))
    connection.execute(locked.with_for_update(key_share=True))
    others = {*sample_ids[1:], *([] if shown is None or shown.planted_id is None else [shown.planted_id])}
    is_there = lock_ids(connection, sample.c.sample_id, others) == others
    if keypoint_id is not None:
        lock_ids(connection, keypoint.c.keypoint_id, [keypoint_id])
    question = load_question(connection, rater, sample_ids, keypoint_id)
    if question is None or not is_there or (shown is None and question.seen != seen):
        raise TextChanged
    return shown or question


def store_answer(
    connection: Connection,
    rater: Rater,
    question: Question,
    value: float,
    extra: dict[str, Any],
    skipped: Collection[Key] = (),
    *,
    has_passed: bool | None = None,
) -> bool:
    """Store the answer to a question and return True; return False and store nothing if it was answered already. If a
    repeat is due, the answer is stored next to the first one. question: as `require_seen` returned it in this
    transaction. extra: further fields to store with the answer. has_passed: of an attention check.

    value: a rating; for a pair as `Question.turn` returns it; for a keypoint 1 if the caption covers it, else 0.
    """
    answers = get_answer_table(rater)
    table, digests = answers.table, answers.digests
    texts = [caption.text_sha256 for caption in sorted(question.captions)]
    if question.keypoint is not None:
        texts = [hashlib.sha256(question.keypoint[1].encode()).digest(), *texts]
    about: list[tuple[sa.Column[Any], Any]] = [*zip(answers.keys, question.key, strict=True)]
    about += zip(digests, texts, strict=True)
    new: dict[str, Any] = {column.name: part for column, part in about}
    if question.planted_id is not None:
        table, digests, shown = attention_check, (attention_check.c.planted_sha256,), question.captions[question.place]
        new = {"sample_id": shown.sample_id, "planted_id": question.planted_id, "planted_sha256": shown.text_sha256}
        new |= {"is_comparison": rater.kind == "preference", "has_passed": has_passed}
    elif question.key == find_due_repeat(connection, rater, skipped):
        again = sa.func.jsonb_build_object("again", _build_timed_json({**extra, "value": value}))
        is_first = (answers.is_by_rater, read_times(table)[1].is_(None), *(column == part for column, part in about))
        changed = sa.update(table).where(*is_first).values(extra=table.c.extra.op("||")(again))
        return connection.execute(changed).rowcount > 0
    if rater.kind == "label":
        extra = {"rater": rater.name, **extra}
        new |= {"source": MANIFEST_LABEL_SOURCE, "covered": bool(value)}
    else:
        new |= {"rater": rater.name, "aspect": rater.aspect, "value": value}
    if "row_sha256" in table.c:
        row = [rater.name, rater.aspect, *question.key, value, extra]
        new["row_sha256"] = hashlib.sha256(json.dumps(row, sort_keys=True).encode()).digest()
    insertion = insert(table).values(**new, extra=_build_timed_json(extra))
    stored = insertion.on_conflict_do_update(
        index_elements=list(table.primary_key.columns),
        set_={name: insertion.excluded[name] for name in (*new, "extra") if name not in table.primary_key.columns},
        where=sa.or_(*(digest != insertion.excluded[digest.name] for digest in digests)),
    )
    return connection.execute(stored.returning(sa.literal(1))).one_or_none() is not None


def delete_last_answer(connection: Connection, rater: Rater) -> bool:
    """Delete the answer that the rater gave last in a browser, for this aspect and dataset, and return True; False if
    there is none. If it was the second answer to a repeat, the first one stays. Answers to attention checks are taken
    back in turn with the others, and marks by `delete_mark`.
    """
    answers = get_answer_table(rater)
    tables = {answers.table: answers.is_by_rater}
    if rater.kind != "label":
        tables[attention_check] = build_check_condition(rater)
    last: tuple[str, bool, sa.Table, list[sa.ColumnElement[bool]]] | None = None
    for table, is_by_rater in tables.items():
        given_at, again_at = read_times(table)
        at, key = sa.func.coalesce(again_at, given_at), table.primary_key.columns
        in_dataset = table.c.sample_id.in_(sa.select(sample.c.sample_id).where(rater.caption_condition))
        # Answers from other tools may have a time too, but no seed.
        is_ours = (is_by_rater, in_dataset, given_at.is_not(None), table.c.extra["seed"].is_not(None))
        query = sa.select(at, again_at.is_not(None), *key).where(*is_ours).order_by(at.desc()).limit(1)
        # Waits while another person replaces a label; then it is not this rater's any more.
        row = connection.execute(query.with_for_update()).one_or_none()
        if row is not None and (last is None or row[0] > last[0]):
            last = row[0], row[1], table, [column == part for column, part in zip(key, row[2:], strict=True)]
    if last is None:
        return False
    _, is_repeat, table, is_last = last
    without_repeat = sa.update(table).where(*is_last).values(extra=table.c.extra.op("-")("again"))
    return connection.execute(without_repeat if is_repeat else sa.delete(table).where(*is_last)).rowcount > 0


def list_marks(connection: Connection, rater: Rater, question: Question) -> list[Span]:
    """List what the rater marked as wrong in the caption of a question, in the order of the text."""
    columns = wrong_span.c.start_at, wrong_span.c.end_at
    rows = connection.execute(sa.select(*columns).where(*_is_marked(rater, question)).order_by(*columns))
    return [(row[0], row[1]) for row in rows]


def store_mark(connection: Connection, rater: Rater, question: Question, span: Span) -> bool:
    """Store that the rater calls these words of the caption wrong, and return True; return False, storing nothing, if
    the rater has marked one of them already. question: as `require_seen` returned it in this transaction.
    """
    (caption,), (start, end) = question.captions, span
    overlaps = (wrong_span.c.start_at < end, wrong_span.c.end_at > start)
    if connection.scalar(sa.select(sa.literal(1)).where(*_is_marked(rater, question), *overlaps).limit(1)):
        return False
    new = {"sample_id": caption.sample_id, "rater": rater.name, "text_sha256": caption.text_sha256}
    new |= {"start_at": start, "end_at": end, "words": caption.text[start:end]}
    connection.execute(sa.insert(wrong_span).values(**new, is_planted=question.planted_id is not None))
    return True


def delete_mark(connection: Connection, rater: Rater, question: Question, span: Span) -> bool:
    """Delete the mark on these words of the caption, and return True; False if the rater has not marked them."""
    is_same = (wrong_span.c.start_at == span[0], wrong_span.c.end_at == span[1])
    return connection.execute(sa.delete(wrong_span).where(*_is_marked(rater, question), *is_same)).rowcount > 0


def _is_marked(rater: Rater, question: Question) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the SQL conditions that a row of table `wrong_span` is by this rater in the text of the caption."""
    columns, (caption,) = wrong_span.c, question.captions
    is_same = (columns.sample_id == caption.sample_id, columns.text_sha256 == caption.text_sha256)
    return (*is_same, columns.rater == rater.name)


def _build_timed_json(extra: dict[str, Any]) -> sa.ColumnElement[Any]:
    """Build the SQL expression for a JSON object with the fields of `extra` and `rated_at`, the database server's time
    in UTC.
    """
    return sa.func.jsonb_build_object("rated_at", _NOW).op("||")(sa.cast(extra, rating.c.extra.type))
