"""Loads the samples that a report shows, with frames, texts, ratings, and explanations of their scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection, Engine

from assets.reports.records import MetricSummary
from assets.reports.sample_choice import ChosenGroup
from assets.reports.sample_records import SampleGroup, ShownReference, ShownSample, ShownScore
from assets.reports.thumbnails import Thumbnails, read_thumbnails
from assets.scores.base import Scorer
from assets.scores.explain import explain_score
from assets.sources.base import MissingEvidence
from assets.words.marked_text import split_sample_text
from db.evidence.facts import load_facts
from db.manifest.datasets import Dataset
from db.reports.samples import load_ratings_by_sample, load_statuses, load_texts
from db.scores.score_arrays import ScoreArrays
from metrics_core.models.errors import ModelUnusable

MOST_ROWS = 40
# How many references of a video are shown, unless more of them decided a score.
N_REFERENCES = 3


def load_shown_samples(
    engine: Engine,
    connection: Connection,
    dataset: Dataset,
    groups: Sequence[ChosenGroup],
    samples: Mapping[str, ScoreArrays],
    metrics: Sequence[MetricSummary],
    scorers: Mapping[str, Scorer],
    tell: Callable[[str], None],
) -> tuple[SampleGroup[ShownSample], ...]:
    """Load texts, references, scores with explanations, facts, ratings and frames of the chosen samples. Every sample
    appears once, in its first group, with all reasons why it was chosen. Samples that no longer exist are left out. An
    explanation has at most 40 table rows, and frames may be fetched from remote stores. samples: all of the dataset, by
    kind. tell: called with a line of progress for every sample.
    """
    why: dict[int, list[str]] = {}
    for group in groups:
        for sample_id, reason in group.samples:
            why.setdefault(sample_id, []).append(reason)
    texts, ratings = load_texts(connection, list(why)), load_ratings_by_sample(connection, list(why))
    # The judged samples were read before this state of the database.
    why = {sample_id: reasons for sample_id, reasons in why.items() if sample_id in texts}
    statuses = load_statuses(connection, list(why))
    ranked = {
        (sample_id, metric.name): value_and_rank
        for metric in metrics
        for kind in metric.ranges
        for ids in [[sample_id for sample_id in why if texts[sample_id]["kind"] == kind]]
        for sample_id, value_and_rank in compute_ranks(samples[kind], metric.name, ids).items()
    }
    known = load_facts(connection, list(why))
    pictures: dict[int, Thumbnails] = {}
    facts: dict[int, ShownSample] = {}
    for number, (sample_id, reasons) in enumerate(why.items(), 1):
        row = texts[sample_id]
        if row["video_id"] not in pictures:
            pictures[row["video_id"]] = read_thumbnails(row)
        views = tuple(
            _load_shown_score(
                *(engine, dataset, metric.name, scorers.get(metric.name), row["key"]),
                statuses.get((sample_id, metric.name), "unscored"),
                *ranked.get((sample_id, metric.name), (None, None)),
            )
            for metric in metrics
        )
        rated, shown = ratings.get(sample_id, {}), pictures[row["video_id"]]
        facts[sample_id] = _build_shown_sample(row, reasons, views, known[sample_id], rated, shown)
        tell(f"{number} of {len(why)} samples to look at collected")
    return _drop_repeats(groups, facts)


def compute_ranks(arrays: ScoreArrays, metric: str, sample_ids: Sequence[int]) -> dict[int, tuple[float, float]]:
    """Return (value, rank) of those of the given samples that have a value by a metric, by sample id. The rank is the
    share of all samples with a lower value, with equal ones counted half. sample_ids: of samples in `arrays`.
    """
    ordered = np.sort(arrays.values[metric][np.isfinite(arrays.values[metric])])
    values = arrays.values[metric][np.searchsorted(arrays.sample_ids, sample_ids)]
    places = np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")
    ranks = places / max(1, 2 * ordered.size)
    rows = zip(sample_ids, values.tolist(), ranks.tolist(), strict=True)
    return {sample_id: (value, rank) for sample_id, value, rank in rows if isfinite(value)}


def _drop_repeats(
    groups: Sequence[ChosenGroup], facts: Mapping[int, ShownSample]
) -> tuple[SampleGroup[ShownSample], ...]:
    """Return the groups with every sample in its first group only."""
    shown: set[int] = set()
    shown_groups = []
    for group in groups:
        ids = dict.fromkeys(sample_id for sample_id, _ in group.samples if sample_id in facts)
        new_ids = [sample_id for sample_id in ids if sample_id not in shown]
        shown.update(new_ids)
        shown_groups.append(SampleGroup(group.title, group.name, tuple(facts[sample_id] for sample_id in new_ids)))
    return tuple(shown_groups)


def _load_shown_score(
    engine: Engine,
    dataset: Dataset,
    metric: str,
    scorer: Scorer | None,
    key: str,
    status: str,
    value: float | None,
    rank: float | None,
) -> ShownScore:
    """Return a metric's result for a sample with its explanation, which is left out if the score has changed
    meanwhile.
    """
    try:
        stored_score = explain_score(engine, metric, scorer, dataset, key)
    except (ModelUnusable, MissingEvidence) as error:
        return ShownScore(metric, value, status, None, rank, (f"cannot be explained here: {error}",), ())
    if stored_score is None or (stored_score.value, stored_score.status or "unscored") != (value, status):
        return ShownScore(metric, value, status, None, rank, ("it was scored again while this page was made",), ())
    lines = list(stored_score.explanation.lines)
    if (n_more := len(stored_score.explanation.rows) - MOST_ROWS) > 0:
        lines.append(f"the first {MOST_ROWS} rows; reelsieve explain shows {n_more} more")
    rows = tuple(stored_score.explanation.rows[:MOST_ROWS])
    explanation = stored_score.explanation
    return ShownScore(
        *(metric, value, status, stored_score.error, rank, tuple(lines), rows),
        explanation.reference,
        tuple(explanation.marks),
    )


def _sort_references(all_of_video: Sequence[Sequence[str]], scores: Sequence[ShownScore]) -> tuple[ShownReference, ...]:
    """Return the references that decided a score, then others, in order of their keys; at least three if there are that
    many.
    """
    decided: dict[str, list[str]] = {}
    for score in scores:
        if score.reference is not None:
            decided.setdefault(score.reference, []).append(score.metric)
    first = sorted(all_of_video, key=lambda reference: reference[0] not in decided)
    return tuple(
        ShownReference(text, tuple(decided.get(key, ()))) for key, text in first[: max(N_REFERENCES, len(decided))]
    )


def _build_shown_sample(
    row: Mapping[str, Any],
    why: Sequence[str],
    scores: tuple[ShownScore, ...],
    facts: Mapping[str, Any],
    ratings: Mapping[str, Mapping[str, float]],
    pictures: Thumbnails,
) -> ShownSample:
    return ShownSample(
        key=row["key"],
        kind=row["kind"],
        system=row["system"],
        video=row["video"],
        text=row["text"],
        question=row["question"],
        answer=row["answer"],
        references=_sort_references(row["references"] or (), scores),
        n_references=len(row["references"] or ()),
        why=tuple(why),
        scores=scores,
        facts=facts,
        ratings=ratings,
        frames=pictures[0],
        no_frames=pictures[1],
        pieces=split_sample_text(row, [score.marks for score in scores]),
    )
