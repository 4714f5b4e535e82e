"""The result of ECS for one caption."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from metrics_core.sodam.result import AlignmentScore, Status

Mode = Literal["flat_micro", "flat_macro", "sodam"]


class ECSWarning(UserWarning):
    """A warning that the scores are defined, but the input is probably not what the caller means.
    `list_usable_keypoints` gives it, once per call, for blank and very long keypoints.
    """


@dataclass(frozen=True, slots=True)
class ECSResult:
    """ECS of one caption, in total and by dimension. score: in [0, 1]; 0 with the status "no_prediction", None with
    "no_reference". by_dimension: the score of every dimension, None where the video has no keypoint of the dimension.
    covered_counts: (covered, all) keypoints of every dimension.

    =============  =====================================  =================================
    status         meaning                                score
    =============  =====================================  =================================
    ok             scored                                 a number
    no_prediction  the caption has no sentence            0: it covers nothing
    no_reference   there is no keypoint to cover          None, to be left out of all means
    =============  =====================================  =================================

    mode: how keypoints were counted. sodam_result: SodaM's precision, recall and segments in mode "sodam", else None.
    Numbers are shares in [0, 1].
    """

    mode: Mode
    status: Status
    score: float | None
    by_dimension: Mapping[str, float | None]
    covered_counts: Mapping[str, tuple[int, int]]
    sodam_result: AlignmentScore | None = None

    @property
    def reason(self) -> str | None:
        """The phrase that explains a status other than "ok"; None for "ok"."""
        return REASONS.get(self.status)


REASONS: Mapping[Status, str] = {
    "no_prediction": "the caption has no sentence, so no keypoint is covered",
    "no_reference": "there is no keypoint to cover",
}
