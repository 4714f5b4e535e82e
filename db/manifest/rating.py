"""What people say in a browser: what comes next, the answer in table `rating` or `preference`, repeats, and back.

Ratings stand beside ingested ones and are read alike. `extra` of an answer says when, how and in which order it was
asked. Some of a rater's captions come twice: `extra` keeps the second answer under "again", beside the first one.
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
from db.schema import preference, rating, sample, video

REPEAT_EVERY = 10
"""One of so many answers is to a repeat."""
MIN_REPEAT_DISTANCE = 5
"""So many answers at least lie between a caption and its repeat."""
MAX_FIRST_VIDEOS = 2000
"""Pairs are looked for in so many videos first: of 200,000 captions that takes a quarter of the time."""
_ITEM = (sample.c.sample_id, sample.c.text, sample.c.text_sha256, sample.c.video_id)
# The time of Postgres, in the form in which times sort as texts.
_NOW = sa.func.to_char(sa.text("statement_timestamp() AT TIME ZONE 'UTC'"), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')

CaptionIds = tuple[int, ...]
"""What is asked about: the id of a caption, or of two in ascending order."""


class Rater(NamedTuple):
    """Who rates which aspect of a dataset's captions, in the random order of a seed; pairs: two at a time."""

    dataset: Dataset
    name: str
    aspect: str
    seed: int = 0
    pairs: bool = False

    @property
    def table(self) -> sa.Table:
        """Where the answers stand."""
        return preference if self.pairs else rating

    @property
    def key_columns(self) -> list[sa.Column[int]]:
        """What an answer is about."""
        return [preference.c.sample_id, preference.c.other_id] if self.pairs else [rating.c.sample_id]

    @property
    def answer_condition(self) -> sa.ColumnElement[bool]:
        """Whether a row of the table is one of theirs."""
        return sa.and_(self.table.c.rater == self.name, self.table.c.aspect == self.aspect)

    @property
    def caption_condition(self) -> sa.ColumnElement[bool]:
        """Whether a row of table `sample` may be rated."""
        return sa.and_(sample.c.dataset_id == self.dataset.dataset_id, sample.c.kind == "caption")


class CaptionToRate(NamedTuple):
    """A caption to rate. text_sha256: of the text as it is now."""

    sample_id: int
    text: str
    text_sha256: bytes
    video_id: int


def list_next_captions(
    connection: Connection, rater: Rater, skipped: Collection[CaptionIds] = (), drawn: Iterable[int] | None = None
) -> list[CaptionToRate]:
    """What the rater is asked next: one caption, or two from left to right; empty at the end.

    drawn: as of `find_next_caption`, for one caption at a time.

    Which of two stands on the left is drawn for each rater; in a repeat they stand the other way round.
    """
    repeat = find_due_repeat(connection, rater, skipped)
    if repeat is None and not rater.pairs:
        item = find_next_caption(connection, rater, [key[0] for key in skipped], drawn)
        return [] if item is None else [item]
    key = repeat or find_next_pair(connection, rater, skipped) or ()
    rows = connection.execute(sa.select(*_ITEM).where(rater.caption_condition, sample.c.sample_id.in_(key)))
    items = sorted(CaptionToRate(row[0], row[1], bytes(row[2]), row[3]) for row in rows)
    if len(items) < len(key):
        return []  # one was dropped in this moment
    is_turned = rater.pairs and _draw_number([*key, rater.name, rater.seed]) % 2 == 1
    return items[::-1] if is_turned != (repeat is not None) else items


