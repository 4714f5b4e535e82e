"""What ratings are drawn for: captions with their chance, and the marks on the ratings that a question drew."""

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
"""The field of a rating's `extra` with its mark, which view random_rating reads."""


class DrawMark(NamedTuple):
    """By which draw a caption came: its question, share and key, and the least share that a caption has in it.

    least: None where the captions of the draw are no random sample of the dataset.
    """

    question: str
    share: float
    key: float
    least: float | None


class DrawableCaptions(NamedTuple):
    """The captions of a dataset that may be drawn, by number; each array (n,).

    systems: the place of a caption's system among those that were asked for, or -1. chances, video_chances: random
    numbers in (0, 1] of a seed and of the keys of caption and video.
    """

    sample_ids: npt.NDArray[np.int64]
    video_ids: npt.NDArray[np.int64]
    system_places: npt.NDArray[np.int32]
    chances: npt.NDArray[np.float64]
    video_chances: npt.NDArray[np.float64]


def load_drawable_captions(
    connection: Connection, dataset: Dataset, seed: int, systems: Sequence[str] = ()
) -> DrawableCaptions:
    """All captions of a dataset."""
    query = (
        "SELECT sample_id, video_id, COALESCE(array_position(CAST(:systems AS text[]), s.system), 0) - 1 AS place, "
        "hashtextextended(s.key, CAST(:seed AS bigint)) AS of_caption, "
        "hashtextextended(v.key, CAST(:seed AS bigint)) AS of_video FROM sample s JOIN video v USING (video_id) "
        "WHERE s.dataset_id = :dataset_id AND s.kind = 'caption' ORDER BY sample_id"
    )
    kinds = {"sample_id": "i8", "video_id": "i8", "place": "i4", "of_caption": "i8", "of_video": "i8"}
    said = {"systems": list(systems), "seed": seed, "dataset_id": dataset.dataset_id}
    ids, videos, places, of_captions, of_videos = read_arrays(connection, kinds, query, said)
    return DrawableCaptions(ids, videos, places, _convert_to_chances(of_captions), _convert_to_chances(of_videos))


def _convert_to_chances(hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Random numbers from whole numbers of 64 bits with a sign."""
    counted = hashes.view(np.uint64) ^ np.uint64(2**63)
    chance: npt.NDArray[np.float64] = (counted.astype(np.float64) + 0.5) / 2.0**64
    return chance


def load_caption_systems(connection: Connection, dataset: Dataset) -> set[str]:
    """The systems that made captions of a dataset."""
    of_dataset = (sample.c.dataset_id == dataset.dataset_id, sample.c.kind == "caption")
    return set(connection.scalars(sa.select(sample.c.system).where(*of_dataset).distinct()))


def load_drawn_ratings(
    connection: Connection, dataset: Dataset, aspect: str
) -> Iterator[tuple[int, float, list[DrawMark]]]:
    """Id, mean rating by an aspect and marks of the ratings of each caption that is rated as it is now."""
    query = (
        "SELECT sample_id, avg(value), array_agg(r.extra -> :drawn) FROM current_rating r "
        "JOIN sample USING (sample_id) WHERE dataset_id = :dataset_id AND kind = 'caption' AND aspect = :aspect "
        "GROUP BY sample_id"
    )
    values = {"drawn": DRAW_FIELD, "dataset_id": dataset.dataset_id, "aspect": aspect}
    for sample_id, value, marks in connection.execute(sa.text(query), values):
        yield sample_id, value, [each for given in marks if (each := _parse_mark(given)) is not None]


def _parse_mark(given: Any) -> DrawMark | None:
    """The mark in a rating's field; None where it holds something else, as a manifest's own field may."""
    try:
        least = given["least"]
        return DrawMark(
            str(given["question"]),
            float(given["share"]),
            float(given["key"]),
            None if least is None else float(least),
        )
    except (TypeError, KeyError, ValueError, OverflowError):
        return None


def list_rating_questions(connection: Connection, dataset: Dataset) -> list[tuple[str, int, str]]:
    """The questions, seeds and aspects that ratings of a dataset were drawn for."""
    question, seed = rating.c.extra[DRAW_FIELD]["question"].astext, rating.c.extra["seed"].astext
    query = (
        sa.select(question, seed, rating.c.aspect)
        .join(sample, sample.c.sample_id == rating.c.sample_id)
        .where(sample.c.dataset_id == dataset.dataset_id, question.is_not(None), seed.regexp_match("^[0-9]{1,18}$"))
        .distinct()
        .order_by(rating.c.aspect, question, seed)
    )
    return [(row[0], int(row[1]), row[2]) for row in connection.execute(query)]
