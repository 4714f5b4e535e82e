"""Ratings that people give in a browser: what comes next, the answer in table `rating`, and back.

They stand beside ingested ones and are read alike. Their `extra` says when, on which scale and in which order.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.schema import rating, sample


class Rater(NamedTuple):
    """Who rates which aspect of a dataset's captions, in the random order of a seed."""

    dataset: Dataset
    name: str
    aspect: str
    seed: int = 0

    @property
    def own(self) -> sa.ColumnElement[bool]:
        """Whether a row of table `rating` is one of theirs."""
        return sa.and_(rating.c.rater == self.name, rating.c.aspect == self.aspect)

    @property
    def captions(self) -> sa.ColumnElement[bool]:
        """Whether a row of table `sample` may be rated."""
        return sa.and_(sample.c.dataset_id == self.dataset.dataset_id, sample.c.kind == "caption")


class Item(NamedTuple):
    """A caption to rate. text_sha256: of the text as it is now."""

    sample_id: int
    text: str
    text_sha256: bytes
    video_id: int


def next_item(connection: Connection, rater: Rater, skipped: Collection[int] = ()) -> Item | None:
    """The first caption in the rater's order that they have neither rated nor skipped; None at the end.

    The order is that of a hash of seed and key: the same for every rater of a seed, and of neither system nor score.
    """
    is_rated = sa.select(sa.literal(1)).where(rating.c.sample_id == sample.c.sample_id, rater.own).exists()
    wanted = [rater.captions, ~is_rated, sample.c.sample_id.not_in(list(skipped))]
    order = sa.func.hashtextextended(sample.c.key, sa.literal(rater.seed, sa.BigInteger))
    columns = (sample.c.sample_id, sample.c.text, sample.c.text_sha256, sample.c.video_id)
    row = connection.execute(
        sa.select(*columns).where(*wanted).order_by(order, sample.c.sample_id).limit(1)
    ).one_or_none()
    return None if row is None else Item(row[0], row[1], bytes(row[2]), row[3])


def store_rating(
    connection: Connection, rater: Rater, sample_id: int, text_sha256: bytes, value: float, extra: dict[str, Any]
) -> bool:
    """Store a rating from 1 to 5 of a caption whose text has this hash.

    False, and nothing is stored, where the text is another one by now, or the rater has rated it already.
    """
    said = {"sample_id": sample_id, "rater": rater.name, "aspect": rater.aspect, "value": value, **extra}
    digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode("utf-8")).digest()
    now = sa.func.to_char(sa.text("statement_timestamp() AT TIME ZONE 'UTC'"), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
    given = sa.func.jsonb_build_object("rated_at", now).op("||")(sa.cast(extra, rating.c.extra.type))
    # The row of the sample stays as it is until the rating is stored.
    its = sa.select(sample.c.sample_id, *map(sa.literal, (rater.name, rater.aspect, value)), given, sa.literal(digest))
    its = its.where(rater.captions, sample.c.sample_id == sample_id, sample.c.text_sha256 == text_sha256)
    names = ["sample_id", "rater", "aspect", "value", "extra", "row_sha256"]
    stored = insert(rating).from_select(names, its.with_for_update(key_share=True)).on_conflict_do_nothing()
    return connection.execute(stored.returning(rating.c.sample_id)).one_or_none() is not None


def take_back(connection: Connection, rater: Rater) -> bool:
    """Delete the rater's last rating that was given in a browser; False where there is none."""
    given_at = rating.c.extra["rated_at"].astext
    of_dataset = sa.select(rating.c.sample_id).join(sample).where(rater.captions, rater.own, given_at.is_not(None))
    last = of_dataset.order_by(given_at.desc()).limit(1).scalar_subquery()
    gone = sa.delete(rating).where(rater.own, rating.c.sample_id == last)
    return connection.execute(gone).rowcount > 0


def n_rated(connection: Connection, rater: Rater) -> tuple[int, int]:
    """How many captions the rater has rated, and how many there are."""
    rated = sa.select(sa.func.count()).select_from(rating.join(sample)).where(rater.captions, rater.own)
    of_all = sa.select(sa.func.count()).select_from(sample).where(rater.captions)
    return connection.execute(rated).scalar_one(), connection.execute(of_all).scalar_one()


def scale_of(connection: Connection, dataset: Dataset, aspect: str) -> str | None:
    """The scale on which an aspect was rated in a browser; None where it was not yet."""
    scale = rating.c.extra["scale"].astext
    query = sa.select(scale).join(sample).where(sample.c.dataset_id == dataset.dataset_id, rating.c.aspect == aspect)
    return connection.scalar(query.where(scale.is_not(None)).limit(1))
