"""Hostile statements through `reelsieve sql`: all are refused in one sentence, and nothing of them stays.

Run it with `python -m tests.attack.queries --queries 300 --seed 1`.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any
from unittest.mock import patch

import sqlalchemy as sa
import typer
from sqlalchemy.engine import Engine

import db.reader
from db.engine import open_engine
from db.reader import READER
from db.schema import METADATA
from db.server import start_embedded
from tests.attack.campaign import Campaign, Seed, temporary_home
from tests.attack.filters import fill
from tests.command_line import run_command
from tests.db.test_reader import CHANGES, ESCAPES, MACHINE

MORE = [
    "INSERT INTO selection_item SELECT * FROM selection_item",
    "UPDATE video SET uri = '/etc/passwd'",
    "CREATE ROLE other SUPERUSER",
    f"GRANT postgres TO {READER}",
    "CREATE SCHEMA other",
    "CREATE UNLOGGED TABLE other (a int)",
    "COMMENT ON TABLE score IS 'mine'",
    "CREATE RULE other AS ON SELECT TO score DO INSTEAD NOTHING",
    "REINDEX TABLE score",
    "VACUUM score",
    "CLUSTER score",
    "REFRESH MATERIALIZED VIEW other",
    "SELECT setval('dataset_dataset_id_seq', 1)",
    "SELECT lo_from_bytea(0, 'x')",
    "SELECT lo_export(0, '/tmp/reelsieve_export')",
    "SELECT pg_ls_logdir()",
    "SELECT pg_promote()",
    "SELECT pg_switch_wal()",
    "SELECT pg_create_restore_point('mine')",
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename <> current_user",
    "SELECT set_config('log_statement', 'none', false)",
    "SET log_min_messages = panic",
    "SELECT rolpassword FROM pg_authid",
    "SELECT * FROM pg_user_mapping",
    "SELECT pg_read_server_files('/etc/passwd')",
    "SELECT dblink_exec('', 'DELETE FROM score')",
]
# Each would run for minutes where nothing stopped it.
ENDLESS = [
    "SELECT pg_sleep(600)",
    "SELECT set_config('statement_timeout', '0', false), pg_sleep(600)",
    "DO $$ BEGIN PERFORM pg_sleep(600); END $$",
    "SELECT count(*) FROM generate_series(1, 1000000000000)",
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n FROM t) SELECT count(*) FROM t",
]
SHORT_TIMEOUT = "300ms"
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
State = dict[str, Any]


def main(queries: int = 300, seed: Seed = None) -> None:
    """Try so many statements."""
    campaign = Campaign("queries", seed)
    attack(queries, campaign)
    campaign.finish()


def attack(queries: int, campaign: Campaign) -> None:
    """Send statements to an installation made for it, whose data must not change."""
    with temporary_home() as home:
        assert run_command("db", "migrate").returncode == 0
        engine = open_engine(start_embedded(home))
        _attack_data_of(engine, queries, campaign)
        engine.dispose()


def _attack_data_of(engine: Engine, queries: int, campaign: Campaign) -> None:
    fill(engine, campaign.random)
    before = _state(engine)
    for query in hostile(campaign.random, queries):
        _send(query, campaign)
        campaign.expect(_state(engine) == before, f"{query!r} left a trace")
    # The limit that users get is ten minutes.
    with patch.object(db.reader, "STATEMENT_TIMEOUT", SHORT_TIMEOUT):
        for query in ENDLESS:
            said = _send(query, campaign)
            campaign.expect("statement timeout" in said, f"{query!r} was not stopped by the timeout: {said}")
    campaign.expect(_state(engine) == before, "an endless statement left a trace")


def hostile(random: Random, n: int) -> list[str]:
    """Every statement as it is, as far as n goes, then random ones in a random disguise."""
    known = [*CHANGES, *ESCAPES, *MACHINE, *MORE]
    random.shuffle(known)
    disguised = [random.choice(WRAPPERS)(random.choice(known)) for _ in range(max(0, n - len(known)))]
    return [*known, *disguised][:n]


def _send(query: str, campaign: Campaign) -> str:
    """Run it; returns what the command said on standard error."""
    done = run_command("sql", "--json", "--", query)
    campaign.counts["statements"] += 1
    is_one_sentence = done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    campaign.expect(
        done.returncode != 0 and not done.stdout and is_one_sentence,
        f"{query!r} ended with {done.returncode}: {done.stdout[:200]!r} {done.stderr[:400]!r}",
    )
    return done.stderr


def _state(engine: Engine) -> State:
    """All that a statement could change: rows, roles, rights, settings, tables, large objects, locks."""
    digest = "SELECT md5(coalesce(string_agg(t::text, ',' ORDER BY t::text), '')) FROM "
    queries = {
        **{name: f"{digest}{name} t" for name in METADATA.tables},
        "roles": f"{digest}pg_authid t",
        "members": f"{digest}pg_auth_members t",
        "settings of roles": f"{digest}pg_db_role_setting t",
        "settings": f"{digest}(SELECT name, reset_val FROM pg_settings) t",
        "relations": f"{digest}(SELECT relname, relkind, relacl::text FROM pg_class) t",
        "functions": f"{digest}(SELECT proname, proacl::text FROM pg_proc) t",
        "schemas": f"{digest}pg_namespace t",
        "sequences": f"{digest}pg_sequences t",
        "comments": f"{digest}pg_description t",
        "large objects": f"{digest}pg_largeobject_metadata t",
        "locks": "SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory'",
    }
    with engine.connect() as connection:
        return {name: connection.scalar(sa.text(query)) for name, query in queries.items()}


if __name__ == "__main__":
    typer.run(main)
