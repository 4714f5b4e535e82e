"""What the platform costs around a metric: `python -m benchmarks.overhead`, some minutes on two cores.

1,002 captions of the demo's world, with two references each, their embeddings in the database. A run scores them
through Dagster as `reelsieve score` does, in a process that has loaded everything. What is spent inside the scorer is
metric code, the rest is the platform: work list, reading texts and vectors, writing, events, plots, checks. The second
run finds nothing to do. Every metric that needs no video is timed.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.installation import installation, write_rows
from benchmarks.measure import RESULTS, Spread, save, seconds

RUNS = 3
N_CLIPS = 167
OUTSIDE_WANTED, SECOND_WANTED = 0.15, 0.05


def write_captions(folder: Path, n_clips: int) -> None:
    """Captions and references of the demo's world, without clips."""
    from lab.demo.build import build_manifest_rows, make_demo_clips

    rows = build_manifest_rows(make_demo_clips(n_clips, 7))
    videos = [{"video_id": row["video_id"]} for row in rows["videos"]]
    for name, table in (("videos", videos), ("captions", rows["captions"])):
        write_rows(folder / f"{name}.jsonl", table)


def overhead(folder: Path) -> dict[str, Any]:
    """Time inside and outside metric code, first and second run, for each metric that needs no video."""
    from assets.datasets.lookup import require_dataset
    from assets.metrics.registry import METRICS, list_source_classes
    from assets.sources.frames import SampledFrames
    from orchestration.installation import get_installation
    from orchestration.launch import run_ingest, run_scoring

    folder.mkdir()
    write_captions(folder, N_CLIPS)
    with installation(folder / "home"):
        run_ingest(get_installation(), folder, "captions", None, 1)
        dataset = require_dataset(get_installation().engine, "captions")
        found = {}
        for metric in [name for name in METRICS if SampledFrames.asset not in list_source_classes([name])]:
            list(run_scoring(get_installation(), "captions", [metric]))
            watched = _Watched(get_installation().curation.scorers[metric])
            first, second, inside, shard = [], [], [], []
            for _ in range(RUNS):
                _forget_scores(get_installation().engine, dataset.dataset_id)
                watched.seconds = 0.0
                first.append(seconds(lambda m=metric: list(run_scoring(get_installation(), "captions", [m]))))
                inside.append(watched.seconds)
                second.append(seconds(lambda m=metric: list(run_scoring(get_installation(), "captions", [m]))))
                _forget_scores(get_installation().engine, dataset.dataset_id)
                shard.append(_shard_alone(watched, dataset))
            found[metric] = _overhead_rows(metric, first, inside, second, shard)
            watched.restore()
        return found


class _Watched:
    """The scorers of a class, whose time in `score` is added up."""

    def __init__(self, scorer: Any) -> None:
        self.scorer, self.seconds = scorer, 0.0
        self._class, self._score = type(scorer), type(scorer).score
        self._class.score = lambda *given: self._timed_score(*given)

    def _timed_score(self, *given: Any) -> Any:
        started = time.perf_counter()
        outcomes = self._score(*given)
        self.seconds += time.perf_counter() - started
        return outcomes

    def restore(self) -> None:
        """Leave the class as it was."""
        self._class.score = self._score


def _shard_alone(watched: _Watched, dataset: Any) -> tuple[float, float]:
    """Seconds of scoring the shard without Dagster, and of these inside the metric."""
    from assets.scores.run import score_shard
    from orchestration.installation import get_installation

    watched.seconds = 0.0
    taken = seconds(lambda: score_shard(get_installation().engine, watched.scorer, dataset, 0, run_id="benchmark"))
    return taken, watched.seconds


def _overhead_rows(
    metric: str, first: list[float], inside: list[float], second: list[float], shard: list[tuple[float, float]]
) -> dict[str, Any]:
    outside = Spread.of([1 - i / f for i, f in zip(inside, first, strict=True)])
    outside_shard = Spread.of([1 - i / s for s, i in shard])
    ratio = Spread.of([s / f for s, f in zip(second, first, strict=True)])
    print(f"\noverhead of {metric}: {N_CLIPS * 6} captions, embeddings cached")
    print(f"  run through Dagster    {Spread.of(first)} s, of these in the metric {Spread.of(inside)} s")
    print(f"  outside metric code    {outside}, wanted under {OUTSIDE_WANTED}")
    print(f"  without Dagster        {Spread.of([s for s, _ in shard])} s, outside metric code {outside_shard}")
    print(f"  second run / first run {ratio}, wanted under {SECOND_WANTED}")
    parts = {"first_s": first, "metric_s": inside, "second_s": second, "shard_s": [s for s, _ in shard]}
    rows = {name: Spread.of(values).as_dict() for name, values in parts.items()}
    return rows | {
        "outside": outside.as_dict(),
        "outside_shard": outside_shard.as_dict(),
        "second_over_first": ratio.as_dict(),
        "wanted": [OUTSIDE_WANTED, SECOND_WANTED],
    }


def _forget_scores(engine: Any, dataset_id: int) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql(
            f"DELETE FROM score USING sample s WHERE s.sample_id = score.sample_id AND s.dataset_id = {dataset_id:d}"
        )


def main() -> None:
    """Run it and write results/overhead.json."""
    with tempfile.TemporaryDirectory() as folder:
        result = overhead(Path(folder) / "captions")
    print(f"\nwritten to {save(RESULTS / 'overhead.json', result)}")


if __name__ == "__main__":
    main()
