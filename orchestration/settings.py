"""Settings, all from the environment: REELSIEVE_HOME, CURATION_DB_URL, and one variable per scorer setting."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from assets.scores.base import ScorerSettings


class SettingsError(ValueError):
    """A setting that cannot be used; the message names the variable."""


class Settings(ScorerSettings, BaseSettings):
    """The settings of this installation. A scorer setting X is the variable REELSIEVE_X."""

    model_config = SettingsConfigDict(env_prefix="REELSIEVE_", extra="ignore")

    home: Path = Field(default=Path(".reelsieve"), description="database, exports, reports and inbox")
    curation_db_url: SecretStr | None = Field(default=None, validation_alias="CURATION_DB_URL")

    @property
    def home_folder(self) -> Path:
        """The home folder as an absolute path."""
        return self.home.expanduser().resolve()

    @property
    def database(self) -> str | None:
        """The configured database URL, or None for the embedded server."""
        return self.curation_db_url.get_secret_value() or None if self.curation_db_url else None


@lru_cache(maxsize=1)
def settings() -> Settings:
    """The settings, read once per process; SettingsError names the variable that is wrong."""
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0]).upper()
        variable = name if name == "CURATION_DB_URL" else f"REELSIEVE_{name}"
        raise SettingsError(f"environment variable {variable} is not usable: {first['msg'].lower()}") from None
