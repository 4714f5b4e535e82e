"""Vectors of clips by encoders of other tools: ingested, refused by name, and used by recipes, search and trials."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.datasets.lookup import require_dataset
from assets.ingest.resolve import DatabaseRow, resolve_vectors
from assets.ingest.rows import VectorRow
from assets.ingest.run import ingest_folder
from assets.search import NothingToSearch, search_like_video
from assets.selection.select import choose_samples
from assets.trial.setup import Trainer, TrialRequest, prepare_trial
from db.evidence.video_vectors import list_encoders, load_video_vectors
from db.manifest.store import open_ingest_store
from db.selection.recipes import SelectionError, parse_recipe
from tests.assets.manifests import Row, candidate, reference, vector, write_clip, write_lines, write_manifest
from tests.db.builders import set_scores, wait_for_lock
from tests.db.freezing import freeze_recipe


def shown(engine: Engine, query: str) -> list[tuple[object, ...]]:
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(sa.text(query))]


def refused(engine: Engine) -> list[tuple[object, ...]]:
    return shown(engine, "SELECT source, line, code FROM ingest_reject ORDER BY 1, 2")


def write_set(folder: Path, videos: str, *vectors: Row) -> Path:
    """A manifest of videos with letters as ids, that have a caption and no file, and of vectors."""
    captions = [candidate(f"c{key}", key, f"Clip {key}.") for key in videos]
    return write_manifest(folder, [{"video_id": key} for key in videos], captions=captions, vectors=list(vectors))


def test_a_vector_of_another_length_is_named_and_costs_no_other(engine: Engine, tmp_path: Path) -> None:
    odd_first = [vector("a", 1, 2, 3), *(vector(key, 1, 2) for key in "bcd"), vector("a", 1, encoder="other")]
    report = ingest_folder(engine, write_set(tmp_path / "one", "abcd", *odd_first), "one")
    assert (report.accepted["vectors"], refused(engine)) == (4, [("vectors.jsonl", 1, "vector_length")])
    (reason,) = shown(engine, "SELECT reason FROM ingest_reject")[0]
    assert reason == (
        "field 'vector' has 3 numbers, and other vectors of 'InternVideo2' have 2: embed the video with the same "
        "model, or name another encoder"
    )
    # Stored vectors decide for other datasets too, however many are longer there.
    report = ingest_folder(engine, write_set(tmp_path / "two", "ab", *(vector(key, 1, 2, 3) for key in "ab")), "two")
    assert (report.accepted["vectors"], report.rejected) == (0, 2)
    with engine.connect() as connection:
        assert list_encoders(connection, require_dataset(engine, "one")) == {"InternVideo2": 3, "other": 1}
        assert list_encoders(connection, require_dataset(engine, "two")) == {}
        assert list_encoders(connection, None) == {"InternVideo2": 3, "other": 1}


def test_two_ingests_at_once_store_one_length(engine: Engine, tmp_path: Path) -> None:
    folder = write_set(tmp_path / "two", "ab", *(vector(key, 1, 2, 3) for key in "ab"))
    ingest_folder(engine, write_set(tmp_path / "one", "a"), "one")
    with ThreadPoolExecutor(1) as pool, open_ingest_store(engine, require_dataset(engine, "one")) as store:
        with store.open_transaction():
            store.register_encoder("InternVideo2")
        with store.open_transaction():
            (row,) = resolve_vectors(store, tmp_path, [VectorRow(**vector("a", 1, 2))])
            assert isinstance(row, DatabaseRow)
            other = pool.submit(ingest_folder, engine, folder, "two")
            wait_for_lock(engine, other)
            store.store_rows(row.table, [row.columns])
        assert other.result().accepted["vectors"] == 0
    assert shown(engine, "SELECT DISTINCT vector_dims(embedding) FROM video_embedding") == [(2,)]


def test_a_vector_belongs_to_the_file_that_its_video_had(engine: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "set"
    write_clip(folder / "a.avi", brightness=60)
    videos = [{"video_id": "a", "path": "a.avi"}]
    write_manifest(folder, videos, captions=[candidate("c", "a", "A clip.")], vectors=[vector("a", 1, 2)])
    ingest_folder(engine, folder, "set")

    def current() -> list[list[float]]:
        with engine.connect() as connection:
            dataset = require_dataset(engine, "set")
            (video_id,) = connection.scalars(sa.text("SELECT video_id FROM video")).all()
            found = load_video_vectors(connection, dataset, "InternVideo2", [video_id])
            assert list_encoders(connection, dataset) == ({"InternVideo2": len(found)} if found else {})
            return [vector.tolist() for vector in found.values()]

    assert current() == [[1, 2]]
    write_clip(folder / "a.avi", brightness=90)
    report = ingest_folder(engine, folder, "set")
    assert (report.accepted["videos"], report.accepted["vectors"]) == (1, 0)
    assert (refused(engine), current()) == ([("vectors.jsonl", 1, "vector_outdated")], [])
    write_lines(folder / "vectors.jsonl", [vector("a", 3, 4)])
    report = ingest_folder(engine, folder, "set")
    assert (report.accepted["vectors"], refused(engine), current()) == (1, [], [[3, 4]])
    write_clip(folder / "a.avi", brightness=60)
    ingest_folder(engine, folder, "set")
    assert current() == []


def test_videos_with_like_vectors_leave_the_better_one(engine: Engine, tmp_path: Path) -> None:
    # a and c are 5 degrees apart, b and d 90 from them; e has no vector, and stays.
    angle = math.radians(5)
    vectors = [vector("a", 2, 0), vector("b", 0, 1), vector("c", math.cos(angle), math.sin(angle)), vector("d", 0, -9)]
    ingest_folder(engine, write_set(tmp_path / "set", "abcde", *vectors), "set")
    dataset = require_dataset(engine, "set")
    ids = dict(shown(engine, "SELECT sample_id, key FROM sample"))  # type: ignore[arg-type]  # two columns
    set_scores(engine, {number: ord(key[1]) / 200 for number, key in ids.items()})  # type: ignore[misc, index]

    def pick(**more: Any) -> set[str]:
        recipe = parse_recipe({"by": "vcs", "keep": 1.0, "video_encoder": "InternVideo2", **more})
        with engine.begin() as connection:
            _, picked = choose_samples(connection, dataset, recipe, None, lambda _: None, lock=False)
        return {ids[number][1] for number in picked.sample_ids.tolist()}  # type: ignore[index]

    assert pick(dedupe_videos=0.99) == {"b", "c", "d", "e"}, "cos 5 degrees is .996"
    assert pick(dedupe_videos=0.999) == set("abcde")
    with pytest.raises(SelectionError, match=r"'Cosmos', of which no eligible video has .*: name one of"):
        pick(dedupe_videos=0.9, video_encoder="Cosmos")
    with pytest.raises(SelectionError, match="video_encoder is given without dedupe_videos"):
        pick()


def test_the_nearest_videos_by_hand(engine: Engine, tmp_path: Path) -> None:
    vectors = [
        vector("a", 1, 0),
        vector("b", 0, 2),
        vector("c", 3, 3),
        vector("d", -1, 0),
        vector("a", 1, encoder="e2"),
    ]
    ingest_folder(engine, write_set(tmp_path / "one", "abcd", *vectors), "one")
    ingest_folder(engine, write_set(tmp_path / "two", "ab", vector("a", 0.5, 0)), "two")
    one, two = (require_dataset(engine, name) for name in ("one", "two"))
    found = search_like_video(engine, "a", "InternVideo2", one, 10)
    assert (found.encoder, [row["video"] for row in found.rows]) == ("InternVideo2", ["c", "b", "d"])
    assert [row["similarity"] for row in found.rows] == pytest.approx([0.5**0.5, 0, -1])
    assert [row["video"] for row in search_like_video(engine, "b", None, None, 2).rows] == ["c", "a"]
    assert search_like_video(engine, "a", None, two, 5).rows == []
    for key, encoder, dataset, reason in (
        ("a", None, one, "video 'a' has vectors of InternVideo2 and e2: name one with --encoder"),
        ("a", "InternVideo2", None, "several datasets have a video 'a': name one with --dataset"),
        (
            "b",
            None,
            two,
            "no video 'b' of dataset two has a vector of its present file (others have vectors of",
        ),
        (
            "a",
            "e3",
            one,
            "no video 'a' of dataset one has a vector of e3 of its present file",
        ),
    ):
        with pytest.raises(NothingToSearch) as refusal:
            search_like_video(engine, key, encoder, dataset, 5)
        assert str(refusal.value).startswith(reason)


def test_students_see_vectors_that_every_video_has(engine: Engine, tmp_path: Path) -> None:
    keys = [f"v{number}" for number in range(320)]
    captions = [
        make(f"{name}_{key}", key, f"{name} clip {key} {'long ' * number}")
        for number, key in enumerate(keys)
        for name, make in (("one", reference), ("two", reference), ("c", candidate))
    ]
    videos = [{"video_id": key} for key in keys]

    def prepare(n_vectors: int, first: float = 1.0) -> Trainer:
        vectors = [vector(key, first, number) for number, key in enumerate(keys[:n_vectors])]
        vectors += [vector("v0", 1, 2, encoder="another")]
        folder = write_manifest(tmp_path / "set", videos, captions=captions, vectors=vectors)
        assert ingest_folder(engine, folder, "set").rejected == 0
        dataset, recipe = require_dataset(engine, "set"), parse_recipe({"by": "n_characters", "keep": 0.5})
        with engine.begin() as connection:
            request = TrialRequest(freeze_recipe(connection, dataset, recipe).selection_id)
        return prepare_trial(engine, {}, tmp_path, dataset, recipe, request, lambda _: None)[2]

    assert prepare(319).video_side == "references"
    seen = prepare(320)
    assert seen.video_side == "the videos by InternVideo2"
    # Results of runs with other vectors do not count for these.
    assert seen.identity == prepare(320).identity != prepare(320, 2.0).identity


@pytest.mark.parametrize("again", [False, True])
def test_vectors_are_stored_as_written_in_single_precision(engine: Engine, tmp_path: Path, again: bool) -> None:
    folder = write_set(tmp_path / "set", "ab", vector("a", 0.1, -2), vector("b", 1e-9, 1e9, encoder="other"))
    for _ in range(1 + again):
        ingest_folder(engine, folder, "set")
    query = "SELECT v.key, m.name, e.embedding::text FROM video_embedding e JOIN video v USING (video_id) "
    assert shown(engine, f"{query} JOIN model m USING (model_id) ORDER BY 1") == [
        ("a", "InternVideo2", "[0.1,-2]"),
        ("b", "other", "[1e-09,1e+09]"),
    ]
