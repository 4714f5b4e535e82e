"""Draws docs/prove.svg from what `python -m benchmarks.prove_vatex` has measured.

Run it after that:  .venv/bin/python docs/prove.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

PICTURE = Path(__file__).with_name("prove.svg")
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results" / "prove_vatex.json"
COLOURS = ("#1b9e77", "#7570b3", "#d95f02", "#a6261d")
# Lines of four kinds of noise have the same shares: without a shift their bars would hide each other.
SHIFT = 1.03
STYLE: dict[str, Any] = {
    # Text stays text: it can be read aloud, searched and copied.
    "svg.fonttype": "none",
    "svg.hashsalt": "prove",
    "font.size": 9,
    "axes.labelsize": 8.5,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.edgecolor": "#666666",
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
}


def draw(trials: list[dict[str, Any]]) -> Figure:
    """A line for each trial with a curve: the mean reciprocal rank by the share of the samples that train."""
    figure = Figure(figsize=(6.4, 3.6))
    axes = figure.add_subplot()
    for place, (trial, colour) in enumerate(zip(trials, COLOURS, strict=True)):
        curve = sorted((arm for arm in trial["arms"] if arm["share"] is not None), key=lambda arm: arm["share"])
        shares = [arm["share"] * SHIFT ** (place - 1.5) for arm in curve]
        values = [arm["value"] for arm in curve]
        # The best share has no interval: the others are compared with it.
        bars = [
            [0.0 if arm["difference"] is None else abs(arm[end] - arm["difference"]) for arm in curve]
            for end in ("high", "low")
        ]
        axes.errorbar(shares, values, yerr=bars, color=colour, marker="o", markersize=4, linewidth=1.3, capsize=2)
        axes.annotate(
            f"{trial['noise'] * 100:g} % swapped",
            (shares[-1], values[-1]),
            xytext=(8, 0),
            textcoords="offset points",
            color=colour,
            va="center",
            fontsize=8.5,
        )
    axes.set_xscale("log", base=2)
    axes.set_xlim(0.055, 1.75)
    ticks = [arm["share"] for arm in trials[0]["arms"] if arm["share"] is not None]
    axes.set_xticks(ticks, [f"{share:g}" for share in ticks])
    axes.set_ylim(bottom=0)
    axes.axhline(trials[0]["chance"], color="#8a939c", linewidth=1, linestyle=":")
    axes.text(1.7, trials[0]["chance"] + 0.006, "chance", ha="right", va="bottom", fontsize=8, color="#666666")
    axes.set(xlabel="share of the captions, best by cosine", ylabel="mean reciprocal rank")
    figure.tight_layout()
    return figure


def main() -> None:
    """Write the picture."""
    measured = json.loads(RESULTS.read_text(encoding="utf-8"))["trials"]
    curves = [trial for trial in measured if any(arm["share"] is not None for arm in trial["arms"])]
    with mpl.rc_context(STYLE):
        draw(curves).savefig(PICTURE, metadata={"Date": None, "Creator": None}, facecolor="white")


if __name__ == "__main__":
    main()
