"""The engine on Ray beside the one in this process: `python -m benchmarks.ray_engine`, about 20 minutes.

Every run is a command `reelsieve score` that embeds and judges captions from nothing, with the default models. Each
engine scores a small and a large dataset: the difference gives the time per sample, and the rest of a run is the
start, that is the imports, the cluster, the actors and their models.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.installation import installation, write_rows
from benchmarks.measure import RESULTS, Spread, save

N_VIDEOS = {"small": 20, "large": 600}
SHARDS = 12
CAPTIONS_PER_VIDEO = 2
ENGINES: dict[str, dict[str, str]] = {
    "this process": {},
    "1 actor of 2 cores": {"REELSIEVE_RAY_ACTORS": "1", "REELSIEVE_RAY_CPUS": "2"},
    "1 actor": {"REELSIEVE_RAY_ACTORS": "1"},
    "2 actors": {"REELSIEVE_RAY_ACTORS": "2"},
    "4 actors": {"REELSIEVE_RAY_ACTORS": "4"},
}
COMMAND = [sys.executable, "-c", "from orchestration.cli import main; main()"]
WHO = ("A cook", "A swimmer", "A child", "An old man", "A dancer", "A painter", "A farmer")
DOES = ("opens the red door", "crosses the wet street", "lifts a box", "pours hot water", "waves at the crowd")
PLACES = ("in the yard", "near the river", "behind the house", "on the stage")


def write_manifest(folder: Path, n_videos: int) -> Path:
    """Videos without files, each with a reference, two captions of three sentences, and three keypoints."""
    folder.mkdir()
    videos, captions, keypoints = [], [], []
    for number in range(n_videos):
        video = f"{folder.name}_{number:04d}"
        told = [
            f"{WHO[number % len(WHO)]} of {folder.name} number {number} {DOES[(number + step) % len(DOES)]} "
            f"{PLACES[(number + step) % len(PLACES)]}."
            for step in range(4)
        ]
        videos.append({"video_id": video})
        texts = {"reference": told[:3], "first": [told[0], told[2], told[1]], "second": told[1:]}
        for system, sentences in texts.items():
            role = "reference" if system == "reference" else "candidate"
            row = {"caption_id": f"{video}_{system}", "video_id": video, "role": role, "text": " ".join(sentences)}
            captions.append(row if role == "reference" else {**row, "system": system})
        keypoints += [
            {"keypoint_id": f"{video}_{place}", "video_id": video, "dimension": "segment_detail", "text": sentence}
            for place, sentence in enumerate(told[:3])
        ]
    for name, rows in {"videos": videos, "captions": captions, "keypoints": keypoints}.items():
        write_rows(folder / f"{name}.jsonl", rows)
    return folder


def scored_in(dataset: str, variables: Mapping[str, str]) -> float:
    """Seconds of a command that scores a dataset from nothing."""
    from db.server.engine import open_engine
    from orchestration.installation import get_installation

    engine = open_engine(get_installation().database_url)
    with engine.begin() as connection:
        connection.exec_driver_sql("TRUNCATE scorer, model CASCADE")
    engine.dispose()
    options = ["--engine", "ray"] if variables else []
    started = time.perf_counter()
    subprocess.run(
        [*COMMAND, "score", "-d", dataset, "--metric", "vcs", "--metric", "ecs", "--json", *options],
        check=True,
        capture_output=True,
        env={**os.environ, **variables},
    )
    return time.perf_counter() - started


def measured(folder: Path, runs: int, loads: list[float]) -> dict[str, Any]:
    """Seconds of every engine on both datasets, one run of all after the other; adds the load after each command."""
    for name, n_videos in N_VIDEOS.items():
        manifest = write_manifest(folder / name, n_videos)
        ingest = ["ingest", str(manifest), "-d", name, "--shards", str(SHARDS), "--json"]
        subprocess.run([*COMMAND, *ingest], check=True, capture_output=True)
    taken: dict[str, dict[str, list[float]]] = {engine: {name: [] for name in N_VIDEOS} for engine in ENGINES}
    for run in range(runs):
        for engine, variables in ENGINES.items():
            for name in N_VIDEOS:
                taken[engine][name].append(scored_in(name, variables))
                loads.append(os.getloadavg()[0])
                seconds = taken[engine][name][-1]
                print(f"run {run + 1}, {engine}, {name}: {seconds:.1f} s, load {loads[-1]:.1f}", flush=True)
    return {engine: _told_apart(seconds) for engine, seconds in taken.items()}


def _told_apart(seconds: Mapping[str, list[float]]) -> dict[str, Any]:
    """Start and work of an engine: each run of the large dataset with the run of the small one before it."""
    samples = {name: CAPTIONS_PER_VIDEO * n for name, n in N_VIDEOS.items()}
    more = samples["large"] - samples["small"]
    rates = [more / (large - small) for small, large in zip(seconds["small"], seconds["large"], strict=True)]
    starts = [small - samples["small"] / rate for small, rate in zip(seconds["small"], rates, strict=True)]
    return {
        "seconds": {name: Spread.of(values).as_dict() for name, values in seconds.items()},
        "samples_per_second": Spread.of(rates).as_dict(),
        "start_s": Spread.of(starts).as_dict(),
    }


def main() -> None:
    """Measure, print and write results/ray_engine.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="of each engine; default: 3")
    runs = parser.parse_args().runs
    loads = [os.getloadavg()[0]]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o711)
        with installation(folder / "home"):
            engines = measured(folder, runs, loads)
    print(f"\n{'engine':<20} {'samples/s':>10} {'start s':>8} {'large s':>8}")
    for engine, found in engines.items():
        rate, start, large = (
            each["median"] for each in (found["samples_per_second"], found["start_s"], found["seconds"]["large"])
        )
        print(f"{engine:<20} {rate:>10.1f} {start:>8.1f} {large:>8.1f}")
    work = {"videos": N_VIDEOS, "captions_per_video": CAPTIONS_PER_VIDEO, "shards": SHARDS, "metrics": ["vcs", "ecs"]}
    load = {"least": round(min(loads), 2), "greatest": round(max(loads), 2)}
    result = {"work": work, "runs": runs, "load": load, "engines": engines}
    print(f"\nwritten to {save(RESULTS / 'ray_engine.json', result)}")


if __name__ == "__main__":
    main()
