"""What `reelsieve prove` calls different where nothing differs, and where an order is planted, in simulated trials.

`python -m benchmarks.prove_controls [--log FILE]`. Every trial has a world of its own: videos with a latent vector,
of which the vectors of the video and of its captions are noisy images, so that a student reaches about the mean
reciprocal rank of VATEX-EVAL (docs/prove.md). Students train as shipped, five for each arm, and `compare_arms` compares
them on the same held-out videos.

- Equal arms: two random arms, both drawn anew for every seed; a selection and the same rows in another order; and a
  selection that was drawn once at random, compared with an arm that is drawn anew. Counted are the trials that call the
  two different.
- Planted order: a selection of which 0, 20, 40 and 60 % of the captions are swapped between videos. Counted are the
  trials in which all four means are in that order, and those that call every arm better than the next one, after
  Holm's correction for the three others.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import RESULTS, add_result, read_results, save, spread
from metrics_core.arithmetic import wilson_interval
from metrics_core.arrays import FloatArray, IntArray
from metrics_core.trial.comparison import ArmDifference, compare_arms
from metrics_core.trial.noise import plant_noise
from metrics_core.trial.student import (
    HeldOutPairs,
    StudentSettings,
    TrainingPairs,
    Vectors,
    compute_chance,
    measure_retrieval,
    train_student,
)

PROCESSES, NICENESS = 2, 10
N_SEEDS = 5
NOISE_SHARES = (0.0, 0.2, 0.4, 0.6)
EQUAL_PAIRS = {
    "two random draws": ("random", "other random"),
    "the same rows in another order": ("selection", "copy"),
    "a selection drawn at random, and random draws": ("selection", "random"),
}
"""Pairs of arms that have nothing to choose between them, by what they are."""


@dataclass(frozen=True, slots=True)
class WorldSettings:
    """How large a world is, and how noisy: standard deviations per dimension, where the image has 1."""

    training_videos: int = 435
    captions: int = 6
    validation_videos: int = 50
    test_videos: int = 100
    rows: int = 650
    latent: int = 24
    width: int = 128
    caption_noise: float = 1.5
    clean_noise: float = 3.0
    video_noise: float = 1.0


@dataclass(frozen=True)
class World:
    """The vectors of a simulated dataset. captions: (n, width) by caption; numbers: its video (n,). videos: (m, width),
    of the training videos.
    """

    captions: Vectors
    numbers: IntArray
    videos: Vectors
    validation: HeldOutPairs
    test: HeldOutPairs


Draw = Callable[[int], tuple[IntArray, IntArray]]
"""Gives the rows of an arm by seed: the caption whose text, and the caption whose video every row has."""


def build_world(rng: np.random.Generator, size: WorldSettings) -> World:
    """Draw the videos of a world and their captions."""
    n_held_out = size.validation_videos + size.test_videos
    latent = rng.normal(size=(size.training_videos + n_held_out, size.latent))
    of_texts, of_videos = rng.normal(size=(2, size.latent, size.width)) / size.latent**0.5
    numbers = np.repeat(np.arange(size.training_videos), size.captions)

    def draw_vectors(images: FloatArray, noise: float) -> Vectors:
        noisy = images + noise * rng.normal(size=images.shape)
        units: Vectors = (noisy / np.linalg.norm(noisy, axis=1, keepdims=True)).astype(np.float32)
        return units

    captions = draw_vectors(latent[numbers] @ of_texts, size.caption_noise)
    videos = draw_vectors(latent @ of_videos, size.video_noise)
    texts = draw_vectors(latent[size.training_videos :] @ of_texts, size.clean_noise)
    training, validation, test = np.split(videos, [size.training_videos, size.training_videos + size.validation_videos])
    return World(
        captions,
        numbers,
        training,
        HeldOutPairs(texts[: size.validation_videos], validation),
        HeldOutPairs(texts[size.validation_videos :], test),
    )


def train_arm(world: World, draw: Draw) -> FloatArray:
    """Reciprocal ranks (seeds, test videos) of an arm's students."""
    ranks = []
    for seed in range(N_SEEDS):
        texts, videos = draw(seed)
        pairs = TrainingPairs(world.captions[texts], world.numbers[videos])
        student = train_student(pairs, world.videos, world.validation, seed)
        ranks.append(measure_retrieval(student, world.test).reciprocal_rank)
    return np.stack(ranks)


