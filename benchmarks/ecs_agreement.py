"""ECS against people, beside rules that need no verifier (Table 1 of the paper): `python -m benchmarks.ecs_agreement`.

Datasets: REALSumm's statements, ten real clips, the synthetic demo world, and DREAM-1K without labels. A caption's
score is the share of its keypoints that reach their dimension's threshold, which is the best for F1 on other clips;
what people say of a caption is the share of its keypoints labelled as covered. Rules:

- length-only: words of the caption, the same for all its keypoints;
- lexical: content-word recall of the best sentence;
- lexical, whole: content-word recall of the whole caption, the strongest rule that only counts words;
- embedding-only: cosine of the best sentence, by the bundled all-MiniLM-L6-v2;
- network alone: the offline verifier's network on the 8 nearest sentences;
- ECS: the offline verifier on the 8 nearest sentences, weighed by the whole caption.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from benchmarks.cosine_verifier import CosineVerifier
from benchmarks.ecs_data import LABELLED, Caption, DataSet, dream1k, realsumm_by_hash
from benchmarks.ecs_run import Answers, Embeddings, Items, Unweighed, levels_of, plans_of, scores_of
from benchmarks.ecs_tables import LEGEND, agreement_table, dimension_table, unlabelled_table
from benchmarks.measure import RESULTS, save
from benchmarks.rank_agreement import correlation, mean_correlation, pairwise_agreement, system_agreement
from metrics_core.agreement import cohen_kappa, count_confusion, majority_accuracy
from metrics_core.arrays import BoolArray, FloatArray
from metrics_core.calibration import Confusion
from metrics_core.ecs import DEFAULT_R
from metrics_core.ecs.verifier import make_offline_verifier, read_default_threshold
from metrics_core.models.lexical_verifier import LexicalVerifier
from metrics_core.models.text_encoder import make_text_encoder

ECS = f"ECS, r = {DEFAULT_R}"


def scores_by_rule(data: DataSet, encoder: Embeddings, answers: Answers) -> dict[str, FloatArray]:
    """Each rule's score of every keypoint."""
    print(f"{data.name}: {len(data.captions):,} captions", file=sys.stderr, flush=True)
    every_sentence, nearest = plans_of(data.captions), plans_of(data.captions, encoder, DEFAULT_R)
    return {
        "length-only": Items(data.captions).words(),
        "lexical": scores_of(every_sentence, LexicalVerifier()),
        "lexical, whole": scores_of(plans_of([joined(each) for each in data.captions]), LexicalVerifier()),
        "embedding-only": scores_of(every_sentence, CosineVerifier(encoder)),
        "network alone": scores_of(nearest, Unweighed(answers)),
        ECS: scores_of(nearest, answers),
    }


def joined(caption: Caption) -> Caption:
    """The caption as one sentence; none where it has none."""
    return replace(caption, sentences=(" ".join(caption.sentences),) if caption.sentences else ())


def agreement(data: DataSet, scores: FloatArray, levels: FloatArray) -> dict[str, Any]:
    """How the keypoints that reach their level agree with the labels, where there is a level."""
    judged, kept = data.judged(), ~np.isnan(levels)
    items, covered = Items(judged.captions), scores[kept] >= levels[kept]
    metric, people = items.means(covered), items.means(items.labels)
    clips, systems = [each.clip for each in judged.captions], [each.system for each in judged.captions]
    pairs = pairwise_agreement(metric, people, clips)
    return {
        "keypoints": of_keypoints(count_confusion(covered, items.labels)),
        "captions": asdict(correlation(metric, people)),
        "captions_within_systems": asdict(mean_correlation(metric, people, systems)),
        "captions_by_mean_score": asdict(correlation(items.means(scores[kept]), people)),
        "pairwise": {**asdict(pairs), "share": pairs.share},
        "systems": asdict(system_agreement(metric, people, systems, clips)),
    }


def of_keypoints(counts: Confusion) -> dict[str, Any]:
    """The numbers of a confusion table, beside those of rules that always say the same."""
    names = ("n", "prevalence", "predicted_rate", "accuracy", "f1", "mcc", "all_positive_f1")
    more = {"kappa": cohen_kappa(counts), "majority_accuracy": majority_accuracy(counts)}
    return {**asdict(counts), **{name: getattr(counts, name) for name in names}, **more}


def by_dimension(data: DataSet, decided: Mapping[str, BoolArray]) -> dict[str, dict[str, Any]]:
    """The keypoint numbers of each dimension and of all, for each way to decide all keypoints of a dataset."""
    items = Items(data.captions)
    parts = {name: items.dimensions == name for name in dict.fromkeys(items.dimensions)}
    parts["all"] = np.ones_like(items.labels)
    return {
        name: {way: of_keypoints(count_confusion(yes[rows], items.labels[rows])) for way, yes in decided.items()}
        for name, rows in parts.items()
    }


