"""Checklists on the command line: score, explain, calibrate; a tiny random verifier, a small dataset."""

from __future__ import annotations

import json
import os
from typing import Any

import dagster as dg
import pytest

from metrics_core.calibration import compute_split_position
from orchestration.installation import get_installation
from tests.command_line import Done, run_command
from tests.metrics_core.chat_server import Answer, complaint, completion, loopback
from tests.orchestration.conftest import DIMENSIONS, Installation, write_manifest

pytestmark = pytest.mark.slow

CAPTION = "clip_02_faithful_0"
N_CAPTIONS, N_LABELS = 36, 108
# Four sentences of two captions and two of the third, three keypoints: all of a video, with 8 sentences a keypoint.
N_PASSES = 12 * 3 * (4 + 4 + 2)


def read_json(done: Done) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def count(query: str) -> int:
    with get_installation().engine.connect() as connection:
        return int(connection.exec_driver_sql(f"SELECT count(*) FROM {query}").scalar() or 0)


def explained() -> Any:
    (found,) = read_json(run_command("explain", CAPTION, "-d", "tiny", "--metric", "ecs", "--json"))
    return found


def scores() -> dict[str, float]:
    rows = read_json(run_command("dataset", "scores", "-d", "tiny", "--json"))
    assert {row["ecs_status"] for row in rows} == {"ok"}
    return {row["sample"]: row["ecs"] for row in rows}


def n_covered(found: Any) -> int:
    """How many keypoints `explain` calls covered."""
    return sum(row["covered"] == "yes" for row in found["explanation"]["rows"])


def newest_report() -> Any:
    """What the last calibration found."""
    wanted = dg.AssetRecordsFilter(asset_key=dg.AssetKey("ecs_thresholds"), asset_partitions=["tiny"])
    found = get_installation().instance.fetch_materializations(wanted, limit=1).records[0].asset_materialization
    assert found is not None
    report: Any = found.metadata["calibration"].value
    return report


def newest_check() -> tuple[bool, dg.AssetCheckSeverity]:
    """Whether the last thresholds are better than always saying yes, and how grave it is if not."""
    key = dg.AssetCheckKey(dg.AssetKey("ecs_thresholds"), "better_than_always_yes")
    (newest,) = get_installation().instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
    assert newest.evaluation is not None
    return newest.evaluation.passed, newest.evaluation.severity


@pytest.fixture(scope="module")
def story(installation: Installation) -> dict[str, Any]:
    """What commands answer one after the other, with the state of the database in between."""
    found: dict[str, Any] = {}

    def keep(name: str, *arguments: str) -> None:
        found[name] = run_command(*arguments, "-d", "tiny", "--json")

    keep("ingest", "ingest", str(installation.manifest))
    keep("too early", "explain", CAPTION)
    keep("score", "score", "--metric", "ecs")
    found["judged"] = count("entailment")
    found["scores"] = scores()
    keep("again", "score", "--metric", "ecs")
    found["before"] = explained()
    keep("calibrate", "calibrate", "--labels", "all", "--objective", "coverage")
    found["judged by calibrate"] = count("entailment") - found["judged"]
    found["after"] = explained()
    return found


# score


def test_score_judges_every_pair_once_and_then_has_nothing_to_do(story: dict[str, Any]) -> None:
    shards = read_json(story["score"])["shards"]
    assert [(shard["shard"], shard["ecs"]) for shard in shards] == [("tiny:0000", N_CAPTIONS)]
    assert 0 < story["judged"] < N_PASSES
    assert len(story["scores"]) == N_CAPTIONS
    assert read_json(story["again"])["shards"] == []


# explain


def test_explain_says_why(story: dict[str, Any]) -> None:
    found = story["before"]
    assert (found["metric"], found["sample"], found["system"]) == ("ecs", CAPTION, "faithful")
    assert (found["status"], found["error"]) == ("ok", None)
    verdicts = found["explanation"]["rows"]
    keypoints = [tuple(row["keypoint"].split(": ")) for row in verdicts]
    assert [dimension for dimension, _ in keypoints] == list(DIMENSIONS)
    assert [found["text"].index(text) for _, text in keypoints] == sorted(found["text"].index(t) for _, t in keypoints)
    covered = n_covered(found)
    assert found["value"] == pytest.approx(covered / 3) == story["scores"][CAPTION]
    assert found["explanation"]["lines"] == [f"{covered} of 3 keypoints covered; mode flat_micro"]
    for row in verdicts:
        assert (row["covered"] == "yes") == (row["p"] >= row["from"])
        assert (row["from"], row["label"]) == (0.5, "yes")
        assert row["why"].removeprefix("nearest: ") in found["text"]


