"""Tables of facts that describe texts and videos: a row per distinct text, and a row per video."""

from __future__ import annotations

import sqlalchemy as sa

from db.schema.columns import (
    column,
    declare_table,
    digest_column,
    key_column,
    measure_column,
    parent_column,
    text_column,
    time_column,
)

# Keyed by the hash of the text, so that a changed text never keeps the facts of the old one.
text_fact = declare_table(
    "text_fact",
    "Facts that describe a text, one row per distinct text. They do not measure quality.",
    key_column("text_sha256", sa.LargeBinary),
    text_column("rule", "Version of the rules by which the facts were measured."),
    column("words", sa.Integer, "Number of words; a Han or kana character is a word."),
    column("sentences", sa.Integer, "Number of sentences."),
    measure_column(
        "repetition", "Share of the sequences of three words that occurred earlier in the text; NULL with fewer words."
    ),
    measure_column(
        "boilerplate",
        'Share of the sentences with an English stock phrase, such as "the video shows"; NULL without sentences.',
    ),
    measure_column("digit_share", "Share of the words that hold a digit; NULL without words."),
    measure_column(
        "name_share", "Share of the words inside sentences that begin with a capital letter; NULL without such words."
    ),
    text_column("language", "ISO 639 code of the language; NULL if the text is too short to detect it.", nullable=True),
    time_column("described_at", "When the facts were measured."),
)

_PICTURE_FACTS = [
    measure_column(
        "motion",
        "Mean length of the motion of blocks between frames 0.2 s apart, in frame heights a second, median; for "
        "every codec. Faster than 0.7 up or down or 1.2 sideways it is not followed. NULL for less than 0.2 s, "
        "frames more than 0.3 s apart, or no structure.",
    ),
    measure_column(
        "motion_min", "Lowest motion between two frames, before the median is taken; depends on the coding."
    ),
    measure_column(
        "motion_max", "Highest motion between two frames, before the median is taken; depends on the coding."
    ),
    measure_column(
        "camera_motion",
        "Part of the motion that one shift, zoom and turn of the whole frame explains, median; below 0.03 it is "
        "hardly distinguishable from none.",
    ),
    measure_column("object_motion", "Motion that remains without the motion of the camera, median."),
    measure_column(
        "frame_change",
        "Mean difference of two blurred frames 0.2 s apart in grey levels of 0 to 255, median; of two frames in a "
        "row where they are more than 0.3 s apart. NULL for less than 0.2 s.",
    ),
    measure_column(
        "frame_change_min",
        "Lowest frame_change between two frames, before the median is taken; near 0 it depends on the coding.",
    ),
    measure_column("frame_change_max", "Highest frame_change between two frames, before the median is taken."),
    measure_column(
        "static_share",
        "Share of the time without movement: the hundredth of the frame's blocks that change most changes by "
        "less than five grey levels in 0.2 s. NULL for less than 0.2 s.",
    ),
    measure_column(
        "frozen_share",
        "static_share with less than one grey level; strong coding freezes slight movement, so select by static_share.",
    ),
    measure_column("black_share", "Share of the time in which 98 % of the pixels are dark."),
    measure_column(
        "sharpness",
        "Variance of the Laplacian in grey levels at the stored size, median over frames; texture, noise, size and "
        "bit rate change it: it does not measure quality, and files of different coding cannot be compared by it.",
    ),
    measure_column("sharpness_min", "Sharpness of the blurriest frame, as in column sharpness."),
    measure_column("sharpness_max", "Sharpness of the sharpest frame, as in column sharpness."),
    measure_column("brightness", "Mean luma of a frame from black (0) to white (1), median over frames."),
    measure_column("brightness_min", "Mean luma of the darkest frame, from black (0) to white (1)."),
    measure_column("brightness_max", "Mean luma of the brightest frame, from black (0) to white (1)."),
    measure_column("contrast", "Standard deviation of the luma of a frame from 0 to 0.5, median over frames."),
    measure_column(
        "contrast_min", "Standard deviation of the luma, from 0 to 0.5, of the frame with the lowest contrast."
    ),
    measure_column(
        "contrast_max", "Standard deviation of the luma, from 0 to 0.5, of the frame with the highest contrast."
    ),
    measure_column(
        "letterbox",
        "Share of the frame that dark even bars at its edges take in four fifths of the frames read; NULL if all "
        "is dark.",
    ),
]
# Those that need the models of the extra `facts`.
_MODEL_FACTS = [
    measure_column(
        "text_share",
        "Share of the frames looked at, one every two seconds, with a line of text on screen that the model reads. "
        "NULL unless measured with the extra facts.",
    ),
    measure_column(
        "text_area",
        "Share of the frame that boxes around these lines cover, mean over all frames looked at, with and without "
        "text. NULL unless measured with the extra facts.",
    ),
    measure_column(
        "speech_share",
        "Share of the time in which somebody speaks. NULL without a sound track, where more than a tenth of it does "
        "not decode, or unless measured with the extra facts.",
    ),
]
FACTS_BY_MODELS = tuple(fact.name for fact in _MODEL_FACTS)
# A row made from an older file of the video does not count: views and the list of pending videos compare the hashes.
video_fact = declare_table(
    "video_fact",
    "Facts that describe the frames of a video; they do not measure quality. Views show those of the present file.",
    parent_column("video.video_id", primary_key=True),
    digest_column("content_sha256"),
    text_column("rule", "Version of the rules by which the facts were measured."),
    text_column("status", "ok, unreadable (final), or failed (the next run tries again)."),
    text_column("error", "Why there are no facts; NULL where the status is ok.", nullable=True),
    *_PICTURE_FACTS,
    column(
        "cuts",
        sa.Integer,
        "Number of hard cuts; repeated frames are none, and with few frames a second a jump in fast motion may "
        "count as one.",
        nullable=True,
    ),
    column("has_sound", sa.Boolean, "Whether the file has a sound track; a silent one counts too.", nullable=True),
    column(
        "signature",
        sa.LargeBinary,
        "128 bytes that describe the edges in the frame at four moments; dedupe_videos in a recipe recognises "
        "copies of a video by them.",
        nullable=True,
    ),
    measure_column(
        "repeated_share",
        "Share of the frames that repeat the frame before, as in a file of 30 frames a second that shows only 10; "
        "under strong coding slow motion counts in part.",
    ),
    text_column(
        "models",
        "Packages of the models behind text_share, text_area and speech_share, and the version of their rules; NULL "
        "if measured without them.",
        nullable=True,
    ),
    *_MODEL_FACTS,
    time_column("measured_at", "When the facts were measured."),
    sa.CheckConstraint("status IN ('ok', 'unreadable', 'failed')", name="status"),
    sa.CheckConstraint("(status = 'ok') = (error IS NULL)", name="reason_unless_ok"),
)

TEXT_FACTS = tuple(fact.name for fact in text_fact.c if fact.name not in ("text_sha256", "rule", "described_at"))
VIDEO_FACTS = (*(fact.name for fact in _PICTURE_FACTS), "cuts", "has_sound", "repeated_share", *FACTS_BY_MODELS)
