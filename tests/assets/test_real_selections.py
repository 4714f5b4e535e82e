"""Real captions through a recipe of each kind, written in every format and loaded as their users load them."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
import webdataset
from sqlalchemy.engine import Engine

from assets.ingest.run import ingest_folder
from assets.metrics.vcs.scorer import VCSScorer, VCSSettings, VCSShortScorer, VCSShortSettings
from assets.scores.run import score_shard
from assets.selection.export import export_selection
from assets.selection.export_target import ExportFormat
from assets.selection.select import make_selection
from assets.sources.texts import TextVectors
from db.manifest.datasets import Dataset
from db.selection.freeze import Selection
from db.selection.recipes import SelectionError, parse_recipe
from lab.adapters.vatex_eval import convert
from metrics_core.models.sentence_splitter import RuleSplitter
from tests.assets.exporting import ORDER, from_cell, from_table
from tests.assets.verifying import HashEncoder, dataset_of, make_kind
from tests.db.builders import store_threshold

pytestmark = pytest.mark.slow

N_VIDEOS, N_SHARDS = 120, 2
Row = Any
CAPTIONS = """
SELECT s.kind, s.key, s.system, s.text, CAST(s.extra ->> 'start' AS integer) AS start, v.duration_s, v.key AS video,
       short.value AS vcs_short, long.value AS vcs,
       (SELECT avg(value) FROM rating r WHERE r.sample_id = s.sample_id AND aspect = 'overall') AS rating
FROM sample s JOIN video v USING (video_id)
LEFT JOIN score short ON short.sample_id = s.sample_id
     AND short.scorer_id = (SELECT scorer_id FROM scorer WHERE metric = 'vcs_short')
LEFT JOIN score long ON long.sample_id = s.sample_id
     AND long.scorer_id = (SELECT scorer_id FROM scorer WHERE metric = 'vcs')
WHERE s.dataset_id = :dataset_id
"""
FROZEN = """
SELECT i.rank, i.value, d.name AS dataset, s.kind, s.key AS sample, s.system, v.key AS video, v.uri AS media,
       v.duration_s, encode(v.content_sha256, 'hex') AS content_sha256, v.licence, v.source_url, s.text,
       s.question, s.answer, v.collected_at, v.opt_out, s.segments,
       (SELECT array_agg(text ORDER BY key COLLATE "C") FROM reference r WHERE r.video_id = v.video_id) AS "references",
       NULL AS tags,
       s.extra, v.extra AS video_extra, p.vcs, p.vcs_models, p.vcs_short, p.vcs_short_models, p.evqa, p.evqa_models
