"""Tables 1 and 4 of the EVQAScore paper in form: fewer frames, and noise in the best part of question-answer pairs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.ecs_data import DEMO_SEED, read_lines, require
from benchmarks.papers.coefficients import correlate
from benchmarks.papers.evqa_pairs import (
    COARSE,
    COSINE,
    COUNT,
    EVQA,
    KEYWORD,
    LENGTH,
    MIN_TWINS,
    N_CLIPS,
    RANDOM,
    RAW,
    Pairs,
    clip_features,
    clip_pairs,
    demo_pairs,
    drawn_features,
    encoder,
    is_demo,
    models,
    noisy_by_kind,
    scores_of,
    text_units,
)
from benchmarks.papers.noise import noise_with_interval
from benchmarks.papers.recipes import Recipe, text_encoder
from benchmarks.papers.records import Comparison, Row, Table, strongest
from benchmarks.papers.stages import Stages
from lab.demo.build import build_manifest_rows, make_demo_clips
from metrics_core.agreement import count_words
from metrics_core.arrays import FloatArray
from metrics_core.evqa import evqa_from_prepared_frames, prepare_frames

INTERVALS = {"every 30th frame": 30, "every 20th frame": 20, "every 10th frame": 10, "every frame": 1}
SHARES = {"best 25 %": 0.25, "best 12.5 %": 0.125}
COLUMN = "{}, {}"
SIMPLE = (COUNT, LENGTH, COSINE, RANDOM)
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
    "metrics_core/models",
    "metrics_core/stress",
    "demo",
)


def shown_models() -> dict[str, str]:
    """Models as the page names them."""
    name = encoder().identity.model_id
    stand_in = ", trained on nothing but the demo's drawn clips, no CLIP" if is_demo() else ""
    return {
        "image-text encoder": name + stand_in,
        "keywords": "rules instead of Llama-3.1-8B",
        "text encoder of the cosine": text_encoder().identity.model_id,
    }


def fourth(load: str, name: str, stages: Stages) -> Table:
    """Table 4 on one dataset, by kind of noise."""
    pairs = {"demo": demo_pairs, "clips": clip_pairs}[load]()
    rows: list[Row] = []
    comparisons, counts = [], []
    for kind, twins in noisy_by_kind(pairs.rows).items():
        own = Pairs(twins, pairs.features)
        cells = list(fourth_rows(name, kind, own, scores_of(own, text_encoder())))
        ours = {row.row: row.ours for row in cells if row.column == COLUMN.format(kind, "best 25 %")}
        best = strongest({rule: -value for rule in SIMPLE if (value := ours[rule]) is not None})
        comparisons.append(Comparison(f"noise, {kind}", ours[EVQA], best, ours[best], less_is_better=True))
        counts.append(f"{kind} {len(twins):,}")
        rows += cells
    remarks = [
        f"Pairs by kind of noise, half of them noisy: {', '.join(counts)}. A noisy pair is the twin of a good one with "
        f"another answer; kinds with fewer than {MIN_TWINS} twins are left out. Less noise is better. Equal scores at "
        "the cut count in equal parts. Intervals draw videos.",
        "The answer of another video stands at the same place there. Negated, colours and counts: rewrites of "
        "`reelsieve stress`. Length and number of keywords recognise one-word answers, not wrong ones of full length.",
        *(["SYNTHETIC: clips, questions and answers by a program."] if load == "demo" else []),
    ]
    title = f"EVQAScore, Table 4 in form: share of noisy pairs in the best part, {load}"
    return Table(name, title, [], shown_models(), rows, 3, remarks, comparisons[0].baseline, comparisons)


def fourth_rows(name: str, kind: str, pairs: Pairs, scores: Mapping[str, FloatArray]) -> Iterator[Row]:
    """The cells of a kind of noise by rule; a rule without a model has no figure of ours."""
    noisy = np.array([row["quality"] == "noisy" for row in pairs.rows])
    videos = [row["video_id"] for row in pairs.rows]
    for rule in (EVQA, RAW, COARSE, *SIMPLE):
        for place, (part, share) in enumerate(SHARES.items() if kind == KEYWORD else [*SHARES.items()][:1]):
            figures = PUBLISHED_4.get(rule) if kind == KEYWORD else None
            published = figures[place] if figures else None
            source, note = (TABLE_4 if figures else ""), ("" if rule in scores else NO_MODEL)
            found = noise_with_interval(scores[rule], noisy, share, videos) if rule in scores else (None, None, None)
            column = COLUMN.format(kind, part)
            yield Row(name, rule, column, published, *found, n=len(videos), note=note, source=source)


def first(name: str, stages: Stages) -> Table:
    """Table 1 on the demo: frames, seconds, and agreement with the synthetic ratings."""
    manifests = build_manifest_rows(make_demo_clips(N_CLIPS, DEMO_SEED))
    captions = [row for row in manifests["captions"] if row["role"] == "candidate"]
    ratings: dict[str, list[float]] = {}
    for row in manifests["ratings"]:
        ratings.setdefault(str(row["caption_id"]), []).append(float(str(row["value"])))
    people = np.array([np.mean(ratings[str(row["caption_id"])]) for row in captions])
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
        found = correlate(np.array(values, dtype=np.float64), people, videos)
        rows += [seconds_row(name, label, taken[label]), *agreement_cells(name, label, found, PUBLISHED_1[label])]
    lengths = correlate(count_words([str(row["text"]) for row in captions]), people, videos)
    rows += agreement_cells(name, LENGTH_OF_TEXT, lengths, None)
    of = {row.row: row.ours for row in rows if row.column == "Kendall"}
    quickest = taken["every frame"] / taken["every 30th frame"]
    summary = [
        f"Every 30th frame is {quickest:.0f} times as fast as every frame (paper: {18504 / 464:.0f} times).",
    ]
    remarks = [
        "SYNTHETIC: drawn clips, captions and ratings by a program. Seconds: frames drawn and encoded, not decoded."
    ]
    comparisons = [
        Comparison(f"Kendall of EVQAScore, {label}", of[label], LENGTH_OF_TEXT, of[LENGTH_OF_TEXT])
        for label in INTERVALS
    ]
    title = "EVQAScore, Table 1 in form: sampling interval, time and agreement, demo"
    return Table(name, title, summary, shown_models(), rows, 3, remarks, LENGTH_OF_TEXT, comparisons)


def first_clips(name: str, stages: Stages) -> Table:
    """Table 1's time on the real clips, and whether captions keep their ranks with fewer frames."""
    sampled = {label: sample_clips(every) for label, every in INTERVALS.items()}
    complete, rows = sampled["every frame"], []
    for label, own in sampled.items():
        found = correlate(own.values, complete.values, own.videos)
        rows += [
            Row(name, label, "frames", ours=own.n_frames, n=len(set(own.videos))),
            replace(seconds_row(name, label, own.seconds), n=len(set(own.videos))),
            *agreement_cells(name, label, found, None),
        ]
    fewer = sampled["every 30th frame"]
    summary = [
        f"Every 30th frame takes {complete.n_frames / fewer.n_frames:.0f} times fewer frames and is "
        f"{complete.seconds / fewer.seconds:.1f} times as fast as every frame (paper: {18504 / 464:.0f} times).",
    ]
    remarks = [
        "Seconds: decoded and encoded. Kendall and Spearman compare the ranks of captions with their ranks by every "
        "frame, and not with people.",
        *(["The demo encoder does not know real clips: only the change of its values counts."] if is_demo() else []),
    ]
    title = "EVQAScore, Table 1 in form: sampling interval, time and change of rank, clips"
    return Table(name, title, summary, shown_models(), rows, 3, remarks)


