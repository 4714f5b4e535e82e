"""What the ECS benchmarks print, in at most 120 columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.ecs_data import DataSet
from metrics_core.ecs import DEFAULT_R

EXHAUSTIVE, NEAREST = "exhaustive", f"r = {DEFAULT_R}"
GLOBAL, EARLY = f"{NEAREST}, one threshold", f"{NEAREST}, early exit"
Rows = Mapping[str, Mapping[str, Any]]
KEYPOINT_NUMBERS = ("accuracy", "f1", "mcc")
LEGEND = """
rho, tau: Spearman and Kendall of captions' covered shares; in: mean over systems; m: rho of captions' mean scores.
pair@.1: share of pairs of a clip's captions, .10 apart or more, that are ordered alike (Wilson interval; pairs of one
clip are not independent). sys tau: Kendall of systems' means (bootstrap over clips). -: not defined."""


def cell(value: float | None, width: int) -> str:
    """A number with three digits, or a dash where it is not defined."""
    return f"{'-' if value is None else f'{value:.3f}':>{width}}"


def interval(limits: Mapping[str, Any]) -> str:
    """Both limits, or nothing."""
    return "" if limits["low"] is None else f" ({limits['low']:.2f} to {limits['high']:.2f})"


def agreement_table(data: DataSet, rows: Rows) -> Iterator[str]:
    """Table 1 of the paper."""
    first = next(iter(rows.values()))
    points, systems, n_captions = first["keypoints"], first["systems"], first["captions"]["n"]
    yield f"\n{data.name} ({data.note})"
    yield (
        f"  {points['n']:,} keypoints, {points['prevalence']:.3f} of them covered; {n_captions:,} captions of "
        f"{systems['n_clips']} clips by {systems['n_systems']} systems; {first['pairwise']['n_eligible']:,} pairs"
    )
    yield (
        f"  without looking: accuracy {points['majority_accuracy']:.3f} (always the commoner label), "
        f"F1 {points['all_positive_f1']:.3f} (always yes)"
    )
    names = "".join(f"{name:>7}" for name in ("rho", "tau", "rho in", "tau in", "rho m"))
    yield f"{'':<15}{names}{'pair@.1':>9}{'':15}{'KP acc':>7}{'F1':>7}{'MCC':>7}{'sys tau':>8}"
    for name, row in rows.items():
        found, inside, mean = (row[f"captions{part}"] for part in ("", "_within_systems", "_by_mean_score"))
        correlations = [each[kind] for each in (found, inside) for kind in ("spearman", "kendall")]
        yield (
            f"{name:<15}{''.join(cell(each, 7) for each in [*correlations, mean['spearman']])}"
            f"{cell(row['pairwise']['share'], 9)}{interval(row['pairwise']):<15}"
            f"{keypoint_cells(row['keypoints'])}{cell(row['systems']['kendall'], 8)}{interval(row['systems'])}"
        )


def dimension_table(rows: Mapping[str, Rows], threshold: float) -> Iterator[str]:
    """The keypoints of each dimension at the verifier's own threshold and at calibrated ones."""
    columns = "".join(f"{name:>7}" for name in ("KP acc", "F1", "MCC"))
    yield f"  ECS by dimension{'':>37}{f'all at {threshold:.3f}':>22}   {'calibrated on other clips':>21}"
    yield f"{'':<19}{'labels':>7}{'covered':>8}{'majority':>9}{'all-yes F1':>11}   {columns}   {columns}"
    for name, ways in rows.items():
        given = ways["default"]
        shares = zip(("prevalence", "majority_accuracy", "all_positive_f1"), (8, 9, 11), strict=True)
        yield (
            f"{name:<19}{given['n']:>7}{''.join(cell(given[number], width) for number, width in shares)}"
            f"   {keypoint_cells(given)}   {keypoint_cells(ways['calibrated'])}"
        )


