"""ECS against hand-computed cases and a second implementation by loops: plans, verdicts and scores."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metrics_core.ecs
from metrics_core.ecs import (
    ECSResult,
    ECSWarning,
    KeypointVerdict,
    Pair,
    RankedPremises,
    Thresholds,
    choose_mode,
    choose_premises,
    combine_part_verdicts,
    compute_flat_score,
    compute_sodam_score,
    decide_keypoint,
    list_unique_pairs,
    list_usable_keypoints,
    rank_nearest_sentences,
    split_premises,
    verify_keypoints,
)
from metrics_core.evqa import BadFeature
from metrics_core.models.sentence_splitter import RuleSplitter
from metrics_core.protocols import Entailments, ModelIdentity
from metrics_core.sodam import align, merge_texts, score_alignment


class TableModel:
    """An EntailmentModel that looks its answers up, keeps each batch, and cuts premises of more than 20 characters."""

    def __init__(self, answers: dict[Pair, float]) -> None:
        self.answers = answers
        self.batches: list[list[Pair]] = []

    @property
    def identity(self) -> ModelIdentity:
        return ModelIdentity("table", "1")

    def entailment(self, pairs: Sequence[Pair]) -> Entailments:
        self.batches.append(list(pairs))
        truncated = np.array([len(premise) > 20 for premise, _ in pairs], dtype=np.bool_)
        return Entailments(np.array([self.answers[pair] for pair in pairs]), truncated)


def covered(probability: float = 0.9) -> KeypointVerdict:
    return KeypointVerdict(probability, 0, covered=True)


def missed(probability: float = 0.1) -> KeypointVerdict:
    return KeypointVerdict(probability, 0, covered=False)


UNVERIFIED = KeypointVerdict(None, None, covered=False)


def test_the_public_surface() -> None:
    assert metrics_core.ecs.__all__ == sorted(metrics_core.ecs.__all__, key=order_of_ruff)
    assert all(hasattr(metrics_core.ecs, name) for name in metrics_core.ecs.__all__)


def order_of_ruff(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


# Sentences and keypoints


def test_field_names_are_no_part_of_the_premise() -> None:
    text = "[storyline]\tA man sits. He waves.\r\n [speech_content]\tHi!\n[not a tag] He goes.\n[]\t...\n\nNo."
    assert split_premises(text, RuleSplitter()) == ["A man sits.", "He waves.", "Hi!", "[not a tag] He goes.", "No."]
    assert split_premises("", RuleSplitter()) == split_premises("[camera_state]\t ", RuleSplitter()) == []


def test_a_splitter_that_keeps_lines_and_marks_is_corrected() -> None:
    class Whole:
        identity = ModelIdentity("whole", "1")

        def split(self, text: str) -> list[str]:
            return [text]

    assert split_premises("One. Two.\n--\n\nThree.", Whole()) == ["One. Two.", "Three."]


def test_blank_keypoints_are_left_out_and_long_ones_told_of_in_one_warning() -> None:
    forty, more = " ".join(["word"] * 40), " ".join(["word"] * 41)
    with pytest.warns(ECSWarning) as caught:
        assert list_usable_keypoints(["a", "", forty, "a", " \n", more]) == [0, 2, 3, 5]
    assert len(caught) == 1
    blank, long = str(caught[0].message).splitlines()
    assert blank.startswith("Blank keypoints are left out: 2, the first at position 1")
    assert long.startswith("Keypoints of more than 40 words: 1, the first at position 5")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list_usable_keypoints(["a", forty, "a"]) == [0, 1, 2]


# Retrieval


def test_the_greatest_cosines_come_first_whatever_the_lengths() -> None:
    sentences = [[0.0, 9.0], [0.3, 0.4], [50.0, 0.0], [-1.0, 0.0]]
    assert rank_nearest_sentences([[2.0, 0.0], [0.0, 0.1]], sentences, r=3).tolist() == [[2, 1, 0], [0, 1, 2]]
    assert rank_nearest_sentences([[2.0, 0.0]], sentences, r=None).tolist() == [[2, 1, 0, 3]]
    assert rank_nearest_sentences([[2.0, 0.0]], sentences).tolist() == [[2, 1, 0, 3]]


def test_equal_sentences_stay_in_order_at_every_position() -> None:
    """Even where a matrix product would round one of two equal rows differently."""
    random = np.random.default_rng(0)
    for d in (3, 33, 384):
        distinct = random.normal(size=(5, d)).astype(np.float32)
        which = random.integers(0, 5, size=41)
        for ranked in rank_nearest_sentences(random.normal(size=(7, d)).astype(np.float32), distinct[which], r=None):
            groups = which[ranked]
            assert np.count_nonzero(np.diff(groups)) == 4
            assert all((np.diff(ranked[groups == group]) > 0).all() for group in range(5))


def test_retrieval_without_keypoints_or_sentences() -> None:
    assert rank_nearest_sentences([[1.0, 0.0]], []).shape == (1, 0)
    assert rank_nearest_sentences(np.empty((0, 2)), [[1.0, 0.0]]).shape == (0, 0)


def test_retrieval_refuses_what_it_cannot_rank() -> None:
    with pytest.raises(ValueError, match="r is 0: give at least 1 sentence"):
        rank_nearest_sentences([[1.0]], [[1.0]], r=0)
    with pytest.raises(ValueError, match="keypoints have 2 dimensions, sentences 3: embed both with one encoder"):
        rank_nearest_sentences([[1.0, 0.0]], [[1.0, 0.0, 0.0]])
    with pytest.raises(BadFeature, match="row 1 of the sentence features is zero or not finite"):
        rank_nearest_sentences([[1.0, 0.0]], [[1.0, 0.0], [0.0, 0.0]])
    with pytest.raises(BadFeature, match="row 0 of the keypoint features is zero or not finite"):
        rank_nearest_sentences([[math.nan, 0.0]], [[1.0, 0.0]])


@given(st.data())
def test_retrieval_is_the_sort_by_exact_cosine_then_index(data: st.DataObject) -> None:
    """Whole numbers with whole lengths, so that cosines are fractions and ties are real."""
    rows = st.lists(st.sampled_from([(3, 4), (4, 3), (5, 0), (0, 5), (-3, 4), (6, 8), (-5, 0)]), min_size=1, max_size=8)
    keypoints, sentences = data.draw(rows), data.draw(rows)
    r = data.draw(st.none() | st.integers(1, 9))

    def cosine(a: tuple[int, int], b: tuple[int, int]) -> Fraction:
        lengths = math.isqrt(a[0] ** 2 + a[1] ** 2) * math.isqrt(b[0] ** 2 + b[1] ** 2)
        return Fraction(a[0] * b[0] + a[1] * b[1], lengths)

    found = rank_nearest_sentences(keypoints, sentences, r)
    for keypoint, ranked in zip(keypoints, found.tolist(), strict=True):
        # Cosines that differ in truth by less than rounding cannot occur among these.
        expected = sorted(range(len(sentences)), key=lambda j: (-cosine(keypoint, sentences[j]), j))
        got = [cosine(keypoint, sentences[j]) for j in ranked]
        assert got == [cosine(keypoint, sentences[j]) for j in expected[:r]]
        assert all(ranked[i] < ranked[i + 1] for i in range(len(ranked) - 1) if same_row(sentences, ranked, i))


def same_row(sentences: list[tuple[int, int]], ranked: list[int], i: int) -> bool:
    return sentences[ranked[i]] == sentences[ranked[i + 1]]


# Plans


def test_plans_keep_ranks_and_the_queue_holds_each_pair_once() -> None:
    sentences = ["A man.", "A dog.", "A man."]
    plans = choose_premises(["k", "l", "k"], sentences, np.array([[2, 1], [1, 0], [2, 1]]))
    assert plans[0] == RankedPremises("k", (2, 1), ("A man.", "A dog."), tuple(sentences))
    assert plans[0] == plans[2]
    assert plans[1].pairs == [("A dog.", "l"), ("A man.", "l")]
    assert list_unique_pairs(plans) == [("A man.", "k"), ("A dog.", "k"), ("A dog.", "l"), ("A man.", "l")]
    everything = choose_premises(["k"], sentences)[0]
    assert (everything.sentence_indices, everything.n_passes) == ((0, 1, 2), 3)
    assert list_unique_pairs([everything]) == [("A man.", "k"), ("A dog.", "k")]


def test_case_f_passes() -> None:
    vectors = np.eye(5)
    for m, r, passes in [(5, 2, 6), (5, None, 15), (1, 2, 3), (0, 2, 0), (0, None, 0)]:
        nearest = rank_nearest_sentences(vectors[:3], vectors[:m], r)
        plans = choose_premises(["a", "b", "c"], ["s"] * m, nearest)
        assert sum(plan.n_passes for plan in plans) == passes
        assert [len(plan.pairs) for plan in plans] == [passes // 3] * 3


def test_plans_refuse_ranks_of_other_texts() -> None:
    with pytest.raises(ValueError, match="Keypoint 1 is blank: leave it out"):
        choose_premises(["a", " "], ["s"])
    with pytest.raises(ValueError, match=r"nearest has shape \(1, 1\): give one row per keypoint, 2 in all"):
        choose_premises(["a", "b"], ["s"], np.array([[0]]))
    for index in (2, -1):
        with pytest.raises(ValueError, match="nearest names a sentence outside 0 to 1"):
            choose_premises(["a"], ["s", "t"], np.array([[index]]))


# Verdicts


def test_case_e_retrieval_can_miss_what_all_sentences_show() -> None:
    """Cosines .9, .8, .1 and entailment .2, .3, .97 with the threshold .5."""
    cosines = np.array([0.9, 0.8, 0.1])
    sentences = np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1)
    model = TableModel({("s0", "k"): 0.2, ("s1", "k"): 0.3, ("s2", "k"): 0.97})
    expected = {2: KeypointVerdict(0.3, 1, covered=False), 3: KeypointVerdict(0.97, 2, covered=True)}
    for r, verdict in expected.items():
        plans = choose_premises(["k"], ["s0", "s1", "s2"], rank_nearest_sentences([[1.0, 0.0]], sentences, r))
        assert verify_keypoints(plans, model, [0.5]).verdicts == (verdict,)


def test_a_verdict_shows_the_best_sentence_and_the_better_rank_of_two() -> None:
    plan = RankedPremises("k", (7, 2, 5), ("a", "b", "c"))
    assert decide_keypoint(plan, [0.1, 0.6, 0.6], 0.6) == KeypointVerdict(0.6, 2, covered=True)
    assert decide_keypoint(plan, [0.1, 0.6, 0.6], np.nextafter(0.6, 1)) == KeypointVerdict(0.6, 2, covered=False)
    assert decide_keypoint(plan, [0.0, 0.0, 0.0], 0.0) == KeypointVerdict(0.0, 7, covered=True)
    assert decide_keypoint(plan, [0.1, 0.6, 0.6]) == KeypointVerdict(0.6, 2, covered=None)


def test_without_a_sentence_nothing_is_covered_and_no_probability_is_invented() -> None:
    plan = RankedPremises("k", (), ())
    for threshold in (None, 0.0, 0.5):
        assert decide_keypoint(plan, [], threshold) == UNVERIFIED
    assert UNVERIFIED.apply_threshold(-1.0) == UNVERIFIED


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1e-9, 1.0000001])
def test_what_is_no_probability_is_refused_with_its_pair(bad: float) -> None:
    plan = RankedPremises("the keypoint", (0, 1), ("first", "second"))
    message = f"The probability that 'second' entails 'the keypoint' is {bad}: check the verifier"
    with pytest.raises(ValueError, match=message):
        decide_keypoint(plan, [0.5, bad], 0.4)
    model = TableModel({("first", "the keypoint"): 0.3, ("second", "the keypoint"): bad})
    with pytest.raises(ValueError, match=message):
        verify_keypoints([plan], model, [0.4])


def test_numbers_must_fit_the_plan() -> None:
    plan = RankedPremises("k", (0, 1), ("first", "second"))
    with pytest.raises(
        ValueError, match="The number of probabilities is 1, that of sentences of the keypoint 'k' is 2"
    ):
        decide_keypoint(plan, [0.5])
    with pytest.raises(ValueError, match="The threshold is NaN"):
        decide_keypoint(plan, [0.5, 0.6], math.nan)
    model = TableModel({})
    with pytest.raises(ValueError, match="The number of thresholds is 2, that of keypoints 1"):
        verify_keypoints([plan], model, [0.5, 0.5])
    assert model.batches == []


def test_thresholds_by_dimension() -> None:
    thresholds = Thresholds({"events": 0.8, "camera": 0.0})
    assert (thresholds.require_threshold("events"), thresholds.require_threshold("camera")) == (0.8, 0.0)
    with pytest.raises(ValueError, match="There is no threshold for 'speech': calibrate it, or give a default"):
        thresholds.require_threshold("speech")
    assert Thresholds({}, default=0.0).require_threshold("speech") == 0.0


# The whole way against loops


@dataclasses.dataclass
class Clip:
    keypoints: list[str]
    sentences: list[str]
    keypoint_vectors: np.ndarray
    sentence_vectors: np.ndarray
    thresholds: list[float]


HUNDREDTHS = st.integers(0, 10).map(lambda tenths: tenths / 10)
TEXTS = "abcd"


@st.composite
def clips(draw: st.DrawFn) -> Clip:
    """Few texts, so that pairs repeat; few vectors, so that cosines tie."""
    keypoints, sentences = (draw(st.lists(st.sampled_from(TEXTS), max_size=6)) for _ in range(2))
    vector = st.sampled_from([(1.0, 0.0), (0.0, 1.0), (0.6, 0.8), (-1.0, 0.0)])
    vectors = [np.array([draw(vector) for _ in texts]).reshape(-1, 2) for texts in (keypoints, sentences)]
    return Clip(keypoints, [s.upper() for s in sentences], *vectors, [draw(HUNDREDTHS) for _ in keypoints])


answer_tables = st.lists(HUNDREDTHS, min_size=16, max_size=16).map(
    lambda values: dict(zip(product(TEXTS.upper(), TEXTS), values, strict=True))
)


def verdict_by_loops(clip: Clip, k: int, answers: dict[Pair, float], r: int | None) -> KeypointVerdict:
    """Section 2 of the specification, one step after the other."""
    ranked = sorted(
        range(len(clip.sentences)),
        key=lambda j: (-float(clip.sentence_vectors[j] @ clip.keypoint_vectors[k]), j),
    )[:r]
    best, where = None, None
    for j in ranked:
        probability = answers[clip.sentences[j], clip.keypoints[k]]
        if best is None or probability > best:
            best, where = probability, j
    return KeypointVerdict(best, where, best is not None and best >= clip.thresholds[k])


@given(st.lists(clips(), max_size=3), answer_tables, st.none() | st.integers(1, 7))
def test_all_captions_in_one_queue_equal_loops(shard: list[Clip], answers: dict[Pair, float], r: int | None) -> None:
    plans, thresholds, expected = [], [], []
    for clip in shard:
        plans += choose_premises(
            clip.keypoints, clip.sentences, rank_nearest_sentences(clip.keypoint_vectors, clip.sentence_vectors, r)
        )
        thresholds += clip.thresholds
        expected += [verdict_by_loops(clip, k, answers, r) for k in range(len(clip.keypoints))]
    model = TableModel(answers)
    full = verify_keypoints(plans, model, thresholds)
    assert list(full.verdicts) == expected
    assert full.n_passes == sum(len(clip.keypoints) * len(clip.sentences[:r]) for clip in shard)
    asked = [pair for batch in model.batches for pair in batch]
    assert len(model.batches) <= 1
    assert full.n_pairs == len(asked) == len(set(asked))
    assert set(asked) == {pair for plan in plans for pair in plan.pairs}

    # Other thresholds need no model: the open verdicts of calibration decide as the model's own run would.
    undecided = verify_keypoints(plans, TableModel(answers)).verdicts
    assert [verdict.apply_threshold(level) for verdict, level in zip(undecided, thresholds, strict=True)] == expected
    moved = [0.35] * len(plans)
    assert [verdict.apply_threshold(0.35) for verdict in full.verdicts] == list(
        verify_keypoints(plans, TableModel(answers), moved).verdicts
    )


@given(clips(), answer_tables, st.sampled_from(TEXTS.upper()))
def test_on_all_sentences_another_sentence_never_lowers_a_probability(
    clip: Clip, answers: dict[Pair, float], added: str
) -> None:
    before, after = (
        verify_keypoints(choose_premises(clip.keypoints, sentences), TableModel(answers)).verdicts
        for sentences in (clip.sentences, [*clip.sentences, added])
    )
    assert all((old.probability or 0.0) <= new.probability for old, new in zip(before, after, strict=True))


def test_cut_premises_are_counted_once_for_each_pair() -> None:
    longs = ["A premise beyond the twenty characters.", "Another premise beyond the twenty."]
    plans = choose_premises(["k", "l", "k"], [longs[0], "short", longs[1]])
    full = verify_keypoints(plans, TableModel(dict.fromkeys(list_unique_pairs(plans), 0.1)), [0.5] * 3)
    assert (full.n_passes, full.n_pairs, full.n_truncated) == (9, 6, 4)


# Keypoints of several sentences


def test_parts_of_a_keypoint() -> None:
    parts = [KeypointVerdict(0.9, 4, None), KeypointVerdict(0.4, 1, None), KeypointVerdict(0.8, 2, None)]
    assert combine_part_verdicts(parts, "all", 0.5) == KeypointVerdict(0.4, 1, covered=False)
    assert combine_part_verdicts(parts, "all", 0.4) == KeypointVerdict(0.4, 1, covered=True)
    assert combine_part_verdicts(parts, "mean", 0.5) == KeypointVerdict(pytest.approx(0.7), 1, covered=True)
    assert combine_part_verdicts(parts, "mean").covered is None
    assert combine_part_verdicts([UNVERIFIED, UNVERIFIED], "mean", 0.5) == UNVERIFIED
    with pytest.raises(ValueError, match="There are no parts"):
        combine_part_verdicts([])
    with pytest.raises(ValueError, match="how is 'max'"):
        combine_part_verdicts(parts, "max")  # type: ignore[arg-type]  # what a caller without types may give


# Scores


def test_case_g_micro_and_macro() -> None:
    dimensions = ["events"] * 4 + ["camera"]
    verdicts = [covered(), missed(), covered(), missed(), covered()]
    names = ["speech", "events"]
    micro = compute_flat_score(dimensions, verdicts, names=names)
    macro = compute_flat_score(dimensions, verdicts, mode="flat_macro", names=names)
    by_dimension = {"speech": None, "events": 0.5, "camera": 1.0}
    counts = {"speech": (0, 0), "events": (2, 4), "camera": (1, 1)}
    assert micro == ECSResult("flat_micro", "ok", 0.6, by_dimension, counts)
    assert macro == ECSResult("flat_macro", "ok", 0.75, by_dimension, counts)
    assert list(micro.by_dimension) == list(by_dimension)
    assert micro.reason is None


def test_a_caption_that_covers_nothing_is_scored() -> None:
    result = compute_flat_score(["events", "camera"], [missed(), missed()])
    assert (result.status, result.score, result.reason) == ("ok", 0.0, None)


def test_flat_scores_without_caption_or_checklist() -> None:
    nothing = compute_flat_score(["events", "camera"], [UNVERIFIED, UNVERIFIED])
    assert (nothing.status, nothing.score, nothing.by_dimension) == ("no_prediction", 0.0, {"events": 0, "camera": 0})
    assert nothing.reason == "the caption has no sentence, so no keypoint is covered"
    for mode in ("flat_micro", "flat_macro"):
        empty = compute_flat_score([], [], mode=mode, names=["events"])
        assert (empty.status, empty.score, empty.by_dimension) == ("no_reference", None, {"events": None})
        assert empty.reason == "there is no keypoint to cover"


def test_scores_refuse_open_verdicts_and_wrong_numbers() -> None:
    with pytest.raises(ValueError, match="The verdict on keypoint 1 is open: decide it at a threshold first"):
        compute_flat_score(["a", "b"], [covered(), KeypointVerdict(0.4, 0, covered=None)])
    with pytest.raises(ValueError, match="The number of dimensions is 1, that of verdicts 2"):
        compute_flat_score(["a"], [covered(), missed()])
    with pytest.raises(ValueError, match="mode is 'sodam'"):
        compute_flat_score(["a"], [covered()], mode="sodam")  # type: ignore[arg-type]  # what a caller without types may give


REFERENCES_A = [[0, 10], [10, 20], [20, 30], [30, 40]]
PREDICTIONS_A = [[0, 5], [5, 10], [10, 22], [22, 30]]
DIMENSIONS_A = [
    ["events", "events", "events", "camera"],
    ["events", "events", "events", "events", "camera"],
    ["events"],
    ["events", "events"],
]
VERDICTS_A = [
    [covered(), covered(), missed(), covered()],
    [covered(), missed(), missed(), missed(), missed()],
    [covered()],
    [UNVERIFIED, UNVERIFIED],
]


def test_case_a_along_the_alignment() -> None:
    alignment = align(REFERENCES_A, PREDICTIONS_A)
    result = compute_sodam_score(alignment, DIMENSIONS_A, VERDICTS_A, n_sentences=9, names=["speech", "camera"])
    assert (result.mode, result.status) == ("sodam", "ok")
    assert result.score == pytest.approx(3.9 / 7)
    assert result.by_dimension == {"speech": None, "camera": 0.5, "events": pytest.approx(0.547619048, abs=1e-9)}
    assert result.covered_counts == {"speech": (0, 0), "camera": (1, 2), "events": (4, 10)}
    assert result.sodam_result is not None
    assert (result.sodam_result.precision, result.sodam_result.recall) == (pytest.approx(0.65), pytest.approx(0.4875))
    assert [pair.coverage for pair in result.sodam_result.segment_scores] == [0.75, 0.2, 1.0]

    official = align(REFERENCES_A, PREDICTIONS_A, compat="official")
    compared = compute_sodam_score(official, DIMENSIONS_A, VERDICTS_A, n_sentences=9, compat="official")
    assert compared.by_dimension["camera"] == pytest.approx(0.285714286, abs=1e-9)
    macro = compute_sodam_score(
        alignment, DIMENSIONS_A, VERDICTS_A, n_sentences=9, segment_average="macro"
    ).sodam_result
    assert macro is not None
    assert [pair.coverage for pair in macro.segment_scores] == [pytest.approx((2 / 3 + 1) / 2), 0.125, 1.0]


def test_segments_are_verified_on_the_text_merged_into_them() -> None:
    """From timed texts to the score, in the order in which a platform does it."""
    references, predictions = [[0, 10], [10, 20], [20, 30]], [[0, 6], [6, 10], [10, 20]]
    texts = ["[events]\tA man sits.", "He waves.", "A dog."]
    keypoints = [["sits", "waves"], ["waves"], ["dog"]]
    alignment = align(references, predictions)
    premises = merge_texts(texts, alignment)
    sentences = [split_premises(premises.get(i, ""), RuleSplitter()) for i in range(3)]
    assert sentences == [["A man sits.", "He waves."], ["A dog."], []]
    plans = [choose_premises(*segment) for segment in zip(keypoints, sentences, strict=True)]
    flat = [plan for segment in plans for plan in segment]
    model = TableModel({pair: float(pair[1] in pair[0]) for pair in list_unique_pairs(flat)})
    verdicts = iter(verify_keypoints(flat, model, [0.5] * len(flat)).verdicts)
    by_segment = [[next(verdicts) for _ in segment] for segment in plans]
    assert by_segment == [
        [KeypointVerdict(1.0, 0, covered=True), KeypointVerdict(1.0, 1, covered=True)],
        [KeypointVerdict(0.0, 0, covered=False)],
        [UNVERIFIED],
    ]
    dimensions = [["events"] * len(segment) for segment in keypoints]
    n_sentences = sum(len(split_premises(text, RuleSplitter())) for text in texts)
    result = compute_sodam_score(alignment, dimensions, by_segment, n_sentences=n_sentences)
    assert result.score == pytest.approx(2 * 1 / (2 + 3))


def test_timed_captions_without_text_or_checklist() -> None:
    alignment = align(REFERENCES_A, PREDICTIONS_A)
    unverified = [[UNVERIFIED] * len(segment) for segment in DIMENSIONS_A]
    wordless = compute_sodam_score(alignment, DIMENSIONS_A, unverified, n_sentences=0)
    absent = compute_sodam_score(align(REFERENCES_A, []), DIMENSIONS_A, unverified, n_sentences=0)
    assert wordless == absent
    assert (absent.status, absent.score) == ("no_prediction", 0.0)
    assert absent.sodam_result is not None
    assert (absent.sodam_result.precision, absent.sodam_result.recall) == (None, 0.0)
    # True words at the wrong time are a prediction, and score 0.
    late = compute_sodam_score(align([[0, 1]], [[5, 6]]), [["events"]], [[UNVERIFIED]], n_sentences=1)
    assert (late.status, late.score) == ("ok", 0.0)
    for references, dimensions in (([], []), ([[0, 1]], [[]])):
        empty = compute_sodam_score(
            align(references, [[0, 1]]), dimensions, dimensions, n_sentences=1, names=["events"]
        )
        assert (empty.status, empty.score, empty.by_dimension) == ("no_reference", None, {"events": None})


@given(st.lists(st.lists(st.tuples(st.sampled_from("xyz"), st.booleans()), max_size=4), min_size=1, max_size=4))
def test_sodam_mode_is_the_score_of_the_counts(segments: list[list[tuple[str, bool]]]) -> None:
    spans = [[i, i + 1] for i in range(len(segments))]
    alignment = align(spans, [[0.2, 1.4], [2.0, 2.5]])
    counts = [
        {d: (sum(c for e, c in segment if e == d), sum(e == d for e, _ in segment)) for d in {e for e, _ in segment}}
        for segment in segments
    ]
    result = compute_sodam_score(
        alignment,
        [[d for d, _ in segment] for segment in segments],
        [[covered() if c else missed() for _, c in segment] for segment in segments],
        n_sentences=2,
    )
    expected = score_alignment(alignment, counts)
    assert result.sodam_result is not None
    assert (result.score, result.sodam_result.precision, result.sodam_result.recall) == (
        expected.f1,
        expected.precision,
        expected.recall,
    )
    assert result.by_dimension == {name: each.f1 for name, each in expected.by_dimension.items()}


def test_modes() -> None:
    both, neither = {"timed_reference": True, "timed_prediction": True}, {"timed_reference": False}
    assert choose_mode("auto", **both) == "sodam"
    assert choose_mode("auto", timed_prediction=True, **neither) == "flat_micro"
    assert choose_mode("auto", timed_reference=True, timed_prediction=False) == "flat_micro"
    assert choose_mode("flat_macro", **both) == "flat_macro"
    assert choose_mode("sodam", **both) == "sodam"
    with pytest.raises(ValueError, match='The prediction has no times, which mode "sodam" needs'):
        choose_mode("sodam", timed_reference=True, timed_prediction=False)
    with pytest.raises(ValueError, match="The reference has no times"):
        choose_mode("sodam", timed_prediction=True, **neither)
    with pytest.raises(ValueError, match="mode is 'best'"):
        choose_mode("best", **both)  # type: ignore[arg-type]  # what a caller without types may give
