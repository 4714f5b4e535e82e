"""To Label Studio and back: tasks as its guide describes them, and its JSON export as ratings of a dataset."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.ingest.label_studio import read_rating_rows
from assets.ingest.rejects import ManifestError, Reject
from assets.ingest.run import ingest_folder
from assets.selection.export import export_selection
from assets.selection.export_target import ExportFormat
from assets.selection.formats.label_studio import write_label_studio
from db.selection.exports import ExportColumn
from tests.assets.exporting import TEXTS, make_clips

CAPTIONS = {"v1__a": "A dog runs.", "v1__b": "A cat </script> sleeps.", "v2__a": "Nothing."}


def exported(engine: Engine, folder: Path) -> list[dict[str, Any]]:
    clips = make_clips(engine, folder)
    done = export_selection(engine, clips.selection_id, folder / "tasks.json")
    assert (done.form, done.rows) == (ExportFormat.LABEL_STUDIO, len(TEXTS))
    passport = json.loads((folder / "tasks.json.passport.json").read_text())
    assert passport["format"] == "label-studio"
    tasks: list[dict[str, Any]] = json.loads(done.path.read_text(encoding="utf-8"))
    return tasks


def test_tasks_have_media_text_and_predictions_and_hide_the_system(engine: Engine, tmp_path: Path) -> None:
    tasks = exported(engine, tmp_path)
    assert [task["data"]["text"] for task in tasks] == list(TEXTS)
    for task in tasks:
        assert task.keys() == {"data", "predictions"}
        assert task["data"].keys() <= {"video", "text", "references", "dataset", "sample"}
        assert task["data"].get("video", "/data/local-files/?d=").startswith("/data/local-files/?d=")
        for prediction in task["predictions"]:
            assert prediction.keys() == {"model_version", "score", "result"}
            assert isinstance(prediction["score"], float)
            assert prediction["result"] == []
    assert any(task["predictions"] for task in tasks)
    assert any(" " not in task["data"].get("video", " ") for task in tasks)


def tasks_of(captions: dict[str, str]) -> list[dict[str, Any]]:
    """The tasks of captions, as they are exported."""
    names = ("dataset", "sample", "media", "text", "references", "vcs", "vcs_models")
    columns = [ExportColumn(name, "texts" if name == "references" else "text", "") for name in names]
    rows = [("d", key, "https://host/a b.mp4", text, ["A ref."], 0.5, "minilm") for key, text in captions.items()]
    file = io.BytesIO()
    write_label_studio(file, columns, [rows[:1], rows[1:]])
    found: list[dict[str, Any]] = json.loads(file.getvalue())
    return found


def annotation(number: int, rating: Any, rater: Any = 1, name: str = "coverage", **more: Any) -> dict[str, Any]:
    """An annotation with one rating, as Label Studio exports it."""
    result = {
        "id": f"r{number}",
        "type": "rating",
        "value": {"rating": rating},
        "origin": "manual",
        "to_name": "caption",
        "from_name": name,
    }
    return {
        "id": number,
        "completed_by": rater,
        "result": [{"id": "x", "type": "choices", "from_name": "why", "value": {"choices": ["short"]}}, result],
        "was_cancelled": False,
        "ground_truth": False,
        "created_at": "2026-01-30T02:40:43.893565Z",
        "updated_at": "2026-01-30T02:41:00.000000Z",
        "lead_time": 8.65,
        **more,
    }


def test_what_comes_back_is_ratings_with_their_raters_and_times(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "videos.jsonl").write_text('{"video_id": "v1"}\n{"video_id": "v2"}\n')
    rows = [
        {"caption_id": key, "video_id": key[:2], "role": "candidate", "system": key[-1], "text": text}
        for key, text in CAPTIONS.items()
    ]
    (tmp_path / "captions.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    tasks = tasks_of({**CAPTIONS, "gone": "Dropped meanwhile."})
    ann = {"id": 2, "email": "ann@example.org", "first_name": "Ann"}
    tasks[0] |= {"id": 11, "annotations": [annotation(1, 4), annotation(2, 5.0, ann), annotation(3, 2, 3, "style")]}
    tasks[1] |= {"id": 12, "annotations": [annotation(4, 9), annotation(5, 3, was_cancelled=True)]}
    tasks[2] |= {"id": 13, "annotations": []}
    tasks[3] |= {"id": 14, "annotations": [annotation(6, 1)]}
    back = tmp_path / "project-1.json"
    back.write_text(json.dumps(tasks), encoding="utf-8")
    report = ingest_folder(engine, tmp_path, "d", mixed_rows=back)
    assert (report.accepted["ratings"], report.rejected) == (3, 2)
    with engine.connect() as connection:
        query = "SELECT key, rater, aspect, value, r.extra FROM rating r JOIN sample USING (sample_id) ORDER BY 2, 3"
        stored = [tuple(row) for row in connection.execute(sa.text(query))]
        refused = connection.execute(sa.text("SELECT line, code FROM ingest_reject ORDER BY line")).all()
    assert [row[:4] for row in stored] == [
        ("v1__a", "ann@example.org", "coverage", 5.0),
        ("v1__a", "label-studio:1", "coverage", 4.0),
        ("v1__a", "label-studio:3", "style", 2.0),
    ]
    assert stored[1][4] == {
        "rated_at": "2026-01-30T02:41:00.000000Z",
        "lead_time_s": 8.65,
        "tool": "label-studio",
        "task": 11,
        "annotation": 1,
    }
    assert [tuple(row) for row in refused] == [(2, "out_of_range"), (4, "dangling_reference")]
    again = ingest_folder(engine, tmp_path, "d", mixed_rows=back)
    assert (again.accepted["ratings"], again.unchanged["ratings"]) == (0, 3)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"{}", "is not a list of tasks: export the project"),
        (b"[1", "export the project from Label Studio as JSON"),
        (b'["\xff"]', "byte 3 is not valid UTF-8"),
        (b'[{"a": NaN}]', "NaN"),
    ],
)
def test_a_file_that_is_no_export_is_named(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "project.json"
    path.write_bytes(content)
    with pytest.raises(ManifestError, match=sentence):
        list(read_rating_rows(path))


@pytest.mark.parametrize(
    ("task", "code"),
    [
        (7, "not_an_object"),
        ({"annotations": []}, "missing_field"),
        ({"data": {"sample": "a"}, "annotations": "none"}, "wrong_type"),
        ({"data": {"sample": "a"}, "annotations": [{"result": None}]}, "wrong_type"),
    ],
)
def test_a_task_that_is_none_costs_itself(tmp_path: Path, task: Any, code: str) -> None:
    path = tmp_path / "project.json"
    good = {"data": {"sample": "b"}, "annotations": [annotation(1, 3, None)]}
    path.write_text(json.dumps([task, good]))
    first, second = read_rating_rows(path)
    assert isinstance(first.reject, Reject)
    assert (first.line, first.reject.code) == (1, code)
    assert (second.line, second.fields and "rater" in second.fields) == (2, False)
