"""Simple scores: what they are against brute force, when they are stale, and where their names can be given."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from numpy.typing import NDArray
from scipy import stats
from sqlalchemy.engine import Engine

from assets.agreement.compare import compare_scorers
from assets.agreement.judged import COMMON_WORDS, COSINE, LENGTH, load_judged_samples
from assets.metrics.registry import METRIC_INPUTS, METRICS, SCORERS, list_accompanying_scores, list_scoring_assets
from assets.metrics.simple import CosineScorer, WordsInCommonScorer
from assets.scores.base import Outcome
from assets.scores.explain import explain_score
from assets.scores.run import score_without_database
from assets.selection.select import make_selection
from assets.sources.base import MissingEvidence
from assets.sources.facts import measure_texts
from assets.thresholds.ratings import store_rating_thresholds
from db import schema
from db.evidence.embeddings import text_sha256
from db.manifest.datasets import Dataset
from db.reports.histograms import Histogram, count_values
from db.reports.pages import load_page
from db.reports.sample_query import SampleQuery, prepare_query
from db.schema.inputs import REFERENCES, ReferenceText
from db.scores.pending import PendingSample, list_shard_samples, load_samples
from db.scores.sample_scores import SIMPLE_SCORES, list_dataset_metrics, list_dataset_scores, list_scores
from db.scores.scorers import load_scorer_values
from db.selection.freeze import Selection
from db.selection.recipes import SelectionError, parse_recipe
from db.selection.stored_selections import load_selection_rows, require_selection
from reelsieve import ReelsieveError, metric
from tests.assets.reporting import agree, rate, report_on
from tests.assets.test_shard_thresholds import materialised
from tests.assets.verifying import HashEncoder, make_sources, score_simply
from tests.conftest import filled_template
from tests.db.builders import (
    add_reference,
    add_sample,
    add_video,
    change,
    change_text,
    make_dataset,
    set_scores,
    write_vectors_to,
)

WORDS = [
    "a",
    "dog",
    "runs",
    "home",
    "red",
    "ball",
    "cat",
    "sleeps",
    "Far",
    "far",
    "over",
    "hills",
    "don't",
    "ice-cream",
]
N_VIDEOS = 16


def told(rng: np.random.Generator) -> str:
    return " ".join(rng.choice(WORDS, size=rng.integers(1, 9)))


def fill(engine: Engine) -> Dataset:
    """Three random captions of each of sixteen videos with up to three references, one without, and odd ones."""
    dataset, rng = make_dataset(engine, n_shards=2), np.random.default_rng(5)
    for number in range(N_VIDEOS):
        video = add_video(engine, dataset, f"v{number}")
        for place in range(number % 4):
            add_reference(engine, dataset, video, f"r{number}.{place}", told(rng))
        for place in range(3):
            add_sample(engine, dataset, video, f"c{number}.{place}", told(rng), system="abc"[place])
    add_sample(engine, dataset, video, "empty", "")
    add_sample(engine, dataset, video, "asked", "a dog? home", kind="qa", question="a dog?", answer="home")
    return dataset


template = filled_template(fill)


def rows_of(engine: Engine) -> dict[str, Any]:
    with engine.connect() as connection:
        return {row.sample: row for row in connection.execute(sa.text("SELECT * FROM sample_scores"))}


def texts_of(engine: Engine) -> dict[str, tuple[str, str, list[str]]]:
    """Kind, text and references of each sample, read by a plain statement."""
    references = "ARRAY(SELECT r.text FROM reference r WHERE r.video_id = s.video_id)"
    query = f"SELECT s.key, s.kind, s.text, {references} FROM sample s"
    with engine.connect() as connection:
        return {key: (kind, text, refs) for key, kind, text, refs in connection.exec_driver_sql(query)}


def shared(text: str, reference: str) -> float:
    """F1 of the sets of words, from precision and recall."""
    own, other = (set(re.findall(r"[^\W_]+", each.lower())) for each in (text, reference))
    both = len(own & other)
    return 2 / (len(own) / both + len(other) / both) if both else 0.0


def cosine(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    return float(np.dot(one.astype(float), other) / np.linalg.norm(one) / np.linalg.norm(other))


# Values


@pytest.mark.parametrize("moved", [pytest.param(1e-6, id="postgres"), pytest.param(1e-3, id="files")])
def test_both_are_those_of_brute_force(engine: Engine, clips: Dataset, tmp_path: Path, moved: float) -> None:
    encoder = HashEncoder()
    if moved == 1e-3:
        write_vectors_to(engine, tmp_path)
    score_simply(engine, clips, encoder)
    rows = rows_of(engine)
    for key, (kind, text, references) in texts_of(engine).items():
        row = rows[key]
        if not references:
            assert (row.words_in_common, row.words_in_common_status) == (None, "no_reference")
            assert (row.cosine, row.cosine_status) == (None, "no_reference")
            continue
        assert row.words_in_common == pytest.approx(max(shared(text, each) for each in references), abs=1e-12)
        assert row.words_in_common_status == "ok"
        if kind == "qa" or not text:
            assert (row.cosine, row.cosine_status) == (None, "not_applicable" if kind == "qa" else "empty_text")
            continue
        nearest = max(cosine(encoder.vector(text), encoder.vector(each)) for each in references)
        assert row.cosine == pytest.approx(nearest, abs=moved)
        assert row.cosine_is_stale is row.words_in_common_is_stale is False
    assert rows["c1.0"].cosine_models is not None
    assert any(tmp_path.iterdir()) == (moved == 1e-3)


def test_the_stored_cosine_is_what_the_database_computes_on_the_fly(engine: Engine, clips: Dataset) -> None:
    """To the last bit, by the statement that agreement asked until simple scores were stored."""
    encoder = HashEncoder()
    score_simply(engine, clips, encoder)
    statement = """
        SELECT s.key, max(1 - (own.embedding <=> theirs.embedding)) AS cosine
        FROM sample s JOIN text_embedding own ON own.text_sha256 = s.text_sha256
        JOIN reference r ON r.video_id = s.video_id
        LEFT JOIN text_embedding theirs ON theirs.text_sha256 = r.text_sha256
        WHERE s.kind = 'caption' GROUP BY s.key
        HAVING bool_and(COALESCE(own.embedding <=> theirs.embedding, 'NaN') <> 'NaN')"""
    with engine.connect() as connection:
        expected = dict(map(tuple, connection.exec_driver_sql(statement)))
    found = {key: row.cosine for key, row in rows_of(engine).items() if row.cosine is not None}
    assert len(found) == 36
    assert found == expected


def test_a_vector_without_direction_is_a_reason_and_no_number(engine: Engine, clips: Dataset) -> None:
    scorer = CosineScorer(HashEncoder())
    make_sources(engine, scorer, clips, 0)
    make_sources(engine, scorer, clips, 1)
    with engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE text_embedding SET embedding = array_fill(0, ARRAY[48])::vector WHERE text_sha256 = :key"),
            {"key": text_sha256(texts_of(engine)["c1.0"][2][0])},
        )
    score_simply(engine, clips, HashEncoder())
    row = rows_of(engine)["c1.0"]
    assert (row.cosine, row.cosine_status, row.words_in_common_status) == (None, "no_direction", "ok")


def test_no_vector_is_no_score(engine: Engine, clips: Dataset) -> None:
    """Nothing is written where a text has not been embedded: the source must be made first."""
    scorer = CosineScorer(HashEncoder())
    with engine.connect() as connection:
        samples = load_samples(connection, list_shard_samples(connection, clips.dataset_id, 0), scorer.inputs)
    with pytest.raises(MissingEvidence, match="have no vector of words: materialise text_embedding"):
        scorer.cosines.load(engine, 0, samples)


def pending(number: int, text: str, *references: str) -> PendingSample:
    known = tuple(ReferenceText(f"r{place}", each) for place, each in enumerate(references))
    return PendingSample(number, "", str(number), "caption", "s", text, None, None, 1, inputs={REFERENCES.name: known})


def test_both_can_be_had_without_a_database() -> None:
    encoder = HashEncoder()
    samples = [pending(1, "a dog runs", "a cat", "a dog runs home"), pending(2, "a dog")]
    (found, without) = score_without_database(WordsInCommonScorer(), samples, {})
    assert (found.value, dict(found.components)) == (pytest.approx(6 / 7), {"reference": "r1"})
    assert (without.value, without.status) == (None, "no_reference")
    (found, without) = score_without_database(CosineScorer(encoder), samples, {})
    assert found.value == pytest.approx(cosine(encoder.vector("a dog runs"), encoder.vector("a dog runs home")))
    assert (found.components, without.status) == ({"reference": "r1"}, "no_reference")
    nothing = score_without_database(CosineScorer(encoder), [pending(1, "a dog")], {})
    assert nothing == [Outcome(None, "no_reference", "the video has no reference to compare with")]


def test_the_nearest_reference_is_named(engine: Engine, clips: Dataset) -> None:
    encoder = HashEncoder()
    score_simply(engine, clips, encoder)
    _, text, references = texts_of(engine)["c3.1"]
    best = max(references, key=lambda each: cosine(encoder.vector(text), encoder.vector(each)))
    found = explain_score(engine, "cosine", CosineScorer(encoder), clips, "c3.1")
    assert found is not None
    assert found.explanation.lines[0].endswith(f", the best of 3: {best}")
    found = explain_score(engine, "words_in_common", WordsInCommonScorer(), clips, "c3.1")
    assert found is not None
    assert re.match(r"of \d+ different words of the caption and \d+ of the reference \d+", found.explanation.lines[1])


# Fresh and stale


def test_what_changes_makes_them_stale_and_another_run_makes_them_anew(engine: Engine, clips: Dataset) -> None:
    encoder = HashEncoder()
    score_simply(engine, clips, encoder)
    query = "SELECT s.sample_id, s.video_id FROM sample s WHERE key = 'c1.0'"
    with engine.connect() as connection:
        sample_id, video_id = connection.exec_driver_sql(query).one()
    change_text(engine, sample_id, "a red ball")
    add_reference(engine, clips, video_id, "new", "a red ball, far over hills")
    rows = rows_of(engine)
    for key in ("c1.0", "c1.1"):
        row = rows[key]
        assert (row.cosine, row.cosine_status, row.words_in_common, row.words_in_common_status) == (
            *(None, "stale"),
            *(None, "stale"),
        )
    assert rows["c2.0"].cosine is not None
    with pytest.raises(SelectionError, match=r"^3 cosine scores of dataset 'clips' are stale, since"):
        make(engine, clips, by="cosine")
    score_simply(engine, clips, encoder)
    assert rows_of(engine)["c1.0"].words_in_common == pytest.approx(2 * 3 / (3 + 6))


# Lists of metrics


def test_they_are_no_metrics_and_made_along_with_those_that_ask_no_less() -> None:
    assert not {*METRICS} & {*SIMPLE_SCORES}
    assert list(SCORERS) == [*METRICS, *SIMPLE_SCORES]
    assert {*SIMPLE_SCORES} < METRIC_INPUTS.keys()
    assert list_accompanying_scores(["ecs"]) == list_accompanying_scores(["evqa", "qeva"]) == ["words_in_common"]
    assert (
        list_accompanying_scores(["vcs"])
        == list_accompanying_scores(["vcs_short", "ecs"])
        == ["words_in_common", "cosine"]
    )
    assert list_scoring_assets(["vcs_short"]) == [
        *("text_embedding", "vcs_short_score"),
        *("words_in_common_score", "cosine_score"),
    ]


def test_views_have_their_columns_and_pages_no_such_metric(engine: Engine) -> None:
    dataset = make_dataset(engine)
    with engine.connect() as connection:
        assert list_dataset_scores(connection, dataset) == [*METRICS, *SIMPLE_SCORES]
        assert list_dataset_metrics(connection, dataset) == list(METRICS)
        query = "SELECT meaning FROM dictionary WHERE relation = 'sample_scores' AND column_name = 'cosine'"
        assert "nearest reference" in str(connection.exec_driver_sql(query).scalar())


def test_no_function_can_take_their_names() -> None:
    with pytest.raises(ReelsieveError, match="'cosine' is that of a column of sample_scores"):
        metric("cosine", version="1", value_range=(0, 1))


# Recipes, thresholds and look


def make(engine: Engine, dataset: Dataset, **said: Any) -> Selection:
    rule = parse_recipe(said)
    return make_selection(engine, dataset, rule, lambda: pytest.fail("no vector is asked for"), lambda _: None)


@pytest.mark.parametrize("name", SIMPLE_SCORES)
def test_a_recipe_ranks_filters_and_cuts_by_them(engine: Engine, clips: Dataset, name: str) -> None:
    score_simply(engine, clips, HashEncoder())
    values = {key: value for key, row in rows_of(engine).items() if (value := getattr(row, name)) is not None}
    least = sorted(values.values(), reverse=True)[9]
    best = make(engine, clips, by=name, kind="caption", count=5)
    taken = [row for part in load_selection_rows(engine, best.selection_id) for row in part]
    assert [row["value"] for row in taken] == sorted(values.values(), reverse=True)[:5]
    assert [row[name] for row in taken] == [row["value"] for row in taken]
    with engine.connect() as connection:
        frozen = require_selection(connection, best.selection_id)
    assert frozen["metrics"] == [*METRICS, name], "other simple scores are not frozen"
    wanted = {key for key, value in values.items() if value >= least}
    for said in ({"where": f"{name} >= {least!r}"}, {"at_least": {name: least}}):
        chosen = make(engine, clips, by=name, kind="all", keep=1.0, **said)
        keys = {row["sample"] for part in load_selection_rows(engine, chosen.selection_id) for row in part}
        assert keys == wanted


def test_a_recipe_that_names_none_freezes_none(engine: Engine, clips: Dataset) -> None:
    score_simply(engine, clips, HashEncoder())
    with engine.connect() as connection:
        ids = list_shard_samples(connection, clips.dataset_id, 0)
        set_scores(engine, dict.fromkeys(ids, 0.5))
        chosen = make(engine, clips, by="vcs", kind="all", keep=1.0)
        frozen = require_selection(connection, chosen.selection_id)
    assert frozen["metrics"] == list(METRICS)


def test_thresholds_are_stored_and_recipes_name_them(engine: Engine, clips: Dataset, tmp_path: Path) -> None:
    score_simply(engine, clips, HashEncoder())
    assert materialised(engine, clips, tmp_path).success
    values = sorted((row.cosine for row in rows_of(engine).values() if row.cosine is not None), reverse=True)
    chosen = make(engine, clips, by="cosine", kind="caption", at_least={"cosine": "keep 0.25"})
    assert [row["value"] for part in load_selection_rows(engine, chosen.selection_id) for row in part] == values[:9]
    with engine.connect() as connection:
        query = "SELECT DISTINCT metric FROM dataset_thresholds ORDER BY 1"
        assert list(connection.exec_driver_sql(query).scalars()) == ["cosine", "words_in_common"]


def test_look_sorts_by_them_and_draws_them(engine: Engine, clips: Dataset) -> None:
    score_simply(engine, clips, HashEncoder())
    rows = rows_of(engine)
    with engine.connect() as connection, connection.begin():
        on = prepare_query(
            connection, SampleQuery(clips, ("cosine > 0.1",), sort="cosine", shown=("cosine", "words_in_common"))
        )
        page, _ = load_page(on, None, 7)
        found = [row["cosine"] for row in page]
        assert found == sorted((row.cosine for row in rows.values() if row.cosine is not None), reverse=True)[:7]
        assert [row["words_in_common"] for row in page] == [rows[row["sample"]].words_in_common for row in page]
        assert page[0]["cosine_status"] == "ok"
        drawn = count_values(on, "cosine")
    assert isinstance(drawn, Histogram)
    assert sum(drawn.counts) == 36
    assert sum(drawn.kept) == sum(row.cosine is not None and row.cosine > 0.1 for row in rows.values())


def test_the_table_of_scores_is_ordered_by_them(engine: Engine, clips: Dataset) -> None:
    score_simply(engine, clips, HashEncoder())
    with engine.connect() as connection:
        rows = list_scores(connection, clips.name, "words_in_common", 5)
    values = [row["words_in_common"] for row in rows]
    assert values == sorted(values, reverse=True)
    assert values[0] == max(row.words_in_common or 0 for row in rows_of(engine).values())


# Agreement, comparisons and questions


@pytest.fixture
def judged(engine: Engine, clips: Dataset) -> dict[str, float]:
    """The ratings of all captions by key: what two people say is near to the words in common."""
    score_simply(engine, clips, HashEncoder())
    rng = np.random.default_rng(3)
    rows = [row for row in rows_of(engine).values() if row.kind == "caption"]
    said = [np.clip(np.round(1 + 4 * (row.words_in_common or 0) + rng.normal(size=2)), 1, 5) for row in rows]
    rate(engine, {row.sample_id: tuple(of.tolist()) for row, of in zip(rows, said, strict=True)})
    set_scores(engine, {row.sample_id: float(rng.random()) for row in rows})
    return {row.sample: float(of.mean()) for row, of in zip(rows, said, strict=True)}


@pytest.mark.parametrize(("column", "name"), [("words_in_common", COMMON_WORDS), ("cosine", COSINE)])
def test_agreement_is_that_of_the_stored_numbers(
    engine: Engine, clips: Dataset, judged: dict[str, float], column: str, name: str
) -> None:
    agree(engine, clips, ["vcs"])
    values = {key: getattr(row, column) for key, row in rows_of(engine).items() if key in judged}
    keys = [key for key, value in values.items() if value is not None]
    expected = stats.kendalltau([values[key] for key in keys], [judged[key] for key in keys]).statistic
    query = sa.select(schema.agreement).where(
        schema.agreement.c.metric == name,
        schema.agreement.c.over == "captions",
        schema.agreement.c.statistic == "kendall_b",
    )
    with engine.connect() as connection:
        row = connection.execute(query).one()
        scorer = connection.scalar(sa.select(schema.scorer.c.scorer_id).where(schema.scorer.c.metric == column))
    assert row.value == pytest.approx(expected, abs=1e-9)
    assert (row.n, row.baseline, row.scorer_id) == (len(keys), True, scorer)


def test_the_length_is_that_of_column_words(engine: Engine, clips: Dataset, judged: dict[str, float]) -> None:
    for shard in range(2):
        measure_texts(engine, clips, shard, lambda _: None)
    with engine.connect() as connection:
        found = load_judged_samples(connection, clips, ["vcs"])
    rows = {row.sample_id: row.words for row in rows_of(engine).values()}
    assert found.baselines[LENGTH].tolist() == [rows[sample_id] for sample_id in found.sample_ids.tolist()]


def test_what_is_not_scored_stands_beside_nothing(engine: Engine, clips: Dataset) -> None:
    """And a stale score is left out and counted."""
    with engine.connect() as connection:
        ids = list_shard_samples(connection, clips.dataset_id, 0)
    rate(engine, dict.fromkeys(ids, (3.0,)))
    with engine.connect() as connection:
        assert not {COMMON_WORDS, COSINE} & load_judged_samples(connection, clips, []).baselines.keys()
    score_simply(engine, clips)
    with engine.connect() as connection:
        query = (
            "SELECT video_id FROM sample JOIN sample_scores USING (sample_id) "
            "WHERE words_in_common IS NOT NULL AND sample.shard = 0 ORDER BY 1"
        )
        video_id = connection.exec_driver_sql(query).scalars().first()
        assert video_id is not None
        # Another reference leaves the texts, and with them the ratings, as they are.
        add_reference(engine, clips, video_id, "another", "something else")
        found = load_judged_samples(connection, clips, [])
    assert COSINE not in found.baselines
    stale = [place for place, each in enumerate(found.videos) if each == video_id]
    assert found.n_stale[COMMON_WORDS] == len(stale) > 0
    assert np.isnan(found.baselines[COMMON_WORDS][stale]).all()


def test_a_metric_is_compared_with_them(engine: Engine, clips: Dataset, judged: dict[str, float]) -> None:
    found = compare_scorers(engine, clips, "vcs", "cosine", 2)
    rows = [row for row in rows_of(engine).values() if row.vcs is not None and row.cosine is not None]
    spearman = stats.spearmanr([row.vcs for row in rows], [row.cosine for row in rows]).statistic
    assert (found.scores.n, found.scores.correlations["spearman"].value) == (36, pytest.approx(spearman))
    (people,) = found.people
    assert people.second["kendall_b"].value == pytest.approx(
        stats.kendalltau([row.cosine for row in rows], [judged[row.sample] for row in rows]).statistic
    )
    assert people.strongest is not None
    assert people.strongest.metric == COMMON_WORDS
    (people,) = compare_scorers(engine, clips, "cosine", "words_in_common", 2).people
    assert people.strongest is not None
    assert people.strongest.metric.startswith(LENGTH), "neither stands beside itself"


def test_a_cut_by_ratings_on_a_simple_score_does_not_stand_beside_itself(
    engine: Engine, clips: Dataset, judged: dict[str, float]
) -> None:
    with engine.connect() as connection:
        people = load_judged_samples(connection, clips, ["vcs"])
    found = store_rating_thresholds(engine, clips, people, {})
    beside = {each.metric: {one.name for one in each.baselines} for each in found if each.shard is None}
    # The scores lack a value for captions without a reference, and a number beside them must have all.
    assert COMMON_WORDS not in beside["words_in_common"]
    assert LENGTH in beside["words_in_common"]
    with engine.connect() as connection:
        query = "SELECT DISTINCT metric FROM dataset_thresholds WHERE method = 'ratings'"
        assert "words_in_common" in set(connection.exec_driver_sql(query).scalars())


def test_a_report_lists_them_beside_metrics_and_not_among_them(
    engine: Engine, clips: Dataset, judged: dict[str, float], tmp_path: Path
) -> None:
    numbers = report_on(engine, clips, tmp_path).numbers
    assert not {*SIMPLE_SCORES} & {metric["name"] for metric in numbers["metrics"]}
    assert {row["metric"] for row in numbers["agreement"] if row["baseline"]} >= {COMMON_WORDS, COSINE}


def test_scores_of_a_scorer_are_read_like_those_of_a_metric(engine: Engine, clips: Dataset) -> None:
    scorers = score_simply(engine, clips, HashEncoder())
    with engine.connect() as connection:
        found = load_scorer_values(connection, scorers["cosine"], clips.dataset_id)
    assert len(found) == 3 * N_VIDEOS + 2
    change(engine, schema.video, 1, uri="elsewhere.mp4")
    with engine.connect() as connection:
        assert load_scorer_values(connection, scorers["cosine"], clips.dataset_id) == found
