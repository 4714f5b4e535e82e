"""Numbers made elsewhere are a metric's scores: column, staleness, trust analysis, and one sentence for bad ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import datasets
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sqlalchemy as sa

import reelsieve as rs
from assets.agreement.judged import load_judged_snapshot
from assets.datasets.lookup import require_dataset
from assets.reports.sections import Report
from db.manifest.datasets import find_dataset
from db.manifest.removal import delete_dataset
from db.reports.sample_query import SampleQuery, list_suggested_columns, prepare_query
from db.scores.imported_scores import IMPORTED_VERSION
from db.scores.sample_scores import list_dataset_metrics
from db.scores.store import register_scorer
from orchestration.installation import get_installation, open_migrated_engine
from tests.assets.reporting import agree
from tests.command_line import run_command
from tests.db.builders import change_text, wait_for_lock
from tests.orchestration.conftest import Installation

pytestmark = pytest.mark.slow

KEYS = [f"clip_{number:02d}_{system}_0" for number in range(12) for system in ("faithful", "shuffled", "brief")]
VALUES = [1.0 - place / 100 for place in range(36)]
N_RATED = 30


@pytest.fixture(scope="module")
def ingested(installation: Installation) -> Installation:
    """Ratings that rise with the numbers that are imported."""
    rows = [
        {"caption_id": key, "rater": "ann", "aspect": "overall", "value": 5 - place // 6}
        for place, key in enumerate(KEYS[:N_RATED])
    ]
    (installation.manifest / "ratings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run_command("ingest", str(installation.manifest), "--dataset", "mine")
    assert done.returncode == 0, done.stderr
    return installation


@pytest.fixture(scope="module")
def imported(ingested: Installation) -> Installation:
    table = pd.DataFrame({"sample": KEYS, "value": [*VALUES[:-1], None], "other": "not read"})
    found = rs.import_scores(table, "human_like", "mine", source="judge 2.1")
    assert found == {"new": 36, "changed": 0, "unchanged": 0, "without_value": 1}
    return ingested


def answer(query: str) -> list[tuple[Any, ...]]:
    return list(rs.connect().sql(query).itertuples(index=False, name=None))


def test_they_are_a_column_of_every_process(imported: Installation) -> None:
    query = "SELECT human_like, human_like_status, human_like_models FROM sample_scores WHERE sample = '{}'"
    assert answer(query.format(KEYS[3])) == [(pytest.approx(0.97), "ok", "judge 2.1")]
    ((value, status, _),) = answer(query.format(KEYS[35]))
    assert (value is None or value != value, status) == (True, "undefined")
    done = run_command("dataset", "scores", "--dataset", "mine", "--by", "human_like", "--json")
    assert [row["human_like"] for row in json.loads(done.stdout)[:2]] == [1.0, 0.99]
    choice = ("--by", "human_like", "--where", "human_like > 0.9", "--keep", "1")
    done = run_command("select", "--dataset", "mine", *choice, "--json")
    assert json.loads(done.stdout)["n_eligible"] == 10
    (explained,) = json.loads(
        run_command("explain", KEYS[3], "--dataset", "mine", "--metric", "human_like", "--json").stdout
    )
    assert (explained["value"], explained["models"]) == (pytest.approx(0.97), ["judge 2.1"])
    (meaning,) = answer("SELECT count(*) FROM dictionary WHERE column_name = 'human_like'")
    assert meaning == (1,)


def test_trust_in_them_is_analysed_as_in_any_metric(imported: Installation) -> None:
    dataset = require_dataset(get_installation().engine, "mine")
    with get_installation().engine.connect() as connection:
        metrics = list_dataset_metrics(connection, dataset)
    rows = agree(get_installation().engine, dataset, metrics)
    wanted = ("human_like", "overall", "kendall_b", "captions", "people")
    (tau,) = [r for r in rows if (r.metric, r.aspect, r.statistic, r.over, r.against) == wanted]
    # Nothing is the wrong way round; 75 of the 435 pairs have equal ratings.
    assert (tau.value, tau.n) == (pytest.approx((360 / 435) ** 0.5), N_RATED)
    judged = load_judged_snapshot(get_installation().engine, dataset)
    with get_installation().engine.connect() as connection:
        report = Report(get_installation().engine, connection, dataset, get_installation().curation.scorers, judged)
        (facts,) = [metric for metric in report.metrics if metric.name == "human_like"]
    assert (facts.n_defined, facts.models) == (35, ("judge 2.1",))


def test_another_time_updates_and_keeps_what_was(imported: Installation) -> None:
    again = pa.table({"caption_id": KEYS[:2], "human_like": [0.5, VALUES[1]]})
    found = rs.import_scores(again, "human_like", "mine", source="judge 2.1")
    assert found == {"new": 0, "changed": 1, "unchanged": 1, "without_value": 0}
    history = f"SELECT value FROM score_history WHERE sample = '{KEYS[0]}' AND replaced_at IS NOT NULL"
    assert answer(history) == [(1.0,)]
    assert rs.import_scores(again.slice(1), "human_like", "mine", source="judge 3")["new"] == 1
    assert answer("SELECT count(human_like) FROM sample_scores WHERE human_like_models = 'judge 3'") == [(1,)]
    rs.import_scores(pd.DataFrame({"sample": KEYS, "value": VALUES}), "human_like", "mine", source="judge 3")


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, datasets.Dataset.from_dict])
def test_every_kind_of_table(imported: Installation, make: Callable[[dict[str, Any]], Any]) -> None:
    name = f"of_{make.__module__.partition('.')[0]}"
    columns = {"sample": KEYS[:3], "value": [0.25, None, 2.0], "status": ["ok", "no_audio", None]}
    rs.import_scores(make({**columns, "reason": [None, "the clip is silent", None]}), name, "mine")
    query = f"SELECT value, status, error FROM current_score WHERE metric = '{name}'"
    rows = {tuple(None if cell != cell else cell for cell in row) for row in answer(query)}
    assert rows == {(0.25, "ok", None), (None, "no_audio", "the clip is silent"), (2.0, "ok", None)}


def test_what_the_connection_gives_can_be_given_back(imported: Installation) -> None:
    scores = rs.connect().scores("mine")
    found = rs.import_scores(scores.assign(value=scores["text"].str.len() / 100), "characters", "mine")
    assert (found["new"], found["without_value"]) == (36, 0)


def test_a_changed_text_makes_them_stale(imported: Installation) -> None:
    captions = imported.manifest / "captions.jsonl"
    before = captions.read_text()
    captions.write_text(before.replace("A bird sings 3 songs", "A bird sings"))
    query = "SELECT human_like_status, count(*) FROM sample_scores GROUP BY 1 ORDER BY 1"
    try:
        assert run_command("ingest", str(imported.manifest), "--dataset", "mine").returncode == 0
        assert dict(answer(query)) == {"ok": 35, "stale": 1}
        done = run_command("select", "--dataset", "mine", "--by", "human_like", "--keep", "1")
        assert "1 human_like score of dataset 'mine' is stale, since its inputs have" in done.stderr
        assert "import human_like again by rs.import_scores first, or leave" in done.stderr
        reason = "SELECT DISTINCT error FROM current_score WHERE metric = 'human_like' AND status = 'stale'"
        assert answer(reason) == [("its text changed since it was imported: import it again by rs.import_scores",)]
        dataset = require_dataset(get_installation().engine, "mine")
        judged = load_judged_snapshot(get_installation().engine, dataset)
        with get_installation().engine.connect() as connection:
            found = Report(get_installation().engine, connection, dataset, get_installation().curation.scorers, judged)
            stale = [line for line in found.notices if "stale" in line]
            remedies = stale + [step.sentence for step in found.answers.steps]
        assert "1 score of human_like is stale and left out: rs.import_scores imports it again." in remedies
        assert any(line.startswith("Import stale scores again with rs.import_scores: ") for line in remedies)
        assert not any("Compute stale scores again" in line for line in remedies)
        older = pa.table({"sample": KEYS[11:12], "value": [1.0], "text": ["An older text."]})
        with pytest.raises(rs.ReelsieveError, match=r"row 1: text 'An older text\.' is not that of sample"):
            rs.import_scores(older, "fresh", "mine")
    finally:
        captions.write_text(before)
        assert run_command("ingest", str(imported.manifest), "--dataset", "mine").returncode == 0
    assert dict(answer(query)) == {"ok": 36}


def test_the_last_scores_that_go_take_the_column_along(imported: Installation) -> None:
    rs.import_scores(pd.DataFrame({"sample": KEYS[:4], "value": VALUES[:4]}), "mistake", "mine", source="first")
    rs.import_scores(pd.DataFrame({"sample": KEYS[:3], "value": VALUES[:3]}), "mistake", "mine", source="second")
    assert run_command("ingest", str(imported.manifest), "--dataset", "other").returncode == 0
    rs.import_scores(pd.DataFrame({"sample": KEYS[:1], "value": [1.0]}), "mistake", "other", source="second")
    others = answer("SELECT count(human_like) FROM sample_scores")
    asked = run_command("dataset", "drop", "mine", "--metric", "mistake", "--json")
    assert json.loads(asked.stdout)["goes"] == {"scores": 7}
    assert answer("SELECT dataset, count(mistake) FROM sample_scores GROUP BY 1 ORDER BY 1") == [
        ("mine", 3),
        ("other", 1),
    ]
    assert run_command("dataset", "drop", "mine", "--metric", "mistake", "--yes").returncode == 0
    assert answer("SELECT dataset, count(mistake) FROM sample_scores GROUP BY 1 ORDER BY 1") == [
        ("mine", 0),
        ("other", 1),
    ]
    assert run_command("dataset", "drop", "other", "--metric", "mistake", "--yes").returncode == 0
    assert answer("SELECT count(*) FROM dictionary WHERE column_name = 'mistake'") == [(0,)]
    assert answer("SELECT count(*) FROM scorer WHERE metric = 'mistake'") == [(0,)]
    assert answer("SELECT count(human_like) FROM sample_scores") == others
    for metric, sentence in [
        ("vcs", "error: 'vcs' was not imported: choose one of"),
        ("human_lik", "error: 'human_lik' was not imported, did you mean 'human_like'?"),
    ]:
        done = run_command("dataset", "drop", "mine", "--metric", metric, "--yes")
        assert (done.returncode, " ".join(done.stderr.split())[: len(sentence)]) == (1, sentence)
    assert run_command("dataset", "drop", "other", "--yes").returncode == 0


@pytest.fixture
def other(imported: Installation) -> Generator[str, None, None]:
    """A second dataset with the same samples, dropped afterwards."""
    assert run_command("ingest", str(imported.manifest), "--dataset", "other").returncode == 0
    yield "other"
    run_command("dataset", "drop", "other", "--yes")


def table_of(n: int) -> pd.DataFrame:
    return pd.DataFrame({"sample": KEYS[:n], "value": VALUES[:n]})


def numbers_of(metric: str) -> dict[str, int]:
    """How many numbers of a metric each dataset shows."""
    return dict(answer(f"SELECT dataset, count({metric}) FROM sample_scores GROUP BY dataset"))


def columns_of(metric: str) -> int:
    ((n,),) = answer(f"SELECT count(*) FROM dictionary WHERE column_name = '{metric}'")
    return int(n)


def test_a_dropped_dataset_takes_the_columns_of_its_own_metrics_along(other: str) -> None:
    rs.import_scores(table_of(3), "only_there", other)
    rs.import_scores(table_of(3), "in_both", other)
    rs.import_scores(table_of(2), "in_both", "mine")
    assert run_command("dataset", "drop", other, "--yes").returncode == 0
    assert (columns_of("only_there"), columns_of("in_both")) == (0, 1)
    assert answer("SELECT count(*) FROM scorer WHERE metric = 'only_there'") == [(0,)]
    assert numbers_of("in_both") == {"mine": 2}
    assert run_command("dataset", "drop", "mine", "--metric", "in_both", "--yes").returncode == 0


def test_a_dataset_lists_the_metrics_that_were_imported_into_it(other: str) -> None:
    rs.import_scores(table_of(3), "only_there", other)
    listed = {
        name: set(json.loads(run_command("dataset", "scores", name, "--json").stdout)[0]) for name in ("mine", other)
    }
    assert {"human_like", "vcs"} <= listed["mine"]
    assert {"only_there", "vcs"} <= listed[other]
    assert "human_like" not in listed[other]
    assert "only_there" not in listed["mine"]
    done = run_command("dataset", "scores", "--dataset", other, "--by", "human_like")
    assert (done.returncode, "there is no metric 'human_like' in dataset 'other'" in done.stderr) == (2, True)
    for choice in (["--by", "human_like"], ["--by", "only_there", "--where", "human_like > 0"]):
        refused = run_command("select", "--dataset", other, *choice, "--keep", "1").stderr
        assert refused.count("human_like") == 1, refused
        assert "only_there" in refused
    with get_installation().engine.connect() as connection:
        sight = SampleQuery(require_dataset(get_installation().engine, other))
        assert {"only_there", "vcs"} <= set(list_suggested_columns(prepare_query(connection, sight)))
        assert "human_like" not in list_suggested_columns(prepare_query(connection, sight))


def test_scores_of_another_dataset_are_not_dropped(other: str) -> None:
    rs.import_scores(table_of(3), "shared", "mine", source="first")
    done = run_command("dataset", "drop", other, "--metric", "shared", "--yes")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: dataset 'other' has no scores of 'shared': drop them from mine\n"
    rs.import_scores(table_of(2), "shared", other, source="second")
    assert numbers_of("shared") == {"mine": 0, other: 2}, "of two sources the later one counts"
    assert run_command("dataset", "drop", other, "--metric", "shared", "--yes").returncode == 0
    assert numbers_of("shared") == {"mine": 3, other: 0}, "the other one counts again"
    rs.import_scores(table_of(2), "shared", other, source="second")
    assert run_command("dataset", "drop", other, "--yes").returncode == 0
    assert numbers_of("shared") == {"mine": 3}
    assert run_command("dataset", "drop", "mine", "--metric", "shared", "--yes").returncode == 0
    assert columns_of("shared") == 0


def test_bad_tables_are_one_sentence_and_store_nothing(imported: Installation) -> None:
    good = {"sample": KEYS[:2], "value": [0.1, 0.2]}
    gone = {**good, "sample": [KEYS[0], "gone"]}
    elsewhere = {**good, "video": ["clip_01", "clip_00"]}
    for columns, name, sentence in [
        (
            {"value": [1]},
            "extra",
            "the table has no column that names samples (columns: 'value'): rename one to sample",
        ),
        ({"sample": ["a"]}, "extra", "the table has no column of numbers (columns: 'sample'): rename one to value"),
        ({"sample": [], "value": []}, "extra", "the table has no rows"),
        ({**good, "value": ["high", "low"]}, "extra", "row 1: value 'high' is not a number"),
        ({**good, "value": [0.1, float("inf")]}, "extra", "row 2: value inf is not finite"),
        ({**good, "value": [10**400, 1]}, "extra", "row 1: value 1329 bits long is not finite"),
        ({**good, "sample": ["a\x00", "b"]}, "extra", "row 1: sample 'a\\x00' has a character of no key"),
        ({**good, "sample": ["a\ud800", "b"]}, "extra", "row 1: sample 'a\\ud800' has a character of no key"),
        (
            {**good, "value": [None, 1], "status": ["no_audio", "ok"], "reason": ["\ud800", ""]},
            "extra",
            "row 1: reason '\\ud800' has a character that no database can store",
        ),
        ({**good, "value": [None, 1], "status": ["\x00", "ok"]}, "extra", "row 1: status '\\x00' cannot be given"),
        ({**good, "value": [True, False]}, "extra", "row 1: value True is not a number"),
        ({**good, "sample": [KEYS[0]] * 2}, "extra", f"rows 1 and 2 are both about sample '{KEYS[0]}'"),
        (gone, "extra", "row 2: dataset 'mine' has no sample 'gone': correct the row"),
        ({**good, "sample": ["a", "b"]}, "extra", "2 rows name samples that dataset 'mine' does not have, such as 'a'"),
        ({**good, "sample": [1, 2]}, "extra", "row 1: sample 1 is not text"),
        ({**good, "status": ["failed", "ok"]}, "extra", "row 1: status 'failed' comes with a value"),
        ({**good, "value": [None, 1.0], "status": ["stale", "ok"]}, "extra", "row 1: status 'stale' cannot be given"),
        (elsewhere, "extra", f"row 1: video 'clip_01' is not that of sample '{KEYS[0]}'"),
        (good, "vcs", "the name 'vcs' is already a metric or another column of view sample_scores"),
        (good, "words", "the name 'words' is already a metric or another column"),
        (good, "select", "the name 'select' is a reserved word of SQL"),
        (good, "video_id", "the name 'video_id' has another meaning in queries"),
        (good, "majority", "the name 'majority' has another meaning in queries"),
        (good, "My Metric", "metric name 'My Metric': write a lower-case letter, then 2 to 39"),
    ]:
        with pytest.raises(rs.ReelsieveError, match=r"^[^\n]*$") as error:
            # As objects, for the other kind of column takes no half of a pair.
            rs.import_scores(pd.DataFrame(columns, dtype=object), name, "mine")
        assert str(error.value).startswith(sentence)
    for source in ("\x00", "\ud800", " ", 5):
        with pytest.raises(rs.ReelsieveError, match=r"^source .*(is not plain text|has the character|give a text)"):
            rs.import_scores(pd.DataFrame(good), "extra", "mine", source=source)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(rs.ReelsieveError, match="did you mean 'mine'"):
        rs.import_scores(pd.DataFrame(good), "extra", "minee")
    with pytest.raises(rs.ReelsieveError, match=r"^builtins.list is not a table: give one of pandas"):
        rs.import_scores([1], "extra", "mine")
    assert answer("SELECT count(*) FROM score_history WHERE metric = 'extra'") == [(0,)]


def test_a_text_that_changes_during_an_import_makes_its_number_stale(imported: Installation) -> None:
    engine = get_installation().engine
    with engine.connect() as connection:
        find = sa.text("SELECT sample_id, text FROM sample WHERE key = :key")
        sample_id, text = connection.execute(find, {"key": KEYS[0]}).one()
    with ThreadPoolExecutor(1) as pool:
        with engine.begin() as connection:
            # The import reads scorers, and waits where it stores its own.
            connection.exec_driver_sql("LOCK TABLE scorer IN SHARE MODE")
            importing = pool.submit(rs.import_scores, table_of(2), "changing", "mine")
            wait_for_lock(engine, importing)
            change_text(engine, sample_id, "Another text.")
        importing.result()
    query = "SELECT key, status FROM current_score WHERE metric = 'changing' ORDER BY value NULLS FIRST"
    assert answer(query) == [(KEYS[0], "stale"), (KEYS[1], "ok")]
    change_text(engine, sample_id, text)
    assert {status for _, status in answer(query)} == {"ok"}


def drop_during_import(dropped: str, into: str, lock: str = "score IN EXCLUSIVE MODE") -> None:
    """Import 2 numbers of `racing`, and drop a dataset while the import waits at a table, by default to store them."""
    engine = get_installation().engine
    with ThreadPoolExecutor(1) as pool:
        with engine.begin() as connection:
            connection.exec_driver_sql(f"LOCK TABLE {lock}")
            importing = pool.submit(rs.import_scores, table_of(2), "racing", into)
            wait_for_lock(engine, importing)
            found = find_dataset(connection, dropped)
            assert found is not None
            delete_dataset(connection, found)
        importing.result()


def test_an_import_outlives_the_last_dataset_that_had_its_metric(other: str) -> None:
    rs.import_scores(table_of(3), "racing", other)
    drop_during_import(other, "mine")
    assert numbers_of("racing") == {"mine": 2}
    assert run_command("dataset", "drop", "mine", "--metric", "racing", "--yes").returncode == 0


def test_an_import_into_a_dataset_that_goes_is_refused(other: str) -> None:
    with pytest.raises(rs.ReelsieveError, match="dataset 'other' was dropped meanwhile"):
        # Before the import makes views: it would hold them, while it waits for a table that the drop has locked.
        drop_during_import(other, other, "scorer IN EXCLUSIVE MODE")


def test_a_name_is_free_from_the_moment_its_last_scores_are_dropped(other: str) -> None:
    rs.import_scores(table_of(3), "racing", other)
    # The import looks for its dataset before it asks whether the name is free; the views still have the column then.
    drop_during_import(other, "mine", "dataset IN ACCESS EXCLUSIVE MODE")
    assert numbers_of("racing") == {"mine": 2}
    assert run_command("dataset", "drop", "mine", "--metric", "racing", "--yes").returncode == 0


def test_a_metric_that_comes_while_views_are_made_has_its_column(imported: Installation) -> None:
    rs.import_scores(table_of(1), "leaving", "mine")
    engine = get_installation().engine
    with engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM scorer WHERE metric = 'leaving'")
    with ThreadPoolExecutor(1) as pool:
        with engine.begin() as connection:
            # The views are about to be made, of the metrics that there were.
            connection.exec_driver_sql("LOCK TABLE view_definition IN SHARE MODE")
            made = pool.submit(open_migrated_engine, get_installation().database_url)
            wait_for_lock(engine, made)
            register_scorer(connection, metric="coming", models={}, params={}, code_version=IMPORTED_VERSION)
        made.result().dispose()
    with engine.connect() as connection:  # on which nobody looks after the views
        columns = sa.text("SELECT column_name FROM dictionary WHERE column_name IN ('coming', 'leaving')")
        assert connection.scalars(columns).all() == ["coming"]
    assert run_command("dataset", "drop", "mine", "--metric", "coming", "--yes").returncode == 0
