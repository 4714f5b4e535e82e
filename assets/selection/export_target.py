"""Checks before the work where an export is to be written, and in which format."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from assets.selection.partial_folder import PARTIAL_SUFFIX
from db.selection.recipes import SelectionError


class ExportFormat(str, Enum):
    """The format of an export, by its name on the command line. The first five are files; WebDataset (`webdataset`) and
    Hugging Face (`hf`) are folders.
    """

    PARQUET = "parquet"
    JSON_LINES = "jsonl"
    CSV = "csv"
    LABEL_STUDIO = "label-studio"
    KEYS = "keys"
    WEB_DATASET = "webdataset"
    HUGGING_FACE = "hf"


FORMATS_BY_SUFFIX: Mapping[str, ExportFormat] = {
    ".parquet": ExportFormat.PARQUET,
    ".jsonl": ExportFormat.JSON_LINES,
    ".csv": ExportFormat.CSV,
    ".json": ExportFormat.LABEL_STUDIO,
    ".keys": ExportFormat.KEYS,
}
PASSPORT_SUFFIX = ".passport.json"
# Of the places of videos in tar files, next to their keys.
RANGES_SUFFIX = ".parquet"


def choose_format(path: Path, form: ExportFormat | None) -> ExportFormat:
    """Return the given format, or else the one of the path's suffix. Raises SelectionError where no format is given and
    the suffix belongs to none, or where the two contradict each other.

    >>> choose_format(Path("best.csv"), None).value, choose_format(Path("clips"), ExportFormat.HUGGING_FACE).value
    ('csv', 'hf')
    """
    suffix_form = FORMATS_BY_SUFFIX.get(path.suffix)
    if form is None and suffix_form is None:
        raise SelectionError(
            f"{path.name}: cannot export to {path.suffix or 'a file without suffix'}: use .parquet, .jsonl or .csv, or "
            "name a --format"
        )
    if form is not None and suffix_form not in (None, form):
        raise SelectionError(
            f"{path.name}: the suffix is that of {suffix_form.value}, and the format is {form.value}: change one"
        )
    return form or FORMATS_BY_SUFFIX[path.suffix]


def require_export_target(path: Path, form: ExportFormat | None = None, *, replace: bool = False) -> Path:
    """Return the absolute path of an export, with ~ expanded, after checking that it can be written, without writing
    anything. form: the format; None to choose it by the suffix. replace: whether a regular file may exist there. Raises
    SelectionError with the reason.

    It raises for an unknown format, for a path that exists, for a name that the file system refuses, and for a folder
    that is missing or not writable.
    """
    chosen_form = choose_format(path, form)
    try:
        target = path.expanduser().resolve()
        if not target.parent.is_dir():
            raise SelectionError(f"{target.parent}: no such folder: make it first")
        _check_free(path, target, may_be_file=replace and chosen_form in FORMATS_BY_SUFFIX.values())
        if not os.access(target.parent, os.W_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        for suffix in _list_companion_suffixes(chosen_form):
            companion = target.with_name(target.name + suffix)
            if suffix != PARTIAL_SUFFIX:
                _check_free(companion, companion, may_be_file=replace or _is_left_over(companion, target))
            _read_status(companion)
    except (OSError, RuntimeError) as error:  # RuntimeError: the home folder of an unknown user
        raise build_write_error(path, error) from error
    return target


def build_write_error(path: Path, error: OSError | RuntimeError) -> SelectionError:
    """Return a SelectionError that says why an export to `path` cannot be written, with a remedy; it is not raised
    here. error: the error of the file system.
    """
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    shown = f"{str(path)[:80]}…" if len(str(path)) > 200 else path
    return SelectionError(f"{shown}: cannot be written ({reason}): remove the cause, or give another name")


def _check_free(path: Path, target: Path, *, may_be_file: bool) -> None:
    """Raise SelectionError unless nothing is at the path, or a regular file that may be replaced."""
    status = _read_status(target)
    if status is None or (may_be_file and stat.S_ISREG(status.st_mode)):
        return
    if stat.S_ISREG(status.st_mode):
        kind = "it exists"
    else:
        kind = "it is a folder" if stat.S_ISDIR(status.st_mode) else "it is not a regular file"
    raise SelectionError(f"{path}: cannot export to it, because {kind}: move it away, or give another name")


def _is_left_over(companion: Path, target: Path) -> bool:
    """Return whether this is the passport of an export to `target` that was killed just before the file got its name,
    or a file that such a passport names.
    """
    passport_path = target.with_name(target.name + PASSPORT_SUFFIX)
    if target.exists() or not passport_path.is_file():
        return False
    try:
        passport = json.loads(passport_path.read_bytes())
        names = [file["name"] for file in passport["files"]]
        is_own = passport["format"] in FORMATS_BY_SUFFIX.values() and names[0] == target.name
        return is_own and companion.name in (passport_path.name, *names[1:])
    except (ValueError, TypeError, LookupError):
        return False


def _read_status(path: Path) -> os.stat_result | None:
    """Return the status of a file; None where there is none."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _list_companion_suffixes(form: ExportFormat) -> tuple[str, ...]:
    """Return the suffixes that the names of further files and folders of an export add to its own."""
    if form is ExportFormat.PARQUET:
        return ()
    if form is ExportFormat.KEYS:
        return (PASSPORT_SUFFIX, RANGES_SUFFIX)
    return (PASSPORT_SUFFIX,) if form in FORMATS_BY_SUFFIX.values() else (PARTIAL_SUFFIX,)
