"""The table of scores that the command dataset scores prints, and the lines below it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from string import ascii_lowercase
from typing import Any

# The marks of statuses that all metrics share; other statuses get letters.
MARKS = {"not_applicable": "–", "unscored": "·", "stale": "~", "failed": "!"}
# A name is not made shorter than this.
SHORTEST = 8


def build_score_table(rows: Sequence[Mapping[str, Any]], metrics: Sequence[str], width: int) -> list[dict[str, str]]:
    """Return one table row for every sample: its names, and for every metric the value to three decimals, or a mark for
    its status. rows: with sample, kind and system, and for every metric NAME the fields NAME and NAME_status. The
    longest names lose their middle where the table would be wider than `width` characters.

    >>> row = {"sample": "clip_001__sys_faithful", "system": "brief", "kind": "caption", "vcs": 0.5, "vcs_status": "ok"}
    >>> build_score_table([row], ["vcs"], 32)
    [{'sample': 'clip_001…faithful', 'system': 'brief', 'vcs': '0.500'}]
    """
    marks = _choose_marks(rows, metrics)
    values = {
        metric: [marks[_status(row, metric)] if row[metric] is None else f"{row[metric]:.3f}" for row in rows]
        for metric in metrics
    }
    names = ("sample", "kind", "system") if len({row["kind"] for row in rows}) > 1 else ("sample", "system")
    taken = sum(max([len(metric), *map(len, cells)]) for metric, cells in values.items())
    room = width - taken - 2 * (len(names) + len(values) - 1)
    sizes = {name: max([len(name), *(len(row[name]) for row in rows)]) for name in names}
    while sum(sizes.values()) > room and max(sizes.values()) > SHORTEST:
        sizes[max(sizes, key=sizes.__getitem__)] -= 1
    return [
        {name: _shorten_middle(row[name], size) for name, size in sizes.items()}
        | {metric: cells[place] for metric, cells in values.items()}
        for place, row in enumerate(rows)
    ]


def _shorten_middle(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    return f"{text[: width // 2]}…{text[len(text) - (width - width // 2 - 1) :]}"


def _status(row: Mapping[str, Any], metric: str) -> str:
    return row[f"{metric}_status"] or "unscored"


def _choose_marks(rows: Sequence[Mapping[str, Any]], metrics: Sequence[str]) -> dict[str, str]:
    """Return a mark for each status of a missing value, in the order in which the statuses appear."""
    missing = dict.fromkeys(_status(row, metric) for row in rows for metric in metrics if row[metric] is None)
    letters = iter(ascii_lowercase)
    return {status: MARKS.get(status) or next(letters) for status in missing}


def explain_left_out_metrics(rows: Sequence[Mapping[str, Any]], metrics: Sequence[str]) -> Iterator[str]:
    """Yield one line that names the metrics with their statuses in these rows; nothing without rows or metrics.
    metrics: those without any value, which the caller has left out of the table.
    """
    statuses = {metric: dict.fromkeys(_status(row, metric).replace("_", " ") for row in rows) for metric in metrics}
    if rows and metrics:
        why = ", ".join(f"{metric} ({', '.join(names)})" for metric, names in statuses.items())
        yield f"metrics left out, since no sample has a value: {why}"


def explain_marks(rows: Sequence[Mapping[str, Any]], labels: Mapping[str, str]) -> Iterator[str]:
    """Yield a line with the meaning of every mark in the table, and one with the labels of metrics that used a stand-in
    model; each line only if it is needed. labels: by metric; one that differs from the metric's name shows a stand-in.
    """
    if marks := _choose_marks(rows, list(labels)):
        yield "  ".join(f"{mark} {status.replace('_', ' ')}" for status, mark in marks.items())
    if stand_ins := [label for metric, label in labels.items() if label != metric]:
        yield ", ".join(stand_ins)
