"""Keywords of chat models: each text once per model, failures replaced and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from db import schema
from db.evidence.keywords import load_keywords, store_keywords
from db.evidence.models import register_model


def row(keywords: Sequence[str], status: str, reason: str | None) -> dict[str, Any]:
    return {"keywords": list(keywords), "status": status, "reason": reason}


GOOD = row(("red dog", "lawn, wet"), "ok", None)
NONE = row((), "ok", None)
REFUSED = row((), "refused", "the model declined")
FAILED = row((), "failed", "no server")


def model(engine: Engine, name: str = "tiny") -> int:
    with engine.begin() as connection:
        return register_model(connection, {"model_id": name, "revision": "1", "params": {}})


def test_what_is_stored_is_loaded_by_text_and_model(engine: Engine) -> None:
    tiny, other = model(engine), model(engine, "other")
    rows = {"A dog.": GOOD, "…": NONE, "bad": REFUSED, "é\n": FAILED}
    store_keywords(engine, tiny, "run", rows)
    store_keywords(engine, tiny, "run", {})
    assert load_keywords(engine, tiny, [*rows, "never asked about"]) == rows
    assert load_keywords(engine, other, rows) == load_keywords(engine, tiny, []) == {}


def test_only_a_failure_is_replaced(engine: Engine) -> None:
    tiny = model(engine)
    store_keywords(engine, tiny, "run", {"a": GOOD, "b": REFUSED, "c": FAILED, "d": FAILED})
    store_keywords(engine, tiny, "later", {"a": FAILED, "b": GOOD, "c": GOOD, "d": REFUSED})
    assert load_keywords(engine, tiny, "abcd") == {"a": GOOD, "b": REFUSED, "c": GOOD, "d": REFUSED}


def test_a_failure_has_a_reason_and_no_keywords(engine: Engine) -> None:
    tiny = model(engine)
    for bad in (row((), "ok", "a reason"), row((), "failed", None), row(("dog",), "failed", "no server")):
        with pytest.raises(sa.exc.IntegrityError):
            store_keywords(engine, tiny, "run", {"a": bad})


def test_keywords_go_with_their_model(engine: Engine) -> None:
    tiny = model(engine)
    store_keywords(engine, tiny, "run", {"a": GOOD})
    with engine.begin() as connection:
        connection.execute(sa.delete(schema.model))
    assert load_keywords(engine, tiny, ["a"]) == {}
