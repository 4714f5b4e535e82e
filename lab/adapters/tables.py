"""Reading the lines of a published file as checked models, and writing rows as the tables of a manifest."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import typer
from pydantic import BaseModel, ValidationError

from assets.ingest.declarations import DIMENSIONS_FILE
from assets.ingest.files import convert_os_errors
from assets.ingest.lines import read_lines
from assets.ingest.rejects import ManifestError

Row = dict[str, Any]
Model = TypeVar("Model", bound=BaseModel)


def read_models(source: Path, model: type[Model], remedy: str) -> Iterator[Model]:
    """The lines of a JSON Lines file as instances of the model; blank lines are left out.

    Raises ManifestError for a line that does not fit the model, with the file, the line, the field and the remedy.
    """
    with convert_os_errors(source), source.open("rb") as file:
        for line in read_lines(file):
            if not line.data.strip():
                continue
            try:
                yield model.model_validate_json(line.data)
            except ValidationError as error:
                first = error.errors(include_url=False)[0]
                field = ".".join(map(str, first["loc"])) or "the line"
                raise ManifestError(f"{source.name}, line {line.number}, {field}: {first['msg']}: {remedy}") from None


def write_tables(folder: Path, tables: Mapping[str, Iterable[Row]], dimensions: Iterable[str] | None = None) -> None:
    """Write NAME.jsonl for every table, and dimensions.json if the dataset has dimensions of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    if dimensions is not None:
        (folder / DIMENSIONS_FILE).write_text(json.dumps(list(dimensions)) + "\n", encoding="utf-8")


def print_counts(converted: Callable[[], object]) -> None:
    """Print the counts that a conversion returns. Where it cannot use a file, end with its sentence and exit code 1."""
    try:
        counts = converted()
    except ManifestError as error:
        raise SystemExit(str(error)) from None
    typer.echo(json.dumps(counts))
