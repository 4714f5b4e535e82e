"""Answers by entailment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from metrics_core.ecs.verifier import make_offline_verifier, read_pair_threshold
from metrics_core.models.nli_inputs import HypothesisTooLong
from metrics_core.models.sentence_splitter import RuleSplitter
from metrics_core.models.text_encoder import SentenceTransformerEncoder
from metrics_core.protocols import Entailments
from metrics_core.qeva.chronology import build_chronology_questions
from metrics_core.qeva.offline.answerers import TOO_LONG, EntailmentAnswerer
from metrics_core.qeva.offline.statement_evidence import StatementEvidence, gather_evidence, locate_event
from metrics_core.qeva.records import Context, ContextQuestion, Question, Reply, VideoAsFrames, VideoNotes
from tests.metrics_core.qeva_small_models import KnownPairs, KnownVectors, ShortPairs

SUMMARY = "A man cooks. Then he eats. A cat sleeps."
EVENTS = ("he prepares a meal", "he has lunch", "an animal rests")
PAIRS = {
    ("A man cooks.", "he prepares a meal"): 0.9,
    ("Then he eats.", "he has lunch"): 0.8,
    ("A cat sleeps.", "an animal rests"): 0.7,
}


def answerer(pairs: dict[tuple[str, str], float] = PAIRS, **settings: bool | int) -> EntailmentAnswerer:
    return EntailmentAnswerer(KnownPairs(pairs), 0.5, RuleSplitter(), **settings)  # type: ignore[arg-type]


def whether(statement: str) -> Question:
    return Question("coverage", "yes_no", "Is this so?", "yes", ("yes", "no"), statements=(statement,))


def reply(question: Question, context: Context, by: EntailmentAnswerer | None = None) -> Reply:
    (given,) = (by or answerer()).answer([ContextQuestion(question, context)])
    return given


def test_a_sentence_that_reaches_the_threshold_affirms() -> None:
    given = reply(whether("he has lunch"), SUMMARY)
    assert (given.status, given.normalised, given.evidence, given.score) == ("ok", "yes", "Then he eats.", 0.8)


def test_nothing_that_supports_it_is_an_abstention_and_forced_a_no() -> None:
    given = reply(whether("he sings"), SUMMARY)
    assert (given.status, given.normalised, given.score) == ("abstain", None, 0.0)
    assert reply(whether("he sings"), SUMMARY, answerer(forced=True)).normalised == "no"


def test_the_threshold_itself_affirms() -> None:
    assert reply(whether("he sings"), "He hums.", answerer({("He hums.", "he sings"): 0.5})).normalised == "yes"


def test_the_statement_s_own_words_affirm_it_without_the_model() -> None:
    by = answerer({})
    assert reply(whether("Then he  eats"), SUMMARY, by).score == 1.0
    assert by.model.batches == [[("A man cooks.", "Then he  eats"), ("A cat sleeps.", "Then he  eats")]]  # type: ignore[attr-defined]


def test_notes_answer_from_facts_events_and_whatever_else_was_written() -> None:
    for notes in (
        VideoNotes(("Then he eats.",), (), "references"),
        VideoNotes((), ("Then he eats.",), "references"),
        VideoNotes((), (), "references", ("Then he eats.",)),
    ):
        assert reply(whether("he has lunch"), notes).normalised == "yes"


def test_a_closed_book_question_is_checked_against_nothing() -> None:
    by = answerer({("", "he exists"): 0.9})
    assert reply(whether("he exists"), None, by).normalised == "yes"
    assert reply(whether("he has lunch"), None, by).status == "abstain"


def test_all_questions_are_one_batch_of_different_pairs() -> None:
    by = answerer()
    asked = [ContextQuestion(whether(text), SUMMARY) for text in ("he sings", "he has lunch", "he sings")]
    by.answer(asked)
    (batch,) = by.model.batches  # type: ignore[attr-defined]
    assert len(batch) == len(set(batch)) == 6


def test_only_the_nearest_sentences_are_verified() -> None:
    degrees = {"he sings": 0.0, "A man cooks.": 80.0, "Then he eats.": 10.0, "A cat sleeps.": 30.0}
    model = KnownPairs({("A man cooks.", "he sings"): 1.0, ("A cat sleeps.", "he sings"): 0.6})
    by = EntailmentAnswerer(model, 0.5, RuleSplitter(), KnownVectors(degrees), r=2)
    given = reply(whether("he sings"), SUMMARY, by)
    assert model.batches == [[("Then he eats.", "he sings"), ("A cat sleeps.", "he sings")]]
    assert (given.evidence, given.score) == ("A cat sleeps.", 0.6)


def test_a_camera_sentence_proves_nothing_about_what_a_person_looks_at() -> None:
    camera, person = "The camera looks at the crowd.", "He looks at the crowd."
    by = answerer({(camera, person): 0.9, ("A man turns.", person): 0.2, (camera, "the camera turns"): 0.8})
    notes = VideoNotes((), (camera, "A man turns."), "references")
    given = reply(whether(person), notes, by)
    assert (given.status, given.score, given.evidence) == ("abstain", 0.2, "A man turns.")
    assert reply(whether("the camera turns"), notes, by).evidence == camera
    # Nothing but the camera is spoken of: nothing is asked, and nothing is proved.
    alone = reply(whether(person), VideoNotes((), (camera,), "references"), answerer({(camera, person): 0.9}))
    assert (alone.status, alone.score, alone.evidence) == ("abstain", 0.0, None)


def test_the_best_supported_choice_is_the_answer() -> None:
    question = Question(
        "factuality", "choice", "Colour?", "red", ("red", "blue"), statements=("It is red.", "It is b.")
    )
    pairs = {("Crimson it is.", "It is red."): 0.6, ("Crimson it is.", "It is b."): 0.55}
    assert reply(question, "Crimson it is.", answerer(pairs)).normalised == "red"
    equal = dict.fromkeys(pairs, 0.6)
    assert reply(question, "Crimson it is.", answerer(equal)).status == "abstain"
    assert reply(question, "Green it is.", answerer(pairs)).status == "abstain"


def test_an_open_question_is_answered_with_the_sentence() -> None:
    question = Question("coverage", "open", "What does he do?", "he has lunch", statements=("he has lunch",))
    given = reply(question, SUMMARY)
    assert (given.normalised, given.score) == ("Then he eats.", 0.8)


@pytest.mark.parametrize("context", ["", " ... "])
def test_an_empty_summary_answers_nothing(context: str) -> None:
    question = Question("coverage", "open", "What?", "he has lunch", statements=("he has lunch",))
    for forced in (False, True):
        assert reply(question, context, answerer(forced=forced)).status == "abstain"
    for asked in build_chronology_questions(EVENTS).questions:
        assert reply(asked, context, answerer(forced=True)).status == "abstain"


def test_questions_without_statements_and_frames_are_refused_with_the_remedy() -> None:
    bare = Question("coverage", "open", "Why?", "Because.")
    replies = answerer().answer(
        [ContextQuestion(bare, SUMMARY), ContextQuestion(whether("a b c"), VideoAsFrames((), {}))]
    )
    assert [given.status for given in replies] == ["refused", "refused"]
    assert "language model" in (replies[0].reason or "")
    assert "video model" in (replies[1].reason or "")


def test_questions_with_a_statement_too_long_for_the_model_are_refused_and_the_others_answered() -> None:
    by = EntailmentAnswerer(ShortPairs(PAIRS, most_words=4), 0.5, RuleSplitter())
    longs = ["he sings all day long", "he hums all day long"]
    colour = Question("factuality", "choice", "?", "a", ("a", "b"), statements=("he has lunch", longs[0]))
    asked = [ContextQuestion(whether(text), SUMMARY) for text in (longs[0], "he has lunch", longs[1])]
    # A context that has the statement's own words, or no sentence, needs no model.
    asked += [
        ContextQuestion(colour, SUMMARY),
        ContextQuestion(whether(longs[0]), longs[0]),
        ContextQuestion(whether(longs[0]), ""),
    ]
    replies = by.answer(asked)
    assert [given.status for given in replies] == ["refused", "ok", "refused", "refused", "ok", "abstain"]
    assert replies[0] == Reply("refused", reason=TOO_LONG)
    assert [by.answer([one])[0] for one in asked] == replies


def test_the_default_verifier_refuses_a_sentence_of_a_thousand_words_and_goes_on() -> None:
    by = EntailmentAnswerer(
        make_offline_verifier(), read_pair_threshold(), RuleSplitter(), SentenceTransformerEncoder()
    )
    long = " ".join(f"word{i}" for i in range(1000))
    asked = [
        ContextQuestion(whether(text), context) for context in (SUMMARY, None) for text in (long, "A man cooks a meal.")
    ]
    alone = by.answer([asked[1]])
    replies = by.answer(asked)
    assert [given.status for given in replies[::2]] == ["refused", "refused"]
    assert replies[1].status in ("ok", "abstain")
    assert replies[1].score == pytest.approx(alone[0].score, abs=1e-5)


def test_a_complaint_about_another_text_is_not_asked_again_for_ever() -> None:
    class Confused(KnownPairs):
        def entailment(self, pairs: Sequence[tuple[str, str]]) -> Entailments:
            raise HypothesisTooLong(["something else"], 4)

    with pytest.raises(HypothesisTooLong, match="something else"):
        EntailmentAnswerer(Confused({}), 0.5, RuleSplitter()).answer([ContextQuestion(whether("he sings"), SUMMARY)])


def test_the_order_of_events_is_that_of_their_sentences() -> None:
    questions = build_chronology_questions(EVENTS).questions
    assert {question.kind for question in questions} == {"yes_no", "choice", "order"}
    backwards = "A cat sleeps. Then he eats. A man cooks."
    for question in questions:
        assert reply(question, SUMMARY).normalised == question.answer
        given = reply(question, backwards)
        assert given.status == "ok"
        assert given.normalised != question.answer


def test_the_notes_themselves_answer_the_chronology_questions_written_from_them() -> None:
    notes = VideoNotes(EVENTS, (), "references")
    for question in build_chronology_questions(EVENTS).questions:
        assert reply(question, notes, answerer({})).normalised == question.answer


def test_events_at_one_place_or_not_told_are_abstentions() -> None:
    (question, *_) = build_chronology_questions(EVENTS[:2]).questions
    one_place = answerer({("He cooks and eats.", event): 0.9 for event in EVENTS})
    assert reply(question, "He cooks and eats. He sings.", one_place).status == "abstain"
    assert reply(question, "A man cooks. He sings.").status == "abstain"


def test_without_a_context_the_order_is_not_known() -> None:
    for question in build_chronology_questions(EVENTS).questions:
        assert reply(question, None, answerer(forced=True)).status == "abstain"


def test_a_forced_answer_guesses_where_events_have_one_place() -> None:
    for question in build_chronology_questions(EVENTS).questions:
        assert reply(question, "He sings.", answerer(forced=True)).normalised in question.choices


def test_an_event_s_place_is_the_mean_by_likeness_where_nothing_entails_it() -> None:
    """Weights e^0 and e^(-0.1 / 0.1), so that the place is 1 / (1 + 1 / e)."""
    found = StatementEvidence(np.array([0.7, 0.8]), np.array([0.0, 0.0]))
    assert locate_event(found, 0.5) == pytest.approx(1 / (1 + np.exp(-1)))
    unlike = StatementEvidence(np.array([0.1, 0.15]), np.array([0.0, 0.0]))
    assert locate_event(unlike, 0.5) is None
    assert locate_event(unlike, 0.5, forced=True) is not None


def test_entailment_moves_the_place_to_its_sentence() -> None:
    """Odds 1 against 0.001 / 1.001 to the power of 0.2, at equal likeness; a sentence not verified counts as 0."""
    found = StatementEvidence(np.array([0.5, 0.5]), np.array([np.nan, 0.5]))
    assert locate_event(found, 0.5) == pytest.approx(1 / (1 + (0.001 / 1.001) ** 0.2))


def test_sentences_that_were_not_verified_are_not_the_best() -> None:
    (found,) = gather_evidence([("x y z", ["x", "x y", "q"])], KnownPairs({("q", "x y z"): 1.0}), None, r=2)
    assert np.isnan(found.probabilities).tolist() == [False, False, True]
    assert (found.best_sentence, found.best_probability) == (0, 0.0)


def test_everything_that_changes_the_answers_is_part_of_the_identity() -> None:
    variants = [answerer(), answerer(forced=True), answerer(r=2)]
    variants.append(EntailmentAnswerer(KnownPairs({}), 0.6, RuleSplitter()))
    variants.append(EntailmentAnswerer(KnownPairs({}), 0.5, RuleSplitter(), KnownVectors({})))
    identities = [repr(each.identity.as_dict()) for each in variants]
    assert len(set(identities)) == len(variants)
