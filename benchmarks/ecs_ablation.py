"""What retrieval, thresholds and early exit change (Table 2 of the paper): `python -m benchmarks.ecs_ablation`.

Quality is taken on all judged captions: every sentence is verified once, and the variants look their pairs up. Time is
taken on whole clips that make N_PAIRS different pairs of exhaustive verification, in RUNS alternating runs on one
thread, each with an empty memory; retrieval includes embedding. Datasets: REALSumm, whose summaries have some three
sentences, so that the 8 nearest are all of them; the synthetic demo world; long captions joined from short ones.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.ecs_data import Caption, DataSet, demo, long_captions, realsumm
from benchmarks.ecs_run import Answers, Embeddings, Items, levels_of, plans_of, scores_of
from benchmarks.ecs_tables import EARLY, EXHAUSTIVE, GLOBAL, NEAREST, ablation_table, savings
from benchmarks.measure import RESULTS, alternate, save, spread
from benchmarks.rank_agreement import correlation, pairwise_agreement
from metrics_core.agreement import count_confusion
from metrics_core.arrays import BoolArray, FloatArray
from metrics_core.ecs import DEFAULT_R, Pair, RankedPremises, Verification, list_unique_pairs, verify_keypoints
from metrics_core.ecs.verifier import make_offline_verifier
from metrics_core.ecs.verify import EntailmentCache
from metrics_core.models.text_encoder import make_text_encoder
from metrics_core.protocols import EntailmentModel

DEPTHS: dict[str, int | None] = {EXHAUSTIVE: None, NEAREST: DEFAULT_R, "r = 4": 4, "r = 2": 2}
N_PAIRS, RUNS = 1200, 3
DEMO_CLIPS = 12
# Share of the reduction in passes that has to arrive as a reduction in time.
TARGET = 0.85


@dataclass(frozen=True)
class Quality:
    """Rows of the table, and for each keypoint of the dataset the calibrated threshold at the default depth."""

    rows: dict[str, dict[str, Any]]
    levels: FloatArray


def quality(data: DataSet, encoder: Embeddings, answers: Answers) -> Quality:
    """What each variant costs and how it agrees with the labels."""
    print(f"{data.name}: {len(data.captions):,} captions", file=sys.stderr, flush=True)
    found: dict[str, Verification] = {}
    nearest_levels = np.empty(0)
    for name, r in DEPTHS.items():
        plans = plans_of(data.captions, None if r is None else encoder, r)
        scores = scores_of(plans, answers)
        levels = levels_of(data, scores)
        rows = np.flatnonzero(~np.isnan(levels))
        judged = [plans[row] for row in rows]
        found[name] = verify_keypoints(judged, answers, levels[rows].tolist())
        check_passes(data.judged().captions, r, found[name].n_passes)
        if r == DEFAULT_R:
            nearest_levels = levels
            one_level = levels_of(data, scores, per_dimension=False)
            found[GLOBAL] = verify_keypoints(judged, answers, one_level[rows].tolist())
            found[EARLY] = stop_early(found[NEAREST], judged, answers, levels[rows])
    everywhere = decisions(found[EXHAUSTIVE])
    return Quality({name: row_of(data, each, everywhere) for name, each in found.items()}, nearest_levels)


def stop_early(
    found: Verification, plans: Sequence[RankedPremises], answers: Answers, levels: FloatArray
) -> Verification:
    """The same decisions, and only the passes up to the first sentence that reaches its keypoint's threshold."""
    cache, read = EntailmentCache(answers), list[list[Pair]]()
    cache.ask(list_unique_pairs(plans))
    for plan, level in zip(plans, levels, strict=True):
        reached = [probability >= level for probability in cache.list_probabilities(plan)]
        read.append(list(plan.pairs)[: reached.index(True) + 1 if True in reached else None])
    return replace(found, pass_counts=tuple(map(len, read)), n_pairs=len({pair for pairs in read for pair in pairs}))


def decisions(found: Verification) -> BoolArray:
    """Which keypoints are covered."""
    return np.array([verdict.covered for verdict in found.verdicts], dtype=np.bool_)


def check_passes(captions: Sequence[Caption], r: int | None, n_passes: int) -> None:
    """The passes are min(r, m) for each keypoint of a caption of m sentences, exactly."""
    sizes = [(len(each.sentences), len(each.keypoints)) for each in captions]
    assert n_passes == sum((m if r is None else min(r, m)) * n for m, n in sizes), f"{n_passes} passes at r = {r}"


