"""`reelsieve try` on real clips, on what is broken, and twice; and the commands that docs/first-dataset.md has."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import sys
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from assets.ingest.rejects import CODES
from assets.metrics.registry import METRICS
from assets.reports.answer_records import ReportAnswers
from db.scores.sample_scores import FACT_COLUMNS
from metrics_core.facts.models import find_fact_models
from orchestration.cli.tried_manifest import find_or_make_manifest
from orchestration.installation import get_installation
from tests.assets.manifests import write_clip
from tests.command_line import Done, run_command
from tests.conftest import PROJECT
from tests.orchestration.conftest import Installation
from tests.ordinary_user import open_folder, ordinary_user

pytestmark = pytest.mark.slow

PAGE = (PROJECT / "docs" / "first-dataset.md").read_text(encoding="utf-8")
SECTION = PAGE.split("\n## A folder of clips\n")[1].partition("\n## ")[0]
COMMANDS = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)
    for line in block.split("\n")
    if line
]


@pytest.fixture(scope="module")
def folder(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The working folder of somebody whose home is nobody else's."""
    before, folder = Path.cwd(), tmp_path_factory.mktemp("own")
    os.chdir(folder)
    yield folder
    os.chdir(before)


@pytest.fixture(scope="module")
def clips(folder: Path, shared_data: Path) -> Path:
    """The ten real clips with one caption each, and nothing else."""
    source, target = shared_data / "clips", folder / "clips"
    target.mkdir()
    rows = {name: _rows(source / f"{name}.jsonl") for name in ("videos", "captions")}
    paths = {row["video_id"]: source / row["path"] for row in rows["videos"]}
    for row in rows["captions"]:
        if row.get("system") == "sys_faithful" and row["role"] == "candidate":
            copy = target / paths[row["video_id"]].name
            shutil.copy(paths[row["video_id"]], copy)
            copy.with_suffix(".txt").write_text(row["text"])
    return target


@pytest.fixture(scope="module")
def tried(clips: Path) -> Done:
    return run("try", "clips")


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run(*arguments: str) -> Done:
    done = run_command(*arguments)
    assert done.returncode == 0, done.stderr
    return done


def told(done: Done) -> str:
    """What a command printed, without the breaks of its lines."""
    return " ".join(done.stdout.split())


