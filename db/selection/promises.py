"""Promises about selections: the attempts to make them, the random numbers of samples, and the answers about them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.schema import promise, selection
from db.selection.recipes import SelectionError
from db.server.arrays import read_arrays

_MOST = 2**63 - 1
_FIRST_RATINGS = (
    "SELECT sample_id, rater, value, is_changed FROM (SELECT sample_id, rater, COALESCE(first_value, value) AS value, "
    "COALESCE(first_value <> value, false) AS is_changed, count(*) OVER (PARTITION BY sample_id) AS n, "
    "row_number() OVER (PARTITION BY sample_id ORDER BY stored_at, r.extra ->> 'rated_at' NULLS FIRST, rater) AS place "
    "FROM rating r JOIN sample s USING (sample_id, text_sha256) WHERE dataset_id = :dataset_id AND aspect = :aspect) "
    "AS rated WHERE n >= :n_raters AND place <= :n_raters"
)
# All answers that a promise by people, or by a judge, may count: of which aspect, when, and their first value.
_PEOPLE = "SELECT sample_id, aspect, stored_at AS answered_at, COALESCE(first_value, value) AS value FROM rating"
_JUDGE = (
    "SELECT sample_id, '' AS aspect, scored_at AS answered_at, value FROM score WHERE scorer_id = :scorer_id "
    "AND status NOT IN ('not_drawn', 'failed')"
)
# Captions are the same in two datasets if their texts and videos are.
_TEXTS = (
    "SELECT s.dataset_id, sample_id, text_sha256, COALESCE(encode(v.content_sha256, 'hex'), v.key) AS file "
    "FROM sample s JOIN video v USING (video_id)"
)


class DrawNumbers(NamedTuple):
    """The samples of a dataset as arrays (n,) in order of sample_ids: their permanent random numbers in [0, 1), and the
    SHA-256 of their texts.
    """

    sample_ids: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.float64]
    text_sha256: npt.NDArray[np.void]


class SampleAnswers(NamedTuple):
    """The answers about samples as arrays (n,) in order of sample_ids: a value, NaN for a sample that cannot be judged.
    Samples without an answer are left out.
    """

    sample_ids: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]


class AnswerSource(NamedTuple):
    """A dataset with answers to a question, and the question's name there (`aspect`), None for a judge's answers."""

    dataset: Dataset
    aspect: str | None


class Attempt(NamedTuple):
    """A stored attempt at a promise: its id, and its number among the attempts on the same answers, from 1."""

    promise_id: int
    attempt: int


def load_draw_numbers(connection: Connection, dataset: Dataset, seed: int) -> DrawNumbers:
    """Load the permanent random numbers of all samples of a dataset by a seed, with their texts' hashes."""
    query = (
        "SELECT sample_id, draw_number(kind, key, CAST(:seed AS bigint)) AS number, text_sha256 FROM sample "
        "WHERE dataset_id = :dataset_id ORDER BY sample_id"
    )
    kinds = {"sample_id": "i8", "number": "f8", "text_sha256": "V32"}
    return DrawNumbers(*read_arrays(connection, kinds, query, {"seed": seed, "dataset_id": dataset.dataset_id}))


def load_people_answers(connection: Connection, dataset: Dataset, aspect: str, n_raters: int) -> SampleAnswers:
    """Load the mean of the first `n_raters` ratings, in the order stored, of every caption of a dataset that has so
    many for this aspect on its present text. Later ratings never replace an answer, and a changed one counts with its
    first value. Ratings stored at the same time are ordered by their own time, then by rater.
    """
    query = f"SELECT sample_id, avg(value) AS value FROM ({_FIRST_RATINGS}) g GROUP BY sample_id ORDER BY sample_id"
    values = {"dataset_id": dataset.dataset_id, "aspect": aspect, "n_raters": n_raters}
    return SampleAnswers(*read_arrays(connection, {"sample_id": "i8", "value": "f8"}, query, values))


def list_changed_samples(connection: Connection, dataset: Dataset, seed: int) -> npt.NDArray[np.int64]:
    """List the ids of samples whose text changed after an answer about it, and after this seed first ordered samples
    for answers (any time for seed 0, the default): an array (n,) in no order. People who changed texts may have known
    the answers, so the first samples in this order are no random sample any more.
    """
    query = (
        "SELECT sample_id FROM sample WHERE dataset_id = :dataset_id AND changed_at >= (SELECT min(at) FROM ("
        "SELECT CAST('-infinity' AS timestamptz) AS at WHERE :seed = 0 "
        "UNION ALL SELECT created_at FROM promise WHERE dataset_id = :dataset_id "
        "AND terms ->> 'seed' = CAST(:seed AS text) "
        "UNION ALL SELECT drawn_at FROM sample_draw WHERE dataset_id = :dataset_id AND seed = :seed "
        "UNION ALL SELECT r.stored_at FROM rating r JOIN sample USING (sample_id) WHERE dataset_id = :dataset_id "
        "AND r.extra ->> 'seed' = CAST(:seed AS text)) used)"
    )
    values = {"dataset_id": dataset.dataset_id, "seed": seed}
    (ids,) = read_arrays(connection, {"sample_id": "i8"}, query, values)
    return ids


