"""How many ratings settle a question, drawn for it and at random, on VATEX-EVAL: `python -m benchmarks.sampling`.

The questions are those of `metrics_core.agreement.sampling`. The draws are simulated on the ratings that there are: the
captions come in the order of a draw, and after so many ratings each estimate and its interval are compared with what
all ratings give. Half of the videos settled the design (`--half design`); what is reported is of the other half, which
nothing was chosen on. A caption's rating is that of one rater, or the mean of the three.

- needed: ratings of captions after which 4 of 5 draws have an interval on the right side of 0; its interval
  resamples the draws.
- held: how often the 95 % interval for any number of looks holds the value of all ratings, at worst over the numbers
  of ratings.
- wrong: how often a rater who looks after each of these numbers, and stops where an interval excludes 0, stops at the
  wrong answer.

Systems are the places of the captions in the file, which names no systems.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from benchmarks.installation import temporary_engine
from benchmarks.measure import RESULTS, save, vatex_source
from benchmarks.vatex_eval import Clock, ingested, judged_captions, scores_by_name
from db.reports.agreement import list_judged_samples
from db.schema import reference
from metrics_core.agreement import compute_words_in_common
from metrics_core.agreement.difference_estimates import (
    EXPECTED_DIFFERENCE,
    DifferenceEstimate,
    compute_rating_difference,
    compute_tau_difference,
    compute_youden_difference,
)
from metrics_core.agreement.sampling import (
    compute_draw_keys,
    compute_draw_weights,
    compute_metric_draw_shares,
    compute_threshold_draw_shares,
)
from metrics_core.arrays import FloatArray, IntArray, number_groups
from metrics_core.intervals import confidence_sequence, draw_blocks, jackknife

NUMBERS = (50, 71, 100, 141, 200, 283, 400, 566, 800, 1131, 1600)
"""Ratings of captions after which a draw is looked at."""
MOST = 0.8
OFTEN = 0.5
"""How often intervals hold the truth is told of numbers of ratings at which so many draws have one."""
GOOD = 4.0
METRIC_PAIRS = (("words", "cosine"), ("vcs_short", "cosine"), ("words", "vcs_short"))
CUTS = (("cosine", 0.1, 0.3), ("cosine", 0.3, 0.5), ("cosine", 0.5, 0.7), ("cosine", 0.7, 0.8), ("cosine", 0.8, 0.9))
SYSTEM_PAIRS = ((0, 3), (1, 2), (2, 4), (0, 5))


@dataclass(frozen=True)
class Captions:
    """Captions with their values (n,) by metric, ratings (n, 3), and the numbers of their videos and systems (n,)."""

    values: Mapping[str, FloatArray]
    ratings: FloatArray
    video: IntArray
    system: IntArray

    def half(self, name: str) -> Captions:
        """The captions of every second video, "design" or "evaluated"."""
        order = np.random.default_rng(25).permutation(int(self.video.max()) + 1)
        kept = (order % 2 == (name == "evaluated"))[self.video]
        values = {metric: each[kept] for metric, each in self.values.items()}
        return Captions(values, self.ratings[kept], number_groups(self.video[kept].tolist()), self.system[kept])


@dataclass(frozen=True)
class Draw:
    """Units by their shares (n,). answer: what some units (rows) say with weights. cost: captions per unit."""

    shares: FloatArray
    answer: Callable[[IntArray, FloatArray], DifferenceEstimate]
    cost: int = 1


def even(n: int) -> FloatArray:
    """The shares of a draw at random."""
    return np.full(n, 1 / n)


def of_metrics(captions: Captions, people: FloatArray, first: str, second: str) -> dict[str, Draw]:
    """Which of two metrics is closer to people?"""
    one, other = captions.values[first], captions.values[second]

    def answer(rows: IntArray, weights: FloatArray) -> DifferenceEstimate:
        return compute_tau_difference(one[rows], other[rows], people[rows], weights, captions.video[rows].tolist())

    return {"random": Draw(even(one.size), answer), "drawn": Draw(compute_metric_draw_shares(one, other), answer)}


def of_cuts(captions: Captions, people: FloatArray, metric: str, lower: float, upper: float) -> dict[str, Draw]:
    """Which of two cuts on a metric, at these quantiles of it, is better?"""
    values = captions.values[metric]
    low, high = np.quantile(values, [lower, upper]).tolist()

    def answer(rows: IntArray, weights: FloatArray) -> DifferenceEstimate:
        good = people[rows] >= GOOD
        return compute_youden_difference(values[rows], good, low, high, weights, captions.video[rows].tolist())

    return {
        "random": Draw(even(values.size), answer),
        "drawn": Draw(compute_threshold_draw_shares(values, low, high), answer),
    }


def of_systems(captions: Captions, people: FloatArray, first: int, second: int) -> dict[str, Draw]:
    """Which of two systems is better? At random a unit is a caption of any system, otherwise a video with both."""
    places = np.full((int(captions.video.max()) + 1, 2), -1)
    for side, system in enumerate((first, second)):
        mine = np.flatnonzero(captions.system == system)
        places[captions.video[mine], side] = mine
    places = places[(places >= 0).all(axis=1)]
    moved = people[places[:, 1]] - people[places[:, 0]]

    def paired(rows: IntArray, weights: FloatArray) -> DifferenceEstimate:
        return compute_rating_difference(moved[rows], weights, rows.tolist(), greatest_difference=4.0)

    def alone(rows: IntArray, weights: FloatArray) -> DifferenceEstimate:
        return _apart(captions, people, rows[weights > 0], first, second)

    return {"random": Draw(even(people.size), alone), "drawn": Draw(even(len(places)), paired, 2)}


def _apart(captions: Captions, people: FloatArray, rows: IntArray, first: int, second: int) -> DifferenceEstimate:
    """The mean rating of a system less another one's, of captions of all videos."""
    rows = rows[np.isin(captions.system[rows], (first, second))]
    rated, is_second = people[rows], captions.system[rows] == second

    def difference(kept: IntArray) -> dict[str, float | None]:
        sides = [rated[kept][is_second[kept] == side] for side in (False, True)]
        return {"mean": float(sides[1].mean() - sides[0].mean()) if all(each.size for each in sides) else None}

    video = number_groups(captions.video[rows].tolist())
    found = jackknife(difference, draw_blocks(video, 0))
    each = confidence_sequence(
        found.values["mean"], found.jackknife_values["mean"], 4 * EXPECTED_DIFFERENCE, bounds=(-4.0, 4.0)
    )
    return DifferenceEstimate(each.value, each.low, each.high, video.size, int(video.max(initial=-1)) + 1)


