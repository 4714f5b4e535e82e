"""The preparation of a text for EVQAScore: its keywords, and the chunks whose vectors are averaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from db.scores.pending import PendingSample
from metrics_core.keywords import Keywords, clean_keywords
from metrics_core.long_text import TextChunks, split_into_chunks
from metrics_core.models.chat_keywords import KeywordExtraction
from metrics_core.models.clip_encoder import OpenClipEncoder
from metrics_core.protocols import KeywordExtractor, SentenceSplitter


@dataclass(frozen=True, slots=True)
class PreparedText:
    """A text prepared for EVQAScore. keywords: its raw and cleaned keywords. chunk_plan: the chunks of the text whose
    vectors are averaged, with their numbers of tokens.
    """

    keywords: Keywords
    chunk_plan: TextChunks

    @property
    def texts(self) -> Iterator[str]:
        """The texts that need a vector: the chunks of the text, then its cleaned keywords; a new iterator on every
        access.
        """
        yield from self.chunk_plan.chunks
        yield from self.keywords.cleaned

    @property
    def components(self) -> dict[str, Any]:
        """The components of a score that describe its text, by name: cleaned and raw keywords, and counts of keywords,
        tokens and chunks. text_truncated: whether the encoder does not see the whole text.
        """
        return {
            "n_keywords": len(self.keywords.cleaned),
            "keywords": list(self.keywords.cleaned),
            "keywords_raw": list(self.keywords.raw),
            "text_tokens": self.chunk_plan.text_tokens,
            "text_chunks": len(self.chunk_plan.chunks),
            "text_truncated": self.chunk_plan.truncated,
        }


class TextPreparer:
    """Prepares texts for EVQAScore. `extract_by_rule(text)` returns raw keywords without asking a chat model.
    `prepare(text, raw)` returns a PreparedText with these raw keywords, cleaned, and the chunks of the text.

    Both keep the results of up to 4,096 calls, as a text is prepared once for the texts to embed and again for the
    score. long_text: how a text that is too long for the encoder is treated. keywords_from: the part of a
    question-answer pair that keywords come from. dedup: whether a keyword that repeats another is dropped.
    """

    def __init__(
        self,
        encoder: OpenClipEncoder,
        extractor: KeywordExtractor,
        splitter: SentenceSplitter,
        long_text: Literal["chunk_mean", "truncate"],
        keywords_from: Literal["question_and_answer", "answer"],
        dedup: bool,
    ) -> None:
        self._encoder = encoder
        self._extractor = extractor
        self._splitter = splitter
        self._long_text = long_text
        self._keywords_from = keywords_from
        self._dedup = dedup
        self.prepare: Callable[[str, tuple[str, ...]], PreparedText] = lru_cache(maxsize=4096)(self._prepare)
        self.extract_by_rule: Callable[[str], KeywordExtraction] = lru_cache(maxsize=4096)(self._extract)

    def choose_keyword_text(self, sample: PendingSample) -> str:
        """Return the text that a sample's keywords are extracted from: its whole text, or for a question-answer pair
        only the answer if `keywords_from` is "answer".
        """
        return sample.answer if sample.answer is not None and self._keywords_from == "answer" else sample.text

    def _extract(self, text: str) -> KeywordExtraction:
        return KeywordExtraction(tuple(self._extractor.extract(text)))

    def _prepare(self, text: str, raw: tuple[str, ...]) -> PreparedText:
        cleaned = clean_keywords(raw, dedup=self._dedup)
        return PreparedText(Keywords(raw, tuple(cleaned)), self._plan_chunks(text))

    def _plan_chunks(self, text: str) -> TextChunks:
        limit, count = self._encoder.context_length, self._encoder.count_tokens
        if self._long_text == "chunk_mean":
            return split_into_chunks(text, limit=limit, split_sentences=self._splitter.split, count_tokens=count)
        tokens = count(text)
        return TextChunks((text,), (min(tokens, limit),), tokens, tokens > limit)
