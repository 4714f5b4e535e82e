"""Measures decoding: `python -m benchmarks.decoding [--decord2 FOLDER] [--torchcodec FOLDER]`, in ten minutes.

The clips are generated: 305 frames of 240, 720 and 1080 rows in H.264, with motion and noise, with a key frame every
250 frames (x264's default), and also one with a key frame every 30.

ways: CPU seconds a clip of a bare loop of PyAV over all frames, of facts, of every 30th frame by the project's readers
(fitted to 224 x 224), of both in one pass and in two, and of the same frames by decord2 and torchcodec on a CPU. These
two are no dependencies: install them into folders (`pip install --target FOLDER --no-deps decord2`), since decord2
takes the place of decord. torchcodec needs FFmpeg's libraries in LD_LIBRARY_PATH. Every call has a process of its own,
in turn, so that other load meets all alike; a first clip of 64 rows only warms up.
pool: clips a second and CPU seconds a clip of facts with one decoder, and with as many as cores.
texts: facts about texts a CPU second, and of that the languages by the library, one text after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np

from benchmarks.measure import RESULTS, save, vatex_source
from metrics_core.facts.languages import detect_languages
from metrics_core.facts.measure import measure_and_read, measure_video
from metrics_core.facts.texts import compute_text_facts
from metrics_core.frames import PictureFit, choose_frame_indices
from metrics_core.frames.container import open_video
from metrics_core.frames.decord_reader import DecordReader
from metrics_core.frames.pool import DecoderPool, TakeDecoder
from metrics_core.frames.pyav_reader import PyAVReader, decode_frames
from metrics_core.models.sentence_splitter import RuleSplitter

RESULT = RESULTS / "decoding.json"
WARM = "warm.mp4"
# Rows of the pictures, and frames from one key frame to the next.
CLIPS = ((240, 250), (720, 250), (720, 30), (1080, 250))
RATE, N_FRAMES, EVERY = 30, 305, 30
FIT = PictureFit(224, 224)
ROUNDS, N_IN_POOL, N_TEXTS = 2, 12, 10_000


def make_clip(path: Path, height: int, key_frame_every: int) -> Path:
    """A view that wanders over a large picture of coloured blocks, under noise that changes with every frame."""
    rng, width = np.random.default_rng(0), height * 16 // 9 // 2 * 2
    scene = rng.integers(16, 236, (height // 8, width // 8), dtype=np.uint8).repeat(16, axis=0).repeat(16, axis=1)
    noise = rng.integers(-6, 7, (16, height, width), dtype=np.int16)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        bitrate = max(400, 5000 * height**2 // 720**2)
        stream.options = {
            "preset": "superfast",
            "x264-params": f"keyint={key_frame_every}:scenecut=0:bframes=2:bitrate={bitrate}",
        }
        for number in range(N_FRAMES):
            top = round((height - 17) / 2 * (1 + np.sin(number / 97)))
            left = round((width - 17) / 2 * (1 + np.cos(number / 61)))
            view = scene[top : top + height, left : left + width]
            planes = np.full((height * 3 // 2, width), 128, dtype=np.uint8)
            planes[:height] = (view + noise[number % len(noise)]).clip(0, 255)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(planes, format="yuv420p")))
        container.mux(stream.encode())
    return path


def decode_only(path: Path) -> None:
    """Decode all frames with PyAV, and do nothing with them."""
    with open_video(path) as (container, stream):
        deque(decode_frames(container, stream), maxlen=0)


def read_by_decord(path: Path) -> None:
    """Decode and fit the sampled frames with the module `decord` as it comes: decord or decord2."""
    import decord

    video = decord.VideoReader(str(path), num_threads=1)
    for number in choose_frame_indices(len(video), EVERY).tolist():
        FIT(video[number].asnumpy())


def read_by_torchcodec(path: Path) -> None:
    """Decode and fit the sampled frames with torchcodec on a CPU."""
    from torchcodec.decoders import VideoDecoder  # type: ignore[import-not-found]  # no dependency

    video = VideoDecoder(str(path), dimension_order="NHWC", num_ffmpeg_threads=1)
    for picture in video.get_frames_at(choose_frame_indices(len(video), EVERY).tolist()).data:
        FIT(picture.numpy())


def measure_and_read_in_turn(path: Path) -> None:
    """Facts, then frames by PyAV."""
    measure_video(path)
    PyAVReader().read(path, EVERY, None, FIT)


WAYS: dict[str, Callable[[Path], object]] = {
    "bare decoding": decode_only,
    "facts": measure_video,
    "frames, pyav": lambda path: PyAVReader().read(path, EVERY, None, FIT),
    "frames, decord": lambda path: DecordReader().read(path, EVERY, None, FIT),
    "facts, then frames": measure_and_read_in_turn,
    "facts and frames in one pass": lambda path: measure_and_read(path, EVERY, None, FIT),
    "decord as it comes": read_by_decord,
    "decord2 as it comes": read_by_decord,
    "torchcodec as it comes": read_by_torchcodec,
}


def time_way(name: str, warm: Path, path: Path) -> None:
    """Print the CPU seconds of one call after a first one with another clip: what a process of `run_way` does."""
    WAYS[name](warm)
    started = time.process_time()
    WAYS[name](path)
    print(time.process_time() - started)


def run_way(name: str, path: Path, folder: Path | None) -> float:
    """CPU seconds of a way in a process of its own, in which a folder of packages comes first."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [folder] if folder else []))}
    command = [sys.executable, "-m", "benchmarks.decoding", "--way", name, str(path.with_name(WARM)), str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} of {path.name} failed: {done.stderr.strip().splitlines()[-1]}")
    return float(done.stdout.split()[-1])


