"""Draws figures as SVG elements, for a report's page and for Dagster's pages: intervals and histograms."""

from __future__ import annotations

import base64
import sys
from collections.abc import Mapping, Sequence
from math import ceil, floor, isfinite, log10
from typing import NamedTuple

from markupsafe import escape

from assets.reports.answer_records import TrafficLight
from assets.words.text import escape_controls

# The page's colours of conclusions; everything else has one colour.
LIGHT_COLOURS: Mapping[TrafficLight, str] = {
    "good": "#187a4b",
    "middle": "#45586a",
    "bad": "#b3401f",
    "open": "#6b7580",
}
ACCENT, GREY, PALE, DARK, TEXT = "#2b6a99", "#8a939c", "#e6eaee", "#333333", "#444444"
# In pixels. A letter is as wide as in the widest of the common fonts.
WIDTH, RIGHT, ROW, LETTER, SIZE = 394.0, 10.0, 21.0, 6.5, 11
_NAME_LENGTH = 26


class Bar(NamedTuple):
    """A value with its interval and colour, for a row of a figure. low, high: None without an interval."""

    name: str
    value: float
    low: float | None
    high: float | None
    colour: str = ACCENT


class _Axis(NamedTuple):
    """A horizontal axis of a figure: the numbers `low` to `high` lie from `left` to the right margin."""

    low: float
    high: float
    left: float

    def place(self, value: float) -> float:
        """Return the place of a number, in pixels."""
        # Halved, since the difference of the largest numbers is infinite.
        share = (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return round(self.left + (WIDTH - RIGHT - self.left) * share, 1)

    def format_svg(self, bottom: float, name: str, grid_top: float | None = None) -> str:
        """Draw the axis at a height with its ticks and its name below, which ends where the axis does if it is wider.
        grid_top: where the lines of the grid end; None for no grid.
        """
        limits = (0.0, WIDTH)
        parts = [_format_line(self.left, bottom, WIDTH - RIGHT, bottom, "#666666", 1)]
        for tick in _list_ticks(self.low, self.high, max(2, int((WIDTH - self.left) / 48))):
            x, label = self.place(tick), _format_tick(tick)
            parts.append(_format_line(x, bottom, x, bottom + 4, "#666666", 1))
            if grid_top is not None:
                parts.insert(0, _format_line(x, grid_top, x, bottom, PALE, 1))
            parts.append(_format_text(_move_inside(x, label, LETTER, limits), bottom + 16, label, "middle"))
        half = len(name) * LETTER / 2
        middle = (self.left + WIDTH - RIGHT) / 2
        x, anchor = (middle, "middle") if middle + half <= WIDTH - RIGHT else (WIDTH - RIGHT, "end")
        return "".join(parts) + _format_text(x, bottom + 33, name, anchor)


def plot_bars(bars: Sequence[Bar], xlabel: str, description: str, simple: float | None, rater: Bar | None) -> str:
    """Draw values with their intervals as horizontal lines, the first on top, as an SVG element. Vertical lines mark
    the value of the strongest simple score (`simple`) and of one more rater; None for no such line. description: text
    for screen readers.
    """
    ends = [end for bar in (*bars, *([rater] if rater else [])) for end in (bar.value, bar.low, bar.high)]
    known = [end for end in (*ends, simple) if end is not None]
    names = [_shorten(bar.name) for bar in bars]
    axis = _make_axis(min(known), max(known), 20 + LETTER * max(map(len, names)))
    top, lines = 26.0, []
    bottom = top + ROW * len(bars)
    if rater and rater.low is not None and rater.high is not None:
        left, right = axis.place(rater.low), axis.place(rater.high)
        lines.append(
            f'<rect x="{left}" y="{top}" width="{right - left:.1f}" height="{ROW * len(bars)}" fill="{DARK}" '
            'opacity=".13"/>'
        )
    marks = [(simple, GREY, "2 3", "strongest simple score"), (rater and rater.value, DARK, "6 3", "one more rater")]
    x = WIDTH
    for value, colour, dash, label in reversed(marks):
        if value is not None:
            lines.append(_format_line(axis.place(value), top, axis.place(value), bottom, colour, 1.6, dash))
            x -= len(label) * LETTER + 8
            lines += [_format_text(x, 14, label, "start"), _format_line(x - 24, 10, x - 4, 10, colour, 1.6, dash)]
            x -= 26
    for place, (bar, name) in enumerate(zip(bars, names, strict=True)):
        y = top + ROW * (place + 0.5)
        if bar.low is not None and bar.high is not None:
            lines.append(_format_line(axis.place(bar.low), y, axis.place(bar.high), y, bar.colour, 2.6))
        lines.append(f'<circle cx="{axis.place(bar.value)}" cy="{y}" r="3.2" fill="{bar.colour}"/>')
        lines.append(_format_text(axis.left - 8, y + 4, name, "end"))
    return _format_svg(bottom + 40, description, axis.format_svg(bottom, xlabel, top) + "".join(lines))


def plot_histogram(
    low: float, high: float, counts: Sequence[int], xlabel: str, description: str, cuts: Mapping[str, float]
) -> str:
    """Draw a histogram from counts of equal bins between low and high as an SVG element. cuts: values to mark with
    vertical lines, by label. If low equals high, one bar in the middle has all counts. description: text for screen
    readers.
    """
    if low == high:
        low, high = low - 0.5, high + 0.5
        counts = [sum(counts) if place == len(counts) // 2 else 0 for place in range(len(counts))]
    most, top, bottom = max(counts) or 1, 22.0, 150.0
    ticks = {tick: _format_tick(tick) for tick in _list_ticks(0, most, 4) if tick == int(tick)}
    axis = _make_axis(low, high, 32 + LETTER * max(map(len, ticks.values())))

    def rise(n: float) -> float:
        return round(bottom - (bottom - top) * n / most, 1)

    first, last = axis.place(low), axis.place(high)
    edges = [round(first + (last - first) * place / len(counts), 1) for place in range(len(counts) + 1)]
    bins = "".join(
        f"M{left} {bottom}V{rise(n)}H{right}V{bottom}z"
        for n, left, right in zip(counts, edges, edges[1:], strict=False)
        if n
    )
    lines = [f'<path d="{bins}" fill="{ACCENT}" opacity=".75"/>']
    labels = {label: axis.place(cut) for label, cut in cuts.items()}
    lines += [_format_line(x, top - 4, x, bottom, DARK, 1.2, "5 3") for x in labels.values()]
    lines += [_format_text(x, 12, label, "middle") for x, label in _place_labels(labels, LETTER, (0.0, WIDTH))]
    for tick, label in ticks.items():
        y = rise(tick)
        lines.append(_format_line(axis.left - 4, y, axis.left, y, "#666666", 1))
        lines.append(_format_text(axis.left - 7, y + 4, label, "end"))
    lines.append(_format_line(axis.left, top, axis.left, bottom, "#666666", 1))
    middle = (top + bottom) / 2
    lines.append(f'<g transform="rotate(-90 12 {middle})">{_format_text(12, middle, "samples", "middle")}</g>')
    return _format_svg(bottom + 40, description, axis.format_svg(bottom, escape_controls(xlabel)) + "".join(lines))


def format_markdown_image(svg: str, text: str) -> str:
    """Return an SVG element as a markdown image that contains it as a data: URI, which Dagster's pages show. text: its
    alternative text, which is not escaped.
    """
    return f"![{text}](data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()})"


def _format_svg(height: float, description: str, content: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH:g}" height="{height:g}" '
        f'viewBox="0 0 {WIDTH:g} {height:g}" font-family="sans-serif" font-size="{SIZE}" fill="{TEXT}" role="img" '
        f'aria-label="{escape(escape_controls(description))}">{content}</svg>'
    )


def _format_line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float, dash: str = "none") -> str:
    ends = f'x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width}" stroke-dasharray="{dash}"/>'


