"""Rating in a browser: the next caption or pair to rate, storing the answer in `rating` or `preference`, and taking it
back.

These ratings are read like ingested ones. Field `extra` of an answer has the time and the order of the questions. Some
captions come twice for a rater: `extra` keeps the second answer under "again", next to the first one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.manifest.draws import build_draw_number
from db.schema import preference, rating, sample, video

CHOSEN_FIELD = "to_settle"
"""The field of a rating's `extra` with the reason why its caption was chosen, as {"question": "promise 7"}; view
random_rating leaves such ratings out, since they are no random sample.
"""
REPEAT_EVERY = 10
"""One in this many answers is the answer to a repeat."""
MIN_REPEAT_DISTANCE = 5
"""The smallest number of answers between the first answer about a caption and its repeat."""
MAX_FIRST_VIDEOS = 2000
"""Pairs are first looked for in this many videos: with 200,000 captions this takes a quarter of the time."""
_ITEM = (sample.c.sample_id, sample.c.text, sample.c.text_sha256, sample.c.video_id)
# The time of Postgres, in the form in which times sort as texts.
_NOW = sa.func.to_char(sa.text("statement_timestamp() AT TIME ZONE 'UTC'"), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')

CaptionIds = tuple[int, ...]
"""The id of the caption to rate, or the ids of the two captions to compare, ascending."""


class Rater(NamedTuple):
    """A person who rates captions of a dataset in a browser, for one aspect such as fluency. seed: of the random order
    in which captions are shown. pairs: whether two captions are compared at a time, instead of one rated. spans:
    whether the rater also marks wrong words.
    """

    dataset: Dataset
    name: str
    aspect: str
    seed: int = 0
    pairs: bool = False
    spans: bool = False

    @property
    def table(self) -> sa.Table:
        """Table that stores this rater's answers: `preference` for pairs, else `rating`."""
        return preference if self.pairs else rating

    @property
    def key_columns(self) -> list[sa.Column[int]]:
        """Columns with the ids of the rated captions in table `rating` or `preference`: one column for a rating, two
        for a preference.
        """
        return [preference.c.sample_id, preference.c.other_id] if self.pairs else [rating.c.sample_id]

    @property
    def answer_condition(self) -> sa.ColumnElement[bool]:
        """SQL condition that a row of table `rating`, or of `preference` for pairs, is by this rater for this aspect.
        It holds for any dataset.
        """
        return sa.and_(self.table.c.rater == self.name, self.table.c.aspect == self.aspect)

    @property
    def caption_condition(self) -> sa.ColumnElement[bool]:
        """SQL condition that a row of table `sample` is a caption of the dataset."""
        return sa.and_(sample.c.dataset_id == self.dataset.dataset_id, sample.c.kind == "caption")


class CaptionToRate(NamedTuple):
    """A caption to be shown to a rater: its present text, the SHA-256 of that text in UTF-8, and the ids of the caption
    and its video.
    """

    sample_id: int
    text: str
    text_sha256: bytes
    video_id: int


def list_next_captions(
    connection: Connection, rater: Rater, skipped: Collection[CaptionIds] = (), drawn: Iterable[int] | None = None
) -> list[CaptionToRate]:
    """List the captions to show the rater next: one, or two from left to right for pairs; [] at the end. A repeat that
    is due comes before new captions. skipped: ids of captions or pairs not to show now. drawn: ids of captions in an
    order of their own, not for pairs; see `find_next_caption`.

    Which caption of a pair is on the left is random per rater; in a repeat they change places.
    """
    repeat = find_due_repeat(connection, rater, skipped)
    if repeat is None:
        return list_new_captions(connection, rater, skipped, drawn)
    return _load_captions(connection, rater, repeat)[::-1]


def list_new_captions(
    connection: Connection, rater: Rater, skipped: Collection[CaptionIds] = (), drawn: Iterable[int] | None = None
) -> list[CaptionToRate]:
    """List the captions that the rater has not answered yet, to be shown next, as `list_next_captions` does without a
    repeat.
    """
    if rater.pairs:
        return _load_captions(connection, rater, find_next_pair(connection, rater, skipped) or ())
    item = find_next_caption(connection, rater, [key[0] for key in skipped], drawn)
    return [] if item is None else [item]


