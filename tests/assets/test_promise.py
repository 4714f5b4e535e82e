"""Selections with a promise: attempts, answers that count, what is frozen, and refusals."""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.promise.select import PromisedSelection, PromiseUnconfirmed, load_promise_state, make_promised_selection
from assets.promise.sentences import explain_promise, list_set_rows
from assets.promise.state import compute_promise_state, load_promise_answers, load_promise_sets
from assets.promise.terms import PromiseTerms
from assets.promise.watch import watch_promise
from assets.selection.passport import make_passport
from assets.selection.select import make_selection
from db.evidence.embeddings import text_sha256
from db.manifest.answers import Rater
from db.manifest.datasets import Dataset
from db.manifest.draws import build_draw_order
from db.schema import promise, rating, sample, score
from db.selection.eligible import find_eligible_samples
from db.selection.exports import find_frozen_selection
from db.selection.promises import Attempt
from db.selection.recipes import Recipe, SelectionError
from metrics_core.protocols import TextEncoder
from tests.conftest import filled_template
from tests.db.answering import give_answer, seen_caption
from tests.db.builders import activate, add_sample, add_video, make_dataset, ok, register, set_scores, write_fresh

N = 240
TEXT = "a dog runs"
TERMS = PromiseTerms(limit=0.1, error_below=3, aspect="overall", shares=(0.25, 0.5, 1.0))
RECIPE = Recipe(by={"vcs": 1.0})


