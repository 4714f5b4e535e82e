"""Hostile chat servers: every request ends in time with a status, nothing is invented, and the key is kept nowhere.

Run it with `python -m tests.attack.chat_servers --cases 1200 --rounds 12 --seed 1`.
"""

from __future__ import annotations

import io
import json
import logging
import os
import re
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import sqlalchemy as sa
import typer
from sqlalchemy.engine import Engine

from assets.metrics.qeva.scorer import QEVAScorer
from db.schema import METADATA
from metrics_core.models.chat.bookkeeping import ReplyCache
from metrics_core.models.chat.client import HttpChatModel
from metrics_core.models.chat.json_answers import iterate_texts
from metrics_core.models.chat.protocol import ChatReply
from metrics_core.models.server.address import Server
from metrics_core.models.server.endpoint import Endpoint
from metrics_core.models.server.spending import Prices
from tests.assets.examiner import STORY, examiner, qeva
from tests.assets.manifests import candidate, reference, spans
from tests.assets.verifying import Bench, ToldVerifier
from tests.attack.campaign import Campaign, Seed, empty_database
from tests.attack.chat_kinds import DATA, KINDS, answered
from tests.metrics_core.chat_fakes import MemoryCache, MemoryLedger, ask, no_waits
from tests.metrics_core.key_escapes import shows_key
from tests.metrics_core.raw_server import Behaviour, Line, raw_server

VARIABLE = "REELSIEVE_HOSTILE_KEY"
KEY = "sk-proj/Zq7+tW3x-9KfLm2Rv_8bNc4Hd6Js1Yp"
SLOW_S, BOUND_S = 0.3, 60.0
LONGEST_REASON = 1200
AT_ONCE = 8
# How often a server answers well while others score.
GOOD_SHARES = (0.5, 0.9, 0.98)


def main(cases: int = 1200, rounds: int = 12, seed: Seed = None) -> None:
    """Ask so many hostile servers, and score with servers that are hostile now and then, so many times."""
    campaign = Campaign("chat_servers", seed)
    with empty_database() as (folder, engine):
        attack(engine, folder, cases, rounds, campaign)
    campaign.finish()


def attack(engine: Engine, folder: Path, cases: int, rounds: int, campaign: Campaign) -> None:
    """Draw a server of each kind in turn, then score."""
    names = [list(KINDS)[number % len(KINDS)] for number in range(cases)]
    campaign.counts["kinds"] = len(set(names))
    drawn = [(name, campaign.random.randrange(2**32)) for name in names]
    with patch.dict(os.environ, {VARIABLE: KEY}), no_waits():
        with _heard(campaign, "cases"), ThreadPoolExecutor(AT_ONCE) as pool:
            done = list(pool.map(lambda of: Case(*of).asked(), drawn))
        for case in done:
            case.judge(campaign)
        for number in range(rounds):
            _score(Bench(engine, folder, f"round_{number}"), campaign)


@contextmanager
def _heard(campaign: Campaign, what: str) -> Iterator[None]:
    """Look for the key in all that is printed meanwhile, and logged at any level."""
    heard, root = io.StringIO(), logging.getLogger()
    handler, level = logging.StreamHandler(heard), root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with redirect_stdout(heard), redirect_stderr(heard):
            yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    said = heard.getvalue()
    campaign.expect(not _shown(said), f"{what}: the key stands on the terminal or in a log")
    campaign.expect("Traceback" not in said, f"{what}: a traceback was printed: {said[:2000]}")


def _shown(text: str) -> bool:
    return any(shows_key(KEY, line) for line in set(text.splitlines()))


@dataclass
class Case:
    """A server of a kind, drawn with this seed, and what became of a request to it."""

    name: str
    seed: int
    cache: MemoryCache = field(default_factory=MemoryCache)
    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    reply: ChatReply | None = None
    seconds: float = 0.0
    fault: str = ""
    are_closed: bool = True
    asked_of: set[bytes] = field(default_factory=set)

    def asked(self) -> Case:
        """Ask the server one question."""
        kind = KINDS[self.name]
        behave = kind.drawn(Random(self.seed), KEY)
        with raw_server(behave) as server:
            scheme = "https" if "handshake" in self.name else "http"
            model = _model(
                server.url(scheme), SLOW_S if kind.is_slow else BOUND_S, cache=self.cache, ledger=self.ledger
            )
            began = time.monotonic()
            try:
                (self.reply,) = model.chat([ask("Who? " * (1 + Random(self.seed).choice([0, 100_000])))])
            except Exception:
                self.fault = traceback.format_exc(limit=-4)
            self.seconds = time.monotonic() - began
            self.are_closed = all(line.gone.wait(BOUND_S) for line in server.lines)
        return self

    def judge(self, campaign: Campaign) -> None:
        """Compare with what must hold of every server."""
        name, reply = f"{self.name} ({self.seed})", self.reply
        campaign.counts["cases"] += 1
        if reply is None:
            campaign.expect(False, f"{name}: {self.fault}")
            return
        campaign.counts[f"replies: {reply.status}"] += 1
        campaign.expect(reply.status in KINDS[self.name].may_be, f"{name}: a reply of status {reply.status}: {reply}")
        campaign.expect(self.seconds < BOUND_S / 2, f"{name}: it took {self.seconds:.1f} s")
        campaign.expect(self.are_closed, f"{name}: a connection stays open")
        campaign.expect((reply.status == "ok") == (reply.data is not None), f"{name}: {reply}")
        if "key" not in self.name and reply.data is not None:
            campaign.expect(reply.data == DATA, f"{name}: it is said to have answered {reply.data}")
        usages = [asdict(reply.usage), *self.ledger.calls]
        campaign.expect(
            all(0 <= usage[name] < 2**62 for usage in usages for name in ("tokens_in", "tokens_out")),
            f"{name}: {usages}",
        )
        stored: Any = [reply.reason, reply.data, *(call["error"] for call in self.ledger.calls)]
        stored += [of["data"] for of in self.cache.replies.values()]
        campaign.expect(not any(_shown(text) for text in iterate_texts(stored)), f"{name}: the key stands in {stored}")
        for reason in (reply.reason, *(call["error"] for call in self.ledger.calls)):
            is_good = reason is None or (reason.isprintable() and 0 < len(reason) <= LONGEST_REASON)
            campaign.expect(is_good, f"{name}: {len(reason or '')} characters: {(reason or '')[:2000]!r}")


