"""Every command of the README and of the pages for newcomers, in their order, on a fresh home; and of other pages.

docs/first-dataset.md, docs/sql.md and docs/selections.md show what `make demo` gives with the default settings. The
demo costs a minute: one home serves them all.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Generator
from itertools import zip_longest
from pathlib import Path
from statistics import fmean
from unittest.mock import patch

import pytest
from sqlalchemy.engine import URL

from assets.metrics.registry import METRICS
from db.selection.recipes import Recipe
from db.server.embedded import stop_embedded
from docs.report import HEIGHT, WIDTH, draw, read_shown_texts
from tests.assets.test_report_browser import CUT_OFF, CUT_TEXT, TEXT_ON_TEXT, TOO_WIDE
from tests.browser import chromium
from tests.command_line import Done, run_command
from tests.conftest import PROJECT
from tests.orchestration.conftest import forget_installation

NEWCOMERS = ("README.md", "docs/first-dataset.md", "docs/models.md", "docs/postgres.md")
PAGES = {name: (PROJECT / name).read_text(encoding="utf-8") for name in NEWCOMERS}
BLOCKS = re.findall(r"^```sh\n(.*?)^```", "\n".join(PAGES.values()), flags=re.MULTILINE | re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.splitlines() if line]
SQL_PAGE = (PROJECT / "docs" / "sql.md").read_text(encoding="utf-8")
USAGE, SETUP, SEARCHES = re.findall(r"^```sh\n(.*?)^```", SQL_PAGE, flags=re.MULTILINE | re.DOTALL)
(NOTEBOOK,) = re.findall(r"^```python\n(.*?)^```", SQL_PAGE, flags=re.MULTILINE | re.DOTALL)
# By the heading of its section, each query with the answer that the page shows.
QUESTIONS = {
    section.partition("\n")[0]: (query, answer)
    for section in SQL_PAGE.split("\n## ")
    for query, answer in re.findall(
        r"^```sql\n(.*?)^```\n\n```text\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL
    )
}
# Models round differently on other machines.
TOLERANCE = 0.03
SHOWN_TRIAL = PAGES["README.md"].partition("that the command prints -->\n```text\n")[2].partition("```")[0]
SHOWN_ANSWER = re.search(r"^```text\n(.*?)^```", PAGES["docs/first-dataset.md"], flags=re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path, None, None]:
    """A working folder and a home that nobody has used yet, with the default settings."""
    folder = tmp_path_factory.mktemp("newcomer")
    forget_installation()
    before = Path.cwd()
    with patch.dict(os.environ, {"REELSIEVE_HOME": str(folder / ".reelsieve"), "COLUMNS": "80"}):
        os.environ.pop("CURATION_DB_URL", None)
        os.environ.pop("REELSIEVE_TEXT_ENCODER", None)
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)
            forget_installation()
            stop_embedded(folder / ".reelsieve")


@pytest.fixture(scope="module")
def demo(newcomer: Path) -> Done:
    """What `make demo` shows; its recipe is `reelsieve demo`."""
    # `make test` leaves its own flags behind, with which a make below it would print folders too.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    make = ["make", "-n", "demo"]
    recipe = subprocess.run(make, cwd=PROJECT, env=environment, capture_output=True, text=True, check=True).stdout
    assert '.venv/bin/reelsieve --home "${REELSIEVE_HOME:-$PWD/.reelsieve}" demo\n' in recipe
    return run_command("demo")


def test_the_demo_scores_every_caption_and_says_where_to_look(demo: Done, newcomer: Path) -> None:
    assert demo.returncode == 0, demo.stderr
    # Of each clip six captions and eight pairs of question and answer.
    assert f"scored: {10 * (6 + 8) * (len(METRICS) - 1)} results" in demo.stdout
    assert [line[:6] for line in demo.stdout.splitlines() if " of 5 " in line] == [f"{n} of 5" for n in range(1, 6)]
    assert (newcomer / ".reelsieve" / "demo" / "videos" / "clip_000.mp4").is_file()
    assert "sys_faithful" in demo.stdout
    assert "evqa (demo encoder)" in demo.stdout
    assert "synthetic" in demo.stdout
    (selection,) = (newcomer / ".reelsieve" / "selections").glob("demo*.parquet")
    page = newcomer / ".reelsieve" / "reports" / "demo" / "index.html"
    assert str(selection.resolve()) in demo.stdout
    assert str(page.resolve()) in demo.stdout
    assert "data:image/jpeg;base64" in page.read_text()


@pytest.mark.browser
def test_the_page_of_the_demo_answers_first_and_is_short(demo: Done, newcomer: Path) -> None:
    folder = newcomer / ".reelsieve" / "reports" / "demo"
    cut: list[str] = []
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto((folder / "index.html").as_uri())
        assert page.evaluate("document.documentElement.scrollHeight") <= 12_000
        for width, height in ((1440, 900), (1280, 800), (400, 844)):
            page.set_viewport_size({"width": width, "height": height})
            cut += [each for found in (CUT_OFF, CUT_TEXT, TEXT_ON_TEXT, TOO_WIDE) for each in page.evaluate(found)]
            if width > 400:
                last = page.locator(".trust tbody tr:not(.soft)").last.bounding_box()
                assert last is not None
                assert last["y"] + last["height"] <= height
                # Ratings by a program and stand-ins for models are named in one line below the answers.
                caveat = page.locator("#answers > .answers + .caveat").bounding_box()
                assert caveat is not None
                assert caveat["height"] < 30
                assert page.locator("#answers .notice").count() == 0
    assert cut == []
    answers = json.loads((folder / "report.json").read_text(encoding="utf-8"))["answers"]
    assert answers["caveat"] == (
        "Ratings are by a program, not people. "
        "In place of a model EVQAScore uses the demo encoder and QEVA uses the notes."
    )
    (selection,) = [step["command"] for step in answers["steps"] if "select" in (step["command"] or "")]
    preview = run_command(*shlex.split(selection)[1:], "--preview")
    assert preview.returncode == 0, preview.stderr


@pytest.mark.browser
def test_the_picture_of_the_report_is_up_to_date(demo: Done, newcomer: Path) -> None:
    """Its metadata have the texts that it shows, with their colours: pixels differ with the fonts of a machine."""
    with chromium() as browser:
        _, texts = draw(browser, newcomer / ".reelsieve" / "reports" / "demo" / "index.html")
    size, drawn = read_shown_texts()
    found, shown = (re.split(r"(\d\.\d+)|\n", each) for each in (texts, drawn))
    differing = [pair for pair in zip_longest(found, shown) if not _alike(*map(str, pair))]
    assert (size, differing) == ((WIDTH, HEIGHT), []), "draw it again: make demo, then .venv/bin/python -m docs.report"


def test_the_demo_again_scores_nothing(demo: Done) -> None:
    again = run_command("demo")
    assert again.returncode == 0, again.stderr
    assert "nothing was left to score" in again.stdout
    assert "ingested: nothing" in again.stdout
    assert "concluded: the stored conclusions are up to date" in again.stdout
    # It ends as the first one does.
    assert (
        again.stdout.split("mean scores")[1].split("done in")[0]
        == demo.stdout.split("mean scores")[1].split("done in")[0]
    )


def test_the_first_query_answers_what_the_page_of_the_demo_shows(demo: Done) -> None:
    (query,) = [command for command in COMMANDS if command.startswith("reelsieve sql") and "'demo'" in command]
    assert SHOWN_ANSWER is not None
    answer = run_command(*shlex.split(query)[1:])
    assert [line.split() for line in answer.stdout.splitlines()] == [
        line.split() for line in SHOWN_ANSWER.group(1).splitlines()
    ]


def test_the_recipe_of_the_docs_works_on_the_demo(demo: Done, newcomer: Path) -> None:
    page = (PROJECT / "docs" / "selections.md").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"^```yaml\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    (newcomer / "recipe.yaml").write_text(recipe)
    (commands,) = re.findall(r"^```sh\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    for command in commands.splitlines():
        done = run_command(*shlex.split(command)[1:])
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        if "--preview" in command:
            assert re.search(r"sys_faithful +\d+ +6\b", done.stdout), done.stdout
    assert not {f"`{name}`" for name in Recipe.model_fields} - set(re.findall(r"`\w+`", page))


@pytest.fixture(scope="module")
def second(demo: Done, newcomer: Path) -> str:
    """The number of the demo's second selection, after the commands of docs/sql.md: one caption is corrected too."""
    number = ""
    for command in SETUP.splitlines():
        program, *arguments = shlex.split(command, comments=True)
        if program != "reelsieve":
            subprocess.run(command, shell=True, check=True, cwd=newcomer)
        elif arguments != ["demo"]:
            done = run_command(*arguments)
            assert done.returncode == 0, f"{command}: {done.stderr}"
            number = number or done.stdout.partition(":")[0].removeprefix("selection ")
    return number


