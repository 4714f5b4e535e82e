"""The report of 10,000 and of 100,000 samples: `python -m benchmarks.report`, some minutes on two cores.

A dataset has five systems, all metrics of this project with a value for most captions, two raters and two aspects.
The numbers are invented in SQL, since scoring so much would take days; all videos are one drawn clip under many names.
Each report is made by a process of its own, whose time, peak memory and page are measured. No settings give the scores'
fingerprint, so the page does not explain them: that takes seconds, whatever the size of the dataset.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from benchmarks.installation import installation
from benchmarks.measure import RESULTS, save

SIZES = {"small": 10_000, "large": 100_000}
SYSTEMS = 5
SECONDS_WANTED, BYTES_WANTED, GROWTH_WANTED = 60.0, 5_000_000, 0.25
MANIFEST = """
INSERT INTO video (dataset_id, shard, key, uri, content_sha256, size_bytes, mtime_ns, ctime_ns, inode, duration_s,
                   n_frames, width, height, status, row_sha256)
SELECT :dataset_id, n % :shards, 'v' || n, :uri, :content, :size, :mtime, :ctime, :inode, 5 + n % 20, :frames, :width,
       :height, 'ok', sha256('v')
FROM generate_series(1, :videos) AS n;
INSERT INTO reference (dataset_id, video_id, key, annotator, text, text_sha256, row_sha256)
SELECT dataset_id, video_id, key || '_r', 'a', 'a dog runs over the lawn and swims to a duck ' || key, sha256('r'),
       sha256('r') FROM video WHERE dataset_id = :dataset_id;
INSERT INTO sample (dataset_id, shard, video_id, key, kind, system, text, text_sha256, row_sha256)
SELECT v.dataset_id, v.shard, v.video_id, v.key || '_' || n, 'caption', 'system ' || n,
       repeat('a dog is running on the grass and ', n) || v.key, sha256(convert_to(v.key || n, 'UTF8')), sha256('s')
FROM video v, generate_series(1, :systems) AS n WHERE v.dataset_id = :dataset_id;
INSERT INTO rating (sample_id, rater, aspect, value, row_sha256)
SELECT sample_id, rater, aspect, least(5, greatest(1, round(right(system, 1)::int * 0.5 + 2.5 * random() + 0.5))),
       sha256('g')
FROM sample, unnest(ARRAY['r1', 'r2']) AS rater, unnest(ARRAY['coverage', 'factuality']) AS aspect
WHERE dataset_id = :dataset_id
"""
SCORES = """
INSERT INTO score (scorer_id, sample_id, input_sha256, input_marks, value, components, status, error, run_id)
SELECT r.scorer_id, s.sample_id, {digest}, '{{}}', CASE WHEN x.number < 0.97 THEN x.value END, '{{}}',
       CASE WHEN x.number < 0.97 THEN 'ok' ELSE 'no_model' END,
       CASE WHEN x.number < 0.97 THEN NULL ELSE 'an invented reason' END, 'run'
FROM sample s JOIN video v USING (video_id) JOIN scorer r ON r.scorer_id = :scorer_id
CROSS JOIN LATERAL (SELECT random() AS number, right(s.system, 1)::int * 0.08 + 0.6 * random() AS value
                    WHERE s.sample_id IS NOT NULL) AS x
