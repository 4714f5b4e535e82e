"""The command line as a user meets it: JSON shapes, sentences instead of traces, exit codes."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from assets.metrics.registry import METRICS
from db.server.urls import DAGSTER, build_sibling_url
from orchestration.installation import get_installation
from tests.assets.exporting import files_of_at_most
from tests.assets.manifests import write_clip
from tests.command_line import Done, run_command
from tests.orchestration.conftest import Installation, forget_installation
from tests.orchestration.survival import connect

pytestmark = pytest.mark.slow

TEXTS = {
    "faithful": "A red ball rolls in from the left. It hits a blue box. The box falls over. The ball stops.",
    "brief": "A ball hits a box.",
    "shuffled": "The ball stops. The box falls over. A red ball rolls in from the left. It hits a blue box.",
}
REFERENCE = (
    "A red ball rolls into view from the left. It bumps into a blue box. The box topples. The ball comes to rest."
)

# Postgres says it of itself, as on a full disk.
FULL_DISK = (
    "CREATE FUNCTION full_disk() RETURNS {} LANGUAGE plpgsql AS $$ BEGIN "
    "RAISE 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$"
)
DISK_IS_FULL = (
    "the disk of the database is full (could not extend file: No space left on device): make room there and run the "
    "same command again"
)
Run = Callable[..., Done]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A manifest of two text-only videos; the second has no reference, and one row is bad."""
    folder = tmp_path_factory.mktemp("manifest")
    write_rows(folder / "videos.jsonl", [{"video_id": "v1"}, {"video_id": "v2"}])
    captions: list[dict[str, Any]] = [
        {"caption_id": "v1_ref", "video_id": "v1", "role": "reference", "text": REFERENCE},
        {"caption_id": "v2_a", "video_id": "v2", "role": "candidate", "system": "brief", "text": "A cat."},
        {"caption_id": "bad", "video_id": "v9", "role": "candidate", "system": "brief", "text": "Nobody knows v9."},
    ]
    captions += [
        {"caption_id": f"v1_{system}", "video_id": "v1", "role": "candidate", "system": system, "text": text}
        for system, text in TEXTS.items()
    ]
    write_rows(folder / "captions.jsonl", captions)
    write_rows(folder / "qa.jsonl", [{"qa_id": "q1", "video_id": "v1", "question": "What rolls?", "answer": "A ball."}])
    return folder


@pytest.fixture(scope="module")
def run(installation: Installation) -> Run:
    """The command line on a home folder of its own."""
    return run_command


def read_json(done: Done) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def scored(run: Run, folder: Path) -> dict[str, Any]:
    """The answers of ingest and score on the manifest."""
    ingested = read_json(run("ingest", str(folder), "--dataset", "cli", "--workers", "2", "--json"))
    return {"ingest": ingested, "score": read_json(run("score", "--dataset", "cli", "--json"))}


def test_ingest_reports_each_table(scored: dict[str, Any]) -> None:
    report = scored["ingest"]
    assert report["dataset"] == "cli"
    assert report["accepted"] == {
        "videos": 2, "captions": 5, "keypoints": 0, "keypoint_labels": 0, "qa": 1, "ratings": 0, "vectors": 0
    }  # fmt: skip
    assert set(report["unchanged"].values()) == {0}
    assert report["rejected"] == 1


def test_a_dry_run_of_ingest_says_what_it_would_do(run: Run, folder: Path) -> None:
    tried = read_json(run("ingest", str(folder), "--dataset", "tried", "--dry-run", "--json"))
    assert tried["accepted"]["captions"] == 5
    assert [(row["source"], row["line"], row["code"]) for row in tried["refused"]] == [
        ("captions.jsonl", 3, "dangling_reference")
    ]
    shown = run("ingest", str(folder), "--dataset", "tried", "--dry-run")
    assert "dangling_reference" in shown.stdout
    assert "nothing was changed" in shown.stdout
    assert run("dataset", "rejects", "--dataset", "tried").returncode == 1