def run_equal_arms(trial: int, size: WorldSettings) -> dict[str, Any]:
    """The comparisons of one trial whose arms are equal, by what the two arms are."""
    rng = np.random.default_rng([trial, 1])
    world = build_world(rng, size)
    chosen = np.sort(rng.permutation(len(world.numbers))[: size.rows])

    def draw_rows(seed: int, arm: int) -> tuple[IntArray, IntArray]:
        rows = np.random.default_rng([trial, arm, seed]).permutation(len(world.numbers))[: size.rows]
        return rows, rows

    def reorder(seed: int) -> tuple[IntArray, IntArray]:
        rows = np.random.default_rng([trial, seed]).permutation(chosen)
        return rows, rows

    draws: Mapping[str, Draw] = {
        "random": lambda seed: draw_rows(seed, 2),
        "other random": lambda seed: draw_rows(seed, 3),
        "selection": lambda _: (chosen, chosen),
        "copy": reorder,
    }
    ranks = {name: train_arm(world, draw) for name, draw in draws.items()}
    return {
        "mrr": float(ranks["random"].mean()),
        **{
            name: asdict(compare_arms(ranks[first], {"other": ranks[second]})["other"])
            for name, (first, second) in EQUAL_PAIRS.items()
        },
    }


def run_planted_order(trial: int, size: WorldSettings) -> dict[str, Any]:
    """The means of one trial whose arms have more and more noise, and the difference of each arm to the next."""
    rng = np.random.default_rng([trial, 4])
    world = build_world(rng, size)
    chosen = np.sort(rng.permutation(len(world.numbers))[: size.rows])

    def swap(share: float) -> Draw:
        # The seeds of an arm are its own: arms that swap the same captions first would be too easy to tell apart.
        return lambda seed: (
            chosen[plant_noise(world.numbers[chosen], share, trial * 1000 + round(share * 100) + seed)],
            chosen,
        )

    ranks = {share: train_arm(world, swap(share)) for share in NOISE_SHARES}
    neighbours = [compare_with_next(ranks, share, following) for share, following in pairwise(NOISE_SHARES)]
    return {"mrr": [float(each.mean()) for each in ranks.values()], "neighbours": [asdict(each) for each in neighbours]}


def compare_with_next(ranks: Mapping[float, FloatArray], share: float, following: float) -> ArmDifference:
    """The difference of an arm to the next, corrected for the comparisons with all others, as a trial of it prints."""
    others = {f"{other:g}": each for other, each in ranks.items() if other != share}
    return compare_arms(ranks[share], others)[f"{following:g}"]


KINDS = {"equal": run_equal_arms, "planted": run_planted_order}


def count_share(hits: int, n: int) -> dict[str, Any]:
    """How many trials of n, their share, and its 95 % interval."""
    return {"trials": hits, "share": hits / n, "interval": wilson_interval(hits, n)}


def summarise_equal_arms(trials: list[dict[str, Any]]) -> dict[str, Any]:
    """For every pair of equal arms the trials that call them different, and those that rule a difference out."""
    found: dict[str, Any] = {"trials": len(trials), "mrr": spread([trial["mrr"] for trial in trials])}
    for name in EQUAL_PAIRS:
        compared = [trial[name] for trial in trials]
        called = sum(each["conclusion"] in ("better", "worse") for each in compared)
        ruled_out = sum(each["conclusion"] == "no difference" for each in compared)
        found[name] = {
            "called_different": count_share(called, len(trials)),
            "no_difference": count_share(ruled_out, len(trials)),
            "half_width": spread([(each["high"] - each["low"]) / 2 for each in compared]),
            "size": spread([abs(each["value"]) for each in compared]),
        }
    return found


