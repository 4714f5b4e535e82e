"""Chat models and encoders at servers, made from settings, with cache, record of requests, and limit of spending."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal, Protocol, runtime_checkable

from pydantic import BaseModel, Field
from sqlalchemy.engine import Engine

from assets.home.settings import NamedModel, SettingsError, format_variable_name
from db.evidence.chat_replies import PostgresLedger, PostgresReplies
from metrics_core.models.chat.bookkeeping import ReplyCache
from metrics_core.models.chat.client import HttpChatModel
from metrics_core.models.chat.outbox import Outbox
from metrics_core.models.chat.protocol import ChatModel, ChatReply, ChatRequest
from metrics_core.models.chat.wire import FIRST_DIALECTS, Dialect
from metrics_core.models.served_encoder import ServedTextEncoder
from metrics_core.models.server.address import PRESETS, Server
from metrics_core.models.server.endpoint import Endpoint
from metrics_core.models.server.ledger import CacheMode, Ledger
from metrics_core.models.server.spending import Prices, SpendingLimit, Usage, add_usage
from metrics_core.protocols import ModelIdentity, TextEncoder

# A role without a model, and the keys that chat models have.
CHAT_MODEL = NamedModel(model="", url="vllm", key_variable="", price=None)


@runtime_checkable
class CachingChatModel(Protocol):
    """A chat model that can keep its replies in a cache and record its requests in a ledger."""

    def add_cache(self, cache: ReplyCache, mode: CacheMode, ledger: Ledger) -> ChatModel:
        """Return a copy of the model that looks in the cache before it asks, and records every request in the ledger.
        mode: "normal" uses stored replies, "refresh" asks again and replaces them, "offline" asks nothing.
        """
        ...


class ChatSettings(BaseModel):
    """Settings for asking servers of models. They are cache mode, requests at a time, deadline and budget.

    None of them changes an answer.
    """

    chat_mode: Literal["normal", "refresh", "offline"] = Field(
        default="normal",
        description="`normal` asks only for answers that are not stored, `refresh` asks again, `offline` asks nothing",
    )
    chat_concurrency: int | None = Field(
        default=None,
        ge=1,
        description="requests sent at a time, per model; default: as many as the server's answers allow",
    )
    chat_deadline_s: float = Field(default=600.0, gt=0, description="seconds for one request with all its attempts")
    chat_budget: float | None = Field(
        default=None, ge=0, description="money that a process may spend, by the prices; then it sends no more requests"
    )

    def make_chat_model(self, role: str) -> ChatModel | None:
        """Make the chat model of a role of these settings, with their limits; None if they name none. Asks nothing yet.
        Raises ServerUnusable and SettingsError as `make_endpoint` does.
        """
        served: NamedModel = getattr(self, role)
        if not served.model:
            return None
        return HttpChatModel(self.make_endpoint(role), FIRST_DIALECTS.get(served.url, Dialect()))

    def make_endpoint(self, role: str) -> Endpoint:
        """Make the record of how the model of a role is asked at its server, with the limits of these settings. All
        models of the process share the budget. Raises ServerUnusable for an address or key variable that cannot be
        used, and SettingsError where there is a budget but no price of the model.
        """
        served: NamedModel = getattr(self, role)
        return Endpoint(
            served.model,
            Server(PRESETS.get(served.url, served.url), served.key_variable),
            concurrency=self.chat_concurrency,
            deadline_s=self.chat_deadline_s,
            prices=self.find_prices(served.model),
            spending=self._find_spending_limit(role, served.model),
        )

    def _find_spending_limit(self, role: str, model: str) -> SpendingLimit | None:
        if self.chat_budget is None:
            return None
        if self.find_prices(model) is None:
            variable = format_variable_name(f"models.{role}.price")
            raise SettingsError(f"REELSIEVE_CHAT_BUDGET is set, but there is no price of {model}: set {variable}")
        return _make_spending(self.chat_budget)

    def find_prices(self, model: str) -> Prices | None:
        """Return a model's prices per million tokens, which hold for all roles that name it; None if no such role has a
        price, the highest if they differ.
        """
        served = [each for _, each in self if isinstance(each, NamedModel) and each.model == model]
        prices = [each.price for each in served if each.price]
        return Prices(*max(prices)) if prices else None

    def add_cache(self, chat: ChatModel, engine: Engine, run_id: str, outbox: Outbox | None = None) -> ChatModel:
        """Return a copy of the chat model with its cache in table chat_reply and its record in table chat_call. A model
        that can have no cache is returned itself. run_id: the run that requests are recorded under.

        outbox: takes the requests instead of the server. Raises SettingsError for an outbox and a model whose requests
        it cannot take, or the mode "refresh".
        """
        if outbox is not None and not isinstance(chat, HttpChatModel):
            raise SettingsError(f"requests to {chat.identity.model_id} cannot be written to files: use reelsieve score")
        if outbox is not None and self.chat_mode == "refresh":
            variable = format_variable_name("chat_mode")
            raise SettingsError(f"{variable} is refresh, by which imported answers would not count: set it to normal")
        if isinstance(chat, CachingChatModel):
            chat = chat.add_cache(PostgresReplies(engine), self.chat_mode, PostgresLedger(engine, run_id))
        return chat.divert(outbox) if outbox is not None and isinstance(chat, HttpChatModel) else chat


def make_recording_encoder(encoder: TextEncoder, engine: Engine, run_id: str) -> TextEncoder:
    """Return a copy of a server's text encoder that records every request in table chat_call. An encoder that asks no
    server is returned itself. run_id: the run that requests are recorded under.
    """
    if not isinstance(encoder, ServedTextEncoder):
        return encoder
    return replace(encoder, endpoint=replace(encoder.endpoint, ledger=PostgresLedger(engine, run_id)))


@dataclass
class ChatTally:
    """Counts of the requests of a run to all chat models together: tokens, money, and replies. n_cached: replies that
    came from the cache. n_by_status: replies by status.
    """

    usage: Usage = field(default_factory=Usage)
    n_cached: int = 0
    n_by_status: Counter[str] = field(default_factory=Counter)
    _counted: dict[int, CountingChatModel] = field(default_factory=dict, repr=False)

    def count(self, chat: ChatModel, add_cache: Callable[[ChatModel], ChatModel]) -> CountingChatModel:
        """Return a copy of a chat model made by `add_cache`, whose replies are counted here. Every call for this model
        returns the same copy, which remembers its server's request format, and whether it is down.
        """
        if id(chat) not in self._counted:
            self._counted[id(chat)] = CountingChatModel(add_cache(chat), self)
        return self._counted[id(chat)]

    def add(self, replies: Sequence[ChatReply]) -> None:
        """Add these replies to the counts."""
        for reply in replies:
            self.usage = add_usage(self.usage, reply.usage)
            self.n_cached += reply.is_cached
            self.n_by_status[reply.status] += 1

    def as_metadata(self) -> dict[str, int | str]:
        """Return counts of calls, cached and failed replies, tokens and money, by name; {} if there was no reply. Money
        is a text, left out if a price is not known. A reply fails with any status but "ok".
        """
        if not self.n_by_status:
            return {}
        counts: dict[str, int | str] = {
            "calls": self.usage.calls,
            "cached": self.n_cached,
            "failed": sum(n for status, n in self.n_by_status.items() if status != "ok"),
            "tokens_in": self.usage.tokens_in,
            "tokens_out": self.usage.tokens_out,
        }
        return counts if self.usage.money is None else {**counts, "money": f"{self.usage.money:.6g}"}


@dataclass(frozen=True)
class CountingChatModel:
    """A ChatModel that adds every reply of another chat model to a tally."""

    chat_model: ChatModel
    tally: ChatTally

    @property
    def identity(self) -> ModelIdentity:
        """The identity of the chat model that is asked."""
        return self.chat_model.identity

    def chat(self, requests: Sequence[ChatRequest]) -> list[ChatReply]:
        """Return the chat model's replies to the requests, in order, and add them to the tally."""
        replies = self.chat_model.chat(requests)
        self.tally.add(replies)
        return replies


@lru_cache(maxsize=4)
def _make_spending(budget: float) -> SpendingLimit:
    """Return the limit of spending, which all models of this process share."""
    return SpendingLimit(budget)
