"""The source of vectors of sampled video frames. Every video is decoded and encoded once per encoder and sampling."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sqlalchemy.engine import Engine

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
from assets.sources.base import Evidence, Examination, Order, Source
from assets.sources.video_facts import build_video_facts
from assets.words.text import format_portion
from db.evidence.facts import VideoFacts, find_unmeasured_videos, store_video_facts
from db.evidence.frames import (
    LoadVideos,
    StoredFrames,
    StoredVideo,
    count_frames,
    list_pending_videos,
    load_frames,
    make_empty_features,
    store_frames,
)
from db.evidence.models import register_model
from db.schema.inputs import Input
from db.scores.pending import PendingSample, list_shard_samples
from metrics_core.facts.models import find_fact_models
from metrics_core.facts.pictures import PICTURE_FACTS_VERSION
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

    def make(self, order: Order, sample_ids: list[int]) -> Mapping[str, int | str]:
        """Decode the samples' videos that have no stored vectors of this encoder, encode their frames, and store the
        vectors. Returns the number of videos, of frames, and of videos without frames, and the encoder's name, by name.
        A video whose frames cannot be read is stored with a status and a reason. With option facts, the facts about
        these videos that are missing are measured in the same pass and stored; a video where this does not succeed is
        left to the asset video_fact.

        Its status is "failed" if its file is missing, has changed or became a link since it was ingested, or if the
        decoder died or ran out of time. The next run tries a failed video again.
        """
        pending = self._unseen(order, sample_ids)
        n_videos = n_frames = n_without = 0
        undescribed: Collection[int] = ()
        models = find_fact_models()
        if order.options.get(FACTS, False):
            with order.engine.connect() as connection:
                ids = [video.video_id for video in pending]
                undescribed = find_unmeasured_videos(connection, PICTURE_FACTS_VERSION, models, ids)
        rows = _encode_rows(self.encoder, pending, order.tell, undescribed, with_models=models is not None)
        while batch := list(islice(rows, VIDEOS_PER_WRITE)):
            written = [row for row, _ in batch]
            store_video_facts(order.engine, PICTURE_FACTS_VERSION, models, [facts for _, facts in batch if facts])
            with order.engine.begin() as connection:
                model_id = register_model(connection, self.encoder.identity.as_dict())
            store_frames(order.engine, model_id, written)
            n_videos += len(written)
            n_frames += sum(len(video["frames"]) for video in written)
            n_without += sum(video["status"] != "ok" for video in written)
            order.tell(f"frames of {n_videos} of {len(pending)} videos embedded")
        return {
            "videos": n_videos,
            "frames_embedded": n_frames,
            "videos_without_frames": n_without,
            "encoder": self.encoder.identity.model_id,
        }

    def load(self, engine: Engine, scorer_id: int, samples: Sequence[PendingSample]) -> Mapping[int, StoredFrames]:
        """Load the frames' vectors and times of the videos of those samples whose score needs it, by video_id. A video
        whose frames could not be read has a status and an error instead; one that did not decode at ingest is left out.
        Raises MissingEvidence for a video that was not encoded yet.
        """
        video_ids = sorted({sample.video_id for sample in samples if self._is_wanted(sample)})
        with engine.connect() as connection:
            model_id = self.model_id(connection)
            pending = list_pending_videos(connection, model_id, video_ids)
        by_video = {} if model_id is None else load_frames(engine, model_id, video_ids)
        if unseen := [video.key for video in pending if video.video_id not in by_video]:
            lack = f"no frames embedded by {self.model.model_id}, such as {unseen[0]!r}"
            raise self.missing(format_portion(len(unseen), len(video_ids), "video", f"has {lack}", f"have {lack}"))
        return by_video

    def ask(self, samples: Sequence[PendingSample], files: LoadVideos, below: Evidence) -> Mapping[int, StoredFrames]:
        """Decode and encode the videos of those samples whose score needs it now; return vectors, times and status by
        video_id, as `load`. files: returns the video files for a set of video ids. Stores nothing.
        """
        videos = files({sample.video_id for sample in samples if self._is_wanted(sample)})
        return {row["video_id"]: _convert_row(row) for row, _ in _encode_rows(self.encoder, videos, lambda _: None)}

    def try_out(self) -> str:
        """Load the encoder, encode one small grey picture, and return its number of dimensions as text. Raises
        ModelUnusable if the vector is not finite or zero.
        """
        images = self.encoder.image_encoder
        images.load()
        (feature,) = images.encode_preprocessed([images.preprocess(np.full((32, 32, 3), 128, np.uint8))])
        # The encoder puts zeros in the place of a feature that is not finite.
        if not feature.any():
            raise ModelUnusable(f"the features of {images.identity.model_id} are not finite: try another precision")
        return f"{len(feature)} dimensions"

    def examine(self, order: Order) -> Examination:
        """Check the vectors stored for the shard's videos that a score needs, and return the counts behind the checks
        too. frames_present: every video that decodes was read for this encoder, with or without success.
        frames_complete: as many vectors are stored as frames were sampled.
        """
        with order.engine.connect() as connection:
            sample_ids = list_shard_samples(connection, order.dataset.dataset_id, order.shard)
        videos = self._wanted_videos(order, sample_ids)
        with order.engine.connect() as connection:
            counts = count_frames(connection, self.model_id(connection), videos)
        passed = {"frames_present": counts.n_missing == 0, "frames_complete": counts.n_stored == counts.n_sampled}
        return Examination(passed, counts.as_dict())

    def _unseen(self, order: Order, sample_ids: list[int]) -> list[StoredVideo]:
        videos = self._wanted_videos(order, sample_ids)
        with order.engine.connect() as connection:
            return list_pending_videos(connection, self.model_id(connection), videos)

    def _wanted_videos(self, order: Order, sample_ids: list[int]) -> list[int]:
        batches = order.samples(sample_ids, self.inputs)
        return sorted({sample.video_id for samples in batches for sample in samples if self._is_wanted(sample)})


def _encode_rows(
    encoder: FrameEncoder,
    videos: Sequence[StoredVideo],
    tell: LineWriter,
    undescribed: Collection[int] = (),
    *,
    with_models: bool = False,
) -> Iterator[tuple[dict[str, Any], VideoFacts | None]]:
    """Yield the row of every video's frames, with its facts if its id is in `undescribed` and one pass gave both."""
    with_models = with_models and bool(undescribed)
    pool = choose_decoder_pool(count_cores_per_encoder(count_cores()), videos, tell, with_models=with_models)
    files = (_build_video_file(video, video.video_id in undescribed, with_models) for video in videos)
    for video, encoded in compute_frame_features(encoder, files, pool):
        measured = encoded.measurement if isinstance(encoded, FrameFeatures) else None
        yield _build_row(video, encoded), build_video_facts(video, measured) if measured else None


