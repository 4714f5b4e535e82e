"""Cuts by ratings: against a worked example, against trying everything, and where there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from metrics_core.calibration.rated_search import FEWEST_SAMPLES, FEWEST_VIDEOS, FOLDS, find_rated_threshold

FEW: dict[str, Any] = {"n_resamples": 50}
# Ten videos of two samples. The good ones are rated 4 or 5.
SCORES = [0.9, 0.8, 0.9, 0.7, 0.8, 0.6, 0.7, 0.5, 0.9, 0.4, 0.3, 0.2, 0.3, 0.1, 0.6, 0.2, 0.3, 0.1, 0.2, 0.1]
RATINGS = [5, 4, 5, 4, 5, 4, 5, 1, 4, 4, 2, 1, 2, 1, 1, 2, 1, 2, 4, 1]
VIDEOS = [f"v{number}" for number in range(10) for _ in range(2)]


def test_the_worked_example() -> None:
    """The good samples are at .9 .8 .9 .7 .8 .6 .7 .9 .4 .2, of the others one at .6, one at .5 and the rest below .4.

    From .7 on seven of ten good ones stay and no other, from .6 on eight and one, from .4 on nine and two: J is .7 for
    each of these cuts, and the highest counts.
    """
    found = find_rated_threshold(SCORES, RATINGS, VIDEOS, least_rating=4, n_resamples=1000)
    assert (found.status, found.reason) == ("ok", None)
    assert (found.n, found.n_good, found.n_videos, found.least_rating) == (20, 10, 10, 4.0)
    assert (found.at_least, found.kept_good, found.kept_others) == (0.7, 0.7, 0.0)
    assert found.youden == pytest.approx(0.7)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 0.7 <= found.high


def test_good_is_the_upper_half_unless_it_is_said() -> None:
    """The median of the ratings, here of ten above 3 and ten below, lies between 2 and 4."""
    found = find_rated_threshold(SCORES, RATINGS, VIDEOS, **FEW)
    assert (found.least_rating, found.n_good) == (3.0, 10)
    assert find_rated_threshold(SCORES, RATINGS, VIDEOS, least_rating=5, **FEW).n_good == 4
    # Most have the lowest rating: the next one is good, or everything would be.
    few_good = [1 if rating < 5 else rating for rating in RATINGS]
    found = find_rated_threshold(SCORES, few_good, VIDEOS, **FEW)
    assert (found.least_rating, found.n_good) == (5.0, 4)


def test_samples_without_a_score_or_a_rating_do_not_count_but_their_ratings_say_what_is_good() -> None:
    scores, ratings = [*SCORES, np.nan, np.nan, 0.9], [*RATINGS, 9, 9, np.nan]
    found = find_rated_threshold(scores, ratings, [*VIDEOS, "w", "w", "w"], **FEW)
    assert (found.n, found.n_videos, found.least_rating) == (20, 10, 4.0)


# Trying everything


def brute_force(scores: list[float], good: list[bool]) -> tuple[float, float]:
    """The highest of the cuts with the greatest J, and J."""

    def youden(cut: float) -> float:
        stays = [score >= cut for score in scores]
        of_good = sum(s for s, g in zip(stays, good, strict=True) if g)
        of_others = sum(s for s, g in zip(stays, good, strict=True) if not g)
        n_good = sum(good)
        # In whole numbers, so that equal ones are equal.
        return of_good * (len(good) - n_good) - of_others * n_good

    best = max(set(scores), key=lambda cut: (youden(cut), cut))
    return best, youden(best) / (sum(good) * (len(good) - sum(good)))


def by_hand_elsewhere(scores: list[float], good: list[bool], videos: list[int], seed: int, *, both_ways: bool) -> float:
    """J of all samples together, each decided by the cut of the four parts that its video is not in."""
    names = sorted(set(videos))
    part = dict(zip(names, np.random.default_rng(seed).permutation(len(names)) % FOLDS, strict=True))
    stays = []
    for score, video in zip(scores, videos, strict=True):
        rest = [i for i, other in enumerate(videos) if part[other] != part[video]]
        labels = [good[i] for i in rest]
        best = (0.0, -np.inf, 1)
        if 0 < sum(labels) < len(labels):
            for sign in (1, -1) if both_ways else (1,):
                cut, reached = brute_force([sign * scores[i] for i in rest], labels)
                if reached > best[0]:
                    best = (reached, cut, sign)
        stays.append(best[2] * score >= best[1])
    kept = [sum(s for s, g in zip(stays, good, strict=True) if g is kind) for kind in (True, False)]
    return kept[0] / sum(good) - kept[1] / (len(good) - sum(good))


DRAWN = st.integers(20, 60).flatmap(
    lambda n: st.tuples(
        arrays(np.float64, n, elements=st.integers(-4, 6).map(lambda v: v / 4)),
        arrays(np.float64, n, elements=st.integers(1, 5).map(float)),
        arrays(np.int64, n, elements=st.integers(0, 14)),
    )
)


@given(drawn=DRAWN, least=st.sampled_from([None, 2.0, 3.0, 4.5]), seed=st.integers(0, 3))
def test_cut_and_figures_on_other_videos_equal_those_of_trying_everything(
    drawn: tuple[Any, Any, Any], least: float | None, seed: int
) -> None:
    scores, ratings, videos = drawn
    words = np.roll(scores, 1) * 4
    found = find_rated_threshold(
        scores, ratings, videos, {"words": words}, least_rating=least, n_resamples=20, seed=seed
    )
    limit = float(np.median(ratings)) if least is None else least
    if least is None and limit == ratings.min():
        limit = min((rating for rating in ratings.tolist() if rating > limit), default=limit)
    good = (ratings >= limit).tolist()
    n_videos = len(set(videos.tolist()))
    assert (found.n, found.n_good, found.n_videos) == (len(good), sum(good), n_videos)
    if n_videos < FEWEST_VIDEOS:
        assert found.status == "few_ratings"
    elif all(good) or not any(good):
        assert found.status == ("all_good" if all(good) else "none_good")
    elif len(set(scores.tolist())) == 1:
        assert found.status == "constant_scores"
    elif (best := brute_force(scores.tolist(), good))[1] <= 0:
        assert found.status == "no_better"
    else:
        assert found.status == "ok"
        assert found.at_least == best[0]
        assert found.youden == pytest.approx(best[1])
        assert found.held_out is not None
        (baseline,) = found.baselines
        own = by_hand_elsewhere(scores.tolist(), good, videos.tolist(), seed, both_ways=False)
        of_words = by_hand_elsewhere(words.tolist(), good, videos.tolist(), seed, both_ways=True)
        assert found.held_out.value == pytest.approx(own)
        assert baseline.held_out.value == pytest.approx(of_words)
        assert baseline.gain.value == pytest.approx(own - of_words)
    assert (found.at_least is None) == (found.reason is not None) == (found.status != "ok")
    assert (found.held_out is None) == (found.youden is None) == (found.status != "ok")


@given(drawn=DRAWN, seed=st.integers(0, 99))
def test_neither_the_order_of_samples_nor_a_rising_scale_matters(drawn: tuple[Any, Any, Any], seed: int) -> None:
    scores, ratings, videos = drawn
    mixed = np.random.default_rng(seed).permutation(scores.size)
    found = find_rated_threshold(scores, ratings, videos, n_resamples=20)
    again = find_rated_threshold(np.exp(scores[mixed]), ratings[mixed], videos[mixed], n_resamples=20)
    assert (again.status, again.kept_good, again.kept_others) == (found.status, found.kept_good, found.kept_others)
    if found.at_least is not None:
        assert again.at_least == np.exp(found.at_least)
        assert again.held_out == found.held_out


# What the numbers mean


def drawn_scores(n_videos: int, signal: float, seed: int) -> tuple[Any, Any, Any]:
    """Four samples a video, whose ratings follow the scores as far as `signal` says, and a video's mood."""
    rng = np.random.default_rng(seed)
    videos = np.repeat(np.arange(n_videos), 4)
    scores = rng.normal(size=videos.size)
    return scores, signal * scores + rng.normal(size=videos.size) + rng.normal(size=n_videos)[videos], videos


