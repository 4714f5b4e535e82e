"""The readers by name."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import cast

from metrics_core.frames.decord_reader import DecordReader
from metrics_core.frames.pyav_reader import PyAVReader
from metrics_core.frames.records import FrameReader

READERS: dict[str, type[FrameReader]] = {"decord": DecordReader, "pyav": PyAVReader}


def default_readers() -> tuple[FrameReader, ...]:
    """decord where it is installed, then PyAV. Imports neither: their native libraries stay out of this process."""
    return (DecordReader(), PyAVReader()) if find_spec("decord") else (PyAVReader(),)


def check_reader_name(name: str) -> None:
    """Raises `ValueError` unless ``name`` is a key of `READERS` or has the form ``module:attribute``."""
    if name not in READERS and ":" not in name:
        raise ValueError(f"unknown reader {name!r}: use one of {', '.join(READERS)}, or 'module:attribute'")


def load_reader(name: str) -> FrameReader:
    """A reader by its name, or one of your own as ``module:attribute``: a class or function without arguments."""
    check_reader_name(name)
    if name in READERS:
        return READERS[name]()
    module, _, attribute = name.partition(":")
    return cast(FrameReader, getattr(import_module(module), attribute)())
