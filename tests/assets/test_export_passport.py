"""The passport: what it says, that every format carries it, and that nothing of the machine stands in an export."""

from __future__ import annotations

import json
import re
import tarfile
import tempfile
from dataclasses import replace
from datetime import datetime, timezone
from html import escape
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
import yaml
from markdown_it import MarkdownIt
from sqlalchemy.engine import Engine

from assets.selection.export import export_selection
from assets.selection.export_target import ExportFormat
from assets.selection.formats.hugging_face import format_dataset_card
from assets.selection.select import make_selection
from db import schema
from db.scores.store import register_scorer
from db.selection.recipes import parse_recipe
from metrics_core.file_hash import compute_file_sha256
from tests.assets.exporting import TEXTS, Clips, make_clips
from tests.conftest import Template, filled_template
from tests.db.builders import (
    add_sample,
    add_video,
    change_text,
    keypoint_threshold_row,
    make_dataset,
    remove,
    set_scores,
    store_label_thresholds,
    store_threshold,
)
from tests.db.freezing import freeze_recipe

template = filled_template(lambda engine: make_clips(engine, Path(tempfile.mkdtemp())))


@pytest.fixture(scope="module")
def away(module_engine: Engine, template: Template[Clips]) -> Clips:
    """Clips whose scorer has a local model, and a parameter that is a path; their selection comes after that."""
    clips = template.filled
    models = {"encoder": {"model_id": "/home/ann/models/tiny", "revision": "sha256:0"}}
    with module_engine.begin() as connection:
        change = sa.update(schema.scorer).where(schema.scorer.c.metric == "vcs")
        connection.execute(change.values(models=models, params={"folder": "/home/ann/x", "prompt": "a /b/ c"}))
    with module_engine.begin() as connection:
        chosen = freeze_recipe(
            connection, clips.dataset, parse_recipe({"by": "vcs", "keep": 0.9, "kind": "all"})
        ).selection_id
    return replace(clips, selection_id=chosen)


def passport(engine: Engine, selection_id: int, folder: Path) -> dict[str, Any]:
    path = export_selection(engine, selection_id, folder / "p.parquet", replace=True).path
    return dict(json.loads(pq.read_schema(path).metadata[b"reelsieve"]))


def test_it_names_selection_recipe_scorers_and_counts(engine: Engine, clips: Clips, tmp_path: Path) -> None:
    before = datetime.now(timezone.utc)
    found = passport(engine, clips.selection_id, tmp_path)
    with engine.connect() as connection:
        stored = connection.execute(sa.select(schema.selection)).mappings().one()
    assert found["selection"] == {
        "selection_id": stored["selection_id"],
        "dataset": "clips",
        "n": len(TEXTS),
        "cutoff": stored["cutoff"],
        "promise": None,
        "identities": {"sha256": len(TEXTS)},
        "score_hash": stored["score_hash"],
        "n_eligible": len(TEXTS),
        "n_duplicates": 0,
        "n_tied": 1,
        "n_tied_left": 0,
        "unjudged": {},
        "created_at": stored["created_at"].isoformat(),
    }
    assert found["recipe"] == stored["spec"]
    assert found["recipe"]["where"] == "system != '; \"--'"
    vcs = next(scorer for scorer in found["scorers"] if scorer["metric"] == "vcs")
    assert vcs["fingerprint"] == stored["spec"]["scorer"]
    assert (vcs["models"], vcs["params"], vcs["code_version"]) == ({"encoder": {"model_id": "tiny"}}, {}, "1")
    assert [(scorer["metric"], scorer["is_certain"]) for scorer in found["scorers"]] == [("vcs", True), ("evqa", True)]
    assert found["counts"] == {
        "rows": 12,
        "videos": 12,
        "rows_without_media": 0,
        "samples_gone_since": 0,
        "samples_changed_since": 0,
        "rows_by_system": [
            {"kind": "caption", "system": "brief", "rows": 11},
            {"kind": "qa", "system": "brief", "rows": 1},
        ],
    }
    assert before <= datetime.fromisoformat(found["exported_at"]) <= datetime.now(timezone.utc)
    assert found["format"] == "parquet"
    columns = pq.read_schema(tmp_path / "p.parquet").names
    assert list(found["columns"]) == columns


def test_it_counts_samples_that_changed_or_went_since(engine: Engine, clips: Clips, tmp_path: Path) -> None:
    change_text(engine, clips.samples[1], "another text")
    change_text(engine, clips.samples[2], "another text")
    remove(engine, schema.sample, clips.samples[3])
    counts = passport(engine, clips.selection_id, tmp_path)["counts"]
    assert (counts["rows"], counts["samples_changed_since"], counts["samples_gone_since"]) == (12, 2, 1)
    rows = pq.read_table(tmp_path / "p.parquet").to_pylist()
    assert [row["text"] for row in rows] == list(TEXTS), "the frozen texts"
    assert rows[3]["segments"] is None, "the sample is gone"