def labelled(data: DataSet, encoder: Embeddings, answers: Answers) -> dict[str, Any]:
    """Table 1 of a dataset with labels; where every caption is judged, ECS by dimension at two kinds of threshold."""
    scores = scores_by_rule(data, encoder, answers)
    levels = {name: levels_of(data, each) for name, each in scores.items()}
    rows = {name: agreement(data, each, levels[name]) for name, each in scores.items()}
    print(*agreement_table(data, rows), sep="\n", flush=True)
    result: dict[str, Any] = {"note": data.note, "rules": rows}
    if not np.isnan(levels[ECS]).any():
        decided = {"default": scores[ECS] >= read_default_threshold(), "calibrated": scores[ECS] >= levels[ECS]}
        result |= {"default_threshold": read_default_threshold(), "dimensions": by_dimension(data, decided)}
        print(*dimension_table(result["dimensions"], read_default_threshold()), sep="\n", flush=True)
    return result


def lexical_floor() -> dict[str, Any]:
    """Content-word recall on all articles, split by hash: a rule without training may see them all."""
    data = realsumm_by_hash()
    plans = {
        "lexical": plans_of(data.captions),
        "lexical, whole": plans_of([joined(each) for each in data.captions]),
    }
    scores = {name: scores_of(each, LexicalVerifier()) for name, each in plans.items()}
    levels = {name: levels_of(data, each) for name, each in scores.items()}
    rows = {name: agreement(data, each, levels[name]) for name, each in scores.items()}
    print(*agreement_table(data, rows), sep="\n", flush=True)
    thresholds = {name: float(np.nanmax(each)) for name, each in levels.items()}
    return {"note": data.note, "thresholds": thresholds, "rules": rows}


def without_labels(encoder: Embeddings, answers: Answers) -> dict[str, Any]:
    """DREAM-1K: does a clip's own caption cover more of its events than another clip's?"""
    data = dream1k()
    spent = encoder.seconds, answers.seconds, answers.n_pairs
    scores = scores_by_rule(data, encoder, answers)
    items = Items(data.captions)
    values = {f"{name}, mean score": items.means(each) for name, each in scores.items()}
    values[f"{ECS}, share from {read_default_threshold():.3f} on"] = items.means(
        scores[ECS] >= read_default_threshold()
    )
    rows = {name: own_against_other(each) for name, each in values.items()}
    passes = sum(min(DEFAULT_R, len(each.sentences)) * len(each.keypoints) for each in data.captions)
    now = encoder.seconds, answers.seconds, answers.n_pairs
    names = ("embedding_s", "judging_s", "pairs")
    cost = {"passes": passes, **{name: after - before for name, after, before in zip(names, now, spent, strict=True)}}
    print(*unlabelled_table(data, rows, cost), sep="\n", flush=True)
    return {"note": data.note, "rules": rows, "cost": cost}


def own_against_other(values: FloatArray) -> dict[str, Any]:
    """Means of both, and on how many clips the own caption wins; a clip's two captions follow each other.

    Clips without events, which have no value, are left out.
    """
    pairs = values.reshape(-1, 2)
    own, other = pairs[~np.isnan(pairs).any(axis=1)].T
    wins, ties = int((own > other).sum()), int((own == other).sum())
    means = {"own": float(own.mean()), "other": float(other.mean())}
    return {**means, "clips": own.size, "wins": wins, "ties": ties, "auc": (wins + ties / 2) / own.size}


def main() -> None:
    """Measure all datasets, print the tables and write results/ecs_agreement.json."""
    import torch

    torch.set_num_threads(1)
    model, text_encoder = make_offline_verifier(), make_text_encoder("offline")
    # Both are loaded before anything is timed.
    text_encoder.encode(["A dog."])
    model.entailment([("A dog.", "A dog.")])
    encoder, answers = Embeddings(text_encoder), Answers(model)
    result: dict[str, Any] = {"verifier": model.identity.as_dict(), "encoder": encoder.identity.as_dict()}
    result["realsumm_by_hash"] = lexical_floor()
    for load in LABELLED:
        data = load()
        result[data.name] = labelled(data, encoder, answers)
    result["dream1k"] = without_labels(encoder, answers)
    print(LEGEND)
    print(f"\nwritten to {save(RESULTS / 'ecs_agreement.json', result)}")


if __name__ == "__main__":
    main()
