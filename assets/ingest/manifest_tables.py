"""The tables of a manifest: one record per table holds everything that ingest knows about the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from assets.ingest.rows import (
    CaptionRow,
    KeypointLabelRow,
    KeypointRow,
    QARow,
    RatingRow,
    ValidRow,
    VectorRow,
    VideoRow,
)


@dataclass(frozen=True)
class ManifestTable:
    """One table that a manifest may have: the kind of its rows, its name without suffix, its fields, and the database
    tables that its rows fill. `id_fields` together identify a row. `field_types` gives the type of every field that CSV
    and pandas write otherwise: int, float, bool, or list for JSON.

    kind: the word for one row of the table; a mixed file has it in the field `kind`. is_required: whether a manifest
    folder must have the table.
    """

    kind: str
    name: str
    row_model: type[ValidRow]
    id_fields: tuple[str, ...]
    database_tables: tuple[str, ...]
    field_types: Mapping[str, type] = field(default_factory=dict)
    is_required: bool = False

    @cached_property
    def required_fields(self) -> frozenset[str]:
        """The names of the fields that every row of the table must have."""
        return frozenset(name for name, info in self.row_model.model_fields.items() if info.is_required())

    def list_id_values(self, row: ValidRow) -> list[str]:
        """List the values of the row's id fields, in the order of `id_fields`."""
        return [getattr(row, name) for name in self.id_fields]

    def build_row_key(self, row: ValidRow) -> str:
        """Return one text that identifies the row within its table. For a table with one id field it is the id; for
        several, every id with its length is on its own line.
        """
        if len(self.id_fields) == 1:
            key: str = getattr(row, self.id_fields[0])
            return key
        parts = self.list_id_values(row)
        # An id may contain a line feed, so every part is written after its length.
        return "\n".join(f"{len(part)}:{part}" for part in parts)


# In the order of ingest: a table comes after the tables that its rows point to.
_TABLES = (
    ManifestTable(
        kind="video",
        name="videos",
        row_model=VideoRow,
        id_fields=("video_id",),
        database_tables=("video",),
        field_types={"duration_s": float, "opt_out": bool},
        is_required=True,
    ),
    ManifestTable(
        kind="caption",
        name="captions",
        row_model=CaptionRow,
        id_fields=("caption_id",),
        database_tables=("reference", "sample"),
        field_types={"segments": list},
        is_required=True,
    ),
    ManifestTable(
        kind="keypoint",
        name="keypoints",
        row_model=KeypointRow,
        id_fields=("keypoint_id",),
        database_tables=("keypoint",),
        field_types={"segment_index": int},
    ),
    ManifestTable(
        kind="keypoint_label",
        name="keypoint_labels",
        row_model=KeypointLabelRow,
        id_fields=("keypoint_id", "caption_id"),
        database_tables=("keypoint_label",),
        field_types={"covered": bool},
    ),
    ManifestTable(
        kind="qa",
        name="qa",
        row_model=QARow,
        id_fields=("qa_id",),
        database_tables=("sample",),
    ),
    ManifestTable(
        kind="rating",
        name="ratings",
        row_model=RatingRow,
        id_fields=("caption_id", "rater", "aspect"),
        database_tables=("rating",),
        field_types={"value": int, "mean_of": int},
    ),
    ManifestTable(
        kind="vector",
        name="vectors",
        row_model=VectorRow,
        id_fields=("video_id", "encoder"),
        database_tables=("video_embedding",),
        field_types={"vector": list},
    ),
)

# The tables by the kind of their rows, in the order of ingest.
MANIFEST_TABLES: dict[str, ManifestTable] = {table.kind: table for table in _TABLES}


def list_field_names() -> list[str]:
    """List the names of the fields of all tables, every name once, in the order of the tables."""
    # The model of a rating lacks `mean_of`, which only means have.
    names = ((*table.row_model.model_fields, *table.field_types) for table in _TABLES)
    return list(dict.fromkeys(chain.from_iterable(names)))
