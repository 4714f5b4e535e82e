"""Groups of settings that several metrics share. A metric's own settings inherit from the groups that it needs."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, ValidationInfo, field_validator

from assets.models.chat import KEY_VARIABLE_DESCRIPTION, PRECISION_DESCRIPTION, ChatSettings, Precision
from metrics_core.models.clip_encoder import OpenClipEncoder
from metrics_core.models.revision import find_model_source, split_model_name
from metrics_core.models.sentence_splitter import make_sentence_splitter
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

    text_encoder: str = Field(
        default=OFFLINE,
        description="local folder, hub id, hub id@commit or `offline`; with an address, the server's name of the model",
    )
    text_encoder_url: str = Field(
        default="",
        description="address of a server with /v1/embeddings, or a preset as for `qeva_text_url`; empty: no server",
        validate_default=True,
    )
    text_encoder_revision: str = Field(
        default="as served",
        description="revision of a server's model, such as a commit; another revision is another model",
    )
    text_encoder_key_variable: str = Field(default="", description=KEY_VARIABLE_DESCRIPTION)
    text_encoder_precision: Precision = Field(default="fp32", description=PRECISION_DESCRIPTION)

    @field_validator("text_encoder_url")
    @classmethod
    def _names_a_model(cls, url: str, info: ValidationInfo) -> str:
        if url and info.data.get("text_encoder") == OFFLINE:
            raise ValueError("it needs the name that the server gives the model: set text_encoder too")
        return url

    def make_text_encoder(self) -> TextEncoder:
        """Make the text encoder of the settings; it loads, or its server is asked, when it is first used."""
        if not self.text_encoder_url:
            return make_text_encoder(self.text_encoder, self.text_encoder_precision)
        name, commit = split_model_name(self.text_encoder)
        return self.make_served_encoder(
            name, self.text_encoder_url, self.text_encoder_key_variable, commit or self.text_encoder_revision
        )


class SplitterSettings(BaseModel):
    """Setting of the sentence splitter. It splits a text into sentences."""

    sentence_splitter: str = Field(
        default="rules",
        pattern=r"^(rules|sat:.+)$",
        description="`rules`, or `sat:sat-12l-sm` with the package wtpsplit",
    )

    def make_splitter(self) -> SentenceSplitter:
        """Make the sentence splitter of the settings, which loads when it is first used."""
        return make_sentence_splitter(self.sentence_splitter)


class ImageTextSettings(BaseModel):
    """Settings of the image-text encoder. It makes vectors of frames and of texts that are compared with them."""

    image_text_encoder: str = Field(default=DEMO, description="`demo`, an architecture of open_clip or a JSON file")
    image_text_checkpoint: str = Field(
        default="", description="weights of the encoder: file, or a tag of open_clip", validate_default=True
    )
    image_text_precision: Precision = Field(default="fp32", description=PRECISION_DESCRIPTION)

    @field_validator("image_text_checkpoint")
    @classmethod
    def _complete(cls, checkpoint: str, info: ValidationInfo) -> str:
        architecture = info.data.get("image_text_encoder")
        if bool(checkpoint) == (architecture == DEMO):
            raise ValueError(
                "it belongs to an image-text encoder other than `demo`: give both or neither, the checkpoint as a file "
                "or a tag of open_clip"
            )
        return checkpoint

    def make_image_text_encoder(self) -> OpenClipEncoder:
        """Return the image-text encoder of the settings, one for the whole process; it loads when it is first used."""
        return _make_image_text_encoder(self.image_text_encoder, self.image_text_checkpoint, self.image_text_precision)


class FrameSettings(BaseModel):
    """Settings for the sampling of frames: the distance between two, the most of a video, and what reads them."""

    frames_every: int = Field(default=30, ge=1, description="frames of the video from one sampled frame to the next")
    frames_cap: int = Field(default=128, ge=1, description="the most sampled frames per video, spread evenly")
    frame_reader: Literal["pyav", "decord"] = Field(
        default="pyav",
        description="`pyav`, or `decord` first: its FFmpeg is old, so only for files of people you trust",
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
