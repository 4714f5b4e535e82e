"""People's judgements of a dataset's samples, and the stored agreement of scores with them (table `agreement`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.engine import Connection

from db.evidence.verdicts import MANIFEST_LABEL_SOURCE
from db.manifest.rating import CHOSEN_FIELD
from db.schema import (
    agreement,
    attention_check,
    dataset,
    preference,
    rating,
    reference,
    sample,
    score,
    scorer,
    wrong_span,
)

# Judgements of texts as they are now, and the part of the ratings that statistics may use: see the views.
_RATING = ("sample_id", "rater", "aspect", "value")
current_rating = sa.table("current_rating", *map(sa.column, (*_RATING, "extra", "goodness")))
random_rating = sa.table("random_rating", *map(sa.column, _RATING))
current_label = sa.table("current_label", *map(sa.column, ("keypoint_id", "sample_id", "source", "covered")))
# Ratings held at a time.
ROWS = 2000
SPANS_ASPECT = "caption without a wrong span"
"""The aspect of captions in which raters marked wrong words: 0 for a caption with a mark of the rater, 1 without."""


@dataclass(frozen=True, slots=True)
class JudgedSample:
    """A sample that people rated, labelled or compared, with its present text. `covered` is the share of its labelled
    keypoints that it covers, by people's labels; None without such labels. `kind` is "caption" or "qa".
    """

    sample_id: int
    shard: int
    video_id: int
    system: str
    text: str
    covered: float | None
    kind: str = "caption"


def list_judged_samples(connection: Connection, dataset_id: int) -> list[JudgedSample]:
    """List the samples of a dataset that have a rating, a preference or a person's label, ordered by id. Only ratings
    that statistics may use and labels of present texts by people count. A preference counts even if a text has changed
    since.
    """
    covered = (
        sa.select(
            current_label.c.sample_id, sa.func.avg(sa.case((current_label.c.covered, 1.0), else_=0.0)).label("share")
        )
        .join(sample, sample.c.sample_id == current_label.c.sample_id)
        .where(sample.c.dataset_id == dataset_id, current_label.c.source == MANIFEST_LABEL_SOURCE)
        .group_by(current_label.c.sample_id)
        .subquery()
    )
    judged = (random_rating.c.sample_id, preference.c.sample_id, preference.c.other_id, covered.c.sample_id)
    is_judged = sample.c.sample_id.in_(sa.union(*map(sa.select, judged)))
    query = (
        sa.select(
            *(sample.c.sample_id, sample.c.shard, sample.c.video_id, sample.c.system, sample.c.text, covered.c.share),
            sample.c.kind,
        )
        .outerjoin(covered, covered.c.sample_id == sample.c.sample_id)
        .where(sample.c.dataset_id == dataset_id, is_judged)
        .order_by(sample.c.sample_id)
    )
    return [
        JudgedSample(*row[:-2], covered=None if row.share is None else float(row.share), kind=row.kind)
        for row in connection.execute(query)
    ]


def list_ratings(connection: Connection, dataset_id: int) -> Iterator[tuple[int, str, str, float]]:
    """Yield (sample id, rater, aspect, value) of all ratings of a dataset that statistics may use, sorted by the first
    three. Ratings of older texts are left out. So are ratings of chosen captions, such as for a promise.
    Captions that a rater rated and marked wrong words in, or did not, have one more row, of SPANS_ASPECT.
    """
    columns = tuple(random_rating.c)
    in_dataset = sample.c.dataset_id == dataset_id
    given = sa.select(*columns).join(sample, sample.c.sample_id == random_rating.c.sample_id).where(in_dataset)
    query = given.union_all(_build_span_ratings(in_dataset)).order_by(*_RATING[:3])
    for row in connection.execute(query, execution_options={"yield_per": ROWS}):
        yield row[0], row[1], row[2], row[3]


def _build_span_ratings(in_dataset: sa.ColumnElement[bool]) -> sa.Select[tuple[int, str, str, float]]:
    """Return the query for ratings by SPANS_ASPECT: of captions that a rater rated on a page that asks for wrong words,
    and that were not chosen.
    """
    columns, mark = current_rating.c, wrong_span.c
    same_text = (mark.sample_id == sample.c.sample_id, mark.text_sha256 == sample.c.text_sha256)
    is_marked = sa.exists().where(*same_text, mark.rater == columns.rater)
    value = sa.case((is_marked, 0.0), else_=1.0)
    query = sa.select(columns.sample_id, columns.rater, sa.literal(SPANS_ASPECT), value).distinct()
    extra = sa.cast(columns.extra, JSONB)
    # A field of a manifest may have the name, but answers in a browser have a seed too.
    is_asked = (extra.contains({"spans": True}), extra.has_key("seed"), ~extra.has_key(CHOSEN_FIELD))
    return query.join(sample, sample.c.sample_id == columns.sample_id).where(in_dataset, *is_asked)


class Preference(NamedTuple):
    """A rater's preference between two captions of a video for one aspect. `better` is 1 for the caption `sample_id`,
    -1 for the caption `other_id`, and 0 if the rater prefers neither.
    """

    sample_id: int
    other_id: int
    rater: str
    aspect: str
    better: int


def list_preferences(connection: Connection, dataset_id: int) -> list[Preference]:
    """List the preferences between captions of a dataset, ordered by aspect, the two sample ids and rater. A preference
    is left out if one of its captions has another text now.
    """
    columns, other = preference.c, sample.alias("other")
    query = (
        sa.select(columns.sample_id, columns.other_id, columns.rater, columns.aspect, columns.value)
        .join(sample, (sample.c.sample_id == columns.sample_id) & (sample.c.text_sha256 == columns.text_sha256))
        .join(other, (other.c.sample_id == columns.other_id) & (other.c.text_sha256 == columns.other_sha256))
        .where(sample.c.dataset_id == dataset_id)
        .order_by(columns.aspect, columns.sample_id, columns.other_id, columns.rater)
    )
    return [Preference(*row) for row in connection.execute(query)]


class RaterAnswer(NamedTuple):
    """A rater's answer for one aspect: a rating, or with `is_comparison` a preference between two captions.
    `first_value` is the earlier value if the rater was asked a second time, else None. `is_timed` is whether the answer
    was given in the rating page, so that its place among the rater's answers is known.

    value: as it is stored; for a pair 1 for the caption with the lower id, -1 for the other one, 0 for neither. shown:
    the same as the page showed it; for a pair 1 for A and -1 for B.
    """

    rater: str
    aspect: str
    is_comparison: bool
    value: float
    shown: float
    is_timed: bool
    first_value: float | None


def list_answers(connection: Connection, dataset_id: int) -> list[RaterAnswer]:
    """List all answers of the raters of a dataset: ratings, then preferences, both ordered by rater, aspect and time. A
    repeated question gives two answers, and answers about older texts are included. Answers without a known time come
    after the others of their rater and aspect.
    """
    answers = []
    for table in (rating, preference):
        extra, again = table.c.extra, table.c.extra["again"]
        # Answers from other tools may have a time but no seed: their order may depend on quality.
        at = sa.case((extra["seed"].is_not(None), extra["rated_at"].astext))
        again_at = sa.case((at.is_not(None), again["rated_at"].astext))
        again_value = sa.cast(again["value"].astext, sa.Double)
        once = (table.c.value, extra["answer"].astext, at.label("at"), sa.cast(sa.null(), sa.Double))
        twice = (again_value, again["answer"].astext, again_at.label("at"), sa.cast(table.c.value, sa.Double))
        both = sa.union_all(
            *(
                sa.select(table.c.rater, table.c.aspect, *columns, table.c.sample_id)
                .join(sample, sample.c.sample_id == table.c.sample_id)
                .where(sample.c.dataset_id == dataset_id, is_given)
                for columns, is_given in ((once, sa.true()), (twice, again["value"].astext.is_not(None)))
            )
        )
        for rater, aspect, value, side, given_at, first, _ in connection.execute(
            both.order_by("rater", "aspect", "at", "sample_id")
        ):
            shown = _SIDES.get(side, value) if table is preference else value
            answers.append(RaterAnswer(rater, aspect, table is preference, value, shown, given_at is not None, first))
    return answers


# The value of a browser's answer, from the place of the better caption on the page.
_SIDES: Mapping[str, int] = {"a": 1, "tie": 0, "b": -1}


class CheckCount(NamedTuple):
    """How many of the n attention checks a rater passed for one aspect. is_comparison: whether captions were compared
    two at a time, instead of rated.
    """

    rater: str
    aspect: str
    is_comparison: bool
    n_passed: int
    n: int


def count_passed_checks(connection: Connection, dataset_id: int) -> tuple[CheckCount, ...]:
    """Count the attention checks of a dataset that raters answered and passed, sorted by rater, aspect and kind."""
    columns = attention_check.c
    key = (columns.rater, columns.aspect, columns.is_comparison)
    counts = sa.select(*key, sa.func.count().filter(columns.has_passed), sa.func.count())
    query = counts.join(sample, sample.c.sample_id == columns.sample_id).where(sample.c.dataset_id == dataset_id)
    return tuple(sorted(CheckCount(*row) for row in connection.execute(query.group_by(*key))))


def count_references(connection: Connection, dataset_id: int, video_ids: Collection[int]) -> dict[int, int]:
    """Return the number of references of the given videos, by video id; a video without references is left out."""
    query = (
        sa.select(reference.c.video_id, sa.func.count())
        .where(reference.c.dataset_id == dataset_id, reference.c.video_id == sa.any_(sa.bindparam("ids")))
        .group_by(reference.c.video_id)
    )
    return {row[0]: row[1] for row in connection.execute(query, {"ids": list(video_ids)})}


def list_agreement(connection: Connection, dataset_id: int) -> list[Mapping[str, Any]]:
    """List the rows of a dataset in table `agreement` as dicts, in the order in which they were stored."""
    query = sa.select(agreement).where(agreement.c.dataset_id == dataset_id).order_by(agreement.c.agreement_id)
    return [dict(row) for row in connection.execute(query).mappings()]


def find_newest_score_time(connection: Connection, sample_ids: Sequence[int]) -> datetime | None:
    """Return when the newest score by an active scorer on these samples was stored, stale scores included; None if they
    have no such score.
    """
    query = (
        sa.select(sa.func.max(score.c.scored_at))
        .join(scorer, (scorer.c.scorer_id == score.c.scorer_id) & (scorer.c.status == "active"))
        .where(score.c.sample_id == sa.any_(sa.bindparam("ids")))
    )
    newest: datetime | None = connection.scalar(query, {"ids": list(sample_ids)})
    return newest


def replace_agreement(connection: Connection, dataset_id: int, rows: Sequence[Mapping[str, Any]]) -> None:
    """Replace all rows of a dataset in table `agreement` by the given ones, dicts of values by column without
    `dataset_id`. Waits while another process replaces them.
    """
    # Two runs may replace at once: the later one waits here, then removes what the earlier one stored.
    is_this = dataset.c.dataset_id == dataset_id
    connection.execute(sa.select(dataset.c.dataset_id).where(is_this).with_for_update(key_share=True))
    connection.execute(sa.delete(agreement).where(agreement.c.dataset_id == dataset_id))
    if rows:
        connection.execute(sa.insert(agreement), [{"dataset_id": dataset_id, **row} for row in rows])