@dataclass(frozen=True)
class Sampled:
    """The real clips at one interval: frames and seconds of all clips, and the value and clip of every caption."""

    n_frames: int
    seconds: float
    values: FloatArray
    videos: list[str]


def sample_clips(every: int) -> Sampled:
    """The candidates of the real clips by every so many frames."""
    folder = require("clips")
    files = {row["video_id"]: folder / row["path"] for row in read_lines(folder / "videos.jsonl")}
    captions = [row for row in read_lines(folder / "captions.jsonl") if row["role"] == "candidate"]
    judged = {row["caption_id"] for row in read_lines(folder / "ratings.jsonl")}
    captions = [row for row in captions if row["caption_id"] in judged]
    videos = [row["video_id"] for row in captions]
    units = [text_units(row["text"]) for row in captions]
    started = time.perf_counter()
    features = clip_features([(video, files[video]) for video in dict.fromkeys(videos)], every)
    seconds = time.perf_counter() - started
    frames = {video: prepare_frames(own) for video, own in features.items()}
    values = [
        evqa_from_prepared_frames(frames[video], keywords, whole).score
        for video, (whole, keywords) in zip(videos, units, strict=True)
    ]
    return Sampled(sum(map(len, features.values())), seconds, np.array(values, dtype=np.float64), videos)


def seconds_row(name: str, label: str, seconds: float) -> Row:
    """The seconds at one interval."""
    return Row(name, label, "seconds", PUBLISHED_1[label][0], seconds, n=N_CLIPS, source=TABLE_1)


def agreement_cells(
    name: str, label: str, found: Mapping[str, dict[str, Any]], figures: tuple[float, float, float] | None
) -> Iterator[Row]:
    """Both coefficients of a metric over all captions."""
    for place, statistic, column in ((1, "kendall_b", "Kendall"), (2, "spearman", "Spearman")):
        published, source = (figures[place], TABLE_1) if figures else (None, "")
        yield Row(name, label, column, published, **found[statistic], source=source)


RECIPES = (
    Recipe("evqa_1_demo", (), (), CODE, models, partial(first, "evqa_1_demo")),
    Recipe("evqa_1_clips", ("clips",), (), CODE, models, partial(first_clips, "evqa_1_clips")),
    *(
        Recipe(f"evqa_4_{load}", data, (), CODE, models, partial(fourth, load, f"evqa_4_{load}"))
        for load, data in (("demo", ()), ("clips", ("clips",)))
    ),
)
