"""Turns plain values of a caller into what scorers read: samples, the state of videos, and scorers with settings."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from reelsieve.errors import ReelsieveError

if TYPE_CHECKING:
    from assets.scores.base import Outcome, Scorer
    from db.evidence.frames import LoadVideos, StoredVideo
    from db.schema.inputs import VideoState
    from db.scores.pending import PendingSample

# A text, or its fields as in a manifest: "text", and perhaps "segments" with start_s, end_s and text.
Caption = str | Mapping[str, Any]
# A text, or its fields as in a manifest: "text", and perhaps "dimension" and "segment_index".
Keypoint = str | Mapping[str, Any]
# Keypoints that name no dimension are of this one.
ANY_DIMENSION = "any"


def build_sample(
    caption: Caption,
    references: Caption | Sequence[Caption],
    keypoints: Keypoint | Sequence[Keypoint],
    state: VideoState,
    *,
    number: int = 1,
    video: int = 1,
    system: str = "",
) -> PendingSample:
    """Return a caption with its references and keypoints as a sample that scorers take. number: the sample's id. state:
    that of its video, whose id is `video`. Raises ReelsieveError where ingest would refuse a text or field; an empty
    caption passes.
    """
    from assets.planning.unstored_samples import build_unstored_inputs
    from db.scores.pending import PendingSample

    described = _text("caption", caption)
    reference_fields = [
        {**_text(f"reference {n}", reference, role="reference"), "caption_id": str(n)}
        for n, reference in _number_values("references", references)
    ]
    points = [_keypoint(n, reference) for n, reference in _number_values("keypoints", keypoints)]
    inputs = build_unstored_inputs(described, reference_fields, points, state)
    text = described["text"]
    return PendingSample(number, "", str(number), "caption", system, text, None, None, video, inputs=inputs)


def make_scorer(metric: str, settings: Mapping[str, Any]) -> Scorer:
    """Return the scorer of a metric with these settings by name. The last 16 scorers are kept and returned again for
    equal settings; models are shared within this process. Raises ReelsieveError for an unknown or bad setting, and
    KeyError for an unknown metric.
    """
    return _make_scorer(metric, json.dumps(settings, sort_keys=True, default=str))


@lru_cache(maxsize=16)
def _make_scorer(metric: str, settings: str) -> Scorer:
    from pydantic import ValidationError

    from assets.home.settings import format_variable_name, nest_settings, parse_first_fault
    from assets.metrics.registry import SCORERS
    from db.spelling import suggest_name

    scorer, chosen = SCORERS[metric], json.loads(settings)
    known = list_keywords(scorer)
    if unknown := [name for name in chosen if name not in known]:
        raise ReelsieveError(f"{metric} has no setting {unknown[0]!r}{suggest_name(unknown[0], known)}")
    try:
        values = nest_settings(scorer.settings, {known[name]: value for name, value in chosen.items()})
        return scorer.from_settings(scorer.settings(**values))
    except ValidationError as error:
        setting, why = parse_first_fault(scorer.settings, error)
        raise ReelsieveError(replace_variables_by_keywords(f"{format_variable_name(setting)}: {why}")) from None


def list_keywords(scorer: type[Scorer]) -> dict[str, str]:
    """Return the names of a scorer's settings by the keywords of Python that set them."""
    from assets.home.settings import PREFIX, format_variable_name, list_settings

    return {format_variable_name(name).removeprefix(PREFIX).lower(): name for name in list_settings(scorer.settings)}


def score_samples(scorer: Scorer, samples: Sequence[PendingSample], files: LoadVideos) -> list[Outcome]:
    """Return one outcome for every sample, in order. Reasons name settings as keywords of Python."""
    from dataclasses import replace

    from assets.scores.run import score_without_database

    outcomes = score_without_database(scorer, samples, files)
    return [replace(each, reason=each.reason and replace_variables_by_keywords(each.reason)) for each in outcomes]


