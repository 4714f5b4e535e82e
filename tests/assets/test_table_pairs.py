"""Tables of question-answer pairs, as data sets for training publish them, become table `qa` of a manifest."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from assets.ingest.run import ingest_folder
from assets.new_manifest.columns import ColumnNames
from assets.new_manifest.findings import NoManifest
from assets.new_manifest.make import create_manifest
from tests.assets.init_sources import left_out, put, rows
from tests.assets.manifests import write_lines

NUMBERED = "answers that are numbers are places among the options, counted from 0"


@pytest.mark.parametrize(
    ("name", "content", "pairs"),
    [
        ("t.csv", "video,question,answer\nv,What is it?,A dog\nw,Is it black?,True\n",
         [("v", "What is it?", "A dog"), ("w", "Is it black?", "True")]),
        ("t.csv", "video;Frage;Antwort\nv;Was ist es?;Ein Hund\n", [("v", "Was ist es?", "Ein Hund")]),
        # VideoChatGPT, MSRVTT-QA, NExT-QA, Video-MME and MVBench.
        ("t.json", '[{"q": "What?", "a": "A dog.", "video_id": "v"}]', [("v", "What?", "A dog.")]),
        ("t.json", '[{"answer": "dog", "question": "what?", "video_id": "v", "id": 1}]', [("v", "what?", "dog")]),
        ("t.csv", "video,question,answer,qid,a0,a1\n1,why,1,6,play,rest\n1,how,0,7,fast,slow\n",
         [("1", "why", "rest"), ("1", "how", "fast")]),
        ("t.jsonl", '{"videoID": "v", "question": "What?", "options": ["A. cat", "B. dog"], "answer": "B"}',
         [("v", "What?", "dog")]),
        ("t.jsonl", '{"video": "v", "question": "What?", "candidates": ["2", "1"], "answer": "1"}',
         [("v", "What?", "1")]),
        ("t.csv", "video,question,answer,option_A,option_B\nv,What?,(b),cat,dog\n", [("v", "What?", "dog")]),
        ("t.csv", "video,question,answer,options\nv,What?,A,\"['cat', 'dog']\"\n", [("v", "What?", "cat")]),
        ("t.jsonl", '{"video": "v", "question": "What?", "answers": ["red", "crimson", "red"]}',
         [("v", "What?", "red"), ("v", "What?", "crimson")]),
        ("t.jsonl", '{"video": "v", "question": ["What?", "Where?"], "answer": ["dog", 2]}',
         [("v", "What?", "dog"), ("v", "Where?", "2")]),
        ("t.jsonl", '{"video": "v", "question": "What?", "ground_truth": "A dog."}', [("v", "What?", "A dog.")]),
    ],
)  # fmt: skip
def test_pairs_alone_are_a_data_set(
    tmp_path: Path, module_engine: Engine, name: str, content: str, pairs: list[tuple[str, str, str]]
) -> None:
    made = create_manifest(put(tmp_path, {name: content}))
    assert [(row["video_id"], row["question"], row["answer"]) for row in rows(made, "qa")] == pairs
    assert (made.holdings.questions, made.holdings.samples, left_out(made)) == (len(pairs), len(pairs), {})
    assert [(each.question, each.answer) for each in made.holdings.first_samples] == [pair[1:] for pair in pairs]
    assert not (tmp_path / "captions.jsonl").exists()
    report = ingest_folder(module_engine, made.folder, tmp_path.name)
    assert (report.accepted["qa"], report.rejected) == (len(pairs), 0)


def test_other_fields_and_ids_stay_with_the_pairs(tmp_path: Path) -> None:
    made = create_manifest(
        put(tmp_path, {"t.csv": "video,question,answer,qid,type,model\nv,Why?,a,6,C,m\nw,Why?,b,6,D,m\n"})
    )
    assert rows(made, "qa") == [
        {"qa_id": "6", "video_id": "v", "question": "Why?", "answer": "a", "system": "m", "type": "C"},
        {"qa_id": "6_2", "video_id": "w", "question": "Why?", "answer": "b", "system": "m", "type": "D"},
    ]
    assert "a qa_id that occurs again gets a number, as in ID_2" in made.findings.guesses


def test_a_row_may_have_a_caption_and_a_pair(tmp_path: Path) -> None:
    lines = [
        "video,caption,question,answer,kind",
        "v,A dog runs.,What?,dog,x",
        "v,A dog runs.,Where?,lawn,y",
        "w,,Who?,I,z",
    ]
    made = create_manifest(put(tmp_path, {"t.csv": "\n".join(lines)}))
    assert [(row["text"], row.get("kind")) for row in rows(made, "captions")] == [("A dog runs.", None)]
    assert [(row["answer"], row["kind"]) for row in rows(made, "qa")] == [("dog", "x"), ("lawn", "y"), ("I", "z")]
    assert left_out(made) == {}


def test_what_is_no_pair_is_counted(tmp_path: Path) -> None:
    lines = ["video,question,answer,a0,a1,rating", "v,What?,1,x,y,5", "v,What?,2,x,y,5", "v,,1,x,y,5", "v,What?,,x,y,5"]
    made = create_manifest(put(tmp_path, {"t.csv": "\n".join(lines)}), column_names=ColumnNames(ratings=("rating",)))
    assert [row["answer"] for row in rows(made, "qa")] == ["y"]
    assert NUMBERED in made.findings.guesses
    assert left_out(made) == {
        "an answer that names none of the options": 1,
        "a row without a question as text": 1,
        "a row without an answer as text": 1,
        "ratings of a question, since people rate only captions": 4,
    }


def test_a_question_without_an_answer_is_an_own_field(tmp_path: Path) -> None:
    made = create_manifest(put(tmp_path / "a", {"t.csv": "video,caption,question\nv,A dog.,What?\n"}))
    assert (rows(made, "captions")[0]["question"], made.holdings.questions) == ("What?", 0)
    with pytest.raises(NoManifest, match="those of questions with --column question=NAME --column answer=NAME"):
        create_manifest(put(tmp_path / "b", {"t.csv": "video,question\nv,What?\n"}))
    named = ColumnNames({"question": "Q1", "answer": "A1"})
    assert create_manifest(
        put(tmp_path / "c", {"t.csv": "video,Q1,A1\nv,What?,x\n"}), column_names=named
    ).holdings.questions


def test_a_manifest_of_pairs_may_have_an_empty_table_of_captions(tmp_path: Path, module_engine: Engine) -> None:
    write_lines(tmp_path / "videos.jsonl", [{"video_id": "v"}])
    write_lines(tmp_path / "qa.jsonl", [{"qa_id": "q", "video_id": "v", "question": "What?", "answer": "A dog."}])
    (tmp_path / "captions.jsonl").touch()
    report = ingest_folder(module_engine, tmp_path, "empty table")
    assert (report.accepted["qa"], report.rejected) == (1, 0)
