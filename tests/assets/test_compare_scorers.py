"""Two scorers on one dataset in the database: who is meant, what is compared, and what is said of it."""

from __future__ import annotations

import json

import pytest
import sqlalchemy as sa
from scipy import stats
from sqlalchemy.engine import Engine

from assets.agreement.compare import NothingToCompare, compare_scorers, list_differences
from assets.agreement.comparison import Comparison, explain_comparison
from assets.agreement.scorer_names import UnknownScorer, require_named_scorer
from db import schema
from db.manifest.datasets import Dataset
from db.scores.scorers import StoredScorer, list_scorers
from tests.assets.test_agreement_measured import RATINGS, rate
from tests.db.builders import (
    add_keypoint,
    add_label,
    add_sample,
    add_video,
    change_text,
    make_dataset,
    register,
    set_scores,
)

# Eight samples of four videos. The people of RATINGS agree with OLD but for chance, and NEW is noise.
OLD = [0.9, 0.1, 0.8, 0.3, 0.7, 0.2, 0.4, 0.6]
NEW = [0.5, 0.4, 0.1, 0.9, 0.6, 0.2, 0.8, 0.3]


@pytest.fixture
def samples(engine: Engine, clips: Dataset) -> list[int]:
    """Two captions of each of four videos, not rated."""
    videos = [add_video(engine, clips, f"v{i}") for i in range(4)]
    return [
        add_sample(engine, clips, video, f"c{2 * i + j}", system="ab"[j])
        for i, video in enumerate(videos)
        for j in (0, 1)
    ]


@pytest.fixture
def pair(engine: Engine, samples: list[int]) -> tuple[int, int]:
    """Two scorers of VCS, the first one retired."""
    first = set_scores(engine, dict(zip(samples, OLD, strict=True)), version="1")
    return first, set_scores(engine, dict(zip(samples, NEW, strict=True)), version="2")


def people(engine: Engine, samples: list[int], raters: str = "ab", aspect: str = "quality") -> None:
    for sample_id, ratings in zip(samples, RATINGS, strict=True):
        for rater, value in zip(raters, ratings, strict=False):
            rate(engine, sample_id, rater, value, aspect)


def compared(engine: Engine, clips: Dataset, pair: tuple[int, int], n_movers: int = 2) -> Comparison:
    return compare_scorers(engine, clips, f"vcs@{pair[0]}", f"vcs@{pair[1]}", n_movers)


# Names


def scorer(scorer_id: int, metric: str, fingerprint: str, status: str) -> StoredScorer:
    return StoredScorer(scorer_id, metric, fingerprint, {}, {}, "1", status)


KNOWN = [
    scorer(1, "vcs", "aaaa1111", "retired"),
    scorer(2, "vcs", "aaaa2222", "active"),
    scorer(3, "evqa", "1234beef", "active"),
    scorer(1234, "ecs", "cccc3333", "candidate"),
]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("vcs", 2),
        ("vcs@1", 1),
        ("1", 1),
        ("vcs@aaaa1", 1),
        ("AAAA2", 2),
        ("1234beef", 3),
        ("evqa@1234", 3),
        ("1234", 1234),
    ],
)
def test_a_scorer_has_several_names(name: str, expected: int) -> None:
    assert require_named_scorer(KNOWN, name).scorer_id == expected


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ecs", "no scorer of ecs is active: name one of ecs@1234 (candidate)"),
        ("vcs@3", "there is no scorer 'vcs@3': name one of vcs@1 (retired), vcs@2 (active)"),
        ("aaaa", "'aaaa' matches 2 scorers: name one of vcs@1 (retired), vcs@2 (active)"),
        ("aaa", "there is no scorer 'aaa': name one of vcs@1"),
        ("", "there is no scorer '': name one of"),
        ("qeva@", "there is no scorer 'qeva@': name one of"),
        ("%", "there is no scorer '%': name one of"),
    ],
)
def test_an_unknown_name_is_refused_with_the_names_there_are(name: str, said: str) -> None:
    with pytest.raises(UnknownScorer) as caught:
        require_named_scorer(KNOWN, name)
    assert str(caught.value).startswith(said)


