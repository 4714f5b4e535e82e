"""The tables as a page of Markdown and as rows of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.papers.records import Made, Row, Table, number, standing, table_of

HEAD = """# The papers' tables, theirs and ours

Made by `make papers`; do not edit. Cells hold our figure with its 95 % interval, then the published one as *italics*; a
dash is a figure that does not exist. Every table says which models made ours, and names the strongest simple baseline:
a rule that needs none of the metric's machinery. The first sentence above a table begins with what of ours is below it;
where it adds that intervals overlap, "below" and "above" may be chance. `papers.json` holds every figure as a row of
its own, and [papers-data.md](papers-data.md) says where the data come from.
"""


def as_markdown(tables: Sequence[tuple[Table, Made]]) -> str:
    """The page of tables and how each was made."""
    contents = [f"- [{table.title}](#{anchor(table.title)})" for table, _ in tables]
    parts = [HEAD, "\n".join(contents) + "\n", *("\n".join(section(table, made)) for table, made in tables)]
    return "\n".join(parts)


def anchor(title: str) -> str:
    """How a page names the place of a heading.

    >>> anchor("VCS, Table 1: what?")
    'vcs-table-1-what'
    """
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -_")
    return kept.replace(" ", "-")


def section(table: Table, made: Made) -> Iterator[str]:
    """Heading, summary, table and remarks."""
    yield f"## {table.title}\n"
    yield (
        "\n".join(f"- {line}" for line in (standing(table.comparisons, table.digits, table.rows), *table.summary))
        + "\n"
    )
    yield from grid(table)
    yield ""
    yield from (f"- {remark}" for remark in remarks(table))
    load = "" if made.load is None else f" (load of the machine at the end: {made.load:.0f})"
    yield (
        f"- Made on {made.date} at commit {made.commit} in {made.seconds:,.0f} s{load}, kept stages left out. Name in "
        f"`papers.json`: `{table.name}`.\n"
    )


def remarks(table: Table) -> Iterator[str]:
    """Models, sources, notes of rows, and the table's own remarks."""
    yield "Ours: " + "; ".join(f"{role}: {name}" for role, name in table.models.items()) + "."
    yield from (f"Published: {source}." for source in dict.fromkeys(row.source for row in table.rows if row.source))
    for note in dict.fromkeys(row.note for row in table.rows if row.note):
        yield f"{', '.join(dict.fromkeys(row.row for row in table.rows if row.note == note))}: {note}."
    yield from table.remarks


def grid(table: Table) -> Iterator[str]:
    """Rows by columns, in the order in which they come; n stands in the columns' heads unless it differs by row."""
    columns = {name: sizes_of(row for row in table.rows if row.column == name) for name in names(table, "column")}
    cells = {(row.row, row.column): row for row in table.rows}
    by_column = all(len(sizes) <= 1 for sizes in columns.values())
    heads = [f"{name}, n {sizes[0]:,}" if by_column and sizes else name for name, sizes in columns.items()]
    yield f"| | {' | '.join(heads)} |" + ("" if by_column else " n |")
    yield "|---" * (len(columns) + 1 + (not by_column)) + "|"
    for name in names(table, "row"):
        texts = [cell(cells.get((name, column)), table.digits) for column in columns]
        label = f"{name} (strongest simple baseline)" if name == table.baseline else name
        sizes = sizes_of(row for row in table.rows if row.row == name)
        last = "" if by_column else f" {' to '.join(f'{size:,}' for size in sizes[:1] + sizes[1:][-1:]) or '–'} |"
        yield f"| {label} | {' | '.join(texts)} |{last}"


def names(table: Table, kind: str) -> list[str]:
    """The rows or the columns of a table, in the order in which they come."""
    return list(dict.fromkeys(getattr(row, kind) for row in table.rows))


def sizes_of(rows: Iterable[Row]) -> list[int]:
    """The different numbers of items of our figures, in ascending order."""
    return sorted({row.n for row in rows if row.n is not None and row.ours is not None})


def cell(row: Row | None, digits: int) -> str:
    """Our figure, its interval and the published figure.

    >>> cell(Row("t", "r", "c", 0.5, 0.25, 0.1, 0.4), 2)
    '.25 (.10 to .40) *.50*'
    >>> cell(Row("t", "r", "c", published=0.5), 2), cell(None, 2)
    ('– *.50*', '–')
    """
    if row is None:
        return "–"
    ours = "–" if row.ours is None else number(row.ours, digits)
    limits = (
        "" if row.low is None or row.high is None else f" ({number(row.low, digits)} to {number(row.high, digits)})"
    )
    published = "" if row.published is None else f" *{number(row.published, digits)}*"
    return ours + limits + published


def as_json(tables: Sequence[tuple[Table, Made]]) -> str:
    """All rows as one list, and of every table the rest, which `read_tables` reads back."""
    content: dict[str, Any] = {"command": "make papers", "tables": {}, "rows": []}
    for table, made in tables:
        own = table.as_dict()
        content["rows"] += own.pop("rows")
        content["tables"][own.pop("name")] = {**own, "made": asdict(made)}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def read_tables(file: Path) -> dict[str, tuple[Table, Made]]:
    """The tables of a file by `as_json`, by name; none without the file."""
    if not file.is_file():
        return {}
    content = json.loads(file.read_text(encoding="utf-8"))
    rows: dict[str, list[Mapping[str, Any]]] = {name: [] for name in content["tables"]}
    for row in content["rows"]:
        rows[row["table"]].append(row)
    kept = {name: Made(**own.pop("made")) for name, own in content["tables"].items()}
    return {
        name: (table_of({**own, "name": name, "rows": rows[name]}), kept[name])
        for name, own in content["tables"].items()
    }
