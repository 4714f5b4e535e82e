"""The material by which models see a video: its frames, or references and keypoints that people wrote about it."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from io import BytesIO
from typing import Any, ClassVar, Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from assets.media.errors import MediaUnavailable
from assets.media.files import hold_ingested_file
from assets.models.settings import HUMAN_NOTES
from assets.scores.base import Outcome
from assets.sources.base import MissingEvidence
from db.evidence.frames import LoadVideos, StoredVideo
from db.schema.inputs import KEYPOINTS, REFERENCES, SEGMENTS, VIDEO, Input, KeypointText, ReferenceText, TimedText
from db.scores.pending import PendingSample
from metrics_core.frames import FrameReadError, get_shared_worker
from metrics_core.frames.fit import PictureFit
from metrics_core.frames.records import DecoderFailed
from metrics_core.protocols import ModelIdentity, SentenceSplitter
from metrics_core.qeva.offline.notes import NO_NOTES, NoteKeypoint, NoteReference, NoteSegment, build_video_notes
from metrics_core.qeva.records import JpegFrame, VideoAsFrames, VideoNotes

# Frames are chosen from all parts of the video: every frame may be chosen, up to the cap.
EVERY = 1
JPEG_QUALITY = 85
# Raised by hand when other notes are taken from the same references and keypoints.
NOTES_REVISION = "1"


@dataclass(frozen=True, slots=True)
class UnreadableVideo:
    """A video that cannot be shown to a model, with the reason. is_final: whether another try cannot help."""

    reason: str
    is_final: bool

    @property
    def status(self) -> Literal["refused", "error"]:
        """The status of an answer about the video: "error" if another try may help."""
        return "refused" if self.is_final else "error"


# Deleted, or its file became unreadable, while a run was at work.
CHANGED_VIDEO = UnreadableVideo(
    "the video was changed or deleted while questions about it were made: score again", False
)


class VideoMaterial(ABC):
    """The form in which models get a video: frames, or people's notes. It shows the videos of
    samples to models, gives a digest of what they see, and knows the videos that it cannot show.
    """

    inputs: ClassVar[Collection[Input[Any]]]

    @property
    @abstractmethod
    def identity(self) -> ModelIdentity:
        """The identity of the form in which a video is given, with its parameters; a part of the fingerprint."""

    @abstractmethod
    def find_refusal(self, sample: PendingSample) -> Outcome | None:
        """Return the outcome, with status and reason, of a sample whose video cannot be shown to a model; else None.
        Reads no file.
        """

    @abstractmethod
    def compute_digests(self, files: LoadVideos, samples: Sequence[PendingSample]) -> dict[int, bytes]:
        """Return the digest of what models are shown of every sample's video, by video_id. A video that has no such
        material, or that `files` does not return, has no entry.
        """

    def require_digests(
        self, files: LoadVideos, samples: Sequence[PendingSample], missing: Callable[[str], MissingEvidence]
    ) -> dict[int, bytes]:
        """Return what `compute_digests` does for samples whose videos could all be shown when the run began. missing:
        as `Source.missing`. Raises MissingEvidence where a video changed during the run.
        """
        digests = self.compute_digests(files, samples)
        if changed := [sample.key for sample in samples if sample.video_id not in digests]:
            have = "sample has" if len(changed) == 1 else "samples have"
            raise missing(f"{len(changed):,} {have} a video that changed during the run, such as {changed[0]!r}")
        return digests

    @abstractmethod
    def load(
        self, files: LoadVideos, samples: Sequence[PendingSample], video_ids: Collection[int]
    ) -> Mapping[int, VideoAsFrames | VideoNotes | UnreadableVideo]:
        """Return what models are shown of these videos of the samples, by video_id: frames, notes, or the reason why
        there is nothing to show. A video that was deleted meanwhile, or has no notes, has no entry. files: returns the
        video files for a set of video ids.
        """


class NotesMaterial(VideoMaterial):
    """Gives a video as notes: the references, their segments and keypoints that people wrote about it. No video file is
    read, and a score is then not reference-free.
    """

    inputs = (REFERENCES, SEGMENTS, KEYPOINTS)

    def __init__(self, splitter: SentenceSplitter) -> None:
        self._splitter = splitter
        # The samples of one video have the same notes.
        self._noted = lru_cache(maxsize=4096)(self._build_notes)

    @property
    def identity(self) -> ModelIdentity:
        """The identity of the rule by which notes are made from references and keypoints, with the sentence
        splitter.
        """
        return ModelIdentity(HUMAN_NOTES, NOTES_REVISION, {"sentence_splitter": self._splitter.identity.as_dict()})

    def find_refusal(self, sample: PendingSample) -> Outcome | None:
        """Return an outcome with status no_reference if people wrote nothing about the sample's video; else None."""
        if self.find_notes(sample) is not None:
            return None
        return Outcome(None, "no_reference", f"{NO_NOTES} by REELSIEVE_QEVA_VIDEO_MODEL")

    def compute_digests(self, files: LoadVideos, samples: Sequence[PendingSample]) -> dict[int, bytes]:
        """Return the digest of every video's notes, by video_id; a video without notes has no entry. `files` is not
        used.
        """
        return {
            video_id: _compute_digest(asdict(notes)) for video_id, notes in self._find_notes_by_video(samples).items()
        }

    def load(
        self, files: LoadVideos, samples: Sequence[PendingSample], video_ids: Collection[int]
    ) -> Mapping[int, VideoNotes]:
        """Return the notes about those videos of the samples whose ids are given, by video_id; a video without notes
        has no entry. `files` is not used.
        """
        return {
            video_id: notes for video_id, notes in self._find_notes_by_video(samples).items() if video_id in video_ids
        }

    def _find_notes_by_video(self, samples: Sequence[PendingSample]) -> dict[int, VideoNotes]:
        by_video = {sample.video_id: sample for sample in samples}
        notes = {video_id: self.find_notes(sample) for video_id, sample in by_video.items()}
        return {video_id: one for video_id, one in notes.items() if one is not None}

    def find_notes(self, sample: PendingSample) -> VideoNotes | None:
        """Return the notes about a sample's video: events and facts from its references, segments and keypoints. None
        if these have no sentence.
        """
        return self._noted(sample[REFERENCES], sample[SEGMENTS].references, sample[KEYPOINTS])

    def _build_notes(
        self,
        texts: tuple[ReferenceText, ...],
        times: tuple[tuple[TimedText, ...], ...],
        keypoints: tuple[KeypointText, ...],
    ) -> VideoNotes | None:
        references = [
            NoteReference(
                reference.text, tuple(NoteSegment(part.start_s, part.end_s, part.text) for part in parts if part.text)
            )
            for reference, parts in zip(texts, times, strict=True)
        ]
        noted = [NoteKeypoint(keypoint.text, keypoint.dimension, keypoint.segment_index) for keypoint in keypoints]
        return build_video_notes(references, noted, self._splitter)


