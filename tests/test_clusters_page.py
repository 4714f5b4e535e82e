"""The files of docs/clusters.md are complete, its commands and options exist, and its hours and dollars add up.

The array is run by `python -m benchmarks.slurm`; no test builds the container.
"""

from __future__ import annotations

import re
import shlex

import pytest
import yaml
from typer.main import get_command

from orchestration.cli.app import app
from tests.conftest import PROJECT

EXAMPLES = PROJECT / "docs" / "examples"
PAGE = (PROJECT / "docs" / "clusters.md").read_text(encoding="utf-8")
DOCKERFILE = (EXAMPLES / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((EXAMPLES / "compose.yaml").read_text(encoding="utf-8"))
COMMANDS = [
    " ".join(line.split())
    for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S)
    for line in block.splitlines()
]


def test_the_dockerfile_copies_what_setup_needs() -> None:
    """Its files are those that pyproject.toml and the Makefile name, and all packages."""
    copied = {name for line in re.findall(r"^COPY --chown=\w+ (.+) \S+$", DOCKERFILE, re.M) for name in line.split()}
    assert [name for name in copied if not (PROJECT / name).exists()] == []
    project = (PROJECT / "pyproject.toml").read_text(encoding="utf-8")
    (included,) = re.findall(r"^include = \[(\"reelsieve.*)\]", project, re.M)
    packages = set(re.findall(r'"(\w+)\*"', included))
    assert packages <= copied
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    needed = re.findall(r"^\$\(INSTALLED\): (.+)$", makefile, re.M)[0].split()
    assert {*needed, "Makefile", "README.md", "MANIFEST.in", "dagster.yaml"} <= copied
    assert "\nRUN make setup " in DOCKERFILE
    assert DOCKERFILE.count("\nFROM ") == 1


def test_compose_builds_that_file_beside_a_postgres_with_pgvector() -> None:
    services = COMPOSE["services"]
    build = services["reelsieve"]["build"]
    assert (EXAMPLES / build["context"] / build["dockerfile"]).resolve() == EXAMPLES / "Dockerfile"
    assert services["postgres"]["image"].startswith("pgvector/pgvector:")
    account = services["postgres"]["environment"]
    url = f"postgresql://{account['POSTGRES_USER']}:${{POSTGRES_PASSWORD}}@postgres/{account['POSTGRES_DB']}"
    assert services["reelsieve"]["environment"] == {"CURATION_DB_URL": url}
    (home, _) = services["reelsieve"]["volumes"]
    assert f"REELSIEVE_HOME={home.partition(':')[2]}" in DOCKERFILE
    named = {volume.partition(":")[0] for service in services.values() for volume in service["volumes"]}
    assert set(COMPOSE["volumes"]) <= named


@pytest.mark.parametrize("command", [each for each in COMMANDS if "reelsieve " in each or "sbatch" in each])
def test_commands_and_options_exist(command: str) -> None:
    """A line of the page calls a command by options that it has, and names files that are there."""
    words = shlex.split(command)
    files = [word for word in words if word.startswith("docs/")]
    assert [name for name in files if not (PROJECT / name).is_file()] == []
    if words[0] == "docker":
        words = words[words.index("reelsieve") :]
    if words[0] == "sbatch":
        words = ["reelsieve", "score", *words[2:]]
    if words[0] == "reelsieve":
        options = {name for each in get_command(app).commands[words[1]].params for name in each.opts}  # type: ignore[attr-defined]  # a group of Typer
        assert {word for word in words if word.startswith("--")} <= options


def test_the_array_hands_its_arguments_to_score() -> None:
    script = (EXAMPLES / "score.sbatch").read_text(encoding="utf-8")
    assert script.endswith('\nexec reelsieve score "$@"\n')
    variables = set(re.findall(r"\b(REELSIEVE_\w+)", script + PAGE)) - {"REELSIEVE_CONFIG", "REELSIEVE_DEVICE"}
    documented = (PROJECT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert [name for name in variables if name.removeprefix("REELSIEVE_").lower() not in documented] == []


def test_hours_and_dollars_add_up() -> None:
    rows = re.findall(r"^\| .+ \| ([\d.]+) [CG]PU s.*? \| (.+) \| (.+) \| (.+) \|$", PAGE, re.M)
    assert len(rows) == 5
    for seconds, *hours in rows:
        for clips, shown in zip((1e4, 1e6, 1e7), hours, strict=True):
            assert float(shown.replace(",", "")) == pytest.approx(float(seconds) * clips / 3600, rel=0.12, abs=0.05)
    at_ten_million = [float(row[-1].replace(",", "")) for row in rows]
    cores, gpus = at_ten_million[0] + at_ten_million[2], sum(at_ten_million[3:])
    assert f"{cores:,.0f} CPU hours at $.041" in PAGE
    assert f"{gpus:,.0f} GPU hours at $3" in PAGE
    assert f"${cores * 0.041:,.0f} + ${gpus * 3:,.0f}" in PAGE


def test_the_page_is_short() -> None:
    assert len(PAGE.split()) <= 900
