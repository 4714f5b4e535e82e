"""Read the parts that answers of all model servers have in common: complaints, token counts and the model's name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeGuard

from metrics_core.models.server.post import HttpAnswer, shorten_text

# The most tokens of one call: no model takes or writes nearly as many.
MAX_CREDIBLE_TOKENS = 1_000_000_000
# The remedy for an error of this HTTP status, as the end of its sentence.
REMEDIES = {401: ". Check the key", 404: ". Check the model's name and the address, which ends in /v1"}


def is_credible_count(count: Any) -> TypeGuard[int]:
    """Whether a server's count of tokens is an integer from 0 to 1,000,000,000."""
    return isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= MAX_CREDIBLE_TOKENS


def parse_complaint(body: Any) -> tuple[str, str | None]:
    """Return (message, code) from the parsed body of an error, in any of the forms that servers use. The message is on
    one line, cut at 500 characters; the code is a text or None. ("", None) for a body without a message.

    >>> parse_complaint({"error": {"message": "No such model", "code": "model_not_found"}})
    ('No such model', 'model_not_found')
    """
    error = body.get("error", body) if isinstance(body, Mapping) else None
    if isinstance(error, Mapping) and (error.get("message") or error.get("detail")):
        code = error.get("code")
        return shorten_text(str(error.get("message") or error.get("detail"))), None if code is None else str(code)
    return shorten_text(error) if isinstance(error, str) else "", None


def explain_error(answer: HttpAnswer) -> str:
    """Return the start of a sentence with the HTTP status and the complaint of an error answer, without a remedy."""
    complaint, _ = parse_complaint(answer.body)
    return f"the server answered {answer.status}: {complaint or 'no reason given'}"


def is_same_model(asked: str, answered: str) -> bool:
    """Whether the name that a server gives for a model means the model asked for. Upper and lower case, organisation,
    folder, the endings .gguf and :latest, and an added number, date or @revision make no difference.

    >>> is_same_model("gpt-4o", "gpt-4o-2024-08-06"), is_same_model("gpt-4o", "gpt-4o-mini")
    (True, False)
    >>> is_same_model("tiny", "/models/tiny.gguf"), is_same_model("org/Tiny", "tiny")
    (True, True)
    """
    first, second = _shorten_model_name(asked), _shorten_model_name(answered)
    return second == first or bool(re.fullmatch(re.escape(first) + r"(-\d{3,}(-\d\d){0,2}|@[^@]+)", second))


def _shorten_model_name(name: str) -> str:
    return re.split(r"[/\\]", name.strip().casefold())[-1].removesuffix(".gguf").removesuffix(":latest")