def test_init_makes_a_manifest_that_ingest_reads(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "my clips"
    write_clip(folder / "a.avi")
    (folder / "a.txt").write_text("A ball rolls.")
    tried = read_json(run("init", str(folder), "--dry-run", "--json"))
    assert (tried["videos"], tried["captions"], tried["written"]) == (1, 1, False)
    assert not list(folder.glob("*.jsonl"))
    made = run("init", str(folder))
    assert (made.returncode, made.stderr) == (0, "")
    command = next(line for line in made.stdout.splitlines() if "ingest" in line).removeprefix("next: ")
    words = shlex.split(command)
    assert words == ["reelsieve", "ingest", str(folder), "--dataset", "my_clips"]
    report = read_json(run(*words[1:], "--dry-run", "--json"))
    assert (report["accepted"]["captions"], report["rejected"]) == (1, 0)
    again = run("init", str(folder))
    assert (again.returncode, again.stderr.count("\n")) == (1, 1)
    assert "never overwritten" in again.stderr


def test_init_says_what_can_be_scored_and_offers_ratings(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "clips"
    write_clip(folder / "a.avi")
    (folder / "a.txt").write_text("A ball rolls.")
    shown = run("init", str(folder), "--dry-run").stdout
    assert "plan: scores: no metric can score this yet\n" in shown
    assert "plan: vcs and vcs_short need references: none found\n" in shown
    assert "plan: evqa needs another encoder: the built-in encoder only works on the demo. Set " in shown
    table = tmp_path / "table" / "t.csv"
    table.parent.mkdir()
    table.write_text("video,caption,reference,score\nv,A red ball hits the box.,A red ball rolls and hits a box.,4\n")
    shown = run("init", str(table), "--dry-run").stdout
    assert "plan: scores: vcs_short\n" in shown
    assert "plan: vcs needs other samples than this one: too short, texts with so few chunks always score 0" in shown
    assert "plan: qeva needs other samples than this one: no questions, coverage gets 1 of the 3 questions" in shown
    assert [path.name for path in table.parent.iterdir()] == ["t.csv"]
    assert "plan: ecs needs keypoints: none found\n" in shown
    assert "ratings: column 'score' holds numbers from 4 to 4: --rating score makes them" in shown
    rated = run("init", str(table), "--rating", "score", "--to", str(tmp_path / "rated"))
    assert (rated.returncode, "1 rating\n" in rated.stdout) == (0, True)
    assert "written: ratings.jsonl, captions.jsonl, videos.jsonl in " in rated.stdout
    table.write_text("video,reference\nv,A red ball.\n")
    needs = read_json(run("init", str(table), "--dry-run", "--json"))["needs"]
    assert needs == dict.fromkeys(METRICS, "candidate captions")


def test_score_reports_each_shard_and_scores_nothing_twice(run: Run, scored: dict[str, Any]) -> None:
    # No judge is named, so that nobody asks one.
    made = {metric: 5 for metric in METRICS if metric != "judge"}
    assert scored["score"] == {"dataset": "cli", "shards": [{"shard": "cli:0000", **made}]}
    again = run("score", "--dataset", "cli")
    assert again.returncode == 0
    nothing, values = again.stdout.splitlines()[:2]
    assert nothing == "nothing to score: every sample of cli has a value, or a reason for none"
    assert values.startswith("samples with a value: vcs 2, evqa 0, vcs_short 3, ")


def test_rejects_name_file_line_code_and_reason(run: Run, scored: dict[str, Any]) -> None:
    (reject,) = read_json(run("dataset", "rejects", "--dataset", "cli", "--json"))
    assert {name: reject[name] for name in ("source", "line", "code")} == {
        "source": "captions.jsonl",
        "line": 3,
        "code": "dangling_reference",
    }
    assert "v9" in reject["reason"]


def test_scores_are_ordered_and_null_where_undefined(run: Run, scored: dict[str, Any]) -> None:
    rows = read_json(run("dataset", "scores", "--dataset", "cli", "--json"))
    values = {row["sample"]: row["vcs"] for row in rows}
    assert rows[0]["sample"] == "v1_faithful"
    assert rows[0]["system"] == "faithful"
    assert rows[0]["video"] == "v1"
    assert values["v1_faithful"] > values["v1_shuffled"]
    statuses = {row["sample"]: row["vcs_status"] for row in rows if row["vcs"] is None}
    assert statuses == {"v1_brief": "too_short", "v2_a": "no_reference", "q1": "not_applicable"}


def test_the_demo_encoder_gives_no_number_for_other_videos(run: Run, tmp_path: Path) -> None:
    write_clip(tmp_path / "videos" / "noise.avi", n_frames=40)
    write_rows(tmp_path / "videos.jsonl", [{"video_id": "noise", "path": "videos/noise.avi"}])
    caption = {"caption_id": "c", "video_id": "noise", "role": "candidate", "system": "sys", "text": TEXTS["brief"]}
    write_rows(tmp_path / "captions.jsonl", [caption])
    assert run("ingest", str(tmp_path), "--dataset", "real").returncode == 0
    scored = run("score", "--dataset", "real", "--metric", "evqa")
    assert scored.returncode == 0, scored.stderr
    said = " ".join(scored.stderr.split())
    first = "warning: evqa cannot score the only sample: no model, the built-in encoder only works on the demo"
    assert said.startswith(first)
    assert "evqa has no score for 1 sample: no model, the built-in encoder only works on the demo" in said
    assert "REELSIEVE_IMAGE_TEXT_ENCODER" in said
    assert "words_in_common has no score" not in said, "what comes along and cannot be had is no matter for a warning"
    # The README's demo shows the label `evqa (demo encoder)`; here a table of five metrics would break it.
    (row,) = read_json(run("dataset", "scores", "--dataset", "real", "--json"))
    assert (row["evqa"], row["evqa_status"]) == (None, "no_model")
    assert row["evqa_models"].startswith("demo encoder, ")
    assert (row["vcs"], row["vcs_status"], row["vcs_models"]) == (None, None, None)


def test_a_recipe_is_previewed_frozen_shown_and_compared(run: Run, scored: dict[str, Any], tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("by: {vcs: 1, vcs_short: 1}\nper: system\nquotas: {'*': 1}\ndedupe: 0.999\n")
    select = ("select", "-d", "cli", "--recipe", str(recipe))
    before = read_json(run("selections", "--json"))["selections"]
    seen = read_json(run(*select, "--preview", "--json"))
    assert seen["n"] == sum(row["chosen"] for row in seen["systems"]) == len(seen["systems"])
    assert read_json(run("selections", "--json"))["selections"] == before, "a preview freezes nothing"
    seen_by_people = run(*select, "--preview")
    assert "nothing is frozen" in seen_by_people.stdout

    frozen = read_json(run(*select, "--json"))
    assert (frozen["n"], frozen["cutoff"]) == (seen["n"], seen["cutoff"])
    assert read_json(run("selections", "-d", "cli", "--json"))["selections"][0]["selection"] == frozen["selection_id"]

    listed = read_json(run("selections", "-d", "cli", "--json"))["selections"][0]
    assert (listed["n"], listed["n_eligible"]) == (frozen["n"], frozen["n_eligible"])
    shown = run("selections", "show", str(frozen["selection_id"])).stdout
    assert f"{frozen['n']} of {frozen['n_eligible']} eligible samples" in shown
    assert [
        f"# samples without a value of {metric}, in the whole dataset: "
        f"{', '.join(f'{n} {status}' for status, n in sorted(counts.items()))}\n" in shown
        for metric, counts in frozen["unjudged"].items()
    ] == [True] * len(frozen["unjudged"])
    (tmp_path / "again.yaml").write_text(shown)
    again = read_json(run("select", "-d", "cli", "--recipe", str(tmp_path / "again.yaml"), "--json"))
    assert again["selection_id"] == frozen["selection_id"], "what is shown is a recipe file"

    drawn = run("select", "-d", "cli", "--choose", "random", "--seed", "7", "--keep", "1", "--preview").stdout
    assert "drawn at random by seed 7; nothing is frozen" in " ".join(drawn.split())
    diverse = run("select", "-d", "cli", "--choose", "diverse", "--count", "2", "--preview").stdout
    assert "a diverse subset; nothing is frozen" in " ".join(diverse.split())

    long = " or ".join(f"system = 'a system with a name of {n} words'" for n in range(9)) + " or vcs >= 0"
    narrow = read_json(run("select", "-d", "cli", "--where", long, "--keep", "1", "--json"))
    (tmp_path / "long.yaml").write_text(run("selections", "show", str(narrow["selection_id"])).stdout)
    again = read_json(run("select", "-d", "cli", "--recipe", str(tmp_path / "long.yaml"), "--json"))
    assert again["selection_id"] == narrow["selection_id"], "no line is broken by the width of the terminal"

    best = read_json(run("select", "-d", "cli", "--by", "vcs", "--count", "1", "--json"))
    pair = (str(frozen["selection_id"]), str(best["selection_id"]))
    (change,) = read_json(run("selections", "diff", *pair, "--json"))["differences"]
    assert change["change"] == "went out"
    assert f"below the cut-off {best['cutoff']:.6g} of selection {best['selection_id']}" in change["reason"]
    first, reason, header, *_ = run("selections", "diff", *pair).stdout.splitlines()
    assert first.endswith("1 went out, 0 came in")
    assert (reason, header.split()) == (f"1 went out: {change['reason']}", ["sample", "system", "value"])

    drawn_twice = [
        read_json(run("select", "-d", "cli", "--choose", "random", "--seed", seed, "--count", "2", "--json"))
        for seed in ("1", "4")
    ]
    some, others = (str(each["selection_id"]) for each in drawn_twice)
    differences = read_json(run("selections", "diff", some, others, "--json"))["differences"]
    told = " ".join(run("selections", "diff", some, others).stdout.split())
    assert all(told.count(each["reason"]) == 1 for each in differences), "a reason of several samples is said once"


def test_a_threshold_that_a_recipe_names_is_made_where_there_is_none(run: Run, scored: dict[str, Any]) -> None:
    counted = "SELECT count(*) AS n FROM dataset_thresholds WHERE dataset = 'cli' AND metric = 'vcs'"
    assert read_json(run("sql", "--json", counted)) == [{"n": 0}]
    best = read_json(run("select", "-d", "cli", "--by", "vcs", "--keep", "0.5", "--json"))
    named = read_json(run("select", "-d", "cli", "--by", "vcs", "--at-least", "vcs=keep 0.5", "--json"))
    assert (named["n"], named["cutoff"]) == (best["n"], best["cutoff"])
    told = "threshold 'keep 0.5' of vcs is a value of at least {0:.4g}, which keeps {1} of {2} scores"
    (cut,) = named["cuts"].values()
    told = told.format(cut["at_least"], cut["n_kept"], cut["n"])
    assert told in run("selections", "show", str(named["selection_id"])).stdout
    again = run("select", "-d", "cli", "--by", "vcs", "--at-least", "vcs=keep 0.5").stdout
    assert told in " ".join(again.split())
    none = run("select", "-d", "cli", "--by", "vcs", "--at-least", "n_words=keep 0.5")
    assert none.returncode == 1
    # Others of the metric may be there, such as those by ratings after a report.
    with get_installation().engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM score_threshold WHERE objective = 'keep 0.5'"))
    made = read_json(run("select", "-d", "cli", "--by", "vcs", "--at-least", "vcs=keep 0.5", "--json"))
    assert made["selection_id"] == named["selection_id"]


def test_select_asks_how_much_to_take(run: Run, scored: dict[str, Any]) -> None:
    """Nothing is frozen by a share that nobody named; the answer is that of arguments that cannot be used."""
    before = read_json(run("selections", "--json"))
    for further in ([], ["--preview"], ["--choose", "random"]):
        done = run("select", "-d", "cli", "--by", "vcs", *further)
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.startswith("error: nothing is selected, because the recipe has no size: of the 2 samples")
        assert "a share of 0.5 keeps 1" in done.stderr
        assert (
            "; give keep (--keep), count (--count) or at_least (--at-least); reelsieve prove SELECTION" in done.stderr
        )
    assert read_json(run("selections", "--json")) == before


def test_the_options_of_select_are_fields_of_a_recipe(run: Run, scored: dict[str, Any]) -> None:
    fields = {
        "by": {"vcs": 2, "shard": 1},
        "keep": 0.9,
        "kind": "caption",
        "where": "vcs > -1",
        "at_least": {"vcs": -1},
    }
    fields |= {"dedupe": 0.999, "choose": "random", "seed": 3, "per": "system", "stale": "leave_out"}
    options = ["--by", "vcs=2", "--by", "shard", "--keep", "0.9", "--kind", "caption", "--where", "vcs > -1"]
    options += ["--at-least", "vcs=-1", "--dedupe", "0.999", "--choose", "random", "--seed", "3", "--per", "system"]
    made = read_json(run("select", "-d", "cli", *options, "--stale", "leave_out", "--json"))
    assert read_json(run("selections", "show", str(made["selection_id"]), "--json"))["recipe"] == fields


def test_select_tells_the_ties_at_the_cut(run: Run, scored: dict[str, Any], tmp_path: Path) -> None:
    """All captions are in shard 0, so that a share by the shard would be a share by ids."""
    select = ("select", "-d", "cli", "--by", "shard", "--where", "vcs is not null", "--keep", "0.5", "--seed", "5")
    sentence = "1 of the 1 taken has the cut's value; 1 more has it"
    for further in ((), ("--preview",)):
        assert sentence in " ".join(run(*select, *further).stdout.split())
    drawn = read_json(run(*select, "--json"))
    assert (drawn["n"], drawn["n_tied"], drawn["n_tied_left"]) == (1, 1, 1)
    assert f"# {sentence}\n" in run("selections", "show", str(drawn["selection_id"])).stdout
    assert run("export", str(drawn["selection_id"]), "--to", str(tmp_path / "drawn.jsonl")).returncode == 0
    passport = json.loads((tmp_path / "drawn.jsonl.passport.json").read_text())
    assert (passport["selection"]["n_tied"], passport["selection"]["n_tied_left"]) == (1, 1)
    assert passport["recipe"]["seed"] == 5


def test_select_freezes_and_exports(run: Run, scored: dict[str, Any], tmp_path: Path) -> None:
    target = tmp_path / "best.parquet"
    arguments = ["select", "-d", "cli", "--by", "vcs", "--keep", "0.5", "--where", "system != 'brief'", "--json"]
    first = read_json(run(*arguments))
    assert first["n"] == 1
    assert run("export", str(first["selection_id"]), "--to", str(target)).returncode == 0
    (row,) = pq.read_table(target).to_pylist()
    assert row["sample"] == "v1_faithful"
    assert row["value"] == first["cutoff"] == row["vcs"]
    again = read_json(run(*arguments))
    assert again["selection_id"] == first["selection_id"]
    lines = tmp_path / "best.jsonl"
    exported = read_json(run("export", str(first["selection_id"]), "--to", str(lines), "--json"))
    assert exported == {
        "selection_id": first["selection_id"],
        "path": str(lines),
        "format": "jsonl",
        "rows": 1,
        "media_root": None,
    }
    assert [json.loads(line)["sample"] for line in lines.read_text().splitlines()] == ["v1_faithful"]
    once_more = run("export", str(first["selection_id"]), "--to", str(lines))
    assert once_more.returncode == 1
    assert (
        once_more.stderr
        == f"error: {lines}: cannot export to it, because it exists: move it away, or give another name\n"
    )


def test_an_export_says_what_it_wrote_and_where_the_media_are(run: Run, scored: dict[str, Any], tmp_path: Path) -> None:
    write_clip(tmp_path / "videos" / "noise.avi", n_frames=40)
    write_rows(tmp_path / "videos.jsonl", [{"video_id": "noise", "path": "videos/noise.avi"}])
    candidate = {
        "caption_id": "c",
        "video_id": "noise",
        "role": "candidate",
        "system": "sys",
        "text": TEXTS["faithful"],
    }
    reference = {**candidate, "caption_id": "r", "role": "reference"}
    write_rows(tmp_path / "captions.jsonl", [candidate, reference])
    assert run("ingest", str(tmp_path), "--dataset", "with_media").returncode == 0
    assert run("score", "--dataset", "with_media", "--metric", "vcs").returncode == 0
    chosen = read_json(run("select", "-d", "with_media", "--by", "vcs", "--keep", "1", "--json"))
    for form in ("webdataset", "hf", "csv"):
        done = run("export", str(chosen["selection_id"]), "--format", form, "--to", str(tmp_path / form))
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [
            f"1 row written to {tmp_path / form}",
            f"media addresses are relative to {tmp_path / 'videos'}",
        ]
        assert "1 of 1 row" in done.stderr
    (shard,) = (tmp_path / "webdataset").glob("*.tar")
    with tarfile.open(shard) as tar:
        media = tar.extractfile("000000001.avi")
        assert media is not None
        assert media.read() == (tmp_path / "videos" / "noise.avi").read_bytes()


def test_a_file_that_cannot_be_written_is_named(run: Run, scored: dict[str, Any], tmp_path: Path) -> None:
    number = str(read_json(run("select", "-d", "cli", "--keep", "0.77", "--json"))["selection_id"])
    (tmp_path / "folder.parquet").mkdir()
    (tmp_path / "mine.csv").touch()
    for name in ("folder.parquet", "mine.csv", f"{'x' * 300}.jsonl", "missing/best.jsonl"):
        done = run("export", number, "--to", str(tmp_path / name))
        assert done.returncode == 1
        assert done.stderr.startswith("error: ")
        assert len(done.stderr.splitlines()) == 1


def test_names_of_files_and_refused_rows_cannot_reach_the_terminal_as_commands(
    run: Run, scored: dict[str, Any], tmp_path: Path
) -> None:
    write_rows(tmp_path / "videos.jsonl", [{"video_id": "v"}])
    write_rows(tmp_path / "captions.jsonl", [])
    rows = tmp_path / "\x1b[2J.jsonl"
    rows.write_bytes(b'{"kind": "caption", "text": "\x1b[2J \xc2\x9b2J"}\n')
    assert run("ingest", str(tmp_path), "-d", "hostile", "--rows", str(rows)).returncode == 0
    query = ("sql", "SELECT raw AS \"\x1b[2J\" FROM ingest_reject WHERE raw LIKE '%kind%'")
    for command in (("dataset", "rejects", "-d", "hostile"), query):
        for done in (run(*command), run(*command, "--json")):
            assert done.returncode == 0, done.stderr
            assert "\x1b" not in done.stdout
            assert "\x9b" not in done.stdout
            assert "\\u001b" in done.stdout


def test_a_corrected_caption_has_no_score_until_it_is_scored_again(run: Run, folder: Path, tmp_path: Path) -> None:
    manifest = shutil.copytree(folder, tmp_path / "manifest")
    score = ("score", "-d", "corrected", "--metric", "vcs", "--json")
    history = (
        "SELECT value, changed_because FROM score_history WHERE dataset = 'corrected' AND metric = 'vcs' "
        "AND sample = 'v1_faithful' ORDER BY replaced_at NULLS LAST"
    )

    def ingest() -> Any:
        return read_json(run("ingest", str(manifest), "-d", "corrected", "--json"))

    def row_of_faithful() -> Any:
        rows = read_json(run("dataset", "scores", "-d", "corrected", "--json"))
        return next(row for row in rows if row["sample"] == "v1_faithful")

    ingest()
    read_json(run(*score))
    before = row_of_faithful()["vcs"]
    captions = (manifest / "captions.jsonl").read_text()
    (manifest / "captions.jsonl").write_text(captions.replace(TEXTS["faithful"], f"{TEXTS['faithful']} It rains."))
    ingest()

    row = row_of_faithful()
    assert (row["vcs"], row["vcs_status"]) == (None, "stale")
    exported = tmp_path / "all.jsonl"
    select = ("select", "-d", "corrected", "--by", "vcs", "--keep", "1", "--json")
    assert "1 vcs score of dataset 'corrected' is stale, since its inputs have changed" in run(*select).stderr
    chosen = read_json(run(*select, "--stale", "leave_out"))
    assert chosen["unjudged"]["vcs"]["stale"] == 1
    assert run("export", str(chosen["selection_id"]), "--to", str(exported)).returncode == 0
    assert "v1_faithful" not in {json.loads(line)["sample"] for line in exported.read_text().splitlines()}
    (status,) = [row for row in read_json(run("dataset", "list", "--json")) if row["dataset"] == "corrected"]
    assert status["vcs_pending"] == 1
    assert read_json(run("sql", history, "--json")) == [{"value": before, "changed_because": "text"}]

    assert read_json(run(*score))["shards"] == [{"shard": "corrected:0000", "vcs": 1}]
    after = row_of_faithful()["vcs"]
    assert after != before
    assert read_json(run("sql", history, "--json")) == [
        {"value": before, "changed_because": "text"},
        {"value": after, "changed_because": None},
    ]


def test_sql_answers_rows_and_may_not_write(run: Run, scored: dict[str, Any]) -> None:
    query = "SELECT sample, vcs FROM sample_scores WHERE dataset = 'cli' AND vcs IS NOT NULL ORDER BY vcs DESC LIMIT 1"
    (row,) = read_json(run("sql", query, "--json"))
    assert row["sample"] == "v1_faithful"
    refused = run("sql", "DELETE FROM score")
    assert refused.returncode == 1
    assert refused.stderr.startswith("error: ")


def test_simple_scores_come_along_and_are_named_like_metrics(run: Run, scored: dict[str, Any]) -> None:
    rows = read_json(run("dataset", "scores", "--dataset", "cli", "--by", "cosine", "--json"))
    values = {row["sample"]: row["cosine"] for row in rows}
    known = {key: value for key, value in values.items() if value is not None}
    assert rows[0]["cosine"] == max(known.values())
    assert {row["cosine_status"] for row in rows if row["cosine"] is None} == {"no_reference", "not_applicable"}
    assert "words_in_common" in run("dataset", "scores", "--dataset", "cli", "--by", "words_in_common").stdout
    assert "words_in_common" not in run("dataset", "scores", "--dataset", "cli").stdout
    chosen = ("--by", "cosine", "--where", "words_in_common >= 0", "--at-least", "cosine=keep 0.5", "--keep", "1")
    frozen = read_json(run("select", "--dataset", "cli", *chosen, "--json"))
    assert (frozen["n"], frozen["cutoff"]) == (1, max(known.values()))
    (explained,) = read_json(run("explain", rows[0]["sample"], "--dataset", "cli", "--metric", "cosine", "--json"))
    assert (explained["value"], explained["explanation"]["reference"]) == (max(known.values()), "v1_ref")
    compared = read_json(run("compare", "vcs", "cosine", "--dataset", "cli", "--json"))
    assert compared["b"]["metric"] == "cosine"
    assert "nothing to score" in run("score", "--dataset", "cli", "--metric", "cosine").stdout
    assert not any(name.startswith("cosine") for row in read_json(run("dataset", "list", "--json")) for name in row)
    refused = run("score", "--dataset", "cli", "--metric", "cosin")
    assert "there is no metric 'cosin', did you mean 'cosine'?" in refused.stderr


def test_facts_make_the_simple_score_without_a_model(run: Run, tmp_path: Path) -> None:
    write_rows(tmp_path / "videos.jsonl", [{"video_id": "v"}])
    rows = [
        {"caption_id": "r", "video_id": "v", "role": "reference", "annotator": "a", "text": "A red ball rolls."},
        {"caption_id": "c", "video_id": "v", "role": "candidate", "system": "s", "text": "The red ball."},
    ]
    write_rows(tmp_path / "captions.jsonl", rows)
    assert run("ingest", str(tmp_path), "--dataset", "plain").returncode == 0
    assert run("facts", "--dataset", "plain").returncode == 0
    query = "SELECT words, words_in_common, cosine, cosine_status FROM sample_scores WHERE dataset = 'plain'"
    (row,) = read_json(run("sql", query, "--json"))
    assert row == {"words": 3, "words_in_common": pytest.approx(4 / 7), "cosine": None, "cosine_status": None}


def test_facts_name_videos_that_could_not_be_measured(run: Run, tmp_path: Path) -> None:
    rows = []
    for key in ("a", "b", "c"):
        write_clip(tmp_path / f"{key}.mp4")
        rows.append({"video_id": key, "path": f"{key}.mp4"})
    write_rows(tmp_path / "videos.jsonl", rows)
    caption = {"caption_id": "c", "video_id": "c", "role": "candidate", "system": "s", "text": "A ball."}
    write_rows(tmp_path / "captions.jsonl", [caption])
    assert run("ingest", str(tmp_path), "--dataset", "gone").returncode == 0
    (tmp_path / "a.mp4").unlink()
    (tmp_path / "b.mp4").unlink()
    # A long path breaks at the end of a line.
    told = "".join(run("facts", "--dataset", "gone").stdout.split())
    assert f"2videoscouldnotbemeasured,suchas{tmp_path / 'a.mp4'}:nosuchfile" in told
    errors = read_json(run("facts", "--dataset", "gone", "--json"))["errors"]
    assert [error.split(": ")[0] for error in errors] == [str(tmp_path / "a.mp4"), str(tmp_path / "b.mp4")]


def test_facts_describe_texts_once_and_show_how_they_spread(run: Run, scored: dict[str, Any]) -> None:
    # Three captions, a fourth of another video, and a question with its answer.
    found = read_json(run("facts", "--dataset", "cli", "--json"))
    assert found["described"] == {"text_fact": 5, "video_fact": 0}
    spreads = {row["fact"]: row for row in found["facts"]}
    assert spreads["words"] == {
        "fact": "words", "n": 5, "least": 2.0, "median": 5.0, "greatest": 20.0, "commonest": None
    }  # fmt: skip
    assert (spreads["language"]["n"], spreads["language"]["commonest"]) == (2, "en")
    again = run("facts", "--dataset", "cli")
    assert (again.returncode, again.stderr) == (0, "")
    assert "words_per_second" in again.stdout
    assert read_json(run("facts", "--dataset", "cli", "--json"))["described"] == {"text_fact": 0, "video_fact": 0}
    assert "there is no dataset" in run("facts", "--dataset", "none").stderr


def test_status_counts_what_is_there(run: Run, scored: dict[str, Any]) -> None:
    (row,) = [found for found in read_json(run("dataset", "list", "--json")) if found["dataset"] == "cli"]
    assert (row["dataset"], row["videos"], row["captions"], row["qa"], row["rejects"]) == ("cli", 2, 4, 1, 1)
    assert row["vcs_pending"] == 0


def test_status_fits_a_terminal_and_shows_one_dataset_or_all_columns(run: Run, scored: dict[str, Any]) -> None:
    shown = run("dataset", "list", "--dataset", "cli").stdout.splitlines()
    assert " ".join(shown[0].split()).startswith("dataset to score videos captions qa rejects")
    assert shown[1].split()[:1] + shown[1].split()[2:6] == ["cli", "2", "4", "1", "1"]
    assert all(len(line) <= 80 for line in shown[:2])
    assert any(line.startswith("samples to score: ") for line in shown)
    every = run("dataset", "list").stdout.splitlines()
    assert sum(line.startswith("cli ") for line in every) == 1
    assert not any(line.startswith(("plan: ", "\u2500\u2500")) for line in every)
    assert every[-1].startswith("reelsieve dataset list NAME shows the plan")
    assert "vcs_pending" in run("dataset", "list", "--dataset", "cli", "--wide").stdout
    assert [row["dataset"] for row in read_json(run("dataset", "list", "--dataset", "cli", "--json"))] == ["cli"]
    done = run("dataset", "list", "--dataset", "clj")
    assert (done.returncode, done.stderr) == (1, "error: there is no dataset 'clj', did you mean 'cli'?\n")


def test_score_says_first_which_metrics_can_score_nothing(run: Run, tmp_path: Path) -> None:
    write_rows(tmp_path / "videos.jsonl", [{"video_id": "v"}, {"video_id": "without"}])
    rows = [
        {"caption_id": f"{video}_{n}", "video_id": video, "role": "candidate", "system": "sys", "text": TEXTS["brief"]}
        for video, n in (("v", 1), ("v", 2), ("without", 1))
    ]
    reference = {"caption_id": "ref", "video_id": "v", "role": "reference", "text": "A red ball hits a blue box."}
    write_rows(tmp_path / "captions.jsonl", [*rows, reference])
    write_rows(tmp_path / "qa.jsonl", [{"qa_id": "q", "video_id": "v", "question": "What?", "answer": "A ball."}])
    assert run("ingest", str(tmp_path), "--dataset", "silent").returncode == 0
    metrics = ["--metric", "vcs", "--metric", "ecs", "--metric", "vcs_short"]
    warned = [
        "warning: vcs can score none of the 3 samples: too short, texts with so few chunks always score 0: use "
        "vcs_short, or set REELSIEVE_VCS_SHORT_TEXT=true (2 of them)",
        "warning: ecs can score none of the 3 samples: no keypoints, the video has no keypoint to cover",
    ]
    tried = run("score", "-d", "silent", *metrics, "--dry-run")
    assert tried.stderr.splitlines() == warned
    done = run("score", "-d", "silent", *metrics)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[:2] == warned
    # Also where all is scored already: the stored statuses say it.
    again = run("score", "-d", "silent", *metrics)
    assert again.stderr.splitlines() == warned
    assert again.stdout == (
        "nothing to score: every sample of silent has a value, or a reason for none\n"
        "samples with a value: vcs 0, ecs 0, vcs_short 2; reelsieve dataset scores silent shows why\n"
    )
    assert "warning" not in run("score", "-d", "silent", "--metric", "vcs_short", "--dry-run").stderr


def test_a_model_folder_that_does_not_load_is_named(run: Run, scored: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "config.json").touch()
    done = run("score", "-d", "cli", "--metric", "vcs", REELSIEVE_TEXT_ENCODER=str(tmp_path))
    assert done.returncode == 1
    said = " ".join(done.stderr.split())
    assert f"error: model {tmp_path} cannot be loaded" in said
    assert "Traceback" not in said


def test_a_fault_of_the_program_is_logged_and_told_in_one_sentence(
    run: Run, scored: dict[str, Any], installation: Installation
) -> None:
    rename = "ALTER TABLE {} RENAME TO {}"
    with get_installation().engine.begin() as connection:
        connection.exec_driver_sql(rename.format("ingest_reject", "elsewhere"))
    try:
        done = run("dataset", "rejects", "-d", "cli")
    finally:
        with get_installation().engine.begin() as connection:
            connection.exec_driver_sql(rename.format("elsewhere", "ingest_reject"))
    assert done.returncode == 70
    assert len(done.stderr.strip().splitlines()) == 1
    (log,) = (installation.home / "logs").iterdir()
    assert str(log) in done.stderr
    assert "UndefinedTable" in log.read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ingest", ".", "-d", "a b"], "dataset name"),
        (["ingest", ".", "-d", "demo"], "is reserved for the videos of `reelsieve demo`: use another name"),
        (["score", "-d", "cli", "--metric", "bleu"], "there is no metric 'bleu'"),
        (["dataset", "scores", "-d", "cli", "--by", "bleu"], "there is no metric 'bleu'"),
        (["score", "-d", "cli", "--metrics", "vcs"], "--metrics"),
    ],
)
def test_an_argument_that_cannot_be_used_ends_with_code_2(
    run: Run, scored: dict[str, Any], arguments: list[str], says: str
) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ingest", "no/such/folder", "-d", "x"], "no such folder"),
        (["score", "-d", "nobody"], "there is no dataset 'nobody'"),
        (["dataset", "scores", "-d", "nobody"], "there is no dataset 'nobody'"),
        (["dataset", "rejects", "-d", "nobody"], "there is no dataset 'nobody'"),
        (["report", "-d", "nobody"], "there is no dataset 'nobody'"),
        (["dataset", "scores", "-d", "CLI"], "there is no dataset 'CLI', did you mean 'cli'?"),
        (["explain", "v1_brief", "-d", "clip"], "there is no dataset 'clip', did you mean 'cli'?"),
        (["search", "a ball", "-d", "cly"], "there is no dataset 'cly', did you mean 'cli'?"),
        (["selections", "-d", "clii"], "there is no dataset 'clii', did you mean 'cli'?"),
        (["dataset", "drop", "clii"], "there is no dataset 'clii', did you mean 'cli'?"),
        (["select", "-d", "cli", "--keep", "1.5"], "the recipe's keep is '1.5': give the share"),
        (["select", "-d", "cli", "--by", "bleu"], "there is no column 'bleu'"),
        (["select", "-d", "cli", "--at-least", "vcs"], "--at-least vcs: write it as NAME=VALUE"),
        (["select", "-d", "cli", "--by", "vcs", "--by", "vcs=2"], "--by names 'vcs' twice"),
        (["select", "-d", "cli", "--where", ""], "the filter is empty: give one condition"),
        (["selections", "show", "9" * 20], "there is no selection"),
        (["export", "9" * 20, "--to", "best.csv"], "there is no selection"),
        (["select", "-d", "cli", "--recipe", "none.yaml"], "none.yaml: the recipe cannot be read"),
        (
            ["select", "-d", "cli", "--recipe", "r.yaml", "--keep", "1"],
            "--recipe holds the whole recipe: leave --keep out",
        ),
        (["selections", "show", "999"], "there is no selection 999"),
        (["selections", "diff", "998", "999"], "there is no selection 998"),
        (["select", "-d", "cli", "--where", "vcs > 0; DROP TABLE score"], "not allowed"),
        (["select", "-d", "cli", "--where", "vcs > 2"], "no sample"),
        (["export", "999", "--to", "best.parquet"], "no selection 999"),
        (["export", "999", "--to", "best"], "use .parquet, .jsonl or .csv, or name a --format"),
        (["export", "999", "--to", "no/such/best.csv"], "no such folder: make it first"),
        (["sql", "SELECT 1; SELECT 2"], "multiple commands"),
        (["sql", "SELECT 1 / 0"], "division by zero"),
    ],
)
def test_a_mistake_gets_one_sentence(run: Run, scored: dict[str, Any], arguments: list[str], says: str) -> None:
    done = run(*arguments)
    assert done.returncode == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"CURATION_DB_URL": "mysql://localhost/x"}, "needs Postgres"),
        # The password in both places: the command tries for five seconds.
        pytest.param(
            {"CURATION_DB_URL": "postgresql://someone:hunter2@127.0.0.1:1/films?password=hunter2"},
            "no server answers at 127.0.0.1:1 (Connection refused)",
            marks=pytest.mark.expensive,
        ),
        ({"REELSIEVE_VCS_LCT": "-1"}, "REELSIEVE_VCS_LCT"),
        ({"REELSIEVE_TEXT_ENCODER": "no/such-model", "HF_HUB_OFFLINE": "1"}, "no/such-model"),
        ({"REELSIEVE_SENTENCE_SPLITTER": "commas"}, "REELSIEVE_SENTENCE_SPLITTER"),
    ],
)
def test_a_wrong_setting_is_named(run: Run, scored: dict[str, Any], variables: dict[str, str], says: str) -> None:
    done = run("dataset", "list", **variables)
    assert done.returncode == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr + done.stdout


