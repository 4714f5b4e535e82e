"""The model files that the settings name, for `reelsieve doctor --models`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assets.models.profiles import LAPTOP, build_url_setting, find_profile_model
from assets.models.settings import DEMO
from assets.models.verifiers import LEXICAL
from metrics_core.models.chat.presets import PRESETS
from metrics_core.models.files import ModelFiles, find_checkpoint_files, find_folder_files, find_model_files
from metrics_core.models.revision import ModelNotFound, split_model_name
from metrics_core.models.sentence_splitter import find_sat_source
from metrics_core.models.text_encoder import OFFLINE, find_bundled_minilm
from orchestration.settings import get_settings


@dataclass(frozen=True, slots=True)
class ConfiguredModel:
    """One model that the settings name. setting: the setting that names it. state: of its files, "complete", "missing"
    or "at a server". place: folder or address. gb: size of the local files. gb_in_all: size of the whole model, or None
    if no profile knows it. missing: names of the missing files. remedy: how to get them.
    """

    setting: str
    model: str
    revision: str | None
    state: str
    place: str
    gb: float | None = None
    gb_in_all: float | None = None
    licence: str | None = None
    missing: tuple[str, ...] = ()
    remedy: str | None = None

    def format_row(self) -> dict[str, Any]:
        """Return the row that `doctor --models` prints, by column: setting, model, revision (seven characters), GB and
        files. GB is the size of the whole model unless its files are complete. files is the state, or the number of
        missing files.
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
    """Return the name of the profile in force (laptop if none is set), and every model that the settings name, in the
    order of the settings. Reads only local files: asks no hub and no server, and loads nothing.
    """
    values = {name: str(value) for name, value in get_settings()}
    return values["profile"] or LAPTOP, [
        _inspect_model(name, values) for name in values if _is_model_setting(name, values)
    ]


def _is_model_setting(name: str, values: Mapping[str, str]) -> bool:
    if name == "sentence_splitter":
        return values[name].startswith("sat:")
    is_chat = name.endswith("_model") and build_url_setting(name) in values
    return name in {"text_encoder", "image_text_encoder", "ecs_verifier"} or bool(is_chat and values[name])


def _inspect_model(setting: str, values: Mapping[str, str]) -> ConfiguredModel:
    """Return a setting's model with the state of its files."""
    value, known = values[setting], find_profile_model(setting, values[setting])
    checkpoint = values["image_text_checkpoint"] if setting == "image_text_encoder" else ""
    facts: dict[str, Any] = {
        "gb_in_all": known.size_gb if known else None,
        "licence": known.licence if known else None,
        "setting": setting,
        "model": f"{value} / {checkpoint}" if checkpoint else split_model_name(value)[0],
    }
    url = values.get(build_url_setting(setting), "")
    if url:
        revision = values.get(f"{setting}_revision")
        preset = PRESETS.get(url)
        return ConfiguredModel(**facts, revision=revision, state="at a server", place=(preset and preset.url) or url)
    try:
        files = _find_model_files(setting, value, checkpoint)
    except (ModelNotFound, ImportError, ValueError, OSError) as error:
        # ValueError: broken JSON, and an architecture that open_clip does not know.
        return ConfiguredModel(**facts, revision=None, state="missing", place="", missing=(value,), remedy=str(error))
    return ConfiguredModel(
        **facts,
        revision=files.revision,
        state="missing" if files.missing else "complete",
        place=str(files.folder),
        gb=round(files.n_bytes / 1e9, 3),
        missing=files.missing,
        remedy=files.remedy if files.missing else None,
    )


def _find_model_files(setting: str, value: str, checkpoint: str) -> ModelFiles:
    if setting == "image_text_encoder":
        from demo import encoder

        return find_folder_files(encoder.FOLDER) if value == DEMO else find_checkpoint_files(value, checkpoint)
    if setting == "ecs_verifier" and value in {OFFLINE, LEXICAL}:
        from metrics_core.ecs import verifier

        return find_folder_files(verifier.FOLDER)
    if setting == "sentence_splitter":
        return find_model_files(find_sat_source(value.removeprefix("sat:")))
    return find_model_files(
        find_bundled_minilm() if value == OFFLINE else value, is_sentence_model=setting == "text_encoder"
    )
