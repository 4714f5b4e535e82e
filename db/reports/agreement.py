"""What people say of a dataset's samples, beside their scores, and how far both agree."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.evidence.verdicts import MANIFEST_LABELS
from db.schema import agreement, dataset, preference, rating, reference, sample

# Judgements of texts as they are now, and the part of the ratings that statistics may use: see the views. What a
# question drew is read by db/manifest/rating.py.
_RATING = ("sample_id", "rater", "aspect", "value")
current_rating = sa.table("current_rating", *map(sa.column, (*_RATING, "extra")))
random_rating = sa.table("random_rating", *map(sa.column, _RATING))
current_label = sa.table("current_label", *map(sa.column, ("keypoint_id", "sample_id", "source", "covered")))
# Ratings held at a time.
ROWS = 2000


@dataclass(frozen=True, slots=True)
class JudgedSample:
    """A sample that people rated, labelled or compared with another one.

    covered: the share of its keypoints labelled as covered, or None.
    """

    sample_id: int
    shard: int
    video_id: int
    system: str
    text: str
    covered: float | None
    kind: str = "caption"


def judged_samples(connection: Connection, dataset_id: int) -> list[JudgedSample]:
    """The samples of a dataset with a rating, a preference or a label of the manifest, by id.

    A judge's labels do not count.
    """
    covered = (
        sa.select(
            current_label.c.sample_id, sa.func.avg(sa.case((current_label.c.covered, 1.0), else_=0.0)).label("share")
        )
        .join(sample, sample.c.sample_id == current_label.c.sample_id)
        .where(sample.c.dataset_id == dataset_id, current_label.c.source == MANIFEST_LABELS)
        .group_by(current_label.c.sample_id)
        .subquery()
    )
    is_rated = sa.exists().where(random_rating.c.sample_id == sample.c.sample_id)
    pair = (preference.c.sample_id, preference.c.other_id)
    is_compared = sa.or_(*(sa.exists().where(one == sample.c.sample_id) for one in pair))
    query = (
        sa.select(
            *(sample.c.sample_id, sample.c.shard, sample.c.video_id, sample.c.system, sample.c.text, covered.c.share),
            sample.c.kind,
        )
        .outerjoin(covered, covered.c.sample_id == sample.c.sample_id)
        .where(sample.c.dataset_id == dataset_id, is_rated | is_compared | covered.c.share.is_not(None))
        .order_by(sample.c.sample_id)
    )
    return [
        JudgedSample(*row[:-2], covered=None if row.share is None else float(row.share), kind=row.kind)
        for row in connection.execute(query)
    ]


def ratings_of(connection: Connection, dataset_id: int) -> Iterator[tuple[int, str, str, float]]:
    """Sample id, rater, aspect and value of every rating of a dataset, in this order."""
    columns = tuple(random_rating.c)
    query = (
        sa.select(*columns)
        .join(sample, sample.c.sample_id == random_rating.c.sample_id)
        .where(sample.c.dataset_id == dataset_id)
        .order_by(*columns[:3])
    )
    for row in connection.execute(query, execution_options={"yield_per": ROWS}):
        yield row[0], row[1], row[2], row[3]


class Preference(NamedTuple):
    """Which of two captions of a video a rater finds better: 1 the first, -1 the other, 0 neither."""

    sample_id: int
    other_id: int
    rater: str
    aspect: str
    better: int


def preferences_of(connection: Connection, dataset_id: int) -> list[Preference]:
    """The preferences of a dataset between captions that have the texts that were compared."""
    of, other = preference.c, sample.alias("other")
    query = (
        sa.select(of.sample_id, of.other_id, of.rater, of.aspect, of.value)
        .join(sample, (sample.c.sample_id == of.sample_id) & (sample.c.text_sha256 == of.text_sha256))
        .join(other, (other.c.sample_id == of.other_id) & (other.c.text_sha256 == of.other_sha256))
        .where(sample.c.dataset_id == dataset_id)
        .order_by(of.aspect, of.sample_id, of.other_id, of.rater)
    )
    return [Preference(*row) for row in connection.execute(query)]


class Repeat(NamedTuple):
    """Both answers of a rater to one question that came twice: ratings from 1 to 5, or preferences of -1, 0, 1."""

    rater: str
    aspect: str
    pairs: bool
    first: float
    again: float


def repeats_of(connection: Connection, dataset_id: int) -> list[Repeat]:
    """The repeats of a dataset, by rater and aspect."""
    found = []
    for table in (rating, preference):
        again = table.c.extra[("again", "value")].astext
        query = (
            sa.select(table.c.rater, table.c.aspect, table.c.value, sa.cast(again, sa.Double))
            .join(sample, sample.c.sample_id == table.c.sample_id)
            .where(sample.c.dataset_id == dataset_id, again.is_not(None))
        )
        found += [Repeat(row[0], row[1], table is preference, row[2], row[3]) for row in connection.execute(query)]
    return sorted(found)


class GivenAnswer(NamedTuple):
    """An answer of a rater: a rating, or with `pairs` which of two captions: 1 for A, -1 for B, 0 for neither.

    is_timed: whether it was given in a browser, so that its place among the rater's answers is known.
    """

    rater: str
    aspect: str
    pairs: bool
    answer: float
    is_timed: bool


def answers_of(connection: Connection, dataset_id: int) -> list[GivenAnswer]:
    """List all answers of the raters of a dataset, repeats included, those of a browser in the order of their time."""
    found = []
    for table in (rating, preference):
        columns = (table.c.rater, table.c.aspect, table.c.value, table.c.extra["answer"].astext)
        # What another tool gave has a time, too, and no seed: that tool may have asked in an order of quality.
        at = sa.case((table.c.extra["seed"].is_not(None), table.c.extra["rated_at"].astext))
        again = table.c.extra["again"]
        first = sa.select(*columns, at.label("at"), table.c.sample_id)
        second = sa.select(*columns[:2], sa.cast(again["value"].astext, sa.Double), again["answer"].astext)
        second = second.add_columns(again["rated_at"].astext, table.c.sample_id).where(at.is_not(None))
        of_dataset = (sample.c.sample_id == table.c.sample_id, sample.c.dataset_id == dataset_id)
        both = sa.union_all(
            first.join(sample, of_dataset[0]).where(of_dataset[1]),
            second.join(sample, of_dataset[0]).where(of_dataset[1], again["value"].astext.is_not(None)),
        )
        for row in connection.execute(both.order_by("rater", "aspect", "at", "sample_id")):
            answer = _SIDES.get(row[3], row[2]) if table is preference else row[2]
            found.append(GivenAnswer(row[0], row[1], table is preference, float(answer), row[4] is not None))
    return found


# Which of two captions a browser's answer names, whichever of them has the lower id.
_SIDES: Mapping[str, int] = {"a": 1, "tie": 0, "b": -1}


def count_references(connection: Connection, dataset_id: int, video_ids: Collection[int]) -> dict[int, int]:
    """Return how many references each of these videos has; a video without one is not in it."""
    query = (
        sa.select(reference.c.video_id, sa.func.count())
        .where(reference.c.dataset_id == dataset_id, reference.c.video_id == sa.any_(sa.bindparam("ids")))
        .group_by(reference.c.video_id)
    )
    return {row[0]: row[1] for row in connection.execute(query, {"ids": list(video_ids)})}


def replace_agreement(connection: Connection, dataset_id: int, rows: Sequence[Mapping[str, Any]]) -> None:
    """Replace all rows of a dataset. rows: values by column of table `agreement`."""
    # Two runs may replace at once: the later one waits here, then removes what the earlier one stored.
    is_this = dataset.c.dataset_id == dataset_id
    connection.execute(sa.select(dataset.c.dataset_id).where(is_this).with_for_update(key_share=True))
    connection.execute(sa.delete(agreement).where(agreement.c.dataset_id == dataset_id))
    if rows:
        connection.execute(sa.insert(agreement), [{"dataset_id": dataset_id, **row} for row in rows])