def fill(engine: Engine) -> Dataset:
    """Four captions for each of 60 videos; the score falls with the id."""
    dataset = make_dataset(engine, "clips")
    ids = []
    for number in range(N // 4):
        video = add_video(engine, dataset, f"v{number}")
        ids += [add_sample(engine, dataset, video, f"v{number}_{k}", TEXT, system=f"s{k}") for k in range(4)]
    set_scores(engine, {sample_id: 1 - place / N for place, sample_id in enumerate(ids)})
    return dataset


template = filled_template(fill)


def no_encoder() -> TextEncoder:
    raise AssertionError("this recipe compares no texts")


def never(_line: str) -> None:
    pass


def select(engine: Engine, dataset: Dataset, terms: PromiseTerms = TERMS, recipe: Recipe = RECIPE) -> PromisedSelection:
    return make_promised_selection(engine, dataset, recipe, terms, no_encoder, never)


def draw_order(engine: Engine, dataset: Dataset, seed: int = 0) -> list[int]:
    """All captions in the order of the draw."""
    query = sa.select(sample.c.sample_id).where(sample.c.dataset_id == dataset.dataset_id)
    with engine.connect() as connection:
        return list(connection.scalars(query.order_by(*build_draw_order(seed))))


def order_by_score(engine: Engine) -> list[int]:
    with engine.connect() as connection:
        return list(connection.scalars(sa.select(score.c.sample_id).order_by(score.c.value.desc())))


def rate(engine: Engine, dataset: Dataset, values: Mapping[int, float], rater: str = "ann", text: str = TEXT) -> None:
    with engine.begin() as connection:
        for sample_id, value in values.items():
            who = Rater(dataset, rater, "overall")
            assert give_answer(connection, who, seen_caption(sample_id, text), value, {"seed": 0})


def test_an_aspect_that_nobody_has_rated_is_suggested(engine: Engine, clips: Dataset) -> None:
    rate(engine, clips, dict.fromkeys(draw_order(engine, clips)[:1], 4))
    with pytest.raises(
        SelectionError, match=r"nobody has rated 'overal' in .*, did you mean 'overall'.* --aspect overal"
    ):
        select(engine, clips, replace(TERMS, aspect="overal"))


def test_the_largest_confirmed_set_is_frozen_with_its_promise(engine: Engine, clips: Dataset) -> None:
    ranked = order_by_score(engine)
    bad = set(ranked[-60:])
    rate(engine, clips, {sample_id: 1 if sample_id in bad else 5 for sample_id in draw_order(engine, clips)})
    # Those who rated later, or other captions only, are no raters of this set.
    rate(engine, clips, dict.fromkeys(ranked[:5], 2.0), "bob")
    with engine.begin() as connection:
        connection.execute(sa.update(rating).where(rating.c.sample_id == ranked[-1]).values(rater="cleo"))
    made = select(engine, clips)
    assert made.selection.n == 120
    assert [state.is_confirmed for state in made.state.states] == [True, True, False]
    with engine.connect() as connection:
        query = "SELECT sample_id FROM selection_item WHERE selection_id = :id ORDER BY rank"
        frozen = list(connection.scalars(sa.text(query), {"id": made.selection.selection_id}))
        selection = find_frozen_selection(connection, made.selection.selection_id)
        assert selection is not None
        promised = make_passport(connection, selection, [], "jsonl")["selection"]["promise"]
    assert frozen == ranked[:120]
    expected = {
        "errors_at_most": 0.1,
        "confidence": 0.95,
        "error": "a rating of overall below 3",
        "answered_by": "people: overall",
        "raters": ["ann"],
        "n_raters": 1,
        "n_asked": 120,
        "n_wrong": 0,
        "upper_bound": 0,
        "n_allowed": 12,
        "share": 0.5,
        "shares": [0.25, 0.5, 1.0],
        "seed": 0,
        "attempt": 1,
        "level": 0.025,
    }
    assert {name: promised[name] for name in expected} == expected
    assert re.fullmatch("[0-9a-f]{64}", promised["order_sha256"])
    assert "at most 0 of 120 are errors (12 would be 0.1); 0 of 120 asked are errors" in explain_promise(promised, 120)


def test_the_same_recipe_with_a_size_makes_the_same_rows_without_a_promise(engine: Engine, clips: Dataset) -> None:
    rate(engine, clips, dict.fromkeys(draw_order(engine, clips), 5.0))
    made = select(engine, clips, PromiseTerms(0.1, 3, "overall", shares=(0.25,)))
    again = select(engine, clips, PromiseTerms(0.1, 3, "overall", shares=(0.25,)))
    plain = make_selection(engine, clips, RECIPE.model_copy(update={"keep": 0.25}), no_encoder, never)
    assert (again.selection.selection_id, again.selection.is_new) == (made.selection.selection_id, False)
    assert plain.score_hash == made.selection.score_hash
    assert plain.selection_id != made.selection.selection_id
    with engine.connect() as connection:
        frozen = find_frozen_selection(connection, plain.selection_id)
    assert frozen is not None
    assert frozen.record["promise"] is None


def test_answers_count_up_to_the_first_gap_of_the_set(engine: Engine, clips: Dataset) -> None:
    ranked, drawn = order_by_score(engine), draw_order(engine, clips)
    strict = [sample_id for sample_id in drawn if sample_id in set(ranked[:60])]
    # The fifth of the strictest set has no answer.
    rate(engine, clips, {sample_id: 5 for sample_id in strict[:10] if sample_id != strict[4]})
    with pytest.raises(PromiseUnconfirmed) as refused:
        select(engine, clips)
    state = refused.value.state
    assert (state.states[0].n_asked, state.states[0].size) == (4, 60)
    assert state.list_next_ids()[:2] == [strict[4], strict[10]]
    first = next(place for place, sample_id in enumerate(drawn) if sample_id not in strict[:10] or place == 4)
    assert state.states[2].n_asked <= first
    likely = state.count_needed(0).likely
    assert likely is not None
    assert f"probably needs {likely} more answers" in str(refused.value)
    assert "reelsieve rate clips --for-promise 1" in str(refused.value)
    # The five that are there already need not be asked again.
    rate(engine, clips, dict.fromkeys(state.list_next_ids()[:likely], 5))
    assert select(engine, clips).selection.n == 60


def test_nothing_answered_is_refused_with_the_number_of_answers(engine: Engine, clips: Dataset) -> None:
    with pytest.raises(PromiseUnconfirmed, match=r"since it has no answer yet; share 0.25 needs \d+ more answers"):
        select(engine, clips)
    with engine.connect() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(promise)) == 1