def keypoint_cells(numbers: Mapping[str, float | None]) -> str:
    """Accuracy, F1 and MCC."""
    return "".join(cell(numbers[name], 7) for name in KEYPOINT_NUMBERS)


def unlabelled_table(data: DataSet, rows: Rows, cost: Mapping[str, float]) -> Iterator[str]:
    """Own captions against other clips'."""
    yield f"\n{data.name} ({data.note})"
    yield f"{'':<32}{'own':>8}{'other':>8}{'own wins':>10}{'tied':>7}{'AUC':>8}"
    for name, row in rows.items():
        numbers = f"{cell(row['own'], 8)}{cell(row['other'], 8)}{row['wins']:>10}{row['ties']:>7}{cell(row['auc'], 8)}"
        yield f"{name:<32}{numbers}"
    yield "  own, other: means of the clip's own caption and of the next clip's; AUC: share of wins, ties counting half"
    yield (
        f"  ECS: {cost['passes']:,} passes, {cost['pairs']:,} different pairs in {cost['judging_s']:.0f} s, "
        f"{cost['pairs'] / cost['judging_s']:.0f} a second; {cost['embedding_s']:.0f} s to embed the texts"
    )


def ablation_table(data: DataSet, rows: Rows, timed: Rows) -> Iterator[str]:
    """Table 2 of the paper."""
    lengths = [len(each.sentences) for each in data.judged().captions]
    mean = sum(lengths) / len(lengths)
    yield f"\n{data.name} ({data.note})"
    yield f"  {len(lengths)} captions of {min(lengths)} to {max(lengths)} sentences, mean {mean:.1f}"
    yield f"{'':<22}{'passes':>9}{'pairs':>9}{'rho':>7}{'KP F1':>7}{'pair@.1':>9}{'as all':>8}   seconds on a part"
    for name, row in rows.items():
        shares = (("spearman", 7), ("keypoint_f1", 7), ("pairwise", 9), ("same", 8))
        numbers = "".join(cell(row[number], width) for number, width in shares)
        yield f"{name:<22}{row['passes']:>9,}{row['pairs']:>9,}{numbers}   {seconds_cells(timed.get(name))}"


def savings(rows: Rows, times: Mapping[str, Any]) -> Iterator[str]:
    """What becomes of the passes that retrieval and early exit save."""
    passes = {name: row["passes"] for name, row in rows.items()}
    fewer, exited = passes[EXHAUSTIVE] / passes[NEAREST], 1 - passes[EARLY] / passes[NEAREST]
    yield f"  {NEAREST}: {fewer:.3f} times fewer passes, exactly sum(m) / sum(min(r, m)); early exit saves {exited:.1%}"
    every, nearest = (times["variants"][name] for name in (EXHAUSTIVE, NEAREST))
    longer = nearest["characters_of_planned_pairs"] / every["characters_of_planned_pairs"] - 1
    yield (
        f"  the part, {times['captions']} captions: {every['passes'] / nearest['passes']:.3f} times fewer passes, "
        f"{every['pairs'] / nearest['pairs']:.3f} times fewer pairs, {longer:+.1%} in length"
    )
    by_wall, by_cpu = (times["share_of_pass_ratio"][clock] for clock in ("wall", "cpu"))
    yield (
        f"  {nearest['speedup']['median']:.3f} times as fast; "
        f"speed-up / passes {by_wall['median']:.3f} ({by_wall['low']:.3f} to {by_wall['high']:.3f}), "
        f"wanted {times['target']}; in CPU time {by_cpu['median']:.3f}"
    )


def seconds_cells(timed: Mapping[str, Any] | None) -> str:
    """Seconds of a variant and how many of them embedding took."""
    if timed is None:
        return "not timed"
    taken, embedding = timed["seconds"], timed["embedding_s"]["median"]
    note = f", {embedding:.1f} to embed" if embedding else ""
    return f"{taken['median']:.1f} ({taken['low']:.1f} to {taken['high']:.1f}){note}"
