"""Arguments that cannot be used end in one sentence with the remedy, in every command, and with exit code 2."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from orchestration.cli.app import app
from tests.command_line import run_command
from tests.conftest import PROJECT

SEE = "(see reelsieve {} --help)\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("select -d demo --keep 50%", "--keep: '50%' is not a number: write 0.5 " + SEE.format("select")),
        ("select -d demo --keep 12.5%", "--keep: '12.5%' is not a number: write 0.125 " + SEE.format("select")),
        ("select -d demo --keep 0,5", "--keep: '0,5' is not a number: write 0.5 " + SEE.format("select")),
        ("select -d demo --keep half", "--keep: 'half' is not a number " + SEE.format("select")),
        ("select --keep 0.5", "a dataset is missing: name it as DATASET or by --dataset " + SEE.format("select")),
        ("selections show 1.5", "selection_id: '1.5' is not a whole number " + SEE.format("selections show")),
        ("search x --limit 0", "--limit: '0' should be greater than or equal to 1 " + SEE.format("search")),
        ("selections nothing", "no such command 'nothing' " + SEE.format("selections")),
        ("sql one two", "got unexpected extra argument(s) (two) " + SEE.format("sql")),
        ("dataset drop", "a dataset is missing: name it as DATASET or by --dataset " + SEE.format("dataset drop")),
        ("dataset drop a -d b", "got unexpected extra argument(s) (a) " + SEE.format("dataset drop")),
        ("drop a", "no such command 'drop', did you mean 'dataset drop'? (see reelsieve --help)\n"),
        ("scores a", "no such command 'scores', did you mean 'dataset scores'? (see reelsieve --help)\n"),
        ("prune", "no such command 'prune', did you mean 'db prune'? (see reelsieve --help)\n"),
        ("select -d demo --bye vcs", "no such option: --bye, did you mean '--by'? " + SEE.format("select")),
        (
            "select -d demo --ties random",
            "no such option: --ties: of samples that share the cut's value those that are taken are drawn by seed, "
            "so leave it out " + SEE.format("select"),
        ),
        (
            "promise -d demo --ties random",
            "no such option: --ties: of samples that share the cut's value those that are taken are drawn by seed, "
            "so leave it out " + SEE.format("promise"),
        ),
        (
            "select -d demo --quota a=3",
            "no such option: --quota: write quotas into a recipe file for --recipe " + SEE.format("select"),
        ),
        ("score --metrc vcs", "no such option: --metrc, did you mean '--metric'? " + SEE.format("score")),
        ("score --nothing-like-it", "no such option: --nothing-like-it " + SEE.format("score")),
        (
            "init x --from cosmo",
            "--from: 'cosmo' is not one of 'curator', 'cosmos', 'data-juicer', 'lance', did you mean 'cosmos'? "
            + SEE.format("init"),
        ),
        (
            "init x --column captoin=Text",
            "--column captoin=Text: there is no field 'captoin', did you mean 'caption'?\n",
        ),
        ("select --dataset", "option '--dataset' requires an argument (see reelsieve --help)\n"),
    ],
)
def test_an_unusable_argument_is_said_in_one_line(arguments: str, says: str) -> None:
    done = run_command(*arguments.split())
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {says}")


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["try", ""], "FOLDER"),
        (["try", "clips", "--to="], "--to"),
        (["ingest", "", "mine"], "FOLDER"),
        (["ingest", "clips", "mine", "--rows", ""], "--rows"),
        (["export", "1", "--to", ""], "--to"),
        (["select", "mine", "--recipe", ""], "--recipe"),
        (["rate", "mine", "--guidelines", ""], "--guidelines"),
        (["sql", "-f", ""], "--file"),
        (["db", "dump", ""], "FOLDER"),
        (["db", "restore", ""], "FOLDER"),
        (["--config", "", "doctor"], "--config"),
        (["--home=", "doctor"], "--home"),
    ],
)
def test_no_path_is_empty(arguments: list[str], name: str) -> None:
    """It would mean the current folder."""
    done = run_command(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    command = "--help" if arguments[0].startswith("-") else arguments[0]
    cause = "is an empty text: give a path (is a shell variable unset?)"
    sentence = f"error: the path {name} {cause} (see reelsieve {command}"
    assert done.stderr.lower().startswith(sentence.lower())


def _commands() -> dict[str, Any]:
    """The commands at the top, and those below `dataset`."""
    top = get_command(app).commands  # type: ignore[attr-defined]  # a group of Typer
    inner = {f"dataset {name}": each for name, each in top["dataset"].commands.items()}
    return inner | {name: each for name, each in top.items() if not hasattr(each, "commands")}


def test_the_help_begins_with_what_a_newcomer_needs() -> None:
    """Eight commands, each on two lines at most; how commands that sound alike differ is in them."""
    done = run_command("--help", COLUMNS="80")
    panels = {text.split(" ─")[0]: text for text in done.stdout.split("╭─ ")[1:]}
    assert [*panels] == ["Options", "Start here", "Data", "Scores", "Trust", "Running"]
    first = [line[2:12].strip() for line in panels["Start here"].splitlines()]
    assert [name for name in first if name.isalpha()] == [
        *("demo", "try", "look", "rate", "report", "select", "export", "doctor")
    ]
    columns = [line[2:12].strip() for text in [*panels.values()][1:] for line in text.splitlines()[1:-1]]
    assert not [names for names in pairwise(columns) if not any(names)]


_NOUNS = (
    "Arguments|Aspect|Column|Command|Condition|Confidence|Cosine|Engine|File|Folder|Format|Id|Key|Kind|Labels|Lowest|"
    "Metric|Name|Number|Objective|Port|Rule|Scale|Seconds|Seed|Shares?|Statement|Text|Tool|Value|Way"
)
_VERBS = "Compare|Delete|Drop|Label|Let|List|Listen|Measure|Print|Search|Show|Use"


def test_the_help_of_a_value_begins_with_a_noun_and_that_of_a_flag_with_a_verb() -> None:
    groups = [each for each in get_command(app).commands.values() if hasattr(each, "commands")]  # type: ignore[attr-defined]  # a group of Typer
    commands = [*_commands().values(), *(each for group in groups for each in group.commands.values())]
    texts = {(getattr(p, "is_flag", False), p.help) for each in commands for p in each.params if p.name != "help"}
    assert len(texts) > 90
    pattern = {True: rf"({_VERBS}) .*\.", False: rf"({_NOUNS})\b.*\."}
    assert not [text for is_flag, text in texts if not re.fullmatch(pattern[is_flag], text or "")]


def test_help_is_wrapped_by_the_width_of_the_terminal_alone() -> None:
    help_texts = {name: (command.help or "").replace("\n\n", "") for name, command in _commands().items()}
    assert not [name for name, text in help_texts.items() if not text or "\n" in text]


def test_every_command_takes_its_dataset_by_place_and_by_option() -> None:
    taking = {name: each for name, each in _commands().items() if "DATASET" in {p.metavar for p in each.params}}
    assert {*taking} == {*_commands()} - {"demo", "init", "prove", "export", "sql", "ui", "dagster", "dg", "doctor"} - {
        "dataset holds"
    }
    for name, command in taking.items():
        others = [p for p in command.params if p.param_type_name == "argument" and p.metavar != "DATASET"]
        place = [p.metavar for p in command.params if p.param_type_name == "argument"].index("DATASET")
        values = [f"value-{number}" for number in range(len(others))]
        required = [text for p in command.params if p.required and p not in others for text in (p.opts[0], "1")]
        by_place = command.make_context(name, [*required, *values[:place], "mine", *values[place:]]).params
        assert by_place["dataset"] == "mine"
        assert by_place == command.make_context(name, [*required, *values, "--dataset", "mine"]).params
        assert by_place == command.make_context(name, ["-d", "mine", *required, *values]).params


def test_a_choice_is_named_with_all_that_can_be_chosen() -> None:
    done = run_command("export", "1", "--to", "x", "--format", "xml")
    assert done.returncode == 2
    assert done.stderr.startswith("error: --format: 'xml' is not one of 'parquet', 'jsonl'")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["db"]])
def test_a_group_without_a_command_shows_its_help_and_no_error(arguments: list[str]) -> None:
    done = run_command(*arguments)
    assert done.returncode == 2
    assert "Usage: reelsieve" in done.stdout
    assert "error" not in done.stderr


@pytest.mark.parametrize("arguments", [["--version"], ["select", "--help"]])
def test_what_is_asked_for_is_no_error(arguments: list[str]) -> None:
    done = run_command(*arguments)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_line_starts_without_databases_metrics_and_dagster() -> None:
    """Else whoever asks for help, or mistypes, waits for a second."""
    code = "import orchestration.cli.app, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "orchestration" in loaded
    assert not loaded & {"dagster", "db", "numpy", "psycopg", "pydantic", "sqlalchemy"}
    # How children start, which needs nothing but the standard library.
    light = {"metrics_core", "metrics_core.child_processes"}
    assert {name for name in loaded if name.partition(".")[0] == "metrics_core"} <= light


@pytest.mark.slow
def test_torch_makes_no_folder_among_the_temporary_files_of_all(tmp_path: Path) -> None:
    """It does so when transformers, which loads every text model, is imported."""
    code = """
import sys
from orchestration.cli import main
sys.argv = ["reelsieve", "--version"]
try:
    main()
except SystemExit:
    from transformers import PreTrainedModel
"""
    environment = {name: value for name, value in os.environ.items() if name != "TORCHINDUCTOR_CACHE_DIR"}
    environment |= {"TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], cwd=PROJECT, env=environment, capture_output=True, check=True)
    assert list(tmp_path.iterdir()) == []


def test_a_warning_of_a_library_does_not_reach_the_terminal() -> None:
    code = (
        "import sys, warnings\n"
        "from orchestration.cli import config, main\n"
        "config._list_settings = lambda: warnings.warn('divide by zero', RuntimeWarning) or []\n"
        "sys.argv = ['reelsieve', 'config', '--json']\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
