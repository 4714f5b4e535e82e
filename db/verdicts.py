"""Verdicts on keypoints: for each caption of a scorer a set that says its checklist was verified, and what was found.

Status of a set: "ok"; "unverifiable", for these inputs there is no hope, and no run tries again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass, fields, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import psycopg
import sqlalchemy as sa
from psycopg import sql
from sqlalchemy.engine import Connection, Engine

from db.bulk import copy_rows
from db.engine import psycopg_transaction
from db.schema import ecs_verdict, keypoint_label, sample, verdict_set
from db.work import with_input_digest

Status = Literal["ok", "unverifiable"]
_SQL = Path(__file__).parent / "sql"


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """What a verifier found on one keypoint: the greatest P(entailment) in [0, 1], and the sentence that has it.

    Without a sentence, all three are None. is_lower_bound: not all sentences were verified. n_passes: how many were.
    """

    keypoint_id: int
    probability: float | None
    sentence_index: int | None
    sentence: str | None
    is_lower_bound: bool
    n_passes: int


@dataclass(frozen=True, slots=True)
class VerdictSet:
    """The verified checklist of one caption of `n_sentences`; `error` is None exactly where the status is "ok"."""

    sample_id: int
    input_sha256: bytes
    n_sentences: int
    verdicts: tuple[VerdictRow, ...] = ()
    status: Status = "ok"
    error: str | None = None

    @property
    def n_passes(self) -> int:
        """Passes of the verifier, over all keypoints."""
        return sum(verdict.n_passes for verdict in self.verdicts)


@dataclass(frozen=True, slots=True)
class LabelledVerdict:
    """A verdict beside the label of its keypoint; videos of one `group` belong into one part of a split."""

    shard: int
    group: str
    dimension: str
    probability: float | None
    is_lower_bound: bool
    covered: bool


def pending_verdicts(
    connection: Connection,
    *,
    scorer_id: int | None,
    dataset_id: int,
    shard: int,
    inputs: Collection[str],
    default_threshold: float | None = None,
) -> list[int]:
    """Ids of the captions of a shard whose checklist this scorer has to verify, ascending.

    Those with keypoints that have no set of verdicts for their present inputs, or one that has lost a keypoint; and
    those with a lower bound: any without a default threshold, else one below the threshold in force, which is the
    default for a dimension that has none of its own. None is a scorer that is not registered yet.
    """
    statement = sa.text(with_input_digest("pending_verdicts", inputs))
    values = {
        "scorer_id": scorer_id,
        "dataset_id": dataset_id,
        "shard": shard,
        "default_threshold": default_threshold,
    }
    return list(connection.scalars(statement, values))


def write_verdicts(engine: Engine, scorer_id: int, run_id: str, sets: Sequence[VerdictSet]) -> int:
    """Store the sets of some samples in one transaction, in place of what was there; returns how many sets.

    Sets whose sample and verdicts whose keypoint is gone by now are left out.
    """
    sample_ids = [each.sample_id for each in sets]
    keypoint_ids = list({verdict.keypoint_id for each in sets for verdict in each.verdicts})
    with psycopg_transaction(engine) as connection:
        # Two runs on one sample wait for each other here: the later one's set is what stays.
        samples = {
            row[0]
            for row in connection.execute(
                "SELECT sample_id FROM sample WHERE sample_id = ANY(%s) ORDER BY sample_id FOR NO KEY UPDATE",
                [sample_ids],
            )
        }
        keypoints = {
            row[0]
            for row in connection.execute(
                "SELECT keypoint_id FROM keypoint WHERE keypoint_id = ANY(%s) ORDER BY keypoint_id FOR KEY SHARE",
                [keypoint_ids],
            )
        }
        kept = [
            replace(each, verdicts=tuple(verdict for verdict in each.verdicts if verdict.keypoint_id in keypoints))
            for each in sets
            if each.sample_id in samples
        ]
        connection.execute(
            "DELETE FROM verdict_set WHERE scorer_id = %s AND sample_id = ANY(%s)", [scorer_id, sorted(samples)]
        )
        _copy(connection, scorer_id, run_id, kept)
    return len(kept)


def load_verdicts(
    engine: Engine, scorer_id: int, sample_ids: Collection[int], inputs: Collection[str]
) -> dict[int, VerdictSet]:
    """The sets of those of the samples whose present inputs this scorer has verified; verdicts by their keypoint's key.

    A set that has lost a keypoint is left out.
    """
    statement = sa.text(with_input_digest("present_verdicts", inputs))
    with engine.connect() as connection:
        rows = connection.execute(statement, {"scorer_id": scorer_id, "sample_ids": list(sample_ids)})
        return {sample_id: _verdict_set(list(group)) for sample_id, group in groupby(rows, lambda row: row.sample_id)}


def labelled_verdicts(connection: Connection, scorer_id: int, dataset_id: int, source: str) -> list[LabelledVerdict]:
    """What the scorer found on every keypoint that this source labels; by the keys of caption and keypoint."""
    statement = sa.text((_SQL / "labelled_verdicts.sql").read_text())
    values = {"scorer_id": scorer_id, "dataset_id": dataset_id, "source": source}
    return [LabelledVerdict(**row) for row in connection.execute(statement, values).mappings()]


def label_sources(connection: Connection, dataset_id: int) -> dict[str, int]:
    """How many keypoints of a dataset's captions each source has labelled."""
    query = (
        sa.select(keypoint_label.c.source, sa.func.count())
        .join(sample, sample.c.sample_id == keypoint_label.c.sample_id)
        .where(sample.c.dataset_id == dataset_id)
        .group_by(keypoint_label.c.source)
        .order_by(sa.collate(keypoint_label.c.source, "C"))
    )
    return {row[0]: row[1] for row in connection.execute(query)}


def _copy(connection: psycopg.Connection[Any], scorer_id: int, run_id: str, sets: Sequence[VerdictSet]) -> None:
    key = ["scorer_id", "sample_id"]
    of_set = [*key, "input_sha256", "status", "error", "n_sentences", "n_passes", "run_id"]
    of_verdict = [*key, *(field.name for field in fields(VerdictRow))]
    copy_rows(
        connection,
        sql.Identifier(verdict_set.name),
        [verdict_set.c[name] for name in of_set],
        ((scorer_id, s.sample_id, s.input_sha256, s.status, s.error, s.n_sentences, s.n_passes, run_id) for s in sets),
    )
    copy_rows(
        connection,
        sql.Identifier(ecs_verdict.name),
        [ecs_verdict.c[name] for name in of_verdict],
        ((scorer_id, each.sample_id, *astuple(verdict)) for each in sets for verdict in each.verdicts),
    )


def _verdict_set(rows: Sequence[Any]) -> VerdictSet:
    first = rows[0]
    verdicts = tuple(
        VerdictRow(r.keypoint_id, r.probability, r.sentence_index, r.sentence, r.is_lower_bound, r.n_passes)
        for r in rows
        if r.keypoint_id is not None
    )
    return VerdictSet(
        first.sample_id, bytes(first.input_sha256), first.n_sentences, verdicts, first.status, first.error
    )
