"""The checklists that ECS is measured on: captions with their clips' keypoints, and labels where there are any."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.measure import DATA
from lab.demo.build import build_manifest_rows, make_demo_clips
from lab.verifier.data import CHOICE, TEST, Statement
from lab.verifier.data import realsumm as realsumm_parts
from metrics_core.calibration import mark_calibration_keys
from metrics_core.ecs import split_premises
from metrics_core.models.sentence_splitter import RuleSplitter

DEMO_SEED = 7
# The paper's exhaustive passes are 51 per keypoint, which is then the number of sentences, and it has 51 keypoints a
# clip. So many descriptions make that many sentences; so many clips' events make that many keypoints.
JOINED, CHECKED, LONG_CLIPS = 16, 8, 6
LEAST_SENTENCES = 50
SPLITTER = RuleSplitter()


@dataclass(frozen=True)
class Caption:
    """A caption as sentences with the keypoints of its clip; covered says which it covers, empty without labels."""

    clip: str
    system: str
    sentences: tuple[str, ...]
    keypoints: tuple[str, ...]
    dimensions: tuple[str, ...]
    covered: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Fold:
    """The clips that thresholds are calibrated on, and the clips that are then judged with them."""

    calibrate: frozenset[str]
    judge: frozenset[str]


@dataclass(frozen=True)
class DataSet:
    """Captions, how they are split, and what a reader has to know of them. No clip is judged in two folds."""

    name: str
    note: str
    captions: tuple[Caption, ...]
    folds: tuple[Fold, ...] = ()

    def judged(self) -> DataSet:
        """The same without the captions that no fold judges."""
        clips = frozenset[str]().union(*(fold.judge for fold in self.folds))
        kept = tuple(caption for caption in self.captions if caption.clip in clips)
        return DataSet(self.name, self.note, kept, self.folds)


def realsumm() -> DataSet:
    """The articles that the network was not trained on: those for choices calibrate, those for the test are judged.

    The weights of the whole text were fitted on them. The verifier's record judges each article by a fit without it.
    """
    parts = realsumm_parts(require("realsumm").parent)
    captions = [*summaries(parts[CHOICE]), *summaries(parts[TEST])]
    fold = Fold(*(frozenset(each.article for each in parts[part]) for part in (CHOICE, TEST)))
    note = "summaries, people's votes; articles unknown to the network, not to the weights of the whole text"
    return DataSet("realsumm", note, tuple(captions), (fold,))


def realsumm_by_hash() -> DataSet:
    """All articles, split by the hash of their id: for rules without training only."""
    parts = realsumm_parts(require("realsumm").parent)
    captions = [caption for part in parts.values() for caption in summaries(part)]
    return DataSet("realsumm, all articles", "summaries, people's votes", tuple(captions), (split(captions),))


def summaries(statements: Sequence[Statement]) -> list[Caption]:
    """The statements as captions; those of one summary follow each other."""
    captions = []
    for (article, system), group in groupby(statements, key=lambda each: (each.article, each.system)):
        points = list(group)
        texts, present = tuple(each.text for each in points), tuple(each.present for each in points)
        captions.append(Caption(article, system, points[0].sentences, texts, ("statement",) * len(points), present))
    return captions


def clips() -> DataSet:
    """The pack of real clips; ten are too few for a split, so that each is judged with the thresholds of the others."""
    folder = require("clips")
    tables = {name: read_lines(folder / f"{name}.jsonl") for name in ("captions", "keypoints", "keypoint_labels")}
    captions = of_manifest(tables)
    everything = frozenset(caption.clip for caption in captions)
    folds = tuple(Fold(everything - {clip}, frozenset({clip})) for clip in sorted(everything))
    return DataSet("clips", "ten real clips, five archetypes; labels by one author", captions, folds)


def demo(n_clips: int = 60) -> DataSet:
    """The demo world, where labels follow from what a program let each caption claim."""
    captions = of_manifest(build_manifest_rows(make_demo_clips(n_clips, DEMO_SEED)))
    return DataSet("demo", "SYNTHETIC: shapes, captions and labels by a program", captions, (split(captions),))


def of_manifest(tables: Mapping[str, Iterable[Mapping[str, Any]]]) -> tuple[Caption, ...]:
    """The candidates of a manifest folder that have labels."""
    labels = {(row["caption_id"], row["keypoint_id"]): bool(row["covered"]) for row in tables["keypoint_labels"]}
    points: dict[str, list[Mapping[str, Any]]] = {}
    for row in tables["keypoints"]:
        points.setdefault(row["video_id"], []).append(row)
    captions = []
    for row in tables["captions"]:
        if row["role"] == "candidate" and row["video_id"] in points:
            own = points[row["video_id"]]
            texts, dimensions = (tuple(str(point[field]) for point in own) for field in ("text", "dimension"))
            covered = tuple(labels[row["caption_id"], point["keypoint_id"]] for point in own)
            sentences = tuple(split_premises(row["text"], SPLITTER))
            captions.append(Caption(row["video_id"], row["system"], sentences, texts, dimensions, covered))
    return tuple(captions)


def split(captions: Iterable[Caption]) -> Fold:
    """A fifth of the clips calibrates, by the hash of their names."""
    names = sorted({caption.clip for caption in captions})
    mask = mark_calibration_keys(names)
    parts = [frozenset(name for name, given in zip(names, mask, strict=True) if given == part) for part in (1, 0)]
    return Fold(*parts)


def dream1k() -> DataSet:
    """Each clip's events against its own caption, and against that of the next clip of its category."""
    rows = dream_rows()
    categories = {row["dataset"]: [each for each in rows if each["dataset"] == row["dataset"]] for row in rows}
    captions = [
        Caption(str(row["idx"]), system, sentences_of(other), *events_of([row]))
        for members in categories.values()
        for row, following in zip(members, [*members[1:], members[0]], strict=True)
        for system, other in (("own", row), ("other", following))
    ]
    return DataSet("dream1k", "1,000 clips, a person's captions, events as keypoints; no labels", tuple(captions))


