"""A file that is read in blocks has the lines of the file, and a look at a line's bytes clears only harmless texts."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.ingest import hygiene
from assets.ingest.lines import Line, read_lines
from assets.ingest.manifest_tables import MANIFEST_TABLES
from assets.ingest.readers import read_table
from tests.assets.manifests import of_kind
from tests.attack.manifest_rows import rows_of, write_lines


@pytest.fixture
def spoilt(tmp_path: Path) -> Path:
    """A file of mixed rows of all kinds, many of them spoilt."""
    random = Random(5)
    rows = [row for kind in MANIFEST_TABLES for row in of_kind(kind, *rows_of(random, kind, 200))]
    return write_lines(random, tmp_path / "rows.jsonl", rows).path


def test_a_read_content_the_bytes_of_a_line_misses_no_fault_of_its_texts(spoilt: Path) -> None:
    rows = [row for row in read_table(spoilt, None) if row.fields is not None]
    assert {row.texts_are_safe for row in rows} == {True, False}
    for row in rows:
        assert row.fields is not None
        assert hygiene.find_fault(row.fields, texts_are_safe=row.texts_are_safe) == hygiene.find_fault(row.fields)


@pytest.mark.parametrize(
    "line", [b'{"a": "b\\u0007"}', b'{"a": "\x7f"}', '{"a": "\x9b"}'.encode(), b'{"a": "' + b"x" * 100_001 + b'"}']
)
def test_lines_whose_texts_need_a_look(line: bytes) -> None:
    assert not hygiene.has_safe_text(line)


def line_by_line(content: bytes, limit: int) -> Iterator[Line]:
    file, number = io.BytesIO(content), 0
    while data := file.readline(limit):
        number += 1
        whole = len(data) < limit or data.endswith(b"\n")
        if not whole:
            file.readline()
        yield Line(number, data.removeprefix(codecs.BOM_UTF8) if number == 1 else data, whole)


PIECES = st.sampled_from([b"a", b"b", b"\n", b"\r", b"\n\n", codecs.BOM_UTF8, b"cccc"])


@given(st.lists(PIECES, max_size=25).map(b"".join), st.integers(5, 12), st.integers(3, 16))
def test_a_file_in_blocks_has_the_lines_that_it_has_line_by_line(content: bytes, limit: int, block: int) -> None:
    assert list(read_lines(io.BytesIO(content), limit, block)) == list(line_by_line(content, limit))
