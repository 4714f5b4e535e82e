"""Promises and corrected means in simulated worlds with known labels: `python -m benchmarks.promise_worlds`.

Every world has 20,000 captions in the order of a recipe, each with a fixed label, error or not. A walk asks captions in
the order of permanent random numbers, always in the first set that is not confirmed, until its answers are used up. The
plain version walks eleven shares from 1/32 on, with a prior that expects as many errors as the limit. The product walks
DEFAULT_SHARES, nine from .06 on, with `Prior.build`; as a first attempt it has half of the level. All versions see the
same worlds. A promise is broken where the frozen set holds more errors than allowed. "of best" is the mean share that
the oracle freezes, the largest set of the order that keeps the limit; "share" is that of a version, 0 for a refusal.

The second part draws samples from fixed populations and counts how often the interval of `estimate_mean` holds the
true mean.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.measure import RESULTS, save
from metrics_core.promise import (
    DEFAULT_SHARES,
    Prior,
    compute_attempt_level,
    compute_least_log_evidence,
    count_allowed_errors,
    estimate_mean,
)

SIZE = 20_000
ANSWERS = (100, 200, 400, 800)
SEED = 37
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
MakeLabels = Callable[[np.random.Generator], Bools]


@dataclass(frozen=True)
class World:
    """A way to draw the labels of all captions in the order of the recipe, and the limit of the promise."""

    name: str
    limit: float
    make_labels: MakeLabels


@dataclass(frozen=True)
class Version:
    """A list of shares, a prior, and the level of every test."""

    name: str
    shares: tuple[float, ...]
    prior: Prior
    level: float = 0.05


@dataclass(frozen=True)
class Outcome:
    """What a version did in many worlds of one kind with so many answers: in which part of the worlds a set was frozen,
    in which part it broke its promise, in which part it would have broken it if stopped at the worst moment (any set
    that was confirmed up to then), and the mean share that it froze (0 for a refusal) beside the oracle's.
    """

    world: str
    limit: float
    version: str
    answers: int
    worlds: int
    frozen: float
    broken: float
    ever_broken: float
    share: float
    best: float
    asked: float


def make_rising(lowest: float, highest: float, power: float = 1.0) -> MakeLabels:
    """Labels whose rate rises with rank from the lowest to the highest."""
    rates = lowest + (highest - lowest) * (np.arange(SIZE) / (SIZE - 1)) ** power
    return lambda random: random.random(SIZE) < rates


def make_by_video(lowest: float, highest: float, captions: int) -> MakeLabels:
    """Labels of videos with several captions each, whose rates are alike: a third of the videos has three times the
    rate, the others none. Captions of a video are spread over neighbouring ranks.
    """
    rates = np.linspace(lowest, highest, SIZE)

    def make(random: np.random.Generator) -> Bools:
        is_bad = np.repeat(random.random(SIZE // captions) < 1 / 3, captions)
        labels = random.random(SIZE) < np.where(is_bad, np.minimum(3 * rates, 1), 0)
        return labels[np.argsort(np.arange(SIZE) + random.normal(0, SIZE / 20, SIZE))]

    return make


def make_tied(lowest: float, highest: float, values: int) -> MakeLabels:
    """Labels in an order that knows only so many values, ties by chance: the rate rises in steps."""
    steps = np.floor(np.arange(SIZE) * values / SIZE) / (values - 1)
    rates = lowest + (highest - lowest) * steps
    return lambda random: random.random(SIZE) < rates


def make_edge(limit: float) -> MakeLabels:
    """Labels with exactly one error too many in every set of eighths, the hardest false sets."""

    def make(random: np.random.Generator) -> Bools:
        labels = np.zeros(SIZE, dtype=np.bool_)
        ends = [SIZE // 8, SIZE // 4, SIZE // 2, SIZE]
        before, errors = 0, 0
        for end in ends:
            wanted = count_allowed_errors(end, limit) + 1
            labels[random.choice(np.arange(before, end), wanted - errors, replace=False)] = True
            before, errors = end, wanted
        return labels

    return make


def list_worlds() -> list[World]:
    """The worlds of the issue's table, and harder ones."""
    return [
        World("good", 0.10, make_rising(0.01, 0.26)),
        World("good", 0.05, make_rising(0.01, 0.26)),
        World("weak", 0.10, make_rising(0.05, 0.20)),
        World("all .04, ranks random", 0.10, make_rising(0.04, 0.04)),
        World("all .12", 0.10, make_rising(0.12, 0.12)),
        World("four captions a video", 0.10, make_by_video(0.01, 0.26, 4)),
        World("twelve values, ties", 0.10, make_tied(0.01, 0.26, 12)),
        World("one error too many everywhere", 0.05, make_edge(0.05)),
        World("one error too many everywhere", 0.20, make_edge(0.20)),
    ]


