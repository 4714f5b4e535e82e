"""Describes an export for Hugging Face in Croissant 1.1, the JSON-LD vocabulary of MLCommons for datasets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from assets.words.text import format_count
from db.selection.exports import ExportColumn, ExportKind
from metrics_core.file_hash import compute_file_sha256

_VERSION = "http://mlcommons.org/croissant/1.1"
_ROWS, _FILES, _PARQUET = "rows", "parquet-files", "application/x-parquet"
# The terms of Croissant that the description uses; every other name is one of schema.org.
_TERMS = ("arrayShape", "column", "extract", "field", "fileSet", "includes", "isArray", "key", "recordSet", "source")
_CONTEXT: Mapping[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    **{term: f"cr:{term}" for term in _TERMS},
}
_TYPES: Mapping[ExportKind, str] = {"integer": "sc:Integer", "number": "sc:Float", "boolean": "sc:Boolean"}


def describe_in_croissant(folder: Path, columns: Sequence[ExportColumn], passport: Mapping[str, Any]) -> dict[str, Any]:
    """Return the description of an export's folder as JSON-LD: its Parquet files with their hashes, its columns, the
    licences of its videos, and how many rows have none. columns, passport: of the export. Reads the Parquet files.

    What Reelsieve does not know is left out: the address and the creator of a published dataset.
    """
    selection, counts, origins = passport["selection"], passport["counts"], passport["origins"]
    licences = [row["licence"] for row in origins["licences"] if row["licence"]]
    files = sorted((folder / "data").glob("*.parquet"))
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": _VERSION,
        "name": f"{selection['dataset']}, selection {selection['selection_id']}",
        "description": (
            f"{counts['rows']} rows of {counts['videos']} videos, written by Reelsieve {passport['reelsieve']}. "
            f"{explain_origins(origins)}"
        ),
        **({"license": licences} if licences else {}),
        "datePublished": passport["exported_at"],
        "distribution": [
            *[_describe_file(folder, file) for file in files],
            {
                "@type": "cr:FileSet",
                "@id": _FILES,
                "name": _FILES,
                "encodingFormat": _PARQUET,
                "includes": "data/*.parquet",
            },
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": _ROWS,
                "name": _ROWS,
                "key": {"@id": f"{_ROWS}/rank"},
                "field": [_describe_column(column) for column in columns],
            }
        ],
    }


def explain_origins(origins: Mapping[str, Any]) -> str:
    """Return sentences on the licences of an export's videos, the commonest first, and on videos whose owners opted
    out. origins: part of a passport.

    >>> licences = [{"licence": "CC0-1.0", "rows": 3, "videos": 2}, {"licence": None, "rows": 1, "videos": 1}]
    >>> explain_origins({"licences": licences, "rows_without_source": 4, "rows_opted_out": 0})
    'Licences of the videos: CC0-1.0 (3 rows), none known (1 row).'
    """
    return " ".join(_list_sentences(origins))


def _list_sentences(origins: Mapping[str, Any]) -> Iterator[str]:
    named = [f"{row['licence'] or 'none known'} ({format_count(row['rows'], 'row')})" for row in origins["licences"]]
    yield f"Licences of the videos: {', '.join(named)}."
    if n := origins["rows_opted_out"]:
        yield f"{format_count(n, 'row')} {'has' if n == 1 else 'have'} a video whose owner asked to leave it out."


def _describe_file(folder: Path, file: Path) -> dict[str, Any]:
    name = file.relative_to(folder).as_posix()
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": name,
        "contentSize": f"{file.stat().st_size} B",
        "encodingFormat": _PARQUET,
        "sha256": compute_file_sha256(file).hex(),
    }


def _describe_column(column: ExportColumn) -> dict[str, Any]:
    is_list = {"isArray": True, "arrayShape": "-1"} if column.kind == "texts" else {}
    return {
        "@type": "cr:Field",
        "@id": f"{_ROWS}/{column.name}",
        "name": column.name,
        "description": column.meaning,
        "dataType": _TYPES.get(column.kind, "sc:Text"),
        **is_list,
        "source": {"fileSet": {"@id": _FILES}, "extract": {"column": column.name}},
    }
