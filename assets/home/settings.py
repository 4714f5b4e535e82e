"""How groups of settings are read from environment variables, which a settings file may have filled in."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from copy import copy
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo
from pydantic_core import from_json
from pydantic_settings import BaseSettings
from pydantic_settings.exceptions import SettingsError as UnreadableSetting

from metrics_core.models.server.address import is_variable_name

PREFIX = "REELSIEVE_"
# The table of all models in a settings file, and the first word of the names of their settings.
MODELS = "models"
S = TypeVar("S", bound=BaseSettings)
# By variable, the text that a settings file gave it, and the place in that file for an error to name.
_applied: dict[str, tuple[str, str]] = {}
_Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class SettingsError(ValueError):
    """Raised for a setting that cannot be used; the message names the variable, or the key and its file."""

    plain = True


class NamedModel(BaseModel):
    """A model that the settings name for a purpose, its role: a field of this type in a class of settings, and a table
    [models.ROLE] of a settings file. The table may have only the keys that the field's default sets.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    model: str = ""
    url: str = Field(default="", description="address of a server, or a preset such as vllm or ollama; empty: none")
    key_variable: str = Field(
        default="", description="name of the environment variable that holds the key; empty for a server without one"
    )
    price: tuple[_Price, _Price] | None = Field(
        default=None, description="price per million input and output tokens, as JSON: [2.5, 10]; one role is enough"
    )
    revision: str = Field(
        default="", description="revision of a server's model, such as a commit; another revision is another model"
    )
    checkpoint: str = Field(default="", description="weights of the encoder: file, or a tag of open_clip")
    precision: Literal["fp32", "bf16", "fp16"] = Field(
        default="fp32", description="precision of the model's numbers on a GPU; without one always fp32"
    )

    @field_validator("key_variable")
    @classmethod
    def _refuse_key(cls, name: str) -> str:
        if name and not is_variable_name(name):
            # Not quoted: it may be the key itself.
            raise ValueError("it is not the name of an environment variable: give the name, not the key")
        return name

    @field_validator("price", mode="before")
    @classmethod
    def _read_price(cls, price: Any) -> Any:
        if not isinstance(price, str):
            return price
        try:
            return from_json(price)
        except ValueError:
            raise ValueError("it is not valid JSON") from None

    @field_validator("price")
    @classmethod
    def _has_a_model(cls, price: tuple[float, float] | None, info: ValidationInfo) -> tuple[float, float] | None:
        if price is not None and not info.data.get("model", True):
            raise ValueError("there is no model: name one, or leave the price out")
        return price


def list_settings(group: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return pydantic's description of every setting of a class by the setting's name: that of its field, or
    models.ROLE.KEY for a key of a model.
    """
    found: dict[str, FieldInfo] = {}
    for name, field in group.model_fields.items():
        if not isinstance(field.default, NamedModel):
            found[name] = field
            continue
        for key, default in field.default.model_dump(exclude_unset=True).items():
            setting = found[f"{MODELS}.{name}.{key}"] = copy(NamedModel.model_fields[key])
            setting.default = default
            setting.description = field.description if key == "model" else setting.description
    return found


def nest_settings(group: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by the name of their setting in the form that their class takes. A model of which only some keys
    are given has its defaults for the others.
    """
    nested: dict[str, Any] = {}
    for name, value in values.items():
        field, _, key = name.removeprefix(f"{MODELS}.").partition(".")
        if key:
            default = group.model_fields[field].default.model_dump(exclude_unset=True)
            nested[field] = nested.get(field, default) | {key: value}
        else:
            nested[field] = value
    return nested


def format_variable_name(setting: str) -> str:
    """Return the name of the environment variable of a setting: REELSIEVE_ and the setting in capitals, except for
    CURATION_DB_URL. The variable of a model is ROLE_MODEL, or only ROLE for an encoder, splitter or verifier.

    >>> [format_variable_name(name) for name in ("frames_cap", "curation_db_url", "models.judge.model")]
    ['REELSIEVE_FRAMES_CAP', 'CURATION_DB_URL', 'REELSIEVE_JUDGE_MODEL']
    >>> [format_variable_name(f"models.image_text_encoder.{key}") for key in ("model", "precision")]
    ['REELSIEVE_IMAGE_TEXT_ENCODER', 'REELSIEVE_IMAGE_TEXT_PRECISION']
    """
    name = setting.removeprefix(f"{MODELS}.").replace(".", "_").upper()
    name = re.sub(r"(ENCODER|SPLITTER|VERIFIER)_MODEL$", r"\1", name).replace("IMAGE_TEXT_ENCODER_", "IMAGE_TEXT_")
    return name if name == "CURATION_DB_URL" else f"{PREFIX}{name}"


def apply_settings_file(values: dict[str, tuple[str, str]]) -> None:
    """Set the environment variables that are unset to the values of a settings file, for this process and its children.
    values: by variable, the text and its place in the file. The values of an earlier call are removed first, unless
    they were changed since.
    """
    for variable in [name for name in _applied if find_setting_place(name)]:
        del os.environ[variable]
    _applied.clear()
    present = {name.upper() for name in os.environ}
    for variable, given in values.items():
        if variable not in present:
            _applied[variable] = given
            os.environ[variable] = given[0]


def find_setting_place(variable: str) -> str | None:
    """Return the place from which `apply_settings_file` gave a variable its value: a line of a file, or the key of a
    profile. None where the value comes from the environment, or is the default.

    A built-in profile has a place without a file.
    """
    text, place = _applied.get(variable, (None, None))
    return place if text is not None and os.environ.get(variable) == text else None


def read_settings(group: type[S]) -> S:
    """Read the settings of this class from the environment as it is now. Raises SettingsError for the first wrong
    value.
    """
    try:
        return group()
    except ValidationError as error:
        setting, why = parse_first_fault(group, error)
        raise SettingsError(_explain_fault(group, setting, why)) from None
    except UnreadableSetting as error:
        # It names the field in quotes. The value is not quoted: it may hold what it should not.
        raise SettingsError(_explain_fault(group, str(error).split('"')[1], "it is not valid JSON")) from None


def parse_first_fault(group: type[BaseModel], error: ValidationError) -> tuple[str, str]:
    """Return the name of the first setting with a wrong value in a pydantic error of this class, and what is wrong with
    it, without the value.
    """
    first = error.errors(include_url=False)[0]
    why = first["msg"].removeprefix("Value error, ")
    field, *rest = map(str, first["loc"])
    known = group.model_fields.get(field)
    is_model = known is not None and isinstance(known.default, NamedModel)
    setting = f"{MODELS}.{field}.{(*rest, 'model')[0]}" if is_model else field.lower()
    return setting, f"{why[0].lower()}{why[1:]}"


def _explain_fault(group: type[BaseSettings], setting: str, why: str) -> str:
    variable = format_variable_name(setting)
    known = list_settings(group).get(setting)
    meaning = known.description if known else None
    remedy = f"; give {meaning}" if meaning and "as JSON" in meaning else ""
    return f"{find_setting_place(variable) or f'environment variable {variable}'} is not usable: {why}{remedy}"
