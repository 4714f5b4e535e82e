"""Computes, stores and loads table `agreement`: how well the metrics of a dataset agree with people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime

from sqlalchemy.engine import Connection, Engine

from assets.agreement.judged import LENGTH, SEED, JudgedSamples, choose_n_resamples
from assets.agreement.keypoints import compute_keypoint_rows
from db.manifest.datasets import Dataset
from db.reports.agreement import list_agreement, replace_agreement
from metrics_core.agreement import AgreementRow, build_preference_rows, compute_agreement_rows


@dataclass(frozen=True, slots=True)
class StoredAgreementRow(AgreementRow):
    """A row of table `agreement`: one statistic with its interval. scorer_id: the active scorer of the metric or simple
    score; None where there is none, as for raters. n_stale: stale scores or decisions that were left out. seed: of the
    resampling.
    """

    scorer_id: int | None
    n_stale: int
    seed: int = SEED


@dataclass(frozen=True)
class StoredAgreement:
    """The rows of a dataset in table `agreement`. made_at: when the newest of them was stored; None without a row."""

    rows: tuple[StoredAgreementRow, ...]
    made_at: datetime | None


def store_agreement(engine: Engine, dataset: Dataset, judged: JudgedSamples) -> list[StoredAgreementRow]:
    """Compute from judged samples the agreement of metrics with people, replace the dataset's rows in table
    `agreement`, and return the new rows. Without judged samples the old rows are removed, and none is returned.
    """
    rows = compute_agreement(judged)
    with engine.begin() as connection:
        replace_agreement(connection, dataset.dataset_id, [asdict(row) for row in rows])
    return rows


def load_agreement(connection: Connection, dataset: Dataset) -> StoredAgreement:
    """Load the rows of a dataset from table `agreement`, in the order in which they were computed, and when they were
    stored. Without a row, it is empty and its time None.
    """
    rows = list_agreement(connection, dataset.dataset_id)
    names = [field.name for field in fields(StoredAgreementRow)]
    made_at = max((row["created_at"] for row in rows), default=None)
    return StoredAgreement(tuple(StoredAgreementRow(**{name: row[name] for name in names}) for row in rows), made_at)


def compute_agreement(judged: JudgedSamples) -> list[StoredAgreementRow]:
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
        lengths=judged.baselines[LENGTH],
        baselines=judged.baselines,
        n_resamples=choose_n_resamples(judged.sample_ids.size),
        seed=SEED,
    )
    preference_rows = [
        row
        for aspect, choices in judged.choices.items()
        for row in build_preference_rows(judged.metric_values, judged.computed_baselines, choices, aspect, seed=SEED)
    ]
    keypoint_rows = compute_keypoint_rows(judged.decided_keypoints, seed=SEED)
    n_stale = Counter(item.metric for item in judged.decided_keypoints if item.is_stale)
    return [
        *(_build_stored_row(row, judged, judged.n_stale) for row in (*rows, *preference_rows)),
        *(_build_stored_row(row, judged, n_stale) for row in keypoint_rows),
    ]


def _build_stored_row(row: AgreementRow, judged: JudgedSamples, n_stale: Mapping[str, int]) -> StoredAgreementRow:
    """Build a row with its scorer and the number of stale scores or decisions that were left out."""
    scorer_id = judged.scorer_ids.get(row.metric)
    return StoredAgreementRow(scorer_id=scorer_id, n_stale=n_stale.get(row.metric, 0), **asdict(row))
