"""Models in table `model`, one row per identity (name, revision, parameters), and the fingerprint of an identity."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from db.schema import model


def format_sorted_json(value: Any) -> str:
    """Return a value as JSON with sorted keys and no spaces, so that equal values give equal text. Raises ValueError
    for NaN and infinity, and TypeError for a value that JSON does not have.

    >>> format_sorted_json({"b": 1, "a": [0.5]})
    '{"a":[0.5],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def compute_fingerprint(value: Any) -> str:
    """Return the SHA-256 of a value's JSON with sorted keys, as 64 hexadecimal digits. Raises as `format_sorted_json`
    does.
    """
    return hashlib.sha256(format_sorted_json(value).encode()).hexdigest()


def register_model(connection: Connection, identity: Mapping[str, Any]) -> int:
    """Return the id of the model with this identity; insert it into table `model` if it is new. identity: a mapping
    with "model_id" (the name), "revision" and "params".
    """
    row = {"name": identity["model_id"], "revision": identity["revision"], "params": identity["params"]}
    new = insert(model).values(**row, fingerprint=compute_fingerprint(identity))
    connection.execute(new.on_conflict_do_nothing())
    model_id = find_model_id(connection, identity)
    assert model_id is not None
    return model_id


def find_model_id(connection: Connection, identity: Mapping[str, Any]) -> int | None:
    """Return the id in table `model` of the model with this identity; None if it was never registered. identity: a
    mapping with "model_id" (the name), "revision" and "params".
    """
    return connection.scalar(sa.select(model.c.model_id).where(model.c.fingerprint == compute_fingerprint(identity)))