def query(sql: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(run("sql", "--json", sql).stdout)
    return rows


def plan(done: Done) -> list[str]:
    """The lines of the plan, but for the time, which only the first try of a folder shows."""
    lines = [line.removeprefix("plan: ") for line in done.stdout.splitlines() if line.startswith("plan: ")]
    return [line for line in lines if not line.startswith("time: ")]


def test_ten_clips_with_a_caption_each_have_numbers_in_many_columns(tried: Done, clips: Path) -> None:
    captions = query("SELECT * FROM sample_scores WHERE dataset = 'clips'")
    assert len(captions) == 10
    assert "measured: 10 texts, 10 videos by this run" in tried.stdout
    full = re.search(r"(\d+) facts have a number for all 10 samples; reelsieve facts clips shows them", told(tried))
    assert full is not None
    numbers = [name for name in FACT_COLUMNS if all(isinstance(row[name], int | float) for row in captions)]
    # `has_sound` is yes or no, which Python counts as a number.
    assert int(full[1]) == len(numbers) - ("has_sound" in numbers) >= 25
    assert {row["language"] for row in captions} == {"en"}
    made = {"videos.jsonl", "captions.jsonl"}
    assert {path.name for path in clips.iterdir() if path.suffix == ".jsonl"} == made
    assert len(list(clips.iterdir())) == 20 + len(made)


def test_metrics_that_can_say_nothing_are_named_once_and_left_out(tried: Done) -> None:
    assert plan(tried)[:4] == [
        "holds: 10 videos, 10 captions; no references, keypoints, ratings",
        "facts: 7 about each caption and 24 about each video; no model needed",
        f"text on screen and speech: 3 more facts about each video, by {find_fact_models()}",
        "scores: no metric can score this yet",
    ]
    assert [line.split(" ")[0] for line in plan(tried)[4:]] == [metric for metric in METRICS if metric != "vcs_short"]
    assert "vcs and vcs_short need references: none found" in plan(tried)
    assert sum("REELSIEVE_IMAGE_TEXT_ENCODER" in line for line in plan(tried)) == 1
    assert tried.stdout.count("plan: time: about ") == 1
    # What is stored is planned, before anything is scored.
    stages = [line[:6] for line in tried.stdout.splitlines() if line.startswith(("plan: ", "1 of 4", "2 of 4"))]
    assert stages == ["1 of 4", *["plan: "] * (len(plan(tried)) + 1), "2 of 4"]
    asked = " OR ".join(f"{metric}_status IS NOT NULL" for metric in METRICS)
    assert query(f"SELECT sample FROM sample_scores WHERE dataset = 'clips' AND ({asked})") == []
    lines = run("dataset", "scores", "--dataset", "clips").stdout.splitlines()
    assert lines[0].split() == ["sample", "system"]


def test_captions_without_references_are_on_the_map_and_similar(tried: Done) -> None:
    stored = (
        "SELECT count(*) AS n FROM text_embedding JOIN sample USING (text_sha256) JOIN dataset d USING (dataset_id)"
    )
    assert query(f"{stored} WHERE d.name = 'clips'") == [{"n": 10}]


def test_the_page_shows_what_stands_out_and_the_extremes(tried: Done) -> None:
    page = Path(next(line for line in tried.stdout.splitlines() if line.startswith("page: ")).removeprefix("page: "))
    html = page.read_text(encoding="utf-8")
    assert "What is unusual?" in html
    assert "2 of 10 videos have hard cuts: arm_wrestling, coloured_eggs." in html
    assert "cuts &gt;= 1" in html
    assert html.count('class="bins"') >= 8
    assert html.count("data:image/jpeg") >= 20
    caption = query("SELECT sample FROM sample_scores WHERE dataset = 'clips' ORDER BY words LIMIT 1")[0]["sample"]
    shown = told(run("explain", caption, "--dataset", "clips"))
    assert re.search(r"facts words \d+, sentences \d+, .* has_sound (yes|no)", shown)


def test_its_runs_have_the_tags_that_people_read_and_no_other(tried: Done) -> None:
    runs = [run for run in get_installation().instance.get_runs() if run.tags.get("command") == "reelsieve try"]
    assert {run.job_name for run in runs} == {"ingest_job", "facts_job"}
    # Dagster hides those that begin with a dot, and shows its own apart.
    shown = [
        {name: value for name, value in run.tags.items() if not name.startswith((".", "dagster/"))} for run in runs
    ]
    assert {tuple(sorted(tags.items())) for tags in shown} == {(("command", "reelsieve try"), ("dataset", "clips"))}


def test_it_ends_with_the_answers_of_the_page_and_three_commands(tried: Done) -> None:
    lines = tried.stdout.splitlines()
    *_, page, look, rate, report, _ = lines
    numbers = Path(page.removeprefix("page: ")).with_name("report.json")
    answers = ReportAnswers.read(numbers)
    first = next(place for place, line in enumerate(lines) if line.startswith("trust: "))
    assert lines[first:-5] == [f"{name}: {line}" for name, line in answers.format_lines()]
    assert lines[first].startswith("trust: Nothing is scored. ")
    assert (look, rate) == ("next: reelsieve look clips", "next: reelsieve rate clips --aspect overall")
    assert "trust: " in run(*shlex.split(report.removeprefix("next: reelsieve "))).stdout
    for command in (look, rate):
        assert shlex.split(command)[2] in run("--help").stdout


def test_all_commands_say_the_same_plan(tried: Done, clips: Path, tmp_path: Path) -> None:
    fresh = tmp_path / "clips"
    shutil.copytree(clips, fresh, ignore=shutil.ignore_patterns("*.jsonl"))
    assert plan(run("init", str(fresh), "--dry-run")) == plan(tried)
    assert plan(run("score", "--dataset", "clips", "--dry-run")) == plan(tried)
    status = run("dataset", "list", "--dataset", "clips")
    assert [line for line in plan(status) if line in plan(tried)] == plan(tried)


def test_a_second_try_goes_on_and_computes_nothing(tried: Done, clips: Path) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in clips.iterdir()}
    again = run("try", "clips")
    assert "measured: 0 texts, 0 videos by this run" in again.stdout
    assert plan(again) == plan(tried)
    assert {path.name: path.stat().st_mtime_ns for path in clips.iterdir()} == before


def test_the_commands_of_the_page_work(tried: Done, folder: Path) -> None:
    for command in COMMANDS:
        program, *arguments = shlex.split(command)
        assert program == "reelsieve"
        if arguments != ["try", "clips"]:
            run(*arguments)
    assert len(_rows(folder / "kept.jsonl")) > 0


