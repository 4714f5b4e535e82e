"""Tables 1 and 4 of the EVQAScore paper in form: fewer frames, and noise in the best part of question-answer pairs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from benchmarks.ecs_data import DEMO_SEED
from benchmarks.papers.evqa_pairs import (
    COARSE,
    COUNT,
    EVQA,
    LENGTH,
    N_CLIPS,
    RANDOM,
    RAW,
    Pairs,
    clip_pairs,
    demo_pairs,
    drawn_features,
    encoder,
    is_demo,
    models,
    scores_of,
    text_units,
)
from benchmarks.papers.noise import noise_with_interval
from benchmarks.papers.recipes import Recipe
from benchmarks.papers.records import Row, Table, against, number, strongest
from benchmarks.papers.stages import Stages
from demo.build import build_manifest_rows, make_demo_clips
from metrics_core.agreement import AgreementRow, compute_agreement_rows, count_words
from metrics_core.arrays import FloatArray
from metrics_core.evqa import evqa_from_prepared_frames, prepare_frames

INTERVALS = {"every 30th frame": 30, "every 20th frame": 20, "every 10th frame": 10, "every frame": 1}
SHARES = {"best 25 %": 0.25, "best 12.5 %": 0.125}
SIMPLE = (COUNT, LENGTH, RANDOM)
LENGTH_OF_TEXT = "length of the caption"
NO_MODEL = (
    "the demo encoder knows only the demo's drawn clips, so it has no score here: name another one by "
    "REELSIEVE_IMAGE_TEXT_ENCODER and REELSIEVE_IMAGE_TEXT_CHECKPOINT"
)
TABLE_1 = "EVQAScore paper, Table 1: VATEX-EVAL, PAC-S, 1,000 videos; neither videos nor model are at hand"
TABLE_4 = (
    "EVQAScore paper, Table 4: 101,704 and 50,852 pairs of VideoChatGPT data; its PAC-S stands beside our coarse score"
)
PUBLISHED_1 = {
    "every 30th frame": (464, 0.2570, 0.3341),
    "every 20th frame": (927, 0.2572, 0.3343),
    "every 10th frame": (1857, 0.2573, 0.3344),
    "every frame": (18504, 0.2567, 0.3337),
}
PUBLISHED_4 = {EVQA: (1101 / 101_704, 450 / 50_852), COARSE: (27_928 / 101_704, 10_832 / 50_852)}
CODE = (
    "benchmarks/papers/evqa.py",
    "benchmarks/papers/evqa_pairs.py",
    "benchmarks/papers/noise.py",
    "metrics_core/evqa",
    "metrics_core/frames",
    "metrics_core/keywords.py",
    "metrics_core/long_text.py",
    "metrics_core/agreement",
    "demo",
)


def shown_models() -> dict[str, str]:
    """Models as the page names them."""
    name = encoder().identity.model_id
    stand_in = ", trained on nothing but the demo's drawn clips, no CLIP" if is_demo() else ""
    return {"image-text encoder": name + stand_in, "keywords": "rules instead of Llama-3.1-8B"}


def fourth(load: str, name: str, stages: Stages) -> Table:
    """Table 4 on one dataset."""
    pairs = {"demo": demo_pairs, "clips": clip_pairs}[load]()
    scores = scores_of(pairs)
    rows = list(fourth_rows(name, pairs, scores))
    ours = {row.row: row.ours for row in rows if row.column == "best 25 %"}
    best = strongest({rule: -value for rule in SIMPLE if (value := ours[rule]) is not None})
    summary = [noise_sentence(ours, best)]
    noisy = sum(row["quality"] == "noisy" for row in pairs.rows)
    remarks = [
        f"{len(pairs.rows)} pairs, {noisy} of them noisy: the twin of a good pair, whose answer is one keyword. Less "
        "is better. Equal scores at the cut count in equal parts. Intervals draw videos.",
        "A one-word answer is short and has few keywords, and the factor ln(n + 1) counts keywords; so this table says "
        "nothing about wrong answers of full length.",
        *(["SYNTHETIC: clips, questions and answers by a program."] if load == "demo" else []),
    ]
    title = f"EVQAScore, Table 4 in form: share of noisy pairs in the best part, {load}"
    return Table(name, title, summary, shown_models(), rows, 3, remarks, best)


def noise_sentence(ours: Mapping[str, float | None], best: str) -> str:
    """EVQAScore beside the strongest simple rule."""
    score, floor = ours.get(EVQA), ours[best]
    assert floor is not None
    if score is None:
        return (
            "EVQAScore has no figure here: no encoder at hand knows these clips. The strongest simple baseline, "
            f"{best}, leaves {number(floor, 3)} noise in the best 25 %."
        )
    relation = "more noise than" if score > floor else "no less noise than" if score == floor else "less noise than"
    figures = f"{number(score, 3)} against {number(floor, 3)}"
    return f"In its best 25 % EVQAScore has {relation} the strongest simple baseline, {best} ({figures})."


def fourth_rows(name: str, pairs: Pairs, scores: Mapping[str, FloatArray]) -> Iterator[Row]:
    """The rows of every rule; a rule without a model has its published figures alone."""
    noisy = np.array([row["quality"] == "noisy" for row in pairs.rows])
    videos = [row["video_id"] for row in pairs.rows]
    for rule in (EVQA, RAW, COARSE, *SIMPLE):
        for place, (column, share) in enumerate(SHARES.items()):
            figures = PUBLISHED_4.get(rule)
            published = figures[place] if figures else None
            source, note = (TABLE_4 if figures else ""), ("" if rule in scores else NO_MODEL)
            found = noise_with_interval(scores[rule], noisy, share, videos) if rule in scores else (None, None, None)
            yield Row(name, rule, column, published, *found, n=len(videos), note=note, source=source)


def first(name: str, stages: Stages) -> Table:
    """Table 1 on the demo: frames, seconds, and agreement with the synthetic ratings."""
    manifests = build_manifest_rows(make_demo_clips(N_CLIPS, DEMO_SEED))
    captions = [row for row in manifests["captions"] if row["role"] == "candidate"]
    ratings: dict[str, list[float]] = {}
    for row in manifests["ratings"]:
        ratings.setdefault(str(row["caption_id"]), []).append(float(str(row["value"])))
    people = {"mean": np.array([[np.mean(ratings[str(row["caption_id"])])] for row in captions])}
    units, rows, taken = [text_units(str(row["text"])) for row in captions], [], {}
    videos = [str(row["video_id"]) for row in captions]
    for label, every in INTERVALS.items():
        started = time.perf_counter()
        prepared = {video: prepare_frames(features) for video, features in drawn_features(every).items()}
        taken[label] = time.perf_counter() - started
        values = [
            evqa_from_prepared_frames(prepared[v], keywords, whole).score
            for v, (whole, keywords) in zip(videos, units, strict=True)
        ]
        found = compute_agreement_rows({EVQA: np.array(values, dtype=np.float64)}, people, videos)
        rows += [seconds_row(name, label, taken[label]), *agreement_cells(name, label, found, EVQA, PUBLISHED_1[label])]
    lengths = compute_agreement_rows(
        {LENGTH_OF_TEXT: count_words([str(row["text"]) for row in captions])}, people, videos
    )
    rows += agreement_cells(name, LENGTH_OF_TEXT, lengths, LENGTH_OF_TEXT, None)
    of = {row.row: row.ours for row in rows if row.column == "Kendall"}
    quickest = taken["every frame"] / taken["every 30th frame"]
    summary = [
        against("Kendall of EVQAScore, every 30th frame", of["every 30th frame"], LENGTH_OF_TEXT, of[LENGTH_OF_TEXT]),
        f"Every 30th frame is {quickest:.0f} times as fast as every frame (paper: {18504 / 464:.0f} times).",
    ]
    remarks = [
        "SYNTHETIC: drawn clips, captions and ratings by a program. Seconds: frames drawn and encoded, not decoded."
    ]
    title = "EVQAScore, Table 1 in form: sampling interval, time and agreement, demo"
    return Table(name, title, summary, shown_models(), rows, 3, remarks, LENGTH_OF_TEXT)


def seconds_row(name: str, label: str, seconds: float) -> Row:
    """The seconds at one interval."""
    return Row(name, label, "seconds", PUBLISHED_1[label][0], seconds, n=N_CLIPS, source=TABLE_1)


def agreement_cells(
    name: str, label: str, found: Sequence[AgreementRow], metric: str, figures: tuple[float, float, float] | None
) -> Iterator[Row]:
    """Both coefficients of a metric over all captions."""
    for place, statistic, column in ((1, "kendall_b", "Kendall"), (2, "spearman", "Spearman")):
        row = next(r for r in found if (r.metric, r.grouping, r.statistic) == (metric, "pooled", statistic))
        published, source = (figures[place], TABLE_1) if figures else (None, "")
        yield Row(name, label, column, published, row.value, row.low, row.high, row.n, source=source)


RECIPES = (
    Recipe("evqa_1_demo", (), (), CODE, models, partial(first, "evqa_1_demo")),
    *(
        Recipe(f"evqa_4_{load}", data, (), CODE, models, partial(fourth, load, f"evqa_4_{load}"))
        for load, data in (("demo", ()), ("clips", ("clips",)))
    ),
)
