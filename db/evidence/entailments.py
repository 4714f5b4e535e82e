"""Cache of entailment probabilities: one per verifier and pair of texts, by the hash of both texts (table
`entailment`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy.engine import Engine

from db.evidence.embeddings import text_sha256
from db.evidence.store import Table
from db.schema import entailment
from db.server.bulk import insert_missing
from db.server.engine import open_psycopg_transaction

Pair = tuple[str, str]
"""A premise and a hypothesis."""


@dataclass(frozen=True, slots=True)
class Entailment:
    """The answer of a verifier (an NLI model) to one premise and hypothesis. probability: from 0 to 1, that the premise
    entails the hypothesis. truncated: whether the verifier read only the start of the premise.
    """

    probability: float
    truncated: bool


def pair_sha256(premise: str, hypothesis: str) -> bytes:
    """Return the SHA-256 (32 bytes) of a premise and a hypothesis, the key of table `entailment`. Both texts are hashed
    separately, so that a word moved from one to the other changes the result.

    >>> pair_sha256("ab", "c") == pair_sha256("a", "bc")
    False
    """
    return hashlib.sha256(text_sha256(premise) + text_sha256(hypothesis)).digest()


def store_entailments(engine: Engine, model_id: int, entailments: Mapping[Pair, Entailment]) -> int:
    """Store the entailments {(premise, hypothesis): entailment} in one transaction and return how many were new.
    model_id: id of the verifier in table `model`. A pair that this verifier has already keeps its stored row.

    Raises psycopg.errors.CheckViolation, storing none, for a probability that is NaN or outside [0, 1].
    """
    with open_psycopg_transaction(engine) as connection:
        return insert_missing(
            connection,
            entailment,
            ["model_id", "pair_sha256", "probability", "truncated"],
            [
                (model_id, pair_sha256(*pair), answer.probability, answer.truncated)
                for pair, answer in entailments.items()
            ],
        )


def load_entailments(engine: Engine, model_id: int, pairs: Iterable[Pair]) -> dict[Pair, Entailment]:
    """Load the stored entailments of a verifier as {(premise, hypothesis): entailment}. model_id: id of the verifier in
    table `model`. A pair that is not stored is left out.
    """
    by_key = {pair_sha256(*pair): pair for pair in pairs}
    with open_psycopg_transaction(engine) as connection, connection.cursor(binary=True) as cursor:
        cursor.execute(
            "SELECT pair_sha256, probability, truncated FROM entailment WHERE model_id = %s AND pair_sha256 = ANY(%b)",
            [model_id, list(by_key)],
        )
        return {by_key[bytes(key)]: Entailment(probability, truncated) for key, probability, truncated in cursor}


def _store_sound(engine: Engine, model_id: int, _: str, judged: Mapping[Pair, Entailment]) -> None:
    # A number outside [0, 1] is not stored; the verdict refuses it and quotes the pair.
    store_entailments(engine, model_id, {pair: one for pair, one in judged.items() if 0 <= one.probability <= 1})


ENTAILMENTS: Table[Pair, Entailment] = Table(load_entailments, _store_sound)
"""The answers of a verifier, by pair; those outside [0, 1] are not stored."""