def test_without_scores_there_is_no_scorer(engine: Engine, clips: Dataset) -> None:
    with pytest.raises(UnknownScorer, match="nothing is scored yet: run reelsieve score"):
        compare_scorers(engine, clips, "vcs", "evqa", 1)


def test_differences_are_named() -> None:
    first = StoredScorer(
        1, "vcs", "a", {"encoder": {"model_id": "m", "dim": 3}}, {"lct": 0, "same": [1]}, "1", "active"
    )
    second = StoredScorer(
        2, "vcs", "b", {"encoder": {"model_id": "n", "dim": 3}}, {"same": [1], "new": 2}, "2", "active"
    )
    assert list_differences(first, second) == (
        ("encoder.model_id", "m", "n"),
        ("lct", 0, None),
        ("code_version", "1", "2"),
        ("new", None, 2),
    )
    assert list_differences(first, StoredScorer(3, "evqa", "c", {}, {}, "1", "active")) == ()


# Numbers


def test_the_numbers_are_scipys(engine: Engine, clips: Dataset, samples: list[int], pair: tuple[int, int]) -> None:
    people(engine, samples)
    found = compared(engine, clips, pair)
    assert (found.scores.n, found.scores.n_videos, found.n_left_out, found.n_judged) == (8, 4, 0, 8)
    assert found.scores.correlations["kendall_b"].value == pytest.approx(stats.kendalltau(OLD, NEW).statistic)
    assert found.scores.mean_difference.value == pytest.approx(sum(NEW) / 8 - sum(OLD) / 8)
    means = [sum(each) / 2 for each in RATINGS]
    (quality,) = found.people
    assert (quality.n, quality.n_raters) == (8, 2)
    assert quality.first["pearson"].value == pytest.approx(stats.pearsonr(OLD, means).statistic)
    assert quality.second["spearman"].value == pytest.approx(stats.spearmanr(NEW, means).statistic)
    assert [each[0] for each in found.differences] == ["code_version"]


def test_movers_are_named_with_both_values(
    engine: Engine, clips: Dataset, samples: list[int], pair: tuple[int, int]
) -> None:
    found = compared(engine, clips, pair)
    # Ranks of OLD are 8 1 7 3 6 2 4 5, of NEW 5 4 1 8 6 2 7 3: c3 rises by five of eight places, c2 falls by six.
    rows = [(row["sample"], row["system"], (row["a"], row["b"]), row["move"]) for row in (*found.up, *found.down)]
    assert rows == [
        ("c3", "b", (0.3, 0.9), 62.5),
        ("c1", "b", (0.1, 0.4), 37.5),
        ("c2", "a", (0.8, 0.1), -75.0),
        ("c0", "a", (0.9, 0.5), -37.5),
    ]


def test_left_out_samples_are_counted_by_reason(
    engine: Engine, clips: Dataset, samples: list[int], pair: tuple[int, int]
) -> None:
    set_scores(engine, {samples[0]: None}, version="2")
    change_text(engine, samples[1], "another text")
    add_sample(engine, clips, add_video(engine, clips, "new"), "new")
    found = compared(engine, clips, pair)
    assert (found.scores.n, found.n_left_out) == (6, 3)
    assert found.missing == ({"stale": 1, "not scored": 1}, {"undefined": 1, "stale": 1, "not scored": 1})


def test_labels_are_an_aspect(engine: Engine, clips: Dataset, samples: list[int], pair: tuple[int, int]) -> None:
    with engine.connect() as connection:
        video_of = dict(connection.execute(sa.select(schema.sample.c.sample_id, schema.sample.c.video_id)).all())
    for place, sample_id in enumerate(samples):
        for i in range(2):
            keypoint = add_keypoint(engine, clips, video_of[sample_id], f"{place} {i}")
            add_label(engine, keypoint, sample_id, i < place % 3)
    found = compared(engine, clips, pair)
    (labels,) = found.people
    assert (labels.aspect, labels.n, labels.n_raters) == ("coverage (labels)", 8, 1)
    shares = [min(place % 3, 2) / 2 for place in range(8)]
    assert labels.first["pearson"].value == pytest.approx(stats.pearsonr(OLD, shares).statistic)


