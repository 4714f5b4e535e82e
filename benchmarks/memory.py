"""Peak memory of scoring, small dataset against large: `python -m benchmarks.memory`, some minutes on two cores.

Two processes embed and score 196 and 1,960 samples of 14 and 140 videos with every metric, texts and frames included.
The decoder is a process of its own, which holds the sampled frames of one video at a time and is not counted.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.installation import installation, read_rows, write_rows
from benchmarks.measure import RESULTS, save

WANTED = 0.10
N_VIDEOS = (14, 140)
DRAWN_CLIPS = 20


def write_videos(folder: Path, n_clips: int) -> None:
    """The demo's dataset with `n_clips` videos; beyond the first ones the same files under other names."""
    from lab.demo.build import create_demo

    create_demo(folder, n_clips=min(n_clips, DRAWN_CLIPS))
    originals = {name: read_rows(folder / f"{name}.jsonl") for name in ("videos", "captions", "qa")}
    for name in ("keypoints", "keypoint_labels", "ratings"):
        (folder / f"{name}.jsonl").unlink()
    n_copies = -(-n_clips // DRAWN_CLIPS)
    videos = [f"{row['video_id']}_{copy}" for copy in range(n_copies) for row in originals["videos"]]
    chosen = set(videos[:n_clips])
    for name, rows in originals.items():
        copies = [_renamed(row, copy) for copy in range(n_copies) for row in rows]
        write_rows(folder / f"{name}.jsonl", [row for row in copies if row["video_id"] in chosen])


def _renamed(row: dict[str, Any], copy: int) -> dict[str, Any]:
    return {**row, **{key: f"{row[key]}_{copy}" for key in ("video_id", "caption_id", "qa_id") if key in row}}


def memory(folder: Path) -> dict[str, Any]:
    """Peak resident size of a process that embeds and scores a small and a ten times larger dataset."""
    peaks: dict[str, dict[str, int]] = {}
    for n_clips in N_VIDEOS:
        place = folder / f"memory_{n_clips}"
        place.mkdir()
        write_videos(place, n_clips)
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.memory", "--score", str(place)],
            check=True,
            capture_output=True,
            text=True,
        )
        peaks[str(n_clips)] = json.loads(done.stdout.splitlines()[-1])
    small, large = peaks.values()
    ratio = large["peak_kb"] / small["peak_kb"]
    print("\nmemory: peak resident size of embedding and scoring with all metrics")
    for found in peaks.values():
        print(f"  {found['samples']:5} samples {found['peak_kb'] / 1024:7.0f} MB")
    print(f"  large / small {ratio:.3f}, wanted within {WANTED:.0%}")
    return {"runs": list(peaks.values()), "ratio": ratio, "wanted": 1 + WANTED}


def score_once(folder: Path) -> None:
    """Ingest in one process, embed and score in this one, and print this one's peak."""
    with installation(folder / "home"):
        ingest = [sys.executable, "-c", "from orchestration.cli import main; main()", "ingest", str(folder)]
        subprocess.run([*ingest, "--dataset", "memory", "--json"], check=True, capture_output=True)
        from assets.metrics.registry import METRICS
        from orchestration.installation import get_installation
        from orchestration.launch import run_scoring

        written = [counts for _, counts in run_scoring(get_installation(), "memory", METRICS)]
        samples = sum(counts[METRICS[0]] for counts in written)
        print(json.dumps({"samples": samples, "peak_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))


def main() -> None:
    """Run it and write results/memory.json; with --score FOLDER be the process that is measured."""
    if sys.argv[1:2] == ["--score"]:
        score_once(Path(sys.argv[2]))
        return
    with tempfile.TemporaryDirectory() as folder:
        result = memory(Path(folder))
    print(f"\nwritten to {save(RESULTS / 'memory.json', result)}")


if __name__ == "__main__":
    main()
