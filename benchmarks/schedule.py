"""What many small shards cost on the platform: `python -m benchmarks.schedule`, some minutes on two cores.

Shards of eight captions are scored with all metrics by small random models that are loaded already, so that the time is
that of the platform: work lists, texts, vectors, events, checks. Three ways are compared on the same rows: a run for
each shard, runs over ranges of 32 shards, and one run for the whole dataset. Beside the time stands the processor time
of this process, which other load on the machine does not stretch, and what a shard leaves in Dagster's event log.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from benchmarks.installation import installation, write_rows
from benchmarks.measure import RESULTS, save

DATASET = "small"
CAPTIONS = 8
WARM_UP = 8
SECONDS_WANTED, KB_WANTED = 240, 220
SENTENCES = ("A man opens a red door.", "He crosses the wet street.", "Then number {} lifts a box.", "A dog sleeps.")
_EVENTS = """
SELECT count(*), coalesce(sum(length(event)), 0), count(*) FILTER (WHERE event LIKE '%image/svg%')
FROM event_logs WHERE run_id = ANY(:run_ids)
"""
_MADE = ("score", "past_score", "verdict_set", "entailment", "text_embedding", "frame_set", "qeva_question_set")
_CHECKS = "SELECT coalesce(sum(length(evaluation_event)), 0) FROM asset_check_executions WHERE run_id = ANY(:run_ids)"


def write_manifest(folder: Path, n_shards: int) -> None:
    """One video for each shard, each with two references, eight candidates and two keypoints."""
    from db.manifest.datasets import Dataset

    keys: dict[int, str] = {}
    number = 0
    while len(keys) < n_shards:
        keys.setdefault(Dataset(0, DATASET, n_shards).compute_shard(f"clip {number}"), f"clip {number}")
        number += 1
    captions = [row for key in keys.values() for row in _captions(key)]
    points = [
        {"keypoint_id": f"{key} {place}", "video_id": key, "dimension": "segment_detail", "text": SENTENCES[place]}
        for key in keys.values()
        for place in range(2)
    ]
    tables = {"videos": [{"video_id": key} for key in keys.values()], "captions": captions, "keypoints": points}
    for name, rows in tables.items():
        write_rows(folder / f"{name}.jsonl", rows)


def _captions(video: str) -> Iterator[dict[str, Any]]:
    for number in range(CAPTIONS + 2):
        sentences = [SENTENCES[(place + number) % 4].format(number) for place in range(4)]
        is_reference = number >= CAPTIONS
        yield {
            "caption_id": f"{video} {number}",
            "video_id": video,
            "role": "reference" if is_reference else "candidate",
            "system": f"{'annotator' if is_reference else 'system'} {number}",
            "text": f"In {video}: " + " ".join(sentences),
        }


def scored_in_runs(n_shards: int, shards_per_run: int) -> dict[str, Any]:
    """Score everything anew in runs over so many shards; times and events for each shard."""
    from assets.metrics.registry import METRICS, list_scoring_assets
    from orchestration.installation import get_installation
    from orchestration.runs import run_job

    keys = [f"{DATASET}:{shard:04d}" for shard in range(n_shards)]
    _forget()
    run_ids = []
    started, worked = time.perf_counter(), time.process_time()
    for place in range(0, n_shards, shards_per_run):
        last = keys[min(place + shards_per_run, n_shards) - 1]
        result = run_job(get_installation(), "scoring_job", keys[place], {}, list_scoring_assets(METRICS), last)
        run_ids.append(result.run_id)
    seconds, processor = time.perf_counter() - started, time.process_time() - worked
    n_events, n_bytes, pictures = _events(run_ids)
    found = {
        "shards": n_shards,
        "shards_per_run": shards_per_run,
        "seconds": seconds,
        "processor_s": processor,
        "kb_per_shard": n_bytes / n_shards / 1024,
        "events_per_shard": n_events / n_shards,
        "events_with_pictures": pictures,
        "load_average": os.getloadavg()[0],
    }
    print("  ".join(f"{name} {value:.4g}" for name, value in found.items()), flush=True)
    return found


def _forget() -> None:
    """No scores and no evidence, but the models stay in memory."""
    from orchestration.installation import get_installation

    with get_installation().engine.begin() as connection:
        for table in _MADE:
            connection.exec_driver_sql(f"TRUNCATE {table} CASCADE")


def _events(run_ids: list[str]) -> tuple[int, int, int]:
    """The events of the runs, their bytes with those of the checks' table, and how many hold a picture."""
    import sqlalchemy as sa

    from db.server.engine import open_engine
    from db.server.urls import DAGSTER, build_sibling_url
    from orchestration.installation import get_installation

    storage = open_engine(build_sibling_url(get_installation().database_url, DAGSTER))
    with storage.connect() as connection:
        n_events, n_bytes, pictures = connection.execute(sa.text(_EVENTS), {"run_ids": run_ids}).one()
        n_bytes += connection.scalar(sa.text(_CHECKS), {"run_ids": run_ids})
    storage.dispose()
    return n_events, n_bytes, pictures


def measured(folder: Path, n_shards: int, n_single: int) -> list[dict[str, Any]]:
    """The three ways on one installation; the first run of all only loads the models."""
    from tests.orchestration.conftest import save_text_encoder, save_verifier

    for name in ("manifest", "encoder", "verifier"):
        (folder / name).mkdir()
    os.environ["REELSIEVE_TEXT_ENCODER"] = str(save_text_encoder(folder / "encoder"))
    os.environ["REELSIEVE_ECS_VERIFIER"] = str(save_verifier(folder / "verifier"))
    write_manifest(folder / "manifest", n_shards)
    with installation(folder / "home"):
        from orchestration.installation import get_installation
        from orchestration.launch import run_ingest

        run_ingest(get_installation(), folder / "manifest", DATASET, None, n_shards)
        scored_in_runs(min(WARM_UP, n_shards), WARM_UP)
        ways = [(min(n_single, n_shards), 1), (n_shards, 32), (n_shards, n_shards)]
        return [scored_in_runs(*way) for way in ways]


def main(shards: int = 256, single: int = 16) -> None:
    """Measure with so many shards, and a run for each of so many, and write results/schedule.json."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o711)
        ways = measured(Path(name), shards, single)
    wanted = {"seconds": SECONDS_WANTED, "kb_per_shard": KB_WANTED}
    print(f"wanted: {wanted}\nwritten to {save(RESULTS / 'schedule.json', {'ways': ways, 'wanted': wanted})}")


if __name__ == "__main__":
    typer.run(main)
