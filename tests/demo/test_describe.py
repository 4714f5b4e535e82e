"""Sentences, keypoints and questions."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from random import Random

from lab.demo.describe import build_demo_questions, build_keypoints, describe_clip, format_sentence
from lab.demo.story import make_clip
from lab.demo.wording import VOICES
from lab.demo.world import COLOURS, FPS, SHAPES, DemoClip

TELLERS = ("annotator_a", "annotator_b", "faithful")


def test_every_voice_tells_every_fact_once_in_10_to_20_sentences() -> None:
    for seed in range(150):
        clip = make_clip(seed)
        facts = Counter(moment.statement for moment in clip.list_moments())
        for voice in TELLERS:
            told = describe_clip(clip, voice)
            assert 10 <= len(told) <= 20
            assert Counter(fact for sentence in told for fact in sentence.statements) == facts


def test_segments_are_ordered_and_end_within_the_clip() -> None:
    for seed in range(150):
        clip = make_clip(seed)
        for voice in TELLERS:
            told = describe_clip(clip, voice)
            assert told[0].start_s == 0
            assert all(s.start_s < s.end_s <= clip.n_frames / FPS for s in told)
            assert all(a.end_s <= b.start_s for a, b in pairwise(told))


def test_events_are_told_while_they_happen(clips: list[DemoClip]) -> None:
    for clip in clips:
        spans = {moment.statement: (moment.start, moment.end) for moment in clip.list_moments()}
        for voice in TELLERS:
            for sentence in describe_clip(clip, voice):
                for fact in sentence.statements:
                    start, end = spans[fact]
                    assert start / FPS - 0.001 <= sentence.start_s
                    assert sentence.end_s <= end / FPS


def test_sentences_are_clean_and_distinct(clips: list[DemoClip]) -> None:
    for clip in clips:
        for voice in TELLERS:
            texts = [sentence.text for sentence in describe_clip(clip, voice)]
            assert len(set(texts)) == len(texts)
            assert all(re.fullmatch(r"[A-Z][A-Za-z ,-]+\.", text) for text in texts), texts
            assert not any("  " in text or " the the " in text for text in texts)


def test_voices_word_the_same_event_differently(clips: list[DemoClip]) -> None:
    same = total = 0
    for clip in clips:
        by_voice = [{s.statements[0]: s.text for s in describe_clip(clip, voice)} for voice in TELLERS]
        for fact in {event.statement for event in clip.events}:
            texts = {told[fact] for told in by_voice}
            same += len(texts) < 3
            total += 1
    assert same / total < 0.03


def test_indefinite_articles_and_plurals() -> None:
    text = " ".join(s.text for seed in range(200) for v in TELLERS for s in describe_clip(make_clip(seed), v))
    assert not re.search(r"\b[Aa] [aeio]|\b[Aa]n [^aeio]", text)
    singular = rf"\b(two|three|four) (\w+ )?({'|'.join(COLOURS)}) ({'|'.join(SHAPES)})\b(?! (sign|shape|moon)s)"
    assert not re.search(singular, text)


def test_keypoints_name_the_segment_of_the_first_reference_that_states_them(clips: list[DemoClip]) -> None:
    for clip in clips:
        reference = describe_clip(clip, "annotator_a")
        points = build_keypoints(clip)
        assert [p.statement for p in points] == [m.statement for m in clip.list_moments()]
        assert all(p.statement in reference[p.segment_index].statements for p in points)
        assert {"segment_detail", "video_background", "shooting_style", "camera_state"} == {p.dimension for p in points}


def test_good_answers_are_true_sentences_and_noisy_ones_single_words(clips: list[DemoClip]) -> None:
    for clip in clips:
        true = {sentence.text for sentence in describe_clip(clip, "faithful")}
        asked = build_demo_questions(clip)
        assert len({q.question for q in asked}) == len(asked) == 4
        for q in asked:
            assert q.question.endswith("?")
            assert set(re.findall(r"[^.]+\.", q.answer)) <= {*true, *(f" {text}" for text in true)}
            assert re.fullmatch(r"\w+", q.noisy_answer)


def test_the_question_about_a_second_is_about_the_event_of_that_second(clips: list[DemoClip]) -> None:
    for clip in clips:
        asked = build_demo_questions(clip)[1]
        second = float(re.findall(r"\d+\.\d", asked.question)[0])
        told = [s.text for s in describe_clip(clip, "faithful") if s.start_s <= second <= s.end_s]
        assert asked.answer in told


def test_every_voice_can_word_every_fact() -> None:
    facts = {m.statement.kind: m.statement for seed in range(200) for m in make_clip(seed).list_moments()}
    assert len(facts) == 26  # 16 acts, 4 camera moves, static, pattern, palette, style, waits, remains
    for kind, fact in facts.items():
        for voice in VOICES:
            if kind in ("pattern", "palette") and voice in ("annotator_a", "faithful"):
                continue  # these two tell pattern and palette in one sentence
            assert format_sentence((fact,), voice, Random(0)).endswith(".")
