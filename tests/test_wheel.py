"""A wheel beside packages of a user's that are named like our rooms: neither gets in the way of the other."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from reelsieve.building import COPIED_FILES, ROOMS
from tests.conftest import PROJECT

USED = """
import sys, assets, db
import reelsieve as rs
assert rs.vcs_short("A dog runs over the lawn.", "A dog runs over the lawn.").value == 1.0
from reelsieve.dagster import definitions
assert len(definitions().resolve_all_asset_keys()) > 20
print(assets.MINE, db.MINE, rs.__file__)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheel, in which the packages that it needs are those of this one."""
    source, made = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("environment")
    for name in (*ROOMS, "reelsieve"):
        shutil.copytree(PROJECT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE", *COPIED_FILES):
        shutil.copy(PROJECT / name, source)
    build = "from setuptools.build_meta import build_wheel; build_wheel('.')"
    done = subprocess.run([sys.executable, "-c", build], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    venv.create(made)
    folder = Path(sysconfig.get_path("purelib", vars={"base": str(made), "platbase": str(made)}))
    (wheel,) = source.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder)
    assert {path.name for path in folder.iterdir() if not path.name.endswith("info")} == {"reelsieve"}
    assert (folder / "reelsieve" / "py.typed").is_file()
    assert len(list((folder / "reelsieve" / "rooms" / "demo" / "dataset" / "videos").glob("*.mp4"))) == 10
    # Of a folder that a file names no files of this kind are read, so the checkout is not found.
    (folder / "packages.pth").write_text(sysconfig.get_path("purelib"))
    return made / "bin" / "python"


def run(python: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python, *arguments], cwd=folder, capture_output=True, text=True)


def theirs(folder: Path) -> Path:
    for room in ROOMS:
        (folder / room).mkdir()
        (folder / room / "__init__.py").write_text("MINE = 'mine'\n")
    return folder


@pytest.mark.slow
def test_a_wheel_has_one_name_and_works_beside_the_same_names(python: Path, tmp_path: Path) -> None:
    used = run(python, theirs(tmp_path), "-c", USED)
    assert used.returncode == 0, used.stderr
    assert used.stdout.split()[:2] == ["mine", "mine"]
    assert Path(used.stdout.split()[2]).is_relative_to(python.parents[1])
    shown = run(python, tmp_path, "-m", "reelsieve", "config", "--json")
    assert (shown.returncode, '"home"' in shown.stdout) == (0, True), shown.stderr


def test_in_a_checkout_another_package_of_the_name_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "__init__.py").write_text("")
    done = run(Path(sys.executable), tmp_path, "-c", "import reelsieve")
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: the package 'db' in {tmp_path} hides that of Reelsieve: rename it, or install Reelsieve "
        "from a wheel, which has no such names"
    )
