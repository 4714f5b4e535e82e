"""Simple scores, which a metric has to beat: what captions share with their references. No metric is among them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel
from sqlalchemy.engine import Connection

from assets.models.settings import TextEncoderSettings
from assets.scores.base import Explanation, Outcome
from assets.sources.base import Evidence, Source
from assets.sources.texts import EmbeddedTexts, WholeTextCosines
from db.evidence.embeddings import NearestReference
from db.schema.inputs import REFERENCES, TEXT, Input
from db.scores.pending import PendingSample
from metrics_core.agreement.simple_scores import find_best_reference
from metrics_core.models.word_tokenizer import split_words
from metrics_core.protocols import TextEncoder

NO_REFERENCE = Outcome(None, "no_reference", "the video has no reference to compare with")


class NoSettings(BaseModel):
    """No settings."""


class WordsInCommonScorer:
    """The words that a text shares with a reference of its video: F1 of the different words. The best one counts."""

    metric: ClassVar[str] = "words_in_common"
    code_version: ClassVar[str] = "1"
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    inputs: ClassVar[Collection[Input[Any]]] = (TEXT, REFERENCES)
    rests_on: ClassVar[tuple[type[Source[Any]], ...]] = ()
    settings: ClassVar[type[BaseModel]] = NoSettings
    sources: tuple[Source[Any], ...] = ()

    @classmethod
    def from_settings(cls, settings: Any) -> WordsInCommonScorer:
        """Make the scorer, which has no settings."""
        return cls()

    def models(self) -> dict[str, Any]:
        """No models."""
        return {}

    def params(self) -> dict[str, Any]:
        """How several references count."""
        return {"references": "maximum"}

    def score(self, samples: Sequence[PendingSample], evidence: Evidence) -> list[Outcome]:
        """Compare each text with the references of its video."""
        return [_score_words_in_common(sample) for sample in samples]

    def explain(
        self, connection: Connection, sample: PendingSample, evidence: Evidence, components: Mapping[str, Any]
    ) -> Explanation:
        """Name the reference that shares most words, and these words."""
        best = next(reference for reference in sample[REFERENCES] if reference.key == components["reference"])
        own, others = set(split_words(sample.text)), set(split_words(best.text))
        lines = [
            _format_reference(best.key, best.text, len(sample[REFERENCES])),
            f"of {len(own)} different words of the caption and {len(others)} of the reference {len(own & others)} "
            f"are in both: {', '.join(sorted(own & others)) or 'none'}",
        ]
        return Explanation(lines, reference=best.key)


def _score_words_in_common(sample: PendingSample) -> Outcome:
    references = sample[REFERENCES]
    best = find_best_reference(sample.text, [reference.text for reference in references])
    if best is None:
        return NO_REFERENCE
    return Outcome(best.value, components={"reference": references[best.position].key})


class CosineScorer:
    """The cosine of a caption's whole text with a reference of its video, by the text encoder. The nearest counts."""

    metric: ClassVar[str] = "cosine"
    code_version: ClassVar[str] = "1"
    value_range: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    inputs: ClassVar[Collection[Input[Any]]] = (TEXT, REFERENCES)
    rests_on: ClassVar[tuple[type[Source[Any]], ...]] = (EmbeddedTexts,)
    settings: ClassVar[type[BaseModel]] = TextEncoderSettings

    def __init__(self, text_encoder: TextEncoder) -> None:
        self.cosines = WholeTextCosines(text_encoder, _list_texts, self.inputs)
        self.sources: tuple[Source[Any], ...] = (self.cosines,)

    @classmethod
    def from_settings(cls, settings: TextEncoderSettings) -> CosineScorer:
        """Make the scorer with the text encoder that the settings name."""
        return cls(settings.make_text_encoder())

    def models(self) -> dict[str, Any]:
        """Return the identity of the text encoder."""
        return {"text_encoder": self.cosines.model.as_dict()}

    def params(self) -> dict[str, Any]:
        """How several references count."""
        return {"references": "maximum"}

    def score(self, samples: Sequence[PendingSample], evidence: Evidence) -> list[Outcome]:
        """Give each caption its cosine."""
        found = evidence[self.cosines]
        return [self.refusal(sample) or _build_cosine_outcome(found[sample.sample_id]) for sample in samples]

    def refusal(self, sample: PendingSample) -> Outcome | None:
        """The outcome of a sample that has nothing to compare; else None."""
        if sample.kind != "caption":
            return Outcome(None, "not_applicable", "captions are compared; this is a question-answer pair")
        if not sample[REFERENCES]:
            return NO_REFERENCE
        return None if sample.text else Outcome(None, "empty_text", "the caption is empty")

    def explain(
        self, connection: Connection, sample: PendingSample, evidence: Evidence, components: Mapping[str, Any]
    ) -> Explanation:
        """Name the nearest reference."""
        best = next(reference for reference in sample[REFERENCES] if reference.key == components["reference"])
        return Explanation([_format_reference(best.key, best.text, len(sample[REFERENCES]))], reference=best.key)


def _list_texts(sample: PendingSample) -> Iterator[str]:
    """Yield the texts that need a vector: the caption and its references, where there are both."""
    if sample.kind == "caption" and sample.text and sample[REFERENCES]:
        yield sample.text
        yield from (reference.text for reference in sample[REFERENCES])


def _build_cosine_outcome(found: NearestReference) -> Outcome:
    components = {"reference": found.reference}
    if found.cosine is None:
        return Outcome(None, "no_direction", "a vector of the caption or of a reference has no direction", components)
    return Outcome(found.cosine, components=components)


def _format_reference(key: str, text: str, n: int) -> str:
    """`reference r1, the best of 3: A dog runs.`"""
    of = f", the best of {n}" if n > 1 else ""
    return f"reference {key}{of}: {text}"
