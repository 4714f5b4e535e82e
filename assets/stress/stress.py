"""A metric stressed on a dataset: captions are drawn and rewritten, and both texts are scored in the same way."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection, Engine

from assets.progress import LineWriter
from assets.scores.base import Outcome, Scorer
from assets.scores.pending import RefusalCounts, find_scorer_id, format_refusals
from assets.scores.run import score_without_database
from assets.sources.base import BATCH_SIZE, NeedsDatabase, walk_sources
from assets.words.text import format_count
from db.evidence.frames import make_video_loader
from db.manifest.datasets import Dataset
from db.schema.inputs import REFERENCES, SEGMENTS
from db.scores.pending import PendingSample, load_samples, split_ids
from db.scores.quality import count_statuses_with_reasons
from db.scores.scorers import ScoredCaption, count_captions, load_named_samples, load_scored_captions
from db.scores.stress import load_stress_results, store_stress
from metrics_core.models.sentence_splitter import RuleSplitter
from metrics_core.stress.detectors import DETECTORS
from metrics_core.stress.effects import Effect, ValueChanges, compute_effects, compute_small_change
from metrics_core.stress.rewrites import (
    REWRITE_KINDS,
    CaptionToRewrite,
    RewriteKind,
    list_common_sequences,
    rewrite_caption,
)

MAX_SEARCHED_FOR_LOOKS = 10_000
"""So many drawn captions are searched for texts that look like rewrites."""
BEST_SHARE = 1 / 8
N_OTHERS = 2
"""A caption is mixed with captions of so many other videos."""
_COLUMNS = ("metric", "scorer_id", "stressed_at")
# The square of a larger value is no number that JSON knows.
_GREATEST = 1e100


class NothingToStress(ValueError):
    """Raised for a metric that cannot be stressed on a dataset."""

    plain = True


@dataclass(frozen=True, slots=True)
class Stress:
    """The outcome of a stress of one scorer of a metric on one dataset, with the effect of every kind of rewrite.

    n_drawn: captions drawn. n_timed: those left out because they have times. n_unscored: those left out because they
    got no value again. n_captions, n_videos: those that were rewritten, and their videos. small_change: the lowest
    change of the value that counts. stressed_at: when it was measured.
    """

    metric: str
    scorer_id: int
    seed: int
    n_drawn: int
    n_timed: int
    n_unscored: int
    n_captions: int
    n_videos: int
    small_change: float
    stressed_at: datetime
    effects: tuple[Effect, ...]


@dataclass(frozen=True)
class _Rewritten:
    """A drawn caption as the scorer takes it, its rewrites by the name of their kind, and the outcomes of both."""

    sample: PendingSample
    texts: Mapping[str, str]
    own: Outcome | None = None
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)


def load_stresses(connection: Connection, dataset: Dataset) -> dict[str, Stress]:
    """Load {metric: the outcome of its stress on a dataset} of the metrics whose active scorer was stressed there, with
    the effects in the order of the names of their kinds. Outcomes of other scorers are left out.
    """
    stresses = {}
    for row in load_stress_results(connection, dataset.dataset_id):
        effects = sorted((Effect(**effect) for effect in row["result"]["effects"]), key=lambda effect: effect.rewrite)
        known = {name: row[name] for name in _COLUMNS}
        stresses[row["metric"]] = Stress(**{**row["result"], **known, "effects": tuple(effects)})
    return stresses


def stress_metric(
    engine: Engine,
    dataset: Dataset,
    scorer: Scorer,
    *,
    n_drawn: int,
    seed: int = 0,
    n_shown: int = 0,
    tell: LineWriter = lambda _: None,
) -> tuple[Stress, list[dict[str, Any]]]:
    """Rewrite drawn captions of a dataset, and measure how a scorer's values and ranks change. Stores the outcome, in
    place of the scorer's earlier one on the dataset, and nothing else. Returned with it are rows to look at: of the
    first `n_shown` captions, every rewrite with the values before and after, and the status of its outcome.

    Captions are drawn among those that the scorer has a value for, by a hash of the seed and their keys, so that a
    larger draw holds a smaller one. A caption and its rewrites are scored in the same batch by the scorer's models,
    without the evidence that is stored. Raises NothingToStress where no caption has a value, and where a source of the
    scorer works for stored samples only; sqlalchemy.exc.IntegrityError where dataset or scorer are gone meanwhile; and
    the errors of models.
    """
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        scorer_id, scored = _load_captions(connection, dataset, scorer)
        ordered = sorted(scored, key=lambda each: _draw_number(seed, each.key))
        drawn = ordered[:n_drawn]
        samples = _load_drawn_samples(connection, scorer, scorer_id, drawn)
        look_alikes = _count_look_alikes(connection, ordered[:MAX_SEARCHED_FOR_LOOKS])
    has_times = SEGMENTS in scorer.inputs
    untimed = [each for each in samples if not (has_times and each[SEGMENTS].caption)]
    if not untimed:
        raise NothingToStress(
            f"all drawn captions of {dataset.name} have times, whose texts a rewrite of the whole caption does not "
            f"change: stress {scorer.metric} on captions without times"
        )
    tried = _score(engine, scorer, _rewrite(untimed, seed), tell)
    rewritten = [each for each in tried if _read_value(each.own) is not None]
    if not rewritten:
        refusals: RefusalCounts = Counter((each.own.status, each.own.reason) for each in tried if each.own)
        raise NothingToStress(
            f"{scorer.metric} has no value for the drawn captions now: {format_refusals(refusals)[1]}"
        )
    values = np.array([each.value for each in scored], dtype=np.float64).clip(-_GREATEST, _GREATEST)
    effects = compute_effects([_collect_changes(kind, rewritten) for kind in REWRITE_KINDS], values, seed)
    stress = Stress(
        metric=scorer.metric,
        scorer_id=scorer_id,
        seed=seed,
        n_drawn=len(drawn),
        n_timed=len(samples) - len(untimed),
        n_unscored=len(untimed) - len(rewritten),
        n_captions=len(rewritten),
        n_videos=len({each.sample.video_id for each in rewritten}),
        small_change=compute_small_change(values),
        stressed_at=datetime.now(timezone.utc),
        effects=tuple(_add_counts(effect, rewritten, look_alikes) for effect in effects),
    )
    result = {name: value for name, value in asdict(stress).items() if name not in _COLUMNS}
    with engine.begin() as connection:
        store_stress(connection, dataset.dataset_id, scorer_id, result, stress.stressed_at)
    return stress, list(_list_shown(rewritten[:n_shown]))


def _load_captions(connection: Connection, dataset: Dataset, scorer: Scorer) -> tuple[int, list[ScoredCaption]]:
    """The scorer's id and the captions that it has a value for; NothingToStress, with the reason, without any."""
    metric, name = scorer.metric, dataset.name
    if not count_captions(connection, dataset.dataset_id):
        raise NothingToStress(
            f"{name} has no captions to rewrite, and references are not rewritten: ingest captions with the role "
            "candidate"
        )
    refusals: RefusalCounts = Counter()
    if (scorer_id := find_scorer_id(connection, scorer)) is not None:
        if scored := load_scored_captions(connection, scorer_id, dataset.dataset_id):
            return scorer_id, scored
        for shard in range(dataset.n_shards):
            for count in count_statuses_with_reasons(connection, scorer_id, dataset.dataset_id, shard):
                if count.kind == "caption" and count.status not in ("ok", "unscored", "stale"):
                    refusals[count.status, count.reason] += count.n
    if refusals:
        raise NothingToStress(f"{metric} has no value for any caption of {name}: {format_refusals(refusals)[1]}")
    raise NothingToStress(
        f"no caption of {name} has a current {metric} score with the present settings: "
        f"run reelsieve score --dataset {name} --metric {metric} first"
    )


