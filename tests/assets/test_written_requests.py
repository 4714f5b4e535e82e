"""Requests written into files, answered by whoever, and imported: the scores, calls and statuses of HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.home.folder import DEMO_DATASET
from assets.home.settings import SettingsError
from assets.metrics.evqa.scorer import EVQAScorer
from assets.metrics.evqa.settings import EVQASettings
from assets.metrics.qeva.scorer import QEVAScorer
from assets.models.answer_files import ImportedAnswers, import_answers
from assets.models.request_files import RequestFilesUnusable
from db import schema
from demo.encoder import make_demo_encoder
from metrics_core.models.chat_keywords import ChatKeywordExtractor
from metrics_core.models.sentence_splitter import RuleSplitter
from tests.assets.batch_runner import Line, answer, export, read_requests
from tests.assets.examiner import STORY, by_text, chat, examiner, qeva
from tests.assets.judging import answering, constant, decide, judge, judged_text
from tests.assets.manifests import candidate, reference, spans, write_clip
from tests.assets.verifying import Bench, ToldVerifier
from tests.metrics_core.chat_server import Answer, Script, complaint, completion, loopback

NOWHERE = "http://127.0.0.1:1/v1"
TEXTS = {"good": "A dog runs.", "red": "A red dog runs.", "both": "A red cat runs."}


@pytest.fixture
def bench(engine: Engine, tmp_path: Path) -> Bench:
    """Three captions of a video."""
    made = Bench(engine, tmp_path)
    (tmp_path / made.name).mkdir()
    write_clip(tmp_path / made.name / "videos" / "v.avi", width=64)
    made.ingest(
        [{"video_id": "v", "path": "videos/v.avi"}], captions=[candidate(key, "v", text) for key, text in TEXTS.items()]
    )
    return made


def take(bench: Bench, folder: Path) -> ImportedAnswers:
    return import_answers(bench.engine, folder, lambda _: None)


def calls(bench: Bench) -> list[tuple[Any, ...]]:
    """Attempts in the record, without their times."""
    columns = schema.chat_call.c
    chosen = [columns[name] for name in ("request_sha256", "attempt", "outcome", "tokens_in", "tokens_out", "money")]
    with bench.engine.connect() as connection:
        return [tuple(row) for row in connection.execute(sa.select(*chosen).order_by(*chosen[:2]))]


def answered(bench: Bench) -> list[tuple[Any, ...]]:
    """Attempts that were answered, without their numbers: on a busy machine a server may miss one by HTTP."""
    return [(key, *rest) for key, _, *rest in calls(bench) if rest[0] != "unreachable"]


def results(bench: Bench, scorer: Any) -> dict[str, tuple[Any, ...]]:
    return {key: (row.value, row.status, row.components) for key, row in bench.scores(scorer).items()}


def forget(bench: Bench) -> None:
    """Delete all that models answered."""
    with bench.engine.begin() as connection:
        connection.execute(sa.delete(schema.scorer))
        connection.execute(sa.delete(schema.model))


def invalid(text: str) -> Answer:
    """A bad answer to every text with a red thing."""
    if "cat" in text:
        return completion(None, refusal="I must not look at this.")
    if "red" in text:
        return completion("Quite good, I think.")
    return completion(json.dumps(decide(text)), tokens=None)


@pytest.mark.parametrize("pictures", ["inline", "files"])
@pytest.mark.parametrize("script", [answering(), lambda n, body: invalid(judged_text(body))])
def test_imported_answers_give_what_http_gives(bench: Bench, tmp_path: Path, script: Script, pictures: Any) -> None:
    with loopback(script) as server:
        bench.run(judge(server.url))
        expected, recorded = results(bench, judge(server.url)), answered(bench)
    forget(bench)
    scorer = judge(NOWHERE)
    n_rounds = 0
    while export(bench, scorer, folder := tmp_path / str(n_rounds), pictures):
        answer(folder, script)
        take(bench, folder)
        n_rounds += 1
    # Malformed answers are asked for again with the next seed, as often as by HTTP.
    assert n_rounds == (3 if "malformed" in {call[1] for call in recorded} else 1)
    # Without a server, and with all that was imported.
    assert results(bench, scorer) == {}
    bench.run(scorer)
    assert results(bench, scorer) == expected
    assert answered(bench) == recorded


def keywords(n: int, body: Mapping[str, Any]) -> Answer:
    """The long words of a text."""
    text = body["messages"][-1]["content"].partition("\n\n")[0]
    return completion(json.dumps({"keywords": [word for word in text.rstrip(".").split() if len(word) > 3]}))


def evqa(url: str) -> EVQAScorer:
    extractor = ChatKeywordExtractor(chat(url))
    return EVQAScorer(EVQASettings(frames_every=5), make_demo_encoder(), extractor, RuleSplitter())


def qeva_of_frames(url: str) -> QEVAScorer:
    chats = {"video": chat(url), "text": chat(url)}
    return qeva(chats, verifier=ToldVerifier(limit=0), qeva_frames=4, qeva_frame_size=32)


# With notes, rules write the questions about videos.
BY_NOTES = [
    {"factuality questions", "closed-book answers"},
    {"closed-book answers", "answers"},
    {"answers"},
    {"answers"},
]
BY_FRAMES = [
    {"coverage questions", "events", "factuality questions"},
    {"reference answers", "closed-book answers"},
    {"closed-book answers", "answers"},
    {"answers"},
    {"judgements"},
    {"answers"},
]


@pytest.mark.parametrize(
    ("make", "script", "rounds"),
    [(evqa, keywords, [{"keywords"}]), (by_text, examiner, BY_NOTES), (qeva_of_frames, examiner, BY_FRAMES)],
)
def test_every_metric_is_asked_round_by_round(
    engine: Engine, tmp_path: Path, make: Callable[[str], Any], script: Script, rounds: list[set[str]]
) -> None:
    # The demo encoder only knows the demo's dataset.
    bench = Bench(engine, tmp_path, DEMO_DATASET)
    (tmp_path / DEMO_DATASET).mkdir()
    story(bench)
    with loopback(script) as server:
        bench.run(make(server.url))
        expected, recorded = results(bench, make(server.url)), answered(bench)
    forget(bench)
    named = []
    while asked := export(bench, make(NOWHERE), folder := tmp_path / str(len(named)), "files"):
        named.append({*asked})
        answer(folder, script)
        assert take(bench, folder).n_open == 0
    assert named == rounds
    bench.run(make(NOWHERE))
    assert results(bench, make(NOWHERE)) == expected
    assert {status for _, status, _ in expected.values()} == {"ok"}
    assert answered(bench) == recorded


def story(bench: Bench) -> None:
    """Three captions of a video with a reference."""
    write_clip(bench.folder / bench.name / "videos" / "v.avi", width=64)
    timed = reference("r", "v", " ".join(STORY), segments=spans((0, 0.3), (0.3, 0.6), (0.6, 0.9), texts=STORY))
    captions = [candidate(f"c{n}", "v", " ".join(STORY[: n + 1])) for n in range(3)]
    bench.ingest([{"video_id": "v", "path": "videos/v.avi"}], captions=[timed, *captions])


def test_files_are_cut_by_size_and_share_pictures(bench: Bench, tmp_path: Path) -> None:
    export(bench, judge(NOWHERE), tmp_path / "whole")
    export(bench, judge(NOWHERE), tmp_path / "cut", "files", max_bytes=1)
    whole, cut = read_requests(tmp_path / "whole"), read_requests(tmp_path / "cut")
    assert [one["custom_id"] for one in whole] == [one["custom_id"] for one in cut]
    assert len([*(tmp_path / "cut").glob("requests-*.jsonl")]) == len(TEXTS)
    assert len([*(tmp_path / "cut").rglob("*.jpg")]) == 4


def stop(n: int, line: Line) -> Line:
    """As vLLM writes what went wrong in its runner."""
    return {**line, "response": {"status_code": 400, "request_id": "r"}, "error": "engine died"} if n else line


@pytest.mark.parametrize(
    ("change", "n_stored", "trouble", "first"),
    [
        (stop, 1, "no answer", "answers-00001.jsonl, line 2: no answer (engine died)"),
        (lambda n, line: {**line, "custom_id": "ab" * 32} if n else line, 1, "to no request", "line 2"),
        (lambda n, line: {**line, "custom_id": "request-1"} if n else line, 1, "to no request", "line 2"),
        (lambda n, line: {**line, "custom_id": None} if n else line, 1, "not a whole line", "line 2"),
        (lambda n, line: [line] if n else line, 1, "not a whole line", "line 2"),
        (lambda n, line: {**line, "response": None, "error": None} if n else line, 1, "no answer", "no reason"),
        (
            lambda n, line: {**line, "response": {"status_code": 200, "body": {"a": [[[]]]}}} if n else line,
            3,
            "no valid JSON",
            "not a chat completion",
        ),
    ],
)
def test_what_is_wrong_with_a_line_is_named_and_the_rest_stored(
    bench: Bench, tmp_path: Path, change: Callable[[int, Line], Line], n_stored: int, trouble: str, first: str
) -> None:
    folder = tmp_path / "out"
    export(bench, judge(NOWHERE), folder)
    answer(folder, answering(), change)
    found = take(bench, folder)
    ((named, (n, place)),) = found.troubles.items()
    assert (trouble in named, n, first in place) == (True, 2, True), (named, place)
    assert (bench.count("chat_reply"), found.n_open) == (n_stored, 3 - n_stored)
    recorded = calls(bench)
    # A second import changes nothing.
    assert take(bench, folder).n_by_outcome == {}
    assert calls(bench) == recorded
    # Whole answers are taken then, and of two the first valid one stays.
    (folder / "answers-00001.jsonl").rename(folder / "answers-00000.jsonl")
    answer(folder, answering())
    mended = take(bench, folder)
    assert mended.n_open == 0
    assert bench.run(judge(NOWHERE))["good"].value == 0.9


def test_half_a_file_and_a_file_twice(bench: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    export(bench, judge(NOWHERE), folder)
    answer(folder, answering())
    file = folder / "answers-00001.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    half = take(bench, folder)
    assert (half.n_by_outcome, half.n_open) == ({"ok": 1}, 2)
    assert [*half.troubles] == ["not a whole line of a batch's output"]
    # The next export writes what is left, and nothing that was answered.
    assert export(bench, judge(NOWHERE), tmp_path / "rest") == {"judgements": 2}
    (folder / "answers-2.jsonl").write_bytes(whole + whole)
    again = take(bench, folder)
    assert (again.n_by_outcome, again.n_known, again.n_open) == ({"ok": 2}, 1, 0)
    assert again.troubles["a second answer to a request"] == (4, "answers-2.jsonl, line 1")
    assert [call[2] for call in calls(bench)] == ["ok"] * 3


@pytest.mark.parametrize(
    ("served", "outcome"),
    [
        (complaint(404, "no model tiny"), "rejected"),
        (complaint(429, "slow down"), "unreachable"),
        (completion("{}", model="other"), "wrong_model"),
        (complaint(400, "unknown field: response_format"), "rejected"),
    ],
)
def test_an_answer_that_is_none_leaves_the_request_open(
    bench: Bench, tmp_path: Path, served: Answer, outcome: str
) -> None:
    export(bench, judge(NOWHERE), tmp_path / "out")
    answer(tmp_path / "out", constant(served))
    found = take(bench, tmp_path / "out")
    assert (found.n_by_outcome, found.n_open) == ({outcome: 3}, 3)
    assert [call[2] for call in calls(bench)] == [outcome] * 3
    assert export(bench, judge(NOWHERE), tmp_path / "again") == {"judgements": 3}


def test_folders_that_cannot_be_used_are_named(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(RequestFilesUnusable, match=r"has no manifest\.json"):
        take(bench, tmp_path)
    export(bench, judge(NOWHERE), tmp_path / "out")
    with pytest.raises(RequestFilesUnusable, match="is not empty"):
        export(bench, judge(NOWHERE), tmp_path / "out")
    with pytest.raises(RequestFilesUnusable, match="has no answers"):
        take(bench, tmp_path / "out")
    (tmp_path / "out" / "ids.jsonl").write_text('{"custom_id": "zz"}\n')
    with pytest.raises(RequestFilesUnusable, match="was changed after its export"):
        take(bench, tmp_path / "out")
    with pytest.raises(SettingsError, match="REELSIEVE_CHAT_MODE is refresh"):
        export(bench, judge(NOWHERE, chat_mode="refresh"), tmp_path / "new")