def _format_text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


def _make_axis(low: float, high: float, left: float) -> _Axis:
    """Make the axis for numbers between low and high, with a small margin; numbers that are all equal lie in its
    middle.
    """
    margin = 0.04 * (high / 2 - low / 2) or 0.5
    greatest = sys.float_info.max
    return _Axis(max(low - margin, -greatest), min(high + margin, greatest), left)


def _format_tick(tick: float) -> str:
    return (f"{tick:,.0f}" if 1000 <= abs(tick) < 1e9 else f"{tick + 0:g}").replace("-", "−")


def _list_ticks(low: float, high: float, n: int) -> list[float]:
    """Return round numbers between low and high at equal distances, at most n + 1.

    >>> _list_ticks(-0.12, 0.71, 5), _list_ticks(0, 7, 4)
    ([0.0, 0.2, 0.4, 0.6], [0.0, 2.0, 4.0, 6.0])
    """
    width = (high - low) / n
    # Between numbers that are nearly equal there are no others.
    if not isfinite(width) or width < max(1e-300, 1e-9 * abs(low), 1e-9 * abs(high)):
        return [low, high]
    power = 10.0 ** floor(log10(width))
    step = next(times * power for times in (1, 2, 5, 10) if width <= times * power)
    # A tick of a step such as 0.1 is no sum of such steps, which would not be round.
    digits = max(0, -floor(log10(step)) + 1)
    return [round(number * step, digits) for number in range(ceil(low / step), floor(high / step) + 1)]


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
    return line if len(line) <= _NAME_LENGTH else f"{line[: _NAME_LENGTH - 1]}…"
