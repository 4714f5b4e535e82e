"""first: all tables of db/schema as they stand

Version 0.1.0 freezes them: its release writes their statements out here, and later changes are migrations of their own.
Until then a change of a table raises the revision, and homes of another one are refused.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

from db.schema import METADATA

revision = "0130"
down_revision = None
branch_labels = None
depends_on = None
# Of the statements that make the tables. A test compares it, so that no table changes under a revision that stays.
TABLES_SHA256 = "327fb97e3675a2eea996a26d66f6859d9930a7f2e24a2098eb6932fb85a19974"

FUNCTIONS = Path(__file__).with_suffix(".sql")
# An UPDATE fires twice, since a row may leave one shard or video for another.
CHANGES = (
    ("inserted", "INSERT", "NEW"),
    ("deleted", "DELETE", "OLD"),
    ("updated", "UPDATE", "NEW"),
    ("moved_away", "UPDATE", "OLD"),
)
JUDGED = {"rating": "note_rated_text()", "keypoint_label": "note_labelled_texts()"}
DIGESTS = {"reference": "refresh_reference_digests()", "keypoint": "refresh_keypoint_digests()"}
# Whose scores a change may make stale; of the tables of a metric from outside db/schema/marks.py takes care.
MARKED = {"sample": "mark_samples()", "video": "mark_videos()"}
INGESTED = {
    **dict.fromkeys(("video", "sample", "reference", "keypoint"), "forget_tables()"),
    **dict.fromkeys(("rating", "keypoint_label"), "forget_tables_of_samples()"),
}


def upgrade() -> None:
    op.get_bind().exec_driver_sql(FUNCTIONS.read_text())
    METADATA.create_all(op.get_bind())
    for table, function in JUDGED.items():
        op.execute(
            f"CREATE TRIGGER {table}_texts BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION {function}"
        )
    for table, function in DIGESTS.items():
        for name, event, side in CHANGES:
            _trigger(f"{table}_{name}", event, table, side, function)
    for table, function in MARKED.items():
        _trigger(f"{table}_marks", "UPDATE", table, "NEW", function)
    for name, event, side in CHANGES:
        _trigger(f"keypoint_threshold_marks_{name}", event, "keypoint_threshold", side, "mark_thresholds()")
        by = 1 if side == "NEW" else -1
        _trigger(f"score_counts_{name}", event, "score", side, f"count_scores('{by}')")
    _trigger("keypoint_threshold_marks_emptied", "TRUNCATE", "keypoint_threshold", None, "mark_all()")
    _trigger("score_counts_emptied", "TRUNCATE", "score", None, "forget_score_counts()")
    _trigger("sample_counts_inserted", "INSERT", "sample", "NEW", "count_new_samples()")
    _trigger("sample_counts_deleted", "DELETE", "sample", "OLD", "count_shards_again()")
    _trigger("sample_counts_emptied", "TRUNCATE", "sample", None, "forget_sample_counts()")
    op.execute(
        "CREATE TRIGGER sample_counts_moved AFTER UPDATE ON sample REFERENCING OLD TABLE AS gone NEW TABLE AS come "
        "FOR EACH STATEMENT EXECUTE FUNCTION count_moved_samples()"
    )
    for table, function in INGESTED.items():
        for event in ("DELETE", "UPDATE"):
            _trigger(f"{table}_forgets_{event.lower()}", event, table, "OLD", function)
        _trigger(f"{table}_forgets_truncate", "TRUNCATE", table, None, "forget_all_tables()")
    _trigger("selection_forgets_deleted", "DELETE", "selection", "OLD", "forget_items()", rows="gone")
    _trigger("selection_forgets_truncated", "TRUNCATE", "selection", None, "forget_all_items()")
    op.execute(
        "CREATE TRIGGER keep_past_score AFTER UPDATE ON score FOR EACH ROW WHEN (OLD.input_sha256 IS DISTINCT FROM "
        "NEW.input_sha256 OR OLD.value IS DISTINCT FROM NEW.value OR OLD.status IS DISTINCT FROM NEW.status) "
        "EXECUTE FUNCTION keep_past_score()"
    )
    op.execute(
        "CREATE TRIGGER dataset_names_selections AFTER UPDATE OF name ON dataset "
        "FOR EACH ROW WHEN (OLD.name <> NEW.name) EXECUTE FUNCTION name_selections()"
    )


def _trigger(name: str, event: str, table: str, side: str | None, function: str, rows: str = "touched") -> None:
    referencing = f"REFERENCING {side} TABLE AS {rows} " if side else ""
    op.execute(
        f"CREATE TRIGGER {name} AFTER {event} ON {table} {referencing}FOR EACH STATEMENT EXECUTE FUNCTION {function}"
    )
