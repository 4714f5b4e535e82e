"""Requests to the stores behind URLs: the state of an object, and its bytes. fsspec knows how to ask each kind of
store.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import lru_cache
from typing import Any, TypeVar

from assets.media.address import Address
from assets.media.errors import CHANGED_MEANWHILE, MediaUnavailable, explain_store_error
from assets.media.file_state import FileState
from assets.media.private_networks import Networks, make_socket_factory
from assets.media.settings import MediaSettings
from assets.media.tar_index import Member

# Bytes that must arrive within `media_patience_s`; except for web servers also the bytes of one request.
BLOCK_BYTES = 1 << 20
# A fetch whose length nobody announced may never end.
LONGEST_UNANNOUNCED_S = 3600.0
_WEB = ("http", "https")
_NO_RANGES = (
    "the server sends only whole files, and a tar file is read in parts: put it on a server that knows ranges, or on "
    "this machine"
)
_OTHER_BYTES = "the server sent other bytes than it was asked for: try again later, or put a copy on another server"
T = TypeVar("T")


class ObjectStore:
    """The client for objects behind URLs of S3, Google and HTTP servers, on public machines and in the private networks
    that the settings allow. A store may take `media_patience_s` seconds to answer a request, and as long for each MiB
    of a fetch.
    """

    def __init__(self, settings: MediaSettings) -> None:
        self._allowed, self._patience = settings.media_private_networks, settings.media_patience_s

    def fetch_state(self, address: Address) -> FileState:
        """Ask the store for the present size and etag of an object. Either is None where the store does not give it; an
        etag that does not change with every byte is None too. Raises MediaUnavailable, also for a folder and for a
        store that is too slow.
        """
        # The S3 client may remember listings.
        options = {"refresh": True} if address.scheme == "s3" else {}
        asked = self._open_file_system(address)._info(_format_name(address), **options)
        info = self._wait_for_answer(address, asked, self._patience)
        if info.get("type") == "directory":
            raise MediaUnavailable("missing", "there is no object of this name, only a folder")
        # Google's etag also changes with an object's metadata; its MD5 is that of the bytes.
        etag = info.get("md5Hash") or info.get("ETag") or info.get("etag")
        return FileState(info.get("size"), etag=_strip_weak_mark(etag))

    def fetch(
        self, address: Address, write: Callable[[bytes], object], expected: FileState, part: Member | None = None
    ) -> None:
        """Fetch an object, or only a part of it, and pass the bytes to `write` in order, in blocks. The time that
        `write` takes does not count.

        expected: the state that `fetch_state` gave; of a part only the etag counts, where there is one. Raises
        MediaUnavailable, also for another state than expected, for a store that is too slow, that ignores ranges, or
        that sends other bytes than it was asked for; and the errors of `write`.
        """
        if part is not None and part.size_bytes == 0:
            return  # no range has no bytes
        seen: set[str | None] = set()
        blocks = _read_blocks(self._open_file_system(address), address, expected.size_bytes, part, seen)
        is_bounded = part is not None or expected.size_bytes is not None
        self._pass_blocks(address, blocks, write, math.inf if is_bounded else time.monotonic() + LONGEST_UNANNOUNCED_S)
        is_any_meant = part is not None and expected.etag is None
        if is_any_meant or (expected.etag is not None and seen == {expected.etag}):
            return
        # An answer without an etag shows nothing, so the store is asked again.
        now = self.fetch_state(address)
        is_other = expected.etag is not None and seen - {expected.etag, None}
        if is_other or now.etag != expected.etag or (part is None and now.size_bytes != expected.size_bytes):
            raise MediaUnavailable("trouble", CHANGED_MEANWHILE)

    def _pass_blocks(
        self, address: Address, blocks: AsyncGenerator[bytes, None], write: Callable[[bytes], object], ends: float
    ) -> None:
        """Pass the blocks to `write`, with a limit of time for each MiB, and one for all: `ends`, on time.monotonic."""
        left, came = self._patience, 0
        try:
            while True:
                started = time.monotonic()
                block = self._wait_for_answer(address, anext(blocks, b""), left)
                left -= time.monotonic() - started
                if not block:
                    return
                write(block)
                came += len(block)
                if came >= BLOCK_BYTES:
                    left, came = self._patience, 0
                if time.monotonic() > ends:
                    raise MediaUnavailable(
                        "trouble",
                        f"the download has not ended after {LONGEST_UNANNOUNCED_S:,.0f} s, and the server does not "
                        "give the file's size: try again later, or put a copy on another server",
                    )
        finally:
            self._wait_for_answer(address, blocks.aclose(), self._patience)

    def _open_file_system(self, address: Address) -> Any:
        try:
            return _make_file_system(address.scheme, self._allowed, os.getpid())
        except Exception as error:
            raise explain_store_error(address, error) from None

    def _wait_for_answer(self, address: Address, asked: Awaitable[T], seconds: float) -> T:
        """Wait for the answer of a client, on the thread where all clients work. Raises MediaUnavailable, also if it is
        late.
        """
        from fsspec.asyn import get_loop

        async def wait_in_time() -> T:
            return await asyncio.wait_for(asked, seconds)

        try:
            return asyncio.run_coroutine_threadsafe(wait_in_time(), get_loop()).result()
        except asyncio.TimeoutError:
            raise MediaUnavailable(
                "trouble",
                f"the server is too slow, since it took more than {self._patience:g} s to answer or to send a MiB: try "
                "again later, or raise REELSIEVE_MEDIA_PATIENCE_S",
            ) from None
        except MediaUnavailable:
            raise
        except Exception as error:
            raise explain_store_error(address, error) from None


def _strip_weak_mark(etag: str | None) -> str | None:
    """Return an etag; None for a weak one, which stays the same where the bytes change and the meaning does not."""
    return None if not etag or etag.startswith("W/") else etag


async def _read_part(system: Any, address: Address, begin: int, stop: int, seen: set[str | None]) -> bytes:
    """Read bytes of an object; one more where an S3 server sends more, since some ignore ranges."""
    if address.scheme == "gs":
        seen.add(None)  # the client gives the bytes only
        found: bytes = await system._cat_file(_format_name(address), start=begin, end=stop)
        return found
    answer = await system._call_s3(
        "get_object", Bucket=address.host, Key=address.path, Range=f"bytes={begin}-{stop - 1}"
    )
    seen.add(_strip_weak_mark(answer.get("ETag")))
    body, block = answer["Body"], b""
    try:
        while len(block) <= stop - begin and (part := await body.read(stop - begin + 1 - len(block))):
            block += part
    finally:
        body.close()
    return block


async def _read_blocks(
    system: Any, address: Address, size_bytes: int | None, part: Member | None, seen: set[str | None]
) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of an object of this size, or of a part of it, as they come. Of a part no more are read than it
    has, whatever the server sends. seen: gets the etags of the answers, None for an answer without one.
    """
    if address.scheme in _WEB:
        async for block in _read_web_blocks(system, address, part, seen):
            yield block
        return
    start, length = part or (0, size_bytes or 0)
    for begin in range(start, start + length, BLOCK_BYTES):
        stop = min(begin + BLOCK_BYTES, start + length)
        block = await _read_part(system, address, begin, stop, seen)
        if len(block) != stop - begin:
            raise MediaUnavailable("trouble", _OTHER_BYTES)
        yield block