def _build_video_file(video: StoredVideo, wants_facts: bool, with_models: bool) -> VideoToEncode[StoredVideo]:
    held = partial(hold_video_file, video)
    size = video.duration_s, video.n_frames, count_pixels(video), count_held_bytes(video)
    return VideoToEncode(video, Path(video.uri), *size, held, wants_facts, with_models)


@contextmanager
def hold_video_file(video: StoredVideo) -> Iterator[Path]:
    """Give the path of a video's ingested file inside a `with` block; a file at an address is fetched for that time.
    Raises DecoderFailed if the file is gone, out of reach, or no longer the one that was ingested.
    """
    try:
        with hold_ingested_file(video) as path:
            yield path
    except MediaUnavailable as error:
        raise DecoderFailed(Path(video.uri), str(error)) from None


def _build_row(video: StoredVideo, encoded: FrameFeatures | FrameReadError) -> dict[str, Any]:
    """Return the frames of a video as the row that is stored, or for an error the row with status and reason."""
    row = {"video_id": video.video_id, "content_sha256": video.content_sha256}
    if isinstance(encoded, FrameReadError):
        status = "failed" if isinstance(encoded, DecoderFailed) else "unreadable"
        error = f"{video.uri}: {encoded.reason}"
        return {**row, "status": status, "error": error, "n_frames": None, "reader": None, "frames": []}
    frames = list(zip(encoded.indices, encoded.times_s, encoded.features, strict=True))
    facts = {"n_frames": encoded.n_frames, "reader": encoded.reader, "frames": frames}
    return {**row, "status": "ok", "error": None, **facts}


def _convert_row(row: Mapping[str, Any]) -> StoredFrames:
    """Return the frames of a row in the form in which `load_frames` returns them."""
    frames = row["frames"]
    features = np.stack([feature for _, _, feature in frames]) if frames else make_empty_features()
    return StoredFrames(row["status"], row["error"], features, tuple(float(time_s) for _, time_s, _ in frames))