def test_a_set_with_too_many_errors_cannot_be_confirmed(engine: Engine, clips: Dataset) -> None:
    rate(engine, clips, dict.fromkeys(draw_order(engine, clips), 1.0))
    with pytest.raises(PromiseUnconfirmed, match="too many errors to be confirmed by any answers") as refused:
        select(engine, clips)
    assert refused.value.state.list_next_ids() == []
    assert [row["more_at_least"] for row in list_set_rows(refused.value.state)] == [None, None, None]


def test_another_order_limit_or_list_is_a_new_attempt_with_half_the_level(engine: Engine, clips: Dataset) -> None:
    tried = [
        (TERMS, RECIPE),
        (TERMS, RECIPE),
        (PromiseTerms(0.2, 3, "overall", shares=TERMS.shares), RECIPE),
        (TERMS, Recipe(by={"vcs": 1.0}, where="system != 's1'")),
        (PromiseTerms(0.1, 3, "fluency", shares=TERMS.shares), RECIPE),
        (TERMS, RECIPE),
    ]
    attempts = []
    for terms, recipe in tried:
        with pytest.raises(PromiseUnconfirmed) as refused:
            select(engine, clips, terms, recipe)
        attempts.append((refused.value.state.attempt.attempt, refused.value.state.level))
    assert attempts == [(1, 0.025), (1, 0.025), (2, 0.0125), (3, 0.00625), (1, 0.025), (1, 0.025)]


def test_captions_that_are_repaired_after_their_answer_are_no_random_sample(engine: Engine, clips: Dataset) -> None:
    drawn, strict = draw_order(engine, clips), set(order_by_score(engine)[:60])
    changed_id = next(sample_id for sample_id in drawn if sample_id in strict)
    rate(engine, clips, dict.fromkeys(drawn, 5.0))
    promise_id = select(engine, clips).state.attempt.promise_id
    assert load_promise_state(engine, clips, promise_id, no_encoder, never).n_confirmed == 3
    with engine.begin() as connection:
        changed = {"text": "a cat", "text_sha256": text_sha256("a cat")}
        connection.execute(sa.update(sample).where(sample.c.sample_id == changed_id).values(changed))
        connection.execute(sa.update(score).values(is_stale=False))
    with pytest.raises(SelectionError, match="an order of captions that has changed since"):
        load_promise_state(engine, clips, promise_id, no_encoder, never)
    refusal = "1 caption was changed after captions were asked, so the answers are no longer a random sample: use"
    with pytest.raises(SelectionError, match=refusal):
        select(engine, clips)
    # The repaired caption is asked again, and found good: its answers still are no random sample.
    rate(engine, clips, {changed_id: 5.0}, text="a cat")
    with pytest.raises(SelectionError, match=refusal):
        select(engine, clips)
    fresh = PromiseTerms(0.1, 3, "overall", shares=TERMS.shares, seed=5)
    assert [select(engine, clips, fresh).state.attempt.attempt for _ in range(2)] == [2, 2]
    with engine.begin() as connection:
        changed = {"text": "a cow", "text_sha256": text_sha256("a cow")}
        connection.execute(sa.update(sample).where(sample.c.sample_id == changed_id).values(changed))
        connection.execute(sa.update(score).values(is_stale=False))
    with pytest.raises(SelectionError, match=refusal):
        select(engine, clips, fresh)
    with pytest.raises(SelectionError, match=r"clips has no promise 99: reelsieve promise makes one"):
        load_promise_state(engine, clips, 99, no_encoder, never)


def test_the_mean_of_the_first_raters_decides_and_later_ones_change_nothing(engine: Engine, clips: Dataset) -> None:
    drawn = draw_order(engine, clips)
    terms = PromiseTerms(0.1, 3, "overall", n_raters=2, shares=(1.0,))
    rate(engine, clips, {drawn[0]: 5, drawn[1]: 4, drawn[2]: 5})
    rate(engine, clips, {drawn[0]: 2, drawn[1]: 1}, "bob")
    rate(engine, clips, {drawn[0]: 1, drawn[1]: 5}, "cleo")
    with pytest.raises(PromiseUnconfirmed, match="a mean of the first 2 ratings of overall below 3") as refused:
        select(engine, clips, terms)
    # Means 3.5 and 2.5; the third caption has one rating only.
    (state,) = refused.value.state.states
    assert (state.n_asked, state.n_wrong) == (2, 1)


