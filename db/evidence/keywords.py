"""Keywords that a chat model extracted: once per distinct text and model, by the SHA-256 of the text (table
`keyword_set`).

Rows are mappings with the columns KEYWORD_COLUMNS. status: "ok", "refused" or "failed", with a reason unless it is
"ok".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Engine

from db.evidence.embeddings import text_sha256
from db.schema import keyword_set

KEYWORD_COLUMNS = ("keywords", "status", "reason")


def store_keywords(engine: Engine, model_id: int, run_id: str, rows: Mapping[str, Mapping[str, Any]]) -> None:
    """Store the keywords that a chat model extracted from texts, in one transaction. rows: by text, a mapping with the
    columns KEYWORD_COLUMNS: keywords, status and reason. Only a stored row of status "failed" is replaced, so that two
    runs share the first good result.
    """
    # By key order: two runs that write the same rows then wait for each other instead of deadlocking.
    values = [
        {
            **rows[text],
            "keywords": list(rows[text]["keywords"]),
            "model_id": model_id,
            "text_sha256": text_sha256(text),
            "run_id": run_id,
        }
        for text in sorted(rows, key=text_sha256)
    ]
    if not values:
        return
    new = insert(keyword_set).values(values)
    replaced = {name: new.excluded[name] for name in (*KEYWORD_COLUMNS, "run_id")}
    statement = new.on_conflict_do_update(
        index_elements=["model_id", "text_sha256"],
        set_={**replaced, "extracted_at": sa.func.now()},
        where=keyword_set.c.status == "failed",
    )
    with engine.begin() as connection:
        connection.execute(statement)


def load_keywords(engine: Engine, model_id: int, texts: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """Load the keywords that a chat model extracted from texts, as {text: {"keywords", "status", "reason"}}. reason:
    None if the status is "ok". A text from which this model never extracted keywords is left out.
    """
    by_key = {text_sha256(text): text for text in texts}
    query = sa.select(keyword_set.c.text_sha256, *(keyword_set.c[name] for name in KEYWORD_COLUMNS)).where(
        keyword_set.c.model_id == model_id, keyword_set.c.text_sha256 == sa.any_(sa.bindparam("keys"))
    )
    with engine.connect() as connection:
        rows = connection.execute(query, {"keys": list(by_key)}).mappings()
        return {by_key[bytes(row["text_sha256"])]: {name: row[name] for name in KEYWORD_COLUMNS} for row in rows}
