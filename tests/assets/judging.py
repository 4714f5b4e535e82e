"""A scripted judge behind a real HTTP server, and scorers that ask it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from assets.metrics.judge.scorer import JudgeScorer
from assets.metrics.judge.settings import JudgeSettings
from metrics_core.models.server.spending import SpendingLimit
from tests.assets.examiner import chat
from tests.metrics_core.chat_server import Answer, Script, completion

# How the scripted judge scores a text: 90, and 20 less for every word of these.
WRONG_WORDS = {"red": "it is brown", "cat": "it is a dog", "perro": "another language"}
Verdict = Mapping[str, Any]


def judged_text(body: Mapping[str, Any]) -> str:
    """The text that a request asks about."""
    parts = body["messages"][-1]["content"]
    asked = "\n".join(part["text"] for part in parts if part["type"] == "text")
    found = re.search(r"^<text>\n(.*)\n</text>$", asked, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def decide(text: str) -> Verdict:
    """What the scripted judge answers about a text."""
    wrong = [word for word in WRONG_WORDS if re.search(rf"\b{word}\b", text)]
    spans = [{"text": word, "reason": WRONG_WORDS[word]} for word in wrong]
    return {"spans": spans, "why": f"{len(wrong)} words are wrong.", "score": 90 - 20 * len(wrong)}


def answering(verdict: Callable[[str], Verdict] = decide) -> Script:
    """A server whose model answers about a text what `verdict` returns."""
    return lambda n, body: completion(json.dumps(verdict(judged_text(body))), model=body["model"])


def constant(answer: Answer) -> Script:
    """A server with the same answer to everything."""
    return lambda n, body: answer


def judge(
    url: str | None, *, name: str = "tiny", spending: SpendingLimit | None = None, **settings: Any
) -> JudgeScorer:
    """A scorer whose judge is at this address; None for no judge. Four small frames are shown."""
    chosen = JudgeSettings(**{"judge_frames": 4, "judge_frame_size": 32, **settings})
    return JudgeScorer(chosen, None if url is None else chat(url, name=name, spending=spending))
