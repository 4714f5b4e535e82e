"""A manifest out of a folder of one's own data: what is recognised, what is left out, and that ingest takes it all."""

from __future__ import annotations

import csv
import gzip
import io
import json
import pickle
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.ingest.manifest import list_table_files
from assets.ingest.rejects import ManifestError
from assets.ingest.run import ingest_folder
from assets.new_manifest.columns import ColumnNames, guess_columns
from assets.new_manifest.findings import KEPT_FOR_FACTS, Findings, NoManifest
from assets.new_manifest.make import create_manifest, suggest_dataset_name
from assets.new_manifest.rating_offers import list_rating_offers
from assets.planning.holdings import load_dataset_holdings
from db import schema
from db.schema.inputs import REFERENCES, SEGMENTS
from tests.assets.init_sources import Files, left_out, put, read_video, rows, shard, texts
from tests.assets.manifests import write_clip
from tests.assets.verifying import dataset_of

NO_FILE = "the file of a row's video, which is not in the folder: the row is text only"


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The content of a short video."""
    return write_clip(tmp_path_factory.mktemp("clip") / "clip.mp4").read_bytes()


def test_videos_with_captions_beside_them(tmp_path: Path, clip: bytes, engine: Engine) -> None:
    srt = "1\n00:00:00,000 --> 00:00:00,500\nA ball rolls.\n\n2\n00:00:00,500 --> 00:00:01,000\nIt stops.\n"
    files: Files = {
        "a.mp4": clip,
        "a.txt": "\ufeffA red ball.\nIt rolls.\n",
        "day/b.MP4": clip,
        "day/b.json": json.dumps({"caption": "A blue box.", "system": "model_b", "reference": "A box.", "fps": 3}),
        "c.mp4": clip,
        "c.en.srt": srt,
        "d.mp4": clip,
        "e.mp4": clip,
        "e.json": json.dumps(["One.", "Two."]),
        "alone.txt": "No video.",
        ".hidden/x.mp4": clip,
        ".hidden/x.txt": "Hidden.",
    }
    made = create_manifest(put(tmp_path / "clips", files))
    assert texts(made) == {
        "a__captions": "A red ball.\nIt rolls.",
        "day/b__model_b": "A blue box.",
        "day/b__reference": "A box.",
        "c__captions": "A ball rolls. It stops.",
        "e__captions": "One.",
        "e__captions_2": "Two.",
    }
    # One video has no caption.
    assert [row["path"] for row in rows(made, "videos")] == ["a.mp4", "c.mp4", "d.mp4", "day/b.MP4", "e.mp4"]
    by_id = {row["caption_id"]: row for row in rows(made, "captions")}
    assert by_id["day/b__model_b"]["fps"] == 3
    assert [(each["start_s"], each["end_s"]) for each in by_id["c__captions"]["segments"]] == [(0.0, 0.5), (0.5, 1.0)]
    assert left_out(made) == {
        "a hidden file or folder": 1,
        "a caption file without a video": 1,
    }
    assert (made.holdings.videos, made.holdings.captions, made.holdings.references) == (5, 5, 1)
    assert suggest_dataset_name(made.folder) == "clips"
    report = ingest_folder(engine, made.folder, "mine")
    assert (report.accepted["videos"], report.accepted["captions"], report.rejected) == (5, 6, 0)
    with engine.connect() as connection:
        assert set(connection.scalars(sa.select(schema.video.c.status))) == {"ok"}


def test_what_is_counted_while_a_manifest_is_written_is_what_is_stored_of_it(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holdings of some first videos, which come in any order, with captions of one video in several places."""
    monkeypatch.setattr("assets.planning.holdings.FIRST_VIDEOS", 3)
    lines = ["video,caption,reference,score"]
    lines += [f"{video},Caption {n}.,{'A ball.' if n % 2 else ''},{n % 5 + 1}" for n, video in enumerate("edgcbfcea")]
    made = create_manifest(
        put(tmp_path / "t", {"t.csv": "\n".join(lines)}), column_names=ColumnNames(ratings=("score",))
    )
    ingest_folder(engine, made.folder, "mine", n_shards=1)
    with engine.connect() as connection:
        stored = load_dataset_holdings(connection, dataset_of(engine, "mine"), [REFERENCES, SEGMENTS])
    assert replace(made.holdings, dataset="mine", first_samples=()) == replace(stored, first_samples=())
    shown, kept = (
        [(each.key, each.text, [it.text for it in each[REFERENCES]], each[SEGMENTS]) for each in holdings.first_samples]
        for holdings in (made.holdings, stored)
    )
    assert sorted(shown) == sorted(kept)
    assert [sample.text for sample in made.holdings.first_samples] == [
        "Caption 3.",
        "Caption 4.",
        "Caption 6.",
        "Caption 8.",
    ]
    assert (made.holdings.captions, made.holdings.references, made.holdings.ratings) == (9, 4, 9)