def replace_variables_by_keywords(text: str) -> str:
    """Return the text with every variable of a metric's setting replaced by the keyword argument that sets it in
    Python: `REELSIEVE_VCS_SHORT_TEXT=true` becomes `vcs_short_text=True`. Other variables stay.

    >>> replace_variables_by_keywords("set REELSIEVE_VCS_SHORT_TEXT=true, or REELSIEVE_HOME")
    'set vcs_short_text=True, or REELSIEVE_HOME'
    """
    from assets.metrics.registry import SCORERS

    known = {name for scorer in SCORERS.values() for name in list_keywords(scorer)}

    def name(match: re.Match[str]) -> str:
        keyword, value = match[1].lower(), match[2] or ""
        return f"{keyword}{value.replace('true', 'True').replace('false', 'False')}" if keyword in known else match[0]

    return re.sub(r"REELSIEVE_([A-Z0-9_]+)(=\w+)?", name, text)


def _number_values(
    name: str, given: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]
) -> list[tuple[int, Any]]:
    """Return the values of a sequence with their numbers from 1; a single value counts as a sequence of one."""
    if isinstance(given, str | Mapping):
        return [(1, given)]
    try:
        return list(enumerate(given, 1))
    except TypeError:
        raise ReelsieveError(f"{name}: {given!r} is not a text: give a text, or a list of texts") from None


def _text(name: str, given: Caption, role: str = "candidate") -> dict[str, Any]:
    """Return the fields of a caption, checked as ingest checks them. An empty caption passes: it gets a status."""
    from assets.ingest.hygiene import is_blank_text

    if isinstance(given, str) and role == "candidate" and is_blank_text(given):
        return {"text": given}
    fields = {"text": given} if not isinstance(given, Mapping) else dict(given)
    row = _validate(name, "caption", {"caption_id": "1", "video_id": "1", "role": role, "system": "1", **fields})
    return dict(row.content)


def _keypoint(number: int, given: Keypoint) -> dict[str, Any]:
    fields = {"text": given} if not isinstance(given, Mapping) else dict(given)
    fields = {"dimension": ANY_DIMENSION, "keypoint_id": str(number), "video_id": "1", **fields}
    return dict(_validate(f"keypoint {number}", "keypoint", fields).content)


def _validate(name: str, kind: str, fields: dict[str, Any]) -> Any:
    from assets.ingest.rejects import Reject
    from assets.ingest.rows import RawRow
    from assets.ingest.validate import validate_row

    row = validate_row(RawRow(name, 1, kind, fields, None, ""), [fields.get("dimension", "")])
    if isinstance(row, Reject):
        raise ReelsieveError(f"{name}: {row.reason}")
    return row


def read_video(given: str | os.PathLike[str] | None, number: int = 1) -> tuple[VideoState, list[StoredVideo]]:
    """Return (state of a video, list with its file). The list is empty if the file does not decode, and for `given`
    None, where the state is "text_only". given: a path or an address, which is fetched. number: the video's id. Raises
    ReelsieveError if there is no such file.
    """
    from pathlib import Path

    from assets.ingest.rejects import Reject
    from assets.ingest.rows import VideoRow
    from assets.media.address import is_address
    from assets.planning.unstored_samples import inspect_unstored_video
    from db.schema.inputs import VideoState

    if given is None:
        return VideoState("text_only"), []
    if not isinstance(given, str | os.PathLike):
        raise ReelsieveError(f"video: {given!r} is not a path: give the path of a file, or an address")
    if is_address(str(given)):
        folder, path = Path.cwd(), str(given)
    else:
        place = Path(given).expanduser().resolve()
        if not place.is_file():
            raise ReelsieveError(f"video: there is no file {str(given)!r}: give the path of one, or an address")
        folder, path = place.parent, place.name
    inspected = inspect_unstored_video(folder, VideoRow(video_id="1", path=path), number)
    if isinstance(inspected, Reject):
        raise ReelsieveError(f"video: {inspected.reason}")
    return inspected
