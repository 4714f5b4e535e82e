"""EVQAScore with keywords of a chat model, on a real database: a failure is never an empty list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.home.folder import DEMO_DATASET
from assets.metrics.evqa.scorer import EVQAScorer
from assets.metrics.evqa.settings import EVQASettings
from assets.scores.explain import explain_score
from assets.scores.pending import forecast_shard
from assets.scores.run import score_shard
from assets.sources.base import MissingEvidence
from assets.sources.texts import TextVectors
from demo.encoder import make_demo_encoder
from metrics_core.evqa import evqa_from_features
from metrics_core.frames import get_shared_worker
from metrics_core.keywords import RuleKeywords
from metrics_core.models.chat.protocol import ChatModel, ChatReply, ChatRequest
from metrics_core.models.chat_keywords import PROMPT_VERSION, ChatKeywordExtractor
from metrics_core.models.errors import ModelUnusable
from metrics_core.models.sentence_splitter import RuleSplitter
from tests.assets.manifests import candidate, qa, write_clip
from tests.assets.verifying import Bench
from tests.metrics_core.chat_server import Answer, completion, loopback
from tests.metrics_core.qeva_fakes import Rule, RuleChat, seen_in

TEXT = "A red circle stands in the middle."
OTHER = "A blue square slides to the left."
ANSWER = "The red circle is red."
KEYWORDS = {
    TEXT: ["red circle", "middle"],
    OTHER: ["blue square", "Blue Square", "left side"],
    ANSWER: ["red circle"],
    f"What colour? {ANSWER}": ["colour", "red circle"],
}


def told(request: ChatRequest) -> dict[str, list[str]]:
    return {"keywords": KEYWORDS[seen_in(request)]}


def scorer_of(chat: ChatModel, **settings: Any) -> EVQAScorer:
    chosen = EVQASettings(**{"frames_every": 5, **settings})
    return EVQAScorer(chosen, make_demo_encoder(), ChatKeywordExtractor(chat), RuleSplitter())


@pytest.fixture
def bench(engine: Engine, tmp_path: Path) -> Bench:
    """A video with two captions of one text, another caption and a question; and a video without a file."""
    # The demo encoder scores the demo's dataset alone.
    bench = Bench(engine, tmp_path, DEMO_DATASET)
    (tmp_path / DEMO_DATASET).mkdir()
    write_clip(tmp_path / DEMO_DATASET / "videos" / "clip.avi")
    bench.ingest(
        [{"video_id": "clip", "path": "videos/clip.avi"}, "told"],
        captions=[
            candidate("one", "clip", TEXT),
            candidate("two", "clip", TEXT),
            candidate("other", "clip", OTHER),
            candidate("empty", "clip", "", parse_error="no JSON"),
            candidate("no file", "told", "Nobody sees this."),
        ],
        qa=[qa("asked", "clip", "What colour?", ANSWER)],
    )
    return bench


def asked(chat: RuleChat) -> list[str]:
    return sorted(seen_in(request) for batch in chat.batches for request in batch)


def stored(bench: Bench) -> list[tuple[Any, ...]]:
    with bench.engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT status, keywords, reason FROM keyword_set ORDER BY text_sha256")
        return [tuple(row) for row in rows]


# Values


def test_a_score_is_made_of_the_models_keywords(bench: Bench) -> None:
    rows = bench.run(scorer_of(RuleChat(told)))
    encoder = make_demo_encoder()
    frames = encoder.encode_images(
        list(get_shared_worker().read_frames(bench.folder / DEMO_DATASET / "videos" / "clip.avi", every=5).pixels)
    )
    for key, text, keywords in (
        ("one", TEXT, ["red circle", "middle"]),
        ("other", OTHER, ["blue square", "left side"]),
    ):
        (whole,) = encoder.encode_texts([text]).astype(np.float64)
        want = evqa_from_features(frames, encoder.encode_texts(keywords), whole)
        assert rows[key].value == pytest.approx(want.score, abs=1e-6)
        assert rows[key].components["keywords"] == keywords
    assert rows["other"].components["keywords_raw"] == KEYWORDS[OTHER]
    assert rows["two"].value == rows["one"].value
    assert rows["asked"].components["keywords"] == ["colour", "red circle"]
    assert (rows["empty"].status, rows["no file"].status) == ("empty_text", "no_frames")


def test_each_distinct_text_is_asked_about_once(bench: Bench) -> None:
    chat = RuleChat(told)
    counts = bench.make(scorer_of(chat))[TextVectors.asset]
    assert asked(chat) == sorted([TEXT, OTHER, f"What colour? {ANSWER}"])
    # The empty caption is wanted and not sent; what has no frames is not even wanted.
    assert (counts["keyword_texts_wanted"], counts["keyword_texts_asked"]) == (4, 4)
    assert (counts["keyword_texts_failed"], counts["keyword_texts_refused"]) == (0, 0)
    assert (counts["keyword_calls"], counts["keyword_extractor"]) == (0, "rule")
    # Chunks and keywords: three texts and the empty one have six and no different strings beside them.
    assert counts["texts_embedded"] == len({TEXT, OTHER, f"What colour? {ANSWER}"}) + len(
        {"red circle", "middle", "blue square", "left side", "colour"}
    )
    # Another scorer asks about nothing that it shares with the first.
    again = RuleChat(told)
    bench.run(scorer_of(again, frames_every=6))
    assert asked(again) == []
    bench.run(scorer_of(again, evqa_keywords_from="answer"))
    assert asked(again) == [ANSWER]


def test_the_extractor_is_part_of_the_fingerprint(bench: Bench) -> None:
    by_rule = EVQAScorer(EVQASettings(), make_demo_encoder(), RuleKeywords(), RuleSplitter())
    by_chat = scorer_of(RuleChat(told))
    assert by_chat.models()["keyword_extractor"] == {
        "model_id": "rule",
        "revision": "1",
        "params": {"temperature": 0.0, "prompt": PROMPT_VERSION},
    }
    assert {**by_chat.models(), "keyword_extractor": None} == {**by_rule.models(), "keyword_extractor": None}
    assert [type(source) for source in by_rule.sources] == list(EVQAScorer.rests_on)
    assert by_rule.keywords is None
    assert {source.asset for source in by_chat.sources} == {kind.asset for kind in EVQAScorer.rests_on}


def test_explain_shows_the_models_keywords(bench: Bench) -> None:
    scorer = scorer_of(RuleChat(told))
    bench.run(scorer)
    found = explain_score(bench.engine, scorer.metric, scorer, bench.dataset, "other")
    assert found is not None
    assert [row["keyword"] for row in found.explanation.rows] == ["blue square", "left side"]


# No keywords


def but(text: str, reply: ChatReply) -> Rule:
    """The rule, but this reply for a text."""
    return lambda request: reply if seen_in(request) == text else told(request)


def test_a_refusal_is_a_status_and_is_final(bench: Bench) -> None:
    rows = bench.run(scorer_of(RuleChat(but(TEXT, ChatReply("refused", reason="the model declined: no circles")))))
    reason = "no keywords: the model declined: no circles"
    assert {key: (rows[key].value, rows[key].status, rows[key].error) for key in ("one", "two")} == dict.fromkeys(
        ("one", "two"), (None, "refused", reason)
    )
    assert rows["other"].status == "ok"
    idle = RuleChat(told)
    assert bench.pending(scorer_of(idle)) == set()
    bench.run(scorer_of(idle))
    # A scorer with other frames takes the refusal as it stands.
    again = bench.run(scorer_of(idle, frames_every=6))
    assert (again["one"].status, asked(idle)) == ("refused", [])


@pytest.mark.parametrize("status", ["error", "malformed", "stopped"])
def test_a_failure_is_a_status_and_is_tried_again(bench: Bench, status: Any) -> None:
    rows = bench.run(scorer_of(RuleChat(but(TEXT, ChatReply(status, reason="it went wrong")))))
    assert {(rows[key].value, rows[key].status, rows[key].error) for key in ("one", "two")} == {
        (None, "failed", "no keywords: it went wrong")
    }
    assert ("failed", [], "it went wrong") in stored(bench)
    good = RuleChat(told)
    assert bench.pending(scorer_of(good)) == {"one", "two"}
    rows = bench.run(scorer_of(good))
    assert asked(good) == [TEXT]
    assert {rows[key].status for key in ("one", "two", "other")} == {"ok"}
    assert {row[0] for row in stored(bench)} == {"ok"}


def test_a_text_without_keywords_says_so(bench: Bench) -> None:
    rows = bench.run(scorer_of(RuleChat(lambda request: {"keywords": []})))
    assert (rows["one"].status, rows["one"].error) == ("no_keywords", "the text has no keyword")


def test_without_the_evidence_nothing_is_scored_and_nothing_asked(bench: Bench) -> None:
    chat = RuleChat(told)
    scorer = scorer_of(chat)
    with pytest.raises(MissingEvidence, match="have no keywords of rule: materialise text_embedding"):
        score_shard(bench.engine, scorer, bench.dataset, 0, run_id="run")
    assert (asked(chat), bench.scores(scorer)) == ([], {})


# A server, the doctor


def test_a_servers_answers_are_kept_by_text_prompt_and_model(bench: Bench) -> None:
    def script(_: int, body: dict[str, Any]) -> Answer:
        said = body["messages"][-1]["content"]
        return completion(json.dumps({"keywords": [k for t, ks in KEYWORDS.items() if said.startswith(t) for k in ks]}))

    with loopback(script) as server:
        settings = EVQASettings(frames_every=5, evqa_keywords={"model": "tiny", "url": server.url})
        scorer = EVQAScorer.from_settings(settings)
        rows = bench.run(scorer)
        assert rows["other"].components["keywords"] == ["blue square", "left side"]
        assert len(server.asked) == 3
        assert {body["temperature"] for body in server.asked} == {0.0}
        bench.execute("DELETE FROM keyword_set")
        bench.execute("DELETE FROM score")
        counts = bench.make(scorer)[TextVectors.asset]
        assert (len(server.asked), counts["keyword_cached"], counts["keyword_calls"]) == (3, 3, 0)
    with bench.engine.connect() as connection:
        calls = connection.execute(sa.text("SELECT purpose, outcome, run_id FROM chat_call"))
        assert {tuple(call) for call in calls} == {("keywords", "ok", "run")}


def test_doctor_has_one_sentence_read(bench: Bench) -> None:
    good = scorer_of(RuleChat(lambda request: {"keywords": ["red dog", "lawn"]})).keywords
    assert good is not None
    assert good.try_out() == "extracts red dog, lawn from one sentence"
    bad = scorer_of(RuleChat(lambda request: ChatReply("error", reason="no server"))).keywords
    assert bad is not None
    with pytest.raises(ModelUnusable, match="rule extracted no keywords: no server"):
        bad.try_out()


def test_a_forecast_counts_the_texts_that_are_still_to_be_asked_about(bench: Bench) -> None:
    chat = RuleChat(told)
    scorer = scorer_of(chat, evqa_keywords={"model": "rule", "price": (1.0, 1.0)})
    _, (part,) = forecast_shard(bench.engine, scorer, bench.dataset, 0)
    assert (chat.batches, part.role) == ([], "keywords")
    assert part.n_requests > 0
    assert part.money == pytest.approx((part.tokens_in + part.tokens_out) / 1e6)
    bench.make(scorer)
    assert len(asked(chat)) == part.n_requests
    assert forecast_shard(bench.engine, scorer, bench.dataset, 0)[1] == []
