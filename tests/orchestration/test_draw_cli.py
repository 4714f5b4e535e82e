"""`reelsieve score --draw`: the forecast first, a part that is asked, a larger part, and options that do not fit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from db import schema
from db.manifest.draws import build_draw_order
from orchestration.installation import get_installation
from tests.assets.batch_runner import answer, read_requests
from tests.assets.judging import answering
from tests.assets.manifests import candidate, write_clip
from tests.assets.manifests import write_manifest as write_tables
from tests.command_line import run_command, run_successfully
from tests.metrics_core.chat_server import Loopback, loopback
from tests.orchestration.conftest import Installation, forget_installation

pytestmark = pytest.mark.slow

N = 12
SCORE = ("score", "-d", "clips", "--metric", "judge")


@pytest.fixture(scope="module")
def folder(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve captions on a clip, ingested as `clips`."""
    made = tmp_path_factory.mktemp("clips")
    write_clip(made / "videos" / "v.avi")
    write(made, N)
    run_successfully("ingest", str(made), "-d", "clips")
    return made


def write(folder: Path, n: int) -> None:
    captions = [candidate(f"c{i}", "v", f"A dog runs {i}.", system="long" if i % 3 else "brief") for i in range(n)]
    write_tables(folder, [{"video_id": "v", "path": "videos/v.avi"}], captions=captions)


@pytest.fixture
def server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    with loopback(answering()) as served:
        monkeypatch.setenv("REELSIEVE_JUDGE_MODEL", "tiny")
        monkeypatch.setenv("REELSIEVE_JUDGE_URL", served.url)
        monkeypatch.setenv("REELSIEVE_JUDGE_PRICE", "[10, 10]")
        forget_installation()
        yield served
    forget_installation()


def statuses() -> dict[str, str]:
    """Statuses of `clips` by key, in the order of the random numbers of seed 0."""
    query = sa.text(
        "SELECT s.key, c.status FROM sample s JOIN current_score c USING (sample_id) JOIN scorer r "
        "ON r.scorer_id = c.scorer_id AND r.metric = 'judge' AND r.models->'judge'->>'model_id' = 'tiny'"
    )
    with get_installation().engine.connect() as connection:
        found = dict(map(tuple, connection.execute(query)))
        order = connection.scalars(sa.select(schema.sample.c.key).order_by(*build_draw_order(0)))
        return {key: found[key] for key in order if key in found}


def test_a_part_is_asked_and_a_larger_part_keeps_it(server: Loopback, folder: Path) -> None:
    shown = json.loads(run_successfully(*SCORE, "--draw", "4", "--dry-run", "--json").stdout)
    assert [(row["pending"], row["calls at most"]) for row in shown] == [(4, 4)]
    assert server.asked == []
    done = run_successfully(*SCORE, "--draw", "4")
    assert "judge: 4 drawn samples without a score; 4 requests at most to tiny, " in done.stderr
    # Eight frames of 16 x 16 tokens, and the rubric: some 2,700 tokens a caption.
    price = float(done.stderr.partition(", price ")[2].split()[0])
    assert 4 * 2500e-5 < price < 4 * 3500e-5
    assert "not drawn" not in done.stderr
    assert list(statuses().values()) == ["ok"] * 4 + ["not_drawn"] * (N - 4)
    assert len(server.asked) == 4
    # A plain run asks no more.
    run_successfully(*SCORE)
    assert len(server.asked) == 4
    run_successfully(*SCORE, "--draw", "6")
    assert list(statuses().values()) == ["ok"] * 6 + ["not_drawn"] * (N - 6)
    run_successfully(*SCORE, "--draw", "2")
    assert len(server.asked) == 6
    # Within the captions of one system, beginning with those of least number.
    done = run_successfully(*SCORE, "--draw", "3", "--where", "system = 'brief'")
    brief = [status for key, status in statuses().items() if int(key[1:]) % 3 == 0]
    assert brief[:3] == ["ok"] * 3
    n_asked = len(server.asked)
    # A dataset that grows: new captions take their places among the first.
    write(folder, 5 * N)
    run_successfully("ingest", str(folder), "-d", "clips")
    for options in ((), ("--draw", "2")):
        forecast = json.loads(run_successfully(*SCORE, *options, "--dry-run", "--json").stdout)
        assert sum(row["calls at most"] for row in forecast) > 0
    run_successfully(*SCORE)
    assert forecast[0]["calls at most"] == len(server.asked) - n_asked
    assert list(statuses().values())[:6] == ["ok"] * 6
    assert len(statuses()) == 5 * N
    assert n_asked < len(server.asked) <= n_asked + 6 + 3
    shown = json.loads(run_successfully("dataset", "scores", "clips", "--by", "judge", "--limit", "1", "--json").stdout)
    assert shown[0]["judge"] == pytest.approx(0.9)


