"""What every benchmark needs: alternating runs, medians with their spread, the machine, and the result as JSON."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
RESULTS = Path(__file__).parent / "results"
# As the tests look for it.
DATA = Path(os.environ.get("REELSIEVE_TEST_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
# The encoder that REELSIEVE_TEXT_ENCODER names: a folder, a hub id, or the bundled one.
TEXT_ENCODER = os.environ.get("REELSIEVE_TEXT_ENCODER", "offline")


@dataclass(frozen=True)
class Spread:
    """The median of some numbers and the range of their middle half."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of the values; of one value, itself."""
        if len(values) < 2:
            return cls(values[0], values[0], values[0])
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(middle, low, high)

    def __str__(self) -> str:
        return f"{self.median:.3g} ({self.low:.3g} to {self.high:.3g})"

    def as_dict(self) -> dict[str, float]:
        """Plain data."""
        return {"median": self.median, "low": self.low, "high": self.high}


def seconds(call: Callable[[], object]) -> float:
    """Wall time of one call."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def timed(name: str, call: Callable[[], T]) -> tuple[float, T]:
    """Wall time and answer of one call; a line says the time."""
    started = time.perf_counter()
    answer = call()
    taken = time.perf_counter() - started
    print(f"  {name:<60}{taken:>9.2f} s", flush=True)
    return taken, answer


def alternate(calls: Mapping[str, Callable[[], object]], runs: int) -> dict[str, list[float]]:
    """Seconds of each call, one run of all after the other, so that other load on the machine meets all alike."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(runs):
        for name, call in calls.items():
            taken[name].append(seconds(call))
    return taken


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median and the limits of the middle half, as plain data."""
    return Spread.of(values).as_dict()


def peak_kb() -> int:
    """Kilobytes that this process has taken at most. `getrusage` would begin with those of the parent (Linux)."""
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1])


def machine(**more: Any) -> dict[str, Any]:
    """What the figures were taken on, and how busy it was; `more` are versions and the like."""
    return {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "date": time.strftime("%Y-%m-%d"),
        **more,
    }


def save(path: Path, result: Mapping[str, Any], **of_machine: Any) -> Path:
    """Write a benchmark's result to a file of JSON, with the machine and what else is to be known of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine(**of_machine), **result}
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return path


def save_with_load(path: Path, result: Mapping[str, Any], before: tuple[float, float, float]) -> None:
    """Write a result as `save` does, and print the load of the machine before and after, and the file."""
    print(f"load {before[0]:.1f} before, {os.getloadavg()[0]:.1f} after; {save(path, result, load_before=before)}")


def read_results(log: Path) -> list[dict[str, Any]]:
    """The results that a log has so far; none where it does not exist."""
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.is_file() else []


def add_result(log: Path, result: Mapping[str, Any]) -> None:
    """Add a result to a log, by which a benchmark that was stopped goes on."""
    with log.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(result) + "\n")


def vatex_source() -> Path:
    """The file of VATEX-EVAL in the folder of the test data. Raises SystemExit where it is not there."""
    source = DATA / "vatex_eval" / "vatex_eval.jsonl"
    if not source.is_file():
        raise SystemExit(f"no VATEX-EVAL in {DATA}: set REELSIEVE_TEST_DATA to the folder of the test data")
    return source
