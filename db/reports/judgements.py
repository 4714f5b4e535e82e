"""The judgements of a dataset's samples by people, as arrays: ratings, labels of keypoints and preferences; and what
raters answered, one row an answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.engine import Connection

from db.evidence.verdicts import MANIFEST_LABEL_SOURCE
from db.manifest.answers import CHOSEN_FIELD
from db.manifest.datasets import Dataset
from db.schema import attention_check, preference, rating, sample, wrong_span
from db.server.arrays import pack_column, unpack_column

# Judgements of texts as they are now, and the part of the ratings that statistics may use: see the views.
_RATING = ("sample_id", "rater", "aspect", "value")
current_rating = sa.table("current_rating", *map(sa.column, (*_RATING, "extra", "goodness")))
_random_rating = sa.table("random_rating", *map(sa.column, _RATING))
current_label = sa.table("current_label", *map(sa.column, ("keypoint_id", "sample_id", "source", "covered")))
# Texts held at a time.
_ROWS = 2000
LABELS_ASPECT = "coverage (labels)"
"""The aspect of labels: the share of a caption's keypoints labelled as covered. All labels are of one rater."""
SPANS_ASPECT = "caption without a wrong span"
"""The aspect of captions in which raters marked wrong words: 0 for a caption with a mark of the rater, 1 without."""


class PreferenceArrays(NamedTuple):
    """Preferences between two captions of a video for one aspect, as arrays (n,): the places of both captions among the
    samples, and which is better: 1 for the first, -1 for the second, 0 for neither. raters: who answered.
    """

    first: npt.NDArray[np.int64]
    second: npt.NDArray[np.int64]
    better: npt.NDArray[np.int64]
    raters: tuple[str, ...]


@dataclass(frozen=True)
class Judgements:
    """People's judgements of the samples of one kind, "caption" or "qa". sample_ids, videos (ids), shards, systems and
    words (of the present text): (n,), ordered by id. ratings: by aspect (n, raters), NaN where a rater gave
    none; raters: by aspect, the names of its columns. preferences: by aspect.

    Only ratings that statistics may use count: those of present texts that were not chosen, such as for a promise.
    Labels of keypoints are one more aspect with a single rater, LABELS_ASPECT, and captions that a rater rated and
    marked wrong words in, or did not, are another, SPANS_ASPECT. Preferences are left out if one of their captions has
    another text now.
    """

    kind: str
    sample_ids: npt.NDArray[np.int64]
    videos: list[int]
    shards: npt.NDArray[np.int64]
    systems: list[str]
    words: npt.NDArray[np.float64]
    ratings: Mapping[str, npt.NDArray[np.float64]]
    raters: Mapping[str, tuple[str, ...]]
    preferences: Mapping[str, PreferenceArrays]


def load_judgement_arrays(
    connection: Connection, dataset: Dataset, count_words: Callable[[str], int]
) -> dict[str, Judgements]:
    """Load all judgements of a dataset's samples by kind of samples, sorted. The samples are those with a rating, a
    label or a preference, even a preference whose texts have changed since. Without any, captions have empty arrays.
    count_words: counts the words of a text.
    """
    ratings, preferences = _load_ratings(connection, dataset), _list_preferences(connection, dataset)
    samples = groupby(_list_samples(connection, dataset, count_words), key=lambda row: row[0])
    by_kind = {kind: _build_judgements(kind, list(rows), ratings, preferences) for kind, rows in samples}
    return by_kind or {"caption": _build_judgements("caption", [], [], [])}


def _list_samples(
    connection: Connection, dataset: Dataset, count_words: Callable[[str], int]
) -> Iterator[tuple[str, int, int, int, str, int]]:
    """Yield kind, id, video, shard, system and number of words of every judged sample, ordered by kind and id."""
    labelled = sa.select(current_label.c.sample_id).where(current_label.c.source == MANIFEST_LABEL_SOURCE)
    others = (_random_rating.c.sample_id, preference.c.sample_id, preference.c.other_id)
    columns = sample.c
    query = (
        sa.select(columns.kind, columns.sample_id, columns.video_id, columns.shard, columns.system, columns.text)
        .where(columns.dataset_id == dataset.dataset_id)
        .where(columns.sample_id.in_(sa.union(labelled, *map(sa.select, others))))
        .order_by(columns.kind, columns.sample_id)
    )
    for *row, text in connection.execute(query, execution_options={"yield_per": _ROWS}):
        yield (*row, count_words(text))