def test_a_rating_that_is_stored_later_replaces_no_answer(engine: Engine, clips: Dataset) -> None:
    drawn = draw_order(engine, clips)
    rate(engine, clips, dict.fromkeys(drawn, 1.0), "zoe")
    with engine.begin() as connection:
        row = {"rater": "ann", "aspect": "overall", "value": 5.0, "row_sha256": b"m"}
        connection.execute(sa.insert(rating), [{"sample_id": sample_id, **row} for sample_id in drawn])
    with pytest.raises(PromiseUnconfirmed, match="too many errors"):
        select(engine, clips)


def test_scores_of_the_judge_are_answers(engine: Engine, clips: Dataset) -> None:
    terms = PromiseTerms(0.1, 0.5, shares=(0.25, 1.0))
    with pytest.raises(
        SelectionError, match="clips has no scores of judge: run reelsieve score --dataset clips --metric judge"
    ):
        select(engine, clips, terms)
    ranked, drawn = order_by_score(engine), draw_order(engine, clips)
    bad = set(ranked[60:])
    judged = [ok(sample_id, 0.2 if sample_id in bad else 0.5) for sample_id in drawn[:200]]
    write_fresh(engine, activate(engine, "judge"), judged)
    made = select(engine, clips, terms)
    assert (made.selection.n, made.state.states[1].is_confirmed) == (60, False)
    with engine.connect() as connection:
        frozen = find_frozen_selection(connection, made.selection.selection_id)
        refused = {"status": "refused", "value": None, "error": "it would not answer"}
        scorer_id = connection.scalar(sa.text("SELECT scorer_id FROM scorer WHERE metric = 'judge'"))
    assert frozen is not None
    assert frozen.record["promise"]["answered_by"].startswith("judge ")
    # A caption that the judge refuses cannot be judged: it counts as an error.
    strict = [sample_id for sample_id in drawn[:200] if sample_id not in bad]
    with engine.begin() as connection:
        is_it = score.c.scorer_id == scorer_id, score.c.sample_id.in_(strict[:7])
        connection.execute(sa.update(score).where(*is_it).values(refused))
    with pytest.raises(PromiseUnconfirmed) as failed:
        select(engine, clips, terms)
    assert failed.value.state.states[0].n_wrong == 7
    with engine.begin() as connection:
        repaired = {"text": "a cat", "text_sha256": text_sha256("a cat")}
        connection.execute(sa.update(sample).where(sample.c.sample_id.in_(strict[:7])).values(repaired))
        connection.execute(sa.update(score).values(is_stale=False))
    with pytest.raises(SelectionError, match="7 captions were changed after captions were asked"):
        select(engine, clips, terms)


LIMITS = (1.5, 1, 0, -0.1, 1e-12, float("nan"))


