"""Labelling keypoints in a browser: the next keypoint to label, storing the label, and taking it back.

Labels are rows of `keypoint_label` like those of a manifest: one per keypoint and caption, from whichever person. Their
field `extra` names the person and the time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.engine import Connection

from db.evidence.verdicts import MANIFEST_LABEL_SOURCE
from db.manifest.datasets import Dataset
from db.manifest.draws import build_draw_number
from db.manifest.rating import build_timed_json, build_video_queries
from db.schema import keypoint, keypoint_label, sample

_CURRENT = sa.table("current_label", *map(sa.column, ("keypoint_id", "sample_id", "source")), sa.column("extra", JSONB))
"""View current_label: labels whose caption and keypoint still have the texts that were labelled."""
_RATER, _RATED_AT = "rater", "rated_at"


class LabelRater(NamedTuple):
    """A person who labels keypoints of a dataset's captions in a browser. name: the person. seed: of the random order
    in which captions are shown.
    """

    dataset: Dataset
    name: str
    seed: int = 0

    @property
    def caption_condition(self) -> sa.ColumnElement[bool]:
        """SQL condition that a row of table `sample` is a caption of the dataset."""
        return sa.and_(sample.c.dataset_id == self.dataset.dataset_id, sample.c.kind == "caption")


class KeypointQuestion(NamedTuple):
    """The question to a person whether a caption covers a keypoint of the same video. keypoint, text: the present texts
    of the keypoint and of the caption.
    """

    keypoint_id: int
    sample_id: int
    keypoint: str
    text: str
    video_id: int

    @property
    def digest(self) -> str:
        """SHA-256 of the texts of keypoint and caption together, as 64 hexadecimal digits."""
        return hashlib.sha256(json.dumps([self.keypoint, self.text]).encode()).hexdigest()


_FACT = (keypoint.c.keypoint_id, sample.c.sample_id, keypoint.c.text, sample.c.text, sample.c.video_id)
_STORED = ("covered", "extra", "row_sha256", "text_sha256", "keypoint_sha256")
_SAME_VIDEO = keypoint.c.video_id == sample.c.video_id


def find_next_keypoint(
    connection: Connection, rater: LabelRater, skipped: Collection[tuple[int, int]] = ()
) -> KeypointQuestion | None:
    """Find the next keypoint and caption of one video that no person has labelled with their present texts, and that
    was not skipped; None at the end. skipped: pairs (keypoint id, sample id). Captions come in the random order of the
    rater's seed, and the keypoints of a caption follow one another.

    Captions of MAX_FIRST_VIDEOS videos, drawn by the seed, come first.
    """
    draws = build_video_queries(rater.dataset, rater.seed)
    return next(filter(None, (_find_next_keypoint(connection, rater, skipped, videos) for videos in draws)), None)


def _find_next_keypoint(
    connection: Connection, rater: LabelRater, skipped: Collection[tuple[int, int]], videos: sa.Select[tuple[int]]
) -> KeypointQuestion | None:
    label = _CURRENT.c
    is_labelled = sa.select(sa.literal(1)).where(
        *(label.keypoint_id == keypoint.c.keypoint_id, label.sample_id == sample.c.sample_id),
        label.source == MANIFEST_LABEL_SOURCE,
    )
    conditions = [rater.caption_condition, _SAME_VIDEO, sample.c.video_id.in_(videos), ~is_labelled.exists()]
    if skipped:
        conditions.append(sa.tuple_(keypoint.c.keypoint_id, sample.c.sample_id).not_in(list(skipped)))
    order = build_draw_number(rater.seed)
    query = sa.select(*_FACT).where(*conditions).order_by(order, sample.c.sample_id, keypoint.c.keypoint_id).limit(1)
    row = connection.execute(query).one_or_none()
    return None if row is None else KeypointQuestion(*row)


def store_label(connection: Connection, rater: LabelRater, ids: tuple[int, int], digest: str, *, covered: bool) -> bool:
    """Store a person's label whether a caption covers a keypoint, and return True. Return False and store nothing if a
    text has changed since it was shown, or if any person has labelled the same texts. ids: (keypoint id, sample id).
    digest: `KeypointQuestion.digest` of the texts that were shown.

    A label of older texts is replaced.
    """
    query = sa.select(*_FACT).where(rater.caption_condition, _SAME_VIDEO, keypoint.c.keypoint_id == ids[0])
    # Both rows stay as they are until the label is stored.
    row = connection.execute(query.where(sample.c.sample_id == ids[1]).with_for_update(read=True)).one_or_none()
    if row is None or KeypointQuestion(*row).digest != digest:
        return False
    extra = {"rater": rater.name, "answer": "yes" if covered else "no", "seed": rater.seed}
    new = insert(keypoint_label).values(
        keypoint_id=ids[0],
        sample_id=ids[1],
        source=MANIFEST_LABEL_SOURCE,
        covered=covered,
        extra=build_timed_json(extra),
        row_sha256=hashlib.sha256(json.dumps([*ids, extra, digest]).encode()).digest(),
    )
    label = keypoint_label.c
    texts = sa.tuple_(label.text_sha256, label.keypoint_sha256)
    stored = new.on_conflict_do_update(
        index_elements=["keypoint_id", "sample_id", "source"],
        set_={name: new.excluded[name] for name in _STORED},
        # A trigger fills in both digests, of the texts that are locked above.
        where=texts != sa.tuple_(new.excluded.text_sha256, new.excluded.keypoint_sha256),
    )
    return connection.execute(stored.returning(label.sample_id)).one_or_none() is not None


def delete_last_label(connection: Connection, rater: LabelRater) -> bool:
    """Delete the label that this rater gave last in a browser in this dataset, and return True; False if there is none.
    A rater is recognised by name.
    """
    label = keypoint_label.c
    query = sa.select(label.keypoint_id, label.sample_id).join(sample, sample.c.sample_id == label.sample_id)
    query = query.where(
        rater.caption_condition, label.source == MANIFEST_LABEL_SOURCE, *_build_rater_conditions(rater, label.extra)
    )
    # Waits if another rater is replacing this label at the moment; then it is not this rater's label any more.
    last = query.order_by(label.extra[_RATED_AT].astext.desc()).limit(1).with_for_update(of=keypoint_label)
    row = connection.execute(last).one_or_none()
    if row is None:
        return False
    is_last = (label.keypoint_id == row[0], label.sample_id == row[1], label.source == MANIFEST_LABEL_SOURCE)
    return connection.execute(sa.delete(keypoint_label).where(*is_last)).rowcount > 0


def count_labels(connection: Connection, rater: LabelRater) -> int:
    """Return the number of labels that this rater gave in a browser in this dataset. Labels on a caption or keypoint
    that has another text by now do not count.
    """
    labels = sa.select(sa.func.count()).select_from(_CURRENT.join(sample, sample.c.sample_id == _CURRENT.c.sample_id))
    return connection.execute(
        labels.where(rater.caption_condition, *_build_rater_conditions(rater, _CURRENT.c.extra))
    ).scalar_one()


def _build_rater_conditions(rater: LabelRater, extra: sa.ColumnElement[Any]) -> tuple[sa.ColumnElement[bool], ...]:
    """Return SQL conditions on the field `extra` of a label that this rater gave in a browser."""
    return extra[_RATER].astext == rater.name, extra[_RATED_AT].astext.is_not(None)
