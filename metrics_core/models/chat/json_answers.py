"""JSON answers of chat models: the instruction that asks for a schema, and parsing a model's text into an object."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

_END_OF_THOUGHT = "</think>"
_FENCED = re.compile(r"```\w*\s*\n(.*)```", re.DOTALL)
# JSON allows both, and no database stores them as text.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class MalformedAnswer(ValueError):
    """Raised when a model's text holds no JSON object that fits the schema; the message says why."""


def format_schema_instruction(schema: Mapping[str, Any]) -> str:
    """Return the instruction that asks a model for one JSON object of this schema.

    It is part of every request, so that an answer does not depend on the server.
    """
    return f"Answer with one JSON object and nothing else. It must fit this JSON schema:\n{dump_ordered_json(schema)}"


def parse_json_answer(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Parse the JSON object that a model's text contains; raises MalformedAnswer where none fits the schema. Text
    before `</think>` and a code fence around the answer are dropped, then all text around the outermost braces. Nothing
    is repaired.

    >>> schema = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    >>> parse_json_answer('Sure! {"answer": "yes"}', schema)
    {'answer': 'yes'}
    """
    answer = _parse_object(_find_outermost_object(text))
    from fastjsonschema import JsonSchemaValueException

    try:
        _make_validator(dump_ordered_json(schema))(answer)
    except JsonSchemaValueException as error:
        raise MalformedAnswer(f"the answer does not fit its schema: {error.message}") from None
    return answer


def check_json_schema(schema: Mapping[str, Any]) -> None:
    """Raise ValueError unless `schema` is a JSON schema that answers can be checked against."""
    from fastjsonschema import JsonSchemaDefinitionException

    try:
        _make_validator(dump_ordered_json(schema))
    except JsonSchemaDefinitionException as error:
        raise ValueError(f"this is not a JSON schema: {error}") from None


def dump_canonical_json(value: Any) -> str:
    """Return JSON with sorted keys and without spaces, so that equal values give equal text. Raises ValueError for NaN
    and infinity.

    >>> dump_canonical_json({"b": (1, 2), "a": "ä"})
    '{"a":"ä","b":[1,2]}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def dump_ordered_json(value: Any) -> str:
    """Return JSON without spaces that keeps the order of the members, since a model writes them in the schema's order.
    Raises ValueError for NaN and infinity.
    """
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def iterate_texts(value: Any) -> Iterator[str]:
    """Yield every text in parsed JSON, names of members included, in their order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, member in value.items():
            yield name
            yield from iterate_texts(member)
    elif isinstance(value, list):
        for member in value:
            yield from iterate_texts(member)


def _find_outermost_object(text: str) -> str:
    answer = _strip_thoughts(text).strip()
    # An answer that begins with a brace may hold a fence in one of its texts.
    fenced = None if answer.startswith("{") else _FENCED.search(answer)
    if fenced:
        answer = fenced.group(1)
    start, end = answer.find("{"), answer.rfind("}")
    if start < 0 or end < start:
        raise MalformedAnswer(f"the answer holds no JSON object: {text[:80]!r}")
    return answer[start : end + 1]


def _strip_thoughts(text: str) -> str:
    """Return the text after the last `</think>`; the whole text if that occurs inside a text of the answer itself."""
    start, end = text.find("{"), text.rfind(_END_OF_THOUGHT)
    if -1 < start < end:
        with suppress(ValueError, RecursionError):
            if json.JSONDecoder(strict=False).raw_decode(text, start)[1] > end:
                return text
    return text.rpartition(_END_OF_THOUGHT)[2]


def _parse_object(text: str) -> dict[str, Any]:
    try:
        # Not strict: the grammars of some servers let a model write a line break into a text as it is.
        answer = json.loads(
            text,
            strict=False,
            parse_constant=_refuse_constant,
            parse_float=_parse_finite,
            object_pairs_hook=_require_different_names,
        )
        if any(_UNSTORABLE.search(member) for member in iterate_texts(answer)):
            raise ValueError("it holds a character that cannot be stored")
    except (ValueError, RecursionError) as error:
        reason = "it is too deep" if isinstance(error, RecursionError) else str(error)
        raise MalformedAnswer(f"the answer is not JSON ({reason}): {text[:80]!r}") from None
    # The text began with a brace, so that it is an object.
    assert isinstance(answer, dict)
    return answer


def _require_different_names(members: list[tuple[str, Any]]) -> dict[str, Any]:
    named = dict(members)
    if len(named) < len(members):
        raise ValueError("a name is given twice in one object")
    return named


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number in JSON")


def _parse_finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} is too great")
    return number


@lru_cache(maxsize=256)
def _make_validator(schema: str) -> Callable[[Any], Any]:
    import fastjsonschema

    # Defaults would be written into the answer, which must stay as the model wrote it.
    validator: Callable[[Any], Any] = fastjsonschema.compile(json.loads(schema), use_default=False)
    return validator
