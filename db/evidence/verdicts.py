"""Verdicts on keypoints: one set per caption and scorer, with one verdict per keypoint of the video.

Status of a set: "ok", or "unverifiable": these inputs cannot be verified, and no run tries again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass, fields, replace
from itertools import groupby
from typing import Any, Literal

import psycopg
import sqlalchemy as sa
from psycopg import sql
from sqlalchemy.engine import Connection, Engine

from db.evidence.store import Table
from db.schema import ecs_verdict, keypoint, sample, verdict_set
from db.schema.inputs import KEYPOINTS, SEGMENTS, TEXT, build_statement
from db.scores.sample_scores import prepare_for_joins
from db.server.bulk import copy_rows
from db.server.conflicts import retry_conflicts
from db.server.engine import open_psycopg_transaction
from db.server.locking import lock_ids_for_copy
from db.sql import read_sql

Status = Literal["ok", "unverifiable"]
# The inputs of verdicts; a score made from verdicts depends on the thresholds as well.
VERDICT_INPUTS = (KEYPOINTS, SEGMENTS, TEXT)
MANIFEST_LABEL_SOURCE = "manifest"
"""Column `source` of labels by people, from a manifest or a browser."""


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """A verdict on one keypoint and one caption. probability: the highest, in [0, 1], that a sentence of the caption
    entails the keypoint; sentence, sentence_index: that sentence. All three are None for a caption without sentences.
    n_passes: number of sentences verified.
    """

    keypoint_id: int
    probability: float | None
    sentence_index: int | None
    sentence: str | None
    n_passes: int


@dataclass(frozen=True, slots=True)
class VerdictSet:
    """The verdicts on all keypoints of one caption with `n_sentences` sentences. input_sha256: digest of the inputs
    they were made from. The status is "ok", or "unverifiable" with the reason in `error` and no verdicts.
    """

    sample_id: int
    input_sha256: bytes
    n_sentences: int
    verdicts: tuple[VerdictRow, ...] = ()
    status: Status = "ok"
    error: str | None = None

    @property
    def n_passes(self) -> int:
        """Number of sentence-keypoint pairs that the verifier read, over all keypoints of the caption."""
        return sum(verdict.n_passes for verdict in self.verdicts)


@dataclass(frozen=True, slots=True)
class LabelledVerdict:
    """A verdict on a keypoint, with the label on it. probability: that the caption covers the keypoint; None for a
    caption without sentences. covered: the label. group: field group_id of the video, else its key; rows of one group
    go into the same part of a split.
    """

    shard: int
    group: str
    dimension: str
    probability: float | None
    covered: bool


def list_captions_to_verify(connection: Connection, *, scorer_id: int | None, dataset_id: int, shard: int) -> list[int]:
    """List the ids, ascending, of a shard's captions with keypoints that this scorer has still to verify: these have no
    verdicts on their present texts, or lack one. scorer_id: None for a scorer that is not registered yet.
    """
    statement = sa.text(build_statement("pending_verdicts", VERDICT_INPUTS))
    values = {"scorer_id": scorer_id, "dataset_id": dataset_id, "shards": [shard]}
    return list(connection.scalars(statement, values))


def list_unfinished_shards(engine: Engine, scorer_id: int, dataset_id: int) -> set[int]:
    """Return the shards with a caption that this scorer has still to verify: its present texts have no verdicts, or
    lack one. Captions without keypoints need no verdict.
    """
    pending = build_statement("pending_verdicts", VERDICT_INPUTS)
    statement = sa.text(f"SELECT DISTINCT shard FROM ({pending}) pending")
    values = {"scorer_id": scorer_id, "dataset_id": dataset_id}
    with engine.connect() as connection:
        prepare_for_joins(connection)
        shards = connection.scalars(sa.text("SELECT shard FROM shard WHERE dataset_id = :d"), {"d": dataset_id}).all()
        return set(connection.scalars(statement, {**values, "shards": list(shards)}))


@retry_conflicts
def store_verdict_sets(engine: Engine, scorer_id: int, run_id: str, sets: Sequence[VerdictSet]) -> int:
    """Replace the verdict sets that this scorer has for these samples, in one transaction, and return how many were
    stored. A set whose sample was deleted in the meantime is left out, and so is a verdict whose keypoint was deleted.
    Tried again, up to three times, after a conflict with another transaction.
    """
    sample_ids = [one_set.sample_id for one_set in sets]
    keypoint_ids = list({verdict.keypoint_id for one_set in sets for verdict in one_set.verdicts})
    with open_psycopg_transaction(engine) as connection:
        # Two runs on one sample wait for each other here: the later one's set is what stays.
        samples = lock_ids_for_copy(connection, sample.c.sample_id, sample_ids, is_exclusive=True)
        keypoints = lock_ids_for_copy(connection, keypoint.c.keypoint_id, keypoint_ids)
        kept = [
            replace(one_set, verdicts=tuple(v for v in one_set.verdicts if v.keypoint_id in keypoints))
            for one_set in sets
            if one_set.sample_id in samples
        ]
        connection.execute(
            "DELETE FROM verdict_set WHERE scorer_id = %s AND sample_id = ANY(%s)", [scorer_id, sorted(samples)]
        )
        _copy(connection, scorer_id, run_id, kept)
    return len(kept)


def load_verdict_sets(engine: Engine, scorer_id: int, sample_ids: Collection[int]) -> dict[int, VerdictSet]:
    """Load a scorer's verdict sets as {sample id: set}, with the verdicts ordered by keypoint key. A sample is left out
    if its present texts have no set, or if a set of status "ok" lacks a keypoint.
    """
    statement = sa.text(build_statement("present_verdicts", VERDICT_INPUTS))
    with engine.connect() as connection:
        rows = connection.execute(statement, {"scorer_id": scorer_id, "sample_ids": list(sample_ids)})
        return {sample_id: _verdict_set(list(group)) for sample_id, group in groupby(rows, lambda row: row.sample_id)}


VERDICTS: Table[int, VerdictSet] = Table(
    load_verdict_sets,
    lambda engine, scorer_id, run_id, sets: store_verdict_sets(engine, scorer_id, run_id, list(sets.values())),
)
"""A scorer's verdict sets, by sample_id; one that was made from other texts than the present ones is not found."""


