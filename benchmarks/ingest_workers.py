"""Times ingest of clips in tar files by workers and identities: `python -m benchmarks.ingest_workers`.

`--members N` (20,000) clips of two seconds in H.264, whose index comes first, lie a hundred to a tar file. A box that
players skip makes each 200,000 bytes long. They are read from a disk, or with `--s3` from an S3 server of this machine
(moto, in a process of its own). Each has one caption. Ingest runs with one worker, the default, and with `--workers 2`,
by both identities; at a tenth of the members first, so that growth shows. Every run begins with a new dataset and
caches of the file system that are warm. Ten million clips are calculated from the seconds that a clip adds between the
two sizes.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import shutil
import statistics
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from sqlalchemy.engine import Engine

from assets.ingest.run import ingest_folder
from benchmarks.measure import RESULTS, save, seconds, timed
from benchmarks.members import BUCKET, s3_server
from benchmarks.server_cost import measured_server
from db.manifest.datasets import find_dataset
from db.manifest.removal import delete_dataset

RESULT = RESULTS / "ingest_workers.json"
PER_TAR, N_DRAWN, CLIP_BYTES, TEN_MILLION = 100, 4, 200_000, 10_000_000
# By name, the identity and the workers; None is an ingest that reads by itself.
WAYS: Mapping[str, tuple[str, int | None]] = {
    "sha256, 1 worker": ("sha256", None),
    "sha256, 2 workers": ("sha256", 2),
    "etag, 1 worker": ("etag", None),
    "etag, 2 workers": ("etag", 2),
}


def draw_clip(path: Path, seed: int, scale: int = 1, n_frames: int = 48) -> bytes:
    """A clip of 160 x 120 frames, or so many times larger ones, of blocks that move, with its index first."""
    import av

    blocks = np.random.default_rng(seed).integers(0, 255, (30, 64, 3), np.uint8)
    whole = np.kron(blocks, np.ones((4 * scale, 4 * scale, 1), np.uint8))
    with av.open(str(path), "w", options={"movflags": "faststart"}) as container:
        stream = container.add_stream("libx264", rate=Fraction(24))
        stream.width, stream.height, stream.pix_fmt = 160 * scale, 120 * scale, "yuv420p"
        for number in range(n_frames):
            picture = np.ascontiguousarray(whole[:, number % 48 : number % 48 + 160 * scale])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
    return path.read_bytes()


def write_tars(folder: Path, n_members: int, clips: list[bytes]) -> int:
    """Write a manifest of tar files, whose clips differ in their last bytes, and return the bytes of all clips."""
    folder.mkdir(parents=True)
    n_bytes = 0
    with (folder / "videos.jsonl").open("w") as videos, (folder / "captions.jsonl").open("w") as captions:
        for number in range(0, n_members, PER_TAR):
            name = f"{number // PER_TAR:05d}.tar"
            with tarfile.open(folder / name, "w") as tar:
                for place in range(number, min(number + PER_TAR, n_members)):
                    content = clips[place % len(clips)]
                    # A box that players skip.
                    content += (CLIP_BYTES - len(content)).to_bytes(4, "big") + b"free" + place.to_bytes(8, "big")
                    content += bytes(CLIP_BYTES - len(content))
                    member = tarfile.TarInfo(f"{place:08d}.mp4")
                    member.size = len(content)
                    n_bytes += len(content)
                    tar.addfile(member, io.BytesIO(content))
                    key = {"video_id": f"{place:08d}"}
                    videos.write(json.dumps({**key, "path": f"tar://{name}#{member.name}"}) + "\n")
                    row = {
                        "caption_id": f"c{place}",
                        **key,
                        "role": "candidate",
                        "system": "s",
                        "text": f"Clip {place}.",
                    }
                    captions.write(json.dumps(row) + "\n")
    return n_bytes


def name_objects(folder: Path, manifest: Path) -> Path:
    """Write a manifest of the same clips in the store."""
    folder.mkdir(parents=True)
    shutil.copy(manifest / "captions.jsonl", folder)
    text = (manifest / "videos.jsonl").read_text().replace("tar://", f"tar://s3://{BUCKET}/")
    (folder / "videos.jsonl").write_text(text)
    return folder


@contextmanager
def identified(identity: str) -> Iterator[None]:
    """The setting, for this process and those that it starts."""
    os.environ["REELSIEVE_IDENTITY"] = identity
    try:
        yield
    finally:
        del os.environ["REELSIEVE_IDENTITY"]


def measure(engine: Engine, manifest: Path, way: str, n_members: int) -> dict[str, float]:
    """Seconds of a first ingest and of one more, as a dataset that is dropped afterwards, and CPU seconds of the first
    one's processes without the server.
    """
    identity, n_workers = WAYS[way]

    def ingest(n: int) -> None:
        report = ingest_folder(engine, manifest, "set", n_shards=5, n_workers=n_workers)
        assert (report.accepted["videos"], report.rejected) == (n, 0), report

    with identified(identity):
        before = cpu_seconds()
        first, _ = timed(f"{n_members:,} {way}", lambda: ingest(n_members))
        spent = cpu_seconds() - before
        again, _ = timed(f"{n_members:,} {way}, again", lambda: ingest(0))
    with engine.begin() as connection:
        dataset = find_dataset(connection, "set")
        assert dataset is not None
        delete_dataset(connection, dataset)
    return {"seconds": first, "cpu_seconds": spent, "again_seconds": again}


def cpu_seconds() -> float:
    """Of this process, and of its children that have ended: helpers, but not the decoder of this process."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def measure_large(folder: Path) -> dict[str, dict[str, float]]:
    """Milliseconds of one clip of ten seconds, 1280 x 960, by identity: the median of five; and bytes of it."""
    from assets.ingest.rows import VideoRow
    from assets.ingest.video_columns import inspect_video

    folder.mkdir()
    content = draw_clip(folder / "large.mp4", 0, 8, 240)
    taken: dict[str, dict[str, float]] = {}
    for identity in ("sha256", "etag"):
        with identified(identity):
            row = VideoRow(video_id="v", path="large.mp4")
            runs = [seconds(lambda row=row: inspect_video(folder, row, None)) for _ in range(5)]  # type: ignore[misc]
        taken[identity] = {"ms": 1000 * statistics.median(runs), "bytes": len(content)}
    taken["etag"]["bytes"] = count_bytes(folder, "large.mp4")
    return taken


