"""Imports numbers that were made elsewhere as scores of a metric, with a column, staleness, report and agreement."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from reelsieve.errors import ReelsieveError, raise_reelsieve_errors
from reelsieve.frames import find_table_adapter
from reelsieve.functions import STATUS_PATTERN, convert_to_float

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

    from db.manifest.datasets import Dataset
    from db.scores.imported_scores import KeyedSample
    from db.scores.store import ScoreRow
    from db.server.bulk import UpsertCounts
    from reelsieve.stored import Place

# Names of the column that names the sample of a row, and the kind of samples that the name means.
KEY_COLUMNS = {"sample": None, "caption_id": "caption", "qa_id": "qa"}
_NAME = re.compile(r"[a-z][a-z0-9_]{2,39}")
# Statuses that the platform itself gives.
_OWN_STATUSES = ("ok", "stale", "unscored", "failed")
_BATCH = 1000
# How often a name is looked up that seems to be taken.
_LOOKS = 2
# How many drops of other datasets may delete the scorer of an import before the import gives up.
_DROPS = 5
# The id that stands for a run of Dagster.
IMPORT_RUN_ID = "import"


@raise_reelsieve_errors
def import_scores(
    frame: Any,
    name: str,
    dataset: str,
    *,
    source: str | None = None,
    home: Place | None = None,
    url: str | None = None,
) -> dict[str, int]:
    """Store numbers that were made elsewhere as scores of metric `name`, for samples of a stored dataset; a greater
    number is better. Return how many rows are "new", "changed" and "unchanged", and how many of all rows have no value
    ("without_value"). Raises ReelsieveError and stores no score if any row is bad or names no sample.

    frame: a table of pandas, polars or pyarrow, or a dataset of Hugging Face. A row names a sample of the dataset in
    column `sample`, `caption_id` or `qa_id`, and has its number in column `value` or NAME; a row without a number may
    give the reason by `status` and `reason`. Columns `kind`, `video` (or `video_id`) and `text`, if the table has them,
    must equal the stored values, so that numbers of another text are never taken. Other columns are not read.

    source: who made the numbers, such as "clip-score 2.1"; it is shown in place of the models of other metrics. Numbers
    of the same name and source update earlier ones, which become history; another source replaces the earlier source.
    home, url: as in `connect`.
    """
    from assets.datasets.lookup import require_dataset
    from assets.ingest.hygiene import is_storable
    from orchestration.installation import open_migrated_engine
    from reelsieve.stored import find_connection_url

    if not _NAME.fullmatch(name):
        raise ReelsieveError(
            f"metric name {name!r}: write a lower-case letter, then 2 to 39 lower-case letters, digits and _"
        )
    if source is not None and not (isinstance(source, str) and source.strip() and is_storable(source)):
        raise ReelsieveError(f"source {_shorten(source)} is not plain text: name who made the numbers, or leave it out")
    rows = _read_rows(frame, name)
    place = find_connection_url(home, url)
    engine = open_migrated_engine(place)
    try:
        stored_dataset = require_dataset(engine, dataset)
        _require_free_name(engine, name)
        # In one snapshot: a number counts for the text that its row was compared with, whatever is ingested meanwhile.
        with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
            scores = [*_build_score_rows(connection, rows, _load_samples(connection, stored_dataset, rows))]
        stored = _store_scores(engine, stored_dataset, name, source or name, scores)
    finally:
        engine.dispose()
    without = sum(row["value"] is None for row in rows)
    return {"new": stored.inserted, "changed": stored.updated, "unchanged": stored.unchanged, "without_value": without}


def _read_rows(frame: Any, name: str) -> list[dict[str, Any]]:
    """Return the rows with key, kind, video, text, value, status and reason. Raises ReelsieveError for the first bad
    one.
    """
    from assets.ingest.hygiene import is_storable

    kind = find_table_adapter(frame)
    columns = [column for column in kind.list_columns(frame) if isinstance(column, str)]
    shown = ", ".join(map(repr, columns)) or "none"
    key = _find_column(columns, KEY_COLUMNS)
    value = _find_column(columns, ("value", name))
    if key is None:
        raise ReelsieveError(f"the table has no column that names samples (columns: {shown}): rename one to sample")
    if value is None:
        raise ReelsieveError(f"the table has no column of numbers (columns: {shown}): rename one to value")
    video = _find_column(columns, ("video", "video_id"))
    others = [column for column in ("kind", "text", "status", "reason") if column in columns]
    read = kind.read_rows(frame, [key, value, *([video] if video else []), *others])
    if not read:
        raise ReelsieveError("the table has no rows: give one for each sample")
    of_kind = KEY_COLUMNS[key]
    rows = []
    places: dict[tuple[Any, Any], int] = {}
    for number, row in enumerate(read, 1):
        meant = {
            "key": row[key],
            "kind": row.get("kind", of_kind),
            "video": row[video] if video else None,
            "text": row.get("text"),
            **_parse_outcome(number, row[value], row.get("status"), row.get("reason")),
        }
        if not isinstance(meant["key"], str):
            raise ReelsieveError(f"row {number}: {key} {meant['key']!r} is not text: give the key of a sample")
        if not is_storable(meant["key"]):
            raise ReelsieveError(f"row {number}: {key} {meant['key']!r} has a character of no key: correct it")
        first = places.setdefault((str(meant["kind"]), meant["key"]), number)
        if first != number:
            raise ReelsieveError(f"rows {first} and {number} are both about sample {meant['key']!r}: leave one out")
        rows.append(meant)
    return rows


def _find_column(columns: Sequence[str], names: Any) -> str | None:
    return next((name for name in names if name in columns), None)


def _parse_outcome(number: int, value: Any, status: Any, reason: Any) -> dict[str, Any]:
    """Return value, status and reason of a row: a number without status is "ok", neither of them is "undefined"."""
    from assets.ingest.hygiene import is_storable

    number_value = math.nan if value is None else convert_to_float(value)
    if isinstance(value, bool) or number_value is None:
        raise ReelsieveError(f"row {number}: value {_shorten(value)} is not a number: give one, or leave it empty")
    has_value = not math.isnan(number_value)
    if math.isinf(number_value):
        remedy = "leave it empty, and give the reason as its status"
        raise ReelsieveError(f"row {number}: value {_shorten(value)} is not finite: {remedy}")
    given_status = status or ("ok" if has_value else "undefined")
    if has_value and given_status != "ok":
        raise ReelsieveError(f"row {number}: status {_shorten(given_status)} comes with a value: leave one of them out")
    if not has_value and (
        not isinstance(given_status, str) or not STATUS_PATTERN.fullmatch(given_status) or given_status in _OWN_STATUSES
    ):
        unfit = "comes without a value" if given_status == "ok" else "cannot be given"
        raise ReelsieveError(f"row {number}: status {_shorten(given_status)} {unfit}: use one such as no_audio")
    why = None if has_value else str(reason or "it was imported without a value")[:500]
    if why and not is_storable(why):
        raise ReelsieveError(
            f"row {number}: reason {_shorten(why)} has a character that no database can store: remove it"
        )
    return {"value": number_value if has_value else None, "status": given_status, "reason": why}


def _shorten(value: Any) -> str:
    # Python refuses to write out whole numbers of more than some thousand digits.
    text = f"{value.bit_length()} bits long" if type(value) is int and value.bit_length() > 1000 else repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


def _load_samples(connection: Connection, dataset: Dataset, rows: Sequence[Mapping[str, Any]]) -> list[KeyedSample]:
    """Return the sample of every row, in order. Raises ReelsieveError if a row names none or another one than it
    describes.
    """
    from db.scores.imported_scores import load_samples_by_key

    by_key: dict[str, list[KeyedSample]] = {}
    for candidate in load_samples_by_key(connection, dataset.dataset_id, [row["key"] for row in rows]):
        by_key.setdefault(candidate.key, []).append(candidate)
    chosen = []
    unknown = []
    for number, row in enumerate(rows, 1):
        meant = [candidate for candidate in by_key.get(row["key"], ()) if row["kind"] in (None, candidate.kind)]
        if len(meant) > 1:
            raise ReelsieveError(
                f"row {number}: {row['key']!r} is a caption and a question: add a column kind with caption or qa"
            )
        if not meant:
            unknown.append((number, row["key"]))
            continue
        for name, stored in (("video", meant[0].video), ("text", meant[0].text)):
            if row[name] not in (None, stored):
                differs = f"{name} {_shorten(row[name])} is not that of sample {row['key']!r}, {_shorten(stored)}"
                raise ReelsieveError(f"row {number}: {differs}: ingest the dataset, or correct the row")
        chosen.append(meant[0])
    if unknown:
        number, key = unknown[0]
        kind = rows[number - 1]["kind"]
        named = f"{key!r}" if kind is None else f"{key!r} of kind {kind!r}"
        if len(unknown) == 1:
            raise ReelsieveError(
                f"row {number}: dataset {dataset.name!r} has no sample {named}: correct the row, or ingest it first"
            )
        raise ReelsieveError(
            f"{len(unknown):,} rows name samples that dataset {dataset.name!r} does not have, such as {named} in row "
            f"{number}: correct the table, or ingest these samples first"
        )
    return chosen


def _require_free_name(engine: Engine, name: str) -> None:
    """Raise ReelsieveError if an imported metric cannot have this name."""
    from db.scores.imported_scores import explain_refused_name
    from orchestration.installation import open_migrated_engine

    for _ in range(_LOOKS):
        with engine.connect() as connection:
            why = explain_refused_name(connection, name)
        if why is None:
            return
        # A drop may be about to remove the column, or another import may just have made it.
        open_migrated_engine(engine.url).dispose()
    raise ReelsieveError(f"the name {name!r} {why}: choose another one")


def _build_score_rows(
    connection: Connection, rows: Sequence[Mapping[str, Any]], samples: Sequence[KeyedSample]
) -> Iterator[ScoreRow]:
    """Yield the score of each row's sample, with the digest of the text that the connection sees."""
    from db.scores.imported_scores import IMPORTED_INPUTS
    from db.scores.pending import load_samples, split_ids
    from db.scores.store import ScoreRow

    by_id = {sample.sample_id: row for sample, row in zip(samples, rows, strict=True)}
    for ids in split_ids([*by_id], _BATCH):
        for loaded in load_samples(connection, ids, IMPORTED_INPUTS):
            row = by_id[loaded.sample_id]
            digests = (loaded.sample_id, loaded.input_sha256, loaded.input_marks)
            yield ScoreRow(*digests, row["value"], {}, row["status"], row["reason"])