def find_next_caption(
    connection: Connection, rater: Rater, skipped: Collection[int] = (), drawn: Iterable[int] | None = None
) -> CaptionToRate | None:
    """The first caption in the rater's order that they have neither rated as it is now nor skipped; None at the end.

    The order is that of a hash of seed and key: the same for every rater of a seed, and of neither system nor score.
    drawn: the ids of captions in an order of their own, see `metrics_core.agreement.sampling`.
    """
    if drawn is not None:
        rated = sa.select(rating.c.sample_id).join(sample).where(rater.answer_condition, _build_text_condition(rater))
        done = {*skipped, *connection.scalars(rated)}
        # A caption that was dropped or is none any more is passed over.
        found = (_find_caption(connection, rater, sample_id) for sample_id in drawn if sample_id not in done)
        return next((item for item in found if item is not None), None)
    its = (rating.c.sample_id == sample.c.sample_id, rating.c.text_sha256 == sample.c.text_sha256)
    is_rated = sa.select(sa.literal(1)).where(*its, rater.answer_condition).exists()
    wanted = [rater.caption_condition, ~is_rated, sample.c.sample_id.not_in(list(skipped))]
    order = sa.func.hashtextextended(sample.c.key, sa.literal(rater.seed, sa.BigInteger))
    row = connection.execute(
        sa.select(*_ITEM).where(*wanted).order_by(order, sample.c.sample_id).limit(1)
    ).one_or_none()
    return None if row is None else CaptionToRate(row[0], row[1], bytes(row[2]), row[3])


def _find_caption(connection: Connection, rater: Rater, sample_id: int) -> CaptionToRate | None:
    query = sa.select(*_ITEM).where(rater.caption_condition, sample.c.sample_id == sample_id)
    row = connection.execute(query).one_or_none()
    return None if row is None else CaptionToRate(row[0], row[1], bytes(row[2]), row[3])


def find_next_pair(connection: Connection, rater: Rater, skipped: Collection[CaptionIds] = ()) -> CaptionIds | None:
    """The first pair of captions in the rater's order that they have neither compared nor skipped; None at the end.

    Two captions of one video, by different systems, with different texts. The order is that of captions one by one,
    of MOST_VIDEOS videos that are drawn by the seed, and then of all.
    """
    draws = build_video_queries(rater.dataset, rater.seed)
    return next(filter(None, (_find_next_pair(connection, rater, skipped, videos) for videos in draws)), None)


def build_video_queries(dataset: Dataset, seed: int) -> tuple[sa.Select[tuple[int]], sa.Select[tuple[int]]]:
    """The ids of MOST_VIDEOS videos that are drawn by the seed, and then of all."""
    some = sa.select(video.c.video_id).where(video.c.dataset_id == dataset.dataset_id)
    order = sa.func.hashtextextended(video.c.key, sa.literal(seed, sa.BigInteger))
    return some.order_by(order, video.c.video_id).limit(MAX_FIRST_VIDEOS), some


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
    wanted = [
        *(rater.caption_condition, other.c.kind == "caption", other.c.video_id == sample.c.video_id),
        *(sample.c.video_id.in_(videos), other.c.sample_id > sample.c.sample_id, other.c.system != sample.c.system),
        *(other.c.text_sha256 != sample.c.text_sha256, ~is_compared.exists()),
    ]
    if skipped:
        wanted.append(sa.tuple_(sample.c.sample_id, other.c.sample_id).not_in(list(skipped)))
    seed = sa.func.hashtextextended(other.c.key, sa.literal(rater.seed, sa.BigInteger))
    order = sa.func.hashtextextended(sample.c.key, seed)
    query = sa.select(sample.c.sample_id, other.c.sample_id).where(*wanted).order_by(order, sample.c.sample_id)
    row = connection.execute(query.limit(1)).one_or_none()
    return None if row is None else (row[0], row[1])


