"""A metric stressed on a real database: known holes, what is left out, and what cannot be stressed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.metrics.vcs.scorer import VCSShortScorer, VCSShortSettings
from assets.scores.base import Outcome
from assets.scores.run import score_shard
from assets.stress.sentences import describe_holes, describe_stress, explain_effect, explain_stress
from assets.stress.stress import NothingToStress, Stress, load_stresses, stress_metric
from db import schema
from db.manifest.datasets import Dataset
from db.schema.inputs import REFERENCES, SEGMENTS, TEXT
from metrics_core.stress.effects import Conclusion, Effect
from metrics_core.stress.rewrites import REWRITE_KINDS
from reelsieve import metric
from tests.assets.verifying import HashEncoder, make_sources
from tests.conftest import Template, filled_template
from tests.db.builders import add_reference, add_sample, add_video, make_dataset
from tests.outside.letters import LetterScorer, LetterSettings

COLOURS, THINGS = ("red", "green", "blue"), ("car", "box", "ball", "kite")
KINDS = {kind.name: kind for kind in REWRITE_KINDS}


def text_of(video: int, system: int) -> str:
    colour, thing = COLOURS[video % 3], THINGS[(video + system) % 4]
    return f"A man sees a {colour} {thing}. {'Two' if system else 'Three'} dogs are near Anna number {video}."


def fill(engine: Engine) -> Dataset:
    """Two captions of twelve videos with a reference each, and a question."""
    dataset = make_dataset(engine, n_shards=1)
    for number in range(12):
        video = add_video(engine, dataset, f"v{number}")
        add_reference(engine, dataset, video, f"r{number}", f"{text_of(number, 0)} A tree stands there.")
        for system in (0, 1):
            add_sample(engine, dataset, video, f"c{number}.{system}", text_of(number, system), system="ab"[system])
    add_sample(engine, dataset, video, "q", "Who? A man.", kind="qa", question="Who?", answer="A man.")
    return dataset


template = filled_template(fill)


def make_metric(function: Callable[..., Any]) -> Any:
    """A metric of the name and with the inputs of VCS, so that the database knows it."""
    return metric("vcs", version="1", value_range=(0, 10_000))(function)


def stressed(engine: Engine, template: Template[Dataset], scorer: Any, **options: Any) -> Stress:
    score_shard(engine, scorer, template.filled, 0, run_id="run")
    return stress_metric(engine, template.filled, scorer, **{"n_drawn": 300, **options})[0]


def conclusions(stress: Stress) -> dict[str, str]:
    return {effect.rewrite: effect.conclusion for effect in stress.effects}


def effect_of(stress: Stress, rewrite: str) -> Effect:
    (effect,) = [effect for effect in stress.effects if effect.rewrite == rewrite]
    return effect


def length(text: str, references: list[str]) -> float:
    return float(len(text))


def test_length_is_raised_by_whatever_adds_no_truth(engine: Engine, template: Template[Dataset]) -> None:
    stress = stressed(engine, template, make_metric(length))
    found = conclusions(stress)
    assert {found[name] for name, kind in KINDS.items() if kind.keeps_truth} == {"gains_from_nothing"}
    assert found["negation"] == "does_not_lose"
    assert (stress.n_drawn, stress.n_captions, stress.n_videos, stress.n_unscored) == (24, 24, 12, 0)
    doubled = effect_of(stress, "doubled_sentences")
    assert (doubled.rise_share, doubled.best_look_alike, doubled.all_look_alike) == (1.0, 0.0, 0.0)
    holes = describe_holes(stress, "VCS", "clips")["holes"]
    gains = sorted((effect.change or 0.0, effect.rewrite) for effect in stress.effects if effect.keeps_truth)
    assert [hole.split(": ")[0] for hole in holes[:13]] == [
        f"VCS can be raised by {KINDS[name].label}" for _, name in reversed(gains)
    ]
    assert len(holes) == 13 + list(found.values()).count("does_not_lose")
    sentences = explain_stress(stress, "VCS")
    assert sentences[0].startswith("VCS gains from 13 of 13 kinds of rewrites that add no truth")
    assert [f"{sentence}." for sentence in sentences[1 : 1 + len(holes)]] == holes
    assert len(sentences) == 20


def test_scores_stay_and_the_same_seed_gives_the_same(engine: Engine, template: Template[Dataset]) -> None:
    scorer = make_metric(length)
    score_shard(engine, scorer, template.filled, 0, run_id="run")

    def try_out(n_drawn: int = 10, seed: int = 0) -> tuple[Stress, list[dict[str, Any]]]:
        return stress_metric(engine, template.filled, scorer, n_drawn=n_drawn, n_shown=2, seed=seed)

    first, shown = try_out()
    with engine.connect() as connection:
        before = connection.exec_driver_sql("SELECT count(*), sum(value) FROM score").one()
        n_samples = connection.exec_driver_sql("SELECT count(*) FROM sample").scalar()
    again, shown_again = try_out()
    assert (replace(again, stressed_at=first.stressed_at), shown_again) == (first, shown)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*), sum(value) FROM score").one() == before
        assert connection.exec_driver_sql("SELECT count(*) FROM sample").scalar() == n_samples
    assert len({row["sample"] for row in shown}) == 2
    for row in shown:
        assert (row["before"], row["after"]) == (len(row["text"]), len(row["rewrite"]))
    assert {row["sample"] for row in try_out(n_drawn=11)[1]} == {row["sample"] for row in shown}
    assert try_out(seed=1)[1] != shown
    described = json.loads(json.dumps(describe_stress(first)))
    assert [effect["sentence"] for effect in described["effects"]] == [
        explain_effect(effect, "vcs") for effect in first.effects
    ]


def test_vcs_short_with_an_encoder_gives_the_values_that_are_stored(
    engine: Engine, template: Template[Dataset]
) -> None:
    scorer = VCSShortScorer(VCSShortSettings(), HashEncoder())
    make_sources(engine, scorer, template.filled)
    score_shard(engine, scorer, template.filled, 0, run_id="run")
    _, shown = stress_metric(engine, template.filled, scorer, n_drawn=300, n_shown=24)
    with engine.connect() as connection:
        stored = dict(
            map(tuple, connection.exec_driver_sql("SELECT key, value FROM current_score WHERE kind = 'caption'"))
        )
    assert {row["sample"]: row["before"] for row in shown} == pytest.approx(stored, abs=1e-6)


def test_values_whose_square_is_no_number_are_left_out(engine: Engine, template: Template[Dataset]) -> None:
    @metric("vcs", version="1", value_range=(0, 1e308))
    def huge(text: str, references: list[str]) -> float:
        return 1e200 if text == text_of(0, 0) else float(len(text))

    stress = stressed(engine, template, huge)
    assert (stress.n_captions, stress.n_unscored) == (23, 1)


def test_rewrites_without_a_value_are_counted(engine: Engine, template: Template[Dataset]) -> None:
    def short(text: str, references: list[str]) -> Outcome:
        return Outcome(None, "too_long", "no") if text.count(".") > 2 else Outcome(float(len(text)))

    doubled = effect_of(stressed(engine, template, make_metric(short)), "doubled_sentences")
    assert (doubled.n, doubled.change, doubled.unscored) == (0, None, {"too_long": 24})
    assert explain_effect(doubled, "m") == "sentences that come twice: no rewrite has a value (too long 24)"


def test_what_cannot_be_stressed_is_one_sentence(engine: Engine, template: Template[Dataset]) -> None:
    dataset = template.filled
    scorer = make_metric(length)
    with pytest.raises(NothingToStress, match="no caption of clips has a current vcs score with the present"):
        stress_metric(engine, dataset, scorer, n_drawn=9)

    def broken(text: str, references: list[str]) -> Outcome:
        return Outcome(None, "no_model", "the encoder knows no such video")

    with pytest.raises(NothingToStress, match="no value for any caption of clips: no model, the encoder knows no"):
        stressed(engine, template, make_metric(broken))
    questions = make_dataset(engine, "questions")
    video = add_video(engine, questions, "v")
    add_sample(engine, questions, video, "q", "Who? I.", kind="qa", question="Who?", answer="I.")
    with pytest.raises(NothingToStress, match="questions has no captions to rewrite, and references are not rewritten"):
        stress_metric(engine, questions, scorer, n_drawn=9)


def test_a_model_that_fails_now_is_named(engine: Engine, template: Template[Dataset]) -> None:
    is_there = True

    def moody(text: str, references: list[str]) -> Outcome:
        return Outcome(float(len(text))) if is_there else Outcome(None, "failed", "the server is gone")

    scorer = make_metric(moody)
    score_shard(engine, scorer, template.filled, 0, run_id="run")
    is_there = False
    with pytest.raises(NothingToStress, match="has no value for the drawn captions now: failed, the server is gone"):
        stress_metric(engine, template.filled, scorer, n_drawn=9)


def test_captions_with_times_are_left_out_where_the_metric_reads_them(
    engine: Engine, template: Template[Dataset]
) -> None:
    scorer = make_metric(length)
    score_shard(engine, scorer, template.filled, 0, run_id="run")
    with engine.begin() as connection:
        times = [{"start_s": 0, "end_s": 2, "text": "A man."}]
        timed = sa.update(schema.sample).where(schema.sample.c.key.like("c1.%"))
        connection.execute(timed.values(segments=times))
    assert stress_metric(engine, template.filled, scorer, n_drawn=300)[0].n_timed == 0
    scorer.inputs = (TEXT, REFERENCES, SEGMENTS)
    stress, _ = stress_metric(engine, template.filled, scorer, n_drawn=300)
    assert (stress.n_drawn, stress.n_timed, stress.n_captions) == (24, 2, 22)
    with engine.begin() as connection:
        connection.execute(sa.update(schema.sample).values(segments=times))
    with pytest.raises(NothingToStress, match="all drawn captions of clips have times"):
        stress_metric(engine, template.filled, scorer, n_drawn=300)


def test_a_source_that_needs_stored_samples_is_named(engine: Engine, template: Template[Dataset]) -> None:
    scorer = make_metric(length)
    score_shard(engine, scorer, template.filled, 0, run_id="run")
    scorer.sources = LetterScorer(LetterSettings()).sources
    with pytest.raises(NothingToStress, match="vcs cannot score rewrites, since it needs evidence that is stored"):
        stress_metric(engine, template.filled, scorer, n_drawn=9)


def made_effect(name: str, conclusion: Conclusion, low: float, value: float, high: float, n_videos: int = 20) -> Effect:
    change, alike = (value, low, high), (0.12, 0.051) if name == "noun_list" else (None, None)
    shares = (0.81, 0.1, 0.01)
    return Effect(name, KINDS[name].keeps_truth, conclusion, 20, n_videos, *change, *change, *shares, 0, {}, *alike)


@pytest.mark.parametrize(
    ("effect", "sentence"),
    [
        (
            made_effect("noun_list", "gains_from_nothing", 0.15, 0.19, 0.23),
            "m can be raised by a list of its own nouns: +.190 (.150 to .230) of its value; 8 of 10 captions rise; "
            "12 % of the best eighth look so already, 5 % of all",
        ),
        (
            made_effect("swapped_colours", "does_not_lose", -0.02, -0.01, 0.01),
            "m does not notice swapped colours: -.010 (-.020 to .010)",
        ),
        (
            made_effect("swapped_colours", "does_not_lose", -0.02, -0.01, -0.005),
            "m hardly loses by swapped colours: -.010 (-.020 to -.005)",
        ),
        (made_effect("negation", "does_not_lose", 0.1, 0.2, 0.3), "m even gains from negation: +.200 (.100 to .300)"),
        (
            made_effect("negation", "fine", -0.4, -0.31, -0.2),
            "m loses by negation as it should: -.310 (-.400 to -.200)",
        ),
        (
            made_effect("stock_opening", "fine", -0.1, 0.0, 0.01),
            "m does not gain from a stock opening: .000 (-.100 to .010)",
        ),
        (
            made_effect("negation", "open", -0.4, -0.1, 0.2, n_videos=7),
            "whether m loses by negation is open: -.100 (-.400 to .200); 7 videos, and 10 are needed",
        ),
    ],
)
def test_sentences(effect: Effect, sentence: str) -> None:
    assert explain_effect(effect, "m") == sentence


def test_a_metric_without_a_hole_says_so(engine: Engine, template: Template[Dataset]) -> None:
    known = {text_of(video, system) for video in range(12) for system in (0, 1)}
    stress = stressed(engine, template, make_metric(lambda text, references: float(text in known)))
    described = describe_holes(stress, "VCS", "clips")
    assert (described["holes"], described["warning"]) == ([], None)
    n_compared = sum(effect.n > 0 for effect in stress.effects)
    assert (
        explain_stress(stress, "VCS")[0]
        == f"VCS shows no hole in {n_compared} kinds of rewrites: 24 captions of 12 videos"
    )
    effects = tuple(
        effect if effect.rewrite == "negation" else replace(effect, conclusion="open") for effect in stress.effects
    )
    some_open = f"VCS shows no hole in 1 kind of rewrites, and {n_compared - 1} are open: 24 captions of 12 videos"
    assert explain_stress(replace(stress, effects=effects), "VCS")[0] == some_open
    effects = tuple(replace(effect, conclusion="open") for effect in effects)
    all_open = "VCS shows no hole, but all kinds of rewrites are open: 24 captions of 12 videos"
    assert explain_stress(replace(stress, effects=effects), "VCS")[0] == all_open


def test_the_outcome_is_stored_until_the_next_one(engine: Engine, template: Template[Dataset]) -> None:
    """What comes back is what was measured, and gives the same sentences."""
    scorer = make_metric(length)
    score_shard(engine, scorer, template.filled, 0, run_id="run")
    for n_drawn, seed in ((10, 0), (24, 3)):
        fresh, _ = stress_metric(engine, template.filled, scorer, n_drawn=n_drawn, seed=seed)
        by_name = tuple(sorted(fresh.effects, key=lambda effect: effect.rewrite))
        with engine.connect() as connection:
            stored = load_stresses(connection, template.filled)
        assert stored == {"vcs": replace(fresh, effects=by_name)}
        assert explain_stress(stored["vcs"], "m") == explain_stress(fresh, "m")