def test_db_url_shows_no_password(run: Run) -> None:
    url = "postgresql://ann@127.0.0.1:1/films?password=hunter2&sslmode=disable"
    shown = read_json(run("db", "url", "--json", CURATION_DB_URL=url))["url"]
    assert shown == "postgresql://ann:***@127.0.0.1:1/films?sslmode=disable"


def test_doctor_blames_a_database_that_is_down_and_no_rights(run: Run) -> None:
    done = run("doctor", "--json", CURATION_DB_URL="postgresql://ann:hunter2@127.0.0.1:1/films")
    findings = {finding["what"]: finding for finding in json.loads(done.stdout)}
    for what in ("database", "read-only role"):
        assert not findings[what]["ok"]
        assert findings[what]["detail"].startswith("no server answers at 127.0.0.1:1 (Connection refused)")


def test_doctor_finds_everything_here(run: Run, scored: dict[str, Any]) -> None:
    findings = json.loads(run("doctor", "--json").stdout)
    assert {finding["what"].partition(": ")[0] for finding in findings} >= {
        "database", "text_embedding", "frame_embedding", "ecs_verdict", "read-only role", "video decoders"
    }  # fmt: skip
    assert [finding for finding in findings if not finding["ok"]] == []


def test_doctor_writes_for_trial_where_there_must_be_room(run: Run, scored: dict[str, Any]) -> None:
    """A full disk still answers questions."""
    with get_installation().engine.begin() as connection:
        connection.execute(sa.text(FULL_DISK.format("event_trigger")))
        connection.execute(sa.text("CREATE EVENT TRIGGER full_disk ON ddl_command_end EXECUTE FUNCTION full_disk()"))
    try:
        with files_of_at_most(1 << 20):
            done = run("doctor", "--json")
    finally:
        with get_installation().engine.begin() as connection:
            connection.execute(sa.text("DROP FUNCTION full_disk CASCADE"))
    assert done.returncode == 1
    missing = {finding["what"]: finding["detail"] for finding in json.loads(done.stdout) if not finding["ok"]}
    assert missing.pop("database") == DISK_IS_FULL
    assert missing.keys() == {"home folder", "temporary folder", "media"}
    for what, variable in {"home folder": "HOME", "media": "MEDIA_CACHE"}.items():
        says = f"(file too large): make room there, or set REELSIEVE_{variable} to another folder"
        assert missing[what].endswith(says)


