"""What facts about videos keep when a clip is coded anew: `python -m benchmarks.encodings [RESULT.json]`.

The filmed clips of the test data are decoded and coded again: H.264 at crf 18, 28 and 35, at half the size, and with
half of the frames (both at crf 23). The rules of the facts were chosen with these. The others were not looked at then:
crf 23 and 32, three quarters of the size, a third of the frames, key frames only, MPEG-4 and VP9. For every fact the
tables have, over clips, the median of its change as a share of the clip's own value, and Spearman's coefficient between
originals and variants; and which clips are still (static_share of .9 or more) in one of the two only. At the end comes
the time of measuring as a multiple of that of decoding only.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
from scipy.stats import spearmanr

from benchmarks.measure import DATA, RESULTS, alternate, save, spread
from metrics_core.facts.measure import measure_video
from metrics_core.frames.container import find_frame_rate, open_video
from metrics_core.frames.pyav_reader import decode_frames

RESULT = RESULTS / "encodings.json"
# Test pictures of the pack; the other clips are filmed.
DRAWN = ("counter_h265", "testcard_av1", "testcard_corrupted", "testpattern_10bit", "tiny_unordered")
FACTS = (
    *("motion", "camera_motion", "object_motion", "frame_change", "frame_change_min", "frame_change_max"),
    *("static_share", "frozen_share", "black_share", "repeated_share", "cuts", "letterbox"),
    *("brightness", "contrast", "sharpness"),
)
STILL = 0.9
RUNS = 5


class Variant(NamedTuple):
    """A way to code a clip anew: its size as a share, every so many frames, and what the encoder is told."""

    name: str
    was_seen: bool
    options: dict[str, str]
    codec: str = "libx264"
    size: float = 1.0
    every: int = 1


VARIANTS = (
    *(Variant(f"crf {crf}", True, {"crf": str(crf)}) for crf in (18, 28, 35)),
    Variant("half the size", True, {"crf": "23"}, size=0.5),
    Variant("half the frames", True, {"crf": "23"}, every=2),
    *(Variant(f"crf {crf}", False, {"crf": str(crf)}) for crf in (23, 32)),
    Variant("3/4 of the size", False, {"crf": "23"}, size=0.75),
    Variant("1/3 of the frames", False, {"crf": "26"}, every=3),
    Variant("key frames only", False, {"crf": "23", "g": "1"}),
    Variant("MPEG-4", False, {"flags": "qscale", "global_quality": "590"}, codec="mpeg4"),
    Variant("VP9", False, {"crf": "36", "b:v": "0", "deadline": "realtime", "cpu-used": "8"}, codec="libvpx-vp9"),
)


def frames_of(path: Path) -> Iterator[av.VideoFrame]:
    """The frames of a clip that have the size of the first one, without their time stamps."""
    shape = None
    with open_video(path) as (container, stream):
        for frame in decode_frames(container, stream):
            shape = shape or (frame.width, frame.height)
            if (frame.width, frame.height) == shape:
                yield av.VideoFrame.from_ndarray(frame.to_ndarray(format="yuv420p"), format="yuv420p")


def write(path: Path, frames: Sequence[av.VideoFrame], rate: Fraction, variant: Variant) -> Path:
    """Code frames anew."""
    width, height = (round(side * variant.size) // 2 * 2 for side in (frames[0].width, frames[0].height))
    with av.open(str(path), "w") as container:
        stream = container.add_stream(variant.codec, rate=rate / variant.every)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.options = variant.options | ({"preset": "veryfast"} if variant.codec == "libx264" else {})
        for frame in frames[:: variant.every]:
            container.mux(stream.encode(frame.reformat(width, height)))
        container.mux(stream.encode())
    return path


def measured(path: Path) -> dict[str, Any]:
    """The facts of a clip."""
    return asdict(measure_video(path)[0])


def compare(originals: dict[str, dict[str, Any]], variants: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """By fact, the median change and Spearman's coefficient over clips; and the clips that change sides of still."""
    facts = {}
    for fact in FACTS:
        pairs = np.array(
            [
                (facts_of[fact], variants[key][fact])
                for key, facts_of in originals.items()
                if facts_of[fact] is not None
            ],
            dtype=float,
        )
        pairs = pairs[~np.isnan(pairs).any(axis=1)]
        one, other = pairs.T
        change = np.divide(np.abs(other - one), one, out=np.where(one == other, 0.0, np.inf), where=one > 0)
        constant = len(set(one)) < 2 or len(set(other)) < 2
        facts[fact] = {
            "n": len(one),
            "median_change": float(np.median(change)),
            "largest_difference": float(np.abs(other - one).max()),
            "spearman": None if constant else float(spearmanr(one, other).statistic),
        }
    sides = [key for key in originals if is_still(originals[key]) != is_still(variants[key])]
    return {"facts": facts, "changes_sides": sides}


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    """A line for each fact, with median change and Spearman's coefficient under each variant."""
    for was_seen in (True, False):
        some = [row for row in rows if row["was_seen"] is was_seen]
        print("Chosen with these" if was_seen else "Not looked at before")
        print(f"  {'':<18}" + "".join(f"{row['variant']:>20}" for row in some))
        for fact in FACTS:
            cells = [row["facts"][fact] for row in some]
            print(f"  {fact:<18}" + "".join(f"{cell(one):>20}" for one in cells))
        print(f"  {'changes sides':<18}" + "".join(f"{', '.join(row['changes_sides']) or 'none':>20}" for row in some))


