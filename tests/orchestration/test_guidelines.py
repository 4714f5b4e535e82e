"""Guidelines for raters: Markdown becomes HTML, and nothing in the file becomes more than text, tables and links."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestration.cli.refusals import UsageError
from orchestration.look.guidelines import read_guidelines


def test_markdown_becomes_html_that_runs_nothing(tmp_path: Path) -> None:
    file = tmp_path / "coverage.md"
    file.write_text(
        "\ufeff# Coverage\n\n- **all** of it\n\n<script>hit()</script> <b onclick=x>b</b>\n\n[a](javascript:hit()) "
        "![p](http://evil.example/p.png) [ok](https://example.org)\n\n| mark | meaning |\n|--|--|\n| 5 | best |\n",
        encoding="utf-8",
    )
    page = read_guidelines(file)
    for part in ("<h1>Coverage</h1>", "<strong>all</strong>", "<td>best</td>", '<a href="https://example.org">ok</a>'):
        assert part in page
    for part in ("<script", "<b ", "<img", 'href="javascript'):
        assert part not in page


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "the guidelines cannot be read (No such file or directory): give another file"),
        (b"\xff\xfeG", "the guidelines are not UTF-8 text: save the file as UTF-8"),
        (b"x" * 100_001, "the guidelines are longer than 100,000 bytes: shorten them"),
    ],
)
def test_a_file_that_cannot_be_shown_is_named(tmp_path: Path, content: bytes | None, sentence: str) -> None:
    file = tmp_path / "coverage.md"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError) as refused:
        read_guidelines(file)
    assert str(refused.value) == f"{file}: {sentence}"
