"""The metrics for plain values: they take texts and a video file and return an Outcome, without a database.

They are the scorers of `reelsieve score`, so they give the numbers that it stores. Models and parameters are named
arguments, with the names of docs/settings.md, in small letters and without REELSIEVE_; neither the environment
nor reelsieve.toml counts. Without any, models need no download. A model loads at the first call and stays.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reelsieve.errors import raise_reelsieve_errors
from reelsieve.samples import Caption, Keypoint, build_sample, make_scorer, read_video, score_samples

if TYPE_CHECKING:
    from assets.scores.base import Outcome


@raise_reelsieve_errors
def vcs(references: Caption | Sequence[Caption], caption: Caption, **settings: Any) -> Outcome:
    """Return the VCS of a caption as an Outcome: a value, or a status and its reason. The value is the best one over
    the references, which are compared with the caption chunk by chunk. settings: models and parameters by the names of
    docs/settings.md, in small letters and without REELSIEVE_. See docs/metrics/vcs.md.

    Raises ReelsieveError for arguments that cannot be used. A caption that cannot be scored has a status and a reason.

    >>> import reelsieve as rs
    >>> story = "A man opens a red door. A small dog runs outside. The man closes the door."
    >>> round(rs.vcs(story, "A man opens a door. A dog runs out. The door is closed.").value, 2)
    0.77
    >>> rs.vcs([], "A man opens a door.").status
    'no_reference'
    """
    return _score_values("vcs", settings, caption, references=references)


@raise_reelsieve_errors
def vcs_short(references: Caption | Sequence[Caption], caption: Caption, **settings: Any) -> Outcome:
    """Return the VCS of a short caption as an Outcome: a value, or a status and its reason. The value is the best one
    over the references, which are compared with the caption word by word. Arguments and errors are those of `vcs`. See
    docs/metrics/vcs.md.

    >>> import reelsieve as rs
    >>> rs.vcs_short("A man opens a red door slowly.", "A man opens a red door slowly.").value
    1.0
    """
    return _score_values("vcs_short", settings, caption, references=references)


@raise_reelsieve_errors
def evqa(video: str | os.PathLike[str], caption: Caption, **settings: Any) -> Outcome:
    """Return the EVQAScore of a caption as an Outcome: a value, or a status and its reason. It compares the caption
    with frames of the video, which is a file or an address as in a manifest. settings: as in `vcs`. Raises
    ReelsieveError if there is no such file.

    Name a real encoder by `image_text_encoder` and `image_text_checkpoint`: the built-in one only works on the demo, so
    that without these settings the status is "no_model". See docs/metrics/evqa.md.

    >>> import reelsieve as rs
    >>> rs.evqa("gone.mp4", "A dog runs.")
    Traceback (most recent call last):
    ...
    reelsieve.ReelsieveError: video: there is no file 'gone.mp4': give the path of one, or an address
    """
    return _score_values("evqa", settings, caption, video=video)


@raise_reelsieve_errors
def ecs(
    keypoints: Keypoint | Sequence[Keypoint],
    caption: Caption,
    references: Caption | Sequence[Caption] = (),
    **settings: Any,
) -> Outcome:
    """Return the ECS of a caption as an Outcome: a value, or a status and its reason. The value is the share of the
    keypoints that the caption entails, or SodaM's F1 where caption, keypoints and a reference have times. references:
    only their times are used. settings: as in `vcs`. See docs/metrics/ecs.md.

    >>> import reelsieve as rs
    >>> outcome = rs.ecs(["A dog runs.", "It rains."], "A small dog runs over the lawn.")
    >>> outcome.value, outcome.components["covered"]
    (0.5, {'any': 1})
    """
    return _score_values("ecs", settings, caption, keypoints=keypoints, references=references)


@raise_reelsieve_errors
def qeva(
    references: Caption | Sequence[Caption],
    caption: Caption,
    keypoints: Keypoint | Sequence[Keypoint] = (),
    video: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> Outcome:
    """Return the QEVA of a caption as an Outcome: a value, or a status and its reason. It measures coverage, factuality
    and chronology by questions and answers. settings: as in `vcs`. See docs/metrics/qeva.md.

    References and keypoints are used in place of the video, unless `qeva_video_model` names a model, which looks at
    `video`.

    >>> import reelsieve as rs
    >>> rs.qeva([], "A man opens a door. A dog runs out.").status
    'no_reference'
    """
    return _score_values("qeva", settings, caption, references=references, keypoints=keypoints, video=video)


@raise_reelsieve_errors
def judge(video: str | os.PathLike[str], caption: Caption, **settings: Any) -> Outcome:
    """Return a vision model's judgement of a caption by frames of the video as an Outcome: a value from 0 to 1, or a
    status and its reason. Components have the wrong pieces of the caption with their places. video: a file or an
    address. settings: as in `vcs`; without `judge_model` and `judge_url` the status is "no_model".

    Raises ReelsieveError for a missing file. See docs/metrics/judge.md.

    >>> import reelsieve as rs
    >>> rs.judge("gone.mp4", "A dog runs.")
    Traceback (most recent call last):
    ...
    reelsieve.ReelsieveError: video: there is no file 'gone.mp4': give the path of one, or an address
    """
    return _score_values("judge", settings, caption, video=video)


def _score_values(
    metric: str,
    settings: Mapping[str, Any],
    caption: Caption,
    references: Caption | Sequence[Caption] = (),
    keypoints: Keypoint | Sequence[Keypoint] = (),
    video: str | os.PathLike[str] | None = None,
) -> Outcome:
    scorer = make_scorer(metric, settings)
    state, files = read_video(video)
    sample = build_sample(caption, references, keypoints, state)
    return score_samples(scorer, [sample], lambda _: files)[0]
