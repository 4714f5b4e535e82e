"""The commands `look` and `rate`, as docs/look.md shows them, in processes of their own; a kill loses no answer."""

from __future__ import annotations

import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from assets.datasets.lookup import require_dataset
from db.schema import preference, rating, rating_scale
from orchestration.installation import get_installation
from orchestration.launch import run_ingest
from tests.command_line import run_command
from tests.conftest import PROJECT
from tests.orchestration.conftest import Installation
from tests.orchestration.test_ui import free_port

pytestmark = pytest.mark.slow

DATASET = "tiny"
PAGE = (PROJECT / "docs" / "look.md").read_text(encoding="utf-8")
BLOCK, *_ = re.findall(r"^```sh\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
LOOK, RATE = (shlex.split(line.replace("demo", DATASET))[1:] for line in BLOCK.splitlines())
DEADLINE_S = 60.0
# It keeps the cookie that an address with a token is answered with.
BROWSER = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())


@pytest.fixture(scope="module", autouse=True)
def ingested(installation: Installation) -> None:
    run_ingest(get_installation(), installation.manifest, DATASET, None, 2)
    dataset = require_dataset(get_installation().engine, DATASET)
    with get_installation().engine.begin() as connection:
        real = {"aspect": "z", "scale": "real", "lowest_is_best": False}
        connection.execute(sa.insert(rating_scale), {"dataset_id": dataset.dataset_id, **real})


