"""Tables of what people write on the pages of `look`: tags and notes on samples, and saved views."""

from __future__ import annotations

import sqlalchemy as sa

from db.schema.columns import METADATA, parent_column, text_column, time_column

# The key lets a sample have a tag, or a note of one wording, once. It holds for the sample, whatever its text is.
remark = sa.Table(
    "remark",
    METADATA,
    parent_column("sample.sample_id", primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("text", sa.Text, primary_key=True),
    text_column("made_by"),
    time_column("made_at"),
    parent_column("dataset.dataset_id"),
    # By it the tags of a dataset are listed, and the samples of a tag.
    sa.Index("ix_remark_dataset_id_kind_text", "dataset_id", "kind", "text"),
    sa.CheckConstraint("kind IN ('tag', 'note')", name="kind"),
)

saved_view = sa.Table(
    "saved_view",
    METADATA,
    parent_column("dataset.dataset_id", primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    text_column("query"),
    time_column("saved_at"),
)
