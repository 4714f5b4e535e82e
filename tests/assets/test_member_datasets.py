"""Datasets whose videos lie in tar files: the same rows, facts and exports as of files, and nothing written for it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
import webdataset
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.engine import Engine

from assets.ingest.rows import VideoRow
from assets.ingest.run import ingest_folder
from assets.media.files import hold_ingested_file
from assets.metrics.video_material import FramesMaterial
from assets.new_manifest.make import create_manifest
from assets.planning.unstored_samples import inspect_unstored_video
from assets.reports.thumbnails import read_thumbnails
from assets.selection.export import export_selection
from assets.selection.export_target import ExportFormat
from assets.selection.formats.shard_keys import find_sample_key
from assets.sources.facts import measure_videos
from assets.sources.frames import SampledFrames
from db.manifest.datasets import Dataset
from db.manifest.removal import delete_dataset
from db.reports.samples import find_video
from db.selection.recipes import SelectionError, parse_recipe
from metrics_core.file_hash import compute_file_sha256
from metrics_core.frames.features import FrameEncoder
from metrics_core.qeva.records import VideoAsFrames
from tests.assets.exporting import read_documented
from tests.assets.init_sources import shard
from tests.assets.manifests import candidate, write_clip, write_manifest
from tests.assets.verifying import dataset_of
from tests.db.builders import set_scores
from tests.db.freezing import freeze_recipe
from tests.metrics_core.test_frames_encoding import MeanColour

N = 6


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    folder = tmp_path_factory.mktemp("clips")
    return {
        f"{n}.avi": write_clip(folder / f"{n}.avi", n_frames=6 + n, brightness=60 + n).read_bytes() for n in range(N)
    }


@pytest.fixture
def shards(tmp_path: Path, clips: Mapping[str, bytes]) -> Path:
    """A folder of two tar files with three captioned clips."""
    folder = tmp_path / "shards"
    for number in range(2):
        names = list(clips)[3 * number : 3 * number + 3]
        members = [(n, c) for name in names for n, c in ((name, clips[name]), (f"{name[0]}.txt", f"Clip {name[0]}."))]
        shard(folder / "deep" / f"s{number}.tar", members)
    return folder


def ingested(engine: Engine, folder: Path, name: str = "mine") -> Dataset:
    report = ingest_folder(engine, folder, name, n_shards=1)
    assert report.rejected == 0
    return dataset_of(engine, name)


def shown(engine: Engine, query: str, **values: Any) -> list[dict[str, Any]]:
    with engine.connect() as connection:
        return [dict(row) for row in connection.execute(sa.text(query), values).mappings()]


def measured(engine: Engine, dataset: Dataset) -> list[dict[str, Any]]:
    assert measure_videos(engine, dataset, 0, lambda _: None) == N
    query = "SELECT v.content_sha256, f.* FROM video v JOIN video_fact f USING (video_id) WHERE v.dataset_id = :id"
    rows = shown(engine, query, id=dataset.dataset_id)
    facts = [{name: value for name, value in row.items() if name not in ("video_id", "measured_at")} for row in rows]
    return sorted(facts, key=lambda row: bytes(row["content_sha256"]))


def measured_as_files(engine: Engine, folder: Path, clips: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """The facts of the clips as files of this folder; the dataset that had them elsewhere is gone then."""
    folder.mkdir()
    for name, data in clips.items():
        (folder / name).write_bytes(data)
    videos = [{"video_id": name, "path": name} for name in clips]
    captions = [candidate(name, name, f"Clip {name[0]}.") for name in clips]
    with engine.begin() as connection:
        delete_dataset(connection, dataset_of(engine, "mine"))
    return measured(engine, ingested(engine, write_manifest(folder, videos, captions=captions), "files"))


def test_ingest_and_facts_are_those_of_files(
    engine: Engine, shards: Path, clips: Mapping[str, bytes], tmp_path: Path
) -> None:
    before = {path: path.stat().st_mtime_ns for path in shards.rglob("*.tar")}
    in_tars = measured(engine, ingested(engine, create_manifest(shards).folder))
    uris = {row["uri"] for row in shown(engine, "SELECT uri FROM video")}
    assert uris == {f"tar://{shards}/deep/s{int(name[0]) // 3}.tar#{name}" for name in clips}
    assert {path.suffix for path in shards.rglob("*") if path.is_file()} == {".tar", ".jsonl"}
    assert {path: path.stat().st_mtime_ns for path in shards.rglob("*.tar")} == before
    assert in_tars == measured_as_files(engine, tmp_path / "files", clips)
    assert all(row["status"] == "ok" for row in in_tars)


def test_frames_and_their_vectors_are_those_of_files(shards: Path, clips: Mapping[str, bytes], tmp_path: Path) -> None:
    source = SampledFrames(FrameEncoder(MeanColour(), every=2, cap=4), lambda sample: True, ())
    frames = FramesMaterial(4, 224)
    for number, (name, data) in enumerate(clips.items()):
        (tmp_path / name).write_bytes(data)
        seen = []
        for folder, path in ((shards, f"tar://deep/s{number // 3}.tar#{name}"), (tmp_path, name)):
            inspected = inspect_unstored_video(folder, VideoRow(video_id="v", path=path), 7)
            assert isinstance(inspected, tuple)
            videos = inspected[1]
            sample: Any = SimpleNamespace(video_id=7)
            features = source.ask([sample], lambda _, videos=videos: videos, {})[7]
            shown_frames = frames.load(lambda _, videos=videos: videos, [sample], [7])[7]
            seen.append((features.features.tolist(), features.times_s, features.status, shown_frames))
        assert seen[0] == seen[1]
        assert seen[0][2] == "ok"
        assert isinstance(seen[0][3], VideoAsFrames)


def test_a_manifest_elsewhere_names_the_root_of_the_tar_files(
    engine: Engine, shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = create_manifest(shards, tmp_path / "elsewhere")
    assert made.new_root == ("shards", shards)
    monkeypatch.setenv("REELSIEVE_MEDIA_ROOTS", json.dumps({"shards": str(shards)}))
    dataset = ingested(engine, made.folder)
    uris = [row["uri"] for row in shown(engine, "SELECT uri FROM video ORDER BY key")]
    assert uris[0] == "tar://root://shards/deep/s0.tar#0.avi"
    assert len(measured(engine, dataset)) == len(uris) == N


def test_a_second_ingest_changes_nothing_and_a_rewritten_tar_file_its_rows(
    engine: Engine, shards: Path, clips: Mapping[str, bytes]
) -> None:
    folder = create_manifest(shards).folder
    dataset = ingested(engine, folder)
    before = shown(engine, "SELECT * FROM video ORDER BY key")
    report = ingest_folder(engine, folder, "mine")
    assert (report.rejected, shown(engine, "SELECT * FROM video ORDER BY key")) == (0, before)
    ids = {row["video"]: row["sample_id"] for row in shown(engine, "SELECT sample_id, key AS video FROM sample")}
    set_scores(engine, dict.fromkeys(ids.values(), 0.5), metric="evqa")
    members = [("0.avi", clips["0.avi"]), ("1.avi", clips["5.avi"]), ("2.avi", clips["2.avi"])]
    shard(shards / "deep" / "s0.tar", [("first.txt", "x" * 2000), *members])
    ingested(engine, folder)
    after = shown(engine, "SELECT * FROM video ORDER BY key")
    changed = [b["key"] for b, a in zip(before, after, strict=True) if b["content_sha256"] != a["content_sha256"]]
    moved = [b["key"] for b, a in zip(before, after, strict=True) if b["member_offset"] != a["member_offset"]]
    assert (changed, moved) == (["deep/s0/1"], ["deep/s0/0", "deep/s0/1", "deep/s0/2"])
    query = "SELECT key FROM score JOIN sample USING (sample_id) WHERE is_stale"
    assert [row["key"] for row in shown(engine, query)] == ["deep/s0/1__captions"]
    assert dataset.name == "mine"


def test_pictures_and_ranges_of_a_member(engine: Engine, shards: Path, clips: Mapping[str, bytes]) -> None:
    dataset = ingested(engine, create_manifest(shards).folder)
    (row,) = shown(engine, "SELECT video_id FROM video WHERE key = 'deep/s1/4'")
    with engine.connect() as connection:
        video = find_video(connection, dataset.dataset_id, row["video_id"])
    assert video is not None
    pictures, reason = read_thumbnails(video)
    assert (len(pictures), reason) == (4, None)
    with hold_ingested_file(SimpleNamespace(**{**video, "key": video["video"]})) as held:
        assert held.path.read_bytes() == clips["4.avi"]


def chosen(engine: Engine, dataset: Dataset) -> int:
    ids = [row["sample_id"] for row in shown(engine, "SELECT sample_id FROM sample ORDER BY key")]
    set_scores(engine, {sample_id: place / 10 for place, sample_id in enumerate(reversed(ids))})
    with engine.begin() as connection:
        return freeze_recipe(connection, dataset, parse_recipe({"by": "vcs", "keep": 1.0})).selection_id


def test_an_export_has_the_members_and_no_folder_of_this_machine(
    engine: Engine, shards: Path, clips: Mapping[str, bytes], tmp_path: Path
) -> None:
    selection = chosen(engine, ingested(engine, create_manifest(shards).folder))
    done = export_selection(engine, selection, tmp_path / "wds", ExportFormat.WEB_DATASET)
    assert done.media_root == str(shards / "deep")
    samples = list(webdataset.WebDataset([str(tmp_path / "wds" / "shard-000000.tar")], shardshuffle=False).decode())
    assert [sample["avi"] for sample in samples] == list(clips.values())
    assert [sample["json"]["media"] for sample in samples] == [f"tar://s{int(n[0]) // 3}.tar#{n}" for n in clips]
    assert all(hashlib.sha256(sample["avi"]).hexdigest() == sample["json"]["content_sha256"] for sample in samples)
    lines = export_selection(engine, selection, tmp_path / "rows.jsonl").path.read_text()
    assert str(tmp_path) not in lines
    with engine.begin() as connection:
        delete_dataset(connection, dataset_of(engine, "mine"))
    again = export_selection(engine, selection, tmp_path / "again", ExportFormat.WEB_DATASET).path
    (tar,) = again.glob("*.tar")
    assert [s["avi"] for s in webdataset.WebDataset([str(tar)], shardshuffle=False).decode()] == list(clips.values())
    shard(shards / "deep" / "s1.tar", [("3.avi", clips["0.avi"])])
    with pytest.raises(SelectionError, match=r"row 4, .*: the file has changed since it was ingested"):
        export_selection(engine, selection, tmp_path / "third", ExportFormat.WEB_DATASET)


def test_the_keys_of_a_selection_read_it_out_of_the_shards(
    engine: Engine, shards: Path, clips: Mapping[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = ingested(engine, create_manifest(shards).folder)
    ids = {row["key"]: row["sample_id"] for row in shown(engine, "SELECT sample_id, key FROM sample")}
    set_scores(engine, {sample_id: float(key[6:9] in ("0/2", "0/0", "1/4")) for key, sample_id in ids.items()})
    with engine.begin() as connection:
        selection = freeze_recipe(connection, dataset, parse_recipe({"by": "vcs", "count": 3})).selection_id
    done = export_selection(engine, selection, tmp_path / "best.keys")
    assert (done.form, done.media_root) == (ExportFormat.KEYS, str(shards / "deep"))
    assert done.path.read_text() == '{"tar": "s0.tar", "keys": ["0", "2"]}\n{"tar": "s1.tar", "keys": ["4"]}\n'
    passport_text = (tmp_path / "best.keys.passport.json").read_text()
    assert str(tmp_path) not in passport_text
    passport = json.loads(passport_text)
    assert passport["files"] == [
        {"name": path.name, "bytes": path.stat().st_size, "sha256": compute_file_sha256(path).hex()}
        for path in (done.path, tmp_path / "best.keys.parquet")
    ]
    assert (passport["format"], passport["counts"]["rows"]) == ("keys", 3)
    load_selection = read_documented("Keys of shards")["load_selection"]
    loaded = list(load_selection(str(done.path), str(shards / "deep")).decode())
    assert [(sample["__key__"], sample["avi"], sample["txt"]) for sample in loaded] == [
        (key, clips[f"{key}.avi"], f"Clip {key}.") for key in ("0", "2", "4")
    ]
    # As the tar files of a named root are written.
    rooted = tmp_path / "rooted.keys"
    rooted.write_text(done.path.read_text().replace('"s', '"root://clips/deep/s'))
    monkeypatch.setenv("REELSIEVE_MEDIA_ROOTS", json.dumps({"clips": str(shards)}))
    assert [sample["__key__"] for sample in load_selection(str(rooted), "")] == ["0", "2", "4"]
    ranges = pq.read_table(tmp_path / "best.keys.parquet")
    found = [(row["tar"], row["key"], row["member"], row["text"]) for row in ranges.to_pylist()]
    assert found == [(f"s{int(key) // 3}.tar", key, f"{key}.avi", f"Clip {key}.") for key in ("0", "2", "4")]
    in_deep = {tar.name: tar.read_bytes() for tar in (shards / "deep").iterdir()}
    assert [in_deep[row["tar"]][row["offset"] :][: row["size"]] for row in ranges.to_pylist()] == [
        clips[f"{key}.avi"] for key in ("0", "2", "4")
    ]
    load_ranges = read_documented("Ranges of shards")["load_ranges"]
    read = list(load_ranges(str(tmp_path / "best.keys.parquet"), str(shards / "deep")).compose(webdataset.decode()))
    assert read == [
        {name: sample[name] for name in ("__key__", "avi", "txt")} | {"__url__": f"s{int(sample['__key__']) // 3}.tar"}
        for sample in loaded
    ]
    # A second export replaces what a killed one left.
    done.path.unlink()
    assert export_selection(engine, selection, tmp_path / "best.keys").path == done.path


def test_keys_need_videos_in_tar_files(engine: Engine, shards: Path, tmp_path: Path) -> None:
    folder = create_manifest(shards).folder
    with (folder / "videos.jsonl").open("a") as file:
        file.write(json.dumps({"video_id": "text"}) + "\n")
    with (folder / "captions.jsonl").open("a") as file:
        file.write(json.dumps(candidate("c", "text", "Only text.")) + "\n")
    selection = chosen(engine, ingested(engine, folder))
    with pytest.raises(SelectionError, match=r"^the videos of 1 of the 7 rows are in no tar file"):
        export_selection(engine, selection, tmp_path / "best.keys")
    assert not list(tmp_path.glob("best*"))


def test_places_of_files_that_the_dataset_no_longer_has_are_unknown(
    engine: Engine, shards: Path, clips: Mapping[str, bytes], tmp_path: Path
) -> None:
    folder = create_manifest(shards).folder
    selection = chosen(engine, ingested(engine, folder))
    members = [("0.avi", clips["0.avi"]), ("1.avi", clips["5.avi"]), ("2.avi", clips["2.avi"])]
    shard(shards / "deep" / "s0.tar", [("first.txt", "x" * 2000), *members])
    dataset = ingested(engine, folder)
    refused = r"^the dataset no longer has the files of {} of the 6 rows.*select again, or use --format webdataset$"
    with pytest.raises(SelectionError, match=refused.format(1)):
        export_selection(engine, selection, tmp_path / "best.keys")
    with engine.begin() as connection:
        delete_dataset(connection, dataset)
    with pytest.raises(SelectionError, match=refused.format(6)):
        export_selection(engine, selection, tmp_path / "best.keys")
    assert not list(tmp_path.glob("best*"))


def test_a_key_that_another_video_has_too_is_refused(
    engine: Engine, clips: Mapping[str, bytes], tmp_path: Path
) -> None:
    names = ("a.b/22.05.avi", "a.b/22.06.avi", "a.b/23.avi", "22.05.avi")
    data = list(clips.values())
    texts = [(f"{name[:-4]}.txt", f"Clip {name}.") for name in names]
    shard(tmp_path / "s" / "s0.TAR", sorted([*zip(names, data, strict=False), *texts], key=itemgetter(0)))
    shard(tmp_path / "s" / "s1.tar", [("22.06.avi", data[4]), ("22.06.txt", "Of another shard.")])
    dataset = ingested(engine, create_manifest(tmp_path / "s").folder)
    set_scores(engine, {row["sample_id"]: 0.5 for row in shown(engine, "SELECT sample_id FROM sample")})

    def export(of: str, to: str) -> str:
        recipe = parse_recipe({"by": "vcs", "keep": 1.0, "where": f"video LIKE '{of}'"})
        with engine.begin() as connection:
            selection = freeze_recipe(connection, dataset, recipe).selection_id
        return export_selection(engine, selection, tmp_path / to).path.read_text()

    refused = r"^s0.TAR: a\.b/22\.06\.avi is selected and a\.b/22\.05\.avi is not.* key 'a\.b/22'.*--format webdataset"
    with pytest.raises(SelectionError, match=refused):
        export("%a.b/22.06", "one.keys")
    assert not (tmp_path / "one.keys").exists()
    assert '"keys": ["a.b/22"]' in export("%a.b/22%", "both.keys")
    assert export("s0/22%", "outer.keys") == '{"tar": "s0.TAR", "keys": ["22"]}\n'


@given(
    st.lists(
        st.text(
            st.characters(codec="ascii", categories=["L", "N"], include_characters="./ _-"), min_size=1, max_size=20
        )
    )
)
def test_keys_are_those_of_the_webdataset_package(names: list[str]) -> None:
    for name in names:
        base, extension = webdataset.tariterators.base_plus_ext(name)
        if base and extension:
            assert find_sample_key(name) == base


def test_bad_members_cost_their_own_rows(engine: Engine, shards: Path, clips: Mapping[str, bytes]) -> None:
    folder = create_manifest(shards).folder
    whole = (shards / "deep" / "s1.tar").read_bytes()
    (shards / "deep" / "s1.tar").write_bytes(whole[: len(clips["3.avi"]) + 1024])
    videos = [json.loads(line) for line in (folder / "videos.jsonl").read_text().splitlines()]
    report = ingest_folder(engine, folder, "mine", n_shards=1)
    stored = {row["key"] for row in shown(engine, "SELECT key FROM video")}
    rejects = shown(engine, "SELECT code, reason FROM ingest_reject WHERE source = 'videos.jsonl'")
    assert len(stored) + len(rejects) == len(videos) == N
    assert stored == {"deep/s0/0", "deep/s0/1", "deep/s0/2", "deep/s1/3"}
    assert report.rejected == len(rejects) + 2, "and the captions of these videos"
    assert all(row["reason"].startswith("field 'path' is 'tar://deep/s1.tar#") for row in rejects)
