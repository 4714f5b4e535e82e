"""What stands for a video where questions are asked about it: its frames, or what people wrote about it."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from io import BytesIO
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from assets.media.files import IngestedFileUnreadable, hold_ingested_file
from assets.models.settings import HUMAN_NOTES
from assets.scores.base import Outcome
from db.evidence.frames import LoadVideos, StoredVideo
from db.schema.inputs import KEYPOINTS, REFERENCES, SEGMENTS, VIDEO, Input, KeypointText, ReferenceText, TimedText
from db.scores.pending import PendingSample
from metrics_core.frames import FrameReadError, read_frames
from metrics_core.frames.fit import PictureFit
from metrics_core.frames.records import DecoderFailed
from metrics_core.protocols import ModelIdentity, SentenceSplitter
from metrics_core.qeva.offline.notes import NO_NOTES, NoteKeypoint, NoteReference, NoteSegment, build_video_notes
from metrics_core.qeva.records import JpegFrame, VideoAsFrames, VideoNotes

# Frames are taken from all over the video: every frame may be chosen, up to the cap.
EVERY = 1
# Raised by hand when other notes are taken from the same references and keypoints.
NOTES_REVISION = "1"


@dataclass(frozen=True, slots=True)
class UnreadableVideo:
    """A video of which there is nothing to show. is_final: another try cannot help."""

    reason: str
    is_final: bool


# Deleted, or its file became unreadable, while a run was at work.
CHANGED_VIDEO = UnreadableVideo("the video changed while it was worked on: score again", False)


class VideoMaterial(ABC):
    """How a video is given to whoever is asked about it."""

    inputs: ClassVar[Collection[Input[Any]]]

    @property
    @abstractmethod
    def identity(self) -> ModelIdentity:
        """What the video is given as; a part of the scorer's fingerprint."""

    @abstractmethod
    def find_refusal(self, sample: PendingSample) -> Outcome | None:
        """Why nothing can be asked about the sample's video, known before anything is read; else None."""

    @abstractmethod
    def compute_digests(self, files: LoadVideos, samples: Sequence[PendingSample]) -> dict[int, bytes]:
        """The digest of what is shown of each sample's video, by video_id."""

    @abstractmethod
    def load(
        self, files: LoadVideos, samples: Sequence[PendingSample], video_ids: Collection[int]
    ) -> Mapping[int, VideoAsFrames | VideoNotes | UnreadableVideo]:
        """What is shown of these videos of the samples."""


class NotesMaterial(VideoMaterial):
    """Timed references and keypoints that people wrote stand in for the video. A score is then not reference-free."""

    inputs = (REFERENCES, SEGMENTS, KEYPOINTS)

    def __init__(self, splitter: SentenceSplitter) -> None:
        self._splitter = splitter
        # Asked several times about the samples of one video.
        self._noted = lru_cache(maxsize=4096)(self._build_notes)

    @property
    def identity(self) -> ModelIdentity:
        """The rule by which notes are taken from references and keypoints."""
        return ModelIdentity(HUMAN_NOTES, NOTES_REVISION, {"sentence_splitter": self._splitter.identity.as_dict()})

    def find_refusal(self, sample: PendingSample) -> Outcome | None:
        """Status `no_reference` where people wrote nothing about the video."""
        if self.find_notes(sample) is not None:
            return None
        return Outcome(None, "no_reference", f"{NO_NOTES} by REELSIEVE_QEVA_VIDEO_MODEL")

    def compute_digests(self, files: LoadVideos, samples: Sequence[PendingSample]) -> dict[int, bytes]:
        """The digest of the notes."""
        return {
            video_id: _compute_digest(asdict(notes)) for video_id, notes in self._find_notes_by_video(samples).items()
        }

    def load(
        self, files: LoadVideos, samples: Sequence[PendingSample], video_ids: Collection[int]
    ) -> Mapping[int, VideoNotes]:
        """The notes of these videos."""
        return {
            video_id: notes for video_id, notes in self._find_notes_by_video(samples).items() if video_id in video_ids
        }

    def _find_notes_by_video(self, samples: Sequence[PendingSample]) -> dict[int, VideoNotes]:
        by_video = {sample.video_id: sample for sample in samples}
        notes = {video_id: self.find_notes(sample) for video_id, sample in by_video.items()}
        return {video_id: one for video_id, one in notes.items() if one is not None}

    def find_notes(self, sample: PendingSample) -> VideoNotes | None:
        """What people wrote about the sample's video; None where they wrote nothing."""
        return self._noted(sample[REFERENCES], sample[SEGMENTS].references, sample[KEYPOINTS])

    def _build_notes(
        self,
        texts: tuple[ReferenceText, ...],
        times: tuple[tuple[TimedText, ...], ...],
        keypoints: tuple[KeypointText, ...],
    ) -> VideoNotes | None:
        references = [
            NoteReference(
                each.text, tuple(NoteSegment(part.start_s, part.end_s, part.text) for part in parts if part.text)
            )
            for each, parts in zip(texts, times, strict=True)
        ]
        noted = [NoteKeypoint(each.text, each.dimension, each.segment_index) for each in keypoints]
        return build_video_notes(references, noted, self._splitter)


