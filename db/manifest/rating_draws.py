"""Captions that are drawn for rating to settle a question, and the marks by which ratings remember their draw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.schema import rating, sample
from db.server.arrays import read_arrays

DRAW_FIELD = "to_settle"
"""The field of a rating's `extra` that holds its draw mark; view random_rating reads it."""
PROMISE_QUESTION = "promise "
"""The draw mark of a caption that was asked for a promise has this, with the promise's number, as its question."""


class DrawMark(NamedTuple):
    """The record of how a rated caption was drawn to settle a question. share: how likely this caption was drawn
    compared with others. key: its random sort key; the lowest keys are drawn. least: the least share of any caption;
    None if the draw was no random sample of the dataset's captions.
    """

    question: str
    share: float
    key: float
    least: float | None


class DrawableCaptions(NamedTuple):
    """All captions of a dataset as arrays (n,) in the same order. system_places: index of the caption's system in the
    list that was asked for, or -1. chances, video_chances: random numbers in (0, 1], fixed by the seed and the key of
    the caption or of its video.
    """

    sample_ids: npt.NDArray[np.int64]
    video_ids: npt.NDArray[np.int64]
    system_places: npt.NDArray[np.int32]
    chances: npt.NDArray[np.float64]
    video_chances: npt.NDArray[np.float64]


def load_drawable_captions(
    connection: Connection, dataset: Dataset, seed: int, systems: Sequence[str] = ()
) -> DrawableCaptions:
    """Load all captions of a dataset as arrays ordered by sample id, with random numbers that depend only on `seed` and
    keys. systems: the names that `system_places` of the result refers to.
    """
    query = (
        "SELECT sample_id, video_id, COALESCE(array_position(CAST(:systems AS text[]), s.system), 0) - 1 AS place, "
        "hashtextextended(s.key, CAST(:seed AS bigint)) AS of_caption, "
        "hashtextextended(v.key, CAST(:seed AS bigint)) AS of_video FROM sample s JOIN video v USING (video_id) "
        "WHERE s.dataset_id = :dataset_id AND s.kind = 'caption' ORDER BY sample_id"
    )
    kinds = {"sample_id": "i8", "video_id": "i8", "place": "i4", "of_caption": "i8", "of_video": "i8"}
    values = {"systems": list(systems), "seed": seed, "dataset_id": dataset.dataset_id}
    ids, videos, places, caption_hashes, video_hashes = read_arrays(connection, kinds, query, values)
    return DrawableCaptions(ids, videos, places, _convert_to_chances(caption_hashes), _convert_to_chances(video_hashes))


def _convert_to_chances(hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return random numbers in (0, 1] from signed 64-bit hashes."""
    counted = hashes.view(np.uint64) ^ np.uint64(2**63)
    chance: npt.NDArray[np.float64] = (counted.astype(np.float64) + 0.5) / 2.0**64
    return chance


def load_caption_systems(connection: Connection, dataset: Dataset) -> set[str]:
    """Return the set of systems that wrote captions of a dataset; question-answer pairs do not count."""
    in_dataset = (sample.c.dataset_id == dataset.dataset_id, sample.c.kind == "caption")
    return set(connection.scalars(sa.select(sample.c.system).where(*in_dataset).distinct()))


def load_drawn_ratings(
    connection: Connection, dataset: Dataset, aspect: str
) -> Iterator[tuple[int, float, list[DrawMark]]]:
    """Yield (sample id, mean rating for the aspect, draw marks) of every caption with a rating of its present text. The
    mean is over all raters; the highest is best, also where the scale's lowest number is. The list has a mark for every
    rating that was drawn to settle a question, and is empty if none was.
    """
    query = (
        "SELECT sample_id, avg(goodness), array_agg(r.extra -> :drawn) FROM current_rating r "
        "JOIN sample USING (sample_id) WHERE dataset_id = :dataset_id AND kind = 'caption' AND aspect = :aspect "
        "GROUP BY sample_id"
    )
    values = {"drawn": DRAW_FIELD, "dataset_id": dataset.dataset_id, "aspect": aspect}
    for sample_id, value, marks in connection.execute(sa.text(query), values):
        yield sample_id, value, [mark for field in marks if (mark := _parse_mark(field)) is not None]


def _parse_mark(field: Any) -> DrawMark | None:
    """Return the mark in a rating's field; None if the field holds something else, as a manifest's own field may."""
    try:
        least = field["least"]
        return DrawMark(
            str(field["question"]),
            float(field["share"]),
            float(field["key"]),
            None if least is None else float(least),
        )
    except (TypeError, KeyError, ValueError, OverflowError):
        return None


def list_rating_questions(connection: Connection, dataset: Dataset) -> list[tuple[str, int, str]]:
    """List (question, seed, aspect) of all draws of captions that stored ratings of a dataset belong to, without
    repeats, ordered by aspect. Ratings of captions that were not drawn to settle a question do not count, and neither
    do those for a promise.
    """
    question, seed = rating.c.extra[DRAW_FIELD]["question"].astext, rating.c.extra["seed"].astext
    query = (
        sa.select(question, seed, rating.c.aspect)
        .join(sample, sample.c.sample_id == rating.c.sample_id)
        .where(sample.c.dataset_id == dataset.dataset_id, question.is_not(None), seed.regexp_match("^[0-9]{1,18}$"))
        .where(~question.startswith(PROMISE_QUESTION))
        .distinct()
        .order_by(rating.c.aspect, question, seed)
    )
    return [(row[0], int(row[1]), row[2]) for row in connection.execute(query)]
