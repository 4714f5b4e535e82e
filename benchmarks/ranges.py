"""Counts the bytes that loaders read for a selection out of tar files: `python -m benchmarks.ranges`.

`--clips N` (1,000) clips with a caption and a file of fields each lie in 10 tar files, on this machine and on an S3
server of it (moto, in a process of its own), once as clips of 20 to 60 KB and once of 100 to 500 KB. An eighth and a
half of them are drawn, and exported with their keys. The loaders are those of docs/export.md. On disk, `by_process` are
the bytes that the process got from the kernel, and `by_device` those that the kernel took from the device with nothing
in its cache; of the store, `sent` are the bytes of the server's answers. All are divided by the bytes of the chosen
videos.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from sqlalchemy.engine import Engine

from assets.ingest.run import ingest_folder
from assets.new_manifest.make import create_manifest
from assets.selection.export import export_selection
from benchmarks.installation import temporary_engine
from benchmarks.measure import RESULTS, save_with_load, seconds
from benchmarks.members import BUCKET, CountAnswers, draw_clip, s3_server
from db.manifest.datasets import find_dataset
from db.selection.recipes import parse_recipe
from tests.assets.exporting import read_documented
from tests.assets.init_sources import shard
from tests.db.freezing import freeze_recipe

N_TARS = 10
SIZES = {"20 to 60 KB": (20_000, 60_000), "100 to 500 KB": (100_000, 500_000)}
SHARES = (0.125, 0.5)
TARGET = 1.15


def write_tars(folder: Path, n_clips: int, sizes: tuple[int, int], begin: str) -> list[Path]:
    """Write the clips, of the same second of video and another number of bytes that players skip."""
    clip, draw = draw_clip(), random.Random(0)
    tars = []
    for tar_number in range(N_TARS):
        members: list[tuple[str, bytes | str]] = []
        for number in range(tar_number, n_clips, N_TARS):
            n_more = max(8, draw.randint(*sizes) - len(clip))
            video = clip + n_more.to_bytes(4, "big") + b"free" + draw.randbytes(n_more - 8)
            fields = json.dumps({"number": number})
            members += [(f"{number:05}.mp4", video), (f"{number:05}.txt", f"Clip {number}.")]
            members.append((f"{number:05}.json", fields))
        tars.append(shard(folder / f"{begin}{tar_number}.tar", members))
    return tars


def export_keys(engine: Engine, folder: Path, to: Path, share: float) -> Path:
    """Ingest the tar files if they are not, draw a share of the clips, and export the keys."""
    with engine.connect() as connection:
        dataset = find_dataset(connection, folder.name)
    if dataset is None:
        ingest_folder(engine, create_manifest(folder).folder, folder.name, n_shards=1)
        with engine.connect() as connection:
            dataset = find_dataset(connection, folder.name)
    assert dataset is not None
    with engine.begin() as connection:
        recipe = parse_recipe({"by": "n_characters", "choose": "random", "keep": share})
        selection = freeze_recipe(connection, dataset, recipe)
    return export_selection(engine, selection.selection_id, to).path


def read_counters() -> tuple[int, int]:
    """Bytes that this process got from the kernel so far, and those that the kernel took from a device for it."""
    counted = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counted["rchar"]), int(counted["read_bytes"])


def forget(tars: Iterable[Path]) -> None:
    """Take tar files out of the kernel's cache."""
    for tar in tars:
        with tar.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(keys: Path, tars: list[Path], count: CountAnswers) -> dict[str, Any]:
    """What each loader reads for one file of keys."""
    by_range = read_documented("Ranges of shards")
    by_key = read_documented("Keys of shards")
    ranges = f"{keys}.parquet"
    rows = pq.read_table(ranges, columns=["size"]).column("size").to_pylist()
    chosen, root, store = sum(rows), str(tars[0].parent), f"s3://{BUCKET}"
    loaders: dict[str, Callable[[str], Iterable[Any]]] = {
        "webdataset": lambda place: by_range["load_ranges"](ranges, place),
        "torch": lambda place: by_range["SelectedVideos"](ranges, place),
        "filter": lambda place: by_key["load_selection"](str(keys), place),
    }
    found: dict[str, Any] = {"videos": len(rows), "chosen_bytes": chosen}
    for name, load in loaders.items():
        for place in (root,) if name == "filter" else (root, store):
            # Imports and connections are made by then.
            next(iter(load(place)))
            forget(tars)
            before, sent = read_counters(), count()
            read: list[int] = []
            taken = seconds(lambda load=load, place=place, read=read: read.extend(len(x["mp4"]) for x in load(place)))
            assert sum(read) == chosen, f"{name} read {sum(read)} of {chosen} bytes"
            if place == store:
                n_requests, n_bytes = (after - start for after, start in zip(count(), sent, strict=True))
                row = {"sent": round(n_bytes / chosen, 4), "requests": n_requests}
            else:
                by_process, by_device = (after - start for after, start in zip(read_counters(), before, strict=True))
                row = {"by_process": round(by_process / chosen, 4), "by_device": round(by_device / chosen, 4)}
            found[f"{name}, {'store' if place == store else 'disk'}"] = {**row, "seconds": round(taken, 3)}
    return found


def main() -> None:
    """Measure, print the table and write results/ranges.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=1000)
    parser.add_argument("--json", type=Path, default=RESULTS / "ranges.json")
    given = parser.parse_args()
    before = os.getloadavg()
    with tempfile.TemporaryDirectory(prefix="reelsieve-") as name:
        folder = Path(name)
        tars = {
            title: write_tars(folder / f"set{number}", given.clips, sizes, f"{number}-")
            for number, (title, sizes) in enumerate(SIZES.items())
        }
        every = [tar for some in tars.values() for tar in some]
        found: dict[str, Any] = {}
        with s3_server(every) as count, temporary_engine(folder / "home") as engine:
            for title, some in tars.items():
                for share in SHARES:
                    to = folder / f"{some[0].parent.name}-{share}.keys"
                    keys = export_keys(engine, some[0].parent, to, share)
                    found[f"{share} of clips of {title}"] = measure(keys, some, count)
    print(json.dumps(found, indent=1))
    save_with_load(given.json, {"clips": given.clips, "tars": N_TARS, "target": TARGET, "measured": found}, before)


if __name__ == "__main__":
    main()