class FramesMaterial(VideoMaterial):
    """Frames from all over the video, at most `n_frames`, each fitted into `size` pixels a side, as JPEG."""

    inputs = (VIDEO,)

    def __init__(self, n_frames: int, size: int, quality: int) -> None:
        self._recipe = {"frames": n_frames, "size": size, "jpeg_quality": quality}

    @property
    def identity(self) -> ModelIdentity:
        """The number of frames, their size and quality."""
        return ModelIdentity("frames", "1", self._recipe)

    def find_refusal(self, sample: PendingSample) -> Outcome | None:
        """Status `no_frames` where the video has no file that decodes."""
        video = sample[VIDEO]
        if video.status == "text_only":
            return Outcome(None, "no_frames", "the video has no file for the video model to look at")
        if video.status not in ("ok", "damaged"):
            return Outcome(None, "no_frames", f"the video cannot be decoded: {video.error}")
        return None

    def compute_digests(self, files: LoadVideos, samples: Sequence[PendingSample]) -> dict[int, bytes]:
        """The digest of the file's content and the recipe."""
        return {
            video.video_id: _compute_digest([video.content_sha256.hex(), self._recipe])
            for video in files({sample.video_id for sample in samples})
        }

    def load(
        self, files: LoadVideos, samples: Sequence[PendingSample], video_ids: Collection[int]
    ) -> Mapping[int, VideoAsFrames | UnreadableVideo]:
        """The frames of these videos; of one that cannot be read, or is not the file that was ingested, the reason."""
        return {video.video_id: self._read_frames(video) for video in files(video_ids)}

    def _read_frames(self, video: StoredVideo) -> VideoAsFrames | UnreadableVideo:
        try:
            with hold_ingested_file(video) as path:
                read = read_frames(path, every=EVERY, cap=self._recipe["frames"], fit=self._choose_fit(video))
        except IngestedFileUnreadable as error:
            return UnreadableVideo(f"{video.uri}: {error}", False)
        except FrameReadError as error:
            return UnreadableVideo(f"{video.uri}: {error.reason}", not isinstance(error, DecoderFailed))
        frames = tuple(
            JpegFrame(
                _encode_jpeg(picture, self._recipe["jpeg_quality"]), float(time_s), picture.shape[1], picture.shape[0]
            )
            for picture, time_s in zip(read.pixels, read.times_s, strict=True)
        )
        return VideoAsFrames(frames, self._recipe)

    def _choose_fit(self, video: StoredVideo) -> PictureFit | None:
        """A small picture stays as it is; a large one keeps its proportions."""
        width, height, size = video.width or 0, video.height or 0, self._recipe["size"]
        if 0 < max(width, height) <= size:
            return None
        if not width or not height:
            return PictureFit(size, size, "longest")
        scale = size / max(width, height)
        return PictureFit(max(1, round(height * scale)), max(1, round(width * scale)), "squash")


def _compute_digest(value: Any) -> bytes:
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).digest()


def _encode_jpeg(picture: NDArray[np.uint8], quality: int) -> bytes:
    from PIL import Image

    held = BytesIO()
    Image.fromarray(picture).save(held, "JPEG", quality=quality)
    return held.getvalue()
