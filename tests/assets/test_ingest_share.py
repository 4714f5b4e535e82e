"""Several processes read the videos of a manifest: every block once, and the rows of an ingest that reads alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from assets.datasets.leases import format_lease_name, hold_datasets
from assets.ingest.manifest import Manifest, read_manifest_folder
from assets.ingest.run import ingest_folder
from assets.ingest.share import read_share
from assets.ingest.write import FILES_PER_BATCH
from db.manifest.datasets import Dataset, find_or_create_dataset
from db.manifest.removal import delete_dataset
from tests.assets.init_sources import shard
from tests.assets.manifests import candidate, content, write_clip, write_manifest
from tests.assets.verifying import dataset_of

N = 200


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four clips in two tar files, many videos without a file, a bad row, a missing file and a repeated id."""
    folder = tmp_path_factory.mktemp("manifest")
    clips = [write_clip(folder / f"{n}.avi", n_frames=5 + n).read_bytes() for n in range(4)]
    for n in range(2):
        shard(folder / f"s{n}.tar", [("a.avi", clips[2 * n]), ("b.avi", clips[2 * n + 1])])
    videos = [{"video_id": f"{t}{m}", "path": f"tar://s{t}.tar#{m}.avi"} for t in range(2) for m in "ab"]
    videos += [{"video_id": f"text {n}", "duration_s": n + 1.0} for n in range(N)]
    videos += [{"video_id": "gone", "path": "gone.avi"}, {"video_id": "", "path": "x"}]
    videos += [{"video_id": "text 0", "path": "tar://s0.tar#a.avi"}]
    return write_manifest(folder, videos, captions=[candidate("c", "0a", "A dog.")])


def start(engine: Engine, folder: Path) -> tuple[Dataset, Manifest]:
    with engine.begin() as connection:
        dataset = find_or_create_dataset(connection, "mine", 3)
    return dataset, read_manifest_folder(folder)


def test_workers_store_what_one_process_does(engine: Engine, folder: Path) -> None:
    alone = ingest_folder(engine, folder, "mine", n_shards=3)
    expected = content(engine)
    with engine.begin() as connection:
        delete_dataset(connection, dataset_of(engine, "mine"))
    shared = ingest_folder(engine, folder, "mine", n_shards=3, n_workers=2)
    assert content(engine) == expected
    assert (shared.as_dict(), shared.notes) == (alone.as_dict(), [])
    assert (shared.accepted["videos"], shared.rejected) == (N + 4, 3)
    again = ingest_folder(engine, folder, "mine", n_workers=1)
    assert (again.accepted["videos"], again.unchanged["videos"]) == (0, N + 4)
    assert content(engine) == expected


def test_a_block_is_read_by_the_process_that_took_it(engine: Engine, folder: Path) -> None:
    dataset, manifest = start(engine, folder)
    with hold_datasets(engine, "mine") as other:
        assert other.take_if_free(format_lease_name("videos from row 1", "mine"))
        with hold_datasets(engine, "mine") as leases:
            first = read_share(engine, leases, dataset, manifest)
    assert first == N + 4 - FILES_PER_BATCH + 1, "one more, by the last row, whose id is repeated"
    with hold_datasets(engine, "mine") as leases:
        assert first + read_share(engine, leases, dataset, manifest) == N + 4, "it was given back unread"


def test_processes_share_all_blocks(engine: Engine, folder: Path) -> None:
    dataset, manifest = start(engine, folder)
    with hold_datasets(engine, "mine") as one, hold_datasets(engine, "mine") as two, ThreadPoolExecutor(2) as pool:
        shares = pool.map(lambda leases: read_share(engine, leases, dataset, manifest), (one, two))
        assert sum(shares) == N + 4


def test_a_failed_helper_costs_nothing(engine: Engine, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assets.ingest.share.sys.executable", "/bin/false")
    report = ingest_folder(engine, folder, "mine", n_shards=3, n_workers=2)
    assert report.accepted["videos"] == N + 4
    assert report.notes == ["warning: one of the workers failed, and its videos were read after the others"]
