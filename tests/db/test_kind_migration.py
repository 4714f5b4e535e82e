"""Migration 0020: thresholds of a dataset of one kind stay, and those over captions and pairs at once go."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, Engine

from assets.scores.registry import METRIC_INPUTS
from db.schema.migrate import check_schema, downgrade, migrate
from tests.db.builders import activate, add_sample, add_video, make_dataset, ok, undefined, write_fresh
from tests.db.old_rows import insert_old

CUT: dict[str, Any] = {"scope": "dataset", "method": "quantile", "objective": "keep 0.5", "at_least": 0.5, "n": 2}
ROWS = sa.text("SELECT d.name, r.metric, t.kind FROM score_threshold t JOIN dataset d USING (dataset_id) "
               "JOIN scorer r USING (scorer_id) ORDER BY 1, 2")  # fmt: skip


def test_a_threshold_over_both_kinds_goes(database: URL, engine: Engine) -> None:
    """Of one scorer pairs have values in one dataset; of the other they never have."""
    of_both, of_captions = activate(engine, "evqa"), activate(engine, "vcs")
    for name in ("mixed", "captions", "pairs"):
        dataset = make_dataset(engine, name)
        video_id = add_video(engine, dataset, "v")
        kinds = {"mixed": ("caption", "qa"), "captions": ("caption",), "pairs": ("qa",)}[name]
        for kind in kinds:
            asked = {"question": "q?", "answer": "a"} if kind == "qa" else {}
            sample_id = add_sample(engine, dataset, video_id, kind, kind=kind, **asked)
            write_fresh(engine, of_both, [ok(sample_id, 0.5)])
            write_fresh(engine, of_captions, [ok(sample_id, 0.5) if kind == "caption" else undefined(sample_id)])
    with engine.begin() as connection:
        ids = dict(map(tuple, connection.execute(sa.text("SELECT name, dataset_id FROM dataset"))))
    downgrade(database, "0019")
    for dataset_id in ids.values():
        insert_old(engine, "score_threshold", scorer_id=of_both, dataset_id=dataset_id, **CUT)
    insert_old(engine, "score_threshold", scorer_id=of_captions, dataset_id=ids["mixed"], **CUT)
    migrate(database, METRIC_INPUTS)
    with engine.connect() as connection:
        check_schema(connection)
        assert [tuple(row) for row in connection.execute(ROWS)] == [
            ("captions", "evqa", "caption"),
            ("mixed", "vcs", "caption"),
            ("pairs", "evqa", "qa"),
        ]
    downgrade(database, "0019")
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM score_threshold")) == 2