@pytest.mark.parametrize(("name", "separator"), [("t.csv", ","), ("t.csv", ";"), ("t.tsv", "\t"), ("t.csv", "|")])
def test_a_table_with_any_separator(tmp_path: Path, clip: bytes, name: str, separator: str) -> None:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator)
    writer.writerow(["Video", "caption", "model", "note; of, mine"])
    writer.writerow(["a.mp4", "A ball; it rolls, then\tstops | there.", "m1", "x"])
    writer.writerow(["a.mp4", "A ball.", "m2", ""])
    writer.writerow(["missing.mp4", "Nobody.", "m2", ""])
    writer.writerow(["a.mp4", "  ", "m2", ""])
    made = create_manifest(put(tmp_path, {"a.mp4": clip, name: text.getvalue()}) / name)
    assert texts(made) == {"a__m1": "A ball; it rolls, then\tstops | there.", "a__m2": "A ball."}
    assert rows(made, "captions")[0]["note; of, mine"] == "x"
    assert left_out(made) == {"a row whose video file is not in the folder": 1, "a row whose caption has no text": 1}
    assert any("separated by semicolons" in guess for guess in made.findings.guesses) == (separator == ";")


def test_tables_of_a_folder_and_names_wherever_the_files_lie(tmp_path: Path, clip: bytes) -> None:
    lines = [
        {"clip": "deep/er/a.mp4", "text": "By its path."},
        {"clip": "b", "text": "By its stem."},
        {"clip": "twice.mp4", "text": "Two files have this name."},
        {"clip": str(tmp_path / "b.webm"), "text": ["By its absolute path.", "Again."], "reference": "A box."},
        {"clip": "../out.mp4", "text": "Outside."},
        {"clip": "/etc/passwd", "text": "Outside."},
        {"clip": "s3://bucket/c.mp4", "text": "Elsewhere."},
        {"clip": "https://ann:secret@host/c.mp4", "text": "With a password."},
    ]
    files = dict.fromkeys(("deep/er/a.mp4", "b.webm", "x/twice.mp4", "y/twice.mp4"), clip)
    table = "".join(json.dumps(line) + "\n" for line in lines)
    made = create_manifest(put(tmp_path, {**files, "mine.jsonl": table + "{broken\n", "other.csv": "one,two\n1,2\n"}))
    assert {row["video_id"]: row["path"] for row in rows(made, "videos")} == {
        "deep/er/a": "deep/er/a.mp4",
        "b": "b.webm",
        "bucket/c": "s3://bucket/c.mp4",
        "x/twice": "x/twice.mp4",
        "y/twice": "y/twice.mp4",
    }
    assert list(texts(made).values()) == [
        "By its path.", "By its stem.", "By its absolute path.", "Again.", "A box.", "Elsewhere."
    ]  # fmt: skip
    counts = left_out(made)
    assert KEPT_FOR_FACTS in made.findings.guesses
    assert counts["a row whose video name fits several files: write the file's path"] == 1
    assert counts["a row whose video is outside the folder: name its folder in REELSIEVE_MEDIA_ROOTS"] == 1
    assert counts["a row whose video file is not in the folder"] == 1
    assert counts["a table without a column of videos or without one of captions"] == 1
    assert counts["a row that cannot be read (json_invalid): The line is not valid JSON."] == 1
    assert "secret" not in json.dumps(made.findings.list_left_out())


def test_a_table_without_any_video_file_is_text_only(tmp_path: Path, engine: Engine) -> None:
    pq.write_table(pa.table({"video_id": ["v1", "v2"], "caption": ["A cat.", "A dog."]}), tmp_path / "t.parquet")
    made = create_manifest(tmp_path)
    assert rows(made, "videos") == [{"video_id": "v1"}, {"video_id": "v2"}]
    assert any("text only" in guess for guess in made.findings.guesses)
    assert ingest_folder(engine, made.folder, "mine").rejected == 0