def test_what_is_broken_is_named_and_the_rest_is_done(folder: Path) -> None:
    mixed = folder / "mixed"
    for name, text in {
        "english": "A dog runs over the wet lawn and jumps into the pond.",
        "german": "Ein Hund rennt über den nassen Rasen und springt in den Teich.",
        "french": "Un chien court sur la pelouse mouillée et saute dans l'étang.",
    }.items():
        write_clip(mixed / f"{name}.avi", brightness=60 + len(text))
        (mixed / f"{name}.txt").write_text(text)
    (mixed / "english.json").write_text(json.dumps({"caption": "Another caption of the same clip."}))
    (mixed / "broken.mp4").write_bytes(b"this is no video")
    (mixed / "broken.txt").write_text("A clip that nobody can see.")
    _write_sound(mixed / "sound.wav")
    shutil.copy(mixed / "sound.wav", mixed / "song.mp4")
    (mixed / "song.txt").write_text("A song.")
    (mixed / "gone.mp4").symlink_to(mixed / "nowhere.mp4")
    os.mkfifo(mixed / "pipe.mp4")
    write_clip(mixed / "silent.avi")
    done = run("try", "mixed")
    for why, which in {
        "a caption that was not used, since another file comes first (.txt, then .json, .vtt, .srt)": "english.json",
        "a file that is neither video, caption file, table nor tar shard": "sound.wav",
        f"a file that ingest would refuse (file_missing): {CODES['file_missing']}": "gone.mp4",
        f"a file that ingest would refuse (not_a_file): {CODES['not_a_file']}": "pipe.mp4",
    }.items():
        assert f"left out: {why} (1, such as {which})\n" in done.stdout
    for name in ("broken.mp4", "song.mp4"):
        assert re.search(rf"refused: videos.jsonl line \d: [^:]*{name}", done.stdout), done.stdout
    # The cause comes first: captions are refused since their videos are.
    refused = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("refused: ")]
    assert refused == sorted(refused, reverse=True)
    assert set(refused) == {"videos.jsonl", "captions.jsonl"}
    rows = query("SELECT video, language, brightness FROM sample_scores WHERE dataset = 'mixed' ORDER BY 1")
    assert [(row["video"], row["language"]) for row in rows] == [("english", "en"), ("french", "fr"), ("german", "de")]
    assert all(row["brightness"] is not None for row in rows)


def test_clips_without_captions_get_facts_and_a_page(folder: Path) -> None:
    (folder / "bare").mkdir()
    for number in range(3):
        write_clip(folder / "bare" / f"clip_{number}.avi", brightness=60 + 60 * number)
    done = run("try", "bare")
    assert "2 of 4 score: skipped, since no metric can score this dataset" in done.stdout
    assert "facts have a number for all 3 videos" in done.stdout
    assert "captions: there are none; put clip.txt next to clip.mp4" in done.stdout
    assert [line for line in done.stdout.splitlines() if line.startswith("next: ")] == [
        "next: Look through videos and captions, sorted by any fact. reelsieve look bare",
        "next: To score with a metric, add what it needs: docs/first-dataset.md shows how.",
        "next: reelsieve look bare",
        "next: reelsieve report --dataset bare",
    ]
    (page,) = [line.removeprefix("page: ") for line in done.stdout.splitlines() if line.startswith("page: ")]
    assert "Facts about 3 videos" in Path(page).read_text()
    spreads = {row["fact"]: row for row in json.loads(run("facts", "--dataset", "bare", "--json").stdout)["facts"]}
    shown = query(
        "SELECT min(brightness) AS least, max(brightness) AS greatest FROM video_fact f JOIN video USING (video_id) "
        "JOIN dataset d USING (dataset_id) WHERE d.name = 'bare'"
    )
    assert {name: spreads["brightness"][name] for name in ("least", "greatest")} == pytest.approx(shown[0])
    assert (spreads["brightness"]["n"], spreads["words"]["n"]) == (3, 0)


