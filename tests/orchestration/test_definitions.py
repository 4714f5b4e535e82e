"""The definitions at work on Dagster's real storage: materialisations, checks, schedule, sensor and clean-up."""

from __future__ import annotations

import base64
import json
import os
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import dagster as dg
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from dagster_postgres import PostgresEventLogStorage

from assets.definitions.partitions import build_range_tags, list_tagged_partitions
from assets.definitions.results import CheckFailed
from assets.metrics.registry import METRICS, SCORERS, list_scoring_assets
from assets.words.tables import escape_markdown
from db.manifest.datasets import Dataset, find_dataset
from db.scores.quality import count_shard_scores
from db.scores.store import find_active_scorer
from db.server.engine import open_engine
from db.server.urls import DAGSTER, build_sibling_url
from orchestration.definitions import defs
from orchestration.installation import PROJECT_FOLDER, get_installation
from orchestration.launch import run_calibration, run_conclusions, run_ingest, run_scoring, run_subset
from orchestration.retention import KEEP_DAYS
from orchestration.runs import get_definitions, run_job
from orchestration.schedules import score_missing
from orchestration.settings import get_settings
from tests.assets.manifests import Row, candidate, write_clip
from tests.assets.manifests import write_manifest as tables
from tests.command_line import run_command
from tests.orchestration.conftest import DIMENSIONS, Installation, write_manifest

pytestmark = pytest.mark.slow

DATASET = "tiny"
SHARDS = [f"{DATASET}:{shard:04d}" for shard in range(3)]
CHECKS = ("coverage", "in_range", "not_constant", "inputs_fresh")
INGESTED = ("video", "reference", "keypoint", "sample", "keypoint_label", "rating", "video_embedding", "ingest_reject")
# A run writes about this many events per asset whatever the number of samples and of shards.
FEW_EVENTS = 20
# Of a printed table: 97.5 % of Student's t with so many degrees of freedom.
T_975 = {1: 12.7062, 2: 4.3027, 3: 3.1824, 4: 2.7764, 5: 2.5706, 6: 2.4469, 7: 2.3646, 8: 2.3060, 9: 2.2622}
PICTURE = re.compile(r"!\[[^]]*\]\(data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)\)")


@pytest.fixture(scope="module", autouse=True)
def scored(installation: Installation) -> dict[str, dict[str, Any]]:
    """A small dataset that went through all jobs; the metadata of its conclusions."""
    run_ingest(get_installation(), installation.manifest, DATASET, None, len(SHARDS))
    done = dict(run_scoring(get_installation(), DATASET, METRICS))
    assert list(done) == SHARDS
    assert {metric: sum(written[metric] for written in done.values()) for metric in METRICS} == dict.fromkeys(
        METRICS, 36
    )
    run_calibration(get_installation(), DATASET, "f1", "all")
    recipe = {"by": "vcs", "keep": 0.125}
    return {**run_conclusions(get_installation(), DATASET), **run_subset(get_installation(), DATASET, recipe)}


def materialisation(asset: str, partition: str, storage: dg.DagsterInstance | None = None) -> dg.EventLogRecord:
    """The newest materialisation of an asset's partition."""
    wanted = dg.AssetRecordsFilter(asset_key=dg.AssetKey(asset), asset_partitions=[partition])
    records = (storage or get_installation().instance).fetch_materializations(wanted, limit=1).records
    assert records, f"{asset} of {partition} was never materialised"
    return records[0]


def metadata(asset: str, partition: str) -> dict[str, Any]:
    found = materialisation(asset, partition).asset_materialization
    assert found is not None
    return {name: value.value for name, value in found.metadata.items()}


def read_picture(markdown: str) -> ElementTree.Element:
    """The one picture inside a markdown text."""
    (encoded,) = PICTURE.findall(markdown)
    return ElementTree.fromstring(base64.b64decode(encoded, validate=True))


def unescaped(markdown: str, prefix: str) -> str:
    """The text of a line after this beginning."""
    return markdown.replace("\\", "").removeprefix(prefix)