def test_a_table_is_judged_by_its_rows_and_not_by_other_videos_in_the_folder(tmp_path: Path, clip: bytes) -> None:
    """Ids stay texts beside any videos; names of files that are all missing stay too, and are counted."""
    unrelated: Files = {"else/where.mp4": clip, "ids.csv": "video_id,caption\nv1,A cat.\nv2,A dog.\n"}
    made = create_manifest(put(tmp_path / "ids", unrelated))
    assert rows(made, "videos")[:2] == [{"video_id": "v1"}, {"video_id": "v2"}]
    assert left_out(made) == {}
    assert any("text only" in guess for guess in made.findings.guesses)
    missing = put(tmp_path / "missing", {"t.csv": "video,caption\na.mp4,A cat.\nclips/b,A dog.\nc,A cow.\n"})
    made = create_manifest(missing)
    assert rows(made, "videos") == [{"video_id": "a"}, {"video_id": "clips/b"}, {"video_id": "c"}]
    assert left_out(made) == {NO_FILE: 2}
    # Of a dataset in parts only one was downloaded.
    parts: Files = {
        "train.csv": "video,caption\ntrain/0.mp4,A cat.\n",
        "test.csv": "video,caption\ntest/0.mp4,A cow.\n",
    }
    made = create_manifest(put(tmp_path / "parts", {**parts, "test/0.mp4": clip}))
    assert texts(made) == {"test/0__captions": "A cow."}
    assert left_out(made) == {"a row whose video file is not in the folder": 1}


@pytest.mark.parametrize(
    ("table", "path"),
    [
        ("videoID,url,caption\na,https://films.example/watch?v=a,A dog.\n", "a.mp4"),
        ("videoID,url,caption\na,https://films.example/a,A dog.\n", "a.mp4"),
        ("url,name,file,caption\nhttps://films.example/a,x,./a.mp4,A dog.\n", "a.mp4"),
        ("videoID,url,caption\nb,s3://bucket/a.mp4,A dog.\n", "s3://bucket/a.mp4"),
        ("videoID,url,caption\nb,https://films.example/watch?v=b,A dog.\n", None),
    ],
)
def test_the_column_that_names_files_in_the_folder_comes_before_that_of_pages(
    tmp_path: Path, clip: bytes, table: str, path: str | None
) -> None:
    made = create_manifest(put(tmp_path, {"a.mp4": clip, "t.csv": table}))
    assert list(texts(made).values()) == ["A dog."]
    assert rows(made, "videos")[0].get("path") == path
    assert left_out(made) == {}


def test_videos_that_no_row_names_are_kept_and_extracted_ones_are_not_among_them(tmp_path: Path, clip: bytes) -> None:
    media = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    videos = pa.array([{"bytes": clip, "path": "a.mp4"}, {"bytes": clip + b"b", "path": "b.mp4"}], media)
    pq.write_table(pa.table({"video": videos, "caption": ["A cat.", "A dog."]}), tmp_path / "t.parquet")
    put(tmp_path, {"own/c.mp4": clip})
    expected = [{"video_id": "t/a", "path": "videos/t/a.mp4"}, {"video_id": "t/b", "path": "videos/t/b.mp4"}]
    expected.append({"video_id": "own/c", "path": "own/c.mp4"})
    assert rows(create_manifest(tmp_path), "videos") == expected
    for table in ("videos", "captions"):
        (tmp_path / f"{table}.jsonl").unlink()
    pq.write_table(pa.table({"video": videos[:1], "caption": ["A cat."]}), tmp_path / "t.parquet")
    assert rows(create_manifest(tmp_path), "videos") == [expected[0], expected[2]]


def test_rows_of_which_none_is_usable_are_refused_beside_any_video(tmp_path: Path, clip: bytes) -> None:
    table = "video,caption\nhttps://films.example/watch?v=a,A dog.\n"
    with pytest.raises(NoManifest, match="no video with a caption in a table"):
        create_manifest(put(tmp_path, {"a.mp4": clip, "t.csv": table}))


