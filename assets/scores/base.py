"""What every metric's scorer offers. Rows in, rows out: a scorer knows neither the database nor Dagster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from db.work import PendingSample
from metrics_core.protocols import TextEncoder

Status = Literal["ok", "not_applicable", "no_reference", "empty_text", "failed"]
Vectors = Mapping[str, NDArray[np.float32]]


class ScorerSettings(BaseModel):
    """The models and parameters of all scorers. Changing one makes a new scorer, never a changed score."""

    text_encoder: str = Field(default="offline", description="local folder, hub id or `offline`")
    sentence_splitter: str = Field(default="rules", pattern=r"^(rules|sat:.+)$", description="`rules` or `sat:MODEL`")
    vcs_chunk_size: int = Field(default=1, ge=1, description="sentences per chunk")
    vcs_lct: float = Field(default=0.0, ge=0.0, description="local chronology tolerance")
    vcs_context_cutoff: float = Field(default=0.6)
    vcs_context_window_control: float = Field(default=4.0, gt=0.0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a scorer says of one sample: a value and its components, or a status with a reason."""

    value: float | None
    status: Status = "ok"
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

    def models(self) -> dict[str, Any]:
        """Identities of the models, for the fingerprint."""
        ...

    def params(self) -> dict[str, Any]:
        """All parameters that move the value, for the fingerprint."""
        ...

    def texts(self, sample: PendingSample) -> Iterable[str]:
        """The texts whose vectors `score` will want."""
        ...

    def score(self, samples: Sequence[PendingSample], vectors: Vectors) -> list[Outcome]:
        """One outcome per sample, in order. Anything that a single bad sample can cause is an outcome, not an error."""
        ...