def test_the_page_of_questions_has_nineteen_of_them_with_answers() -> None:
    assert [title.partition(".")[0] for title in QUESTIONS if title[0].isdigit()] == [str(n) for n in range(1, 20)]
    assert len(QUESTIONS) == SQL_PAGE.count("```sql")


@pytest.mark.parametrize("title", QUESTIONS)
def test_a_question_has_the_answer_that_the_page_shows(second: str, title: str) -> None:
    query, shown = QUESTIONS[title]
    done = run_command("sql", query.replace("selection_id = 2", f"selection_id = {second}"))
    assert done.returncode == 0, done.stderr
    assert _equal_but_for_rounding(done.stdout.split(), shown.split()), done.stdout


def _equal_but_for_rounding(found: list[str], expected: list[str]) -> bool:
    return len(found) == len(expected) and all(map(_alike, found, expected))


def _alike(found: str, expected: str) -> bool:
    try:
        # A count of a model's decisions may differ by a few.
        return abs(float(found) - float(expected)) <= max(TOLERANCE, TOLERANCE * abs(float(expected)))
    except ValueError:
        return found == expected


@pytest.fixture
def shell() -> dict[str, str]:
    """The environment of somebody who has activated the virtual environment."""
    folder = Path(sys.executable).parent
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(PROJECT)}


