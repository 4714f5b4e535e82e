"""The sixteen real clips from file to EVQAScore, once with decord and PyAV, once with PyAV alone.

The encoder is the demo's, so the values mean nothing; what is looked at is that every file gives the frames it should.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.home.folder import DEMO_DATASET
from assets.ingest.run import ingest_folder
from assets.metrics.evqa.scorer import EVQAScorer
from assets.metrics.evqa.settings import EVQASettings
from assets.scores.pending import store_scorer
from assets.scores.run import score_shard
from assets.sources.frames import SampledFrames
from db.evidence.frames import count_frames, load_frames
from db.evidence.models import find_model_id
from db.manifest.datasets import Dataset
from metrics_core.frames import read_frames
from tests.assets.verifying import dataset_of, make_sources

pytestmark = pytest.mark.slow

AWKWARD = {
    "testcard_corrupted",
    "testcard_av1",
    "tiny_unordered",
    "keyboard_rotated90",
    "counter_h265",
    "testpattern_10bit",
}
# Neither decord's wheel nor its way of counting is good for these.
ONLY_PYAV = {"testcard_corrupted", "testcard_av1", "counter_h265", "testpattern_10bit"}
EVERY = 10


@pytest.fixture(scope="module")
def dataset(module_engine: Engine, shared_data: Path) -> Dataset:
    # Under the name of the demo's own dataset, as its encoder refuses every other one.
    ingest_folder(module_engine, shared_data / "clips", DEMO_DATASET, n_shards=1)
    return dataset_of(module_engine, DEMO_DATASET)


@pytest.fixture(scope="module")
def scorers(module_engine: Engine, dataset: Dataset) -> dict[str, EVQAScorer]:
    """A scorer with frames of decord where it takes a file, and one of PyAV; their caps keep the frames apart."""
    found = {}
    readers: tuple[tuple[Literal["decord", "pyav"], int], ...] = (("decord", 128), ("pyav", 127))
    for reader, cap in readers:
        settings = EVQASettings(frames_every=EVERY, frames_cap=cap, frame_reader=reader)
        scorer = EVQAScorer.from_settings(settings)
        counts = make_sources(module_engine, scorer, dataset)[SampledFrames.asset]
        assert (counts["videos"], counts["videos_without_frames"]) == (len(with_samples(module_engine)), 0)
        score_shard(module_engine, scorer, dataset, 0, run_id=reader)
        found[reader] = scorer
    return found


def rows(engine: Engine, query: str, **values: Any) -> list[Any]:
    with engine.connect() as connection:
        return list(connection.execute(sa.text(query), values))


def with_samples(engine: Engine) -> set[str]:
    return {row.key for row in rows(engine, "SELECT DISTINCT v.key FROM video v JOIN sample USING (video_id)")}


def frame_sets(engine: Engine, scorer: EVQAScorer) -> dict[str, Any]:
    with engine.connect() as connection:
        model_id = find_model_id(connection, scorer.frames.model.as_dict())
    query = "SELECT v.key, v.uri, f.* FROM frame_set f JOIN video v USING (video_id) WHERE model_id = :id"
    return {row.key: row for row in rows(engine, query, id=model_id)}


def test_every_file_gives_its_frames(module_engine: Engine, scorers: dict[str, EVQAScorer]) -> None:
    sets = frame_sets(module_engine, scorers["decord"])
    assert set(sets) == with_samples(module_engine)
    assert {found.status for found in sets.values()} == {"ok"}
    for found in sets.values():
        assert found.n_sampled == min(128, -(-found.n_frames // EVERY))
    assert {key for key, found in sets.items() if found.reader == "pyav"} >= ONLY_PYAV & set(sets)
    assert {found.reader for found in sets.values()} == {"decord", "pyav"}
    assert {found.reader for found in frame_sets(module_engine, scorers["pyav"]).values()} == {"pyav"}


def test_both_decoders_lead_to_the_same_features_and_scores(
    module_engine: Engine, scorers: dict[str, EVQAScorer]
) -> None:
    features = []
    for scorer in scorers.values():
        with module_engine.connect() as connection:
            model_id = find_model_id(connection, scorer.frames.model.as_dict())
        assert model_id is not None
        videos = [row.video_id for row in frame_sets(module_engine, scorer).values()]
        features.append(load_frames(module_engine, model_id, videos))
    first, second = features
    assert first.keys() == second.keys()
    for video_id, frames in first.items():
        a, b = (f / np.linalg.norm(f, axis=1, keepdims=True) for f in (frames.features, second[video_id].features))
        assert ((a * b).sum(axis=1) > 0.995).all(), "two grey levels move a feature a little"
    values = [
        {row.sample_id: (row.status, row.value) for row in rows(module_engine, query, id=scorer_id)}
        for scorer_id in (store_scorer(module_engine, scorer) for scorer in scorers.values())
        for query in ["SELECT * FROM score WHERE scorer_id = :id"]
    ]
    assert values[0].keys() == values[1].keys()
    for sample_id, (status, value) in values[0].items():
        other_status, other = values[1][sample_id]
        if value is not None and other is not None:
            assert other == pytest.approx(value, abs=0.02)
        else:
            # Where precision or recall is about 0 its sign may tip.
            assert {status, other_status} <= {"ok", "negative_match"}


def test_awkward_files_are_scored_like_the_others(module_engine: Engine, scorers: dict[str, EVQAScorer]) -> None:
    scorer_id = store_scorer(module_engine, scorers["decord"])
    query = (
        "SELECT v.key, c.status, c.components FROM score c JOIN sample USING (sample_id) JOIN video v USING (video_id) "
        "WHERE scorer_id = :id"
    )
    found = rows(module_engine, query, id=scorer_id)
    assert {row.key for row in found} == with_samples(module_engine)
    assert {row.status for row in found} <= {"ok", "negative_match"}
    assert {row.key for row in found} & AWKWARD, "captions of awkward files are among them"
    assert all(row.components["n_frames"] > 0 for row in found)


def test_the_frames_of_the_damaged_file_are_those_that_decode(
    module_engine: Engine, scorers: dict[str, EVQAScorer], shared_data: Path
) -> None:
    found = frame_sets(module_engine, scorers["decord"])["testcard_corrupted"]
    direct = read_frames(shared_data / "clips" / "videos" / "testcard_corrupted.mp4", every=EVERY, cap=128)
    assert (found.n_frames, found.n_sampled) == (direct.n_frames, len(direct.indices))


def test_all_frames_of_the_shard_are_accounted_for(
    module_engine: Engine, dataset: Dataset, scorers: dict[str, EVQAScorer]
) -> None:
    with module_engine.connect() as connection:
        model_id = find_model_id(connection, scorers["decord"].frames.model.as_dict())
        of_dataset = sa.text("SELECT DISTINCT video_id FROM sample WHERE dataset_id = :dataset_id")
        video_ids = connection.scalars(of_dataset, {"dataset_id": dataset.dataset_id}).all()
        counts = count_frames(connection, model_id, video_ids)
    assert (counts["n_missing"], counts["n_failed"], counts["n_unreadable"]) == (0, 0, 0)
    assert counts["n_stored"] == counts["n_sampled"] > 100
