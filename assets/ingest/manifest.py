"""The files of a manifest: its tables, a file of mixed rows, dimensions of keypoints, an origin, scales of ratings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assets.ingest.declarations import read_declarations
from assets.ingest.files import check_regular_file, find_manifest_file
from assets.ingest.manifest_tables import MANIFEST_TABLES
from assets.ingest.readers import NO_COLUMNS, SUFFIXES
from assets.ingest.rejects import ManifestError
from assets.ingest.scales import Scale


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest folder with the paths of its `tables`, by the kind of their rows in the order of ingest. `mixed_rows`
    is the file of mixed rows, in any folder, or None. `dimensions` are the names that keypoints may have, and `origin`
    has the fields of an origin that count for videos without their own.

    `scales` are those of ratings, by aspect, and `columns` are those that the user named.
    """

    folder: Path
    tables: Mapping[str, Path]
    mixed_rows: Path | None
    dimensions: tuple[str, ...]
    origin: Mapping[str, Any]
    scales: Mapping[str, Scale]
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def file_names(self) -> list[str]:
        """The names of the tables' files and of the file of mixed rows, in the order of ingest. A reject has such a
        name as its source.
        """
        return [path.name for path in (*self.tables.values(), *filter(None, [self.mixed_rows]))]


def read_manifest_folder(
    folder: Path, mixed_rows: Path | None = None, columns: Mapping[str, str] = NO_COLUMNS
) -> Manifest:
    """Return the Manifest of a folder: paths of its tables, dimensions of keypoints, origin, and scales of ratings.
    Rows are not read. mixed_rows: one more file, in any folder, whose rows have their table's kind in field `kind`.
    columns: {field: name of the column that holds it}.

    Raises ManifestError where the folder, a required table or mixed_rows is missing or unusable, where a table is there
    twice, and where mixed_rows has the name of a table.
    """
    tables = list_table_files(folder)
    if mixed_rows is not None:
        check_regular_file(mixed_rows)
        if mixed_rows.name in [path.name for path in tables.values()]:
            raise ManifestError(
                f"{mixed_rows.name}: the folder has a table of this name: rename the file of mixed rows"
            )
    return Manifest(folder, tables, mixed_rows, *read_declarations(folder), columns)


def list_table_files(folder: Path) -> dict[str, Path]:
    """Return the paths of a folder's tables by the kind of their rows, in the order of ingest. Raises ManifestError if
    the folder or a required table is missing, captions only where there are no questions either, or if a table has
    files in two formats or is not a regular file inside the folder.
    """
    if not folder.is_dir():
        what = "it is not a folder" if folder.exists() else "no such folder"
        raise ManifestError(f"{folder}: {what}: give the folder that holds the manifest's tables")
    paths_by_kind: dict[str, Path] = {}
    for kind, table in MANIFEST_TABLES.items():
        name = table.name
        paths = _find_table(folder, name)
        if len(paths) > 1:
            names = " and ".join(path.name for path in paths)
            raise ManifestError(f"{folder}: table {name} occurs twice, as {names}: keep one of them")
        if paths:
            paths_by_kind[kind] = paths[0]
        elif table.is_required and not (kind == "caption" and _find_table(folder, MANIFEST_TABLES["qa"].name)):
            own_data = f", or let reelsieve init {folder} make a manifest of the data in it" if kind == "video" else ""
            raise ManifestError(f"{folder}: table {name} is missing: add {name}.jsonl, .csv or .parquet{own_data}")
    return paths_by_kind


def _find_table(folder: Path, name: str) -> list[Path]:
    return [path for suffix in SUFFIXES if (path := find_manifest_file(folder, f"{name}{suffix}")) is not None]
