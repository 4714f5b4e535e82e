"""What a run has finished is kept: a stage is made once for everything that its result follows from."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.ecs_run import Progress

PROJECT = Path(__file__).resolve().parents[2]


class Stages:
    """Results kept as files of JSON, FOLDER/STAGE/KEY, where the key is the digest of what a result follows from.

    `made` counts the results that this run had to make.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Before anything is made: the code that a long run has loaded stays, whatever is committed meanwhile.
        self._commit = commit()
        self.made = 0

    def whole(self, name: str, follows_from: Mapping[str, Any], make: Callable[[], Any]) -> Any:
        """The kept result of a stage, or else the one that `make` returns: plain data."""
        return self.timed(name, follows_from, make)["result"]

    def timed(self, name: str, follows_from: Mapping[str, Any], make: Callable[[], Any]) -> dict[str, Any]:
        """The same with the wall seconds that it took, the machine's load at its end, the day, and the run's commit."""
        file = self._file(name, follows_from, ".json")
        if not file.is_file():
            started = time.perf_counter()
            result = make()
            taken = {"seconds": time.perf_counter() - started, "load_average": os.getloadavg()[0]}
            when = {"date": time.strftime("%Y-%m-%d"), "commit": self._commit}
            write(file, json.dumps({**taken, **when, "result": result}))
            self._remove_others(file)
            self.made += 1
        kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return kept

    def each(
        self, name: str, follows_from: Mapping[str, Any], items: Iterable[str], make: Callable[[str], Any]
    ) -> dict[str, Any]:
        """The result of every item, kept one by one, so that a run that is stopped loses only one.

        A line that was cut off when a run was killed is made again.
        """
        file = self._file(name, follows_from, ".jsonl")
        found = read_ledger(file)
        wanted = list(items)
        missing = [item for item in wanted if item not in found]
        progress = Progress(f"of {name}", len(missing))
        with file.open("a", encoding="utf-8") as ledger:
            for done, item in enumerate(missing, 1):
                found[item] = make(item)
                ledger.write(json.dumps([item, found[item]]) + "\n")
                ledger.flush()
                self.made += 1
                progress.at(done)
        self._remove_others(file)
        return {item: found[item] for item in wanted}

    def _file(self, name: str, follows_from: Mapping[str, Any], ending: str) -> Path:
        folder = self._folder / name.replace(" ", "_")
        folder.mkdir(parents=True, exist_ok=True)
        return folder / (digest(json.dumps(follows_from, sort_keys=True).encode())[:16] + ending)

    def _remove_others(self, file: Path) -> None:
        """Remove what this stage kept for other inputs."""
        for other in file.parent.iterdir():
            if other != file:
                other.unlink()


def read_ledger(file: Path) -> dict[str, Any]:
    """The items of a ledger. A last line without its end is cut off the file, since the next line would join it."""
    if not file.is_file():
        return {}
    content = file.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        file.write_bytes(whole)
    return dict(json.loads(line) for line in whole.splitlines())


def commit() -> str:
    """The commit of this checkout, with "+" where tracked files but the page differ from it; "unknown" without git."""
    try:
        named = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=PROJECT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    changes = ["git", "diff", "--quiet", "HEAD", "--", ".", ":!docs/papers.*"]
    return named.stdout.strip() + "+" * bool(subprocess.run(changes, cwd=PROJECT, check=False).returncode)


def write(file: Path, text: str) -> None:
    """Write a file at once: it has its old content or the new one, never half of it."""
    temporary = file.with_name(f".{file.name}.part")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(file)


def digest(content: bytes) -> str:
    """The SHA-256 of some bytes."""
    return hashlib.sha256(content).hexdigest()


def digest_of_files(paths: Iterable[Path]) -> str:
    """One digest of files and of all Python, JSON and weight files below folders, with their names.

    >>> digest_of_files([PROJECT / "Makefile"]) == digest_of_files([PROJECT / "Makefile"])
    True
    """
    files = sorted({file for path in paths for file in ([path] if path.is_file() else below(path))})
    return digest("\n".join(f"{file.name} {digest(file.read_bytes())}" for file in files).encode())


def below(folder: Path) -> list[Path]:
    """The files of a folder that figures can follow from."""
    endings = {".py", ".json", ".jsonl", ".gz", ".safetensors", ".mp4", ".mkv", ".avi", ".mov"}
    return [file for file in folder.rglob("*") if file.suffix in endings]