def _draw_number(seed: int, key: str) -> bytes:
    return hashlib.sha256(f"{seed}:{key}".encode()).digest()


def _load_drawn_samples(
    connection: Connection, scorer: Scorer, scorer_id: int, drawn: Sequence[ScoredCaption]
) -> list[PendingSample]:
    """The drawn captions with the scorer's inputs, references and times, in the order of the draw."""
    inputs = list({each.name: each for each in (*scorer.inputs, REFERENCES, SEGMENTS)}.values())
    loaded: dict[int, PendingSample] = {}
    for ids in split_ids([each.sample_id for each in drawn], BATCH_SIZE):
        loaded |= {one.sample_id: one for one in load_samples(connection, ids, inputs, scorer_id)}
    return [loaded[each.sample_id] for each in drawn]


def _rewrite(samples: Sequence[PendingSample], seed: int) -> list[_Rewritten]:
    """Every caption with the rewrites that fit it; what is strange to it is of the next captions of other videos."""
    split = RuleSplitter().split
    sentences = [split(sample.text) for sample in samples]
    references = {sample.video_id: [each.text for each in sample[REFERENCES]] for sample in samples}
    sequences = list_common_sequences(list(references.values()))
    rewritten = []
    for place, sample in enumerate(samples):
        others: dict[int, Sequence[str]] = {}
        for other in (*range(place + 1, len(samples)), *range(place)):
            if len(others) == N_OTHERS:
                break
            if samples[other].video_id != sample.video_id:
                others.setdefault(samples[other].video_id, sentences[other])
        caption = CaptionToRewrite(
            sample.key,
            sample.text,
            sentences[place],
            references[sample.video_id],
            list(others.values()),
            sequences,
        )
        texts = {kind.name: rewrite_caption(kind, caption, seed) for kind in REWRITE_KINDS}
        rewritten.append(_Rewritten(sample, {name: text for name, text in texts.items() if text is not None}))
    return rewritten


