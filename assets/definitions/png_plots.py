"""Small PNG plots for the metadata of Dagster's assets."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOUR = "#2f6f8f"


def plot_histogram_png(
    low: float,
    high: float,
    counts: Sequence[int],
    metric: str,
    title: str,
    lines: Mapping[str, float] | None = None,
) -> bytes:
    """Plot a histogram from counts in equal bins between low and high, and return it as PNG bytes. metric: name of the
    horizontal axis. lines: values to mark with a vertical line, by label; lines that are close to each other share a
    label. If low equals high, one bar holds all counts.
    """
    if low == high:
        low, high = low - 0.5, high + 0.5
        counts = [sum(counts) if place == len(counts) // 2 else 0 for place in range(len(counts))]
    width = (high - low) / len(counts)
    figure = _make_figure(2.4)
    axes = figure.subplots()
    left = [low + place * width for place in range(len(counts))]
    axes.bar(left, counts, width=width, align="edge", color=COLOUR, edgecolor="white", linewidth=0.4)
    _plot_lines(axes, lines or {})
    axes.set(xlabel=metric, ylabel="samples", title=title)
    return _render_png(figure)


def plot_intervals_png(limits: Mapping[str, tuple[float, float, float]], title: str) -> bytes:
    """Plot coefficients with their intervals (value, low, high) by name, the highest on top, and return PNG bytes."""
    order = sorted(limits, key=lambda name: limits[name][0])
    figure = _make_figure(0.8 + 0.32 * len(order))
    axes = figure.subplots()
    for place, name in enumerate(order):
        value, low, high = limits[name]
        axes.plot([low, high], [place, place], color=COLOUR, linewidth=1.5)
        axes.plot([value], [place], "o", color=COLOUR, markersize=5)
    axes.axvline(0, color="#999999", linewidth=0.8)
    axes.set_yticks(range(len(order)), order)
    axes.set(xlabel="Kendall tau-b, pooled", title=title)
    return _render_png(figure)


def format_markdown_image(png: bytes, text: str) -> str:
    """Return a PNG as a markdown image that contains its bytes as a data: URI. text: its alternative text, which is not
    escaped.
    """
    return f"![{text}](data:image/png;base64,{base64.b64encode(png).decode()})"


def _plot_lines(axes: Axes, lines: Mapping[str, float]) -> None:
    """Draw labelled vertical lines; lines that are too close to each other share a label."""
    left, right = axes.get_xlim()
    labels: dict[float, list[str]] = {}
    for label, value in lines.items():
        axes.axvline(value, color="#b5482f", linewidth=1)
        near_value = next((other for other in labels if abs(other - value) < (right - left) / 40), value)
        labels.setdefault(near_value, []).append(label)
    for value, shared in labels.items():
        axes.text(value, axes.get_ylim()[1], " " + ", ".join(shared), fontsize=6, rotation=90, va="top")


def _make_figure(height: float) -> Figure:
    # The object interface draws without a display and without the global state of pyplot.
    from matplotlib.figure import Figure

    return Figure(figsize=(4.8, height), dpi=110, layout="constrained")


def _render_png(figure: Figure) -> bytes:
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=7)
        axes.title.set_fontsize(9)
        axes.xaxis.label.set_fontsize(8)
        axes.yaxis.label.set_fontsize(8)
    stream = io.BytesIO()
    figure.savefig(stream, format="png")
    return stream.getvalue()