def _load_captions(connection: Connection, rater: Rater, key: CaptionIds) -> list[CaptionToRate]:
    """Load a caption, or the two of a pair in the order in which the rater sees them first; [] if one was dropped."""
    rows = connection.execute(sa.select(*_ITEM).where(rater.caption_condition, sample.c.sample_id.in_(key)))
    items = sorted(CaptionToRate(row[0], row[1], bytes(row[2]), row[3]) for row in rows)
    if len(items) < len(key):
        return []  # one was dropped in this moment
    return items[::-1] if rater.pairs and draw_from_values([*key, rater.name, rater.seed]) % 2 == 1 else items


def find_next_caption(
    connection: Connection, rater: Rater, skipped: Collection[int] = (), drawn: Iterable[int] | None = None
) -> CaptionToRate | None:
    """Find the first caption in a random order whose present text the rater has neither rated nor skipped; None at the
    end. The order is of the rater's seed. drawn: ids of captions to go through in this
    order instead; no other caption is returned then.

    All raters with one seed get one order.
    """
    if drawn is not None:
        rated = sa.select(rating.c.sample_id).join(sample).where(rater.answer_condition, _build_text_condition(rater))
        done = {*skipped, *connection.scalars(rated)}
        # A sample that was dropped or is no caption any more is skipped.
        captions = (find_caption(connection, rater, sample_id) for sample_id in drawn if sample_id not in done)
        return next((item for item in captions if item is not None), None)
    is_same_text = (rating.c.sample_id == sample.c.sample_id, rating.c.text_sha256 == sample.c.text_sha256)
    is_rated = sa.select(sa.literal(1)).where(*is_same_text, rater.answer_condition).exists()
    conditions = [rater.caption_condition, ~is_rated, sample.c.sample_id.not_in(list(skipped))]
    query = sa.select(*_ITEM).where(*conditions).order_by(build_draw_number(rater.seed), sample.c.sample_id)
    row = connection.execute(query.limit(1)).one_or_none()
    return None if row is None else CaptionToRate(row[0], row[1], bytes(row[2]), row[3])


def find_caption(connection: Connection, rater: Rater, sample_id: int) -> CaptionToRate | None:
    """Find the caption of the rater's dataset with this id; None if there is none."""
    query = sa.select(*_ITEM).where(rater.caption_condition, sample.c.sample_id == sample_id)
    row = connection.execute(query).one_or_none()
    return None if row is None else CaptionToRate(row[0], row[1], bytes(row[2]), row[3])


def find_next_pair(connection: Connection, rater: Rater, skipped: Collection[CaptionIds] = ()) -> CaptionIds | None:
    """Find the next two captions that the rater has neither compared with their present texts nor skipped, in a random
    order by the rater's seed. Return their ids, ascending; None at the end. A pair has captions of one video, by
    different systems, with different texts.

    Pairs of MAX_FIRST_VIDEOS videos, drawn by the seed, come first.
    """
    draws = build_video_queries(rater.dataset, rater.seed)
    return next(filter(None, (_find_next_pair(connection, rater, skipped, videos) for videos in draws)), None)


def build_video_queries(dataset: Dataset, seed: int) -> tuple[sa.Select[tuple[int]], sa.Select[tuple[int]]]:
    """Return two queries for ids of a dataset's videos: first of up to MAX_FIRST_VIDEOS videos drawn by the seed, then
    of all videos. Runs neither.
    """
    some = sa.select(video.c.video_id).where(video.c.dataset_id == dataset.dataset_id)
    return some.order_by(build_draw_number(seed, video.c.key), video.c.video_id).limit(MAX_FIRST_VIDEOS), some