def test_the_ways_to_ask_work_in_a_shell(second: str, newcomer: Path, shell: dict[str, str]) -> None:
    (newcomer / "question.sql").write_text(QUESTIONS["3. Which videos have no good caption?"][0])
    for command in USAGE.splitlines():
        subprocess.run(command, shell=True, check=True, cwd=newcomer, env=shell, capture_output=True)
    assert (newcomer / "answer.csv").read_text().startswith("video,captions,best\n")


def test_a_search_finds_captions_and_frames_of_the_demo(second: str) -> None:
    texts, frames, like = (run_command(*shlex.split(command, comments=True)[1:]) for command in SEARCHES.splitlines())
    assert (texts.returncode, frames.returncode) == (0, 0), texts.stderr + frames.stderr
    assert len(frames.stdout.splitlines()) == 6
    assert "demo encoder" in frames.stderr
    assert texts.stderr == ""
    assert like.returncode == 1
    assert "no video 'clips/1f0c' has a vector of its present file: correct the name" in like.stderr
    unknown = run_command("search", "elephants trumpeting", "--frames")
    assert unknown.returncode == 1
    assert "knows no word of" in unknown.stderr


def test_a_notebook_reads_what_the_command_line_reads(second: str, newcomer: Path, shell: dict[str, str]) -> None:
    shown = "print(captions.groupby('system')['vcs'].mean().round(3).dropna().to_json())"
    command = [sys.executable, "-c", f"{NOTEBOOK}\n{shown}"]
    done = subprocess.run(command, cwd=newcomer, env=shell, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    query = (
        "SELECT system, round(avg(vcs)::numeric, 3) AS vcs FROM sample_scores "
        "WHERE kind = 'caption' AND vcs IS NOT NULL GROUP BY system"
    )
    rows = json.loads(run_command("sql", "--json", query).stdout)
    assert json.loads(done.stdout) == {row["system"]: pytest.approx(row["vcs"], abs=0.0015) for row in rows}


def test_noisy_pairs_stay_out_of_the_best_eighth(demo: Done) -> None:
    """EVQAScore paper, Table 4 in form: the share of planted noise in what a recipe keeps, beside length and chance."""
    noise = (
        "SELECT avg(CAST(s.extra->>'quality' = 'noisy' AS integer)) AS share, count(*) AS n FROM selection_item i "
        "JOIN sample s USING (sample_id) WHERE i.selection_id = {}"
    )

    def share(*options: str) -> float:
        # Another test has corrected a caption, whose scores are of other inputs now.
        which = ("--where", "kind = 'qa'", "--stale", "leave_out", "--keep", "0.125")
        chosen = run_command("select", "-d", "demo", *which, *options, "--json")
        assert chosen.returncode == 0, chosen.stderr
        selection = json.loads(chosen.stdout)
        (row,) = json.loads(run_command("sql", noise.format(selection["selection_id"]), "--json").stdout)
        assert row["n"] == selection["n"] == selection["n_eligible"] // 8
        return float(row["share"])

    assert share("--by", "evqa") == share("--by", "n_characters") == 0.0
    # Ten draws of 10 of the 80 pairs, half of which are noisy: within four standard deviations of their mean.
    drawn = [share("--by", "evqa", "--choose", "random", "--seed", str(seed)) for seed in range(10)]
    assert abs(fmean(drawn) - 0.5) < 4 * 0.047


def lay_out_clips(newcomer: Path) -> None:
    """Make the folder that the README tries: four clips of the demo, captions by two models, and references."""
    clips, home = newcomer / "clips", newcomer / ".reelsieve"
    clips.mkdir()
    rows = [json.loads(line) for line in (PROJECT / "demo/dataset/captions.jsonl").read_text("utf-8").splitlines()]
    texts = {(row["video_id"], row["system"]): row["text"] for row in rows}
    table = [["video", "system", "caption", "reference"]]
    for video, name in (("clip_000", "dog"), ("clip_001", "cat"), ("clip_002", "hen"), ("clip_003", "cow")):
        shutil.copy(home / "demo" / "videos" / f"{video}.mp4", clips / f"{name}.mp4")
        for system, writer in (("model_a", "sys_faithful"), ("model_b", "sys_hallucinating")):
            table.append([f"{name}.mp4", system, texts[video, writer], texts[video, "annotator_a"]])
    with (clips / "table.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(table)


def test_every_other_command_works_in_its_order(demo: Done, newcomer: Path, migrated_template: URL) -> None:
    own_server = migrated_template.set(drivername="postgresql").render_as_string(hide_password=False)
    lay_out_clips(newcomer)
    variables: dict[str, str] = {}
    trials: list[str] = []
    for command in COMMANDS:
        program, *arguments = shlex.split(command)
        if program == "git":
            clone = command.replace("REPOSITORY", shlex.quote(str(PROJECT))).replace("make demo", "make -n demo")
            (newcomer / "checkout").mkdir()
            subprocess.run(clone, shell=True, check=True, cwd=newcomer / "checkout", capture_output=True)
        elif program == "export":
            variables = {arguments[0].partition("=")[0]: own_server}
        elif program == "reelsieve":
            done = run_command(*arguments, **variables)
            assert done.returncode == 0, f"{command}: {done.stderr}"
            trials += [done.stdout] if arguments == ["try", "clips"] else []
        else:
            subprocess.run(command, shell=True, check=True, cwd=newcomer)
    assert len(SHOWN_TRIAL.splitlines()) == 10
    printed = [line.split() for line in trials[0].splitlines()]
    for line in SHOWN_TRIAL.splitlines():
        assert any(_equal_but_for_rounding(line.split(), each) for each in printed), f"{line}\n{trials[0]}"
    assert (newcomer / "best.parquet").is_file()
    assert (newcomer / "kept.jsonl").read_text(encoding="utf-8").count("\n") >= 1


def test_the_commands_named_in_the_text_exist() -> None:
    named = set(re.findall(r"`reelsieve ([a-z]+)(?: ([a-z]+))?`", "\n".join(PAGES.values())))
    assert {("ui", ""), ("doctor", ""), ("db", "start"), ("db", "stop"), ("db", "url")} <= named
    for command, sub in named:
        done = run_command(command, *([sub] if sub else []), "--help")
        assert done.returncode == 0, f"reelsieve {command} {sub}: {done.stderr}"


def test_the_readme_is_short_and_leads_to_every_page() -> None:
    assert len(PAGES["README.md"].splitlines()) <= 130
    pages = {path.relative_to(PROJECT).as_posix() for path in (PROJECT / "docs").rglob("*.md")}
    assert pages - set(re.findall(r"\]\(([^)#]+)", PAGES["README.md"])) == set()