def find_due_repeat(connection: Connection, rater: Rater, skipped: Collection[CaptionIds] = ()) -> CaptionIds | None:
    """What the rater has answered and is to be asked again now; None where a new caption is to come.

    One of EVERY answers is to a repeat, at a place that is drawn for each rater, of something drawn from what they
    answered more than APART answers ago. What has another text by now does not come again.
    """
    table, given_at, again_at = rater.table, _read_answer_time(rater.table), _read_repeat_time(rater.table)
    counted = sa.select(sa.func.count(given_at) + sa.func.count(again_at)).select_from(
        table.join(*_build_sample_join(rater))
    )
    n = connection.execute(counted.where(rater.caption_condition, rater.answer_condition)).scalar_one()
    block, place = divmod(n, REPEAT_EVERY)
    if place != MIN_REPEAT_DISTANCE + 1 + _draw_number([rater.name, rater.aspect, rater.seed, block]) % (
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
    order = sa.func.hashtextextended(before.c.key, sa.literal(rater.seed ^ 1, sa.BigInteger))
    key = [before.c[column.name] for column in rater.key_columns]
    query = sa.select(*key).where(before.c.again_at.is_(None), before.c.is_same).order_by(order, *key)
    rows = (tuple(row) for row in connection.execute(query))
    return next((row for row in rows if row not in set(skipped)), None)


def store_answer(
    connection: Connection,
    rater: Rater,
    captions: Sequence[tuple[int, bytes]],
    value: float,
    extra: dict[str, Any],
    skipped: Collection[CaptionIds] = (),
) -> bool:
    """Store an answer about captions, each its id and the hash of its text: a rating of one, a preference of two.

    value: a rating from 1 to 5; or 1 where the caption with the lower id is better, -1 where the other one is, else 0.
    False, and nothing is stored, where a text is another one by now, or the rater has answered this already and is not
    to be asked again.
    """
    captions = sorted(captions)
    key = tuple(sample_id for sample_id, _ in captions)
    if key == find_due_repeat(connection, rater, skipped):
        again = sa.func.jsonb_build_object("again", build_timed_json({**extra, "value": value}))
        same = [column == part for column, part in zip(rater.key_columns, key, strict=True)]
        digests = [rater.table.c.text_sha256, *([preference.c.other_sha256] if rater.pairs else [])]
        same += [column == digest for column, (_, digest) in zip(digests, captions, strict=True)]
        # Only once: the window that comes second finds it there.
        changed = sa.update(rater.table).where(rater.answer_condition, *same, _read_repeat_time(rater.table).is_(None))
        return connection.execute(changed.values(extra=rater.table.c.extra.op("||")(again))).rowcount > 0
    if rater.pairs:
        return _store_preference(connection, rater, captions, int(value), extra)
    return store_rating(connection, rater, *captions[0], value, extra)


def store_rating(
    connection: Connection, rater: Rater, sample_id: int, text_sha256: bytes, value: float, extra: dict[str, Any]
) -> bool:
    """Store a rating from 1 to 5 of a caption whose text has this hash.

    It replaces the rater's rating of an older text. False, and nothing is stored, where the text is another one by now,
    or the rater has rated it already.
    """
    said = {"sample_id": sample_id, "rater": rater.name, "aspect": rater.aspect, "value": value, **extra}
    digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode("utf-8")).digest()
    # The row of the sample stays as it is until the rating is stored.
    its = sa.select(sample.c.sample_id, *map(sa.literal, (rater.name, rater.aspect, value)), build_timed_json(extra))
    its = its.add_columns(sa.literal(digest), sample.c.text_sha256).where(
        rater.caption_condition, sample.c.sample_id == sample_id, sample.c.text_sha256 == text_sha256
    )
    names = ["sample_id", "rater", "aspect", "value", "extra", "row_sha256", "text_sha256"]
    new = insert(rating).from_select(names, its.with_for_update(key_share=True))
    stored = new.on_conflict_do_update(
        index_elements=names[:3],
        set_={name: new.excluded[name] for name in names[3:]},
        where=rating.c.text_sha256 != new.excluded.text_sha256,
    )
    return connection.execute(stored.returning(rating.c.sample_id)).one_or_none() is not None


def _store_preference(
    connection: Connection, rater: Rater, about: Sequence[tuple[int, bytes]], value: int, extra: dict[str, Any]
) -> bool:
    (one, text_sha256), (two, other_sha256) = about
    other = sample.alias("other")
    said = map(sa.literal, (rater.name, rater.aspect, value))
    its = sa.select(sample.c.sample_id, other.c.sample_id, *said, sample.c.text_sha256, other.c.text_sha256)
    its = its.add_columns(build_timed_json(extra)).where(
        *(rater.caption_condition, other.c.kind == "caption", other.c.video_id == sample.c.video_id),
        *(sample.c.sample_id == one, sample.c.text_sha256 == text_sha256),
        *(other.c.sample_id == two, other.c.text_sha256 == other_sha256, other.c.sample_id > sample.c.sample_id),
    )
    names = ["sample_id", "other_id", "rater", "aspect", "value", "text_sha256", "other_sha256", "extra"]
    # Neither caption goes until the answer is stored; whether it counts is asked of the texts again and again.
    new = insert(preference).from_select(names, its.with_for_update(read=True, key_share=True))
    texts = sa.tuple_(preference.c.text_sha256, preference.c.other_sha256)
    stored = new.on_conflict_do_update(
        index_elements=names[:4],
        set_={name: new.excluded[name] for name in names[4:]},
        where=texts != sa.tuple_(new.excluded.text_sha256, new.excluded.other_sha256),
    )
    return connection.execute(stored.returning(preference.c.sample_id)).one_or_none() is not None


