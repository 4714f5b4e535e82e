"""Promises about selections: the attempts to make them, the random numbers of samples, and the answers about them."""

from __future__ import annotations

from collections.abc import Mapping
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
    "SELECT sample_id, rater, value FROM (SELECT sample_id, rater, value, count(*) OVER (PARTITION BY sample_id) AS n, "
    "row_number() OVER (PARTITION BY sample_id ORDER BY stored_at, r.extra ->> 'rated_at' NULLS FIRST, rater) AS place "
    "FROM current_rating r JOIN sample USING (sample_id) WHERE dataset_id = :dataset_id AND aspect = :aspect) "
    "AS rated WHERE n >= :n_raters AND place <= :n_raters"
)


class DrawNumbers(NamedTuple):
    """The samples of a dataset as arrays (n,) in order of sample_ids: their permanent random numbers in [0, 1), and the
    SHA-256 of their texts.
    """

    sample_ids: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.float64]
    text_sha256: npt.NDArray[np.void]


class SampleAnswers(NamedTuple):
    """The answers about samples as arrays (n,) in order of sample_ids: a value, NaN where nobody and nothing can judge
    the sample. Samples without an answer are left out.
    """

    sample_ids: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]


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
    """Load the mean of the first `n_raters` ratings of every caption of a dataset that has so many for this aspect, on
    its present text, in the order in which they were stored: what comes later never replaces an answer. Ratings that
    were stored at once, such as those of a manifest, go by their own time, if any, and then by rater.
    """
    query = f"SELECT sample_id, avg(value) AS value FROM ({_FIRST_RATINGS}) g GROUP BY sample_id ORDER BY sample_id"
    values = {"dataset_id": dataset.dataset_id, "aspect": aspect, "n_raters": n_raters}
    return SampleAnswers(*read_arrays(connection, {"sample_id": "i8", "value": "f8"}, query, values))


def list_changed_samples(connection: Connection, dataset: Dataset, seed: int) -> npt.NDArray[np.int64]:
    """List the ids of samples whose text changed after they had an answer and after samples were asked in the order
    of this seed, as an array (n,) in no order. The person who changed them may have known the answers, so that those
    in this order are no random sample any more. Samples are rated in the order of seed 0 if nobody names another.
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


def list_raters(
    connection: Connection, dataset: Dataset, aspect: str, n_raters: int, sample_ids: npt.NDArray[np.int64]
) -> list[str]:
    """List the names of the people whose ratings of these captions count as in `load_people_answers`, sorted."""
    query = f"SELECT DISTINCT rater FROM ({_FIRST_RATINGS}) g WHERE sample_id = ANY(:ids)"
    values = {"dataset_id": dataset.dataset_id, "aspect": aspect, "n_raters": n_raters, "ids": sample_ids.tolist()}
    return sorted(connection.scalars(sa.text(query), values))


def load_score_answers(connection: Connection, dataset: Dataset, scorer_id: int) -> SampleAnswers:
    """Load the current scores of a scorer in a dataset as answers. A sample that was not asked, failed or changed since
    has none; one with another status cannot be judged, and has the value NaN.
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
    terms: Mapping[str, Any],
    order_sha256: bytes,
    n_candidates: int,
) -> Attempt:
    """Return the attempt at a promise with these terms on this order of candidates. If there is none yet, it is stored
    as the next one on the same answers. The transaction must hold the lock of `find_eligible_samples`, so that two
    processes do not count alike; this does not commit.
    """
    known = promise.c.dataset_id == dataset.dataset_id, promise.c.answered_by == answered_by
    same = promise.c.terms == dict(terms), promise.c.order_sha256 == order_sha256
    query = sa.select(promise.c.promise_id, promise.c.attempt).where(*known, *same)
    if known_attempt := connection.execute(query).one_or_none():
        return Attempt(*known_attempt)
    number = sa.select(sa.func.coalesce(sa.func.max(promise.c.attempt), 0) + 1).where(*known).scalar_subquery()
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
            f"{dataset.name} has no promise {promise_id}: reelsieve select --promise makes one, and prints its number"
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
