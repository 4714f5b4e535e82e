"""Every command of the README, in its order, on a fresh home; and the answer it shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Generator
from pathlib import Path
from unittest.mock import patch

import pytest
from sqlalchemy.engine import URL

from assets.scores.registry import METRICS
from db.recipes import Recipe
from db.server import stop_embedded
from tests.command_line import Done, run_command
from tests.conftest import PROJECT
from tests.orchestration.conftest import forget_installation

README = (PROJECT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.splitlines() if line]
SHOWN_ANSWER = re.search(r"^```text\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path, None, None]:
    """A working folder and a home that nobody has used yet, with the default encoder."""
    folder = tmp_path_factory.mktemp("newcomer")
    forget_installation()
    before = Path.cwd()
    # Eight sentences verified per keypoint and ten questions, as by default, would take most of the time of the tests.
    fewer = {"REELSIEVE_ECS_SENTENCES": "1", "REELSIEVE_QEVA_QUESTIONS": "2"}
    given = {"REELSIEVE_HOME": str(folder / ".reelsieve"), "COLUMNS": "80", **fewer}
    with patch.dict(os.environ, given):
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
    assert recipe.strip().endswith("reelsieve demo")
    return run_command("demo")


def test_the_demo_scores_every_caption_and_says_where_to_look(demo: Done, newcomer: Path) -> None:
    assert demo.returncode == 0, demo.stderr
    assert f"scored: {840 * len(METRICS)} scores" in demo.stdout
    assert "sys_faithful" in demo.stdout
    assert "evqa (demo encoder)" in demo.stdout
    assert "synthetic" in demo.stdout
    (selection,) = (newcomer / ".reelsieve" / "selections").glob("demo*.parquet")
    page = newcomer / ".reelsieve" / "reports" / "demo" / "index.html"
    assert str(selection.resolve()) in demo.stdout
    assert str(page.resolve()) in demo.stdout
    assert "data:image/jpeg;base64" in page.read_text()


def test_the_demo_again_scores_nothing(demo: Done) -> None:
    again = run_command("demo")
    assert again.returncode == 0, again.stderr
    assert "nothing was left to score" in again.stdout
    assert "ingested: nothing" in again.stdout


def test_the_first_query_answers_what_the_readme_shows(demo: Done) -> None:
    (query,) = [command for command in COMMANDS if command.startswith("reelsieve sql")]
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
            assert re.search(r"sys_faithful +\d+ +20\b", done.stdout), done.stdout
    assert not {f"`{name}`" for name in Recipe.model_fields} - set(re.findall(r"`\w+`", page))


def test_every_other_command_works_in_its_order(demo: Done, newcomer: Path, migrated_template: URL) -> None:
    own_server = migrated_template.set(drivername="postgresql").render_as_string(hide_password=False)
    variables: dict[str, str] = {}
    for command in COMMANDS:
        program, *arguments = shlex.split(command)
        if program == "make":
            assert re.search(rf"^{arguments[0]}:", (PROJECT / "Makefile").read_text(), flags=re.MULTILINE)
        elif program == "export":
            variables = {arguments[0].partition("=")[0]: own_server}
        elif program == "reelsieve":
            done = run_command(*arguments, **variables)
            assert done.returncode == 0, f"{command}: {done.stderr}"
        else:
            subprocess.run(command, shell=True, check=True, cwd=newcomer)
    assert (newcomer / "best.parquet").is_file()


def test_the_commands_named_in_the_text_exist() -> None:
    named = set(re.findall(r"`reelsieve ([a-z]+)(?: ([a-z]+))?`", README))
    assert {("ui", ""), ("doctor", ""), ("db", "start"), ("db", "stop"), ("db", "url")} <= named
    for command, sub in named:
        done = run_command(command, *([sub] if sub else []), "--help")
        assert done.returncode == 0, f"reelsieve {command} {sub}: {done.stderr}"


def test_every_link_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (PROJECT / link).exists()] == []