def list_promise_raters(
    connection: Connection, dataset: Dataset, aspect: str, n_raters: int, sample_ids: npt.NDArray[np.int64]
) -> tuple[list[str], int]:
    """Return the sorted names of the people who gave the first `n_raters` ratings of these captions, as
    `load_people_answers` counts them, and how many of these ratings have another value now.
    """
    query = (
        f"SELECT rater, count(*) FILTER (WHERE is_changed) FROM ({_FIRST_RATINGS}) g WHERE sample_id = ANY(:ids) "
        "GROUP BY rater ORDER BY rater"
    )
    values = {"dataset_id": dataset.dataset_id, "aspect": aspect, "n_raters": n_raters, "ids": sample_ids.tolist()}
    rows = connection.execute(sa.text(query), values).all()
    return sorted(row[0] for row in rows), sum(row[1] for row in rows)


def list_answer_sources(
    connection: Connection, dataset: Dataset, aspect: str | None, scorer_id: int | None
) -> list[AnswerSource]:
    """List the datasets with answers to the same question about captions that this dataset has, each with its aspect.
    The question is the same if its name has the same letters and digits, or if nine in ten of its mean ratings, of ten
    or more captions, equal those here. aspect: None for answers of the judge with this scorer.
    """
    query = (
        f"WITH texts AS NOT MATERIALIZED ({_TEXTS}), "
        "answered AS (SELECT t.dataset_id, aspect, text_sha256, file, avg(value) AS value "
        f"FROM ({_JUDGE if aspect is None else _PEOPLE}) a JOIN texts t USING (sample_id) GROUP BY 1, 2, 3, 4), "
        "mine AS (SELECT DISTINCT text_sha256, file FROM texts WHERE dataset_id = :dataset_id) "
        "SELECT d.dataset_id, d.name, d.n_shards, a.aspect FROM answered a JOIN mine USING (text_sha256, file) "
        "JOIN dataset d USING (dataset_id) LEFT JOIN answered o "
        "ON o.dataset_id = :dataset_id AND o.aspect = :aspect AND (o.text_sha256, o.file) = (a.text_sha256, a.file) "
        "GROUP BY d.dataset_id, a.aspect HAVING regexp_replace(lower(a.aspect), '[^[:alnum:]]', '', 'g') = "
        "regexp_replace(lower(:aspect), '[^[:alnum:]]', '', 'g') "
        "OR count(o.value) >= 10 AND count(*) FILTER (WHERE a.value = o.value) >= 0.9 * count(o.value)"
    )
    values = {"dataset_id": dataset.dataset_id, "aspect": aspect or "", "scorer_id": scorer_id}
    return [AnswerSource(Dataset(*row[:3]), row[3] or None) for row in connection.execute(sa.text(query), values)]


def list_late_columns(connection: Connection, dataset: Dataset, aspect: str | None, scorer_id: int | None) -> set[str]:
    """List the recipe columns, in lower case, that may depend on the answers of a promise: tags, ratings of other
    aspects and imported scores stored after an answer about their caption; metrics scored for a draw only; and "" for
    manifest fields and files changed after such an answer. aspect, scorer_id: as in `list_answer_sources`.
    """
    query = (
        f"WITH answered AS (SELECT a.*, s.video_id, s.rewritten_at FROM ({_JUDGE if aspect is None else _PEOPLE}) a "
        "JOIN sample s USING (sample_id) WHERE dataset_id = :dataset_id AND aspect = :aspect) "
        "SELECT 'tag_' || text FROM remark r JOIN answered a USING (sample_id) "
        "WHERE r.kind = 'tag' AND made_at >= answered_at "
        "UNION SELECT 'rating_' || r.aspect FROM rating r JOIN answered a USING (sample_id) "
        "WHERE r.aspect <> :aspect AND (stored_at >= answered_at OR first_value IS NOT NULL) "
        "UNION SELECT metric FROM score JOIN scorer USING (scorer_id) JOIN answered a USING (sample_id) "
        "WHERE code_version = 'imported' AND scored_at >= answered_at "
        "UNION SELECT metric FROM sample_draw WHERE dataset_id = :dataset_id "
        "UNION SELECT '' FROM answered a JOIN video v USING (video_id) "
        "WHERE GREATEST(a.rewritten_at, v.rewritten_at) >= answered_at"
    )
    values = {"dataset_id": dataset.dataset_id, "aspect": aspect or "", "scorer_id": scorer_id}
    return {name.lower() for name in connection.scalars(sa.text(query), values)}


