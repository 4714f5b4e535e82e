"""What the tables' rows are made of, on texts small enough to check by hand."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.ecs_data import Caption, DataSet, Fold, dense_captions
from benchmarks.papers.__main__ import complaints, run
from benchmarks.papers.corruption import SENTENCES, length_ratio, vcs_of
from benchmarks.papers.corruption import Values as Variants
from benchmarks.papers.data import explain_missing, list_states, list_verdicts, read_sums
from benchmarks.papers.ecs_disagreements import COMPLETE, NONE, PARTIAL, first_of, rows_of
from benchmarks.papers.ecs_rows import passes_of, whole_text_floor
from benchmarks.papers.ecs_variants import Judgement, cost_sentence
from benchmarks.papers.evqa import fourth_rows
from benchmarks.papers.evqa_pairs import (
    COSINE,
    COUNT,
    EVQA,
    KEYWORD,
    LENGTH,
    OTHER_VIDEO,
    RANDOM,
    Pairs,
    noisy_by_kind,
    scores_of,
)
from benchmarks.papers.mpii import Base, Variant
from benchmarks.papers.page import read_tables
from benchmarks.papers.qeva import correlations
from benchmarks.papers.qeva_scores import HALVED, WRONG, Values, shortened_and_extended
from benchmarks.papers.recipes import Recipe
from benchmarks.papers.records import Comparison, Row, Table, standing, strongest, table_of
from benchmarks.papers.stages import PROJECT, Stages
from benchmarks.papers.tables import RECIPES
from benchmarks.papers.vatex import SHORT, cells, published_of
from benchmarks.papers.vcs_authors import FIRST, FOREIGN, SECOND, Told, consistency, told_apart, values_of
from benchmarks.papers.vcs_corruption_tables import VARIANTS, printed
from benchmarks.papers.vcs_published import MEANS
from benchmarks.papers.vcs_separation import explained
from metrics_core.protocols import ModelIdentity


class WordEncoder:
    """A TextEncoder whose vectors follow from the letters alone, so that punctuation does not matter."""

    @property
    def identity(self) -> ModelIdentity:
        return ModelIdentity("letters", "1", {})

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = [self._row("".join(filter(str.isalnum, text.lower()))) for text in texts]
        return np.array(rows, dtype=np.float32)

    def _row(self, letters: str) -> NDArray[np.float64]:
        seed = int.from_bytes(hashlib.sha256(letters.encode()).digest()[:8], "big")
        row = np.random.default_rng(seed).normal(size=512)
        return row / np.linalg.norm(row)


TOLD = [
    "A man enters the dark hall.",
    "Two dogs follow him upstairs.",
    "He opens an old door.",
    "Light falls on the floor.",
    "They all sit down together.",
]


def base() -> Base:
    told = " ".join(TOLD)
    backwards = " ".join(sentence.rstrip(".") for sentence in reversed(TOLD))
    return Base(
        "b",
        told,
        (
            Variant("Synonym Substitution", "Word-Level and Grammar", told, {}),
            Variant("Reverse Segments Order", "Chronology", backwards, {}),
        ),
    )


def test_vcs_of_a_copy_and_of_the_reversed_text() -> None:
    same, backwards = vcs_of(base(), WordEncoder())
    assert same["VCS_LCT0"] == pytest.approx(1)
    assert same["VCS_LCT0 raw"] == pytest.approx(1)
    assert not same["shape_zero"]
    # Five recovered segments in reverse order; as it stands the text is one segment, whose shape forces the 0.
    assert backwards["VCS_LCT0"] == 0
    assert backwards["VCS_LCT0 raw"] == 0
    assert backwards["shape_zero"]


def test_two_tellers_of_one_video_in_both_directions_and_of_another_video() -> None:
    whole, stranger = " ".join(TOLD), "Rain. Wind on the roof. A cold night."
    same, shorter = values_of([Told(whole, whole, stranger), Told(whole, " ".join(TOLD[:4]), stranger)], WordEncoder())
    assert same[FIRST]["VCS_LCT0"] == same[SECOND]["VCS_LCT0"] == pytest.approx(1)
    assert same[FOREIGN]["VCS_LCT0"] < 0.1
    # ROUGE's F1 is symmetric, BLEU is not: a short text against a long reference loses by the brevity penalty alone.
    assert shorter[FIRST]["ROUGE-1"] == pytest.approx(shorter[SECOND]["ROUGE-1"])
    assert shorter[FIRST]["BLEU-1"] == pytest.approx(np.exp(1 - 26 / 21))
    assert shorter[SECOND]["BLEU-1"] == pytest.approx(21 / 26)


def test_one_video_is_told_from_another_by_pairs() -> None:
    found = {FIRST: {"m": np.array([0.9, 0.2])}, FOREIGN: {"m": np.array([0.3, 0.2])}}
    # Of the four pairs two are in order, one is not and one is level.
    assert told_apart(found, "m").value == 2.5 / 4


def test_consistency_says_whether_both_means_reach_what_the_paper_claims() -> None:
    assert "also above" in consistency("VCS_LCT1", [0.81, 0.9])
    assert "not above" in consistency("VCS_LCT1", [0.79, 0.9])
    assert ".791 to .838" in consistency("VCS_LCT1", [0.81, 0.9])


def test_valid_variants_are_the_papers() -> None:
    kinds = {
        ("Brevity and Verbosity", "Brevity - L1"): True,
        ("Content Additions & Omissions", "Insert Attributes, Emotions and Scene"): True,
        ("Content Additions & Omissions", "Addition (~50%)"): False,
        ("Content Corruption", "Object Corruption"): False,
        ("Summarization", "Summarization"): False,
        ("Chronology", "Rotate Half Paragraph"): False,
    }
    assert {kind: Variant(kind[1], kind[0], "", {}).valid for kind in kinds} == kinds


def test_length_ratio_does_not_care_which_text_is_longer() -> None:
    assert length_ratio(["a b", "a b c d"], [["a b c d"], ["a b"]]).tolist() == [0.5, 0.5]


def test_the_whole_text_holds_what_no_sentence_does() -> None:
    caption = Caption("clip", "system", ("A red ball.", "A box falls."), ("A red box.", "A cat."), ("d", "d"))
    assert whole_text_floor(DataSet("n", "", (caption,))).tolist() == [1.0, 0.0]


def test_passes_by_hand() -> None:
    # Three sentences, two keypoints; the caption of another clip is not judged.
    caption = Caption("clip", "system", ("A.", "B.", "C."), ("x", "y"), ("d", "d"))
    other = Caption("other", "system", ("A.",), ("x",), ("d",))
    data = DataSet("n", "", (caption, other), (Fold(frozenset({"other"}), frozenset({"clip"})),))
    assert [passes_of(data, r) for r in (1, 2, 8, None)] == [2, 4, 6, 6]


def test_pairs_without_a_model_have_baselines_only() -> None:
    question = "What is on the table?"
    rows = [
        {"video_id": "v", "question": question, "answer": "A red ball and a blue box.", "quality": "good"},
        {"video_id": "w", "question": question, "answer": "ball", "quality": "noisy"},
    ]
    pairs = Pairs(rows, {})
    scores = scores_of(pairs, WordEncoder())
    assert set(scores) == {COUNT, LENGTH, COSINE, RANDOM}
    assert scores[LENGTH].tolist() == [7.0, 1.0]
    cells = {(row.row, row.column): row for row in fourth_rows("t", KEYWORD, pairs, scores)}
    assert cells[LENGTH, "one keyword, best 25 %"].ours == 0.0
    assert cells[RANDOM, "one keyword, best 12.5 %"].ours == 0.5
    assert cells[EVQA, "one keyword, best 25 %"].ours is None
    assert "REELSIEVE_IMAGE_TEXT_ENCODER" in cells[EVQA, "one keyword, best 25 %"].note
    assert cells[EVQA, "one keyword, best 25 %"].published == pytest.approx(0.0108, abs=5e-5)
    # The paper has no figure for other kinds of noise.
    assert {row.published for row in fourth_rows("t", OTHER_VIDEO, pairs, scores)} == {None}


def test_noise_of_full_length_is_made_of_other_answers_and_of_rewrites() -> None:
    rows = [
        {"qa_id": f"{v}{q}", "video_id": v, "question": "?", "answer": f"{word} {v} is red.", "quality": quality}
        for v in "abcdefghij"
        for q, word, quality in (("1", "Box", "good"), ("1n", "Cone", "noisy"), ("2", "Hat", "good"))
    ]
    kinds = noisy_by_kind(rows)
    assert set(kinds) == {KEYWORD, OTHER_VIDEO, "negated", "colours swapped"}
    assert kinds[KEYWORD] == rows
    assert [row["answer"] for row in kinds[OTHER_VIDEO][:4]] == [
        "Box a is red.",
        "Box b is red.",
        "Hat a is red.",
        "Hat b is red.",
    ]
    # The last video has the answers of the first one.
    assert kinds[OTHER_VIDEO][-1]["answer"] == "Hat a is red."
    assert [row["quality"] for row in kinds["negated"]] == ["good", "noisy"] * 20
    assert kinds["negated"][1]["answer"] == "Box a is not red."
    assert all("red" not in row["answer"] for row in kinds["colours swapped"][1::2])


def test_correlations_leave_out_other_kinds_and_undefined_values() -> None:
    systems = ["written", "shuffled", "exchanged"] * 3
    found = Values([f"v{i // 3}" for i in range(9)], systems, {}, {})
    values = np.array([3.0, 1, 9, 3, 1, 9, 3, np.nan, 9])
    cells = correlations(found, {"m": values}, ["shuffled"])
    assert (cells["m", "kendall_b"]["ours"], cells["m", "kendall_b"]["n"]) == (1.0, 5)


def test_the_first_sentence_begins_with_what_is_below_the_strongest_baseline() -> None:
    values: Mapping[str, float | None] = {"length": 0.2, "words": 0.6, "cosine": None}
    assert strongest(values) == "words"
    less, more, level = (Comparison("ECS", ours, "words", 0.6) for ours in (0.5, 0.7, 0.6))
    assert [each.place() for each in (less, more, level)] == ["below", "above", "level with"]
    assert standing([more, level], 2) == (
        "Below the strongest simple baseline: nowhere; level with it: ECS (.60; words .60); "
        "above it: ECS (.70; words .60)."
    )
    assert standing([more, less], 2).startswith("Below the strongest simple baseline: ECS (.50; words .60); above")
    # Of noise, more is worse.
    assert Comparison("noise", 0.7, "length", 0.6, less_is_better=True).place() == "below"
    assert Comparison("noise", None, "length", 0.6).place() == "without a figure"


def test_the_first_sentence_marks_what_may_be_chance() -> None:
    rows = [
        Row("t", "ECS", "Spearman", ours=0.6, low=0.5, high=0.7),
        Row("t", "length", "Spearman", ours=0.4, low=0.3, high=0.5),
        Row("t", "ECS", "accuracy", ours=0.9, low=0.85, high=0.95),
        Row("t", "length", "accuracy", ours=0.8, low=0.75, high=0.84),
    ]
    pairs = [Comparison("Spearman", 0.6, "length", 0.4), Comparison("accuracy", 0.9, "length", 0.8)]
    assert standing(pairs, 1, rows).endswith(
        "above it: Spearman (.6; length .4; intervals overlap), accuracy (.9; length .8)."
    )
    # Figures of different columns are not compared.
    assert not Comparison("mixed", 0.6, "length", 0.8).overlaps([*rows, replace(rows[3], low=0.0)])


def test_a_missing_package_is_a_plain_sentence() -> None:
    def never(stages: Stages) -> Table:
        raise AssertionError

    recipe = Recipe("r", (), ("no-such-package",), (), dict, never)
    assert complaints([recipe]) == ["The package no-such-package is missing: run `make develop`."]


def test_missing_and_other_files_of_the_data_are_named(tmp_path: Path) -> None:
    (tmp_path / "dream1k").mkdir()
    (tmp_path / "dream1k" / "DREAM-1k.jsonl").write_bytes(b"{}\n")
    states = {line.split(":")[0]: line for line in list_states(tmp_path)}
    assert states["dream1k"].endswith("than the page's tables had in dream1k/DREAM-1k.jsonl, so figures may differ")
    assert states["anet_captions"].endswith("2 of 2 files missing, the first is anet_captions/val_1.json")
    assert explain_missing("ecs", ["dream1k"], tmp_path) == ""
    lines = list(list_verdicts({"ecs": ["dream1k"], "qeva": ["anet_captions"], "evqa": []}, tmp_path))
    assert lines == [
        f"{tmp_path} is enough for 2 of 3 tables.",
        f"qeva is not made: {tmp_path} lacks anet_captions/val_1.json and 1 more file; see docs/papers-data.md.",
    ]


def test_a_file_with_another_layout_leaves_its_table_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shared_data: Path
) -> None:
    def build(stages: Stages) -> Table:
        return Table("whole", "Whole", [], {"m": "n"}, [])

    def fail(stages: Stages) -> Table:
        raise KeyError("text")

    recipes = [Recipe("whole", (), (), (), dict, build), Recipe("broken", ("realsumm",), (), (), dict, fail)]
    files = tmp_path / "kept", tmp_path / "page.md", tmp_path / "rows.json"
    # With the page's own files an error is one of this project.
    with pytest.raises(KeyError):
        run(recipes, *files, other_files=["dream1k/DREAM-1k.jsonl"])
    assert run(recipes, *files, other_files=["realsumm/checklist.jsonl"])
    assert list(read_tables(files[2])) == ["whole"]
    assert "broken is not made (KeyError: 'text'): other content than the page's tables had in realsumm/" in (
        capsys.readouterr().err
    )


def test_the_page_of_the_data_names_every_dataset_of_a_table() -> None:
    page = (PROJECT / "docs" / "papers-data.md").read_text(encoding="utf-8")
    used = {name for recipe in RECIPES for name in recipe.data}
    assert used == set(read_sums())
    assert all(f"`{name}/`" in page for name in used)


def test_the_data_are_those_of_the_page(shared_data: Path) -> None:
    states = [line for line in list_states(shared_data) if not line.startswith("WordNet")]
    assert all(line.endswith(": complete") for line in states), states


def test_a_summary_is_halved_in_order_and_gets_one_strange_sentence() -> None:
    sentences = [f"Sentence {i}." for i in range(7)]
    for seed in range(20):
        spoilt = shortened_and_extended(sentences, ["Strange."], Random(seed))
        halved, wrong = (spoilt[kind].split("\n") for kind in (HALVED, WRONG))
        assert len(halved) == 3
        assert halved == [sentence for sentence in sentences if sentence in halved]
        assert sorted(wrong) == sorted([*sentences, "Strange."])
        assert [sentence for sentence in wrong if sentence != "Strange."] == sentences
    assert set(shortened_and_extended(["One."], ["Strange."], Random(0))) == {WRONG}


def test_disagreements_are_counted_by_content_words() -> None:
    cells = {row.column: row for row in rows_of("disagreements", np.array([0.0, 0.5, 0.99, 1.0]))}
    assert [cells[column].ours for column in (PARTIAL, COMPLETE, NONE)] == [0.5, 0.25, 0.25]
    assert cells[PARTIAL].published == 0.773
    order = np.array([3, 0, 2, 1])
    assert first_of(order, np.array([True, False, True, True])).tolist() == [3, 0, 2]


def test_the_cost_of_all_sentences_by_hand() -> None:
    # Ten sentences and four keypoints: 8 of 10 are verified, and one of four decisions differs.
    points, covered = ("a", "b", "c", "d"), (True, True, False, False)
    one, other = (Caption(clip, "s", ("A.",) * 10, points, ("d",) * 4, covered) for clip in ("one", "other"))
    fold = Fold(frozenset({"other"}), frozenset({"one"}))
    judged = {
        8: Judgement(np.array([0.9, 0.4, 0.1, 0.1, 0.9, 0.8, 0.2, 0.1]), 2.0),
        None: Judgement(np.array([0.9, 0.9, 0.1, 0.1, 0.9, 0.8, 0.2, 0.1]), 3.0),
    }
    sentence = cost_sentence(DataSet("n", "", (one, other), (fold,)), judged, timed=True)
    assert "1.2 times fewer passes (paper: 6.6), is 1.5 times as fast (paper: 4.8), and decides 75.0% of" in sentence
    assert "as fast" not in cost_sentence(DataSet("n", "", (one, other), (fold,)), judged, timed=False)


def test_what_the_cosine_of_mean_sentences_explains() -> None:
    values = {"VCS_LCT0": np.array([0.1, 0.5, 0.9]), SENTENCES: np.array([0.2, 0.9, 0.4])}
    found = Variants(["n"] * 3, ["c"] * 3, ["b"] * 3, np.ones(3), {}, values, 0)
    sentence = explained("VCS_LCT0", found, {"VCS_LCT0": 0.9, SENTENCES: 0.7})
    assert "Of the .400 by which VCS_LCT0 is above chance, cosine of mean sentences has .200, 50%" in sentence
    assert sentence.endswith("correlate by .500.")


def test_dense_captions_have_fifty_sentences(shared_data: Path) -> None:
    data = dense_captions()
    assert min(len(caption.sentences) for caption in data.captions) >= 50
    own, other = data.captions[:2]
    assert own.keypoints == other.keypoints
    assert all(own.covered)
    assert not any(other.covered)
    assert not set(own.sentences) & set(other.sentences)


def test_tables_have_names_of_their_own_and_survive_json() -> None:
    names = [recipe.name for recipe in RECIPES]
    assert len(set(names)) == len(names)
    table = Table("t", "T", ["s"], {"m": "n"}, [], 2, ["r"], "b", [Comparison("c", 0.5, "b", 0.4)])
    assert table_of(table.as_dict()).as_dict() == table.as_dict()


def test_printed_means_are_near_those_of_the_published_values() -> None:
    rows = json.loads((PROJECT / "docs" / "papers.json").read_text(encoding="utf-8"))["rows"]
    values = {(row["row"], row["column"]): row["published"] for row in rows if row["table"] == VARIANTS}
    kinds = {marks: marks.rsplit(" (", 1)[0] for marks, _ in values}
    paper = [row for marks, kind in kinds.items() for row in printed(kind, marks)]
    compared = [(row, values[row.row, row.column.removesuffix(" in the paper")]) for row in paper]
    assert len(compared) == 2 * len(MEANS)
    # Another kind's mean, or a digit misread, would be farther.
    assert max(abs((row.published or 0) - value) for row, value in compared) < 0.015


def test_published_figures_stand_beside_the_metrics_of_words() -> None:
    assert published_of(1, "BLEU-1") == (12.2, 15.9)
    assert published_of(9, SHORT) == (41.5, 52.8)
    assert published_of(9, "length") == (None, None)
    rows = [row for count in (1, 9) for name in ("METEOR", "length") for row in cells(count, name, None, 5)]
    assert [(row.published, row.ours) for row in rows[:3]] == [(16.4, None), (21.5, None), (None, None)]


def test_every_table_says_how_it_was_made_and_where_it_is_below() -> None:
    tables = read_tables(PROJECT / "docs" / "papers.json")
    assert set(tables) <= {recipe.name for recipe in RECIPES}
    for name, (table, made) in tables.items():
        assert made.date, name
        assert made.commit, name
        assert table.models, name
        assert any(row.n and row.low is not None for row in table.rows), name
        # These compare with the authors or with every frame.
        assert bool(table.comparisons) != (name in {"vcs_1_fidelity", "vcs_1_variants", "evqa_1_clips"}), name
