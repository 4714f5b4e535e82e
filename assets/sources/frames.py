"""The source of vectors of sampled video frames. Every video is decoded and encoded once per encoder and sampling."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from assets.media.decoders import (
    choose_decoder_pool,
    count_cores,
    count_cores_per_encoder,
    count_held_bytes,
    count_pixels,
)
from assets.media.errors import MediaUnavailable
from assets.media.files import hold_ingested_file
from assets.progress import LineWriter
from assets.sources.base import Batch, Source
from db.evidence.facts import VideoFacts, find_unmeasured_videos, store_video_facts
from db.evidence.frames import FRAMES, Status, StoredFrames, StoredVideo, count_frames, make_empty_features
from db.evidence.store import Table
from db.schema.inputs import Input
from db.scores.pending import PendingSample
from metrics_core.facts.models import find_fact_models
from metrics_core.facts.pictures import PICTURE_FACTS_VERSION, VideoMeasurement
from metrics_core.frames.features import FrameEncoder, FrameFeatures, VideoToEncode, compute_frame_features
from metrics_core.frames.records import DecoderFailed, FrameReadError
from metrics_core.models.errors import ModelUnusable
from metrics_core.protocols import ModelIdentity

# Videos between two writes: a crash costs at most so many.
VIDEOS_PER_WRITE = 32
# The option that missing facts about a video are measured in the pass that decodes its frames.
FACTS = "facts"


class SampledFrames(Source[Mapping[int, StoredFrames]]):
    """The source of the vectors (features) of sampled video frames; `load` and `ask` return them by video_id.
    is_wanted: whether a sample's score needs its video. inputs: the inputs that `is_wanted` reads.
    """

    asset: ClassVar[str] = "frame_embedding"
    description: ClassVar[str] = (
        "Features of the sampled frames of each video that the shard's unscored samples need, once per encoder."
    )
    group: ClassVar[str] = "embeddings"
    reads: ClassVar[tuple[str, ...]] = ("sample", "video")
    options: ClassVar[Mapping[str, bool]] = {FACTS: False}
    table: ClassVar[Table[Any, Any]] = FRAMES
    noun: ClassVar[str] = "video"
    model_role: ClassVar[str] = "encoder"
    progress: ClassVar[str] = "frames of {done} of {total} videos embedded"
    checks: ClassVar[Mapping[str, str]] = {
        "frames_present": "Every video that a score needs was read, or is known to have no readable frame.",
        "frames_complete": "As many features are stored as frames were sampled.",
    }

    def __init__(
        self, encoder: FrameEncoder, is_wanted: Callable[[PendingSample], bool], inputs: Collection[Input[Any]]
    ) -> None:
        self.encoder = encoder
        self.inputs = inputs
        self._is_wanted = is_wanted

    @property
    def model(self) -> ModelIdentity:
        """The identity of the image encoder together with the rule for sampling frames."""
        return self.encoder.identity

    def keys(self, batch: Batch) -> Iterable[StoredVideo]:
        """Return the videos that decode, of those samples whose score needs the video."""
        return batch.files({sample.video_id for sample in batch.samples if self._is_wanted(sample)})

    def compute(self, keys: Sequence[StoredVideo], batch: Batch) -> Iterator[Mapping[StoredVideo, StoredFrames]]:
        """Decode these videos, encode their frames, and yield them, 32 videos at a time. With option facts, the facts
        about these videos that are missing are measured in the same pass and stored; a video where this does not
        succeed is left to the asset video_fact.

        The status is "failed" if the file is missing, has changed or became a link since it was ingested, or if the
        decoder died or ran out of time. The next run tries a failed video again.
        """
        videos, order, models = sorted(keys, key=lambda video: video.video_id), batch.order, find_fact_models()
        undescribed: Collection[int] = ()
        if order is not None and order.options.get(FACTS, False):
            with order.engine.connect() as connection:
                ids = [video.video_id for video in videos]
                undescribed = find_unmeasured_videos(connection, PICTURE_FACTS_VERSION, models, ids)
        tell = (lambda _: None) if order is None else order.tell
        encoded = _encode_videos(self.encoder, videos, tell, undescribed, with_models=models is not None)
        while part := list(islice(encoded, VIDEOS_PER_WRITE)):
            if order is not None:
                store_video_facts(order.engine, PICTURE_FACTS_VERSION, models, [facts for _, _, facts in part if facts])
            yield {video: frames for video, frames, _ in part}

    def gather(self, values: Mapping[StoredVideo, StoredFrames], batch: Batch) -> Mapping[int, StoredFrames]:
        """Return vectors and times of the frames by video_id. A video whose frames could not be read has a status and
        an error instead; one that did not decode at ingest is left out.
        """
        return {video.video_id: frames for video, frames in values.items()}

    def count(self, values: Mapping[StoredVideo, StoredFrames]) -> Mapping[str, int]:
        """Return the number of videos, of frames, and of videos without frames."""
        return {
            "videos": len(values),
            "frames_embedded": sum(len(frames.indices) for frames in values.values()),
            "videos_without_frames": sum(frames.status != "ok" for frames in values.values()),
        }

    def format_lack(self, missing: Sequence[StoredVideo]) -> str:
        """Return what these videos lack, with the key of the first."""
        return f"no frames embedded by {self.model.model_id}, such as {missing[0].key!r}"

    def try_out(self) -> str:
        """Load the encoder, encode one small grey image, and return its number of dimensions as text. Raises
        ModelUnusable if the vector is not finite or zero.
        """
        images = self.encoder.image_encoder
        images.load()
        (feature,) = images.encode_preprocessed([images.preprocess(np.full((32, 32, 3), 128, np.uint8))])
        # The encoder puts zeros in the place of a feature that is not finite.
        if not feature.any():
            raise ModelUnusable(
                f"the features of {images.identity.model_id} are zero or not finite: set "
                "REELSIEVE_IMAGE_TEXT_ENCODER_PRECISION=fp32, or name another model"
            )
        return f"{len(feature)} dimensions"

    def measure(self, keys: Sequence[StoredVideo], batch: Batch) -> Mapping[str, int]:
        """Count these videos and their stored frames."""
        assert batch.order is not None
        with batch.order.engine.connect() as connection:
            return count_frames(connection, self.model_id(connection), [video.video_id for video in keys])

    def judge_counts(self, counts: Mapping[str, int]) -> Mapping[str, bool]:
        """Return by name whether every video that decodes was read for this encoder, with or without success
        (frames_present), and whether as many vectors are stored as frames were sampled (frames_complete).
        """
        return {
            "frames_present": counts["n_missing"] == 0,
            "frames_complete": counts["n_stored"] == counts["n_sampled"],
        }


def _encode_videos(
    encoder: FrameEncoder,
    videos: Sequence[StoredVideo],
    tell: LineWriter,
    undescribed: Collection[int],
    *,
    with_models: bool,
) -> Iterator[tuple[StoredVideo, StoredFrames, VideoFacts | None]]:
    """Yield every video with its frames, and its facts if its id is in `undescribed` and one pass gave both."""
    with_models = with_models and bool(undescribed)
    pool = choose_decoder_pool(count_cores_per_encoder(count_cores()), videos, tell, with_models=with_models)
    files = (_build_video_file(video, video.video_id in undescribed, with_models) for video in videos)
    for video, encoded in compute_frame_features(encoder, files, pool):
        measured = encoded.measurement if isinstance(encoded, FrameFeatures) else None
        yield video, _build_frames(video, encoded), build_video_facts(video, measured) if measured else None


def _build_video_file(video: StoredVideo, wants_facts: bool, with_models: bool) -> VideoToEncode[StoredVideo]:
    held = partial(hold_video_file, video)
    size = video.duration_s, video.n_frames, count_pixels(video), count_held_bytes(video)
    return VideoToEncode(video, Path(video.uri), *size, held, wants_facts, with_models)


@contextmanager
def hold_video_file(video: StoredVideo) -> Iterator[Path]:
    """Yield the path of a video's ingested file for a block; a file at an address is fetched for that time. Raises
    DecoderFailed if the file is gone, out of reach, or no longer the one that was ingested.
    """
    try:
        with hold_ingested_file(video) as held:
            yield held.path
    except MediaUnavailable as error:
        raise DecoderFailed(Path(video.uri), str(error)) from None


def _build_frames(video: StoredVideo, encoded: FrameFeatures | FrameReadError) -> StoredFrames:
    if isinstance(encoded, FrameReadError):
        status: Status = "failed" if isinstance(encoded, DecoderFailed) else "unreadable"
        return StoredFrames(status, f"{video.uri}: {encoded.reason}", make_empty_features())
    features = np.asarray(encoded.features) if len(encoded.features) else make_empty_features()
    times_s, indices = map(float, encoded.times_s), map(int, encoded.indices)
    return StoredFrames("ok", None, features, tuple(times_s), tuple(indices), encoded.n_frames, encoded.reader)


def build_video_facts(video: StoredVideo, measured: VideoMeasurement | FrameReadError) -> VideoFacts:
    """Build the row of a video's facts that is stored. For an error it has no facts but the reason, and the status
    "failed" if the decoder or the file is at fault for now, else "unreadable".
    """
    if isinstance(measured, FrameReadError):
        status: Status = "failed" if isinstance(measured, DecoderFailed) else "unreadable"
        return VideoFacts(video.video_id, video.content_sha256, {}, status, f"{video.uri}: {measured.reason}")
    facts = asdict(measured.facts)
    signature = None if facts["signature"] is None else bytes.fromhex(facts["signature"])
    known = {**facts, "signature": signature, "has_sound": measured.has_sound, **asdict(measured.by_models)}
    return VideoFacts(video.video_id, video.content_sha256, known)
