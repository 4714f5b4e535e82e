"""Which values anybody's settings file may set, and which only a file that the user trusts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

# Settings that name a model, in addition to those that end in _model.
_MODELS = {"text_encoder", "image_text_encoder", "image_text_checkpoint", "ecs_verifier", "sentence_splitter"}
_MODEL_NAME = re.compile(r"(sat:)?(?P<name>[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?)(@\w+)?")
# Money, and an old decoder for files that come with the settings file.
_NEVER_HARMLESS = {"chat_budget", "chat_prices", "frame_reader"}


def is_harmless(key: str, field: FieldInfo, value: Any) -> bool:
    """Whether a settings file that nobody has trusted may give this value to the setting: a number, a switch, a choice
    from a list, or a model by its public name. False for settings about money or decoders, and for values that may name
    a server, a key, a file, a folder or a command. field: pydantic's description of the setting.
    """
    if key in _NEVER_HARMLESS:
        return False
    if set(_list_value_types(field.annotation)) <= {bool, int, float, NoneType}:
        return True
    is_model = key in _MODELS or key.endswith("_model")
    named = _MODEL_NAME.fullmatch(value) if is_model and isinstance(value, str) else None
    # A model is loaded from a folder of its name where there is one.
    return is_model and (value == "" or bool(named and not os.path.lexists(named["name"])))


def _list_value_types(annotation: Any) -> Iterator[type]:
    """Yield the types of the values that an annotation allows; keys of mappings, and choices from a list, have none."""
    if (origin := get_origin(annotation)) is None:
        yield annotation
    elif origin is Annotated:
        yield from _list_value_types(get_args(annotation)[0])
    elif origin is not Literal:
        for argument in get_args(annotation)[1 if origin is dict else 0 :]:
            if argument is not ...:
                yield from _list_value_types(argument)
