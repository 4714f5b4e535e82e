"""The metrics on plain values: texts and a video file in, an Outcome out, without a database.

They are the scorers of `reelsieve score`, so that they give the numbers that it stores. Models and parameters are named
arguments, with the names of docs/settings.md in small letters and without REELSIEVE_; the environment does not count.
Without any, models are used that need no download. A model loads at the first call and stays.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from reelsieve.errors import ReelsieveError, plainly

if TYPE_CHECKING:
    from assets.scores.base import Outcome, Scorer
    from db.evidence.frames import PendingVideo

# A text, or its fields as in a manifest: "text", and perhaps "segments" with start_s, end_s and text.
Caption = str | Mapping[str, Any]
# A text, or its fields as in a manifest: "text", and perhaps "dimension" and "segment_index".
Keypoint = str | Mapping[str, Any]
# Keypoints that name no dimension are of this one.
ANY_DIMENSION = "any"


@plainly
def vcs(references: Caption | Sequence[Caption], caption: Caption, **settings: Any) -> Outcome:
    """VCS of a caption: the best over the references, chunk by chunk; see docs/metrics/vcs.md.

    Raises ReelsieveError for arguments that cannot be used. What a caption itself prevents is a status.

    >>> import reelsieve as rs
    >>> story = "A man opens a red door. A small dog runs outside. The man closes the door."
    >>> round(rs.vcs(story, "A man opens a door. A dog runs out. The door is closed.").value, 2)
    0.77
    >>> rs.vcs([], "A man opens a door.").status
    'no_reference'
    """
    return _outcome("vcs", settings, caption, references=references)


@plainly
def vcs_short(references: Caption | Sequence[Caption], caption: Caption, **settings: Any) -> Outcome:
    """VCS of a short caption, word by word; see docs/metrics/vcs.md. Arguments and errors are those of `vcs`.

    >>> import reelsieve as rs
    >>> rs.vcs_short("A man opens a red door slowly.", "A man opens a red door slowly.").value
    1.0
    """
    return _outcome("vcs_short", settings, caption, references=references)


@plainly
def evqa(video: str | os.PathLike[str], caption: Caption, **settings: Any) -> Outcome:
    """EVQAScore of a caption against the frames of a video: a file, or an address as in a manifest.

    Name a real encoder by `image_text_encoder` and `image_text_checkpoint`: the one that comes along knows the clips of
    the demo alone, so that without them the status is "no_model". See docs/metrics/evqa.md.

    >>> import reelsieve as rs
    >>> rs.evqa("gone.mp4", "A dog runs.")
    Traceback (most recent call last):
    ...
    reelsieve.ReelsieveError: video: there is no file 'gone.mp4': give the path of one, or an address
    """
    return _outcome("evqa", settings, caption, video=video)


@plainly
def ecs(
    keypoints: Keypoint | Sequence[Keypoint],
    caption: Caption,
    references: Caption | Sequence[Caption] = (),
    **settings: Any,
) -> Outcome:
    """ECS: the share of the keypoints that a caption entails; see docs/metrics/ecs.md.

    references: of which the times matter alone. Where caption, keypoints and a reference have them, the value is
    SodaM's F1.

    >>> import reelsieve as rs
    >>> outcome = rs.ecs(["A dog runs.", "It rains."], "A small dog runs over the lawn.")
    >>> outcome.value, outcome.components["covered"]
    (0.5, {'any': 1})
    """
    return _outcome("ecs", settings, caption, keypoints=keypoints, references=references)


@plainly
def qeva(
    references: Caption | Sequence[Caption],
    caption: Caption,
    keypoints: Keypoint | Sequence[Keypoint] = (),
    video: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> Outcome:
    """QEVA: coverage, factuality and chronology of a caption by questions and answers; see docs/metrics/qeva.md.

    References and keypoints stand for the video, unless `qeva_video_model` names a model, which looks at `video`.

    >>> import reelsieve as rs
    >>> rs.qeva([], "A man opens a door. A dog runs out.").status
    'no_reference'
    """
    return _outcome("qeva", settings, caption, references=references, keypoints=keypoints, video=video)


def _outcome(
    metric: str,
    settings: Mapping[str, Any],
    caption: Caption,
    references: Caption | Sequence[Caption] = (),
    keypoints: Keypoint | Sequence[Keypoint] = (),
    video: str | os.PathLike[str] | None = None,
) -> Outcome:
    from assets.scores.run import score_now
    from db.schema.inputs import KEYPOINTS, REFERENCES, SEGMENTS, THRESHOLDS, VIDEO
    from db.scores.work import PendingSample

    scorer = _scorer(metric, json.dumps(settings, sort_keys=True, default=str))
    described = _text("caption", caption)
    told = [_text(f"reference {n}", one, role="reference") for n, one in _each("references", references)]
    state, files = _video(video)
    inputs = {
        REFERENCES: [{"key": str(n), "text": one["text"]} for n, one in enumerate(told, 1)],
        SEGMENTS: {
            "caption": described.get("segments"),
            "references": [one.get("segments") for one in told],
            "parse_error": described.get("parse_error"),
        },
        KEYPOINTS: [_keypoint(n, one) for n, one in _each("keypoints", keypoints)],
        VIDEO: state,
        THRESHOLDS: {},
    }
    sample = PendingSample(
        sample_id=1,
        dataset="",
        key="caption",
        kind="caption",
        system="",
        text=described["text"],
        question=None,
        answer=None,
        video_id=1,
        inputs={one.name: one.decode(value) for one, value in inputs.items()},
    )
    return score_now(scorer, sample, lambda _: files)


@lru_cache(maxsize=16)
def _scorer(metric: str, settings: str) -> Scorer:
    """The scorer with these settings as JSON. Its models are shared with other scorers of this process."""
    from pydantic import ValidationError

    from assets.scores.registry import SCORERS
    from db.spelling import did_you_mean

    scorer, chosen = SCORERS[metric], json.loads(settings)
    known = scorer.settings.model_fields
    if unknown := [name for name in chosen if name not in known]:
        meant = did_you_mean(unknown[0], known)
        hint = f"did you mean {meant}?" if meant else f"it has {', '.join(known)}"
        raise ReelsieveError(f"{metric} has no setting {unknown[0]!r}: {hint}")
    try:
        return scorer.from_settings(scorer.settings(**chosen))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        why = first["msg"].removeprefix("Value error, ")
        raise ReelsieveError(f"{first['loc'][0]}: {why[0].lower()}{why[1:]}") from None


def _each(name: str, given: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]) -> list[tuple[int, Any]]:
    """The values of a sequence with their numbers from 1; a single value counts as a sequence of one."""
    if isinstance(given, str | Mapping):
        return [(1, given)]
    try:
        return list(enumerate(given, 1))
    except TypeError:
        raise ReelsieveError(f"{name}: {given!r} is no text: give a text, or a list of texts") from None


def _text(name: str, given: Caption, role: str = "candidate") -> dict[str, Any]:
    """The fields of a caption, checked as ingest checks them. An empty caption is none's fault: it has a status."""
    from assets.ingest.hygiene import is_blank

    if isinstance(given, str) and role == "candidate" and is_blank(given):
        return {"text": given}
    fields = {"text": given} if not isinstance(given, Mapping) else dict(given)
    row = _valid(name, "caption", {"caption_id": "1", "video_id": "1", "role": role, "system": "1", **fields})
    return dict(row.content)


