"""Embedding and scoring a shard on a real database, with a small encoder whose vectors need no model."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine
from typing_extensions import Never

from assets.definitions.score_checks import MIN_SCORES_TO_VARY, RANGE_TOLERANCE, evaluate_checks
from assets.ingest.run import ingest_folder
from assets.metrics.vcs.scorer import VCSScorer, VCSSettings, VCSShortScorer, VCSShortSettings
from assets.scores.base import Outcome, Scorer
from assets.scores.pending import (
    count_pending_by_shard,
    forecast_shard,
    list_samples_to_score,
    store_scorer,
    update_active_scorer_if_complete,
)
from assets.scores.run import score_shard
from assets.sources.base import BATCH_SIZE, Evidence, MissingEvidence
from assets.sources.texts import TextVectors
from db.evidence.embeddings import StoredVectors
from db.manifest.datasets import Dataset
from db.schema.inputs import REFERENCES, ReferenceText
from db.scores.pending import PendingSample
from db.scores.quality import ShardQuality, count_shard_scores
from db.scores.store import count_statuses, find_active_scorer
from metrics_core.models.sentence_splitter import RuleSplitter
from metrics_core.protocols import SentenceSplitter, TextEncoder
from metrics_core.vcs import VCSResult, vcs_from_embeddings
from tests.assets.manifests import candidate, qa, reference, write_manifest
from tests.assets.verifying import Counts, HashEncoder, build_samples, dataset_of, make_kind, order_for, score_rows
from tests.conftest import filled_template
from tests.metrics_core.chat_server import Answer, loopback

# The sentences of every text, split by hand.
TEXTS = {
    "r1": ["A man opens a red box.", "He lifts a cat out of it.", "The cat runs away.", "He closes the door."],
    "r2": ["Someone opens a box.", "A cat jumps out!", "Then the door is closed."],
    "r3": ["Dr. Ray cooks rice in a pot.", "It boils for 2.5 minutes.", "She eats it."],
    "good": ["A man opens a red box.", "He lifts the cat out of it.", "The cat runs off.", "He closes a door."],
    "shuffled": ["The cat runs off.", "A man opens a red box.", "He closes a door.", "He lifts the cat out of it."],
    "second": ["Someone opens the box.", "A cat jumps out!", "Then a door is closed."],
    "brief": ["A cat leaves a box."],
    "rice": ["Dr. Ray cooks rice.", "It boils for 2.5 minutes.", "She eats it."],
}
# Their words without punctuation and stop words, picked by hand.
WORDS = {
    "r1": ["man", "opens", "red", "box", "lifts", "cat", "cat", "runs", "away", "closes", "door"],
    "r2": ["Someone", "opens", "box", "cat", "jumps", "door", "closed"],
    "r3": ["Dr", "Ray", "cooks", "rice", "pot", "boils", "25", "minutes", "eats"],
    "good": ["man", "opens", "red", "box", "lifts", "cat", "cat", "runs", "closes", "door"],
    "shuffled": ["cat", "runs", "man", "opens", "red", "box", "closes", "door", "lifts", "cat"],
    "second": ["Someone", "opens", "box", "cat", "jumps", "door", "closed"],
    "brief": ["cat", "leaves", "box"],
    "rice": ["Dr", "Ray", "cooks", "rice", "boils", "25", "minutes", "eats"],
}
VIDEO_OF = {"good": "cat", "shuffled": "cat", "second": "cat", "brief": "cat", "rice": "rice"}
REFERENCES_OF = {"cat": ["r1", "r2"], "rice": ["r3"]}


def whole(name: str) -> str:
    return " ".join(TEXTS[name])


CAPTIONS = [
    reference("r1", "cat", whole("r1")),
    reference("r2", "cat", whole("r2")),
    reference("r3", "rice", whole("r3")),
    reference("r4", "silent", "..."),
    *(candidate(name, video, whole(name)) for name, video in VIDEO_OF.items()),
    candidate("dots", "cat", "..."),
    candidate("shout", "cat", "!!! ?!"),
    candidate("alone", "lonely", "A bird sings."),
    candidate("dots alone", "lonely", "..."),
    candidate("held against dots", "silent", "A bird sings."),
]
QUESTIONS = [qa("q", "cat", "What runs away?", "The cat."), qa("q alone", "lonely")]

Shard = tuple[Engine, Dataset]


def fill(engine: Engine) -> Dataset:
    """The samples of above in shard 0, the only one of the dataset."""
    with tempfile.TemporaryDirectory() as folder:
        rows = {"captions": CAPTIONS, "qa": QUESTIONS}
        return ingested(engine, write_manifest(Path(folder), ["cat", "rice", "silent", "lonely"], **rows), "told")


template = filled_template(fill)


@pytest.fixture
def shard(engine: Engine, clips: Dataset) -> Shard:
    return engine, clips


def ingested(engine: Engine, folder: Path, name: str = "set") -> Dataset:
    assert ingest_folder(engine, folder, name, n_shards=1).rejected == 0
    return dataset_of(engine, name)


def vcs_scorer(encoder: TextEncoder, splitter: SentenceSplitter | None = None, **settings: Any) -> VCSScorer:
    return VCSScorer(VCSSettings(**settings), encoder, splitter or RuleSplitter())


def short_scorer(encoder: TextEncoder, **settings: Any) -> VCSShortScorer:
    return VCSShortScorer(VCSShortSettings(**settings), encoder)


def embed(shard: Shard, scorer: Scorer) -> Counts:
    return make_kind(shard[0], scorer, TextVectors, shard[1])


def embed_and_score(shard: Shard, scorer: Scorer) -> None:
    embed(shard, scorer)
    score_shard(shard[0], scorer, shard[1], 0, run_id="run")


def stored(engine: Engine, scorer: Scorer) -> dict[str, Any]:
    """Rows of table score by the key of their sample."""
    query = sa.text("SELECT s.key, c.* FROM score c JOIN sample s USING (sample_id) WHERE scorer_id = :id")
    scorer_id = store_scorer(engine, scorer)
    with engine.connect() as connection:
        return {row.key: row for row in connection.execute(query, {"id": scorer_id})}


def execute(engine: Engine, statement: str) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text(statement))


# Values


def test_a_server_of_embeddings_gives_the_scores_of_its_model(shard: Shard) -> None:
    engine, hashed = shard[0], HashEncoder()

    def script(number: int, body: dict[str, Any]) -> Answer:
        data = [{"embedding": hashed.vector(text).tolist()} for text in body["input"]]
        return Answer(body=json.dumps({"data": data}).encode())

    here = vcs_scorer(hashed)
    embed_and_score(shard, here)
    with loopback(script) as served:
        settings = VCSSettings(
            text_encoder={"model": "words", "url": served.url, "revision": "1", "price": (2.0, 0.0)},
        )
        there = VCSScorer.from_settings(settings)
        _, (expected,) = forecast_shard(engine, there, shard[1], 0)
        assert served.asked == []
        embed_and_score(shard, there)
        assert forecast_shard(engine, there, shard[1], 0)[1] == []
        n_asked = len(served.asked)
        embed_and_score(shard, there)
        assert len(served.asked) == n_asked
    with engine.connect() as connection:
        calls = connection.execute(sa.text("SELECT purpose, outcome, tokens_in, money FROM chat_call")).all()
    assert [call[:2] for call in calls] == [("text vectors", "ok")] * n_asked
    # This server does not say how many tokens it read, so both are by the same rule of thumb.
    assert expected.n_requests == n_asked
    assert expected.tokens_in == sum(call.tokens_in for call in calls) > 0
    assert expected.money == pytest.approx(expected.tokens_in * 2e-6) == sum(call.money for call in calls)
    values = [{key: row.value for key, row in stored(engine, scorer).items()} for scorer in (here, there)]
    assert values[0]["good"] is not None
    assert values[1] == pytest.approx(values[0], abs=1e-6)
    assert store_scorer(engine, here) != store_scorer(engine, there)


def test_a_server_without_a_name_of_its_model_is_refused() -> None:
    with pytest.raises(ValueError, match="`offline` is no model of a server, and an address is set: name a model"):
        VCSSettings(text_encoder={"model": "offline", "url": "vllm"})


def by_hand(chunks: Mapping[str, list[str]], reference: str, generated: str, **parameters: Any) -> VCSResult:
    vector = HashEncoder().vector
    return vcs_from_embeddings(
        [vector(chunk) for chunk in chunks[reference]],
        [vector(chunk) for chunk in chunks[generated]],
        vector(whole(reference)),
        vector(whole(generated)),
        **parameters,
    )


@pytest.mark.parametrize(
    ("make", "settings", "chunk", "chunks", "parameters"),
    [
        (vcs_scorer, {}, "chunk", TEXTS, {}),
        (vcs_scorer, {"vcs_shape_zeros": True}, "chunk", TEXTS, {}),
        (
            vcs_scorer,
            {"vcs_lct": 1.0, "vcs_context_cutoff": 0.2, "vcs_context_window_control": 2.0, "vcs_short_text": True},
            "chunk",
            TEXTS,
            {"lct": 1.0, "context_cutoff": 0.2, "context_window_control": 2.0, "short_text": True},
        ),
        (short_scorer, {"vcs_lct": 5.0, "vcs_chunk_size": 3}, "word", WORDS, {"lct": 1.0}),
        (
            short_scorer,
            {"vcs_short_lct": 0.0, "vcs_context_cutoff": 0.2, "vcs_short_text": True},
            "word",
            WORDS,
            {"lct": 0.0, "context_cutoff": 0.2, "short_text": True},
        ),
    ],
    ids=["vcs", "vcs zeros", "vcs set", "words", "words set"],
)
def test_scores_are_those_of_the_metric_against_the_best_reference(
    make: Callable[..., Scorer],
    settings: dict[str, Any],
    chunk: str,
    chunks: dict[str, list[str]],
    parameters: dict[str, Any],
) -> None:
    scores = score_rows(make(HashEncoder(), **settings), CAPTIONS)
    for name, video in VIDEO_OF.items():
        results = {key: by_hand(chunks, key, name, **parameters) for key in REFERENCES_OF[video]}
        best = max(results, key=lambda key: (results[key].vcs, results[key].margin))
        row, want = scores[name], results[best]
        if all(result.always_zero for result in results.values()) and "vcs_shape_zeros" not in settings:
            assert (name, row.value, row.status, want.vcs) == ("brief", None, "too_short", 0.0)
        else:
            assert (row.status, row.reason) == ("ok", None)
            assert row.value == pytest.approx(want.vcs, abs=1e-9)
            assert row.value == pytest.approx(max(result.vcs for result in results.values()), abs=1e-9)
        assert row.components["reference"] == best
        assert row.components["n_references"] == len(results)
        assert row.components[f"n_reference_{chunk}s"] == len(chunks[best])
        assert row.components[f"n_generated_{chunk}s"] == len(chunks[name])
        assert row.components["always_zero"] is want.always_zero
        for part in ("gas", "las", "sas", "nas", "nas_d", "nas_l", "window_regularizer", "margin"):
            assert row.components[part] == pytest.approx(getattr(want, part), abs=1e-9), part
    # The cases are worth something: they differ, and not the same reference is the best of all.
    assert (scores["good"].value or 0) > (scores["shuffled"].value or 0)
    assert [scores[name].components["reference"] for name in ("good", "second")] == ["r1", "r2"]


def test_sentences_go_into_chunks_of_the_set_size() -> None:
    parts = score_rows(vcs_scorer(HashEncoder(), vcs_chunk_size=2), CAPTIONS)["good"].components
    assert (parts["reference"], parts["n_reference_chunks"], parts["n_generated_chunks"]) == ("r1", 2, 2)


class ShortSighted(HashEncoder):
    """Reads 12 words at once, and a longer text in chunks."""

    def in_chunks(self, texts: Sequence[str]) -> dict[str, int]:
        return {text: -(-len(text.split()) // 12) for text in texts if len(text.split()) > 12}


@pytest.mark.parametrize("make", [vcs_scorer, short_scorer])
def test_a_score_names_the_texts_that_the_encoder_read_in_chunks(make: Callable[..., Scorer]) -> None:
    scores, named = score_rows(make(ShortSighted()), CAPTIONS), set()
    for name in VIDEO_OF:
        components = scores[name].components
        sides = {"generated": len(whole(name).split()), "reference": len(whole(components["reference"]).split())}
        chunks = {f"{side}_text_chunks": -(-n // 12) for side, n in sides.items() if n > 12}
        assert {part: n for part, n in components.items() if part.endswith("_text_chunks")} == chunks
        named |= {tuple(chunks)}
    assert len(named) > 1, "texts on both sides of the limit"


def test_what_has_no_score_has_a_reason(shard: Shard) -> None:
    scorer = vcs_scorer(HashEncoder())
    embed_and_score(shard, scorer)
    scores = stored(shard[0], scorer)
    in_memory = score_rows(scorer, CAPTIONS, qa=QUESTIONS)
    assert {key: (row.value, row.status, row.error, row.components) for key, row in scores.items()} == {
        key: (found.value, found.status, found.reason, found.components) for key, found in in_memory.items()
    }
    statuses = {key: row.status for key, row in scores.items() if row.status != "ok"}
    assert statuses == {
        "q": "not_applicable",
        "q alone": "not_applicable",
        "alone": "no_reference",
        "dots alone": "no_reference",
        "held against dots": "no_reference",
        "dots": "empty_text",
        "shout": "empty_text",
        "brief": "too_short",
    }
    for key, status in statuses.items():
        assert scores[key].value is None
        assert scores[key].error
        assert (scores[key].components == {}) == (status != "too_short")
    assert len(scores) == len(statuses) + len(VIDEO_OF) - 1


# Shapes that score 0 whatever the texts say


MOVING = "A red ball is moving. It goes to the right."
PAIR = reference("pair", "ball", "A red ball moves. It goes right, over the grass.")
STORY = reference("story", "ball", "Rain falls. A dog sleeps. Nobody is there. It gets dark. Music plays.")


def outcome(scorer: Scorer, *captions: dict[str, Any]) -> Outcome:
    """Of the only caption."""
    (found,) = score_rows(scorer, captions).values()
    return found


def test_a_shape_that_forces_a_0_has_no_value_and_a_remedy() -> None:
    captions = (PAIR, candidate("c", "ball", MOVING))
    row = outcome(vcs_scorer(HashEncoder()), *captions)
    assert (row.value, row.status) == (None, "too_short")
    assert row.reason == (
        "texts with so few chunks always score 0: use vcs_short, or set REELSIEVE_VCS_SHORT_TEXT=true"
    )
    # What was measured stays, so that it can be looked at.
    assert (row.components["always_zero"], row.components["reference"]) == (True, "pair")
    assert row.components["gas"] > 0.3

    def value(scorer: Scorer) -> float:
        found = outcome(scorer, *captions)
        assert (found.status, found.reason) == ("ok", None)
        return found.value or 0.0

    # For the papers' tables the 0 stays; both remedies help.
    assert value(vcs_scorer(HashEncoder(), vcs_shape_zeros=True)) == 0.0
    assert value(vcs_scorer(HashEncoder(), vcs_short_text=True)) > 0.1
    assert value(short_scorer(HashEncoder())) > 0.1


def test_a_0_is_earned_where_a_reference_has_a_shape_that_can_score() -> None:
    scorer = vcs_scorer(HashEncoder())
    # Four sentences against five can score, against two they cannot.
    caption = candidate("c", "ball", "A red ball is moving. It goes to the right. It stops. All cheer.")
    assert outcome(scorer, PAIR, caption).status == "too_short"
    row = outcome(scorer, PAIR, STORY, caption)
    assert (row.value, row.status, row.reason) == (0.0, "ok", None)
    assert row.components["n_references"] == 2


@pytest.mark.parametrize("make", [vcs_scorer, short_scorer])
def test_equal_references_are_one(make: Callable[..., Scorer]) -> None:
    caption = candidate("c", "ball", "A red ball is moving. It goes to the right. It stops. All cheer.")
    others = [{**STORY, "caption_id": key} for key in ("a equal", "z equal")]
    once = outcome(make(HashEncoder()), PAIR, STORY, caption)
    again = outcome(make(HashEncoder()), PAIR, STORY, *others, caption)
    assert again.value == once.value
    best = once.components["reference"]
    assert again.components == {**once.components, "reference": "a equal" if best == "story" else best}
    assert again.components["n_references"] == 2


@pytest.mark.parametrize(
    "settings", [{}, {"vcs_shape_zeros": True}, {"vcs_short_text": True}, {"vcs_chunk_size": 2}, {"vcs_lct": 2.0}]
)
def test_what_cannot_be_scored_is_known_without_a_model(settings: dict[str, Any]) -> None:
    colours = ("red", "blue", "green", "white", "black", "brown", "grey")
    texts = [" ".join(f"A ball rolls {name}." for name in colours[:n]) for n in range(8)]
    videos = [f"v{n}" for n in range(8)] + ["bare"]
    references = [reference(f"r{n}", f"v{n}", text) for n, text in enumerate(texts) if text]
    captions = [
        candidate(f"{video}_{n}", video, text) for video in videos for n, text in enumerate([*texts[1:], "..."])
    ]
    scorer = vcs_scorer(HashEncoder(), **settings)
    rows = {"captions": [*references, *captions], "qa": [qa("q", "v3")]}
    scores = score_rows(scorer, **rows)
    known = {sample.key: scorer.refusal(sample) for sample in build_samples(**rows)}
    assert len(known) == len(scores) == 9 * 8 + 1
    assert {name: row.value is None for name, row in scores.items()} == {
        name: refused is not None for name, refused in known.items()
    }
    for name, refused in known.items():
        if refused is not None:
            assert (scores[name].status, scores[name].reason) == (refused.status, refused.reason)
    assert {"ok", "not_applicable", "no_reference", "empty_text"} <= {row.status for row in scores.values()}


def test_a_caption_of_few_words_has_no_value_of_vcs_short() -> None:
    captions = (reference("r", "ball", "These dogs bark."), candidate("c", "ball", "The dogs bark!"))
    row = outcome(short_scorer(HashEncoder()), *captions)
    assert (row.value, row.status) == (None, "too_short")
    assert row.reason == "texts with so few chunks always score 0: set REELSIEVE_VCS_SHORT_TEXT=true"
    assert outcome(short_scorer(HashEncoder(), vcs_shape_zeros=True), *captions).value == 0.0
    repaired = outcome(short_scorer(HashEncoder(), vcs_short_text=True), *captions)
    assert (repaired.status, (repaired.value or 0) > 0) == ("ok", True)


def test_words_that_are_no_words_have_a_reason() -> None:
    def refusal(text: str, *references: str, kind: str = "caption") -> tuple[str, str | None]:
        named = tuple(ReferenceText(f"r{i}", reference) for i, reference in enumerate(references))
        scorer = short_scorer(HashEncoder())
        sample = PendingSample(1, "set", "s", kind, "sys", text, None, None, 1, inputs={REFERENCES.name: named})
        (outcome,) = scorer.score([sample], Evidence({scorer.vectors: StoredVectors()}))
        assert outcome.value is None
        return outcome.status, outcome.reason

    assert refusal("It is!", "A dog.") == ("empty_text", "the caption has no word besides stop words")
    assert refusal("A dog.", "It is!", "...") == (
        "no_reference",
        "no reference of the video has a word besides stop words",
    )
    assert refusal("A dog.")[0] == "no_reference"
    assert refusal("A dog.", "A dog.", kind="qa")[0] == "not_applicable"


# Work done once


def test_every_distinct_text_is_embedded_once(shard: Shard) -> None:
    encoder = HashEncoder()
    report = embed(shard, vcs_scorer(encoder))
    assert len(encoder.encoded) == len(set(encoder.encoded)) == report["texts_embedded"] == report["texts_wanted"]
    needed = {text for name, sentences in TEXTS.items() for text in (whole(name), *sentences)}
    assert needed <= set(encoder.encoded)
    # Sentences that two captions share are there once; texts that VCS has no use for are not there at all.
    assert encoder.encoded.count("He closes a door.") == 1
    assert not {"The cat.", "What runs away? The cat."} & set(encoder.encoded)
    assert report["encoder"] == "words"


def test_no_connection_is_held_while_a_model_works_on_samples(shard: Shard) -> None:
    engine, dataset = shard
    with engine.connect() as connection:
        ids = list(connection.scalars(sa.text("SELECT sample_id FROM sample ORDER BY sample_id")))
    scorer = vcs_scorer(HashEncoder())
    loaded = order_for(engine, scorer, dataset).samples(ids, scorer.inputs, size=2)
    assert len(next(loaded)) == 2
    pool: Any = engine.pool
    assert pool.checkedout() == 0


def test_every_distinct_word_is_embedded_once(shard: Shard) -> None:
    encoder = HashEncoder()
    report = embed(shard, short_scorer(encoder))
    assert len(encoder.encoded) == len(set(encoder.encoded)) == report["texts_embedded"]
    words = {word for each in WORDS.values() for word in each}
    texts = {caption["text"] for caption in CAPTIONS if caption["video_id"] != "lonely"}
    assert set(encoder.encoded) == words | texts | {"bird", "sings"}


@pytest.mark.parametrize(("make", "name"), [(vcs_scorer, "vcs_lct"), (short_scorer, "vcs_short_lct")])
def test_a_sweep_over_the_tolerance_embeds_nothing_again(shard: Shard, make: Callable[..., Scorer], name: str) -> None:
    engine, dataset = shard
    tolerances = (0.0, 1.0, 2.0)
    embed(shard, make(HashEncoder(), **{name: tolerances[0]}))
    found = []
    for lct in tolerances:
        encoder = HashEncoder()
        scorer = make(encoder, **{name: lct})
        assert embed(shard, scorer)["texts_embedded"] == 0
        assert score_shard(engine, scorer, dataset, 0, run_id="run").n_pending == 12
        assert encoder.encoded == []
        found.append(stored(engine, scorer)["shuffled"].value)
    assert found[0] < found[1] <= found[2]
    with engine.connect() as connection:
        history = connection.scalars(
            sa.text("SELECT value FROM score_history WHERE sample = 'shuffled' ORDER BY scorer_id")
        )
        assert list(history) == found


def test_a_setting_that_is_not_used_leaves_the_fingerprint(shard: Shard) -> None:
    """Scorers from before there were `vcs_short_text` and `vcs_shape_zeros` are still the same scorers."""
    assert vcs_scorer(HashEncoder()).params() == {
        "chunk_size": 1,
        "lct": 0.0,
        "context_cutoff": 0.6,
        "context_window_control": 4.0,
        "references": "maximum",
    }
    switches: list[dict[str, Any]] = [{}, {"vcs_short_text": True}, {"vcs_shape_zeros": True}]
    assert len({store_scorer(shard[0], vcs_scorer(HashEncoder(), **switch)) for switch in switches}) == 3
    assert len({store_scorer(shard[0], short_scorer(HashEncoder(), **switch)) for switch in switches}) == 3
    off = vcs_scorer(HashEncoder(), vcs_short_text=False, vcs_shape_zeros=False)
    assert store_scorer(shard[0], off) == store_scorer(shard[0], vcs_scorer(HashEncoder()))


def test_a_second_run_does_nothing_and_does_not_touch_the_model(shard: Shard) -> None:
    engine, dataset = shard
    scorer = vcs_scorer(HashEncoder())
    assert len(list_samples_to_score(engine, scorer, dataset, 0)) == 12
    embed_and_score(shard, scorer)
    before = stored(engine, scorer)
    idle = HashEncoder()
    again = vcs_scorer(idle)
    assert embed(shard, again)["texts_embedded"] == 0
    result = score_shard(engine, again, dataset, 0, run_id="another run")
    assert (result.n_pending, result.n_written) == (0, 0)
    assert idle.encoded == []
    assert stored(engine, again) == before


def test_a_changed_text_costs_only_its_own_work(shard: Shard, tmp_path: Path) -> None:
    engine, dataset = shard
    scorer = vcs_scorer(HashEncoder())
    embed_and_score(shard, scorer)
    before = stored(engine, scorer)
    text = "A cat leaves a box. It is grey."
    captions = [{**row, "text": text} if row["caption_id"] == "brief" else row for row in CAPTIONS]
    ingested(engine, write_manifest(tmp_path / "set", ["cat", "rice", "silent", "lonely"], captions=captions), "told")
    encoder = HashEncoder()
    again = vcs_scorer(encoder)
    embed(shard, again)
    assert sorted(encoder.encoded) == [text, "It is grey."]
    result = score_shard(engine, again, dataset, 0, run_id="later")
    assert (result.n_pending, result.n_written) == (1, 1)
    after = stored(engine, again)
    assert after.pop("brief").run_id == "later"
    before.pop("brief")
    assert after == before


@pytest.mark.parametrize(
    "other",
    [
        vcs_scorer(HashEncoder(revision="2")),
        vcs_scorer(HashEncoder(), RuleSplitter("de")),
        vcs_scorer(HashEncoder(), vcs_lct=0.5),
        vcs_scorer(HashEncoder(), vcs_chunk_size=2),
    ],
    ids=["encoder", "splitter", "parameter", "chunks"],
)
def test_other_models_or_parameters_make_another_scorer(shard: Shard, other: VCSScorer) -> None:
    engine, dataset = shard
    first = vcs_scorer(HashEncoder())
    embed_and_score(shard, first)
    assert store_scorer(engine, other) != store_scorer(engine, first)
    assert len(list_samples_to_score(engine, other, dataset, 0)) == 12
    # Back to the first settings: its scores are still there.
    assert len(list_samples_to_score(engine, vcs_scorer(HashEncoder()), dataset, 0)) == 0


# Which scorer is active


class BrokenEncoder(HashEncoder):
    """A model that is named and cannot be loaded."""

    def vector(self, text: str) -> Never:
        raise OSError("no weights in this folder")


def active(engine: Engine) -> int | None:
    with engine.connect() as connection:
        return find_active_scorer(connection, "vcs")


def test_a_model_that_cannot_be_loaded_hides_no_score(shard: Shard, tmp_path: Path) -> None:
    engine, _ = shard
    first, broken = vcs_scorer(HashEncoder()), vcs_scorer(BrokenEncoder(revision="broken"))
    embed_and_score(shard, first)
    # Without a reference no text is embedded, so nothing shows there that the model is broken; and one shard is empty.
    folder = write_manifest(tmp_path / "other", ["v"], captions=[candidate("c", "v", "A pan.")])
    ingest_folder(engine, folder, "other", n_shards=2)
    other = dataset_of(engine, "other")
    for number in range(other.n_shards):
        make_kind(engine, broken, TextVectors, other, number)
        score_shard(engine, broken, other, number, run_id="run")
    update_active_scorer_if_complete(engine, broken, [other], count_pending_by_shard(engine, broken, [other]))
    with pytest.raises(OSError, match="no weights"):
        embed_and_score(shard, broken)
    assert {row.status for row in stored(engine, broken).values()} == {"no_reference"}
    assert active(engine) == store_scorer(engine, first)


def test_a_scorer_becomes_active_with_its_first_good_batch_and_again_when_settings_go_back(many: Shard) -> None:
    engine, dataset = many
    first, second = vcs_scorer(HashEncoder()), vcs_scorer(HashEncoder(), vcs_context_cutoff=0.5)
    embed_and_score(many, first)
    seen = []
    score_shard(engine, second, dataset, 0, run_id="run", progress=lambda done, total: seen.append(active(engine)))
    assert len(seen) > 1
    assert set(seen) == {store_scorer(engine, second)}
    score_shard(engine, first, dataset, 0, run_id="run")
    assert active(engine) == store_scorer(engine, first)


def test_where_nothing_can_be_scored_the_reasons_are_shown(engine: Engine, tmp_path: Path) -> None:
    folder = write_manifest(tmp_path / "set", ["v"], captions=[candidate("c", "v", "A pan.")])
    dataset, scorer = ingested(engine, folder), vcs_scorer(HashEncoder())
    update_active_scorer_if_complete(engine, scorer, [], {})
    assert active(engine) is None
    embed_and_score((engine, dataset), scorer)
    assert active(engine) == store_scorer(engine, scorer)


# What goes wrong


def test_scoring_before_embedding_says_what_to_do(shard: Shard) -> None:
    engine, dataset = shard
    scorer = vcs_scorer(HashEncoder())
    with pytest.raises(MissingEvidence, match=r"\d+ texts have no vector of words: materialise text_embedding"):
        score_shard(engine, scorer, dataset, 0, run_id="run")
    assert stored(engine, scorer) == {}


def test_vectors_of_another_encoder_do_not_count(shard: Shard) -> None:
    engine, dataset = shard
    embed(shard, vcs_scorer(HashEncoder()))
    with pytest.raises(MissingEvidence):
        score_shard(engine, vcs_scorer(HashEncoder(revision="2")), dataset, 0, run_id="run")


def test_samples_that_need_no_vector_are_scored_without_an_encoder(engine: Engine, tmp_path: Path) -> None:
    folder = write_manifest(tmp_path / "set", ["v"], captions=[candidate("c", "v", "A pan.")], qa=[qa("q", "v")])
    shard = engine, ingested(engine, folder)
    encoder = HashEncoder()
    embed_and_score(shard, vcs_scorer(encoder))
    assert encoder.encoded == []
    statuses = {key: row.status for key, row in stored(engine, vcs_scorer(encoder)).items()}
    assert statuses == {"c": "no_reference", "q": "not_applicable"}


class Crash(RuntimeError):
    """What the tests raise in the middle."""


N_MANY = 2 * BATCH_SIZE + 40


@pytest.fixture
def many(engine: Engine, tmp_path: Path) -> Shard:
    """More than two batches of captions."""
    captions = [
        candidate(f"c{i}", "v", f"A pan flies. Number {i} is shown. It lands. All cheer.") for i in range(N_MANY)
    ]
    captions.append(reference("r", "v", "A pan flies. Number 7 is shown. It lands. All cheer."))
    return engine, ingested(engine, write_manifest(tmp_path / "many", ["v"], captions=captions))


def test_an_interrupted_run_is_resumed(many: Shard) -> None:
    engine, dataset = many
    scorer = vcs_scorer(HashEncoder())
    embed(many, scorer)

    def crash(done: int, total: int) -> None:
        assert (done, total) == (BATCH_SIZE, N_MANY)
        raise Crash

    with pytest.raises(Crash):
        score_shard(engine, scorer, dataset, 0, run_id="first", progress=crash)
    first = stored(engine, scorer)
    assert len(first) == BATCH_SIZE
    steps: list[tuple[int, int]] = []
    result = score_shard(
        engine, scorer, dataset, 0, run_id="second", progress=lambda done, total: steps.append((done, total))
    )
    left = N_MANY - BATCH_SIZE
    assert (result.n_pending, result.n_written) == (left, left)
    assert steps == [(BATCH_SIZE, left), (left, left)]
    scores = stored(engine, scorer)
    assert {key: row for key, row in scores.items() if row.run_id == "first"} == first
    assert len(scores) == N_MANY
    assert {row.status for row in scores.values()} == {"ok"}


def test_a_batch_without_its_vectors_costs_no_batch_before_it(many: Shard) -> None:
    engine, dataset = many
    scorer = vcs_scorer(HashEncoder())
    embed(many, scorer)
    late = list_samples_to_score(engine, scorer, dataset, 0)[BATCH_SIZE + 3]
    execute(
        engine,
        f"DELETE FROM text_embedding WHERE text_sha256 = (SELECT text_sha256 FROM sample WHERE sample_id = {late})",
    )
    with pytest.raises(MissingEvidence, match=r"^1 of \d+ texts"):
        score_shard(engine, scorer, dataset, 0, run_id="run")
    assert len(stored(engine, scorer)) == BATCH_SIZE
    encoder = HashEncoder()
    embed_and_score(many, vcs_scorer(encoder))
    assert len(encoder.encoded) == 1
    assert len(stored(engine, scorer)) == N_MANY


# Checks

FINE = ShardQuality(
    n_samples=30,
    n_not_applicable=0,
    n_qa=0,
    n_unscored=0,
    n_failed=0,
    n_ok=25,
    n_distinct=20,
    n_stale=0,
    minimum=0.0,
    maximum=1.0,
)
NOTHING = {"n_ok": 0, "n_distinct": 0, "minimum": None, "maximum": None}
BIT = RANGE_TOLERANCE


@pytest.mark.parametrize(
    ("changes", "violated"),
    [
        ({}, set()),
        ({"n_unscored": 1}, {"coverage"}),
        ({"n_failed": 1}, {"coverage"}),
        ({"n_unscored": 30, **NOTHING}, {"coverage"}),
        ({"n_failed": 30, **NOTHING}, {"coverage"}),
        (NOTHING, set()),
        ({"n_samples": 0, **NOTHING}, set()),
        ({"maximum": 1 + BIT / 2, "minimum": -BIT / 2}, set()),
        ({"maximum": 1 + 2 * BIT}, {"in_range"}),
        ({"minimum": -2 * BIT}, {"in_range"}),
        ({"minimum": 7.0, "maximum": 7.0}, {"in_range"}),
        ({"n_distinct": 1}, {"not_constant"}),
        ({"n_distinct": 2}, set()),
        ({"n_distinct": 1, "n_ok": MIN_SCORES_TO_VARY}, {"not_constant"}),
        ({"n_distinct": 1, "n_ok": MIN_SCORES_TO_VARY - 1}, set()),
        ({"n_stale": 1}, {"inputs_fresh"}),
        (
            {"n_unscored": 1, "n_stale": 1, "maximum": 2.0, "n_distinct": 1},
            {"coverage", "in_range", "not_constant", "inputs_fresh"},
        ),
    ],
)
def test_judge(changes: dict[str, Any], violated: set[str]) -> None:
    verdicts = evaluate_checks(replace(FINE, **changes), (0.0, 1.0))
    assert set(verdicts) == {"coverage", "in_range", "not_constant", "inputs_fresh"}
    assert {name for name, holds in verdicts.items() if not holds} == violated


def violated(engine: Engine, scorer: VCSScorer, dataset: Dataset) -> set[str]:
    """The checks that fail on the shard as it is."""
    scorer_id = store_scorer(engine, scorer)
    with engine.connect() as connection:
        quality = count_shard_scores(connection, scorer_id, dataset.dataset_id, 0)
    return {name for name, holds in evaluate_checks(quality, scorer.value_range).items() if not holds}


A_SCORE = "(SELECT sample_id FROM sample WHERE key = 'good')"


def test_checks_see_faults_of_a_real_shard(shard: Shard) -> None:
    engine, dataset = shard
    scorer = vcs_scorer(HashEncoder())
    embed_and_score(shard, scorer)
    faults: list[tuple[str, set[str]]] = [
        (f"UPDATE score SET value = 1.5 WHERE sample_id = {A_SCORE}", {"in_range"}),
        (f"UPDATE score SET value = -0.1 WHERE sample_id = {A_SCORE}", {"in_range"}),
        (f"UPDATE score SET is_stale = true WHERE sample_id = {A_SCORE}", {"inputs_fresh"}),
        ("UPDATE sample SET text_sha256 = sha256('new') WHERE key = 'q'", {"inputs_fresh"}),
        ("UPDATE reference SET text_sha256 = sha256('new') WHERE key = 'r3'", {"inputs_fresh"}),
        ("DELETE FROM reference WHERE key = 'r2'", {"inputs_fresh"}),
        (f"DELETE FROM score WHERE sample_id = {A_SCORE}", {"coverage"}),
        ("DELETE FROM score", {"coverage"}),
        (
            f"UPDATE score SET status = 'failed', value = NULL, error = 'boom' WHERE sample_id = {A_SCORE}",
            {"coverage"},
        ),
        ("UPDATE score SET value = 0.5 WHERE status = 'ok'", set()),
    ]
    for fault, want in faults:
        assert violated(engine, scorer, dataset) == set()
        execute(engine, fault)
        assert violated(engine, scorer, dataset) == want, fault
        # What the checks hold against a score, the next run mends, but for values that nothing explains.
        embed_and_score(shard, scorer)
        assert violated(engine, scorer, dataset) == want & {"in_range"}, fault
        execute(engine, f"UPDATE score SET value = 0.5 WHERE sample_id = {A_SCORE}")


def test_checks_see_that_many_scores_are_one_constant(many: Shard) -> None:
    engine, dataset = many
    scorer = vcs_scorer(HashEncoder())
    embed_and_score(many, scorer)
    assert violated(engine, scorer, dataset) == set()
    execute(engine, "UPDATE score SET value = 0.5")
    assert violated(engine, scorer, dataset) == {"not_constant"}


def test_the_database_itself_refuses_undefined_values(shard: Shard) -> None:
    embed_and_score(shard, vcs_scorer(HashEncoder()))
    for fault in (
        "value = 'NaN'",
        "value = 'Infinity'",
        "value = NULL",
        "status = 'failed'",
        "error = 'why'",
        "status = 'failed', value = NULL",
        "value = 0, status = 'no_reference', error = 'why'",
    ):
        with pytest.raises(sa.exc.IntegrityError):
            execute(shard[0], f"UPDATE score SET {fault} WHERE sample_id = {A_SCORE}")


def test_status_counts_name_what_is_not_scored_yet(shard: Shard) -> None:
    engine, dataset = shard
    scorer = vcs_scorer(HashEncoder())
    embed_and_score(shard, scorer)
    execute(engine, f"DELETE FROM score WHERE sample_id = {A_SCORE}")
    with engine.connect() as connection:
        counts = count_statuses(connection, store_scorer(engine, scorer), dataset.dataset_id, 0)
    assert counts == {"empty_text": 2, "no_reference": 3, "not_applicable": 2, "ok": 3, "too_short": 1, "unscored": 1}
