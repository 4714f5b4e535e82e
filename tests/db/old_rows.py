"""Rows as older revisions of the schema had them, with the digests that scores of that time carry."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Engine

# What a score depended on at revision 0003, as it was written down there.
OLD_DIGESTS = {
    "text": "s.text_sha256",
    "references": (
        "COALESCE((SELECT sha256(string_agg(sha256(convert_to(r.key, 'UTF8')) || r.text_sha256, '' "
        "ORDER BY r.key COLLATE \"C\")) FROM reference r WHERE r.video_id = s.video_id), '')"
    ),
    "video": "COALESCE(v.content_sha256, '')",
    "segments": (
        "sha256(convert_to(COALESCE(CAST(s.segments AS text), ''), 'UTF8')) || "
        "COALESCE((SELECT string_agg(sha256(convert_to(r.key, 'UTF8')) || "
        "sha256(convert_to(COALESCE(CAST(r.segments AS text), ''), 'UTF8')), '' "
        "ORDER BY r.key COLLATE \"C\") FROM reference r WHERE r.video_id = s.video_id), '')"
    ),
    "keypoints": (
        "COALESCE((SELECT string_agg(sha256(convert_to(k.key, 'UTF8')) || sha256(convert_to(k.dimension, 'UTF8')) || "
        "sha256(convert_to(k.text, 'UTF8')) || "
        "sha256(convert_to(COALESCE(CAST(k.segment_index AS text), ''), 'UTF8')), '' "
        "ORDER BY k.key COLLATE \"C\") FROM keypoint k WHERE k.video_id = s.video_id), '')"
    ),
    "thresholds": (
        "COALESCE((SELECT string_agg(sha256(convert_to(t.dimension, 'UTF8')) || float8send(t.value), '' "
        'ORDER BY t.dimension COLLATE "C") FROM threshold t WHERE t.scorer_id = :scorer_id '
        "AND t.dataset_id = s.dataset_id AND t.scope = 'dataset' AND t.method = 'keypoint_labels'), '')"
    ),
}
OLD_INPUTS = {
    "vcs": ("references", "text"),
    "vcs_short": ("references", "text"),
    "evqa": ("text", "video"),
    "ecs": ("keypoints", "segments", "text", "thresholds"),
}
OF_VERDICTS = ("keypoints", "segments", "text")


def insert_old(engine: Engine, table: str, **values: Any) -> int:
    """Insert a row into the table as it is in the database; returns the first column of its primary key."""
    reflected = sa.Table(table, sa.MetaData(), autoload_with=engine)
    with engine.begin() as connection:
        done = connection.execute(reflected.insert().values(**values))
    assert done.inserted_primary_key is not None
    return int(done.inserted_primary_key[0])


def old_scorer(engine: Engine, metric: str, models: dict[str, Any] | None = None) -> int:
    """The id of a new active scorer."""
    values = {"models": models or {}, "params": {}, "code_version": "1", "status": "active"}
    return insert_old(engine, "scorer", metric=metric, fingerprint=f"{metric} of old", **values)


def old_score(
    engine: Engine, metric: str, scorer_id: int, sample_id: int, value: float | None, **components: Any
) -> None:
    """A score of what the sample is now; without a value it is undefined."""
    insert_old(
        engine,
        "score",
        scorer_id=scorer_id,
        sample_id=sample_id,
        input_sha256=old_digest(engine, OLD_INPUTS[metric], scorer_id, sample_id),
        value=value,
        components=components,
        status="undefined" if value is None else "ok",
        error="for a reason" if value is None else None,
        run_id="run of old",
    )


def old_digest(engine: Engine, inputs: tuple[str, ...], scorer_id: int, sample_id: int) -> bytes:
    """The digest of a sample's inputs as revision 0003 made it."""
    parts = " || ".join(f"sha256({OLD_DIGESTS[name]})" for name in inputs)
    source = "sample s JOIN video v USING (video_id)"
    query = sa.text(f"SELECT sha256({parts}) FROM {source} WHERE s.sample_id = :sample_id")
    values = {"sample_id": sample_id, "scorer_id": scorer_id} if "thresholds" in inputs else {"sample_id": sample_id}
    with engine.connect() as connection:
        return bytes(connection.execute(query, values).scalar_one())


def contents(engine: Engine) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of every table, ordered."""
    tables = sa.MetaData()
    tables.reflect(engine)
    with engine.connect() as connection:
        return {
            name: sorted((tuple(row) for row in connection.execute(sa.select(table))), key=repr)
            for name, table in sorted(tables.tables.items())
        }
