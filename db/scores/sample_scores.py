"""Samples with their present scores by all active scorers: as a joined SQL query, as a list best first, and one sample
in full.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from db.manifest.datasets import Dataset, find_dataset
from db.schema import sample, score, text_fact, video, video_fact
from db.schema.facts import TEXT_FACTS, VIDEO_FACTS
from db.scores.imported_scores import list_metrics_imported_elsewhere
from db.sql import read_sql

Column = sa.ColumnElement[Any]

_ACTIVE_SCORERS = sa.text(read_sql("active_scorers"))
# The columns of view sample_scores that depend on no scorer, as the tables have them.
_SAMPLE_COLUMNS: dict[str, Column] = {
    "shard": sample.c.shard,
    "video": video.c.key,
    "kind": sample.c.kind,
    "sample": sample.c.key,
    "system": sample.c.system,
    "text": sample.c.text,
    "video_status": video.c.status,
    **{name: video.c[name] for name in ("duration_s", "width", "height", "fps", "codec", "n_frames")},
    **{name: video.c[name] for name in ("licence", "source_url", "collected_at", "opt_out")},
}
# Facts describe texts and videos; sample_scores has them under the same names.
FACT_COLUMNS: dict[str, Column] = {
    **{name: text_fact.c[name] for name in TEXT_FACTS[:2]},
    "words_per_second": sa.type_coerce(text_fact.c.words / sa.func.nullif(video.c.duration_s, 0.0), sa.Double),
    **{name: text_fact.c[name] for name in TEXT_FACTS[2:]},
    **{name: video_fact.c[name] for name in VIDEO_FACTS},
}
TELLING_FACTS = ("words", "frame_change", "sharpness", "brightness", "cuts")
"""The facts that say most about a dataset in little room; pages and tables show them first."""
SIMPLE_SCORES = ("words_in_common", "cosine")
"""Simple scores of captions against their references, a baseline for metrics; columns of view sample_scores."""
_FROZEN_TOO: dict[str, Column] = {
    "question": sample.c.question,
    "answer": sample.c.answer,
    "uri": video.c.uri,
    "content_sha256": video.c.content_sha256,
}


def is_number_column(column: Column) -> bool:
    """Whether an SQL column holds double precision numbers or integers of any size."""
    return isinstance(column.type, sa.Double | sa.Integer)


def format_column_names(columns: Iterable[str]) -> str:
    """Return column names, sorted and joined by commas. All facts among them are replaced by one phrase at the end,
    "and the facts of docs/facts.md".

    >>> format_column_names(["vcs", "motion", "shard", "words"])
    'shard, vcs, and the facts of docs/facts.md'
    """
    names = set(columns)
    facts = [] if names.isdisjoint(FACT_COLUMNS) else ["and the facts of docs/facts.md"]
    return ", ".join([*sorted(names - FACT_COLUMNS.keys()), *facts])


def list_columns_without_metrics() -> frozenset[str]:
    """Return the columns of view sample_scores that belong to no metric or simple score; no metric can have one of
    these names.
    """
    return frozenset(
        {*_SAMPLE_COLUMNS, *FACT_COLUMNS, "dataset", "sample_id", "n_references", "mean_ratings", "tags", "own_fields"}
    )


class ActiveScorer(NamedTuple):
    """A metric's active scorer. models: the names of its models, joined by commas; None without models. n_defined: how
    many samples of one dataset have a value by it now. is_in_one_dataset: whether no other dataset has a value by this
    scorer.
    """

    metric: str
    scorer_id: int
    fingerprint: str
    models: str | None
    n_defined: int
    is_in_one_dataset: bool


@dataclass(frozen=True, slots=True)
class SampleScores:
    """The parts of an SQL query that reads a dataset's samples with their present scores. from_clause: the joined
    tables. dataset_condition: that a row is a sample of the dataset. view_columns: by name, the columns of view
    sample_scores that a recipe may name. columns: these, and sample_id, question, answer, uri and content_sha256.

    is_scored: by metric, whether the sample has a stored score.
    """

    from_clause: sa.FromClause
    dataset_condition: sa.ColumnElement[bool]
    view_columns: Mapping[str, Column]
    columns: Mapping[str, Column]
    is_scored: Mapping[str, sa.ColumnElement[bool]]


def list_dataset_metrics(connection: Connection, dataset: Dataset) -> list[str]:
    """List the metrics, without simple scores, that a dataset has scores by or can be given, in the order of view
    sample_scores. Metrics imported only into other datasets are left out.
    """
    return [name for name in list_dataset_scores(connection, dataset) if name not in SIMPLE_SCORES]


def list_dataset_scores(connection: Connection, dataset: Dataset) -> list[str]:
    """List the metrics and simple scores that a dataset has scores by or can be given, in the order of view
    sample_scores. Metrics imported only into other datasets are left out.
    """
    query = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass('sample_scores') ORDER BY attnum"
    names = list(connection.exec_driver_sql(query).scalars())
    elsewhere = list_metrics_imported_elsewhere(connection, dataset.dataset_id)
    return [name for name in names if f"{name}_status" in names and name not in ("video", *elsewhere)]


def load_active_scorers(connection: Connection, dataset: Dataset) -> dict[str, ActiveScorer]:
    """Load {metric: its active scorer} of all metrics that have one, with the number of values that the scorer has in
    this dataset.
    """
    rows = connection.execute(_ACTIVE_SCORERS, {"dataset_id": dataset.dataset_id})
    return {row.metric: ActiveScorer(*row) for row in rows}


def prepare_for_joins(connection: Connection) -> None:
    """Change settings of Postgres's planner for queries that join many tables, until the transaction ends. It may
    reorder up to 20 tables and use 64 MB per sort or hash; just-in-time compilation and memoize are off.

    Compiling such a statement would take longer than running it, and what is ranked is in memory. Rows are looked up by
    key, which needs no memory of earlier ones: setting up these caches would take the first page of a million scores
    ten times as long as its rows.
    """
    settings = ("join_collapse_limit = 20", "from_collapse_limit = 20", "work_mem = '64MB'", "jit = off")
    for setting in (*settings, "enable_memoize = off"):
        connection.exec_driver_sql(f"SET LOCAL {setting}")


def build_sample_scores(
    dataset: Dataset, metrics: Sequence[str], scorers: Mapping[str, ActiveScorer], by: str | None = None
) -> SampleScores:
    """Build the tables and columns of a query for a dataset's samples with their scores by these metrics. Runs no
    statement. scorers: the active scorer by metric; the columns of a metric without one are NULL. by: a metric; if it
    has a scorer, the query covers only samples with a value by it.

    An index has the values of `by` in order. All other tables are outer joins, so Postgres skips a table of which no
    column is asked.
    """
    scores = {metric: score.alias(f"{metric}_score") for metric in metrics if metric in scorers}
    sample_id: Column
    rows: sa.FromClause
    if by in scores:
        base, its_scorer = scores[by], scorers[by]
        sample_id, rows = base.c.sample_id, base.outerjoin(sample, sample.c.sample_id == base.c.sample_id)
        has_value = sa.and_(sa.not_(base.c.is_stale), base.c.value.is_not(None))
        dataset_condition = sa.and_(base.c.scorer_id == its_scorer.scorer_id, has_value)
        if not its_scorer.is_in_one_dataset:
            dataset_condition = sa.and_(dataset_condition, sample.c.dataset_id == dataset.dataset_id)
    else:
        sample_id, rows, dataset_condition = sample.c.sample_id, sample, sample.c.dataset_id == dataset.dataset_id
    rows = rows.outerjoin(video, video.c.video_id == sample.c.video_id)
    rows = rows.outerjoin(text_fact, text_fact.c.text_sha256 == sample.c.text_sha256)
    is_present = video_fact.c.content_sha256 == video.c.content_sha256
    rows = rows.outerjoin(video_fact, sa.and_(video_fact.c.video_id == video.c.video_id, is_present))
    for metric in scores.keys() - {by}:
        is_by_scorer = scores[metric].c.scorer_id == scorers[metric].scorer_id
        rows = rows.outerjoin(scores[metric], sa.and_(is_by_scorer, scores[metric].c.sample_id == sample_id))
    shown = {**_SAMPLE_COLUMNS, **FACT_COLUMNS, "dataset": sa.literal(dataset.name, sa.Text)}
    is_scored: dict[str, sa.ColumnElement[bool]] = dict.fromkeys(metrics, sa.false())
    for metric in metrics:
        shown[metric] = sa.cast(sa.null(), sa.Double)
        shown |= dict.fromkeys((f"{metric}_status", f"{metric}_models"), sa.cast(sa.null(), sa.Text))
    for metric, table in scores.items():
        is_scored[metric] = table.c.sample_id.is_not(None)
        # Where all rows have a value, the index is in the order of the bare column.
        shown[metric] = table.c.value if metric == by else sa.case((sa.not_(table.c.is_stale), table.c.value))
        shown[f"{metric}_status"] = sa.case((table.c.is_stale, "stale"), else_=table.c.status)
        shown[f"{metric}_models"] = sa.case((is_scored[metric], sa.literal(scorers[metric].models, sa.Text)))
    columns = {**shown, **_FROZEN_TOO, "sample_id": sample_id}
    return SampleScores(rows, dataset_condition, shown, columns, is_scored)


def list_scores(
    connection: Connection,
    dataset: str,
    by: str,
    limit: int | None,
    *,
    kind: str | None = None,
) -> list[dict[str, Any]]:
    """List samples as dicts with sample (its key), video, kind, system, and value, status and models of every metric,
    the best by metric `by` first. Samples without a value by this metric come last. [] if no dataset has this name.
    limit: None for all samples. kind: "caption" or "qa"; None for both.

    The columns of a metric are `<metric>`, `<metric>_status` and `<metric>_models`. Changes settings of the
    transaction, see `prepare_for_joins`.
    """
    stored = find_dataset(connection, dataset)
    if stored is None:
        return []
    metrics, scorers = list_dataset_scores(connection, stored), load_active_scorers(connection, stored)
    prepare_for_joins(connection)
    if limit is not None:
        best = _build_table_query(build_sample_scores(stored, metrics, scorers, by), by, metrics, kind)
        rows = connection.execute(best.limit(limit)).mappings().all() if by in scorers else []
        if len(rows) == limit:
            return [dict(row) for row in rows]
    everything = _build_table_query(build_sample_scores(stored, metrics, scorers), by, metrics, kind)
    return [dict(row) for row in connection.execute(everything.limit(limit)).mappings()]


def _build_table_query(scores: SampleScores, by: str, metrics: list[str], kind_wanted: str | None) -> sa.Select[Any]:
    metric_columns = [f"{metric}{suffix}" for metric in metrics for suffix in ("", "_status", "_models")]
    columns = [scores.columns[name].label(name) for name in ("sample", "video", "kind", "system", *metric_columns)]
    kind, key = scores.columns["kind"], sa.collate(scores.columns["sample"], "C")
    order = (scores.columns[by].desc().nulls_last(), kind, key)
    query = sa.select(*columns).select_from(scores.from_clause).where(scores.dataset_condition).order_by(*order)
    return query if kind_wanted is None else query.where(kind == kind_wanted)


def find_sample_id(connection: Connection, dataset_id: int, key: str) -> int | None:
    """Return the id of the dataset's sample with this key; None if there is none. If a caption and a question-answer
    pair have the key, the caption's is returned.
    """
    query = sa.text("SELECT sample_id FROM sample WHERE dataset_id = :dataset_id AND key = :key ORDER BY kind LIMIT 1")
    sample_id: int | None = connection.scalar(query, {"dataset_id": dataset_id, "key": key})
    return sample_id


def find_sample_score(
    connection: Connection, dataset_id: int, key: str, metric: str, kind: str | None = None
) -> RowMapping | None:
    """Return a row with a sample's key, kind, system, video and text, and its score by the metric's active scorer. The
    columns of the score are None if it has none; a stale score has components but no value. None if the dataset has no
    sample of this key and kind.

    kind: None takes the caption before a question-answer pair of the same key.
    """
    query = sa.text(
        "SELECT s.sample_id, s.key AS sample, s.kind, s.system, v.key AS video, s.text, c.value, c.status, c.error, "
        "p.components, r.models, r.scorer_id "
        "FROM sample s JOIN video v USING (video_id) "
        "LEFT JOIN scorer r ON r.metric = :metric AND r.status = 'active' "
        "LEFT JOIN current_score c ON c.scorer_id = r.scorer_id AND c.sample_id = s.sample_id "
        "LEFT JOIN score p ON p.scorer_id = r.scorer_id AND p.sample_id = s.sample_id "
        "WHERE s.dataset_id = :dataset_id AND s.key = :key AND s.kind = coalesce(:kind, s.kind) ORDER BY s.kind LIMIT 1"
    )
    values = {"dataset_id": dataset_id, "key": key, "metric": metric, "kind": kind}
    return connection.execute(query, values).mappings().one_or_none()
