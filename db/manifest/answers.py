"""Questions to people in a browser, and their answers: ratings, preferences, labels of keypoints, answers to attention
checks, and marks on wrong words.

Some captions come twice for a rater. An attention check looks like any question, but one of its captions is planted: it
is of another video than the one shown.

Each answer is about the texts that were shown. It is refused if one has changed since, stored once however often it is
sent, and replaces one of the same person about older texts. It is read like an ingested one; its field `extra` has the
time and how it was asked, and keeps the second answer to a repeated question under "again".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from db.evidence.verdicts import MANIFEST_LABEL_SOURCE
from db.manifest.datasets import Dataset
from db.manifest.draws import build_draw_number
from db.schema import (
    attention_check,
    keypoint,
    keypoint_label,
    preference,
    rating,
    reference,
    sample,
    video,
    wrong_span,
)
from db.server.locking import lock_ids

CHOSEN_FIELD = "to_settle"
"""The field of a rating's `extra` with the reason why its caption was chosen, as {"question": "promise 7"}; view
random_rating leaves such ratings out, since they are no random sample.
"""
Span = tuple[int, int]
"""Numbers of characters of a text before the marked words, and up to their end."""
# The time of Postgres, in the form in which times sort as texts.
_NOW = sa.func.to_char(sa.text("statement_timestamp() AT TIME ZONE 'UTC'"), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
REPEAT_EVERY = 10
"""One in this many answers is the answer to a repeat."""
MIN_REPEAT_DISTANCE = 5
"""The smallest number of answers between the first answer about a caption and its repeat."""
_MAX_FIRST_VIDEOS = 2000
"""Pairs and keypoints are first sought in this many videos: with 200,000 captions it takes a quarter of the time."""
_OTHER = sample.alias("other")

Key = tuple[int, ...]
"""Ids of the rows that a question is about: a caption, two captions in ascending order, or a keypoint and a caption."""


class Rater(NamedTuple):
    """A person who answers questions about a dataset in a browser. kind: what is asked for, a rating of a caption, a
    preference between two, or a label of a keypoint. aspect: what is judged, such as fluency; "" for labels. seed: of
    the random order of questions. spans: whether the rater also marks wrong words.
    """

    dataset: Dataset
    name: str
    aspect: str = ""
    seed: int = 0
    kind: Literal["rating", "preference", "label"] = "rating"
    spans: bool = False

    @property
    def caption_condition(self) -> sa.ColumnElement[bool]:
        """SQL condition that a row of table `sample` is a caption of the dataset."""
        return sa.and_(sample.c.dataset_id == self.dataset.dataset_id, sample.c.kind == "caption")


class _AnswerTable(NamedTuple):
    """The table that stores a rater's answers. keys: columns with the ids of the rows that an answer is about, as in
    `Key`; digests: with the digests of their texts. ids, texts: the same of the rows now. is_by_rater: SQL condition
    that a row is by this rater for this aspect, in any dataset.
    """

    table: sa.Table
    keys: tuple[sa.Column[int], ...]
    digests: tuple[sa.Column[bytes], ...]
    ids: tuple[sa.Column[int], ...]
    texts: tuple[sa.ColumnElement[bytes], ...]
    is_by_rater: sa.ColumnElement[bool]

    @property
    def is_about(self) -> tuple[sa.ColumnElement[bool], ...]:
        """SQL conditions that an answer is about the rows of the tables of texts."""
        return tuple(key == row_id for key, row_id in zip(self.keys, self.ids, strict=True))

    @property
    def has_present_texts(self) -> sa.ColumnElement[bool]:
        """SQL condition that the rows have the texts that the answer is about."""
        return sa.and_(*(digest == text for digest, text in zip(self.digests, self.texts, strict=True)))


def _get_answer_table(rater: Rater) -> _AnswerTable:
    """Return the table of the rater's answers, by what the rater is asked for."""
    if rater.kind == "rating":
        by = sa.and_(rating.c.rater == rater.name, rating.c.aspect == rater.aspect)
        columns = (rating.c.sample_id,), (rating.c.text_sha256,)
        return _AnswerTable(rating, *columns, (sample.c.sample_id,), (sample.c.text_sha256,), by)
    if rater.kind == "preference":
        given = preference.c
        columns_of_two = (given.sample_id, given.other_id), (given.text_sha256, given.other_sha256)
        now = (sample.c.sample_id, _OTHER.c.sample_id), (sample.c.text_sha256, _OTHER.c.text_sha256)
        by = sa.and_(given.rater == rater.name, given.aspect == rater.aspect)
        return _AnswerTable(preference, *columns_of_two, *now, by)
    label = keypoint_label.c
    # A manifest's label may have own fields of any name.
    is_ours = (label.source == MANIFEST_LABEL_SOURCE, label.extra["seed"].is_not(None))
    return _AnswerTable(
        keypoint_label,
        (label.keypoint_id, label.sample_id),
        (label.keypoint_sha256, label.text_sha256),
        (keypoint.c.keypoint_id, sample.c.sample_id),
        (sa.func.sha256(sa.func.utf8(keypoint.c.text)), sample.c.text_sha256),
        sa.and_(label.extra["rater"].astext == rater.name, *is_ours),
    )


