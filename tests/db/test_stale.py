"""Scores whose inputs changed: no value anywhere that numbers are used, and history tells what it was and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from db import schema
from db.evidence.embeddings import text_sha256
from db.manifest.datasets import Dataset
from db.scores.pending import list_pending_samples
from db.scores.quality import count_shard_scores, count_statuses_with_reasons, load_mean_scores
from db.scores.sample_scores import list_scores
from db.scores.store import (
    count_statuses,
    list_best_and_worst,
    load_values_by_kind,
    load_values_by_system,
    store_scores,
)
from db.selection.recipes import SelectionError, parse_recipe
from db.selection.stored_selections import load_selection_rows
from tests.conftest import Template, filled_template
from tests.db.builders import (
    activate,
    add_keypoint,
    add_reference,
    add_sample,
    add_video,
    change,
    change_text,
    make_dataset,
    ok,
    put_label_thresholds,
    undefined,
    write_fresh,
)
from tests.db.freezing import freeze_recipe

TIMES = [{"text": "A dog runs.", "start_s": 0, "end_s": 2.5}]
METRICS = ("vcs", "evqa", "ecs")
ALL_THAT_HOLD = parse_recipe({"by": "vcs", "keep": 1.0, "stale": "leave_out", "kind": "all"})
VALUES = {"caption": 0.75, "pair": 0.5, "other": 0.25}


@dataclass
class Scored:
    """A video with a caption and a question-answer pair, another video with a caption, all scored by three metrics."""

    engine: Engine
    dataset: Dataset
    video_id: int
    reference_id: int
    keypoint_id: int
    samples: dict[str, int]
    scorers: dict[str, int]

    def score(self, metric: str, value: float | None = None) -> None:
        """Score all samples as they are now; by default with the values of `VALUES`."""
        rows = [ok(self.samples[name], VALUES[name] if value is None else value) for name in self.samples]
        write_fresh(self.engine, self.scorers[metric], rows)

    def rows(self, query: str, **values: Any) -> list[dict[str, Any]]:
        with self.engine.connect() as connection:
            return [dict(row) for row in connection.execute(sa.text(query), values).mappings()]

    def stale(self) -> set[tuple[str, str]]:
        """(metric, sample) of the scores that both views call stale and none gives a value; the others have theirs."""
        found = set()
        by_metric = self.rows("SELECT metric, key, value, status, error FROM current_score")
        assert len(by_metric) == len(METRICS) * len(VALUES)
        for row in by_metric:
            if row["status"] == "stale":
                assert row["value"] is None
                assert "run reelsieve score again" in row["error"]
                found.add((row["metric"], row["key"]))
            else:
                assert (row["value"], row["status"], row["error"]) == (VALUES[row["key"]], "ok", None)
        for row in self.rows("SELECT * FROM sample_scores"):
            for metric in METRICS:
                is_stale = (metric, row["sample"]) in found
                expected = (None, "stale", True) if is_stale else (VALUES[row["sample"]], "ok", False)
                assert (row[metric], row[f"{metric}_status"], row[f"{metric}_is_stale"]) == expected
                assert row[f"{metric}_models"] == "tiny"
        assert found == self.pending()
        return found

    def pending(self) -> set[tuple[str, str]]:
        names = {sample_id: name for name, sample_id in self.samples.items()}
        place = {"dataset_id": self.dataset.dataset_id, "shard": 0}
        with self.engine.connect() as connection:
            return {
                (metric, names[sample_id])
                for metric in METRICS
                for sample_id in list_pending_samples(connection, scorer_id=self.scorers[metric], **place)
            }

    def put_threshold(self, value: float) -> None:
        put_label_thresholds(self.engine, self.scorers["ecs"], self.dataset, events=value)


def build_scored(engine: Engine) -> Scored:
    clips = make_dataset(engine)
    video_id = add_video(engine, clips, "v", content=b"frames")
    samples = {
        "caption": add_sample(engine, clips, video_id, "caption", segments=TIMES),
        "pair": add_sample(
            engine, clips, video_id, "pair", "Who runs? A dog.", kind="qa", question="Who runs?", answer="A dog."
        ),
        "other": add_sample(engine, clips, add_video(engine, clips, "w", content=b"frames"), "other"),
    }
    reference_id = add_reference(engine, clips, video_id, "r", "A dog runs.", segments=TIMES)
    keypoint_id = add_keypoint(engine, clips, video_id, "k", segment_index=0)
    scorers = {metric: activate(engine, metric) for metric in METRICS}
    made = Scored(engine, clips, video_id, reference_id, keypoint_id, samples, scorers)
    made.put_threshold(0.5)
    for metric in METRICS:
        made.score(metric)
    return made


template = filled_template(build_scored)


@pytest.fixture
def scored(engine: Engine, template: Template[Scored]) -> Scored:
    return replace(template.filled, engine=engine, scorers=dict(template.filled.scorers))


def texts(text: str) -> dict[str, Any]:
    return {"text": text, "text_sha256": text_sha256(text)}


OF_VIDEO = ("caption", "pair")
# What changes, how it is undone, and by metric which samples' scores it makes stale.
CHANGES: dict[str, tuple[Callable[[Scored], None], Callable[[Scored], None], dict[str, tuple[str, ...]]]] = {
    "text": (
        lambda s: change_text(s.engine, s.samples["caption"], "A cat runs."),
        lambda s: change_text(s.engine, s.samples["caption"], "a dog runs"),
        dict.fromkeys(METRICS, ("caption",)),
    ),
    "where the question ends": (
        lambda s: change(s.engine, schema.sample, s.samples["pair"], question="Who runs? A", answer="dog."),
        lambda s: change(s.engine, schema.sample, s.samples["pair"], question="Who runs?", answer="A dog."),
        dict.fromkeys(METRICS, ("pair",)),
    ),
    "reference": (
        lambda s: change(s.engine, schema.reference, s.reference_id, **texts("A dog sleeps.")),
        lambda s: change(s.engine, schema.reference, s.reference_id, **texts("A dog runs.")),
        {"vcs": OF_VIDEO},
    ),
    "keypoint": (
        lambda s: change(s.engine, schema.keypoint, s.keypoint_id, text="A dog sleeps."),
        lambda s: change(s.engine, schema.keypoint, s.keypoint_id, text="A dog runs."),
        {"ecs": OF_VIDEO},
    ),
    "times of the caption": (
        lambda s: change(s.engine, schema.sample, s.samples["caption"], segments=None),
        lambda s: change(s.engine, schema.sample, s.samples["caption"], segments=TIMES),
        {"ecs": ("caption",)},
    ),
    "why the caption has no times": (
        lambda s: change(s.engine, schema.sample, s.samples["caption"], extra={"parse_error": "no JSON"}),
        lambda s: change(s.engine, schema.sample, s.samples["caption"], extra={"note": "of no concern"}),
        {"ecs": ("caption",)},
    ),
    "times of the reference": (
        lambda s: change(s.engine, schema.reference, s.reference_id, segments=[{**TIMES[0], "end_s": 3}]),
        # The order of names in an object does not matter.
        lambda s: change(s.engine, schema.reference, s.reference_id, segments=[dict(reversed(TIMES[0].items()))]),
        {"ecs": OF_VIDEO},
    ),
    "threshold": (
        lambda s: s.put_threshold(0.25),
        lambda s: s.put_threshold(0.5),
        {"ecs": tuple(VALUES)},
    ),
    "content of the video": (
        lambda s: change(s.engine, schema.video, s.video_id, content_sha256=text_sha256("cut anew")),
        lambda s: change(s.engine, schema.video, s.video_id, content_sha256=text_sha256("frames")),
        {"evqa": OF_VIDEO},
    ),
}


def test_a_change_makes_scores_stale_until_it_is_undone(scored: Scored) -> None:
    assert scored.stale() == set()
    for name, (make, undo, expected) in CHANGES.items():
        make(scored)
        stale = {(metric, sample) for metric, samples in expected.items() for sample in samples}
        assert scored.stale() == stale, name
        undo(scored)
        assert scored.stale() == set(), name


def test_a_metric_that_is_not_installed_keeps_its_scores(scored: Scored) -> None:
    gone = activate(scored.engine, "gone")
    store_scores(scored.engine, gone, "run", [ok(scored.samples["caption"], 0.5)])
    change_text(scored.engine, scored.samples["caption"], "A cat runs.")
    (row,) = scored.rows("SELECT value, status FROM current_score WHERE metric = 'gone'")
    assert row == {"value": 0.5, "status": "ok"}
    (row,) = scored.rows("SELECT value, changed_because FROM score_history WHERE metric = 'gone'")
    assert row == {"value": 0.5, "changed_because": None}


# Who uses scores


@pytest.fixture
def one_stale(scored: Scored) -> Scored:
    """The best caption has another text than the one that was scored."""
    change_text(scored.engine, scored.samples["caption"], "A cat runs.")
    return scored


def test_a_selection_leaves_stale_scores_out(one_stale: Scored) -> None:
    with one_stale.engine.begin() as connection:
        chosen = freeze_recipe(connection, one_stale.dataset, ALL_THAT_HOLD)
    assert (chosen.n, chosen.n_eligible, chosen.cutoff) == (2, 2, 0.25)
    assert chosen.unjudged == {"vcs": {"stale": 1}}
    rows = [row for part in load_selection_rows(one_stale.engine, chosen.selection_id) for row in part]
    assert [(row["sample"], row["vcs"]) for row in rows] == [("pair", 0.5), ("other", 0.25)]
    one_stale.score("vcs", 0.9)
    with one_stale.engine.begin() as connection:
        assert (
            freeze_recipe(
                connection,
                one_stale.dataset,
                ALL_THAT_HOLD,
            ).n
            == 3
        )


def test_a_selection_refuses_stale_scores_unless_told_to_leave_them_out(one_stale: Scored) -> None:
    for recipe, stale in (
        ({"by": "vcs", "keep": 0.5}, "1 vcs score of dataset 'clips' is"),
        ({"by": "evqa", "where": "VCS > 0", "keep": 0.5}, "1 evqa score and 1 vcs score of dataset 'clips' are"),
        ({"by": "evqa", "at_least": {"vcs": 0.0}}, "1 evqa score and 1 vcs score of dataset 'clips' are"),
    ):
        refused = f"^{stale} stale, since (its|their) inputs have changed: run reelsieve score "
        with one_stale.engine.begin() as connection, pytest.raises(SelectionError, match=refused):
            freeze_recipe(connection, one_stale.dataset, parse_recipe(recipe))


def test_a_selection_by_another_metric_has_no_stale_value_beside_it(one_stale: Scored) -> None:
    one_stale.score("evqa")
    with one_stale.engine.begin() as connection:
        chosen = freeze_recipe(connection, one_stale.dataset, parse_recipe({"by": "evqa", "keep": 0.34}))
    ((row,),) = load_selection_rows(one_stale.engine, chosen.selection_id)
    assert (row["sample"], row["text"], row["evqa"], row["vcs"]) == ("caption", "A cat runs.", 0.75, None)


def test_stale_scores_alone_are_nothing_to_select_from(scored: Scored) -> None:
    for sample_id in scored.samples.values():
        change_text(scored.engine, sample_id, "A cat runs.")
    with scored.engine.begin() as connection, pytest.raises(SelectionError, match="run reelsieve score"):
        freeze_recipe(connection, scored.dataset, parse_recipe({"by": "vcs", "keep": 1.0}))


def test_stale_scores_are_listed_last_and_say_so(one_stale: Scored) -> None:
    with one_stale.engine.connect() as connection:
        found = list_scores(connection, "clips", "vcs", None)
    assert [(row["sample"], row["vcs"], row["vcs_status"]) for row in found] == [
        ("pair", 0.5, "ok"),
        ("other", 0.25, "ok"),
        ("caption", None, "stale"),
    ]


def test_thresholds_reports_and_checks_do_not_count_stale_scores(one_stale: Scored) -> None:
    place = (one_stale.scorers["vcs"], one_stale.dataset.dataset_id)
    with one_stale.engine.connect() as connection:
        assert load_values_by_kind(connection, *place) == {"qa": [0.5], "caption": [0.25]}
        assert load_values_by_system(connection, *place) == {"brief": [0.25]}
        assert [row.key for row in list_best_and_worst(connection, *place, "caption", 9)] == ["other"]
        assert count_statuses(connection, *place) == {"ok": 2, "stale": 1}
        quality = count_shard_scores(connection, *place, 0)
        counts = count_statuses_with_reasons(connection, *place, 0)
        (mean,) = [each for each in load_mean_scores(connection, *place) if each.kind == "caption"]
    assert (quality.n_ok, quality.n_stale, quality.n_unscored, quality.maximum) == (2, 1, 0, 0.5)
    stale = [each for each in counts if each.status == "stale"]
    assert [(each.n, each.reason) for each in stale] == [
        (1, "its inputs changed since it was scored: run reelsieve score again")
    ]
    assert (mean.n, mean.mean) == (1, 0.25)
    # The other two metrics' scores of that caption are stale too.
    (summary,) = one_stale.rows("SELECT scores FROM dataset_summary")
    assert summary == {"scores": 6}


def test_a_failed_score_of_other_inputs_is_stale(scored: Scored) -> None:
    write_fresh(scored.engine, scored.scorers["vcs"], [undefined(scored.samples["caption"], "failed")])
    change_text(scored.engine, scored.samples["caption"], "A cat runs.")
    query = "SELECT vcs, vcs_status FROM sample_scores WHERE sample = 'caption'"
    assert scored.rows(query) == [{"vcs": None, "vcs_status": "stale"}]


# History


HISTORY = """
SELECT value, status, changed_because, replaced_at IS NOT NULL AS is_replaced
FROM score_history WHERE metric = :metric AND sample = 'caption' ORDER BY replaced_at NULLS LAST
"""


def history(scored: Scored, metric: str = "vcs") -> list[tuple[Any, ...]]:
    """(value, status, why it holds no longer, whether it was replaced) of the caption's scores, the oldest first."""
    return [tuple(row.values()) for row in scored.rows(HISTORY, metric=metric)]


