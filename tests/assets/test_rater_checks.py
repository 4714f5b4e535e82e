"""Raters who are left out, far from the others or answer in a pattern are named where people rate and in the report."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.agreement.judged import load_judged_samples
from assets.agreement.progress import compute_progress
from assets.agreement.raters import explain_patterns
from assets.agreement.table import compute_agreement
from db.manifest.answers import Rater, find_next_question, store_answer, store_mark
from db.manifest.datasets import Dataset
from db.reports.judgements import SPANS_ASPECT, RaterAnswer, list_answers
from db.schema import attention_check
from metrics_core.agreement.rater_checks import compute_human_ceiling
from metrics_core.agreement.row import ONE_RATER
from tests.assets.reporting import add_captions, rate, report_on
from tests.db.answering import ask_about
from tests.db.builders import make_dataset, set_scores

N_VIDEOS = 40
ASPECT = "coverage"


@pytest.fixture(scope="module")
def rated(module_engine: Engine) -> Dataset:
    """Two careful raters and one who rolls dice rate 80 captions; eve answers 27 times 1 to 5 in turn."""
    dataset, rng = make_dataset(module_engine, "raters"), np.random.default_rng(11)
    ids = add_captions(module_engine, dataset, N_VIDEOS, ("a", "b"))
    truth = rng.normal(size=len(ids))
    set_scores(module_engine, dict(zip(ids, (truth + rng.normal(0, 0.5, truth.size)).tolist(), strict=True)))
    careful = np.clip(np.round(3 + 1.2 * truth[:, None] + rng.normal(0, 0.3, (truth.size, 2))), 1, 5)
    ratings = np.concatenate([careful, rng.integers(1, 6, (truth.size, 1))], axis=1)
    rate(module_engine, dict(zip(ids, ratings.tolist(), strict=True)), ASPECT)
    answer_in_turn(module_engine, Rater(dataset, "eve", ASPECT), 27)
    return dataset


def answer_in_turn(engine: Engine, rater: Rater, n: int) -> None:
    """Answer as the page of a rater does, repeats included."""
    for number in range(n):
        with engine.begin() as connection:
            question, value = find_next_question(connection, rater), 1.0 + number % 5
            assert question is not None
            assert store_answer(connection, rater, question, value, {"answer": f"{value:g}", "seed": 0})


def click_left(engine: Engine, rater: Rater, n: int) -> None:
    """Prefer whichever of two captions stands on the left."""
    for _ in range(n):
        with engine.begin() as connection:
            question = find_next_question(connection, rater)
            assert question is not None
            extra = {"answer": "a", "seed": 0, "a": question.sample_ids[0]}
            assert store_answer(connection, rater, question, question.turn(1), extra)


def test_who_rates_reads_who_answers_in_a_pattern_and_who_is_left_out(module_engine: Engine, rated: Dataset) -> None:
    with module_engine.connect() as connection:
        found = compute_progress(connection, rated, ASPECT, "r0", pairs=False)
    assert any(each.startswith("eve gave 27 answers in a row that repeat 1, 2, 3, 4, 5 (coverage)")
               for each in found.sentences), found.sentences  # fmt: skip
    assert any("leaves out raters with fewer than 30 shared captions: eve (2" in each
               for each in found.sentences), found.sentences  # fmt: skip
    assert sum(each.startswith("r2 is far from the other raters: τ-b ") for each in found.sentences) == 1
    assert not any(each.startswith(("r0 is far", "r1 is far", "r0 gave", "r2 gave")) for each in found.sentences)


def test_the_report_names_them_and_its_ceiling_is_that_of_the_others(
    module_engine: Engine, rated: Dataset, tmp_path: Path
) -> None:
    made = report_on(module_engine, rated, tmp_path)
    assert "eve gave 27 answers in a row that repeat 1, 2, 3, 4, 5 (coverage)" in made.text
    assert any(each.startswith("eve gave 27") for each in made.numbers["notices"])
    (aspect,) = made.numbers["trust"]["aspects"]
    left_out, far = aspect["raters"]
    assert left_out.startswith("The human ceiling leaves out raters with fewer than 30 shared captions: eve (")
    assert far.startswith("r2 is far from the other raters: τ-b ")
    assert left_out in made.text
    assert far in made.text
    (beside,) = aspect["beside_rater"]
    assert beside.startswith("Compared with the mean of all raters but one, VCS has τ-b ")
    assert beside in made.text
    with module_engine.connect() as connection:
        judged = load_judged_samples(connection, rated, ["vcs"])
    assert judged.raters[ASPECT] == ("eve", "r0", "r1", "r2")
    ceiling = [row.n for row in compute_agreement(judged) if (row.metric, row.over) == (ONE_RATER, "captions")]
    assert set(ceiling) == {2 * N_VIDEOS}
    # eve is named, but does not count for the ceiling.
    without = aspect["ceiling_without_careless"]
    assert (aspect["careless"], without["value"] > aspect["ceiling"]["value"] + 0.1) == (["r2"], True)
    assert f"without r2: {without['value']:.2f}" in made.text
    others = np.delete(judged.ratings[ASPECT], 3, axis=1)
    assert without["value"] == pytest.approx(compute_human_ceiling(others, judged.videos).value)


def test_the_page_says_how_many_pairs_a_metric_ties_and_counts_ties_where_they_are_many(
    engine: Engine, tmp_path: Path
) -> None:
    dataset, rng = make_dataset(engine, "ties"), np.random.default_rng(4)
    ids = add_captions(engine, dataset, 20, ("a", "b"))
    ratings = rng.integers(1, 6, (len(ids), 2)).astype(float)
    coarse = (ratings.mean(axis=1) > 3).astype(float)
    set_scores(engine, dict(zip(ids, coarse.tolist(), strict=True)))
    set_scores(engine, {i: place / 40 for place, i in enumerate(ids)}, "evqa")
    rate(engine, dict(zip(ids, ratings.tolist(), strict=True)), ASPECT)
    made = report_on(engine, dataset, tmp_path, ("vcs", "evqa"))
    (aspect,) = made.numbers["trust"]["aspects"]
    shares, many = aspect["ties"]
    n = int(coarse.sum())
    tied = 100 * (n * (n - 1) + (40 - n) * (39 - n)) / (40 * 39)
    assert shares == f"Pairs of captions with equal values, which τ-b cannot order: VCS {tied:.0f} %, EVQAScore 0 %."
    rows = {row["metric"]: row for row in made.numbers["agreement"]
            if (row["over"], row["statistic"]) == ("captions", "pairwise_accuracy_calibrated")}  # fmt: skip
    assert many.startswith(
        "VCS ties so many pairs that ties should count: if small differences are ties, it orders or ties "
        f"{100 * rows['vcs']['value']:.0f} %, {100 * rows['vcs']['low']:.0f} % to {100 * rows['vcs']['high']:.0f} % of"
    )
    assert f"majority {100 * rows['majority']['value']:.0f} %" in many
    assert many.endswith("The largest difference that counts as a tie was chosen on the other half of the videos.")
    assert shares in made.text
    assert many in made.text


def test_the_order_of_answers_holds_repeats_and_is_of_time(module_engine: Engine, rated: Dataset) -> None:
    with module_engine.connect() as connection:
        answers = list_answers(connection, rated.dataset_id)
    eve = [each for each in answers if each.rater == "eve" and not each.is_comparison]
    assert [each.shown for each in eve] == [1.0 + place % 5 for place in range(27)]
    assert all(each.is_timed for each in eve)
    assert not any(each.is_timed for each in answers if each.rater != "eve")


def test_always_the_left_one_is_a_pattern_whichever_caption_stands_there(module_engine: Engine, rated: Dataset) -> None:
    click_left(module_engine, Rater(rated, "lea", "fun", kind="preference"), 24)
    with module_engine.connect() as connection:
        found = compute_progress(connection, rated, "fun", "lea", pairs=True)
        elsewhere = compute_progress(connection, rated, ASPECT, "lea", pairs=False)
    assert any(each.startswith("lea gave 24 answers in a row that are all A (fun)") for each in found.sentences)
    assert not any("lea gave" in each for each in elsewhere.sentences)


def given(rater: str, answer: float) -> RaterAnswer:
    """An answer that no browser took."""
    return RaterAnswer(rater, "q", False, answer, answer, False, None)


def test_without_a_known_order_only_equal_answers_are_a_pattern() -> None:
    turn = (given("ann", 1.0 + place % 5) for place in range(40))
    same = (given("bob", 3.0) for place in range(40))
    assert [each.split(":")[0] for each in explain_patterns([*turn, *same]).values()] == [
        "bob gave 40 answers in a row that are all 3 (q)"
    ]
    # Where others give hardly anything else, it is none.
    usual = (given("cid", 1.0 if place == 0 else 3.0) for place in range(99))
    few = (given("dan", 3.0) for place in range(40))
    assert explain_patterns([*usual, *few]) == {}


def test_where_nobody_shares_enough_there_is_no_ceiling(engine: Engine, tmp_path: Path) -> None:
    dataset = make_dataset(engine, "few")
    ids = add_captions(engine, dataset, 12, ("a", "b"))
    values = count(1)
    set_scores(engine, {i: 1 / next(values) for i in ids})
    rate(engine, {i: (1 + i % 5, 1 + i * 3 % 5) for i in ids}, ASPECT)
    (aspect,) = report_on(engine, dataset, tmp_path).numbers["trust"]["aspects"]
    assert aspect["raters"] == [
        "There is no human ceiling, since no rater shares 30 captions with the others: r0 (24) and r1 (24)."
    ]
    assert (aspect["ceiling"], aspect["beside_rater"]) == (None, [])


def test_the_report_counts_attention_checks_and_names_who_fails_most(engine: Engine, tmp_path: Path) -> None:
    dataset = make_dataset(engine, "watched")
    ids = add_captions(engine, dataset, 12, ("a", "b"))
    set_scores(engine, {i: i / 100 for i in ids})
    rate(engine, {i: (1 + i % 5, 2) for i in ids}, ASPECT)
    given = {("r0", False): "TTF", ("r1", False): "FTF", ("<eve>", True): "TF", ("<eve>", False): "F"}
    with engine.begin() as connection:
        for (rater, is_comparison), results in given.items():
            for place, passed in enumerate(results):
                values = {"rater": rater, "aspect": ASPECT, "is_comparison": is_comparison, "planted_sha256": b"text"}
                values |= {"sample_id": ids[place], "planted_id": ids[-1], "value": 1.0, "has_passed": passed == "T"}
                connection.execute(sa.insert(attention_check).values(values))
    made = report_on(engine, dataset, tmp_path)
    assert made.numbers["notices"][-2:] == [
        "<eve> passed 0 of 1 attention check (coverage): check the ratings before you use them.",
        "r1 passed 1 of 3 attention checks (coverage): check the ratings before you use them.",
    ]
    for sentence in (
        "r0 passed 2 of 3 attention checks (coverage).",
        "<eve> passed 1 of 2 attention checks (coverage, two captions side by side).",
        "a rating in the worst third of the scale passes it, and so does any preference that is not for this caption.",
        *made.numbers["notices"][-2:],
    ):
        assert sentence in made.text
    assert made.numbers["data"]["checks"][-1] == [*("r1", ASPECT, False), 1, 3]
    assert made.numbers["data"]["raters"] == {"r0": 24, "r1": 24}, "all ratings stay"


def test_a_caption_without_a_wrong_span_is_an_aspect_of_agreement(engine: Engine, tmp_path: Path) -> None:
    dataset = make_dataset(engine, "marked")
    ids = add_captions(engine, dataset, 8, ("a", "b"))
    set_scores(engine, {i: float(place % 4) for place, i in enumerate(ids)})
    for name in ("ann", "bob"):
        rater = Rater(dataset, name, ASPECT, spans=True)
        for place, sample_id in enumerate(ids[: 16 if name == "ann" else 8]):
            with engine.begin() as connection:
                question = ask_about(connection, rater, [sample_id])
                if place % 4 < 2:
                    assert store_mark(connection, rater, question, (0, 1))
                extra = {"seed": 0, "spans": True}
                assert store_answer(connection, rater, question, 1.0 + place % 3, extra)
    made = report_on(engine, dataset, tmp_path)
    spans, _ = made.numbers["trust"]["aspects"]
    assert (spans["aspect"], spans["n_samples"], spans["n_ratings"], spans["n_raters"]) == (SPANS_ASPECT, 16, 24, 2)
    # Four values of the metric, four captions each: 96 of 120 pairs differ in it, 64 in the marks, all of these agree.
    assert spans["coefficients"]["vcs"]["value"] == pytest.approx(64 / (96 * 64) ** 0.5)
    alphas = {row["value"] for row in made.numbers["agreement"]
              if (row["aspect"], row["statistic"]) == (SPANS_ASPECT, "krippendorff_nominal")}  # fmt: skip
    assert alphas == {1.0}
    assert f"reelsieve rate marked --aspect {ASPECT}" in made.text
    assert f"--aspect '{SPANS_ASPECT}'" not in made.text