def test_explain_prints_a_row_for_each_keypoint(story: dict[str, Any]) -> None:
    done = run_command("explain", CAPTION, "-d", "tiny", "--metric", "ecs")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    found = story["after"]
    assert f"{CAPTION} by faithful" in text
    assert f"ecs {found['value']:.4f} ({', '.join(found['models'])})" in text
    assert f"{n_covered(found)} of 3 keypoints covered; mode flat_micro" in text
    for row in found["explanation"]["rows"]:
        assert f"{row['covered']} {row['p']:.4f} {row['from']:.4f} yes" in text
    for dimension in DIMENSIONS:
        assert dimension in text


# calibrate


def test_calibrate_chooses_thresholds_that_are_in_force_at_once(story: dict[str, Any]) -> None:
    found = read_json(story["calibrate"])
    assert (found["dataset"], found["objective"], found["labels"]) == ("tiny", "coverage", "all")
    rows = {row["dimension"]: row for row in found["thresholds"]}
    assert {name: (row["labels"], row["positive"], row["pooled"]) for name, row in rows.items()} == {
        "segment_detail": (72, 60, False),
        "shooting_style": (36, 24, False),
    }
    assert found["evaluation"] == []
    # The verifier was asked nothing, and the scores have changed.
    assert story["judged by calibrate"] == 0
    after = story["after"]["explanation"]["rows"]
    assert {row["keypoint"].partition(":")[0]: row["from"] for row in after} == {
        name: row["threshold"] for name, row in rows.items()
    }
    before = story["before"]["explanation"]["rows"]
    assert [row["p"] for row in after] == [row["p"] for row in before]
    assert story["after"]["value"] == pytest.approx(n_covered(story["after"]) / 3)
    calibrated = f"s.key = '{CAPTION}' AND c.components->'calibrated' = '{json.dumps(sorted(rows))}'"
    assert count(f"score c JOIN sample s USING (sample_id) WHERE {calibrated}") == 1
    assert len(scores()) == N_CAPTIONS


def test_calibrate_prints_tables_and_warns(story: dict[str, Any]) -> None:
    """On the labels of a fifth of the videos, of which there are two: too few for one of the dimensions."""
    chosen_on = [i for i in range(12) if compute_split_position(f"clip_{i:02d}") < 0.2]
    assert chosen_on == [2, 6]
    done = run_command("calibrate", "-d", "tiny")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "thresholds for the best f1, with their 95 % intervals" in text
    assert "agreement with the labels of the other videos" in text
    said = " ".join(done.stderr.split())
    assert "segment_detail: The threshold of all dimensions together applies, because the dimension has 12" in said
    report = newest_report()
    for row in report["thresholds"]:
        assert f"{row['f1']:.4f} {row['low']:.3f} – {row['high']:.3f} all" in text
    total = report["evaluation"][-1]
    assert (total["dimension"], total["labels"], total["positive"]) == ("all dimensions", 90, 70)
    assert f"all dimensions 90 {total['accuracy']:.4f} {total['majority']:.4f} {total['f1']:.4f}" in text
    assert "the scores of tiny use these thresholds now" in text
    # A verifier that is no better than always saying yes gets a warning, and its thresholds are in force all the same.
    assert newest_check() == (total["f1"] > total["all_positive_f1"], dg.AssetCheckSeverity.WARN)
    # Where no labels are left, a sentence stands in the place of the table.
    done = run_command("calibrate", "-d", "tiny", "--labels", "all")
    text = " ".join(done.stdout.split())
    assert "how good the thresholds are was not measured" in text
    assert "majority" not in text
    assert newest_check()[0]


