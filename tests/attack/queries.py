"""Hostile statements through `reelsieve sql`, and on connections of the reader's own: no trace, and nobody held up.

Run it with `python -m tests.attack.queries --queries 300 --seed 1`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from random import Random
from typing import Any
from unittest.mock import patch

import psycopg
import sqlalchemy as sa
import typer
from sqlalchemy.engine import URL, Engine

import db.server.reader
from assets.metrics.registry import METRIC_INPUTS
from db.manifest.datasets import Dataset
from db.manifest.store import open_ingest_store
from db.schema import scorer
from db.schema.migrate import migrate
from db.scores.store import activate_scorer, register_scorer
from db.selection.recipes import parse_recipe
from db.server.embedded import start_embedded
from db.server.engine import open_connection, open_engine
from db.server.leases import hold_lease
from db.server.reader import MAX_SESSIONS, READER_ROLE
from db.server.urls import DAGSTER, build_sibling_url
from tests.attack.campaign import Campaign, Seed, temporary_home
from tests.attack.filters import fill
from tests.attack.state import changed, state_of_database, state_of_server
from tests.attack.statements import ENDLESS, HARMLESS, OF_ITSELF, REFUSED
from tests.command_line import run_command
from tests.db.freezing import freeze_recipe

SHORT_TIMEOUT = "300ms"
# What is tried on connections of the reader's own.
OWN = [*REFUSED, *HARMLESS, *OF_ITSELF]
# How long the work of others may be held up before that is a fault. It is far beyond what it takes.
PATIENCE = "20s"
WRAPPERS: list[Callable[[str], str]] = [
    lambda query: query,
    lambda query: f"/* a query */ {query}",
    lambda query: f"-- a query\n{query}",
    lambda query: f"\n\t{query} ;",
    lambda query: f"{query}; SELECT 1",
    lambda query: f"SELECT 1; {query}",
    lambda query: f"BEGIN; {query}; COMMIT",
    lambda query: f"COMMIT; {query}",
    lambda query: f"DO $do$ BEGIN {query}; END $do$",
    lambda query: f"DO $do$ BEGIN EXECUTE $run${query}$run$; END $do$",
    lambda query: f"DO $do$ BEGIN SET TRANSACTION READ WRITE; {query}; END $do$",
    lambda query: f"EXPLAIN (ANALYZE) {query}",
    lambda query: f"WITH hidden AS MATERIALIZED ({query}) SELECT * FROM hidden",
]


def main(queries: int = 300, seed: Seed = None) -> None:
    """Try so many statements through `reelsieve sql`, and all of them on connections of the reader's own."""
    campaign = Campaign("queries", seed)
    with temporary_home() as home:
        assert run_command("db", "migrate").returncode == 0
        url = start_embedded(home)
        dataset = fill_database(url, campaign.random)
        attack(url, queries, campaign)
        attack_directly(url, dataset, len(OWN), campaign)
    campaign.finish()


def fill_database(url: URL, random: Random) -> Dataset:
    """Put rows of many kinds into it."""
    engine = open_engine(url)
    dataset = fill(engine, random)
    engine.dispose()
    return dataset


def attack(url: URL, queries: int, campaign: Campaign) -> None:
    """Send statements through the command to an installation that this process is set up for."""
    before = _state(url)
    for query in hostile(campaign.random, queries):
        _send(query, campaign)
        campaign.expect(not (others := changed(_state(url), before)), f"{query!r} left a trace: {others}")
    # The limit that users get is ten minutes.
    with patch.object(db.server.reader, "STATEMENT_TIMEOUT", SHORT_TIMEOUT):
        for query in ENDLESS:
            said = _send(query, campaign)
            campaign.expect("statement timeout" in said, f"{query!r} was not stopped by the timeout: {said}")
    campaign.expect(not (others := changed(_state(url), before)), f"endless statements left a trace: {others}")


def attack_directly(url: URL, dataset: Dataset, n: int, campaign: Campaign) -> None:
    """Send statements as the reader without the command; while each connection is open, others must be able to work."""
    engine = open_engine(url.update_query_dict({"options": f"-c lock_timeout={PATIENCE}"}))
    migrate(url, METRIC_INPUTS)
    before = _state(url)
    for query in campaign.random.sample(OWN, n):
        with _reader(url) as reader:
            reader.execute("BEGIN")
            is_done = _is_done(reader, query)
            campaign.counts["done by the reader itself" if is_done else "refused to the reader itself"] += 1
            _work(engine, dataset, query, campaign)
            if query in OF_ITSELF:
                migrate(url, METRIC_INPUTS)
        before |= state_of_database(url, ["sequences"])
        # Once more, so that nobody takes it back.
        with _reader(url) as reader:
            _is_done(reader, query)
        if query in OF_ITSELF:
            migrate(url, METRIC_INPUTS)
        campaign.expect(not (others := changed(_state(url), before)), f"{query!r} left a trace: {others}")
    _attack_at_once(url, engine, dataset, campaign)
    # The others, who work beside it, take numbers of sequences.
    before |= state_of_database(url, ["sequences"])
    campaign.expect(not (others := changed(_state(url), before)), f"all of them at once left a trace: {others}")
    engine.dispose()


