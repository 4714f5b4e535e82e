"""The origin of videos: by row and by folder, stored, shown, and checked against the allowed licences."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.datasets.lookup import require_dataset
from assets.ingest.declarations import read_declarations
from assets.ingest.licences import check_licences
from assets.ingest.rejects import ManifestError, Reject
from assets.ingest.rows import RawRow, VideoRow
from assets.ingest.run import ingest_folder
from assets.ingest.validate import validate_row
from assets.media.held_video import find_held_video
from assets.media.settings import MediaSettings
from assets.new_manifest.make import create_manifest
from db.reports.summary import count_origins, load_own_numbers
from db.selection.exports import find_frozen_selection
from db.selection.holders import HeldVideo, list_holding_datasets, list_holding_selections
from db.selection.provenance import count_selection_origins
from db.selection.recipes import parse_recipe
from tests.assets.manifests import write_clip
from tests.db.builders import set_scores
from tests.db.freezing import freeze_recipe

ORIGIN = "licence, source_url, collected_at, opt_out"
ROWS: list[dict[str, Any]] = [
    {"video_id": "a", "licence": "CC0-1.0", "source_url": "https://clips.example/watch?v=a"},
    {"video_id": "b", "licence": "CC0-1.0", "collected_at": "2026-05-31", "opt_out": True},
    {"video_id": "c", "licence": "CC-BY-4.0", "collected_at": "2026-06-01T08:00:00Z", "mood": "calm"},
    {"video_id": "d"},
]


def write_folder(folder: Path, rows: list[dict[str, Any]], origin: dict[str, Any] | None = None) -> Path:
    """A manifest of text-only videos with a caption for each."""
    folder.mkdir(exist_ok=True)
    captions = [
        {"caption_id": key, "video_id": key, "role": "candidate", "system": "s", "text": "A dog."}
        for key in (row["video_id"] for row in rows)
    ]
    for name, table in (("videos", rows), ("captions", captions)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table))
    if origin is not None:
        (folder / "origin.json").write_text(json.dumps(origin))
    return folder


def held(name: str, **roots: str) -> HeldVideo:
    return find_held_video(name, MediaSettings(media_roots=roots))


def stored(engine: Engine, columns: str = f"{ORIGIN}, extra") -> dict[str, tuple[Any, ...]]:
    with engine.connect() as connection:
        rows = connection.execute(sa.text(f"SELECT key, {columns} FROM video")).all()
    return {row[0]: tuple(row[1:]) for row in rows}


def test_a_video_keeps_its_origin_apart_from_its_own_fields(engine: Engine, tmp_path: Path) -> None:
    ingest_folder(engine, write_folder(tmp_path / "m", ROWS), "clips")
    assert stored(engine) == {
        "a": ("CC0-1.0", "https://clips.example/watch?v=a", None, None, None),
        "b": ("CC0-1.0", None, "2026-05-31", True, None),
        "c": ("CC-BY-4.0", None, "2026-06-01T08:00:00Z", None, {"mood": "calm"}),
        "d": (None, None, None, None, None),
    }
    with engine.connect() as connection:
        query = "SELECT sample FROM sample_scores WHERE collected_at >= '2026-06' OR opt_out"
        assert sorted(connection.scalars(sa.text(query))) == ["b", "c"]


def test_the_folders_origin_counts_where_a_video_has_none_and_a_change_updates_all(
    engine: Engine, tmp_path: Path
) -> None:
    folder = write_folder(tmp_path / "m", ROWS, {"licence": "MIT", "collected_at": "2026-01-01", "opt_out": None})
    ingest_folder(engine, folder, "clips")
    own = {name: row[0] for name, row in stored(engine, "licence").items()}
    assert own == {"a": "CC0-1.0", "b": "CC0-1.0", "c": "CC-BY-4.0", "d": "MIT"}
    assert stored(engine, "collected_at, opt_out")["a"] == ("2026-01-01", None)
    assert ingest_folder(engine, folder, "clips").accepted["videos"] == 0
    with engine.connect() as connection:
        samples = connection.scalars(sa.text("SELECT sample_id FROM sample")).all()
    set_scores(engine, dict.fromkeys(samples, 0.5))
    (folder / "origin.json").write_text('{"licence": "ISC"}')
    assert ingest_folder(engine, folder, "clips").accepted["videos"] == 2
    assert stored(engine, "licence, collected_at") == {
        "a": ("CC0-1.0", None),
        "b": ("CC0-1.0", "2026-05-31"),
        "c": ("CC-BY-4.0", "2026-06-01T08:00:00Z"),
        "d": ("ISC", None),
    }
    with engine.connect() as connection:
        assert set(connection.scalars(sa.text("SELECT vcs_status FROM sample_scores"))) == {"ok"}, "no score is stale"


def test_a_csv_gives_the_types_of_an_origin(engine: Engine, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m", ROWS[:2])
    (folder / "videos.jsonl").unlink()
    (folder / "videos.csv").write_text("video_id,licence,opt_out\na,CC0-1.0,False\nb,,true\n")
    ingest_folder(engine, folder, "clips")
    assert stored(engine, "licence, opt_out") == {"a": ("CC0-1.0", False), "b": (None, True)}


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("licence", 4, "field 'licence' is 4: input should be a valid string"),
        ("licence", " ", "field 'licence' has no visible character: fill it in"),
        ("source_url", "clips.example/a", "is not a web address: begin it with https://"),
        ("source_url", "https://clips.example/a b", "is not a web address"),
        ("source_url", "javascript:alert(1)", "is not a web address"),
        (
            "source_url",
            "https://ann:pw@clips.example/a",
            "field 'source_url' holds a user or a password: take them out",
        ),
        ("collected_at", "31.5.2026", "is not an ISO 8601 date: write 2026-05-31"),
        ("collected_at", "2026-02-30", "is not an ISO 8601 date"),
        ("collected_at", "2026-05-31T25:00", "is not an ISO 8601 date"),
        ("collected_at", "2026-W05", "is not an ISO 8601 date"),
        ("opt_out", "yes", "field 'opt_out' is 'yes': input should be a valid boolean"),
    ],
)
def test_a_field_of_an_origin_that_means_nothing_is_refused(field: str, value: Any, sentence: str) -> None:
    checked = validate_row(RawRow("videos.jsonl", 1, "video", {"video_id": "v", field: value}, None, ""))
    assert isinstance(checked, Reject)
    assert sentence in checked.reason


@pytest.mark.parametrize(
    "moment", ["2026-05-31", "2026-05-31T18:00:00Z", "2026-05-31 18:00:00.500", "2024-02-29T00:00:00+02:00"]
)
def test_dates_of_json_and_of_parquet_are_accepted(moment: str) -> None:
    fields = {"video_id": "v", "collected_at": moment}
    assert isinstance(validate_row(RawRow("videos.jsonl", 1, "video", fields, None, "")), VideoRow)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("[]", "it is not an object"),
        ('{"licence": "Caf\u00e9"}', "byte 17 is not valid UTF-8"),
        ('{"license": "MIT"}', "'license' is not a field of an origin"),
        ('{"opt_out": "no"}', "opt_out is 'no': Input should be a valid boolean"),
        ('{"licence": "a", "licence": "b"}', "licence"),
        ("{", ""),
        (json.dumps({"licence": "x" * 70_000}), "it has more than 65536 bytes"),
        ('{"licence": "a\\u0000b"}', "NUL"),
    ],
)
def test_a_bad_origin_file_is_refused_in_one_sentence(tmp_path: Path, content: str, fault: str) -> None:
    (tmp_path / "origin.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(ManifestError) as refused:
        read_declarations(tmp_path)
    assert str(refused.value).startswith("origin.json: ")
    assert fault in str(refused.value)
    assert str(refused.value).endswith(f"give a JSON object with some of the fields {ORIGIN}")


def test_the_counts_of_the_report_are_those_of_the_rows(engine: Engine, tmp_path: Path) -> None:
    ingest_folder(engine, write_folder(tmp_path / "m", ROWS), "clips")
    ingest_folder(engine, write_folder(tmp_path / "n", [{"video_id": "x"}]), "bare")
    with engine.connect() as connection:
        found = count_origins(connection, require_dataset(engine, "clips").dataset_id)
        assert count_origins(connection, require_dataset(engine, "bare").dataset_id) is None
    assert found is not None
    assert list(found.licences.items()) == [("CC0-1.0", 2), ("CC-BY-4.0", 1), (None, 1)]
    assert found[1:] == (1, 1, "2026-05-31", "2026-06-01T08:00:00Z")


def test_own_numbers_of_videos_are_described_whatever_else_a_field_holds(engine: Engine, tmp_path: Path) -> None:
    fields: list[dict[str, Any]] = [
        {"motion": 4, "aesthetic": 2.5},
        {"motion": 1.5, "aesthetic": "high"},
        {"motion": 3, "huge": 1.75e308},
        {"motion": True, "tool": "X", "list": [1]},
    ]
    ingest_folder(
        engine, write_folder(tmp_path / "m", [{**row, **own} for row, own in zip(ROWS, fields, strict=True)]), "c"
    )
    with engine.connect() as connection:
        found = load_own_numbers(connection, require_dataset(engine, "c").dataset_id)
    assert [tuple(number) for number in found] == [("aesthetic", 1, 2.5, 2.5, 2.5), ("motion", 3, 1.5, 3.0, 4.0)]


def test_the_check_names_licences_that_are_not_allowed(engine: Engine, tmp_path: Path) -> None:
    ingest_folder(engine, write_folder(tmp_path / "m", ROWS), "clips")
    dataset = require_dataset(engine, "clips")
    assert check_licences(engine, dataset, ())[0]
    assert check_licences(engine, dataset, ("CC0-1.0",)) == (
        False,
        "2 of 4 videos lack an allowed licence: CC-BY-4.0 (1, such as c), no licence (1, such as d)",
    )
    ingest_folder(engine, write_folder(tmp_path / "m", ROWS, {"licence": "MIT"}), "clips")
    assert check_licences(engine, dataset, ("CC0-1.0", "CC-BY-4.0", "MIT"))[0]


def test_a_selection_freezes_licence_and_source_and_is_known_by_every_name(engine: Engine, tmp_path: Path) -> None:
    copies = [{"video_id": key, "path": f"{key}.mp4"} for key in "ef"]
    folder = write_folder(tmp_path / "m", [*ROWS, *copies])
    write_clip(folder / "e.mp4")
    shutil.copy(folder / "e.mp4", folder / "f.mp4")
    ingest_folder(engine, folder, "clips")
    dataset = require_dataset(engine, "clips")
    with engine.connect() as connection:
        ids = dict(map(tuple, connection.execute(sa.text("SELECT key, sample_id FROM sample"))))
    set_scores(engine, {sample_id: ord(key) / 1000 for key, sample_id in ids.items()})
    with engine.begin() as connection:
        # Best first: f, e, d, c, b, a.
        chosen = [
            freeze_recipe(connection, dataset, parse_recipe({"by": "vcs", "count": n, **more})).selection_id
            for n, more in ((1, {}), (2, {"where": "licence = 'CC0-1.0'"}), (6, {}))
        ]
    one, cc0, all_of_them = chosen

    def holding(name: str) -> dict[int, tuple[int, list[str]]]:
        with engine.connect() as connection:
            rows = list_holding_selections(connection, held(name))
        assert [row["selection"] for row in rows] == sorted((row["selection"] for row in rows), reverse=True)
        return {row["selection"]: (row["rows"], row["videos"]) for row in rows}

    assert holding("a") == holding("https://clips.example/watch?v=a") == {all_of_them: (1, ["a"]), cc0: (1, ["a"])}
    assert holding("c") == {all_of_them: (1, ["c"])}
    by_file = {all_of_them: (2, ["e", "f"]), one: (1, ["f"])}
    assert holding("e") == holding(str(folder / "f.mp4")) == by_file, "a copy of the file counts"
    assert holding("nothing") == holding("") == {}
    with engine.connect() as connection:
        assert [row["video"] for row in list_holding_datasets(connection, held("f"))] == ["e", "f"]
        assert list_holding_datasets(connection, held("nothing")) == []
        frozen = find_frozen_selection(connection, all_of_them)
        assert frozen is not None
        assert count_selection_origins(connection, frozen) == {
            "licences": [
                {"licence": None, "rows": 3, "videos": 3},
                {"licence": "CC0-1.0", "rows": 2, "videos": 2},
                {"licence": "CC-BY-4.0", "rows": 1, "videos": 1},
            ],
            "rows_without_source": 5,
            "rows_opted_out": 1,
        }
    # A source that became known later counts by now; after the dataset is dropped, what was frozen counts.
    write_folder(folder, [*ROWS[:3], {"video_id": "d", "source_url": "https://clips.example/d"}])
    ingest_folder(engine, folder, "clips")
    assert holding("https://clips.example/d") == {all_of_them: (1, ["d"])}
    with engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM dataset"))
    assert holding("https://clips.example/d") == {}
    assert holding("https://clips.example/watch?v=a") == {all_of_them: (1, ["a"]), cc0: (1, ["a"])}
    assert holding("e") == by_file


def test_a_video_is_held_by_every_path_of_its_file(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, root = tmp_path / "m", tmp_path / "root"
    monkeypatch.setenv("REELSIEVE_MEDIA_ROOTS", json.dumps({"clips": str(root)}))
    paths = {
        "plain": "videos/a.mp4",
        "other": "videos/b_a.mp4",
        "member": "tar://s.tar#a.mp4",
        "rooted": "root://clips/r.mp4",
        "rooted_member": "tar://root://clips/r.tar#x/a.mp4",
    }
    write_folder(folder, [{"video_id": key, "path": path} for key, path in paths.items()])
    files = [write_clip(tmp_path / f"{n}.mp4", brightness=40 * n) for n in range(1, 6)]
    for file, target in zip(files, ("m/videos/a.mp4", "m/videos/b_a.mp4", "root/r.mp4"), strict=False):
        (tmp_path / target).parent.mkdir(exist_ok=True)
        shutil.copy(file, tmp_path / target)
    for file, tar, member in ((files[3], folder / "s.tar", "a.mp4"), (files[4], root / "r.tar", "x/a.mp4")):
        with tarfile.open(tar, "w") as archive:
            archive.add(file, member)
    ingest_folder(engine, folder, "clips")
    (tmp_path / "link").symlink_to(folder)
    shutil.copy(files[0], tmp_path / "copy.mp4")

    def holding(name: str) -> list[str]:
        with engine.connect() as connection:
            return [row["video"] for row in list_holding_datasets(connection, held(name, clips=str(root)))]

    for name in ("videos/a.mp4", "./videos/a.mp4", f"{tmp_path}/link/videos/a.mp4", str(tmp_path / "copy.mp4")):
        assert holding(name) == ["plain"], name
    for name in ("tar://s.tar#a.mp4", f"tar://{tmp_path}/link/s.tar#a.mp4", f"{tmp_path}/link/s.tar"):
        assert holding(name) == ["member"], name
    assert holding(str(root / "r.mp4")) == holding("root://clips/r.mp4") == ["rooted"]
    assert holding(f"tar://{root}/r.tar#x/a.mp4") == holding(str(root / "r.tar")) == ["rooted_member"]
    assert holding("videos/%.mp4") == holding("videos/b__a.mp4") == holding("4" * 300) == holding("tar://s") == []
    assert holding("a.mp4") == ["plain", "rooted_member"], "the end of a path"
    for file in (folder / "videos" / "a.mp4", root / "r.mp4"):
        file.unlink()
    assert holding(f"{tmp_path}/link/videos/a.mp4") == ["plain"], "the file need not exist"
    assert holding(str(root / "r.mp4")) == ["rooted"]


def test_init_gives_a_video_the_origin_that_its_row_has(tmp_path: Path) -> None:
    own = {"mood": "calm", "source_url": "https://clips.example/a"}
    rows = [
        {"video": "a.mp4", "caption": "A dog.", "licence": "MIT", **own},
        {"video": "b.mp4", "caption": "A cat.", "licence": 4, "opt_out": True},
    ]
    (tmp_path / "clips.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    create_manifest(tmp_path)
    videos, captions = (
        [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        for name in ("videos", "captions")
    )
    assert videos == [
        {"video_id": "a", "licence": "MIT", "source_url": "https://clips.example/a"},
        {"video_id": "b", "opt_out": True},
    ]
    assert [(row.get("mood"), row.get("licence")) for row in captions] == [("calm", None), (None, 4)]