def test_a_full_disk_is_said_once(run: Run, scored: dict[str, Any]) -> None:
    with get_installation().engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM score"))
    with connect(build_sibling_url(get_installation().database_url, DAGSTER)) as ledger:
        ledger.execute(FULL_DISK.format("trigger").encode())
        ledger.execute("CREATE TRIGGER full_disk BEFORE INSERT ON event_logs EXECUTE FUNCTION full_disk()")
        done = run("score", "--dataset", "cli", "--metric", "vcs", "--json")
        ledger.execute("DROP FUNCTION full_disk CASCADE")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: {DISK_IS_FULL}\n"
    assert run("score", "--dataset", "cli", "--json").returncode == 0


WITH_TEXT_ENCODER = {"text_embedding", "qeva_question", "qeva_answer"}


@pytest.mark.parametrize(
    ("assets", "variables", "says"),
    [
        (WITH_TEXT_ENCODER, {"TEXT_ENCODER": "no/such-model"}, "REELSIEVE_TEXT_ENCODER"),
        ({"ecs_verdict"}, {"ECS_VERIFIER": "no/such-model"}, "REELSIEVE_ECS_VERIFIER"),
        (
            {"text_embedding", "frame_embedding"},
            {"IMAGE_TEXT_ENCODER": "ViT-B-32", "IMAGE_TEXT_CHECKPOINT": "no/such-model"},
            "neither a file nor a tag that open_clip knows",
        ),
    ],
)
def test_doctor_names_what_is_missing(
    run: Run, scored: dict[str, Any], assets: set[str], variables: dict[str, str], says: str
) -> None:
    settings = {f"REELSIEVE_{name}": value for name, value in variables.items()}
    done = run("doctor", "--json", HF_HUB_OFFLINE="1", **settings)
    assert done.returncode == 1
    missing = [finding for finding in json.loads(done.stdout) if not finding["ok"]]
    assert {finding["what"].partition(": ")[0] for finding in missing} == assets
    for finding in missing:
        assert "no/such-model" in finding["detail"]
        assert says in finding["detail"]