def test_a_richer_recipe_and_a_new_column_stand_in_it_as_they_are(engine: Engine, clips: Clips, tmp_path: Path) -> None:
    recipe = {"quotas": {"system": {"brief": 3}}, "steps": [{"dedupe": 0.95}], "note": "/not/a/model"}
    with engine.begin() as connection:
        connection.execute(sa.update(schema.selection).values(spec=recipe))
    assert passport(engine, clips.selection_id, tmp_path)["recipe"] == recipe


def test_a_recipe_over_several_metrics_makes_their_scorers_certain(
    engine: Engine, clips: Clips, tmp_path: Path
) -> None:
    set_scores(engine, {sample: sample / 100 for sample in clips.samples}, metric="evqa", version="2")
    with engine.begin() as connection:
        twin = {"encoder": {"model_id": "tiny"}}
        register_scorer(connection, metric="evqa", models=twin, params={"lct": 1}, code_version="2")
    recipe = parse_recipe(
        {"by": {"vcs": 2, "evqa": 1}, "per": "system", "quotas": {"brief": 5}, "at_least": {"vcs": 0.1}}
    )
    chosen = make_selection(engine, clips.dataset, recipe, no_encoder, lambda line: None)
    found = passport(engine, chosen.selection_id, tmp_path)
    assert found["recipe"]["by"] == {"vcs": 2, "evqa": 1}
    assert found["recipe"]["quotas"] == {"brief": 5}
    assert [(scorer["metric"], scorer["code_version"], scorer["params"]) for scorer in found["scorers"]] == [
        ("vcs", "1", {}),
        ("evqa", "2", {}),
    ]
    assert all(scorer["is_certain"] for scorer in found["scorers"])
    rows = pq.read_table(tmp_path / "p.parquet").to_pylist()
    assert [row["rank"] for row in rows] == [1, 2, 3, 4, 5]
    assert all(row["vcs"] >= 0.1 and row["evqa"] is not None for row in rows)


def no_encoder() -> Any:
    raise AssertionError("this recipe compares no texts")


def test_a_scorer_that_cannot_be_told_from_another_is_not_certain(engine: Engine, clips: Clips, tmp_path: Path) -> None:
    """Of metrics that a recipe does not name, a selection keeps the names of the models alone."""
    same = {"encoder": {"model_id": "tiny"}}
    with engine.begin() as connection:
        register_scorer(connection, metric="vcs", models=same, params={"lct": 1}, code_version="1")
        register_scorer(connection, metric="evqa", models=same, params={"lct": 1}, code_version="1")
    with engine.begin() as connection:
        chosen = freeze_recipe(
            connection, clips.dataset, parse_recipe({"by": "vcs", "keep": 0.5, "kind": "all"})
        ).selection_id
    with engine.begin() as connection:
        register_scorer(connection, metric="evqa", models=same, params={"lct": 2}, code_version="1")
        register_scorer(connection, metric="evqa", models={"e": {"model_id": "huge"}}, params={}, code_version="1")
    scorers = passport(engine, chosen, tmp_path)["scorers"]
    assert [(scorer["metric"], scorer["params"], scorer["is_certain"]) for scorer in scorers] == [
        ("vcs", {}, True),
        ("evqa", {}, False),
        ("evqa", {"lct": 1}, False),
    ]


def test_it_has_the_thresholds_of_its_scorers(engine: Engine, clips: Clips, tmp_path: Path) -> None:
    with engine.begin() as connection:
        common = {"dataset_id": clips.dataset.dataset_id, "method": "quantile", "objective": "keep 0.125", "n": 12}
        store_threshold(connection, scorer_id=1, value=0.25, **common)
        other = register_scorer(connection, metric="ecs", models={}, params={}, code_version="1")
        store_threshold(connection, scorer_id=other, value=0.5, **common)
        in_force = keypoint_threshold_row("events", 0.5, 40, 13)
        store_label_thresholds(connection, 1, clips.dataset.dataset_id, [in_force, {**in_force, "shard": 0}])
    found = passport(engine, clips.selection_id, tmp_path)
    (cut,), (threshold,) = found["score_thresholds"], found["keypoint_thresholds"]
    assert (cut["scorer_id"], cut["method"], cut["objective"]) == (1, "quantile", "keep 0.125")
    assert (cut["at_least"], cut["n"], cut["low"], cut["n_good"]) == (0.25, 12, None, None)
    assert (threshold["scorer_id"], threshold["dimension"], threshold["objective"]) == (1, "events", "f1")
    assert (threshold["threshold"], threshold["n"], threshold["n_positive"]) == (0.5, 40, 13)


