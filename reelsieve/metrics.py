"""Everything that a metric of your own is made of: import it from here, and name the scorer in the entry-point group
`reelsieve.metrics`.

A scorer needs `Outcome`, `Explanation`, the inputs that its value depends on, and the sources of evidence it reads. A
metric that asks a model something new brings a `Source`, and one that depends on something new an `Input`.
docs/architecture.md says how they meet; tests/outside/letters.py is a whole metric.

>>> Outcome(None, "no_words", "the caption has no word").status
'no_words'
"""

from __future__ import annotations

from assets.scores.base import Explanation, NeedsSetting, Outcome, Refusing, Scorer
from assets.sources.base import Batch, Evidence, Examination, MissingEvidence, Order, Source
from assets.sources.frames import SampledFrames
from assets.sources.keywords import ExtractedKeywords
from assets.sources.texts import TextVectors
from assets.words.marked_text import Mark
from db.evidence.store import Table
from db.schema import sample
from db.schema.inputs import KEYPOINTS, REFERENCES, SEGMENTS, TEXT, VIDEO, Input
from db.scores.pending import PendingSample
from metrics_core.protocols import ModelIdentity

__all__ = [
    "KEYPOINTS",
    "REFERENCES",
    "SEGMENTS",
    "TEXT",
    "VIDEO",
    "Batch",
    "Evidence",
    "Examination",
    "Explanation",
    "ExtractedKeywords",
    "Input",
    "Mark",
    "MissingEvidence",
    "ModelIdentity",
    "NeedsSetting",
    "Order",
    "Outcome",
    "PendingSample",
    "Refusing",
    "SampledFrames",
    "Scorer",
    "Source",
    "Table",
    "TextVectors",
    "sample",
]
