"""Times ingest and facts of clips inside tar files and a Lance table against files: `python -m benchmarks.members`.

`--clips N` (2,000) clips of two seconds lie in a folder, in 20 tar files, in a Lance table of as many data files, and
in the same tar files on an S3 server of this machine (moto, in this process). Every repeat measures all in turn, into
fresh databases, so that other load on the machine meets all alike; `to_files` is the ratio of a repeat to that of the
files in the same repeat. The spread is the range of the middle half of the repeats. The clips differ only in their last
bytes.
"""

from __future__ import annotations

import argparse
import io
import json
import logging
import os
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from assets.facts.measure import measure_videos
from assets.ingest.run import ingest_folder
from benchmarks.measure import RESULTS, save, seconds, spread
from benchmarks.server_cost import Server, measured_server
from db.manifest.datasets import find_dataset

RESULT = RESULTS / "members.json"
TARGET = 1.1
BUCKET = "clips"


def draw_clip() -> bytes:
    """A clip of two seconds in H.264, of blocks that move."""
    import av

    blocks = np.kron(np.random.default_rng(0).integers(0, 255, (24, 60, 3), np.uint8), np.ones((10, 10, 1), np.uint8))
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=Fraction(24))
        stream.width, stream.height, stream.pix_fmt = 320, 240, "yuv420p"
        for number in range(48):
            picture = np.ascontiguousarray(blocks[:, 4 * number : 4 * number + 320])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
    return file.getvalue()


def write_sources(folder: Path, n_clips: int, n_tars: int) -> Iterator[tuple[str, Path]]:
    """Write the clips, and yield the name and the manifest's folder of each source."""
    clip = draw_clip()
    paths: dict[str, list[str]] = {"files": [], "tars": [], "lance": [], "s3": []}
    (folder / "files").mkdir()
    (folder / "tars").mkdir()
    for tar_number in range(n_tars):
        with tarfile.open(folder / "tars" / f"{tar_number}.tar", "w") as tar:
            for number in range(tar_number, n_clips, n_tars):
                # A box that players skip.
                content = clip + (16).to_bytes(4, "big") + b"free" + number.to_bytes(8, "big")
                (folder / "files" / f"{number}.mp4").write_bytes(content)
                member = tarfile.TarInfo(f"{number}.mp4")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
                paths["files"].append(f"{number}.mp4")
                paths["tars"].append(f"tar://{tar_number}.tar#{number}.mp4")
                paths["s3"].append(f"tar://s3://{BUCKET}/{tar_number}.tar#{number}.mp4")
    paths["lance"] = write_table(folder / "lance" / "t.lance", folder / "files", n_clips, n_tars)
    for name, listed in paths.items():
        manifest = folder / name
        manifest.mkdir(exist_ok=True)
        rows = ({"video_id": str(place), "path": path} for place, path in enumerate(listed))
        (manifest / "videos.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (manifest / "captions.jsonl").write_text("")
        yield name, manifest


def write_table(table: Path, files: Path, n_clips: int, n_files: int) -> list[str]:
    """Write the clips of a folder to a Lance table of so many data files, and list their addresses."""
    import lance
    import pyarrow as pa

    schema = pa.schema([lance.blob_field("video")])
    rows_per_file = -(-n_clips // n_files)
    for start in range(0, n_clips, rows_per_file):
        clips = [(files / f"{n}.mp4").read_bytes() for n in range(start, min(start + rows_per_file, n_clips))]
        lance.write_dataset(pa.table([lance.blob_array(clips)], schema=schema), str(table), mode="append")
    rows = lance.dataset(str(table)).to_table(columns=[], with_row_id=True)
    return [f"lance://t.lance#video/{row_id}" for row_id in rows["_rowid"].to_pylist()]


@contextmanager
def s3_server(tars: Path) -> Iterator[None]:
    """Serve the tar files of a folder, to which the environment of this process leads."""
    from botocore.session import get_session
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ |= {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_DEFAULT_REGION": "us-east-1"}
    os.environ |= {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}
    os.environ["REELSIEVE_MEDIA_PRIVATE_NETWORKS"] = '["127.0.0.0/8"]'
    client = get_session().create_client("s3")
    client.create_bucket(Bucket=BUCKET)
    for tar in tars.glob("*.tar"):
        client.put_object(Bucket=BUCKET, Key=tar.name, Body=tar.read_bytes())
    yield
    server.stop()


def measure(server: Server, manifest: Path, n_clips: int) -> tuple[float, float]:
    """Seconds of ingest and of facts, into a fresh database."""
    with server.fresh() as engine:
        ingest = seconds(lambda: ingest_folder(engine, manifest, "set", n_shards=1))
        with engine.connect() as connection:
            dataset = find_dataset(connection, "set")
        assert dataset is not None
        counted: list[int] = []
        facts = seconds(lambda: counted.append(measure_videos(engine, dataset, 0, lambda _: None)))
        assert counted == [n_clips], f"{counted} of {n_clips} clips were measured"
        return ingest, facts


def summary(taken: Mapping[str, Sequence[tuple[float, float]]]) -> dict[str, Any]:
    """Seconds of both steps by source, and their ratios to those of the files in the same repeat."""
    return {
        name: {
            step: {
                "seconds": spread([run[place] for run in runs]),
                "to_files": spread(
                    [run[place] / floor[place] for run, floor in zip(runs, taken["files"], strict=True)]
                ),
            }
            for place, step in enumerate(("ingest", "facts"))
        }
        for name, runs in taken.items()
    }


def main() -> None:
    """Measure, write the result to a file and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=2000)
    parser.add_argument("--tars", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("result", type=Path, nargs="?", default=RESULT)
    given = parser.parse_args()
    before = os.getloadavg()
    with tempfile.TemporaryDirectory(prefix="reelsieve-") as temporary:
        folder = Path(temporary)
        sources = dict(write_sources(folder, given.clips, given.tars))
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in sources}
        with s3_server(folder / "tars"), measured_server(folder / "home") as server:
            measure(server, sources["files"], given.clips)  # starts the decoder, and warms the files
            for _ in range(given.repeats):
                for name, manifest in sources.items():
                    taken[name].append(measure(server, manifest, given.clips))
    rows = summary(taken)
    content = {"clips": given.clips, "tars": given.tars, "repeats": given.repeats, "target": TARGET, "measured": rows}
    save(given.result, content, load_average_before=before)
    for name, steps in rows.items():
        for step, row in steps.items():
            took, ratio = row["seconds"], row["to_files"]
            print(
                f"{name:<6}{step:<7}{took['median']:>8.2f} s ({took['low']:.2f} to {took['high']:.2f})"
                f"{ratio['median']:>7.2f} of files ({ratio['low']:.2f} to {ratio['high']:.2f})"
            )
    print(f"{given.clips} clips in {given.tars} tar files, {given.repeats} repeats; wanted: {TARGET} of files")


if __name__ == "__main__":
    main()
