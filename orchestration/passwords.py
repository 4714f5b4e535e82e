"""Keeps the passwords of databases out of messages and logs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from urllib.parse import unquote

HIDDEN = "***"
_VARIABLES = ("CURATION_DB_URL",)
_IN_QUERY = re.compile(r"[?&]\w*password=([^&#\s]+)")
# In a URL, and in a connection string of libpq.
_SPELLINGS = (
    re.compile(r"(?P<before>[a-z][a-z0-9+]*://[^\s:/@]*:)[^\s@]+(?=@)"),
    re.compile(r"(?P<before>\b\w*password=)('[^']*'|[^\s&'\"]+)"),
)


def hide_passwords(text: str) -> str:
    """Return the text with `***` in place of passwords. These are the passwords in the variables PGPASSWORD and
    CURATION_DB_URL, and everything written like a password in a URL or a connection string.
    """
    # The longest first: one password may be part of another.
    for password in sorted(set(_list_passwords()), key=len, reverse=True):
        text = text.replace(password, HIDDEN)
    for spelling in _SPELLINGS:
        text = spelling.sub(rf"\g<before>{HIDDEN}", text)
    return text


def _list_passwords() -> Iterator[str]:
    """Yield the passwords of the environment, as written and percent-decoded."""
    if password := os.environ.get("PGPASSWORD"):
        yield password
    for variable in _VARIABLES:
        # Taken apart by hand: even a URL that cannot be parsed may hold a password.
        url = os.environ.get(variable, "")
        rest = url.partition("://")[2]
        authorities = (rest.partition("@")[0], rest.rpartition("@")[0]) if "@" in rest else ()
        for written in (*(user.partition(":")[2] for user in authorities), *_IN_QUERY.findall(url)):
            if written:
                yield from (written, unquote(written))
