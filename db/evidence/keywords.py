"""Keywords that chat models extract: each distinct text once per extractor, keyed by the SHA-256 of its UTF-8 bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Engine

from db.evidence.embeddings import text_sha256
from db.schema import keyword_set


@dataclass(frozen=True, slots=True)
class KeywordRow:
    """The keywords of a text. status: "ok", "refused" or "failed"; a reason for every status but "ok"."""

    keywords: tuple[str, ...]
    status: str
    reason: str | None


def store_keywords(engine: Engine, model_id: int, run_id: str, rows: Mapping[str, KeywordRow]) -> None:
    """Store keywords by text in one transaction. They replace failed ones only: two runs share the first good set."""
    # By key order: two runs that write the same rows then wait for each other instead of deadlocking.
    values = [
        {
            "model_id": model_id,
            "text_sha256": key,
            "keywords": list(row.keywords),
            "status": row.status,
            "reason": row.reason,
            "run_id": run_id,
        }
        for key, row in sorted((text_sha256(text), row) for text, row in rows.items())
    ]
    if not values:
        return
    new = insert(keyword_set).values(values)
    replaced = {name: new.excluded[name] for name in ("keywords", "status", "reason", "run_id")}
    statement = new.on_conflict_do_update(
        index_elements=["model_id", "text_sha256"],
        set_={**replaced, "extracted_at": sa.func.now()},
        where=keyword_set.c.status == "failed",
    )
    with engine.begin() as connection:
        connection.execute(statement)


def load_keywords(engine: Engine, model_id: int, texts: Iterable[str]) -> dict[str, KeywordRow]:
    """The stored keywords by text; a text that was never asked about is left out."""
    by_key = {text_sha256(text): text for text in texts}
    query = sa.select(keyword_set).where(
        keyword_set.c.model_id == model_id, keyword_set.c.text_sha256 == sa.any_(sa.bindparam("keys"))
    )
    with engine.connect() as connection:
        rows = connection.execute(query, {"keys": list(by_key)})
        return {by_key[bytes(row.text_sha256)]: KeywordRow(tuple(row.keywords), row.status, row.reason) for row in rows}
