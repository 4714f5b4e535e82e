"""Times ingest and facts of clips inside tar files and Lance tables against files: `python -m benchmarks.members`.

`--clips N` (2,000) clips of one second lie in 20 folders, 20 tar files and 20 Lance tables, and in the same tar files
on an S3 server of this machine (moto, in a process of its own). A tar file, its folder, its table and its copy on the
server are measured one after the other, as datasets of their own, in an order that turns, so that other load on the
machine meets all alike. `to_files` is the ratio to the folder of the same clips, with the middle half of the 20 ratios;
`of_all` is that of the sums over all clips. The clips differ only in their last bytes.
"""

from __future__ import annotations

import argparse
import io
import json
import logging
import multiprocessing
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
from sqlalchemy.engine import Engine

from assets.ingest.run import ingest_folder
from assets.sources.facts import measure_videos
from benchmarks.measure import RESULTS, save, seconds, spread
from benchmarks.server_cost import measured_server
from db.manifest.datasets import find_dataset
from db.manifest.removal import delete_dataset

RESULT = RESULTS / "members.json"
TARGET = 1.1
BUCKET = "clips"


def draw_clip() -> bytes:
    """A clip of one second in H.264, of blocks that move."""
    import av

    blocks = np.kron(np.random.default_rng(0).integers(0, 255, (12, 28, 3), np.uint8), np.ones((10, 10, 1), np.uint8))
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=Fraction(24))
        stream.width, stream.height, stream.pix_fmt = 160, 120, "yuv420p"
        for number in range(24):
            picture = np.ascontiguousarray(blocks[:, 4 * number : 4 * number + 160])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
    return file.getvalue()


