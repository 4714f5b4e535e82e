"""The parts of a trial: the captions that may train, and the held-out videos with their clean texts."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from assets.words.text import format_count
from db.selection.candidates import WHOLE_STRATUM
from db.selection.recipes import SelectionError
from db.selection.trial_rows import FrozenCaption, TrialCaptions, TrialVideo
from metrics_core.arrays import BoolArray, IntArray
from metrics_core.facts.signatures import convert_to_unit_vectors

COPY_SIMILARITY = 0.6
"""A video whose signature is at least so much like a held-out one's is left out as its copy."""
LEAST_TEST_VIDEOS = 50
TEST_SHARE, VALIDATION_SHARE = 0.2, 0.1
"""The shares of the videos that a trial holds out: to compare students, and to stop their training."""
REFERENCES, BEST_RATED = "references", "best rated"
"""Kinds of clean texts of held-out videos."""


class TooFewTestVideos(SelectionError):
    """Raised for a dataset with too few held-out videos to try anything; the message says how many are needed."""


@dataclass(frozen=True)
class TrialParts:
    """The parts of a trial. captions: all captions, with frozen texts, and those of the selection that no longer exist.

    training: the positions (n,) of present captions that may train; may_train: which of all captions may (m,), the gone
    ones included. train_videos, validation_videos, test_videos: the videos in the order of their keys. n_left_out:
    videos left out as copies of held-out ones. n_changed: captions of the selection whose text is another one now, or
    that are gone. clean_texts: the kind of the held-out videos' clean texts.
    """

    captions: TrialCaptions
    training: IntArray
    may_train: BoolArray
    train_videos: Sequence[TrialVideo]
    validation_videos: Sequence[TrialVideo]
    test_videos: Sequence[TrialVideo]
    n_left_out: int
    n_changed: int
    clean_texts: str = REFERENCES

    @property
    def test_sha256(self) -> str:
        """The digest of the test videos' keys and clean texts."""
        return compute_digest(_list_clean_texts(self.test_videos))

    @property
    def held_out_sha256(self) -> str:
        """The digest of the keys and clean texts of validation and test videos."""
        return compute_digest([_list_clean_texts(self.validation_videos), _list_clean_texts(self.test_videos)])

    def find_positions(self, keys: Sequence[str]) -> IntArray:
        """Find the positions (n,) of the captions with these keys that may train, in order."""
        places = (self.captions.positions.get(key) for key in keys)
        return np.array(sorted(place for place in places if place is not None and self.may_train[place]), np.int64)


def split_captions(
    dataset: str,
    captions: TrialCaptions,
    videos: Sequence[TrialVideo],
    frozen: Sequence[FrozenCaption],
    n_references: int,
    means: Mapping[int, float] | None = None,
) -> TrialParts:
    """Split the captions of a dataset by the hash of their videos' keys.

    frozen: the rows of the selection, whose texts replace the present ones. n_references: how many references a video
    needs to train or test; the first one is its clean text. means: the mean rating by sample; where no video has a
    reference, the best rated caption of a video stands for its only one. Copies of held-out videos, by file or
    signature, and captions whose text is a reference of one train nothing. Raises TooFewTestVideos for fewer than 50
    test videos.
    """
    clean_texts = REFERENCES
    if means is not None and not any(video.references for video in videos):
        clean_texts, videos = BEST_RATED, _replace_references_with_best_rated(videos, captions, means)
    usable = sorted((video for video in videos if len(video.references) >= n_references), key=lambda video: video.key)
    by_part: dict[str, list[TrialVideo]] = {"training": [], "validation": [], "test": []}
    for video in usable:
        by_part[_choose_part(video.key)].append(video)
    test = by_part["test"]
    validation = _exclude_copies(by_part["validation"], test)
    held_out = [*validation, *test]
    train = _exclude_copies(by_part["training"], held_out)
    if len(test) < LEAST_TEST_VIDEOS:
        raise TooFewTestVideos(
            f"dataset {dataset} has {format_count(len(test), 'test video')} with "
            f"{'a reference' if n_references == 1 else f'{n_references} references'}, and a trial needs "
            f"{LEAST_TEST_VIDEOS}: add references or videos; a fifth of the videos is for testing"
        )
    if not validation:
        copies = ", only copies of test videos" if by_part["validation"] else ""
        raise TooFewTestVideos(
            f"dataset {dataset} has no validation video{copies}: add videos; a tenth of the videos is for validation"
        )
    n_present = len(captions.texts)
    captions, n_changed = _use_frozen_texts(captions, frozen, {video.key: video.video_id for video in videos})
    held_out_texts = {text for video in held_out for text in video.references}
    train_ids = {video.video_id for video in train}
    may_train = np.array(
        [
            video_id in train_ids and text not in held_out_texts
            for video_id, text in zip(captions.video_ids.tolist(), captions.texts, strict=True)
        ],
        dtype=np.bool_,
    )
    n_left_out = len(usable) - len(held_out) - len(train)
    training = np.flatnonzero(may_train[:n_present])
    return TrialParts(captions, training, may_train, train, validation, test, n_left_out, n_changed, clean_texts)