def row_of(data: DataSet, found: Verification, everywhere: BoolArray) -> dict[str, Any]:
    """Cost and agreement of a variant; `same` is the share of keypoints decided as on all sentences."""
    items, covered = Items(data.judged().captions), decisions(found)
    metric, people = items.means(covered), items.means(items.labels)
    pairs = pairwise_agreement(metric, people, [each.clip for each in items.captions])
    return {
        "passes": found.n_passes,
        "pairs": found.n_pairs,
        "spearman": correlation(metric, people).spearman,
        "keypoint_f1": count_confusion(covered, items.labels).f1,
        "pairwise": pairs.share,
        "pairwise_eligible": pairs.n_eligible,
        "same": float((covered == everywhere).mean()),
    }


def first_clips(data: DataSet) -> list[int]:
    """Positions of the judged captions of as many clips as make N_PAIRS different pairs."""
    kept = {caption.clip for caption in data.judged().captions}
    chosen: list[int] = []
    for clip in sorted(kept):
        chosen += [i for i, caption in enumerate(data.captions) if caption.clip == clip]
        if len(list_unique_pairs(plans_of([data.captions[i] for i in chosen]))) >= N_PAIRS:
            break
    return chosen


def timing(data: DataSet, levels: FloatArray, model: EntailmentModel) -> dict[str, Any]:
    """Seconds of each variant, and what of the reduction in passes arrives."""
    chosen = first_clips(data)
    captions, items = [data.captions[i] for i in chosen], Items(data.captions)
    own_levels = np.concatenate([levels[items.caption == i] for i in chosen]).tolist()
    done: dict[str, Verification] = {}
    embedding: dict[str, list[float]] = {name: [] for name in DEPTHS}
    cpu: dict[str, list[float]] = {name: [] for name in embedding}
    lengths: dict[str, float] = {}

    def run(name: str) -> None:
        started, encoder = time.process_time(), Embeddings(make_text_encoder("offline"))
        r = DEPTHS[name]
        plans = plans_of(captions, None if r is None else encoder, r)
        done[name] = verify_keypoints(plans, Answers(model), own_levels)
        embedding[name].append(encoder.seconds)
        cpu[name].append(time.process_time() - started)
        lengths[name] = float(np.mean([len(premise) + len(keypoint) for premise, keypoint in list_unique_pairs(plans)]))

    taken = alternate({name: partial(run, name) for name in embedding}, RUNS)
    ratio = done[EXHAUSTIVE].n_passes / done[NEAREST].n_passes
    return {
        "captions": len(captions),
        "variants": {
            name: {
                "passes": done[name].n_passes,
                "pairs": done[name].n_pairs,
                "characters_of_planned_pairs": lengths[name],
                "seconds": spread(values),
                "cpu_s": spread(cpu[name]),
                "embedding_s": spread(embedding[name]),
                "speedup": spread(quotients(taken[EXHAUSTIVE], values)),
            }
            for name, values in taken.items()
        },
        "share_of_pass_ratio": {
            clock: spread([each / ratio for each in quotients(values[EXHAUSTIVE], values[NEAREST])])
            for clock, values in (("wall", taken), ("cpu", cpu))
        },
        "target": TARGET,
    }


def quotients(these: Sequence[float], those: Sequence[float]) -> list[float]:
    """One quotient for each run."""
    return [this / that for this, that in zip(these, those, strict=True)]


def main() -> None:
    """Measure all datasets, print the tables and write results/ecs_ablation.json."""
    import torch

    torch.set_num_threads(1)
    model, text_encoder = make_offline_verifier(), make_text_encoder("offline")
    # Both are loaded before anything is timed.
    text_encoder.encode(["A dog."])
    model.entailment([("A dog.", "A dog.")])
    result: dict[str, Any] = {"verifier": model.identity.as_dict(), "encoder": text_encoder.identity.as_dict()}
    for data in (realsumm(), demo(DEMO_CLIPS), long_captions()):
        found = quality(data, Embeddings(text_encoder), Answers(model))
        times = timing(data, found.levels, model)
        print(*ablation_table(data, found.rows, times["variants"]), *savings(found.rows, times), sep="\n", flush=True)
        result[data.name] = {"note": data.note, "variants": found.rows, "timing": times}
    print(f"\nwritten to {save(RESULTS / 'ecs_ablation.json', result)}")


if __name__ == "__main__":
    main()
