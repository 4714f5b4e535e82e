"""The time of a plan: rates by a clock that the work moves, real clips and captions, and servers that are not asked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from time import perf_counter

import pytest
from sqlalchemy.engine import Engine

from assets.metrics.qeva.scorer import QEVAScorer
from assets.metrics.qeva.settings import QEVASettings
from assets.metrics.vcs.scorer import VCSShortScorer, VCSShortSettings
from assets.planning.holdings import load_dataset_holdings
from assets.planning.plan import list_scorer_inputs
from assets.planning.timing import START_S, Clock, MeasuredTime, estimate_time, measure_seconds_per_unit
from assets.scores.base import Scorer
from assets.sources.facts import measure_videos
from db.schema.inputs import REFERENCES
from metrics_core.facts.models import find_fact_models
from tests.assets.manifests import candidate, reference, write_clip
from tests.assets.verifying import Bench, HashEncoder

TEXTS = [f"A man opens door number {i} and a dog runs out." for i in range(9)]


class Work:
    """Takes a time for whatever is loaded, once, and then one for each unit; keeps what was done at once."""

    def __init__(self, loading: float, each: float) -> None:
        self.now = 0.0
        self.done: list[int] = []
        self._loading, self._each = loading, each

    def __call__(self, things: Sequence[float]) -> None:
        self.now += self._each * sum(things) + (0.0 if self.done else self._loading)
        self.done.append(len(things))


@pytest.mark.parametrize(
    ("loading", "each", "things", "seconds", "done"),
    [
        (30.0, 0.01, [1.0] * 14, 0.01, [1, 4, 8, 1]),
        (30.0, 0.1, [1.0] * 50, 0.1, [1, 4, 8]),
        (0.0, 4.0, [1.0] * 50, 4.0, [1, 4]),
        (0.0, 0.5, [2.0, 1.0, 3.0], 0.5, [1, 2]),
        (2.0, 0.5, [1.0], 2.5, [1]),
        (2.0, 0.5, [], 0.0, []),
    ],
)
def test_a_rate_leaves_out_what_is_loaded_and_ends_after_a_second(
    loading: float, each: float, things: list[float], seconds: float, done: list[int]
) -> None:
    work = Work(loading, each)
    found = measure_seconds_per_unit(work, things, lambda: work.now, size=lambda thing: thing)
    assert found == MeasuredTime(pytest.approx(seconds), sum(done))
    assert work.done == done


def estimate(bench: Bench, scorers: Sequence[Scorer], n_videos: int, clock: Clock = perf_counter) -> str:
    """The line about the time of clips with a reference and a caption each, and of a clip without."""
    names = [f"v{i}" for i in range(n_videos)]
    for name in [*names, "bare"]:
        write_clip(bench.folder / bench.name / f"{name}.avi")
    captions = [
        row
        for name, text in zip(names, TEXTS, strict=False)
        for row in (reference(f"r {name}", name, text), candidate(f"c {name}", name, text))
    ]
    bench.ingest([{"video_id": name, "path": f"{name}.avi"} for name in [*names, "bare"]], captions=captions)
    return estimate_again(bench, scorers, clock)


def estimate_again(bench: Bench, scorers: Sequence[Scorer], clock: Clock = perf_counter) -> str:
    with bench.engine.connect() as connection:
        holdings = load_dataset_holdings(connection, bench.dataset, list_scorer_inputs(scorers) or [REFERENCES])
    return estimate_time(bench.engine, bench.dataset, holdings, scorers, clock)


def test_videos_texts_and_scores_are_done_for_the_first_rows(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REELSIEVE_DECODERS", "1")
    ticks, encoder, bench = count(), HashEncoder(), Bench(engine, tmp_path)
    # Every piece of work takes 8 s by this clock: to measure the second of six clips, and four texts or scores at once.
    line = estimate(bench, [VCSShortScorer(VCSShortSettings(), encoder)], 5, lambda: 8.0 * next(ticks))
    assert START_S + 6 * 8 + 5 * 2 * 8 / 4 == 74
    assert line == "time: about 80 s for facts and scores, measured on 2 videos and 5 scores of the first captions"
    assert set(TEXTS[:5]) <= set(encoder.encoded)


NOBODY = "http://127.0.0.1:9/v1"


def test_a_server_is_not_asked_for_an_estimate(engine: Engine, tmp_path: Path) -> None:
    served = VCSShortScorer.from_settings(VCSShortSettings(text_encoder={"model": "none", "url": NOBODY}))
    chat = QEVAScorer.from_settings(QEVASettings(qeva_text={"model": "none", "url": NOBODY}))
    line = estimate(Bench(engine, tmp_path), [served, chat], 1)
    assert line.endswith(
        " for facts and scores but vcs_short and qeva, whose servers were not asked, measured on 2 videos"
    )


def test_what_is_measured_or_cannot_be_takes_no_time(engine: Engine, tmp_path: Path) -> None:
    scorers = [VCSShortScorer(VCSShortSettings(), HashEncoder())]
    done, gone = Bench(engine, tmp_path, "done"), Bench(engine, tmp_path, "gone")
    for bench in (done, gone):
        assert estimate(bench, scorers, 0).endswith(" for facts and scores, measured on 1 video")
    measure_videos(engine, done.dataset, 0, lambda _: None, find_fact_models())
    assert estimate_again(done, scorers) == "time: about 10 s for facts and scores"
    (gone.folder / gone.name / "bare.avi").unlink()
    assert estimate_again(gone, scorers) == "time: about 10 s for facts and scores, measured on 1 video"
