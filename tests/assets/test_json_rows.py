"""Published JSON as rows: every form gives its captions, what is no form is refused, and sidecars change nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assets.ingest.rejects import ManifestError
from assets.new_manifest.findings import NoManifest
from assets.new_manifest.json_rows import MAX_JSON_BYTES
from assets.new_manifest.make import create_manifest
from tests.assets.init_sources import Files, left_out, put, rows

CLIPS: Files = {"a.mp4": "x", "b.mp4": "x"}
TURNS = [
    {"from": "human", "value": "<video>\nWhat is shown?"},
    {"from": "gpt", "value": "A dog."},
]
ASKED = {"role": "user", "content": "What is shown?"}
TIMED = [{"start_s": 0.5, "end_s": 4.0, "text": "One."}, {"start_s": 4.0, "end_s": 11.0, "text": "Two."}]


def captions_of(folder: Path, document: Any, name: str = "captions.json") -> list[dict[str, Any]]:
    text = document if isinstance(document, str) else json.dumps(document)
    made = create_manifest(put(folder, {**CLIPS, name: text}))
    # A video that no row names is kept.
    assert sorted((row["video_id"], row["path"]) for row in rows(made, "videos")) == [("a", "a.mp4"), ("b", "b.mp4")]
    return rows(made, "captions")


ROWS = [{"video": "a.mp4", "caption": "A dog."}, {"video": "b.mp4", "caption": "A cat."}]
PAIRS = [("a", "A dog."), ("b", "A cat.")]


@pytest.mark.parametrize(
    "document",
    [
        ROWS,
        [{"path": "./a.mp4", "cap": "A dog."}, {"path": "b.mp4", "cap": "A cat."}],
        {"info": {"year": 2016}, "annotations": ROWS},
        {"train": ROWS[:1], "val": ROWS[1:]},
        {"a.mp4": "A dog.", "b.mp4": "A cat."},
        {"a": ["A dog."], "b": ["A cat."], "missing": []},
        {"a": {"caption": "A dog.", "video_id": "other"}, "b": {"caption": "A cat.", "video_id": "other"}},
        {"database": {"a": {"sentence": "A dog."}, "b": {"sentence": "A cat."}}, "version": "1"},
        {"0": ROWS[0], "1": ROWS[1]},
        [{"info": {"video": "a.mp4"}, "caption": "A dog."}, {"info": {"video": "b.mp4"}, "caption": "A cat."}],
        {
            "videos": [{"video_id": "a", "url": "https://example.org/watch?v=1"}, {"video_id": "b"}],
            "sentences": [{"video_id": "a", "caption": "A dog."}, {"video_id": "b", "caption": "A cat."}],
        },
        {
            "images": [{"id": 1, "file_name": "a.mp4"}, {"id": 2, "file_name": "b.mp4"}],
            "annotations": [
                {"id": 1, "image_id": 1, "caption": "A dog."},
                {"id": 2, "image_id": 2, "caption": "A cat."},
            ],
        },
        {
            "meta": {"video_id": "m"},
            "data": {"a": {"caption": {"content": "A dog."}}, "b": {"caption": {"content": "A cat."}}},
        },
        [
            {"id": 1, "video": "a.mp4", "conversations": TURNS},
            {"id": 2, "video": "b.mp4", "conversations": [{"from": "gpt", "value": "A cat."}]},
        ],
        [
            {"id": number, "video": video, "messages": [ASKED, {"role": "assistant", "content": text}]}
            for number, (video, text) in enumerate(PAIRS)
        ],
        "\n".join(map(json.dumps, ROWS)),
        "\ufeff" + json.dumps(ROWS),
    ],
)
def test_every_form_of_captions_is_read(tmp_path: Path, document: Any) -> None:
    assert [(row["video_id"], row["text"]) for row in captions_of(tmp_path, document)] == PAIRS


@pytest.mark.parametrize(
    "part",
    [
        {"duration": 12.0, "timestamps": [[0.5, 4.0], [4.0, 11.0]], "sentences": ["One.", "Two."]},
        {"annotations": [{"segment": [0.5, 4], "sentence": "One."}, {"segment": [4, 11], "sentence": "Two."}]},
        [
            {"timestamp": ["0:00:00.500", "0:00:04"], "sentence": "One."},
            {"timestamp": ["00:04", "00:11"], "sentence": "Two."},
        ],
        {"start": [0.5, 4], "end": [4, 11], "text": ["One.", "Two."]},
        {"captions": [{"start": 0.5, "end": 4, "text": "One."}, {"start": 4, "end": 11, "text": "Two."}]},
    ],
)
@pytest.mark.parametrize("is_wrapped", [False, True])
def test_captions_with_times_are_segments(tmp_path: Path, part: Any, is_wrapped: bool) -> None:
    document = {"version": "1", "results": {"a": part}} if is_wrapped else {"a": part}
    (row,) = captions_of(tmp_path, document)
    assert (row["video_id"], row["text"], row["segments"]) == ("a", "One. Two.", TIMED)


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.json"])
def test_lists_that_a_cell_has_as_text_are_segments(tmp_path: Path, name: str) -> None:
    times, texts = "[['0:00:00.500', '0:00:04.000'], ('0:00:04.000', '0:00:11.000')]", "['One.', \"Two.\"]"
    row = {"videoID": "a", "timestamp": times, "caption": texts}
    cells = ",".join('"' + cell.replace('"', '""') + '"' for cell in row.values())
    text = f"videoID,timestamp,caption\n{cells}\n" if name == "t.csv" else json.dumps(row)
    if name == "t.json":
        text = f"[{text}]"
    assert [(row["text"], row["segments"]) for row in captions_of(tmp_path, text, name)] == [("One. Two.", TIMED)]


def test_captions_in_two_languages_are_of_two_systems(tmp_path: Path) -> None:
    found = captions_of(tmp_path, [{"videoID": "a", "enCap": ["A dog.", "It runs."], "chCap": ["一只狗。"]}])
    assert [(row["system"], row["text"]) for row in found] == [
        ("en", "A dog."),
        ("en", "It runs."),
        ("ch", "一只狗。"),
    ]


def test_a_question_is_no_caption(tmp_path: Path) -> None:
    rows_of_turns = [
        {"video": "a.mp4", "messages": [ASKED]},
        {"video": "b.mp4", "messages": [{**ASKED, "role": "bot"}]},
    ]
    assert [row["video_id"] for row in captions_of(tmp_path, rows_of_turns)] == ["b"]


def test_later_answers_are_counted(tmp_path: Path) -> None:
    turns = [*TURNS, {"from": "human", "value": "Which colour?"}, {"from": "gpt", "value": "Brown."}]
    made = create_manifest(put(tmp_path, {**CLIPS, "t.json": json.dumps([{"video": "a.mp4", "conversations": turns}])}))
    assert [row["text"] for row in rows(made, "captions")] == ["A dog."]
    assert left_out(made)["a later answer in a conversation, which is no caption"] == 1


@pytest.mark.parametrize(
    "document",
    [
        '{"clips": {"x": [["a.mp4", {"caption": "A dog."}]]}}',
        '[["a.mp4", "A dog."], ["b.mp4", "A cat."]]',
        '{"a": {"short": "A dog.", "long": "A brown dog runs."}}',
        '[{"file": "a.mp4", "prompt": "A dog."}]',
        '{"a": "A dog.", "a": "A cat."}',
        '[{"video": "a.mp4", "caption": NaN}]',
        '[{"video": "a.mp4", "caption": "x", "caption": "y"}]',
        '[{"video": "a.mp4", "caption": ' + "[" * 100_000,
        '[{"video": "a.mp4", "caption": "A dog."},]',
    ],
)
def test_captions_that_cannot_be_read_are_refused(tmp_path: Path, document: str) -> None:
    with pytest.raises((NoManifest, ManifestError), match=r"captions\.json: "):
        captions_of(tmp_path, document)
    with pytest.raises((NoManifest, ManifestError), match=r"captions\.json: "):
        create_manifest(tmp_path / "captions.json")


def test_a_large_document_is_refused(tmp_path: Path) -> None:
    with (put(tmp_path, CLIPS) / "captions.json").open("wb") as file:
        file.write(b'[{"video": "a.mp4", "caption": "A dog."}]')
        file.truncate(MAX_JSON_BYTES + 1)
    with pytest.raises(NoManifest, match="of more than 256 MiB: write it as JSON Lines"):
        create_manifest(tmp_path)


@pytest.mark.parametrize("name", ["a_meta.json", "a.json", "a.info.json", "package.json", "dataset_infos.json"])
@pytest.mark.parametrize(
    "content",
    [
        {"fps": 30, "id": "a", "tags": ["x"], "camera": {"name": "k", "lens": {"mm": 35}}},
        {"train": ["a", "b"], "val": [], "codec": "H.264"},
        {"default": {"license": "CC0", "features": {"caption": {"dtype": "string"}}}},
        [1, 2],
        "text that is no JSON",
    ],
)
@pytest.mark.parametrize("has_captions", [False, True])
def test_other_json_changes_nothing(tmp_path: Path, name: str, content: Any, has_captions: bool) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    captions: Files = {"a.txt": "A dog."} if has_captions else {}
    made = create_manifest(put(tmp_path, {**CLIPS, **captions, name: text}))
    assert [row["text"] for row in rows(made, "captions")] == ["A dog."] * has_captions
    assert len(rows(made, "videos")) == 2


def test_a_table_counts_before_json(tmp_path: Path) -> None:
    files = {**CLIPS, "t.csv": "video,caption\na.mp4,A bird.\n", "t.json": json.dumps(ROWS), "other.csv": "x,y\n1,2\n"}
    assert [row["text"] for row in rows(create_manifest(put(tmp_path, files)), "captions")] == ["A bird."]


def test_json_next_to_caption_files_is_named(tmp_path: Path) -> None:
    made = create_manifest(put(tmp_path, {**CLIPS, "a.txt": "A bird.", "t.json": json.dumps(ROWS)}))
    assert [row["text"] for row in rows(made, "captions")] == ["A bird."]
    assert left_out(made) == {"a JSON file that belongs to no video: if it has captions of several, give its path": 1}


def test_clips_of_curator_need_its_name(tmp_path: Path) -> None:
    with pytest.raises(NoManifest, match="add --from curator or --from cosmos"):
        create_manifest(put(tmp_path, {"clips/a.mp4": "x", "metas/v0/a.json": '{"windows": []}'}))
