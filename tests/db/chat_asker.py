"""Asks ten questions, with answers and calls in Postgres: `python -m tests.db.chat_asker SERVER DATABASE`."""

from __future__ import annotations

import sys

from sqlalchemy.engine import make_url

from db.evidence.chat_replies import PostgresLedger, PostgresReplies
from db.server.engine import open_engine
from metrics_core.models.chat.protocol import ChatReply
from metrics_core.models.server.spending import Prices
from tests.metrics_core.chat_fakes import ask, model_at


def ask_ten(server: str, database: str, run_id: str) -> list[ChatReply]:
    """The replies to ten questions, asked one after the other."""
    engine = open_engine(make_url(database))
    replies, ledger = PostgresReplies(engine), PostgresLedger(engine, run_id)
    prices = Prices(2.5, 10.0)
    model = model_at(server, cache=replies, ledger=ledger, prices=prices)
    try:
        return model.chat([ask(f"Question {i}?") for i in range(10)])
    finally:
        engine.dispose()


if __name__ == "__main__":
    ask_ten(sys.argv[1], sys.argv[2], "killed")
