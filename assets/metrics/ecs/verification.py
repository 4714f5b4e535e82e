"""How the keypoints of a video are verified in a caption: in which text and sentences, and by which model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from db.schema.inputs import KEYPOINTS, SEGMENTS, KeypointText, TimedText
from db.scores.pending import PendingSample
from metrics_core.ecs import Mode, RankedPremises, choose_mode, choose_premises, rank_nearest_sentences, split_premises
from metrics_core.protocols import EntailmentModel, SentenceSplitter
from metrics_core.sodam import Alignment, align, merge_texts


class MissingTimes(ValueError):
    """Raised when the mode needs times that a caption or its references lack."""


class KeypointVerification:
    """The rules by which keypoints are verified in captions, with the verifier model and the sentence splitter.
    n_sentences: the number of sentences to verify a keypoint with, None for all. mode: "sodam" to align parts of
    captions by time, "flat_micro" or "flat_macro" to take captions as a whole, or "auto". default_threshold:
    the threshold of dimensions without a calibrated one.

    split_sentences: returns the sentences of a text, and keeps the result.
    """

    def __init__(
        self,
        model: EntailmentModel,
        splitter: SentenceSplitter,
        n_sentences: int | None,
        mode: Mode | Literal["auto"],
        default_threshold: float,
    ) -> None:
        self.model = model
        self.splitter = splitter
        self.n_sentences = n_sentences
        self.mode = mode
        self.default_threshold = default_threshold
        # Plans, counts and embeddings all need the sentences of the same text.
        self.split_sentences = lru_cache(maxsize=4096)(lambda text: split_premises(text, splitter))

    def choose_premises(self, sample: PendingSample) -> KeypointPremises:
        """Return the mode for a caption, and for every keypoint of its video the text that it is verified in: the whole
        caption, or in mode "sodam" the parts of it that are aligned with the keypoint's segment, "" without any. Raises
        MissingTimes if the caption or its references lack times that the mode needs.
        """
        reference = _find_timed_reference(sample)
        predicted = _require_all_texts(sample[SEGMENTS].caption)
        # A caption without a sentence needs no times.
        is_empty = not predicted and not self.split_sentences(sample.text)
        requested = "flat_micro" if self.mode == "sodam" and is_empty else self.mode
        try:
            mode = choose_mode(requested, timed_reference=bool(reference), timed_prediction=bool(predicted))
        except ValueError as error:
            raise MissingTimes(str(error)) from None
        if mode != "sodam":
            return KeypointPremises(mode, tuple(sample.text for _ in sample[KEYPOINTS]))
        alignment = align([(s.start_s, s.end_s) for s in reference], [(s.start_s, s.end_s) for s in predicted])
        merged = merge_texts([segment.text or "" for segment in predicted], alignment)
        premises = tuple(merged.get(_find_segment_index(keypoint), "") for keypoint in sample[KEYPOINTS])
        return KeypointPremises(mode, premises, alignment, len(reference))

    def list_texts(self, sample: PendingSample) -> Iterator[str]:
        """Yield the texts that need a vector to choose sentences: keypoints, then sentences of caption and segments; a
        text may repeat. Yield nothing if all sentences are verified, or if the sample is no caption or has no
        keypoints.
        """
        if self.n_sentences is None or not is_verifiable(sample):
            return
        yield from (keypoint.text for keypoint in sample[KEYPOINTS])
        for text in (sample.text, *(segment.text or "" for segment in sample[SEGMENTS].caption)):
            yield from self.split_sentences(text)

    def build_plans(self, sample: PendingSample, vectors: Mapping[str, NDArray[np.float32]]) -> list[RankedPremises]:
        """Return for every keypoint, in the sample's order, the sentences to verify it with: all, or the nearest ones
        by cosine. vectors: those of keypoints and sentences, by text; needed if not all sentences are verified. Raises
        MissingTimes as `choose_premises` does.
        """
        members: dict[str, list[int]] = {}
        for place, premise in enumerate(self.choose_premises(sample).premises):
            members.setdefault(premise, []).append(place)
        plans: dict[int, RankedPremises] = {}
        for premise, places in members.items():
            keypoints = [sample[KEYPOINTS][place].text for place in places]
            plans.update(zip(places, self._plan(keypoints, self.split_sentences(premise), vectors), strict=True))
        return [plans[place] for place in range(len(sample[KEYPOINTS]))]

    def count_sentences(self, sample: PendingSample) -> int:
        """Return the number of sentences of a caption; in mode "sodam" of all its segments together. Raises
        MissingTimes if times that the mode needs are lacking.
        """
        is_timed = self.choose_premises(sample).alignment is not None
        texts = [segment.text or "" for segment in sample[SEGMENTS].caption] if is_timed else [sample.text]
        return sum(len(self.split_sentences(text)) for text in texts)

    def _plan(
        self, keypoints: Sequence[str], sentences: Sequence[str], vectors: Mapping[str, NDArray[np.float32]]
    ) -> list[RankedPremises]:
        if self.n_sentences is None or not sentences:
            return choose_premises(keypoints, sentences)
        hypotheses, premises = (np.stack([vectors[text] for text in texts]) for texts in (keypoints, sentences))
        return choose_premises(keypoints, sentences, rank_nearest_sentences(hypotheses, premises, self.n_sentences))


@dataclass(frozen=True, slots=True)
class KeypointPremises:
    """The mode for a caption, and for every keypoint, in the sample's order, the text that it is verified in.
    alignment, n_segments: the alignment with the reference's segments and their number; None and 0 unless the mode is
    "sodam".
    """

    mode: Mode
    premises: tuple[str, ...]
    alignment: Alignment | None = None
    n_segments: int = 0


def is_verifiable(sample: PendingSample) -> bool:
    """Whether the sample is a caption whose video has keypoints."""
    return sample.kind == "caption" and bool(sample[KEYPOINTS])


def _find_segment_index(keypoint: KeypointText) -> int:
    return -1 if keypoint.segment_index is None else keypoint.segment_index


def _find_timed_reference(sample: PendingSample) -> tuple[TimedText, ...]:
    """Return the segments of the first reference that has a segment for every keypoint; () where none has."""
    places = [_find_segment_index(keypoint) for keypoint in sample[KEYPOINTS]]
    if -1 in places:
        return ()
    fitting = (times for times in sample[SEGMENTS].references if max(places, default=0) < len(times))
    return next(fitting, ())


def _require_all_texts(segments: Sequence[TimedText]) -> Sequence[TimedText]:
    """Return the segments if all of them have a text; else (), because the words have no known times."""
    return segments if all(segment.text for segment in segments) else ()
