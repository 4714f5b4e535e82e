"""Does a selection of VATEX-EVAL train better, with and without planted noise? `python -m benchmarks.prove_vatex`.

In a fresh home, for each share of captions that are swapped between videos: `reelsieve ingest` of 550 videos (drawn by
seed 5) with nine references and six captions, `reelsieve score --metric cosine`, `reelsieve select --by cosine --keep
0.25`, and `reelsieve prove`.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import RESULTS, save, vatex_source
from db.server.embedded import stop_embedded

N_VIDEOS, SEED = 550, 5
NOISE_SHARES = (0.0, 0.2, 0.4, 0.6)
COMMAND = "from orchestration.cli import main; main()"


def write_manifest(folder: Path, noise: float) -> None:
    """Write videos, references and captions, a share of which trade their texts with captions of other videos."""
    videos = [json.loads(line) for line in vatex_source().read_text(encoding="utf-8").splitlines()]
    draw = random.Random(SEED)
    videos = draw.sample(videos, N_VIDEOS)
    candidates = [
        (video["video_id"], i, each["text"]) for video in videos for i, each in enumerate(video["candidates"])
    ]
    swapped = sorted(draw.sample(range(len(candidates)), round(noise * len(candidates))))
    # A video has six captions, so a text that moves by seven places is of another video.
    texts = dict(zip(swapped, [candidates[place][2] for place in [*swapped[7:], *swapped[:7]]], strict=True))
    rows = [
        {"caption_id": f"{video['video_id']}_r{i}", "video_id": video["video_id"], "role": "reference", "text": text}
        for video in videos
        for i, text in enumerate(video["references"])
    ]
    for place, (video_id, i, text) in enumerate(candidates):
        row = {"caption_id": f"{video_id}_c{i}", "video_id": video_id, "role": "candidate", "system": f"system_{i}"}
        rows.append({**row, "text": texts.get(place, text)})
    folder.mkdir()
    for name, lines in (("videos", [{"video_id": video["video_id"]} for video in videos]), ("captions", rows)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def run(home: Path, *arguments: str) -> str:
    """Run a command on a home and return what it printed; SystemExit where it fails."""
    variables = {**os.environ, "REELSIEVE_HOME": str(home)}
    done = subprocess.run([sys.executable, "-c", COMMAND, *arguments], env=variables, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"reelsieve {' '.join(arguments)} failed")
    return done.stdout


def measure_noise(home: Path, folder: Path, noise: float, number: int) -> dict[str, Any]:
    """Select a quarter by cosine of a dataset with planted noise, and return the trial of it."""
    name = f"noise_{noise:g}"
    write_manifest(folder / name, noise)
    run(home, "ingest", str(folder / name), "--dataset", name)
    run(home, "score", "--dataset", name, "--metric", "cosine")
    run(home, "select", "--dataset", name, "--by", "cosine", "--keep", "0.25")
    started = time.perf_counter()
    trial: dict[str, Any] = json.loads(run(home, "prove", str(number), "--json"))
    trial |= {"noise": noise, "seconds": time.perf_counter() - started}
    print(f"\n{noise:.0%} of the captions swapped, {trial['seconds']:.0f} s", flush=True)
    for sentence in trial["sentences"]:
        print(f"  {sentence}", flush=True)
    return trial


def main() -> None:
    """Measure all shares of noise, and write benchmarks/results/prove_vatex.json."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        try:
            trials = [measure_noise(home, Path(folder), noise, number) for number, noise in enumerate(NOISE_SHARES, 1)]
        finally:
            stop_embedded(home)
    save(RESULTS / "prove_vatex.json", {"trials": trials})


if __name__ == "__main__":
    main()
