"""Computes, stores and loads table `agreement`: how well the metrics of a dataset agree with people."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, fields, replace
from datetime import datetime

from sqlalchemy.engine import Connection, Engine

from assets.agreement.judged import SEED, JudgedSamples
from assets.agreement.keypoints import compute_keypoint_rows
from db.manifest.datasets import Dataset
from db.reports.agreement import list_agreement, replace_agreement
from metrics_core.agreement import AgreementRow, build_preference_rows, compute_agreement_rows


def store_agreement(engine: Engine, dataset: Dataset, judged: JudgedSamples) -> list[AgreementRow]:
    """Compute from judged samples the agreement of metrics with people, replace the dataset's rows in table
    `agreement`, and return the new rows. Without judged samples the old rows are removed, and none is returned.
    """
    rows = compute_agreement(judged)
    with engine.begin() as connection:
        replace_agreement(connection, dataset.dataset_id, [asdict(row) for row in rows])
    return rows


def load_agreement(connection: Connection, dataset: Dataset) -> tuple[list[AgreementRow], datetime | None]:
    """Load the rows of a dataset from table `agreement`, in the order in which they were computed, and when the newest
    of them was stored; [] and None without a row.
    """
    rows = list_agreement(connection, dataset.dataset_id)
    names = [field.name for field in fields(AgreementRow)]
    made_at = max((row["created_at"] for row in rows), default=None)
    return [AgreementRow(**{name: row[name] for name in names}) for row in rows], made_at


def compute_agreement(judged: JudgedSamples) -> list[AgreementRow]:
    """Compute the rows of table `agreement` from judged samples, with the active scorer and the number of stale scores
    of every metric. Rows on ratings and labels come first, then on preferences, then on decisions on keypoints. Empty
    without samples.
    """
    if not judged.sample_ids.size:
        return []
    rows = compute_agreement_rows(
        judged.metric_values,
        judged.ratings,
        judged.videos,
        judged.systems,
        baselines=judged.baselines,
        seed=SEED,
    )
    preference_rows = [
        row
        for aspect, choices in judged.choices.items()
        for row in build_preference_rows(judged.metric_values, judged.select_baselines(), choices, aspect, seed=SEED)
    ]
    keypoint_rows = compute_keypoint_rows(judged.decided_keypoints, seed=SEED)
    n_stale = Counter(item.metric for item in judged.decided_keypoints if item.is_stale)
    return [
        replace(row, scorer_id=judged.scorer_ids.get(row.metric), n_stale=counts.get(row.metric, 0), seed=SEED)
        for some, counts in (((*rows, *preference_rows), judged.n_stale), (keypoint_rows, n_stale))
        for row in some
    ]
