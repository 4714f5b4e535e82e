"""The samples that a recipe chooses among, as arrays: what it ranks them by, their strata and their texts' hashes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.reports.agreement import current_rating
from db.schema import rating, sample, video, video_fact
from db.scores.present import Column, PresentScores, is_number, names_of
from db.selection.filters import names_in, parse_filter
from db.selection.recipes import Recipe, SelectionError
from db.selection.ties import ALL

# Columns that a recipe may use beside those of sample_scores: length, own fields of the manifest, ratings.

OWN, RATING = "extra_", "rating_"
# By the types of JSON: how a value of it is read in SQL. A value of another type is passed over.
_TYPES: dict[str, sa.types.TypeEngine[Any]] = {"number": sa.Double(), "string": sa.Text(), "boolean": sa.Boolean()}
_FIELDS = sa.text(
    "SELECT f.key, array_agg(DISTINCT CASE WHEN jsonb_typeof(f.value) <> 'number' THEN jsonb_typeof(f.value) "
    "WHEN abs(CAST(f.value AS numeric)) <= 1.7e308 THEN 'number' ELSE 'number beyond 1.7e308' END) AS types FROM ("
    "SELECT extra FROM sample WHERE dataset_id = :dataset_id AND extra IS NOT NULL "
    "UNION ALL SELECT extra FROM video WHERE dataset_id = :dataset_id AND extra IS NOT NULL) e "
    "CROSS JOIN LATERAL jsonb_each(e.extra) f WHERE jsonb_typeof(f.value) <> 'null' GROUP BY f.key"
)


def own_columns(
    connection: Connection, dataset: Dataset, names: Iterable[str], scores: PresentScores
) -> dict[str, Column]:
    """The length of each text, n_characters, and those columns extra_FIELD and rating_ASPECT that are among the names.

    extra_FIELD is the field of the sample or, where the sample has none or null, of its video. rating_ASPECT is the
    mean over the raters. Raises SelectionError for a field that is unknown, that another one equals but for upper and
    lower case, or that holds values of several types.
    """
    mentioned = sorted({name.lower() for name in names if name.lower().startswith((OWN, RATING))})
    columns: dict[str, Column] = {"n_characters": sa.func.length(scores.columns["text"], type_=sa.Integer)}
    if any(name.startswith(OWN) for name in mentioned):
        fields = {f"{OWN}{row.key}": row for row in connection.execute(_FIELDS, {"dataset_id": dataset.dataset_id})}
        for name in _known(mentioned, OWN, fields, "own field of the manifest"):
            columns[name] = _field(name, fields[name].key, fields[name].types)
    if any(name.startswith(RATING) for name in mentioned):
        of_dataset = sa.select(rating.c.aspect).join(sample).where(sample.c.dataset_id == dataset.dataset_id).distinct()
        aspects = {f"{RATING}{aspect}": aspect for aspect in connection.scalars(of_dataset)}
        for name in _known(mentioned, RATING, aspects, "aspect that people rated"):
            columns[name] = _mean_rating(aspects[name], scores.columns["sample_id"])
    return columns


def columns_named(recipe: Recipe) -> set[str]:
    """The names of columns anywhere in a recipe."""
    return {*recipe.by, *recipe.at_least, *names_in(recipe.where or ""), *([recipe.per] if recipe.per else [])}


def _known(mentioned: Iterable[str], prefix: str, found: Iterable[str], kind: str) -> list[str]:
    names = sorted(found)
    by_lower_name = {name.lower(): name for name in names}
    unknown = next((name for name in mentioned if name.startswith(prefix) and name not in by_lower_name), None)
    if unknown is not None:
        known = ", ".join(sorted(by_lower_name.values())) or "none in this dataset"
        raise SelectionError(f"{unknown!r} is no {kind}: there are {known}")
    known_names = [by_lower_name[name] for name in mentioned if name.startswith(prefix)]
    for name in known_names:
        # A condition does not tell upper from lower case.
        if len(alike := [other for other in names if other.lower() == name.lower()]) > 1:
            raise SelectionError(f"{' and '.join(alike)} differ by upper and lower case alone: rename one of them")
    return known_names


def _field(name: str, key: str, types: list[str]) -> Column:
    if len(types) > 1 or types[0] not in _TYPES:
        raise SelectionError(
            f"{name} holds values of type {', '.join(sorted(types))}: a recipe needs numbers, texts or booleans alone"
        )
    of_sample = sa.func.nullif(sample.c.extra[key], sa.literal_column("CAST('null' AS jsonb)"))
    value = sa.func.coalesce(of_sample, video.c.extra[key])
    text = value.op("#>>")(sa.literal_column("CAST('{}' AS text[])"))
    # Postgres may look at rows of other datasets first, where the field may be of another type.
    return sa.case((sa.func.jsonb_typeof(value) == types[0], sa.cast(text, _TYPES[types[0]])))


def _mean_rating(aspect: str, sample_id: Column) -> Column:
    mean = sa.select(sa.func.avg(current_rating.c.value)).where(
        current_rating.c.sample_id == sample_id, current_rating.c.aspect == aspect
    )
    return sa.type_coerce(mean.scalar_subquery(), sa.Double)


KINDS = ("caption", "qa")
"""The kinds of samples; the first is taken where nobody says which."""
NO_STRATUM = "none"
"""The stratum of samples without a value in the column of strata."""
_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class Candidates:
    """The eligible samples, in order of kind and key.

    sample_ids: (n,). values: (n, m), the columns of `by` in their order, all finite. strata: their names in order;
    stratum: (n,), the place of each sample's stratum among them. draws: (n,), random numbers that depend on the seed,
    the kind and the key of a sample alone; empty unless the recipe draws. text_sha256: of each text; empty unless the
    recipe compares texts. video_ids: of each sample's video; signatures: by video, of those that have one. Both are
    empty unless the recipe compares videos.
    """

    sample_ids: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    strata: tuple[str, ...]
    stratum: npt.NDArray[np.intp]
    draws: npt.NDArray[np.uint64]
    text_sha256: list[bytes]
    video_ids: npt.NDArray[np.int64]
    signatures: Mapping[int, bytes]


@dataclass(frozen=True, slots=True)
class Eligible:
    """The rows of `scores` that a recipe chooses among: those with a value in each of `by` that pass all `filters`.

    columns: all that a recipe may name. cuts: the stored cuts that it names, as they are now, by metric. kind: of which
    samples they are, "caption", "qa" or "all". n_others: how many samples of the other kind could be taken as well,
    where nobody said which to take.
    """

    scores: PresentScores
    columns: Mapping[str, Column]
    by: tuple[Column, ...]
    filters: tuple[sa.ColumnElement[bool], ...]
    cuts: Mapping[str, Mapping[str, Any]]
    kind: str
    n_others: int

    @property
    def conditions(self) -> tuple[sa.ColumnElement[bool], ...]:
        """What the rows fulfil."""
        return (self.scores.of_dataset, *[value.is_not(None) for value in self.by], *self.filters)


def eligible(
    connection: Connection, dataset: Dataset, recipe: Recipe, scores: PresentScores, columns: Mapping[str, Column]
) -> Eligible:
    """The rows with a value in every column of `by` that pass the recipe's filter and least values.

    Raises SelectionError for an unknown column, one that is no number, and a threshold that is not stored; FilterError
    for a filter that is not allowed.
    """
    by = tuple(_number(columns, name, "by") for name in recipe.by)
    filters = [parse_filter(recipe.where, columns)] if recipe.where is not None else []
    floors = {name: _number(columns, name, "at_least") for name in recipe.at_least}
    if recipe.per:
        _stratum(columns, recipe)
    kind, n_others, is_mixed = _kind(connection, dataset, recipe, scores, [scores.of_dataset, *filters], by)
    if is_mixed:
        filters.append(columns["kind"] == kind)
    cuts = {
        name: _stored_cut(connection, dataset, name, least, kind)
        for name, least in recipe.at_least.items()
        if isinstance(least, str)
    }
    for name, column in floors.items():
        filters.append(column >= (cuts[name]["at_least"] if name in cuts else recipe.at_least[name]))
    return Eligible(scores, columns, by, tuple(filters), cuts, kind, n_others)


def _kind(
    connection: Connection,
    dataset: Dataset,
    recipe: Recipe,
    scores: PresentScores,
    conditions: Sequence[sa.ColumnElement[bool]],
    by: Sequence[Column],
) -> tuple[str, int, bool]:
    """The kind of samples that a recipe takes, how many of the other kind it could take, and whether it must choose."""
    of_dataset = sa.select(sample.c.sample_id).where(sample.c.dataset_id == dataset.dataset_id)
    has = {kind: connection.scalar(sa.select(of_dataset.where(sample.c.kind == kind).exists())) for kind in KINDS}
    there = [kind for kind in KINDS if has[kind]]
    if recipe.kind is not None:
        return recipe.kind, 0, recipe.kind != "all" and there != [recipe.kind]
    if len(there) < 2:
        return (there or KINDS)[0], 0, False
    if recipe.per == "kind":
        # Each stratum is of one kind.
        return "all", 0, False
    kind = scores.columns["kind"]
    query = sa.select(kind, sa.func.count()).select_from(scores.rows).where(*conditions)
    counts = {row[0]: row[1] for row in connection.execute(query.where(*[v.is_not(None) for v in by]).group_by(kind))}
    if len(counts) < 2:
        return next(iter(counts), KINDS[0]), 0, False
    return KINDS[0], counts[KINDS[1]], True


def read_candidates(connection: Connection, recipe: Recipe, found: Eligible) -> Candidates:
    """Read the eligible samples."""
    columns = found.scores.columns
    kind, key = columns["kind"], columns["sample"]
    wanted: dict[str, Any] = {"sample_id": columns["sample_id"]}
    wanted |= {f"value_{place}": value for place, value in enumerate(found.by)}
    if recipe.per:
        wanted["stratum"] = _stratum(found.columns, recipe)
    if recipe.draws:
        wanted["draw"] = sa.func.left(sa.func.md5(sa.func.concat_ws("\t", str(recipe.seed), kind, key)), 16)
    if recipe.needs_vectors:
        wanted["text_sha256"] = sample.c.text_sha256
    if recipe.dedupe_videos is not None:
        _check_measured(connection, found)
        wanted |= {"video_id": sample.c.video_id, "signature": video_fact.c.signature}
    query = sa.select(*[value.label(name) for name, value in wanted.items()]).select_from(found.scores.rows)
    query = query.where(*found.conditions).order_by(kind, sa.collate(key, "C"))
    streamed = connection.execute(query.execution_options(stream_results=True, yield_per=_BATCH))
    batches = (dict(zip(wanted, zip(*rows, strict=True), strict=True)) for rows in streamed.partitions())
    return _as_arrays(batches, recipe)


def _as_arrays(batches: Iterable[Mapping[str, Sequence[Any]]], recipe: Recipe) -> Candidates:
    ids, draws = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.uint64)]
    values, labels = [np.empty((len(recipe.by), 0))], [np.empty(0, dtype=np.intp)]
    numbers: dict[str, int] = {} if recipe.per else {ALL: 0}
    text_sha256: list[bytes] = []
    videos, signatures = [np.empty(0, dtype=np.int64)], dict[int, bytes]()
    for columns in batches:
        n = len(columns["sample_id"])
        ids.append(np.array(columns["sample_id"], dtype=np.int64))
        values.append(np.array([columns[f"value_{place}"] for place in range(len(recipe.by))], dtype=np.float64))
        of_rows = columns.get("stratum", [ALL] * n)
        labels.append(np.array([numbers.setdefault(label, len(numbers)) for label in of_rows], dtype=np.intp))
        draws.append(np.array([int(draw, 16) for draw in columns.get("draw", ())], dtype=np.uint64))
        text_sha256.extend(bytes(digest) for digest in columns.get("text_sha256", ()))
        of_videos = columns.get("video_id", ())
        videos.append(np.array(of_videos, dtype=np.int64))
        known = zip(of_videos, columns.get("signature", ()), strict=True)
        signatures |= {video_id: bytes(signature) for video_id, signature in known if signature is not None}
    strata = sorted(numbers)
    places = np.empty(len(strata), dtype=np.intp)
    places[[numbers[name] for name in strata]] = np.arange(len(strata))
    return Candidates(
        sample_ids=np.concatenate(ids),
        values=np.concatenate(values, axis=1).T,
        strata=tuple(strata),
        stratum=places[np.concatenate(labels)],
        draws=np.concatenate(draws),
        text_sha256=text_sha256,
        video_ids=np.concatenate(videos),
        signatures=signatures,
    )


def _check_measured(connection: Connection, found: Eligible) -> None:
    """Raise SelectionError where a video of an eligible sample that decodes was never measured."""
    is_unmeasured = sa.and_(video.c.status.in_(["ok", "damaged"]), video_fact.c.video_id.is_(None))
    query = sa.select(sa.func.count(sa.distinct(sample.c.video_id))).select_from(found.scores.rows)
    if n := connection.scalar(query.where(*found.conditions, is_unmeasured)):
        raise SelectionError(
            f"dedupe_videos compares signatures of videos, and {n} videos have none: run reelsieve facts for this "
            "dataset first"
        )


def _stratum(columns: Mapping[str, Column], recipe: Recipe) -> Column:
    """The name of each row's stratum: the value of `per`, or its band."""
    assert recipe.per is not None
    if not recipe.bands:
        value = _column(columns, recipe.per, "per")
        if isinstance(value.type, sa.Double):
            value += 0.0  # else minus zero has another name than zero, which it equals
        return sa.func.coalesce(sa.cast(value, sa.Text), NO_STRATUM)
    value, bands = _number(columns, recipe.per, "per"), [repr(limit).removesuffix(".0") for limit in recipe.bands]
    between = [f"{low} to {high}" for low, high in pairwise(bands)]
    names = [f"below {bands[0]}", *between, f"{bands[-1]} and more"]
    cases = [(value < limit, sa.literal(name)) for limit, name in zip(recipe.bands, names, strict=False)]
    return sa.case((value.is_(None), sa.literal(NO_STRATUM)), *cases, else_=sa.literal(names[-1]))


