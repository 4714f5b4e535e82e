"""What a language model judged for a caption of OmniDCBench, as one boolean per keypoint."""

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
    # Judges return all kinds of things; what is no keypoint's text is counted.
    correct_keypoints: list[Any]


class _Judgement(BaseModel):
    clip_path: str
    by_dim: dict[str, _Answer]


def read_judgements(source: Path) -> dict[str, list[tuple[str, object]]]:
    """By clip path the keypoints that the judge found covered, each with its dimension in the manifest's name.

    The judge's own counts are not read: they may contradict its lists. Raises ManifestError, naming file, line and
    field, for a line of another form, and for a clip that comes twice.
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
    """Whether each keypoint was returned, and how many returned texts are no keypoint's.

    Texts are compared without regard to case, white space, forms of Unicode and punctuation at the end. Each returned
    text covers one keypoint, the first that has it: two equal keypoints take two.

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
