"""Extremes, histograms and cutoffs that Postgres counts, against numpy and a sorted list."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.engine import Engine

from db.manifest.datasets import Dataset
from db.scores.distribution import (
    Distribution,
    compute_distribution,
    compute_video_means,
    create_defined_table,
    load_shard_thresholds,
)
from metrics_core.selection.strata import count_in_share
from tests.db.builders import (
    activate,
    add_sample,
    add_video,
    change_text,
    empty,
    make_dataset,
    set_scores,
)

SHARES = (0.5, 0.25, 0.125, 0.1)


def found(engine: Engine, scorer_id: int, dataset: Dataset, bins: int = 4) -> Distribution | None:
    with engine.begin() as connection:
        create_defined_table(connection, dataset, scorer_id)
        return compute_distribution(connection, "caption", SHARES, bins)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(st.integers(-8, 8).map(lambda n: n / 8), st.floats(-1, 1)), min_size=1, max_size=12))
def test_any_values(engine: Engine, values: list[float]) -> None:
    empty(engine)
    clips = make_dataset(engine)
    video_id = add_video(engine, clips, "v")
    samples = [add_sample(engine, clips, video_id, f"s{i}") for i in range(len(values) + 1)]
    scorer_id = set_scores(engine, {**dict(zip(samples, values, strict=False)), samples[-1]: None})
    made = found(engine, scorer_id, clips)
    assert made is not None
    best = sorted(values, reverse=True)
    assert (made.n, made.low, made.high) == (len(values), min(values), max(values))
    assert made.thresholds == {share: best[count_in_share(share, len(best)) - 1] for share in SHARES}
    assert made.n_kept == {share: sum(value >= cut for value in values) for share, cut in made.thresholds.items()}
    assert sum(made.counts) == len(values)
    width = (made.high - made.low) / 4
    if width > 1e-300:
        limits = made.low + width * np.arange(5)
        inside = [v for v in values if min(abs(limits - v)) > 1e-12 or v in (made.low, made.high)]
        if len(inside) == len(values):
            assert list(made.counts) == np.histogram(values, bins=4, range=(made.low, made.high))[0].tolist()
    else:
        assert made.counts[0] + made.counts[-1] >= 1


def test_only_fresh_scores_of_the_dataset_count(engine: Engine) -> None:
    clips, other = make_dataset(engine), make_dataset(engine, "other")
    samples = [add_sample(engine, clips, add_video(engine, clips, f"v{i}"), f"s{i}") for i in range(4)]
    elsewhere = add_sample(engine, other, add_video(engine, other, "v"), "s")
    scorer_id = set_scores(engine, dict(zip([*samples, elsewhere], [0.1, 0.2, 0.3, 0.9, 0.7], strict=True)))
    change_text(engine, samples[3], "Another.")
    assert found(engine, scorer_id, clips, 2) == Distribution(
        3, 0.1, 0.3, (1, 2), {0.5: 0.3, 0.25: 0.3, 0.125: 0.3, 0.1: 0.3}, dict.fromkeys(SHARES, 1)
    )
    of_one = Distribution(1, 0.7, 0.7, (1, 0), dict.fromkeys(SHARES, 0.7), dict.fromkeys(SHARES, 1))
    assert found(engine, scorer_id, other, 2) == of_one


def test_each_kind_has_a_distribution_and_cutoffs_of_its_own(engine: Engine) -> None:
    """Question-answer pairs on a scale of their own move no cutoff of captions, and no mean of a video."""
    clips = make_dataset(engine, n_shards=2)
    captions, pairs = {}, {}
    for number in range(8):
        video_id = add_video(engine, clips, f"v{number}")
        captions[add_sample(engine, clips, video_id, f"c{number}")] = number / 8
        pairs[add_sample(engine, clips, video_id, f"q{number}", kind="qa", question="q", answer="a")] = 2.0 + number
    scorer_id = set_scores(engine, {**captions, **pairs})
    with engine.begin() as connection:
        assert create_defined_table(connection, clips, scorer_id) == ["caption", "qa"]
        of_kinds = {kind: compute_distribution(connection, kind, SHARES, 4) for kind in ("caption", "qa")}
        cutoffs = {kind: load_shard_thresholds(connection, kind, (0.5,)) for kind in of_kinds}
        means = {kind: sorted(compute_video_means(connection, kind)[0]) for kind in of_kinds}
    for kind, values in (("caption", list(captions.values())), ("qa", list(pairs.values()))):
        made, best = of_kinds[kind], sorted(values, reverse=True)
        assert made is not None
        assert (made.n, made.low, made.high) == (8, min(values), max(values))
        assert made.thresholds == {share: best[count_in_share(share, 8) - 1] for share in SHARES}
        assert sum(row.n for row in cutoffs[kind]) == 8
        assert {row.value for row in cutoffs[kind]} <= set(values)
        assert means[kind] == sorted(values)


@pytest.mark.parametrize("n", [0, 1])
def test_without_a_defined_score(engine: Engine, n: int) -> None:
    clips = make_dataset(engine)
    samples = [add_sample(engine, clips, add_video(engine, clips, f"v{i}"), f"s{i}") for i in range(n)]
    scorer_id = set_scores(engine, dict.fromkeys(samples)) if n else activate(engine)
    assert found(engine, scorer_id, clips) is None
