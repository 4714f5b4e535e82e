"""The time of a plan: rates by a clock that the work moves, real clips and captions, and servers that are not asked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from assets.metrics.qeva.scorer import QEVAScorer
from assets.metrics.qeva.settings import QEVASettings
from assets.metrics.vcs.scorer import VCSShortScorer, VCSShortSettings
from assets.planning.holdings import read_manifest_holdings
from assets.planning.timing import START_S, MeasuredRate, estimate_time, measure_rate
from db.evidence.embeddings import store_text_vectors
from db.evidence.models import register_model
from tests.assets.manifests import candidate, reference, write_clip, write_manifest
from tests.assets.verifying import HashEncoder

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
    found = measure_rate(work, things, lambda: work.now, size=lambda thing: thing)
    assert found == MeasuredRate(pytest.approx(seconds), sum(done))
    assert work.done == done


def manifest(folder: Path, n_videos: int) -> Path:
    """Clips with a reference and a caption each."""
    names = [f"v{i}" for i in range(n_videos)]
    for name in names:
        write_clip(folder / f"{name}.avi")
    captions = [
        row
        for name, text in zip(names, TEXTS, strict=False)
        for row in (reference(f"r {name}", name, text), candidate(f"c {name}", name, text))
    ]
    return write_manifest(folder, [{"video_id": name, "path": f"{name}.avi"} for name in names], captions=captions)


def test_clips_texts_and_scores_are_done_for_the_first_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REELSIEVE_DECODERS", "1")
    ticks = count()
    encoder = HashEncoder()
    folder = manifest(tmp_path, 4)
    found = estimate_time(
        folder, read_manifest_holdings(folder), [VCSShortScorer(VCSShortSettings(), encoder)], lambda: 0.4 * next(ticks)
    )
    # Every piece of work takes .4 s by this clock: to probe a clip, to decode it, and three texts or scores at once.
    assert (found.n_videos, found.n_scores, found.untimed_metrics) == (2, 4, ())
    assert set(TEXTS[:4]) <= set(encoder.encoded)
    size = (folder / "v0.avi").stat().st_size
    assert {(folder / f"v{i}.avi").stat().st_size for i in range(4)} == {size}
    of_clip, of_text, of_score = 0.8, 0.4 / 3, 0.4 / 3
    assert found.seconds == pytest.approx(START_S + 4 * (of_clip + of_text + of_score))
    assert (
        found.format_line() == "time: about 20 s for all of it, measured on 2 videos and 4 scores of the first captions"
    )


def test_small_videos_do_not_count_for_the_large_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REELSIEVE_DECODERS", "1")
    folder, ticks = manifest(tmp_path, 6), count()
    large = folder / "v5.avi"
    large.write_bytes(large.read_bytes() + bytes(200 * large.stat().st_size))
    found = estimate_time(folder, read_manifest_holdings(folder), [], lambda: 0.4 * next(ticks))
    # By the bytes of the small ones it would be 160 s.
    assert found.seconds == pytest.approx(START_S + 6 * 0.8, rel=0.2)


def test_a_text_is_embedded_once_and_not_if_the_database_has_it(engine: Engine, tmp_path: Path) -> None:
    folder = manifest(tmp_path, 4)
    with (folder / "captions.jsonl").open("a") as file:
        file.write(
            "".join(json.dumps(candidate(f"d v{i}", f"v{i}", TEXTS[i + 4], system="b")) + "\n" for i in range(4))
        )
    encoder = HashEncoder()
    scorers = [VCSShortScorer(VCSShortSettings(), encoder) for _ in range(2)]
    with engine.begin() as connection:
        model_id = register_model(connection, encoder.identity.as_dict())
    store_text_vectors(engine, model_id, TEXTS[:2], encoder.encode(TEXTS[:2]))
    encoder.encoded.clear()
    estimate_time(folder, read_manifest_holdings(folder), scorers, engine=engine)
    assert set(TEXTS[2:8]) <= set(encoder.encoded)
    assert len(encoder.encoded) == len(set(encoder.encoded) - set(TEXTS[:2]))
    assert all(vars(source)["encoder"] is encoder for scorer in scorers for source in scorer.sources)


NOBODY = "http://127.0.0.1:9/v1"


def test_a_server_is_not_asked_for_an_estimate(tmp_path: Path) -> None:
    folder = manifest(tmp_path, 2)
    served = VCSShortScorer.from_settings(VCSShortSettings(text_encoder="none", text_encoder_url=NOBODY))
    chat = QEVAScorer.from_settings(QEVASettings(qeva_text_model="none", qeva_text_url=NOBODY))
    found = estimate_time(folder, read_manifest_holdings(folder), [served, chat])
    assert (found.n_scores, found.untimed_metrics) == (0, ("vcs_short", "qeva"))
    assert (
        "for all of it but vcs_short and qeva, whose servers were not asked, measured on 2 videos"
        in found.format_line()
    )


def test_what_cannot_be_decoded_or_scored_takes_no_time(tmp_path: Path) -> None:
    folder = manifest(tmp_path, 2)
    (folder / "v0.avi").write_bytes(b"this is no video")
    (folder / "v1.avi").unlink()
    (folder / "captions.jsonl").write_text("")
    found = estimate_time(folder, read_manifest_holdings(folder), [VCSShortScorer(VCSShortSettings(), HashEncoder())])
    assert (found.n_videos, found.n_scores) == (1, 0)
    assert found.seconds >= START_S
