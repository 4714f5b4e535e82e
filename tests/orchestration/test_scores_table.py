"""The table of `dataset scores`: a line for each sample, marks for missing values, and never two scales at once."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from assets.metrics.registry import METRICS
from orchestration.cli.output import print_rows
from orchestration.cli.score_table import build_score_table
from orchestration.installation import get_installation
from tests.command_line import run_command
from tests.db.builders import activate, add_sample, add_video, make_dataset, ok, undefined, write_fresh
from tests.homes import copy_home
from tests.orchestration.conftest import here


def row_of(sample: str, system: str = "brief", kind: str = "caption", **values: float | str | None) -> dict[str, Any]:
    """A row of the listing: a number is a value, a text the status of a missing one, None that nothing is scored."""
    row: dict[str, Any] = {"sample": sample, "video": "v", "kind": kind, "system": system}
    for metric in METRICS:
        value = values.get(metric)
        is_status = value is None or isinstance(value, str)
        row |= {metric: None if is_status else value, f"{metric}_status": value if is_status else "ok"}
    return row


def printed(rows: list[dict[str, Any]]) -> list[str]:
    with redirect_stdout(io.StringIO()) as out:
        print_rows(build_score_table(rows, METRICS, 80), empty="", right=METRICS)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("sample", ["s", "clip_001__sys_faithful", "a-name-that-is-far-longer-than-any-terminal-" * 3])
@pytest.mark.parametrize("kinds", [["caption"], ["caption", "qa"]])
def test_a_sample_has_one_line_at_80_columns(sample: str, kinds: list[str]) -> None:
    values = dict.fromkeys(METRICS, -0.12345)
    lines = printed([row_of(f"{sample}{n}", "sys_faithful", kind, **values) for n, kind in enumerate(kinds)])
    assert len(lines) == 1 + len(kinds)
    assert all(len(line) <= 80 for line in lines)
    assert lines[1].split()[-len(METRICS) :] == ["-0.123"] * len(METRICS)
    # Both ends of a name are kept: names of one dataset often differ at the end alone.
    assert lines[-1].split()[0].endswith(str(len(kinds) - 1))
    assert ("kind" in lines[0].split()) == (len(kinds) > 1)


def test_numbers_and_marks_stand_on_the_right() -> None:
    lines = printed([row_of("a", vcs=0.5, vcs_short=-0.25), row_of("b", vcs="stale")])
    assert lines[0].startswith("sample  system    vcs  ")
    assert [line[: len("sample  system    vcs")].split() for line in lines[1:]] == [
        ["a", "brief", "0.500"],
        ["b", "brief", "~"],
    ]
    ends = {line.index(part) + len(part) for line, part in zip(lines, (" vcs", "0.500", "~"), strict=True)}
    assert len(ends) == 1


@pytest.fixture(scope="module")
def listed(prepared_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Dataset `both`: each pair has a higher EVQAScore than every caption, none has a VCS. `some`: captions alone."""
    home = tmp_path_factory.mktemp("home")
    copy_home(prepared_home, home)
    with here(home):
        score_both()
        yield


def score_both() -> None:
    dataset = make_dataset(get_installation().engine, "both")
    video_id = add_video(get_installation().engine, dataset, "v")
    captions = [add_sample(get_installation().engine, dataset, video_id, f"c{n}") for n in range(3)]
    asked = {"kind": "qa", "question": "q?", "answer": "a"}
    pairs = [add_sample(get_installation().engine, dataset, video_id, f"p{n}", **asked) for n in range(3)]
    evqa, vcs = activate(get_installation().engine, "evqa"), activate(get_installation().engine, "vcs")
    write_fresh(
        get_installation().engine,
        evqa,
        [ok(sample_id, place / 10) for place, sample_id in enumerate([*captions, *pairs])],
    )
    statuses = ["too_short", "no_reference"]
    rows = [undefined(sample_id, status) for sample_id, status in zip(captions, statuses, strict=False)]
    write_fresh(
        get_installation().engine, vcs, [*rows, *[undefined(sample_id, "not_applicable") for sample_id in pairs]]
    )
    some = make_dataset(get_installation().engine, "some")
    other_id = add_video(get_installation().engine, some, "w")
    ids = [add_sample(get_installation().engine, some, other_id, f"d{n}") for n in range(3)]
    write_fresh(get_installation().engine, evqa, [undefined(ids[0], "no_frames"), ok(ids[1], 0.1), ok(ids[2], 0.2)])
    write_fresh(get_installation().engine, vcs, [ok(ids[0], 0.5), undefined(ids[1], "no_reference")])


@pytest.mark.parametrize(
    ("options", "samples", "is_said"),
    [
        (["--by", "evqa"], ["c2", "c1", "c0"], True),
        (["--by", "evqa", "--limit", "2"], ["c2", "c1"], True),
        (["--by", "evqa", "--kind", "caption"], ["c2", "c1", "c0"], False),
        (["--by", "evqa", "--kind", "qa"], ["p2", "p1", "p0"], False),
        # The first metric, vcs, has no value here.
        ([], ["c2", "c1", "c0"], True),
        # Without a value none is before another because of a scale.
        (["--by", "ecs"], ["c0", "c1", "c2", "p0", "p1", "p2"], False),
    ],
)
def test_a_table_is_of_one_kind(listed: None, options: list[str], samples: list[str], is_said: bool) -> None:
    done = run_command("dataset", "scores", "-d", "both", *options)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[0] for line in done.stdout.splitlines() if line[:1] in "cp" and line[1:2].isdigit()] == samples
    said = "only captions are listed: values of question-answer pairs are on another scale; --kind qa lists them"
    assert (said in " ".join(done.stdout.split())) == is_said


def test_the_legend_names_every_mark(listed: None) -> None:
    lines = run_command("dataset", "scores", "-d", "some", "--by", "evqa").stdout.splitlines()
    # Columns: sample, system, vcs, evqa.
    assert [line.split()[2:] for line in lines[:4]] == [["vcs", "evqa"], ["·", "0.200"], ["a", "0.100"], ["0.500", "b"]]
    assert lines[4] == "· unscored  a no reference  b no frames"


def test_a_metric_without_any_value_is_left_out_with_the_reason(listed: None) -> None:
    lines = run_command("dataset", "scores", "-d", "both", "--by", "evqa").stdout.splitlines()
    assert [line.split()[2:] for line in lines[:4]] == [["evqa"], ["0.200"], ["0.100"], ["0.000"]]
    left_out = " ".join(" ".join(lines[4:]).split())
    assert left_out.startswith(
        "metrics left out, since no sample has a value: vcs (unscored, no reference, too short), vcs_short (unscored), "
    )
    pairs = " ".join(run_command("dataset", "scores", "-d", "both", "--kind", "qa").stdout.split())
    assert "vcs (not applicable)" in pairs


def test_what_is_not_there_is_said(listed: None) -> None:
    make_dataset(get_installation().engine, "none")
    shown = run_command("dataset", "scores", "-d", "none", "--kind", "qa").stdout
    assert shown.startswith("dataset none has no samples of kind qa\n")
    assert run_command("dataset", "scores", "-d", "none").stdout.startswith("dataset none has no samples\n")
