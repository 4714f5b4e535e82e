"""Read the parts that answers of all model servers have in common: complaints, token counts and the model's name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

# The most tokens of one call: no model takes or writes nearly as many.
_MAX_CREDIBLE_TOKENS = 1_000_000_000
# The remedy for an error of this HTTP status, as the end of its sentence.
REMEDIES = {401: ". Check the key", 404: ". Check the model's name and the address, which ends in /v1"}
_KEY_PLACEHOLDER = "[key]"
# JSON that is nested deeper fits no schema of ours, and recursion through it would fail.
_MAX_LEVELS = 100


@dataclass(frozen=True, slots=True)
class Exchange:
    """One attempt at a request, and the server's answer: HTTP status, body as parsed JSON (None for anything else), and
    its size in bytes. key: the server's key, shown as "[key]" in the body, to be removed from texts joined from its
    pieces. error: why no whole answer came; `status` is None then. seconds: how long it took.
    """

    status: int | None = None
    body: Any = field(default=None, repr=False)
    n_bytes: int = 0
    key: str | None = field(default=None, repr=False)
    error: str | None = None
    seconds: float = 0.0

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later: `status` is None, 408, 409, 429, or 500 and above."""
        return self.status is None or self.status in {408, 409, 429} or self.status >= 500


def is_credible_count(count: Any) -> TypeGuard[int]:
    """Whether a server's count of tokens is an integer from 0 to 1,000,000,000."""
    return isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= _MAX_CREDIBLE_TOKENS


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


def explain_error(exchange: Exchange) -> str:
    """Return the start of a sentence, without a remedy: why no answer came, or its HTTP status and complaint."""
    complaint, _ = parse_complaint(exchange.body)
    return exchange.error or f"the server answered {exchange.status}: {complaint or 'no reason given'}"


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


def hide_key(value: Any, key: str | None, levels: int = _MAX_LEVELS) -> Any:
    """Return parsed JSON with "[key]" in place of the key in all its texts and names. Without a key, nothing changes.
    Raises ValueError where the JSON is nested deeper than 100 levels.

    >>> hide_key({"message": "wrong key: sk-12345678"}, "sk-12345678")
    {'message': 'wrong key: [key]'}
    """
    if not levels:
        raise ValueError(f"it is nested deeper than {_MAX_LEVELS} levels")
    if isinstance(value, str):
        return value.replace(key, _KEY_PLACEHOLDER) if key else value
    if isinstance(value, Mapping):
        return {hide_key(name, key): hide_key(member, key, levels - 1) for name, member in value.items()}
    return [hide_key(member, key, levels - 1) for member in value] if isinstance(value, list) else value


def shorten_text(text: str, max_characters: int = 500) -> str:
    """Return the first `max_characters` of a server's text, on one line; characters that cannot be printed become
    spaces.
    """
    return "".join(letter if letter.isprintable() else " " for letter in text.strip()[:max_characters]).strip()


def _shorten_model_name(name: str) -> str:
    return re.split(r"[/\\]", name.strip().casefold())[-1].removesuffix(".gguf").removesuffix(":latest")