FROM selection_item i JOIN sample s USING (sample_id) JOIN video v USING (video_id)
JOIN dataset d ON d.dataset_id = s.dataset_id JOIN sample_scores p USING (sample_id)
WHERE i.selection_id = :selection_id ORDER BY i.rank
"""


class Real(NamedTuple):
    """Two ingested and scored datasets: texts with ratings, and clips with media and QA pairs."""

    engine: Engine
    encoder: HashEncoder
    vatex: Dataset
    clips: Dataset


@pytest.fixture(scope="module")
def real(module_engine: Engine, shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Real:
    folder, encoder = tmp_path_factory.mktemp("vatex"), HashEncoder()
    lines = (shared_data / "vatex_eval" / "vatex_eval.jsonl").read_text().splitlines(keepends=True)[:N_VIDEOS]
    (folder / "first.jsonl").write_text("".join(lines))
    convert(folder / "first.jsonl", folder / "manifest", references=3)
    _give_starts(folder / "manifest" / "captions.jsonl")
    settings: dict[str, Any] = {"vcs_short_text": True}
    scorers = (
        VCSScorer(VCSSettings(**settings), encoder, RuleSplitter()),
        VCSShortScorer(VCSShortSettings(**settings), encoder),
    )
    for name, source in (("vatex", folder / "manifest"), ("clips", shared_data / "clips")):
        assert ingest_folder(module_engine, source, name, n_shards=N_SHARDS).rejected == 0
        dataset = dataset_of(module_engine, name)
        for scorer in scorers:
            for shard in range(N_SHARDS):
                make_kind(module_engine, scorer, TextVectors, dataset, shard)
                score_shard(module_engine, scorer, dataset, shard, run_id="run")
    return Real(module_engine, encoder, *[dataset_of(module_engine, name) for name in ("vatex", "clips")])


def _give_starts(captions: Path) -> None:
    """Give each candidate a field of its own: the second where its clip begins, which its id names; some have none."""
    rows = [json.loads(line) for line in captions.read_text().splitlines()]
    for row in rows:
        start = int(row["video_id"].rsplit("_", 2)[1])
        if row["role"] == "candidate" and start % 5:
            row["start"] = start
    captions.write_text("".join(json.dumps(row) + "\n" for row in rows))


def select(real: Real, dataset: Dataset, **said: Any) -> Selection:
    return make_selection(real.engine, dataset, parse_recipe(said), lambda: real.encoder, lambda line: None)


def taken(real: Real, chosen: Selection) -> list[str]:
    """The keys of a selection in order of rank."""
    query = sa.text("SELECT sample FROM selection_item WHERE selection_id = :id ORDER BY rank")
    with real.engine.connect() as connection:
        return list(connection.scalars(query, {"id": chosen.selection_id}))


def captions(real: Real) -> list[Row]:
    """The captions of VATEX-EVAL as the tables have them, in order of kind and key."""
    with real.engine.connect() as connection:
        rows = connection.execute(sa.text(CAPTIONS), {"dataset_id": real.vatex.dataset_id}).all()
    return sorted(rows, key=lambda row: (row.kind, row.key.encode()))


def best(rows: Iterable[Row], value: Callable[[Row], float | None]) -> list[Row]:
    """Rows with a value, the highest first; equal ones stay in order."""
    return sorted([row for row in rows if value(row) is not None], key=lambda row: -(value(row) or 0.0))


def keys(rows: Iterable[Row]) -> list[str]:
    return [row.key for row in rows]


def by_rank(rows: Iterable[Row], drawn: Iterable[str]) -> list[str]:
    """The drawn keys in the order of `rows`."""
    chosen = set(drawn)
    return [row.key for row in rows if row.key in chosen]


def of_each(rows: Iterable[Row], stratum: Callable[[Row], str], places: Mapping[str, int]) -> list[str]:
    left, found = dict(places), []
    for row in rows:
        if left.get(stratum(row), 0):
            left[stratum(row)] -= 1
            found.append(row.key)
    return found


def draw(seed: int) -> Callable[[Row], bytes]:
    return lambda row: hashlib.md5(f"{seed}\t{row.kind}\t{row.key}".encode()).digest()[:8]


def test_the_best_share_by_one_metric(real: Real) -> None:
    rows = best(captions(real), lambda row: row.vcs_short)
    assert 600 < len(rows) <= 6 * N_VIDEOS
    assert 100 < len({row.vcs_short for row in rows}) < len(rows) / 2, "equal values are a part of the test"
    assert taken(real, select(real, real.vatex, by="vcs_short", keep=0.1)) == keys(rows[: len(rows) // 10])


def test_where_one_reference_leaves_most_captions_at_0_the_seed_draws(real: Real) -> None:
    """The best half of VATEX-EVAL with one reference ends among hundreds of captions of value 0."""
    rows = best(captions(real), lambda row: row.vcs_short)
    n, n_above = len(rows) // 2, sum(row.vcs_short > 0 for row in rows)
    n_at = sum(row.vcs_short == 0 for row in rows)
    assert n_above < 0.9 * n < 0.9 * (n_above + n_at), "what is drawn is a part of the test"
    drawn = best(sorted(captions(real), key=draw(4)), lambda row: row.vcs_short)[:n]
    chosen = select(real, real.vatex, by="vcs_short", keep=0.5, seed=4)
    assert taken(real, chosen) == by_rank(rows, keys(drawn))
    assert (chosen.n_tied, chosen.n_tied_left) == (n - n_above, n_above + n_at - n)
    assert chosen.cutoff == 0


def test_ranks_and_values_of_several_columns(real: Real) -> None:
    rows = [row for row in captions(real) if row.vcs_short is not None]
    frame = pandas.DataFrame({"short": [row.vcs_short for row in rows], "rating": [float(row.rating) for row in rows]})
    ranks = frame.rank() @ [2, 1]
    by_ranks = [rows[place] for place in np.argsort(-ranks, kind="stable")[:50]]
    by: dict[str, Any] = {"by": {"vcs_short": 2, "rating_overall": 1}, "count": 50}
    assert taken(real, select(real, real.vatex, **by)) == keys(by_ranks)
    values = (2 * frame["short"] + frame["rating"]) / 3
    chosen = select(real, real.vatex, combine="values", **by)
    expected = values.sort_values(ascending=False)[:50]
    found = [values[keys(rows).index(key)] for key in taken(real, chosen)]
    np.testing.assert_allclose(found, expected)
    assert chosen.cutoff == pytest.approx(expected.min())


def test_conditions_over_fields_ratings_and_thresholds(real: Real) -> None:
    ranked = best(captions(real), lambda row: row.vcs_short)
    median = ranked[len(ranked) // 2 - 1].vcs_short
    with real.engine.begin() as connection:
        query = sa.text("SELECT scorer_id FROM scorer WHERE metric = 'vcs_short'")
        where = {"scorer_id": connection.scalar(query) or 0, "dataset_id": real.vatex.dataset_id}
        store_threshold(connection, **where, method="quantile", objective="keep 0.5", value=median, n=len(ranked))
    chosen = select(
        real,
        real.vatex,
        by="vcs_short",
        where="extra_start >= 30 and not system in ('candidate_1', 'candidate_6') and text like '% man %'",
        at_least={"vcs_short": "keep 0.5", "rating_overall": 3.5},
    )
    expected = [
        row
        for row in ranked
        if row.start is not None
        and row.start >= 30
        and row.system not in ("candidate_1", "candidate_6")
        and " man " in row.text
        and row.vcs_short >= median
        and row.rating >= 3.5
    ]
    assert 5 < len(expected) < 200
    assert taken(real, chosen) == keys(expected)


def test_quotas_and_bands(real: Real) -> None:
    ranked = best(captions(real), lambda row: row.vcs_short)
    rows = best(sorted(captions(real), key=draw(3)), lambda row: row.vcs_short)
    by: dict[str, Any] = {"by": "vcs_short", "seed": 3}
    quotas = {"candidate_2": 11, "candidate_5": 3, "*": 2}
    expected = of_each(
        rows, lambda row: row.system, {f"candidate_{n}": quotas.get(f"candidate_{n}", 2) for n in range(7)}
    )
    chosen = select(real, real.vatex, **by, per="system", quotas=quotas)
    assert taken(real, chosen) == by_rank(ranked, expected)

    def band(row: Row) -> str:
        if row.start is None:
            return "none"
        return "below 10" if row.start < 10 else "10 to 60" if row.start < 60 else "60 and more"

    quotas = {"none": 4, "10 to 60": 9, "*": 5}
    per = {"per": "extra_start", "bands": [10, 60], "quotas": quotas}
    expected = of_each(rows, band, {"none": 4, "10 to 60": 9, "below 10": 5, "60 and more": 5})
    assert len(expected) == 23
    assert taken(real, select(real, real.vatex, **by, **per)) == by_rank(ranked, expected)
    # One of each video: near-equal captions of six systems.
    one_each = select(real, real.vatex, **by, per="video", quotas={"*": 1})
    expected = of_each(rows, lambda row: row.video, {row.video: 1 for row in rows})
    assert taken(real, one_each) == by_rank(ranked, expected)


def test_near_duplicates_by_a_plain_walk(real: Real) -> None:
    rows = best(captions(real), lambda row: row.vcs_short)
    units = np.stack([real.encoder.vector(row.text) for row in rows]).astype(np.float64)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    kept: list[int] = []
    for place, unit in enumerate(units):
        cosines = units[kept] @ unit
        if not (cosines >= 0.9 - 1e-6).any():
            kept.append(place)
    chosen = select(real, real.vatex, by="vcs_short", dedupe=0.9, keep=1.0)
    assert taken(real, chosen) == keys(rows[place] for place in kept)
    assert chosen.n_duplicates == len(rows) - len(kept) > 5


def test_diverse_picks_are_the_farthest(real: Real) -> None:
    rows = best(captions(real), lambda row: row.vcs_short)
    place_of = {row.key: place for place, row in enumerate(rows)}
    units = np.stack([real.encoder.vector(row.text) for row in rows]).astype(np.float64)
    picks = [place_of[key] for key in taken(real, select(real, real.vatex, by="vcs_short", choose="diverse", count=60))]
    assert picks[0] == 0
    for n in range(1, 60):
        nearest = (units @ units[picks[:n]].T).max(axis=1)
        assert nearest[picks[n]] <= nearest.min() + 1e-6


def test_random_and_stratified_draws(real: Real) -> None:
    rows = [row for row in captions(real) if row.vcs_short is not None]
    drawn = sorted(rows, key=draw(5))
    assert taken(real, select(real, real.vatex, by="vcs_short", choose="random", seed=5, count=40)) == keys(drawn[:40])
    stratified = select(real, real.vatex, by="vcs_short", choose="random", seed=5, per="system", quotas={"*": 7})
    expected = of_each(drawn, lambda row: row.system, {f"candidate_{n}": 7 for n in range(1, 7)})
    assert taken(real, stratified) == expected


# The formats that hold rows; tasks of Label Studio and keys are none.
ROWS = [form for form in ExportFormat if form not in (ExportFormat.LABEL_STUDIO, ExportFormat.KEYS)]
RECIPES: dict[str, dict[str, Any]] = {
    "best": {"by": "vcs_short", "keep": 0.5},
    "ranks": {"by": ["vcs", "vcs_short"], "count": 20, "per": "system"},
    "random of all": {"by": "n_characters", "choose": "random", "keep": 1.0},
    "no duplicates": {"by": "n_characters", "dedupe": 0.8, "keep": 1.0},
}


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("form", ROWS)
def test_every_format_says_what_the_database_says(real: Real, tmp_path: Path, form: ExportFormat, name: str) -> None:
    chosen = select(real, real.clips, **RECIPES[name])
    path = export_selection(real.engine, chosen.selection_id, tmp_path / f"out{SUFFIXES.get(form, '')}", form).path
    rows = list(LOADERS[form](path))
    expected = frozen(real, chosen)
    assert len(rows) == chosen.n == len(expected)
    for row, known in zip(rows, expected, strict=True):
        assert list(row)[: len(ORDER)] == ORDER
        assert {column: row[column] for column in known} == known


def test_texts_without_videos_in_every_format_that_needs_none(real: Real, tmp_path: Path) -> None:
    chosen = select(real, real.vatex, by="vcs_short", keep=0.5)
    expected = frozen(real, chosen)
    for form in ROWS:
        target = tmp_path / f"{form.value}{SUFFIXES.get(form, '')}"
        if form is ExportFormat.WEB_DATASET:
            with pytest.raises(SelectionError, match=r"rows of selection \d+ have no video file"):
                export_selection(real.engine, chosen.selection_id, target, form)
            continue
        export_selection(real.engine, chosen.selection_id, target, form)
        rows = list(LOADERS[form](target))
        assert [{column: row[column] for column in expected[0]} for row in rows] == expected
    assert not list(tmp_path.glob("*partial*"))
    assert not (tmp_path / "webdataset").exists()


def frozen(real: Real, chosen: Selection) -> list[dict[str, Any]]:
    """The rows of a selection as the tables have them, media relative to the folder of the clips."""
    with real.engine.connect() as connection:
        rows = connection.execute(sa.text(FROZEN), {"selection_id": chosen.selection_id}).mappings().all()
    return [dict(row) | {"media": row["media"] and Path(row["media"]).name} for row in rows]


def of_parquet(path: Path) -> list[dict[str, Any]]:
    table = pq.read_table(path)
    assert json.loads(table.schema.metadata[b"reelsieve"])["counts"]["rows"] == table.num_rows
    assert pandas.read_parquet(path)["text"].tolist() == table["text"].to_pylist()
    return from_table(table.to_pylist())


def of_json_lines(path: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    assert pandas.read_json(path, lines=True, dtype=False)["sample"].tolist() == [row["sample"] for row in rows]
    return rows


def of_csv(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = [{name: from_cell(name, cell) for name, cell in row.items()} for row in csv.DictReader(file)]
    read = pandas.read_csv(path, dtype=str, keep_default_na=False)["text"]
    assert [from_cell("text", cell) for cell in read] == [row["text"] for row in rows]
    return rows


def of_hugging_face(path: Path) -> list[dict[str, Any]]:
    import datasets

    cache = path.with_name("cache")
    rows = from_table(list(datasets.load_dataset(str(path), split="train", cache_dir=str(cache))))
    shutil.rmtree(cache)
    return rows


def of_shards(path: Path) -> list[dict[str, Any]]:
    shards = sorted(str(shard) for shard in path.glob("*.tar"))
    rows = []
    for found in webdataset.WebDataset(shards, shardshuffle=False):
        row = json.loads(found["json"])
        assert found["txt"].decode() == row["text"]
        (media,) = [content for name, content in found.items() if name in ("mp4", "mkv", "webm", "avi", "mov")]
        assert hashlib.sha256(media).hexdigest() == row["content_sha256"]
        rows.append(row)
    return rows


SUFFIXES = {ExportFormat.PARQUET: ".parquet", ExportFormat.JSON_LINES: ".jsonl", ExportFormat.CSV: ".csv"}
LOADERS: Mapping[ExportFormat, Callable[[Path], list[dict[str, Any]]]] = {
    ExportFormat.PARQUET: of_parquet,
    ExportFormat.JSON_LINES: of_json_lines,
    ExportFormat.CSV: of_csv,
    ExportFormat.WEB_DATASET: of_shards,
    ExportFormat.HUGGING_FACE: of_hugging_face,
}
