"""`reelsieve search` on a home of its own: what is found, what is left out, and what to do where nothing is stored."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.command_line import run_command
from tests.orchestration.conftest import Installation, forget_installation

DATASET = "searched"


@pytest.fixture(scope="module")
def ingested(installation: Installation) -> Installation:
    done = run_command("ingest", str(installation.manifest), "--dataset", DATASET)
    assert done.returncode == 0, done.stderr
    return installation


@pytest.fixture(scope="module")
def scored(ingested: Installation) -> Installation:
    done = run_command("score", "--dataset", DATASET, "--metric", "vcs")
    assert done.returncode == 0, done.stderr
    return ingested


def captions(manifest: Path) -> dict[str, str]:
    rows = map(json.loads, (manifest / "captions.jsonl").read_text().splitlines())
    return {row["caption_id"]: row["text"] for row in rows if row["role"] == "candidate"}


def test_nothing_stored_is_one_sentence_with_the_remedy(
    ingested: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server is not asked for vectors without a word, since it may cost money."""
    monkeypatch.setenv("REELSIEVE_TEXT_ENCODER", "served")
    monkeypatch.setenv("REELSIEVE_TEXT_ENCODER_URL", "http://127.0.0.1:1/v1")
    forget_installation()
    done = run_command("search", "a red door", "--dataset", DATASET)
    forget_installation()
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: no caption of dataset {DATASET} has a vector of ")
    assert f"reelsieve score --dataset {DATASET} --metric vcs" in line


def test_a_name_that_no_database_holds_is_unknown(ingested: Installation) -> None:
    done = run_command("search", "a red door", "--dataset", os.fsdecode(b"caf\xe9"))
    assert (done.returncode, "there is no dataset 'caf\\udce9'" in done.stderr) == (1, True)


def test_captions_get_the_vectors_that_they_lack(ingested: Installation) -> None:
    done = run_command("search", "a red door", "--dataset", DATASET, "--limit", "2", "--json")
    assert (done.returncode, len(json.loads(done.stdout)["found"])) == (0, 2), done.stderr
    assert json.loads(done.stdout)["notes"] == []


def test_a_caption_is_nearest_to_itself(scored: Installation) -> None:
    name, text = next(item for item in captions(scored.manifest).items() if "brief" in item[0])
    answer = json.loads(run_command("search", text, "--dataset", DATASET, "--limit", "3", "--json").stdout)
    first = answer["found"][0]
    assert (first["sample"], first["text"], first["similarity"]) == (name, text, pytest.approx(1.0, abs=1e-5))
    assert first.keys() == {"dataset", "video", "sample", "sample_id", "system", "similarity", "text"}
    similarities = [row["similarity"] for row in answer["found"]]
    assert len(similarities) == 3
    assert similarities == sorted(similarities, reverse=True)
    assert answer["notes"] == []


def test_people_see_a_table_with_the_beginning_of_each_text(scored: Installation) -> None:
    done = run_command("search", "a red door", "--limit", "100")
    assert done.stdout.splitlines()[0].split() == ["similarity", "dataset", "sample", "text"]
    assert "…" in done.stdout
    assert done.stderr == ""


def test_captions_without_a_vector_are_counted(scored: Installation, tmp_path: Path) -> None:
    (tmp_path / "videos.jsonl").write_text('{"video_id": "v"}\n')
    caption = {"caption_id": "c", "video_id": "v", "role": "candidate", "system": "s", "text": "New."}
    (tmp_path / "captions.jsonl").write_text(json.dumps(caption) + "\n")
    assert run_command("ingest", str(tmp_path), "--dataset", "unseen").returncode == 0
    done = run_command("search", "a red door", "--limit", "1")
    n = len(captions(scored.manifest)) + 1
    assert f"note: 1 of {n} captions have no vector of " in done.stderr


def test_frames_without_an_encoder_of_ones_own_say_which_setting_to_give(scored: Installation) -> None:
    done = run_command("search", "a red door", "--frames", "--dataset", DATASET)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "the demo encoder: the built-in encoder only works on the demo. Set " in line
    assert "REELSIEVE_IMAGE_TEXT_ENCODER" in line


def test_videos_are_searched_by_a_video_where_the_encoder_is_not_run(ingested: Installation, tmp_path: Path) -> None:
    (tmp_path / "videos.jsonl").write_text("".join(f'{{"video_id": "{key}"}}\n' for key in "abc"))
    (tmp_path / "captions.jsonl").write_text("")
    rows = [{"video_id": key, "encoder": "IV2", "vector": [number, 1]} for number, key in enumerate("abc")]
    (tmp_path / "vectors.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run_command("ingest", str(tmp_path), "--dataset", "brought").returncode == 0
    answer = json.loads(run_command("search", "--like", "a", "--dataset", "brought", "--json").stdout)
    assert (answer["encoder"], [row["video"] for row in answer["found"]]) == ("IV2", ["b", "c"])
    done = run_command("search", "--like", "a", "--dataset", "brought")
    assert done.stdout.splitlines()[0].split() == ["similarity", "video"]
    done = run_command("search", "a red door", "--frames", "--dataset", "brought")
    (line,) = done.stderr.splitlines()
    assert "a text cannot be compared with the vectors of IV2, which Reelsieve does not run: search by a video" in line


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["  "], 2, "the text is empty"),
        (["a", "--dataset", "nowhere"], 1, "there is no dataset 'nowhere'"),
        ([], 2, "it is open what to search for: give a text in quotes, or --like VIDEO"),
        (["a", "--like", "v"], 2, "a text and --like cannot be combined: give one of them"),
        (["a", "--encoder", "e"], 2, "--encoder is for --like: leave it out with a text"),
        (["--like", "v", "--frames"], 2, "--frames is for a text: leave it out with --like"),
        (
            ["--like", "v", "--dataset", DATASET],
            1,
            "or ingest a vector with the manifest's table vectors",
        ),
    ],
)
def test_mistakes_are_one_sentence(scored: Installation, arguments: list[str], code: int, words: str) -> None:
    done = run_command("search", *arguments)
    assert done.returncode == code
    (line,) = done.stderr.splitlines()
    assert words in line