def write_sources(folder: Path, n_clips: int, n_tars: int) -> list[dict[str, Path]]:
    """Write the clips, and return for every tar file the manifest's folder of each source by its name."""
    clip, sources = draw_clip(), []
    for tar_number in range(n_tars):
        paths: dict[str, list[str]] = {"files": [], "tars": [], "lance": [], "s3": []}
        manifests = {name: folder / name / str(tar_number) for name in paths}
        for manifest in manifests.values():
            manifest.mkdir(parents=True)
        with tarfile.open(manifests["tars"] / f"{tar_number}.tar", "w") as tar:
            for number in range(tar_number, n_clips, n_tars):
                # A box that players skip.
                content = clip + (16).to_bytes(4, "big") + b"free" + number.to_bytes(8, "big")
                (manifests["files"] / f"{number}.mp4").write_bytes(content)
                member = tarfile.TarInfo(f"{number}.mp4")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
                paths["files"].append(f"{number}.mp4")
                paths["tars"].append(f"tar://{tar_number}.tar#{number}.mp4")
                paths["s3"].append(f"tar://s3://{BUCKET}/{tar_number}.tar#{number}.mp4")
        paths["lance"] = write_table(manifests["lance"] / "t.lance", sorted(manifests["files"].glob("*.mp4")))
        for name, manifest in manifests.items():
            rows = ({"video_id": str(place), "path": path} for place, path in enumerate(paths[name]))
            (manifest / "videos.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            (manifest / "captions.jsonl").write_text("")
        sources.append(manifests)
    return sources


def write_table(table: Path, clips: Sequence[Path]) -> list[str]:
    """Write clips to a Lance table, and list their addresses."""
    import lance
    import pyarrow as pa

    schema = pa.schema([lance.blob_field("video")])
    cells = lance.blob_array([clip.read_bytes() for clip in clips])
    rows = lance.write_dataset(pa.table([cells], schema=schema), str(table)).to_table(columns=[], with_row_id=True)
    return [f"lance://t.lance#video/{row_id}" for row_id in rows["_rowid"].to_pylist()]


CountAnswers = Callable[[], tuple[int, int]]
"""Returns how many requests a server answered so far, and the bytes of the answers."""


def serve_s3(port: Connection) -> None:
    """Serve S3 on a port of this machine, which is sent, until the other end is closed. Answer any message by the
    number of requests so far and of the bytes of their answers.
    """
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application, counted = DomainDispatcherApplication(create_backend_app), [0, 0]

    def answer(environment: Any, start: Any) -> Iterator[bytes]:
        counted[0] += 1
        for block in application(environment, start):
            counted[1] += len(block)
            yield block

    server = make_server("127.0.0.1", 0, answer, threaded=True, request_handler=MotoRequestHandler)
    Thread(target=server.serve_forever, daemon=True).start()
    port.send(server.server_port)
    with suppress(EOFError):
        while True:
            port.recv()
            port.send(tuple(counted))
    server.shutdown()


@contextmanager
def s3_server(tars: Sequence[Path]) -> Iterator[CountAnswers]:
    """Serve the tar files from another process, to which the environment of this one leads, and count the answers."""
    from botocore.session import get_session

    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve_s3, args=(there,), daemon=True)
    process.start()
    there.close()
    os.environ |= {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{here.recv()}", "AWS_DEFAULT_REGION": "us-east-1"}
    os.environ |= {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}
    os.environ["REELSIEVE_MEDIA_PRIVATE_NETWORKS"] = '["127.0.0.0/8"]'
    client = get_session().create_client("s3")
    client.create_bucket(Bucket=BUCKET)
    for tar in tars:
        client.put_object(Bucket=BUCKET, Key=tar.name, Body=tar.read_bytes())

    def count() -> tuple[int, int]:
        here.send(None)
        n_requests, n_bytes = here.recv()
        return n_requests, n_bytes

    yield count
    here.close()
    process.join()


def measure(engine: Engine, manifest: Path, n_clips: int) -> tuple[float, float]:
    """Seconds of ingest and of facts, as a dataset that is dropped afterwards."""
    ingest = seconds(lambda: ingest_folder(engine, manifest, "set", n_shards=1))
    with engine.connect() as connection:
        dataset = find_dataset(connection, "set")
    assert dataset is not None
    counted: list[int] = []
    facts = seconds(lambda: counted.append(measure_videos(engine, dataset, 0, lambda _: None)))
    assert counted == [n_clips], f"{counted} of {n_clips} clips were measured"
    with engine.begin() as connection:
        delete_dataset(connection, dataset)
    return ingest, facts


def summary(taken: Mapping[str, Sequence[tuple[float, float]]]) -> dict[str, Any]:
    """Seconds of both steps by source, in all, and their ratios to those of the files."""
    columns = {
        name: dict(zip(("ingest", "facts"), zip(*runs, strict=True), strict=True)) for name, runs in taken.items()
    }
    return {
        name: {
            step: {
                "seconds": sum(column),
                "of_all": sum(column) / sum(columns["files"][step]),
                "to_files": spread([own / floor for own, floor in zip(column, columns["files"][step], strict=True)]),
            }
            for step, column in steps.items()
        }
        for name, steps in columns.items()
    }


def main() -> None:
    """Measure, write the result to a file and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=2000)
    parser.add_argument("--tars", type=int, default=20)
    parser.add_argument("result", type=Path, nargs="?", default=RESULT)
    given = parser.parse_args()
    before = os.getloadavg()
    with tempfile.TemporaryDirectory(prefix="reelsieve-") as temporary:
        folder = Path(temporary)
        sources = write_sources(folder, given.clips, given.tars)
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in sources[0]}
        tars = sorted((folder / "tars").glob("*/*.tar"))
        with s3_server(tars), measured_server(folder / "home") as server, server.fresh() as engine:
            for manifest in sources[0].values():  # starts the decoder and the clients, and warms the files
                measure(engine, manifest, len(range(0, given.clips, given.tars)))
            for number, manifests in enumerate(sources):
                n_clips = len(range(number, given.clips, given.tars))
                order = list(manifests)
                for name in order[number % len(order) :] + order[: number % len(order)]:
                    taken[name].append(measure(engine, manifests[name], n_clips))
    rows = summary(taken)
    content = {"clips": given.clips, "tars": given.tars, "target": TARGET, "measured": rows}
    save(given.result, content, load_average_before=before)
    for name, steps in rows.items():
        for step, row in steps.items():
            ratio = row["to_files"]
            print(
                f"{name:<6}{step:<7}{row['seconds']:>8.2f} s{row['of_all']:>7.2f} of files; by tar file "
                f"{ratio['median']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"
            )
    print(f"{given.clips} clips in {given.tars} tar files; wanted: {TARGET} of files")


if __name__ == "__main__":
    main()
