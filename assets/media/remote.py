"""Asking the stores behind URLs: how an object is now, and its bytes. fsspec knows how each kind of store is asked."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from assets.media.address import Address
from assets.media.network import Networks, guarded_socket
from assets.media.remote_errors import MediaUnavailable, unavailable

BLOCK = 8 << 20
CONNECT_S, SILENCE_S = 20.0, 60.0
# A server that sends a byte a minute never falls silent.
LONGEST_FETCH_S = 3600.0


@dataclass(frozen=True, slots=True)
class ObjectState:
    """What a store says of an object. `etag` is None where it gives none that stands for the bytes."""

    size_bytes: int | None
    etag: str | None


class Store:
    """The objects behind URLs, as far as machines of these private networks, and all public ones, hold them."""

    def __init__(self, allowed: Networks) -> None:
        self._allowed = allowed

    def look(self, address: Address) -> ObjectState:
        """How the object is now. Raises MediaUnavailable."""
        try:
            info = _file_system(address.scheme, self._allowed, os.getpid()).info(_name(address), **_fresh(address))
        except Exception as error:
            raise unavailable(address, error) from None
        if info.get("type") == "directory":
            raise MediaUnavailable("missing", "there is no such object, only others below this name")
        # Google's etag also changes with what is said about an object; its MD5 is that of the bytes.
        etag = info.get("md5Hash") or info.get("ETag") or info.get("etag") or None
        # A weak one stays where bytes change and the meaning does not.
        return ObjectState(info.get("size"), None if etag is None or etag.startswith("W/") else etag)

    def read(self, address: Address, write: Callable[[bytes], object]) -> None:
        """Hand the object's bytes to `write` in order. Raises MediaUnavailable, and what `write` raises."""
        ends = time.monotonic() + LONGEST_FETCH_S
        try:
            file = self._opened(address)
        except Exception as error:
            raise unavailable(address, error) from None
        with file:
            while block := self._block(address, file):
                write(block)
                if time.monotonic() > ends:
                    raise MediaUnavailable("trouble", f"it was not read within {LONGEST_FETCH_S:.0f} s")

    def _opened(self, address: Address) -> Any:
        # Without a block size the HTTP client reads one answer from end to end; other clients read block by block.
        size = 0 if address.scheme in ("http", "https") else BLOCK
        system = _file_system(address.scheme, self._allowed, os.getpid())
        return system.open(_name(address), "rb", block_size=size, cache_type="none")

    def _block(self, address: Address, file: Any) -> bytes:
        try:
            block: bytes = file.read(BLOCK)
        except Exception as error:
            raise unavailable(address, error) from None
        return block


def _name(address: Address) -> str:
    return str(address) if address.scheme in ("http", "https") else f"{address.host}/{address.path}"


def _fresh(address: Address) -> dict[str, bool]:
    # The S3 client may remember listings.
    return {"refresh": True} if address.scheme == "s3" else {}


@lru_cache(maxsize=8)
def _file_system(scheme: str, allowed: Networks, _process_id: int) -> Any:
    """The client of a scheme, one per process: connections do not survive a fork. It reads the environment itself."""
    import fsspec

    if scheme == "gs":
        return _google_client(allowed)
    options: dict[str, Any] = {}
    if scheme == "s3":
        options["config_kwargs"] = {
            "connector_args": {"socket_factory": guarded_socket(allowed)},
            "connect_timeout": CONNECT_S,
            "read_timeout": SILENCE_S,
            "retries": {"max_attempts": 1},
        }
    elif scheme in ("http", "https"):
        options["get_client"] = _guarded_client(allowed)
    system = fsspec.filesystem(scheme, skip_instance_cache=True, **options)
    if scheme == "s3":
        # Its own repetitions come on top of those above.
        system.retries = 2
    return system


def _google_client(allowed: Networks) -> Any:
    """gcsfs over HTTP. Its usual class also asks by gRPC, where no socket can be checked."""
    import aiohttp
    from fsspec.asyn import get_loop, sync
    from gcsfs.core import GCSFileSystem
    from gcsfs.retry import retry_request

    # They log what is one sentence here, with tracebacks, and that public objects are read without an account.
    for name in ("gcsfs", "google.auth"):
        logging.getLogger(name).setLevel(logging.CRITICAL)

    class Client(GCSFileSystem):
        # Twice, as S3 is asked; by default it goes on for half a minute.
        _request = retry_request(retries=2)(GCSFileSystem._request.__wrapped__)

    async def connector() -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(socket_factory=guarded_socket(allowed))

    session = {
        "connector": sync(get_loop(), connector),
        "timeout": aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENCE_S),
    }
    return Client(access="read_only", use_listings_cache=False, session_kwargs=session, skip_instance_cache=True)


def _guarded_client(allowed: Networks) -> Callable[..., Any]:
    async def client(**options: Any) -> Any:
        import aiohttp

        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(socket_factory=guarded_socket(allowed)),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENCE_S),
            # The bytes as they are stored: what a server compresses on the way has another hash.
            headers={"Accept-Encoding": "identity"},
            auto_decompress=False,
            # Cookies could carry one store's session to another.
            cookie_jar=aiohttp.DummyCookieJar(),
            **options,
        )

    return client
