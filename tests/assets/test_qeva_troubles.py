"""What fails in a part of QEVA's work holds scores back and is mended later; it never becomes a number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.metrics.qeva import questions
from assets.metrics.qeva.answers import AnswerSource
from assets.metrics.qeva.questions import QuestionSource
from assets.metrics.qeva.scorer import QEVAScorer
from assets.scores.explain import explain_score
from assets.scores.pending import forecast_shard, list_samples_to_score
from db import schema
from metrics_core.frames import DecodingWorker, FrameReadError
from tests.assets.examiner import STORY, chat, examiner, qeva
from tests.assets.manifests import candidate, keypoint, write_clip
from tests.assets.verifying import Bench, Crash, ToldVerifier, make_kind, order_for
from tests.metrics_core.chat_server import Answer, complaint, completion, loopback

TEXTS = {f"c{i}": " ".join(STORY[: i + 1]) for i in range(3)}


@pytest.fixture
def bench(engine: Engine, tmp_path: Path) -> Bench:
    """A video with a file and three captions."""
    made = Bench(engine, tmp_path)
    (tmp_path / "set").mkdir()
    write_clip(tmp_path / "set" / "videos" / "v.avi", width=64)
    videos = [{"video_id": "v", "path": "videos/v.avi"}]
    made.ingest(videos, captions=[candidate(key, "v", text) for key, text in TEXTS.items()])
    return made


def scorer_at(url: str, **settings: Any) -> QEVAScorer:
    chats = {"video": chat(url), "text": chat(url)}
    return qeva(chats, verifier=ToldVerifier(limit=0), **settings)


def members(body: dict[str, Any]) -> dict[str, Any]:
    asked: dict[str, Any] = body["response_format"]["json_schema"]["schema"]["properties"]
    return asked


def is_open_book(body: dict[str, Any], about: str) -> bool:
    """Whether a filter asks this question with the video in sight."""
    text = str(body["messages"])
    is_answer = "answer" in members(body) and "one or two full" not in text
    return is_answer and about in text and "image_url" in text


class Failing:
    """The examiner, which fails where it is told to as long as it is down."""

    def __init__(self, where: Any, how: Answer) -> None:
        self.is_down = True
        self._where = where
        self._how = how

    def __call__(self, n: int, body: dict[str, Any]) -> Answer:
        return self._how if self.is_down and self._where(body) else examiner(n, body)


def statuses(rows: dict[str, Any]) -> set[tuple[str, float | None]]:
    return {(row.status, row.value) for row in rows.values()}


def left(bench: Bench, scorer: QEVAScorer) -> list[int]:
    return list_samples_to_score(bench.engine, scorer, bench.dataset, 0)


def down(where: Any) -> Failing:
    return Failing(where, complaint(500, "out of memory"))


def test_a_question_that_was_not_filtered_holds_back_all_systems_of_its_video(bench: Bench) -> None:
    script = down(lambda body: is_open_book(body, "point 2 of"))
    with loopback(script) as server:
        scorer = scorer_at(server.url)
        rows = bench.run(scorer)
        assert statuses(rows) == {("failed", None)}
        assert all("could not be filtered" in row.error and "500" in row.error for row in rows.values())
        script.is_down = False
        rows = bench.run(scorer)
    assert statuses(rows) == {("ok", 1.0)}
    assert {row.components["questions"]["coverage"]["kept"] for row in rows.values()} == {3}
    assert scorer.answers.examine(order_for(bench.engine, scorer, bench.dataset)).passed["questions_answered"]
    assert left(bench, scorer) == []


def test_a_mark_that_another_run_mends_meanwhile_is_the_samples_trouble(bench: Bench) -> None:
    script = down(lambda body: is_open_book(body, "point 2 of"))
    with loopback(script) as server:
        first, second = scorer_at(server.url), scorer_at(server.url)
        make_kind(bench.engine, first, QuestionSource, bench.dataset)
        make_kind(bench.engine, first, AnswerSource, bench.dataset)
        script.is_down = False
        make_kind(bench.engine, second, QuestionSource, bench.dataset)
        bench.score(first)
        rows = bench.scores(first)
        assert statuses(rows) == {("failed", None)}
        assert all("score again" in row.error for row in rows.values())
        assert statuses(bench.run(first)) == {("ok", 1.0)}


def test_answers_that_the_judge_did_not_judge_are_judged_by_the_next_run(bench: Bench) -> None:
    script = down(lambda body: "same" in members(body))
    script.is_down = False
    with loopback(script) as server:
        scorer = scorer_at(server.url)
        make_kind(bench.engine, scorer, QuestionSource, bench.dataset)
        # The fake answers as the references say, which the judge has judged for the filter.
        with bench.engine.begin() as connection:
            connection.execute(sa.delete(schema.chat_reply).where(schema.chat_reply.c.purpose == "judgements"))
        script.is_down = True
        rows = bench.run(scorer)
        assert statuses(rows) == {("failed", None)}
        assert all("the judge could not decide on the answer" in row.error for row in rows.values())
        script.is_down = False
        assert statuses(bench.run(scorer)) == {("ok", 1.0)}


def test_a_judge_that_refuses_is_not_asked_again(bench: Bench) -> None:
    script = Failing(lambda body: "same" in members(body), completion(None, refusal="I do not judge."))
    with loopback(script) as server:
        scorer = scorer_at(server.url)
        rows = bench.run(scorer)
        n_asked = len(server.asked)
        assert statuses(rows) == {("unanswered", None)}
        assert all("I do not judge" in row.error for row in rows.values())
        assert left(bench, scorer) == []
        bench.run(scorer)
        assert len(server.asked) == n_asked


def test_what_is_undefined_for_good_is_not_tried_again_for_the_sake_of_another_dimension(bench: Bench) -> None:
    def script(n: int, body: dict[str, Any]) -> Answer:
        if "events" in members(body):
            return completion('{"events": ["A man opens a red door."]}', model=body["model"])
        text = str(body["messages"])
        is_answer = "point 2 of" in text and "image_url" not in text and "answer" in members(body)
        return complaint(500, "out of memory") if is_answer and STORY[1] in text else examiner(n, body)

    with loopback(script) as server:
        scorer = scorer_at(server.url)
        rows = bench.run(scorer)
    assert {row.status for row in rows.values()} <= {"no_questions", "unanswered"}
    assert left(bench, scorer) == []


def test_a_file_that_vanishes_between_writing_and_filtering_is_a_status(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: Any) -> None:
        raise Crash

    with loopback(examiner) as server:
        scorer = scorer_at(server.url)
        with monkeypatch.context() as patched:
            patched.setattr(questions, "filter_questions", crash)
            with pytest.raises(Crash):
                bench.run(scorer)
        (tmp_path / "set" / "videos" / "v.avi").unlink()
        rows = bench.run(scorer)
    assert statuses(rows) == {("failed", None)}
    assert all("v.avi" in row.error for row in rows.values())


def test_a_video_without_a_readable_frame_is_final(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(_worker: DecodingWorker, path: Path, **_: Any) -> None:
        raise FrameReadError(path, "no frame of this content can be read")

    monkeypatch.setattr(DecodingWorker, "read_frames", unreadable)
    with loopback(examiner) as server:
        scorer = scorer_at(server.url)
        rows = bench.run(scorer)
    assert statuses(rows) == {("unanswered", None)}
    assert all("no frame of this content can be read" in row.error for row in rows.values())
    assert left(bench, scorer) == []


def test_a_video_deleted_while_its_questions_are_written_ends_nothing_but_its_run(bench: Bench) -> None:
    def deleting(n: int, body: dict[str, Any]) -> Answer:
        with bench.engine.begin() as connection:
            connection.execute(sa.delete(schema.video))
        return examiner(n, body)

    with loopback(deleting) as server:
        assert bench.run(scorer_at(server.url)) == {}


def test_a_forecast_after_a_failure_counts_what_is_still_to_be_done(bench: Bench) -> None:
    with loopback(lambda n, body: complaint(500, "out of memory")) as server:
        scorer = scorer_at(server.url)
        before = sum(part.n_requests for part in forecast_shard(bench.engine, scorer, bench.dataset, 0)[1])
        bench.run(scorer)
        after = sum(part.n_requests for part in forecast_shard(bench.engine, scorer, bench.dataset, 0)[1])
    assert after == before > 0


@pytest.mark.parametrize("n", [3, 5])
def test_a_forecast_is_a_bound_for_any_number_of_questions(bench: Bench, n: int) -> None:
    with loopback(examiner) as server:
        scorer = scorer_at(server.url, qeva_questions=n)
        at_most = sum(part.n_requests for part in forecast_shard(bench.engine, scorer, bench.dataset, 0)[1])
        bench.run(scorer)
        assert 0 < len(server.asked) <= at_most


def test_a_sample_without_a_value_is_explained_too(engine: Engine, tmp_path: Path) -> None:
    bench = Bench(engine, tmp_path)
    facts = [keypoint(f"k{i}", "v", text=text) for i, text in enumerate(STORY)]
    bench.ingest(["v"], captions=[candidate("c", "v", " ".join(STORY))], keypoints=facts)
    scorer = qeva(verifier=ToldVerifier())
    bench.run(scorer)
    explained = explain_score(engine, scorer.metric, scorer, bench.dataset, "c")
    assert explained is not None
    assert (explained.value, explained.status) == (None, "no_questions")
    assert any(line.startswith("chronology undefined") for line in explained.explanation.lines)
    assert {row["dimension"] for row in explained.explanation.rows} == {"coverage", "factuality"}