def load_labelled_verdicts(
    connection: Connection, scorer_id: int, dataset_id: int, source: str
) -> list[LabelledVerdict]:
    """Load a scorer's verdicts on the keypoints of a dataset that `source` labelled, ordered by the keys of caption and
    keypoint. source: "manifest" for people, or a chat model's such as "judge:qwen3:8b". Labels on texts that have
    changed, and keypoints without a verdict, are left out. A verdict is not checked for changed inputs.
    """
    statement = sa.text(read_sql("labelled_verdicts"))
    values = {"scorer_id": scorer_id, "dataset_id": dataset_id, "source": source}
    return [LabelledVerdict(**row) for row in connection.execute(statement, values).mappings()]


def _copy(connection: psycopg.Connection[Any], scorer_id: int, run_id: str, sets: Sequence[VerdictSet]) -> None:
    key = ["scorer_id", "sample_id"]
    set_columns = [*key, "input_sha256", "status", "error", "n_sentences", "n_passes", "run_id"]
    verdict_columns = [*key, *(field.name for field in fields(VerdictRow))]
    copy_rows(
        connection,
        sql.Identifier(verdict_set.name),
        [verdict_set.c[name] for name in set_columns],
        ((scorer_id, s.sample_id, s.input_sha256, s.status, s.error, s.n_sentences, s.n_passes, run_id) for s in sets),
    )
    copy_rows(
        connection,
        sql.Identifier(ecs_verdict.name),
        [ecs_verdict.c[name] for name in verdict_columns],
        ((scorer_id, s.sample_id, *astuple(verdict)) for s in sets for verdict in s.verdicts),
    )


def _verdict_set(rows: Sequence[Any]) -> VerdictSet:
    first = rows[0]
    verdicts = tuple(
        VerdictRow(r.keypoint_id, r.probability, r.sentence_index, r.sentence, r.n_passes)
        for r in rows
        if r.keypoint_id is not None
    )
    return VerdictSet(
        first.sample_id, bytes(first.input_sha256), first.n_sentences, verdicts, first.status, first.error
    )