def test_the_links_of_a_hubs_cache_are_read_from_the_folder_that_holds_their_files(tmp_path: Path, clip: bytes) -> None:
    lines = '{"file_name": "a.mp4", "text": "A ball."}\n'
    cache = put(tmp_path / "datasets--me--clips", {"blobs/1": clip, "blobs/2": lines})
    train = cache / "snapshots" / "abc" / "train"
    train.mkdir(parents=True)
    (train / "a.mp4").symlink_to("../../../blobs/1")
    (train / "metadata.jsonl").symlink_to("../../../blobs/2")
    for given in (train, train.parent, train / "metadata.jsonl"):
        with pytest.raises(NoManifest, match=f"give the folder above, {cache}"):
            create_manifest(given)
    made = create_manifest(cache)
    assert list(texts(made).values()) == ["A ball."]
    assert rows(made, "videos")[0]["path"] == "snapshots/abc/train/a.mp4"


def test_an_index_without_a_name_is_passed_over(tmp_path: Path) -> None:
    made = create_manifest(put(tmp_path, {"t.csv": ";video;caption\n0;v1;A cat.\n1;v2;A dog.\n"}))
    assert rows(made, "captions")[1] == {
        "caption_id": "v2__captions", "video_id": "v2", "role": "candidate", "system": "captions", "text": "A dog."
    }  # fmt: skip
    assert left_out(made) == {"a column without a name": 1}
    with pytest.raises(NoManifest, match=r"names .caption. twice"):
        create_manifest(put(tmp_path / "twice", {"t.csv": "video,caption,caption\nv1,A,B\n"}))


def test_the_first_kind_of_caption_files_counts_and_json_adds_fields(tmp_path: Path, clip: bytes) -> None:
    files: Files = {
        "a.mp4": clip,
        "a.vtt": "WEBVTT\n\n00:00.000 --> 00:01.000\nSpoken.\n",
        "a.txt": "Written.",
        "a.json": json.dumps({"fps": 3, "caption": "Older."}),
        "b.mp4": clip,
        "b.txt": "  ",
        "b.json": json.dumps({"caption": "In JSON."}),
        "c.mp4": clip,
        "c.srt": "1\n00:00:00,000 --> 00:00:00,500\nA ball rolls.\n",
        "c.json": json.dumps({"reference": "A ball.", "model": "m", "fps": 4}),
        "d.mp4": clip,
        "d.txt": "[music] A box.",
        "d.json": json.dumps({"caption": "[music] A box.", "url": "https://x.org/d.mp4"}),
    }
    made = create_manifest(put(tmp_path, files))
    assert texts(made) == {
        "a__captions": "Written.",
        "b__captions": "In JSON.",
        "c__m": "A ball rolls.",
        "c__reference": "A ball.",
        "d__captions": "[music] A box.",
    }
    assert [row.get("fps") for row in rows(made, "captions")] == [3, None, 4, None, None]
    assert rows(made, "captions")[-1]["url"] == "https://x.org/d.mp4"
    # The subtitles and the older caption of a, and the blank text of b.
    less = "a caption that was not used, since another file comes first (.txt, then .json, .vtt, .srt)"
    assert left_out(made) == {less: 2, "a caption file without a caption": 1}


def test_a_column_that_cannot_be_guessed_is_named(tmp_path: Path) -> None:
    put(tmp_path, {"t.csv": "which,said\nv1,A cat.\n"})
    with pytest.raises(
        NoManifest,
        match=r"no column was recognised as that of the videos: choose one of 'which', 'said'.*--column video=NAME",
    ):
        create_manifest(tmp_path)
    with pytest.raises(NoManifest, match="--column caption=NAME"):
        create_manifest(tmp_path, column_names=ColumnNames({"video": "which"}))
    assert texts(create_manifest(tmp_path, column_names=ColumnNames({"video": "which", "caption": "said"}))) == {
        "v1__captions": "A cat."
    }


@pytest.mark.parametrize("kind", ["stream", "file", "parquet"])
def test_hugging_face_tables_that_hold_the_videos(tmp_path: Path, clip: bytes, kind: str, engine: Engine) -> None:
    media = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    videos = [{"bytes": clip, "path": "a.mp4"}, {"bytes": clip, "path": None}, {"bytes": None, "path": "c.mp4"}]
    table = pa.table({"video": pa.array(videos, media), "caption": ["A cat.", "A dog.", "A cow."], "likes": [1, 2, 3]})
    (tmp_path / "data").mkdir()
    put(tmp_path, {"c.mp4": clip, "loader.py": "raise SystemExit('it was run')"})
    path = tmp_path / "data" / f"train-00000-of-00001.{'parquet' if kind == 'parquet' else 'arrow'}"
    if kind == "parquet":
        pq.write_table(table, path)
    else:
        opened = pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file
        with opened(str(path), table.schema) as writer:
            writer.write_table(table)
    made = create_manifest(tmp_path)
    assert "Hugging Face" in made.source_description
    stored = [row["path"] for row in rows(made, "videos")]
    assert stored == [
        "videos/data/train-00000-of-00001/a.mp4",
        "videos/data/train-00000-of-00001/000002.mp4",
        "c.mp4",
    ]
    assert all((tmp_path / path).read_bytes() == clip for path in stored)
    assert [row["likes"] for row in rows(made, "captions")] == [1, 2, 3]
    assert ingest_folder(engine, made.folder, "mine").rejected == 0


