"""The rows that a training trial reads: captions of a dataset, its videos with references, and frozen captions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.schema import reference, sample, selection_item, video, video_fact
from db.scores.sample_scores import SIMPLE_SCORES
from db.selection.candidates import WHOLE_STRATUM
from db.selection.eligible import find_eligible_samples
from db.selection.recipes import Recipe

LENGTH = "n_characters"
"""The simple score that every caption has."""


@dataclass(frozen=True)
class TrialCaptions:
    """The captions of a dataset, in the order of their ids.

    sample_ids, video_ids: (n,). keys, texts: n. strata: n names, the stratum that a recipe gives every caption. values:
    by simple score (n,), NaN where a caption has none.
    """

    sample_ids: npt.NDArray[np.int64]
    video_ids: npt.NDArray[np.int64]
    keys: Sequence[str]
    texts: Sequence[str]
    strata: Sequence[str]
    values: Mapping[str, npt.NDArray[np.float64]]

    @cached_property
    def positions(self) -> dict[str, int]:
        """The position of every caption in the arrays, by its key."""
        return {key: position for position, key in enumerate(self.keys)}

    @cached_property
    def positions_by_id(self) -> dict[int, int]:
        """The position of every caption in the arrays, by its sample id."""
        return {sample_id: position for position, sample_id in enumerate(self.sample_ids.tolist())}


class TrialVideo(NamedTuple):
    """A video of a dataset: id, key, texts of its references in the order of their keys, what recognises copies (the
    digest of its file in hexadecimal digits, and its signature), and the address of its file.
    """

    video_id: int
    key: str
    references: Sequence[str]
    content_sha256: str | None
    signature: bytes | None
    uri: str | None = None


class FrozenCaption(NamedTuple):
    """A row of a frozen selection: the keys of its sample and its video, its kind and its text."""

    sample: str
    video: str
    kind: str
    text: str


def load_trial_captions(connection: Connection, dataset: Dataset, recipe: Recipe) -> TrialCaptions:
    """Load all captions of a dataset, with the strata of a recipe. Must begin a transaction.

    Raises SelectionError where the recipe's strata cannot be computed any more.
    """
    whole = Recipe(by={LENGTH: 1.0}, kind="caption", per=recipe.per, bands=recipe.bands, stale="leave_out")
    eligible = find_eligible_samples(connection, dataset, whole, lock=False)
    names = [LENGTH, *[name for name in SIMPLE_SCORES if name in eligible.columns]]
    stratum = sa.literal(WHOLE_STRATUM) if eligible.stratum is None else eligible.stratum
    columns = eligible.scores.columns
    query = (
        sa.select(
            columns["sample_id"].label("sample_id"),
            sample.c.video_id.label("video_id"),
            sample.c.key.label("key"),
            columns["text"].label("text"),
            stratum.label("stratum"),
            *[sa.cast(eligible.columns[name], sa.Double).label(f"value_{name}") for name in names],
        )
        .select_from(eligible.scores.from_clause)
        .where(*eligible.conditions)
        .order_by(columns["sample_id"])
    )
    rows = connection.execute(query).all()
    return TrialCaptions(
        np.array([row.sample_id for row in rows], dtype=np.int64),
        np.array([row.video_id for row in rows], dtype=np.int64),
        [row.key for row in rows],
        [row.text for row in rows],
        [str(row.stratum) for row in rows],
        {name: np.array([getattr(row, f"value_{name}") for row in rows], dtype=np.float64) for name in names},
    )


def load_trial_videos(connection: Connection, dataset: Dataset) -> list[TrialVideo]:
    """Load all videos of a dataset, in the order of their ids."""
    texts: dict[int, list[str]] = defaultdict(list)
    of_dataset = sa.select(video.c.video_id).where(video.c.dataset_id == dataset.dataset_id)
    query = sa.select(reference.c.video_id, reference.c.text).where(reference.c.video_id.in_(of_dataset))
    for row in connection.execute(query.order_by(reference.c.video_id, reference.c.key)):
        texts[row.video_id].append(row.text)
    facts = video_fact.c.video_id == video.c.video_id
    query = (
        sa.select(video.c.video_id, video.c.key, video.c.content_sha256, video_fact.c.signature, video.c.uri)
        .select_from(video.outerjoin(video_fact, facts))
        .where(video.c.dataset_id == dataset.dataset_id)
        .order_by(video.c.video_id)
    )
    return [
        TrialVideo(
            row.video_id,
            row.key,
            texts[row.video_id],
            None if row.content_sha256 is None else bytes(row.content_sha256).hex(),
            None if row.signature is None else bytes(row.signature),
            row.uri,
        )
        for row in connection.execute(query)
    ]


def load_frozen_captions(connection: Connection, selection_id: int) -> list[FrozenCaption]:
    """Load the rows of a frozen selection in the order of their ranks."""
    item = selection_item.c
    query = sa.select(item.sample, item.video, item.kind, item.text).where(item.selection_id == selection_id)
    return [FrozenCaption(*row) for row in connection.execute(query.order_by(item.rank))]