def _store_scores(engine: Engine, dataset: Dataset, name: str, source: str, scores: Sequence[ScoreRow]) -> UpsertCounts:
    """Store scores of a metric, make their source its active scorer, and return how many are new, changed and
    unchanged.

    Raises ReelsieveError if samples are gone. A drop of another dataset deletes the scorer if it had its only scores;
    then the scorer is made again.
    """
    from psycopg.errors import ForeignKeyViolation

    for _ in range(_DROPS):
        with suppress(ForeignKeyViolation):
            return _store_scores_once(engine, dataset, name, source, scores)
    return _store_scores_once(engine, dataset, name, source, scores)


def _store_scores_once(
    engine: Engine, dataset: Dataset, name: str, source: str, scores: Sequence[ScoreRow]
) -> UpsertCounts:
    from assets.scores.pending import update_active_scorer
    from db.scores.store import store_scores
    from db.server.bulk import UpsertCounts
    from orchestration.installation import open_migrated_engine

    scorer_id = _register_scorer(engine, name, source)
    # The views get the columns of a new metric.
    open_migrated_engine(engine.url).dispose()
    written = UpsertCounts(0, 0, 0)
    for start in range(0, len(scores), _BATCH):
        batch = scores[start : start + _BATCH]
        counts = store_scores(engine, scorer_id, IMPORT_RUN_ID, batch)
        if (n_gone := len(batch) - counts.inserted - counts.updated - counts.unchanged) > 0:
            raise ReelsieveError(
                f"samples of dataset {dataset.name!r} were deleted during the import, {n_gone:,} so far: ingest it "
                "again, and import again"
            )
        written += counts
    update_active_scorer(engine, scorer_id, [dataset])
    return written


def _register_scorer(engine: Engine, name: str, source: str) -> int:
    from db.scores.imported_scores import IMPORTED_VERSION
    from db.scores.store import register_scorer
    from metrics_core.protocols import ModelIdentity

    models = {"source": ModelIdentity(source, IMPORTED_VERSION, {}).as_dict()}
    with engine.begin() as connection:
        return register_scorer(connection, metric=name, models=models, params={}, code_version=IMPORTED_VERSION)