def table_rows(markdown: str) -> list[list[str]]:
    lines = [line for line in markdown.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def execute(statement: str, **values: Any) -> None:
    with get_installation().engine.begin() as connection:
        connection.execute(sa.text(statement), values)


def unscore(sample: str) -> None:
    """Leave a sample without a score."""
    execute("DELETE FROM score USING sample WHERE score.sample_id = sample.sample_id AND key = :key", key=sample)


def pending_shards() -> set[str]:
    """Shards with a sample that no active scorer has scored, counted independently of the work list."""
    with get_installation().engine.connect() as connection:
        rows = connection.exec_driver_sql(
            "SELECT DISTINCT d.name, s.shard FROM sample s JOIN dataset d USING (dataset_id) WHERE sample_id NOT IN "
            "(SELECT sample_id FROM score JOIN scorer USING (scorer_id) WHERE scorer.status = 'active')"
        )
        return {f"{name}:{shard:04d}" for name, shard in rows}


# Storage


def test_a_materialised_asset_is_found_on_the_postgres_storage() -> None:
    with dg.DagsterInstance.get() as another:
        assert isinstance(another.event_log_storage, PostgresEventLogStorage)
        found = materialisation("vcs_score", SHARDS[0], another)
        run = another.get_run_by_id(found.run_id)
    assert run is not None
    assert (run.job_name, run.status) == ("scoring_job", dg.DagsterRunStatus.SUCCESS)
    assert list_tagged_partitions(run.tags, {key: place for place, key in enumerate(SHARDS)}) == SHARDS, (
        "one run for all"
    )


def test_every_asset_is_materialised_for_its_partitions() -> None:
    expected = {
        **{name: {DATASET} for name in INGESTED},
        **{name: set(SHARDS) for name in list_scoring_assets(METRICS)},
        **{
            name: {DATASET}
            for name in (
                "ecs_thresholds",
                "threshold",
                "rating_threshold",
                "training_subset",
                "agreement",
                "dataset_report",
            )
        },
    }
    assert {
        name: get_installation().instance.get_materialized_partitions(dg.AssetKey(name)) for name in expected
    } == expected


def test_the_report_stands_below_the_conclusions_that_it_reads() -> None:
    parents = defs().get_repository_def().asset_graph.get(dg.AssetKey("dataset_report")).parent_keys
    assert {dg.AssetKey("agreement"), dg.AssetKey("rating_threshold")} <= parents


def test_a_metric_is_scored_with_what_it_reads() -> None:
    assert list_scoring_assets(["vcs"]) == ["text_embedding", "vcs_score", "words_in_common_score", "cosine_score"]
    assert list_scoring_assets(["ecs"]) == ["text_embedding", "ecs_verdict", "ecs_score", "words_in_common_score"]
    assert list_scoring_assets(["evqa", "ecs"]) == [
        "text_embedding", "frame_embedding", "ecs_verdict", "evqa_score", "ecs_score", "words_in_common_score"
    ]  # fmt: skip
    graph = get_definitions().get_repository_def().asset_graph
    deps = {
        name: {key.to_user_string() for key in graph.get(dg.AssetKey(name)).parent_keys}
        for name in ("ecs_verdict", "ecs_score", "ecs_thresholds")
    }
    assert deps == {
        "ecs_verdict": {"text_embedding", "sample", "keypoint", "reference"},
        "ecs_score": {"ecs_verdict", "ecs_thresholds", "sample", "keypoint", "reference"},
        "ecs_thresholds": {"ecs_verdict", "keypoint_label"},
    }


def test_a_run_writes_few_events_and_no_picture() -> None:
    """Of a shard two for each asset, that it is to be made and that it was, and one for each check."""
    logs = get_installation().instance.all_logs(materialisation("vcs_score", SHARDS[0]).run_id)
    assets = list_scoring_assets(METRICS)
    checked = [
        key
        for key in get_definitions().get_repository_def().asset_graph.asset_check_keys
        if key.asset_key.path[-1] in assets
    ]
    assert len(logs) < FEW_EVENTS * len(assets) + (2 * len(assets) + len(checked)) * len(SHARDS)
    of_shard = [entry for entry in logs if entry.dagster_event and entry.dagster_event.partition == SHARDS[0]]
    assert len(of_shard) == 2 * len(assets)
    results = [
        entry for entry in logs if (found := entry.asset_check_evaluation) is not None and found.partition == SHARDS[0]
    ]
    assert len(results) == len(checked)
    assert sum(len(dg.serialize_value(entry)) for entry in of_shard) < 5_000 * len(assets)
    assert sum(len(dg.serialize_value(entry)) for entry in results) < 2_000 * len(checked)
    assert not any(PICTURE.search(dg.serialize_value(entry)) for entry in logs)


def test_nothing_is_written_beside_the_configuration(installation: Installation) -> None:
    litter = {"storage", "history", "schedules", "logs", ".logs_queue", ".telemetry", ".nux"}
    assert not litter & {path.name for path in PROJECT_FOLDER.iterdir()}
    assert (installation.home / "dagster").is_dir()


def test_finished_work_launches_nothing() -> None:
    before = get_installation().instance.get_runs_count()
    assert list(run_scoring(get_installation(), DATASET, METRICS)) == []
    assert get_installation().instance.get_runs_count() == before


# Metadata


def test_only_what_has_a_course_is_a_number() -> None:
    """Dagster draws a plot of every number, with one point for each time that the asset was made."""
    assets = get_installation().instance.all_asset_keys()
    made = [
        record.asset_materialization
        for asset in assets
        for record in get_installation().instance.fetch_materializations(asset, limit=100).records
    ]
    numbers = {
        name
        for each in made
        for name, value in (each.metadata if each else {}).items()
        if isinstance(value, dg.IntMetadataValue | dg.FloatMetadataValue)
    }
    assert numbers == {"dagster/row_count", "refused rows", "eligible", "cutoff"}


def test_people_see_the_tags_that_they_can_read() -> None:
    for asset, partition, job in (("vcs_score", SHARDS[0], "scoring_job"), ("threshold", DATASET, "dataset_job")):
        run = get_installation().instance.get_run_by_id(materialisation(asset, partition).run_id)
        assert run is not None
        assert run.job_name == job
        shown = {name: value for name, value in run.tags.items() if not name.startswith(".dagster/")}
        assert shown.pop("dataset") == DATASET
        ranges = {"dagster/partition", "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"}
        assert shown.keys() - ranges == {"dagster/max_retries"}


def test_ingest_metadata_counts_rows() -> None:
    n_rows = "dagster/row_count"
    assert metadata("video", DATASET) == {n_rows: 12, "videos new or changed": "12", "videos as before": "0"}
    assert metadata("reference", DATASET) == {n_rows: 24, "captions new or changed": "60", "captions as before": "0"}
    assert [metadata(name, DATASET)[n_rows] for name in ("sample", "keypoint", "keypoint_label")] == [36, 36, 108]
    assert metadata("ingest_reject", DATASET)["refused rows"] == 0


def test_score_metadata_holds_counts_spread_and_extremes() -> None:
    shards = [metadata("vcs_score", shard) for shard in SHARDS]
    assert sum(int(shard["scores written by this run"]) for shard in shards) == 36
    for shard in shards:
        # The caption of two sentences against references of four: of this shape nothing can be said.
        per_system = int(shard["scores written by this run"]) // 3
        summary, _, reason = shard["scores"].splitlines()
        captions = "1 caption has" if per_system == 1 else f"{per_system} captions have"
        assert summary == f"{2 * per_system} of {3 * per_system} captions have a score."
        assert reason.startswith(f"- {captions} none, too short: texts with so few chunks always score 0")
        header, *rows = table_rows(shard["best and worst captions"])
        assert header == ["sample", "system", "vcs", "text"]
        best, worst = (float(row[2]) for row in rows)
        assert best > worst
        assert rows[0][1] == "faithful"
        names, quantiles = table_rows(shard["distribution of captions"])
        assert (names[0], names[-1]) == ("lowest", "highest")
        assert (float(quantiles[0]), float(quantiles[-1])) == (worst, best)
        assert not PICTURE.search(str(shard)), "Dagster keeps this for every shard and every run"


def test_score_metadata_holds_the_mean_with_its_interval_over_videos() -> None:
    """By hand from the rows: the totals of videos about the mean, and Student's t from a printed table."""
    intervals = []
    for number, shard in enumerate(SHARDS):
        by_video = scores_by_video("vcs", number)
        n, g = sum(map(len, by_video)), len(by_video)
        mean = sum(map(sum, by_video)) / n
        said, _, interval = metadata("vcs_score", shard)["mean vcs of captions"].partition("; ")
        assert said == f"{mean:.3f} from {n} scores of {g} video{'s' if g > 1 else ''}"
        if g == 1:
            assert interval == "no interval: it takes at least 2 videos"
            continue
        squares = sum((sum(values) - mean * len(values)) ** 2 for values in by_video)
        half = T_975[g - 1] * (squares * g / (g - 1)) ** 0.5 / n
        assert interval == f"95 % interval {max(0.0, mean - half):.3f} to {min(1.0, mean + half):.3f} (cluster-robust)"
        intervals.append(interval)
    assert 0 < len(intervals) < len(SHARDS), "one shard has one video"


def scores_by_video(metric: str, shard: int) -> list[list[float]]:
    """The values of the metric's active scorer on a shard, by video."""
    with get_installation().engine.connect() as connection:
        rows = connection.execute(
            sa.text(
                "SELECT array_agg(value) FROM score JOIN scorer r USING (scorer_id) JOIN sample s USING (sample_id) "
                "JOIN dataset d USING (dataset_id) WHERE r.metric = :metric AND r.status = 'active' AND d.name = :name "
                "AND shard = :shard AND score.status = 'ok' GROUP BY video_id"
            ),
            {"metric": metric, "name": DATASET, "shard": shard},
        )
        return [list(values) for (values,) in rows]


def test_score_metadata_says_who_made_the_numbers() -> None:
    encoder = os.environ["REELSIEVE_TEXT_ENCODER"]
    said = metadata("vcs_score", SHARDS[0])["vcs made by"]
    splitter = rf"sentence splitter sentencex \(revision {version('sentencex')}\)"
    models = rf"text encoder {re.escape(encoder)} \(revision [0-9a-f]{{12}}\); {splitter}"
    assert re.fullmatch(rf"{models}; code version 3; scorer vcs@\d+", said), said
    assert "a stand-in: it only works on the demo" in metadata("evqa_score", SHARDS[0])["evqa made by"]
    assert "a stand-in: no model sees the video" in metadata("qeva_score", SHARDS[0])["qeva made by"]


def test_report_metadata_holds_every_metric_s_mean_on_the_data_set(scored: dict[str, dict[str, Any]]) -> None:
    found = scored["dataset_report"]
    by_video = [values for shard in range(len(SHARDS)) for values in scores_by_video("vcs", shard)]
    n = sum(map(len, by_video))
    mean = f"{sum(map(sum, by_video)) / n:.3f} from {n} scores of {len(by_video)} videos; 95 % interval "
    assert found["mean vcs of captions"].startswith(mean), found
    assert found["vcs made by"] == metadata("vcs_score", SHARDS[0])["vcs made by"]


def test_verdict_metadata_counts_keypoints_and_passes() -> None:
    """By the run that scored: three captions a video, of four, four and two sentences, with three keypoints."""
    wanted = [dg.AssetRecordsFilter(asset_key=dg.AssetKey("ecs_verdict"), asset_partitions=[shard]) for shard in SHARDS]
    oldest = [
        get_installation().instance.fetch_materializations(each, limit=99).records[-1].asset_materialization
        for each in wanted
    ]
    found: list[dict[str, Any]] = [
        {name: value.value for name, value in each.metadata.items()} for each in oldest if each
    ]
    assert found[1:] == found[:-1], "the counts are of the run, which every shard shows"
    assert found[0]["shards counted together"] == str(len(SHARDS))
    counts = dict(each.split(": ") for each in unescaped(found[0]["made by this run"], "- for ecs: ").split("; "))
    assert [counts[name] for name in ("captions", "keypoints", "passes")] == ["36", "108", "360"]
    assert 0 < int(counts["pairs judged"]) < 360
    assert counts["pairs truncated"] == "0"
    assert found[0]["models"].startswith(f"{os.environ['REELSIEVE_ECS_VERIFIER']} (revision ")


def test_calibration_metadata_holds_tables_and_scores_follow() -> None:
    found = metadata("ecs_thresholds", DATASET)
    header, *rows = table_rows(found["thresholds"])
    assert header[:2] == ["dimension", "threshold"]
    report = found["calibration"]
    assert (report["objective"], report["labels"], report["evaluation"]) == ("f1", "all", [])
    thresholds = {row["dimension"]: row["threshold"] for row in report["thresholds"]}
    assert [row[:2] for row in rows] == [[escape_markdown(name), f"{value:.3f}"] for name, value in thresholds.items()]
    (check,) = evaluations("ecs_thresholds", "better_than_always_yes")[:1]
    assert check.description == (
        "F1 was not measured: no video has labels besides those that the thresholds were chosen on."
    )
    assert set(thresholds) == set(DIMENSIONS)
    with get_installation().engine.connect() as connection:
        scored_at = connection.exec_driver_sql(
            "SELECT DISTINCT components->'thresholds' FROM score JOIN scorer USING (scorer_id) WHERE metric = 'ecs' "
            "AND scorer.status = 'active'"
        )
        assert list(scored_at.scalars()) == [thresholds]


def test_threshold_metadata_holds_cutoffs_and_plot(scored: dict[str, dict[str, Any]]) -> None:
    assert metadata("threshold", DATASET) == scored["threshold"]
    rows = table_rows(scored["threshold"]["thresholds of vcs of captions"])
    asked = {"50.00%": 12, "25.00%": 6, "12.50%": 3, "6.25%": 1}
    assert {row[0]: int(row[1]) for row in rows[1:]} == asked
    assert all(int(row[2]) >= int(row[1]) for row in rows[1:])
    picture = read_picture(scored["threshold"]["distribution of vcs of captions"])
    assert (picture.tag, picture.get("role")) == ("{http://www.w3.org/2000/svg}svg", "img")
    labels = ", ".join(each.text or "" for each in picture.iter("{http://www.w3.org/2000/svg}text"))
    assert {"0.5", "0.25", "0.125", "0.0625"} <= set(labels.split(", "))


def test_subset_and_report_lie_where_the_metadata_says(scored: dict[str, dict[str, Any]]) -> None:
    subset = scored["training_subset"]
    assert (subset["eligible"], subset["dagster/row_count"]) == (24, 3)
    assert subset["at the cut"] == "3 of the 3 taken share the cut's value; 9 more have it"
    assert pq.read_table(subset["path"]).num_rows == 3
    report = scored["dataset_report"]
    assert Path(report["path"]).read_text(encoding="utf-8").startswith("<!doctype html>")
    assert json.loads(Path(report["numbers"]).read_text(encoding="utf-8"))["dataset"] == DATASET
    # The page itself is no longer in the event log.
    assert all(len(str(value)) < 1000 for value in report.values()), "what is longer hides behind a button"
    assert "- next\\: " in report["answers"]


def test_agreement_has_a_table_and_a_plot_for_each_aspect(scored: dict[str, dict[str, Any]]) -> None:
    found = scored["agreement"]
    tables = {name.removeprefix("aspect: "): text for name, text in found.items() if name.startswith("aspect: ")}
    assert (len(tables) > 0, found["stale scores left out"]) == (True, "0")
    with get_installation().engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM agreement").scalar_one() == found["dagster/row_count"]
        assert set(connection.exec_driver_sql("SELECT DISTINCT aspect FROM agreement").scalars()) == set(tables)
    interval = "95 % interval over videos"
    for aspect, text in tables.items():
        assert table_rows(text)[0] == ["metric", "Kendall tau-b", interval, "samples"]
        assert len(text) < 1000, "what is longer hides behind a button"
        in_groups = found[f"groups of {aspect}"]
        header = ["metric", "over", "Kendall tau-b", interval, "samples", "stale, left out"]
        assert table_rows(in_groups)[0] == header


# Checks


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_has_one_result_for_each_shard_of_the_run(name: str) -> None:
    run_id = materialisation("vcs_score", SHARDS[0]).run_id
    found = {each.partition: each for each in evaluations("vcs_score", name, run_id)}
    assert set(found) == set(SHARDS)
    with get_installation().engine.connect() as connection:
        rows = connection.exec_driver_sql(
            "SELECT shard, count(*) FROM sample JOIN dataset USING (dataset_id) WHERE name = 'tiny' "
            "AND kind = 'caption' GROUP BY 1"
        )
        counts = dict(map(tuple, rows))
    for number, shard in enumerate(SHARDS):
        each = found[shard]
        severity = dg.AssetCheckSeverity.WARN if name == "not_constant" else dg.AssetCheckSeverity.ERROR
        assert (each.passed, each.blocking, each.severity, dict(each.metadata)) == (True, True, severity, {})
        values = [value for of_video in scores_by_video("vcs", number) for value in of_video]
        n, n_ok = counts[number], len(values)
        extremes = f"the lowest is {min(values):.3f}, the highest {max(values):.3f}"
        assert (
            each.description
            == {
                "coverage": f"{n_ok} of {n} captions have a score, and {n - n_ok} cannot have one for a known reason.",
                "in_range": f"All {n_ok} scores lie between 0 and 1: {extremes}.",
                "not_constant": "Too few scores to check: fewer than 20.",
                "inputs_fresh": f"None of {n} captions was scored before its text or reference changed.",
            }[name]
        )


@pytest.mark.parametrize(("asset", "name"), [("vcs_score", "coverage"), ("ecs_verdict", "verdicts_present")])
def test_the_web_interface_has_the_status_of_every_shard(asset: str, name: str) -> None:
    """Dagster drops a status whose result does not name the newest materialisation of its partition."""
    key = dg.AssetCheckKey(dg.AssetKey(asset), name)
    storage = get_installation().instance.event_log_storage
    found = storage.get_asset_check_partition_info([key], partition_keys=SHARDS)
    assert {
        each.partition_key: (each.latest_execution_status.value, each.is_current) for each in found
    } == dict.fromkeys(SHARDS, ("SUCCEEDED", True))


def test_a_whole_dataset_is_counted_as_its_shards_are() -> None:
    """For the checks of an asset without partitions."""
    with get_installation().engine.connect() as connection:
        scorer_id, dataset = find_active_scorer(connection, "vcs"), find_dataset(connection, DATASET)
        assert dataset is not None
        whole, *parts = (
            count_shard_scores(connection, scorer_id, dataset.dataset_id, shard) for shard in (None, 0, 1, 2)
        )
    for name in ("n_samples", "n_ok", "n_unscored"):
        assert getattr(whole, name) == sum(getattr(part, name) for part in parts)
    assert whole.minimum == min(part.minimum for part in parts if part.minimum is not None)


def evaluations(asset: str, check: str, run_id: str | None = None) -> list[dg.AssetCheckEvaluation]:
    """The results of a check, newest first; of one run where it is named."""
    key = dg.AssetCheckKey(dg.AssetKey(asset), check)
    history = get_installation().instance.event_log_storage.get_asset_check_execution_history(key, limit=20)
    return [record.evaluation for record in history if record.evaluation and run_id in (None, record.run_id)]


def test_the_check_of_verdicts_sees_one_that_is_missing() -> None:
    def check(shard: str) -> dg.AssetCheckEvaluation:
        # The check alone, since the asset would mend what it looks for.
        step = ["ecs_verdict_checks"]
        job = get_definitions().resolve_job_def("scoring_job")
        done = job.execute_in_process(
            instance=get_installation().instance, partition_key=shard, op_selection=step, raise_on_error=False
        )
        (evaluation,) = done.get_asset_check_evaluations()
        return evaluation

    with get_installation().engine.connect() as connection:
        shard = connection.exec_driver_sql("SELECT shard FROM sample WHERE key = 'clip_05_brief_0'").scalar_one()
    execute(
        "DELETE FROM verdict_set USING sample s WHERE verdict_set.sample_id = s.sample_id AND key = 'clip_05_brief_0'"
    )
    found = check(SHARDS[shard])
    assert (found.passed, found.blocking) == (False, True)
    assert {name: value.value for name, value in found.metadata.items()} == {"for ecs": "missing: 1"}
    holds = "Every keypoint of every caption has a verdict, or the caption a reason why it has none"
    assert found.description == f"Not true: {holds}, in shard {SHARDS[shard]}."
    other = check(SHARDS[(shard + 1) % 3])
    assert (other.passed, other.description) == (True, f"{holds}.")
    run_job(get_installation(), "scoring_job", SHARDS[shard], {}, list_scoring_assets(["ecs"]))
    assert check(SHARDS[shard]).passed


def test_one_shard_that_fails_does_not_keep_the_next_from_being_scored(installation: Installation) -> None:
    """The file of the first shard's video is gone: its sample fails, which the check says; the other one is scored.

    The folder is the demo's, since the demo's encoder knows no other dataset.
    """
    folder = installation.home / "demo"
    (folder / "videos").mkdir(parents=True)
    names: dict[int, str] = {}
    for name in (f"noise {i}" for i in range(9)):
        names.setdefault(Dataset(0, "demo", 2).compute_shard(name), name)
    for name in names.values():
        write_clip(folder / "videos" / f"{name}.avi")
    videos: list[str | Row] = [{"video_id": name, "path": f"videos/{name}.avi"} for name in names.values()]
    captions = [candidate(f"told of {name}", name, "A red ball rolls.") for name in names.values()]
    run_ingest(get_installation(), tables(folder, videos, captions=captions), "demo", None, 2)
    (folder / "videos" / f"{names[0]}.avi").unlink()

    done = run_command("score", "--dataset", "demo", "--metric", "evqa", "--json")

    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    said = " ".join(done.stderr.split())
    assert f"1 sample failed with evqa, the first is 'told of {names[0]}': " in said
    assert "no such file" in said
    assert "error: a blocking check failed" in done.stderr
    with get_installation().engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT video, evqa_status FROM sample_scores WHERE dataset = 'demo'")
        assert dict(map(tuple, rows)) == {names[0]: "failed", names[1]: "ok"}
    # The next command tries the failed shard again, and it alone.
    with pytest.raises(CheckFailed, match="coverage"):
        list(run_scoring(get_installation(), "demo", ["evqa"]))
    failed = ("demo:0000", False, "The one caption failed, in shard demo:0000.")
    found = [(each.partition, each.passed, each.description) for each in evaluations("evqa_score", "coverage")[:3]]
    assert found[0] == failed
    assert sorted(found[1:]) == [failed, ("demo:0001", True, "The one caption has a score.")]
    execute("DELETE FROM dataset WHERE name = 'demo'")


def test_a_failing_check_ends_the_command_line_with_a_sentence(tmp_path: Path) -> None:
    run_ingest(get_installation(), write_manifest(tmp_path, n_videos=2, prefix="broken"), "broken", None, 1)
    list(run_scoring(get_installation(), "broken", ["vcs"]))
    execute(
        "UPDATE score SET value = 1.5 FROM sample s WHERE score.sample_id = s.sample_id AND key = :key",
        key="broken_00_faithful_0",
    )
    unscore("broken_01_brief_0")

    done = run_command("score", "--dataset", "broken")

    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    sentence = done.stderr.strip().splitlines()[-1]
    assert sentence.startswith("error: a blocking check failed")
    assert "in_range" in sentence
    assert pending_shards() == set(), "the scores of the run are kept"
    newest = evaluations("vcs_score", "in_range")[0]
    assert (newest.passed, newest.description) == (
        False,
        "Scores lie outside 0 to 1 (the lowest is 0.991, the highest 1.500), in shard broken:0000.",
    )
    execute("UPDATE score SET value = 0 WHERE value > 1")
    assert run_command("score", "--dataset", "broken").returncode == 0


# Schedule


def test_score_missing_asks_for_the_shards_with_work(tmp_path: Path) -> None:
    assert tick_of_schedule() == (set(), "every sample of every dataset is scored")

    run_ingest(get_installation(), write_manifest(tmp_path, n_videos=2, prefix="late"), "late", None, 10)
    unscore("clip_05_brief_0")
    expected = pending_shards()
    assert {key.partition(":")[0] for key in expected} == {DATASET, "late"}
    asked, _ = tick_of_schedule()
    assert expected <= asked
    ends = {dataset: sorted(key for key in expected if key.startswith(dataset)) for dataset in (DATASET, "late")}
    assert all(ends[key.partition(":")[0]][0] <= key <= ends[key.partition(":")[0]][-1] for key in asked)

    # While a run over some of them has not ended, no other run is asked for on their dataset.
    first = sorted(expected)[0]
    run = get_installation().instance.create_run_for_job(
        get_definitions().resolve_job_def("scoring_job"), tags=build_range_tags(first, first)
    )
    asked, _ = tick_of_schedule()
    assert {key.partition(":")[0] for key in asked} == {DATASET}
    get_installation().instance.report_run_canceled(run)

    list(run_scoring(get_installation(), "late", METRICS))
    list(run_scoring(get_installation(), DATASET, METRICS))
    assert tick_of_schedule() == (set(), "every sample of every dataset is scored")
    execute("DELETE FROM dataset WHERE name = 'late'")


def tick_of_schedule() -> tuple[set[str], str | None]:
    """The partitions that the schedule asks for, and the reason when it asks for none."""
    known = get_definitions().get_repository_def()
    with (
        dg.build_schedule_context(
            get_installation().instance, resources={"curation": get_installation().curation}, repository_def=known
        ) as context,
        dg.partition_loading_context(dynamic_partitions_store=get_installation().instance),
    ):
        tick = score_missing.evaluate_tick(context)
    requests = tick.run_requests or []
    assert len({request.run_key for request in requests}) == len(requests), "Dagster wants a key for each run of a tick"
    places = {key: place for place, key in enumerate(get_installation().instance.get_dynamic_partitions("shard"))}
    keys = [key for request in requests for key in list_tagged_partitions(request.tags, places)]
    assert len(keys) == len(set(keys))
    return set(keys), tick.skip_message


# Clean-up


def test_prune_deletes_old_runs_but_the_last_to_materialise(installation: Installation) -> None:
    ingests = []
    for _ in range(3):
        run_ingest(get_installation(), installation.manifest, DATASET, None, None)
        ingests.append(materialisation("video", DATASET).run_id)
    recent = {ingests[1]}
    make_old({run.run_id for run in get_installation().instance.get_runs()} - recent)
    shards = get_installation().instance.get_materialized_partitions(dg.AssetKey("vcs_score"))

    done = get_definitions().resolve_job_def("prune_job").execute_in_process(instance=get_installation().instance)

    assert done.success
    left = {run.run_id for run in get_installation().instance.get_runs()}
    assert ingests[0] not in left, "old, and a later run materialised the same"
    assert ingests[1] in left, "superseded, but not old"
    assert ingests[2] in left, "old, but what it made is the newest"
    assert get_installation().instance.get_materialized_partitions(dg.AssetKey("vcs_score")) == shards
    assert list(run_scoring(get_installation(), DATASET, METRICS)) == []


def make_old(run_ids: set[str]) -> None:
    """Date runs back to just before the clean-up's limit."""
    storage = open_engine(build_sibling_url(get_installation().database_url, DAGSTER))
    age = f"{KEEP_DAYS} days 1 hour"
    with storage.begin() as connection:
        update = "UPDATE runs SET create_timestamp = create_timestamp - CAST(:age AS interval) WHERE run_id = ANY(:ids)"
        assert connection.execute(sa.text(update), {"age": age, "ids": list(run_ids)}).rowcount == len(run_ids)
    storage.dispose()


def test_assets_of_tables_show_the_columns_and_comments_of_postgres() -> None:
    shown = {}
    for spec in get_definitions().resolve_all_asset_specs():
        if schema := spec.metadata.get("dagster/column_schema"):
            columns = [(each.name, each.description, each.constraints.nullable) for each in schema.columns]
            shown[spec.metadata["dagster/table_name"].removeprefix("public.")] = columns
            assert spec.kinds >= {"postgres"}
    assert {*shown} >= {*INGESTED, "score", "score_threshold", "keypoint_threshold", "selection_item", "agreement"}
    query = sa.text(
        "SELECT attname, col_description(attrelid, attnum), NOT attnotnull FROM pg_attribute "
        "WHERE attrelid = CAST(:name AS regclass) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
    )
    with get_installation().engine.connect() as connection:
        stored = {name: [tuple(row) for row in connection.execute(query, {"name": name})] for name in shown}
    assert {name: sorted(columns) for name, columns in shown.items()} == {
        name: sorted(columns) for name, columns in stored.items()
    }


@pytest.mark.parametrize("metric", SCORERS)
def test_scores_have_the_lineage_of_their_column(metric: str) -> None:
    """On every shard: Dagster's interface reads the newest event of an asset, whose shard is any."""
    asset = dg.AssetKey(f"{metric}_score")
    lineage, *others = [metadata(asset.to_user_string(), key)["dagster/column_lineage"] for key in SHARDS]
    assert others == [lineage] * (len(SHARDS) - 1)
    specs = {spec.key: spec for spec in get_definitions().resolve_all_asset_specs()}
    columns = {
        key: {column.name for column in spec.metadata["dagster/column_schema"].columns}
        for key, spec in specs.items()
        if "dagster/column_schema" in spec.metadata
    }
    (read,) = lineage.deps_by_column.values()
    assert {*lineage.deps_by_column} <= columns[asset]
    assert [dep for dep in read if dep.column_name not in columns[dep.asset_key]] == []
    assert {dep.asset_key for dep in read} == {dep.asset_key for dep in specs[asset].deps}


def test_the_owners_of_the_settings_own_every_asset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REELSIEVE_OWNERS", '["team:data", "ada@example.org"]')
    get_settings.cache_clear()
    try:
        assert {tuple(spec.owners) for spec in defs().resolve_all_asset_specs()} == {("team:data", "ada@example.org")}
    finally:
        get_settings.cache_clear()


def test_a_report_has_an_age_at_which_it_is_no_longer_fresh() -> None:
    """A subset has none: it is made when somebody says how much to take."""
    aging = {spec.key.to_user_string() for spec in get_definitions().resolve_all_asset_specs() if spec.freshness_policy}
    assert aging == {"dataset_report"}
