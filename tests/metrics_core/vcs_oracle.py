"""VCS written a second time, one plain loop per sentence of its specification, to check the fast one against.

Shares neither code nor method with metrics_core: windows, candidates and lines are enumerated cell by cell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

Matrix = Sequence[Sequence[float]]
Pairs = list[tuple[int, int]]


def windows(n_ref: int, n_gen: int) -> tuple[Pairs, Pairs, int]:
    """Windows of precision and recall, and the total height of the direct ones."""
    longer, shorter = max(n_ref, n_gen), min(n_ref, n_gen)
    slope = longer / shorter
    direct = []
    for i in range(shorter):
        start = math.floor(i * slope)
        direct.append((start, min(start + math.ceil(slope), longer)))
    reverse = []
    for j in range(longer):
        holders = [i for i, (start, end) in enumerate(direct) if start <= j < end]
        reverse.append((holders[0], holders[-1] + 1))
    area = sum(end - start for start, end in direct)
    return (direct, reverse, area) if n_ref >= n_gen else (reverse, direct, area)


def distance(j: int, window: tuple[int, int]) -> int:
    start, end = window
    if j < start:
        return start - j
    return j - (end - 1) if j >= end else 0


def best_match(values: Sequence[float], window: tuple[int, int], cutoff: float, control: float) -> int:
    strongest = max(values)
    room = (1 - cutoff) - (1 - strongest)
    width = 0.0
    if strongest > 0 and room > 0:
        width = room / strongest / control if control else math.inf
    candidates = [j for j, value in enumerate(values) if value >= strongest - width]
    return min(candidates, key=lambda j: (distance(j, window), -values[j], j))


def nas_d(match: list[int], spans: Pairs, ny: int, lct: float) -> tuple[float, dict[str, Any]]:
    nx = len(match)
    height = math.ceil(ny / nx)
    if ny > nx and 0 < ny / nx - math.floor(ny / nx) <= 0.5:
        height -= 1
    total = largest = 0.0
    for j, span in zip(match, spans, strict=True):
        offset = distance(j, span)
        if offset > lct * height:
            total += offset / ny
        largest += max(span[0], ny - span[1]) / ny
    detail = {"lct_height": height, "max_penalty": largest, "total_penalty": total}
    return (1 - total / largest if largest > 0 else 0.0), detail


def extreme_line(spans: Pairs, *, longest: bool) -> tuple[float, list[int]]:
    """Length and cells of the longest or shortest line with one cell per window."""
    best: dict[int, tuple[float, list[int]]] = {y: (0.0, [y]) for y in range(*spans[0])}
    for span in spans[1:]:
        following = {}
        for y in range(*span):
            chosen: tuple[float, list[int]] | None = None
            for previous, (length, path) in best.items():
                reached = length + math.sqrt(1 + (y - previous) ** 2)
                if chosen is None or (reached > chosen[0] if longest else reached < chosen[0]):
                    chosen = (reached, [*path, y])
            assert chosen is not None
            following[y] = chosen
        best = following
    lines = list(best.values())
    lengths = [length for length, _ in lines]
    return lines[lengths.index(max(lengths) if longest else min(lengths))]


def nas_l(match: list[int], spans: Pairs, ny: int, lct: float) -> tuple[float, dict[str, Any]]:
    nx = len(match)
    if nx <= 1:
        return 1.0, {
            "actual_length": 0.0, "floor_length": 0.0, "ceil_length": 0.0, "omega0": None, "omega_lct": None,
            "floor_path_y": (), "ceil_path_y": (), "step_rule": "",
        }  # fmt: skip
    shortest, floor_path = extreme_line(spans, longest=False)
    longest, ceil_path = extreme_line(spans, longest=True)
    height = math.ceil(ny / nx)
    if ny <= nx:
        omega0, kappa = height, height
    elif 0 < ny / nx - math.floor(ny / nx) <= 0.5:
        omega0, kappa = 2 * height - 2, height - 1
    else:
        omega0, kappa = 2 * height - 1, height
    omega_lct = omega0 + kappa * lct
    actual, rule = 0.0, ""
    for x in range(nx - 1):
        rise = match[x + 1] - match[x]
        size = abs(rise) if lct > 0 else rise
        if 0 <= size <= omega0:
            actual += math.sqrt(1 + rise**2)
            rule += "s"
        elif lct > 0 and omega0 < size <= omega_lct:
            actual += math.sqrt(1 + (floor_path[x + 1] - floor_path[x]) ** 2)
            rule += "c"
        else:
            rule += "-"
    score = 1.0
    if actual < shortest:
        score = actual / shortest
    elif actual > longest:
        score = longest / actual
    return score, {
        "actual_length": actual, "floor_length": shortest, "ceil_length": longest,
        "omega0": omega0, "omega_lct": omega_lct,
        "floor_path_y": tuple(floor_path), "ceil_path_y": tuple(ceil_path), "step_rule": rule,
    }  # fmt: skip


def regularizer(n_ref: int, n_gen: int, area: int) -> float:
    longer = max(n_ref, n_gen)
    if longer <= 2:
        return float(longer - 1)
    share = (area / (n_ref * n_gen) - 1 / longer) / (0.5 - 1 / longer)
    return 0.0 if share < 0 else min(share, 1.0)


def f1(p: float, r: float) -> float:
    return 0.0 if p + r == 0 else 2 * p * r / (p + r)


def vcs(sim: Matrix, gas: float, *, lct: float, context_cutoff: float, context_window_control: float) -> dict[str, Any]:
    """Every number of one pair under the names of the golden cases."""
    n_ref, n_gen = len(sim), len(sim[0])
    columns = [[sim[i][j] for i in range(n_ref)] for j in range(n_gen)]
    spans_p, spans_r, area = windows(n_ref, n_gen)
    knobs = (context_cutoff, context_window_control)
    match_p = [best_match(columns[j], spans_p[j], *knobs) for j in range(n_gen)]
    match_r = [best_match(sim[i], spans_r[i], *knobs) for i in range(n_ref)]
    las_p = sum(columns[j][match_p[j]] for j in range(n_gen)) / n_gen
    las_r = sum(sim[i][match_r[i]] for i in range(n_ref)) / n_ref
    d_p, d_detail_p = nas_d(match_p, spans_p, n_ref, lct)
    d_r, d_detail_r = nas_d(match_r, spans_r, n_gen, lct)
    l_p, l_detail_p = nas_l(match_p, spans_p, n_ref, lct)
    l_r, l_detail_r = nas_l(match_r, spans_r, n_gen, lct)
    las, d, line = f1(las_p, las_r), f1(d_p, d_r), f1(l_p, l_r)
    nas_f1, penalty = f1(d, line), regularizer(n_ref, n_gen, area)
    nas = (nas_f1 - penalty) / (1 - penalty) if nas_f1 > penalty else 0.0
    sas = (gas - (1 - las)) / las if las > 0 and gas - (1 - las) > 0 else 0.0
    low, high = min(sas, nas), max(sas, nas)
    return {
        "vcs": (low - (1 - high)) / high if high != 0 and low - (1 - high) > 0 else 0.0,
        "gas": gas, "sas": sas, "las": las, "las_precision": las_p, "las_recall": las_r,
        "nas": nas, "nas_f1": nas_f1, "nas_d": d, "nas_d_precision": d_p, "nas_d_recall": d_r,
        "nas_l": line, "nas_l_precision": l_p, "nas_l_recall": l_r,
        "window_regularizer": penalty, "window_area": area,
        "windows_precision": tuple(spans_p), "windows_recall": tuple(spans_r),
        "match_precision": tuple(match_p), "match_recall": tuple(match_r),
        "nas_d_detail_precision": d_detail_p, "nas_d_detail_recall": d_detail_r,
        "nas_l_detail_precision": l_detail_p, "nas_l_detail_recall": l_detail_r,
    }  # fmt: skip
