"""Formats texts, numbers and counts for pages and messages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

# Control characters except tab, line feed and carriage return, and halves of surrogate pairs, as a part of a regular
# expression: no manifest may hold them.
CONTROLS = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff"
# These, separators of lines and paragraphs, marks that turn the direction of writing, and what XML forbids.
_OBEYED = re.compile(rf"[{CONTROLS}\r\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffe\uffff]")
NO_VALUE = "–"


def escape_controls(text: str) -> str:
    """Return the text with a JSON escape for every character that a terminal or browser would obey or drop instead of
    showing it. Tabs and line feeds stay.

    >>> print(escape_controls("a\\x1b[2Jb \\u202ec"))
    a\\u001b[2Jb \\u202ec
    """
    return _OBEYED.sub(lambda match: rf"\u{ord(match[0]):04x}", text)


def format_number(value: float | None, digits: int = 2) -> str:
    """Return a number with `digits` decimals and a real minus sign, never as −0; a dash for None.

    >>> format_number(-0.5), format_number(None), format_number(-0.001)
    ('−0.50', '–', '0.00')
    """
    if value is None:
        return NO_VALUE
    written = f"{value:.{digits}f}"
    return written.lstrip("-") if float(written) == 0 else written.replace("-", "−")


def format_short(value: float | None) -> str:
    """Return a number with three decimals and without a zero before them, never as -.000; from 10 on with one decimal.
    A dash for None. Three intervals of such numbers fit a line of a terminal.

    >>> format_short(-0.0312), format_short(-0.0001), format_short(12.345), format_short(None)
    ('-.031', '.000', '12.3', '–')
    """
    if value is None:
        return NO_VALUE
    written = f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"
    bare = written.lstrip("-")
    sign = "-" if written.startswith("-") and bare.strip("0.") else ""
    return sign + (bare[1:] if bare.startswith("0.") else bare)


def format_percent(share: float | None, digits: int = 0) -> str:
    """Return a share from 0 to 1 as a percentage; only exactly 0 and 1 become 0 % and 100 %. digits: decimals. A dash
    for None.

    >>> format_percent(0.125, 1), format_percent(0.9999), format_percent(0.001), format_percent(1.0)
    ('12.5 %', '>99 %', '<1 %', '100 %')
    """
    if share is None:
        return NO_VALUE
    written = f"{100 * share:.{digits}f}"
    if share < 1 and float(written) == 100:
        return ">99 %"
    return "<1 %" if share > 0 and float(written) == 0 else f"{written} %"


def format_compact(value: Any) -> str:
    """Return a value as the short text of a table cell: a number from 100 on as a whole one, and a smaller one with a
    fraction by three significant digits. A boolean is yes or no, None a dash, and a text stays as it is.

    >>> format_compact(12345.6), format_compact(0.9), format_compact(-0.0123), format_compact(3.0), format_compact(-0.0)
    ('12,346', '0.900', '−0.0123', '3', '0')
    >>> format_compact(True), format_compact(None), format_compact("en")
    ('yes', '–', 'en')
    """
    if value is None:
        return NO_VALUE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    is_whole = isinstance(value, int) or value.is_integer() or abs(value) >= 100
    # Without the sign of -0.0.
    return (f"{value + 0:,.0f}" if is_whole else f"{value:#.3g}".rstrip(".")).replace("-", "−")


def format_count(n: int, thing: str) -> str:
    """Return a count with its noun in the right number. thing: the noun in the singular; a final y becomes ies, any
    other noun gets an s.

    >>> format_count(1, "video"), format_count(1200, "video"), format_count(2, "category")
    ('1 video', '1,200 videos', '2 categories')
    """
    if n == 1:
        return f"1 {thing}"
    return f"{n:,} {thing[:-1]}ies" if thing.endswith("y") else f"{n:,} {thing}s"


def join_names(names: Sequence[str]) -> str:
    """Return names as an enumeration for a sentence, with commas and a final "and"; "" for none.

    >>> join_names(["a"]), join_names(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def group_names(values: Mapping[str, str]) -> dict[str, list[str]]:
    """Group names by their values: return for every value the list of names that have it, in the order in which the
    values first appear. values: by name.

    >>> group_names({"VCS": "good", "ECS": "bad", "QEVA": "good"})
    {'good': ['VCS', 'QEVA'], 'bad': ['ECS']}
    """
    names: dict[str, list[str]] = {}
    for name, value in values.items():
        names.setdefault(value, []).append(name)
    return names


def format_portion(n: int, total: int, thing: str, has: str, have: str) -> str:
    """Return a clause on how many of all things something is true for: "All 40 captions ...", "1 of 40 captions ...".
    thing: the noun in the singular. has, have: the verb phrase for one thing and for several. "There is no caption" for
    a total of 0.

    >>> format_portion(40, 40, "caption", "has a score", "have a score")
    'All 40 captions have a score'
    >>> format_portion(1, 40, "caption", "has a score", "have a score")
    '1 of 40 captions has a score'
    >>> format_portion(0, 1, "caption", "has a score", "have a score")
    'None of 1 caption has a score'
    >>> format_portion(0, 0, "caption", "has a score", "have a score")
    'There is no caption'
    """
    if not total:
        return f"There is no {thing}"
    if n == total:
        return f"All {format_count(n, thing)} {have}" if n > 1 else f"The one {thing} {has}"
    return f"{f'{n:,}' if n else 'None'} of {format_count(total, thing)} {has if n < 2 else have}"


def format_name(name: str) -> str:
    """Return the name of a count, status or fact as words: without a leading `n_`, underscores as spaces.

    >>> format_name("n_missing"), format_name("too_short")
    ('missing', 'too short')
    """
    return name.removeprefix("n_").replace("_", " ")


def format_items(values: Mapping[str, Any]) -> str:
    """Return values with their names on one line, as `name: value`, separated by semicolons. Underscores in names
    become spaces, and whole numbers get thousands separators.

    >>> format_items({"texts_embedded": 1200, "encoder": "a/b"})
    'texts embedded: 1,200; encoder: a/b'
    """
    written = {name: f"{value:,}" if isinstance(value, int) else str(value) for name, value in values.items()}
    return "; ".join(f"{format_name(name)}: {value}" for name, value in written.items())
