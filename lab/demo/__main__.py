"""Makes the dataset that ships as `demo/dataset`, with the hashes of its files: `python -m lab.demo [FOLDER]`."""

from __future__ import annotations

import sys
from pathlib import Path

from demo import FOLDER, HASHES
from lab.demo.build import create_demo
from metrics_core.file_hash import compute_file_sha256

# Conclusions on agreement need 10 videos, and the time of the command grows with the number of clips.
N_CLIPS = 10


def make_shipped_dataset(folder: Path) -> None:
    """Write the dataset of the command demo into a folder, and the SHA-256 of every file of it."""
    create_demo(folder, n_clips=N_CLIPS)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != HASHES)
    lines = [f"{compute_file_sha256(path).hex()}  {path.relative_to(folder).as_posix()}\n" for path in files]
    (folder / HASHES).write_text("".join(lines), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    make_shipped_dataset(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