def compute_digest(value: object) -> str:
    """Compute the SHA-256 of plain data as JSON, in hexadecimal digits."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _choose_part(key: str) -> str:
    """The part of a video by its key: each part has a fixed share of all keys, whatever other videos there are.

    >>> [_choose_part(f"video_{i}") for i in range(1000)].count("test")
    194
    """
    digest = hashlib.sha256(f"0\t{key}".encode()).digest()
    place = int.from_bytes(digest[:8], "big") / 2**64
    if place < TEST_SHARE:
        return "test"
    return "validation" if place < TEST_SHARE + VALIDATION_SHARE else "training"


def _replace_references_with_best_rated(
    videos: Sequence[TrialVideo], captions: TrialCaptions, means: Mapping[int, float]
) -> list[TrialVideo]:
    """The videos with the text of their best rated caption as their only reference, of equal ones the first in order;
    those without a rated caption stay without one.
    """
    best: dict[int, tuple[float, str]] = {}
    of_captions = zip(captions.sample_ids.tolist(), captions.video_ids.tolist(), captions.texts, strict=True)
    for sample_id, video_id, text in of_captions:
        if (mean := means.get(sample_id)) is not None and (video_id not in best or mean > best[video_id][0]):
            best[video_id] = (mean, text)
    return [video._replace(references=[best[video.video_id][1]] if video.video_id in best else []) for video in videos]


def _list_clean_texts(videos: Sequence[TrialVideo]) -> list[tuple[str, str]]:
    return [(video.key, video.references[0]) for video in videos]


def _use_frozen_texts(
    captions: TrialCaptions, frozen: Sequence[FrozenCaption], video_ids: dict[str, int]
) -> tuple[TrialCaptions, int]:
    """The captions with the texts that a selection froze, and how many of these are others than now.

    Frozen captions that are gone come last, without simple scores, in the most frequent stratum. Of a video that is
    gone nothing can train.
    """
    texts, places = list(captions.texts), captions.positions
    changed = [row for row in frozen if row.sample in places and texts[places[row.sample]] != row.text]
    for row in changed:
        texts[places[row.sample]] = row.text
    gone = [row for row in frozen if row.sample not in places]
    back = [row for row in gone if row.video in video_ids]
    stratum = Counter(captions.strata).most_common(1)[0][0] if captions.strata else WHOLE_STRATUM
    return replace(
        captions,
        sample_ids=np.append(captions.sample_ids, np.full(len(back), -1)),
        video_ids=np.append(captions.video_ids, np.array([video_ids[row.video] for row in back], dtype=np.int64)),
        keys=[*captions.keys, *[row.sample for row in back]],
        texts=[*texts, *[row.text for row in back]],
        strata=[*captions.strata, *[stratum] * len(back)],
        values={name: np.append(column, np.full(len(back), np.nan)) for name, column in captions.values.items()},
    ), len(changed) + len(gone)


def _exclude_copies(videos: Sequence[TrialVideo], held_out: Sequence[TrialVideo]) -> list[TrialVideo]:
    """The videos that are no copy of a held-out one, by the hash of their file or by their signature."""
    hashes = {video.content_sha256 for video in held_out} - {None}
    kept = [video for video in videos if video.content_sha256 not in hashes]
    signed = [video.signature for video in held_out if video.signature is not None]
    if not signed:
        return kept
    units = convert_to_unit_vectors(signed)
    return [
        video
        for video in kept
        if video.signature is None
        or float((units @ convert_to_unit_vectors([video.signature])[0]).max()) < COPY_SIMILARITY
    ]