def questions(captions: Captions, people: FloatArray) -> Iterator[tuple[str, str, dict[str, Draw]]]:
    """Every question: its kind, its name and its draws."""
    for first, second in METRIC_PAIRS:
        yield "metrics", f"{second} or {first}", of_metrics(captions, people, first, second)
    for metric, lower, upper in CUTS:
        name = f"{metric} cut at {upper:.0%} or {lower:.0%}"
        yield "cuts", name, of_cuts(captions, people, metric, lower, upper)
    for one, other in SYSTEM_PAIRS:
        yield "systems", f"place {other + 1} or {one + 1}", of_systems(captions, people, one, other)


def simulated(draw: Draw, n_draws: int) -> dict[str, Any]:
    """The value of all ratings, and what is needed, held and wrong."""
    everything = np.arange(draw.shares.size)
    truth = draw.answer(everything, np.ones(draw.shares.size))
    assert truth.value is not None
    looks = np.stack([_looks(draw, truth.value, seed) for seed in range(n_draws)])
    settled, held = looks[..., 0], looks[..., 1]
    rng = np.random.default_rng(0)
    again = [needed((settled[rng.integers(n_draws, size=n_draws)] == 1).mean(axis=0)) for _ in range(1000)]
    # Draws that never get there stand at the end: more than the greatest number.
    low, high = np.quantile([each or np.inf for each in again], [0.025, 0.975], method="nearest")
    shares = (settled == 1).mean(axis=0)
    first = np.where((settled != 0).any(axis=1), (settled != 0).argmax(axis=1), -1)
    wrong = [settled[seed, look] == -1 for seed, look in enumerate(first) if look >= 0]
    defined = np.isfinite(held)
    return {
        "value": truth.value,
        "low": truth.low,
        "high": truth.high,
        "needed": needed(shares),
        "needed_low": None if np.isinf(low) else float(low),
        "needed_high": None if np.isinf(high) else float(high),
        "settled": dict(zip(map(str, NUMBERS), shares.tolist(), strict=True)),
        "held": {
            str(number): float(held[defined[:, look], look].mean())
            for look, number in enumerate(NUMBERS)
            if defined[:, look].mean() >= OFTEN
        },
        "wrong_at_first_stop": sum(map(float, wrong)) / n_draws,
    }


