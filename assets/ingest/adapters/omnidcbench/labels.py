"""Judgements of a language model on captions of OmniDCBench, as one boolean per keypoint."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from assets.ingest.adapters.omnidcbench.references import Keypoint
from assets.ingest.adapters.omnidcbench.segments import DIMENSIONS
from assets.ingest.adapters.tables import read_models
from assets.ingest.rejects import ManifestError

REMEDY = 'give one object per clip: {"clip_path": .., "by_dim": {dimension: {"correct_keypoints": a list of texts}}}'
_ENDS_OF_SENTENCES = " .,;:!?。、"


class _Answer(BaseModel):
    # Judges return values of all types. A value that is not the text of a keypoint is counted.
    correct_keypoints: list[Any]


class _Judgement(BaseModel):
    clip_path: str
    by_dim: dict[str, _Answer]


def read_judgements(source: Path) -> dict[str, list[tuple[str, object]]]:
    """The keypoints that the judge calls covered, by clip path, as pairs of dimension (manifest's name) and text.

    The judge's own counts may contradict its lists and are not read. Raises ManifestError, with file, line and field,
    for a line of another form, and for a clip that comes twice.
    """
    judgements: dict[str, list[tuple[str, object]]] = {}
    for judgement in read_models(source, _Judgement, REMEDY):
        if judgement.clip_path in judgements:
            raise ManifestError(f"{source.name}: clip {judgement.clip_path!r} is judged twice: keep one of the lines")
        judgements[judgement.clip_path] = [
            (DIMENSIONS.get(name.removesuffix("_en"), name), text)
            for name, answer in judgement.by_dim.items()
            for text in answer.correct_keypoints
        ]
    return judgements


def covered_keypoints(keypoints: Sequence[Keypoint], returned: Sequence[tuple[str, object]]) -> tuple[list[bool], int]:
    """Whether the judge returned each keypoint, in their order, and the number of returned texts without a keypoint.

    Case, white space, Unicode forms and punctuation at the end do not count when texts are compared. A returned text
    covers the first keypoint with this text that is not covered yet, so two equal keypoints need two returned texts.

    >>> points = [Keypoint(0, "acoustics", place, "Rain falls.") for place in (1, 2)]
    >>> covered_keypoints(points, [("acoustics", "rain  FALLS"), ("acoustics", "Thunder.")])
    ([True, False], 1)
    """
    waiting = Counter((dimension, _compared(text)) for dimension, text in returned)
    covered = []
    for keypoint in keypoints:
        key = keypoint.dimension, _compared(keypoint.text)
        covered.append(waiting[key] > 0)
        waiting[key] -= covered[-1]
    return covered, sum(waiting.values())


def _compared(text: object) -> str | None:
    if not isinstance(text, str):
        return None
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(_ENDS_OF_SENTENCES)