@pytest.mark.parametrize("form", [form for form in ExportFormat if form is not ExportFormat.KEYS])
def test_every_format_carries_it(module_engine: Engine, away: Clips, tmp_path: Path, form: ExportFormat) -> None:
    whole = passport(module_engine, away.selection_id, tmp_path)
    path = export_selection(module_engine, away.selection_id, tmp_path / "x", form).path
    found = carried(path, form)
    varying = ("format", "exported_at", "files")
    assert {name: value for name, value in found.items() if name not in varying} == {
        name: value for name, value in whole.items() if name not in varying
    }
    assert found["format"] == form.value


def carried(path: Path, form: ExportFormat) -> dict[str, Any]:
    """The passport where the format has it."""
    if form is ExportFormat.PARQUET:
        return dict(json.loads(pq.read_schema(path).metadata[b"reelsieve"]))
    if form is ExportFormat.WEB_DATASET:
        return dict(json.loads((path / "passport.json").read_text()))
    if form is ExportFormat.HUGGING_FACE:
        card = (path / "README.md").read_text()
        inside = dict(json.loads(card.split("```json\n")[1].split("```")[0]))
        assert inside == json.loads((path / "passport.json").read_text())
        return inside
    found = json.loads(path.with_name("x.passport.json").read_text())
    assert found["files"] == [{"name": "x", "bytes": path.stat().st_size, "sha256": compute_file_sha256(path).hex()}]
    return dict(found)


def test_the_header_of_a_dataset_card_is_yaml_whatever_a_recipe_says(
    engine: Engine, clips: Clips, tmp_path: Path
) -> None:
    with engine.begin() as connection:
        recipe = {"where": "text != '```\n---\n# heading'", "name": "---\n: {"}
        connection.execute(sa.update(schema.selection).values(spec=recipe))
    path = export_selection(engine, clips.selection_id, tmp_path / "hf", ExportFormat.HUGGING_FACE).path
    assert carried(path, ExportFormat.HUGGING_FACE)["recipe"] == recipe
    header = yaml.safe_load((path / "README.md").read_text().split("---\n")[1])
    assert header["pretty_name"] == f"clips, selection {clips.selection_id}"
    assert header["size_categories"] == ["n<1K"]
    assert header["configs"] == [
        {"config_name": "default", "data_files": [{"split": "train", "path": "data/train-*.parquet"}]}
    ]


def test_a_licence_is_no_markdown_in_a_dataset_card() -> None:
    licence = "![x](http://h/a.png) <b>`*_|&amp; CC-BY-4.0"
    rows = [{"licence": licence, "rows": 1, "videos": 1}]
    shown = {"licences": rows, "rows_without_source": 0, "rows_opted_out": 0}
    passport: dict[str, Any] = {"origins": shown, "columns": {}, "reelsieve": "1", "exported_at": "now"}
    passport |= {"counts": {"rows": 1, "videos": 1}, "selection": {"dataset": "d", "selection_id": 1}}
    card = format_dataset_card(passport)
    origin = card.split("## Origin")[1].split("`croissant.json`")[0]
    html = MarkdownIt("commonmark").render(origin)
    assert escape(f"{licence} (1 row)", quote=False) in html
    assert re.findall("<(?!/?p>)", html) == []


