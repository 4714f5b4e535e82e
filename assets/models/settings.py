"""Groups of settings that several metrics share. A metric's own settings inherit from the groups that it needs."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, ValidationInfo, field_validator

from assets.home.settings import NamedModel
from assets.models.chat import PRECISION_DESCRIPTION, ChatSettings, Precision, ServedModel
from metrics_core.models.chat.presets import PRESETS, build_server
from metrics_core.models.clip_encoder import OpenClipEncoder
from metrics_core.models.revision import find_model_source, split_model_name
from metrics_core.models.sentence_splitter import make_sentence_splitter
from metrics_core.models.served_encoder import ServedTextEncoder
from metrics_core.models.server.endpoint import Endpoint
from metrics_core.models.server.retries import RetryPolicy
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


class TextEncoderModel(ServedModel):
    """The text encoder: a model in this process or, with an address, at a server."""

    model: str = OFFLINE
    url: str = Field(
        default="", description="address of a server with /v1/embeddings, or a preset as for chat models; empty: none"
    )
    revision: str = Field(
        default="as served",
        description="revision of a server's model, such as a commit; another revision is another model",
    )
    precision: Precision = Field(default="fp32", description=PRECISION_DESCRIPTION)

    @field_validator("url")
    @classmethod
    def _names_a_model(cls, url: str, info: ValidationInfo) -> str:
        if url and info.data.get("model") == OFFLINE:
            raise ValueError("it needs the name that the server gives the model: set text_encoder too")
        return url


class TextEncoderSettings(ChatSettings):
    """Settings of the text encoder. It makes vectors of texts, in this process or at a server."""

    text_encoder: TextEncoderModel = Field(
        default=TextEncoderModel(),
        description="local folder, hub id, hub id@commit or `offline`; with an address, the server's name of the model",
    )

    def make_text_encoder(self) -> TextEncoder:
        """Make the text encoder of the settings; it loads, or its server is asked, when it is first used. Raises
        ServerUnusable and BudgetWithoutPrice as `make_chat_model` does.
        """
        chosen = self.text_encoder
        if not chosen.url:
            return make_text_encoder(chosen.model, chosen.precision)
        name, commit = split_model_name(chosen.model)
        url = PRESETS[chosen.url].url if chosen.url in PRESETS else chosen.url
        endpoint = Endpoint(
            name,
            build_server(name, url, chosen.key_variable or None),
            commit or chosen.revision,
            concurrency=self.chat_concurrency,
            policy=RetryPolicy(deadline_s=self.chat_deadline_s),
            prices=self.find_prices(chosen.model),
            spending=self.find_spending_limit("text_encoder", chosen.model),
            mode=self.chat_mode,
        )
        return ServedTextEncoder(endpoint)


class SplitterModel(NamedModel):
    """The sentence splitter: rules, or a model in this process."""

    model: str = Field(default="rules", pattern=r"^(rules|sat:.+)$")


class SplitterSettings(BaseModel):
    """Setting of the sentence splitter. It splits a text into sentences."""

    sentence_splitter: SplitterModel = Field(
        default=SplitterModel(), description="`rules`, or `sat:sat-12l-sm` with the package wtpsplit"
    )

    def make_splitter(self) -> SentenceSplitter:
        """Make the sentence splitter of the settings, which loads when it is first used."""
        return make_sentence_splitter(self.sentence_splitter.model)


class ImageTextModel(NamedModel):
    """The image-text encoder. model: its architecture."""

    model: str = DEMO
    checkpoint: str = Field(
        default="", description="weights of the encoder: file, or a tag of open_clip", validate_default=True
    )
    precision: Precision = Field(default="fp32", description=PRECISION_DESCRIPTION)

    @field_validator("checkpoint")
    @classmethod
    def _complete(cls, checkpoint: str, info: ValidationInfo) -> str:
        if bool(checkpoint) == (info.data.get("model") == DEMO):
            raise ValueError(
                "it belongs to an image-text encoder other than `demo`: give both or neither, the checkpoint as a file "
                "or a tag of open_clip"
            )
        return checkpoint


class ImageTextSettings(BaseModel):
    """Settings of the image-text encoder. It makes vectors of frames and of texts that are compared with them."""

    image_text_encoder: ImageTextModel = Field(
        default=ImageTextModel(), description="`demo`, an architecture of open_clip or a JSON file"
    )

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
