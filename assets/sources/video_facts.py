"""The row of facts about one video: of a measurement, or of the error that kept it from being measured."""

from __future__ import annotations

from dataclasses import asdict

from db.evidence.facts import VideoFacts
from db.evidence.frames import Status, StoredVideo
from metrics_core.facts.pictures import VideoMeasurement
from metrics_core.frames.records import DecoderFailed, FrameReadError


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
