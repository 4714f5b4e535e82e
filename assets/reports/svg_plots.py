"""Plots the figures of a report's page as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from assets.reports.answer_records import TrafficLight
from assets.reports.svg import render_svg, use_page_style
from assets.words.text import escape_controls
from metrics_core.agreement.baseline_comparison import Coefficient

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The page's colours of conclusions; everything else has one colour.
LIGHT_COLOURS: Mapping[TrafficLight, str] = {
    "good": "#187a4b",
    "middle": "#b07d00",
    "bad": "#b3401f",
    "open": "#6b7580",
}
ACCENT, GREY, PALE, DARK = "#2b6a99", "#8a939c", "#e6eaee", "#333333"
# Margins and letters, in inches.
WIDTH, LEFT, RIGHT = 4.1, 0.66, 0.1
INCH_OF_LETTER = 0.066
NAME_LENGTH = 26


@use_page_style
def plot_coefficients(
    bars: Sequence[tuple[str, Coefficient, str]],
    baseline: float | None,
    rater: Coefficient | None,
    name: str,
    description: str,
) -> str:
    """Plot coefficients with their intervals as horizontal lines, the first on top, and return an SVG element. bars:
    (name, coefficient, colour). Vertical lines mark the strongest simple score (`baseline`) and one more rater; None
    for no such line. name, description: id prefix and text for screen readers, as in `render_svg`.
    """
    names = [_shorten(label) for label, *_ in reversed(bars)]
    figure, axes = _make_axes(WIDTH, 0.82 + 0.22 * len(bars), _measure_names(names), 0.32)
    if baseline is not None:
        axes.axvline(baseline, color=GREY, linewidth=1.2, linestyle=":", label="strongest simple score")
    if rater is not None and rater.value is not None:
        axes.axvline(rater.value, color=DARK, linewidth=1.2, linestyle="--", label="one more rater")
        if rater.low is not None and rater.high is not None:
            axes.axvspan(rater.low, rater.high, color=DARK, alpha=0.13, linewidth=0)
    for place, (_, coefficient, colour) in enumerate(reversed(bars)):
        if coefficient.value is not None:
            axes.plot([coefficient.value], [place], "o", color=colour, markersize=4.5)
        if coefficient.low is not None and coefficient.high is not None:
            axes.plot(
                [coefficient.low, coefficient.high], [place, place], color=colour, linewidth=2, solid_capstyle="butt"
            )
    _label_rows(axes, names, "Kendall’s τ-b with people, 95 % interval")
    if axes.get_legend_handles_labels()[0]:
        figure.legend(loc="upper right", ncols=2, frameon=False, fontsize=8, handlelength=1.8)
    return render_svg(figure, name, description)


@use_page_style
def plot_histogram(
    low: float,
    high: float,
    counts: Sequence[int],
    xlabel: str,
    name: str,
    description: str,
    cuts: Mapping[str, float] | None = None,
) -> str:
    """Plot a histogram from counts of equal bins between low and high, and return an SVG element. cuts: values to mark
    with vertical lines, by label. name, description: id prefix and text for screen readers, as in `render_svg`.
    """
    figure, axes = _make_axes(WIDTH, 1.9)
    edges = np.linspace(low, high, len(counts) + 1)
    axes.stairs(counts, edges, fill=True, color=ACCENT, alpha=0.75)
    top = max(counts) or 1
    for value in (cuts or {}).values():
        axes.plot([value, value], [0, 1.03 * top], color=DARK, linewidth=0.9, linestyle="--")
    left, right = axes.get_xlim()
    letter = INCH_OF_LETTER * 7 / 9 * (right - left) / (WIDTH - LEFT - RIGHT)
    for value, label in _place_labels(cuts or {}, letter, (left, right)):
        axes.text(value, top * 1.05, label, fontsize=7, ha="center", va="bottom", color=DARK)
    axes.set_xlim(left, right)
    axes.set_ylim(0, top * (1.16 if cuts else 1.05))
    _label_x(axes, xlabel)
    axes.set_ylabel("samples")
    axes.locator_params(axis="y", nbins=5, integer=True)
    return render_svg(figure, name, description)


def _place_labels(labels: Mapping[str, float], letter: float, limits: tuple[float, float]) -> list[tuple[float, str]]:
    """Return labels with the positions of their middles; labels that would touch are joined, and none exceeds the
    limits.

    letter: the width of a letter, in the unit of the places and limits.

    >>> _place_labels({"50 %": 0.0, "25 %": 1.0, "12.5 %": 1.1}, 0.1, (-1, 2))
    [(0.0, '50 %'), (1.05, '25 %, 12.5 %')]
    >>> _place_labels({"50 %": 0.0, "25 %": 2.0}, 0.1, (-1, 2))
    [(0.0, '50 %'), (1.8, '25 %')]
    """
    placed: list[tuple[float, str]] = []
    for label, place in sorted(labels.items(), key=lambda item: item[1]):
        placed.append((_move_inside(place, label, letter, limits), label))
        while len(placed) > 1:
            (left, before), (right, after) = placed[-2:]
            if right - left > letter * ((len(before) + len(after)) / 2 + 1):
                break
            joined = f"{before}, {after}"
            placed[-2:] = [(_move_inside((left + right) / 2, joined, letter, limits), joined)]
    return placed


def _move_inside(place: float, label: str, letter: float, limits: tuple[float, float]) -> float:
    """Return the position of a label's middle, moved so that both ends lie between the limits, if there is room."""
    half = letter * len(label) / 2
    return max(limits[0] + half, min(limits[1] - half, place))


def _shorten(name: str) -> str:
    """Return a name on one line, at most 26 characters long, with control characters made visible."""
    line = escape_controls(" ".join(name.split()))
    return line if len(line) <= NAME_LENGTH else f"{line[: NAME_LENGTH - 1]}…"


def _label_rows(axes: Axes, names: Sequence[str], xlabel: str) -> None:
    """Label the rows of a figure, the lowest first, and its horizontal axis, and add a faint grid."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(-0.6, len(names) - 0.4)
    _label_x(axes, xlabel)
    axes.grid(axis="x", color=PALE, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)


def _label_x(axes: Axes, name: str) -> None:
    """Label the horizontal axis; a label wider than the axis is aligned with its right end."""
    axes.set_xlabel(name)
    if INCH_OF_LETTER * len(name) > axes.get_position().width * WIDTH:
        axes.xaxis.label.set(x=1, ha="right")


def _make_axes(width: float, height: float, left: float = LEFT, top: float = 0.08) -> tuple[Figure, Axes]:
    """Make an empty figure of a size in inches, with fixed margins, since layout engines draw everything twice."""
    # The object interface draws without a display and without the global state of pyplot.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=130)
    bottom = 0.44
    box = (left / width, bottom / height, (width - left - RIGHT) / width, (height - bottom - top) / height)
    return figure, figure.add_axes(box)


def _measure_names(names: Sequence[str]) -> float:
    """Return the width in inches that the longest name needs to the left of an axis."""
    return 0.12 + INCH_OF_LETTER * max(map(len, names), default=0)