def test_try_takes_the_options_of_init_that_it_names(folder: Path) -> None:
    source = folder / "named"
    source.mkdir()
    write_clip(source / "a.avi")
    (source / "t.csv").write_text("which;said;truth;mark\na.avi;A dog runs.;A dog is running.;4,5\n")
    refused = run_command("try", "named")
    assert refused.returncode == 1
    assert "choose one of 'which', 'said', 'truth', 'mark' with --column video=NAME" in refused.stderr
    columns = [f"--column={field}" for field in ("video=which", "caption=said", "reference=truth")]
    wrong = run_command("try", "named", "--to", "elsewhere", *columns, "--rating=mark=5-1")
    assert (wrong.returncode, "'5-1' is not a scale: write COLUMN, COLUMN=0-100" in wrong.stderr) == (1, True)
    columns.append("--column=rating=mark=1-5, mean of 2")
    done = run("try", "named", "--to", "elsewhere", *columns)
    assert "manifest: 1 video, 1 caption of system 'captions', 1 reference, 1 rating\n" in done.stdout
    assert "written: ratings.jsonl, captions.jsonl, videos.jsonl, scales.json in " in done.stdout
    assert sorted(path.name for path in (folder / "elsewhere").iterdir()) == [
        "captions.jsonl", "ratings.jsonl", "scales.json", "videos.jsonl"
    ]  # fmt: skip
    assert json.loads((folder / "elsewhere/scales.json").read_text()) == {"mark": "1-5"}
    again = run_command("try", "named", "--to", "elsewhere", *columns)
    assert again.returncode == 2
    assert "has a manifest already, to which --column, --rating and --from do not apply" in again.stderr
    assert all(len(line) <= 80 for line in done.stdout.splitlines() if line.startswith(("sample", "a__")))


def test_ratings_are_named_before_the_manifest_is_written(folder: Path) -> None:
    source = folder / "rated"
    source.mkdir()
    (source / "t.csv").write_text("video,caption,score\na,A dog runs.,4\nb,A cat.,2\n")
    done = run("init", "rated")
    why = "ratings: no number was taken as a rating of people, since nobody could be asked: if one is, add "
    assert done.stderr.startswith(f"{why}--rating score\n")
    other = folder / "rated_otherwise"
    other.mkdir()
    (other / "t.csv").write_text("video,caption,score,mos\na,A dog runs.,yes,4.5\nb,A cat.,no,5\n")
    tried = run("init", "rated_otherwise")
    assert tried.stderr.startswith(f"{why}--rating score=yes-no --rating 'mos=1-5, mean of 3'\n")
    wrong = run_command("init", "rated", "--column", "referense=x")
    assert (wrong.returncode, "did you mean 'reference'?" in wrong.stderr) == (2, True)


@pytest.mark.parametrize(("answers", "aspects"), [("n\ny\n", ["mos"]), ("\n\n", ["mos", "score"]), ("n\nn\n", [])])
def test_on_a_terminal_every_aspect_is_a_question(folder: Path, answers: str, aspects: list[str]) -> None:
    source = folder / f"asked_{len(aspects)}"
    source.mkdir()
    (source / "t.csv").write_text("video,caption,score,mos\na,A dog runs.,4,70\n")
    person, terminal = pty.openpty()
    os.write(person, answers.encode())
    with open(terminal, encoding="utf-8") as keyboard, patch.object(sys, "stdin", keyboard):
        done = run_command("init", source.name)
    os.close(person)
    assert done.returncode == 0
    assert "Use column 'score' as ratings from 1 to 5? [Y/n]" in done.stderr
    assert "Use column 'mos' as ratings from 0 to 100? [Y/n]" in done.stderr
    ratings = (source / "ratings.jsonl").read_text().splitlines() if aspects else []
    assert len(ratings) == len(aspects)
    (caption,) = map(json.loads, (source / "captions.jsonl").read_text().splitlines())
    assert caption.keys() & {"score", "mos"} == {"score", "mos"} - (
        {"score", "mos"} if len(aspects) == 2 else set(aspects)
    )


def _write_sound(path: Path) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(bytes(16_000))


def test_a_folder_in_which_nothing_can_be_used_ends_in_one_sentence(folder: Path) -> None:
    missing = run_command("try", "clips/nothing")
    assert (missing.returncode, "no such folder or file" in missing.stderr) == (1, True)
    (folder / "empty").mkdir()
    none = run_command("try", "empty")
    assert (none.returncode, none.stderr.count("\n")) == (1, 1)
    assert "no videos with caption files" in none.stderr
    (folder / "ruined").mkdir()
    (folder / "ruined" / "a.mp4").write_bytes(b"this is no video")
    (folder / "ruined" / "a.txt").write_text("A clip that nobody can see.")
    ruined = run_command("try", "ruined")
    assert ruined.returncode == 1
    assert ruined.stderr.splitlines()[-1] == (
        "error: dataset ruined has no video and no caption to describe: reelsieve dataset rejects ruined says why"
    )


