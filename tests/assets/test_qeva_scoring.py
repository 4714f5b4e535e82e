"""QEVA without a server: which questions there are, who shares them, what is asked again, what has no score."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.scores.explain import explain_score
from db import schema
from tests.assets.examiner import qeva
from tests.assets.manifests import candidate, keypoint, qa, reference, spans
from tests.assets.verifying import Bench, ToldVerifier, entailed, filled_bench
from tests.db.builders import change_text

STORY = ["A man opens a red door.", "A small dog runs outside.", "The man closes the door again."]
TOLD, MIXED = " ".join(STORY), " ".join([STORY[2], STORY[0], STORY[1]])
WRONG = "A woman paints a blue fence. " + " ".join(STORY[1:])
# A sentence supports itself, and nothing else.
SAYS = entailed(*((sentence, sentence) for sentence in STORY))


def told() -> ToldVerifier:
    return ToldVerifier(SAYS)


def fill(bench: Bench) -> None:
    timed = reference("r", "v", TOLD, segments=spans((0, 2), (2, 4), (4, 6), texts=STORY))
    texts = {"faithful": TOLD, "mixed": MIXED, "wrong": WRONG, "empty": " ... "}
    bench.ingest(
        ["v", "bare"],
        captions=[timed, *(candidate(key, "v", text) for key, text in texts.items()), candidate("bare", "bare", TOLD)],
        qa=[qa("q", "v")],
    )


template = filled_bench(fill)


@pytest.fixture
def bench(engine: Engine, tmp_path: Path) -> Bench:
    return Bench(engine, tmp_path)


def parts(row: Any) -> tuple[float | None, ...]:
    return tuple(row.components[name] for name in ("coverage", "factuality", "chronology"))


def count(engine: Engine, table: sa.Table) -> int:
    with engine.connect() as connection:
        return connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0


def test_every_dimension_sees_its_own_fault(bench: Bench) -> None:
    rows = bench.run(qeva(verifier=told()))
    assert (rows["faithful"].status, rows["faithful"].value, parts(rows["faithful"])) == ("ok", 1.0, (1.0, 1.0, 1.0))
    assert parts(rows["mixed"])[:2] == (1.0, 1.0)
    assert parts(rows["mixed"])[2] < 1.0
    coverage, factuality, _ = parts(rows["wrong"])
    assert (coverage, factuality) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    for row in (rows[key] for key in ("faithful", "mixed", "wrong")):
        assert row.value == pytest.approx(sum(parts(row)) / 3)
        assert row.components["partial_mean"] == row.value
        assert row.components["video_given_as"] == "notes"
        counts = row.components["questions"]["coverage"]
        assert counts["low"] < row.components["coverage"] <= counts["high"]
        assert counts["kept"] == counts["scored"] == 3


def test_what_has_no_score_says_why(bench: Bench) -> None:
    rows = bench.run(qeva(verifier=told()))
    assert (rows["q"].status, rows["q"].value) == ("not_applicable", None)
    assert (rows["bare"].status, rows["bare"].value) == ("no_reference", None)
    assert "REELSIEVE_QEVA_VIDEO_MODEL" in rows["bare"].error
    assert (rows["empty"].status, rows["empty"].value, parts(rows["empty"])) == ("empty_text", None, (0.0, None, 0.0))
    assert rows["empty"].components["partial_mean"] == 0.0


def test_a_caption_of_one_sentence_is_too_short_and_no_0(bench: Bench) -> None:
    bench.ingest(["v"], captions=[candidate("brief", "v", STORY[0]), candidate("two", "v", " ".join(STORY[:2]))])
    rows = bench.run(qeva(verifier=told()))
    assert (rows["brief"].status, rows["brief"].value, parts(rows["brief"])) == ("too_short", None, (1 / 3, None, None))
    assert rows["brief"].components["partial_mean"] == pytest.approx(1 / 3)
    assert "a single sentence that gives no order" in rows["brief"].error
    assert "write a summary that states more" in rows["brief"].error
    # The order of two sentences can be told; two statements are too few.
    assert (rows["two"].status, rows["two"].value, parts(rows["two"])[1]) == ("few_questions", None, None)
    assert parts(rows["two"])[2] is not None


def test_a_video_without_order_has_no_chronology_and_so_no_score(engine: Engine, tmp_path: Path) -> None:
    bench = Bench(engine, tmp_path, "without order")
    facts = [keypoint(f"k{i}", "v", text=text) for i, text in enumerate(STORY)]
    bench.ingest(["v"], captions=[candidate("c", "v", TOLD)], keypoints=facts)
    row = bench.run(qeva(verifier=told()))["c"]
    assert (row.status, row.value, parts(row)) == ("no_questions", None, (1.0, 1.0, None))
    assert row.components["partial_mean"] == 1.0
    assert row.error.startswith("chronology: ")


def test_questions_about_a_video_are_shared_by_all_systems(bench: Bench) -> None:
    bench.run(qeva(verifier=told()))
    sets = sa.select(schema.qeva_question_set.c.dimension, schema.qeva_question_set.c.sample_id)
    with bench.engine.connect() as connection:
        rows = connection.execute(sets).all()
    of_videos = sorted(row.dimension for row in rows if row.sample_id is None)
    assert of_videos == ["chronology", "coverage"]
    assert [row.dimension for row in rows if row.sample_id is not None] == ["factuality"] * 3


def test_the_view_has_the_questions_of_every_caption_with_their_answers(bench: Bench) -> None:
    rows = bench.run(qeva(verifier=told()))
    query = sa.text(
        "SELECT sample, dimension, avg(CAST(correct AS int)) AS share, bool_or(is_stale) AS is_stale "
        "FROM sample_questions WHERE correct IS NOT NULL GROUP BY 1, 2"
    )
    with bench.engine.connect() as connection:
        found = {(row.sample, row.dimension): (float(row.share), row.is_stale) for row in connection.execute(query)}
        sample_id = connection.execute(sa.text("SELECT sample_id FROM sample WHERE key = 'wrong'")).scalar_one()
    assert found == {
        (key, dimension): (pytest.approx(rows[key].components[dimension]), False)
        for key in ("faithful", "mixed", "wrong")
        for dimension in ("coverage", "factuality", "chronology")
    }
    change_text(bench.engine, sample_id, TOLD)
    with bench.engine.connect() as connection:
        stale = connection.scalars(sa.text("SELECT DISTINCT sample FROM sample_questions WHERE is_stale")).all()
    assert stale == ["wrong"]


def test_a_second_run_asks_nothing(bench: Bench) -> None:
    first = bench.run(qeva(verifier=told()))
    n_answers = count(bench.engine, schema.qeva_answer)
    assert n_answers > 0
    no_more = qeva(verifier=ToldVerifier(SAYS, limit=0))
    assert bench.run(no_more) == first
    assert count(bench.engine, schema.qeva_answer) == n_answers


def test_a_changed_caption_is_asked_about_again_and_no_other(bench: Bench) -> None:
    bench.run(qeva(verifier=told()))
    with bench.engine.connect() as connection:
        sample_id = connection.scalar(sa.select(schema.sample.c.sample_id).where(schema.sample.c.key == "wrong"))
        before = {row.question_set_id for row in connection.execute(sa.select(schema.qeva_question_set))}
    change_text(bench.engine, sample_id or 0, TOLD)
    rows = bench.run(qeva(verifier=told()))
    assert rows["wrong"].value == rows["faithful"].value == 1.0
    with bench.engine.connect() as connection:
        after = {row.question_set_id for row in connection.execute(sa.select(schema.qeva_question_set))}
    assert after == before


def test_changed_notes_ask_new_questions(bench: Bench) -> None:
    bench.run(qeva(verifier=told()))
    shorter = reference("r", "v", " ".join(STORY[:2]), segments=spans((0, 2), (2, 4), texts=STORY[:2]))
    bench.ingest(["v"], captions=[shorter])
    rows = bench.run(qeva(verifier=told()))
    assert rows["faithful"].components["questions"]["coverage"]["generated"] == 2
    assert rows["faithful"].components["factuality"] == pytest.approx(2 / 3)


def test_explain_shows_every_question_with_key_answer_and_verdict(bench: Bench) -> None:
    scorer = qeva(verifier=told())
    bench.run(scorer)
    explained = explain_score(bench.engine, scorer.metric, scorer, bench.dataset, "wrong")
    assert explained is not None
    assert explained.explanation.lines[0] == "the models see the video as notes"
    assert any(line.startswith("coverage 0.6667 (0.21 to 0.94): 2 of 3 right") for line in explained.explanation.lines)
    rows = [row for row in explained.explanation.rows if row["dimension"] == "factuality"]
    assert {row["verdict"] for row in rows} == {"right", "abstain"}
    (unsupported,) = [row for row in rows if row["verdict"] == "abstain"]
    assert "paints a blue fence" in unsupported["question"]
    assert unsupported["key"] == "yes"


def test_the_settings_are_part_of_the_fingerprint() -> None:
    def identity(**settings: Any) -> tuple[Any, Any]:
        scorer = qeva(verifier=told(), **settings)
        return scorer.models(), scorer.params()

    assert identity() == identity()
    for change in (
        {"qeva_questions": 9},
        {"qeva_forced": True},
        {"qeva_closed_book_votes": 2},
        {"qeva_on_error": "wrong"},
        {"qeva_matcher": "token_f1"},
    ):
        assert identity(**change) != identity()
    assert identity(chat_concurrency=2, chat_mode="offline") == identity()
