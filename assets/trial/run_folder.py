"""The folder of one run of an own trainer: what it gets to read, and the result that it leaves.

FOLDER/ARM/seed-N/rows.parquet    rows of the arm: sample, video, text, media
                  validation.parquet, test.parquet    held-out videos: video, text, media
                  trial.json      digest of the run, arm, seed and budget
                  result.json     the result: what the trainer printed, or what was handed in
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from assets.ingest.files import open_regular
from assets.selection.partial_file import open_partial_file
from assets.trial.arms import TrialRun
from assets.trial.parts import TrialParts
from db.selection.recipes import SelectionError
from db.selection.trial_rows import TrialVideo
from db.selection.trials import TrainedRun
from metrics_core.trial import StudentSettings

RESULT = "result.json"
_MAX_RESULT_BYTES = 64 << 20
_GREATEST = 1e100
_LONGEST_NAME = 100


def choose_run_folder(folder: Path, arm: str, seed: int) -> Path:
    """Return the folder of a run; nothing is created.

    >>> choose_run_folder(Path("trial"), "words in common", 2).as_posix()
    'trial/words-in-common/seed-2'
    """
    return folder / re.sub(r"[^\w.]+", "-", arm).strip("-") / f"seed-{seed}"


def write_run_folder(folder: Path, parts: TrialParts, run: TrialRun) -> None:
    """Write what a trainer reads; a folder that has the same run stays as it is.

    Raises SelectionError where the folder holds another run, whose result would count for the wrong rows, and where it
    cannot be written.
    """
    try:
        _write_files(folder, parts, run)
    except OSError as error:
        raise SelectionError(f"{error.filename or folder} cannot be used: {error.strerror or error}") from None


def _write_files(folder: Path, parts: TrialParts, run: TrialRun) -> None:
    written = folder / "trial.json"
    if written.exists():
        held = _read_json(written)
        if not isinstance(held, dict) or held.get("run") != run.rows_sha256.hex():
            raise SelectionError(f"{folder} holds another run, of other rows or held-out videos: give an empty folder")
        return
    folder.mkdir(parents=True, exist_ok=True)
    captions, texts_of_rows = parts.captions, run.rows.texts.tolist()
    videos = {video.video_id: video for video in parts.train_videos}
    of_rows = [videos[number] for number in captions.video_ids[run.rows.videos].tolist()]
    samples = [captions.keys[place] for place in texts_of_rows]
    texts = [captions.texts[place] for place in texts_of_rows]
    _write_table(folder / "rows.parquet", {"sample": samples}, of_rows, texts)
    for name, held_out in (("validation", parts.validation_videos), ("test", parts.test_videos)):
        _write_table(folder / f"{name}.parquet", {}, held_out, [video.references[0] for video in held_out])
    settings = StudentSettings()
    budget = {"rows": len(samples), "max_steps": settings.max_steps, "batch": settings.batch}
    # Last: a folder with this file is complete.
    named = {"run": run.rows_sha256.hex(), "arm": run.arm, "seed": run.seed, "budget": budget}
    with open_partial_file(written) as file:
        file.write(json.dumps(named, indent=2).encode())


def read_result(folder: Path, parts: TrialParts) -> TrainedRun:
    """Read the result that lies in a run's folder; status "missing" without one. Raises SelectionError where it cannot
    be read, or is a folder, a pipe or a device.
    """
    file = folder / RESULT
    try:
        with open_regular(file) as opened:
            content = opened.read(_MAX_RESULT_BYTES + 1)
    except FileNotFoundError:
        return TrainedRun("missing", f"{file} is missing")
    except OSError as error:
        raise SelectionError(f"{file} cannot be read: {error.strerror}") from None
    if len(content) > _MAX_RESULT_BYTES:
        return TrainedRun("bad_output", f"{file} is larger than {_MAX_RESULT_BYTES >> 20} MB")
    return parse_result(content.decode("utf-8-sig", "replace"), [video.key for video in parts.test_videos])


def write_result(folder: Path, printed: str) -> None:
    """Write what a trainer printed as the result of a run, whole or not at all."""
    with open_partial_file(folder / RESULT) as file:
        file.write(printed.encode())


def parse_result(text: str, test_keys: Sequence[str]) -> TrainedRun:
    """Parse the measures that a trainer printed: a JSON object whose values are numbers, or numbers by test video.

    The first measure decides. What is no such object, or holds a number that is not finite or not all test videos,
    comes back with the status "bad_output" and the reason.

    >>> parse_result('{"mrr": {"v1": 0.5, "v2": 1}, "loss": 0.3}', ["v1", "v2"]).test_values
    (0.5, 1.0)
    >>> parse_result('{"mrr": NaN}', ["v1"]).reason
    "measure 'mrr' is nan: print finite numbers up to 1e+100"
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
            f"measure {name!r} lacks {len(missing)} of {len(test_keys)} test videos, such as {missing[0]!r}: print a "
            "number for every video of test.parquet"
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
            return json.loads(opened.read(_MAX_RESULT_BYTES))
    except (ValueError, RecursionError):
        return None


def _shorten(text: str) -> str:
    line = text.strip().split("\n")[-1] or "nothing"
    shown = "".join(sign if sign.isprintable() else "?" for sign in line[:81])
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
