"""Settings, all from the environment: REELSIEVE_HOME, CURATION_DB_URL, and one variable per scorer setting."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from pydantic import Field, SecretStr, ValidationError, create_model
from pydantic_settings import BaseSettings, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError as UnreadableSetting

from assets.home import find_home
from assets.media.settings import MediaSettings
from assets.models.settings import DEVICE
from assets.scores.registry import SCORERS
from assets.thresholds.settings import RatingSettings
from db.spelling import did_you_mean

PREFIX = "REELSIEVE_"
# Variables that no class of settings has: of a machine's pool of models, Dagster's files, tests and benchmarks.
_OTHERS = (
    *(DEVICE, "REELSIEVE_DAGSTER_URL", "REELSIEVE_DAGSTER_DIR"),
    *("REELSIEVE_TEST_DATA", "REELSIEVE_REQUIRE_ALL", "REELSIEVE_RENEW_GRAPH", "REELSIEVE_CHAT_SERVER_PYTHON"),
)
# How like PREFIX the first word of a variable is that is taken for a misspelt one of ours.
_LIKENESS = 0.8


class SettingsError(ValueError):
    """A setting that cannot be used; the message names the variable."""

    plain = True


class Settings(BaseSettings):
    """The settings of this installation. A field X is the variable REELSIEVE_X."""

    model_config = SettingsConfigDict(env_prefix="REELSIEVE_", extra="ignore")

    home: Path = Field(default_factory=find_home, description="database, exports, reports and inbox")
    curation_db_url: SecretStr | None = Field(default=None, validation_alias="CURATION_DB_URL")
    failure_command: str | None = Field(default=None, description="run when a run failed, with a notice on its input")
    failure_url: SecretStr | None = Field(default=None, description="receives a notice when a run failed")
    ray_actors: int | None = Field(default=None, ge=1, description="actors without a GPU; default: as many as fit")
    ray_cpus: float = Field(default=1.0, gt=0, description="cores of each actor")
    ray_gpu_actors: int | None = Field(default=None, ge=0, description="actors with a GPU; default: as many as fit")
    ray_gpus: float = Field(default=1.0, gt=0, description="GPUs of each actor that has one")

    @property
    def home_folder(self) -> Path:
        """The home folder as an absolute path."""
        return self.home.expanduser().resolve()

    @property
    def is_home_named(self) -> bool:
        """Whether the user named the home folder, so that it need not be looked for."""
        return "home" in self.model_fields_set

    @property
    def database(self) -> str | None:
        """The configured database URL, or None for the embedded server."""
        return self.curation_db_url.get_secret_value() or None if self.curation_db_url else None


@lru_cache(maxsize=1)
def settings() -> Settings:
    """The settings of the installation and of every metric, read once per process.

    Raises SettingsError, which names the wrong variable: its value cannot be used, or nothing reads it.
    """
    groups = dict.fromkeys(scorer.settings for scorer in SCORERS.values())
    # create_model takes several bases, but its type stub knows only one.
    everything: type[Settings] = create_model("AllSettings", __base__=cast(Any, (Settings, *groups)))
    try:
        found = everything()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0]).upper()
        variable = name if name == "CURATION_DB_URL" else f"{PREFIX}{name}"
        why = first["msg"].removeprefix("Value error, ")
        raise SettingsError(f"environment variable {variable} is not usable: {why[0].lower()}{why[1:]}") from None
    except UnreadableSetting as error:
        # It names the field in quotes. The value is not quoted: it may hold what it should not.
        name = str(error).split('"')[1].upper()
        raise SettingsError(f"environment variable {PREFIX}{name} is not usable: it is no JSON") from None
    known = known_variables(found)
    if unread := [_unread(name, known) for name in _of_ours(os.environ) if name.upper() not in known]:
        raise SettingsError("; ".join(unread))
    return found


def known_variables(found: Settings) -> set[str]:
    """Every variable of ours that something reads. found: the settings, which name the variables that hold keys."""
    groups = (type(found), MediaSettings, RatingSettings)
    fields = {name for group in groups for name, field in group.model_fields.items() if not field.validation_alias}
    keys = {str(key).upper() for name, key in found if name.endswith("_key_variable")}
    return {f"{PREFIX}{name.upper()}" for name in fields} | {*_OTHERS} | keys


def _of_ours(names: Iterable[str]) -> list[str]:
    """The variables that begin with our prefix, or with a word so like it that it must be misspelt."""
    return [
        name
        for name in names
        if name[:4].upper() == PREFIX[:4]
        and difflib.SequenceMatcher(None, f"{name.upper().partition('_')[0]}_", PREFIX).ratio() >= _LIKENESS
    ]


def _unread(name: str, known: Collection[str]) -> str:
    """What is wrong with a variable that nothing reads. Its value is not quoted: it may be a secret."""
    # All begin alike: what follows tells them apart.
    meant = {variable.removeprefix(PREFIX): variable for variable in (*known, "CURATION_DB_URL")}
    said = did_you_mean(name.partition("_")[2], meant)
    hint = f", did you mean {meant[said]}?" if said else ": unset it, or correct its name"
    return f"environment variable {name} is not read by anything{hint}"