WHERE s.dataset_id = :dataset_id
"""


def fill(engine: Any, name: str, n_samples: int, clip: Path) -> None:
    """Invent a dataset of so many captions with scores and ratings."""
    from assets.media.file_state import FileState
    from assets.metrics.registry import METRIC_INPUTS, METRICS
    from db.manifest.datasets import find_or_create_dataset
    from db.schema.inputs import build_digest_sql
    from db.scores.store import activate_scorer, register_scorer
    from metrics_core.file_hash import compute_file_sha256
    from metrics_core.frames import get_shared_worker

    state, facts = FileState.build_from_stat(clip.stat()), get_shared_worker().probe_video(clip)
    n_videos = n_samples // SYSTEMS
    with engine.begin() as connection:
        dataset = find_or_create_dataset(connection, name, n_samples // 4000)
        values = {
            "dataset_id": dataset.dataset_id,
            "shards": n_samples // 4000,
            "uri": str(clip),
            "content": compute_file_sha256(clip),
            "size": state.size_bytes,
            "mtime": state.mtime_ns,
            "ctime": state.ctime_ns,
            "inode": state.inode,
            "frames": facts.n_frames,
            "width": facts.width,
            "height": facts.height,
            "videos": n_videos,
            "systems": SYSTEMS,
        }
        for statement in MANIFEST.split(";"):
            connection.execute(sa.text(statement), values)
        for metric in METRICS:
            scorer_id = register_scorer(
                connection, metric=metric, models={}, params={"invented": True}, code_version="0"
            )
            digest = build_digest_sql(METRIC_INPUTS[metric], "r.scorer_id")
            connection.execute(
                sa.text(SCORES.format(digest=digest)), {"scorer_id": scorer_id, "dataset_id": dataset.dataset_id}
            )
            activate_scorer(connection, scorer_id, [dataset.dataset_id])
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("ANALYZE")


def make(name: str, folder: Path) -> None:
    """Make one report in this process, and print what it took."""
    from assets.datasets.lookup import require_dataset
    from assets.reports.report import create_report
    from orchestration.installation import get_installation

    dataset, scorers = require_dataset(get_installation().engine, name), get_installation().curation.scorers
    started, steps = time.perf_counter(), []
    files = create_report(
        get_installation().engine,
        dataset,
        scorers,
        folder,
        lambda line: steps.append((round(time.perf_counter() - started, 1), line)),
    )
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    found = {"wall_s": seconds, "cpu_s": time.process_time(), "peak_bytes": peak, "steps": steps}
    print(json.dumps({**found, "page_bytes": files.page.stat().st_size, "data_bytes": files.numbers.stat().st_size}))


def report(folder: Path) -> dict[str, Any]:
    """Fill both datasets and report on each."""
    from lab.demo.build import make_demo_clips
    from lab.demo.render import write_video
    from orchestration.installation import get_installation

    clip = folder / "clip.mp4"
    write_video(next(iter(make_demo_clips(2, 7).values())), clip)
    found = {}
    with installation(folder / "home"):
        for name, n_samples in SIZES.items():
            fill(get_installation().engine, name, n_samples, clip.resolve())
            load = os.getloadavg()[0]
            command = [sys.executable, "-m", "benchmarks.report", "--make", name, str(folder / name)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found[name] = {"samples": n_samples, "load": load, **json.loads(done.stdout.splitlines()[-1])}
            one = found[name]
            print(
                f"{n_samples:>8,} samples: {one['wall_s']:6.1f} s wall, {one['cpu_s']:6.1f} s CPU, peak "
                f"{one['peak_bytes'] / 1e6:5.0f} MB, page {one['page_bytes'] / 1e6:.2f} MB, load {load:.1f}"
            )
        get_installation().engine.dispose()
    large = found["large"]
    growth = large["peak_bytes"] / found["small"]["peak_bytes"] - 1
    print(f"wanted: under {SECONDS_WANTED:.0f} s, under {BYTES_WANTED / 1e6:.0f} MB, memory up by {growth:.0%}")
    return {"runs": found, "growth": growth, "wanted": [SECONDS_WANTED, BYTES_WANTED, GROWTH_WANTED]}


def main() -> None:
    """Run it and write results/report.json; with --make NAME FOLDER be the process that is measured."""
    if sys.argv[1:2] == ["--make"]:
        make(sys.argv[2], Path(sys.argv[3]))
        return
    with tempfile.TemporaryDirectory() as folder:
        result = report(Path(folder))
    print(f"\nwritten to {save(RESULTS / 'report.json', result)}")


if __name__ == "__main__":
    main()