def test_scores_that_say_nothing_reach_nothing_on_other_videos() -> None:
    """On the samples that the cut was found on they always reach something; elsewhere they do not."""
    found = [find_rated_threshold(*drawn_scores(40, 0.0, seed), n_resamples=20) for seed in range(30)]
    flattering = [each.youden for each in found if each.youden is not None]
    honest = [each.held_out.value for each in found if each.held_out is not None]
    assert min(flattering) > 0
    assert np.mean(flattering) > 0.08
    assert abs(float(np.mean(honest))) < 0.05


def test_the_interval_holds_the_cut_of_all_videos_and_narrows_with_videos() -> None:
    """Where ratings jump at 0, cuts lie near 0, and the nearer, the more videos there are."""

    def jump(n_videos: int) -> tuple[float, float]:
        scores, noise, videos = drawn_scores(n_videos, 0.0, 3)
        found = find_rated_threshold(scores, 2 * (scores > 0) + noise, videos, least_rating=1, n_resamples=200)
        assert found.low is not None
        assert found.high is not None
        return found.low, found.high

    (low, high), (low_of_many, high_of_many) = jump(30), jump(600)
    assert low < 0.05
    assert high > -0.05
    assert high_of_many - low_of_many < (high - low) / 2


def test_the_strongest_baseline_stands_beside_it_whichever_way_it_cuts() -> None:
    scores, ratings, videos = drawn_scores(60, 0.5, 1)
    nearly = ratings + 0.1 * scores
    baselines = {
        "chance": np.zeros(scores.size),
        "turned round": -nearly,
        "gaps": np.where(videos == 3, np.nan, nearly),
    }
    found = find_rated_threshold(scores, ratings, videos, baselines, **FEW)
    assert [each.name for each in found.baselines] == ["chance", "turned round"], "one has no number for a sample"
    assert found.baselines[0].held_out.value == 0
    strongest = found.strongest_baseline
    assert strongest is not None
    assert strongest.name == "turned round"
    assert strongest.held_out.value > 0.9
    assert strongest.gain.high is not None
    assert strongest.gain.high < 0
    assert (
        find_rated_threshold(scores, ratings, videos, {"chance": np.zeros(scores.size)}, **FEW).strongest_baseline
        is None
    )