def _load_ratings(connection: Connection, dataset: Dataset) -> list[sa.Row[Any]]:
    """Load kind, aspect, rater, and the packed ids of samples and ratings, in the order of the aspects' and raters'
    first samples.
    """
    in_dataset = sample.c.dataset_id == dataset.dataset_id
    given = sa.select(sample.c.kind, *_random_rating.c).join(sample, sample.c.sample_id == _random_rating.c.sample_id)
    covered = sa.func.avg(sa.case((current_label.c.covered, 1.0), else_=0.0))
    labels = (
        sa.select(sample.c.kind, current_label.c.sample_id, sa.literal("labels"), sa.literal(LABELS_ASPECT), covered)
        .join(sample, sample.c.sample_id == current_label.c.sample_id)
        .where(in_dataset, current_label.c.source == MANIFEST_LABEL_SOURCE)
        .group_by(sample.c.kind, current_label.c.sample_id)
    )
    all_given = sa.union_all(given.where(in_dataset), _build_span_ratings(in_dataset), labels).subquery().c
    groups, value = (all_given.kind, all_given.aspect, all_given.rater), sa.cast(all_given.value, sa.Double)
    query = sa.select(*groups, pack_column(all_given.sample_id), pack_column(value)).group_by(*groups)
    first = sa.func.min(all_given.sample_id)
    order = (all_given.aspect == LABELS_ASPECT, first, all_given.rater, all_given.aspect)
    return list(connection.execute(query.order_by(*order)))


def _build_span_ratings(in_dataset: sa.ColumnElement[bool]) -> sa.Select[tuple[str, int, str, str, float]]:
    """Return the query for ratings by SPANS_ASPECT: of captions that a rater rated on a page that asks for wrong words,
    and that were not chosen.
    """
    columns, mark = current_rating.c, wrong_span.c
    same_text = (mark.sample_id == sample.c.sample_id, mark.text_sha256 == sample.c.text_sha256)
    is_marked = sa.exists().where(*same_text, mark.rater == columns.rater)
    value = sa.case((is_marked, 0.0), else_=1.0)
    query = sa.select(sample.c.kind, columns.sample_id, columns.rater, sa.literal(SPANS_ASPECT), value).distinct()
    extra = sa.cast(columns.extra, JSONB)
    # A field of a manifest may have the name, but answers in a browser have a seed too.
    is_asked = (extra.contains({"spans": True}), extra.has_key("seed"), ~extra.has_key(CHOSEN_FIELD))
    return query.join(sample, sample.c.sample_id == columns.sample_id).where(in_dataset, *is_asked)


def _list_preferences(connection: Connection, dataset: Dataset) -> list[sa.Row[Any]]:
    """List aspect, ids of the two samples, rater and value of the preferences between present texts, ordered so."""
    columns, other = preference.c, sample.alias("other")
    query = (
        sa.select(columns.aspect, columns.sample_id, columns.other_id, columns.rater, columns.value)
        .join(sample, (sample.c.sample_id == columns.sample_id) & (sample.c.text_sha256 == columns.text_sha256))
        .join(other, (other.c.sample_id == columns.other_id) & (other.c.text_sha256 == columns.other_sha256))
        .where(sample.c.dataset_id == dataset.dataset_id)
        .order_by(columns.aspect, columns.sample_id, columns.other_id, columns.rater)
    )
    return list(connection.execute(query))


def _build_judgements(
    kind: str,
    rows: Sequence[tuple[str, int, int, int, str, int]],
    given: Sequence[sa.Row[Any]],
    preferences: Sequence[sa.Row[Any]],
) -> Judgements:
    """Build the judgements of the samples of one kind from the rows of all kinds; those of other samples are left
    out.
    """
    sample_ids = np.array([row[1] for row in rows], dtype=np.int64)
    by_aspect: dict[str, dict[str, npt.NDArray[np.float64]]] = {}
    for _, aspect, rater, *packed in [tuple(row) for row in given if row.kind == kind]:
        ids, values = (unpack_column(column, type_) for column, type_ in zip(packed, ("i8", "f8"), strict=True))
        column = by_aspect.setdefault(aspect, {})[rater] = np.full(len(rows), np.nan)
        # In another state of the database, a sample may have lost its judgement.
        rated = np.minimum(np.searchsorted(sample_ids, ids), len(rows) - 1)
        is_known = sample_ids[rated] == ids
        column[rated[is_known]] = values[is_known]
    places = {sample_id: place for place, sample_id in enumerate(sample_ids.tolist())} if preferences else {}
    known = (row for row in preferences if row.sample_id in places and row.other_id in places)
    return Judgements(
        kind,
        sample_ids,
        [row[2] for row in rows],
        np.array([row[3] for row in rows], dtype=np.int64),
        [row[4] for row in rows],
        np.array([row[5] for row in rows], dtype=np.float64),
        {aspect: np.stack(list(columns.values()), axis=1) for aspect, columns in by_aspect.items()},
        {aspect: tuple(columns) for aspect, columns in by_aspect.items()},
        {
            aspect: _build_preferences(places, list(chosen))
            for aspect, chosen in groupby(known, key=lambda row: str(row.aspect))
        },
    )


