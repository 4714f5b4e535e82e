"""How a chat model is shown what questions are asked about: frames, notes or a summary."""

from __future__ import annotations

from metrics_core.models.chat.protocol import ImagePart, Part, TextPart
from metrics_core.qeva.records import Context, VideoFrames, VideoNotes
from metrics_core.qeva.score import is_empty_summary


def parts_of(context: Context) -> tuple[Part, ...]:
    """The parts of a message that show a context; none for a closed book. Each frame follows its number and time."""
    if context is None:
        return ()
    if isinstance(context, VideoFrames):
        return frame_parts(context)
    if isinstance(context, VideoNotes):
        events = "\n".join(f"{number}. {event}" for number, event in enumerate(context.events, 1))
        facts = "\n".join(f"- {fact}" for fact in context.facts)
        return (TextPart(f"Notes on the video. Events, in order of time:\n{events}\nFacts, in any order:\n{facts}"),)
    return (TextPart(f"A summary of the video:\n<summary>\n{context}\n</summary>"),)


def frame_parts(video: VideoFrames) -> tuple[Part, ...]:
    """The frames of a video, in order of time, each after a text with its number from 1 and its time in seconds."""
    n = len(video.frames)
    parts: list[Part] = [TextPart("Frames of the video, in order of time:")]
    for number, frame in enumerate(video.frames, 1):
        parts += [TextPart(f"Frame {number} of {n}, at {frame.time_s:.1f} s:"), ImagePart(frame.jpeg, video.recipe)]
    return tuple(parts)


def is_blank(context: Context) -> bool:
    """Whether a context shows nothing: no frame, no note, or an empty summary. A closed book is not blank."""
    if isinstance(context, VideoFrames):
        return not context.frames
    if isinstance(context, VideoNotes):
        return not context.events and not context.facts
    return context is not None and is_empty_summary(context)