def summarise_planted_order(trials: list[dict[str, Any]]) -> dict[str, Any]:
    """The trials whose means are in the planted order, and those that call every arm better than the next one."""
    n = len(trials)
    means = np.array([trial["mrr"] for trial in trials])
    better = np.array([[each["conclusion"] == "better" for each in trial["neighbours"]] for trial in trials])
    steps = list(pairwise(NOISE_SHARES))
    return {
        "trials": n,
        "mrr": {f"{share:g}": spread(means[:, i].tolist()) for i, share in enumerate(NOISE_SHARES)},
        "means_in_order": count_share(int((np.diff(means, axis=1) < 0).all(axis=1).sum()), n),
        "all_called_better": count_share(int(better.all(axis=1).sum()), n),
        "called_better": {
            f"{share:g} than {following:g}": count_share(int(better[:, i].sum()), n)
            for i, (share, following) in enumerate(steps)
        },
    }


def run_task(task: tuple[str, int]) -> dict[str, Any]:
    """The result of a trial by its kind and number, with the seconds of processor time that it took."""
    kind, trial = task
    started = time.process_time()
    found = KINDS[kind](trial, WorldSettings())
    return {"kind": kind, "trial": trial, "cpu_seconds": time.process_time() - started, **found}


def run_tasks(tasks: Sequence[tuple[str, int]], log: Path) -> list[dict[str, Any]]:
    """Run the trials that the log lacks, in two processes, and return the results of all; each is logged at once."""
    results = [each for each in read_results(log) if (each["kind"], each["trial"]) in tasks]
    known = {(each["kind"], each["trial"]) for each in results}
    missing = [task for task in tasks if task not in known]
    with ProcessPoolExecutor(PROCESSES, initializer=os.nice, initargs=(NICENESS,)) as pool:
        for result in pool.map(run_task, missing):
            results.append(result)
            add_result(log, result)
            if len(results) % 10 == 0:
                print(f"{len(results)} of {len(tasks)} trials", flush=True)
    return results


def print_share(text: str, found: Mapping[str, Any]) -> None:
    """Print a share with its interval."""
    low, high = found["interval"]
    print(f"  {text:<70}{found['share']:>7.1%} ({low:.1%} to {high:.1%})")


def main() -> None:
    """Simulate the trials, print the shares, and write benchmarks/results/prove_controls.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--equal", type=int, default=200, help="trials of equal arms")
    parser.add_argument("--planted", type=int, default=100, help="trials of a planted order")
    parser.add_argument("--log", type=Path, help="a file of finished trials, by which a stopped run goes on")
    parser.add_argument("--json", type=Path, default=RESULTS / "prove_controls.json")
    given = parser.parse_args()
    # In turn, so that a look at the log shows both kinds.
    tasks = sorted(
        [*[("equal", i) for i in range(given.equal)], *[("planted", i) for i in range(given.planted)]],
        key=lambda task: task[1] / (given.equal if task[0] == "equal" else given.planted),
    )
    with tempfile.TemporaryDirectory() as folder:
        results = run_tasks(tasks, given.log or Path(folder) / "trials.jsonl")
    equal = summarise_equal_arms([each for each in results if each["kind"] == "equal"])
    order = summarise_planted_order([each for each in results if each["kind"] == "planted"])
    print(f"\nequal arms, {given.equal} trials, called different")
    for name in EQUAL_PAIRS:
        print_share(name, equal[name]["called_different"])
    print(f"planted order, {given.planted} trials")
    print_share("all four means in the planted order", order["means_in_order"])
    print_share("every arm called better than the next", order["all_called_better"])
    for name, found in order["called_better"].items():
        print_share(f"{name} called better", found)
    result = {
        "world": asdict(WorldSettings()),
        "settings": asdict(StudentSettings()),
        "seeds": N_SEEDS,
        "chance": compute_chance(WorldSettings().test_videos),
        "cpu_seconds": sum(each["cpu_seconds"] for each in results),
        "equal_arms": equal,
        "planted_order": order,
    }
    save(given.json, result)


if __name__ == "__main__":
    main()