def _keypoint(number: int, given: Keypoint) -> dict[str, Any]:
    fields = {"text": given} if not isinstance(given, Mapping) else dict(given)
    fields = {"dimension": ANY_DIMENSION, "keypoint_id": str(number), "video_id": "1", **fields}
    row = _valid(f"keypoint {number}", "keypoint", fields)
    place = {"keypoint_id": number, "key": row.keypoint_id, "segment_index": row.segment_index}
    return {**place, "dimension": row.dimension, "text": row.text}


def _valid(name: str, kind: str, fields: dict[str, Any]) -> Any:
    from assets.ingest.checking import validate
    from assets.ingest.rejects import Reject
    from assets.ingest.rows import RawRow

    found = validate(RawRow(name, 1, kind, fields, None, ""), [fields.get("dimension", "")])
    if isinstance(found, Reject):
        raise ReelsieveError(f"{name}: {found.reason}")
    return found


def _video(given: str | os.PathLike[str] | None) -> tuple[dict[str, Any], list[PendingVideo]]:
    """The state of a video as input VIDEO has it, and its file where it decodes."""
    from dataclasses import fields
    from pathlib import Path

    from assets.ingest.rejects import Reject
    from assets.ingest.resolve import media_columns
    from assets.ingest.rows import VideoRow
    from assets.media.address import is_address
    from db.evidence.frames import PendingVideo

    if given is None:
        return {"status": "text_only", "error": None}, []
    if not isinstance(given, str | os.PathLike):
        raise ReelsieveError(f"video: {given!r} is no path: give the path of a file, or an address")
    if is_address(str(given)):
        folder, path = Path.cwd(), str(given)
    else:
        place = Path(given).expanduser().resolve()
        if not place.is_file():
            raise ReelsieveError(f"video: there is no file {str(given)!r}: give the path of one, or an address")
        folder, path = place.parent, place.name
    found = media_columns(folder, VideoRow(video_id="1", path=path), None)
    if isinstance(found, Reject):
        raise ReelsieveError(f"video: {found.reason}")
    state = {"status": found["status"], "error": found["error"]}
    if found["status"] not in ("ok", "damaged"):
        return state, []
    known = {"video_id": 1, "key": str(given), **found}
    return state, [PendingVideo(**{field.name: cast(Any, known[field.name]) for field in fields(PendingVideo)})]
