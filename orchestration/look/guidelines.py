"""Guidelines for raters: a Markdown file, which pages show next to the question."""

from __future__ import annotations

from pathlib import Path

from markdown_it import MarkdownIt
from markupsafe import Markup

from assets.ingest.files import open_regular
from orchestration.cli.refusals import UsageError

_MOST_BYTES = 100_000


def read_guidelines(path: Path) -> Markup:
    """Read a Markdown file of at most 100,000 bytes and return it as HTML. HTML inside the file becomes text, and
    images become links. Raises UsageError, in one sentence that names the file, where it cannot be read, is too large
    or is not UTF-8.
    """
    try:
        with open_regular(path) as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path}: the guidelines cannot be read ({error.strerror}): give another file") from error
    if len(content) > _MOST_BYTES:
        raise UsageError(f"{path}: the guidelines are longer than {_MOST_BYTES:,} bytes: shorten them")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: the guidelines are not UTF-8 text: save the file as UTF-8") from error
    # No HTML of the file reaches the page, and the renderer refuses addresses that run scripts.
    return Markup(MarkdownIt("commonmark", {"html": False}).enable("table").disable("image").render(text))