def test_calibrate_on_labels_of_a_judge(story: dict[str, Any]) -> None:
    """A judge behind a server, which calls the first keypoint of a caption covered and no other."""

    def judge(number: int, body: dict[str, Any]) -> Answer:
        if number == 0:
            return complaint(403, "not you")
        n = body["messages"][-1]["content"].partition("Facts:")[2].partition("\n\n")[0].count("\n")
        labels = [{"keypoint": i + 1, "covered": i == 0, "sentence": int(i == 0)} for i in range(n)]
        return completion(json.dumps({"labels": labels}))

    with loopback(judge) as server:
        variables = {
            "REELSIEVE_ECS_JUDGE_MODEL": "tiny",
            "REELSIEVE_ECS_JUDGE_URL": server.url,
            "REELSIEVE_CHAT_CONCURRENCY": "1",
        }
        few = run_command("calibrate", "-d", "tiny", "--judge", "--limit", "5", "--labels", "all", **variables)
        asked_first = len(server.asked)
        done = run_command("calibrate", "-d", "tiny", "--judge", "--labels", "all", "--json", **variables)
        assert (asked_first, len(server.asked)) == (5, 5 + N_CAPTIONS - 4)
    text, said = (" ".join(shown.split()) for shown in (few.stdout, few.stderr))
    assert few.returncode == 0, few.stderr
    assert "on labels of judge:tiny, not of people; 4 of 5 captions judged by this run; 1 without labels" in text
    assert "1 caption has no labels of the judge; reason of the first: clip_" in said
    assert "the server answered 403: not you" in said
    found = read_json(done)
    assert (found["labels_of"], found["judged"]["captions"], found["judged"]["failed"]) == ("judge:tiny", N_CAPTIONS, 0)
    assert sum(row["labels"] for row in found["thresholds"]) == N_LABELS
    assert sum(row["positive"] for row in found["thresholds"]) == N_CAPTIONS
    assert count("keypoint_label WHERE source = 'judge:tiny'") == N_LABELS
    of_judge = "keypoint_threshold WHERE shard IS NULL AND details->>'labels' = 'judge:tiny'"
    assert count(of_judge) == len(set(DIMENSIONS))
    # The labels of the manifest are as they were, and count again without --judge.
    assert count("keypoint_label WHERE source = 'manifest'") == N_LABELS
    assert read_json(run_command("calibrate", "-d", "tiny", "--labels", "all", "--json"))["labels_of"] == "manifest"


# Mistakes


def test_a_mistake_gets_one_sentence(story: dict[str, Any], tmp_path: Any) -> None:
    assert story["too early"].returncode == 1
    assert story["too early"].stderr.strip() == (
        f"error: '{CAPTION}' has no score yet: run reelsieve score --dataset tiny"
    )
    bare = write_manifest(tmp_path, n_videos=1, prefix="bare")
    (bare / "keypoint_labels.jsonl").unlink()
    assert run_command("ingest", str(bare), "-d", "bare").returncode == 0
    for arguments, says in (
        (
            ["explain", "nobody", "-d", "tiny"],
            "dataset tiny has no sample 'nobody': reelsieve dataset scores tiny lists the",
        ),
        (["explain", CAPTION, "-d", "nowhere"], "there is no dataset 'nowhere'"),
        (["calibrate", "-d", "nowhere"], "there is no dataset 'nowhere'"),
        (["calibrate", "-d", "bare"], "bare has no keypoint with both a label and a verdict: ingest keypoint_labels"),
        (["calibrate", "-d", "bare", "--judge"], "there is no judge of keypoints: name a chat model in REELSIEVE_ECS"),
    ):
        done = run_command(*arguments)
        assert done.returncode == 1
        sentence = done.stderr.strip().splitlines()[-1]
        assert sentence.startswith(f"error: {says}")
        assert "Traceback" not in done.stderr


def test_a_limit_needs_a_judge(story: dict[str, Any]) -> None:
    done = run_command("calibrate", "-d", "tiny", "--limit", "3")
    assert (done.returncode, done.stderr.strip()) == (
        2,
        "error: --limit is for the captions that the judge labels: add --judge, or leave --limit out",
    )


# doctor


def test_doctor_names_the_verifier_in_use(story: dict[str, Any]) -> None:
    findings = {finding["what"]: finding for finding in json.loads(run_command("doctor", "--json").stdout)}
    verifier = findings[f"ecs_verdict: {os.environ['REELSIEVE_ECS_VERIFIER']}"]
    assert verifier["ok"]
    assert "revision sha256:" in verifier["detail"]
    assert "P(entailment) of one pair is" in verifier["detail"]