def cell(row: dict[str, Any]) -> str:
    """Median change in per cent, and Spearman's coefficient; a dash where all clips have one value."""
    rank = "-" if row["spearman"] is None else f"{row['spearman']:.3f}"
    return f"{100 * row['median_change']:.1f} %  {rank}"


def is_still(facts: dict[str, Any]) -> bool | None:
    """Whether a clip stands still; None where it is too short to tell."""
    return None if facts["static_share"] is None else facts["static_share"] >= STILL


def decode(path: Path) -> None:
    """Decode a clip, and do nothing with its frames."""
    with open_video(path) as (container, stream):
        for _ in decode_frames(container, stream):
            pass


def costs(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Measuring against decoding alone, clip by clip."""
    found = []
    for path in paths:
        taken = alternate({"decode": partial(decode, path), "measure": partial(measure_video, path)}, RUNS)
        ratios = [slow / fast for slow, fast in zip(taken["measure"], taken["decode"], strict=True)]
        found.append(
            {"clip": path.stem, **{way: spread(times) for way, times in taken.items()}, "ratio": spread(ratios)}
        )
        print(f"  {path.stem:<22}{min(taken['measure']) / min(taken['decode']):>6.2f} times decoding", flush=True)
    return found


def main(result: Path) -> None:
    """Measure all variants, print the tables, write them to `result`."""
    folder = DATA / "clips" / "videos"
    if not folder.is_dir():
        raise SystemExit(f"no clips in {folder}: set REELSIEVE_TEST_DATA to the folder of the test data")
    paths = [path for path in sorted(folder.iterdir()) if path.stem not in DRAWN]
    originals = {path.stem: measured(path) for path in paths}
    found: dict[str, dict[str, dict[str, Any]]] = {variant.name: {} for variant in VARIANTS}
    with tempfile.TemporaryDirectory() as temporary:
        for path in paths:
            frames = list(frames_of(path))
            with open_video(path) as (_, stream):
                rate = find_frame_rate(stream)
            assert rate is not None
            for variant in VARIANTS:
                clip = write(Path(temporary) / "clip.mkv", frames, rate, variant)
                found[variant.name][path.stem] = measured(clip)
            print(f"  {path.stem} coded {len(VARIANTS)} times", flush=True)
    rows = []
    for variant in VARIANTS:
        compared = compare(originals, found[variant.name])
        rows.append({"variant": variant.name, "was_seen": variant.was_seen, **compared})
    print_table(rows)
    save(result, {"clips": originals, "variants": rows, "costs": costs(paths)}, av=av.__version__)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULT)
