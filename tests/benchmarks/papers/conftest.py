"""Keeps pytest's capture open: rouge-score imports absl, whose log handler may close the stream that it found."""

from __future__ import annotations

import contextlib
import sys

# Whoever configures logging anew, as Dagster does, closes all handlers; absl's closes any stream but these of Python.
with contextlib.suppress(ImportError):  # without the extra `papers` the tests are skipped
    from absl import logging as absl_logging

    absl_logging.get_absl_handler().python_handler.stream = sys.__stderr__
