"""Times the ways to read every 30th frame of a clip: `python -m benchmarks.decoding [RESULT.json]`.

PyAV in order (the whole stream is decoded), PyAV as the project reads (passing over what no sampled frame needs) and
decord read the same generated clips: 60 s of 1280 x 720 in H.264 at 30 frames per second with motion and noise, once
with a key frame every 250 frames and once every 30. They run alternately in one process, so that other load on the
machine meets all alike. Times are medians, the spread is the range of all runs; CPU time next to the time that passed
tells how much the machine was busy with something else. decord is left out where it is not installed.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import av
import numpy as np

from benchmarks.measure import RESULTS, save
from metrics_core.frames import DecodedFrames, DecordReader, PyAVReader, choose_frame_indices
from metrics_core.frames.container import read_timeline
from metrics_core.frames.pyav_reader import decode_whole_stream

RESULT = RESULTS / "decoding.json"
WIDTH, HEIGHT, RATE, SECONDS, EVERY = 1280, 720, 30, 60, 30
KEY_FRAME_SPACINGS = (250, 30)
RUNS = 3


def make_clip(path: Path, key_frame_every: int) -> Path:
    """A view that wanders over a large picture of coloured blocks, under noise that changes with every frame."""
    rng = np.random.default_rng(0)
    scene = rng.integers(16, 236, (HEIGHT // 8, WIDTH // 8), dtype=np.uint8).repeat(16, axis=0).repeat(16, axis=1)
    noise = rng.integers(-6, 7, (16, HEIGHT, WIDTH), dtype=np.int16)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.options = {
            "preset": "superfast",
            "x264-params": f"keyint={key_frame_every}:scenecut=0:bframes=2:bitrate=5000",
        }
        for number in range(SECONDS * RATE):
            top, left = round(HEIGHT / 2 * (1 + np.sin(number / 97))), round(WIDTH / 2 * (1 + np.cos(number / 61)))
            planes = np.full((HEIGHT * 3 // 2, WIDTH), 128, dtype=np.uint8)
            view = scene[top : top + HEIGHT, left : left + WIDTH] + noise[number % len(noise)]
            planes[:HEIGHT] = view.clip(0, 255)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(planes, format="yuv420p")))
        container.mux(stream.encode())
    return path


def read_in_order(path: Path) -> DecodedFrames:
    """What `PyAVReader` does where it cannot seek."""
    indices = choose_frame_indices(len(read_timeline(path).times_s), EVERY)
    pixels, times_s = decode_whole_stream(path, indices)
    return DecodedFrames(indices, times_s[indices], pixels, len(times_s), "pyav in order")


def ways_to_read() -> dict[str, Callable[[Path], DecodedFrames]]:
    """The functions to compare, their libraries loaded."""
    ways: dict[str, Callable[[Path], DecodedFrames]] = {
        "in order": read_in_order,
        "seeking": lambda path: PyAVReader().read(path, EVERY, None),
    }
    if find_spec("decord"):
        import_module("decord")
        ways["decord"] = lambda path: DecordReader().read(path, EVERY, None)
    return ways


def measure(path: Path, ways: dict[str, Callable[[Path], DecodedFrames]]) -> list[dict[str, Any]]:
    """Alternating runs over one clip: seconds of each way, and its speed-up over the first of them."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    cpu_seconds: dict[str, list[float]] = {name: [] for name in ways}
    read: dict[str, DecodedFrames] = {}
    for _ in range(RUNS):
        for name, way in ways.items():
            start, cpu_start = time.perf_counter(), time.process_time()
            read[name] = way(path)
            seconds[name].append(time.perf_counter() - start)
            cpu_seconds[name].append(time.process_time() - cpu_start)
    reference, expected = seconds["in order"], read["in order"]
    return [
        {
            "way": name,
            "seconds": spread(seconds[name]),
            "cpu_seconds": spread(cpu_seconds[name]),
            "speedup": spread([slow / fast for slow, fast in zip(reference, seconds[name], strict=True)]),
            "largest_difference": largest_difference(expected, read[name]),
        }
        for name in ways
    ]


def largest_difference(expected: DecodedFrames, read: DecodedFrames) -> int:
    """In grey levels; the frames are the same ones, otherwise the figures mean nothing."""
    if not np.array_equal(expected.indices, read.indices) or np.abs(expected.times_s - read.times_s).max() > 1e-3:
        raise SystemExit(f"{read.reader} reads other frames than {expected.reader}: {read.indices.tolist()}")
    pairs = zip(expected.pixels, read.pixels, strict=True)
    return max(int(np.abs(one.astype(np.int16) - other).max()) for one, other in pairs)


def spread(values: list[float]) -> dict[str, float]:
    """Median and range."""
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def line(row: dict[str, Any]) -> str:
    """One line of the table."""
    seconds, cpu, speedup = row["seconds"], row["cpu_seconds"], row["speedup"]
    return (
        f"  {row['way']:<12}{seconds['median']:>7.2f} s  ({seconds['low']:.2f} to {seconds['high']:.2f})"
        f"  CPU{cpu['median']:>7.2f} s{speedup['median']:>8.1f}x  ({speedup['low']:.1f} to {speedup['high']:.1f})"
        f"  difference {row['largest_difference']}"
    )


def main(result: Path) -> None:
    """Measure both clips, print the table and write it to `result`."""
    load_before, ways, cases = os.getloadavg(), ways_to_read(), []
    with tempfile.TemporaryDirectory() as folder:
        for key_frame_every in KEY_FRAME_SPACINGS:
            path = make_clip(Path(folder) / f"{key_frame_every}.mp4", key_frame_every)
            megabits = path.stat().st_size * 8 / 1e6 / SECONDS
            print(f"a key frame every {key_frame_every}, {megabits:.1f} Mb/s", flush=True)
            rows = measure(path, ways)
            print("\n".join(map(line, rows)), flush=True)
            cases.append({"key_frame_every": key_frame_every, "megabits_per_second": megabits, "ways": rows})
            path.unlink()
    versions = {"av": av.__version__, "decord": import_module("decord").__version__ if "decord" in ways else None}
    clip = {"width": WIDTH, "height": HEIGHT, "fps": RATE, "seconds": SECONDS, "every": EVERY, "runs": RUNS}
    save(result, {"clip": clip, "cases": cases}, load_average_before=load_before, **versions)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULT)