def test_equal_arguments_give_equal_results() -> None:
    drawn = drawn_scores(30, 1.0, 5)
    assert find_rated_threshold(*drawn, seed=4, **FEW) == find_rated_threshold(*drawn, seed=4, **FEW)


# None


@pytest.mark.parametrize(
    ("scores", "ratings", "least", "status", "reason"),
    [
        (SCORES, [np.nan] * 20, None, "no_ratings", "no sample is rated"),
        (
            SCORES[:4] + [np.nan] * 16,
            RATINGS,
            None,
            "few_ratings",
            "4 rated samples of 2 videos have a score, and a threshold needs 20 samples of 10 videos",
        ),
        ([0.5] + [np.nan] * 19, RATINGS, None, "few_ratings", "1 rated sample of 1 video has a score, and"),
        (SCORES, [3] * 20, None, "all_good", "every rating is at least 3: raise the lowest rating of a good sample"),
        (SCORES, RATINGS, 5.5, "none_good", "no rating is at least 5.5: lower the lowest rating of a good sample"),
        ([0.25] * 20, RATINGS, 4, "constant_scores", "all 20 scores are 0.25: no threshold separates them"),
        ([-r for r in RATINGS], RATINGS, 4, "no_better", "no threshold keeps more of the good samples than of"),
    ],
)
def test_where_there_is_no_cut_words_say_why(
    scores: list[float], ratings: list[float], least: float | None, status: str, reason: str
) -> None:
    found = find_rated_threshold(scores, ratings, VIDEOS, least_rating=least)
    assert found.status == status
    assert found.reason is not None
    assert found.reason.startswith(reason)
    assert (found.at_least, found.low, found.high, found.held_out, found.youden, found.strongest_baseline) == (
        None,
    ) * 6


def test_as_few_as_it_takes() -> None:
    assert (len(SCORES), len(set(VIDEOS))) == (FEWEST_SAMPLES, FEWEST_VIDEOS)
    assert find_rated_threshold(SCORES, RATINGS, VIDEOS, **FEW).status == "ok"
    assert find_rated_threshold(SCORES[1:], RATINGS[1:], VIDEOS[1:], **FEW).status == "few_ratings"
    assert find_rated_threshold(SCORES, RATINGS, ["v1", "v1", *VIDEOS[2:]], **FEW).status == "few_ratings"


def test_arguments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"ratings \(19,\), and there are 20 videos: give a score"):
        find_rated_threshold(SCORES, RATINGS[1:], VIDEOS)
    with pytest.raises(ValueError, match="least_rating is nan"):
        find_rated_threshold(SCORES, RATINGS, VIDEOS, least_rating=float("nan"))
