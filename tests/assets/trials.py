"""Made-up training trials for tests."""

from __future__ import annotations

from collections.abc import Sequence

from db.selection.trials import ArmResult, Trial


def build_trial(arms: Sequence[ArmResult], *, selection_id: int = 3, n_changed: int = 0) -> Trial:
    """A trial of the built-in student on dataset `clips`, with these arms, the selection first."""
    return Trial(
        selection_id=selection_id,
        dataset="clips",
        trial_sha256=b"trial".hex(),
        trainer="a small head on frozen vectors",
        measure="mrr",
        n_seeds=5,
        n_train_videos=400,
        n_left_out_videos=2,
        n_validation_videos=50,
        n_test_videos=100,
        n_changed=n_changed,
        test_sha256=b"test".hex(),
        video_side="references",
        chance=0.05,
        detectable=0.04,
        settings={"max_steps": 4096},
        arms=tuple(arms),
    )
