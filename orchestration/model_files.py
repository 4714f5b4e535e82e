"""The model files that the settings name, for `reelsieve doctor --models`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from assets.home.settings import MODELS, NamedModel
from assets.models.profiles import PROFILES
from assets.models.settings import DEMO
from assets.models.verifiers import LEXICAL
from metrics_core.models.files import ModelFiles, find_checkpoint_files, find_folder_files, find_model_files
from metrics_core.models.revision import ModelNotFound, split_model_name
from metrics_core.models.sentence_splitter import find_sat_source
from metrics_core.models.server.address import PRESETS
from metrics_core.models.text_encoder import OFFLINE, find_bundled_minilm
from orchestration.settings import get_settings


@dataclass(frozen=True, slots=True)
class ConfiguredModel:
    """One model that the settings name. setting: the table of its role. state: of its files, "complete", "missing" or
    "at a server". place: folder or address. gb: size of the local files. gb_in_all: size of the whole model, or None if
    no profile knows it. missing: names of the missing files. remedy: how to get them.
    """

    setting: str
    model: str
    gb_in_all: float | None
    licence: str | None
    revision: str | None = None
    state: str = "missing"
    place: str = ""
    gb: float | None = None
    missing: tuple[str, ...] = ()
    remedy: str | None = None

    def format_row(self) -> dict[str, Any]:
        """Return the row that `doctor --models` prints, by column: setting, model, revision (seven characters), GB and
        files. GB is the size of the local files if they are complete, else of the whole model; None if unknown. files
        is "complete", "at a server", or a count such as "3 missing".
        """
        size = self.gb_in_all if self.state != "complete" else self.gb
        return {
            "setting": self.setting,
            "model": self.model,
            "revision": (self.revision or "")[:7] or None,
            "GB": f"{size:.3g}" if size else None,
            "files": self.state if not self.missing else f"{len(self.missing)} missing",
        }


def list_configured_models() -> tuple[str, list[ConfiguredModel]]:
    """Return the name of the profile in force (the first if none is set), and the models that the settings name, in the
    order of the settings. Reads only local files: asks no hub and no server, and loads nothing.
    """
    settings = get_settings()
    chosen = {role: named for role, named in settings if isinstance(named, NamedModel)}
    # Rules are no model.
    used = {role: named for role, named in chosen.items() if named.model not in {"", "rules"}}
    return settings.profile or next(iter(PROFILES)), [_inspect_model(role, named) for role, named in used.items()]


def _inspect_model(role: str, named: NamedModel) -> ConfiguredModel:
    """Return a role's model with the state of its files."""
    name = split_model_name(named.model)[0]
    chosen = (profile.models.get(role) for profile in PROFILES.values())
    # A commit after @ makes no difference.
    known = next((each for each in chosen if each and split_model_name(each.model)[0] == name), None)
    model = ConfiguredModel(
        setting=f"{MODELS}.{role}",
        model=f"{named.model} / {named.checkpoint}" if named.checkpoint else name,
        gb_in_all=known.size_gb if known else None,
        licence=known.licence if known else None,
    )
    if named.url:
        place = PRESETS.get(named.url, named.url)
        return replace(model, revision=named.revision or None, state="at a server", place=place)
    try:
        files = _find_model_files(role, named.model, named.checkpoint)
    except (ModelNotFound, ImportError, ValueError, OSError) as error:
        # ValueError: broken JSON, and an architecture that open_clip does not know.
        return replace(model, missing=(named.model,), remedy=str(error))
    return replace(
        model,
        revision=files.revision,
        state="missing" if files.missing else "complete",
        place=str(files.folder),
        gb=round(files.n_bytes / 1e9, 3),
        missing=files.missing,
        remedy=files.remedy if files.missing else None,
    )


def _find_model_files(role: str, value: str, checkpoint: str) -> ModelFiles:
    if role == "image_text_encoder":
        from demo import encoder

        return find_folder_files(encoder.FOLDER) if value == DEMO else find_checkpoint_files(value, checkpoint)
    if role == "ecs_verifier" and value in {OFFLINE, LEXICAL}:
        from metrics_core.ecs import verifier

        return find_folder_files(verifier.FOLDER)
    if role == "sentence_splitter":
        return find_model_files(find_sat_source(value.removeprefix("sat:")))
    return find_model_files(
        find_bundled_minilm() if value == OFFLINE else value, is_sentence_model=role == "text_encoder"
    )