class FramesMaterial(VideoMaterial):
    """Gives a video as JPEG frames from all parts of it: `n_frames` at most, scaled to `size` pixels a side at most."""

    inputs = (VIDEO,)

    def __init__(self, n_frames: int, size: int) -> None:
        self._recipe = {"frames": n_frames, "size": size, "jpeg_quality": JPEG_QUALITY}
        # What the last `load` of a run returned; every run has a `files` of its own. Samples come by video, so that the
        # next call may need the last of these frames again.
        self._shown: WeakKeyDictionary[LoadVideos, dict[StoredVideo, VideoAsFrames]] = WeakKeyDictionary()

    @property
    def identity(self) -> ModelIdentity:
        """The identity "frames" with the number of frames, their size and their JPEG quality."""
        return ModelIdentity("frames", "1", self._recipe)

    def find_refusal(self, sample: PendingSample) -> Outcome | None:
        """Return an outcome with status no_frames if the sample's video has no file, or ingest could not decode it;
        else None. A damaged file counts as readable.
        """
        video = sample[VIDEO]
        if video.status == "text_only":
            return Outcome(None, "no_frames", "the video has no file for the video model to look at")
        if video.status not in ("ok", "damaged"):
            return Outcome(None, "no_frames", f"the video cannot be decoded: {video.error}")
        return None

    def compute_digests(self, files: LoadVideos, samples: Sequence[PendingSample]) -> dict[int, bytes]:
        """Return the digest of every video file's content, and of number, size and quality of the frames, by video_id.
        The content's hash is that of ingest; no file is read.
        """
        return {
            video.video_id: _compute_digest([video.content_sha256.hex(), self._recipe])
            for video in files({sample.video_id for sample in samples})
        }

    def load(
        self, files: LoadVideos, samples: Sequence[PendingSample], video_ids: Collection[int]
    ) -> Mapping[int, VideoAsFrames | UnreadableVideo]:
        """Decode the files of these videos and return their frames by video_id, or the reason why one cannot be read. A
        file that is no longer the ingested one counts as unreadable. Frames that the last call returned are not decoded
        again, if `files` is the same. `samples` is not used.
        """
        videos = files(video_ids)
        before = self._shown.pop(files, {})
        known = {video: before[video] for video in videos if video in before}
        # The others need not stay in memory.
        del before
        shown = {video: known.get(video) or self._read_frames(video) for video in videos}
        self._shown[files] = {video: one for video, one in shown.items() if isinstance(one, VideoAsFrames)}
        return {video.video_id: one for video, one in shown.items()}

    def _read_frames(self, video: StoredVideo) -> VideoAsFrames | UnreadableVideo:
        try:
            with hold_ingested_file(video) as held:
                read = get_shared_worker().read_frames(
                    held.path, every=EVERY, cap=self._recipe["frames"], fit=self._choose_fit(video)
                )
        except MediaUnavailable as error:
            return UnreadableVideo(f"{video.uri}: {error}", False)
        except FrameReadError as error:
            return UnreadableVideo(f"{video.uri}: {error.reason}", not isinstance(error, DecoderFailed))
        frames = tuple(
            JpegFrame(_encode_jpeg(picture), float(time_s), picture.shape[1], picture.shape[0])
            for picture, time_s in zip(read.pixels, read.times_s, strict=True)
        )
        return VideoAsFrames(frames, self._recipe)

    def _choose_fit(self, video: StoredVideo) -> PictureFit | None:
        """Return the size to which frames are scaled with their proportions; None for those that are small enough."""
        width, height, size = video.width or 0, video.height or 0, self._recipe["size"]
        if 0 < max(width, height) <= size:
            return None
        if not width or not height:
            return PictureFit(size, size, "longest")
        scale = size / max(width, height)
        return PictureFit(max(1, round(height * scale)), max(1, round(width * scale)), "squash")


def _compute_digest(value: Any) -> bytes:
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).digest()


def _encode_jpeg(picture: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    held = BytesIO()
    Image.fromarray(picture).save(held, "JPEG", quality=JPEG_QUALITY)
    return held.getvalue()