def _find_next_pair(
    connection: Connection, rater: Rater, skipped: Collection[CaptionIds], videos: sa.Select[tuple[int]]
) -> CaptionIds | None:
    other = sample.alias("other")
    is_compared = sa.select(sa.literal(1)).where(
        *(
            preference.c.sample_id == sample.c.sample_id,
            preference.c.other_id == other.c.sample_id,
            rater.answer_condition,
        ),
        *(preference.c.text_sha256 == sample.c.text_sha256, preference.c.other_sha256 == other.c.text_sha256),
    )
    conditions = [
        *(rater.caption_condition, other.c.kind == "caption", other.c.video_id == sample.c.video_id),
        *(sample.c.video_id.in_(videos), other.c.sample_id > sample.c.sample_id, other.c.system != sample.c.system),
        *(other.c.text_sha256 != sample.c.text_sha256, ~is_compared.exists()),
    ]
    if skipped:
        conditions.append(sa.tuple_(sample.c.sample_id, other.c.sample_id).not_in(list(skipped)))
    order = build_draw_number(rater.seed, sample.c.key + "\n" + other.c.key)
    query = sa.select(sample.c.sample_id, other.c.sample_id).where(*conditions).order_by(order, sample.c.sample_id)
    row = connection.execute(query.limit(1)).one_or_none()
    return None if row is None else (row[0], row[1])


def find_due_repeat(connection: Connection, rater: Rater, skipped: Collection[CaptionIds] = ()) -> CaptionIds | None:
    """Find the ids of the caption or pair that the rater must now answer a second time; None if a new one is due. One
    in REPEAT_EVERY answers is a repeat, at a random place per rater. It repeats something not repeated yet and answered
    more than MIN_REPEAT_DISTANCE answers ago.

    A caption with another text by now is not repeated, and neither is one in `skipped`. Nothing is repeated for a rater
    who marks wrong words, since the page shows the marks.
    """
    if rater.spans:
        return None
    table, given_at, again_at = rater.table, _read_answer_time(rater.table), _read_repeat_time(rater.table)
    n, _ = load_answer_count(connection, rater)
    block, place = divmod(n, REPEAT_EVERY)
    if place != MIN_REPEAT_DISTANCE + 1 + draw_from_values([rater.name, rater.aspect, rater.seed, block]) % (
        REPEAT_EVERY - MIN_REPEAT_DISTANCE - 1
    ):
        return None
    answers = sa.select(
        *rater.key_columns, again_at.label("again_at"), sample.c.key, _build_text_condition(rater).label("is_same")
    )
    answers = answers.select_from(table.join(*_build_sample_join(rater))).where(
        rater.caption_condition, rater.answer_condition, given_at.is_not(None)
    )
    last_at = sa.func.coalesce(again_at, given_at)
    before = answers.order_by(last_at.desc()).offset(MIN_REPEAT_DISTANCE).subquery()
    order = build_draw_number(rater.seed ^ 1, before.c.key)
    key = [before.c[column.name] for column in rater.key_columns]
    query = sa.select(*key).where(before.c.again_at.is_(None), before.c.is_same).order_by(order, *key)
    rows = (tuple(row) for row in connection.execute(query))
    return next((row for row in rows if row not in set(skipped)), None)


def load_answer_count(connection: Connection, rater: Rater) -> tuple[int, str]:
    """Load (number of answers with a time that the rater gave for this aspect and dataset, time of the last one in a
    browser as it is in `extra`, or ""). Answers to repeats count, and so do answers about older texts.
    """
    times = _read_answer_time(rater.table), _read_repeat_time(rater.table)
    n = sa.func.count(times[0]) + sa.func.count(times[1])
    # Answers from other tools may have a time too, but no seed.
    last = sa.func.max(sa.func.greatest(*times)).filter(rater.table.c.extra["seed"].is_not(None))
    query = sa.select(n, sa.func.coalesce(last, ""))
    answers = query.select_from(rater.table.join(*_build_sample_join(rater)))
    row = connection.execute(answers.where(rater.caption_condition, rater.answer_condition)).one()
    return row[0], row[1]


def store_answer(
    connection: Connection,
    rater: Rater,
    captions: Sequence[tuple[int, bytes]],
    value: float,
    extra: dict[str, Any],
    skipped: Collection[CaptionIds] = (),
) -> bool:
    """Store a rating of one caption, or a preference between two, and return True; False if a text has changed or the
    rater has answered it already. captions: ids, with the SHA-256 of the shown texts. value: a rating; for a pair 1 if
    the caption with the lower id is better, -1 if the other, 0 if neither.

    If a repeat of these captions is due, the answer is stored next to the first one. extra: further fields to store
    with the answer.
    """
    captions = sorted(captions)
    key = tuple(sample_id for sample_id, _ in captions)
    if key == find_due_repeat(connection, rater, skipped):
        again = sa.func.jsonb_build_object("again", build_timed_json({**extra, "value": value}))
        same = [column == part for column, part in zip(rater.key_columns, key, strict=True)]
        digests = [rater.table.c.text_sha256, *([preference.c.other_sha256] if rater.pairs else [])]
        same += [column == digest for column, (_, digest) in zip(digests, captions, strict=True)]
        # Stored only once: a second browser window then updates no row.
        changed = sa.update(rater.table).where(rater.answer_condition, *same, _read_repeat_time(rater.table).is_(None))
        return connection.execute(changed.values(extra=rater.table.c.extra.op("||")(again))).rowcount > 0
    if rater.pairs:
        return _store_preference(connection, rater, captions, int(value), extra)
    return store_rating(connection, rater, *captions[0], value, extra)


