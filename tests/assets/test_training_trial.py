"""Training trials: arms, vectors and split of small data made by hand, and the sentences about made-up results."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from assets.trial.arms import COPY, NOISY, Arm, build_arms
from assets.trial.parts import TooFewTestVideos, TrialParts, _choose_part, split_captions
from assets.trial.sentences import advise_size, explain_trial
from assets.trial.student_trainer import _build_vectors
from db.selection.trial_rows import FrozenCaption, TrialCaptions, TrialVideo
from db.selection.trials import ArmResult, Trial
from metrics_core.arrays import IntArray
from metrics_core.trial.comparison import Conclusion
from metrics_core.trial.latent import LatentEncoder
from orchestration.cli.prove import _list_curve_rows
from tests.assets.trials import build_trial

N = 300
WORDS = ("dog", "cat", "boat", "tree", "car", "ball", "house", "river", "bird", "lamp", "door", "horse", "apple")


def describe(video: int) -> str:
    return f"a {WORDS[video % 13]} and a {WORDS[video * 5 % 11]} near place {video}"


def make_captions() -> TrialCaptions:
    """Two captions for each of 300 videos, in two strata; the first of a video is the better one."""
    return TrialCaptions(
        np.arange(2 * N) + 1000,
        np.repeat(np.arange(N), 2),
        [f"c{i}" for i in range(2 * N)],
        [f"{describe(i // 2)} number {i % 2}" for i in range(2 * N)],
        ["odd" if i % 2 else "even" for i in range(2 * N)],
        {"n_characters": np.arange(2 * N) * 1.0, "cosine": np.where(np.arange(2 * N) % 2, np.nan, 1.0)},
    )


def make_videos() -> list[TrialVideo]:
    return [TrialVideo(i, f"v{i}", [describe(i), f"there is {describe(i)}"], f"{i:04x}", None) for i in range(N)]


def arms_of(captions: TrialCaptions, training: IntArray, chosen: IntArray) -> dict[str, Arm]:
    """The arms of a selection without others beside it, a curve and ratings, by name."""
    return {arm.name: arm for arm in build_arms(captions, training, {"selection 1": chosen}, {}, None)}


def test_arms_have_the_strata_of_the_selection_and_stay_in_the_training_part() -> None:
    captions = make_captions()
    training = np.arange(0, 200)
    chosen = np.array([0, 2, 4, 6, 1, 3])
    ratings = ("overall", {1000 + i: float(i % 7) for i in range(200)})
    selections, shares = {"selection 1": chosen, "selection 2": np.array([5])}, {0.5: training[:9], 1.0: training}
    arms = {arm.name: arm for arm in build_arms(captions, training, selections, shares, ratings)}
    compared = ["random", "all", "selection 2", "length", "best rated (overall)"]
    assert list(arms) == ["selection 1", *compared, "share 0.5", "share 1", NOISY, COPY]
    assert (arms["share 0.5"].share, arms["share 0.5"].n, arms["all"].share) == (0.5, 9, None)
    for name in ("random", "length", "best rated (overall)"):
        texts, videos = arms[name].draw(3)
        assert Counter(captions.strata[i] for i in texts.tolist()) == {"even": 4, "odd": 2}, name
        assert set(texts.tolist()) <= set(training.tolist())
        assert np.array_equal(texts, videos)
    assert arms["length"].draw(0)[0].tolist() == [192, 194, 196, 197, 198, 199]
    assert arms["random"].draw(1)[0].tolist() != arms["random"].draw(2)[0].tolist()
    assert arms["all"].n == 200


def test_a_selection_whose_captions_are_gone_has_no_arm_of_more_rows_than_there_are() -> None:
    captions = make_captions()
    chosen = np.arange(0, 200, 2)
    few = arms_of(captions, np.array([0, 2, 5]), chosen)
    assert (few["random"].n, len(few["random"].draw(0)[0]), few["length"].n) == (2, 2, 2)
    none = arms_of(captions, np.array([], dtype=np.int64), chosen)
    assert (none["random"].n, len(none["random"].draw(0)[0])) == (0, 0)


def test_a_control_that_failed_is_not_taken_for_one_that_held() -> None:
    trial = make_trial(all=(0.2, 0.1, 0.3, "better", 0))
    failed = [
        replace(arm, status="failed", reason="exit code 1", value=None, difference=None, conclusion=None)
        if arm.arm in (NOISY, COPY)
        else arm
        for arm in trial.arms
    ]
    lines = explain_trial(replace(trial, arms=tuple(failed)))
    assert lines[1:3] == [
        f"The control {name} has no value, so that this trial is not checked by it: exit code 1."
        for name in (NOISY, COPY)
    ]


def test_controls_are_the_selection_with_swapped_captions_and_in_another_order() -> None:
    captions = make_captions()
    chosen = np.arange(0, 200, 2)
    arms = arms_of(captions, chosen, chosen)
    noisy, copy = arms[NOISY], arms[COPY]
    texts, videos = noisy.draw(0)
    assert videos.tolist() == chosen.tolist()
    assert (captions.video_ids[texts] != captions.video_ids[videos]).mean() == pytest.approx(0.4)
    assert sorted(copy.draw(1)[0].tolist()) == chosen.tolist()
    assert copy.draw(1)[0].tolist() != chosen.tolist()


def split(captions: TrialCaptions, videos: list[TrialVideo], frozen: list[FrozenCaption] | None = None) -> TrialParts:
    return split_captions("clips", captions, videos, frozen or [], 2)


def test_the_split_is_of_a_key_only_and_near_its_share() -> None:
    keys = [f"video-{i}" for i in range(5000)]
    parts = {key: _choose_part(key) for key in keys}
    shares = {part: list(parts.values()).count(part) / len(keys) for part in ("test", "validation", "training")}
    assert shares == pytest.approx({"test": 0.2, "validation": 0.1, "training": 0.7}, abs=0.02)
    assert parts == {key: _choose_part(key) for key in reversed(keys)}


def test_held_out_videos_and_their_copies_train_nothing() -> None:
    captions, videos = make_captions(), make_videos()
    keys = {part: {video.key for video in videos if _choose_part(video.key) == part} for part in ("test", "validation")}
    held_out = keys["test"] | keys["validation"]
    first_test, first_validation = (
        next(video for video in videos if video.key in keys[part]) for part in ("test", "validation")
    )
    first_training = next(video for video in videos if video.key not in held_out)
    videos[first_training.video_id] = first_training._replace(content_sha256=first_test.content_sha256)
    parts = split(captions, videos)
    assert (parts.n_left_out, parts.n_changed) == (1, 0)
    assert {video.key for video in parts.test_videos} == keys["test"]
    assert {video.key for video in parts.validation_videos} == keys["validation"]
    trained = {f"v{captions.video_ids[i]}" for i in parts.training.tolist()}
    assert trained.isdisjoint(held_out | {first_training.key})
    assert len(trained) == N - len(held_out) - 1
    copied = parts.training[:2].tolist()
    texts = list(captions.texts)
    texts[copied[0]], texts[copied[1]] = first_test.references[1], first_validation.references[0]
    without = split(replace(captions, texts=texts), videos)
    assert set(parts.training.tolist()) - set(without.training.tolist()) == set(copied)
    with pytest.raises(TooFewTestVideos, match="clips has 0 test videos with 2 references, and a trial needs 50"):
        split(captions, [])


def test_without_references_the_best_rated_caption_is_the_clean_text() -> None:
    captions, videos = make_captions(), [video._replace(references=[]) for video in make_videos()]
    # The second caption of a video is rated higher; the first video has equal ratings, the second none.
    means = {1000 + i: float(i % 2) for i in range(4, 2 * N)} | {1000: 3.0, 1001: 3.0}
    parts = split_captions("clips", captions, videos, [], 1, means)
    given = {video.key: list(video.references) for video in (*parts.train_videos, *parts.test_videos)}
    held_back = {video.key for video in parts.validation_videos}
    assert parts.clean_texts == "best rated"
    for key, texts in {"v0": [captions.texts[0]], "v2": [captions.texts[5]]}.items():
        assert key in held_back or given[key] == texts
    assert "v1" not in given | dict.fromkeys(held_back)
    by_rating = replace(make_trial(all=(0.2, 0.1, 0.3, "better", 0)), settings={"clean_texts": "best rated"})
    assert "Without references, the best rated caption of a held-out video is its clean text." in explain_trial(
        by_rating
    )


def test_vectors_of_videos_are_those_of_frames_or_of_other_references() -> None:
    captions, videos = make_captions(), make_videos()
    parts = split(captions, videos)
    vectors = _build_vectors(parts, None)
    for pairs, held_out in ((vectors.test, parts.test_videos), (vectors.validation, parts.validation_videos)):
        assert len(pairs.texts) == len(pairs.videos) == len(held_out) > 0
    # The clean text is no part of the video's vector, and every caption has its own video.
    texts = [captions.texts[place] for place in parts.training.tolist()]
    encoder = LatentEncoder([*texts, *[text for video in parts.train_videos for text in video.references]])
    for place in parts.training[:20].tolist():
        video = videos[int(captions.video_ids[place])]
        np.testing.assert_allclose(
            vectors.videos[vectors.video_places[place]], encoder.encode(video.references[1:])[0], atol=1e-5
        )
    places = vectors.video_places[parts.training]
    assert places.min() >= 0
    assert places.max() < len(parts.train_videos)
    frames = {i: np.full(4, i, dtype=np.float32) for i in range(N)}
    by_frames = _build_vectors(parts, frames)
    assert by_frames.test.videos[0].tolist() == [parts.test_videos[0].video_id] * 4


def test_frozen_texts_train_where_captions_changed_or_are_gone() -> None:
    captions, videos = make_captions(), make_videos()
    parts = split(captions, videos)
    kept, changed = (captions.keys[place] for place in parts.training[:2].tolist())
    of_gone, of_test = parts.train_videos[0].key, parts.test_videos[0].key
    frozen = [
        FrozenCaption(kept, "v0", "caption", captions.texts[int(parts.training[0])]),
        FrozenCaption(changed, "v0", "caption", "as it was"),
        FrozenCaption("gone", of_gone, "caption", "a text that is gone"),
        FrozenCaption("gone too", of_test, "caption", "a text of a test video"),
        FrozenCaption("its video", "no such video", "caption", "a text without a video"),
    ]
    found = split(captions, videos, frozen)
    chosen = found.find_positions([row.sample for row in frozen])
    assert [found.captions.texts[place] for place in chosen.tolist()] == [frozen[i].text for i in range(3)]
    assert (found.n_changed, len(found.training)) == (4, len(parts.training))
    noisy = arms_of(found.captions, found.training, chosen)[NOISY]
    assert sorted(noisy.draw(0)[0].tolist()) == chosen.tolist()


def make_trial(**conclusions: tuple[float, float, float, Conclusion, int]) -> Trial:
    """A trial with a selection, an arm for every name, and controls that hold unless they are named."""
    given = {
        **conclusions,
        NOISY: conclusions.get("noise", (0.2, 0.1, 0.3, "better", 0)),
        COPY: conclusions.get("copy", (0.0, -0.01, 0.01, "no difference", 0)),
    }
    arms = [ArmResult("selection 3", 200, "chosen", value=0.5)]
    for name, (value, low, high, conclusion, more) in given.items():
        if name != "noise":
            arm = ArmResult(name, 200, "", value=0.4, compared_with="selection 3", difference=value, low=low, high=high)
            arms.append(replace(arm, conclusion=conclusion, n_more_videos=more))
    return build_trial(arms, n_changed=1)


def test_sentences_say_which_arm_is_better_and_under_which_terms() -> None:
    trial = make_trial(
        random=(0.09, 0.05, 0.14, "better", 0),
        all=(-0.065, -0.108, -0.022, "worse", 0),
        length=(0.0, -0.02, 0.025, "no difference", 0),
        cosine=(0.03, -0.05, 0.11, "open", 1),
        words=(0.06, 0.01, 0.11, "open", 0),
    )
    assert explain_trial(trial) == [
        "Selection 3 trains better than random (200 rows) by 0.090 (0.050 to 0.140).",
        "Selection 3 trains worse than all (200 rows) by 0.065 (0.022 to 0.108).",
        "Selection 3 and length (200 rows): no difference above 0.025.",
        "Selection 3 or cosine (200 rows): open, 0.030 (-0.050 to 0.110); about 1 more test video would decide it.",
        "Selection 3 or words (200 rows): open, 0.060 (0.010 to 0.110); with so many arms it may be chance.",
        "Differences below 0.040 would probably not be seen.",
        "Measured: mean reciprocal rank of 100 held-out videos (chance 0.050), 5 seeds, 95 % intervals over seeds and "
        "videos.",
        "The student is a small head on frozen vectors of captions and of the references of a video, not its frames; "
        "your model may differ.",
        "1 caption of the selection changed or went since: the frozen text trains.",
    ]


def test_the_comparison_with_all_names_the_steps_that_would_decide_it() -> None:
    trial = make_trial(all=(0.2, 0.1, 0.3, "better", 0), random=(0.1, 0.0, 0.2, "open", 0))
    steps = {"selection 3": 45, "all": 4096, "random": 45}
    given = replace(trial, arms=tuple(replace(arm, steps=steps.get(arm.arm)) for arm in trial.arms))
    lines = explain_trial(given)
    assert lines[0] == (
        "Selection 3 trains better than all (200 rows) by 0.200 (0.100 to 0.300), each at its own best step "
        "(45 and 4,096)."
    )
    assert lines[-3:-1] == [
        "Every student stopped at its own best step on 50 other held-out videos (selection 3: 45), since a fixed "
        "number of steps would decide comparisons with all.",
        "Best at the maximum of 4,096 steps: all; what is compared with such an arm stays open.",
    ]


def test_curves_are_shown_by_doubled_steps() -> None:
    trial = make_trial(all=(0.2, 0.1, 0.3, "better", 0))
    first = replace(trial.arms[0], curve={8: 0.1, 11: 0.2, 16: 0.3})
    second = replace(trial.arms[1], curve={8: 0.2})
    assert _list_curve_rows(replace(trial, arms=(first, second, *trial.arms[2:]))) == [
        {"arm": "selection 3", "8 steps": 0.1, "16 steps": 0.3},
        {"arm": "all", "8 steps": 0.2, "16 steps": None},
    ]


def test_an_arm_of_the_same_rows_is_no_comparison() -> None:
    trial = make_trial(all=(0.2, 0.1, 0.3, "better", 0))
    same = replace(trial.arms[0], arm="cosine")
    lines = explain_trial(replace(trial, arms=(*trial.arms[:2], same, *trial.arms[2:])))
    assert lines[1] == "Cosine has the same rows as selection 3."


def test_controls_that_fail_are_named() -> None:
    missed = make_trial(all=(0.2, 0.1, 0.3, "better", 0), noise=(0.01, -0.1, 0.12, "open", 300))
    assert explain_trial(missed)[1].startswith("This trial does not find that 40 % of the captions of selection 3")
    differs = make_trial(all=(0.2, 0.1, 0.3, "better", 0), copy=(0.1, 0.05, 0.15, "better", 0))
    assert explain_trial(differs) == [
        "Open: selection 3 and the same rows in another order differ by 0.100 (0.050 to 0.150), so that this trial "
        "proves nothing."
    ]


def test_the_curve_says_which_share_trained_best() -> None:
    trial = make_trial(all=(0.2, 0.1, 0.3, "better", 0))
    assert not [line for line in explain_trial(trial) if "shares tried" in line]
    given: list[tuple[float, float | None, Conclusion | None]] = [
        (0.0625, 0.2, "better"),
        (0.125, 0.28, "better"),
        (0.5, 0.4, None),
        (1.0, 0.39, "open"),
    ]
    arms = [
        ArmResult(
            f"share {share:g}",
            100,
            "",
            share=share,
            value=value,
            difference=None if conclusion is None else 0.1,
            conclusion=conclusion,
        )
        for share, value, conclusion in given
    ]
    failed = ArmResult("share 0.25", 10, "", "too_few_rows", "10 training rows", share=0.25)
    both = replace(trial, arms=(*trial.arms[:2], *arms, failed, *trial.arms[2:]))
    described = "0.5 trained best, at 0.400: better than 0.0625 and 0.125, open against 1"
    assert explain_trial(both)[1] == f"Of the shares tried, {described}."
    assert advise_size([both]) == (0.5, f"of the shares tried for selection 3, {described}")
