"""Make the tables that are missing, and the page: `python -m benchmarks.papers`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.papers.page import as_json, as_markdown
from benchmarks.papers.recipes import Recipe, complaints
from benchmarks.papers.records import Table, table_of
from benchmarks.papers.stages import PROJECT, Stages, write
from benchmarks.papers.tables import RECIPES

KEPT, PAGE, ROWS = PROJECT / "build" / "papers", PROJECT / "docs" / "papers.md", PROJECT / "docs" / "papers.json"


def run(recipes: Sequence[Recipe], kept: Path, page: Path, rows: Path) -> bool:
    """Make what is missing and write the page and its rows; whether there was anything to do."""
    stages = Stages(kept)
    tables = []
    for number, recipe in enumerate(recipes, 1):
        print(f"{number} of {len(recipes)}: {recipe.name}", file=sys.stderr, flush=True)
        tables.append(made(recipe, stages))
    changed = stages.made > 0
    for file, text in ((page, as_markdown(tables)), (rows, as_json(tables))):
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            write(file, text)
            changed = True
    return changed


def made(recipe: Recipe, stages: Stages) -> tuple[Table, float]:
    """A table, kept or new, and the seconds that it took when it was made."""
    kept = stages.timed(f"table {recipe.name}", recipe.follows_from(), lambda: recipe.make(stages).as_dict())
    return table_of(kept["result"]), kept["seconds"]


def main() -> None:
    """Say what is missing, or make all tables."""
    import torch

    missing = complaints(RECIPES)
    if missing:
        raise SystemExit("\n".join(missing))
    torch.set_num_threads(1)
    changed = run(RECIPES, KEPT, PAGE, ROWS)
    print(f"written to {PAGE} and {ROWS}" if changed else "nothing to do")


if __name__ == "__main__":
    main()
