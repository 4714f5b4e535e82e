"""Vectors for `benchmarks.near_duplicates`: planted near-duplicates, real texts, and plain ways to the same answers."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.measure import DATA

Rows = npt.NDArray[np.float32]
Pairs = npt.NDArray[np.intp]
# Of planted rows with an earlier one, in turn.
COSINES = (0.93, 0.949, 0.951, 0.96, 0.98, 1.0)
_BLOCK = 2048


@dataclass(frozen=True, slots=True)
class Planted:
    """units: (n, d), random directions. pairs: (m, 2), row and copy; cosines: (m,), of each pair."""

    units: Rows
    pairs: Pairs
    cosines: npt.NDArray[np.float64]


def plant(n: int, dimensions: int, share: float, seed: int) -> Planted:
    """Random directions, of which a share are near another one, by the cosines of COSINES."""
    random = np.random.default_rng(seed)
    # Of a million rows there is room for one copy only.
    units = random.standard_normal((n, dimensions), dtype=np.float32)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    places = random.permutation(n)
    copies, originals = places[: int(share * n)], places[int(share * n) :]
    of = random.choice(originals, size=len(copies))
    cosines = np.resize(COSINES, len(copies))
    aside = random.normal(size=(len(copies), dimensions))
    aside -= np.einsum("ij,ij->i", aside, units[of])[:, None] * units[of]
    units[copies] = unit(cosines[:, None] * units[of] + np.sqrt(1 - cosines**2)[:, None] * unit(aside))
    return Planted(units, np.sort(np.stack([of, copies], axis=1), axis=1), cosines)


def unit(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The rows with length 1."""
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float64)


def real_texts(most: int) -> list[str]:
    """Distinct candidates and references of VATEX-EVAL, as many as asked for; fewer where there are fewer."""
    return list(dict.fromkeys(_texts()))[:most]


def _texts() -> Iterator[str]:
    with (DATA / "vatex_eval" / "vatex_eval.jsonl").open(encoding="utf-8") as lines:
        for video in map(json.loads, lines):
            yield from (candidate["text"] for candidate in video["candidates"])
            yield from video["references"]


def all_pairs(units: Rows, at_least: float) -> Pairs:
    """All pairs (m, 2) of rows whose cosine is `at_least` or more, by the products of whole rows; the earlier first."""
    found = [np.empty((0, 2), dtype=np.intp)]
    for start in range(0, len(units), _BLOCK):
        for other in range(start, len(units), _BLOCK):
            products = units[start : start + _BLOCK] @ units[other : other + _BLOCK].T
            near = np.argwhere(products >= at_least - 1e-5) + np.array([start, other])
            found.append(near[near[:, 0] < near[:, 1]])
    pairs = np.concatenate(found)
    # Products of float32 round; those of the few pairs near the limit are taken again.
    cosines = np.einsum("ij,ij->i", units[pairs[:, 0]], units[pairs[:, 1]], dtype=np.float64)
    return np.asarray(pairs[cosines >= at_least - 1e-6], dtype=np.intp)


def keep_by(n: int, pairs: Pairs) -> npt.NDArray[np.bool_]:
    """Which of n rows stay, the earlier first, where only these pairs (m, 2) are alike."""
    later: dict[int, list[int]] = defaultdict(list)
    for first, second in pairs.tolist():
        later[first].append(second)
    keep = np.ones(n, dtype=np.bool_)
    for first in sorted(later):
        if keep[first]:
            keep[later[first]] = False
    return keep


def one_by_one(units: Rows, n: int) -> npt.NDArray[np.intp]:
    """The first n of k-center greedy, each compared with all rows by itself."""
    nearest = np.full(len(units), -np.inf, dtype=np.float32)
    chosen = np.empty(n, dtype=np.intp)
    for place in range(n):
        chosen[place] = np.argmin(nearest)
        np.maximum(nearest, units @ units[chosen[place]], out=nearest)
        nearest[chosen[: place + 1]] = np.inf
    return chosen


def walk_on(device: str, units: Rows, at_least: float) -> npt.NDArray[np.bool_]:
    """Which rows stay by an exact walk on a device of torch, all rows in its memory, by products in float32."""
    import torch

    rows = torch.from_numpy(units).to(device)
    kept, n_kept = torch.empty_like(rows), 0
    keep = np.zeros(len(units), dtype=np.bool_)
    for start in range(0, len(units), _BLOCK):
        block = rows[start : start + _BLOCK]
        is_left = torch.ones(len(block), dtype=torch.bool, device=device)
        for first in range(0, n_kept, 16 * _BLOCK):
            others = kept[first : min(first + 16 * _BLOCK, n_kept)]
            is_left &= ~(block @ others.T >= at_least - 1e-6).any(dim=1)
        (left,) = torch.nonzero(is_left, as_tuple=True)
        alike = torch.triu(block[left] @ block[left].T >= at_least - 1e-6, diagonal=1).nonzero().cpu().numpy()
        stays = left[torch.from_numpy(keep_by(len(left), alike)).to(device)]
        kept[n_kept : n_kept + len(stays)] = block[stays]
        n_kept += len(stays)
        keep[start + stays.cpu().numpy()] = True
    return keep