def test_croissant_describes_files_columns_and_licences(engine: Engine, clips: Clips, tmp_path: Path) -> None:
    path = export_selection(engine, clips.selection_id, tmp_path / "hf", ExportFormat.HUGGING_FACE).path
    found = json.loads((path / "croissant.json").read_text())
    assert (found["@type"], found["conformsTo"]) == ("sc:Dataset", "http://mlcommons.org/croissant/1.1")
    assert found["license"] == ["=CC-BY-4.0"]
    assert {"url", "creator"}.isdisjoint(found), "nobody knows them"
    file, files = found["distribution"]
    parquet = path / file["contentUrl"]
    assert (file["@type"], files["@type"]) == ("cr:FileObject", "cr:FileSet")
    assert file["sha256"] == compute_file_sha256(parquet).hex()
    assert file["contentSize"] == f"{parquet.stat().st_size} B"
    assert list(path.glob(files["includes"])) == [parquet]
    assert files["name"], "readers refuse a file set without a name"
    assert {found["@context"][term] for term in ("@vocab", "sc")} == {"https://schema.org/"}, "readers compare with it"
    (rows,) = found["recordSet"]
    schema_of_file = pq.read_schema(parquet)
    assert [field["source"]["extract"]["column"] for field in rows["field"]] == schema_of_file.names
    ids = [part["@id"] for part in (*found["distribution"], rows, *rows["field"])]
    assert len(set(ids)) == len(ids)
    assert rows["key"]["@id"] in ids
    assert {field["source"]["fileSet"]["@id"] for field in rows["field"]} == {files["@id"]}
    types = {field["name"]: (field["dataType"], field.get("isArray", False)) for field in rows["field"]}
    shown = ("rank", "value", "opt_out", "licence", "references")
    assert [types[name] for name in shown] == [
        ("sc:Integer", False),
        ("sc:Float", False),
        ("sc:Boolean", False),
        ("sc:Text", False),
        ("sc:Text", True),
    ]
    # Every name that is no term of JSON-LD or schema.org is declared.
    used = {name for part in (file, files, rows, *rows["field"]) for name in part}
    schema_org = {"name", "description", "contentUrl", "contentSize", "encodingFormat", "sha256"}
    assert {name for name in used if not name.startswith("@")} - schema_org <= found["@context"].keys()
    card = (path / "README.md").read_text()
    sentences = "Licences of the videos: =CC-BY-4.0 (6 rows), none known (6 rows). 1 row has a video whose owner asked"
    assert sentences in card
    assert sentences in found["description"]


@pytest.mark.parametrize("form", [form for form in ExportFormat if form is not ExportFormat.KEYS])
def test_no_path_of_the_machine_stands_in_an_export(
    module_engine: Engine, away: Clips, tmp_path: Path, form: ExportFormat
) -> None:
    done = export_selection(module_engine, away.selection_id, tmp_path / "out", form)
    assert done.media_root == str(away.media)
    scorers = [scorer for scorer in carried_anywhere(done.path, form)["scorers"] if scorer["metric"] == "vcs"]
    assert scorers[0]["models"] == {"encoder": {"model_id": "tiny", "revision": "sha256:0"}}
    assert scorers[0]["params"] == {"folder": "x", "prompt": "a /b/ c"}
    for content in contents(done.path):
        assert b"/home/ann" not in content
        assert str(tmp_path).encode() not in content
        assert str(away.media).encode() not in content


def carried_anywhere(path: Path, form: ExportFormat) -> dict[str, Any]:
    beside = path.with_name(f"{path.name}.passport.json")
    return dict(json.loads(beside.read_text())) if beside.exists() else carried(path, form)


def contents(path: Path) -> list[bytes]:
    """All that stands in the files of an export, uncompressed."""
    files = (
        [path, *path.parent.glob(f"{path.name}.*")] if path.is_file() else [f for f in path.rglob("*") if f.is_file()]
    )
    found = []
    for file in files:
        if file.read_bytes()[:4] == b"PAR1":
            found += [repr(pq.read_table(file).to_pylist()).encode(), repr(pq.read_schema(file).metadata).encode()]
        else:
            assert not tarfile.is_tarfile(file) or file.suffix == ".tar"
            found.append(file.read_bytes())
    return found


def test_media_addresses_are_relative_to_the_root_of_the_whole_dataset(engine: Engine, tmp_path: Path) -> None:
    """Two selections of a dataset give a file the same address; `_` and `%` are letters like others."""
    clips = make_dataset(engine, "addresses")
    addresses = {
        "/a_b%/c/1.mp4": "c/1.mp4",
        "/a_b%/c/d/2.mp4": "c/d/2.mp4",
        "/a_b%/cd/3.mp4": "cd/3.mp4",
        "/a_b%/é/4.mp4": "é/4.mp4",
        "s3://bucket/5.mp4": "s3://bucket/5.mp4",
        "root://clips/6.mp4": "root://clips/6.mp4",
    }
    samples = {}
    for number, uri in enumerate(addresses):
        video = add_video(engine, clips, f"v{number}")
        with engine.begin() as connection:
            connection.execute(sa.update(schema.video).where(schema.video.c.video_id == video).values(uri=uri))
        samples[add_sample(engine, clips, video, f"s{number}")] = 1 - number / 10
    set_scores(engine, samples)
    for keep, n in ((1, 6), (0.34, 2)):
        with engine.begin() as connection:
            chosen = freeze_recipe(connection, clips, parse_recipe({"by": "vcs", "keep": keep})).selection_id
        done = export_selection(engine, chosen, tmp_path / f"{n}.parquet")
        assert done.media_root == "/a_b%"
        rows = pq.read_table(done.path).to_pylist()
        assert [row["media"] for row in rows] == list(addresses.values())[:n]
