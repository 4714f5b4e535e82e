"""Chat models as the settings name them, with what a run gives them: the cache, the ledger and the spending stop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal, Protocol, runtime_checkable

from pydantic import BaseModel, Field, ValidationInfo, field_validator
from sqlalchemy.engine import Engine

from db.evidence.chat_replies import PostgresLedger, PostgresReplies
from metrics_core.models.chat.bookkeeping import ReplyCache
from metrics_core.models.chat.presets import PRESETS, build_server, make_chat_model
from metrics_core.models.chat.protocol import ChatModel, ChatReply, ChatRequest
from metrics_core.models.served_encoder import ServedTextEncoder
from metrics_core.models.server.endpoint import Endpoint
from metrics_core.models.server.ledger import CacheMode, Ledger
from metrics_core.models.server.retries import RetryPolicy
from metrics_core.models.server.spending import Prices, SpendingLimit, Usage, add_usage
from metrics_core.protocols import ModelIdentity, TextEncoder

# The descriptions that the settings of every chat model share. A hosted server has no address of its own to preset.
_PRESETS = ", ".join(name for name, preset in PRESETS.items() if preset.url)
URL_DESCRIPTION = f"preset ({_PRESETS}), or address of a server"
KEY_VARIABLE_DESCRIPTION = "name of the environment variable that holds the key; empty for a server without one"
# Of the numbers that a model in this process computes in.
Precision = Literal["fp32", "bf16", "fp16"]
PRECISION_DESCRIPTION = "counts on a GPU only"


@runtime_checkable
class CachingChatModel(Protocol):
    """A chat model that takes a cache and a ledger."""

    def add_cache(self, cache: ReplyCache, mode: CacheMode, ledger: Ledger) -> ChatModel:
        """The same model with a cache and a ledger."""
        ...


class ChatSettings(BaseModel):
    """How servers of models are asked. Nothing of it changes an answer."""

    chat_mode: Literal["normal", "refresh", "offline"] = Field(
        default="normal", description="`refresh` asks again, `offline` takes stored answers only"
    )
    chat_concurrency: int = Field(default=8, ge=1, description="requests under way at a time, per model")
    chat_deadline_s: float = Field(default=600.0, gt=0, description="seconds for one request with all its attempts")
    chat_prices: dict[str, tuple[float, float]] = Field(
        default={}, description='money per million tokens in and out by model, as JSON: {"model": [2.5, 10]}'
    )
    chat_budget: float | None = Field(default=None, ge=0, description="money after which a process asks nothing more")

    @field_validator("chat_budget")
    @classmethod
    def _has_prices(cls, budget: float | None, info: ValidationInfo) -> float | None:
        if budget is not None and not info.data.get("chat_prices"):
            raise ValueError("a budget needs REELSIEVE_CHAT_PRICES, the prices of the models")
        return budget

    def make_chat_model(self, model: str, url: str, key_variable: str) -> ChatModel:
        """The model behind a preset or an address; asks nothing yet.

        Raises ServerUnusable for an address or key variable that cannot be used, and BudgetWithoutPrice where there is
        a budget but no price of the model.
        """
        prices, purse = self._find_money(model)
        return make_chat_model(
            model,
            url=None if url in PRESETS else url,
            preset=url if url in PRESETS else None,
            key_variable=key_variable or None,
            concurrency=self.chat_concurrency,
            deadline_s=self.chat_deadline_s,
            prices=prices,
            spending=purse,
        )

    def make_served_encoder(self, model: str, url: str, key_variable: str, revision: str) -> ServedTextEncoder:
        """The text encoder behind a preset or an address; asks nothing yet. Raises as `make_chat_model` does."""
        prices, purse = self._find_money(model)
        endpoint = Endpoint(
            model,
            build_server(model, PRESETS[url].url if url in PRESETS else url, key_variable or None),
            revision,
            concurrency=self.chat_concurrency,
            policy=RetryPolicy(deadline_s=self.chat_deadline_s),
            prices=prices,
            spending=purse,
            mode=self.chat_mode,
        )
        return ServedTextEncoder(endpoint)

    def _find_money(self, model: str) -> tuple[Prices | None, SpendingLimit | None]:
        prices = self.find_prices(model)
        if self.chat_budget is None:
            return prices, None
        if prices is None:
            raise BudgetWithoutPrice(f"REELSIEVE_CHAT_BUDGET is set, but REELSIEVE_CHAT_PRICES has no price of {model}")
        return prices, _make_spending(self.chat_budget)

    def find_prices(self, model: str) -> Prices | None:
        """The prices of a model, where they are known."""
        prices = self.chat_prices.get(model)
        return Prices(*prices) if prices else None

    def add_cache(self, chat: ChatModel, engine: Engine, run_id: str) -> ChatModel:
        """The same model behind tables chat_reply and chat_call, if it can remember."""
        if isinstance(chat, CachingChatModel):
            return chat.add_cache(PostgresReplies(engine), self.chat_mode, PostgresLedger(engine, run_id))
        return chat


def make_recording_encoder(encoder: TextEncoder, engine: Engine, run_id: str) -> TextEncoder:
    """The same text encoder; where it asks a server, each call becomes a row of table chat_call."""
    if not isinstance(encoder, ServedTextEncoder):
        return encoder
    return replace(encoder, endpoint=replace(encoder.endpoint, ledger=PostgresLedger(engine, run_id)))


class BudgetWithoutPrice(ValueError):
    """A budget for a model whose price is not known."""

    plain = True


@dataclass
class ChatTally:
    """What was asked in a run, of all models together. status: how many replies of each status there were."""

    usage: Usage = field(default_factory=Usage)
    n_cached: int = 0
    n_by_status: Counter[str] = field(default_factory=Counter)

    def add(self, replies: Sequence[ChatReply]) -> None:
        """Count some replies."""
        for reply in replies:
            self.usage = add_usage(self.usage, reply.usage)
            self.n_cached += reply.is_cached
            self.n_by_status[reply.status] += 1

    def as_metadata(self) -> dict[str, int | str]:
        """Plain data for people; empty where no chat model was asked."""
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
    """A ChatModel whose replies are counted."""

    chat_model: ChatModel
    tally: ChatTally

    @property
    def identity(self) -> ModelIdentity:
        """The identity of the model that is asked."""
        return self.chat_model.identity

    def chat(self, requests: Sequence[ChatRequest]) -> list[ChatReply]:
        """The model's replies."""
        replies = self.chat_model.chat(requests)
        self.tally.add(replies)
        return replies


@lru_cache(maxsize=4)
def _make_spending(budget: float) -> SpendingLimit:
    """One for all models of this process."""
    return SpendingLimit(budget)