def test_two_captions_of_a_video_with_references_are_scored_by_what_can(folder: Path) -> None:
    reference = "A dog runs over the lawn. It jumps into a pond. It swims to a duck."
    texts = (
        "A dog is running on grass. Then it leaps into water. It swims up to a duck.",
        "A red car stops. It waits.",
    )
    lines = ["video,caption,reference", *(f'a,"{text}","{reference}"' for text in texts)]
    (folder / "table").mkdir()
    (folder / "table" / "captions.csv").write_text("\n".join(lines))
    done = run("try", "table/captions.csv", "--dataset", "two")
    assert "plan: scores: vcs, vcs_short\n" in done.stdout
    assert "plan: qeva needs other samples than these 2: no questions, chronology gets 0 of the 3" in done.stdout
    # The name of the table is that of a manifest's, so the folder stays as it is.
    assert [path.name for path in (folder / "table").iterdir()] == ["captions.csv"]
    assert "score with vcs, vcs_short\n" in done.stdout
    rows = query("SELECT vcs, vcs_short, words, qeva_status, evqa_status FROM sample_scores WHERE dataset = 'two'")
    assert len(rows) == 2
    (header,) = (line.split() for line in done.stdout.splitlines() if line.startswith("sample "))
    assert {row["qeva_status"] for row in rows} == {None}
    for metric in ("vcs", "vcs_short"):
        has_value = any(row[metric] is not None for row in rows)
        assert (metric in header) == has_value
        assert (f"left out: {metric} has no value: reelsieve dataset scores two shows why" in done.stdout) != has_value
    assert all(row["vcs_short"] is not None and row["words"] > 4 and row["evqa_status"] is None for row in rows)
    assert "measured: 0 texts" in run("try", "table/captions.csv", "--dataset", "two").stdout


def test_what_references_with_times_allow_is_promised_timed_and_given(folder: Path) -> None:
    events = ["A dog runs over the lawn.", "It jumps into a pond.", "It swims to a duck.", "The duck flies away."]
    segments = [{"start_s": i, "end_s": i + 1, "text": text} for i, text in enumerate(events)]
    told = {"video_id": "v", "role": "reference", "text": " ".join(events), "segments": segments}
    rows = [{"caption_id": "r", **told}]
    rows += [
        {"caption_id": f"c{n}", "video_id": "v", "role": "candidate", "system": "s", "text": " ".join(events[:n])}
        for n in (3, 4)
    ]
    (folder / "timed").mkdir()
    (folder / "timed" / "videos.jsonl").write_text(json.dumps({"video_id": "v"}))
    (folder / "timed" / "captions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done = run("try", "timed")
    assert "plan: scores: vcs, vcs_short, qeva\n" in done.stdout
    assert re.search(
        r"plan: time: about \d+ \w+ for facts and scores, measured on \d scores of the first captions\n", done.stdout
    )
    greatest = "max(vcs) AS vcs, max(vcs_short) AS vcs_short, max(qeva) AS qeva"
    (values,) = query(f"SELECT {greatest} FROM sample_scores WHERE dataset = 'timed'")
    assert all(value is not None for value in values.values())
    assert plan(run("score", "--dataset", "timed", "--dry-run")) == plan(done)
    assert "plan: time: " not in run("try", "timed").stdout


def test_another_folder_under_the_name_of_a_dataset_is_refused(tried: Done, tmp_path: Path) -> None:
    write_clip(tmp_path / "clips" / "a.avi")
    (tmp_path / "clips" / "a.txt").write_text("Noise.")
    done = run_command("try", str(tmp_path / "clips"))
    assert done.returncode == 2
    assert "dataset clips has videos of another folder" in done.stderr
    assert "choose another name with --dataset" in done.stderr


def test_a_folder_that_cannot_be_written_to_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REELSIEVE_MEDIA_ROOTS", "{}")
    with open_folder() as root:
        theirs, home = root / "theirs", root / "home"
        write_clip(theirs / "a.avi")
        (theirs / "a.txt").write_text("Noise.")
        home.mkdir(mode=0o777)
        home.chmod(0o777)
        theirs.chmod(0o555)
        with ordinary_user():
            made, export = find_or_make_manifest(get_installation(), theirs, home)
        assert made.parent == home / "manifests"
        assert re.fullmatch(r"theirs-[0-9a-f]{8}", made.name)
        assert json.loads(os.environ["REELSIEVE_MEDIA_ROOTS"]) == {"theirs": str(theirs)}
        assert export is not None
        assert export.startswith("export REELSIEVE_MEDIA_ROOTS=")
        assert _rows(made / "videos.jsonl") == [{"video_id": "a", "path": "root://theirs/a.avi"}]
        assert sorted(path.name for path in theirs.iterdir()) == ["a.avi", "a.txt"]
