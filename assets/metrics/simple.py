"""Simple scores, the baselines that a metric has to beat: words in common with a reference, and the cosine to one."""

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
    """The settings of a scorer that has none."""


class WordsInCommonScorer:
    """Scores a text by the words it has in common with a reference: F1 of their distinct words, for the best reference.
    A text whose video has no reference has status no_reference.
    """

    metric: ClassVar[str] = "words_in_common"
    code_version: ClassVar[str] = "1"
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    inputs: ClassVar[Collection[Input[Any]]] = (TEXT, REFERENCES)
    rests_on: ClassVar[tuple[type[Source[Any]], ...]] = ()
    settings: ClassVar[type[BaseModel]] = NoSettings
    sources: tuple[Source[Any], ...] = ()

    @classmethod
    def from_settings(cls, settings: Any) -> WordsInCommonScorer:
        """Make the scorer. `settings` is not used, as this scorer has none."""
        return cls()

    def models(self) -> dict[str, Any]:
        """Return {}, as the score needs no model."""
        return {}

    def params(self) -> dict[str, Any]:
        """Return {"references": "maximum"}: of several references the best one counts."""
        return {"references": "maximum"}

    def score(self, samples: Sequence[PendingSample], evidence: Evidence) -> list[Outcome]:
        """Return one outcome for every sample, in order: the highest F1 of its text with a reference of its video. The
        component "reference" is the key of that reference. Status no_reference without a reference; `evidence` is not
        used.
        """
        return [_score_words_in_common(sample) for sample in samples]

    def explain(
        self, connection: Connection, sample: PendingSample, evidence: Evidence, components: Mapping[str, Any]
    ) -> Explanation:
        """Return two lines and no row: the best reference, and the words that it has in common with the sample's text.
        components: those stored with the score, where "reference" is the best reference's key. `connection` and
        `evidence` are not used.
        """
        best = next(reference for reference in sample[REFERENCES] if reference.key == components["reference"])
        words, reference_words = set(split_words(sample.text)), set(split_words(best.text))
        shared = words & reference_words
        lines = [
            _format_reference(best.key, best.text, len(sample[REFERENCES])),
            f"of {len(words)} different words of the caption and {len(reference_words)} of the reference "
            f"{len(shared)} {'is' if len(shared) == 1 else 'are'} in both: {', '.join(sorted(shared)) or 'none'}",
        ]
        return Explanation(lines, reference=best.key)


def _score_words_in_common(sample: PendingSample) -> Outcome:
    references = sample[REFERENCES]
    best = find_best_reference(sample.text, [reference.text for reference in references])
    if best is None:
        return NO_REFERENCE
    return Outcome(best.value, components={"reference": references[best.position].key})


class CosineScorer:
    """Scores a caption by the cosine of its whole text's vector with that of a reference, for the nearest reference.
    The vectors are a text encoder's. A question-answer pair, a caption without a reference, an empty caption and a
    vector without a direction give a status.
    """

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
        """Make the scorer with the text encoder of the settings, which loads when it is first used."""
        return cls(settings.make_text_encoder())

    def models(self) -> dict[str, Any]:
        """Return {"text_encoder": identity of the text encoder, as a dict}."""
        return {"text_encoder": self.cosines.model.as_dict()}

    def params(self) -> dict[str, Any]:
        """Return {"references": "maximum"}: of several references the best one counts."""
        return {"references": "maximum"}

    def score(self, samples: Sequence[PendingSample], evidence: Evidence) -> list[Outcome]:
        """Return one outcome for every sample, in order: the cosine of its caption with the nearest reference of its
        video. The component "reference" is the key of that reference. A sample without a cosine gets a status and a
        reason.
        """
        cosines = evidence[self.cosines]
        return [self.refusal(sample) or _build_cosine_outcome(cosines[sample.sample_id]) for sample in samples]

    def refusal(self, sample: PendingSample) -> Outcome | None:
        """Return the outcome, with status and reason, of a sample that has no value whatever its vectors are; else
        None. Such samples are question-answer pairs, captions without a reference and empty captions.
        """
        if sample.kind != "caption":
            return Outcome(
                None, "not_applicable", "the cosine compares captions with references; this is a question-answer pair"
            )
        if not sample[REFERENCES]:
            return NO_REFERENCE
        return None if sample.text else Outcome(None, "empty_text", "the caption is empty")

    def explain(
        self, connection: Connection, sample: PendingSample, evidence: Evidence, components: Mapping[str, Any]
    ) -> Explanation:
        """Return one line and no row: the nearest reference's key and text, and how many references there are.
        components: those stored with the score, where "reference" is that key. `connection` and `evidence` are not
        used.
        """
        best = next(reference for reference in sample[REFERENCES] if reference.key == components["reference"])
        return Explanation([_format_reference(best.key, best.text, len(sample[REFERENCES]))], reference=best.key)


def _list_texts(sample: PendingSample) -> Iterator[str]:
    """Yield the texts that need a vector: the caption and its references, where there are both."""
    if sample.kind == "caption" and sample.text and sample[REFERENCES]:
        yield sample.text
        yield from (reference.text for reference in sample[REFERENCES])


def _build_cosine_outcome(nearest: NearestReference) -> Outcome:
    components = {"reference": nearest.reference}
    if nearest.cosine is None:
        return Outcome(
            None,
            "no_direction",
            "the vector of the caption or of a reference is zero, so there is no cosine",
            components,
        )
    return Outcome(nearest.cosine, components=components)


def _format_reference(key: str, text: str, n: int) -> str:
    """Return a line such as "reference r1, the best of 3: A dog runs."."""
    rank = f", the best of {n}" if n > 1 else ""
    return f"reference {key}{rank}: {text}"
