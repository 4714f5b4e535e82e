"""Preferences between two captions, and repeats: what agreement, compare, report and raters' page make of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.agreement.compare import compare_scorers
from assets.agreement.progress import CEILING_NAME, compute_progress
from assets.definitions.agreement import format_agreement
from db.manifest.answers import Rater, store_answer
from db.manifest.datasets import Dataset
from db.reports.samples import load_judgements
from db.schema import rating, sample
from tests.assets.reporting import add_captions, agree, rate, report_on
from tests.db.answering import ask_about
from tests.db.builders import change_text, make_dataset, set_scores

N_VIDEOS = 12
METRICS = ("vcs", "evqa")


@pytest.fixture(scope="module")
def judged(module_engine: Engine) -> tuple[Dataset, list[int]]:
    """Two captions of each of 12 videos. Ann and Bob prefer the first one; vcs agrees with them, evqa never does."""
    dataset = make_dataset(module_engine, "pairs")
    ids = add_captions(module_engine, dataset, N_VIDEOS, ("a", "b"))
    set_scores(module_engine, {i: 0.9 - 0.5 * (place % 2) for place, i in enumerate(ids)})
    set_scores(module_engine, {i: 0.1 + 0.5 * (place % 2) for place, i in enumerate(ids)}, "evqa")
    for rater in ("ann", "bob"):
        for one, other in zip(ids[::2], ids[1::2], strict=True):
            prefer(module_engine, Rater(dataset, rater, "coverage", kind="preference"), one, other, 1)
    prefer(module_engine, Rater(dataset, "cid", "coverage", kind="preference"), ids[0], ids[1], 0)
    return dataset, ids


def prefer(engine: Engine, rater: Rater, one: int, other: int, value: int) -> None:
    with engine.begin() as connection:
        question = ask_about(connection, rater, [one, other])
        assert store_answer(connection, rater, question, value, {"answer": "a", "seed": 0})


def test_the_agreement_table_has_a_row_for_each_metric_baseline_and_rater(
    module_engine: Engine, judged: tuple[Dataset, list[int]]
) -> None:
    rows = agree(module_engine, judged[0], METRICS)
    assert {row.over for row in rows} == {"pairs"}, "preferences are no ratings"
    told = {row.metric: (row.value, row.n, row.n_undefined) for row in rows}
    assert told["vcs"] == (1.0, 24, 1)
    assert told["evqa"] == (0.0, 24, 1)
    assert told["one rater"] == (1.0, 24, 1)
    assert "majority" not in told
    assert "aspect: coverage, side by side" in format_agreement(rows)
    assert [row.scorer_id is not None for row in rows if row.metric in METRICS] == [True, True]


def test_compare_says_who_prefers_what_people_prefer(module_engine: Engine, judged: tuple[Dataset, list[int]]) -> None:
    found = compare_scorers(module_engine, judged[0], "vcs", "evqa", 1).as_dict()
    (row,) = found["side_by_side"]
    assert (row["n"], row["n_videos"], row["n_raters"], row["difference"]["value"]) == (24, N_VIDEOS, 2, -1.0)
    (sentence,) = [each for each in found["sentences"] if "side by side" in each]
    assert "coverage, side by side: vcs@" in sentence
    assert "is closer to people by more than chance (p = 0.002)" in sentence, "of swaps of 12 videos"
    assert "in 100% of 24 answers" in sentence


def test_the_report_shows_preferences_beside_baselines(
    module_engine: Engine, judged: tuple[Dataset, list[int]], tmp_path: Path
) -> None:
    made = report_on(module_engine, judged[0], tmp_path, METRICS)
    assert "Coverage, two captions side by side" in made.text
    assert "one rater" in {row["metric"] for row in made.numbers["trust"]["side_by_side"]["coverage"]}
    assert "People compared captions side by side" in json.dumps(made.numbers["answers"])
    assert re.search(r"People answered in a browser from (\d{4}-\d\d-\d\d) to \d{4}-\d\d-\d\d\.", made.text)


def test_who_compares_sees_where_it_stands(module_engine: Engine, judged: tuple[Dataset, list[int]]) -> None:
    with module_engine.connect() as connection:
        found = compute_progress(connection, judged[0], "coverage", "ann", pairs=True)
        nobody = compute_progress(connection, judged[0], "truth", "ann", pairs=True)
        unrated = compute_progress(connection, judged[0], "coverage", "ann", pairs=False)
    assert [(name, row.value, n) for name, row, n in found.rows if name in (*METRICS, CEILING_NAME)] == [
        ("vcs", 1.0, 24),
        ("evqa", 0.0, 24),
        (CEILING_NAME, 1.0, None),
    ]
    assert found.is_enough
    assert found.sentences[0].startswith("This is enough: vcs is closer to people than ")
    assert (nobody.rows, nobody.sentences) == ((), ("Nobody has compared captions by truth yet.",))
    assert unrated.sentences == ("Nobody has rated captions by coverage yet.",)


def test_a_sample_says_what_it_was_compared_with(module_engine: Engine, judged: tuple[Dataset, list[int]]) -> None:
    one, other = judged[1][:2]
    with module_engine.connect() as connection:
        keys = [connection.scalar(sa.select(sample.c.key).where(sample.c.sample_id == i)) for i in (one, other)]
        first, second = (
            [(row["rater"], row["answer"]) for row in load_judgements(connection, i)] for i in (one, other)
        )
    assert first == [
        ("ann", f"better than {keys[1]}"),
        ("bob", f"better than {keys[1]}"),
        ("cid", f"as good as {keys[1]}"),
    ]
    assert second == [
        ("ann", f"worse than {keys[0]}"),
        ("bob", f"worse than {keys[0]}"),
        ("cid", f"as good as {keys[0]}"),
    ]


def test_a_preference_about_another_text_counts_nowhere(module_engine: Engine) -> None:
    dataset = make_dataset(module_engine, "changed")
    one, other = add_captions(module_engine, dataset, 1, ("a", "b"))
    set_scores(module_engine, {one: 0.5, other: 0.4})
    prefer(module_engine, Rater(dataset, "ann", "fun", kind="preference"), one, other, 1)
    change_text(module_engine, other, "it says something else")
    assert agree(module_engine, dataset, METRICS) == []
    with module_engine.connect() as connection:
        assert load_judgements(connection, one) == []


def test_ratings_say_how_many_more_are_needed_and_how_consistent_a_rater_is(
    module_engine: Engine, tmp_path: Path
) -> None:
    dataset = make_dataset(module_engine, "rated")
    ids = add_captions(module_engine, dataset, 20, ("a", "b"))
    set_scores(module_engine, {i: (place * 7 % 40) / 40 for place, i in enumerate(ids)})
    set_scores(module_engine, {i: (place * 11 % 40) / 40 for place, i in enumerate(ids)}, "evqa")
    rate(module_engine, {i: (1 + place * 7 % 5, 1 + place * 3 % 5) for place, i in enumerate(ids)}, "fun")
    with module_engine.begin() as connection:
        again = sa.func.jsonb_build_object("again", sa.func.jsonb_build_object("value", 2.0, "rated_at", "2026"))
        few = (rating.c.sample_id.in_(ids[:4])) & (rating.c.rater == "r0")
        connection.execute(sa.update(rating).where(few).values(extra=again))
    with module_engine.connect() as connection:
        found = compute_progress(connection, dataset, "fun", "r0", pairs=False)
        other = compute_progress(connection, dataset, "fun", "r1", pairs=False)
    values = {name: n for name, _, n in found.rows}
    assert {*METRICS, "length in words", CEILING_NAME} <= set(values)
    assert all(n == 40 for name, n in values.items() if name in METRICS)
    assert (
        "more captions would be enough to tell" in found.sentences[0] or "too close to forecast" in found.sentences[0]
    )
    # The first four are rated 1, 3, 5 and 2, and 2 the second time.
    line = "r0 rated 4 captions twice and gave the same answer to 1 (fun; 25 %, interval 5 % to 70 %, 1.2 points"
    assert found.sentences[-1].startswith(line)
    assert "twice" not in " ".join(other.sentences)
    report = report_on(module_engine, dataset, tmp_path, METRICS).text
    assert line in report
    assert "Most are by r0 (40), r1 (40)." in report


def test_without_scores_the_page_says_what_makes_some(module_engine: Engine) -> None:
    dataset = make_dataset(module_engine, "unscored")
    rate(module_engine, dict.fromkeys(add_captions(module_engine, dataset, 2, ("a",)), (3,)), "fun")
    with module_engine.connect() as connection:
        found = compute_progress(connection, dataset, "fun", "r0", pairs=False)
    assert found.sentences == (
        "No caption that people judged has a score: reelsieve score --dataset unscored computes scores.",
    )
