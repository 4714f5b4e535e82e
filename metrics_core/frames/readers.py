"""The readers, found by name."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import cast

from metrics_core.frames.decord_reader import DecordReader
from metrics_core.frames.pyav_reader import PyAVReader
from metrics_core.frames.records import FrameReader

READERS: dict[str, type[FrameReader]] = {"decord": DecordReader, "pyav": PyAVReader}


def make_default_readers() -> tuple[FrameReader, ...]:
    """Return decord's reader where decord is installed, then PyAV's. Their native libraries are not imported here."""
    return (DecordReader(), PyAVReader()) if find_spec("decord") else (PyAVReader(),)


def check_reader_name(name: str) -> None:
    """Raise `ValueError` unless ``name`` is a key of `READERS` or has the form ``module:attribute``."""
    if name not in READERS and ":" not in name:
        raise ValueError(f"unknown reader {name!r}: use one of {', '.join(READERS)}, or 'module:attribute'")


def make_reader(name: str) -> FrameReader:
    """Make a reader by its name; ``module:attribute`` names a class or function of your own without arguments."""
    check_reader_name(name)
    if name in READERS:
        return READERS[name]()
    module, _, attribute = name.partition(":")
    return cast(FrameReader, getattr(import_module(module), attribute)())
