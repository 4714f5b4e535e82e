"""Labels that a chat model gave on keypoints of captions; their `source` names the model, unlike that of people's
labels.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection, Engine

from db.manifest.draws import build_draw_order
from db.schema import keypoint, keypoint_label, sample
from db.server.conflicts import retry_conflicts
from db.server.locking import lock_ids

_STORED = ("covered", "extra", "row_sha256", "text_sha256", "keypoint_sha256")
# (sample_id, keypoint_id)
LabelKey = tuple[int, int]


@dataclass(frozen=True, slots=True)
class JudgeLabel:
    """The decision of a chat model whether a caption covers a keypoint. row_sha256: digest of the request. text_sha256,
    keypoint_sha256: digests of both texts as the model read them; the label counts while they stay the same. extra:
    data about the decision, such as the deciding sentence.
    """

    sample_id: int
    keypoint_id: int
    covered: bool
    row_sha256: bytes
    text_sha256: bytes
    keypoint_sha256: bytes
    extra: Mapping[str, Any] | None = None


def format_judge_source(model: str) -> str:
    """Return the text "judge:" and the model's name, the value of column `source` for labels that this chat model
    gives.

    >>> format_judge_source("qwen3:8b")
    'judge:qwen3:8b'
    """
    return f"judge:{model}"


def list_captions_with_keypoints(connection: Connection, dataset_id: int) -> list[int]:
    """List the ids of a dataset's captions whose video has keypoints, in the order of their random numbers by seed
    0.
    """
    has_keypoints = sa.exists().where(keypoint.c.video_id == sample.c.video_id)
    query = (
        sa.select(sample.c.sample_id)
        .where(sample.c.dataset_id == dataset_id, sample.c.kind == "caption", has_keypoints)
        .order_by(*build_draw_order(0))
    )
    return list(connection.scalars(query))


def load_label_digests(connection: Connection, source: str, sample_ids: Collection[int]) -> dict[LabelKey, bytes]:
    """Return {(sample id, keypoint id): digest of the request} of all labels of this source on these samples. source:
    such as "judge:qwen3:8b". The digest is b"" if the text of caption or keypoint has changed since.
    """
    query = sa.text(
        "SELECT l.sample_id, l.keypoint_id, CASE WHEN c.sample_id IS NOT NULL THEN l.row_sha256 ELSE '' END AS digest "
        "FROM keypoint_label l LEFT JOIN current_label c USING (keypoint_id, sample_id, source) "
        "WHERE l.source = :source AND l.sample_id = ANY(:ids)"
    )
    rows = connection.execute(query, {"source": source, "ids": list(sample_ids)})
    return {(row.sample_id, row.keypoint_id): bytes(row.digest) for row in rows}


@retry_conflicts
def delete_labels(engine: Engine, source: str, keys: Collection[LabelKey]) -> None:
    """Delete the labels of one source on these (sample id, keypoint id) pairs, in one transaction. A pair without such
    a label is ignored. Tried again, up to three times, after a conflict with another transaction.
    """
    statement = sa.text(
        "DELETE FROM keypoint_label l "
        "USING unnest(CAST(:samples AS bigint[]), CAST(:keypoints AS bigint[])) AS one (s, k) "
        "WHERE l.source = :source AND l.sample_id = one.s AND l.keypoint_id = one.k"
    )
    values = {"samples": [key[0] for key in keys], "keypoints": [key[1] for key in keys], "source": source}
    if keys:
        with engine.begin() as connection:
            connection.execute(statement, values)


@retry_conflicts
def store_labels(engine: Engine, source: str, labels: Sequence[JudgeLabel]) -> int:
    """Store labels in one transaction and return how many were stored. A label replaces that of the same source on the
    same caption and keypoint. It is left out if one of these was deleted in the meantime. Tried again, up to three
    times, after a conflict with another transaction.
    """
    with engine.begin() as connection:
        samples = lock_ids(connection, sample.c.sample_id, {label.sample_id for label in labels})
        keypoints = lock_ids(connection, keypoint.c.keypoint_id, {label.keypoint_id for label in labels})
        rows = [
            {
                "keypoint_id": label.keypoint_id,
                "sample_id": label.sample_id,
                "source": source,
                "covered": label.covered,
                "extra": label.extra,
                "row_sha256": label.row_sha256,
                "text_sha256": label.text_sha256,
                "keypoint_sha256": label.keypoint_sha256,
            }
            # By key order: two runs that write the same rows then wait for each other instead of deadlocking.
            for label in sorted(labels, key=lambda label: (label.sample_id, label.keypoint_id))
            if label.sample_id in samples and label.keypoint_id in keypoints
        ]
        if rows:
            new = insert(keypoint_label)
            replaced = {name: new.excluded[name] for name in _STORED}
            key = ["keypoint_id", "sample_id", "source"]
            connection.execute(new.on_conflict_do_update(index_elements=key, set_=replaced), rows)
    return len(rows)
