"""Registry of frame readers: decord, PyAV, or ``module:attribute``."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import cast

from metrics_core.frames.decord_reader import DecordReader
from metrics_core.frames.pyav_reader import PyAVReader
from metrics_core.frames.records import FrameReader

READERS: dict[str, type[FrameReader]] = {"decord": DecordReader, "pyav": PyAVReader}


def list_reader_names(preferred: str = "pyav") -> tuple[str, ...]:
    """Return the names of the readers to try, in order: "decord" if it is preferred and installed, then "pyav". Neither
    library is imported here.
    """
    return ("decord", "pyav") if preferred == "decord" and find_spec("decord") else ("pyav",)


def check_reader_name(name: str) -> None:
    """Raise `ValueError` unless ``name`` is "decord" or "pyav" or contains a colon, as ``module:attribute`` does."""
    if name not in READERS and ":" not in name:
        raise ValueError(f"unknown reader {name!r}: use one of {', '.join(READERS)}, or 'module:attribute'")


def make_reader(name: str) -> FrameReader:
    """Make a frame reader from its name: "decord", "pyav", or ``module:attribute``, which is imported and called. The
    attribute is a class or function that takes no arguments. Raises ValueError for an unknown name.
    """
    check_reader_name(name)
    if name in READERS:
        return READERS[name]()
    module, _, attribute = name.partition(":")
    return cast(FrameReader, getattr(import_module(module), attribute)())
