"""The cache of judged pairs: each (premise, hypothesis) once per verifier, keyed by the hash of both texts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection, Engine

from db.bulk import insert_missing
from db.embeddings import text_sha256
from db.engine import psycopg_transaction
from db.fingerprint import fingerprint
from db.schema import entailment, verifier

Pair = tuple[str, str]
"""(premise, hypothesis)."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What a verifier says of a pair: P(entailment) in [0, 1], and whether it saw only the beginning of the premise."""

    probability: float
    truncated: bool


def pair_sha256(premise: str, hypothesis: str) -> bytes:
    """The key of a pair in table entailment; each text is hashed first, so that none can borrow from the other.

    >>> pair_sha256("ab", "c") == pair_sha256("a", "bc")
    False
    """
    return hashlib.sha256(text_sha256(premise) + text_sha256(hypothesis)).digest()


def register_verifier(connection: Connection, identity: Mapping[str, Any]) -> int:
    """The id of the verifier with this identity (model_id, revision, params), registering it when it is new."""
    row = insert(verifier).values(**identity, fingerprint=fingerprint(identity))
    connection.execute(row.on_conflict_do_nothing())
    found = find_verifier(connection, identity)
    assert found is not None
    return found


def find_verifier(connection: Connection, identity: Mapping[str, Any]) -> int | None:
    """The id of the verifier with this identity, or None when it has judged nothing yet."""
    return connection.scalar(sa.select(verifier.c.verifier_id).where(verifier.c.fingerprint == fingerprint(identity)))


def store_entailments(engine: Engine, verifier_id: int, judged: Mapping[Pair, Judged]) -> int:
    """Store judged pairs in one transaction, leaving those there already as they are; returns how many were new.

    Raises psycopg.errors.CheckViolation, storing none, for a probability that is NaN or outside [0, 1].
    """
    with psycopg_transaction(engine) as connection:
        return insert_missing(
            connection,
            entailment,
            ["verifier_id", "pair_sha256", "probability", "truncated"],
            [(verifier_id, pair_sha256(*pair), said.probability, said.truncated) for pair, said in judged.items()],
        )


def load_entailments(engine: Engine, verifier_id: int, pairs: Iterable[Pair]) -> dict[Pair, Judged]:
    """What this verifier said of those of the pairs that it has judged."""
    by_key = {pair_sha256(*pair): pair for pair in pairs}
    with psycopg_transaction(engine) as connection, connection.cursor(binary=True) as cursor:
        cursor.execute(
            "SELECT pair_sha256, probability, truncated FROM entailment "
            "WHERE verifier_id = %s AND pair_sha256 = ANY(%b)",
            [verifier_id, list(by_key)],
        )
        return {by_key[bytes(key)]: Judged(probability, truncated) for key, probability, truncated in cursor}
