"""Thresholds by what people find good: made, stored, joined, used in a recipe, shown; and where there is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.agreement.scales import RatingSettings
from assets.definitions.curation import Curation
from assets.definitions.thresholds import rating_threshold
from assets.home.settings import SettingsError, read_settings
from assets.metrics.registry import METRIC_INPUTS, SCORERS
from assets.selection.export import export_selection
from assets.selection.select import make_selection
from assets.thresholds.ratings import explain_rating_threshold
from assets.words.text import format_number
from db import schema
from db.manifest.datasets import Dataset
from db.reports.judgements import LABELS_ASPECT
from db.schema.views import create_views
from db.scores.thresholds import METHOD_RATINGS
from db.selection.freeze import Selection
from db.selection.recipes import SelectionError, convert_rule, parse_recipe
from db.selection.stored_selections import load_selection_rows, require_selection
from metrics_core.agreement.raters import compute_mean_ratings
from metrics_core.calibration import BaselineYouden, Threshold, find_rated_threshold
from metrics_core.intervals import Estimate
from tests.assets.reporting import add_captions, rate, report_on
from tests.db.builders import add_keypoint, add_label, change_text, make_dataset, set_scores

SYSTEMS = ("alpha", "beta", "gamma")
N_VIDEOS = 12
N = N_VIDEOS * len(SYSTEMS)
RNG = np.random.default_rng(7)
VALUES = np.round(RNG.normal(size=N), 2)
# Two raters, who follow the score as far as noise lets them.
FIRST = np.clip(np.round(3 + VALUES + RNG.normal(size=N) / 2), 1, 5)
SECOND = np.clip(np.round(3 + VALUES + RNG.normal(size=N) / 2), 1, 5)
MEANS = (FIRST + SECOND) / 2
VIDEOS = [place // len(SYSTEMS) for place in range(N)]


@pytest.fixture
def rated(engine: Engine, clips: Dataset) -> list[int]:
    """The ids of scored captions, each rated by two people."""
    ids = add_captions(engine, clips, N_VIDEOS, SYSTEMS)
    set_scores(engine, dict(zip(ids, VALUES.tolist(), strict=True)))
    rate(engine, dict(zip(ids, zip(FIRST.tolist(), SECOND.tolist(), strict=True), strict=True)))
    return ids


def materialised(engine: Engine, dataset: Dataset, home: Path) -> dict[str, Any]:
    """The metadata of a run of the asset."""
    instance = dg.DagsterInstance.ephemeral()
    instance.add_dynamic_partitions("dataset", [dataset.name])
    result = dg.materialize(
        [rating_threshold],
        partition_key=dataset.name,
        resources={"curation": Curation(lambda: home, None, lambda: engine, SCORERS)},
        instance=instance,
        selection=["rating_threshold"],
    )
    assert result.success
    (made,) = result.asset_materializations_for_node("rating_threshold")
    return {name: value.value for name, value in made.metadata.items()}


def make(engine: Engine, dataset: Dataset, objective: str) -> Selection:
    recipe = parse_recipe({"by": "vcs", "at_least": {"vcs": objective}})
    return make_selection(engine, dataset, recipe, lambda: pytest.fail("no vector is asked for"), lambda _: None)


def stored(engine: Engine) -> list[Any]:
    with engine.connect() as connection:
        query = "SELECT * FROM dataset_thresholds WHERE method = 'ratings' ORDER BY metric, objective"
        return list(connection.execute(sa.text(query)))


def test_the_asset_stores_the_cut_and_says_what_it_is_worth(
    engine: Engine, clips: Dataset, rated: list[int], tmp_path: Path
) -> None:
    for _ in range(2):
        shown = materialised(engine, clips, tmp_path)
    (row,) = stored(engine)
    wanted = find_rated_threshold(VALUES, MEANS, VIDEOS, n_resamples=1000)
    assert wanted.held_out is not None
    assert (row.dataset, row.metric, row.objective, row.method) == ("clips", "vcs", "good coverage", METHOD_RATINGS)
    assert (row.at_least, row.low, row.high) == (wanted.at_least, wanted.low, wanted.high)
    assert (row.n, row.n_good) == (N, int((np.median(MEANS) <= MEANS).sum()))
    details = row.details
    assert (details["aspect"], details["least_rating"], details["least_rating_is"]) == (
        *("coverage", float(np.median(MEANS))),
        "default",
    )
    assert (details["best_for"], details["n_videos"]) == ("youden", N_VIDEOS)
    assert details["youden_held_out"]["value"] == pytest.approx(wanted.held_out.value)
    assert set(details["baselines_held_out"]) == {"length in words"}, "without references no words are in common"
    text = shown["vcs"]
    assert f"| good coverage | {row.at_least:.4g} | {row.low:.4g} | {row.high:.4g} | {N} | {row.n_good} |" in text
    said = text.replace("\\", "")
    assert f"of the {row.n_good} samples rated {np.median(MEANS):g} (by default) or higher" in said
    assert f"the difference of these shares is {wanted.held_out.value:.2f}" in said


def test_a_turned_scale_gives_the_same_threshold_and_pages_name_what_people_gave(
    engine: Engine, clips: Dataset, rated: list[int], tmp_path: Path
) -> None:
    materialised(engine, clips, tmp_path)
    (straight,) = stored(engine)
    with engine.begin() as connection:
        connection.execute(sa.update(schema.rating).values(value=6 - schema.rating.c.value))
        scale = {"dataset_id": clips.dataset_id, "aspect": "coverage", "scale": "1-5, lowest is best"}
        scale |= {"least": 1.0, "most": 5.0, "lowest_is_best": True}
        connection.execute(sa.insert(schema.rating_scale).values(scale))
    shown = materialised(engine, clips, tmp_path)
    (turned,) = stored(engine)
    assert (turned.at_least, turned.n_good, turned.details) == (straight.at_least, straight.n_good, straight.details)
    assert f"samples rated {6 - np.median(MEANS):g} (by default) or lower" in shown["vcs"].replace("\\", "")
    assert shown["lowest is best"] == "statistics use 6 minus the rating of coverage, since the lowest is best"
    made = report_on(engine, clips, tmp_path)
    for words in (
        "rated: 6 − coverage",
        "6 − coverage: kept | dropped",
        f"{np.median(MEANS):.2f} of 5 6 − coverage",
    ):
        assert words in made.text


def test_the_natural_join_counts_what_the_cut_keeps(
    engine: Engine, clips: Dataset, rated: list[int], tmp_path: Path
) -> None:
    materialised(engine, clips, tmp_path)
    query = sa.text(
        "SELECT count(*), count(*) FILTER (WHERE vcs >= at_least) FROM sample_scores NATURAL JOIN dataset_thresholds "
        "WHERE metric = 'vcs' AND objective = 'good coverage'"
    )
    (row,) = stored(engine)
    with engine.connect() as connection:
        assert tuple(connection.execute(query).one()) == (N, int((row.at_least <= VALUES).sum()))


def test_a_recipe_takes_what_the_cut_keeps_and_its_passport_says_which_cut(
    engine: Engine, clips: Dataset, rated: list[int], tmp_path: Path
) -> None:
    materialised(engine, clips, tmp_path)
    (row,) = stored(engine)
    chosen = make(engine, clips, "good coverage")
    taken = [
        each["value"] for batch in load_selection_rows(engine, chosen.selection_id, batch_size=9) for each in batch
    ]
    assert taken == sorted(VALUES[row.at_least <= VALUES].tolist(), reverse=True)
    made_with = {name: getattr(row, name) for name in ("objective", "at_least", "low", "high", "n", "n_kept", "n_good")}
    path = export_selection(engine, chosen.selection_id, tmp_path / "x.parquet").path
    passport = json.loads(pq.read_schema(path).metadata[b"reelsieve"])
    assert passport["recipe"]["at_least"] == {"vcs": "good coverage"}
    assert passport["recipe"]["cuts"] == {"vcs": made_with}
    assert made_with["n_kept"] == chosen.n, "every sample is rated"
    assert chosen.cuts == {"vcs": made_with}
    (cut,) = passport["score_thresholds"]
    assert (cut["at_least"], cut["low"], cut["high"], cut["n_good"]) == (row.at_least, row.low, row.high, row.n_good)
    assert cut["details"] == row.details
    # Another cut comes: the selection keeps the one that it was made with.
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE score_threshold SET at_least = at_least + 0.01"))
    path = export_selection(engine, chosen.selection_id, tmp_path / "later.parquet").path
    assert json.loads(pq.read_schema(path).metadata[b"reelsieve"])["recipe"]["cuts"] == {"vcs": made_with}
    with engine.connect() as connection:
        stored_rule = require_selection(connection, chosen.selection_id)
    assert convert_rule(stored_rule["spec"]) == {"by": "vcs", "at_least": {"vcs": row.at_least}, "kind": "caption"}
    with pytest.raises(SelectionError, match="for kind caption: name one of 'good coverage'"):
        make(engine, clips, "good style")


def test_what_is_good_can_be_said_by_aspect(
    engine: Engine, clips: Dataset, rated: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rate(engine, {i: (9 - place % 4,) for place, i in enumerate(rated)}, aspect="style")
    monkeypatch.setenv("REELSIEVE_GOOD_RATINGS", '{"coverage": 4.5, "mood": 1}')
    text = materialised(engine, clips, tmp_path)["vcs"]
    found = {row.objective: row for row in stored(engine)}
    assert found["good coverage"].n_good == int((MEANS >= 4.5).sum())
    assert found["good coverage"].details["least_rating"] == 4.5
    assert found["good coverage"].details["least_rating_is"] == "set"
    assert "rated 4.5 or higher" in text.replace("\\", "")
    assert found.keys() <= {"good coverage", "good style"}
    assert "good style" in text


def test_a_least_rating_is_reached_by_its_own_mean(
    engine: Engine, clips: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """13/3 has no end in any number system of a computer, and is the mean of 4, 4 and 5."""
    ids = add_captions(engine, clips, N_VIDEOS, SYSTEMS)
    set_scores(engine, dict(zip(ids, VALUES.tolist(), strict=True)))
    rate(engine, {i: (4, 4, 5) if value > 0 else (4, 4, 4) for i, value in zip(ids, VALUES.tolist(), strict=True)})
    monkeypatch.setenv("REELSIEVE_GOOD_RATINGS", '{"coverage": 4.333333333333333}')
    materialised(engine, clips, tmp_path)
    (row,) = stored(engine)
    assert (row.n_good, row.details["youden"]) == (int((VALUES > 0).sum()), 1.0)


@pytest.mark.parametrize("value", ["coverage=4", '{"coverage": "much"}', '{"coverage": NaN}', "[4]"])
def test_least_ratings_that_are_no_numbers_are_one_sentence(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("REELSIEVE_GOOD_RATINGS", value)
    with pytest.raises(
        SettingsError,
        match=r"REELSIEVE_GOOD_RATINGS is not usable: .*; give lowest mean rating of a good",
    ):
        read_settings(RatingSettings)
    assert SettingsError.plain


def test_labels_on_keypoints_are_an_aspect_of_their_own(engine: Engine, clips: Dataset, tmp_path: Path) -> None:
    ids = add_captions(engine, clips, N_VIDEOS, SYSTEMS)
    set_scores(engine, dict(zip(ids, VALUES.tolist(), strict=True)))
    with engine.connect() as connection:
        query = sa.select(schema.sample.c.sample_id, schema.sample.c.video_id)
        videos = {row.sample_id: row.video_id for row in connection.execute(query)}
    keypoints = {video: add_keypoint(engine, clips, video, f"k{video}") for video in dict.fromkeys(videos.values())}
    for sample_id, value in zip(ids, VALUES.tolist(), strict=True):
        add_label(engine, keypoints[videos[sample_id]], sample_id, value > 0.25)
    materialised(engine, clips, tmp_path)
    (row,) = stored(engine)
    assert row.objective == f"good {LABELS_ASPECT}"
    assert row.at_least == min(value for value in VALUES if value > 0.25)
    assert row.details["youden"] == 1.0


# None


def test_a_dataset_without_ratings_is_no_red_run_and_keeps_no_cut_of_before(
    engine: Engine, clips: Dataset, rated: list[int], tmp_path: Path
) -> None:
    materialised(engine, clips, tmp_path)
    assert len(stored(engine)) == 1
    with engine.begin() as connection:
        connection.execute(sa.delete(schema.rating))
    assert materialised(engine, clips, tmp_path) == {"ratings": "none: no scored sample has a rating or a label"}
    assert stored(engine) == []
    empty = make_dataset(engine, "empty")
    assert materialised(engine, empty, tmp_path) == {"ratings": "none: no scored sample has a rating or a label"}


def test_stale_scores_do_not_count_and_too_few_ratings_give_no_number(
    engine: Engine, clips: Dataset, rated: list[int], tmp_path: Path
) -> None:
    change_text(engine, rated[0], "another text")
    materialised(engine, clips, tmp_path)
    assert [row.n for row in stored(engine)] == [N - 1]
    for sample_id in rated[1:20]:
        change_text(engine, sample_id, "another text")
    text = materialised(engine, clips, tmp_path)["vcs"]
    assert stored(engine) == []
    assert text.replace("\\", "") == (
        "- good coverage: no threshold, since 16 rated samples of 6 videos have a score, "
        "and a threshold needs 20 samples of 10 videos."
    )


def test_a_shard_has_a_cut_of_its_own_by_what_is_good_in_the_whole_dataset(engine: Engine, tmp_path: Path) -> None:
    with engine.begin() as connection:
        create_views(connection, METRIC_INPUTS)
    clips = make_dataset(engine, n_shards=2)
    ids = add_captions(engine, clips, 40, SYSTEMS)
    values, lift = RNG.normal(size=len(ids)), RNG.normal(size=len(ids))
    set_scores(engine, dict(zip(ids, values.tolist(), strict=True)))
    means = np.round(values + lift / 2, 2)
    rate(engine, {i: (mean,) for i, mean in zip(ids, means.tolist(), strict=True)})
    shown = materialised(engine, clips, tmp_path)
    shards = np.repeat([clips.compute_shard(f"v{video}") for video in range(40)], len(SYSTEMS))
    videos = np.repeat(np.arange(40), len(SYSTEMS))
    with engine.connect() as connection:
        query = "SELECT shard, objective, at_least, low, high, n, n_good FROM shard_thresholds ORDER BY shard"
        found = [tuple(row) for row in connection.execute(sa.text(query))]
    wanted = []
    for shard in (0, 1):
        rows = shards == shard
        cut = find_rated_threshold(
            values[rows],
            means[rows],
            videos[rows].tolist(),
            least_rating=float(np.median(means)),
            n_resamples=1000,
        )
        wanted.append((shard, "good coverage", cut.at_least, cut.low, cut.high, cut.n, cut.n_good))
    assert found == wanted
    assert shown["thresholds of shards"] == "2"
    assert len(stored(engine)) == 1


def test_cuts_by_share_and_those_of_other_datasets_stay(
    engine: Engine, clips: Dataset, rated: list[int], tmp_path: Path
) -> None:
    other = make_dataset(engine, "other")
    common = {"kind": "caption", "n": 3, "n_kept": 2, "at_least": 0.5}
    with engine.begin() as connection:
        scorer_id = connection.scalar(sa.select(schema.scorer.c.scorer_id))
        for dataset, method in ((other, METHOD_RATINGS), (clips, "quantile")):
            row = {**common, "scorer_id": scorer_id, "dataset_id": dataset.dataset_id, "method": method}
            connection.execute(schema.score_threshold.insert().values(**row, objective="kept"))
    materialised(engine, clips, tmp_path)
    with engine.connect() as connection:
        kept = connection.execute(sa.text("SELECT dataset, objective FROM dataset_thresholds ORDER BY 1, 2")).all()
    assert [tuple(row) for row in kept] == [("clips", "good coverage"), ("clips", "kept"), ("other", "kept")]


def test_the_report_says_the_same(engine: Engine, clips: Dataset, rated: list[int], tmp_path: Path) -> None:
    materialised(engine, clips, tmp_path)
    (row,) = stored(engine)
    made = report_on(engine, clips, tmp_path)
    (shown,) = made.numbers["rating_cuts"]
    assert (shown["metric"], shown["objective"], shown["cut"]["at_least"]) == ("vcs", row.objective, row.at_least)
    assert shown["beside"] in shown["sentence"]
    assert (
        f"{row.objective} {format_number(row.at_least, 3)} {format_number(row.low, 3)} to {format_number(row.high, 3)} "
        in made.text
    )
    assert shown["beside"] in made.text
    assert "Thresholds by what people find good" in made.text


def told(own: Estimate, *baselines: BaselineYouden, is_set: bool = False, **changed: Any) -> str:
    counts = {"n": 100, "n_good": 40, "n_videos": 25, "n_kept": 45, "n_kept_good": 30}
    known: dict[str, Any] = {**counts, "least_rating": 13 / 3, "at_least": 0.5, "low": 0.25, "high": 0.75}
    judged: dict[str, Any] = {"objective": "good mood", "metric": "vcs", "aspect": "mood", "is_least_set": is_set}
    cut = Threshold(**{**known, **judged, **changed}, held_out=own, baselines=baselines)
    return explain_rating_threshold(cut, "VCS")


def beside(name: str, value: float, gain: tuple[float, float, float]) -> BaselineYouden:
    return BaselineYouden(name, Estimate(value, value - 0.1, value + 0.1), Estimate(*gain))


def test_the_sentence_claims_no_more_than_its_intervals() -> None:
    own = Estimate(0.4, 0.3, 0.5)
    words, length = beside("words in common", 0.2, (0.2, 0.1, 0.3)), beside("length in words", 0.1, (0.3, 0.2, 0.4))
    assert told(own, length, words) == (
        "good mood: VCS of 0.5 (0.25 to 0.75) or more keeps 75% of the 40 samples rated 4.33333 (by default) or higher "
        "and 25% of the 60 others. On held-out videos, the difference of these shares is 0.40 (0.30 "
        "to 0.50), more than with words in common: 0.20 (0.10 to 0.30)."
    )
    assert "samples rated 4.33333 or higher" in told(own, is_set=True)
    for value, gain, end in (
        (0.35, (0.05, -0.1, 0.2), ", not clearly more than with w: 0.35 (0.25 to 0.45)."),
        (0.6, (-0.2, -0.3, -0.1), "(0.30 to 0.50), less than with w: 0.60 (0.50 to 0.70)."),
        (0.5, (-0.1, -0.3, 0.1), ", not clearly less than with w: 0.50 (0.40 to 0.60)."),
        (0.0, (0.4, 0.3, 0.5), "; no simple score does better than keeping everything."),
    ):
        assert told(own, beside("w", value, gain)).endswith(end)
    assert told(Estimate(0.1, -0.1, 0.3), words).endswith("is 0.10 (-0.10 to 0.30), which may be chance.")
    assert told(Estimate(0.1, None, None), words).endswith("is 0.10, which may be chance.")
    assert "VCS of 0.5 or more keeps" in told(own, low=None, high=None)


def test_equal_means_are_equal_however_they_are_added_up() -> None:
    ratings = np.array([[0.1, 0.2, 0.3, np.nan], [0.3, 0.2, 0.1, np.nan], [np.nan, 0.2, np.nan, 0.2], [np.nan] * 4])
    means = compute_mean_ratings(ratings)
    assert len(set(means[:3].tolist())) == 1
    assert np.isnan(means[3])
