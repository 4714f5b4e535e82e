"""Makes the golden cases: own texts, seeded numbers of few digits, and the results of the plain implementations.

python -m tests.golden.make
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.golden import plain
from tests.golden.plain import Case

FOLDER = Path(__file__).parent
SEED = 20261122

# (references, caption, words of each text). The words are written by hand, not taken from the code under test.
CAPTIONS = [
    (
        ["A grey cat jumps onto the kitchen table.", "The cat's jump ends on a table."],
        "The grey cat jumps on a wooden table.",
    ),
    (
        ["A boy kicks the ball over a fence, and it is gone.", "It was there."],
        "A boy throws a ball; the ball hits the fence.",
    ),
    (
        ["A boat lies on the lake.", "Two women row a red boat across the lake at dawn."],
        "A red boat is rowed by two women.",
    ),
    (["Rain falls on the empty street."], "It was not there."),
    (["He is."], "A tram stops."),
]
WORDS = {
    "A grey cat jumps onto the kitchen table.": ["grey", "cat", "jumps", "onto", "kitchen", "table"],
    "The cat's jump ends on a table.": ["cats", "jump", "ends", "table"],
    "The grey cat jumps on a wooden table.": ["grey", "cat", "jumps", "wooden", "table"],
    "A boy kicks the ball over a fence, and it is gone.": ["boy", "kicks", "ball", "fence", "gone"],
    "It was there.": [],
    "A boy throws a ball; the ball hits the fence.": ["boy", "throws", "ball", "ball", "hits", "fence"],
    "Two women row a red boat across the lake at dawn.": [
        "Two",
        "women",
        "row",
        "red",
        "boat",
        "across",
        "lake",
        "dawn",
    ],
    "A boat lies on the lake.": ["boat", "lies", "lake"],
    "A red boat is rowed by two women.": ["red", "boat", "rowed", "two", "women"],
    "Rain falls on the empty street.": ["Rain", "falls", "empty", "street"],
    "It was not there.": [],
    "He is.": [],
    "A tram stops.": ["tram", "stops"],
}
SENTENCES = [
    "A woman opens a green door.",
    "A dog runs past her into the garden.",
    "The camera follows the dog.",
    "She calls its name.",
    "The dog digs under an apple tree.",
    "It finds an old shoe.",
    "The camera moves closer to the shoe.",
]
SENTENCES_OF = [[0, 1], [2, 3], [4], [5, 6]]
KEYPOINTS = [
    [("A woman opens a door.", "events"), ("The door is green.", "appearance"), ("The dog runs out.", "events")],
    [("The woman calls the dog.", "speech"), ("The camera follows the dog.", "camera")],
    [("The dog digs.", "events"), ("The dog finds a shoe.", "events"), ("The shoe is old.", "appearance")],
    [("The camera zooms in.", "camera")],
]


def vcs_cases(rng: np.random.Generator) -> list[Case]:
    """Matrices of many shapes: in order, shuffled, with ties, with negative similarities, and short ones."""
    cases = []
    shapes = [(8, 8), (9, 6), (6, 11), (12, 5), (5, 12), (3, 3), (4, 3), (6, 5), (7, 8), (1, 4), (10, 7), (7, 10)]
    for number, (n_references, n_generated) in enumerate(shapes):
        similarity = rng.uniform(-0.3 if number % 3 == 2 else 0.0, 0.6, (n_references, n_generated))
        rows = np.arange(n_references) if number % 4 else rng.permutation(n_references)
        similarity[np.arange(n_references), rows * n_generated // n_references] += 0.35
        parameters = {
            "lct": [0.0, 1.0, 0.0, 2.0][number % 4],
            "context_cutoff": [0.6, 0.6, 0.3][number % 3],
            "context_window_control": [4.0, 1.0][number % 2],
        }
        decimals = 1 if number in (1, 6, 10) else 3
        case = {"similarity": similarity.round(decimals).tolist(), "gas": round(float(rng.uniform(0.6, 1.0)), 3)}
        cases.append({**case, "parameters": parameters})
    return cases


def vcs_short_cases(rng: np.random.Generator) -> list[Case]:
    """Captions with their references; the vector of a text lies near the sum of the vectors of its words."""
    cases = []
    for references, generated in CAPTIONS:
        texts = [*references, generated]
        words = {text: WORDS[text] for text in texts}
        vectors = {word: rng.normal(0.4, 1, 6) for word in sorted({word for text in texts for word in words[text]})}
        whole = {text: sum((vectors[w] for w in words[text]), rng.normal(0, 0.5, 6)) for text in texts}
        rounded = {text: vector.round(2).tolist() for text, vector in {**vectors, **whole}.items()}
        parameters = {"lct": 1.0, "context_cutoff": 0.6, "context_window_control": 4.0}
        case = {"references": references, "generated": generated, "words": words}
        cases.append({**case, "vectors": rounded, "parameters": parameters})
    return cases


def evqa_cases(rng: np.random.Generator) -> list[Case]:
    """Features that crowd around one direction, as those of image-text models do, of different lengths."""
    cases = []
    for n_frames, n_keywords, n_regions, weighted in [
        (1, 1, 0, False), (4, 3, 0, False), (9, 5, 0, True), (6, 2, 5, False), (3, 7, 4, True), (12, 4, 0, False),
    ]:  # fmt: skip
        topic = rng.normal(0, 1, 6)

        def near(n: int, topic: np.ndarray = topic) -> list[list[float]]:
            return ((topic + rng.normal(0, 0.7, (n, 6))) * rng.uniform(0.5, 3, (n, 1))).round(3).tolist()

        weights = rng.integers(1, 5, n_keywords).astype(float).tolist() if weighted else None
        case = {"frames": near(n_frames), "keywords": near(n_keywords), "text": near(1)[0], "weights": weights}
        cases.append({**case, "regions": near(n_regions) or None})
    return cases


def sodam_cases(rng: np.random.Generator) -> list[Case]:
    """Segments in whole seconds, in any order, some of them without keypoints."""
    cases = []
    for n_references, n_predictions in [(3, 3), (4, 2), (2, 5), (5, 5), (3, 0), (1, 4)]:
        references, predictions = (
            [[int(start), int(start + length)] for start, length in zip(starts, lengths, strict=True)]
            for starts, lengths in (
                (rng.integers(0, 40, n), rng.integers(2, 20, n)) for n in (n_references, n_predictions)
            )
        )
        counts: list[dict[str, list[int]]] = []
        for _ in references:
            totals = rng.integers(0, 4, 2)
            covered = rng.integers(0, totals + 1)
            names = ("events", "camera")
            segment = {n: [int(c), int(t)] for n, c, t in zip(names, covered, totals, strict=True)}
            counts.append(segment)
        cases.append({"references": references, "predictions": predictions, "counts": counts})
    return cases


def ecs_cases(rng: np.random.Generator) -> list[Case]:
    """One caption and its checklist. Times, vectors, probabilities and sentences per keypoint differ by case."""
    cases = []
    keypoints = [[{"text": text, "dimension": dimension} for text, dimension in segment] for segment in KEYPOINTS]
    texts = [keypoint["text"] for segment in keypoints for keypoint in segment]
    for r, shift in [(2, 0), (3, 4), (7, 25)]:
        predictions = [[start + shift, start + shift + 9] for start in (0, 9, 20, 28)]
        vectors = {text: rng.normal(0.3, 1, 5).round(2).tolist() for text in [*SENTENCES, *texts]}
        probabilities = {text: rng.uniform(0, 1, len(SENTENCES)).round(3).tolist() for text in texts}
        case = {"references": [[0, 10], [10, 18], [18, 30], [30, 40]], "predictions": predictions, "r": r}
        thresholds = {"events": 0.6, "appearance": 0.5, "speech": 0.7, "camera": 0.8}
        case |= {"sentences": SENTENCES, "sentences_of": SENTENCES_OF, "keypoints": keypoints}
        cases.append({**case, "vectors": vectors, "probabilities": probabilities, "thresholds": thresholds})
    return cases


METRICS: dict[str, tuple[Callable[[np.random.Generator], list[Case]], Callable[[Case], Case]]] = {
    "vcs": (vcs_cases, plain.vcs),
    "vcs_short": (vcs_short_cases, plain.vcs_short),
    "evqa": (evqa_cases, plain.evqa),
    "sodam": (sodam_cases, plain.sodam),
    "ecs": (ecs_cases, plain.ecs),
}


def main() -> None:
    """Write one file per metric: a list of cases, one per line, each with the result that is expected of it."""
    for metric, (make_cases, score) in METRICS.items():
        cases = [{**case, "expected": score(case)} for case in make_cases(np.random.default_rng(SEED))]
        lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
        (FOLDER / f"{metric}.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
