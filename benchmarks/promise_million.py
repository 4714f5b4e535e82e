"""A promise over a million candidates: `python -m benchmarks.promise_million`.

A database is filled as for `benchmarks.million`, and people's ratings of the first captions of the draw are written to
it. Measured is a refusal before any rating, and `reelsieve promise` with them: order, sets, answers, tests and
the frozen rows; and what a page of `rate --for-promise` takes for every caption.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from assets.promise.cache import PromiseCache
from assets.promise.select import PromiseUnconfirmed, make_promised_selection
from assets.promise.terms import PromiseTerms
from benchmarks.installation import temporary_engine
from benchmarks.measure import RESULTS, save, timed
from benchmarks.million import SAMPLES_PER_SHARD
from benchmarks.million_fill import NAME, fill
from db.selection.recipes import Recipe

TERMS = PromiseTerms(limit=0.05, error_below=3, aspect="overall")
RECIPE = Recipe(by={"vcs": 1.0}, stale="leave_out")
# So many captions are rated, the first ones of the draw.
ANSWERS = 10_000
RATE = (
    "INSERT INTO rating (sample_id, rater, aspect, value, row_sha256, text_sha256) "
    "SELECT sample_id, 'ann', 'overall', CASE WHEN sample_id % 90 = 0 THEN 1 ELSE 5 END, '\\x00', text_sha256 "
    "FROM sample JOIN dataset USING (dataset_id) WHERE name = :name AND kind = 'caption' "
    "AND draw_number(kind, key, 0) < :share"
)


def main() -> None:
    """Fill, measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1_000_000)
    given = parser.parse_args()
    before, seconds = os.getloadavg(), {}
    with tempfile.TemporaryDirectory(prefix="reelsieve-") as home, temporary_engine(Path(home), NAME) as engine:
        dataset = fill(engine, given.samples, max(1, given.samples // SAMPLES_PER_SHARD)).dataset

        def no_encoder() -> Any:
            raise AssertionError("this recipe compares no texts")

        def select() -> Any:
            return make_promised_selection(engine, dataset, RECIPE, TERMS, no_encoder, print)

        def refuse() -> int:
            try:
                select()
            except PromiseUnconfirmed as refused:
                return refused.state.attempt.promise_id
            raise AssertionError("a promise without answers")

        seconds["refusal without answers"], promise_id = timed("refusal without answers", refuse)
        with engine.begin() as connection:
            connection.execute(sa.text(RATE), {"name": NAME, "share": min(1.0, ANSWERS / given.samples)})
        cache = PromiseCache(engine, no_encoder)
        seconds["first page"], _ = timed("first page of rate", lambda: cache.load(dataset, promise_id))
        seconds["next page"], _ = timed("next page of rate", lambda: cache.load(dataset, promise_id))
        seconds["selection"], made = timed("selection with its promise", select)
        chosen = made.state.states[made.state.n_confirmed - 1]
    print(f"{made.selection.n:,} of {given.samples:,}: {chosen}")
    found = {"samples": given.samples, "seconds": seconds, "n": made.selection.n, "n_asked": chosen.n_asked}
    print(save(RESULTS / "promise_million.json", found, load_before=before).name)


if __name__ == "__main__":
    main()
