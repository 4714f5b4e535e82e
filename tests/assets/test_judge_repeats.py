"""A judge that is asked several times about drawn texts: what is asked, stored, forecast, and shown of its variance."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.metrics.judge.answers import JudgeAnswers
from assets.metrics.judge.repeated import load_judge_steadiness
from assets.metrics.judge.scorer import JudgeScorer
from assets.metrics.simple import WordsInCommonScorer
from assets.reports.report import create_report
from assets.scores.draws import CannotBeDrawn, check_drawable, forecast_draw, settle_undrawn_samples, store_draw
from assets.scores.pending import forecast_shard, list_incomplete_shards
from db import schema
from db.scores.scorers import list_scorers
from db.selection.draws import Draw
from metrics_core.judge import JudgeVariance
from tests.assets.judging import judge, judged_text
from tests.assets.manifests import Row, candidate, write_clip
from tests.assets.verifying import Bench
from tests.metrics_core.chat_server import Answer, Script, complaint, completion, loopback

SYSTEMS, N_VIDEOS = ("brief", "long"), 6
N = len(SYSTEMS) * N_VIDEOS
K = 4
NOISE = (0, 6, -2, 4)


def captions(*changed: str) -> list[Row]:
    """A caption of every system about every video; the text of those in `changed` is another one."""
    keys = [(f"{system}{number}", f"v{number}", system) for number in range(N_VIDEOS) for system in SYSTEMS]
    return [
        candidate(key, video, f"A dog runs {key}{' now' if key in changed else ''}.", system=system)
        for key, video, system in keys
    ]


@pytest.fixture
def bench(engine: Engine, tmp_path: Path) -> Bench:
    """A caption of two systems about six videos."""
    made = Bench(engine, tmp_path)
    (tmp_path / made.name).mkdir()
    for number in range(N_VIDEOS):
        write_clip(tmp_path / made.name / "videos" / f"v{number}.avi", width=64, n_frames=4 + number)
    ingest(made, captions())
    return made


def ingest(bench: Bench, rows: Iterable[Row]) -> None:
    videos = [{"video_id": f"v{number}", "path": f"videos/v{number}.avi"} for number in range(N_VIDEOS)]
    bench.ingest(videos, captions=list(rows))


def score_of(text: str, seed: int) -> int:
    """50 at first, and 60 for `long`; then other numbers around it, which change from text to text."""
    number = int(text.split()[3].strip("brieflong.") or 0)
    return (60 if "long" in text else 50) + (NOISE[(seed // 100 + number) % len(NOISE)] if seed else 0)


def noisy(n: int, body: dict[str, Any]) -> Answer:
    score = score_of(judged_text(body), body["seed"])
    return completion(json.dumps({"spans": [], "why": "So.", "score": score}), model=body["model"])


def draw(bench: Bench, scorer: JudgeScorer, n: int, n_answers: int = K) -> int:
    return store_draw(bench.engine, bench.dataset, scorer, Draw(n, n_answers=n_answers))


def stored(engine: Engine) -> dict[tuple[str, int], Any]:
    query = sa.select(schema.sample.c.key, schema.judge_answer).join(schema.judge_answer)
    with engine.connect() as connection:
        return {(row.key, row.repeat): row for row in connection.execute(query)}


def steadiness(bench: Bench) -> JudgeVariance | None:
    with bench.engine.connect() as connection:
        scorers = [scorer for scorer in list_scorers(connection) if scorer.metric == "judge"]
        found = load_judge_steadiness(connection, bench.dataset, scorers)
    return found[0].variance if found else None


def test_what_is_learned_of_a_server_holds_for_all_batches(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def knows_no_schemas(n: int, body: dict[str, Any]) -> Answer:
        is_schema = body["response_format"]["type"] == "json_schema"
        return complaint(400, "response_format is unknown") if is_schema else noisy(n, body)

    monkeypatch.setattr(JudgeAnswers, "at_a_time", 2)
    with loopback(knows_no_schemas) as server:
        assert bench.make(judge(server.url))["judge_answer"]["judged"] == N
        refused = [body for body in server.asked if body["response_format"]["type"] == "json_schema"]
    assert len(refused) <= 2, "only the first batch, of two, was asked in a form that the server does not know"


def test_drawn_texts_are_asked_again_and_scores_stay_those_of_the_first_answer(bench: Bench) -> None:
    with loopback(noisy) as server:
        scorer = judge(server.url)
        draw(bench, scorer, 3)
        counts = bench.make(scorer)["judge_answer"]
        assert settle_undrawn_samples(bench.engine, bench.dataset, scorer, 0, "run") == N - 3
        assert bench.score(scorer) == 3
        assert (counts["judged"], counts["repeated"], counts["calls"]) == (3, 3 * (K - 1), 3 * K)
        asked = [(body["temperature"], body["seed"]) for body in server.asked]
        assert sorted(asked) == sorted([(0.0, 0), (1.0, 100), (1.0, 200), (1.0, 300)] * 3)
        # All of a request but seed and temperature is that of the first answer.
        wholes = {json.dumps({**body, "seed": 0, "temperature": 0}, sort_keys=True) for body in server.asked}
        assert len(wholes) == 3
        # Nothing is asked twice.
        assert bench.make(scorer)["judge_answer"].get("calls") is None
        assert len(server.asked) == 3 * K
    answers = stored(bench.engine)
    assert sorted(repeat for _, repeat in answers) == sorted([0, 1, 2, 3] * 3)
    for (key, repeat), row in answers.items():
        assert row.score == score_of(f"A dog runs {key}.", repeat * 100)
    scores = {key: row for key, row in bench.scores(scorer).items() if row.status == "ok"}
    assert {key: row.value for key, row in scores.items()} == {
        key: row.value for (key, repeat), row in answers.items() if repeat == 0
    }


def test_a_scored_part_is_asked_again_without_another_score(bench: Bench) -> None:
    with loopback(noisy) as server:
        scorer = judge(server.url)
        draw(bench, scorer, N, 1)
        before = bench.run(scorer)
        assert list_incomplete_shards(bench.engine, scorer, bench.dataset) == set()
        assert draw(bench, scorer, 5) == 0
        assert list_incomplete_shards(bench.engine, scorer, bench.dataset) == {0}
        # Nothing is stale, and only further answers are asked for.
        assert bench.pending(scorer) == set()
        n_pending, (part,) = forecast_shard(bench.engine, scorer, bench.dataset, 0)
        assert (n_pending, part.n_requests) == (0, 5 * (K - 1))
        bench.make(scorer)
        assert len(server.asked) == N + 5 * (K - 1)
        assert list_incomplete_shards(bench.engine, scorer, bench.dataset) == set()
        assert forecast_shard(bench.engine, scorer, bench.dataset, 0) == (0, [])
        assert bench.run(scorer) == before
        # A larger number asks for what is missing, a smaller one for nothing.
        draw(bench, scorer, 5, K + 2)
        bench.make(scorer)
        draw(bench, scorer, 5, 3)
        bench.make(scorer)
        assert len(server.asked) == N + 5 * (K + 1)


def test_a_forecast_counts_all_answers_and_what_they_cost(bench: Bench) -> None:
    with loopback(noisy) as server:
        scorer = judge(server.url, judge={"model": "tiny", "price": (10.0, 10.0)})
        n_pending, (part,) = forecast_draw(bench.engine, bench.dataset, scorer, Draw(5, n_answers=K))
        assert (n_pending, part.n_requests) == (5, 5 * K)
        (_, (once,)) = forecast_draw(bench.engine, bench.dataset, scorer, Draw(5))
        assert part.money == pytest.approx(K * once.money)
        assert server.asked == []
        draw(bench, scorer, 5)
        bench.run(scorer)
        assert forecast_draw(bench.engine, bench.dataset, scorer, Draw(5, n_answers=K)) == (0, [])
        (_, (more,)) = forecast_draw(bench.engine, bench.dataset, scorer, Draw(5, n_answers=K + 1))
        assert more.n_requests == 5


def test_a_forecast_of_another_judge_counts_what_earlier_draws_have_reached(bench: Bench) -> None:
    with loopback(noisy) as server:
        draw(bench, judge(server.url), 8)
        other = judge(server.url, name="other")
        # Eight with four answers, two of them with five; a draw of nine adds one.
        n_pending, parts = forecast_draw(bench.engine, bench.dataset, other, Draw(2, n_answers=K + 1))
        assert (n_pending, sum(part.n_requests for part in parts)) == (8, 8 * K + 2)
        n_pending, parts = forecast_draw(bench.engine, bench.dataset, other, Draw(9))
        assert (n_pending, sum(part.n_requests for part in parts)) == (9, 8 * K + 1)
        draw(bench, other, 2, K + 1)
        bench.run(other)
        assert len(server.asked) == 8 * K + 2


@pytest.mark.parametrize("is_first", [True, False])
def test_an_answer_that_fails_is_asked_for_again(bench: Bench, is_first: bool) -> None:
    def failing(n: int, body: dict[str, Any]) -> Answer:
        return complaint(500, "down") if is_first == (body["seed"] == 0) else noisy(n, body)

    with loopback(failing) as server:
        scorer = judge(server.url)
        draw(bench, scorer, 4)
        bench.run(scorer)
    n_asked = sum(row.status == "ok" for row in stored(bench.engine).values())
    # Without a first answer there are no others.
    assert n_asked == (0 if is_first else 4)
    with loopback(noisy) as server:
        scorer = judge(server.url)
        assert is_first or list_incomplete_shards(bench.engine, scorer, bench.dataset) == {0}
        bench.run(scorer)
        assert len(server.asked) == 4 * K - n_asked
    answers = stored(bench.engine)
    assert ({row.status for row in answers.values()}, len(answers)) == ({"ok"}, 4 * K)


def test_a_text_that_is_refused_is_not_asked_again(bench: Bench) -> None:
    with loopback(lambda n, body: completion(None, refusal="no")) as server:
        scorer = judge(server.url)
        draw(bench, scorer, 4)
        bench.run(scorer)
        assert {body["seed"] for body in server.asked} == {0}
        assert forecast_draw(bench.engine, bench.dataset, scorer, Draw(4, n_answers=K)) == (0, [])
        assert list_incomplete_shards(bench.engine, scorer, bench.dataset) == set()
    assert steadiness(bench) is None


def test_answers_about_changed_texts_do_not_count_and_are_given_anew(bench: Bench) -> None:
    with loopback(noisy) as server:
        scorer = judge(server.url)
        draw(bench, scorer, N)
        bench.run(scorer)
        before = steadiness(bench)
        assert before is not None
        assert (before.n_texts, before.n_answers) == (N, N * (K - 1))
        ingest(bench, captions("long3"))
        stale = steadiness(bench)
        assert stale is not None
        assert stale.n_texts == N - 1
        bench.run(scorer)
        again = [body for body in server.asked if " now" in judged_text(body)]
        assert sorted(body["seed"] for body in again) == [0, 100, 200, 300]
        assert steadiness(bench) == before


def test_the_variance_is_that_of_the_stored_answers(bench: Bench) -> None:
    with loopback(noisy) as server:
        scorer = judge(server.url)
        draw(bench, scorer, N)
        bench.run(scorer)
    variance = steadiness(bench)
    assert variance is not None
    by_text = {
        (system, number): [score_of(f"A dog runs {system}{number}.", 100 * k) / 100 for k in range(1, K)]
        for system in SYSTEMS
        for number in range(N_VIDEOS)
    }
    within = np.mean([np.var(values, ddof=1) for values in by_text.values()])
    assert variance.variances["answer"] == pytest.approx(within)
    assert variance.deviation == pytest.approx(math.sqrt(within))
    pairs = [[abs(a - b) for i, a in enumerate(values) for b in values[:i]] for values in by_text.values()]
    assert variance.mean_difference == pytest.approx(np.mean(pairs))
    # Long captions get 10 more, and the videos make no difference but by the noise.
    assert variance.variances["system"] == pytest.approx(0.1**2 / 2, rel=0.3)
    assert variance.shares is not None
    assert variance.shares["system"] > 0.6


def test_few_texts_show_no_variance(bench: Bench) -> None:
    with loopback(noisy) as server:
        scorer = judge(server.url)
        draw(bench, scorer, 9)
        bench.run(scorer)
        assert steadiness(bench) is None
        draw(bench, scorer, 10)
        bench.run(scorer)
    assert steadiness(bench) is not None


def constant(score: int) -> Script:
    return lambda n, body: completion(json.dumps({"spans": [], "why": "Good.", "score": score}), model=body["model"])


def test_the_report_shows_how_steady_the_judge_is(bench: Bench) -> None:
    with loopback(constant(90)) as server:
        scorer = judge(server.url)
        draw(bench, scorer, N)
        bench.run(scorer)
        with bench.engine.begin() as connection:
            connection.execute(sa.update(schema.scorer).values(status="active"))
        files = create_report(bench.engine, bench.dataset, {"judge": scorer}, bench.folder / "report")
    page = files.page.read_text()
    assert "How steady is a judge that is asked again?" in page
    assert f"about {N} texts are equal: this judge gives all texts the same score." in page
    (numbers,) = json.loads((files.page.parent / "report.json").read_text())["judges"]
    assert numbers["variance"]["n_answers"] == N * (K - 1)


def test_a_metric_with_one_answer_cannot_be_repeated() -> None:
    with pytest.raises(CannotBeDrawn, match="scores every sample"):
        check_drawable(WordsInCommonScorer(), Draw(5, n_answers=K))
    scorer = judge("http://127.0.0.1:9/v1")
    check_drawable(scorer, Draw(5, n_answers=K))
    (source,) = scorer.sources
    assert isinstance(source, JudgeAnswers)
    assert source.can_repeat