def _build_preferences(places: Mapping[int, int], rows: Sequence[sa.Row[Any]]) -> PreferenceArrays:
    numbers = [(places[row.sample_id], places[row.other_id], row.value) for row in rows]
    first, second, better = np.array(numbers, dtype=np.int64).T
    return PreferenceArrays(first, second, better, tuple(row.rater for row in rows))


class MeanRatings(NamedTuple):
    """The mean ratings of captions by one aspect, over all raters, as arrays (n,): values as they were given, and
    goodness, where the highest is best. Only ratings of present texts count, even of captions chosen for a promise.
    """

    sample_ids: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    goodness: npt.NDArray[np.float64]


def load_mean_ratings(connection: Connection, dataset: Dataset) -> dict[str, MeanRatings]:
    """Load the mean ratings of a dataset's captions by aspect, sorted; {} where none is rated."""
    columns = current_rating.c
    means = (
        sa.select(
            *(columns.aspect, columns.sample_id),
            sa.func.avg(columns.value).label("value"),
            sa.func.avg(columns.goodness).label("goodness"),
        )
        .join(sample, sample.c.sample_id == columns.sample_id)
        .where(sample.c.dataset_id == dataset.dataset_id, sample.c.kind == "caption")
        .group_by(columns.aspect, columns.sample_id)
        .subquery()
    ).c
    packed = map(pack_column, (means.sample_id, means.value, means.goodness))
    rows = connection.execute(sa.select(means.aspect, *packed).group_by(means.aspect)).all()
    return {
        aspect: MeanRatings(unpack_column(ids, "i8"), unpack_column(values, "f8"), unpack_column(goodness, "f8"))
        for aspect, ids, values, goodness in sorted(map(tuple, rows))
    }


class RatingCounts(NamedTuple):
    """Counts of a dataset's ratings. by_rater, by_aspect: of present texts, chosen captions included, most first.
    n_chosen: those of captions chosen for a purpose, such as a promise; agreement leaves them out, estimated means do
    not. n_old: of texts changed since, left out of statistics. has_synthetic: whether any rating has the extra field
    `synthetic: true`.
    """

    by_rater: dict[str, int]
    by_aspect: dict[str, int]
    n_chosen: int
    n_old: int
    has_synthetic: bool


def count_ratings(connection: Connection, dataset_id: int) -> RatingCounts:
    """Count a dataset's ratings by rater and by aspect, and those that statistics leave out."""
    columns, n, is_present = rating.c, sa.func.count(), rating.c.text_sha256 == sample.c.text_sha256
    is_chosen = columns.extra[CHOSEN_FIELD]["question"].astext.is_not(None)
    counts = (n.filter(is_present), n.filter(~is_present), n.filter(is_present, is_chosen))
    is_synthetic = sa.func.bool_or(columns.extra.contains({"synthetic": True}))
    query = sa.select(columns.rater, columns.aspect, *counts, is_synthetic).join(
        sample, sample.c.sample_id == columns.sample_id
    )
    query = query.where(sample.c.dataset_id == dataset_id).group_by(columns.rater, columns.aspect)
    rows = connection.execute(query).all()
    by_name: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for row in rows:
        for names, name in zip(by_name, row[:2], strict=True):
            names[name] += row[2]
    by_rater, by_aspect = (
        {name: names[name] for name in sorted(+names, key=lambda name: (-names[name], name))} for names in by_name
    )
    return RatingCounts(
        by_rater,
        by_aspect,
        n_chosen=sum(row[4] for row in rows),
        n_old=sum(row[3] for row in rows),
        has_synthetic=any(row[5] for row in rows),
    )


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
