"""The metric `judge` from a video file to a score, at a real server that does whatever servers do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.home.settings import NamedModel, SettingsError
from assets.metrics.judge.answers import JudgeAnswers
from assets.metrics.judge.settings import JudgeSettings
from assets.metrics.video_material import FramesMaterial
from assets.models.chat import CHAT_MODEL
from assets.reports.report import create_report
from assets.scores.explain import explain_score
from assets.scores.pending import forecast_shard
from assets.sources.base import MissingEvidence
from assets.stress.stress import stress_metric
from db import schema
from metrics_core.judge import prompt
from metrics_core.models.server.spending import Prices, SpendingLimit
from tests.assets.judging import answering, constant, decide, judge, judged_text
from tests.assets.manifests import candidate, qa, write_clip
from tests.assets.verifying import Bench, order_for
from tests.metrics_core.chat_server import Answer, complaint, completion, loopback

TEXTS = {"good": "A dog runs.", "red": "A red dog runs.", "both": "A red cat runs.", "foreign": "Un perro rojo corre."}


@pytest.fixture
def bench(engine: Engine, tmp_path: Path) -> Bench:
    """Four captions and a question on a video, a caption of a video without a file, and one without a word."""
    made = Bench(engine, tmp_path)
    (tmp_path / made.name).mkdir()
    write_clip(tmp_path / made.name / "videos" / "v.avi", width=64)
    captions = [candidate(key, "v", text) for key, text in TEXTS.items()]
    captions += [candidate("no file", "w", "A dog runs."), candidate("no word", "v", "...")]
    made.ingest(
        [{"video_id": "v", "path": "videos/v.avi"}, "w"], captions=captions, qa=[qa("q", "v", "What runs?", "A cat.")]
    )
    return made


def answers(engine: Engine) -> list[Any]:
    with engine.connect() as connection:
        return list(connection.execute(sa.select(schema.judge_answer)))


def test_a_score_with_its_pieces_and_the_same_without_the_server(bench: Bench) -> None:
    with loopback(answering()) as server:
        scorer = judge(server.url)
        counts = bench.make(scorer)["judge_answer"]
        assert bench.score(scorer) == len(TEXTS) + 3
        assert len(server.asked) == len(TEXTS) + 1
        assert {judged_text(body) for body in server.asked} == {*TEXTS.values(), "A cat."}
        content = server.asked[0]["messages"][-1]["content"]
        assert sum(part["type"] == "image_url" for part in content) == 4
        # Nothing is asked twice.
        assert bench.run(scorer) == bench.scores(scorer)
        assert len(server.asked) == len(TEXTS) + 1
    assert (counts["judged"], counts["calls"], counts["without_score"]) == (5, 5, 0)
    assert float(counts["money"]) == pytest.approx(5 * 120 / 1e5)
    rows = bench.scores(scorer)
    assert {key: rows[key].value for key in (*TEXTS, "q")} == pytest.approx(
        {"good": 0.9, "red": 0.7, "both": 0.5, "foreign": 0.7, "q": 0.7}
    )
    assert rows["red"].components == {
        "score": 70,
        "value_from": "answer",
        "why": "1 words are wrong.",
        "spans": [{"start": 2, "end": 5, "text": "red", "reason": "it is brown"}],
        "spans_not_in_text": 0,
        "spans_beyond_five": 0,
    }
    # Places are those of the answer, not of question and answer together.
    assert [(span["start"], span["end"]) for span in rows["q"].components["spans"]] == [(2, 5)]
    assert (rows["no file"].value, rows["no file"].status) == (None, "no_video")
    assert (rows["no word"].value, rows["no word"].status) == (None, "empty_text")
    with bench.engine.begin() as connection:
        connection.execute(sa.delete(schema.judge_answer))
        connection.execute(sa.delete(schema.score))
    # The replies of the server that is gone are enough.
    again = bench.run(judge(server.url))
    assert {key: row.value for key, row in again.items()} == {key: row.value for key, row in rows.items()}


def test_frames_are_decoded_once_for_all_captions_of_a_video(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Bench(engine, tmp_path)
    (tmp_path / made.name).mkdir()
    for name in "vw":
        write_clip(tmp_path / made.name / "videos" / f"{name}.avi", width=64)
    made.ingest(
        [{"video_id": name, "path": f"videos/{name}.avi"} for name in "vw"],
        captions=[candidate(f"{n}", "vw"[n % 2], f"A dog runs {n}.") for n in range(10)],
    )
    monkeypatch.setattr(JudgeAnswers, "at_a_time", 2)
    read, decoded = FramesMaterial._read_frames, []
    monkeypatch.setattr(
        FramesMaterial, "_read_frames", lambda self, video: decoded.append(video.key) or read(self, video)
    )
    with loopback(answering()) as server:
        made.run(judge(server.url))
    assert (decoded, len(server.asked)) == (["v", "w"], 10)


@pytest.mark.parametrize(
    ("answer", "status", "reason", "is_final"),
    [
        (completion(None, refusal="I must not look at this."), "refused", "I must not look", True),
        (completion("Quite good, I think."), "malformed", "no JSON object", True),
        (completion('{"spans"', finish_reason="length"), "cut", "broke off", True),
        (complaint(500, "out of memory"), "failed", "500", False),
        (Answer(body=b"{" * 80, cut=True), "failed", "no answer", False),
    ],
)
def test_a_server_without_an_answer_gives_statuses_and_no_number(
    bench: Bench, answer: Answer, status: str, reason: str, is_final: bool
) -> None:
    with loopback(constant(answer)) as server:
        rows = bench.run(judge(server.url))
    for key in TEXTS:
        assert (rows[key].status, rows[key].value) == (status, None)
        assert reason in rows[key].error
    assert {row.status for row in answers(bench.engine)} == {status}
    with loopback(answering()) as server:
        scorer = judge(server.url)
        assert bench.pending(scorer) == (set() if is_final else {*TEXTS, "q"})
        rows = bench.run(scorer)
        assert len(server.asked) == (0 if is_final else len(TEXTS) + 1)
    assert {rows[key].status for key in TEXTS} == {status if is_final else "ok"}


def test_probabilities_are_components_and_other_faults_of_pieces_are_counted(bench: Bench) -> None:
    words = ["one", "two", "three", "four", "five", "six", "seven"]

    def verdict(text: str) -> dict[str, Any]:
        spans = [{"text": word, "reason": ""} for word in [*words, "ausente"]]
        return {**decide(text), "spans": spans, "score": 90}

    def script(n: int, body: dict[str, Any]) -> Answer:
        text = json.dumps(verdict(judged_text(body)))
        before, _, after = text.rpartition("90")
        top = [{"token": "90", "logprob": -0.6931471805599453}, {"token": "50", "logprob": -0.6931471805599453}]
        tokens = [
            {"token": before, "logprob": 0.0, "top_logprobs": []},
            {**top[0], "top_logprobs": top},
            {"token": after, "logprob": 0.0, "top_logprobs": []},
        ]
        whole = json.loads(completion(text, model=body["model"]).body)
        whole["choices"][0]["logprobs"] = {"content": tokens}
        return Answer(body=json.dumps(whole).encode())

    (bench.folder / "more").mkdir()
    more = Bench(bench.engine, bench.folder, "more")
    write_clip(more.folder / "more" / "videos" / "v.avi")
    more.ingest([{"video_id": "v", "path": "videos/v.avi"}], captions=[candidate("c", "v", " ".join(words))])
    with loopback(script) as server:
        row = more.run(judge(server.url))["c"]
    assert row.value == pytest.approx(0.7)
    assert (row.components["score"], row.components["value_from"]) == (90, "logprobs")
    assert [span["text"] for span in row.components["spans"]] == words[:5]
    assert (row.components["spans_not_in_text"], row.components["spans_beyond_five"]) == (1, 2)


def test_the_fingerprint_has_prompt_frames_and_model(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    one = judge("http://127.0.0.1:9/v1").models()
    others = [
        judge("http://127.0.0.1:9/v1", name="other").models(),
        judge("http://127.0.0.1:9/v1", judge_frames=5).models(),
        judge("http://127.0.0.1:9/v1", judge_frame_size=64).models(),
    ]
    # The address is not part of it.
    assert judge("http://127.0.0.1:10/v1").models() == one
    monkeypatch.setattr("metrics_core.judge.ask.PROMPT_VERSION", "judge-next")
    others.append(judge("http://127.0.0.1:9/v1").models())
    assert all(other != one for other in others)
    assert prompt.PROMPT_VERSION in str(one)


def test_changed_texts_are_judged_again_and_old_answers_do_not_count(bench: Bench) -> None:
    with loopback(answering()) as server:
        scorer = judge(server.url)
        bench.run(scorer)
        captions = [candidate(key, "v", text) for key, text in TEXTS.items()]
        captions[0] = candidate("good", "v", "A cat runs.")
        bench.ingest([{"video_id": "v", "path": "videos/v.avi"}, "w"], captions=captions)
        assert bench.pending(scorer) == {"good"}
        with pytest.raises(MissingEvidence, match="sample has no answer of tiny: materialise judge_answer"):
            bench.score(scorer)
        assert bench.run(scorer)["good"].value == pytest.approx(0.7)
        assert [judged_text(body) for body in server.asked].count("A cat runs.") == 1


def test_a_forecast_counts_what_is_asked_and_asks_nothing(bench: Bench) -> None:
    with loopback(answering()) as server:
        scorer = judge(server.url, judge={"model": "tiny", "price": (10.0, 10.0)})
        n_pending, (part,) = forecast_shard(bench.engine, scorer, bench.dataset, 0)
        assert server.asked == []
        assert (n_pending, part.n_requests, part.model, part.role) == (7, 5, "tiny", "judgements")
        assert part.money == pytest.approx((part.tokens_in + part.tokens_out) / 1e5)
        # Four frames of 32 x 32 are 16 tokens; rubric, schema and marks some 900 a request.
        assert 5 * 600 < part.tokens_in < 5 * 1500
        bench.run(scorer)
        assert forecast_shard(bench.engine, scorer, bench.dataset, 0) == (0, [])


def test_a_spending_stop_fails_the_rest_and_more_money_completes_it(bench: Bench) -> None:
    with loopback(answering()) as server:
        rows = bench.run(judge(server.url, spending=SpendingLimit(0.0)))
        assert server.asked == []
        assert {rows[key].status for key in TEXTS} == {"failed"}
        assert "spending limit" in rows["good"].error
        assert {bench.run(judge(server.url))[key].status for key in TEXTS} == {"ok"}


def test_no_judge_is_a_status_with_the_remedy_and_no_source(bench: Bench) -> None:
    scorer = judge(None)
    assert (scorer.missing_setting, scorer.sources) == ("REELSIEVE_JUDGE_MODEL", ())
    assert judge("http://127.0.0.1:9/v1").missing_setting is None
    rows = bench.run(scorer)
    assert {(row.status, row.value) for row in rows.values()} == {("no_model", None)}
    assert "set REELSIEVE_JUDGE_MODEL" in rows["good"].error
    assert answers(bench.engine) == []


def test_a_video_that_is_gone_fails_and_one_that_is_back_completes_it(bench: Bench) -> None:
    clip = bench.folder / bench.name / "videos" / "v.avi"
    away = clip.rename(bench.folder / "away.avi")
    with loopback(answering()) as server:
        rows = bench.run(judge(server.url))
        assert {rows[key].status for key in TEXTS} == {"failed"}
        away.rename(clip)
        assert {bench.run(judge(server.url))[key].status for key in TEXTS} == {"ok"}


def test_an_explanation_has_score_sentence_and_pieces(bench: Bench) -> None:
    with loopback(answering()) as server:
        scorer = judge(server.url)
        bench.run(scorer)
        with bench.engine.begin() as connection:
            connection.execute(sa.update(schema.scorer).values(status="active"))
        explained = explain_score(bench.engine, "judge", scorer, bench.dataset, "both")
    assert explained is not None
    assert explained.explanation.lines == [
        "the judge wrote 50 of 100; the value is the score as the model wrote it; its server gives no probabilities of "
        "tokens",
        "why: 2 words are wrong.",
    ]
    assert explained.explanation.rows == [
        {"wrong": "red", "at": "2 to 5", "because": "it is brown"},
        {"wrong": "cat", "at": "6 to 9", "because": "it is a dog"},
    ]


def test_doctor_tries_the_judge(bench: Bench) -> None:
    with loopback(answering(lambda text: decide(text) | {"score": 80})) as server:
        (source,) = judge(server.url).sources
        assert isinstance(source, JudgeAnswers)
        assert source.try_out() == "judges a grey image at 0.80, by its answer"
        assert source.asks_servers


def test_checks_warn_of_many_answers_without_a_score(bench: Bench) -> None:
    refusal = completion(None, refusal="no")
    with loopback(lambda n, body: refusal if "red" in judged_text(body) else answering()(n, body)) as server:
        scorer = judge(server.url)
        (source,) = scorer.sources
        order = order_for(bench.engine, scorer, bench.dataset)
        assert source.examine(order).passed == {"texts_judged": False, "errors_rare": True}
        bench.make(scorer)
        examined = source.examine(order)
    assert examined.passed == {"texts_judged": True, "errors_rare": False}
    assert examined.counts == {"to_judge": 5, "unanswered": 0, "without_score": 2}


def test_stress_shows_the_judge_a_hidden_instruction_as_part_of_the_text(bench: Bench) -> None:
    with loopback(answering()) as server:
        scorer = judge(server.url)
        bench.run(scorer)
        _, shown = stress_metric(bench.engine, bench.dataset, scorer, n_drawn=3, n_shown=3)
    hidden = [row for row in shown if row["kind"] == "hidden_instruction"]
    assert len(hidden) == 3
    # The scripted judge looks at the words of the text only: the instruction changes nothing.
    assert [row["after"] for row in hidden] == [row["before"] for row in hidden]
    texts = {judged_text(body) for body in server.asked}
    assert {row["rewrite"] for row in hidden} <= texts


def test_the_report_marks_the_wrong_pieces(bench: Bench) -> None:
    with loopback(answering()) as server:
        scorer = judge(server.url)
        bench.run(scorer)
        with bench.engine.begin() as connection:
            connection.execute(sa.update(schema.scorer).values(status="active"))
        page = create_report(bench.engine, bench.dataset, {"judge": scorer}, bench.folder / "report").page.read_text()
    assert 'A <mark title="it is brown">red</mark> <mark title="it is a dog">cat</mark> runs.' in page
    assert page.count("<mark ") == page.count("</mark>")


@pytest.mark.parametrize(
    ("judge_price", "other_price", "expected"),
    [((1, 2), None, Prices(1, 2)), (None, (3, 4), Prices(3, 4)), ((3, 1), (1, 2), Prices(3, 1)), (None, None, None)],
)
def test_roles_with_one_model_share_its_price_and_a_budget_needs_one(
    judge_price: Any, other_price: Any, expected: Prices | None
) -> None:
    class Both(JudgeSettings):
        other: NamedModel = CHAT_MODEL

    roles = {
        "judge": {"model": "m", "url": "vllm", "price": judge_price},
        "other": {"model": "m", "price": other_price},
    }
    settings = Both(chat_budget=1.0, **roles)
    assert settings.find_prices("m") == expected
    if expected:
        assert settings.make_chat_model("judge") is not None
    else:
        with pytest.raises(SettingsError, match="no price of m: set REELSIEVE_JUDGE_PRICE"):
            settings.make_chat_model("judge")
