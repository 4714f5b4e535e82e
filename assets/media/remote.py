"""Asking the stores behind URLs: how an object is now, and its bytes. fsspec knows how each kind of store is asked."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import re
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Literal, TypeVar

from assets.media.address import Address
from assets.media.settings import MediaSettings

# Which machines may be asked for a video: a manifest comes from others and must not reach into a private network.

Networks = tuple[IPv4Network | IPv6Network, ...]
# What aiohttp hands over: family, type, protocol, canonical name, and the address of a socket.
AddressInfo = tuple[Any, Any, int, str, tuple[Any, ...]]
# NAT64 puts an IPv4 address into the last four bytes of these.
_NAT64 = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"))
_REFUSED = re.compile(r"refused private address ([0-9a-fA-F:.]+)")


class PrivateAddress(OSError):
    """A connection to a private address was refused."""

    def __init__(self, address: str) -> None:
        super().__init__(f"refused private address {address}")


def is_allowed(address: str, allowed: Networks) -> bool:
    """Whether a machine may be asked: its address is public, or lies in an allowed network.

    >>> is_allowed("93.184.216.34", ()), is_allowed("::ffff:169.254.169.254", ())
    (True, False)
    >>> is_allowed("10.1.2.3", (ip_network("10.0.0.0/8"),))
    True
    """
    known = list(_meanings(ip_address(address.partition("%")[0])))
    return all(
        (each.is_global and not each.is_multicast) or any(each in network for network in allowed) for each in known
    )


def guarded_socket(allowed: Networks) -> Callable[[AddressInfo], socket.socket]:
    """What makes the sockets of a client: it raises PrivateAddress where the machine may not be asked."""

    def make(info: AddressInfo) -> socket.socket:
        family, kind, protocol, _, address = info
        if not is_allowed(str(address[0]), allowed):
            raise PrivateAddress(str(address[0]))
        return socket.socket(family, kind, protocol)

    return make


def refused_address(error: BaseException) -> str | None:
    """The private address over which an error was raised, or None. Clients wrap the error, some as text."""
    for each in causes(error):
        if matched := _REFUSED.search(str(each)):
            return matched[1]
    return None


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and the errors that it was raised from or while handling."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _meanings(address: IPv4Address | IPv6Address) -> Iterator[IPv4Address | IPv6Address]:
    """The address to judge, or those inside it: an IPv6 address may stand for an IPv4 address."""
    inside: list[IPv4Address | None] = []
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped:
            yield address.ipv4_mapped
            return
        inside = [address.sixtofour, *(address.teredo or ())]
        if any(address in network for network in _NAT64):
            inside.append(IPv4Address(int(address) & 0xFFFFFFFF))
    yield address
    yield from (each for each in inside if each is not None)


# What went wrong at a store, each in one sentence. The clients' own messages may hold signatures: none is repeated.

# missing: there is no such object; escape: it lies outside its root; trouble: nothing is known about it.
Kind = Literal["missing", "escape", "trouble"]

# The extra that brings the driver, where its name is not the scheme.
_EXTRAS = {"https": "http"}
_CREDENTIALS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE or a role that may read it",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS to an account that may read it",
}
_NO_SIGN_IN = "the address does not say how to sign in: put a copy where this machine may read it"
_SIGN_IN = ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "PermissionError")
_ASTRAY = ("InvalidURL", "TooManyRedirects", "RedirectClientError")
CHANGED_MEANWHILE = "it changed while it was read: run the same command again when nothing writes to it any more"


class MediaUnavailable(Exception):
    """A video's file cannot be had. The message says why with its remedy; `kind` tells a missing file from trouble."""

    def __init__(self, kind: Kind, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


def unavailable(address: Address, error: BaseException) -> MediaUnavailable:
    """The sentence for an error of a client."""
    if (private := refused_address(error)) is not None:
        return MediaUnavailable(
            "trouble",
            f"the address leads to {private} in a private network: to allow that, name the network in "
            "REELSIEVE_MEDIA_PRIVATE_NETWORKS",
        )
    if isinstance(error, ImportError):
        remedy = f"pip install 'reelsieve[{_EXTRAS.get(address.scheme, address.scheme)}]'"
        return MediaUnavailable("trouble", f"no driver for {address.scheme}:// is installed: {remedy}")
    chain = list(causes(error))
    names = {kind.__name__ for each in chain for kind in type(each).__mro__}
    status = next((code for each in chain if (code := _status(each)) is not None), None)
    # The HTTP client wraps all its errors in a FileNotFoundError; that of a 404 stands alone.
    is_absent = isinstance(error, FileNotFoundError) and (address.scheme not in ("http", "https") or len(chain) == 1)
    if is_absent or status in (404, 410):
        return MediaUnavailable("missing", "there is no such object")
    if status in (401, 403) or names.intersection(_SIGN_IN):
        return MediaUnavailable("trouble", f"no permission to read it: {_CREDENTIALS.get(address.scheme, _NO_SIGN_IN)}")
    if names.intersection(_ASTRAY):
        return MediaUnavailable("trouble", "it leads to an address that cannot be read: give the file's own address")
    if status is not None:
        return MediaUnavailable("trouble", f"the server answers with status {status}: try again later")
    why = type(chain[1] if is_wrapped(error) else error).__name__
    return MediaUnavailable("trouble", f"the store cannot be reached ({why}): check the network, or try again later")


def _status(error: BaseException) -> int | None:
    """The status of an HTTP answer. The client of Google's storage has names of its own for it."""
    if type(error) is OSError and str(error).startswith("Forbidden:"):
        return 403
    code = getattr(error, "code" if type(error).__name__ == "HttpError" else "status", None)
    return code if isinstance(code, int) else None


def is_wrapped(error: BaseException) -> bool:
    """Whether the HTTP client hides the error's cause behind a FileNotFoundError."""
    return isinstance(error, FileNotFoundError) and error.__cause__ is not None


# What must come of a fetch while its patience lasts; of stores other than web servers also what is asked for at a time.
BLOCK = 1 << 20
# A fetch whose length nobody announced may never end.
LONGEST_UNANNOUNCED_S = 3600.0
_WEB = ("http", "https")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ObjectState:
    """What a store says of an object. `etag` is None where it gives none that stands for the bytes."""

    size_bytes: int | None
    etag: str | None


class Store:
    """The objects behind URLs, as far as machines of the settings' private networks, and all public ones, hold them.

    A store may take `media_patience_s` to answer a look, and as long for each BLOCK of a fetch.
    """

    def __init__(self, settings: MediaSettings) -> None:
        self._allowed, self._patience = settings.media_private_networks, settings.media_patience_s

    def look(self, address: Address) -> ObjectState:
        """How the object is now. Raises MediaUnavailable."""
        system = self._system(address)
        info = self._answer(address, system._info(_name(address), **_fresh(address)), self._patience)
        if info.get("type") == "directory":
            raise MediaUnavailable("missing", "there is no such object, only others below this name")
        # Google's etag also changes with what is said about an object; its MD5 is that of the bytes.
        etag = info.get("md5Hash") or info.get("ETag") or info.get("etag") or None
        # A weak one stays where bytes change and the meaning does not.
        return ObjectState(info.get("size"), None if etag is None or etag.startswith("W/") else etag)

    def read(self, address: Address, size_bytes: int | None, write: Callable[[bytes], object]) -> None:
        """Hand the object's bytes to `write` in order; its own time does not count. size_bytes: as a look found it.

        Raises MediaUnavailable, and what `write` raises.
        """
        ends = math.inf if size_bytes is not None else time.monotonic() + LONGEST_UNANNOUNCED_S
        blocks = _blocks(self._system(address), address, size_bytes)
        left, came = self._patience, 0
        try:
            while True:
                started = time.monotonic()
                block = self._answer(address, anext(blocks, b""), left)
                left -= time.monotonic() - started
                if not block:
                    return
                write(block)
                came += len(block)
                if came >= BLOCK:
                    left, came = self._patience, 0
                if time.monotonic() > ends:
                    raise MediaUnavailable("trouble", f"it has not ended after {LONGEST_UNANNOUNCED_S:.0f} s")
        finally:
            self._answer(address, blocks.aclose(), self._patience)

    def _system(self, address: Address) -> Any:
        try:
            return _file_system(address.scheme, self._allowed, os.getpid())
        except Exception as error:
            raise unavailable(address, error) from None

    def _answer(self, address: Address, asked: Awaitable[T], seconds: float) -> T:
        """The answer of a client, on the thread where all clients work. Raises MediaUnavailable, also if it is late."""
        from fsspec.asyn import get_loop

        async def in_time() -> T:
            return await asyncio.wait_for(asked, seconds)

        try:
            return asyncio.run_coroutine_threadsafe(in_time(), get_loop()).result()
        except asyncio.TimeoutError:
            raise MediaUnavailable(
                "trouble",
                f"the server is too slow, {self._patience:g} s are the most for a look and for each MiB of a file: try "
                "again later, or raise REELSIEVE_MEDIA_PATIENCE_S",
            ) from None
        except Exception as error:
            raise unavailable(address, error) from None


async def _blocks(system: Any, address: Address, size_bytes: int | None) -> AsyncGenerator[bytes, None]:
    """The object's bytes as they come. A web server is asked once, since not every one knows ranges."""
    if address.scheme not in _WEB:
        for start in range(0, size_bytes or 0, BLOCK):
            yield await system._cat_file(_name(address), start=start, end=min(start + BLOCK, size_bytes or 0))
        return
    from aiohttp import ClientResponseError

    file = await system.open_async(_name(address), size=size_bytes or 0)
    try:
        block = await file.read(BLOCK)
        # Other good statuses come with a part of the file, or with none of it.
        if file.r.status != 200:
            raise ClientResponseError(file.r.request_info, (), status=file.r.status)
        while block:
            yield block
            block = await file.read(BLOCK)
    finally:
        await file.close()


def _name(address: Address) -> str:
    return str(address) if address.scheme in _WEB else f"{address.host}/{address.path}"


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
            "retries": {"max_attempts": 1},
        }
    elif scheme in _WEB:
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
    }
    return Client(access="read_only", use_listings_cache=False, session_kwargs=session, skip_instance_cache=True)


def _guarded_client(allowed: Networks) -> Callable[..., Any]:
    async def client(**options: Any) -> Any:
        import aiohttp

        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(socket_factory=guarded_socket(allowed)),
            # Each question to a store has its time limit, whatever asks it.
            timeout=aiohttp.ClientTimeout(total=None),
            # The bytes as they are stored: what a server compresses on the way has another hash.
            headers={"Accept-Encoding": "identity"},
            auto_decompress=False,
            # Cookies could carry one store's session to another.
            cookie_jar=aiohttp.DummyCookieJar(),
            **options,
        )

    return client