def _looks(draw: Draw, truth: float, seed: int) -> FloatArray:
    """What each look at a draw finds, (numbers, 2): settled rightly (1), wrongly (-1), open (0); is truth held?"""
    keys = compute_draw_keys(draw.shares, np.random.default_rng([seed, 25]).random(draw.shares.size))
    order = np.argsort(keys)
    found = np.full((len(NUMBERS), 2), np.nan)
    found[:, 0] = 0
    for look, number in enumerate(NUMBERS):
        rows = order[: number // draw.cost]
        answer = draw.answer(rows, compute_draw_weights(keys[rows], draw.shares[rows]))
        if answer.low is not None and answer.high is not None:
            settled = 0 if answer.winner is None else 1 if (answer.winner == 1) == (truth > 0) else -1
            found[look] = settled, answer.low <= truth <= answer.high
    return found


def needed(shares: FloatArray) -> float | None:
    """The number of ratings at which the share of settled draws reaches MOST for good, between two looks on a line.

    None where it does not. Numbers are on the scale of logarithms.

    >>> round(needed(np.array([0.0] * 9 + [0.75, 0.85])))
    1345
    """
    below = np.flatnonzero(shares < MOST)
    if below.size == 0:
        return float(NUMBERS[0])
    at = int(below[-1])
    if at == len(NUMBERS) - 1:
        return None
    part = (MOST - shares[at]) / (shares[at + 1] - shares[at])
    return float(np.exp(np.log(NUMBERS[at]) * (1 - part) + np.log(NUMBERS[at + 1]) * part))


def load(engine: Engine, source: Path, folder: Path) -> Captions:
    """Ingest VATEX-EVAL with one and with nine references, and score it."""
    clock, values = Clock(), {}
    for n_references in (1, 9):
        dataset = ingested(engine, source, folder / str(n_references), n_references, clock)
        judged, _ = judged_captions(engine, dataset, 1.0, clock)
        scores = scores_by_name(engine, judged, 1.0)
        with engine.connect() as connection:
            samples = list_judged_samples(connection, dataset.dataset_id)
            query = sa.select(reference.c.video_id, reference.c.text).where(
                reference.c.dataset_id == dataset.dataset_id
            )
            references: dict[int, list[str]] = {}
            for video_id, text in connection.execute(query):
                references.setdefault(video_id, []).append(text)
        if [each.sample_id for each in samples] != [row.sample_id for row in judged]:
            raise SystemExit("a caption has no score, and the benchmark takes all of them")
        texts = compute_words_in_common(
            [each.text for each in samples], [references[each.video_id] for each in samples]
        )
        found = {"words": texts, "cosine": scores["highest gas"], "vcs_short": scores["vcs_short"]}
        values |= {name if n_references == 1 else f"{name} of 9": each for name, each in found.items()}
    ratings = np.array([row.ratings for row in judged], dtype=np.float64)
    video = number_groups([row.video_id for row in judged])
    system = np.array([int(row.system.removeprefix("candidate_")) - 1 for row in judged], dtype=np.int64)
    return Captions(values, ratings, video, system)


def line(row: Mapping[str, Any], beside: Mapping[str, Any]) -> str:
    """A row of the table; beside: that of the draw at random."""
    few = "not reached" if row["needed"] is None else f"{row['needed']:.0f}"
    gain = row["needed"] / beside["needed"] if row["needed"] and beside["needed"] else None
    held = row["held"].values()
    return (
        f"{row['ratings']:<10}{row['question']:<28}{row['draw']:<22}{row['value']:>8.4f}{few:>13}"
        f" ({row['needed_low'] or 0:.0f} to {row['needed_high'] or np.inf:.0f})"
        f"{'' if gain is None else f'{gain:>7.2f}'}  held {min(held):.3f} to {max(held):.3f}"
        f"  wrong {row['wrong_at_first_stop']:.3f}"
    )


def main() -> None:
    """Simulate, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--draws", type=int, default=400, help="draws of each kind")
    parser.add_argument(
        "--half", choices=("design", "evaluated"), default="evaluated", help="videos that are drawn from"
    )
    given = parser.parse_args()
    source = vatex_source()
    with (
        tempfile.TemporaryDirectory(prefix="reelsieve-") as temporary,
        temporary_engine(Path(temporary) / "home") as engine,
    ):
        captions = load(engine, source, Path(temporary)).half(given.half)
    rows = results(captions, given.draws)
    result = {"half": given.half, "draws": given.draws, "captions": captions.video.size, "numbers": NUMBERS}
    if given.half == "evaluated":
        print(f"written to {save(RESULTS / 'sampling.json', {**result, 'results': rows})}")


def results(captions: Captions, n_draws: int) -> list[dict[str, Any]]:
    """A row for every draw of every question, printed as it comes."""
    rows: list[dict[str, Any]] = []
    for rated, people in {"one rater": captions.ratings[:, 0], "mean of 3": captions.ratings.mean(axis=1)}.items():
        for kind, question, draws in questions(captions, people):
            found = {}
            for name, draw in draws.items():
                found[name] = {"ratings": rated, "kind": kind, "question": question, "draw": name}
                found[name] |= simulated(draw, n_draws)
                print(line(found[name], found["random"]), flush=True)
            rows += found.values()
    return rows


if __name__ == "__main__":
    main()