def _model(url: str, deadline_s: float, cache: ReplyCache | None = None, **more: Any) -> HttpChatModel:
    """A model that gives up soon."""
    limits = {"deadline_s": deadline_s, "timeout_s": deadline_s}
    limits |= {"transport_retries": 1, "content_retries": 1}
    endpoint = Endpoint("tiny", Server(url, VARIABLE), **limits, prices=Prices(1.0, 1.0), **more)
    return HttpChatModel(endpoint, cache=cache)


def _score(bench: Bench, campaign: Campaign) -> None:
    """Score a small dataset with QEVA by a server that is hostile now and then, and again by a good one."""
    story = reference("r", "v", " ".join(STORY), segments=spans((0, 2), (2, 4), (4, 6), texts=STORY))
    texts = {f"c{i}": " ".join(STORY[: i + 1]) for i in range(3)}
    bench.ingest(["v"], captions=[story, *(candidate(key, "v", text) for key, text in texts.items())])
    campaign.counts["rounds of scoring"] += 1
    scorer = partial(_scorer, bench.name)
    with raw_server(_hostile_at_times(Random(campaign.random.randrange(2**32)), campaign)) as server:
        try:
            with _heard(campaign, bench.name):
                rows = bench.run(scorer(server.url(), SLOW_S))
        except Exception:
            campaign.expect(False, f"{bench.name}: the scoring ended early: {traceback.format_exc(limit=-4)}")
            return
    campaign.expect(rows.keys() == texts.keys(), f"{bench.name}: scores of {sorted(rows)} alone")
    for row in rows.values():
        campaign.counts[f"scores: {row.status}"] += 1
        campaign.expect(row.value is None or 0 <= row.value <= 1, f"{bench.name}: a score of {row.value}")
        campaign.expect((row.error is None) == (row.status == "ok"), f"{bench.name}: {row.status}: {row.error!r}")
    _expect_no_key(bench, campaign)
    with raw_server(_answers_well) as good:
        mended = bench.run(scorer(good.url(), BOUND_S))
    campaign.counts["calls while scoring"] += bench.count("chat_call")
    left = [key for key, row in mended.items() if row.status == "failed"]
    campaign.expect(not left, f"{bench.name}: {left} are failed after a run with a good server")


def _scorer(revision: str, url: str, deadline_s: float) -> QEVAScorer:
    """By a model of this revision, so that no answer of another round is found again."""
    return qeva({"text": _model(url, deadline_s, revision=revision)}, verifier=ToldVerifier(limit=0))


def _answers_well(line: Line) -> None:
    """As the examiner does, in whatever dialect it is asked: the prompt always ends with the schema."""
    body = line.body()
    schema = json.loads(re.findall(r"JSON schema:\n(\{.*\})", list(iterate_texts(body["messages"]))[-1])[-1])
    line.send(answered(examiner(0, body | {"response_format": {"json_schema": {"schema": schema}}}).body))


def _hostile_at_times(random: Random, campaign: Campaign) -> Behaviour:
    share = random.choice(GOOD_SHARES)
    hostile = [name for name in KINDS if "good" not in name and "handshake" not in name]

    def behave(line: Line) -> None:
        if random.random() < share:
            _answers_well(line)
            return
        campaign.counts["hostile answers while scoring"] += 1
        KINDS[random.choice(hostile)].drawn(random, KEY)(line)

    return behave


def _expect_no_key(bench: Bench, campaign: Campaign) -> None:
    with bench.engine.connect() as connection:
        for name in METADATA.tables:
            rows = [str(row) for (row,) in connection.execute(sa.text(f"SELECT t::text FROM {name} t"))]
            campaign.counts["stored rows read"] += len(rows)
            holding = [row for row in rows if shows_key(KEY, row)]
            campaign.expect(not holding, f"{bench.name}: the key stands in table {name}: {holding[:2]}")


if __name__ == "__main__":
    typer.run(main)
