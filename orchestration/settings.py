"""Settings, all from the environment: REELSIEVE_HOME, CURATION_DB_URL, and one variable per scorer setting."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from pydantic import Field, SecretStr, ValidationError, create_model
from pydantic_settings import BaseSettings, SettingsConfigDict

from assets.home import find_home
from assets.scores.registry import SCORERS


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

    Raises SettingsError, which names the wrong variable.
    """
    groups = dict.fromkeys(scorer.settings for scorer in SCORERS.values())
    # create_model takes several bases, but its type stub knows only one.
    everything: type[Settings] = create_model("AllSettings", __base__=cast(Any, (Settings, *groups)))
    try:
        return everything()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0]).upper()
        variable = name if name == "CURATION_DB_URL" else f"REELSIEVE_{name}"
        raise SettingsError(f"environment variable {variable} is not usable: {first['msg'].lower()}") from None
