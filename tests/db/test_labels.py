"""A judge's labels on keypoints: apart from those of others, replaced by key, and none on what has been deleted."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from db import schema
from db.evidence.embeddings import text_sha256
from db.evidence.labels import (
    JudgeLabel,
    delete_labels,
    format_judge_source,
    list_captions_with_keypoints,
    load_label_digests,
    store_labels,
)
from tests.db.builders import (
    add_keypoint,
    add_label,
    add_sample,
    add_video,
    change_text,
    labels_by_source,
    make_dataset,
    remove,
)

JUDGE, OTHER = format_judge_source("tiny"), format_judge_source("other")


@dataclass
class Shelf:
    engine: Engine
    dataset_id: int
    samples: list[int]
    keypoints: list[int]

    def digests(self, source: str = JUDGE) -> dict[tuple[int, int], bytes]:
        with self.engine.connect() as connection:
            return load_label_digests(connection, source, self.samples)

    def all_labels(self) -> list[JudgeLabel]:
        texts = text_sha256("a dog runs"), text_sha256("A dog runs.")
        pairs = [(s, k) for s in self.samples for k in self.keypoints]
        return [JudgeLabel(s, k, True, b"asked", *texts, {"sentence": "So."}) for s, k in pairs]


@pytest.fixture
def shelf(engine: Engine) -> Shelf:
    """A video with two keypoints and three captions, and one without keypoints."""
    dataset = make_dataset(engine)
    video_id, bare = (add_video(engine, dataset, key) for key in ("v", "bare"))
    keypoints = [add_keypoint(engine, dataset, video_id, key) for key in ("k", "l")]
    samples = [add_sample(engine, dataset, video_id, key) for key in ("a", "b", "c")]
    add_sample(engine, dataset, bare, "of bare")
    return Shelf(engine, dataset.dataset_id, samples, keypoints)


def test_captions_with_keypoints_come_in_one_order(shelf: Shelf) -> None:
    with shelf.engine.connect() as connection:
        found = list_captions_with_keypoints(connection, shelf.dataset_id)
        assert list_captions_with_keypoints(connection, shelf.dataset_id) == found
        assert list_captions_with_keypoints(connection, shelf.dataset_id + 1) == []
        query = sa.text("SELECT sample_id FROM sample WHERE sample_id = ANY(:ids) ORDER BY draw_number(kind, key, 0)")
        assert found == list(connection.scalars(query, {"ids": shelf.samples}))


def test_labels_of_a_judge_replace_its_own(shelf: Shelf) -> None:
    add_label(shelf.engine, shelf.keypoints[0], shelf.samples[0], False)
    labels = shelf.all_labels()
    assert store_labels(shelf.engine, JUDGE, labels) == 6
    assert store_labels(shelf.engine, OTHER, labels[:1]) == 1
    assert store_labels(shelf.engine, JUDGE, []) == 0
    assert store_labels(shelf.engine, JUDGE, [replace(labels[0], row_sha256=b"again", covered=False)]) == 1
    key = (labels[0].sample_id, labels[0].keypoint_id)
    assert shelf.digests()[key] == b"again"
    assert {digest for other, digest in shelf.digests().items() if other != key} == {b"asked"}
    assert shelf.digests(OTHER) == {key: b"asked"}
    assert labels_by_source(shelf.engine) == {JUDGE: 6, OTHER: 1, "manifest": 1}


def test_a_label_is_about_the_texts_that_the_judge_read(shelf: Shelf) -> None:
    labels = shelf.all_labels()
    change_text(shelf.engine, shelf.samples[0], "a cat sleeps")
    store_labels(shelf.engine, JUDGE, labels)  # the judge had read the text of before
    digests = shelf.digests()
    assert {key: digest for key, digest in digests.items() if not digest} == {
        (shelf.samples[0], keypoint): b"" for keypoint in shelf.keypoints
    }
    again = [replace(label, text_sha256=text_sha256("a cat sleeps")) for label in labels[:2]]
    store_labels(shelf.engine, JUDGE, again)
    assert set(shelf.digests().values()) == {b"asked"}


def test_labels_are_deleted_of_one_source(shelf: Shelf) -> None:
    labels = shelf.all_labels()
    for source in (JUDGE, OTHER):
        store_labels(shelf.engine, source, labels)
    gone = [(shelf.samples[0], shelf.keypoints[1]), (shelf.samples[2], shelf.keypoints[0])]
    delete_labels(shelf.engine, JUDGE, gone)
    delete_labels(shelf.engine, JUDGE, [])
    assert set(shelf.digests(OTHER)) - set(shelf.digests()) == set(gone)


def test_what_is_deleted_meanwhile_gets_no_label(shelf: Shelf) -> None:
    labels = shelf.all_labels()
    remove(shelf.engine, schema.sample, shelf.samples[0])
    remove(shelf.engine, schema.keypoint, shelf.keypoints[1])
    assert store_labels(shelf.engine, JUDGE, labels) == 2
    assert set(shelf.digests()) == {(sample_id, shelf.keypoints[0]) for sample_id in shelf.samples[1:]}