def list_versions(limit: float) -> list[Version]:
    """The plain version and the product's."""
    plain = tuple(2 ** (-5 + step / 2) for step in range(11))
    return [
        Version("plain", plain, Prior(1, 1 / limit - 1)),
        Version("plain, other prior", plain, Prior.build(limit)),
        Version("product", DEFAULT_SHARES, Prior.build(limit)),
        Version("product, first attempt", DEFAULT_SHARES, Prior.build(limit), compute_attempt_level(0.05, 1)),
        Version("from 1/8", DEFAULT_SHARES[2:], Prior.build(limit)),
        Version("doubled from 1/8", DEFAULT_SHARES[2::2], Prior.build(limit)),
    ]


def walk(labels: Bools, order: npt.NDArray[np.intp], version: Version, limit: float) -> Iterator[int]:
    """Yield for every set in turn the number of answers that were used until it was confirmed; ends at the first set
    that is not confirmed with the most answers. The answers of a set are those of its members in the order of the draw.
    """
    used, through = 0, np.full(len(order), False)
    for share in version.shares:
        size = max(1, math.floor(share * len(labels)))
        members = order[order < size][: ANSWERS[-1]]
        n_asked, n_wrong = np.arange(1, members.size + 1), np.cumsum(labels[members])
        least = count_allowed_errors(size, limit) + 1
        evidence = compute_least_log_evidence(size, least, n_asked, n_wrong, version.prior)
        enough = np.flatnonzero(evidence >= -math.log(version.level))
        if not enough.size:
            return
        asked = members[: enough[0] + 1]
        used += int((~through[asked]).sum())
        through[asked] = True
        yield used


def simulate(world: World, n_worlds: int, seed: int) -> list[Outcome]:
    """Walk in many worlds of one kind with every version."""
    versions = list_versions(world.limit)
    random = np.random.default_rng([seed, int(world.limit * 1000), len(world.name)])
    frozen = np.zeros((len(versions), len(ANSWERS)))
    broken, ever, share, asked = (np.zeros_like(frozen) for _ in range(4))
    best = 0.0
    for _ in range(n_worlds):
        labels = world.make_labels(random)
        errors = np.cumsum(labels)
        keeps = np.flatnonzero(errors <= world.limit * np.arange(1, SIZE + 1) + 1e-9)
        best += (keeps[-1] + 1) / SIZE if keeps.size else 0
        order = random.permutation(SIZE)
        for row, version in enumerate(versions):
            used = np.array(list(walk(labels, order, version, world.limit)))
            ends = [max(1, math.floor(part * SIZE)) for part in version.shares]
            is_broken = np.array([errors[end - 1] > count_allowed_errors(end, world.limit) for end in ends])
            for column, budget in enumerate(ANSWERS):
                n_confirmed = int((used <= budget).sum())
                if n_confirmed:
                    frozen[row, column] += 1
                    share[row, column] += ends[n_confirmed - 1] / SIZE
                    broken[row, column] += is_broken[n_confirmed - 1]
                    ever[row, column] += is_broken[:n_confirmed].any()
                    asked[row, column] += used[n_confirmed - 1]
    return [
        Outcome(
            world=world.name,
            limit=world.limit,
            version=version.name,
            answers=budget,
            worlds=n_worlds,
            frozen=float(frozen[row, column] / n_worlds),
            broken=float(broken[row, column] / n_worlds),
            ever_broken=float(ever[row, column] / n_worlds),
            share=float(share[row, column] / n_worlds),
            best=best / n_worlds,
            asked=float(asked[row, column] / max(1, frozen[row, column])),
        )
        for row, version in enumerate(versions)
        for column, budget in enumerate(ANSWERS)
    ]


