"""Tables of what people do on the pages of `look` and `rate`: tags and notes on samples, saved views, answers to
attention checks, and wrong words of captions.
"""

from __future__ import annotations

import sqlalchemy as sa

from db.schema.columns import (
    column,
    declare_table,
    digest_column,
    json_column,
    key_column,
    parent_column,
    text_column,
    time_column,
)

# The key lets a sample have a tag, or a note of one wording, once. It holds for the sample, whatever its text is.
remark = declare_table(
    "remark",
    "A tag or a note that a person wrote on a sample. It stays when the sample's text changes.",
    parent_column("sample.sample_id", primary_key=True),
    key_column("kind", sa.Text, "tag or note."),
    key_column("text", sa.Text, "The tag in lower case, or the note."),
    text_column("made_by", "Person who wrote the tag or note."),
    time_column("made_at", "When the tag or note was written."),
    parent_column("dataset.dataset_id"),
    # By it the tags of a dataset are listed, and the samples of a tag.
    sa.Index("ix_remark_dataset_id_kind_text", "dataset_id", "kind", "text"),
    sa.CheckConstraint("kind IN ('tag', 'note')", name="kind"),
)

saved_view = declare_table(
    "saved_view",
    "A view of a dataset's pages in reelsieve look that was saved under a name.",
    parent_column("dataset.dataset_id", primary_key=True),
    key_column("name", sa.Text, "Name that a person gave to the view."),
    text_column("query", "Conditions, order and columns of the page, as its address has them."),
    time_column("saved_at", "When the view was saved."),
)

# An answer to a caption of another video, shown in place of the sample's text. It is never a rating or a preference.
attention_check = declare_table(
    "attention_check",
    "An answer to an attention check: a caption of another video was shown in place of the sample's text. It is "
    "never a rating or a preference.",
    parent_column(
        "sample.sample_id", "Caption in whose place the planted caption was shown, with its video.", primary_key=True
    ),
    key_column("rater", sa.Text, "Person who answered."),
    key_column("aspect", sa.Text, "Aspect that was asked for."),
    key_column("is_comparison", sa.Boolean, "Whether two captions of a video were compared, one of them planted."),
    parent_column("sample.sample_id", "Caption of another video that was shown.", name="planted_id", primary_key=True),
    digest_column("planted_sha256", "Digest of the text that was shown."),
    column(
        "value",
        sa.Double,
        "The rating, on the scale of the aspect; in a comparison 1 if the planted caption was preferred, -1 if the "
        "other one was, 0 for neither.",
    ),
    column(
        "has_passed",
        sa.Boolean,
        "Whether the rating is in the worst third of the scale; in a comparison, whether the planted caption was "
        "not preferred.",
    ),
    json_column("extra", "When and how it was asked.", nullable=True),
    # Rows are deleted with the planted caption.
    sa.Index("ix_attention_check_planted_id", "planted_id"),
)

# Characters start_at up to end_at of a caption that a rater calls wrong. It counts while the text is the one of the
# digest. A planted caption's text is another sample's, so marks in it count only if the sample gets that text.
wrong_span = declare_table(
    "wrong_span",
    "Words of a caption that a person marked as wrong while rating.",
    parent_column("sample.sample_id", "Caption that was rated.", primary_key=True),
    key_column("rater", sa.Text, "Person who marked the words."),
    key_column(
        "text_sha256",
        sa.LargeBinary,
        "Digest of the text in which the words were marked; while the sample has another text they do not count.",
    ),
    key_column("start_at", sa.Integer, "Number of characters of the caption before the marked words."),
    key_column("end_at", sa.Integer, "Number of characters of the caption up to the end of the marked words."),
    text_column("words", "The marked words."),
    column(
        "is_planted",
        sa.Boolean,
        "Whether the words are of an attention check's planted caption; they count only if the sample gets that text.",
    ),
    time_column("marked_at", "When the words were marked."),
    sa.CheckConstraint("0 <= start_at AND start_at < end_at", name="order"),
)