class ShownCaption(NamedTuple):
    """A caption as a page shows it: the ids of the caption and its video, its text, and the SHA-256 of that text."""

    sample_id: int
    text: str
    text_sha256: bytes
    video_id: int


class Question(NamedTuple):
    """A question to a rater, as a page shows it. captions: one, or two from left to right. keypoint: id and text of the
    keypoint to label, or None. planted_id: in an attention check, the id of a caption of another video, whose text
    replaces that of the caption at `place`; else None.
    """

    captions: tuple[ShownCaption, ...]
    keypoint: tuple[int, str] | None = None
    planted_id: int | None = None
    place: int = 0

    @property
    def sample_ids(self) -> tuple[int, ...]:
        """The ids of the captions in their order."""
        return tuple(caption.sample_id for caption in self.captions)

    @property
    def key(self) -> Key:
        """The ids of the rows that the answer is about."""
        return (*([] if self.keypoint is None else self.keypoint[:1]), *sorted(self.sample_ids))

    @property
    def seen(self) -> str:
        """The hash of what is shown: the SHA-256, as 64 hexadecimal digits, of all texts in their order."""
        texts = [caption.text for caption in self.captions] + ([self.keypoint[1]] if self.keypoint else [])
        return hashlib.sha256(json.dumps(texts).encode()).hexdigest()

    def turn(self, value: float) -> float:
        """Convert a preference from the page's form (1 prefers the left caption, -1 the right one) to the stored form:
        1 prefers the caption with the lower id, or in an attention check the planted one.
        """
        is_first = self.place == 0 if self.planted_id is not None else self.captions[0].sample_id == self.key[0]
        return value if is_first else -value


def find_next_question(
    connection: Connection, rater: Rater, skipped: Collection[Key] = (), drawn: Iterable[int] | None = None
) -> Question | None:
    """Find the question to ask the rater next; None if none is left. A repeat that is due comes before new captions.
    Which caption of a pair is on the left is random per rater; in a repeat they change places. skipped: keys of
    questions to leave out now. drawn: ids of the only captions to rate, in this order.
    """
    repeat = find_due_repeat(connection, rater, skipped)
    # A caption of the pair may be of another video by now.
    question = None if repeat is None else load_question(connection, rater, _place(rater, repeat)[::-1])
    return question or _find_new_question(connection, rater, skipped, drawn)


def load_question(
    connection: Connection, rater: Rater, sample_ids: Sequence[int], keypoint_id: int | None = None
) -> Question | None:
    """Load the question about captions of the rater's dataset, in the given order, with their present texts; None if
    there is none: a row was dropped, or they are not of one video.
    """
    columns = (sample.c.sample_id, sample.c.text, sample.c.text_sha256, sample.c.video_id)
    rows = connection.execute(sa.select(*columns).where(rater.caption_condition, sample.c.sample_id.in_(sample_ids)))
    captions = {row[0]: ShownCaption(row[0], row[1], bytes(row[2]), row[3]) for row in rows}
    fact = None
    if keypoint_id is not None:
        videos = [caption.video_id for caption in captions.values()]
        query = sa.select(keypoint.c.keypoint_id, keypoint.c.text).where(keypoint.c.keypoint_id == keypoint_id)
        fact = connection.execute(query.where(keypoint.c.video_id.in_(videos))).one_or_none()
    is_whole = len(captions) == len(sample_ids) and len({caption.video_id for caption in captions.values()}) == 1
    if not is_whole or (keypoint_id is not None and fact is None):
        return None
    return Question(tuple(captions[sample_id] for sample_id in sample_ids), fact and (fact[0], fact[1]))


