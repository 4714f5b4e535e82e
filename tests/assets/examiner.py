"""A scripted examiner behind a real HTTP server, and QEVA scorers that ask it or no server at all."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from assets.metrics.qeva.roles import QEVAModelFactory
from assets.metrics.qeva.scorer import QEVAScorer
from assets.metrics.qeva.settings import QEVASettings
from metrics_core.models.chat.client import HttpChatModel
from metrics_core.models.chat.protocol import ChatModel
from metrics_core.models.sentence_splitter import RuleSplitter
from metrics_core.models.server.address import Server
from metrics_core.models.server.endpoint import Endpoint
from metrics_core.models.server.spending import Prices, SpendingLimit
from metrics_core.qeva.by_chat.requests import CATEGORY_MEANINGS, CLOSED_BOOK
from tests.assets.verifying import HashEncoder, ToldVerifier
from tests.metrics_core.chat_server import Answer, completion

STORY = ["A man opens a red door.", "A small dog runs outside.", "The man closes the door again."]
QUICK = {"transport_retries": 1, "timeout_s": 5.0, "deadline_s": 20.0}
Data = Mapping[str, Any]
FACTS = {"entities": "dog", "scene": "door", "actions": "man"}


def examiner(n: int, body: Mapping[str, Any]) -> Answer:
    """Writes three coverage questions, three on facts of a summary and a list of three events.

    It knows nothing without a context. With one it is right about everything except orders of three events, which it
    does not tell, and questions whether one event comes before another.
    """
    return completion(json.dumps(_data(body)), model=body["model"])


def _data(body: Mapping[str, Any]) -> Data:
    members = body["response_format"]["json_schema"]["schema"]["properties"]
    asked = _texts(body["messages"][-1]["content"])
    if "questions" in members:
        return {"questions": [f"What is point {i} of the video?" for i in (1, 2, 3)]}
    if "events" in members:
        return {"events": STORY}
    if "same" in members:
        return {"same": True}
    if "entities" in members:
        return {name: _about(FACTS[name]) if name in FACTS else None for name in CATEGORY_MEANINGS}
    is_closed = CLOSED_BOOK in str(body["messages"][0]["content"])
    return {"answer": "cannot tell" if is_closed else _answer(asked, members["answer"].get("enum"))}


def _about(thing: str) -> Data:
    return {"question": f"Is there a {thing}?", "choices": ["yes", "no"], "answer": "yes"}


def _answer(asked: str, choices: list[str] | None) -> str:
    if choices is None:
        return "It is the point of the video."
    if "A" in choices:
        listed = dict(re.findall(r"^([A-D])\) (.*)$", asked, re.MULTILINE))
        return min(listed, key=lambda letter: [event.rstrip(".") for event in STORY].index(listed[letter].rstrip(".")))
    is_plain_fact = re.search(r"^Question: Is (this so|there a \w+)\?", asked, re.MULTILINE)
    return "yes" if "yes" in choices and is_plain_fact else "cannot tell"


def _texts(content: str | list[Data]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")


def chat(url: str, *, name: str = "tiny", spending: SpendingLimit | None = None) -> HttpChatModel:
    """A chat model that gives up soon."""
    return HttpChatModel(Endpoint(name, Server(url), **QUICK, prices=Prices(10.0, 10.0), spending=spending))


def qeva(
    chats: Mapping[str, ChatModel] | None = None, verifier: ToldVerifier | None = None, **settings: Any
) -> QEVAScorer:
    """A scorer with these chat models by role, and a verifier whose threshold is 0.5."""
    chosen = QEVASettings(**settings)
    return QEVAScorer(
        chosen, QEVAModelFactory(chosen, chats or {}, verifier or ToldVerifier(), 0.5, HashEncoder(), RuleSplitter())
    )


def by_text(url: str) -> QEVAScorer:
    """A scorer whose text model stands in every role: it reads the notes on the videos, too."""
    return qeva({"text": chat(url)}, verifier=ToldVerifier(limit=0))
