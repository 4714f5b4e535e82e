"""A judge's labels on a real database: asked once, apart from people's, and never a label for a failure."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import Engine

from assets.metrics.ecs.calibrate import NoLabels, calibrate_thresholds
from assets.metrics.ecs.labelling import LabellingResult, NoJudge
from assets.metrics.ecs.scorer import ECSScorer, ECSSettings
from db.reports.judgements import LABELS_ASPECT
from metrics_core.models.chat.protocol import ChatModel, ChatReply, ChatRequest
from metrics_core.models.sentence_splitter import RuleSplitter
from tests.assets.manifests import candidate, keypoint, label, qa, reference, spans
from tests.assets.verifying import Bench, HashEncoder, ToldVerifier, filled_bench
from tests.db.builders import labels_by_source
from tests.db.judging import list_ratings
from tests.metrics_core.chat_server import Answer, completion, loopback
from tests.metrics_core.qeva_fakes import Rule, RuleChat, question_of, seen_in

N = 30
VIDEOS = [f"v{i:02d}" for i in range(N)]
Asked = tuple[tuple[str, ...], tuple[str, ...]]


def lines(text: str) -> tuple[str, ...]:
    return tuple(line.split(". ", 1)[1] for line in text.split("\n\n")[0].splitlines()[1:])


def asked_in(request: ChatRequest) -> Asked:
    """Statements and keypoints of a request."""
    return lines(seen_in(request)), lines(question_of(request))


def told(request: ChatRequest) -> dict[str, Any]:
    """A keypoint is covered by the first statement that has all its words."""
    return labels_of(*asked_in(request))


def labels_of(statements: tuple[str, ...], keypoints: tuple[str, ...]) -> dict[str, Any]:
    words = [set(text.lower().strip(".").split()) for text in statements]
    found = [
        next((i for i, said in enumerate(words, 1) if set(k.lower().strip(".").split()) <= said), 0) for k in keypoints
    ]
    return {"labels": [{"keypoint": i, "covered": n > 0, "sentence": n} for i, n in enumerate(found, 1)]}


def asked(chat: RuleChat) -> list[Asked]:
    return sorted(asked_in(request) for batch in chat.batches for request in batch)


def scorer_of(chat: ChatModel | None, **settings: Any) -> ECSScorer:
    chosen = ECSSettings(**{"ecs_threshold": 0.5, **settings})
    return ECSScorer(chosen, HashEncoder(), RuleSplitter(), ToldVerifier(), chat)


def judged(bench: Bench, chat: ChatModel | None, limit: int | None = None, **settings: Any) -> LabellingResult:
    labeller = scorer_of(chat, **settings).labeller
    return labeller.label_captions(bench.engine, bench.dataset, run_id="run", tell=lambda _: None, limit=limit)


def stored(bench: Bench, source: str = "judge:rule") -> dict[tuple[str, str], tuple[bool, Any]]:
    """Label and sentence by the keys of caption and keypoint."""
    query = (
        "SELECT s.key, k.key, l.covered, l.extra FROM keypoint_label l JOIN sample s USING (sample_id) "
        f"JOIN keypoint k USING (keypoint_id) WHERE l.source = '{source}'"
    )
    with bench.engine.connect() as connection:
        rows = connection.exec_driver_sql(query).all()
    return {(row[0], row[1]): (row[2], row[3] and row[3]["sentence"]) for row in rows}


def ingest(bench: Bench, long_text: Callable[[str], str] = lambda video: f"A dog runs in {video}. It barks.") -> None:
    """Two captions and three keypoints for each video; people have labelled one keypoint of each caption, wrongly."""
    bench.ingest(
        VIDEOS,
        captions=[
            *(candidate(f"{video} long", video, long_text(video), system="long") for video in VIDEOS),
            *(candidate(f"{video} short", video, f"Nobody is in {video}.", system="short") for video in VIDEOS),
        ],
        keypoints=[
            keypoint(f"{video} {i}", video, text=text)
            for video in VIDEOS
            for i, text in enumerate(("It barks.", f"A dog runs in {video}.", "A cat sleeps."))
        ],
        keypoint_labels=[label(f"{video} 2", f"{video} {kind}") for video in VIDEOS for kind in ("long", "short")],
        qa=[qa("asked", "v00")],
    )


template = filled_bench(ingest)


@pytest.fixture
def bench(engine: Engine, tmp_path: Path) -> Bench:
    return Bench(engine, tmp_path)


# Labels


def test_every_keypoint_of_every_caption_gets_a_label_of_the_judge(bench: Bench) -> None:
    chat = RuleChat(told)
    found = judged(bench, chat)
    expected: dict[tuple[str, str], tuple[bool, str | None]] = {}
    for video in VIDEOS:
        expected |= {(f"{video} {kind}", f"{video} {i}"): (False, None) for kind in ("long", "short") for i in range(3)}
        expected[f"{video} long", f"{video} 0"] = (True, "It barks.")
        expected[f"{video} long", f"{video} 1"] = (True, f"A dog runs in {video}.")
    assert stored(bench) == expected
    assert found.first_failure is None
    counts = {"captions": 2 * N, "judged": 2 * N, "labels": 6 * N, "failed": 0, "refused": 0, "without_times": 0}
    assert {name: found.counts[name] for name in counts} == counts
    assert (found.counts["chat_calls"], found.counts["chat_tokens_in"]) == (0, 0)
    # One request for a caption, with all its keypoints.
    assert len(asked(chat)) == 2 * N


def test_people_and_judge_do_not_mix(bench: Bench) -> None:
    before = stored(bench, "manifest")
    with bench.engine.connect() as connection:
        covered = list_ratings(connection, bench.dataset)
    judged(bench, RuleChat(told))
    assert stored(bench, "manifest") == before
    assert labels_by_source(bench.engine) == {"judge:rule": 6 * N, "manifest": 2 * N}
    with bench.engine.connect() as connection:
        # People, who are wrong here, said yes to all.
        assert list_ratings(connection, bench.dataset) == covered
        assert {row[1:] for row in covered} == {("labels", LABELS_ASPECT, 1.0)}
    scorer = scorer_of(None)
    bench.run(scorer)
    for source, n, positive in (("manifest", 2 * N, 2 * N), ("judge:rule", 6 * N, 2 * N)):
        found, *_ = calibrate_thresholds(bench.engine, scorer, bench.dataset, "f1", "all", source)
        (threshold,) = found.values()
        assert (threshold.n, threshold.n_good) == (n, positive)
        with bench.engine.connect() as connection:
            origins = connection.exec_driver_sql("SELECT details->>'labels' FROM keypoint_threshold").scalars().all()
        assert set(origins) == {source}
    # Words in common are a sure sign here, by the judge's labels.
    assert threshold.counts is not None
    assert threshold.counts.f1 == 1.0
    # A second ingest of the folder leaves the judge's labels alone.
    ingest(bench)
    assert len(stored(bench)) == 6 * N


def test_the_judge_has_no_part_in_a_score() -> None:
    without, with_judge = scorer_of(None), scorer_of(RuleChat(told), ecs_judge={"model": "rule"})
    assert (with_judge.models(), with_judge.params()) == (without.models(), without.params())


def test_a_keypoint_is_held_against_the_text_that_ecs_verifies(engine: Engine, tmp_path: Path) -> None:
    """In mode sodam that is the caption's text at the time of the keypoint's segment."""
    bench = Bench(engine, tmp_path, "timed")
    times = ((0.0, 10.0), (10.0, 20.0))
    bench.ingest(
        ["clip"],
        captions=[
            reference("told", "clip", "First. Then.", segments=spans(*times)),
            candidate("timed", "clip", "A dog. A cat.", segments=spans(*times, texts=("A dog.", "A cat."))),
            candidate("half", "clip", "A dog.", segments=spans(times[0], texts=("A dog.",))),
            candidate("untimed", "clip", "A dog. A cat."),
        ],
        keypoints=[
            keypoint(f"{name} {i}", "clip", text=f"A {name}.", segment_index=i)
            for name in ("dog", "cat")
            for i in (0, 1)
        ],
    )
    chat = RuleChat(told)
    found = judged(bench, chat, ecs_mode="sodam")
    kept = {(caption, name): covered for (caption, name), (covered, _) in stored(bench).items()}
    assert kept == {
        ("timed", "dog 0"): True,
        ("timed", "cat 0"): False,
        ("timed", "dog 1"): False,
        ("timed", "cat 1"): True,
        # Nothing is said about the second segment, which needs no judge.
        ("half", "dog 0"): True,
        ("half", "cat 0"): False,
        ("half", "dog 1"): False,
        ("half", "cat 1"): False,
    }
    assert (found.counts["without_times"], len(asked(chat))) == (1, 3)
    # By another mode the captions as they are count, and the labels are made anew.
    judged(bench, chat, ecs_mode="flat_micro")
    assert stored(bench)["timed", "dog 1"] == (True, "A dog.")
    assert stored(bench)["untimed", "cat 0"] == (True, "A cat.")


# Once


def test_what_is_judged_is_not_asked_again(bench: Bench) -> None:
    judged(bench, RuleChat(told))
    again = RuleChat(told)
    found = judged(bench, again)
    assert asked(again) == []
    assert (found.counts["captions"], found.counts["judged"], found.counts["labels"]) == (2 * N, 0, 0)


def test_what_has_changed_is_judged_anew(bench: Bench) -> None:
    judged(bench, RuleChat(told))
    ingest(bench, lambda video: "A cat sleeps." if video == "v03" else f"A dog runs in {video}. It barks.")
    bench.execute("UPDATE keypoint SET text = 'Nobody is in v05.' WHERE key = 'v05 2'")
    again = RuleChat(told)
    judged(bench, again)
    assert asked(again) == sorted(
        [
            (("A cat sleeps.",), ("It barks.", "A dog runs in v03.", "A cat sleeps.")),
            (("A dog runs in v05.", "It barks."), ("Nobody is in v05.",)),
            (("Nobody is in v05.",), ("Nobody is in v05.",)),
        ]
    )
    labels = stored(bench)
    assert labels["v03 long", "v03 2"] == (True, "A cat sleeps.")
    assert labels["v03 long", "v03 0"] == (False, None)
    assert labels["v05 short", "v05 2"] == (True, "Nobody is in v05.")
    assert len(labels) == 6 * N


def test_a_limit_takes_the_same_captions_first(bench: Bench) -> None:
    chat = RuleChat(told)
    judged(bench, chat, limit=4)
    first = {caption for caption, _ in stored(bench)}
    assert len(first) == 4
    judged(bench, chat, limit=4)
    assert len(asked(chat)) == 4
    judged(bench, chat, limit=10)
    ten = {caption for caption, _ in stored(bench)}
    assert (len(ten), len(asked(chat)), first < ten) == (10, 10, True)
    # They are of videos and systems as they come.
    assert len({caption.split()[0] for caption in ten}) > 5
    assert {caption.split()[1] for caption in ten} == {"long", "short"}
    # A label on what has changed is not kept, beyond the limit either.
    bench.execute("UPDATE sample SET text = 'Something else.'")
    judged(bench, chat, limit=4)
    assert {caption for caption, _ in stored(bench)} == first


def test_a_crash_keeps_the_labels_before_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assets.metrics.ecs.labelling.CAPTIONS_AT_A_TIME", 8)
    chat = RuleChat(told)

    def dies(request: ChatRequest) -> dict[str, Any]:
        if len(chat.batches) == 3:
            raise RuntimeError("killed")
        return told(request)

    chat.rule = dies
    with pytest.raises(RuntimeError, match="killed"):
        judged(bench, chat)
    assert len({caption for caption, _ in stored(bench)}) == 16
    rest = RuleChat(told)
    judged(bench, rest)
    assert len(asked(rest)) == 2 * N - 16
    assert len(stored(bench)) == 6 * N


# Failures


def but(video: str, reply: ChatReply) -> Rule:
    return lambda request: reply if f"in {video}." in question_of(request) else told(request)


@pytest.mark.parametrize(("status", "counted"), [("refused", "refused"), ("error", "failed"), ("malformed", "failed")])
def test_a_failed_caption_gets_no_label_and_is_counted(bench: Bench, status: Any, counted: str) -> None:
    found = judged(bench, RuleChat(but("v07", ChatReply(status, reason="it went wrong"))))
    assert {name: found.counts[name] for name in ("failed", "refused")} == {"failed": 0, "refused": 0, counted: 2}
    assert found.counts["judged"] == 2 * N - 2
    assert found.first_failure in ("v07 long: it went wrong", "v07 short: it went wrong")
    assert not any(caption.startswith("v07") for caption, _ in stored(bench))
    again = RuleChat(told)
    judged(bench, again)
    assert len(asked(again)) == 2
    assert len(stored(bench)) == 6 * N


def test_a_failure_leaves_no_label_on_a_text_that_has_changed(bench: Bench) -> None:
    judged(bench, RuleChat(told))
    bench.execute("UPDATE sample SET text = 'Something else.' WHERE key = 'v07 long'")
    judged(bench, RuleChat(but("v07", ChatReply("error", reason="no server"))))
    assert {caption for caption, _ in stored(bench) if caption.startswith("v07")} == {"v07 short"}


def test_without_a_judge_or_its_labels_a_sentence_says_so(bench: Bench) -> None:
    with pytest.raises(NoJudge, match="name a chat model in REELSIEVE_ECS_JUDGE_MODEL"):
        judged(bench, None)
    scorer = scorer_of(None)
    bench.run(scorer)
    with pytest.raises(
        NoLabels, match="set has no keypoint with both a label of judge:rule and a verdict: let it judge"
    ):
        calibrate_thresholds(bench.engine, scorer, bench.dataset, "f1", "all", "judge:rule")


# A server


def test_a_judge_behind_a_server_is_asked_once_and_every_call_is_kept(bench: Bench) -> None:
    def script(_: int, body: dict[str, Any]) -> Answer:
        said = body["messages"][-1]["content"]
        statements, keypoints = said.split("Facts:\n")
        answer = labels_of(lines(statements.strip()), lines(f"Facts:\n{keypoints}"))
        return completion(json.dumps(answer))

    with loopback(script) as server:
        settings = ECSSettings(ecs_threshold=0.5, ecs_judge={"model": "tiny", "url": server.url})
        labeller = ECSScorer.from_settings(settings).labeller
        assert labeller.source == "judge:tiny"

        def label_all() -> LabellingResult:
            return labeller.label_captions(bench.engine, bench.dataset, run_id="run", tell=lambda _: None, limit=5)

        found = label_all()
        assert (found.counts["chat_calls"], found.counts["chat_tokens_in"], len(server.asked)) == (5, 500, 5)
        assert len(stored(bench, "judge:tiny")) == 15
        bench.execute("DELETE FROM keypoint_label")
        found = label_all()
        assert (found.counts["chat_cached"], found.counts["labels"], len(server.asked)) == (5, 15, 5)
    assert bench.count("chat_call WHERE purpose = 'keypoint labels' AND run_id = 'run' AND outcome = 'ok'") == 5
