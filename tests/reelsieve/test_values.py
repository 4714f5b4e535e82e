"""The metrics on plain values give what `reelsieve score` stores, and one sentence for what they cannot use."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import Engine

import reelsieve as rs
from assets.metrics.registry import SCORERS
from demo import encoder
from reelsieve.samples import replace_variables_by_keywords
from tests.assets.judging import answering
from tests.assets.manifests import candidate, keypoint, reference, spans, write_clip
from tests.assets.verifying import Bench
from tests.metrics_core.chat_server import loopback

STORY = [
    "A man in a grey coat opens a red door.",
    "A small dog runs out over the lawn.",
    "Two children throw a ball to each other.",
    "The dog catches the ball and brings it back.",
    "The man closes the door and it begins to rain.",
]
OTHER = "A dog plays with two children and their ball on the lawn. Then a man closes the red door."
TOLD, MIXED = " ".join(STORY), " ".join([*STORY[2:], *STORY[:2]])
TIMES = spans(*((0.2 * n, 0.2 * n + 0.2) for n in range(5)), texts=STORY)
CAPTIONS: dict[str, dict[str, Any]] = {
    "faithful": {"text": TOLD},
    "timed": {"text": TOLD, "segments": TIMES},
    "mixed": {"text": MIXED},
    "wrong": {"text": "A woman paints a blue fence. " + " ".join(STORY[1:])},
    "brief": {"text": STORY[1]},
}
REFERENCES = [{"text": TOLD, "segments": TIMES}, OTHER]
KEYPOINTS = [{"text": text, "dimension": "segment_detail", "segment_index": n} for n, text in enumerate(STORY)]
FOLDER = Path(encoder.__file__).parent
# The demo's encoder under another name, as if it were one that knows every clip.
ENCODER = {
    "image_text_encoder": str(FOLDER / "demo_clip.json"),
    "image_text_checkpoint": str(FOLDER / "demo_clip.safetensors"),
}


def near(found: Any, expected: Any) -> bool:
    """Whether two structures of plain data are equal; real numbers to 1e-6, since batches round otherwise."""
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(near(found[name], expected[name]) for name in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(near, found, expected))
    return math.isclose(found, expected, abs_tol=1e-6) if isinstance(expected, float) else bool(found == expected)


@pytest.fixture
def bench(engine: Engine, tmp_path: Path) -> Bench:
    made = Bench(engine, tmp_path)
    write_clip(tmp_path / "set" / "v.avi")
    first, second = REFERENCES
    assert isinstance(first, dict)
    made.ingest(
        [{"video_id": "v", "path": "v.avi", "duration_s": None}],
        captions=[
            reference("1", "v", first["text"], segments=first["segments"]),
            reference("2", "v", str(second)),
            *(candidate(key, "v", **fields) for key, fields in CAPTIONS.items()),
        ],
        keypoints=[keypoint(str(n), "v", **fields) for n, fields in enumerate(KEYPOINTS)],
    )
    return made


@pytest.mark.parametrize("metric", ["vcs", "vcs_short", "evqa", "ecs", "qeva"])
def test_the_outcome_is_what_a_dataset_stores(bench: Bench, metric: str) -> None:
    settings: dict[str, Any] = ENCODER if metric == "evqa" else {}
    function = getattr(rs, metric)
    given: dict[str, Any] = {
        "vcs": {"references": REFERENCES},
        "vcs_short": {"references": REFERENCES},
        "evqa": {"video": bench.folder / "set" / "v.avi"},
        "ecs": {"references": REFERENCES, "keypoints": KEYPOINTS},
        "qeva": {"references": REFERENCES, "keypoints": KEYPOINTS},
    }[metric]
    scorer = SCORERS[metric]
    table = {"model": ENCODER["image_text_encoder"], "checkpoint": ENCODER["image_text_checkpoint"]}
    rows = bench.run(scorer.from_settings(scorer.settings(**({"image_text_encoder": table} if settings else {}))))
    assert rows.keys() == CAPTIONS.keys()
    assert any(row.value is not None for row in rows.values())
    for key, row in rows.items():
        found = function(caption=CAPTIONS[key], **given, **settings)
        assert (found.status, found.reason) == (row.status, row.error and replace_variables_by_keywords(row.error))
        assert near(found.value, row.value)
        assert near(dict(found.components), row.components)


def test_a_judge_gives_what_a_dataset_stores_and_none_is_a_status(bench: Bench) -> None:
    scorer, video = SCORERS["judge"], bench.folder / "set" / "v.avi"
    with loopback(answering()) as server:
        settings = {"judge_model": "tiny", "judge_url": server.url, "judge_frames": 2}
        model = {"model": settings["judge_model"], "url": settings["judge_url"]}
        rows = bench.run(scorer.from_settings(scorer.settings(judge=model, judge_frames=2)))
        for key, row in rows.items():
            found = rs.judge(video, CAPTIONS[key], **settings)
            assert (found.status, found.value, dict(found.components)) == (row.status, row.value, row.components)
    assert any(row.value is not None for row in rows.values())
    asked = rs.judge(video, TOLD)
    assert (asked.status, asked.reason) == ("no_model", "there is no judge: set judge_model to a vision model")


def test_the_demo_encoder_judges_no_other_clip(tmp_path: Path) -> None:
    outcome = rs.evqa(write_clip(tmp_path / "v.avi"), TOLD)
    assert (outcome.value, outcome.status) == (None, "no_model")
    assert "set image_text_encoder and image_text_checkpoint to" in str(outcome.reason)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: rs.vcs(3, TOLD), "references: 3 is not a text"),  # type: ignore[arg-type]
        (lambda: rs.vcs([" "], TOLD), "reference 1: field 'text' has no visible character"),
        (lambda: rs.vcs(TOLD, None), "caption: field 'text' is None"),  # type: ignore[arg-type]
        (lambda: rs.vcs(TOLD, TOLD, text_encder="x"), "vcs has no setting 'text_encder', did you mean 'text_encoder'?"),
        (lambda: rs.vcs(TOLD, TOLD, vcs_chunk_size=0), "vcs_chunk_size: input should be greater than or equal to 1"),
        (lambda: rs.vcs(TOLD, TOLD, text_encoder="/no/such"), "model '/no/such'"),
        (lambda: rs.ecs([{"dimension": "any"}], TOLD), "keypoint 1: field 'text' is missing"),
        (lambda: rs.ecs(KEYPOINTS, {"text": TOLD, "segments": [{"start_s": 3.0, "end_s": 1.0}]}), "give a later end"),
        (lambda: rs.evqa("gone.mp4", TOLD), "video: there is no file 'gone.mp4'"),
        (lambda: rs.evqa(None, TOLD).reason, None),  # type: ignore[arg-type]
        (lambda: rs.evqa(__file__, TOLD), "video: "),
    ],
)
def test_bad_input_is_one_sentence(call: Any, sentence: str | None) -> None:
    if sentence is None:
        assert call() is not None
        return
    with pytest.raises(rs.ReelsieveError) as error:
        call()
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_importing_it_loads_nothing_heavy() -> None:
    heavy = ("torch", "dagster", "sqlalchemy", "pydantic", "numpy", "pandas", "transformers")
    program = f"import sys, reelsieve; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