def _place(rater: Rater, key: Key) -> Key:
    """Return the ids of a caption, or of two in the order in which the rater sees them first."""
    return key[::-1] if _draw_from_values([*key, rater.name, rater.seed]) % 2 == 1 else key


def _find_new_question(
    connection: Connection, rater: Rater, skipped: Collection[Key], drawn: Iterable[int] | None = None
) -> Question | None:
    """Find the first question in a random order of the rater's seed that is neither answered for the present texts nor
    skipped; None at the end.

    All raters with one seed get one order. A pair has captions of one video, by different systems, with different
    texts. A keypoint is labelled once, by any rater, and the keypoints of a caption follow one another.
    """
    if drawn is not None:
        table = _get_answer_table(rater)
        rated = sa.select(*table.keys).where(*table.is_about, table.is_by_rater, table.has_present_texts)
        done = {*(key[0] for key in skipped), *connection.scalars(rated)}
        # A sample that was dropped or is no caption any more is skipped.
        questions = (load_question(connection, rater, [sample_id]) for sample_id in drawn if sample_id not in done)
        return next(filter(None, questions), None)
    if rater.kind == "rating":
        key = _find_new_key(connection, rater, skipped, sa.true())
        return None if key is None else load_question(connection, rater, key)
    some = sa.select(video.c.video_id).where(video.c.dataset_id == rater.dataset.dataset_id)
    first = some.order_by(build_draw_number(rater.seed, video.c.key), video.c.video_id).limit(_MAX_FIRST_VIDEOS)
    conditions = (sample.c.video_id.in_(videos) for videos in (first, some))
    keys = (_find_new_key(connection, rater, skipped, condition) for condition in conditions)
    key = next(filter(None, keys), None)
    if key is None:
        return None
    if rater.kind == "label":
        return load_question(connection, rater, key[1:], key[0])
    return load_question(connection, rater, _place(rater, key))


def _find_new_key(
    connection: Connection, rater: Rater, skipped: Collection[Key], condition: sa.ColumnElement[bool]
) -> Key | None:
    table, order = _get_answer_table(rater), build_draw_number(rater.seed)
    is_given = keypoint_label.c.source == MANIFEST_LABEL_SOURCE if rater.kind == "label" else table.is_by_rater
    is_done = sa.select(sa.literal(1)).where(*table.is_about, table.has_present_texts, is_given)
    conditions = [rater.caption_condition, condition, ~is_done.exists()]
    if rater.kind == "preference":
        conditions += [_OTHER.c.kind == "caption", _OTHER.c.video_id == sample.c.video_id]
        conditions += [_OTHER.c.sample_id > sample.c.sample_id, _OTHER.c.system != sample.c.system]
        conditions.append(_OTHER.c.text_sha256 != sample.c.text_sha256)
        order = build_draw_number(rater.seed, sample.c.key + "\n" + _OTHER.c.key)
    elif rater.kind == "label":
        conditions.append(keypoint.c.video_id == sample.c.video_id)
    if skipped:
        conditions.append(sa.tuple_(*table.ids).not_in(list(skipped)))
    query = sa.select(*table.ids).where(*conditions).order_by(order, sample.c.sample_id, table.ids[0]).limit(1)
    row = connection.execute(query).one_or_none()
    return None if row is None else tuple(row)


