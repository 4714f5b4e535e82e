"""Check the folder of the papers' data, and say which tables it is enough for: `python -m benchmarks.papers.data`.

docs/papers-data.md says where the data come from, and papers-data.sha256 next to it lists their files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.measure import DATA
from benchmarks.papers import meteor
from benchmarks.papers.stages import PROJECT, digest

SUMS, PAGE = PROJECT / "docs" / "papers-data.sha256", "docs/papers-data.md"


def read_sums(file: Path = SUMS) -> dict[str, dict[str, str]]:
    """The SHA-256 that `sha256sum` wrote of every file, by dataset and path."""
    sets: dict[str, dict[str, str]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        sha256, path = line.split("  ", 1)
        sets.setdefault(path.split("/")[0], {})[path] = sha256
    return sets


def find_missing(names: Sequence[str], folder: Path = DATA) -> list[str]:
    """The files of some datasets that the folder does not have."""
    sums = read_sums()
    return [path for name in names for path in sums[name] if not (folder / path).is_file()]


def find_changed(names: Sequence[str], folder: Path = DATA) -> list[str]:
    """The files of some datasets whose content is not the one of the page's tables; missing ones are left out."""
    sums = {path: sha256 for name in names for path, sha256 in read_sums()[name].items()}
    return [path for path in sums if (folder / path).is_file() and digest((folder / path).read_bytes()) != sums[path]]


def explain_changed(paths: Sequence[str]) -> str:
    """A clause about files with other content; empty without one."""
    return f"other content than the page's tables had in {', '.join(paths)}" if paths else ""


def explain_missing(table: str, names: Sequence[str], folder: Path = DATA) -> str:
    """A sentence that names what a table lacks, and the remedy; empty where it lacks nothing."""
    missing = find_missing(names, folder)
    if not missing:
        return ""
    more = f" and {len(missing) - 1} more file{'s' * (len(missing) > 2)}" if len(missing) > 1 else ""
    return f"{table} is not made: {folder} lacks {missing[0]}{more}; see {PAGE}."


def list_states(folder: Path = DATA) -> Iterator[str]:
    """Lines for every dataset and WordNet: complete, incomplete, or with other content than the page's tables had."""
    for name, files in read_sums().items():
        missing = find_missing([name], folder)
        changed = find_changed([name], folder)
        if missing:
            yield f"{name}: {len(missing)} of {len(files)} files missing, the first is {missing[0]}"
        if changed:
            yield f"{name}: {explain_changed(changed)}, so figures may differ"
        if not missing and not changed:
            yield f"{name}: complete"
    yield f"WordNet: {'complete' if meteor.identity() else 'absent, and METEOR is ' + meteor.ABSENT}"


def list_verdicts(needs: Mapping[str, Sequence[str]], folder: Path = DATA) -> Iterator[str]:
    """How many tables the folder is enough for, and what each other one lacks. needs: the datasets of every table."""
    sentences = [sentence for table, names in needs.items() if (sentence := explain_missing(table, names, folder))]
    yield f"{folder} is enough for {len(needs) - len(sentences)} of {len(needs)} tables."
    yield from sentences


def main() -> None:
    """Print the state of every dataset and what it means for the tables."""
    from benchmarks.papers.tables import RECIPES

    print(*list_states(), *list_verdicts({recipe.name: recipe.data for recipe in RECIPES}), sep="\n")


if __name__ == "__main__":
    main()
