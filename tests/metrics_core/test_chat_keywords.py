"""Keywords by a chat model: what is sent, what is not, and what becomes of replies that are no answer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.keywords import Keywords, extract_keywords
from metrics_core.models.chat.bookkeeping import check_request, compute_request_keys
from metrics_core.models.chat.protocol import ChatReply, ChatRequest
from metrics_core.models.chat_keywords import (
    MAX_KEYWORDS,
    PROMPT_VERSION,
    ChatKeywordExtractor,
    KeywordExtractionFailed,
    build_keyword_request,
)
from metrics_core.protocols import KeywordExtractor, ModelIdentity
from tests.metrics_core.qeva_fakes import RuleChat, seen_in


def nouns(request: ChatRequest) -> dict[str, list[str]]:
    """The words in capitals."""
    return {"keywords": [word for word in seen_in(request).split() if word.isupper()]}


def test_it_is_an_extractor_like_any_other() -> None:
    extractor: KeywordExtractor = ChatKeywordExtractor(RuleChat(nouns))
    assert extract_keywords("a DOG and a Dog, DOG", extractor) == Keywords(("DOG", "DOG"), ("DOG",))
    assert extractor.identity == ModelIdentity("rule", "1", {"temperature": 0.0, "prompt": PROMPT_VERSION})


def test_many_texts_are_asked_about_at_once() -> None:
    chat = RuleChat(nouns)
    found = ChatKeywordExtractor(chat).extract_all(["a DOG", " ...\n", "two CATS", "it is", "a DOG"])
    assert [(each.status, each.keywords) for each in found] == [
        ("ok", ("DOG",)),
        ("ok", ()),
        ("ok", ("CATS",)),
        ("ok", ()),
        ("ok", ("DOG",)),
    ]
    # The text without a word is not sent.
    assert [[seen_in(request) for request in batch] for batch in chat.batches] == [
        ["a DOG", "two CATS", "it is", "a DOG"]
    ]
    assert ChatKeywordExtractor(chat).extract_all(["", "!"]) == [found[1], found[1]]
    assert len(chat.batches) == 1


def test_the_request_is_one_that_models_can_be_asked() -> None:
    request = build_keyword_request("A dog.")
    check_request(request)
    assert (request.temperature, request.seed, request.purpose) == (0.0, 0, "keywords")
    assert request.prompt_version == PROMPT_VERSION
    # Whatever the greatest answer is, it is read in full: ten tokens for a keyword.
    assert request.max_tokens >= 10 * MAX_KEYWORDS


def test_text_prompt_and_model_tell_stored_answers_apart() -> None:
    request, model = build_keyword_request("A dog."), ModelIdentity("m", "1")
    others = [
        (build_keyword_request("A cat."), model),
        (replace(request, prompt_version="keywords-2"), model),
        (request, ModelIdentity("m", "2")),
    ]
    keys = {compute_request_keys(one, of, 1)[0] for of, one in [(request, model), *others]}
    assert len(keys) == 4
    assert compute_request_keys(model, build_keyword_request("A dog."), 1)[0] in keys


@pytest.mark.parametrize(
    ("reply", "status", "reason"),
    [
        (ChatReply("refused", reason="the model declined: no"), "refused", "the model declined: no"),
        (ChatReply("malformed", reason="no JSON"), "failed", "no JSON"),
        (ChatReply("error", reason="no server"), "failed", "no server"),
        (ChatReply("stopped"), "failed", "the model gave no answer (status stopped)"),
    ],
)
def test_a_failure_is_never_a_text_without_keywords(reply: ChatReply, status: str, reason: str) -> None:
    extractor = ChatKeywordExtractor(RuleChat(lambda request: reply if seen_in(request) == "bad" else nouns(request)))
    good, bad = extractor.extract_all(["a DOG", "bad"])
    assert (good.status, good.keywords) == ("ok", ("DOG",))
    assert (bad.status, bad.keywords, bad.reason) == (status, (), reason)
    with pytest.raises(KeywordExtractionFailed) as caught:
        extractor.extract("bad")
    assert str(caught.value) == f"rule gave no keywords: {reason}"


@given(st.lists(st.sampled_from(["", " - ", "a DOG", "CATS", "none", "bad"])))
def test_each_text_gets_its_own(texts: list[str]) -> None:
    refused = ChatReply("refused", reason="no")
    extractor = ChatKeywordExtractor(RuleChat(lambda request: refused if seen_in(request) == "bad" else nouns(request)))
    expected = {"a DOG": ("DOG",), "CATS": ("CATS",)}
    found = extractor.extract_all(texts)
    assert [each.keywords for each in found] == [expected.get(text, ()) for text in texts]
    assert [each.status == "refused" for each in found] == [text == "bad" for text in texts]