def test_two_metrics_have_no_mean_difference(engine: Engine, clips: Dataset, samples: list[int]) -> None:
    set_scores(engine, dict(zip(samples, OLD, strict=True)))
    set_scores(engine, dict(zip(samples, NEW, strict=True)), metric="vcs_short")
    found = compare_scorers(engine, clips, "vcs", "vcs_short", 1)
    assert (found.is_same_metric, found.differences, found.as_dict()["mean_difference"]) == (False, (), None)
    with engine.connect() as connection:
        assert {each.name for each in list_scorers(connection)} == {found.first.name, found.second.name}


def test_the_same_data_give_the_same_json(
    engine: Engine, clips: Dataset, samples: list[int], pair: tuple[int, int]
) -> None:
    people(engine, samples)
    first, again = (json.dumps(compared(engine, clips, pair).as_dict()) for _ in range(2))
    assert first == again
    assert json.loads(first)["people"][0]["a"]["kendall_b"]["value"] is not None


# Sentences


def test_a_difference_is_chance_or_more(
    engine: Engine, clips: Dataset, samples: list[int], pair: tuple[int, int]
) -> None:
    people(engine, samples)
    (sentence,) = explain_comparison(compared(engine, clips, pair))
    assert sentence.startswith("quality: which is closer to people is open: 4 videos, 10 needed; Kendall's tau-b with")
    for i in range(4, 12):
        video = add_video(engine, clips, f"v{i}")
        ids = [add_sample(engine, clips, video, f"c{i}_{j}") for j in range(8)]
        people(engine, ids)
        set_scores(engine, dict(zip(ids, NEW, strict=True)), version="2")
        set_scores(engine, dict(zip(ids, OLD, strict=True)), version="1")
    (sentence,) = explain_comparison(compared(engine, clips, pair))
    assert sentence.startswith(f"quality: vcs@{pair[0]} is closer to people by more than chance (p = 0.00")
    assert "; Kendall's tau-b with people is 0." in sentence
    assert " (Pearson's r 0." in sentence
    assert "; length in words" not in sentence
    people(engine, samples, aspect="style")
    both = explain_comparison(compared(engine, clips, pair))
    assert "corrected for 2 aspects" in both[0]
    assert both[1].startswith("style: which is closer to people is open: 4 videos, 10 needed")


def test_without_ratings_it_says_so(engine: Engine, clips: Dataset, pair: tuple[int, int]) -> None:
    assert explain_comparison(compared(engine, clips, pair)) == [
        "which scorer is closer to people is unknown, since no sample has ratings or labels"
    ]


def test_judged_pairs_are_left_out_and_counted(
    engine: Engine, clips: Dataset, samples: list[int], pair: tuple[int, int]
) -> None:
    """Where captions are judged, since scores of both kinds are not comparable."""
    people(engine, samples)
    before = compared(engine, clips, pair)
    video = add_video(engine, clips, "asked")
    asked = add_sample(engine, clips, video, "asked", kind="qa", question="what?", answer="a dog")
    rate(engine, asked, "a", 1)
    found = compared(engine, clips, pair)
    assert (found.people, found.n_judged, found.n_others) == (before.people, 8, 1)
    assert explain_comparison(found)[0] == (
        "only captions are compared with people, who also judged 1 question-answer pair"
    )


def test_one_rater_is_enough(engine: Engine, clips: Dataset, samples: list[int], pair: tuple[int, int]) -> None:
    people(engine, samples, raters="a")
    found = compared(engine, clips, pair)
    assert (found.people[0].n_raters, found.people[0].first["pearson"].value is None) == (1, False)


def test_constant_ratings_order_nothing(
    engine: Engine, clips: Dataset, samples: list[int], pair: tuple[int, int]
) -> None:
    for sample_id in samples:
        rate(engine, sample_id, "a", 3)
    found = compared(engine, clips, pair)
    assert found.people[0].p is None
    assert explain_comparison(found) == [
        "quality: nothing can be compared, since the ratings of 8 samples are all equal, or both scorers are constant"
    ]


