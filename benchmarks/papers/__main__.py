"""Make the tables that are missing, and the page: `python -m benchmarks.papers [NAME ...]`, by default all tables.

Tables that are not made, for want of data or because other ones are named, stay on the page as they were made before.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import util
from pathlib import Path

from benchmarks.measure import DATA
from benchmarks.papers.data import PAGE as DATA_PAGE
from benchmarks.papers.data import explain_changed, explain_missing, find_changed, find_missing
from benchmarks.papers.page import as_json, as_markdown, read_tables
from benchmarks.papers.recipes import Recipe
from benchmarks.papers.records import Made, Table, table_of
from benchmarks.papers.stages import PROJECT, Stages, write
from benchmarks.papers.tables import RECIPES

KEPT, PAGE, ROWS = PROJECT / "build" / "papers", PROJECT / "docs" / "papers.md", PROJECT / "docs" / "papers.json"
NEEDED = {"nltk": "nltk", "rouge-score": "rouge_score"}
"""The packages of the extra `papers`, with the names that Python imports."""


def run(
    recipes: Sequence[Recipe],
    kept: Path,
    page: Path,
    rows: Path,
    wanted: Sequence[str] | None = None,
    other_files: Sequence[str] = (),
) -> bool:
    """Make what is missing of the wanted tables, by default all; write the page and its rows; whether anything changed.

    recipes: of all tables of the page, in its order. other_files: those of the data with other content than the page's;
    a table that fails on them is named and left as it is.
    """
    stages = Stages(kept)
    new: dict[str, tuple[Table, Made]] = {}
    chosen = [recipe for recipe in recipes if wanted is None or recipe.name in wanted]
    for number, recipe in enumerate(chosen, 1):
        print(f"{number} of {len(chosen)}: {recipe.name}", file=sys.stderr, flush=True)
        try:
            new[recipe.name] = make(recipe, stages)
        except Exception as error:
            # A file with another layout may fail anywhere. With the page's own files an error is ours.
            if not (others := [path for path in other_files if path.split("/")[0] in recipe.data]):
                raise
            cause = f"{type(error).__name__}: {error}"
            print(f"{recipe.name} is not made ({cause}): {explain_changed(others)}; see {DATA_PAGE}.", file=sys.stderr)
    made = read_tables(rows) | new
    tables = [made[recipe.name] for recipe in recipes if recipe.name in made]
    changed = stages.made > 0
    for file, text in ((page, as_markdown(tables)), (rows, as_json(tables))):
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            write(file, text)
            changed = True
    return changed


def make(recipe: Recipe, stages: Stages) -> tuple[Table, Made]:
    """A table, kept or new, and how it was made."""
    kept = stages.timed(f"table {recipe.name}", recipe.follows_from(), lambda: recipe.make(stages).as_dict())
    return table_of(kept["result"]), Made(
        round(kept["seconds"], 1), kept["date"], kept["commit"], round(kept["load_average"], 1)
    )


def complaints(recipes: Sequence[Recipe]) -> list[str]:
    """The packages and data that recipes lack, one plain sentence each with the remedy."""
    packages = sorted({name for recipe in recipes for name in recipe.packages})
    absent = [name for name in packages if util.find_spec(NEEDED.get(name, name).replace("-", "_")) is None]
    lacking = [sentence for each in recipes if (sentence := explain_missing(each.name, each.data))]
    return [*(f"The package {name} is missing: run `make develop`." for name in absent), *lacking]


def choose_recipes(names: Sequence[str]) -> list[Recipe]:
    """The recipes with these names; without names those that the data are enough for, and a line about every other."""
    unknown = sorted(set(names) - {recipe.name for recipe in RECIPES})
    if unknown:
        raise SystemExit(f"No table {', '.join(unknown)}: name some of {', '.join(each.name for each in RECIPES)}.")
    chosen = [recipe for recipe in RECIPES if not names or recipe.name in names]
    if names:
        return chosen
    missing = [sentence for recipe in chosen if (sentence := explain_missing(recipe.name, recipe.data))]
    print(*missing, sep="\n", end="\n" if missing else "", file=sys.stderr)
    return [recipe for recipe in chosen if not find_missing(recipe.data)]


def main() -> None:
    """Make the tables that are named, or all that the data are enough for."""
    import torch

    recipes = choose_recipes(sys.argv[1:])
    missing = complaints(recipes)
    if missing:
        raise SystemExit("\n".join(missing))
    if others := find_changed(sorted({name for recipe in recipes for name in recipe.data})):
        print(f"{DATA} has {explain_changed(others)}, so figures may differ.", file=sys.stderr)
    torch.set_num_threads(1)
    changed = run(RECIPES, KEPT, PAGE, ROWS, [recipe.name for recipe in recipes], others)
    print(f"written to {PAGE} and {ROWS}" if changed else "nothing to do")


if __name__ == "__main__":
    main()