@pytest.mark.parametrize(
    ("terms", "recipe", "message"),
    [
        (TERMS, Recipe(by={"vcs": 1.0}, keep=0.5), "a promise sets the size of a selection: leave keep, count"),
        (TERMS, Recipe(by={"vcs": 1.0}, where="rating_overall > 2"), "the recipe uses ratings of overall"),
        (TERMS, Recipe(by={"vcs": 1.0}, at_least={"vcs": "good overall"}), "the recipe uses ratings of overall"),
        (PromiseTerms(0.1, 0.5), Recipe(by={"judge": 1.0}), "the recipe names judge, whose scores"),
        (PromiseTerms(0.1, 0.5), Recipe(by={"vcs": 1.0}, where="Judge_Status != 'refused'"), "the recipe names judge"),
        (PromiseTerms(0.1, 0.5), Recipe(by={"vcs": 1.0}, per="judge_models"), "the recipe names judge"),
        (PromiseTerms(0.1, 3), RECIPE, "--error-below is 3: give a number above 0 and at most 1, since scores of"),
        (PromiseTerms(0.1, 1, "overall"), RECIPE, "--error-below is 1: give a number above 1 and at most 5, since rat"),
        (PromiseTerms(0.1, 3, "overall", shares=(0.5, 0.25)), RECIPE, "--shares 0.5,0.25: give shares above 0"),
        (PromiseTerms(0.1, 3, "overall", shares=(0.5, 2)), RECIPE, "--shares 0.5,2: give shares above 0"),
        (PromiseTerms(0.1, 3, "overall", confidence=1), RECIPE, "--confidence is 1: give a probability"),
        (PromiseTerms(0.1, 3, "overall", confidence=1 - 1e-12), RECIPE, "give a probability of at most 0.999999999"),
        *(
            (PromiseTerms(limit, 3, "overall"), RECIPE, "give a share of at least 1e-09 and below 1")
            for limit in LIMITS
        ),
        (PromiseTerms(0.1, float("nan"), "overall"), RECIPE, "--error-below is nan: give the lowest answer"),
        (TERMS, Recipe(by={"vcs": 1.0}, kind="qa"), r"no sample|people rate captions only"),
    ],
)
def test_terms_that_promise_nothing_are_refused(
    module_engine: Engine, clips: Dataset, terms: PromiseTerms, recipe: Recipe, message: str
) -> None:
    with pytest.raises(SelectionError, match=message):
        select(module_engine, clips, terms, recipe)


@pytest.mark.expensive
def test_a_metric_that_ranks_at_random_is_refused_or_holds(engine: Engine, clips: Dataset) -> None:
    """In 40 random labellings with an error in eight, hardly ever is a set frozen that breaks its promise."""
    rng, drawn, broken = np.random.default_rng(3), draw_order(engine, clips), 0
    ranked = order_by_score(engine)
    for _ in range(40):
        wrong = {sample_id for sample_id in drawn if rng.random() < 0.125}
        with engine.begin() as connection:
            connection.execute(sa.text("DELETE FROM rating"))
        rate(engine, clips, {sample_id: 1 if sample_id in wrong else 5 for sample_id in drawn[:120]})
        try:
            n = select(engine, clips).selection.n
        except PromiseUnconfirmed:
            continue
        broken += len(wrong & set(ranked[:n])) > 0.1 * n
    assert broken <= 3


def test_later_captions_are_watched(engine: Engine, clips: Dataset) -> None:
    assert watch_promise(engine, clips) is None
    terms = PromiseTerms(0.1, 3, "overall", shares=(0.25,))
    rate(engine, clips, dict.fromkeys(draw_order(engine, clips), 5.0))
    made = select(engine, clips, terms)
    watched = watch_promise(engine, clips)
    assert watched is not None
    assert (watched.is_kept, watched.state) == (True, None)
    assert watched.explain() == "Nothing is watched for selection 1: no caption came later that its rule would take."
    video = add_video(engine, clips, "new")
    later = [add_sample(engine, clips, video, f"new_{k}", TEXT, system="s0") for k in range(60)]
    # The last ten are below the cutoff: nobody asks about them.
    values = {
        sample_id: made.selection.cutoff + (0.01 if place < 50 else -0.01) for place, sample_id in enumerate(later)
    }
    write_fresh(engine, register(engine), [ok(sample_id, value) for sample_id, value in values.items()])
    watched = watch_promise(engine, clips)
    assert watched is not None
    assert watched.state is not None
    assert (watched.is_kept, watched.state.size, watched.state.n_asked, watched.state.bound) == (False, 50, 0, 50)
    assert "would take 50 later captions: at most 50 are errors, where 5 are allowed (none is" in watched.explain()
    drawn = [sample_id for sample_id in draw_order(engine, clips) if sample_id in set(later[:50])]
    rate(engine, clips, {sample_id: 1 if place == 0 else 5 for place, sample_id in enumerate(drawn[:45])})
    watched = watch_promise(engine, clips)
    assert watched is not None
    assert watched.state is not None
    assert (watched.is_kept, watched.state.n_asked, watched.state.n_wrong) == (True, 45, 1)


