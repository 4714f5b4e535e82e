"""The sources of keywords that a chat model extracts, and of the vectors of these keywords. Rules need no source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar

from sqlalchemy.engine import Engine

from assets.models.chat import ChatSettings, ChatTally, CountingChatModel
from assets.sources.base import Evidence, Forecast, Order, Source
from assets.sources.texts import TextVectors
from assets.words.text import format_portion
from db.evidence.frames import LoadVideos
from db.evidence.keywords import load_keywords, store_keywords
from db.evidence.models import register_model
from db.schema.inputs import Input
from db.scores.pending import PendingSample
from metrics_core.models.chat_keywords import ChatKeywordExtractor, KeywordExtraction
from metrics_core.models.errors import ModelUnusable
from metrics_core.models.server.spending import compute_call_usage
from metrics_core.models.server.tokens import estimate_text_tokens
from metrics_core.protocols import ModelIdentity, TextEncoder

# Texts asked about between two writes. Table chat_reply keeps replies that a crash kept out of table keyword_set.
TEXTS_AT_A_TIME = 256
# Rules of thumb for what extraction will cost.
PROMPT_TOKENS, ANSWER_TOKENS = 250, 60
Extractions = Mapping[str, KeywordExtraction]
FindExtraction = Callable[[str], KeywordExtraction]


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

    def make(self, order: Order, sample_ids: list[int]) -> Mapping[str, int | str]:
        """Ask for the keywords of every distinct text that has none stored or whose extraction failed, and store them.
        Returns counts of texts, chat requests and tokens, and the model's name, by name. A failed extraction is stored
        with its reason and raises nothing.
        """
        tally = ChatTally()
        chat = self._settings.add_cache(self._extractor.chat_model, order.engine, order.run_id)
        extractor = ChatKeywordExtractor(CountingChatModel(chat, tally))
        with order.engine.begin() as connection:
            model_id = register_model(connection, self.model.as_dict())
        texts = list(dict.fromkeys(self._list_wanted_texts(order, sample_ids)))
        stored = load_keywords(order.engine, model_id, texts)
        missing = [text for text in texts if text not in stored or stored[text]["status"] == "failed"]
        statuses: Counter[str] = Counter()
        why: list[str | None] = []
        for start in range(0, len(missing), TEXTS_AT_A_TIME):
            asked = missing[start : start + TEXTS_AT_A_TIME]
            extractions = extractor.extract_all(asked)
            rows = {text: asdict(extraction) for text, extraction in zip(asked, extractions, strict=True)}
            store_keywords(order.engine, model_id, order.run_id, rows)
            statuses.update(extraction.status for extraction in extractions)
            why += [extraction.reason for extraction in extractions if extraction.status != "ok"]
            order.tell(f"keywords of {start + len(asked)} of {len(missing)} texts extracted")
        if why:
            have = "text has" if len(why) == 1 else "texts have"
            order.tell(f"{len(why)} {have} no keywords; reason of the first: {why[0]}")
        counts = {
            "keyword_texts_wanted": len(texts),
            "keyword_texts_asked": len(missing),
            "keyword_texts_failed": statuses["failed"],
            "keyword_texts_refused": statuses["refused"],
        }
        chat_counts = {f"keyword_{name}": value for name, value in tally.as_metadata().items()}
        return {**counts, **chat_counts, "keyword_extractor": self.model.model_id}

    def load(self, engine: Engine, scorer_id: int, samples: Sequence[PendingSample]) -> Extractions:
        """Load the extracted keywords of the samples' texts, with status and reason, by text. Raises MissingEvidence if
        a text was never asked about. The scorer makes no difference.
        """
        return self.of_samples(engine, samples)

    def ask(self, samples: Sequence[PendingSample], files: LoadVideos, below: Evidence) -> Extractions:
        """Ask for the keywords of every distinct text of the samples now; return a KeywordExtraction by text, and store
        nothing in the database.
        """
        texts = list(dict.fromkeys(text for sample in samples for text in self._texts(sample)))
        return dict(zip(texts, self._extractor.extract_all(texts), strict=True))

    def of_samples(self, engine: Engine, samples: Sequence[PendingSample]) -> Extractions:
        """Load the extracted keywords of the samples' texts from the database, with status and reason, by text. Raises
        MissingEvidence if a text was never asked about.
        """
        texts = {text for sample in samples for text in self._texts(sample)}
        with engine.connect() as connection:
            model_id = self.model_id(connection)
        stored = {} if model_id is None else load_keywords(engine, model_id, texts)
        if len(stored) < len(texts):
            n_missing = len(texts) - len(stored)
            lack = f"no keywords of {self.model.model_id}"
            raise self.missing(format_portion(n_missing, len(texts), "text", f"has {lack}", f"have {lack}"))
        return {text: _build_extraction(row) for text, row in stored.items()}

    def forecast(self, order: Order, sample_ids: list[int]) -> Sequence[Forecast]:
        """Estimate one request for every distinct text that has no stored keywords or whose extraction failed, as one
        Forecast; [] if there is no such text. Empty texts do not count. Asks no model.
        """
        with order.engine.connect() as connection:
            model_id = self.model_id(connection)
        # A text without a word is not asked about.
        texts = {text for text in self._list_wanted_texts(order, sample_ids) if text.strip()}
        stored = {} if model_id is None else load_keywords(order.engine, model_id, texts)
        missing = [text for text in texts if text not in stored or stored[text]["status"] == "failed"]
        tokens_in = sum(estimate_text_tokens(text) + PROMPT_TOKENS for text in missing)
        tokens_out, name = len(missing) * ANSWER_TOKENS, self._extractor.chat_model.identity.model_id
        money = compute_call_usage(tokens_in, tokens_out, self._settings.find_prices(name)).money
        return [Forecast("keywords", name, len(missing), tokens_in, tokens_out, money)] if missing else []

    def try_out(self) -> str:
        """Ask the chat model for the keywords of one sentence, and return them as a line of text. Raises ModelUnusable
        if the model fails or declines.
        """
        (extraction,) = self._extractor.extract_all(["A red dog runs over the lawn."])
        if extraction.status != "ok":
            raise ModelUnusable(f"{self.model.model_id} extracted no keywords: {extraction.reason}")
        return f"extracts {', '.join(extraction.keywords) or 'nothing'} from one sentence"

    def _list_wanted_texts(self, order: Order, sample_ids: list[int]) -> Iterator[str]:
        for samples in order.samples(sample_ids, self.inputs):
            for sample in samples:
                yield from self._texts(sample)


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
        self._keywords = keywords
        self._texts_with = texts

    def wanted(self, engine: Engine, samples: Sequence[PendingSample]) -> Iterator[str]:
        """Yield the texts of these samples that must have a vector, keywords among them, repeated ones again. The
        keywords are read from the database. Raises MissingEvidence if keywords of a text were never asked for.
        """
        extractions = self._keywords.of_samples(engine, samples)
        for sample in samples:
            yield from self._texts_with(sample, extractions.__getitem__)

    def _list_wanted_texts(self, samples: Sequence[PendingSample], below: Evidence) -> Iterator[str]:
        for sample in samples:
            yield from self._texts_with(sample, below[self._keywords].__getitem__)


def _build_extraction(row: Mapping[str, Any]) -> KeywordExtraction:
    return KeywordExtraction(tuple(row["keywords"]), row["status"], row["reason"])
