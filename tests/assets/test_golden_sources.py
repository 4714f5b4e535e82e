"""Recorded cases of all sources: what models are asked in which batches, what is stored, forecast, checked and scored.

After a change that is meant, run it once with REELSIEVE_RENEW_GOLDEN=1 and read the difference.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Engine

from assets.metrics.evqa.scorer import EVQAScorer
from assets.metrics.evqa.settings import EVQASettings
from assets.metrics.judge.scorer import JudgeScorer
from assets.metrics.judge.settings import JudgeSettings
from assets.metrics.registry import SCORERS, list_source_classes
from assets.metrics.simple import CosineScorer
from assets.metrics.vcs.scorer import VCSScorer, VCSSettings
from assets.scores.base import Scorer
from assets.scores.pending import forecast_shard, list_incomplete_shards, list_samples_to_score
from assets.scores.run import score_without_database
from assets.sources.base import MissingEvidence, walk_sources
from db import schema
from db.evidence.embeddings import text_sha256
from db.evidence.entailments import pair_sha256
from db.evidence.frames import make_video_loader
from db.scores.pending import load_samples
from metrics_core.keywords import RuleKeywords
from metrics_core.models.chat.protocol import ChatReply, ChatRequest, ImagePart
from metrics_core.models.chat_keywords import ChatKeywordExtractor
from metrics_core.models.sentence_splitter import RuleSplitter
from metrics_core.models.server.spending import Usage
from metrics_core.protocols import Entailments, ModelIdentity
from tests.assets.examiner import STORY, examiner, qeva
from tests.assets.judging import answering
from tests.assets.manifests import candidate, keypoint, qa, reference, spans, write_clip
from tests.assets.verifying import DIM, Bench, Crash, HashEncoder, ToldVerifier, ecs, make_sources, order_for
from tests.conftest import filled_template
from tests.metrics_core.chat_server import Answer, Script, completion

RECORD = Path(__file__).with_name("golden_sources.json")
# How much a source makes between two writes; here it is little, so that few rows make several batches.
BATCHES = {
    "assets.sources.texts.CHUNK": 3,
    "assets.sources.frames.VIDEOS_PER_WRITE": 1,
    "assets.sources.keywords.TEXTS_AT_A_TIME": 2,
    "assets.metrics.ecs.verdicts.KeypointVerdicts.at_a_time": 2,
    "assets.metrics.qeva.questions.QuestionSource.at_a_time": 2,
    "assets.metrics.qeva.answers.AnswerSource.at_a_time": 2,
    "assets.metrics.judge.answers.JudgeAnswers.at_a_time": 2,
}
TOLD = " ".join(STORY)
WRONG = "A woman paints a red fence. " + " ".join(STORY[1:])


@dataclass
class Watch:
    """Keeps every call of every model, as the model's name and the keys that it was asked, and ends one of them.

    crashes: the name of a model that raises Crash at its call with this number, counted from 0.
    """

    crashes: tuple[str, int] | None = None
    calls: list[tuple[str, list[str]]] = field(default_factory=list)

    def ask(self, model: str, keys: Iterable[str]) -> None:
        if self.crashes == (model, sum(name == model for name, _ in self.calls)):
            raise Crash
        self.calls.append((model, list(keys)))

    @property
    def asked(self) -> set[tuple[str, str]]:
        return {(model, key) for model, keys in self.calls for key in keys}


class WatchedEncoder(HashEncoder):
    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self._watch.ask("encoder", texts)
        return super().encode(texts)


class WatchedVerifier(ToldVerifier):
    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def entailment(self, pairs: Sequence[tuple[str, str]]) -> Entailments:
        self._watch.ask("verifier", map(" => ".join, pairs))
        return super().entailment(pairs)


class WatchedClip(WatchedEncoder):
    """Encodes pictures too, by their mean colour. A picture has no key: they are counted."""

    batch_size, context_length, fit = 4, 77, None

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.encode_texts = self.encode

    def load(self) -> None:
        pass

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def list_unknown_words(self, text: str) -> list[str]:
        return []

    def preprocess(self, image: NDArray[np.uint8]) -> NDArray[np.float32]:
        colour: NDArray[np.float32] = image.mean(axis=(0, 1), dtype=np.float64).astype(np.float32)
        return np.concatenate([colour / 255, np.ones(DIM - len(colour), np.float32)])

    def encode_preprocessed(self, images: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        self._watch.ask("images", [f"{len(images)} pictures"])
        return np.stack([image / np.linalg.norm(image) for image in images])


@dataclass(frozen=True)
class WatchedChat:
    """A chat model that answers what a server with this script does."""

    watch: Watch
    script: Script
    identity = ModelIdentity("scripted", "1", {})

    def chat(self, requests: Sequence[ChatRequest]) -> list[ChatReply]:
        self.watch.ask("chat", map(name_request, requests))
        bodies = [json.loads(self.script(n, as_body(request)).body) for n, request in enumerate(requests)]
        data = [json.loads(body["choices"][0]["message"]["content"]) for body in bodies]
        return [ChatReply("ok", each, usage=Usage(1, 100, 20)) for each in data]


def list_texts(request: ChatRequest) -> list[str]:
    return [part.text for part in request.parts if not isinstance(part, ImagePart)]


def name_request(request: ChatRequest) -> str:
    """The purpose of a request, and some digits of all that it says and shows but the pixels."""
    texts = list_texts(request)
    whole = [request.system, texts, len(request.parts), request.schema, request.temperature, request.seed]
    return f"{request.purpose} {hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:8]}"


def as_body(request: ChatRequest) -> dict[str, Any]:
    content = [{"type": "text", "text": text} for text in list_texts(request)]
    return {
        "model": "scripted",
        "messages": [{"content": request.system}, {"content": content}],
        "response_format": {"json_schema": {"schema": request.schema}},
    }


def name_keywords(_: int, body: Mapping[str, Any]) -> Answer:
    """The words of five letters and more."""
    text = body["messages"][-1]["content"][0]["text"]
    return completion(json.dumps({"keywords": re.findall(r"\b\w{5,}\b", text)[:3]}))


PRICED = {"model": "scripted", "price": (10.0, 20.0)}


def build_evqa(watch: Watch, extractor: Any) -> EVQAScorer:
    settings = EVQASettings(frames_every=5, evqa_keywords=PRICED)
    return EVQAScorer(settings, WatchedClip(watch), extractor, RuleSplitter())  # type: ignore[arg-type]  # watched


def build_qeva_by_chat(watch: Watch) -> Scorer:
    chat: Any = WatchedChat(watch, examiner)
    return qeva({"video": chat, "text": chat}, qeva_frames=2, qeva_frame_size=32, qeva_text=PRICED)


def build_judge(watch: Watch) -> Scorer:
    settings = JudgeSettings(judge_frames=2, judge_frame_size=32, judge=PRICED)
    return JudgeScorer(settings, WatchedChat(watch, answering()))


@dataclass(frozen=True)
class Case:
    """A scorer, the tables of the evidence that it needs, and the calls at which its models end a run."""

    build: Callable[[Watch], Scorer]
    tables: Sequence[str]
    crashes: Sequence[tuple[str, int]]


# A judge's further answers are the matter of test_judge_repeats, what a server does that of test_qeva_by_server, and
# of test_evqa_keywords and test_judge_scoring.
CASES = {
    "vectors of texts": Case(
        lambda watch: VCSScorer(VCSSettings(), WatchedEncoder(watch), RuleSplitter()),
        ["text_embedding"],
        [("encoder", 1)],
    ),
    "cosines of whole texts": Case(
        lambda watch: CosineScorer(WatchedEncoder(watch)), ["text_embedding"], [("encoder", 1)]
    ),
    "frames": Case(lambda watch: build_evqa(watch, RuleKeywords()), ["text_embedding", "frame_set"], [("images", 1)]),
    "keywords and their vectors": Case(
        lambda watch: build_evqa(watch, ChatKeywordExtractor(WatchedChat(watch, name_keywords))),
        ["keyword_set", "text_embedding", "frame_set"],
        [("chat", 1), ("encoder", 2)],
    ),
    "verdicts": Case(
        lambda watch: ecs(WatchedVerifier(watch), WatchedEncoder(watch), ecs_sentences=2),
        ["text_embedding", "entailment", "verdict_set", "ecs_verdict"],
        [("verifier", 1), ("verifier", 3)],
    ),
    "questions and answers by rules": Case(
        lambda watch: qeva(verifier=WatchedVerifier(watch)),
        ["entailment", "qeva_question_set", "qeva_question", "qeva_answer"],
        [("verifier", 2), ("verifier", 12)],
    ),
    "questions and answers by chat": Case(
        build_qeva_by_chat, ["qeva_question_set", "qeva_question", "qeva_answer"], [("chat", 8), ("chat", 20)]
    ),
    "judgements": Case(build_judge, ["judge_answer"], [("chat", 1)]),
}


def fill(engine: Engine) -> Path:
    """Two videos with files and one without, notes on two of them, captions and a question."""
    folder = Path(tempfile.mkdtemp())
    (folder / "set").mkdir()
    for name, brightness in (("door", 40), ("bare", 220)):
        write_clip(folder / "set" / "videos" / f"{name}.avi", brightness=brightness)
    timed = spans((0, 0.3), (0.3, 0.6), (0.6, 0.9), texts=STORY)
    Bench(engine, folder).ingest(
        [*({"video_id": name, "path": f"videos/{name}.avi"} for name in ("door", "bare")), "text"],
        captions=[
            reference("r1", "door", TOLD, segments=timed),
            reference("r2", "text", "A cook boils rice. A cat sleeps."),
            candidate("faithful", "door", TOLD, segments=timed),
            candidate("wrong", "door", WRONG),
            candidate("brief", "door", STORY[1]),
            candidate("empty", "door", " ... "),
            candidate("alone", "bare", " ".join(reversed(STORY))),
            candidate("rice", "text", "A cook boils rice. A dog sleeps."),
        ],
        keypoints=[
            keypoint("k1", "door", text="A man opens a door.", segment_index=0),
            keypoint("k2", "door", text="A dog runs outside.", segment_index=1),
            keypoint("k3", "door", text="The door closes again.", segment_index=2),
            keypoint("k4", "text", text="Someone boils rice."),
        ],
        qa=[qa("asked", "door", "What runs?", "A red cat runs.")],
    )
    return folder


template = filled_template(fill)


@pytest.fixture
def bench(engine: Engine, clips: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    for name, size in BATCHES.items():
        monkeypatch.setattr(name, size)
    return Bench(engine, clips)


OWN_ID = "qeva_question", "question_id"


def list_rows(engine: Engine, tables: Iterable[str], watch: Watch) -> dict[str, list[str]]:
    """The rows of tables, one text for each: keys in the place of ids, and texts in that of their digests."""
    with engine.connect() as connection:
        keys = {
            f"{name}_id": {
                row[0]: row[1] for row in connection.execute(sa.text(f"SELECT {name}_id, {key} FROM {table}"))
            }
            for name, key, table in (
                ("sample", "key", "sample"),
                ("video", "key", "video"),
                ("keypoint", "key", "keypoint"),
                ("question", "text", "qeva_question"),
            )
        }
        texts = {key for _, key in watch.asked} | set(connection.scalars(sa.text("SELECT text FROM sample")))
        rows = {
            table: connection.execute(sa.select(schema.METADATA.tables[table])).mappings().all() for table in tables
        }
    digests = {text_sha256(text): text for text in texts}
    digests |= {pair_sha256(*text.split(" => ")): text for text in texts if " => " in text}
    return {
        table: sorted(
            " | ".join(
                show(keys[name].get(value) if name in keys else value, digests)
                for name, value in row.items()
                if (name in keys and (table, name) != OWN_ID) or not name.endswith(("_id", "_at", "place"))
            )
            for row in found
        )
        for table, found in rows.items()
    }


def show(value: Any, digests: Mapping[bytes, str]) -> str:
    """A value of a column as text. A digest of what is no text may depend on a library that writes videos."""
    if isinstance(value, bytes):
        return digests.get(value, "digest")
    if isinstance(value, list) and len(value) == DIM:
        return f"{value[0]:.2f}, .."
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def list_scores(bench: Bench, scorer: Scorer) -> list[str]:
    rows = bench.scores(scorer)
    return format_all(
        [key, rows[key].value, rows[key].status, rows[key].error, rows[key].components] for key in sorted(rows)
    )


def list_checks(bench: Bench, scorer: Scorer) -> list[str]:
    """What the checks of every source find, and how many of their things."""
    order = order_for(bench.engine, scorer, bench.dataset)
    found: list[Any] = []
    for source in walk_sources(scorer.sources):
        try:
            found.append([source.asset, *astuple(source.examine(order))])
        except MissingEvidence as error:
            found.append([source.asset, str(error)])
    return format_all(found)


def list_forecasts(bench: Bench, scorer: Scorer) -> list[str]:
    n_samples, parts = forecast_shard(bench.engine, scorer, bench.dataset, 0)
    return [f"{n_samples} samples", *format_all(map(astuple, parts))]


def format_all(values: Iterable[Any]) -> list[str]:
    """One line for every value, with six digits after the point, and names in their order."""
    texts = (json.dumps(value, sort_keys=True) for value in values)
    return [str(json.loads(text, parse_float=lambda number: round(float(number), 6))) for text in texts]


def record(bench: Bench, case: Case) -> dict[str, Any]:
    watch = Watch()
    scorer = case.build(watch)
    before = {"forecast": list_forecasts(bench, scorer), "checks before": list_checks(bench, scorer)}
    counts = make_sources(bench.engine, scorer, bench.dataset)
    calls = list(watch.calls)
    bench.score(scorer)
    make_sources(bench.engine, scorer, bench.dataset)
    assert list_forecasts(bench, scorer) == ["0 samples"]
    assert list_incomplete_shards(bench.engine, scorer, bench.dataset) == set()
    assert watch.calls == calls
    return {
        **before,
        "calls": [f"{model}: {' / '.join(keys)}" for model, keys in calls],
        "counts": format_all(counts.items()),
        "rows": list_rows(bench.engine, case.tables, watch),
        "checks": list_checks(bench, scorer),
        "scores": list_scores(bench, scorer),
    }


def compare(case: str, part: str, found: Any) -> None:
    """Hold what was found against the record, or write it there."""
    if os.environ.get("REELSIEVE_RENEW_GOLDEN"):
        recorded = json.loads(RECORD.read_text()) if RECORD.exists() else {}
        recorded.setdefault(case, {})[part] = found
        RECORD.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n")
    assert found == load(case, part)


def load(case: str, part: str) -> Any:
    return json.loads(RECORD.read_text())[case][part]


def test_every_source_has_a_case() -> None:
    """Also those of one asset: keywords are made by that of the vectors."""
    made = {type(source) for case in CASES.values() for source in walk_sources(case.build(Watch()).sources)}
    assert {kind.asset for kind in list_source_classes(SCORERS).values()} == {kind.asset for kind in made}


@pytest.mark.parametrize("case", CASES)
def test_evidence_is_made_as_recorded_and_made_once(bench: Bench, case: str) -> None:
    compare(case, "made", record(bench, CASES[case]))


@pytest.mark.parametrize("case", CASES)
def test_without_a_database_the_same_is_asked_and_scored(bench: Bench, case: str) -> None:
    stored, asked = Watch(), Watch()
    scorer = CASES[case].build(stored)
    ids = list_samples_to_score(bench.engine, scorer, bench.dataset, 0)
    with bench.engine.connect() as connection:
        samples = load_samples(connection, ids, scorer.inputs)
    outcomes = score_without_database(CASES[case].build(asked), samples, make_video_loader(bench.engine))
    rows = bench.run(scorer)
    assert {model for model, _ in asked.calls} == {model for model, _ in stored.calls}
    assert {key for key in asked.asked if key[0] != "images"} == {key for key in stored.asked if key[0] != "images"}
    for sample, outcome in zip(samples, outcomes, strict=True):
        row = rows[sample.key]
        assert (outcome.status, outcome.reason) == (row.status, row.error)
        assert outcome.value == pytest.approx(row.value, abs=1e-6)


@pytest.mark.parametrize(
    ("case", "crash"), [(name, crash) for name, case in CASES.items() for crash in case.crashes], ids=str
)
def test_a_crash_between_two_batches_leaves_those_before(bench: Bench, case: str, crash: tuple[str, int]) -> None:
    first, second = Watch(crash), Watch()
    with pytest.raises(Crash):
        bench.run(CASES[case].build(first))
    left = list_rows(bench.engine, CASES[case].tables, first)
    scorer = CASES[case].build(second)
    bench.run(scorer)
    twice = sorted(f"{model}: {key}" for model, key in first.asked & second.asked if model != "images")
    counts = {table: len(rows) for table, rows in left.items()}
    n_asked = len(first.asked), len(second.asked)
    compare(case, f"crash of {crash[0]} {crash[1]}", format_all([counts, n_asked, twice]))
    made = load(case, "made")
    assert list_scores(bench, scorer) == made["scores"]
    both = Watch(calls=[*first.calls, *second.calls])
    assert list_rows(bench.engine, CASES[case].tables, both) == made["rows"]
