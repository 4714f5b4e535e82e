"""The sources of keywords that a chat model extracts, and of the vectors of these keywords. Rules need no source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar

from sqlalchemy.engine import Engine

from assets.models.chat import ChatSettings
from assets.sources.base import Batch, Forecast, Source
from assets.sources.texts import TextVectors
from db.evidence.keywords import load_keywords, store_keywords
from db.evidence.store import Table
from db.schema.inputs import Input
from db.scores.pending import PendingSample
from metrics_core.models.chat.protocol import ChatModel
from metrics_core.models.chat_keywords import ChatKeywordExtractor, KeywordExtraction
from metrics_core.models.errors import ModelUnusable
from metrics_core.models.server.spending import compute_call_usage
from metrics_core.models.server.tokens import estimate_text_tokens
from metrics_core.protocols import ModelIdentity, TextEncoder

# Texts whose keywords a model extracts between two writes. Table chat_reply keeps replies that a crash kept out of
# table keyword_set.
TEXTS_AT_A_TIME = 256
# Rules of thumb for what extraction will cost.
PROMPT_TOKENS, ANSWER_TOKENS = 250, 60
Extractions = Mapping[str, KeywordExtraction]
FindExtraction = Callable[[str], KeywordExtraction]


def _load_extractions(engine: Engine, model_id: int, texts: Collection[str]) -> Extractions:
    return {
        text: KeywordExtraction(tuple(row["keywords"]), row["status"], row["reason"])
        for text, row in load_keywords(engine, model_id, texts).items()
    }


def _store_extractions(engine: Engine, model_id: int, run_id: str, extractions: Extractions) -> None:
    store_keywords(engine, model_id, run_id, {text: asdict(one) for text, one in extractions.items()})


# The extractions of a chat model, by text.
KEYWORDS: Table[str, KeywordExtraction] = Table(_load_extractions, _store_extractions)


class ExtractedKeywords(Source[Extractions]):
    """The source of keywords that a chat model extracts from texts of samples, by text, every distinct text once.
    texts: returns the texts of a sample whose keywords are needed. inputs: the inputs that `texts` reads. It has no
    asset of its own: the asset of text vectors makes the keywords first, since they are texts to be embedded.

    So Dagster's graph is the same as with keywords by rules.
    """

    asset: ClassVar[str] = TextVectors.asset
    description: ClassVar[str] = TextVectors.description
    group: ClassVar[str] = TextVectors.group
    reads: ClassVar[tuple[str, ...]] = TextVectors.reads

    table: ClassVar[Table[Any, Any]] = KEYWORDS
    noun: ClassVar[str] = "text"
    product: ClassVar[str] = "keywords"
    model_role: ClassVar[str] = "extractor"
    progress: ClassVar[str] = "keywords of {done} of {total} texts extracted"
    wanted: ClassVar[str] = "texts_wanted"
    prefix: ClassVar[str] = "keyword_"

    def __init__(
        self,
        extractor: ChatKeywordExtractor,
        settings: ChatSettings,
        texts: Callable[[PendingSample], Iterable[str]],
        inputs: Collection[Input[Any]],
    ) -> None:
        self.inputs = inputs
        self._extractor = extractor
        self._settings = settings
        self._texts = texts

    @property
    def model(self) -> ModelIdentity:
        """The identity of the chat model together with the version of the prompt."""
        return self._extractor.identity

    @property
    def chat_models(self) -> Collection[ChatModel]:
        """The chat model that extracts the keywords."""
        return (self._extractor.chat_model,)

    def keys(self, batch: Batch) -> Iterator[str]:
        """Yield the texts of the samples whose keywords are needed; repeated ones come again."""
        for sample in batch.samples:
            yield from self._texts(sample)

    def compute(self, keys: Sequence[str], batch: Batch) -> Iterator[Extractions]:
        """Ask for the keywords of these texts, and yield the extractions, 256 at a time. A failed one has a reason and
        raises nothing.
        """
        extractor = ChatKeywordExtractor(batch.prepare_chat(self._extractor.chat_model, self._settings))
        for start in range(0, len(keys), TEXTS_AT_A_TIME):
            asked = keys[start : start + TEXTS_AT_A_TIME]
            yield dict(zip(asked, extractor.extract_all(asked), strict=True))

    def is_final(self, value: KeywordExtraction) -> bool:
        """Whether an extraction stays, since it did not fail."""
        return value.status != "failed"

    def estimate(self, keys: Sequence[str]) -> Sequence[Forecast]:
        """Estimate one request for every text that is not empty; [] if there is none."""
        asked = [text for text in keys if text.strip()]
        tokens_in = sum(estimate_text_tokens(text) + PROMPT_TOKENS for text in asked)
        tokens_out, name = len(asked) * ANSWER_TOKENS, self._extractor.chat_model.identity.model_id
        money = compute_call_usage(tokens_in, tokens_out, self._settings.find_prices(name)).money
        return [Forecast("keywords", name, len(asked), tokens_in, tokens_out, money)] if asked else []

    def count(self, values: Extractions) -> Mapping[str, int]:
        """Return the number of texts with extracted keywords, and of extractions that failed or were refused."""
        statuses = Counter(extraction.status for extraction in values.values())
        return {
            "texts_asked": len(values),
            "texts_failed": statuses["failed"],
            "texts_refused": statuses["refused"],
        }

    def explain_failure(self, value: KeywordExtraction) -> str | None:
        """Return the reason why a text has no keywords; None if the extraction succeeded."""
        return None if value.status == "ok" else value.reason

    def try_out(self) -> str:
        """Ask the chat model for the keywords of one sentence, and return them as a line of text. Raises ModelUnusable
        if the model fails or declines.
        """
        (extraction,) = self._extractor.extract_all(["A red dog runs over the lawn."])
        if extraction.status != "ok":
            raise ModelUnusable(f"{self.model.model_id} extracted no keywords: {extraction.reason}")
        return f"extracts {', '.join(extraction.keywords) or 'nothing'} from one sentence"


class KeywordVectors(TextVectors):
    """The source of vectors of texts and of the keywords that a chat model extracted from them. keywords: the source of
    these keywords. texts: returns the texts of a sample that need a vector, given a function that returns a text's
    extraction. inputs: the inputs that `texts` reads.
    """

    def __init__(
        self,
        encoder: TextEncoder,
        keywords: ExtractedKeywords,
        texts: Callable[[PendingSample, FindExtraction], Iterable[str]],
        inputs: Collection[Input[Any]],
    ) -> None:
        super().__init__(encoder, lambda _: (), inputs)
        self.sources = (keywords,)
        self._keywords = keywords
        self._texts_with = texts

    def keys(self, batch: Batch) -> Iterator[str]:
        """Yield the texts of the samples that must have a vector, keywords among them; repeated ones come again."""
        for sample in batch.samples:
            yield from self._texts_with(sample, batch.below[self._keywords].__getitem__)