def _stored_cut(connection: Connection, dataset: Dataset, metric: str, objective: str, kind: str) -> dict[str, Any]:
    """The cut on a metric's scores of a kind that is stored for the whole dataset with this objective."""
    if kind == "all":
        raise SelectionError(
            f"at_least names a threshold of {metric}, and each is of one kind: give kind caption or qa"
        )
    query = sa.text(
        "SELECT objective, at_least, low, high, n, n_kept, n_good FROM dataset_thresholds "
        "WHERE dataset_id = :dataset_id AND metric = :metric AND kind = :kind"
    )
    rows = connection.execute(query, {"dataset_id": dataset.dataset_id, "metric": metric, "kind": kind}).mappings()
    stored = {row["objective"]: dict(row) for row in rows}
    if objective not in stored:
        known = ", ".join(map(repr, sorted(stored))) or "none, since it has no scores of now there: score it first"
        raise SelectionError(
            f"at_least asks for the threshold {objective!r} of {metric}: stored for {dataset.name!r} are {known}"
        )
    return stored[objective]


def _number(columns: Mapping[str, Column], name: str, field: str) -> Column:
    numbers = {key: column for key, column in columns.items() if is_number(column)}
    if name in columns and name not in numbers:
        # The cells of a CSV are text, so a number becomes text without anybody's will.
        text = (
            " (own fields out of a CSV are text: JSON Lines and Parquet have numbers)" if name.startswith(OWN) else ""
        )
        raise SelectionError(f"the recipe's {field}: {name} is no number{text}: choose one of {names_of(numbers)}")
    return _column(numbers, name, field)


def _column(columns: Mapping[str, Column], name: str, field: str) -> Column:
    if name not in columns:
        known = names_of(columns)
        raise SelectionError(f"the recipe's {field}: there is no column {name[:40]!r}: choose one of {known}")
    return columns[name]