@pytest.mark.parametrize(
    ("assets", "variables"),
    [
        (WITH_TEXT_ENCODER, {"TEXT_ENCODER": "{folder}"}),
        ({"ecs_verdict"}, {"ECS_VERIFIER": "{folder}"}),
        (
            {"text_embedding", "frame_embedding"},
            {"IMAGE_TEXT_ENCODER": "ViT-B-32", "IMAGE_TEXT_CHECKPOINT": "{folder}/weights.pt"},
        ),
    ],
)
def test_doctor_lets_each_model_work(
    run: Run, scored: dict[str, Any], tmp_path: Path, assets: set[str], variables: dict[str, str]
) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "weights.pt").write_text("no weights")
    done = run("doctor", "--json", **{f"REELSIEVE_{n}": v.format(folder=tmp_path) for n, v in variables.items()})
    assert done.returncode == 1
    missing = [finding for finding in json.loads(done.stdout) if not finding["ok"]]
    assert {finding["what"].partition(": ")[0] for finding in missing} == assets
    for finding in missing:
        assert str(tmp_path) in finding["detail"]
        assert len(finding["detail"].splitlines()) == 1


def test_report_writes_a_page_and_its_numbers(
    run: Run, scored: dict[str, Any], installation: Installation, tmp_path: Path
) -> None:
    answer = read_json(run("report", "--dataset", "cli", "--json"))
    folder = installation.home.resolve() / "reports" / "cli"
    assert answer == {
        "dataset": "cli", "page": str(folder / "index.html"), "numbers": str(folder / "report.json")
    }  # fmt: skip
    page = (folder / "index.html").read_text(encoding="utf-8")
    # The scorer itself explains the scores of the samples to look at.
    assert "Why this VCS" in page
    assert "REELSIEVE_IMAGE_TEXT_ENCODER" in page
    elsewhere = run("report", "--dataset", "cli", "--to", str(tmp_path / "there"))
    assert elsewhere.returncode == 0, elsewhere.stderr
    assert str(tmp_path / "there" / "index.html") in elsewhere.stdout
    assert "comparing the metrics with people" in elsewhere.stderr
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "there" / "index.html").stat().st_mode & 0o777 == 0o666 & ~umask, "as the user has files"
    refused = run("report", "--dataset", "cli", "--to", str(tmp_path / "there" / "index.html"))
    assert (refused.returncode, refused.stderr.count("\n")) == (1, refused.stderr.strip().count("\n") + 1)
    assert "name a folder with --to" in refused.stderr


