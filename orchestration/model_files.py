"""The files of the models that the settings name, for doctor with the option for models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assets.ecs.verifiers import LEXICAL
from assets.models.profiles import LAPTOP, known_model, url_setting
from assets.models.settings import DEMO
from metrics_core.models.chat.presets import PRESETS
from metrics_core.models.files import ModelFiles, files_of_checkpoint, files_of_folder, files_of_model
from metrics_core.models.revision import ModelNotFound, name_and_pin
from metrics_core.models.sentence_splitter import sat_source
from metrics_core.models.text_encoder import OFFLINE, bundled_minilm
from orchestration.settings import settings


@dataclass(frozen=True, slots=True)
class ModelHere:
    """A model of the settings in force. state: complete, missing, or at a server, which keeps its files itself.

    place: folder or address. gb: of what is here. gb_in_all: of the whole model, where a profile knows it.
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

    def as_row(self) -> dict[str, Any]:
        """What the table shows."""
        size = self.gb_in_all if self.state != "complete" else self.gb
        return {
            "setting": self.setting,
            "model": self.model,
            "revision": (self.revision or "")[:7] or None,
            "GB": f"{size:.3g}" if size else None,
            "files": self.state if not self.missing else f"{len(self.missing)} missing",
        }


def models_here() -> tuple[str, list[ModelHere]]:
    """The profile in force, and all models that its settings name. Asks no hub and no server, and loads nothing."""
    values = {name: str(value) for name, value in settings()}
    return values["profile"] or LAPTOP, [_here(name, values) for name in values if _names_model(name, values)]


def _names_model(name: str, values: Mapping[str, str]) -> bool:
    if name == "sentence_splitter":
        return values[name].startswith("sat:")
    is_chat = name.endswith("_model") and url_setting(name) in values
    return name in {"text_encoder", "image_text_encoder", "ecs_verifier"} or bool(is_chat and values[name])


def _here(setting: str, values: Mapping[str, str]) -> ModelHere:
    """A setting's model with what is here of it."""
    value, known = values[setting], known_model(setting, values[setting])
    checkpoint = values["image_text_checkpoint"] if setting == "image_text_encoder" else ""
    facts: dict[str, Any] = {
        "gb_in_all": known.gb if known else None,
        "licence": known.licence if known else None,
        "setting": setting,
        "model": f"{value} / {checkpoint}" if checkpoint else name_and_pin(value)[0],
    }
    url = values.get(url_setting(setting), "")
    if url:
        revision = values.get(f"{setting}_revision")
        preset = PRESETS.get(url)
        return ModelHere(**facts, revision=revision, state="at a server", place=(preset and preset.url) or url)
    try:
        found = _files(setting, value, checkpoint)
    except (ModelNotFound, ImportError, ValueError, OSError) as error:
        # ValueError: broken JSON, and an architecture that open_clip does not know.
        return ModelHere(**facts, revision=None, state="missing", place="", missing=(value,), remedy=str(error))
    return ModelHere(
        **facts,
        revision=found.revision,
        state="missing" if found.missing else "complete",
        place=str(found.folder),
        gb=round(found.n_bytes / 1e9, 3),
        missing=found.missing,
        remedy=found.remedy if found.missing else None,
    )


def _files(setting: str, value: str, checkpoint: str) -> ModelFiles:
    if setting == "image_text_encoder":
        from demo import encoder

        return files_of_folder(encoder.FOLDER) if value == DEMO else files_of_checkpoint(value, checkpoint)
    if setting == "ecs_verifier" and value in {OFFLINE, LEXICAL}:
        from metrics_core.ecs import verifier

        return files_of_folder(verifier.FOLDER)
    if setting == "sentence_splitter":
        return files_of_model(sat_source(value.removeprefix("sat:")))
    return files_of_model(bundled_minilm() if value == OFFLINE else value, of_sentences=setting == "text_encoder")
