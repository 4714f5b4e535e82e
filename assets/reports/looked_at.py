"""Samples to look at: each with its frames, texts and ratings, and with what decided its scores."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.engine import Connection, Engine

from assets.agreement.rows import Judged
from assets.media.files import IngestedFileUnreadable, ingested_file
from assets.reports.comparisons import KIND, Drawn
from assets.reports.facts import Described, MetricFacts, MetricView, SampleFacts, SampleGroup, ShownReference
from assets.reports.text import compact, spelled
from assets.scores.base import Scorer
from assets.scores.explain import explain_score
from assets.sources.base import MissingEvidence
from db.evidence.facts import facts_of
from db.manifest.datasets import Dataset
from db.reports.facts import first_captions
from db.reports.samples import extremes, ratings_by_sample, texts_of, values_of
from metrics_core.agreement.raters import mean_rating
from metrics_core.arrays import FloatArray
from metrics_core.frames.decoding import read_frames
from metrics_core.frames.fit import Fit
from metrics_core.frames.records import FrameReadError
from metrics_core.models.unusable import ModelUnusable

# Small pictures of a video for a report: some frames as JPEG, or the reason why there are none.

FRAMES = 4
HEIGHT = 96
# By the height. A panorama is cut at the sides, a picture of a phone held upright is narrower.
WIDEST = 2
QUALITY = 55
TIMEOUT_S = 20.0

Pictures = tuple[tuple[tuple[float, bytes], ...], str | None]
"""Seconds and JPEG bytes of some frames of a video; without any, the reason."""


def thumbnails(video: Mapping[str, Any], height: int = HEIGHT) -> Pictures:
    """Decode some frames of so many pixels' height, at equal distances.

    video: a row of table `video`, its key as "video".
    """
    if video["status"] == "text_only" or not video["uri"] or video["content_sha256"] is None:
        return (), "text only: this video came without a file"
    if video["status"] == "undecodable":
        return (), f"its file does not decode: {video['error']}"
    every = max(1, (video["n_frames"] or 1) // FRAMES)
    try:
        with ingested_file(SimpleNamespace(**{**video, "key": video["video"]})) as path:
            found = read_frames(path, every=every, cap=FRAMES, fit=_fit(video, height), timeout_s=TIMEOUT_S)
    except IngestedFileUnreadable as error:
        return (), f"the file cannot be shown: {error}"
    except FrameReadError as error:
        return (), f"the file cannot be shown: {error.reason}"
    return tuple(zip(found.times_s.tolist(), map(jpeg, found.pixels), strict=True)), None


def jpeg(pixels: NDArray[np.uint8]) -> bytes:
    """Encode a picture, uint8 (H, W, 3)."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="JPEG", quality=QUALITY, optimize=True)
    return stream.getvalue()


def _fit(video: Mapping[str, Any], height: int) -> Fit:
    """Scale pictures down to the height of a thumbnail, in their own shape where it is known."""
    widest = WIDEST * height
    width = round(height * video["width"] / video["height"]) if video["width"] and video["height"] else widest
    return Fit(height, min(max(width, 1), widest), resize_mode="longest" if width > widest else "squash", fill=255)


# Which samples a report shows: the best and the worst, and those that metrics or people disagree about.

OF_EACH = 2
MOST_DISPUTED = 6
# Where nothing is scored, so many captions are the extremes of facts.
MOST_EXTREME = 12
# Half of all samples lie between the two ranks.
LEAST_GAP = 0.5

ChosenGroup = SampleGroup[tuple[int, str]]
"""Samples for one reason, as (id, why); a sample may be in several groups."""


