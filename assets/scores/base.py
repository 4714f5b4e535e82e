"""What every metric's scorer offers. Rows in, rows out: a scorer knows neither the database nor Dagster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationInfo, field_validator

from assets.scores.checklist import Checklist
from db.frames import VideoFrames
from db.verdicts import VerdictSet
from db.work import PendingSample
from metrics_core.frames.encoding import FrameEncoder
from metrics_core.protocols import TextEncoder


class ScorerSettings(BaseModel):
    """The models and parameters of all scorers. Changing one makes a new scorer, never a changed score."""

    text_encoder: str = Field(default="offline", description="local folder, hub id or `offline`")
    sentence_splitter: str = Field(default="rules", pattern=r"^(rules|sat:.+)$", description="`rules` or `sat:MODEL`")
    vcs_chunk_size: int = Field(default=1, ge=1, description="sentences per chunk")
    vcs_lct: float = Field(default=0.0, ge=0.0, description="local chronology tolerance")
    vcs_context_cutoff: float = Field(default=0.6)
    vcs_context_window_control: float = Field(default=4.0, gt=0.0)
    vcs_short_text: bool = Field(default=False, description="whether shapes that are always 0 get a score")
    vcs_short_lct: float = Field(default=1.0, ge=0.0, description="local chronology tolerance of VCS_short")
    image_text_encoder: str = Field(default="demo", description="`demo`, an architecture of open_clip or a JSON file")
    image_text_checkpoint: str = Field(default="", description="file, or a tag of open_clip", validate_default=True)
    image_text_precision: Literal["fp32", "bf16", "fp16"] = Field(default="fp32", description="counts on a GPU only")
    frames_every: int = Field(default=30, ge=1, description="distance between two sampled frames")
    frames_cap: int = Field(default=128, ge=1, description="the most sampled frames per video, spread evenly")
    evqa_long_text: Literal["chunk_mean", "truncate"] = "chunk_mean"
    evqa_keywords_from: Literal["question_and_answer", "answer"] = "question_and_answer"
    evqa_dedup: bool = Field(default=True, description="whether a keyword that repeats another counts once")
    ecs_verifier: str = Field(default="offline", description="folder or hub id of an NLI model, `offline`, `lexical`")
    ecs_verifier_precision: Literal["fp32", "bf16", "fp16"] = Field(default="fp32", description="counts on a GPU only")
    ecs_sentences: Annotated[int, Field(ge=1)] | Literal["all"] = Field(
        default=8, description="sentences verified per keypoint, the nearest first, or `all`"
    )
    ecs_mode: Literal["auto", "flat_micro", "flat_macro", "sodam"] = "auto"
    ecs_threshold: float | None = Field(
        default=None, ge=0.0, le=1.0, description="where no labels were calibrated on; default: the verifier's own"
    )

    @field_validator("image_text_checkpoint")
    @classmethod
    def _complete(cls, checkpoint: str, info: ValidationInfo) -> str:
        architecture = info.data.get("image_text_encoder")
        if bool(checkpoint) == (architecture == "demo"):
            raise ValueError(
                "it belongs to an image-text encoder other than `demo`: give both or neither, the checkpoint as a file "
                "or a tag of open_clip"
            )
        return checkpoint


@dataclass(frozen=True, slots=True)
class Features:
    """What models made of a batch's inputs: vectors by text, sampled frames by video_id, verdicts by sample_id."""

    texts: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    frames: Mapping[int, VideoFrames] = field(default_factory=dict)
    verdicts: Mapping[int, VerdictSet] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a scorer says of one sample: a value and its components, or a status with a reason.

    The status is "ok" exactly where there is a value. "failed" is tried again by the next run; every other status, such
    as "no_reference", is final for these inputs.
    """

    value: float | None
    status: str = "ok"
    reason: str | None = None
    components: Mapping[str, Any] = field(default_factory=dict)


class Scorer(Protocol):
    """A metric with fixed models and parameters."""

    metric: str
    # Bumped by hand when numbers change; golden tests guard it. A refactor leaves it alone.
    code_version: str
    # The range a defined value lies in, for the asset check.
    value_range: tuple[float, float]
    # What a score depends on (keys of db.work.INPUT_DIGESTS): when one of them changes, the score is stale.
    inputs: frozenset[str]
    text_encoder: TextEncoder
    # None for a scorer that never looks at a video.
    frame_encoder: FrameEncoder | None
    # None for a scorer that compares vectors itself. Else it reads the verdicts on keypoints that were reached with it.
    checklist: Checklist | None

    @classmethod
    def from_settings(cls, settings: ScorerSettings) -> Scorer:
        """The scorer that the settings describe, with its real models, which load when they are first used."""
        ...

    def models(self) -> dict[str, Any]:
        """Identities of the models, for the fingerprint."""
        ...

    def params(self) -> dict[str, Any]:
        """All parameters that move the value, for the fingerprint."""
        ...

    def texts(self, sample: PendingSample) -> Iterable[str]:
        """The texts whose vectors `score` will want, or whoever reaches the verdicts that it reads."""
        ...

    def score(self, samples: Sequence[PendingSample], features: Features) -> list[Outcome]:
        """One outcome per sample, in order. Anything that a single bad sample can cause is an outcome, not an error."""
        ...