def test_a_video_folder_of_hugging_face(tmp_path: Path, clip: bytes) -> None:
    files: Files = {
        "train/a.mp4": clip,
        "train/a.txt": "Beside.",
        "train/metadata.csv": "file_name,text\na.mp4,In the table.\n",
    }
    made = create_manifest(put(tmp_path, files))
    assert texts(made) == {"train/a__captions": "In the table."}
    assert rows(made, "videos") == [{"video_id": "train/a", "path": "train/a.mp4"}]


class Trap:
    """Writes a file when it is unpickled."""

    def __init__(self, sprung: Path) -> None:
        self.sprung = sprung

    def __reduce__(self) -> Any:
        return Path.touch, (self.sprung,)


def test_webdataset_shards(tmp_path: Path, clip: bytes, engine: Engine) -> None:
    sprung = tmp_path / "sprung"
    folder = tmp_path / "shards"
    shard(
        folder / "s-000.tar",
        [
            ("000.mp4", clip),
            ("000.txt", b"A red ball."),
            ("000.json", json.dumps({"caption": "Not this one.", "fps": 7}).encode()),
            ("001.json", json.dumps({"caption": "A blue box.", "model": "m"}).encode()),
            ("001.mp4", clip),
            ("002.mp4", clip),
            ("002.pyd", pickle.dumps(Trap(sprung))),
            ("003.txt", b"No video."),
            ("../../escaped.mp4", clip),
            ("../../escaped.txt", b"Outside."),
        ],
    )
    shard(folder / "more" / "s-001.tar.gz", [("000.mp4", clip), ("000.txt", b"Another ball.")], compressed=True)
    made = create_manifest(folder)
    assert texts(made) == {
        "more/s-001/000__captions": "Another ball.",
        "s-000/000__captions": "A red ball.",
        "s-000/001__m": "A blue box.",
        "s-000/../../escaped__captions": "Outside.",
    }
    assert {row["caption_id"]: row.get("fps") for row in rows(made, "captions")}["s-000/000__captions"] == 7
    assert not sprung.exists()
    assert not list(tmp_path.rglob("escaped*"))
    assert {str(path.relative_to(folder)) for path in folder.rglob("*.mp4")} == {"videos/more/s-001/000.mp4"}, (
        "only a compressed shard is unpacked"
    )
    stored = {row["path"] for row in rows(made, "videos")}
    assert stored == {
        "videos/more/s-001/000.mp4",
        *(f"tar://s-000.tar#{name}" for name in ("000.mp4", "001.mp4", "002.mp4", "../../escaped.mp4")),
    }
    assert all(read_video(folder, path) == clip for path in stored)
    assert any(guess.startswith("compressed tar files are unpacked") for guess in made.findings.guesses)
    assert left_out(made) == {
        "a file in a shard that was not read, since its format can hold code": 1,
        "a caption without a video": 1,
        "a caption that was not used, since another file comes first (.txt, then .json, .vtt, .srt)": 1,
    }
    assert ingest_folder(engine, made.folder, "mine").rejected == 0


def test_a_damaged_shard_is_read_as_far_as_it_goes(tmp_path: Path, clip: bytes) -> None:
    whole = shard(tmp_path / "s.tar", [("0.mp4", clip), ("0.txt", b"A ball."), ("1.mp4", clip), ("1.txt", b"A box.")])
    whole.write_bytes(whole.read_bytes()[: 512 + len(clip) + 512 * 4])
    made = create_manifest(tmp_path)
    assert texts(made) == {"s/0__captions": "A ball."}
    assert any("damaged shard" in why for why in left_out(made))