def choose(
    connection: Connection,
    metrics: Sequence[MetricFacts],
    drawn: Drawn,
    judged: Judged,
    described: Described | None,
) -> tuple[ChosenGroup, ...]:
    """Choose captions to look at: by scores, or by facts where there are none; `reported` must have been collected."""
    names = {metric.name: metric.label for metric in metrics if metric.scores_kind(KIND)}
    if not names:
        extreme = tuple(_by_facts(connection, described)) if described else ()
        return (ChosenGroup("Extremes of facts", "facts", extreme),)
    best, worst = (
        tuple(
            (sample_id, f"{word} by {label}")
            for metric, label in names.items()
            for sample_id in extremes(connection, KIND, metric, OF_EACH, best=is_best)
        )
        for word, is_best in (("best", True), ("worst", False))
    )
    return (
        ChosenGroup("Best", "best", best),
        ChosenGroup("Worst", "worst", worst),
        ChosenGroup("Metric against metric", "metrics", _between_metrics(names, drawn)),
        ChosenGroup("Metric against people", "people", tuple(_against_people(names, judged))),
    )


def _by_facts(connection: Connection, described: Described) -> Iterator[tuple[int, str]]:
    """Captions at both ends of each fact: the caption itself, or the first one of the video."""
    ends = [
        (each.of, end.row_id, f"{word} {spelled(each.fact)}: {compact(end.value)}")
        for each in described.facts
        for word, end in each.ends()
    ]
    of_video = first_captions(connection, [row_id for of, row_id, _ in ends if of == "video"])
    chosen: set[int] = set()
    for of, row_id, why in ends:
        sample_id = of_video.get(row_id) if of == "video" else row_id
        if sample_id is not None and (sample_id in chosen or len(chosen) < MOST_EXTREME):
            chosen.add(sample_id)
            yield sample_id, why


def _between_metrics(names: Mapping[str, str], drawn: Drawn) -> tuple[tuple[int, str], ...]:
    """The drawn captions with the widest gaps between their ranks by two metrics: of every two, one each way."""
    ranks = {metric: _ranks(values) for metric, values in drawn.values.items()}
    found = []
    for high, low in permutations(ranks, 2):
        gap = ranks[high] - ranks[low]
        place = int(np.nanargmax(gap)) if np.isfinite(gap).any() else None
        if place is not None and gap[place] >= LEAST_GAP:
            why = f"{names[high]} ranks it high, {names[low]} low"
            found.append((float(gap[place]), drawn.sample_ids[place], why))
    found.sort(key=lambda each: (-each[0], each[1], each[2]))
    return tuple((sample_id, why) for _, sample_id, why in found[:MOST_DISPUTED])


def _against_people(names: Mapping[str, str], judged: Judged) -> Iterator[tuple[int, str]]:
    """For each metric the sample that it puts farthest above its ratings, and the one farthest below."""
    people = np.array([_ranks(mean_rating(ratings)) for ratings in judged.ratings.values()])
    known = np.isfinite(people).any(axis=0) if people.size else np.zeros(len(judged.samples), dtype=np.bool_)
    mean = np.full(known.size, np.nan)
    mean[known] = np.nanmean(people[:, known], axis=0) if known.any() else np.nan
    for metric, label in names.items():
        gap = _ranks(np.where(known, judged.metrics.get(metric, np.nan), np.nan)) - mean
        for sign, how in ((1, "higher"), (-1, "lower")):
            if not np.isfinite(gap).any():
                continue
            place = int(np.nanargmax(sign * gap))
            if sign * gap[place] >= LEAST_GAP / 2:
                yield judged.samples[place].sample_id, f"{label} ranks it {how} than people do"


def _ranks(values: FloatArray) -> FloatArray:
    """The share of the defined values below each one, equal ones counted half; NaN where undefined."""
    defined = np.sort(values[np.isfinite(values)])
    below = np.searchsorted(defined, values, "left") + np.searchsorted(defined, values, "right")
    ranks: FloatArray = np.where(np.isfinite(values), below / max(1, 2 * defined.size), np.nan)
    return ranks


MOST_ROWS = 40
# The references of a video that are shown, unless more of them decided.
REFERENCES = 3