def load_shared_samples(
    connection: Connection, dataset: Dataset, other: Dataset
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Load the ids of all samples of another dataset, and of the same samples of this one, -1 where it has none."""
    query = (
        f"WITH texts AS NOT MATERIALIZED ({_TEXTS}) "
        "SELECT o.sample_id, COALESCE(min(t.sample_id), -1) AS same_id FROM texts o "
        "LEFT JOIN texts t ON t.dataset_id = :dataset_id AND (t.text_sha256, t.file) = (o.text_sha256, o.file) "
        "WHERE o.dataset_id = :other_id GROUP BY o.sample_id"
    )
    values = {"dataset_id": dataset.dataset_id, "other_id": other.dataset_id}
    ids, same = read_arrays(connection, {"sample_id": "i8", "same_id": "i8"}, query, values)
    return ids, same


def load_score_answers(connection: Connection, dataset: Dataset, scorer_id: int) -> SampleAnswers:
    """Load the current scores of a scorer in a dataset as answers. A sample whose score is missing, failed, not drawn
    or stale is left out; one with another status and no value cannot be judged, and has the value NaN.
    """
    # An index has the values; the rows themselves are read only for samples without one.
    query = (
        "SELECT sample_id, value FROM (SELECT sample_id, value FROM score WHERE scorer_id = :scorer_id "
        "AND NOT is_stale AND value IS NOT NULL UNION ALL SELECT sample_id, 'NaN' FROM score "
        "WHERE scorer_id = :scorer_id AND NOT is_stale AND value IS NULL AND status NOT IN ('not_drawn', 'failed')) c "
        "JOIN sample USING (sample_id) WHERE dataset_id = :dataset_id ORDER BY sample_id"
    )
    values = {"dataset_id": dataset.dataset_id, "scorer_id": scorer_id}
    return SampleAnswers(*read_arrays(connection, {"sample_id": "i8", "value": "f8"}, query, values))


def find_only_answer(connection: Connection, dataset: Dataset, scorer_id: int) -> float | None:
    """Return the value that all current scores of a scorer in a dataset have; None where they differ, or fewer than two
    samples have one.
    """
    values = load_score_answers(connection, dataset, scorer_id).values
    known = values[~np.isnan(values)]
    return float(known[0]) if known.size > 1 and (known == known[0]).all() else None


def store_attempt(
    connection: Connection,
    dataset: Dataset,
    answered_by: str,
    others: Collection[tuple[int, str]],
    terms: Mapping[str, Any],
    order_sha256: bytes,
    n_candidates: int,
) -> Attempt:
    """Return the attempt at a promise with these terms on candidates in this order (`order_sha256`); if there is none
    yet, store it as the next on the same answers. others: (dataset id, who answers there) of further attempts that
    count. The transaction must hold the lock of `find_eligible_samples`, to number attempts. Does not commit.
    """
    own = promise.c.dataset_id == dataset.dataset_id, promise.c.answered_by == answered_by
    same = promise.c.terms == dict(terms), promise.c.order_sha256 == order_sha256
    query = sa.select(promise.c.promise_id, promise.c.attempt).where(*own, *same)
    if known_attempt := connection.execute(query).one_or_none():
        return Attempt(*known_attempt)
    sources = [(dataset.dataset_id, answered_by), *others]
    known = sa.tuple_(promise.c.dataset_id, promise.c.answered_by).in_(sources)
    number = sa.select(sa.func.coalesce(sa.func.max(promise.c.attempt), 0) + 1).where(known).scalar_subquery()
    row = {
        "dataset_id": dataset.dataset_id,
        "answered_by": answered_by,
        "attempt": number,
        "terms": dict(terms),
        "order_sha256": order_sha256,
        "n_candidates": n_candidates,
    }
    added = sa.insert(promise).values(row).returning(promise.c.promise_id, promise.c.attempt)
    return Attempt(*connection.execute(added).one())


def require_attempt(connection: Connection, dataset: Dataset, promise_id: int) -> sa.RowMapping:
    """Return the row of table `promise` with this number. Raises SelectionError if the dataset has none."""
    is_it = promise.c.promise_id == min(promise_id, _MOST), promise.c.dataset_id == dataset.dataset_id
    row = connection.execute(sa.select(promise).where(*is_it)).mappings().one_or_none()
    if row is None:
        raise SelectionError(
            f"dataset {dataset.name} has no promise {promise_id}: reelsieve promise makes one, and prints its number"
        )
    return row


def find_promised_selection(connection: Connection, dataset: Dataset) -> sa.RowMapping | None:
    """Return the row of the newest selection of a dataset that has a promise; None if none has."""
    promised = selection.c.dataset_id == dataset.dataset_id, selection.c.promise.is_not(None)
    query = sa.select(selection).where(*promised).order_by(selection.c.selection_id.desc()).limit(1)
    return connection.execute(query).mappings().one_or_none()


def list_selected_ids(connection: Connection, selection_id: int) -> npt.NDArray[np.int64]:
    """List the ids of the samples that a selection was made from, as an array (n,) in no order."""
    query = "SELECT sample_id FROM selection_item WHERE selection_id = :selection_id"
    (ids,) = read_arrays(connection, {"sample_id": "i8"}, query, {"selection_id": selection_id})
    return ids
