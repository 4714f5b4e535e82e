"""Scoring of one shard: its pending samples go through the scorer in batches. A crash costs at most one batch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sqlalchemy.engine import Engine
from threadpoolctl import ThreadpoolController

from assets.scores.base import Outcome, Scorer
from assets.scores.pending import list_samples_to_score, store_scorer, update_active_scorer
from assets.sources.base import BATCH_SIZE, Evidence, ask_for_evidence, load_evidence
from db.evidence.frames import LoadVideos
from db.manifest.datasets import Dataset
from db.scores.pending import PendingSample, load_samples, split_ids
from db.scores.store import ScoreRow, store_scores

CountProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class ShardScores:
    """The result of scoring a shard: the scorer's id, the number of samples that were pending, and the number of rows
    that were inserted or changed. A row is a score, or a status with a reason.
    """

    scorer_id: int
    n_pending: int
    n_written: int


def score_shard(
    engine: Engine,
    scorer: Scorer,
    dataset: Dataset,
    shard: int,
    *,
    run_id: str,
    progress: CountProgress | None = None,
) -> ShardScores:
    """Score the pending samples of a shard in batches, and store the results; return the scorer's id and the numbers of
    pending samples and written rows. Every batch is one transaction. Raises MissingEvidence for a batch that lacks
    evidence, before any of its rows is written. progress: takes (samples done, all pending samples) after every batch.

    The scorer is stored if it is new. After every batch `update_active_scorer` decides whether it becomes its metric's
    active one; until then the numbers of the previous scorer are shown.
    """
    scorer_id = store_scorer(engine, scorer)
    pending = list_samples_to_score(engine, scorer, dataset, shard)
    done = written = 0
    for ids in split_ids(pending, BATCH_SIZE):
        with engine.connect() as connection:
            samples = load_samples(connection, ids, scorer.inputs, scorer_id)
        evidence = load_evidence(engine, scorer_id, scorer.sources, samples)
        outcomes = _score_batch(scorer, samples, evidence)
        counts = store_scores(engine, scorer_id, run_id, _build_rows(samples, outcomes))
        update_active_scorer(engine, scorer_id, [dataset])
        written += counts.inserted + counts.updated
        done += len(ids)
        if progress:
            progress(done, len(pending))
    if not pending:
        # The settings may have gone back to a scorer that was retired after it had scored everything.
        update_active_scorer(engine, scorer_id, [dataset])
    return ShardScores(scorer_id, len(pending), written)


def score_without_database(scorer: Scorer, samples: Sequence[PendingSample], files: LoadVideos) -> list[Outcome]:
    """Return one outcome for every sample, in order, by asking the models now; reads and stores nothing in a database.
    files: returns the video files for a set of video ids. Raises the errors of models, and NeedsDatabase if a source of
    the scorer works only with a database.
    """
    return _score_batch(scorer, samples, ask_for_evidence(scorer.sources, samples, files))


def _score_batch(scorer: Scorer, samples: Sequence[PendingSample], evidence: Evidence) -> list[Outcome]:
    # The matrices of one sample are small: more threads gain little and, on a busy machine, wait for each other.
    with _find_thread_pools(len(sys.modules)).limit(limits=1, user_api="blas"):
        return scorer.score(samples, evidence)


@lru_cache(maxsize=1)
def _find_thread_pools(n_modules: int) -> ThreadpoolController:
    """Return the thread pools of the loaded libraries, which takes as long to find as scoring dozens of samples.

    n_modules: how many modules are loaded; a new one may have brought a library with threads of its own.
    """
    return ThreadpoolController()


def _build_rows(samples: Sequence[PendingSample], outcomes: Sequence[Outcome]) -> list[ScoreRow]:
    return [
        ScoreRow(
            sample_id=sample.sample_id,
            input_sha256=sample.input_sha256,
            input_marks=sample.input_marks,
            value=outcome.value,
            components=outcome.components,
            status=outcome.status,
            error=outcome.reason,
        )
        for sample, outcome in zip(samples, outcomes, strict=True)
    ]
