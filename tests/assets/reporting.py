"""Datasets with invented scores and ratings, and their reports, for tests."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.agreement.judged import load_judged_samples
from assets.agreement.table import store_agreement
from assets.metrics.registry import METRIC_INPUTS
from assets.reports.report import create_report
from assets.scores.base import Explanation, Scorer
from db import schema
from db.manifest.datasets import Dataset
from db.scores.keypoint_decisions import load_keypoint_decisions
from metrics_core.agreement import AgreementRow
from tests.db.builders import add_sample, add_video


class ToldScorer:
    """The scorer whose scores `tests.db.builders.set_scores` stores; it explains them with what it was told."""

    code_version = "1"
    sources = ()

    def __init__(self, metric: str, explanation: Explanation | None = None) -> None:
        self.metric = metric
        self.inputs = METRIC_INPUTS[metric]
        self.explanation = explanation or Explanation([f"why {metric}"], [{"fact": "A dog.", "sentence": "a dog runs"}])

    def models(self) -> dict[str, Any]:
        return {"encoder": {"model_id": "tiny"}}

    def params(self) -> dict[str, Any]:
        return {}

    def explain(self, *of_sample: object) -> Explanation:
        return self.explanation


class PageReader(HTMLParser):
    """Texts, tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.pieces: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._silent += tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag == "style"

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.pieces.append(data)


@dataclass(frozen=True)
class MadeReport:
    """A report's page and numbers."""

    path: Path
    html: str
    numbers: dict[str, Any]
    tags: list[tuple[str, dict[str, str | None]]] = field(repr=False)
    text: str = field(repr=False)


def report_on(
    engine: Engine, dataset: Dataset, folder: Path, metrics: Sequence[str] = ("vcs",), **told: Explanation
) -> MadeReport:
    """Make the report of a dataset with these metrics."""
    scorers: Mapping[str, Scorer] = {name: cast(Any, ToldScorer(name, told.get(name))) for name in metrics}
    files = create_report(engine, dataset, scorers, folder)
    html = files.page.read_text(encoding="utf-8")
    reader = PageReader()
    reader.feed(html)
    numbers = json.loads(files.numbers.read_text(encoding="utf-8"))
    return MadeReport(files.page, html, numbers, reader.tags, re.sub(r"\s+", " ", " ".join(reader.pieces)))


def agree(engine: Engine, dataset: Dataset, metrics: Sequence[str]) -> list[AgreementRow]:
    """Store how far these metrics of a dataset agree with people."""
    with engine.connect() as connection:
        judged = load_judged_samples(connection, dataset, metrics)
        judged = replace(judged, decided_keypoints=load_keypoint_decisions(connection, dataset.dataset_id))
    return store_agreement(engine, dataset, judged)


def add_captions(
    engine: Engine, dataset: Dataset, n_videos: int, systems: Sequence[str], text: str = "a dog runs far"
) -> list[int]:
    """A caption of every system for every video, video by video."""
    ids = []
    for video in range(n_videos):
        video_id = add_video(engine, dataset, f"v{video}", status="text_only")
        ids += [add_sample(engine, dataset, video_id, f"v{video}_{s}", f"{text} {s}", system=s) for s in systems]
    return ids


def rate(engine: Engine, ratings: Mapping[int, Sequence[float]], aspect: str = "coverage", **extra: Any) -> None:
    """Store the ratings of every sample, one by each rater."""
    rows = [
        {
            "sample_id": i,
            "rater": f"r{rater}",
            "aspect": aspect,
            "value": value,
            "row_sha256": b"",
            "extra": extra or None,
        }
        for i, values in ratings.items()
        for rater, value in enumerate(values)
    ]
    with engine.begin() as connection:
        connection.execute(sa.insert(schema.rating), rows)
