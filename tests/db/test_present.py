"""Selections and lists of any scores, with stale and missing ones among them, are those by hand."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from decimal import ROUND_FLOOR, Decimal
from typing import NamedTuple

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.engine import Engine

from db.manifest.datasets import Dataset
from db.schema.views import create_views
from db.scores.sample_scores import list_scores, load_active_scorers
from db.selection.recipes import SelectionError, parse_recipe
from db.selection.stored_selections import load_selection_rows
from tests.db.builders import TWO_METRICS, add_sample, add_video, change_text, empty, make_dataset, set_scores
from tests.db.freezing import freeze_recipe

VALUES = st.sampled_from([0.5, 0.25, -0.25, 1e-7, 1.0]) | st.floats(-1, 1, allow_subnormal=False)
# A row of scores may be missing, or have no value.
SCORES = st.sampled_from(["missing", None]) | VALUES
WHERES = {
    None: lambda row: True,
    "evqa > 0.2": lambda row: isinstance(row.now("evqa"), float) and row.now("evqa") > 0.2,
    "evqa is null and vcs < 0.5": lambda row: row.now("evqa") is None and row.now("vcs") < 0.5,
    "evqa_status is null or vcs_models = 'tiny' and kind = 'qa'": lambda row: row.evqa == "missing" or row.kind == "qa",
    "dataset = 'clips' and video like 'v%' and shard = 0": lambda row: True,
}


class Row(NamedTuple):
    key: str
    kind: str
    vcs: float | str | None
    evqa: float | str | None
    is_stale: bool

    def now(self, metric: str) -> float | None:
        value = getattr(self, metric)
        return None if value == "missing" or self.is_stale else value

    def models(self, metric: str) -> str | None:
        return None if getattr(self, metric) == "missing" else "tiny"


ROWS = st.lists(st.tuples(st.sampled_from(["caption", "qa"]), SCORES, SCORES, st.booleans()), min_size=1, max_size=20)


@pytest.fixture
def views(engine: Engine) -> None:
    with engine.begin() as connection:
        create_views(connection, TWO_METRICS)


def store(engine: Engine, dataset: Dataset, rows: Sequence[Row]) -> None:
    video_id = add_video(engine, dataset, "v", content=b"frames")
    ids = {row.key: add_sample(engine, dataset, video_id, row.key, kind=row.kind) for row in rows}
    for metric in ("vcs", "evqa"):
        values = {ids[row.key]: getattr(row, metric) for row in rows}
        set_scores(engine, {i: value for i, value in values.items() if value != "missing"}, metric)
    for row in rows:
        if row.is_stale:
            change_text(engine, ids[row.key], "another text")


def in_order(rows: Sequence[Row]) -> list[Row]:
    """The best first, those of equal values by kind and key."""
    found = sorted(rows, key=lambda row: (row.kind, row.key.encode()))
    return sorted(found, key=lambda row: -row.now("vcs"))


def line(row: Row) -> str:
    """Of the hash, with the number as Postgres writes it."""
    return f"{row.kind}\t{row.key}\t{str(row.now('vcs')).removesuffix('.0')}\n"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    drawn=ROWS,
    keep=st.decimals(min_value=Decimal("0.01"), max_value=1, places=2),
    where=st.sampled_from(list(WHERES)),
    any_stale=st.booleans(),
    has_other=st.booleans(),
)
def test_selections_and_lists_are_those_by_hand(
    engine: Engine,
    views: None,
    drawn: Sequence[tuple[str, float | str | None, float | str | None, bool]],
    keep: Decimal,
    where: str | None,
    any_stale: bool,
    has_other: bool,
) -> None:
    empty(engine)
    rows = [Row(f"s{i}", *row[:3], row[3] and any_stale) for i, row in enumerate(drawn)]
    if has_other:
        store(engine, make_dataset(engine, "other"), [Row("o", "caption", 0.75, 0.75, False)])
    dataset = make_dataset(engine)
    store(engine, dataset, rows)
    eligible = [row for row in rows if row.now("vcs") is not None and WHERES[where](row)]
    rule = {"by": "vcs", "where": where, "stale": "leave_out"}
    recipe = parse_recipe({**rule, "kind": "all", "keep": float(keep)})
    if not eligible:
        with pytest.raises(SelectionError), engine.begin() as connection:
            freeze_recipe(connection, dataset, recipe)
    else:
        best = in_order(eligible)[: max(1, int((keep * len(eligible)).to_integral_value(ROUND_FLOOR)))]
        n_tied, n_equal = (sum(row.now("vcs") == best[-1].now("vcs") for row in some) for some in (best, eligible))
        # The same by its number instead of its share.
        counted = parse_recipe({**rule, "kind": "all", "count": len(best)})
        if n_tied < n_equal and n_tied / len(best) > 0.05:
            refusals = set()
            for each in (recipe, counted):
                with pytest.raises(SelectionError) as refusal, engine.begin() as connection:
                    freeze_recipe(connection, dataset, each)
                refusals.add(str(refusal.value))
            assert len(refusals) == 1
            return
        with engine.begin() as connection:
            chosen = freeze_recipe(connection, dataset, recipe)
        with engine.begin() as connection:
            picked = freeze_recipe(connection, dataset, counted)
        assert (picked.n, picked.score_hash) == (chosen.n, chosen.score_hash)
        assert (picked.n_tied, picked.n_tied_left) == (chosen.n_tied, chosen.n_tied_left) == (n_tied, n_equal - n_tied)
        assert (chosen.n, chosen.n_eligible, chosen.cutoff) == (len(best), len(eligible), best[-1].now("vcs"))
        assert chosen.score_hash == hashlib.sha256("".join(map(line, best)).encode()).hexdigest()
        frozen = [row for part in load_selection_rows(engine, chosen.selection_id) for row in part]
        assert [(row["sample"], row["vcs"], row["evqa"], row["vcs_models"], row["evqa_models"]) for row in frozen] == [
            (row.key, row.now("vcs"), row.now("evqa"), row.models("vcs"), row.models("evqa")) for row in best
        ]
    with engine.connect() as connection:
        everything = list_scores(connection, "clips", "vcs", None)
        for limit in (1, 2, len(rows) + 1):
            assert list_scores(connection, "clips", "vcs", limit) == everything[:limit]
    defined = in_order([row for row in rows if row.now("vcs") is not None])
    assert [row["sample"] for row in everything][: len(defined)] == [row.key for row in defined]


def test_active_scorers_count_their_scores_of_now(engine: Engine, views: None) -> None:
    dataset = make_dataset(engine)
    store(engine, dataset, [Row("a", "caption", 0.5, None, False), Row("b", "qa", 0.25, "missing", False)])

    def found() -> dict[str, tuple[int, bool]]:
        with engine.connect() as connection:
            return {
                name: (row.n_defined, row.is_in_one_dataset)
                for name, row in load_active_scorers(connection, dataset).items()
            }

    assert found() == {"vcs": (2, True), "evqa": (0, True)}
    with engine.connect() as connection:
        sample_id = connection.scalar(sa.text("SELECT sample_id FROM sample WHERE key = 'a'"))
    change_text(engine, sample_id, "another text")
    assert found() == {"vcs": (1, True), "evqa": (0, True)}
    store(engine, make_dataset(engine, "other"), [Row("o", "caption", 0.75, None, False)])
    assert found() == {"vcs": (1, False), "evqa": (0, True)}