def count_bytes(folder: Path, path: str) -> int:
    """The bytes that etag reads of a clip's header; a hash reads all bytes."""
    from assets.ingest.rows import VideoRow
    from assets.ingest.video_columns import inspect_video
    from assets.media.members import read_range

    read: list[int] = []

    def count(holder: Any, part: Any, *rest: Any, **named: Any) -> None:
        read.append(part.size_bytes)
        read_range(holder, part, *rest, **named)

    with identified("etag"), mock.patch("assets.media.headers.read_range", count):
        inspect_video(folder, VideoRow(video_id="v", path=path), None)
    return sum(read)


def project(small: Mapping[str, float], large: Mapping[str, float], n_small: int, n_large: int) -> dict[str, float]:
    """Seconds that a clip adds, and hours for ten million, by calculation."""
    each = (large["seconds"] - small["seconds"]) / (n_large - n_small)
    return {"ms_each": 1000 * each, "hours_for_ten_million": TEN_MILLION * each / 3600}


def main() -> None:
    """Measure, write the result to a file and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=20_000)
    parser.add_argument("--s3", action="store_true", help="from an S3 server, which shares the cores")
    parser.add_argument("result", type=Path, nargs="?", default=RESULT)
    given = parser.parse_args()
    before, sizes = os.getloadavg(), (given.members // 10, given.members)
    with tempfile.TemporaryDirectory(prefix="reelsieve-") as temporary:
        folder, clips = Path(temporary), [draw_clip(Path(temporary) / "clip.mp4", seed) for seed in range(N_DRAWN)]
        n_bytes = [write_tars(folder / "disk" / str(n), n, clips) for n in sizes]
        with measured_server(folder / "home") as server, server.fresh() as engine:
            manifests = [folder / "disk" / str(n) for n in sizes]
            header, large_clip = (
                count_bytes(manifests[0], "tar://00000.tar#00000000.mp4"),
                measure_large(folder / "large"),
            )
            with s3_server(sorted(manifests[1].glob("*.tar")) if given.s3 else ()):
                if given.s3:
                    manifests = [name_objects(folder / "s3" / path.name, path) for path in manifests]
                taken: dict[str, Any] = {}
                for way in WAYS:
                    runs = [measure(engine, path, way, n) for path, n in zip(manifests, sizes, strict=True)]
                    taken[way] = {"small": runs[0], "large": runs[1], "calculated": project(runs[0], runs[1], *sizes)}
    content = {
        "place": "s3" if given.s3 else "disk",
        "members": sizes,
        "tars": [n // PER_TAR for n in sizes],
        "bytes": n_bytes,
        "measured": taken,
    }
    content |= {"bytes_of_a_clip": n_bytes[1] // sizes[1], "bytes_of_its_header": header, "large_clip": large_clip}
    save(given.result, content, load_average_before=before)
    for name, row in taken.items():
        small, large, calculated = row["small"], row["large"], row["calculated"]
        print(
            f"{name:<24}{small['seconds']:>7.1f} s{large['seconds']:>8.1f} s, {large['cpu_seconds']:>6.1f} s of CPU, "
            f"again {large['again_seconds']:>6.1f} s; {calculated['ms_each']:.2f} ms each, ten million calculated: "
            f"{calculated['hours_for_ten_million']:.1f} h"
        )
    for identity, clip in large_clip.items():
        print(f"a clip of ten seconds, 1280 x 960: {identity} takes {clip['ms']:.0f} ms, of {clip['bytes']:,} bytes")
    print(f"a clip has {content['bytes_of_a_clip']:,} bytes, of which etag reads {header:,}")


if __name__ == "__main__":
    main()