def find_due_repeat(connection: Connection, rater: Rater, skipped: Collection[Key] = ()) -> Key | None:
    """Find the ids of the caption or pair that the rater must now answer a second time; None if no repeat is due or
    possible. One in REPEAT_EVERY answers is a repeat, at a random place per rater, of something not repeated yet, not
    in `skipped`, and answered more than MIN_REPEAT_DISTANCE answers ago.

    A caption with another text by now is not repeated, and neither is one in `skipped`. No label is repeated, and
    nothing for a rater who marks wrong words, since the page shows the marks.
    """
    if rater.spans or rater.kind == "label":
        return None
    block, place = divmod(_count_answers_given(connection, rater), REPEAT_EVERY)
    if place != MIN_REPEAT_DISTANCE + 1 + _draw_from_values([rater.name, rater.aspect, rater.seed, block]) % (
        REPEAT_EVERY - MIN_REPEAT_DISTANCE - 1
    ):
        return None
    table = _get_answer_table(rater)
    given_at, again_at = _read_times(table.table)
    answers = sa.select(
        *table.keys, again_at.label("again_at"), sample.c.key, table.has_present_texts.label("is_same")
    ).where(*table.is_about, rater.caption_condition, table.is_by_rater, given_at.is_not(None))
    before = answers.order_by(sa.func.coalesce(again_at, given_at).desc()).offset(MIN_REPEAT_DISTANCE).subquery()
    key = [before.c[column.name] for column in table.keys]
    query = sa.select(*key).where(before.c.again_at.is_(None), before.c.is_same)
    rows = connection.execute(query.order_by(build_draw_number(rater.seed ^ 1, before.c.key), *key))
    return next((tuple(row) for row in rows if tuple(row) not in set(skipped)), None)


def find_due_check(connection: Connection, rater: Rater, every: int, skipped: Collection[Key] = ()) -> Question | None:
    """Find the attention check that the rater must answer now; None if none is due or possible, or it is in `skipped`.
    One in `every` answers is one to a check, at a random place per rater. Video and planted caption are drawn anew for
    every check by a hash of the rater.

    The planted caption differs from every caption and reference of the shown video, apart from case and spaces
    around it, and its video has another file. There is no check where no caption is like that, nor where everything is
    answered.
    """
    block, place = divmod(count_questions(connection, rater), every)
    number = _draw_from_values([rater.name, rater.aspect, rater.kind == "preference", rater.seed, block, "check"])
    if place != number % every:
        return None
    # In an order of its own, so that the right caption of the video does not follow directly.
    seed = number >> 1
    question = _find_new_question(connection, rater._replace(seed=seed), ())
    if question is None or question.key in set(skipped):
        return None
    captions = list(question.captions)
    place = _draw_from_values([seed, "place"]) % len(captions)
    planted = _find_planted_caption(connection, rater, captions[place].video_id, seed)
    if planted is None or _has_check(connection, rater, captions[place].sample_id, planted.sample_id):
        return None
    captions[place] = captions[place]._replace(text=planted.text, text_sha256=planted.text_sha256)
    return Question(tuple(captions), planted_id=planted.sample_id, place=place)


def _has_check(connection: Connection, rater: Rater, sample_id: int, planted_id: int) -> bool:
    """Whether the rater has answered the check with this caption in the place of that one."""
    columns = attention_check.c
    same = (_build_check_condition(rater), columns.sample_id == sample_id, columns.planted_id == planted_id)
    return connection.scalar(sa.select(sa.literal(1)).where(*same)) is not None


def _find_planted_caption(connection: Connection, rater: Rater, video_id: int, seed: int) -> ShownCaption | None:
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
    return None if row is None else ShownCaption(row[0], row[1], bytes(row[2]), row[3])


def count_questions(connection: Connection, rater: Rater) -> int:
    """Return the number of answers that the rater gave for this aspect and dataset, those to repeats and to attention
    checks included.
    """
    in_dataset = attention_check.c.sample_id.in_(sa.select(sample.c.sample_id).where(rater.caption_condition))
    query = sa.select(sa.func.count()).where(_build_check_condition(rater), in_dataset)
    return _count_answers_given(connection, rater) + (connection.scalar(query) or 0)


def _count_answers_given(connection: Connection, rater: Rater) -> int:
    """Return the number of answers with a time that the rater gave for this aspect and dataset, those to repeats and
    about older texts included.
    """
    table = _get_answer_table(rater)
    first, second = map(sa.func.count, _read_times(table.table))
    query = sa.select(first + second).where(*table.is_about, rater.caption_condition, table.is_by_rater)
    return connection.scalar(query) or 0