def test_a_link_in_a_shard_is_left_out(tmp_path: Path, clip: bytes) -> None:
    path = shard(tmp_path / "s.tar", [("0.mp4", clip), ("0.txt", b"A ball.")])
    with tarfile.open(path, "a") as tar:
        link = tarfile.TarInfo("1.mp4")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    assert left_out(create_manifest(tmp_path)) == {"the member is a link or a device: pack the file itself": 1}
    packed = tmp_path / "packed" / "s.tgz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert left_out(create_manifest(packed)) == {"an entry of a shard that is not a regular file": 1}


def test_what_an_earlier_try_extracted_is_taken_and_never_overwritten(tmp_path: Path, clip: bytes) -> None:
    path = shard(tmp_path / "s.tgz", [("0.mp4", clip), ("0.txt", b"A ball.")], compressed=True)
    there = put(tmp_path, {"videos/s/0.mp4": clip}) / "videos/s/0.mp4"
    before = there.stat().st_ino
    assert create_manifest(path).holdings.videos == 1
    assert there.stat().st_ino == before
    (tmp_path / "videos.jsonl").unlink()
    (tmp_path / "captions.jsonl").unlink()
    there.write_bytes(b"mine")
    assert rows(create_manifest(path), "videos") == [{"video_id": "s/0_2", "path": "videos/s/0_2.mp4"}]
    assert there.read_bytes() == b"mine"
    assert (tmp_path / "videos/s/0_2.mp4").read_bytes() == clip


