"""Own trainers of trials: a command that is called for every run, or results that are handed in."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from assets.trial.arms import TrialRun
from assets.trial.parts import TrialParts, compute_digest, format_digest
from assets.trial.run_folder import choose_run_folder, parse_result, read_result, write_result, write_run_folder
from db.selection.recipes import SelectionError
from db.selection.trials import TrainedRun
from metrics_core.child_processes import build_user_environment

LOG = "log.txt"
_OUTPUT = "output.txt"
_LAST_BYTES = 64 << 20


class OwnTrainer:
    """Has students trained outside: by a command, or by somebody who puts results into the folders of runs.

    command: called as COMMAND FOLDER, without a shell, for every run whose folder has no result; "" where results are
    handed in. folder: has the folders of all runs, and of other trials where `is_shared`. limit_s: seconds after which
    a run is ended.
    """

    chance: float | None = None
    video_side = "media"

    def __init__(
        self, parts: TrialParts, command: str, folder: Path, limit_s: float, *, is_shared: bool = False
    ) -> None:
        self._parts = parts
        self._arguments = _split_command(command)
        self._folder = folder.absolute()
        self._limit_s = limit_s
        self._is_shared = is_shared
        self._test_keys = [video.key for video in parts.test_videos]
        self.name = command or f"results in {folder.name}"
        self.settings: Mapping[str, Any] = {"command": command} if command else {"results": folder.name}
        known = (*parts.train_videos, *parts.validation_videos, *parts.test_videos)
        videos = [(video.key, format_digest(video.content_sha256)) for video in known]
        self.identity: Mapping[str, Any] = {**self.settings, "videos": compute_digest(videos).hex()}
        # Results that are handed in may still be corrected, so only their folder counts.
        self.keeps_runs = bool(command)

    def train(self, run: TrialRun) -> TrainedRun:
        """Return what the run's folder has as its result, after calling the command where it has none."""
        if not len(run.rows.texts):
            return TrainedRun("too_few_rows", "no training row")
        folder = choose_run_folder(self._folder, run.arm, run.seed)
        if self._is_shared:
            folder /= run.rows_sha256.hex()[:12]
        write_run_folder(folder, self._parts, run)
        found = read_result(folder, self._parts)
        if found.status != "missing" or not self._arguments:
            return found
        started = time.perf_counter()
        failure = self._call(folder)
        if failure is not None:
            return failure
        printed = _read_last_line(folder / _OUTPUT)
        result = parse_result(printed, self._test_keys)
        if result.status == "ok":
            write_result(folder, printed)
        return result._replace(seconds=time.perf_counter() - started)

    def _call(self, folder: Path) -> TrainedRun | None:
        """Call the command on a folder; return the failure, None if it ended well."""
        # A command that outlived a kill may still write to the files of before.
        for file in (folder / _OUTPUT, folder / LOG):
            if file.is_dir():
                raise SelectionError(f"{file} is a folder, in the place of a file to write: remove it")
            file.unlink(missing_ok=True)
        program, environment = self._arguments[0], build_user_environment()
        with (folder / _OUTPUT).open("wb") as output, (folder / LOG).open("wb") as log:
            try:
                process = subprocess.Popen(
                    [*self._arguments, str(folder)],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=log,
                    env=environment,
                )
            except OSError as error:
                # The system blames a permission where a folder of the PATH cannot be read.
                is_there = shutil.which(program, os.F_OK, environment.get("PATH"))
                reason = error.strerror if is_there else "there is no such program: install it, or give its path"
                raise SelectionError(f"{program} cannot be called: {reason}") from None
            try:
                code = process.wait(self._limit_s)
            except subprocess.TimeoutExpired:
                reason = f"it did not end within {self._limit_s:g} s: raise --limit, or look at {folder / LOG}"
                return TrainedRun("timed_out", reason)
            finally:
                _end_family(process)
        if code:
            return TrainedRun("failed", f"exit code {code}: look at {folder / LOG}")
        return None


def _split_command(command: str) -> list[str]:
    """Split a command into its program and arguments as a POSIX shell does. Raises SelectionError for an open quote,
    and for a command of spaces only.

    >>> _split_command("python train.py --name 'a b'")
    ['python', 'train.py', '--name', 'a b']
    """
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise SelectionError(f"the trainer's command cannot be split, {str(error).lower()}: {command}") from None
    if command and not arguments:
        raise SelectionError("the trainer's command is empty: give a program (--trainer)")
    return arguments


def _end_family(process: subprocess.Popen[bytes]) -> None:
    """End a process that still runs, with all processes that it started."""
    if process.poll() is not None:
        return
    try:
        family = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
    except psutil.NoSuchProcess:
        family = []
    for member in family:
        try:
            member.kill()
        except psutil.NoSuchProcess:
            continue
    process.wait()
    psutil.wait_procs(family)


def _read_last_line(file: Path) -> str:
    """The last line of a file that is not empty, "" without one."""
    with file.open("rb") as opened:
        opened.seek(max(0, os.path.getsize(file) - _LAST_BYTES))
        lines = opened.read().decode("utf-8", errors="replace").strip().split("\n")
    return lines[-1]
