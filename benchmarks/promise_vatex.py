"""Promises on VATEX-EVAL, where every rating is known: `python -m benchmarks.promise_vatex`.

All captions have three ratings. An error is a caption whose mean rating is below a limit. Captions are ranked by words
in common with their nine references, and at random. 400 draws ask up to 400 or 800 captions in the order of random
numbers, always in the first set that is not confirmed, as `reelsieve rate --for-promise` does. Counted is how often a
set is frozen, how large it is, and how often it holds more errors than promised.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.measure import RESULTS, save, vatex_source
from benchmarks.promise_worlds import Bools, Version, walk
from metrics_core.agreement.simple_scores import compute_words_in_common
from metrics_core.arrays import FloatArray
from metrics_core.promise import DEFAULT_SHARES, Prior, compute_attempt_level, count_allowed_errors

DRAWS = 400
ANSWERS = (400, 800)
# Mean ratings below this are errors, and what is promised of them.
CASES = ((2.0, 0.02), (3.0, 0.05), (3.0, 0.10), (4.0, 0.20), (4.0, 0.35))


@dataclass(frozen=True)
class Outcome:
    """What many draws did with one order: the parts in which a set was frozen and in which it broke its promise, and
    its mean share (0 for a refusal) beside the largest share of the list that keeps the promise.
    """

    order: str
    error_below: float
    limit: float
    errors: float
    answers: int
    frozen: float
    broken: float
    share: float
    best: float


def read_captions(source: Path) -> tuple[FloatArray, FloatArray]:
    """The mean ratings of all captions, and their words in common with references."""
    texts, references, ratings = [], [], []
    for line in source.read_text(encoding="utf-8").splitlines():
        video = json.loads(line)
        for candidate in video["candidates"]:
            texts.append(candidate["text"])
            references.append(video["references"])
            ratings.append(float(np.mean(candidate["ratings"])))
    return np.array(ratings), compute_words_in_common(texts, references)


def measure(name: str, labels: Bools, error_below: float, limit: float, random: np.random.Generator) -> list[Outcome]:
    """Draw many times on captions in an order."""
    version = Version("product", DEFAULT_SHARES, Prior.build(limit), compute_attempt_level(0.05, 1))
    errors = np.cumsum(labels)
    ends = [max(1, int(share * labels.size)) for share in version.shares]
    holds = [bool(errors[end - 1] <= count_allowed_errors(end, limit)) for end in ends]
    best = max((end for end, is_kept in zip(ends, holds, strict=True) if is_kept), default=0)
    used = [np.array(list(walk(labels, random.permutation(labels.size), version, limit))) for _ in range(DRAWS)]
    outcomes = []
    for budget in ANSWERS:
        last = [int((of_draw <= budget).sum()) - 1 for of_draw in used]
        frozen = [place for place in last if place >= 0]
        outcomes.append(
            Outcome(
                order=name,
                error_below=error_below,
                limit=limit,
                errors=float(labels.mean()),
                answers=budget,
                frozen=len(frozen) / DRAWS,
                broken=sum(not holds[place] for place in frozen) / DRAWS,
                share=sum(ends[place] for place in frozen) / labels.size / DRAWS,
                best=best / labels.size,
            )
        )
    return outcomes


def list_lines(outcomes: list[Outcome]) -> Iterator[str]:
    """The table."""
    counts = {"answers": 9, "frozen": 8, "broken": 8, "share": 8, "best": 7}
    yield f"{'order':<18}{'below':>6}{'limit':>7}{'errors':>8}" + "".join(f"{name:>{n}}" for name, n in counts.items())
    for row in outcomes:
        yield (
            f"{row.order:<18}{row.error_below:>6}{row.limit:>7}{row.errors:>8.3f}{row.answers:>9}{row.frozen:>8.3f}"
            f"{row.broken:>8.4f}{row.share:>8.3f}{row.best:>7.2f}"
        )


def main() -> None:
    """Draw on VATEX-EVAL, print the table and write the result."""
    ratings, common = read_captions(vatex_source())
    random = np.random.default_rng(37)
    outcomes = []
    for error_below, limit in CASES:
        by_words = np.argsort(-common, kind="stable")
        for name, order in (("words in common", by_words), ("at random", random.permutation(ratings.size))):
            outcomes += measure(name, ratings[order] < error_below, error_below, limit, random)
    print("\n".join(list_lines(outcomes)))
    result = {"draws": DRAWS, "captions": int(ratings.size), "walks": [asdict(row) for row in outcomes]}
    print(f"written to {save(RESULTS / 'promise_vatex.json', result).relative_to(RESULTS.parents[1])}")


if __name__ == "__main__":
    main()
