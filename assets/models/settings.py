"""Groups of settings that several metrics share. A metric's own settings inherit from the groups that it needs."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, field_validator

from assets.home.settings import NamedModel
from assets.models.chat import ChatSettings
from metrics_core.models.clip_encoder import OpenClipEncoder
from metrics_core.models.revision import find_model_source, split_model_name
from metrics_core.models.sentence_splitter import make_sentence_splitter
from metrics_core.models.served_encoder import ServedTextEncoder
from metrics_core.models.text_encoder import OFFLINE, make_text_encoder
from metrics_core.protocols import SentenceSplitter, TextEncoder

# The image-text encoder that was trained on the demo's drawn clips.
DEMO = "demo"
DEMO_ENCODER = "demo encoder"
# The name of the judge where no vision model is set as judge.
NO_JUDGE = "no judge"
# The name of references and keypoints that people wrote, when they are used instead of a video model.
HUMAN_NOTES = "notes"
# The variable that names the device whose steps wait for one another. Give every process its own name if there is one
# for every GPU.
DEVICE_VARIABLE = "REELSIEVE_DEVICE"


class TextEncoderSettings(ChatSettings):
    """Settings of the text encoder. It makes vectors of texts, in this process or at a server."""

    text_encoder: NamedModel = Field(
        default=NamedModel(model=OFFLINE, url="", key_variable="", price=None, revision="as served", precision="fp32"),
        description="local folder, hub id, hub id@commit or `offline`; with an address of a server of /v1/embeddings, "
        "the server's name of the model",
    )

    @field_validator("text_encoder")
    @classmethod
    def _names_a_model(cls, chosen: NamedModel) -> NamedModel:
        if chosen.url and chosen.model == OFFLINE:
            raise ValueError(
                "`offline` is no model of a server, and an address is set: name a model of that server, or remove the "
                "address"
            )
        return chosen

    def make_text_encoder(self) -> TextEncoder:
        """Make the text encoder of the settings; it loads, or its server is asked, when it is first used. Raises
        ServerUnusable and SettingsError as `make_chat_model` does.
        """
        chosen = self.text_encoder
        if not chosen.url:
            return make_text_encoder(chosen.model, chosen.precision)
        name, commit = split_model_name(chosen.model)
        endpoint = self.make_endpoint("text_encoder")
        return ServedTextEncoder(replace(endpoint, model=name, revision=commit or chosen.revision, mode=self.chat_mode))


class SplitterSettings(BaseModel):
    """Setting of the sentence splitter. It splits a text into sentences."""

    sentence_splitter: NamedModel = Field(
        default=NamedModel(model="rules"), description="`rules`, or `sat:sat-12l-sm` with the package wtpsplit"
    )

    @field_validator("sentence_splitter")
    @classmethod
    def _is_known(cls, chosen: NamedModel) -> NamedModel:
        if not re.fullmatch(r"rules|sat:.+", chosen.model):
            raise ValueError("it is neither `rules` nor a model such as `sat:sat-12l-sm`")
        return chosen

    def make_splitter(self) -> SentenceSplitter:
        """Make the sentence splitter of the settings, which loads when it is first used."""
        return make_sentence_splitter(self.sentence_splitter.model)


class ImageTextSettings(BaseModel):
    """Settings of the image-text encoder. It makes vectors of frames and of texts that are compared with them."""

    image_text_encoder: NamedModel = Field(
        default=NamedModel(model=DEMO, checkpoint="", precision="fp32"),
        description="`demo`, an architecture of open_clip or a JSON file",
    )

    @field_validator("image_text_encoder")
    @classmethod
    def _has_its_checkpoint(cls, chosen: NamedModel) -> NamedModel:
        if chosen.checkpoint and chosen.model == DEMO:
            raise ValueError("`demo` takes no checkpoint: leave it out, or name the encoder that it belongs to")
        if not chosen.checkpoint and chosen.model != DEMO:
            raise ValueError("the encoder has no checkpoint: give one as a file or a tag of open_clip")
        return chosen

    def make_image_text_encoder(self) -> OpenClipEncoder:
        """Return the image-text encoder of the settings, one for the whole process; it loads when it is first used."""
        chosen = self.image_text_encoder
        return _make_image_text_encoder(chosen.model, chosen.checkpoint, chosen.precision)


class FrameSettings(BaseModel):
    """Settings for the sampling of frames: the distance between two, the most of a video, and what reads them."""

    frames_every: int = Field(default=30, ge=1, description="frames of the video from one sampled frame to the next")
    frames_cap: int = Field(default=128, ge=1, description="the most sampled frames per video, spread evenly")
    frame_reader: Literal["pyav", "decord"] = Field(
        default="pyav",
        description="`pyav`, or `decord` for files of people you trust: its FFmpeg is old; PyAV reads what it cannot",
    )


@lru_cache(maxsize=4)
def _make_image_text_encoder(architecture: str, checkpoint: str, precision: str) -> OpenClipEncoder:
    if architecture == DEMO:
        from demo.encoder import make_demo_encoder

        return make_demo_encoder()
    architecture, checkpoint = (
        source if Path(source := find_model_source(name)).is_file() else name for name in (architecture, checkpoint)
    )
    return OpenClipEncoder(architecture, checkpoint, precision=precision)
