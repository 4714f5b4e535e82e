"""Tables of what people do on the pages of `look` and `rate`: tags and notes on samples, saved views, answers to
attention checks, and wrong words of captions.
"""

from __future__ import annotations

import sqlalchemy as sa

from db.schema.columns import METADATA, digest_column, json_column, parent_column, text_column, time_column

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

# An answer to a caption of another video, shown in place of the sample's text. It is never a rating or a preference.
attention_check = sa.Table(
    "attention_check",
    METADATA,
    parent_column("sample.sample_id", primary_key=True),
    sa.Column("rater", sa.Text, primary_key=True),
    sa.Column("aspect", sa.Text, primary_key=True),
    sa.Column("is_comparison", sa.Boolean, primary_key=True),
    sa.Column("planted_id", sa.ForeignKey("sample.sample_id", ondelete="CASCADE"), primary_key=True),
    digest_column("planted_sha256"),
    sa.Column("value", sa.Double, nullable=False),
    sa.Column("has_passed", sa.Boolean, nullable=False),
    json_column("extra"),
    # Rows are deleted with the planted caption.
    sa.Index("ix_attention_check_planted_id", "planted_id"),
)

# Characters start_at up to end_at of a caption that a rater calls wrong. It counts while the text is the one of the
# digest. A planted caption's text is another sample's, so marks in it count only if the sample gets that text.
wrong_span = sa.Table(
    "wrong_span",
    METADATA,
    parent_column("sample.sample_id", primary_key=True),
    sa.Column("rater", sa.Text, primary_key=True),
    sa.Column("text_sha256", sa.LargeBinary, primary_key=True),
    sa.Column("start_at", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("end_at", sa.Integer, primary_key=True, autoincrement=False),
    text_column("words"),
    sa.Column("is_planted", sa.Boolean, nullable=False),
    time_column("marked_at"),
    sa.CheckConstraint("0 <= start_at AND start_at < end_at", name="order"),
)
