"""Requests to chat models that are handed over instead of being sent, so that others answer them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from metrics_core.models.chat.protocol import ChatRequest
from metrics_core.models.chat.wire import Dialect, PlacePicture, build_data_url, build_request_body
from metrics_core.models.server.spending import Prices
from metrics_core.protocols import ModelIdentity


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request as a chat model would send it now. key: its cache key for this attempt, which is its id. attempt: how
    many answers to it were stored as malformed. seed: of this attempt. model: the name at the server. prices: None
    where the model has no price.
    """

    key: bytes
    attempt: int
    request: ChatRequest
    identity: ModelIdentity
    model: str
    dialect: Dialect
    prices: Prices | None

    def build_body(self, place_picture: PlacePicture = build_data_url) -> dict[str, Any]:
        """Build the JSON body. place_picture: returns the address of a JPEG image; by default, the image itself."""
        return build_request_body(
            self.request, self.model, self.dialect, self.request.seed + self.attempt, place_picture
        )


class Outbox(Protocol):
    """A place for requests that others are to answer."""

    @property
    def name(self) -> str:
        """The name of the place, for messages."""
        ...

    def put(self, outgoing: OutgoingRequest) -> None:
        """Keep a request; one that is kept already stays once."""
        ...
