"""Own trainers of trials: a command that is called for every run, or results that are handed in.

FOLDER/ARM/seed-N/rows.parquet    rows of the arm: sample, video, text, media
                  validation.parquet, test.parquet    held-out videos: video, text, media
                  trial.json      digest of the run, arm, seed and budget
                  result.json     the result: what the trainer printed, or what was handed in
                  output.txt, log.txt    what the command printed, and what it wrote to standard error
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from assets.ingest.files import open_regular
from assets.selection.partial_file import open_partial_file
from assets.trial.arms import TrialRun
from assets.trial.parts import TrialParts, compute_digest
from db.selection.recipes import SelectionError
from db.selection.trial_rows import TrialVideo
from db.selection.trials import TrainedRun
from metrics_core.child_processes import build_user_environment
from metrics_core.trial.student import StudentSettings

_RESULT, _LOG, _OUTPUT = "result.json", "log.txt", "output.txt"
_MAX_BYTES = 64 << 20
# Of larger numbers the comparison would take powers that are no numbers.
_GREATEST = 1e50
_LONGEST_NAME = 100


class OwnTrainer:
    """Has students trained outside: by a command, or by somebody who puts results into the folders of runs.

    command: called as COMMAND FOLDER, without a shell, for every run whose folder has no result; "" where results are
    handed in. folder: has the folders of all runs, and of other trials where `is_shared`. limit_s: seconds after which
    a run is ended. The attributes are those of `StudentTrainer`.
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
        videos = [(video.key, video.content_sha256) for video in known]
        self.identity: Mapping[str, Any] = {**self.settings, "videos": compute_digest(videos)}
        # Results that are handed in may still be corrected, so only their folder counts.
        self.keeps_runs = bool(command)

    def train(self, run: TrialRun) -> TrainedRun:
        """Return what the run's folder has as its result, after calling the command where it has none."""
        if not len(run.texts):
            return TrainedRun("too_few_rows", "no training row")
        folder = self._folder / re.sub(r"[^\w.]+", "-", run.arm).strip("-") / f"seed-{run.seed}"
        if self._is_shared:
            folder /= run.rows_sha256[:12]
        _write_run_folder(folder, self._parts, run)
        found = _read_result(folder, self._test_keys)
        if found.status != "missing" or not self._arguments:
            return found
        started = time.perf_counter()
        failure = self._call(folder)
        if failure is not None:
            return failure
        printed = _read_last_line(folder / _OUTPUT)
        result = _parse_result(printed, self._test_keys)
        if result.status == "ok":
            with open_partial_file(folder / _RESULT) as file:
                file.write(printed.encode())
        return result._replace(seconds=time.perf_counter() - started)

    def _call(self, folder: Path) -> TrainedRun | None:
        """Call the command on a folder; return the failure, None if it ended well."""
        # A command that outlived a kill may still write to the files of before.
        for file in (folder / _OUTPUT, folder / _LOG):
            if file.is_dir():
                raise SelectionError(f"{file} is a folder, but a file must be written there: remove it")
            file.unlink(missing_ok=True)
        program, environment = self._arguments[0], build_user_environment()
        with (folder / _OUTPUT).open("wb") as output, (folder / _LOG).open("wb") as log:
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
                reason = f"it did not end within {self._limit_s:g} s: raise --limit, or look at {folder / _LOG}"
                return TrainedRun("timed_out", reason)
            finally:
                _end_family(process)
        if code:
            return TrainedRun("failed", f"exit code {code}: look at {folder / _LOG}")
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
        raise SelectionError(
            f"the trainer's command cannot be split, {str(error).lower()}, so quote its words: {command}"
        ) from None
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
        opened.seek(max(0, os.path.getsize(file) - _MAX_BYTES))
        lines = opened.read().decode("utf-8", errors="replace").strip().split("\n")
    return lines[-1]


def _write_run_folder(folder: Path, parts: TrialParts, run: TrialRun) -> None:
    """Write the files that a trainer reads; a folder that has the same run stays as it is. Raises SelectionError where
    the folder holds another run, whose result would count for the wrong rows, and where it cannot be written.
    """
    try:
        _write_files(folder, parts, run)
    except OSError as error:
        raise SelectionError(f"{error.filename or folder} cannot be used: {error.strerror or error}") from None