def test_a_constant_scorer_orders_nothing(engine: Engine, clips: Dataset, samples: list[int]) -> None:
    people(engine, samples)
    first = set_scores(engine, dict.fromkeys(samples, 0.5), version="1")
    second = set_scores(engine, dict(zip(samples, NEW, strict=True)), version="2")
    found = compared(engine, clips, (first, second))
    assert {each.value for each in found.scores.correlations.values()} == {None}
    assert explain_comparison(found) == [
        f"vcs@{first} gives all 8 samples the value 0.5, so it cannot order them",
        f"quality: vcs@{first} has the same value for 8 samples, so it cannot order them",
    ]


def test_ratings_of_samples_that_failed_compare_nothing(
    engine: Engine, clips: Dataset, samples: list[int], pair: tuple[int, int]
) -> None:
    rate(engine, samples[0], "a", 3)
    rate(engine, samples[1], "a", 4)
    set_scores(engine, {samples[0]: None, samples[1]: None}, version="2")
    found = compared(engine, clips, pair)
    assert (found.people[0].n, found.people[0].n_raters, found.people[0].p) == (0, 0, None)
    assert explain_comparison(found)[0].startswith(
        "quality: too few samples to compare, 0 with ratings and values of both scorers"
    )


def test_one_video_has_no_test(engine: Engine, clips: Dataset) -> None:
    video = add_video(engine, clips, "only")
    ids = [add_sample(engine, clips, video, f"c{i}") for i in range(8)]
    people(engine, ids)
    first = set_scores(engine, dict(zip(ids, OLD, strict=True)), version="1")
    second = set_scores(engine, dict(zip(ids, NEW, strict=True)), version="2")
    found = compared(engine, clips, (first, second))
    assert found.scores.correlations["pearson"].low is None
    said = explain_comparison(found)
    assert said[0] == "there are no intervals, since all samples belong to one video"
    assert said[1].startswith("quality: which is closer to people is open: 1 video, 10 needed")


# Refusals


def test_the_same_scorer_twice(engine: Engine, clips: Dataset, pair: tuple[int, int]) -> None:
    with pytest.raises(NothingToCompare) as caught:
        compare_scorers(engine, clips, "vcs", str(pair[1]), 1)
    name = f"vcs@{pair[1]}"
    assert str(caught.value) == (
        f"'vcs' and '{pair[1]}' are the same scorer, {name}: name another one: vcs@{pair[0]} (retired)"
    )


def test_another_dataset(engine: Engine, pair: tuple[int, int]) -> None:
    with pytest.raises(NothingToCompare) as caught:
        compare_scorers(engine, make_dataset(engine, "other"), "vcs", f"vcs@{pair[0]}", 1)
    assert str(caught.value) == (
        f"vcs@{pair[1]} has no score on other, only on clips: run reelsieve score --dataset other --metric vcs, "
        f"with the models and parameters of vcs@{pair[1]} in the settings"
    )


def test_no_common_sample(engine: Engine, clips: Dataset, samples: list[int]) -> None:
    first = set_scores(engine, {**dict.fromkeys(samples[:4], 0.5), samples[4]: None}, version="1")
    second = set_scores(engine, dict.fromkeys(samples[4:], 0.5), version="2")
    with pytest.raises(NothingToCompare) as caught:
        compared(engine, clips, (first, second))
    assert str(caught.value) == (
        f"no sample of clips has values of both scorers (vcs@{first} has no value for 4 samples (3 not scored, "
        f"1 undefined); vcs@{second} has no value for 4 samples (4 not scored)): score samples that both "
        "metrics can score"
    )


def test_one_common_sample(engine: Engine, clips: Dataset, samples: list[int]) -> None:
    first = set_scores(engine, {samples[0]: 0.1}, version="1")
    found = compared(engine, clips, (first, set_scores(engine, {samples[0]: 0.4}, version="2")))
    assert explain_comparison(found)[0] == "only one sample has values of both scorers: a correlation needs two"
    assert found.scores.mean_difference.value == pytest.approx(0.3)


def test_a_scorer_that_scored_nothing(engine: Engine, clips: Dataset, pair: tuple[int, int]) -> None:
    unused = register(engine, version="3")
    with pytest.raises(NothingToCompare, match=f"vcs@{unused} has no score on clips: run reelsieve score"):
        compare_scorers(engine, clips, "vcs", f"vcs@{unused}", 1)
