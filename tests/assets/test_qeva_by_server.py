"""QEVA by a model server: frames are sent, answers are kept, and whatever the server does, no number is made up."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.scores.pending import forecast_shard
from db import schema
from metrics_core.qeva.by_chat import requests
from tests.assets.examiner import STORY, by_text, chat, examiner, qeva
from tests.assets.manifests import candidate, reference, spans, write_clip
from tests.assets.verifying import Bench, ToldVerifier, filled_bench
from tests.conftest import PROJECT
from tests.metrics_core.chat_server import Answer, Loopback, complaint, completion, loopback

TEXTS = {f"c{i}": " ".join(STORY[: i + 1]) for i in range(3)}


def fill(bench: Bench) -> None:
    timed = reference("r", "v", " ".join(STORY), segments=spans((0, 2), (2, 4), (4, 6), texts=STORY))
    bench.ingest(["v"], captions=[timed, *(candidate(key, "v", text) for key, text in TEXTS.items())])


template = filled_bench(fill)


@pytest.fixture
def bench(engine: Engine, tmp_path: Path) -> Bench:
    return Bench(engine, tmp_path)


def calls(engine: Engine) -> dict[str, int]:
    """Rows of table chat_call by outcome."""
    query = sa.select(schema.chat_call.c.outcome, sa.func.count()).group_by(schema.chat_call.c.outcome)
    with engine.connect() as connection:
        return {row[0]: row[1] for row in connection.execute(query)}


def bodies(server: Loopback) -> list[str]:
    return [str(body["messages"]) for body in server.asked]


def test_a_whole_score_from_a_server_and_the_same_without_it(bench: Bench) -> None:
    with loopback(examiner) as server:
        counts = bench.make(by_text(server.url))
        assert bench.score(by_text(server.url)) == len(TEXTS)
        n_asked = len(server.asked)
        # Nothing is asked twice; all calls are rows with tokens and money.
        assert len(set(bodies(server))) == n_asked
        rows = bench.scores(by_text(server.url))
        assert bench.run(by_text(server.url)) == rows
        assert len(server.asked) == n_asked
    assert calls(bench.engine) == {"ok": n_asked}
    assert counts["qeva_answer"]["tokens_in"] == 100 * int(counts["qeva_answer"]["calls"])
    assert float(counts["qeva_question"]["money"]) == pytest.approx(120 * int(counts["qeva_question"]["calls"]) / 1e5)
    for row in rows.values():
        assert (row.status, row.value) == ("ok", 1.0)
        assert row.components["questions"]["chronology"]["low_quality"] > 0
        assert row.components["questions"]["factuality"]["generated"] == 3
    with bench.engine.begin() as connection:
        connection.execute(sa.delete(schema.qeva_question_set))
        connection.execute(sa.delete(schema.score))
    # The server is gone; its answers are not, and are enough even when the questions are lost.
    again = bench.run(by_text(server.url))
    assert {key: row.value for key, row in again.items()} == {key: row.value for key, row in rows.items()}


def test_frames_are_sent_with_their_times(engine: Engine, tmp_path: Path) -> None:
    bench = Bench(engine, tmp_path, "shown")
    (tmp_path / "shown").mkdir()
    write_clip(tmp_path / "shown" / "videos" / "v.avi", width=64)
    bench.ingest([{"video_id": "v", "path": "videos/v.avi"}], captions=[candidate("c", "v", " ".join(STORY))])
    with loopback(examiner) as server:
        chats = {"video": chat(server.url), "text": chat(server.url)}
        row = bench.run(qeva(chats, verifier=ToldVerifier(limit=0), qeva_frames=4, qeva_frame_size=32))["c"]
        shown = [body for body in server.asked if "image_url" in str(body["messages"])]
    assert row.error is None
    assert (row.status, row.value, row.components["video_given_as"]) == ("ok", 1.0, "frames")
    parts = shown[0]["messages"][-1]["content"]
    assert sum(part["type"] == "image_url" for part in parts) == 4
    assert "at 0.5 s" in "".join(part.get("text", "") for part in parts)
    assert len(shown) < len(server.asked)  # questions about the summary carry no frames


def test_a_server_that_refuses_everything_gives_statuses_and_no_number(bench: Bench) -> None:
    refusal = completion(None, refusal="I must not look at this.")
    with loopback(lambda n, body: refusal) as server:
        rows = bench.run(by_text(server.url))
    assert {(row.status, row.value) for row in rows.values()} == {("unanswered", None)}
    assert all("I must not look at this" in row.error for row in rows.values())
    assert bench.score(by_text(server.url)) == 0  # final: it is not tried again


def test_a_server_that_is_down_fails_and_the_next_run_mends_it(bench: Bench) -> None:
    with loopback(lambda n, body: complaint(500, "out of memory")) as server:
        rows = bench.run(by_text(server.url))
    assert {(row.status, row.value) for row in rows.values()} == {("failed", None)}
    assert all("500" in row.error for row in rows.values())
    with loopback(examiner) as server:
        rows = bench.run(by_text(server.url))
    assert {(row.status, row.value) for row in rows.values()} == {("ok", 1.0)}


def test_a_server_that_dies_in_the_middle_costs_what_was_under_way(bench: Bench) -> None:
    n_good = 30
    with loopback(lambda n, body: examiner(n, body) if n < n_good else Answer(body=b"{" * 80, cut=True)) as dying:
        bench.run(by_text(dying.url))
        answered = bodies(dying)[:n_good]
    assert calls(bench.engine)["ok"] == len(answered) == n_good
    with loopback(examiner) as server:
        rows = bench.run(by_text(server.url))
        assert not set(answered) & set(bodies(server))
    assert {key: row.value for key, row in rows.items()} == dict.fromkeys(TEXTS, 1.0)


def test_two_runs_at_once_end_as_one_does(bench: Bench) -> None:
    with loopback(examiner) as server, ThreadPoolExecutor(2) as pool:
        first, second = pool.map(bench.run, [by_text(server.url), by_text(server.url)])
    assert {key: row.value for key, row in first.items()} == dict.fromkeys(TEXTS, 1.0)
    assert {key: row.value for key, row in second.items()} == dict.fromkeys(TEXTS, 1.0)
    sets = sa.select(sa.func.count()).select_from(schema.qeva_question_set)
    with bench.engine.connect() as connection:
        assert connection.scalar(sets) == 2 + len(TEXTS)


def test_another_prompt_version_is_another_scorer_and_old_answers_stay(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loopback(examiner) as server:
        old = by_text(server.url)
        before = bench.run(old)
        n_answers = _n_answers(bench.engine)
        monkeypatch.setattr(requests, "PROMPT_VERSION", "qeva-next")
        new = by_text(server.url)
        assert bench.run(new).keys() == before.keys()
    assert _n_answers(bench.engine) == 2 * n_answers
    assert {row.scorer_id for row in bench.scores(new).values()} != {row.scorer_id for row in before.values()}


@pytest.mark.expensive
@pytest.mark.parametrize("killed_at", [3, 12, 30])
def test_a_killed_process_costs_the_calls_under_way(bench: Bench, killed_at: int, database: Any) -> None:
    program = (
        "import sys, pathlib; from db.server.engine import open_engine; from sqlalchemy.engine import make_url; "
        "from tests.assets.examiner import by_text; from tests.assets.verifying import Bench; "
        "Bench(open_engine(make_url(sys.argv[1])), pathlib.Path('.')).run(by_text(sys.argv[2]))"
    )
    url = database.render_as_string(hide_password=False)
    victim: list[subprocess.Popen[bytes]] = []

    def kill_then_answer(n: int, body: dict[str, Any]) -> Answer:
        if n == killed_at:
            victim[0].kill()
        return examiner(n, body)

    with loopback(kill_then_answer) as server:
        victim.append(subprocess.Popen([sys.executable, "-c", program, url, server.url], cwd=PROJECT))
        victim[0].wait(60)
        asked_before = bodies(server)
    assert victim[0].returncode != 0
    with loopback(examiner) as server:
        rows = bench.run(by_text(server.url))
        repeated = set(asked_before) & set(bodies(server))
    assert len(repeated) <= 8  # as many as are under way at a time
    assert {(row.status, row.value) for row in rows.values()} == {("ok", 1.0)}


def _n_answers(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.scalar(sa.select(sa.func.count()).select_from(schema.qeva_answer)) or 0


def test_a_forecast_is_the_bound_of_the_spec_and_asks_nothing(engine: Engine, tmp_path: Path) -> None:
    bench = Bench(engine, tmp_path, "shown")
    videos = [f"v{i}" for i in range(3)]
    (tmp_path / "shown").mkdir()
    for video in videos:
        write_clip(tmp_path / "shown" / "videos" / f"{video}.avi")
    captions = [candidate(f"{video} {i}", video, " ".join(STORY)) for video in videos for i in range(4)]
    bench.ingest([{"video_id": video, "path": f"videos/{video}.avi"} for video in videos], captions=captions)
    with loopback(examiner) as server:
        model = chat(server.url)
        roles = {"video": model, "text": model, "filter_video": model, "filter_text": model}
        scorer = qeva(roles, qeva_text={"model": "tiny", "price": (10.0, 10.0)})
        n_pending, parts = forecast_shard(bench.engine, scorer, bench.dataset, 0)
        assert server.asked == []
        assert (n_pending, sum(part.n_requests for part in parts)) == (12, 3 * 72 + 12 * 61)
        for part in parts:
            assert part.money == pytest.approx((part.tokens_in + part.tokens_out) / 1e5)
        bench.run(scorer)
        assert 0 < len(server.asked) <= 3 * 72 + 12 * 61
    assert forecast_shard(bench.engine, scorer, bench.dataset, 0) == (0, [])