def test_history_keeps_the_old_value_before_and_after_it_is_scored_again(scored: Scored) -> None:
    assert history(scored) == [(0.75, "ok", None, False)]
    change_text(scored.engine, scored.samples["caption"], "A cat runs.")
    assert history(scored) == [(0.75, "ok", "text", False)]
    scored.score("vcs", 0.125)
    assert history(scored) == [(0.75, "ok", "text", True), (0.125, "ok", None, False)]
    change(scored.engine, schema.reference, scored.reference_id, **texts("A dog sleeps."))
    assert history(scored)[1:] == [(0.125, "ok", "references", False)]
    scored.score("vcs", 0.5)
    change_text(scored.engine, scored.samples["caption"], "A cat.")
    change(scored.engine, schema.reference, scored.reference_id, **texts("A dog sits."))
    assert history(scored) == [
        (0.75, "ok", "text", True),
        (0.125, "ok", "references", True),
        (0.5, "ok", "references, text", False),
    ]
    assert history(scored, "evqa") == [(0.75, "ok", "text", False)]


@pytest.mark.parametrize(
    ("name", "metric", "because"),
    [
        ("keypoint", "ecs", "keypoints"),
        ("times of the caption", "ecs", "segments"),
        ("why the caption has no times", "ecs", "segments"),
        ("times of the reference", "ecs", "segments"),
        ("threshold", "ecs", "thresholds"),
        ("content of the video", "evqa", "video"),
    ],
)
def test_history_names_what_changed(scored: Scored, name: str, metric: str, because: str) -> None:
    make, _, _ = CHANGES[name]
    make(scored)
    assert history(scored, metric) == [(0.75, "ok", because, False)]
    scored.score(metric)
    assert history(scored, metric) == [(0.75, "ok", because, True), (0.75, "ok", None, False)]