def test_a_part_is_asked_several_times(server: Loopback, folder: Path) -> None:
    n_known = list(statuses().values()).count("ok")
    assert n_known >= 10
    shown = json.loads(run_successfully(*SCORE, "--draw", "4", "--repeat", "3", "--dry-run", "--json").stdout)
    assert [(row["pending"], row["calls at most"]) for row in shown] == [(0, 8)]
    before = statuses()
    done = run_successfully(*SCORE, "--draw", "4", "--repeat", "3")
    assert "judge: 0 drawn samples without a score; 8 requests at most to tiny, " in done.stderr
    assert [body["temperature"] for body in server.asked] == [1.0] * 8
    assert statuses() == before
    # Nothing is left, and a plain run knows the wish.
    run_successfully(*SCORE)
    assert len(server.asked) == 8


def test_a_part_is_written_answered_elsewhere_and_imported(server: Loopback, folder: Path, tmp_path: Path) -> None:
    n_ok = list(statuses().values()).count("ok")
    to = tmp_path / "out"
    shown = run_successfully(
        "requests", "export", "clips", "--metric", "judge", "--draw", str(n_ok + 4), "--to", str(to)
    )
    n_new = len(read_requests(to))
    assert n_new >= 4
    assert f"{n_new} requests written to {to} in 1 file; next: " in shown.stdout
    answer(to, answering())
    done = run_successfully("requests", "import", str(to))
    assert done.stdout.endswith(f"{n_new} of {n_new} requests have a stored answer\n")
    assert " lines " not in done.stderr
    run_successfully(*SCORE)
    assert list(statuses().values()).count("ok") == n_ok + n_new
    assert server.asked == []
    again = run_successfully("requests", "export", "clips", "--metric", "judge", "--to", str(tmp_path / "new"))
    assert again.stdout == "nothing to ask: reelsieve score --dataset clips --metric judge needs no server\n"
    other = run_successfully("requests", "import", str(to), REELSIEVE_JUDGE_MODEL="other")
    assert "the present settings ask judge otherwise than this export did" in other.stderr
    assert json.loads(run_successfully("requests", "import", str(to), "--json").stdout)["n_known"] == n_new


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--metric", "vcs", "--to", "x"), "vcs asks no chat model: name one in the settings, such as "),
        (("--metric", "nothing", "--to", "x"), "there is no metric 'nothing'"),
        (("--metric", "judge", "--to", "."), "folder . is not empty: name a new folder for every export"),
    ],
)
def test_requests_that_cannot_be_written_end_with_one_sentence(
    server: Loopback, arguments: tuple[str, ...], sentence: str
) -> None:
    done = run_command("requests", "export", "clips", *arguments)
    assert done.returncode != 0
    assert sentence in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--metric", "vcs", "--draw", "5"), "vcs scores every sample, so a draw has no effect on it"),
        (("--draw", "5"), "--draw needs a metric: give --metric, such as --metric judge"),
        (("--metric", "judge", "--seed", "5"), "--seed belongs to --draw"),
        (("--metric", "judge", "--where", "words > 5"), "--where belongs to --draw"),
        (("--metric", "judge", "--repeat", "5"), "--repeat belongs to --draw"),
        (("--metric", "judge", "--draw", "5", "--repeat", "2"), "--repeat: '2' should be greater than or equal to 3"),
        (("--metric", "judge", "--draw", "5", "--shard", "0"), "leave out --shard"),
        (("--metric", "judge", "--draw", "5", "--where", "wrds > 5"), "did you mean 'words'?"),
        (("--metric", "judge", "--draw", "0"), "0"),
        (("--metric", "judge", "--draw", str(2**63)), str(2**63)),
    ],
)
def test_options_that_do_not_fit_end_with_one_sentence(
    server: Loopback, arguments: tuple[str, ...], sentence: str
) -> None:
    done = run_command("score", "-d", "clips", *arguments)
    assert done.returncode != 0
    assert sentence in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert server.asked == []


@pytest.mark.usefixtures("folder")
def test_without_a_judge_nothing_is_drawn_and_nobody_else_is_held_up() -> None:
    done = run_command(*SCORE, "--draw", "5")
    assert done.returncode != 0
    assert "set REELSIEVE_JUDGE_MODEL" in done.stderr
    plan = run_successfully("score", "-d", "clips", "--dry-run").stdout
    assert "judge needs a vision model as judge. Set REELSIEVE_JUDGE_MODEL" in " ".join(plan.split())
    assert "judge" not in run_successfully("dataset", "list", "--json").stdout