def compare_ways(path: Path, folders: dict[str, Path | None]) -> list[dict[str, Any]]:
    """CPU seconds a clip of every way that can run, and how many times a bare loop's they are."""
    names = [name for name in WAYS if folders.get(name.partition(" ")[0], path)]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(ROUNDS):
        for name in names:
            seconds[name].append(run_way(name, path, folders.get(name.partition(" ")[0])))
    bare = statistics.median(seconds["bare decoding"])
    rows: list[dict[str, Any]] = []
    for name, taken in seconds.items():
        rows.append(
            {"way": name, "cpu_seconds": _spread(taken), "times_bare": (times := statistics.median(taken) / bare)}
        )
        print(f"  {name:<30}{statistics.median(taken):>8.3f} s{times:>7.2f} x", flush=True)
    return rows


def _spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def measure_pool(path: Path, n_decoders: int) -> dict[str, Any]:
    """Clips a second and CPU seconds a clip of facts, with so many decoders; starting them counts."""

    def measure(take_decoder: TakeDecoder, clip: Path) -> object:
        with take_decoder() as worker:
            return worker.measure_video(clip)

    started, cpu = time.perf_counter(), _cpu_seconds()
    deque(DecoderPool(n_decoders).decode_in_order([path] * N_IN_POOL, measure, lambda _: 1 << 20), maxlen=0)
    clips = N_IN_POOL / (time.perf_counter() - started)
    row = {"decoders": n_decoders, "clips_a_second": clips, "cpu_seconds": (_cpu_seconds() - cpu) / N_IN_POOL}
    print(f"  facts with {n_decoders} decoders: {clips:.2f} clips a second, CPU {row['cpu_seconds']:.3f} s a clip")
    return row


def _cpu_seconds() -> float:
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(part.ru_utime + part.ru_stime for part in usage)


def measure_texts() -> dict[str, float]:
    """Texts a CPU second: all facts, the languages in them, and languages by the library's own loop."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    rows = (json.loads(line) for line in vatex_source().read_text(encoding="utf-8").splitlines())
    texts = list(dict.fromkeys(text for row in rows for text in row["references"]))[:N_TEXTS]
    library = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    detect_languages(texts[:9])
    calls: dict[str, Callable[[], object]] = {
        "all_facts": lambda: compute_text_facts(texts, RuleSplitter().split, detect_languages),
        "languages": lambda: detect_languages(texts),
        "languages_by_the_library": lambda: [library.classify(text) for text in texts],
    }
    rates: dict[str, float] = {"texts": len(texts)}
    for name, call in calls.items():
        started = time.process_time()
        call()
        rates[name] = len(texts) / (time.process_time() - started)
        print(f"  {name}: {rates[name]:,.0f} texts a CPU second", flush=True)
    return rates


def main() -> None:
    """Measure, print and write results/decoding.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--way", nargs=3, help="for a process of its own: a way and two clips")
    parser.add_argument("--decord2", type=Path, help="the folder that decord2 is installed in")
    parser.add_argument("--torchcodec", type=Path, help="the folder that torchcodec is installed in")
    chosen = parser.parse_args()
    if chosen.way:
        time_way(chosen.way[0], *map(Path, chosen.way[1:]))
        return
    load_before, cases, pools = os.getloadavg(), [], []
    folders = {"decord2": chosen.decord2, "torchcodec": chosen.torchcodec}
    with tempfile.TemporaryDirectory() as folder:
        make_clip(Path(folder) / WARM, 64, 30)
        for height, spacing in CLIPS:
            path = make_clip(Path(folder) / f"{height}-{spacing}.mp4", height, spacing)
            megabits = path.stat().st_size * 8 / 1e6 / N_FRAMES * RATE
            print(f"{height} rows, a key frame every {spacing}, {megabits:.1f} Mb/s", flush=True)
            ways = compare_ways(path, folders)
            cases.append({"rows": height, "key_frame_every": spacing, "megabits_a_second": megabits, "ways": ways})
            if spacing == CLIPS[0][1]:
                pools += [{"rows": height, **measure_pool(path, n)} for n in (1, os.cpu_count() or 1)]
    clip = {"frames": N_FRAMES, "fps": RATE, "every": EVERY, "rounds": ROUNDS}
    result = {"clip": clip, "cases": cases, "pool": pools, "texts": measure_texts()}
    save(RESULT, result, load_average_before=load_before, av=av.__version__)


if __name__ == "__main__":
    main()
