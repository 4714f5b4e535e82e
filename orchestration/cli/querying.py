"""Commands that ask: sql, whose answers are tables, CSV or JSON, and search by stored vectors."""

from __future__ import annotations

import json
import math
import sys
import textwrap
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from orchestration.cli.output import (
    AsJson,
    Field,
    as_json,
    cell,
    console,
    plain,
    print_error,
    print_json,
    print_rows,
    show,
    visible,
)
from orchestration.cli.refusals import UsageError

if TYPE_CHECKING:
    from db.server.reader import Answer


# Answers of the database as they are printed: for people, as CSV, and as JSON, row by row as they come.


def print_answer(answer: Answer) -> None:
    """Print an answer for people, or the sentence `no rows`."""
    fields = [Field(plain(column.name), column.is_number) for column in answer.columns]
    if not show(fields, ([cell(value) for value in row] for row in answer.rows), console):
        console.print("no rows")


def print_csv(answer: Answer) -> None:
    """Print an answer as CSV with a header. NULL is an empty field, and an empty text is a pair of quotes."""
    # Only a terminal obeys characters; a file gets them as they are.
    shown = visible if sys.stdout.isatty() else str
    if answer.columns:
        sys.stdout.write(shown(",".join(_csv_field(column.name) for column in answer.columns)) + "\n")
    for row in answer.rows:
        sys.stdout.write(shown(",".join(map(_csv_field, row))) + "\n")


def print_json_rows(answer: Answer) -> None:
    """Print an answer as a JSON list of objects."""
    names = [column.name for column in answer.columns]
    is_first = True
    for row in answer.rows:
        found = {name: _json_value(value) for name, value in zip(names, row, strict=True)}
        text = json.dumps(found, ensure_ascii=False, indent=2, default=as_json)
        sys.stdout.write(("[\n" if is_first else ",\n") + visible(textwrap.indent(text, "  ")))
        is_first = False
    sys.stdout.write("[]\n" if is_first else "\n]\n")


def _csv_field(value: Any) -> str:
    """The field of a value, in quotes where a reader of CSV would need them.

    >>> [_csv_field(value) for value in (None, "", 0.5, True, 'a "red" circle', [1, 2])]
    ['', '""', '0.5', 'true', '"a ""red"" circle"', '"[1, 2]"']
    """
    if value is None:
        return ""
    is_json = isinstance(value, bool | dict | list)
    text = json.dumps(value, ensure_ascii=False, default=as_json) if is_json else as_json(value)
    if text and not any(character in text for character in ',"\r\n') and text == text.strip():
        return text
    return '"' + text.replace('"', '""') + '"'


def _json_value(value: Any) -> Any:
    """A number of Postgres as one of JSON, which knows neither NaN nor infinity: those become text.

    >>> [_json_value(Decimal(text)) for text in ("0.89", "12", "NaN")]
    [0.89, 12, 'NaN']
    """
    if isinstance(value, Decimal | float) and not math.isfinite(value):
        return str(Decimal(value))
    if isinstance(value, Decimal):
        return int(value) if _is_whole(value) else float(value)
    return value


def _is_whole(value: Decimal) -> bool:
    """Whether a number has no digits after the point: 12 and not 12.0."""
    exponent = value.as_tuple().exponent
    return isinstance(exponent, int) and exponent >= 0


# The command search: captions and frames by what they show.


def search(
    text: Annotated[str, typer.Argument(help="What to look for, such as `a red circle bounces`.")],
    dataset: Annotated[str | None, typer.Option("--dataset", "-d", help="One dataset (default: all).")] = None,
    frames: Annotated[bool, typer.Option("--frames", help="Search frames of videos instead of captions.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many to show.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Find the captions, or the videos' frames, that are nearest to a text by stored vectors.

    Scoring stores the vectors: those of captions vcs, those of frames evqa. The similarity orders what was found; it is
    no score.
    """
    from assets.datasets import dataset_of_key
    from assets.search import SearchSettings, search_frames, search_texts
    from orchestration.platform import installed
    from orchestration.settings import settings

    if not text.strip():
        raise UsageError("the text is empty: say what to look for")
    chosen = dataset_of_key(installed().engine, dataset) if dataset is not None else None
    find = search_frames if frames else search_texts
    # The settings of all metrics hold those of all encoders.
    found = find(installed().engine, cast(SearchSettings, settings()), text, chosen, limit)
    if as_json:
        print_json({"encoder": found.encoder, "notes": list(found.notes), "found": found.rows})
        return
    print_rows([_shown(row, chosen is None) for row in found.rows], empty="nothing is near")
    for note in found.notes:
        print_error(f"note: {note}")


def _shown(row: Mapping[str, Any], with_dataset: bool) -> dict[str, Any]:
    """What of a row fits on a line or two."""
    from assets.reports.tables import excerpt

    dataset = {"dataset": row["dataset"]} if with_dataset else {}
    if "text" not in row:
        return {"similarity": row["similarity"], **dataset, "video": row["video"], "time_s": row["time_s"]}
    return {"similarity": row["similarity"], **dataset, "sample": row["sample"], "text": excerpt(row["text"], 90)}


STANDARD_INPUT = "-"


def sql(
    query: Annotated[
        str | None, typer.Argument(help="One SQL statement; `-`, or nothing in a pipe: standard input.")
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Read the statement from this file.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV instead of a table.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a query as a role that may only read.

    Where to begin: reelsieve sql "SELECT relation, meaning FROM dictionary WHERE what = 'view' AND column_name IS NULL"
    """
    from db.server.reader import read_only_answer
    from orchestration.cli.querying import print_answer, print_csv, print_json_rows
    from orchestration.platform import installed

    if as_csv and as_json:
        raise UsageError("--csv and --json are two forms of the answer: name one of them")
    statement = _statement(query, file)
    url = installed().engine.url
    with read_only_answer(url, statement, tell=lambda note: typer.echo(f"note: {note}", err=True)) as answer:
        (print_csv if as_csv else print_json_rows if as_json else print_answer)(answer)


def _statement(query: str | None, file: Path | None) -> str:
    if query is not None and file is not None:
        raise UsageError("a query and --file are two queries: give one of them")
    if file is not None:
        return _filled(_read(file), f"file {file}")
    if query is not None and query != STANDARD_INPUT:
        return _filled(query, "the query")
    if query is None and sys.stdin.isatty():
        raise UsageError('a query is missing: give it in quotes ("SELECT ..."), as --file FILE, or on standard input')
    return _filled(sys.stdin.read(), "standard input")


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"file {file} cannot be read ({error.strerror}): name a file with one SQL statement") from None
    except UnicodeDecodeError:
        raise UsageError(f"file {file} is no text in UTF-8: save it as UTF-8") from None


def _filled(text: str, where: str) -> str:
    if not text.strip():
        raise UsageError(f"{where} is empty: write one SQL statement, such as SELECT * FROM dataset_summary")
    return text