def test_other_accounts_read_nothing_in_the_home(run: Run, scored: dict[str, Any], installation: Installation) -> None:
    assert run("report", "--dataset", "cli").returncode == 0
    assert run("select", "--dataset", "cli", "--by", "vcs_short", "--keep", "1").returncode == 0
    home = installation.home
    # The server's folder is closed by itself, and those of other tests' models are none of the home.
    mine = [path for path in home.rglob("*") if "postgres" not in path.parts]
    assert {path.name for path in mine} >= {"reports", "cli", "index.html", "dagster"}
    assert [str(path) for path in mine if path.lstat().st_mode & 0o077] == []
    assert home.stat().st_mode & 0o066 == 0
    (home / "reports").chmod(0o755)
    home.chmod(0o755)
    (finding,) = [found for found in json.loads(run("doctor", "--json").stdout) if found["what"] == "home folder"]
    remedy = finding["detail"].partition(": run ")[2]
    assert (finding["ok"], remedy.startswith(f"chmod -R go-rwx {home}")) == (False, True)
    subprocess.run(remedy, shell=True, check=True)
    (finding,) = [found for found in json.loads(run("doctor", "--json").stdout) if found["what"] == "home folder"]
    assert finding["ok"], finding["detail"]


def test_a_report_is_made_without_the_models(run: Run, scored: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    done = run("report", "-d", "cli", "--to", str(tmp_path / "out"), REELSIEVE_TEXT_ENCODER=str(tmp_path))
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "cannot be explained here" in page or "settings that are no longer in force" in page


def test_a_broken_model_hides_no_score(run: Run, scored: dict[str, Any], tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text("{}")
    folder = tmp_path / "set"
    folder.mkdir()
    # Without a reference nothing is embedded, so the model is never asked for.
    write_rows(folder / "videos.jsonl", [{"video_id": "v"}])
    caption = {"caption_id": "c", "video_id": "v", "role": "candidate", "system": "sys", "text": TEXTS["brief"]}
    write_rows(folder / "captions.jsonl", [caption])
    before = read_json(run("dataset", "scores", "--dataset", "cli", "--json"))
    assert run("ingest", str(folder), "--dataset", "unlike").returncode == 0
    done = run("score", "--dataset", "unlike", "--metric", "vcs", REELSIEVE_TEXT_ENCODER=str(broken))
    assert done.returncode == 0, done.stderr
    assert read_json(run("dataset", "scores", "--dataset", "cli", "--json")) == before
    assert read_json(run("select", "-d", "cli", "--by", "vcs", "--keep", "1", "--json"))["n"] == 2


def test_the_server_stops_and_starts(run: Run, scored: dict[str, Any]) -> None:
    forget_installation()
    assert read_json(run("db", "stop", "--json")) == {"stopped": True}
    assert read_json(run("db", "stop", "--json")) == {"stopped": False}
    assert read_json(run("db", "start", "--json"))["url"].startswith("postgresql://")
    assert read_json(run("db", "migrate", "--json"))["revision"]
    assert read_json(run("dataset", "list", "--json"))[0]["dataset"] == "cli"