def test_a_manifest_elsewhere_names_a_root(
    tmp_path: Path, clip: bytes, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = put(tmp_path / "My Clips", {"day/a.mp4": clip, "day/a.txt": "A ball."})
    made = create_manifest(source, tmp_path / "made")
    assert made.new_root == ("my_clips", source)
    assert rows(made, "videos") == [{"video_id": "day/a", "path": "root://my_clips/day/a.mp4"}]
    assert not list(source.glob("*.jsonl"))
    monkeypatch.setenv("REELSIEVE_MEDIA_ROOTS", json.dumps({"all": str(tmp_path)}))
    again = create_manifest(source, tmp_path / "again")
    assert again.new_root is None
    assert rows(again, "videos")[0]["path"] == "root://all/My Clips/day/a.mp4"
    assert ingest_folder(engine, again.folder, "mine").rejected == 0


@pytest.mark.parametrize("name", ["videos.csv", "captions.jsonl", "qa.parquet", "dimensions.json"])
def test_an_existing_manifest_is_never_overwritten(tmp_path: Path, clip: bytes, name: str) -> None:
    folder = put(tmp_path, {"a.mp4": clip, "a.txt": "A ball.", name: "mine"})
    with pytest.raises(NoManifest, match=name):
        create_manifest(folder)
    assert (folder / name).read_text() == "mine"
    assert sorted(path.name for path in folder.iterdir()) == sorted(["a.mp4", "a.txt", name])


def test_a_trial_writes_nothing(tmp_path: Path, clip: bytes) -> None:
    shard(tmp_path / "s.tar", [("0.mp4", clip), ("0.txt", b"A ball.")])
    shard(tmp_path / "t.tgz", [("0.mp4", clip), ("0.txt", b"A ball.")], compressed=True)
    made = create_manifest(tmp_path, is_trial=True)
    assert (made.holdings.videos, made.extractor.n_videos) == (2, 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.tar", "t.tgz"]


def test_equal_references_of_a_video_are_written_once(tmp_path: Path) -> None:
    rows = ["video,system,caption,reference"]
    rows += [f"{video},m{n},Caption {n}.,The same." for video in "ab" for n in range(3)]
    rows.append("a,m3,Caption 3.,Another.")
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    made = create_manifest(tmp_path)
    lines = (tmp_path / "captions.jsonl").read_text().splitlines()
    references = [row for row in map(json.loads, lines) if row["role"] == "reference"]
    assert [(row["caption_id"], row["text"]) for row in references] == [
        ("a__reference", "The same."),
        ("b__reference", "The same."),
        ("a__reference_2", "Another."),
    ]
    assert (made.holdings.captions, made.holdings.references) == (7, 3)
    assert [(row["left out"], row["n"]) for row in made.findings.list_left_out()] == [
        ("a reference that its video has already", 4)
    ]


@pytest.mark.parametrize(
    ("header", "meanings"),
    [
        ("Videodatei;Beschreibung;Referenz;Modell", ["video", "caption", "reference", "system"]),
        ("Fichier vidéo;Légende;Référence;Modèle", ["video", "caption", "reference", "system"]),
        ("archivo;Descripción;Referencias;modelo", ["video", "caption", "reference", "system"]),
        ("Arquivo;legenda;referência;SISTEMA", ["video", "caption", "reference", "system"]),
        ("nome file;didascalia;riferimento;modello", ["video", "caption", "reference", "system"]),
        ("bestand;bijschrift;referentie;systeem", ["video", "caption", "reference", "system"]),
        ("файл;Описание;эталон;модель", ["video", "caption", "reference", "system"]),
        ("视频;描述;参考;模型", ["video", "caption", "reference", "system"]),
        ("動画;キャプション;正解;システム", ["video", "caption", "reference", "system"]),
        ("비디오;캡션;정답;모델", ["video", "caption", "reference", "system"]),
        ("Video File;VIDEO-ID;caption;hypotheses", ["video", "video_id", "caption", "candidates"]),
    ],
)
def test_headers_are_guessed_in_many_languages(header: str, meanings: list[str]) -> None:
    names = header.split(";")
    assert guess_columns(names).meanings == dict(zip(names, meanings, strict=True))


def test_a_column_that_is_named_is_guessed_for_nothing_else() -> None:
    names = ["video", "text", "description"]
    given = ColumnNames({"reference": "Text"})
    assert guess_columns(names, given).meanings == {"video": "video", "text": "reference", "description": "caption"}
    exact = guess_columns(["caption", "Caption"], ColumnNames({"reference": "Caption"}))
    assert (exact["caption"], exact["reference"]) == ("caption", "Caption")


def test_a_map_of_columns_says_how_each_was_found(tmp_path: Path) -> None:
    names, given = ["path", "Clip", "text"], ColumnNames({"caption": "Text", "system": "absent"})
    found = guess_columns(names, given, by_content={"video": "Clip"})
    assert found.by_field == {"video": ("Clip", "content"), "caption": ("text", "given")}
    assert (found.given_names, guess_columns(names).by_field["video"]) == ({"Text"}, ("path", "name"))
    put(tmp_path, {"t.csv": "Clip,Said\na,A cat.\n"})
    made = create_manifest(tmp_path, column_names=ColumnNames({"video": "clip", "caption": "said"}))
    assert texts(made) == {"a__captions": "A cat."}


def test_a_column_that_no_row_has_is_refused(tmp_path: Path) -> None:
    put(tmp_path, {"t.csv": "video,caption\na,b\n"})
    with pytest.raises(NoManifest, match="no row with a caption has the column 'truht' that --column names"):
        create_manifest(tmp_path, column_names=ColumnNames({"reference": "truht"}))


def test_six_candidates_of_a_list_are_of_six_systems(tmp_path: Path) -> None:
    rows_of_source = [{"video": f"v{n}", "candidates": [f"A dog {place}." for place in range(6)]} for n in range(2)]
    named = {"video": "v2", "candidates": [{"system": "own", "caption": "A cat."}, "A cow.", ""]}
    of_one = {"video": "v3", "system": "model", "candidates": ["A dog.", "A cat."]}
    lines = (json.dumps(row) + "\n" for row in [*rows_of_source, named, of_one])
    made = create_manifest(put(tmp_path, {"t.jsonl": "".join(lines)}))
    expected = {f"candidate_{place}": 2 for place in range(1, 7)} | {"own": 1, "candidate_2": 3, "model": 2}
    assert made.tables.systems == expected
    assert texts(made)["v1__candidate_6"] == "A dog 5."
    assert "the captions of a list are of systems candidate_1, candidate_2 .., by their places in it" in (
        made.findings.guesses
    )


def test_ratings_that_are_chosen_are_read_before_anything_is_written(tmp_path: Path) -> None:
    put(tmp_path, {"t.csv": "video,caption,mos\na,b,3\n"})
    asked: list[tuple[str, ...]] = []

    def choose(findings: Findings) -> tuple[str, ...]:
        asked.extend(offer.options for offer in list_rating_offers(findings))
        assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["t.csv"]
        return asked[0]

    made = create_manifest(tmp_path, choose_ratings=choose)
    assert asked == [("mos",)]
    assert made.holdings.ratings == 1
    assert rows(made, "captions") == [
        {"caption_id": "a__captions", "video_id": "a", "role": "candidate", "system": "captions", "text": "b"}
    ]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "cp1252"])
