"""The protocol of trainers: the built-in student, or an own one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from assets.trial.arms import TrialRun
from db.selection.trials import TrainedRun


class Trainer(Protocol):
    """Trains one student for every run.

    name: for people. identity: everything but rows, test videos and seed that decides a result. settings: what the
    stored trial says of it. chance: the measure of a random order, None where unknown. video_side: what a student gets
    of a video. keeps_runs: whether a stored run is used again.
    """

    name: str
    chance: float | None
    video_side: str
    settings: Mapping[str, Any]
    keeps_runs: bool

    @property
    def identity(self) -> Mapping[str, Any]: ...

    def train(self, run: TrialRun) -> TrainedRun: ...