def store_rating(
    connection: Connection, rater: Rater, sample_id: int, text_sha256: bytes, value: float, extra: dict[str, Any]
) -> bool:
    """Store a rating from 1 to 5 of a caption and return True. Return False and store nothing if its present text has
    not this SHA-256, or if this rater has rated it already. A rating by the same rater of an older text is replaced.
    extra: further fields to store with the rating.
    """
    answer = {"sample_id": sample_id, "rater": rater.name, "aspect": rater.aspect, "value": value, **extra}
    digest = hashlib.sha256(json.dumps(answer, sort_keys=True).encode("utf-8")).digest()
    # The row of the sample stays as it is until the rating is stored.
    query = sa.select(sample.c.sample_id, *map(sa.literal, (rater.name, rater.aspect, value)), build_timed_json(extra))
    query = query.add_columns(sa.literal(digest), sample.c.text_sha256).where(
        rater.caption_condition, sample.c.sample_id == sample_id, sample.c.text_sha256 == text_sha256
    )
    names = ["sample_id", "rater", "aspect", "value", "extra", "row_sha256", "text_sha256"]
    new = insert(rating).from_select(names, query.with_for_update(key_share=True))
    stored = new.on_conflict_do_update(
        index_elements=names[:3],
        set_={name: new.excluded[name] for name in names[3:]},
        where=rating.c.text_sha256 != new.excluded.text_sha256,
    )
    return connection.execute(stored.returning(rating.c.sample_id)).one_or_none() is not None


def _store_preference(
    connection: Connection, rater: Rater, captions: Sequence[tuple[int, bytes]], value: int, extra: dict[str, Any]
) -> bool:
    (first, text_sha256), (second, other_sha256) = captions
    other = sample.alias("other")
    values = map(sa.literal, (rater.name, rater.aspect, value))
    query = sa.select(sample.c.sample_id, other.c.sample_id, *values, sample.c.text_sha256, other.c.text_sha256)
    query = query.add_columns(build_timed_json(extra)).where(
        *(rater.caption_condition, other.c.kind == "caption", other.c.video_id == sample.c.video_id),
        *(sample.c.sample_id == first, sample.c.text_sha256 == text_sha256),
        *(other.c.sample_id == second, other.c.text_sha256 == other_sha256, other.c.sample_id > sample.c.sample_id),
    )
    names = ["sample_id", "other_id", "rater", "aspect", "value", "text_sha256", "other_sha256", "extra"]
    # Neither caption can be deleted until the answer is stored; readers compare the texts to see whether it counts.
    new = insert(preference).from_select(names, query.with_for_update(read=True, key_share=True))
    texts = sa.tuple_(preference.c.text_sha256, preference.c.other_sha256)
    stored = new.on_conflict_do_update(
        index_elements=names[:4],
        set_={name: new.excluded[name] for name in names[4:]},
        where=texts != sa.tuple_(new.excluded.text_sha256, new.excluded.other_sha256),
    )
    return connection.execute(stored.returning(preference.c.sample_id)).one_or_none() is not None


