"""Columns that a recipe may use in addition to sample_scores: length of texts, own fields of the manifest, mean
ratings, tags.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.manifest.remarks import list_tags
from db.reports.judgements import current_rating
from db.schema import rating, remark, sample, video
from db.scores.sample_scores import Column, SampleScores
from db.selection.recipes import SelectionError
from db.spelling import find_similar_name, suggest_name

OWN_PREFIX, RATING_PREFIX, TAG_PREFIX = "extra_", "rating_", "tag_"
# By the types of JSON: how a value of it is read in SQL. A value of another type is passed over.
_TYPES: dict[str, sa.types.TypeEngine[Any]] = {"number": sa.Double(), "string": sa.Text(), "boolean": sa.Boolean()}
_FIELDS = sa.text(
    "SELECT f.key, array_agg(DISTINCT CASE WHEN jsonb_typeof(f.value) <> 'number' THEN jsonb_typeof(f.value) "
    "WHEN abs(CAST(f.value AS numeric)) <= 1.7e308 THEN 'number' ELSE 'number beyond 1.7e308' END) AS types FROM ("
    "SELECT extra FROM sample WHERE dataset_id = :dataset_id AND extra IS NOT NULL "
    "UNION ALL SELECT extra FROM video WHERE dataset_id = :dataset_id AND extra IS NOT NULL) e "
    "CROSS JOIN LATERAL jsonb_each(e.extra) f WHERE jsonb_typeof(f.value) <> 'null' GROUP BY f.key"
)


def build_own_columns(
    connection: Connection, dataset: Dataset, names: Iterable[str], scores: SampleScores
) -> dict[str, Column]:
    """Return by name the SQL columns that view sample_scores lacks: `n_characters`, and those that `names` lists:
    `extra_FIELD`, an own field of the sample or else of its video; `rating_ASPECT`, the mean of the ratings of its
    present text, NULL without; and `tag_NAME`, whether the sample has the tag, never NULL.

    Reads the names and types of fields, the aspects and the tags from the database. Raises SelectionError for a field,
    aspect or tag that no sample has or that equals another one except for upper and lower case, and for a field with
    values of several types.
    """
    mentioned = sorted(
        {name.lower() for name in names if name.lower().startswith((OWN_PREFIX, RATING_PREFIX, TAG_PREFIX))}
    )
    columns: dict[str, Column] = {"n_characters": sa.func.length(scores.columns["text"], type_=sa.Integer)}
    if any(name.startswith(OWN_PREFIX) for name in mentioned):
        fields = {
            f"{OWN_PREFIX}{row.key}": row for row in connection.execute(_FIELDS, {"dataset_id": dataset.dataset_id})
        }
        for name in _require_known(mentioned, OWN_PREFIX, fields, "an own field of the manifest"):
            columns[name] = _build_field(name, fields[name].key, fields[name].types)
    if any(name.startswith(RATING_PREFIX) for name in mentioned):
        aspect_query = (
            sa.select(rating.c.aspect).join(sample).where(sample.c.dataset_id == dataset.dataset_id).distinct()
        )
        aspects = {f"{RATING_PREFIX}{aspect}": aspect for aspect in connection.scalars(aspect_query)}
        for name in _require_known(mentioned, RATING_PREFIX, aspects, "an aspect that people rated"):
            columns[name] = _build_mean_rating(aspects[name], scores.columns["sample_id"])
    if any(name.startswith(TAG_PREFIX) for name in mentioned):
        tags = {f"{TAG_PREFIX}{tag}": tag for tag in list_tags(connection, dataset)}
        for name in _require_known(mentioned, TAG_PREFIX, tags, "a tag that people gave"):
            has_tag = (remark.c.dataset_id == dataset.dataset_id, remark.c.kind == "tag", remark.c.text == tags[name])
            columns[name] = scores.columns["sample_id"].in_(sa.select(remark.c.sample_id).where(*has_tag))
    return columns


def _require_known(mentioned: Iterable[str], prefix: str, existing: Iterable[str], kind: str) -> list[str]:
    names = sorted(existing)
    by_lower_name = {name.lower(): name for name in names}
    unknown = next((name for name in mentioned if name.startswith(prefix) and name not in by_lower_name), None)
    if unknown is not None:
        short = {name.removeprefix(prefix): name for name in names}
        meant = find_similar_name(unknown.removeprefix(prefix), short)
        hint = f", did you mean {short[meant]!r}?" if meant else suggest_name("", names)
        raise SelectionError(f"{unknown!r} is not {kind}{hint}")
    known_names = [by_lower_name[name] for name in mentioned if name.startswith(prefix)]
    for name in known_names:
        # A condition does not tell upper from lower case.
        if len(similar := [other for other in names if other.lower() == name.lower()]) > 1:
            raise SelectionError(
                f"{' and '.join(similar)} differ only in case: rename one in the manifest, and ingest it again"
            )
    return known_names


def _build_field(name: str, key: str, types: list[str]) -> Column:
    if len(types) > 1 or types[0] not in _TYPES:
        raise SelectionError(
            f"{name} holds values of type {', '.join(sorted(types))}: a recipe needs a field with only numbers, only "
            "texts or only booleans"
        )
    sample_value = sa.func.nullif(sample.c.extra[key], sa.literal_column("CAST('null' AS jsonb)"))
    value = sa.func.coalesce(sample_value, video.c.extra[key])
    text = value.op("#>>")(sa.literal_column("CAST('{}' AS text[])"))
    # Postgres may look at rows of other datasets first, where the field may be of another type.
    return sa.case((sa.func.jsonb_typeof(value) == types[0], sa.cast(text, _TYPES[types[0]])))


def _build_mean_rating(aspect: str, sample_id: Column) -> Column:
    mean = sa.select(sa.func.avg(current_rating.c.value)).where(
        current_rating.c.sample_id == sample_id, current_rating.c.aspect == aspect
    )
    return sa.type_coerce(mean.scalar_subquery(), sa.Double)
