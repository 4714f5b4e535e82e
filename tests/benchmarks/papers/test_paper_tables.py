"""What the tables' rows are made of, on texts small enough to check by hand."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.ecs_data import Caption, DataSet, Fold
from benchmarks.papers.corruption import length_ratio, vcs_of
from benchmarks.papers.ecs_rows import passes_of, whole_text_floor
from benchmarks.papers.evqa import fourth_rows
from benchmarks.papers.evqa_pairs import COUNT, EVQA, LENGTH, RANDOM, Pairs, scores_of
from benchmarks.papers.mpii import Base, Variant
from benchmarks.papers.qeva import correlations
from benchmarks.papers.qeva_scores import Values
from benchmarks.papers.recipes import Recipe, complaints
from benchmarks.papers.records import Table, against, strongest, table_of
from benchmarks.papers.stages import PROJECT, Stages
from benchmarks.papers.tables import RECIPES
from benchmarks.papers.vatex import SHORT, cells, published_of
from benchmarks.papers.vcs_authors import FIRST, FOREIGN, SECOND, Told, consistency, told_apart, values_of
from benchmarks.papers.vcs_corruption_tables import VARIANTS, printed
from benchmarks.papers.vcs_published import MEANS
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


SENTENCES = [
    "A man enters the dark hall.",
    "Two dogs follow him upstairs.",
    "He opens an old door.",
    "Light falls on the floor.",
    "They all sit down together.",
]


def base() -> Base:
    told = " ".join(SENTENCES)
    backwards = " ".join(sentence.rstrip(".") for sentence in reversed(SENTENCES))
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
    whole, stranger = " ".join(SENTENCES), "Rain. Wind on the roof. A cold night."
    same, shorter = values_of(
        [Told(whole, whole, stranger), Told(whole, " ".join(SENTENCES[:4]), stranger)], WordEncoder()
    )
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
    scores = scores_of(pairs)
    assert set(scores) == {COUNT, LENGTH, RANDOM}
    assert scores[LENGTH].tolist() == [7.0, 1.0]
    cells = {(row.row, row.column): row for row in fourth_rows("t", pairs, scores)}
    assert cells[LENGTH, "best 25 %"].ours == 0.0
    assert cells[RANDOM, "best 12.5 %"].ours == 0.5
    assert cells[EVQA, "best 25 %"].ours is None
    assert "REELSIEVE_IMAGE_TEXT_ENCODER" in cells[EVQA, "best 25 %"].note
    assert cells[EVQA, "best 25 %"].published == pytest.approx(0.0108, abs=5e-5)


def test_correlations_leave_out_other_kinds_and_undefined_values() -> None:
    systems = ["written", "shuffled", "exchanged"] * 3
    found = Values([f"v{i // 3}" for i in range(9)], systems, {}, {})
    values = np.array([3.0, 1, 9, 3, 1, 9, 3, np.nan, 9])
    cells = correlations(found, {"m": values}, ["shuffled"])
    assert (cells["m", "kendall_b"]["ours"], cells["m", "kendall_b"]["n"]) == (1.0, 5)


def test_the_strongest_baseline_is_named_first_where_ours_loses() -> None:
    values: Mapping[str, float | None] = {"length": 0.2, "words": 0.6, "cosine": None}
    assert strongest(values) == "words"
    assert against("ECS", 0.5, "words", 0.6) == "ECS (.500) is below the strongest simple baseline, words (.600)."
    assert "above" in against("ECS", 0.7, "words", 0.6)
    assert "no figure" in against("ECS", None, "words", 0.6)


def test_a_missing_folder_and_package_are_plain_sentences() -> None:
    def never(stages: Stages) -> Table:
        raise AssertionError

    recipe = Recipe("r", ("no_such_data",), ("no-such-package",), (), dict, never)
    package, folder = complaints([recipe])
    assert package == "The package no-such-package is missing: run `make develop`."
    assert folder.startswith("No test data no_such_data in ")
    assert folder.endswith("set REELSIEVE_TEST_DATA to the folder of the test data.")


def test_tables_have_names_of_their_own_and_survive_json() -> None:
    names = [recipe.name for recipe in RECIPES]
    assert len(set(names)) == len(names)
    table = Table("t", "T", ["s"], {"m": "n"}, [], 2, ["r"], "b")
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