def count_answers(connection: Connection, rater: Rater) -> tuple[int, int]:
    """Return (number of captions, pairs or keypoints that the rater has answered, number of captions of the dataset).
    An answer counts only while its texts stay unchanged. A repeat does not count again.
    """
    table, n = _get_answer_table(rater), sa.select(sa.func.count())
    answers = n.select_from(table.table).where(*table.is_about, table.is_by_rater, table.has_present_texts)
    captions = n.select_from(sample).where(rater.caption_condition)
    return connection.scalar(answers.where(rater.caption_condition)) or 0, connection.scalar(captions) or 0


def count_answers_by_rater(connection: Connection, rater: Rater) -> list[tuple[str, int]]:
    """Return (name, number of captions or pairs answered) of every rater of the dataset for the aspect of `rater`, the
    most answers first. Answers count as in `count_answers`; those of a manifest count too.
    """
    table, n = _get_answer_table(rater), sa.func.count()
    name, is_of_aspect = table.table.c.rater, table.table.c.aspect == rater.aspect
    answers = sa.select(name, n).where(*table.is_about, rater.caption_condition, is_of_aspect, table.has_present_texts)
    return [(row[0], row[1]) for row in connection.execute(answers.group_by(name).order_by(n.desc(), name))]


def find_scale(connection: Connection, dataset: Dataset, aspect: str) -> str | None:
    """Return the name of the scale on which an aspect was rated in a browser in a dataset; None if no such rating is
    stored.
    """
    scale = rating.c.extra["scale"].astext
    query = sa.select(scale).join(sample).where(sample.c.dataset_id == dataset.dataset_id, rating.c.aspect == aspect)
    return connection.scalar(query.where(scale.is_not(None)).limit(1))


def _build_check_condition(rater: Rater) -> sa.ColumnElement[bool]:
    """Build the SQL condition that a row of `attention_check` is by this rater for this aspect, in any dataset."""
    columns, is_comparison = attention_check.c, rater.kind == "preference"
    return sa.and_(columns.rater == rater.name, columns.aspect == rater.aspect, columns.is_comparison == is_comparison)


def _read_times(table: sa.Table) -> tuple[sa.ColumnElement[str], sa.ColumnElement[str]]:
    """Return the SQL expressions for the times of an answer and of the second answer; NULL where there is none."""
    return table.c.extra["rated_at"].astext, table.c.extra[("again", "rated_at")].astext


def _draw_from_values(values: Sequence[object]) -> int:
    """Return a random number below 2**64 that depends only on these values."""
    return int.from_bytes(hashlib.sha256(json.dumps(values).encode("utf-8")).digest()[:8], "big")


class TextChanged(ValueError):
    """Raised when an answer is about a text that has changed, or was dropped, since it was shown; also for a second
    answer to an attention check, whose planted text is shown no more.
    """

    plain = True

    def __init__(self) -> None:
        super().__init__(
            "your answer was not stored: it was given already, or a text was changed or dropped after it was shown; "
            "open the page again"
        )


def require_seen(
    connection: Connection,
    rater: Rater,
    seen: str,
    sample_ids: Sequence[int],
    keypoint_id: int | None = None,
    check: Question | None = None,
) -> Question:
    """Return the question that a rater saw, and lock its rows until the transaction ends. seen: its hash, as
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
    repeat is due, the answer is stored next to the first one. question: from `require_seen` in this transaction. extra:
    further fields to store with the answer. has_passed: whether an attention check was passed; else None.

    value: a rating; for a pair as `Question.turn` returns it; for a keypoint 1 if the caption covers it, else 0.
    """
    answers = _get_answer_table(rater)
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
        is_first = (answers.is_by_rater, _read_times(table)[1].is_(None), *(column == part for column, part in about))
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
    there is none. If it was the second answer to a repeat, the first one stays. The last answer may be one to an
    attention check; marks of wrong words are deleted by `delete_mark`.
    """
    answers = _get_answer_table(rater)
    tables = {answers.table: answers.is_by_rater}
    if rater.kind != "label":
        tables[attention_check] = _build_check_condition(rater)
    last: tuple[str, bool, sa.Table, list[sa.ColumnElement[bool]]] | None = None
    for table, is_by_rater in tables.items():
        given_at, again_at = _read_times(table)
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
    """List the words that the rater marked as wrong in the caption of a question, in the order of the text."""
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
