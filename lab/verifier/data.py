"""Reads the pairs that train and measure the verifier, from a folder that is not part of the project.

The folder holds nli/ (s1.dev, s2.dev, labels.dev, snli_more.jsonl, MED.tsv, data/dataset.jsonl) and
realsumm/checklist.jsonl. All data are split by a hash: SNLI by premise, REALSumm by article.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from metrics_core.ecs.premises import split_premises
from metrics_core.ecs.verifier.model import CLASSES
from metrics_core.models.sentence_splitter import RuleSplitter

TRAIN, CHOICE, TEST = "train", "choice", "test"


@dataclass(frozen=True, slots=True)
class Pair:
    """A premise and a hypothesis with their label.

    entailed: how sure it is that the premise entails the hypothesis, in [0, 1]. label: the class, or None where only
    `entailed` is known, such as 0.75 where three of four people found a statement in a summary.
    """

    premise: str
    hypothesis: str
    entailed: float
    label: str | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a REALSumm article, one system's summary as sentences, and people's votes.

    present: the majority of the votes. share: the share of votes that the summary contains the statement, in [0, 1].
    """

    article: str
    system: str
    sentences: tuple[str, ...]
    text: str
    present: bool
    share: float


def labelled(premise: str, hypothesis: str, label: str) -> Pair:
    """Make a pair of a known class. Raises ValueError for a class that is none of CLASSES.

    >>> labelled("A man sits.", "Nobody sits.", "contradiction").entailed
    0.0
    """
    if label not in CLASSES:
        raise ValueError(f"label {label!r} of the hypothesis {hypothesis[:60]!r} is none of {', '.join(CLASSES)}")
    return Pair(premise, hypothesis, float(label == "entailment"), label)


def split_of(kind: str, key: str, test: float, choice: float) -> str:
    """Assign a key to a part by its hash alone: "test" and "choice" get the given shares, "train" gets the rest.

    >>> [split_of("article", key, 0.3, 0.1) for key in ("a", "b", "c", "d")]
    ['choice', 'train', 'train', 'choice']
    """
    place = int(hashlib.sha256(f"{kind}/{key}".encode()).hexdigest()[:16], 16) / 2**64
    return TEST if place < test else CHOICE if place < test + choice else TRAIN


def plain(text: str) -> str:
    """Keep the letters and digits of a text, in lower case, so that one text in two tokenisations becomes one key.

    >>> plain("Two dogs , running .") == plain("two dogs, running.")
    True
    """
    return "".join(character for character in text.lower() if character.isalnum())


def snli(folder: Path) -> dict[str, list[Pair]]:
    """Read all SNLI pairs by part: a tenth of the premises for the test, a twentieth for choices, the rest to train."""
    columns = [_lines(folder / "nli" / name) for name in ("s1.dev", "s2.dev", "labels.dev")]
    pairs = [labelled(*(value.strip() for value in row)) for row in zip(*columns, strict=True)]
    more = (json.loads(line) for line in _lines(folder / "nli" / "snli_more.jsonl"))
    pairs += [labelled(row["premise"], row["hypothesis"], row["label"]) for row in more]
    parts: dict[str, list[Pair]] = {TRAIN: [], CHOICE: [], TEST: []}
    for pair in pairs:
        parts[split_of("snli", plain(pair.premise), test=0.1, choice=0.05)].append(pair)
    return parts


def contrasts(folder: Path, apart_from: Iterable[Pair]) -> list[Pair]:
    """Read Breaking NLI (three classes) and MED (entailed or not) without the premises of the pairs `apart_from`."""
    held_out = {plain(pair.premise) for pair in apart_from}
    rows = (json.loads(line) for line in _lines(folder / "nli" / "data" / "dataset.jsonl"))
    pairs = [labelled(row["sentence1"], row["sentence2"], row["gold_label"]) for row in rows]
    with (folder / "nli" / "MED.tsv").open(encoding="utf-8", newline="") as stream:
        med = csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        pairs += [Pair(row["sentence1"], row["sentence2"], float(row["gold_label"] == "entailment")) for row in med]
    return [pair for pair in pairs if plain(pair.premise) not in held_out]


def realsumm(folder: Path) -> dict[str, list[Statement]]:
    """Read all REALSumm statements by part: 35 % of the articles for the test, a tenth for choices, the rest to train.

    No article is in two parts.
    """
    parts: dict[str, list[Statement]] = {TRAIN: [], CHOICE: [], TEST: []}
    splitter = RuleSplitter()
    for line in _lines(folder / "realsumm" / "checklist.jsonl"):
        row = json.loads(line)
        sentences = tuple(split_premises(row["text"], splitter))
        part = parts[split_of("realsumm", row["doc"], test=0.35, choice=0.1)]
        for point in row["keypoints"]:
            share = sum(point["votes"]) / len(point["votes"])
            part.append(Statement(row["doc"], row["system"], sentences, point["text"], bool(point["present"]), share))
    return parts


def _lines(file: Path) -> Sequence[str]:
    if not file.is_file():
        raise FileNotFoundError(f"{file} is missing: give the folder that holds nli/ and realsumm/")
    return file.read_text(encoding="utf-8").splitlines()
