"""The option --column of init, try and ingest: which column of a table holds what."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from orchestration.cli.refusals import UsageError

if TYPE_CHECKING:
    from assets.new_manifest.columns import ColumnNames

ColumnOption = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="FIELD=COLUMN",
        help="Column of a field, such as reference=Referenz; may be repeated (default: by its name).",
    ),
]
RatingOption = Annotated[
    list[str] | None,
    typer.Option(
        "--rating",
        metavar="[ASPECT=]COLUMNS[=SCALE]",
        help="Column of people's ratings, such as score, 'score=0-100' or 'mos=1-5, mean of 3' "
        "(default: whole numbers from 1 to 5), or columns of several raters, overall=r1,r2,r3; may be repeated.",
    ),
]
_RATING = "rating"


def parse_columns(options: Sequence[str] | None, fields: Collection[str]) -> dict[str, str]:
    """Return the columns by their field, from texts FIELD=COLUMN. fields: the known ones. Raises UsageError for another
    text, and for a field or column that is given twice.

    >>> parse_columns(["reference=Referenz"], ["caption", "reference"])
    {'reference': 'Referenz'}
    """
    columns: dict[str, str] = {}
    for option in options or ():
        name, _, column = option.partition("=")
        if name not in fields or not column:
            from db.spelling import suggest_name

            if not column:
                raise UsageError(f"--column {option}: write FIELD=COLUMN, where FIELD is one of {', '.join(fields)}")
            raise UsageError(f"--column {option}: there is no field {name!r}{suggest_name(name, fields)}")
        if name in columns:
            raise UsageError(f"--column {option}: field {name} has column {columns[name]!r} already: leave one out")
        if column in columns.values():
            raise UsageError(f"--column {option}: another field has column {column!r} already: leave one out")
        columns[name] = column
    return columns


def parse_column_names(options: Sequence[str] | None, ratings: Sequence[str] | None) -> ColumnNames:
    """Return the names of columns that the options --column and --rating give; `--column rating=NAME` is
    `--rating NAME`. Raises UsageError, also for a column of raters without one of ratings, and NoManifest for an
    invalid scale.
    """
    from assets.new_manifest.columns import FIELDS, ColumnNames, parse_ratings

    given = [option for option in options or () if not option.startswith(f"{_RATING}=")]
    more = [option.partition("=")[2] for option in options or () if option not in given]
    rated = (*(ratings or ()), *more)
    parse_ratings(rated)
    columns = parse_columns(given, (*FIELDS, _RATING))
    if "rater" in columns and not rated:
        raise UsageError(f"--column rater={columns['rater']}: name the column of the ratings too, with --rating COLUMN")
    return ColumnNames(columns, rated)
