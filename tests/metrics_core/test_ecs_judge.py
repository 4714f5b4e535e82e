"""A chat model as the judge of keypoints: every keypoint labelled once, by a sentence there is, or no label at all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.ecs.judge import (
    KEYPOINTS_PER_REQUEST,
    MAX_ATTEMPTS,
    PROMPT_VERSION,
    CaptionKeypoints,
    CaptionLabels,
    ChatJudge,
    InvalidLabels,
    KeypointLabel,
    build_label_request,
    build_label_schema,
    parse_labels,
)
from metrics_core.models.chat.bookkeeping import check_request
from metrics_core.models.chat.protocol import ChatReply, ChatRequest
from metrics_core.protocols import ModelIdentity
from tests.metrics_core.qeva_fakes import RuleChat, question_of, seen_in

CAPTION = CaptionKeypoints(("A dog runs.", "It\nbarks."), ("A dog barks.", "A cat sleeps.", "A dog runs."))
NO = KeypointLabel(False, None)


def numbered(text: str) -> list[str]:
    """The lines of a numbered list, without their numbers; what follows the list is left out."""
    lines = text.split("\n\n")[0].splitlines()[1:]
    assert [line.split(". ", 1)[0] for line in lines] == [str(i + 1) for i in range(len(lines))]
    return [line.split(". ", 1)[1] for line in lines]


def by_last_word(request: ChatRequest) -> dict[str, Any]:
    """Covered by the first statement with the same last word, listed from the last keypoint to the first."""
    statements = [text.split()[-1] for text in numbered(seen_in(request))]
    keypoints = [text.split()[-1] for text in numbered(question_of(request))]
    found = [statements.index(word) + 1 if word in statements else 0 for word in keypoints]
    return {"labels": [entry(i + 1, n > 0, n) for i, n in reversed(list(enumerate(found)))]}


def entry(keypoint: int, covered: bool, sentence: int) -> dict[str, Any]:
    return {"keypoint": keypoint, "covered": covered, "sentence": sentence}


# Judging


def test_labels_come_in_the_order_of_the_keypoints() -> None:
    judge = ChatJudge(RuleChat(by_last_word))
    assert judge.label_keypoints([CAPTION]) == [CaptionLabels((KeypointLabel(True, 1), NO, KeypointLabel(True, 0)))]
    assert judge.identity == ModelIdentity("rule", "1", {"temperature": 0.0, "prompt": PROMPT_VERSION})
    assert judge.label_keypoints([]) == []


def test_a_caption_that_says_nothing_is_not_sent() -> None:
    chat = RuleChat(by_last_word)
    silent, said = ChatJudge(chat).label_keypoints([CaptionKeypoints((), ("A dog.", "A cat.")), CAPTION])
    assert silent == CaptionLabels((NO, NO))
    assert said.status == "ok"
    assert [len(batch) for batch in chat.batches] == [1]


def test_statements_and_keypoints_are_numbered_lines() -> None:
    request = build_label_request(CAPTION)
    check_request(request)
    assert numbered(seen_in(request)) == ["A dog runs.", "It barks."]
    assert numbered(question_of(request)) == list(CAPTION.keypoints)
    assert (request.temperature, request.prompt_version) == (0.0, PROMPT_VERSION)


def test_many_keypoints_are_asked_about_in_parts() -> None:
    n = 2 * KEYPOINTS_PER_REQUEST + 1
    caption = CaptionKeypoints(("It is 3", "It is 85"), tuple(f"It is {i}" for i in range(n)))
    chat = RuleChat(by_last_word)
    (judged,) = ChatJudge(chat).label_keypoints([caption])
    assert [len(numbered(question_of(request))) for request in chat.batches[0]] == [40, 40, 1]
    assert len(judged.labels) == n
    assert {i: label.sentence for i, label in enumerate(judged.labels) if label.covered} == {3: 0}
    # One part that fails leaves the caption without labels.
    refused = ChatReply("refused", reason="no")
    half = RuleChat(lambda request: refused if "It is 80" in question_of(request) else by_last_word(request))
    assert ChatJudge(half).label_keypoints([caption]) == [CaptionLabels((), "refused", "no")]


@pytest.mark.parametrize(
    ("reply", "want"),
    [
        (ChatReply("refused", reason="declined"), CaptionLabels((), "refused", "declined")),
        (ChatReply("malformed", reason="no JSON"), CaptionLabels((), "failed", "no JSON")),
        (ChatReply("error", reason="no server"), CaptionLabels((), "failed", "no server")),
        (ChatReply("stopped"), CaptionLabels((), "failed", "the model gave no answer (status stopped)")),
    ],
)
def test_a_failure_is_no_label(reply: ChatReply, want: CaptionLabels) -> None:
    chat = RuleChat(lambda request: reply if "cat" in question_of(request) else by_last_word(request))
    good = CaptionKeypoints(("A dog runs.",), ("A dog runs.",))
    assert ChatJudge(chat).label_keypoints([CAPTION, good]) == [want, CaptionLabels((KeypointLabel(True, 0),))]
    # The client has tried again already.
    assert len(chat.batches) == 1


def test_an_answer_that_makes_no_sense_is_asked_for_again_with_another_seed() -> None:
    twice = {"labels": [entry(1, False, 0)] * 3}
    better = RuleChat(lambda request: by_last_word(request) if request.seed else twice)
    (judged,) = ChatJudge(better).label_keypoints([CAPTION])
    assert judged.status == "ok"
    assert [[request.seed for request in batch] for batch in better.batches] == [[0], [100]]
    never = RuleChat(lambda request: twice)
    (judged,) = ChatJudge(never).label_keypoints([CAPTION])
    assert judged == CaptionLabels(
        (), "failed", "the model's labels make no sense (keypoint 'A dog barks.' is labelled twice): name another judge"
    )
    assert len(never.batches) == MAX_ATTEMPTS


# Reading


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([entry(1, False, 0)], "keypoint 'b' has no label"),
        ([entry(1, False, 0), entry(1, True, 1)], "keypoint 'a' is labelled twice"),
        ([entry(1, False, 0), entry(3, False, 0)], "keypoint 3 does not exist, since the request has 2"),
        ([entry(0, False, 0), entry(1, False, 0)], "keypoint 0 does not exist, since the request has 2"),
        ([entry(1, True, 4), entry(2, False, 0)], "sentence 4 does not exist, since the caption has 3"),
        ([entry(1, True, 0), entry(2, False, 0)], "keypoint 'a' is labelled as covered, but no sentence covers it"),
        ([entry(1, False, 2), entry(2, False, 0)], "keypoint 'a' is labelled as not covered, but sentence 2 covers it"),
    ],
)
def test_labels_that_make_no_sense_are_refused(entries: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(InvalidLabels) as caught:
        parse_labels({"labels": entries}, "ab", 3)
    assert str(caught.value) == why


@given(st.data())
def test_what_is_read_is_what_was_said(data: st.DataObject) -> None:
    n_sentences = data.draw(st.integers(1, 5))
    said = data.draw(st.lists(st.integers(0, n_sentences), min_size=1, max_size=6))
    entries = data.draw(st.permutations([entry(i + 1, n > 0, n) for i, n in enumerate(said)]))
    found = parse_labels({"labels": entries}, ["A dog."] * len(said), n_sentences)
    assert [label.sentence for label in found] == [n - 1 if n else None for n in said]
    assert [label.covered for label in found] == [n > 0 for n in said]


def test_the_schema_bounds_every_number() -> None:
    labels = build_label_schema(7, 3)["properties"]["labels"]
    assert (labels["minItems"], labels["maxItems"]) == (7, 7)
    members = labels["items"]["properties"]
    assert (members["keypoint"]["minimum"], members["keypoint"]["maximum"]) == (1, 7)
    assert (members["sentence"]["minimum"], members["sentence"]["maximum"]) == (0, 3)
    assert set(labels["items"]["required"]) == set(members) == {"keypoint", "covered", "sentence"}
