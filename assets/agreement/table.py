"""Table `agreement`: how far the metrics of a dataset agree with people, computed, stored and read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime

from sqlalchemy.engine import Connection, Engine

from assets.agreement.judged import LENGTH, SEED, Judged, resamples_for
from assets.agreement.keypoints import keypoint_rows
from db.manifest.datasets import Dataset
from db.reports.agreement import list_agreement, replace_agreement
from metrics_core.agreement import AgreementRow, agreement_rows, choice_rows


@dataclass(frozen=True, slots=True)
class StoredRow(AgreementRow):
    """A row of table `agreement`. n_stale: the stale scores or decisions that were left out."""

    scorer_id: int | None
    n_stale: int
    seed: int = SEED


@dataclass(frozen=True)
class StoredAgreement:
    """The rows of a dataset in table `agreement`, and when they were computed; None without a row."""

    rows: tuple[StoredRow, ...]
    made_at: datetime | None


def store_agreement(engine: Engine, dataset: Dataset, judged: Judged) -> list[StoredRow]:
    """Compare the metrics of judged samples with people and replace the dataset's rows; none without a judgement."""
    rows = compute_agreement(judged)
    with engine.begin() as connection:
        replace_agreement(connection, dataset.dataset_id, [asdict(row) for row in rows])
    return rows


def read_agreement(connection: Connection, dataset: Dataset) -> StoredAgreement:
    """Read the stored rows of a dataset, in the order in which they were computed."""
    rows = list_agreement(connection, dataset.dataset_id)
    names = [each.name for each in fields(StoredRow)]
    made_at = max((row["created_at"] for row in rows), default=None)
    return StoredAgreement(tuple(StoredRow(**{name: row[name] for name in names}) for row in rows), made_at)


def compute_agreement(judged: Judged) -> list[StoredRow]:
    """Compute the rows of judged samples: of ratings and labels, of preferences, and of decisions on keypoints."""
    if not judged.samples:
        return []
    rows = agreement_rows(
        judged.metrics,
        judged.ratings,
        judged.videos,
        [each.system for each in judged.samples],
        lengths=judged.baselines[LENGTH],
        baselines=judged.baselines,
        n_resamples=resamples_for(len(judged.samples)),
        seed=SEED,
    )
    of_choices = [
        row
        for aspect, choices in judged.choices.items()
        for row in choice_rows(judged.metrics, judged.computed_baselines, choices, aspect, seed=SEED)
    ]
    of_keypoints = keypoint_rows(judged.keypoints, seed=SEED)
    n_stale = Counter(each.metric for each in judged.keypoints if each.is_stale)
    return [
        *(_stored(row, judged, judged.n_stale) for row in (*rows, *of_choices)),
        *(_stored(row, judged, n_stale) for row in of_keypoints),
    ]


def _stored(row: AgreementRow, judged: Judged, n_stale: Mapping[str, int]) -> StoredRow:
    """A row with its scorer and the number of stale scores or decisions left out."""
    scorer_id = judged.scorers.get(row.metric)
    return StoredRow(scorer_id=scorer_id, n_stale=n_stale.get(row.metric, 0), **asdict(row))
