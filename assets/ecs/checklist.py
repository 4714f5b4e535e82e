"""A video's keypoints held against a caption: on which text, on which of its sentences, and by which model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from db.inputs import KEYPOINTS, SEGMENTS, KeypointText, TimedText
from db.work import PendingSample
from metrics_core.ecs import KeypointPlan, Mode, nearest_sentences, plan_keypoints, premise_sentences, resolve_mode
from metrics_core.protocols import EntailmentModel, SentenceSplitter
from metrics_core.sodam import Alignment, align, merged_texts


class MissingTimes(ValueError):
    """A caption or a reference without the times that the mode asks for."""


class Checklist:
    """How verdicts on keypoints are reached.

    n_sentences: so many sentences are verified per keypoint, None for all of them. default_threshold: of dimensions
    without a calibrated one. sentences: the sentences of a text.
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
        # A text is asked for by its plans, by its count and for its embeddings.
        self.sentences = lru_cache(maxsize=4096)(lambda text: premise_sentences(text, splitter))

    def reading(self, sample: PendingSample) -> Reading:
        """The sample as it is verified and scored; MissingTimes where it lacks times that the mode asks for."""
        reference = _timed_reference(sample)
        predicted = _timed_texts(sample[SEGMENTS].caption)
        # Where nothing was predicted at all, there are no times to miss.
        is_empty = not predicted and not self.sentences(sample.text)
        wanted = "flat_micro" if self.mode == "sodam" and is_empty else self.mode
        try:
            mode = resolve_mode(wanted, timed_reference=bool(reference), timed_prediction=bool(predicted))
        except ValueError as error:
            raise MissingTimes(str(error)) from None
        if mode != "sodam":
            return Reading(mode, tuple(sample.text for _ in sample[KEYPOINTS]))
        alignment = align([(s.start_s, s.end_s) for s in reference], [(s.start_s, s.end_s) for s in predicted])
        merged = merged_texts([segment.text or "" for segment in predicted], alignment)
        premises = tuple(merged.get(_segment_of(keypoint), "") for keypoint in sample[KEYPOINTS])
        return Reading(mode, premises, alignment, len(reference))

    def texts(self, sample: PendingSample) -> Iterator[str]:
        """The keypoints and all sentences that may be verified; nothing where all of them are, as none is retrieved."""
        if self.n_sentences is None or not is_verifiable(sample):
            return
        yield from (keypoint.text for keypoint in sample[KEYPOINTS])
        for text in (sample.text, *(segment.text or "" for segment in sample[SEGMENTS].caption)):
            yield from self.sentences(text)

    def plans(self, sample: PendingSample, vectors: Mapping[str, NDArray[np.float32]]) -> list[KeypointPlan]:
        """The pairs to be verified for each keypoint, in the order of the sample's keypoints; errors of `reading`."""
        members: dict[str, list[int]] = {}
        for place, premise in enumerate(self.reading(sample).premises):
            members.setdefault(premise, []).append(place)
        found: dict[int, KeypointPlan] = {}
        for premise, places in members.items():
            keypoints = [sample[KEYPOINTS][place].text for place in places]
            found.update(zip(places, self._plan(keypoints, self.sentences(premise), vectors), strict=True))
        return [found[place] for place in range(len(sample[KEYPOINTS]))]

    def count_sentences(self, sample: PendingSample) -> int:
        """How many sentences a caption has, those of all its segments where it has times."""
        reading = self.reading(sample)
        texts = (
            [sample.text] if reading.alignment is None else [segment.text or "" for segment in sample[SEGMENTS].caption]
        )
        return sum(len(self.sentences(text)) for text in texts)

    def _plan(
        self, keypoints: Sequence[str], sentences: Sequence[str], vectors: Mapping[str, NDArray[np.float32]]
    ) -> list[KeypointPlan]:
        if self.n_sentences is None or not sentences:
            return plan_keypoints(keypoints, sentences)
        hypotheses, premises = (np.stack([vectors[text] for text in texts]) for texts in (keypoints, sentences))
        return plan_keypoints(keypoints, sentences, nearest_sentences(hypotheses, premises, self.n_sentences))


@dataclass(frozen=True, slots=True)
class Reading:
    """The mode that counts for a sample and the text that each of its keypoints is held against.

    alignment and n_segments (of the reference): in mode "sodam" only.
    """

    mode: Mode
    premises: tuple[str, ...]
    alignment: Alignment | None = None
    n_segments: int = 0


def is_verifiable(sample: PendingSample) -> bool:
    """Whether there is something to verify: a caption, and keypoints to hold against it."""
    return sample.kind == "caption" and bool(sample[KEYPOINTS])


def _segment_of(keypoint: KeypointText) -> int:
    return -1 if keypoint.segment_index is None else keypoint.segment_index


def _timed_reference(sample: PendingSample) -> tuple[TimedText, ...]:
    """The segments of the first reference to which every keypoint belongs; () where there is none."""
    places = [_segment_of(keypoint) for keypoint in sample[KEYPOINTS]]
    if -1 in places:
        return ()
    fitting = (times for times in sample[SEGMENTS].references if max(places, default=0) < len(times))
    return next(fitting, ())


def _timed_texts(segments: Sequence[TimedText]) -> Sequence[TimedText]:
    """The segments, where all have a text: else nobody knows what was said when."""
    return segments if all(segment.text for segment in segments) else ()
