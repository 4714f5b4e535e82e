"""The example of docs/promise.md by hand, and its table of answers, computed from the page."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from metrics_core.promise import (
    Prior,
    collect_set_answers,
    compute_attempt_level,
    compute_least_log_evidence,
    count_allowed_errors,
    walk_sets,
)
from metrics_core.promise.sequence import compute_log_evidence

PAGE = (Path(__file__).parents[2] / "docs" / "promise.md").read_text(encoding="utf-8")
FLAT = Prior(1, 1)


def list_captions() -> list[tuple[int, float, int | None]]:
    """Rank, random number and place in the order of asking, as the page has them."""
    rows = re.findall(r"^\| (\d+) \| (\.\d+) \| (\d*) ?\|$", PAGE, re.MULTILINE)
    return [(int(rank), float(number), int(asked) if asked else None) for rank, number, asked in rows]


def count_answers(n_asked: int) -> list[int]:
    """How many answers count for the best half and for all captions, after so many answers."""
    captions = list_captions()
    draws = [number for _rank, number, _asked in captions]
    answers = [0 if asked is not None and asked <= n_asked else -1 for _rank, _number, asked in captions]
    places = [0 if rank <= 6 else 1 for rank, _number, _asked in captions]
    return [part.size for part in collect_set_answers(draws, answers, places, 2)]


def test_answers_count_as_the_page_says() -> None:
    assert len(list_captions()) == 12
    assert [count_answers(n) for n in (5, 6, 7, 8)] == [[5, 0], [5, 3], [5, 5], [5, 8]]


@pytest.mark.parametrize("prior", [FLAT, Prior.build(0.25)])
@pytest.mark.parametrize("level", [0.05, compute_attempt_level(0.05, 1)])
def test_eight_answers_confirm_all_twelve(prior: Prior, level: float) -> None:
    def confirm(n_asked: int) -> list[bool]:
        answers = [[False] * n for n in count_answers(n_asked)]
        return [state.is_confirmed for state in walk_sets([6, 12], answers, 0.25, level, prior)]

    assert [confirm(n) for n in (4, 5, 7, 8)] == [[False], [True, False], [True, False], [True, True]]


def test_the_evidence_is_that_of_the_page() -> None:
    evidence = np.exp(compute_log_evidence(12, 4, [6, 7, 8], 0, FLAT))
    assert [f"{number:.1f}" for number in evidence] == ["4.7", "12.4", "55.0"]
    assert "4.7 after six answers, 12.4 after seven, 55.0 after eight" in PAGE
    with_more = compute_log_evidence(12, np.arange(4, 13), 8, 0, FLAT)
    assert (np.diff(with_more[np.isfinite(with_more)]) > 0).all()


def test_the_table_of_answers_is_computed() -> None:
    rows = re.findall(r"^\| (\.\d+) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 5
    for limit_text, *counts in rows:
        limit, n = float(limit_text), np.arange(1, 5000)
        for rate, count in zip((0, 0.25, 0.5), counts, strict=True):
            wrong = np.ceil(rate * limit * n).astype(np.int64)
            least = count_allowed_errors(1_000_000, limit) + 1
            evidence = compute_least_log_evidence(1_000_000, least, n, wrong, Prior.build(limit))
            needed = n[np.flatnonzero(evidence >= -math.log(compute_attempt_level(0.05, 1)))[0]]
            assert needed == int(count.replace(",", ""))
