"""For `benchmarks.near_duplicates`: an HNSW index of pgvector, and which near-duplicates it finds."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from pgvector import Vector
from sqlalchemy.engine import Engine

from benchmarks.measure import timed
from benchmarks.near_vectors import COSINES, Pairs, Planted, Rows, keep_by
from db.server.engine import open_psycopg_transaction

EF_SEARCH = (40, 100, 200)
NEIGHBOURS = """
SELECT v.id, n.id FROM near v
CROSS JOIN LATERAL (SELECT id, embedding <=> v.embedding AS distance FROM near ORDER BY embedding <=> v.embedding
                    LIMIT {ef}) n
WHERE v.id = ANY(%s) AND n.id <> v.id AND n.distance <= {farthest}
"""


def hnsw(
    engine: Engine, units: Rows, pairs: Pairs, keep: npt.NDArray[np.bool_], planted: Planted | None, at_least: float
) -> Any:
    """An index over the rows, and at several ef_search the pairs that it finds, beside the exact ones."""
    with open_psycopg_transaction(engine) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE near (id integer PRIMARY KEY, embedding vector({units.shape[1]}))")
        with cursor.copy("COPY near FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(["int4", "vector"])
            for number, row in enumerate(units):
                copy.write_row((number, Vector(row)))
        cursor.execute("SET LOCAL maintenance_work_mem = '1GB'")
        cursor.execute("SET LOCAL max_parallel_maintenance_workers = 2")
        build = "CREATE INDEX near_hnsw ON near USING hnsw (embedding vector_cosine_ops)"
        build_s, _ = timed("HNSW: build", lambda: cursor.execute(build))
    with open_psycopg_transaction(engine) as connection, connection.cursor() as cursor:
        cursor.execute("ANALYZE near")
        size = cursor.execute("SELECT pg_relation_size('near_hnsw')").fetchone()
        found: dict[str, Any] = {"build_s": build_s, "index_bytes": size[0] if size else 0, "asked": []}
        paired = np.unique(pairs)
        for ef in EF_SEARCH:
            cursor.execute(f"SET LOCAL hnsw.ef_search = {ef}")
            cursor.execute("SET LOCAL enable_seqscan = off")
            statement = NEIGHBOURS.format(ef=ef, farthest=1 - at_least + 1e-6)
            seconds, rows = timed(
                f"HNSW: {len(paired)} rows, ef_search {ef}", partial(asked, cursor, statement, paired)
            )
            found["asked"].append(compare(ef, seconds, rows, units, pairs, keep, planted, at_least))
        cursor.execute("DROP TABLE near")
    return found


def asked(cursor: Any, statement: str, rows: Pairs) -> Pairs:
    """The pairs (m, 2) that the index finds for these rows, the earlier first, each once."""
    answer = cursor.execute(statement, [rows.tolist()]).fetchall()
    return np.unique(np.sort(np.array(answer, dtype=np.intp).reshape(-1, 2), axis=1), axis=0)


def compare(
    ef: int,
    seconds: float,
    found: Pairs,
    units: Rows,
    pairs: Pairs,
    keep: npt.NDArray[np.bool_],
    planted: Planted | None,
    at_least: float,
) -> dict[str, Any]:
    """What an index found of the pairs, and what would be kept otherwise."""
    known = {tuple(pair) for pair in found.tolist()}
    n_asked = max(1, len(np.unique(pairs)))
    answer: dict[str, Any] = {
        "ef_search": ef,
        "asked_s": seconds,
        "projected_s_for_all": seconds / n_asked * len(units),
        "recall": sum(tuple(pair) in known for pair in pairs.tolist()) / max(1, len(pairs)),
        "kept_otherwise": int((keep_by(len(units), found) != keep).sum()),
    }
    if planted is not None:
        by_cosine = {
            cosine: planted.pairs[planted.cosines == cosine].tolist() for cosine in COSINES if cosine > at_least
        }
        answer["recall_by_cosine"] = {
            str(cosine): sum(tuple(pair) in known for pair in near) / max(1, len(near))
            for cosine, near in by_cosine.items()
        }
    return answer
