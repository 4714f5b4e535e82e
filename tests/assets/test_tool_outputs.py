"""Folders of the form that NeMo Curator, Cosmos-Curate and Data-Juicer write, made here, as manifests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.engine import Engine

from assets.datasets.lookup import require_dataset
from assets.ingest.rows import RawRow, VideoRow
from assets.ingest.run import ingest_folder
from assets.ingest.validate import validate_row
from assets.new_manifest.findings import NoManifest
from assets.new_manifest.make import NewManifest, create_manifest
from assets.new_manifest.tool_names import TOOL_NAMES, Tool
from db.selection.recipes import parse_recipe
from tests.assets.manifests import write_clip
from tests.db.builders import set_scores
from tests.db.freezing import freeze_recipe

CLIP_TOOLS: tuple[Tool, ...] = ("curator", "cosmos")


def meta(clip: str, **fields: Any) -> dict[str, Any]:
    """The metadata of a clip as the tools write it to metas/v0, with these fields changed."""
    return {
        "span_uuid": clip,
        "source_video": "/raw/films/one.mp4",
        "duration_span": [1.5, 9.5],
        "width_source": 1920,
        "height_source": 1080,
        "framerate_source": 24.0,
        "clip_location": f"/out/run/clips/{clip}.mp4",
        "width": 640,
        "video_codec": "h264",
        "motion_score": {"global_mean": 0.0125, "per_patch_min_256": 1e-06},
        "aesthetic_score": 4,
        "windows": [{"start_frame": 0, "end_frame": 192, "qwen_caption": f"A dog runs in {clip}."}],
        "valid": True,
        **fields,
    }


def write_clips(folder: Path, metas: list[dict[str, Any]], clips: str) -> Path:
    """A folder of these tools: metadata, clips of these names, and what else they write."""
    for inner in (
        "metas/v0",
        "clips",
        "filtered_clips",
        "ce1_embd",
        "ce1_embd_parquet",
        "previews/a",
        "processed_videos",
    ):
        (folder / inner).mkdir(parents=True)
    for content in metas:
        (folder / "metas" / "v0" / f"{content['span_uuid']}.json").write_text(json.dumps(content))
    for clip in clips:
        write_clip(folder / "clips" / f"{clip}.mp4", brightness=ord(clip))
    write_clip(folder / "filtered_clips" / "f.mp4")
    (folder / "ce1_embd" / "a.pickle").write_bytes(b"cos\nsystem\n(S'touch trace'\ntR.")
    pq.write_table(pa.table({"id": ["a"], "embedding": [[0.5, 0.5]]}), folder / "ce1_embd_parquet" / "x.parquet")
    (folder / "previews" / "a" / "0_192.webp").write_bytes(b"webp")
    (folder / "processed_videos" / "one.mp4.json").write_text('{"video": "one.mp4"}')
    (folder / "summary.json").write_text('{"total_clips": 3}')
    return folder


def write_rows(path: Path, rows: list[Any]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def left_out(made: NewManifest) -> dict[str, int]:
    return {row["left out"]: row["n"] for row in made.findings.list_left_out()}


@pytest.mark.parametrize("tool", CLIP_TOOLS)
def test_clips_become_videos_with_the_numbers_of_the_tool(tmp_path: Path, tool: Tool) -> None:
    windows = [
        {"start_frame": 0, "end_frame": 48, "qwen_caption": "A dog runs.", "qwen_lm_enhanced_caption": "A dog."},
        {"start_frame": 48, "end_frame": 120, "qwen_caption": "It stops."},
    ]
    metas = [
        meta("a"),
        meta("b", windows=windows, source_video="https://films.example/two", errors=["late"], aesthetic_score=None),
        meta("c", windows=[], valid=False),
        meta("f", clip_location="s3://bucket/out/filtered_clips/f.mp4"),
        meta("g"),
        meta("h", filtered_windows=[{"start_frame": 0, "end_frame": 9, "qwen_rejection_reasons": "blurred"}]),
    ]
    folder = write_clips(tmp_path / "out", metas, "abch")
    (folder / "metas" / "v0" / "bad.json").write_text('{"aesthetic_score": NaN}')
    made = create_manifest(folder, tool=tool)
    assert made.source_description == f"a folder of {TOOL_NAMES[tool]}"
    videos = {row["video_id"]: row for row in read_rows(folder / "videos.jsonl")}
    common = {"tool": TOOL_NAMES[tool], "tool_version": "v0", "span_start_s": 1.5, "span_end_s": 9.5}
    source = {
        "width_source": 1920,
        "height_source": 1080,
        "framerate_source": 24.0,
        "width": 640,
        "video_codec": "h264",
    }
    motion = {"motion_score_global_mean": 0.0125, "motion_score_per_patch_min_256": 1e-06}
    assert videos["clips/a"] == {
        "video_id": "clips/a",
        "path": "clips/a.mp4",
        **common,
        "tool_file": "metas/v0/a.json",
        "source_video": "/raw/films/one.mp4",
        **source,
        **motion,
        "aesthetic_score": 4,
    }
    assert videos["clips/b"]["source_url"] == "https://films.example/two"
    assert "aesthetic_score" not in videos["clips/b"]
    captions = {row["caption_id"]: row for row in read_rows(folder / "captions.jsonl")}
    assert {key: (row["system"], row["text"]) for key, row in captions.items()} == {
        "clips/a__qwen": ("qwen", "A dog runs in a."),
        "clips/b__qwen": ("qwen", "A dog runs.\nIt stops."),
        "clips/b__qwen_lm_enhanced": ("qwen_lm_enhanced", "A dog."),
        "clips/h__qwen": ("qwen", "A dog runs in h."),
    }
    assert captions["clips/b__qwen"]["segments"] == [
        {"start_s": 0.0, "end_s": 2.0, "text": "A dog runs."},
        {"start_s": 2.0, "end_s": 5.0, "text": "It stops."},
    ]
    assert "segments" not in captions["clips/a__qwen"]
    assert left_out(made) == {
        "a pickled vector of a clip, which is not opened: vectors come from the tool's Parquet files": 1,
        "a preview of a clip": 1,
        "a clip that the tool filtered out": 1,
        "a record about a whole video or chunk": 1,
        "a clip without a caption": 1,
        "metadata of a clip that the tool filtered out": 1,
        "a clip whose file is not in folder clips": 1,
        "a window that the tool filtered out": 1,
        "field 'errors' of the tool, since it is a list": 1,
        "metadata that cannot be read (nan): A number is NaN, or the JSON contains the word NaN or Infinity.": 1,
        "a video that no metadata of the tool names": 1,
        "a file of the tool that names no clip": 1,
    }
    assert not (folder / "trace").exists()
    assert read_rows(folder / "vectors.jsonl") == [
        {"video_id": "clips/a", "encoder": "Cosmos-Embed1", "vector": [0.5, 0.5]}
    ]


def test_vectors_that_cannot_be_used_are_named_row_by_row(tmp_path: Path) -> None:
    folder = write_clips(tmp_path / "out", [meta(clip) for clip in "abcd"], "abcd")

    def write(name: str, ids: list[str | None], vectors: list[Any], kind: pa.DataType) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"id": ids, "embedding": pa.array(vectors, pa.list_(kind))}), folder / name)

    nan, inf = float("nan"), float("inf")
    write("ce1_embd_parquet/x.parquet", ["a", "b", "c", "d"], [[nan, 1], [0, 0], [0.25, 2], None], pa.float32())
    write("ce1_embd_parquet/y.parquet", ["c", "gone", None], [[5, 6], [5, 6], [5, 6]], pa.float64())
    write("iv2_embd_parquet/x.parquet", ["a", "b"], [[1, 2, 3], [inf, 1, 1]], pa.float64())
    write("ce1_embd_336p_parquet/x.parquet", ["a"], [[1]], pa.float64())
    write("openai_embd_parquet/x.parquet", ["a", "b"], [[1, None], [2, 3]], pa.float64())
    (folder / "openai_embd_parquet" / "z.parquet").write_bytes(b"PAR1 no table PAR1")
    made = create_manifest(folder, tool="cosmos")
    assert [(row["video_id"], row["encoder"], row["vector"]) for row in read_rows(folder / "vectors.jsonl")] == [
        ("clips/a", "Cosmos-Embed1 336p", [1.0]),
        ("clips/c", "Cosmos-Embed1", [0.25, 2.0]),
        ("clips/a", "InternVideo2", [1.0, 2.0, 3.0]),
        ("clips/b", "openai", [2.0, 3.0]),
    ]
    assert made.tables.vectors == {"Cosmos-Embed1 336p": 1, "Cosmos-Embed1": 1, "InternVideo2": 1, "openai": 1}
    reasons = {
        reason.split(":")[0]: n for reason, n in left_out(made).items() if "vector" in reason or "table" in reason
    }
    assert reasons == {
        "a vector that ingest would refuse (nan)": 1,
        "a vector that ingest would refuse (no_direction)": 1,
        "a vector that ingest would refuse (not_finite)": 1,
        "a vector that ingest would refuse (wrong_type)": 2,
        "a second vector of a clip by one encoder": 1,
        "a vector of a clip that is not in the manifest": 2,
        "a table that cannot be read": 1,
        "a pickled vector of a clip, which is not opened": 1,
    }


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ("https://ann:pw@films.example/a.mp4", "https://films.example/a.mp4"),
        ("https://films.example/a.mp4?X-Amz-Signature=1f&b=@#x", "https://films.example/a.mp4"),
        ("s3://ann:p/w@bucket/a.mp4?sig=1", "s3://bucket/a.mp4"),
        ("/raw/what?/a#b@c.mp4", "/raw/what?/a#b@c.mp4"),
    ],
)
def test_the_source_of_a_clip_goes_in_without_credentials(tmp_path: Path, source: str, kept: str) -> None:
    folder = write_clips(tmp_path / "out", [meta("a", source_video=source)], "a")
    create_manifest(folder, tool="cosmos")
    (video,) = read_rows(folder / "videos.jsonl")
    assert (video["source_video"], video.get("source_url")) == (kept, kept if kept.startswith("https") else None)


def test_clips_in_a_store_keep_their_address(tmp_path: Path) -> None:
    folder = write_clips(tmp_path / "out", [meta("a", clip_location="s3://bucket/run/clips/a.mp4")], "")
    create_manifest(folder, tool="cosmos")
    (video,) = read_rows(folder / "videos.jsonl")
    assert video["path"] == "s3://bucket/run/clips/a.mp4"


def test_data_juicers_numbers_belong_to_videos_or_texts(tmp_path: Path) -> None:
    rows = [
        {"text": "<__dj__video> A dog runs. <|__dj__eoc|>", "videos": ["a.mp4"], "source": "web", "licence": "CC0-1.0"},
        {"text": "Two videos.", "videos": ["a.mp4", "b.mp4"]},
        {"text": "<__dj__video> <|__dj__eoc|>", "videos": ["b.mp4"]},
        {"text": "A cat sits.", "videos": ["/elsewhere/c.mp4"]},
        {"text": "A cat sleeps.", "videos": ["b.mp4"]},
    ]
    numbers = {"video_motion_score": [0.75], "video_duration": [8.0], "num_words": 3, "lang": "en"}
    stats = [{"__dj__stats__": {**numbers, "video_motion_score": [n / 4]}} for n in range(4)]
    stats.append({"__dj__stats__": numbers, "__dj__meta__": {"video_frame_tags": [["cat", "bed"]], "scene": {"n": 2}}})
    write_rows(tmp_path / "best.jsonl", rows)
    write_rows(tmp_path / "best_stats.jsonl", stats)
    for clip in "ab":
        write_clip(tmp_path / f"{clip}.mp4", brightness=ord(clip))
    made = create_manifest(tmp_path, tool="data-juicer")
    tool = {"tool": "Data-Juicer", "tool_file": "best_stats.jsonl"}
    assert read_rows(tmp_path / "videos.jsonl") == [
        {
            "video_id": "a",
            "path": "a.mp4",
            **tool,
            "video_motion_score": 0.0,
            "video_duration": 8.0,
            "licence": "CC0-1.0",
        },
        {"video_id": "b", "path": "b.mp4", **tool, "video_motion_score": 0.75, "video_duration": 8.0},
    ]
    captions = read_rows(tmp_path / "captions.jsonl")
    assert [(row["text"], row["num_words"], row["lang"]) for row in captions] == [
        ("A dog runs.", 3, "en"),
        ("A cat sleeps.", 3, "en"),
    ]
    assert (captions[0]["source"], captions[1]["scene_n"]) == ("web", 2)
    assert left_out(made) == {
        "a row that names no video, or several": 1,
        "a row whose caption has no text": 1,
        "a row whose video file is not in the folder": 1,
        "field 'video_frame_tags' of the tool, since it is a list": 1,
    }


def test_data_juicers_numbers_may_lie_in_the_rows(tmp_path: Path) -> None:
    row = {"text": "A dog runs.", "videos": ["a.mp4"], "__dj__stats__": {"video_motion_score": [2]}}
    write_rows(tmp_path / "all.jsonl", [row])
    write_clip(tmp_path / "a.mp4")
    create_manifest(tmp_path, tool="data-juicer")
    (video,) = read_rows(tmp_path / "videos.jsonl")
    assert (video["video_motion_score"], video["tool_file"]) == (2, "all.jsonl")


def test_a_tools_rows_are_in_utf_16_as_those_of_any_table(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(b"")
    row = {"videos": ["a.mp4"], "text": "Käse", "__dj__stats__": {"video_duration": [2.5]}}
    (tmp_path / "out.jsonl").write_bytes(json.dumps(row, ensure_ascii=False).encode("utf-16"))
    made = create_manifest(tmp_path, tmp_path / "manifest", tool="data-juicer")
    assert [caption["text"] for caption in read_rows(made.folder / "captions.jsonl")] == ["Käse"]


def test_names_of_a_manifest_are_not_taken_from_a_tool(tmp_path: Path) -> None:
    content = meta("a", path="/etc/passwd", note={"b": "x"}, licence=4, opt_out=True, wild="a\u0000b")
    folder = write_clips(tmp_path / "out", [content], "a")
    made = create_manifest(folder, tool="curator")
    (video,) = read_rows(folder / "videos.jsonl")
    assert (video["path"], video["note_b"], video["opt_out"]) == ("clips/a.mp4", "x", True)
    assert {"licence", "wild"}.isdisjoint(video)
    reasons = " ".join(left_out(made))
    assert "field 'path' of the tool, since a manifest has one with another meaning" in reasons
    assert "(wrong_type)" in reasons
    assert "(nul_character)" in reasons


def test_own_fields_of_a_tool_hide_neither_where_they_come_from_nor_another_one(tmp_path: Path) -> None:
    own = {"tool": "mine", "tool_version": 7, "tool_file": {"a": 1}, "tool_file_a": 2}
    folder = write_clips(tmp_path / "out", [meta("a", **own, b={"c": 1}, b_c=2)], "a")
    made = create_manifest(folder, tool="cosmos")
    (video,) = read_rows(folder / "videos.jsonl")
    assert (video["tool"], video["tool_version"], video["tool_file"]) == ("Cosmos-Curate", "v0", "metas/v0/a.json")
    assert (video["tool_file_a"], video["b_c"]) == (1, 1)
    taken = {f"field {name!r} of the tool, since another one has this name" for name in own.keys() - {"tool_file"}}
    taken.add("field 'b_c' of the tool, since another one has this name")
    assert taken <= left_out(made).keys()

    numbers = {"tool": ["mine"], "tool_file": ["theirs"], "score": [0.5]}
    write_rows(tmp_path / "all.jsonl", [{"text": "A dog runs.", "videos": ["a.mp4"], "__dj__stats__": numbers}])
    write_clip(tmp_path / "a.mp4")
    made = create_manifest(tmp_path, tmp_path / "manifest", tool="data-juicer")
    (video,) = read_rows(tmp_path / "manifest" / "videos.jsonl")
    assert (video["tool"], video["tool_file"], video["score"]) == ("Data-Juicer", "all.jsonl", 0.5)
    assert "field 'tool' of the tool, since another one has this name" in left_out(made)


@pytest.mark.parametrize("bytes_before", [b"", b"\xef\xbb\xbf"])
def test_metadata_that_is_no_utf_8_is_left_out(tmp_path: Path, bytes_before: bytes) -> None:
    folder = write_clips(tmp_path / "out", [meta("a"), meta("b")], "ab")
    for clip, mood in (("a", "caf\u00e9"), ("b", "calm")):
        content = json.dumps(meta(clip, mood=mood), ensure_ascii=False)
        (folder / "metas" / "v0" / f"{clip}.json").write_bytes(bytes_before + content.encode("latin-1"))
    made = create_manifest(folder, tool="cosmos")
    assert [row["mood"] for row in read_rows(folder / "videos.jsonl")] == ["calm"]
    assert any(reason.startswith("metadata that cannot be read (invalid_utf8): ") for reason in left_out(made))


@pytest.mark.parametrize("tool", CLIP_TOOLS)
def test_a_folder_without_metadata_of_clips_is_refused(tmp_path: Path, tool: Tool) -> None:
    write_clip(tmp_path / "clips" / "a.mp4")
    with pytest.raises(
        NoManifest, match=rf"no metadata of clips in metas/v0, as {TOOL_NAMES[tool]} writes it: give the"
    ):
        create_manifest(tmp_path, tool=tool)
    with pytest.raises(NoManifest, match=f"it is a file: give the folder that {TOOL_NAMES[tool]} wrote to"):
        create_manifest(tmp_path / "clips" / "a.mp4", tool=tool)
    assert not (tmp_path / "videos.jsonl").exists()


@pytest.mark.parametrize("tool", CLIP_TOOLS)
def test_failed_and_broken_captions_are_left_out_and_flags_become_fields(tmp_path: Path, tool: Tool) -> None:
    def window(number: int, caption: str | None, status: str | None = "success", **fields: Any) -> dict[str, Any]:
        times = {"start_ns": number * 2 * 10**9, "end_ns": (number + 1) * 2 * 10**9}
        text = {} if caption is None else {"qwen_caption": caption}
        return {**times, "caption_status": status, "caption_failure_reason": None, **text, **fields}

    flags = {"flag_length_outlier": False, "flag_repetition": True, "flag_near_duplicate": None}
    tokens = {"qwen_prompt_tokens": 30, "qwen_output_tokens": 7, "other_output_tokens": 1}
    windows = [
        window(0, "A dog runs.", **flags, **tokens, note="x"),
        window(1, "It runs and then", "truncated"),
        window(2, None, "error", caption_failure_reason="timeout"),
        window(3, None, "error", caption_failure_reason="exception"),
        window(4, "Unknown caption", None),
        window(5, "It stops.", **{**flags, "flag_repetition": False}, **tokens, note="y"),
    ]
    metas = [
        meta("a", windows=windows, duration_span=None, start_ns=1_500_000_000, end_ns=9_500_000_000),
        meta("b", windows=[window(0, "Unknown caption.", "success")]),
        meta("c", windows=[window(0, "A cat.", "blocked")]),
    ]
    folder = write_clips(tmp_path / "out", [], "abc")
    lines = folder / "metas_jsonl" / "v0" / "0d_0.jsonl"
    lines.parent.mkdir(parents=True)
    write_rows(lines, [*metas, metas[0]])
    lines.write_text(lines.read_text() + "[1]\n")
    for inner in ("lance/v0/data/x.lance", "ce1_embd_lance/y.txn", "sam3_tracked/a.mp4", "sam3_events/a.json"):
        (folder / inner).parent.mkdir(parents=True, exist_ok=True)
        (folder / inner).write_bytes(b"not read")
    made = create_manifest(folder, tool=tool)
    (caption,) = read_rows(folder / "captions.jsonl")
    assert caption == {
        "caption_id": "clips/a__qwen",
        "video_id": "clips/a",
        "role": "candidate",
        "system": "qwen",
        "text": "A dog runs.\nIt stops.",
        "segments": [
            {"start_s": 0.0, "end_s": 2.0, "text": "A dog runs."},
            {"start_s": 10.0, "end_s": 12.0, "text": "It stops."},
        ],
        "caption_status": "success",
        "flag_length_outlier": False,
        "flag_repetition": True,
        "prompt_tokens": 60,
        "output_tokens": 14,
        "windows_left_out": 4,
    }
    (video,) = read_rows(folder / "videos.jsonl")
    assert (video["span_start_s"], video["span_end_s"], video["tool_file"]) == (1.5, 9.5, "metas_jsonl/v0/0d_0.jsonl")
    reasons = left_out(made)
    assert {reason: n for reason, n in reasons.items() if "window" in reason} == {
        "a window whose caption breaks off (caption_status 'truncated')": 1,
        "a window whose caption failed (caption_status 'error', caption_failure_reason 'timeout')": 1,
        "a window whose caption failed (caption_status 'error', caption_failure_reason 'exception')": 1,
        "a window whose caption failed (caption_status 'blocked')": 1,
        "a window whose caption is only 'Unknown caption'": 1,
        "a window whose caption is only 'Unknown caption.'": 1,
        "field 'note' of windows, since it differs between them": 1,
    }
    assert reasons["a part of the tool's Lance tables, which are not read"] == 2
    assert reasons["a result of SAM 3, which is not read"] == 2
    assert (reasons["a second record of a clip"], reasons["a clip without a caption"]) == (1, 2)
    assert any("not_an_object" in reason for reason in reasons)


def test_metadata_in_a_lance_table_alone_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "lance" / "v0" / "data").mkdir(parents=True)
    (tmp_path / "lance" / "v0" / "data" / "x.lance").write_bytes(b"a fragment")
    with pytest.raises(NoManifest, match="in a Lance table, which is not read: let Cosmos-Curate write it to metas/v0"):
        create_manifest(tmp_path, tool="cosmos")


@pytest.mark.parametrize("tool", ["data-juicer", None])
def test_tables_of_data_juicer_need_no_numbers(tmp_path: Path, tool: Tool | None) -> None:
    for clip in "ab":
        write_clip(tmp_path / "videos" / f"{clip}.mp4", brightness=ord(clip))
    rows = [
        {"videos": ["./videos/a.mp4"], "text": "<__dj__video> A dog runs. <|__dj__eoc|>", "source": "web"},
        {"videos": ["videos/b.mp4"], "text": "<__dj__video> A cat sits. <|__dj__eoc|>"},
        {"videos": ["videos/a.mp4", "videos/b.mp4"], "text": "Two."},
        {"videos": [], "text": "None."},
    ]
    write_rows(tmp_path / "demo.jsonl", rows)
    made = create_manifest(tmp_path, tool=tool)
    captions = read_rows(tmp_path / "captions.jsonl")
    assert [(row["video_id"], row["text"], row.get("source")) for row in captions] == [
        ("videos/a", "A dog runs.", "web"),
        ("videos/b", "A cat sits.", None),
    ]
    assert left_out(made) == {"a row that names no video, or several": 2}


def test_numbers_that_are_missing_or_of_other_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NoManifest, match=r"no \.jsonl table: give the folder of the export_path of Data-Juicer"):
        create_manifest(tmp_path, tool="data-juicer")
    write_rows(tmp_path / "best.jsonl", [{"text": "A dog.", "videos": ["a.mp4"]}] * 2)
    write_rows(tmp_path / "best.jsonl", [{"text": "A dog.", "path": "a.mp4"}] * 2)
    with pytest.raises(NoManifest, match=r"^best\.jsonl: its first row has no field videos, as the tables of Data-J"):
        create_manifest(tmp_path, tool="data-juicer")
    write_rows(tmp_path / "best_stats.jsonl", [{"__dj__stats__": {}}])
    with pytest.raises(NoManifest, match=r"^best_stats\.jsonl: it has 1 row and best\.jsonl has 2, so it is not known"):
        create_manifest(tmp_path, tool="data-juicer")


def test_what_a_tool_measured_selects_in_bands_and_by_conditions(engine: Engine, tmp_path: Path) -> None:
    metas = [meta(clip, aesthetic_score=number + 0.5) for number, clip in enumerate("abcd")]
    folder = write_clips(tmp_path / "out", metas, "abcd")
    create_manifest(folder, tool="curator")
    ingest_folder(engine, folder, "clips")
    dataset = require_dataset(engine, "clips")
    with engine.connect() as connection:
        samples = connection.scalars(sa.text("SELECT sample_id FROM sample ORDER BY key")).all()
    set_scores(engine, dict.fromkeys(samples, 0.5))

    def take(**recipe: Any) -> list[str]:
        with engine.begin() as connection:
            chosen = freeze_recipe(connection, dataset, parse_recipe({"by": "extra_aesthetic_score", **recipe}))
            query = sa.text("SELECT video FROM selection_item WHERE selection_id = :id ORDER BY rank")
            return list(connection.scalars(query, {"id": chosen.selection_id}))

    assert take(count=2) == ["clips/d", "clips/c"]
    assert take(keep=1, where="extra_aesthetic_score < 2 and extra_tool = 'NeMo Curator'") == ["clips/b", "clips/a"]
    assert sorted(take(per="extra_aesthetic_score", bands=[2], quotas={"*": 1})) == ["clips/b", "clips/d"]
    assert cast(str, read_rows(folder / "videos.jsonl")[0]["tool_file"]) == "metas/v0/a.json"


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.just("clips/a.mp4"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)
NAMES = ("clip_location", "windows", "filtered_windows", "duration_span", "framerate", "source_video", "motion_score")


@given(changes=st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=9), JSON_VALUES, max_size=4))
def test_whatever_metadata_holds_the_other_clip_is_read(
    tmp_path_factory: pytest.TempPathFactory, changes: dict[str, Any]
) -> None:
    folder = write_clips(tmp_path_factory.mktemp("out"), [meta("a"), meta("b", **{**changes, "span_uuid": "b"})], "")
    for clip in "ab":
        (folder / "clips" / f"{clip}.mp4").write_bytes(b"a clip that nobody decodes")
    made = create_manifest(folder, tool="curator")
    videos = {row["video_id"]: row for row in read_rows(folder / "videos.jsonl")}
    assert videos["clips/a"]["aesthetic_score"] == 4
    for row in videos.values():
        assert isinstance(validate_row(RawRow("", 1, "video", row, None, "")), VideoRow)
    assert len(videos) == 2 or left_out(made)


def test_deep_metadata_and_rows_are_left_out(tmp_path: Path) -> None:
    folder = write_clips(tmp_path / "out", [meta("a")], "a")
    (folder / "metas" / "v0" / "deep.json").write_text('{"a":' * 5000 + "1" + "}" * 5000)
    (folder / "metas" / "v0" / "list.json").write_text("[1]")
    made = create_manifest(folder, tool="cosmos")
    assert len(read_rows(folder / "videos.jsonl")) == 1
    assert {"metadata that cannot be read (too_deep)", "metadata that cannot be read (not_an_object)"} <= {
        reason.partition(":")[0] for reason in left_out(made)
    }
    write_rows(tmp_path / "best.jsonl", [{"text": "A dog.", "videos": ["a.mp4"]}, [1], {"text": 4, "videos": "a.mp4"}])
    write_rows(tmp_path / "best_stats.jsonl", [{"__dj__stats__": [1]}, {}, {"__dj__stats__": {"n": {"m": 2}}}])
    write_clip(tmp_path / "a.mp4")
    made = create_manifest(tmp_path, tmp_path / "manifest", tool="data-juicer")
    assert len(read_rows(tmp_path / "manifest" / "videos.jsonl")) == 1
    assert any("not_an_object" in reason for reason in left_out(made))
