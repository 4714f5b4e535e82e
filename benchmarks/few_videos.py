"""What noise may claim, and how often intervals hold the truth, from 2 to 20 videos: `python -m benchmarks.few_videos`.

Reports: metrics that know nothing are compared with people by two aspects, beside two baselines, and systems with each
other, as a report does it. Counted are the reports with any claim. The same for metrics that know something.
Intervals: how often they hold the coefficient of very many videos. `compare`: how often two metrics that know equally
much, one on a bent scale, are called different.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.measure import RESULTS, save
from metrics_core.agreement import AgreementRow, compare_with_people
from metrics_core.agreement.baseline_comparison import AspectComparisons, compare_with_rivals
from metrics_core.agreement.conclusions import (
    CLAIMS,
    MAX_P_VALUE,
    correct_p_values_of_claims,
    explain_agreement,
    explain_system_order,
    explain_too_few_videos,
)
from metrics_core.agreement.groupings import (
    ComparedValues,
    compute_per_system,
    compute_per_video,
    compute_pooled,
)
from metrics_core.agreement.inputs import build_inputs
from metrics_core.agreement.raters import compute_mean_ratings
from metrics_core.agreement.row import build_agreement_rows, index_comparisons
from metrics_core.arrays import FloatArray
from metrics_core.intervals import JackknifeStatistics, compute_cluster_means, draw_blocks

VIDEOS = (2, 3, 5, 8, 10, 15, 20)
SYSTEMS = 6
ASPECTS = ("accuracy", "style")
STATISTIC = "kendall_b"
TRUTH_VIDEOS = 6000
SWAPS = 200
REPORTS = {"noise, 4 metrics": (0.0, 4), "noise, 1 metric": (0.0, 1), "knows, 1 metric": (1.0, 1)}
"""Reports by how much their metrics know, and how many metrics there are."""


def resembling(rng: np.random.Generator, n_videos: int, width: int = SYSTEMS) -> FloatArray:
    """Numbers (n_videos, width) of variance 1, of which those of one video share half."""
    numbers: FloatArray = (rng.normal(size=(n_videos, 1)) + rng.normal(size=(n_videos, width))) / np.sqrt(2)
    return numbers


def world(rng: np.random.Generator, n_videos: int) -> tuple[FloatArray, FloatArray]:
    """How good captions are (n_videos * SYSTEMS,), and ratings from 1 to 5 (.., 2 raters) of them."""
    quality = resembling(rng, n_videos) + np.linspace(-0.8, 0.8, SYSTEMS)
    noise = rng.normal(size=(n_videos, SYSTEMS, 2))
    ratings: FloatArray = np.clip(np.round(3 + quality[..., None] + 0.7 * noise), 1, 5)
    return quality.ravel(), ratings.reshape(-1, 2)


def places(n_videos: int) -> tuple[list[int], list[int]]:
    """The video and the system of each caption."""
    return np.repeat(np.arange(n_videos), SYSTEMS).tolist(), np.tile(np.arange(SYSTEMS), n_videos).tolist()


def claims(rng: np.random.Generator, n_videos: int, knowledge: float, n_metrics: int) -> Iterator[str]:
    """What one report claims of metrics that know so much: the levels of verdicts, best systems, orders of systems."""
    quality, ratings = world(rng, n_videos)
    videos = places(n_videos)[0]
    known = [knowledge * quality + resembling(rng, n_videos).ravel() for _ in range(n_metrics)]
    metrics = {f"metric {i}": values for i, values in enumerate(known)}
    words = 0.3 * quality + resembling(rng, n_videos).ravel()
    baselines = {"length": rng.normal(size=quality.size), "words": words}
    other = np.clip(ratings + rng.integers(-1, 2, ratings.shape), 1, 5)
    rated = dict(zip(ASPECTS, (ratings, other), strict=True))
    rows = compare_with_baselines(metrics, baselines, rated, videos)
    leads = best_systems([*known, *(compute_mean_ratings(each) for each in rated.values())], n_videos)
    rows, others = correct_p_values_of_claims(rows, leads)
    # That the best system is best by ratings is no claim of a metric, but one of the page's.
    own = others[:n_metrics]
    yield from (
        "best system"
        for lead in own
        if lead is not None and lead <= MAX_P_VALUE and not explain_too_few_videos(n_videos)
    )
    for aspect in rated:
        for name in metrics:
            found = index_comparisons(row for row in rows if (row.metric, row.aspect) == (name, aspect))
            level = explain_agreement(name, aspect, found).level
            if level in CLAIMS:
                yield level
    for row in rows:
        if row.over == "systems" and explain_system_order(row).level != "open":
            yield "order of systems"


def compare_with_baselines(
    metrics: dict[str, FloatArray],
    baselines: dict[str, FloatArray],
    rated: dict[str, FloatArray],
    videos: list[int],
) -> list[AgreementRow]:
    """Compare metrics as the agreement table does, without the statistics that no claim rests on."""
    inputs = build_inputs(metrics, rated, videos, baselines=baselines)
    rows: list[AgreementRow] = []
    for aspect in rated:
        once = AspectComparisons(inputs, aspect)
        for name, values in metrics.items():
            captions = once.compute_pooled(name, np.isfinite(values) & once.is_rated)
            rows += build_agreement_rows((name, aspect, "captions"), captions, inputs.n_videos)
            systems = compute_per_system(sides(values, once.people, inputs.n_videos))
            rows += build_agreement_rows((name, aspect, "systems"), systems, inputs.n_videos)
            rows += compare_with_rivals(once, name)
    return rows


def best_systems(metrics: list[FloatArray], n_videos: int) -> list[float | None]:
    """For each metric how likely chance alone puts the best system so far above the next."""
    values = np.stack(metrics).reshape(len(metrics), n_videos, SYSTEMS).swapaxes(0, 1)
    means = compute_cluster_means([(values, np.ones_like(values))], values.shape)
    return [next((each.lead for each in of_metric if each.lead is not None), None) for of_metric in means]


def sides(metric: FloatArray, people: FloatArray, n_videos: int) -> ComparedValues:
    """A metric and people, caption by caption."""
    video, system = (np.array(each) for each in places(n_videos))
    return ComparedValues(metric, people, video, system, draw_blocks(video, 0))


def with_claims(n_videos: int, knowledge: float, n_reports: int, n_metrics: int = 4) -> float:
    """The share of reports with any claim, in [0, 1]."""
    rng = np.random.default_rng([n_videos, n_metrics, 1])
    return sum(any(True for _ in claims(rng, n_videos, knowledge, n_metrics)) for _ in range(n_reports)) / n_reports


def groupings(
    metric: FloatArray, people: FloatArray, other: FloatArray, n_videos: int
) -> dict[str, JackknifeStatistics]:
    """What intervals are asked of, by name. other: a baseline."""
    both, beside = sides(metric, people, n_videos), compute_pooled(sides(other, people, n_videos), (STATISTIC,))
    own = compute_pooled(both, (STATISTIC,))
    value, left_out = own.subtract(beside, STATISTIC)
    more = JackknifeStatistics({STATISTIC: value}, {STATISTIC: left_out}, {STATISTIC: 1}, {STATISTIC: 0}, 1)
    return {
        "pooled": own,
        "per video": compute_per_video(both, n_videos),
        "per system": compute_per_system(both),
        "difference from a baseline": more,
    }


def drawn(rng: np.random.Generator, n_videos: int, knowledge: float) -> dict[str, JackknifeStatistics]:
    """The same of one world; the baseline knows half as much."""
    quality, ratings = world(rng, n_videos)
    metric, other = (share * quality + resembling(rng, n_videos).ravel() for share in (knowledge, knowledge / 2))
    return groupings(metric, compute_mean_ratings(ratings), other, n_videos)


def coverage(n_videos: int, knowledge: float, n_worlds: int, truths: dict[str, float]) -> dict[str, float | None]:
    """How often the interval of each grouping holds its truth, where there is one; None where there is none."""
    rng, held = np.random.default_rng([n_videos, 2]), {name: [0, 0] for name in truths}
    for _ in range(n_worlds):
        for name, found in drawn(rng, n_videos, knowledge).items():
            each = found.compute_estimate(STATISTIC)
            if each.low is not None and each.high is not None:
                held[name][0] += each.low - 1e-12 <= truths[name] <= each.high + 1e-12
                held[name][1] += 1
    return {name: inside / n if n else None for name, (inside, n) in held.items()}


def true_values(knowledge: float, n_videos: int = TRUTH_VIDEOS) -> dict[str, float]:
    """The statistics of very many videos."""
    found = drawn(np.random.default_rng(0), n_videos, knowledge)
    return {name: float(each.values[STATISTIC] or 0.0) for name, each in found.items()}


def false_differences(n_sets: int, n_videos: int = 60, captions: int = 5) -> dict[str, float]:
    """The share of sets in which two metrics that know equally much are called different; one is on a bent scale."""
    rng, different = np.random.default_rng(3), {"tau-b": 0}
    for _ in range(n_sets):
        quality = resembling(rng, n_videos, captions).ravel()
        people, first, second = (quality + 0.7 * rng.normal(size=quality.size) for _ in range(3))
        videos = np.repeat(np.arange(n_videos), captions).tolist()
        rated = {"quality": people[:, None]}
        [found] = compare_with_people(first, np.exp(2 * second), rated, videos, n_resamples=SWAPS)
        different["tau-b"] += found.p_holm is not None and found.p_holm < MAX_P_VALUE
    return {name: n / n_sets for name, n in different.items()}


def main() -> None:
    """Run everything, print tables and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--worlds", type=int, default=500, help="reports, intervals and sets of every kind")
    n = parser.parse_args().worlds
    result: dict[str, Any] = {"worlds": n, "claims": {}, "coverage": {}}
    for name, (knowledge, n_metrics) in REPORTS.items():
        shares = {videos: with_claims(videos, knowledge, n, n_metrics) for videos in VIDEOS}
        result["claims"][name] = shares
        print(f"reports with a claim, {name}:", *(f"{v}: {share:.1%}" for v, share in shares.items()), flush=True)
    for knowledge in (0.0, 1.0):
        truths = true_values(knowledge)
        held = {videos: coverage(videos, knowledge, n, truths) for videos in VIDEOS}
        result["coverage"][str(knowledge)] = {"truths": truths, "held": held}
        for name, truth in truths.items():
            shown = (f"{v}: {'none' if (share := held[v][name]) is None else f'{share:.1%}'}" for v in VIDEOS)
            print(f"held, knowledge {knowledge}, {name} ({truth:.3f}):", *shown, flush=True)
    result["false differences"] = false_differences(n)
    print("called different:", result["false differences"])
    print(f"written to {save(RESULTS / 'few_videos.json', result)}")


if __name__ == "__main__":
    main()
