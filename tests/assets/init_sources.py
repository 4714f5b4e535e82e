"""Sources for `reelsieve init` made for tests, and what the manifest made of one says."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assets.new_manifest.make import NewManifest

Row = dict[str, Any]
Files = Mapping[str, bytes | str]


def put(folder: Path, files: Files) -> Path:
    """Write files, by their paths in the folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def shard(path: Path, members: Sequence[tuple[str, bytes | str]], *, compressed: bool = False) -> Path:
    """Write a tar file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz" if compressed else "w") as tar:
        for name, content in members:
            data = content if isinstance(content, bytes) else content.encode()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def rows(made: NewManifest, table: str) -> list[Row]:
    return [json.loads(line) for line in (made.folder / f"{table}.jsonl").read_text().splitlines()]


def texts(made: NewManifest) -> dict[str, str]:
    """The captions by their ids."""
    return {row["caption_id"]: row["text"] for row in rows(made, "captions")}


def read_video(folder: Path, path: str) -> bytes:
    """The bytes of a video by its path in a manifest, which may lie in a tar file."""
    if not path.startswith("tar://"):
        return (folder / path).read_bytes()
    tar, _, member = path.removeprefix("tar://").partition("#")
    with tarfile.open(folder / tar) as file:
        # Not by its name, for which Python would read on to a tar file's damage.
        content = file.extractfile(next(info for info in file if info.name == member))
        assert content is not None
        return content.read()


def left_out(made: NewManifest) -> dict[str, int]:
    return {row["left out"]: row["n"] for row in made.findings.list_left_out()}
