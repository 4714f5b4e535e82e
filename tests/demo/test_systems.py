"""The six systems: each is wrong in exactly the way its name says."""

from __future__ import annotations

import re
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.demo.describe import Sentence, build_keypoints, describe_clip
from lab.demo.ratings import ASPECTS, compute_quality, has_statement, rate_candidate
from lab.demo.systems import SYSTEMS, Candidate, draw_scattered_order, find_least_similar_clip
from lab.demo.wording import NUMBERS, TIMES
from lab.demo.world import BACKDROP_COLOURS, COLOURS, DemoClip

Captioned = list[tuple[DemoClip, dict[str, Candidate]]]


def texts(candidate: Candidate) -> list[str]:
    return [sentence.text for sentence in candidate.sentences]


@given(st.integers(4, 25), st.integers())
def test_scattered_order_moves_everything_and_parts_all_neighbours(n: int, seed: int) -> None:
    order = draw_scattered_order(n, Random(seed))
    assert sorted(order) == list(range(n))
    assert all(place != item for place, item in enumerate(order))
    assert all(b != a + 1 for a, b in pairwise(order))


def test_too_few_sentences_cannot_be_scattered() -> None:
    with pytest.raises(ValueError, match="cannot scatter 3 sentences"):
        draw_scattered_order(3, Random(0))


def test_shuffled_is_a_derangement_of_faithful(captioned: Captioned) -> None:
    for _, made in captioned:
        faithful, shuffled = texts(made["sys_faithful"]), texts(made["sys_shuffled"])
        assert sorted(faithful) == sorted(shuffled)
        assert all(one != two for one, two in zip(faithful, shuffled, strict=True))


def test_hallucinating_replaces_half_of_the_sentences(captioned: Captioned) -> None:
    for clip, made in captioned:
        faithful, wrong = texts(made["sys_faithful"]), texts(made["sys_hallucinating"])
        assert len(wrong) == len(faithful)
        changed = [i for i, (a, b) in enumerate(zip(faithful, wrong, strict=True)) if a != b]
        assert len(changed) == len(faithful) // 2
        pairs = {(named.shape, named.colour) for m in clip.list_moments() for named in m.statement.named_looks}
        for i in changed:
            for fact in made["sys_hallucinating"].sentences[i].statements:
                assert fact not in [m.statement for m in clip.list_moments()]
                assert not {(named.shape, named.colour) for named in fact.named_looks} & pairs


def test_wrong_details_keeps_every_word_but_colours_and_numbers(captioned: Captioned) -> None:
    vague = {*COLOURS, *BACKDROP_COLOURS, *NUMBERS.values(), "twice", "times", "a", "an"}

    def skeleton(text: str) -> list[str]:
        return [w for w in re.findall(r"\w+", text.lower()) if w not in vague]

    def named_colours(sentence: Sentence) -> set[str]:
        if sentence.statements[0].kind == "style":
            return set()  # a black bar or a white border is part of the style
        return set(re.findall(r"\w+", sentence.text)) & {*COLOURS, *BACKDROP_COLOURS}

    for _, made in captioned:
        for true, wrong in zip(made["sys_faithful"].sentences, made["sys_wrong_details"].sentences, strict=True):
            assert skeleton(true.text) == skeleton(wrong.text)
            assert bool(named_colours(true)) == bool(named_colours(wrong))
            assert not named_colours(true) & named_colours(wrong)


def test_brief_states_four_true_facts_in_two_sentences(captioned: Captioned) -> None:
    for clip, made in captioned:
        brief = made["sys_brief"]
        assert brief.text.count(".") == 2
        assert len(set(brief.statements) & {m.statement for m in clip.list_moments()}) == len(brief.statements) == 4


def test_offtopic_is_the_faithful_account_of_another_clip(clips: list[DemoClip], captioned: Captioned) -> None:
    for index, (clip, made) in enumerate(captioned):
        other = find_least_similar_clip(clips, index)
        assert other is not clip
        assert made["sys_offtopic"].sentences == describe_clip(other, "faithful")
        shared = set(made["sys_offtopic"].statements) & {m.statement for m in clip.list_moments()}
        assert not shared


def test_labels_agree_with_the_words_of_the_candidate(captioned: Captioned) -> None:
    """The oracle reads text only: a keypoint is covered when the faithful sentence behind it was kept."""
    for clip, made in captioned:
        sentence_of = {f: s.text for s in made["sys_faithful"].sentences for f in s.statements}
        for system in ("sys_faithful", "sys_brief", "sys_hallucinating", "sys_shuffled", "sys_offtopic"):
            told = made[system].text.lower()
            for point in build_keypoints(clip):
                kept = sentence_of[point.statement].lower().removesuffix(".") in told
                assert has_statement(made[system], point.statement) == kept, (system, point.text)


def test_wrong_details_cover_what_has_neither_colour_nor_number(captioned: Captioned) -> None:
    detail = {*COLOURS, *BACKDROP_COLOURS, *TIMES.values(), "two", "three", "four"}
    for clip, made in captioned:
        for point in build_keypoints(clip):
            # The styles are told by their black bars and white borders, which belong to the style.
            exact = point.dimension != "shooting_style" and any(word in point.text for word in detail)
            assert has_statement(made["sys_wrong_details"], point.statement) == (not exact)


def test_quality_of_the_extremes(captioned: Captioned) -> None:
    for clip, made in captioned:
        assert compute_quality(clip, made["sys_faithful"]) == dict.fromkeys(ASPECTS, 1.0)
        assert compute_quality(clip, made["sys_offtopic"]) == dict.fromkeys(ASPECTS, 0.0)
        shuffled = compute_quality(clip, made["sys_shuffled"])
        assert (shuffled["coverage"], shuffled["factuality"]) == (1.0, 1.0)
        assert shuffled["chronology"] < 0.7
        wrong = compute_quality(clip, made["sys_wrong_details"])
        assert wrong["chronology"] == 1.0 > wrong["factuality"]


def test_ratings_are_whole_numbers_marked_synthetic_and_repeat(captioned: Captioned) -> None:
    for clip, made in captioned:
        for candidate in made.values():
            rows = rate_candidate(clip, candidate)
            assert rows == rate_candidate(clip, candidate)
            assert len({(row["rater"], row["aspect"]) for row in rows}) == len(rows) == 6
            assert all(row["value"] in (1, 2, 3, 4, 5) and row["synthetic"] is True for row in rows)


def test_mean_ratings_rank_the_systems(captioned: Captioned) -> None:
    def mean(system: str, aspect: str) -> float:
        values = [
            row["value"]
            for clip, made in captioned
            for row in rate_candidate(clip, made[system])
            if row["aspect"] == aspect
        ]
        return sum(int(str(value)) for value in values) / len(values)

    table = {(system, aspect): mean(system, aspect) for system in SYSTEMS for aspect in ASPECTS}
    for aspect in ASPECTS:
        assert table["sys_faithful", aspect] > 4.7
        assert table["sys_offtopic", aspect] < 1.3
    for aspect in ("coverage", "factuality"):
        assert 2 < table["sys_hallucinating", aspect] < 4 < table["sys_shuffled", aspect]
        assert table["sys_wrong_details", aspect] < table["sys_shuffled", aspect] - 1
    assert table["sys_brief", "coverage"] < 2.5 < 4.7 < table["sys_brief", "factuality"]
    assert table["sys_shuffled", "chronology"] < 2.5 < table["sys_wrong_details", "chronology"]