@contextmanager
def started(command: list[str], end: signal.Signals) -> Iterator[str]:
    """The address that a command of the page prints, once it answers; ended by a signal."""
    port = str(free_port())
    program = str(Path(sys.executable).with_name("reelsieve"))
    process = subprocess.Popen([program, *command, "--port", port], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address, _, rest = next(line for line in process.stdout if line.startswith("http")).partition(" ")
        assert rest == "in a moment; Ctrl-C ends it\n"
        limit = time.monotonic() + DEADLINE_S
        while not _answers(address):
            assert process.poll() is None
            assert time.monotonic() < limit
        yield address
    finally:
        process.send_signal(end)
        assert process.wait(DEADLINE_S) in (128 + end, -end)


def _answers(address: str) -> bool:
    try:
        with BROWSER.open(address, timeout=DEADLINE_S) as answer:
            return bool(answer.status == 200)
    except urllib.error.URLError as error:
        if isinstance(error, urllib.error.HTTPError):
            raise
        return False


def text_of(address: str) -> str:
    with BROWSER.open(address, timeout=DEADLINE_S) as answer:
        return str(answer.read().decode())


def test_look_serves_the_dataset_until_it_is_stopped() -> None:
    with started(LOOK, signal.SIGTERM) as address:
        assert address.partition("?token=")[0].endswith(f"/look/{DATASET}")
        assert "clip_00_faithful_0" in text_of(address)
        assert "/asset-groups" not in text_of(address), "Dagster serves beside it in `reelsieve ui` alone"


def test_rate_shows_the_guidelines_of_its_aspect_and_asks_checks_of_it_alone(tmp_path: Path) -> None:
    """Among questions that may be attention checks a page does not say of how many captions it is."""
    file = tmp_path / "coverage.md"
    file.write_text("Name **everything**.")
    options = ["--rater", "eve", "--guidelines", str(file), "--attention-check", "2"]
    with started([*RATE, *options], signal.SIGTERM) as address:
        asked, other = text_of(address), text_of(address.replace("coverage", "fluency"))
    assert "<p>Name <strong>everything</strong>.</p>" in asked
    assert "eve: 0 answers<" in asked
    assert "everything" not in other
    assert "eve: 0 of 36 rated<" in other


def test_every_rater_gets_an_address_of_their_own() -> None:
    port = str(free_port())
    program = str(Path(sys.executable).with_name("reelsieve"))
    command = [program, *RATE, "--rater-links", "2", "--port", port]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        links = dict(next(process.stdout).strip().split(": ", 1) for _ in range(2))
        limit = time.monotonic() + DEADLINE_S
        while not any(map(_answers, links.values())):
            assert process.poll() is None
            assert time.monotonic() < limit
        for rater, address in links.items():
            assert f"{rater}: 0 of 36 rated" in text_of(address)
            own = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            assert own.open(address, timeout=DEADLINE_S).status == 200
            with pytest.raises(urllib.error.HTTPError, match="403"):
                own.open(address.partition("&token=")[0].replace("rater-", "rater-9"), timeout=DEADLINE_S)
        process.send_signal(signal.SIGTERM)
    assert sorted(links) == ["rater-1", "rater-2"]


def test_an_answer_outlives_a_kill() -> None:
    with started([*RATE, "--rater", "ann", "--pairs"], signal.SIGKILL) as address:
        for page, answer in ((address, "tie"), (address.replace("&pairs=1", ""), "4")):
            (path,) = re.findall(r'data-answer="([^"]+)"', text_of(page))
            origin = address.partition("/look")[0]
            request = urllib.request.Request(f"{origin}{path.replace('&amp;', '&')}&answer={answer}", b"{}")
            request.add_header("Content-Type", "application/json")
            with BROWSER.open(request, timeout=DEADLINE_S) as told:
                assert told.status == 200
    with get_installation().engine.connect() as connection:
        (row,) = connection.execute(sa.select(rating.c.rater, rating.c.aspect, rating.c.value)).all()
        (other,) = connection.execute(sa.select(preference.c.rater, preference.c.aspect, preference.c.value)).all()
    assert (tuple(row), tuple(other)) == (("ann", "coverage", 4.0), ("ann", "coverage", 0))


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (["look", "tony"], "there is no dataset 'tony', did you mean 'tiny'?"),
        (
            ["rate", "tiny", "--aspect", "coverage", "--scale", "1-7"],
            "there is no scale '1-7': leave it out, or choose one of 1-5, 0-100, yes-no for an aspect",
        ),
        (
            ["rate", "tiny", "--aspect", "coverage", "--rater", "ann", "--rater-links", "2"],
            "--rater-links names the raters itself: leave out --rater",
        ),
        (
            ["rate", "tiny", "--aspect", "z", "--rater-links", "2", "--scale", "1-5"],
            "z has the scale real here, not '1-5': use real, or name another aspect",
        ),
        (
            ["rate", "tiny"],
            "it is open what to rate: give --aspect, such as --aspect coverage, or --keypoints",
        ),
        (
            ["rate", "tiny", "--keypoints", "--aspect", "fun", "--pairs"],
            "--keypoints labels keypoints instead of rating captions: leave out --aspect and --pairs",
        ),
        (
            ["rate", "tiny", "--keypoints", "--attention-check", "9"],
            "--keypoints labels keypoints instead of rating captions: leave out --attention-check",
        ),
        (
            ["rate", "tiny", "--aspect", "coverage", "--pairs", "--spans"],
            "--spans works only while captions are rated one at a time: leave out --pairs",
        ),
        (
            ["rate", "tiny", "--aspect", "z", "--attention-check", "9"],
            "--attention-check needs a scale with a lowest value, unlike that of z: leave it out",
        ),
        (
            ["rate", "tiny", "--aspect", "coverage", "--guidelines", "nowhere.md"],
            "nowhere.md: the guidelines cannot be read (No such file or directory): give another file",
        ),
        (
            ["rate", "tiny", "--aspect", "coverage", "--scale", "1-5", "--pairs"],
            "--scale is for one caption at a time: leave it out with --pairs",
        ),
    ],
)
def test_a_mistake_is_told_in_one_sentence(command: list[str], sentence: str) -> None:
    done = run_command(*command, "--port", str(free_port()))
    assert done.returncode in (1, 2)
    assert sentence in " ".join(done.stderr.split())


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run_command("look", "--port", str(taken.getsockname()[1]))
    assert "is in use: choose another one with --port" in done.stderr
