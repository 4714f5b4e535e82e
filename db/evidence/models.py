"""Table `model`: encoders, verifiers and language models, one row per identity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from db.evidence.fingerprint import fingerprint
from db.schema import model


def register_model(connection: Connection, identity: Mapping[str, Any]) -> int:
    """The id of the model with this identity (model_id, revision, params), registering it when it is new."""
    row = {"name": identity["model_id"], "revision": identity["revision"], "params": identity["params"]}
    new = insert(model).values(**row, fingerprint=fingerprint(identity))
    connection.execute(new.on_conflict_do_nothing())
    model_id = find_model(connection, identity)
    assert model_id is not None
    return model_id


def find_model(connection: Connection, identity: Mapping[str, Any]) -> int | None:
    """The id of the model with this identity, or None when it has done no work yet."""
    return connection.scalar(sa.select(model.c.model_id).where(model.c.fingerprint == fingerprint(identity)))
