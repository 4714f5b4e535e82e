"""Tables of facts that describe texts and videos: a row per distinct text, and a row per video."""

from __future__ import annotations

import sqlalchemy as sa

from db.schema.columns import METADATA, digest_column, parent_column, text_column, time_column

# Keyed by the hash of the text, so that a changed text never keeps the facts of the old one.
text_fact = sa.Table(
    "text_fact",
    METADATA,
    sa.Column("text_sha256", sa.LargeBinary, primary_key=True),
    text_column("rule"),
    sa.Column("words", sa.Integer, nullable=False),
    sa.Column("sentences", sa.Integer, nullable=False),
    sa.Column("repetition", sa.Double, nullable=True),
    sa.Column("boilerplate", sa.Double, nullable=True),
    sa.Column("digit_share", sa.Double, nullable=True),
    sa.Column("name_share", sa.Double, nullable=True),
    text_column("language", nullable=True),
    time_column("described_at"),
)

_PICTURE_FACTS = (
    *("motion", "motion_min", "motion_max", "camera_motion", "object_motion"),
    *("frame_change", "frame_change_min", "frame_change_max", "static_share", "frozen_share", "black_share"),
    *("sharpness", "sharpness_min", "sharpness_max", "brightness", "brightness_min", "brightness_max"),
    *("contrast", "contrast_min", "contrast_max", "letterbox"),
)
# Facts that need the models of the extra `facts`.
FACTS_BY_MODELS = ("text_share", "text_area", "speech_share")
# A row made from an older file of the video does not count: views and the list of pending videos compare the hashes.
video_fact = sa.Table(
    "video_fact",
    METADATA,
    parent_column("video.video_id", primary_key=True),
    digest_column("content_sha256"),
    text_column("rule"),
    text_column("status"),
    text_column("error", nullable=True),
    *[sa.Column(name, sa.Double, nullable=True) for name in _PICTURE_FACTS],
    sa.Column("cuts", sa.Integer, nullable=True),
    sa.Column("has_sound", sa.Boolean, nullable=True),
    sa.Column("signature", sa.LargeBinary, nullable=True),
    sa.Column("repeated_share", sa.Double, nullable=True),
    text_column("models", nullable=True),
    *[sa.Column(name, sa.Double, nullable=True) for name in FACTS_BY_MODELS],
    time_column("measured_at"),
    sa.CheckConstraint("status IN ('ok', 'unreadable', 'failed')", name="status"),
    sa.CheckConstraint("(status = 'ok') = (error IS NULL)", name="reason_unless_ok"),
)

TEXT_FACTS = ("words", "sentences", "repetition", "boilerplate", "digit_share", "name_share", "language")
VIDEO_FACTS = (*_PICTURE_FACTS, "cuts", "has_sound", "repeated_share", *FACTS_BY_MODELS)