def test_files_in_other_encodings_are_read_and_named(tmp_path: Path, clip: bytes, encoding: str) -> None:
    mark = b"\xfe\xff" if encoding == "utf-16-be" else b""
    text = "Ein Hund läuft über die „Wiese“ – naïf."
    name = "cp1252" if encoding == "cp1252" else "UTF-16"
    table = mark + f"video;caption\na;{text}\n".encode(encoding)
    made = create_manifest(put(tmp_path / "table", {"t.csv": table}))
    assert texts(made) == {"a__captions": text}
    assert f"t.csv is not UTF-8, and is read as {name}" in made.findings.guesses
    files = put(tmp_path / "files", {"a.mp4": clip, "a.txt": mark + text.encode(encoding)})
    made = create_manifest(files)
    assert texts(made) == {"a__captions": text}
    assert f"caption files that are not UTF-8 are read as {name}" in made.findings.guesses


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({}, "no videos with caption files"),
        ({"a.JPG": b"x", "b.png": b"x", "a.txt": "A cat."}, "2 images and no video: make a clip of every image"),
        ({"t.csv": "video,caption\n"}, "it is empty"),
        ({"t.jsonl": "{}\n"}, r"^t\.jsonl: it has no column: give a table"),
        ({"t.csv": "video,video\n"}, "the header names 'video' twice: give every column"),
        ({"t.parquet": b"no parquet"}, r"t\.parquet: cannot be read"),
        ({"t.csv": "видео,caption\na,b\n".encode("cp1251")}, r"^t\.csv, header line: .* save the file as UTF-8$"),
        ({"t.csv": "video,caption\na,Собака\n".encode("cp1251")}, r"\(invalid_utf8\): save the file as UTF-8"),
        ({"t.csv": "video,caption\na,一只狗\n".encode("gb18030")}, r"\(invalid_utf8\): save the file as UTF-8"),
    ],
)
def test_a_source_of_which_nothing_can_be_made(tmp_path: Path, files: Files, sentence: str) -> None:
    with pytest.raises((NoManifest, ManifestError), match=sentence):
        create_manifest(put(tmp_path, files))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(files)


def test_a_link_out_of_the_folder_is_left_out(tmp_path: Path, clip: bytes) -> None:
    outside = put(tmp_path / "outside", {"x.mp4": clip}) / "x.mp4"
    folder = put(tmp_path / "in", {"a.mp4": clip, "a.txt": "A ball.", "x.txt": "A box."})
    (folder / "x.mp4").symlink_to(outside)
    made = create_manifest(folder)
    assert list(texts(made)) == ["a__captions"]
    assert left_out(made)[f"a link that leads out of the folder: give the folder above, {tmp_path}"] == 1


def test_links_to_folders_are_not_followed_and_named(tmp_path: Path, clip: bytes) -> None:
    data = put(tmp_path / "disk", {"a.mp4": clip, "a.txt": "A ball."})
    folder = put(tmp_path / "in", {"t.csv": "video,caption\nclips/a.mp4,A ball.\n"})
    (folder / "clips").symlink_to(data)
    sentence = "a link to a folder, which is not followed: put the folder itself there"
    assert left_out(create_manifest(folder, is_trial=True)) == {sentence: 1, NO_FILE: 1}
    (folder / "t.csv").unlink()
    with pytest.raises(NoManifest, match=rf"no tar shards.*{sentence} \(1, such as clips\)"):
        create_manifest(folder)


def test_ingest_points_to_init_where_videos_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"table videos is missing: .* let reelsieve init "):
        list_table_files(tmp_path)
    put(tmp_path, {"videos.jsonl": "{}"})
    with pytest.raises(ManifestError, match="table captions is missing") as missing:
        list_table_files(tmp_path)
    assert "reelsieve init" not in str(missing.value)


def test_what_is_changed_in_subtitles_names_their_file(tmp_path: Path, clip: bytes) -> None:
    srt = "1\n00:00:00,500 --> 00:00:01,000\nIt stops.\n\n2\n00:00:00,000 --> 00:00:00,500\nA ball rolls.\n"
    made = create_manifest(put(tmp_path, {"a.mp4": clip, "a.srt": srt}))
    assert texts(made) == {"a__captions": "A ball rolls. It stops."}
    assert left_out(made) == {"the place of a cue of subtitles that is out of order: cues are sorted by their times": 1}