async def _read_web_blocks(
    system: Any, address: Address, part: Member | None, seen: set[str | None]
) -> AsyncGenerator[bytes, None]:
    """Yield the same from one request. For a whole file no range is asked for, since not every server knows them."""
    from aiohttp import ClientResponseError

    asked = f"bytes {part.offset}-{part.offset + part.size_bytes - 1}" if part else ""
    session = await system.set_session()
    headers = {"Range": asked.replace(" ", "=")} if part else {}
    async with session.get(system.encode_url(str(address)), headers=headers) as answer:
        if part and answer.status == 200:
            raise MediaUnavailable("trouble", _NO_RANGES)
        # Other good statuses come with another part of the file, or with none of it.
        if answer.status != (206 if part else 200):
            raise ClientResponseError(answer.request_info, (), status=answer.status)
        if part and not answer.headers.get("Content-Range", "").startswith(f"{asked}/"):
            raise MediaUnavailable("trouble", _OTHER_BYTES)
        seen.add(_strip_weak_mark(answer.headers.get("ETag")))
        n_read = 0
        while block := await answer.content.read(BLOCK_BYTES):
            n_read += len(block)
            if part and n_read > part.size_bytes:
                break
            yield block
        if part and n_read != part.size_bytes:
            raise MediaUnavailable("trouble", _OTHER_BYTES)


def _format_name(address: Address) -> str:
    return str(address) if address.scheme in _WEB else f"{address.host}/{address.path}"


@lru_cache(maxsize=8)
def _make_file_system(scheme: str, allowed: Networks, _process_id: int) -> Any:
    """Make the client of a scheme, one per process: connections do not survive a fork. It reads the environment."""
    import fsspec

    if scheme == "gs":
        return _make_google_client(allowed)
    options: dict[str, Any] = {}
    if scheme == "s3":
        options["config_kwargs"] = {
            "connector_args": {"socket_factory": make_socket_factory(allowed)},
            "retries": {"max_attempts": 1},
        }
    elif scheme in _WEB:
        options["get_client"] = _make_guarded_client(allowed)
    system = fsspec.filesystem(scheme, skip_instance_cache=True, **options)
    if scheme == "s3":
        # Its own repetitions come on top of those above.
        system.retries = 2
    return system


def _make_google_client(allowed: Networks) -> Any:
    """Make a gcsfs client that only uses HTTP. Its usual class also asks by gRPC, where no socket can be checked."""
    import aiohttp
    from fsspec.asyn import get_loop, sync
    from gcsfs.core import GCSFileSystem
    from gcsfs.retry import retry_request

    # They log tracebacks of errors that are one sentence here, and a note for every public object.
    for name in ("gcsfs", "google.auth"):
        logging.getLogger(name).setLevel(logging.CRITICAL)

    class Client(GCSFileSystem):
        # Twice, as S3 is asked; by default it tries for half a minute.
        _request = retry_request(retries=2)(GCSFileSystem._request.__wrapped__)

    async def connector() -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(socket_factory=make_socket_factory(allowed))

    session = {
        "connector": sync(get_loop(), connector),
    }
    return Client(access="read_only", use_listings_cache=False, session_kwargs=session, skip_instance_cache=True)


def _make_guarded_client(allowed: Networks) -> Callable[..., Any]:
    async def client(**options: Any) -> Any:
        import aiohttp

        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(socket_factory=make_socket_factory(allowed)),
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
