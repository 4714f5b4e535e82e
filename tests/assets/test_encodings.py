"""Text files in other encodings: which one is guessed, and that every character arrives however the file is cut."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.ingest.encodings import CP1252, UTF_8, UTF_16, decode_text, guess_encoding
from assets.ingest.files import open_text_file
from assets.ingest.readers import read_table

WORDS = st.text(st.sampled_from("abc ,.é"), min_size=1)


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"", UTF_8),
        (b"A dog.", UTF_8),
        ("Größe".encode(), UTF_8),
        ("Größe".encode("cp1252"), CP1252),
        ("naïve “quotes” – 5 €".encode("cp1252"), CP1252),
        ("Größe".encode("utf-16"), UTF_16),
        # A broken byte in a file of UTF-8, and encodings of which cp1252 would make other words.
        ("Größe".encode() + b"\xe9", UTF_8),
        ("Größe".encode("cp1252") + b"\xff", UTF_8),
        ("собака".encode("cp1251"), UTF_8),
        ("一只狗".encode("gb18030"), UTF_8),
        ("ビデオ".encode("shift_jis"), UTF_8),
    ],
)
def test_the_encoding_is_guessed_however_the_file_is_cut(data: bytes, encoding: str) -> None:
    assert guess_encoding([data]) == encoding
    if not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        assert guess_encoding(data[place : place + 1] for place in range(len(data))) == encoding
    if encoding == CP1252:
        assert guess_encoding([data], may_be_cp1252=False) == UTF_8
        assert decode_text(data) == (data.decode("cp1252"), CP1252)


@given(text=WORDS, encoding=st.sampled_from(["utf-16", "cp1252", "utf-8"]), size=st.integers(1, 9))
def test_the_text_arrives_whole(tmp_path_factory: pytest.TempPathFactory, text: str, encoding: str, size: int) -> None:
    path = tmp_path_factory.mktemp("text") / "t.csv"
    path.write_bytes(text.encode(encoding))
    with open_text_file(path) as file:
        for _ in range(2):
            whole = b"".join(iter(lambda: file.read(size), b""))
            assert whole.decode() == text
            file.rewind()


def test_half_a_character_is_refused_in_its_own_row(tmp_path: Path) -> None:
    rows = "rater,aspect,caption_id,value\nä,b,c,1\nx\ud800,b,c,2\nö,b,c,3\n".encode("utf-16", "surrogatepass")
    (tmp_path / "ratings.csv").write_bytes(rows + b"\x41")
    read = list(read_table(tmp_path / "ratings.csv", "rating"))
    assert [row.fields and row.fields["rater"] for row in read] == ["ä", None, "ö", None]
    assert [row.reject and row.reject.code for row in read] == [None, "invalid_utf8", None, "invalid_utf8"]


def test_json_lines_in_utf_16_are_rows(tmp_path: Path) -> None:
    (tmp_path / "ratings.jsonl").write_bytes('{"rater": "ä", "value": 1}\n'.encode("utf-16"))
    (row,) = read_table(tmp_path / "ratings.jsonl", "rating")
    assert row.fields == {"rater": "ä", "value": 1}
    assert io.BytesIO(row.raw.encode()).read().decode() == '{"rater": "ä", "value": 1}'