@dataclass(frozen=True)
class Coverage:
    """How often the interval held the true mean, how wide it was, and the median gain over the plain mean."""

    values: str
    cheap: str
    n: int
    draws: int
    covered: float
    width: float
    gain: float | None


def make_population(kind: str, cheap: str, random: np.random.Generator, size: int = 4000) -> tuple[Floats, Floats]:
    """The expensive and the cheap values of a population: four captions a video, which resemble each other."""
    quality = np.repeat(random.normal(size=size // 4), 4) + 0.5 * random.normal(size=size)
    ranks = np.argsort(np.argsort(quality)) / size
    noisy = np.argsort(np.argsort(quality + random.normal(size=size))) / size
    values = {
        "share .02": ranks < 0.02,
        "share .1": ranks < 0.1,
        "share .5": noisy < 0.5,
        "skewed": np.minimum(1.0, -np.log1p(-ranks) / 8),
        "nine zeros in ten": np.where(noisy > 0.9, ranks, 0.0),
    }[kind].astype(np.float64)
    noise = random.normal(size=size)
    helper = {
        "good": values + 0.3 * values.std() * noise,
        "useless": noise,
        "adverse": -values + 0.7 * values.std() * noise,
        "equal but for 1 %": np.where(random.random(size) < 0.01, 1 - values, values),
    }[cheap]
    return values, helper


def measure_coverage(draws: int, seed: int) -> list[Coverage]:
    """Draw many samples of every population, and count how often the interval holds its mean."""
    outcomes = []
    for kind in ("share .02", "share .1", "share .5", "skewed", "nine zeros in ten"):
        for cheap in ("good", "useless", "adverse", "equal but for 1 %"):
            random = np.random.default_rng([seed, len(kind), len(cheap)])
            values, helper = make_population(kind, cheap, random)
            truth, cheap_mean = float(values.mean()), float(helper.mean())
            for n in (50, 100, 400):
                covered, widths, gains = 0, [], []
                for number in range(draws):
                    part = random.choice(values.size, n, replace=False)
                    made = estimate_mean(values[part], helper[part], cheap_mean, size=values.size, seed=number)
                    assert made.low is not None
                    assert made.high is not None
                    covered += made.low <= truth <= made.high
                    widths.append(made.high - made.low)
                    gains.append(np.nan if made.gain is None else made.gain)
                gain = None if np.all(np.isnan(gains)) else float(np.nanmedian(gains))
                outcomes.append(Coverage(kind, cheap, n, draws, covered / draws, float(np.mean(widths)), gain))
    return outcomes


def list_lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The table of the walks."""
    counts = ("answers", "frozen", "broken", "ever", "share", "of best")
    yield f"{'world':<32}{'limit':>6}  {'version':<24}" + "".join(f"{name:>8}" for name in counts)
    for row in outcomes:
        parts = (row.frozen, row.broken, row.ever_broken, row.share, row.best)
        yield f"{row.world:<32}{row.limit:>6}  {row.version:<24}{row.answers:>8}" + "".join(
            f"{part:>8.3f}" for part in parts
        )


def main() -> None:
    """Simulate, print both tables and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=SEED)
    given = parser.parse_args()
    started = time.perf_counter()
    outcomes = [row for world in list_worlds() for row in simulate(world, given.worlds, given.seed)]
    print("\n".join(list_lines(outcomes)), flush=True)
    coverage = measure_coverage(given.worlds, given.seed)
    print(f"{'values':<20}{'cheap':<18}{'n':>5}{'covered':>9}{'width':>8}{'gain':>7}")
    for row in coverage:
        gain = "" if row.gain is None else f"{row.gain:.2f}"
        print(f"{row.values:<20}{row.cheap:<18}{row.n:>5}{row.covered:>9.3f}{row.width:>8.3f}{gain:>7}")
    result: dict[str, Any] = {
        "worlds": given.worlds,
        "seed": given.seed,
        "seconds": time.perf_counter() - started,
        "walks": [asdict(row) for row in outcomes],
        "coverage": [asdict(row) for row in coverage],
    }
    print(f"written to {save(RESULTS / 'promise_worlds.json', result).relative_to(RESULTS.parents[1])}")


if __name__ == "__main__":
    main()