def delete_last_answer(connection: Connection, rater: Rater) -> bool:
    """Delete the answer that the rater gave last in a browser, for this aspect and dataset, and return True; False if
    there is none. If it was the second answer to a repeat, the first one stays.
    """
    table, given_at, again_at = rater.table, _read_answer_time(rater.table), _read_repeat_time(rater.table)
    query = sa.select(*rater.key_columns, again_at).select_from(table.join(*_build_sample_join(rater)))
    # Answers from other tools may have a time too, but no seed.
    is_ours = sa.and_(given_at.is_not(None), table.c.extra["seed"].is_not(None))
    query = query.where(rater.caption_condition, rater.answer_condition, is_ours)
    last = query.order_by(sa.func.coalesce(again_at, given_at).desc()).limit(1).with_for_update(of=table)
    row = connection.execute(last).one_or_none()
    if row is None:
        return False
    *key, repeated_at = row
    is_last = sa.and_(
        rater.answer_condition, *(column == part for column, part in zip(rater.key_columns, key, strict=True))
    )
    without_repeat = sa.update(table).where(is_last).values(extra=table.c.extra.op("-")("again"))
    return connection.execute(sa.delete(table).where(is_last) if repeated_at is None else without_repeat).rowcount > 0


def count_answers(connection: Connection, rater: Rater) -> tuple[int, int]:
    """Return (number of captions or pairs that the rater has answered, number of captions of the dataset). An answer
    counts while its captions have the texts that were rated. A repeat does not count again.
    """
    answers = sa.select(sa.func.count()).select_from(rater.table.join(*_build_sample_join(rater)))
    rated = answers.where(rater.caption_condition, rater.answer_condition, _build_text_condition(rater))
    captions = sa.select(sa.func.count()).select_from(sample).where(rater.caption_condition)
    return connection.execute(rated).scalar_one(), connection.execute(captions).scalar_one()


def count_answers_by_rater(connection: Connection, rater: Rater) -> list[tuple[str, int]]:
    """Return (name, number of captions or pairs answered) of every rater of the dataset for the aspect of `rater`, the
    most answers first. Answers count as in `count_answers`; those of a manifest count too.
    """
    name, n = rater.table.c.rater, sa.func.count()
    answers = sa.select(name, n).select_from(rater.table.join(*_build_sample_join(rater)))
    is_counted = (rater.caption_condition, rater.table.c.aspect == rater.aspect, _build_text_condition(rater))
    rows = connection.execute(answers.where(*is_counted).group_by(name).order_by(n.desc(), name))
    return [(row[0], row[1]) for row in rows]


def find_scale(connection: Connection, dataset: Dataset, aspect: str) -> str | None:
    """Return the name of the scale on which an aspect was rated in a browser in a dataset; None if no such rating is
    stored.
    """
    scale = rating.c.extra["scale"].astext
    query = sa.select(scale).join(sample).where(sample.c.dataset_id == dataset.dataset_id, rating.c.aspect == aspect)
    return connection.scalar(query.where(scale.is_not(None)).limit(1))


def build_timed_json(extra: dict[str, Any]) -> sa.ColumnElement[Any]:
    """Return an SQL expression for a JSON object with the fields of `extra` and `rated_at`, the database server's time
    in UTC. A field `rated_at` of `extra` takes its place.
    """
    return sa.func.jsonb_build_object("rated_at", _NOW).op("||")(sa.cast(extra, rating.c.extra.type))


def _build_sample_join(rater: Rater) -> tuple[sa.Table, sa.ColumnElement[bool]]:
    """Return table `sample` and the condition that joins a rater's answers to it."""
    return sample, rater.key_columns[0] == sample.c.sample_id


def _build_text_condition(rater: Rater) -> sa.ColumnElement[bool]:
    """Return the SQL condition that an answer's captions still have the texts that were rated."""
    if not rater.pairs:
        return sample.c.text_sha256 == rating.c.text_sha256
    other = sample.alias("other")
    same_other = sa.select(sa.literal(1)).where(
        other.c.sample_id == preference.c.other_id, other.c.text_sha256 == preference.c.other_sha256
    )
    return sa.and_(preference.c.text_sha256 == sample.c.text_sha256, same_other.exists())


def _read_answer_time(table: sa.Table) -> sa.ColumnElement[str]:
    time: sa.ColumnElement[str] = table.c.extra["rated_at"].astext
    return time


def _read_repeat_time(table: sa.Table) -> sa.ColumnElement[str]:
    time: sa.ColumnElement[str] = table.c.extra[("again", "rated_at")].astext
    return time


def draw_from_values(values: Sequence[object]) -> int:
    """Return a random number below 2**64 that depends only on these values."""
    return int.from_bytes(hashlib.sha256(json.dumps(values).encode("utf-8")).digest()[:8], "big")