def _write_files(folder: Path, parts: TrialParts, run: TrialRun) -> None:
    written = folder / "trial.json"
    if written.exists():
        held = _read_json(written)
        if not isinstance(held, dict) or held.get("run") != run.rows_sha256:
            raise SelectionError(f"{folder} holds another run, of other rows or held-out videos: give an empty folder")
        return
    folder.mkdir(parents=True, exist_ok=True)
    captions, texts_of_rows = parts.captions, run.texts.tolist()
    videos = {video.video_id: video for video in parts.train_videos}
    of_rows = [videos[number] for number in captions.video_ids[run.videos].tolist()]
    samples = [captions.keys[place] for place in texts_of_rows]
    texts = [captions.texts[place] for place in texts_of_rows]
    _write_table(folder / "rows.parquet", {"sample": samples}, of_rows, texts)
    for name, held_out in (("validation", parts.validation_videos), ("test", parts.test_videos)):
        _write_table(folder / f"{name}.parquet", {}, held_out, [video.references[0] for video in held_out])
    settings = StudentSettings()
    budget = {"rows": len(samples), "max_steps": settings.max_steps, "batch": settings.batch}
    # Last: a folder with this file is complete.
    named = {"run": run.rows_sha256, "arm": run.arm, "seed": run.seed, "budget": budget}
    with open_partial_file(written) as file:
        file.write(json.dumps(named, indent=2).encode())


def _read_result(folder: Path, test_keys: Sequence[str]) -> TrainedRun:
    """The result that lies in a run's folder; status "missing" without one. Raises SelectionError where it cannot be
    read, or is a folder, a pipe or a device.
    """
    file = folder / _RESULT
    try:
        with open_regular(file) as opened:
            content = opened.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return TrainedRun("missing", f"{file} is missing")
    except OSError as error:
        raise SelectionError(f"{file} cannot be read: {error.strerror}") from None
    if len(content) > _MAX_BYTES:
        return TrainedRun("bad_output", f"{file} is larger than {_MAX_BYTES >> 20} MB")
    return _parse_result(content.decode("utf-8-sig", "replace"), test_keys)


def _parse_result(text: str, test_keys: Sequence[str]) -> TrainedRun:
    """The measures that a trainer printed: a JSON object whose values are numbers, or numbers by test video.

    The first measure decides. What is no such object, or holds a number that is not finite or not all test videos,
    comes back with the status "bad_output" and the reason.

    >>> _parse_result('{"mrr": {"v1": 0.5, "v2": 1}, "loss": 0.3}', ["v1", "v2"]).test_values
    (0.5, 1.0)
    >>> _parse_result('{"mrr": NaN}', ["v1"]).reason
    "measure 'mrr' is nan: print finite numbers up to 1e+50"
    """
    try:
        printed = json.loads(text)
    except (ValueError, RecursionError):
        return TrainedRun("bad_output", f"no JSON object of measures was printed, but {_shorten(text)}")
    if not isinstance(printed, dict) or not printed:
        return TrainedRun("bad_output", f"no JSON object of measures was printed, but {_shorten(text)}")
    columns: dict[str, tuple[float, ...]] = {}
    for name, given in printed.items():
        try:
            columns[name] = _read_measure(name, given, test_keys)
        except ValueError as error:
            return TrainedRun("bad_output", str(error))
    first = next(iter(columns))
    means = {name: float(np.mean(column)) for name, column in columns.items()}
    return TrainedRun("ok", None, first, columns[first], means)


def _read_measure(name: str, given: Any, test_keys: Sequence[str]) -> tuple[float, ...]:
    if len(name) > _LONGEST_NAME:
        raise ValueError(f"a measure is named {_shorten(name)}: give it at most {_LONGEST_NAME} characters")
    if not name.isprintable():
        raise ValueError(f"the name of measure {name!a} has signs that cannot be printed: give it another name")
    values = given if isinstance(given, Mapping) else {None: given}
    for value in values.values():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"measure {name!r} is {_shorten(json.dumps(value))}: print a number, or one by test video")
        # Also whole numbers that no float can hold.
        if not abs(value) <= _GREATEST:
            raise ValueError(f"measure {name!r} is {_shorten(str(value))}: print finite numbers up to {_GREATEST:g}")
    if not isinstance(given, Mapping):
        return (float(given),)
    if missing := [key for key in test_keys if key not in values]:
        raise ValueError(
            f"measure {name!r} lacks {len(missing):,} of {len(test_keys):,} test videos, such as {missing[0]!r}: print "
            "a number for every video of test.parquet"
        )
    return tuple(float(values[key]) for key in test_keys)


def _write_table(
    file: Path, first: Mapping[str, Sequence[str]], videos: Sequence[TrialVideo], texts: Sequence[str]
) -> None:
    table = {
        **{name: pa.array(column, pa.string()) for name, column in first.items()},
        "video": pa.array([video.key for video in videos], pa.string()),
        "text": pa.array(texts, pa.string()),
        "media": pa.array([video.uri for video in videos], pa.string()),
    }
    pq.write_table(pa.table(table), file)


def _read_json(file: Path) -> Any:
    try:
        with open_regular(file) as opened:
            return json.loads(opened.read(_MAX_BYTES))
    except (ValueError, RecursionError):
        return None


def _shorten(text: str) -> str:
    line = text.strip().split("\n")[-1] or "nothing"
    shown = "".join(sign if sign.isprintable() else "?" for sign in line[:81])
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