def test_a_past_score_is_the_whole_score(scored: Scored) -> None:
    query = "SELECT {} FROM {} WHERE sample_id = :id AND scorer_id = :scorer"
    columns = "input_sha256, value, components, status, error, run_id, scored_at"
    values = {"id": scored.samples["caption"], "scorer": scored.scorers["vcs"]}
    before = scored.rows(query.format(columns, "score"), **values)
    change_text(scored.engine, scored.samples["caption"], "A cat runs.")
    write_fresh(scored.engine, scored.scorers["vcs"], [undefined(scored.samples["caption"])], run_id="another")
    assert scored.rows(query.format(columns, "past_score"), **values) == before
    assert history(scored) == [(0.75, "ok", "text", True), (None, "undefined", None, False)]


def test_a_score_that_is_made_anew_from_the_same_inputs(scored: Scored) -> None:
    caption, scorer_id = scored.samples["caption"], scored.scorers["vcs"]
    scored.score("vcs")
    assert history(scored) == [(0.75, "ok", None, False)]
    write_fresh(scored.engine, scorer_id, [undefined(caption, "failed")])
    write_fresh(scored.engine, scorer_id, [ok(caption, 0.5)])
    assert history(scored) == [
        (0.75, "ok", "rule", True),
        (None, "failed", "tried again", True),
        (0.5, "ok", None, False),
    ]


def test_scores_of_a_retired_scorer_hold_no_longer_because_of_the_scorer(scored: Scored) -> None:
    scored.scorers["vcs"] = activate(scored.engine, "vcs", "2")
    scored.score("vcs", 0.5)
    found = {(value, because) for value, _, because, _ in history(scored)}
    assert found == {(0.75, "scorer"), (0.5, None)}


def test_a_deleted_sample_takes_its_history_along(scored: Scored) -> None:
    change_text(scored.engine, scored.samples["caption"], "A cat runs.")
    scored.score("vcs")
    assert scored.rows("SELECT count(*) AS n FROM past_score") == [{"n": 1}]
    with scored.engine.begin() as connection:
        connection.execute(sa.delete(schema.sample))
    assert scored.rows("SELECT count(*) AS n FROM past_score") == [{"n": 0}]
