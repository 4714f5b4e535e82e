"""Profiles: models chosen together by one word, with their licences and sizes, and their agreement with people."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import tomli
from pydantic import BaseModel, ConfigDict, TypeAdapter

from assets.home.settings import MODELS, NamedModel
from metrics_core.models.revision import split_model_name


class ProfileModel(NamedModel):
    """A model that a profile chooses for a role. size_gb: the gigabytes to fetch or copy, None if not known."""

    licence: str
    size_gb: float | None = None
    purpose: str

    def list_settings(self, role: str) -> dict[str, str]:
        """Return the values that the profile gives to the settings of this role, by name."""
        chosen = self.model_dump(exclude={"licence", "size_gb", "purpose"}, exclude_unset=True)
        return {f"{MODELS}.{role}.{key}": value for key, value in chosen.items()}

    @property
    def size_text(self) -> str:
        """The size in gigabytes as text, "not known" without one."""
        return "not known" if self.size_gb is None else f"{self.size_gb:.3g}"

    @property
    def commit(self) -> str | None:
        """The commit of the model that the profile pins; None if it pins none."""
        return self.revision or split_model_name(self.model)[1]

    @property
    def revision_note(self) -> str:
        """A note for a model whose commit is not pinned: "installed" if it comes with the program, "the server's" if a
        server runs it, "of the tag" for a tag of open_clip, else "pin one".
        """
        if self.model in {"offline", "demo"}:
            return "installed"
        if self.url:
            return "the server's"
        return "of the tag" if self.checkpoint else "pin one"

    @property
    def name(self) -> str:
        """The model's name without its commit; "ARCHITECTURE / CHECKPOINT" if it has a checkpoint."""
        return f"{self.model} / {self.checkpoint}" if self.checkpoint else split_model_name(self.model)[0]


class Profile(BaseModel):
    """Models by role that are chosen together by one word, such as "gpu". meaning: what they are meant for, as a text.
    agreement: their agreement with people on VATEX-EVAL, with who measured it and when, as a text.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    meaning: str
    agreement: str
    models: Mapping[str, ProfileModel]

    @property
    def settings(self) -> dict[str, str]:
        """The values of all settings that the profile chooses, by name."""
        return {name: value for role, model in self.models.items() for name, value in model.list_settings(role).items()}


PROFILES = TypeAdapter(dict[str, Profile]).validate_python(
    tomli.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
)
# Settings of models that a profile does not choose have their default, whatever a settings file has: models belong
# together.
PROFILE_SETTINGS = frozenset(name for profile in PROFILES.values() for name in profile.settings)