def long_captions() -> DataSet:
    """As many descriptions as make about the paper's number of sentences, joined."""
    rows = dream_rows()
    parts = [rows[start : start + JOINED] for start in range(0, 2 * JOINED * LONG_CLIPS, JOINED)]
    return joined_captions("long captions", f"{JOINED} descriptions of DREAM-1K joined; labels by construction", parts)


def dense_captions() -> DataSet:
    """Descriptions joined until a caption has 50 sentences or more."""
    parts: list[list[dict[str, Any]]] = [[]]
    for row in dream_rows():
        if sum(len(sentences_of(each)) for each in parts[-1]) >= LEAST_SENTENCES:
            parts.append([])
        parts[-1].append(row)
    note = f"descriptions of DREAM-1K joined to {LEAST_SENTENCES} sentences or more; labels by construction"
    return joined_captions("dense captions", note, parts[: 2 * LONG_CLIPS])


def joined_captions(name: str, note: str, parts: Sequence[Sequence[Mapping[str, Any]]]) -> DataSet:
    """Descriptions of neighbouring clips joined to one caption a part: a stand-in for dense captions, not one of them.

    Keypoints are the events of every second clip of a part. They count as covered by the caption joined from this part,
    and as not covered by the one joined from the part that follows. No person has looked at these labels.
    """
    captions, start = [], 0
    for own, other in zip(parts[::2], parts[1::2], strict=True):
        texts, dimensions = events_of(own[:: JOINED // CHECKED])
        for system, joined in (("own", own), ("other", other)):
            sentences = tuple(sentence for row in joined for sentence in sentences_of(row))
            covered = (system == "own",) * len(texts)
            captions.append(Caption(f"joined {start:04d}", system, sentences, texts, dimensions, covered))
        start += len(own) + len(other)
    names = sorted({caption.clip for caption in captions})
    halves = frozenset(names[::2]), frozenset(names[1::2])
    return DataSet(name, note, tuple(captions), (Fold(*halves), Fold(*halves[::-1])))


def dream_rows() -> list[dict[str, Any]]:
    """The lines of DREAM-1K."""
    return read_lines(require("dream1k") / "DREAM-1k.jsonl")


def sentences_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """A person's description of a clip."""
    return tuple(split_premises(row["messages"][1]["content"][0]["reference"], SPLITTER))


def events_of(rows: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Texts and dimensions of the clips' events."""
    events = tuple(event for row in rows for event in row["extra_info"]["events"])
    return events, ("events",) * len(events)


def require(name: str) -> Path:
    """A folder of the test data; SystemExit with the remedy without it."""
    if not (DATA / name).is_dir():
        raise SystemExit(f"no {name} in {DATA}: set REELSIEVE_TEST_DATA to the folder of the test data")
    return DATA / name


def read_lines(file: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON Lines."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


LABELLED: tuple[Callable[[], DataSet], ...] = (realsumm, clips, demo)