def delete_last_answer(connection: Connection, rater: Rater) -> bool:
    """Delete the rater's last answer that was given in a browser; False where there is none.

    Of what was asked twice the second answer goes first.
    """
    table, given_at, again_at = rater.table, _read_answer_time(rater.table), _read_repeat_time(rater.table)
    query = sa.select(*rater.key_columns, again_at).select_from(table.join(*_build_sample_join(rater)))
    # What another tool gave has a time, too, and no seed.
    is_ours = sa.and_(given_at.is_not(None), table.c.extra["seed"].is_not(None))
    query = query.where(rater.caption_condition, rater.answer_condition, is_ours)
    last = query.order_by(sa.func.coalesce(again_at, given_at).desc()).limit(1).with_for_update(of=table)
    row = connection.execute(last).one_or_none()
    if row is None:
        return False
    *key, repeated_at = row
    it = sa.and_(rater.answer_condition, *(column == part for column, part in zip(rater.key_columns, key, strict=True)))
    without = sa.update(table).where(it).values(extra=table.c.extra.op("-")("again"))
    return connection.execute(sa.delete(table).where(it) if repeated_at is None else without).rowcount > 0


def count_answers(connection: Connection, rater: Rater) -> tuple[int, int]:
    """How many captions, or pairs of them, the rater has answered as they are now, and how many captions there are."""
    answers = sa.select(sa.func.count()).select_from(rater.table.join(*_build_sample_join(rater)))
    rated = answers.where(rater.caption_condition, rater.answer_condition, _build_text_condition(rater))
    of_all = sa.select(sa.func.count()).select_from(sample).where(rater.caption_condition)
    return connection.execute(rated).scalar_one(), connection.execute(of_all).scalar_one()


def find_scale(connection: Connection, dataset: Dataset, aspect: str) -> str | None:
    """The scale on which an aspect was rated in a browser; None where it was not yet."""
    scale = rating.c.extra["scale"].astext
    query = sa.select(scale).join(sample).where(sample.c.dataset_id == dataset.dataset_id, rating.c.aspect == aspect)
    return connection.scalar(query.where(scale.is_not(None)).limit(1))


def build_timed_json(extra: dict[str, Any]) -> sa.ColumnElement[Any]:
    """These fields and the time of the answer, as JSON."""
    return sa.func.jsonb_build_object("rated_at", _NOW).op("||")(sa.cast(extra, rating.c.extra.type))


def _build_sample_join(rater: Rater) -> tuple[sa.Table, sa.ColumnElement[bool]]:
    """Table `sample` and what joins the answers to it."""
    return sample, rater.key_columns[0] == sample.c.sample_id


def _build_text_condition(rater: Rater) -> sa.ColumnElement[bool]:
    """Whether an answer's captions have the texts that it was about."""
    if not rater.pairs:
        return sample.c.text_sha256 == rating.c.text_sha256
    other = sample.alias("other")
    others = sa.select(sa.literal(1)).where(
        other.c.sample_id == preference.c.other_id, other.c.text_sha256 == preference.c.other_sha256
    )
    return sa.and_(preference.c.text_sha256 == sample.c.text_sha256, others.exists())


def _read_answer_time(table: sa.Table) -> sa.ColumnElement[str]:
    found: sa.ColumnElement[str] = table.c.extra["rated_at"].astext
    return found


def _read_repeat_time(table: sa.Table) -> sa.ColumnElement[str]:
    found: sa.ColumnElement[str] = table.c.extra[("again", "rated_at")].astext
    return found


def _draw_number(of: Sequence[object]) -> int:
    """A number drawn from these values: the same ones give the same number."""
    return int.from_bytes(hashlib.sha256(json.dumps(of).encode("utf-8")).digest()[:8], "big")
