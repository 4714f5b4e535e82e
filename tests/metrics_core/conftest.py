"""A process that decodes, for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from metrics_core.frames import DecodingWorker


@pytest.fixture(scope="module")
def worker() -> Iterator[DecodingWorker]:
    with DecodingWorker() as worker:
        yield worker
