"""What people said about the samples of a dataset, as arrays: ratings by aspect, and labels of keypoints."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.evidence.verdicts import MANIFEST_LABEL_SOURCE
from db.manifest.datasets import Dataset
from db.reports.agreement import current_label, random_rating
from db.schema import sample
from db.server.arrays import pack_column, unpack_column


class Judgements(NamedTuple):
    """Judgements as two arrays (n,) in the same order: the id of the sample and the value. A sample with several
    judgements occurs several times.
    """

    sample_ids: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]


def load_judgements_by_kind(connection: Connection, dataset: Dataset, labels: str) -> dict[str, dict[str, Judgements]]:
    """Load all judgements of a dataset's samples by kind of samples and aspect: the ratings that statistics may use,
    and under the name `labels` people's labels of keypoints, 1 for a keypoint that the text covers and 0 for another.
    Kinds and aspects without a judgement are left out.
    """
    covered = sa.cast(sa.case((current_label.c.covered, 1), else_=0), sa.Double)
    given = sa.union_all(
        sa.select(random_rating.c.sample_id, random_rating.c.aspect, random_rating.c.value.label("value")),
        sa.select(current_label.c.sample_id, sa.literal(labels), covered).where(
            current_label.c.source == MANIFEST_LABEL_SOURCE
        ),
    ).subquery("given")
    query = (
        sa.select(sample.c.kind, given.c.aspect, pack_column(given.c.sample_id), pack_column(given.c.value))
        .join(sample, sample.c.sample_id == given.c.sample_id)
        .where(sample.c.dataset_id == dataset.dataset_id)
        .group_by(sample.c.kind, given.c.aspect)
    )
    by_kind: dict[str, dict[str, Judgements]] = {}
    for kind, aspect, ids, values in connection.execute(query):
        by_kind.setdefault(kind, {})[aspect] = Judgements(unpack_column(ids, "i8"), unpack_column(values, "f8"))
    return by_kind
