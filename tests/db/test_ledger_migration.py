"""A database of revision 0010 with scores of every state: what the upgrade keeps, and the way back."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import URL, Engine

from assets.scores.registry import METRIC_INPUTS
from db.schema.migrate import check_schema, downgrade, migrate
from db.scores.shards import score_tally, shard_counts
from tests.db.builders import change_text
from tests.db.old_rows import contents, insert_old

# The digests as revision 0010 made them, over sample s and video v.
TEXT = (
    "sha256(CASE WHEN s.kind = 'qa' THEN s.text_sha256 || sha256(convert_to(COALESCE(s.question, ''), 'UTF8')) "
    "|| sha256(convert_to(COALESCE(s.answer, ''), 'UTF8')) ELSE s.text_sha256 END)"
)
SEGMENTS = (
    "sha256(sha256(convert_to(COALESCE(CAST(s.segments AS text), ''), 'UTF8')) "
    "|| COALESCE(v.reference_segments_digest, '') || convert_to(COALESCE(s.extra->>'parse_error', ''), 'UTF8'))"
)
REFERENCES = "sha256(COALESCE(v.references_sha256, ''))"
VIDEO = "sha256(COALESCE(v.content_sha256, ''))"
KEYPOINTS = "COALESCE(v.keypoints_sha256, sha256(''))"
THRESHOLDS = "sha256('')"
OLD = {
    "vcs": (REFERENCES, TEXT),
    "evqa": (TEXT, VIDEO),
    "ecs": (KEYPOINTS, SEGMENTS, TEXT, THRESHOLDS),
    "qeva": (KEYPOINTS, REFERENCES, SEGMENTS, TEXT, VIDEO),
}
ADD = """
INSERT INTO score (scorer_id, sample_id, input_sha256, value, components, status, run_id)
SELECT :scorer_id, s.sample_id, sha256({digest}), 0.5, '{{}}', 'ok', 'run of old'
FROM sample s JOIN video v USING (video_id)
"""
TIMES = [{"text": 'Ein Hund — 犬 \\ "läuft".', "start_s": 0, "end_s": 2.5}]


@pytest.fixture
def old(database: URL, engine: Engine) -> dict[str, int]:
    """The ids of samples by name, each with a score of every metric; "changed" has another text since then."""
    downgrade(database, "0010")
    dataset_id = insert_old(engine, "dataset", name="clips", n_shards=1)
    place: dict[str, Any] = {"dataset_id": dataset_id, "shard": 0}
    video_id = insert_old(engine, "video", **place, key="v", content_sha256=b"frames", status="ok", row_sha256=b"row")
    caption: dict[str, Any] = {"kind": "caption", "system": "brief", "text": "a dog", "text_sha256": b"a dog"}
    rows: dict[str, dict[str, Any]] = {
        "plain": caption,
        "timed": {**caption, "segments": TIMES},
        "unreadable": {**caption, "extra": {"parse_error": "no JSON"}},
        "pair": {**caption, "kind": "qa", "question": "Wer? — \\x", "answer": "ein Hund"},
        "half a pair": {**caption, "kind": "qa", "question": None, "answer": "ein Hund"},
        "changed": caption,
    }
    of = {"dataset_id": dataset_id, "video_id": video_id}
    reference = {"annotator": "a", "text": "A dog.", "text_sha256": b"A dog.", "segments": TIMES, "row_sha256": b"row"}
    insert_old(engine, "reference", **of, key="r", **reference)
    insert_old(engine, "keypoint", **of, key="k", dimension="events", text="A dog.", row_sha256=b"row")
    samples = {
        name: insert_old(engine, "sample", **place, video_id=video_id, key=name, row_sha256=b"row", **row)
        for name, row in rows.items()
    }
    for metric, parts in OLD.items():
        values = {"models": {}, "params": {}, "code_version": "1", "status": "active"}
        scorer_id = insert_old(engine, "scorer", metric=metric, fingerprint=metric, **values)
        with engine.begin() as connection:
            digest = " || ".join(f"({part})" for part in parts)
            connection.execute(sa.text(ADD.format(digest=digest)), {"scorer_id": scorer_id})
    change_text(engine, samples["changed"], "a cat")
    return samples


def states(engine: Engine) -> set[tuple[Any, ...]]:
    with engine.connect() as connection:
        return {
            tuple(row) for row in connection.execute(sa.text("SELECT metric, key, value, status FROM current_score"))
        }


EXPECTED = {
    (metric, name, *((None, "stale") if name == "changed" else (0.5, "ok")))
    for metric in OLD
    for name in ("plain", "timed", "unreadable", "pair", "half a pair", "changed")
}


def test_every_score_keeps_its_value_and_its_state(database: URL, engine: Engine, old: dict[str, int]) -> None:
    migrate(database, METRIC_INPUTS)
    with engine.connect() as connection:
        check_schema(connection)
    assert states(engine) == EXPECTED
    # Now the counts are kept, and the views read them.
    with engine.connect() as connection:
        scorers = {
            row.metric: row.scorer_id for row in connection.execute(sa.text("SELECT metric, scorer_id FROM scorer"))
        }
    for metric, scorer_id in scorers.items():
        ((_, counts),) = shard_counts(engine, score_tally(METRIC_INPUTS[metric]), scorer_id, [1]).items()
        assert counts == {"ok": len(old) - 1, "stale": 1}
    assert states(engine) == EXPECTED


def test_and_back(database: URL, engine: Engine, old: dict[str, int]) -> None:
    assert old
    before = contents(engine)
    migrate(database, METRIC_INPUTS)
    downgrade(database, "0010")
    assert contents(engine) == before
    migrate(database, METRIC_INPUTS)
    assert states(engine) == EXPECTED
