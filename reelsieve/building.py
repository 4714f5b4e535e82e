"""How a wheel is built: everything goes inside the package `reelsieve`, so that no name of ours clashes with a user's.

In the repository the packages are at the top level, and import each other as `assets` or `db`. A wheel has them in
`reelsieve/rooms`, with their full names in imports, and in strings that are the name of a module.
"""

from __future__ import annotations

import io
import re
import shutil
import tokenize
from pathlib import Path

from setuptools.command.build_py import build_py

ROOMS = ("orchestration", "assets", "metrics_core", "db", "demo")
INSIDE = "reelsieve.rooms"
# The files of the repository that Dagster reads: its instance, and the place of the definitions for its command dg.
COPIED_FILES = ("dagster.yaml",)
_DG = f'[tool.dg]\ndirectory_type = "project"\n\n[tool.dg.project]\nroot_module = "{INSIDE}.orchestration"\n'
_ROOM = "|".join(ROOMS)
_FROM = re.compile(rf"^(\s*from )({_ROOM})(?=[. ])", re.MULTILINE)
_IMPORT = re.compile(rf"^(\s*)import ({_ROOM})$", re.MULTILINE)
_DOTTED = re.compile(rf"({_ROOM})(\.[A-Za-z_]\w*)+")


class InOnePackage(build_py):
    """Setuptools' build of Python modules for a wheel, which also moves the repository's packages into
    `reelsieve/rooms`.
    """

    def run(self) -> None:
        """Build the modules into the build folder, move the packages there into `reelsieve/rooms`, and rewrite their
        imports. Copies dagster.yaml, writes a pyproject.toml for Dagster, and removes this module. An editable
        installation uses the repository unchanged.
        """
        super().run()
        if self.editable_mode:
            return
        top = Path(self.build_lib)
        inside = top.joinpath(*INSIDE.split("."))
        inside.mkdir(exist_ok=True)
        (inside / "__init__.py").write_text('"""The rooms of Reelsieve; import `reelsieve`."""\n')
        for room in ROOMS:
            shutil.rmtree(inside / room, ignore_errors=True)
            shutil.move(top / room, inside / room)
        for path in top.rglob("*.py"):
            path.write_text(qualify_room_names(path.read_text(encoding="utf-8"), inside), encoding="utf-8")
        for name in COPIED_FILES:
            text = Path(name).read_text(encoding="utf-8")
            (inside / name).write_text(_qualify_names(text, inside), encoding="utf-8")
        (inside / "pyproject.toml").write_text(_DG)
        (top / "reelsieve" / "building.py").unlink()


def qualify_room_names(source: str, inside: Path) -> str:
    """Return a module's source in which the names of the repository's packages begin with `reelsieve.rooms.`. Changes
    import statements, and strings that are exactly the name of a module in the folder `inside`. source: the text of the
    module.

    >>> print(qualify_room_names("from db.sql import read_sql\\nimport demo\\nfrom databases import x", Path("rooms")))
    from reelsieve.rooms.db.sql import read_sql
    from reelsieve.rooms import demo
    from databases import x
    """
    source = _FROM.sub(rf"\1{INSIDE}.\2", source)
    source = _IMPORT.sub(rf"\1from {INSIDE} import \2", source)
    lines = source.splitlines(keepends=True)
    tokens = [
        token for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type == tokenize.STRING
    ]
    # From the end, so that the places of the others stay.
    for token in reversed(tokens):
        (line, start), (last, end) = token.start, token.end
        if line == last and _DOTTED.fullmatch(token.string[1:-1]):
            text = lines[line - 1]
            lines[line - 1] = text[:start] + _qualify_names(token.string, inside) + text[end:]
    return "".join(lines)


def _qualify_names(text: str, inside: Path) -> str:
    """Return the text with the full name of every module that is in the folder."""

    def qualify(match: re.Match[str]) -> str:
        path = inside.joinpath(*match[0].split("."))
        is_module = path.is_dir() or path.with_suffix(".py").is_file()
        return f"{INSIDE}.{match[0]}" if is_module else match[0]

    return _DOTTED.sub(qualify, text)
