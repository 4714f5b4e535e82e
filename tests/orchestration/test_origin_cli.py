"""Origins by the command line: `holds`, conditions on licences, the report's section, and the blocking check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command_line import run_command, run_successfully
from tests.orchestration.conftest import Installation

pytestmark = pytest.mark.usefixtures("installation")
ALLOWED = "REELSIEVE_ALLOWED_LICENCES"


def write_folder(folder: Path) -> Path:
    """Three text-only videos: one CC0, one of the folder's licence, one whose owner opted out."""
    folder.mkdir()
    rows = [
        {"video_id": "a", "licence": "CC0-1.0", "source_url": "https://clips.example/a"},
        {"video_id": "b", "aesthetic_score": 4.5},
        {"video_id": "c", "opt_out": True},
    ]
    captions = [
        {"caption_id": f"{key}_{role}", "video_id": key, "role": role, "system": "s", "text": f"A dog runs to {key}."}
        for key in "abc"
        for role in ("candidate", "reference")
    ]
    for name, table in (("videos", rows), ("captions", captions)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table))
    (folder / "origin.json").write_text('{"licence": "CC-BY-4.0"}')
    return folder


def test_origins_select_are_reported_and_are_held(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_folder(tmp_path / "m")
    run_successfully("ingest", str(folder), "-d", "clips")
    run_successfully("facts", "-d", "clips")
    where = "licence = 'CC-BY-4.0' and (opt_out is null or not opt_out)"
    run_successfully("select", "-d", "clips", "--by", "words", "--count", "1", "--where", where)
    run_successfully("select", "-d", "clips", "--by", "words", "--keep", "1", "--json")
    shown = run_successfully("dataset", "holds", "https://clips.example/a")
    assert "exports of such a selection contain" in shown.stdout
    held = json.loads(run_successfully("dataset", "holds", "https://clips.example/a", "--json").stdout)
    assert [row["video"] for row in held["videos"]] == ["a"]
    assert [(row["selection"], row["rows"]) for row in held["selections"]] == [(2, 1)]
    held = json.loads(run_successfully("dataset", "holds", "b", "--json").stdout)
    assert [row["selection"] for row in held["selections"]] == [2, 1]
    nothing = run_successfully("dataset", "holds", "nowhere")
    assert nothing.stdout.split("\n")[:2] == ["no dataset holds nowhere", "no selection holds nowhere"]

    run_successfully("report", "-d", "clips", "--to", str(tmp_path / "page"))
    page = " ".join((tmp_path / "page" / "index.html").read_text().split())
    assert "Licences of the videos: CC-BY-4.0 (2), CC0-1.0 (1). 1 video names a source." in page
    assert "<code>extra_aesthetic_score</code></th><td" in page
    assert "The owners of 1 video asked to leave it out" in page

    monkeypatch.setenv(ALLOWED, '["CC0-1.0"]')
    refused = run_command("ingest", str(folder), "-d", "clips")
    assert refused.returncode == 1
    assert refused.stderr.strip().splitlines()[-1] == (
        "error: a blocking check failed, the rows are kept: 2 of 3 videos lack an allowed licence: CC-BY-4.0 (2, such "
        "as b); select by licence with --where, allow them in REELSIEVE_ALLOWED_LICENCES, or correct the manifest"
    )
    monkeypatch.setenv(ALLOWED, '["CC0-1.0", "CC-BY-4.0"]')
    run_successfully("ingest", str(folder), "-d", "clips")
    (folder / "origin.json").write_text('{"license": "MIT"}')
    assert run_command("ingest", str(folder), "-d", "clips").stderr.startswith(
        "error: origin.json: 'license' is not a field of an origin, did you mean 'licence'?"
    )


def test_init_from_a_tool_says_what_it_read_and_refuses_other_names(tmp_path: Path) -> None:
    (tmp_path / "metas" / "v0").mkdir(parents=True)
    window = {"start_frame": 0, "end_frame": 9, "qwen_caption": "A dog runs."}
    meta = {"clip_location": "s3://bucket/clips/a.mp4", "aesthetic_score": 4.5, "windows": [window], "errors": []}
    (tmp_path / "metas" / "v0" / "a.json").write_text(json.dumps(meta))
    made = run_successfully("init", str(tmp_path), "--from", "cosmos", "--dry-run")
    assert made.stdout.startswith("found: a folder of Cosmos-Curate\n")
    assert "1 caption of system 'qwen'" in made.stdout
    assert "field 'errors' of the tool, since it is a list" in " ".join(made.stdout.split())
    unknown = run_command("init", str(tmp_path), "--from", "mine")
    assert unknown.returncode == 2
    assert "curator" in unknown.stderr
    other = run_command("init", str(tmp_path), "--from", "data-juicer")
    assert (other.returncode, other.stderr.count("\n")) == (1, 1)