def test_a_rule_that_compares_samples_is_not_watched(engine: Engine, clips: Dataset) -> None:
    rate(engine, clips, dict.fromkeys(draw_order(engine, clips), 5.0))
    select(engine, clips, TERMS, Recipe(by={"vcs": 1.0}, per="system"))
    watched = watch_promise(engine, clips)
    assert watched is not None
    assert watched.is_kept
    assert "strata, near-duplicates or a draw decide what its rule takes" in watched.explain()


def test_a_rule_that_no_longer_fits_is_not_watched(engine: Engine, clips: Dataset) -> None:
    rate(engine, clips, dict.fromkeys(draw_order(engine, clips), 5.0))
    with engine.begin() as connection:
        connection.execute(sa.update(sample).values(extra={"genre": "news"}))
        connection.execute(sa.update(score).values(is_stale=False))
    select(engine, clips, TERMS, Recipe(by={"vcs": 1.0}, where="extra_genre = 'news'"))
    with engine.begin() as connection:
        connection.execute(sa.update(sample).values(extra=None))
    watched = watch_promise(engine, clips)
    assert watched is not None
    assert (watched.is_kept, watched.state) == (True, None)
    assert "its rule cannot be used any more (" in watched.explain()


def test_captions_that_a_tie_left_out_did_not_come_later(engine: Engine, clips: Dataset) -> None:
    rate(engine, clips, dict.fromkeys(draw_order(engine, clips), 5.0))
    with engine.begin() as connection:
        connection.execute(sa.update(score).values(value=0.5))
    terms = PromiseTerms(0.1, 3, "overall", shares=(0.25,))
    assert select(engine, clips, terms, Recipe(by={"vcs": 1.0})).selection.n == 60
    watched = watch_promise(engine, clips)
    assert watched is not None
    assert "no caption came later" in watched.explain()


def test_another_judge_does_not_answer_for_the_first(engine: Engine, clips: Dataset) -> None:
    judged = [ok(sample_id, 0.9) for sample_id in draw_order(engine, clips)]
    write_fresh(engine, activate(engine, "judge"), judged)
    made = select(engine, clips, PromiseTerms(0.1, 0.5, shares=(0.25, 1.0)))
    activate(engine, "judge", "2")
    watched = watch_promise(engine, clips)
    assert watched is not None
    assert "the judge is another one by now" in watched.explain()
    with pytest.raises(SelectionError, match="an order of captions that has changed since"):
        load_promise_state(engine, clips, made.state.attempt.promise_id, no_encoder, never)


def test_a_dataset_that_grows_keeps_its_answers_in_a_new_attempt(engine: Engine, clips: Dataset) -> None:
    drawn = draw_order(engine, clips)
    rate(engine, clips, dict.fromkeys(drawn, 5.0))
    assert select(engine, clips).state.attempt.attempt == 1
    video = add_video(engine, clips, "new")
    new_id = add_sample(engine, clips, video, "new_0", TEXT, system="s0")
    write_fresh(engine, register(engine), [ok(new_id, 2.0)])
    grown = draw_order(engine, clips)
    assert [sample_id for sample_id in grown if sample_id != new_id] == drawn
    with engine.connect() as connection:
        eligible = find_eligible_samples(connection, clips, RECIPE, lock=False)
        sets = load_promise_sets(connection, eligible, TERMS, None, never)
        answers = load_promise_answers(connection, eligible, TERMS, sets.sample_ids)
    # Of all captions those before the new one count; it is the first of the strictest set by rank, not by draw.
    state = compute_promise_state(TERMS, sets, Attempt(0, 2), answers)
    assert state.states[-1].n_asked == grown.index(new_id)
    assert state.states[-1].size == N + 1


def test_two_commands_at_once_make_one_attempt(engine: Engine, clips: Dataset) -> None:
    rate(engine, clips, dict.fromkeys(draw_order(engine, clips), 5.0))
    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(lambda _: select(engine, clips), range(2)))
    assert {one.state.attempt.attempt for one in made} == {1}
    assert len({one.selection.selection_id for one in made}) == 1
    assert sorted(one.selection.is_new for one in made) == [False, True]
