"""All settings by group and name, with their defaults and meanings."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import Field, SecretStr, create_model, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from assets.agreement.scales import RatingSettings
from assets.home.folder import find_home, locate_home
from assets.home.settings import MODELS, PREFIX, NamedModel, format_variable_name, list_settings, nest_settings
from assets.ingest.licences import OriginSettings
from assets.media.settings import MediaSettings
from assets.metrics.registry import SCORERS
from assets.models.profiles import PROFILES

SETTINGS_FILE = "reelsieve.toml"
PROFILE = "profile"
# Settings that no file may hold, and why.
ENVIRONMENT_ONLY = {"failure_url": "is a secret", PROFILE: "names a table of this file"}


class _Variables(EnvSettingsSource):
    """The environment, with a variable for every key of a model."""

    def prepare_field_value(self, field_name: str, field: FieldInfo, value: Any, value_is_complex: bool) -> Any:
        if not isinstance(field.default, NamedModel):
            return super().prepare_field_value(field_name, field, value, value_is_complex)
        names = [name for name in list_settings(self.settings_cls) if name.startswith(f"{MODELS}.{field_name}.")]
        variables = {name: format_variable_name(name).lower() for name in names}
        given = {name: self.env_vars[variable] for name, variable in variables.items() if variable in self.env_vars}
        return nest_settings(self.settings_cls, given).get(field_name)


class Settings(BaseSettings):
    """The settings of this installation. Their variables have the names of `format_variable_name`."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore")

    home: Path = Field(default_factory=find_home, description="home folder, with database, exports, reports and inbox")
    curation_db_url: SecretStr | None = Field(
        default=None,
        validation_alias="CURATION_DB_URL",
        description="your own Postgres; default: the embedded server",
    )
    owners: tuple[Annotated[str, Field(pattern=r"^(team:.+|[^@ ]+@[^@ ]+)$")], ...] = Field(
        default=(), description='owners of all assets in Dagster, as JSON: ["team:data", "ada@example.org"]'
    )
    profile: str = Field(
        default="", description=f"{', '.join(PROFILES)} or one of {SETTINGS_FILE}: its values replace others"
    )
    failure_command: str | None = Field(
        default=None,
        description="command that is run after a run of Dagster failed, with a notice as JSON on standard input",
    )
    failure_url: SecretStr | None = Field(
        default=None, description="address that a notice is posted to after a run of Dagster failed"
    )
    public_url: str | None = Field(
        default=None,
        description="address at which your proxy serves the links of rate --rater-links, such as "
        "https://rate.lab.example",
    )
    allowed_hosts: tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9.-]+(:[0-9]+)?$")], ...] = Field(
        default=(), description='other host names that your proxy sends, as JSON: ["rate.internal:8080"]'
    )
    ray_actors: int | None = Field(default=None, ge=1, description="actors without a GPU; default: as many as fit")
    ray_cpus: float = Field(default=1.0, gt=0, description="cores of each actor")
    ray_gpu_actors: int | None = Field(default=None, ge=0, description="actors with a GPU; default: as many as fit")
    ray_gpus: float = Field(default=1.0, gt=0, description="GPUs of each actor that has one")

    @field_validator("public_url")
    @classmethod
    def _read_public_url(cls, url: str | None) -> str | None:
        if not url:
            return None
        # Browsers leave out the default port in the headers that are compared with it.
        matched = re.fullmatch(r"(https?)://([a-z0-9.-]+)(:[0-9]+)?/?", url.lower())
        if matched is None:
            raise ValueError("it is no address such as https://rate.lab.example, without a path")
        scheme, host, port = matched.groups("")
        return f"{scheme}://{host}{'' if port == {'http': ':80', 'https': ':443'}[scheme] else port}"

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_: Any, **__: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the two sources of values: arguments, then the environment."""
        return init_settings, _Variables(settings_cls)

    @property
    def home_folder(self) -> Path:
        """The home folder as an absolute path. It may not exist. Raises SettingsError for one of another account."""
        return locate_home(self.home)

    @property
    def is_home_named(self) -> bool:
        """Whether a setting names the home folder; if not, it is this account's own."""
        return "home" in self.model_fields_set

    @property
    def database_url(self) -> str | None:
        """The database URL that CURATION_DB_URL names, or None for the embedded server."""
        return self.curation_db_url.get_secret_value() or None if self.curation_db_url else None


@cache
def list_settings_groups() -> tuple[type[Settings], type[MediaSettings], type[RatingSettings], type[OriginSettings]]:
    """Return four classes of settings: those of the installation together with the fields of every metric, those of
    media, those of thresholds on ratings, and those of the origin of videos. Reads no values.
    """
    of_metrics = dict.fromkeys(scorer.settings for scorer in SCORERS.values())
    # create_model takes several bases, but its type stub knows only one.
    everything = create_model("AllSettings", __base__=cast(Any, (Settings, *of_metrics)))
    return everything, MediaSettings, RatingSettings, OriginSettings


def list_setting_fields() -> dict[str, FieldInfo]:
    """Return pydantic's description of every setting (default, type, meaning) by the setting's name, which is its key
    in the settings file.
    """
    return {name: field for group in reversed(list_settings_groups()) for name, field in list_settings(group).items()}