def _score(engine: Engine, scorer: Scorer, captions: Sequence[_Rewritten], tell: LineWriter) -> list[_Rewritten]:
    """Every caption with its own outcome and those of its rewrites, in order.

    Captions of one video share a batch where they fit into it, since a batch asks once about a video.
    """
    files = make_video_loader(engine)
    n_texts, n_done = sum(1 + len(each.texts) for each in captions), 0
    asked = " by model servers" if any(source.asks_servers for source in walk_sources(scorer.sources)) else ""
    tell(f"scoring {format_count(n_texts, 'text')} of {format_count(len(captions), 'caption')}{asked}")
    results: dict[int, _Rewritten] = {}
    for batch in _split_batches(captions):
        samples = [
            replace(each.sample, text=text) for each in batch for text in (each.sample.text, *each.texts.values())
        ]
        numbered = [replace(sample, sample_id=number) for number, sample in enumerate(samples, 1)]
        try:
            outcomes = iter(score_without_database(scorer, numbered, files))
        except NeedsDatabase:
            raise NothingToStress(
                f"{scorer.metric} cannot score rewrites, since it needs evidence that is stored with a dataset, and "
                "rewrites are not stored: name another metric"
            ) from None
        for each in batch:
            own, after = next(outcomes), {name: next(outcomes) for name in each.texts}
            results[each.sample.sample_id] = replace(each, own=own, outcomes=after)
        n_done += len(samples)
        tell(f"{n_done:,} of {format_count(n_texts, 'text')} scored")
    return [results[each.sample.sample_id] for each in captions]


def _split_batches(captions: Sequence[_Rewritten]) -> Iterator[list[_Rewritten]]:
    """Captions by video in batches of some BATCH_SIZE texts, none of which is divided."""
    batch: list[_Rewritten] = []
    n_texts = 0
    for each in sorted(captions, key=lambda each: each.sample.video_id):
        if batch and n_texts + 1 + len(each.texts) > BATCH_SIZE:
            yield batch
            batch, n_texts = [], 0
        batch.append(each)
        n_texts += 1 + len(each.texts)
    if batch:
        yield batch


def _read_value(outcome: Outcome | None) -> float | None:
    """The value of an outcome; None without one that can be compared."""
    value = None if outcome is None else outcome.value
    return None if value is None or not abs(value) <= _GREATEST else float(value)


def _collect_changes(kind: RewriteKind, captions: Sequence[_Rewritten]) -> ValueChanges:
    """The values before and after of the captions whose rewrite has one."""
    pairs = [
        (own, rewritten, each.sample.video_id)
        for each in captions
        if (own := _read_value(each.own)) is not None
        and (rewritten := _read_value(each.outcomes.get(kind.name))) is not None
    ]
    before, after, videos = ([pair[part] for pair in pairs] for part in range(3))
    return ValueChanges(kind.name, kind.keeps_truth, before, after, videos)


def _add_counts(
    effect: Effect, captions: Sequence[_Rewritten], look_alikes: Mapping[str, tuple[float, float]]
) -> Effect:
    """An effect with the rewrites that have no value, and the captions that look like one."""
    outcomes = [each.outcomes[effect.rewrite] for each in captions if effect.rewrite in each.outcomes]
    best, of_all = look_alikes.get(effect.rewrite, (None, None))
    return replace(
        effect,
        n_not_applicable=len(captions) - len(outcomes),
        unscored=dict(Counter(outcome.status for outcome in outcomes if outcome.value is None)),
        best_look_alike=best,
        all_look_alike=of_all,
    )


def _count_look_alikes(connection: Connection, captions: Sequence[ScoredCaption]) -> dict[str, tuple[float, float]]:
    """By kind of rewrite, the shares of captions that look like one: of the best eighth by value, and of all."""
    split = RuleSplitter().split
    texts: dict[int, list[str]] = {}
    for ids in split_ids([each.sample_id for each in captions], BATCH_SIZE):
        texts |= {number: split(sample.text) for number, sample in load_named_samples(connection, ids).items()}
    best = sorted(captions, key=lambda each: -each.value)[: max(1, round(BEST_SHARE * len(captions)))]
    found = {}
    for name, looks_alike in DETECTORS.items():
        alike = {number for number, sentences in texts.items() if looks_alike(sentences)}
        found[name] = sum(each.sample_id in alike for each in best) / len(best), len(alike) / len(captions)
    return found


def _list_shown(captions: Sequence[_Rewritten]) -> Iterator[dict[str, Any]]:
    for each in captions:
        for kind, outcome in each.outcomes.items():
            yield {
                "sample": each.sample.key,
                "kind": kind,
                "text": each.sample.text,
                "rewrite": each.texts[kind],
                "before": _read_value(each.own),
                "after": outcome.value,
                "status": outcome.status,
            }
