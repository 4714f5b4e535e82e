"""Whether marks and counts that triggers keep are right, by a comparison of every score and a count of every row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from assets.metrics.registry import METRIC_INPUTS
from db.schema.inputs import build_digest_sql

MARKS = """
SELECT c.scorer_id, c.sample_id, c.is_stale
FROM score c JOIN scorer r USING (scorer_id) JOIN sample s USING (sample_id) JOIN video v USING (video_id)
WHERE r.metric = '{metric}' AND c.is_stale <> (c.input_sha256 <> {digest})
"""
OF_SCORES = """
SELECT c.scorer_id, s.dataset_id, s.shard, CASE WHEN c.is_stale THEN 'stale' ELSE c.status END AS status, count(*) AS n
FROM score c JOIN sample s USING (sample_id) GROUP BY 1, 2, 3, 4
"""
OF_SAMPLES = "SELECT dataset_id, shard, count(*) AS n FROM sample GROUP BY 1, 2"


def wrong_marks(ask: Callable[[str], Iterable[Any]]) -> list[str]:
    """Scores whose mark is not what their inputs say, and shards whose counts are not of their rows."""
    queries = {
        f"mark of {metric}": MARKS.format(metric=metric, digest=build_digest_sql(inputs, "c.scorer_id"))
        for metric, inputs in METRIC_INPUTS.items()
    }
    kept_scores = "SELECT scorer_id, dataset_id, shard, status, n FROM shard_count WHERE n <> 0"
    kept_samples = "SELECT dataset_id, shard, n_samples FROM shard WHERE n_samples <> 0"
    for name, counted, kept in (("scores", OF_SCORES, kept_scores), ("samples", OF_SAMPLES, kept_samples)):
        queries[f"{name} not counted"] = f"({counted}) EXCEPT {kept}"
        queries[f"{name} counted wrongly"] = f"{kept} EXCEPT ({counted})"
    return [f"{name}: {tuple(row)}" for name, query in queries.items() for row in ask(query)]