def gather_samples(
    engine: Engine,
    connection: Connection,
    dataset: Dataset,
    groups: Sequence[ChosenGroup],
    metrics: Sequence[MetricFacts],
    scorers: Mapping[str, Scorer],
    tell: Callable[[str], None],
) -> tuple[SampleGroup[SampleFacts], ...]:
    """Collect everything about the chosen samples. Each is shown once, in its first group, with all reasons."""
    why: dict[int, list[str]] = {}
    for group in groups:
        for sample_id, reason in group.samples:
            why.setdefault(sample_id, []).append(reason)
    texts, ratings = texts_of(connection, list(why)), ratings_by_sample(connection, list(why))
    values = values_of(connection, list(why), [metric.name for metric in metrics])
    known = facts_of(connection, list(why))
    pictures: dict[int, Pictures] = {}
    facts: dict[int, SampleFacts] = {}
    for number, (sample_id, reasons) in enumerate(why.items(), 1):
        row = texts[sample_id]
        if row["video_id"] not in pictures:
            pictures[row["video_id"]] = thumbnails(row)
        views = tuple(
            _view(engine, dataset, metric.name, scorers.get(metric.name), row["key"], values[sample_id])
            for metric in metrics
        )
        rated, shown = ratings.get(sample_id, {}), pictures[row["video_id"]]
        facts[sample_id] = _facts(row, reasons, views, known[sample_id], rated, shown)
        tell(f"{number} of {len(why)} samples to look at collected")
    return _each_once(groups, facts)


def _each_once(groups: Sequence[ChosenGroup], facts: Mapping[int, SampleFacts]) -> tuple[SampleGroup[SampleFacts], ...]:
    shown: set[int] = set()
    found = []
    for group in groups:
        fresh = [i for i in dict.fromkeys(sample_id for sample_id, _ in group.samples) if i not in shown]
        shown.update(fresh)
        found.append(SampleGroup(group.title, group.name, tuple(facts[sample_id] for sample_id in fresh)))
    return tuple(found)


def _view(
    engine: Engine, dataset: Dataset, metric: str, scorer: Scorer | None, key: str, values: Mapping[str, Any]
) -> MetricView:
    """The metric's score of a sample, and why; the reason is left out where the score has changed meanwhile."""
    value, status, rank = (values[name] for name in (metric, f"{metric}_status", f"{metric}_rank"))
    try:
        found = explain_score(engine, metric, scorer, dataset, key)
    except (ModelUnusable, MissingEvidence) as error:
        return MetricView(metric, value, status, None, rank, (f"cannot be explained here: {error}",), ())
    if found is None or (found.value, found.status or "unscored") != (value, status):
        return MetricView(metric, value, status, None, rank, ("it was scored again while this page was made",), ())
    lines = list(found.explanation.lines)
    if (n_more := len(found.explanation.rows) - MOST_ROWS) > 0:
        lines.append(f"the first {MOST_ROWS} rows; reelsieve explain shows {n_more} more")
    rows = tuple(found.explanation.rows[:MOST_ROWS])
    return MetricView(metric, value, status, found.error, rank, tuple(lines), rows, found.explanation.reference)


def _references(all_of_video: Sequence[Sequence[str]], scores: Sequence[MetricView]) -> tuple[ShownReference, ...]:
    """Those that decided a score, then others, in order of their keys."""
    decided: dict[str, list[str]] = {}
    for score in scores:
        if score.reference is not None:
            decided.setdefault(score.reference, []).append(score.metric)
    first = sorted(all_of_video, key=lambda reference: reference[0] not in decided)
    return tuple(
        ShownReference(text, tuple(decided.get(key, ()))) for key, text in first[: max(REFERENCES, len(decided))]
    )


def _facts(
    row: Mapping[str, Any],
    why: Sequence[str],
    scores: tuple[MetricView, ...],
    facts: Mapping[str, Any],
    ratings: Mapping[str, Mapping[str, float]],
    pictures: Pictures,
) -> SampleFacts:
    return SampleFacts(
        key=row["key"],
        kind=row["kind"],
        system=row["system"],
        video=row["video"],
        text=row["text"],
        question=row["question"],
        answer=row["answer"],
        references=_references(row["references"] or (), scores),
        n_references=len(row["references"] or ()),
        why=tuple(why),
        scores=scores,
        facts=facts,
        ratings=ratings,
        frames=pictures[0],
        no_frames=pictures[1],
    )
