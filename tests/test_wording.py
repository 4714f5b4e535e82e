"""The check of wording finds what it should, at the right line, and passes plain sentences."""

from __future__ import annotations

import pytest

from tests.wording import check_module, check_prose, list_tracked_files


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Whoever reads it", "Whoever"),
        ("The scores stand beside the old ones.", "beside"),
        ("vcs says nothing of it", "says nothing"),
        ("A row for each.", "for each"),
        ("each of them is stale", "each"),
        ("a column that rests on another one", "rests on"),
        ("of all found the first", "all found"),
        ("length alone decides", "alone"),
        ("the least value", "least"),
        ("the greatest of them", "greatest"),
        ("texts that are alike", "alike"),
        ("The largest picture is decoded.", "picture"),
        ("a variable of yours", "of yours"),
        ("the run goes on", "goes on"),
        ("samples that were asked about", "asked about"),
    ],
)
def test_a_word_to_do_without_is_found_in_its_line(text: str, word: str) -> None:
    places = list(check_prose("docs/a.md", 10, f"Plain.\n{text}\n"))
    assert (10 + 1, f"'{word}'") in [(place.line, place.advice.partition(":")[0]) for place in places]


@pytest.mark.parametrize(
    "text",
    [
        "Every row has a score.",
        "Each video has 6 captions.",
        "By chance alone, 1 of 20 differs.",
        "It has at\n    least three, by least squares; a field {least:g}, least: its lower end.",
        "Option --beside, column `told` and function tells(x).",
    ],
)
def test_a_plain_sentence_passes(text: str) -> None:
    assert list(check_prose("docs/a.md", 1, text)) == []


def test_names_and_docstrings_of_a_module_are_checked() -> None:
    module = '''"""A module."""

def grouped(rows):
    """What is grouped."""

def rows_of(video):
    """Return the rows of a video.

    >>> rows_of("whoever")
    """

def load_rows(video):  # told
    """Load the rows of a video."""

def remove_rows(video):
    """Delete%s."""
''' % (" rows" * 60)
    places = [(place.line, place.advice.partition(":")[0]) for place in check_module("db/a.py", module)]
    assert sorted(places) == [
        (3, "docstring begins with 'What'"),
        (3, "function grouped"),
        (6, "function rows_of"),
        (12, "'told'"),
        (15, "61 words in the first paragraph"),
        (15, "function remove_rows"),
    ]


def test_the_product_and_its_documentation_are_read() -> None:
    files = set(list_tracked_files())
    assert {
        "README.md",
        "docs/metrics/vcs.md",
        "db/sql/sample_scores.sql",
        "assets/reports/templates/index.html",
    } <= files
    assert not any(file.startswith(("tests/", "db/migrations/")) for file in files)