def hostile(random: Random, n: int) -> list[str]:
    """Every statement as it is, as far as n goes, then random ones in a random disguise."""
    known = [*REFUSED, *OF_ITSELF]
    random.shuffle(known)
    disguised = [random.choice(WRAPPERS)(random.choice(known)) for _ in range(max(0, n - len(known)))]
    return [*known, *disguised][:n]


def _send(query: str, campaign: Campaign) -> str:
    """Run it; returns what the command said on standard error: a sentence, below which may stand the place."""
    done = run_command("sql", "--json", "--", query)
    campaign.counts["statements"] += 1
    is_plain = re.fullmatch(r"error: .+\n(.+\n *\^\n)?", done.stderr) is not None
    campaign.expect(
        done.returncode != 0 and not done.stdout and is_plain,
        f"{query!r} ended with {done.returncode}: {done.stdout[:200]!r} {done.stderr[:400]!r}",
    )
    return done.stderr


@contextmanager
def _reader(url: URL, timeout: str = SHORT_TIMEOUT) -> Iterator[psycopg.Connection[Any]]:
    """A connection of the reader's own, on which each statement is a transaction."""
    reader = open_connection(url.set(username=READER_ROLE), autocommit=True)
    try:
        reader.execute("SET default_transaction_read_only = off")
        reader.execute(f"SET statement_timeout = '{timeout}'".encode())
        yield reader
    finally:
        # Without a commit: it may be ended by now.
        reader.close()


def _is_done(reader: psycopg.Connection[Any], query: str) -> bool:
    with suppress(psycopg.Error):
        reader.execute(query.encode())
        return True
    return False


def _work(engine: Engine, dataset: Dataset, what: str, campaign: Campaign) -> None:
    """Take every lock that commands take."""
    try:
        with (
            hold_lease(engine.url, f"probe of {dataset.name}"),
            hold_lease(build_sibling_url(engine.url, DAGSTER), "run 1"),
        ):
            pass
        with open_ingest_store(engine, dataset):
            pass
        with engine.connect() as connection:
            freeze_recipe(connection, dataset, parse_recipe({"by": "vcs", "keep": 0.5}))
        with engine.connect() as connection:
            identity = {"metric": "vcs", "models": {}, "params": {"probe": 1}, "code_version": "1"}
            activate_scorer(connection, register_scorer(connection, **identity), [dataset.dataset_id])
            connection.execute(sa.update(scorer).values(status=scorer.c.status))
    except (psycopg.Error, sa.exc.DBAPIError) as error:
        campaign.expect(False, f"{what!r} holds others up: {error}")
    campaign.counts["times that others worked"] += 1


def _attack_at_once(url: URL, engine: Engine, dataset: Dataset, campaign: Campaign) -> None:
    """As many sessions as the reader may have do what holds most, while others work and migrate."""
    holding = [*HARMLESS, *ENDLESS]

    def run(number: int) -> None:
        with suppress(psycopg.Error), _reader(url, "4s") as reader:
            reader.execute("BEGIN")
            reader.execute(holding[number % len(holding)].encode())
            reader.execute("SELECT pg_sleep(4)")

    with ThreadPoolExecutor(MAX_SESSIONS + 5) as pool:
        sessions = [pool.submit(run, number) for number in range(MAX_SESSIONS + 5)]
        for _ in range(3):
            _work(engine, dataset, "all of them at once", campaign)
        migrate(url, METRIC_INPUTS)
        best = ("--by", "vcs", "--keep", "0.5")
        done = run_command("select", "--dataset", dataset.name, *best, "--preview", "--json")
        campaign.expect(done.returncode == 0, f"select beside them: {done.stderr}")
        for session in sessions:
            session.result()
    campaign.counts["sessions at once"] += len(sessions)


def _state(url: URL) -> dict[str, str]:
    return {**state_of_database(url), **state_of_server(url)}


if __name__ == "__main__":
    typer.run(main)
