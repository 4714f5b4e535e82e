"""Hostile media servers under a real ingest: every video ends in time with a status and a reason, the others unharmed.

A second ingest, from servers that have become honest, has every video. Run it with
`python -m tests.attack.media --videos 200 --seed 1`.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import os
import time
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import sqlalchemy as sa
import typer
from sqlalchemy.engine import Engine

from assets.ingest.run import ingest_folder
from assets.ingest.video_columns import MAX_PARALLEL_REQUESTS
from assets.media.store import BLOCK_BYTES
from tests.assets.manifests import write_clip, write_manifest
from tests.attack.campaign import Campaign, Seed, empty_database
from tests.metrics_core.raw_server import Behaviour, Line, head, raw_server

PATIENCE_S = 4.0
# The longest that a video here may take: a look, a fetch of a block, the end of a connection, another look.
WAITS = 4
# What a busy machine may take for everything else.
SLACK_S = 120.0
CACHE_GB = 0.03
UNAVAILABLE, NO_VIDEO = {"media_unavailable"}, {"not_a_video"}


@dataclass(frozen=True, slots=True)
class Request:
    """A request under way, and how to answer it.

    clip: the bytes that an honest server would send. random: gives the same at each request of a path. number: of the
    request, as all are counted.
    """

    line: Line
    method: str
    path: str
    clip: bytes
    random: Random
    number: int

    def head(self, status: str = "200 OK", length: object = None, **headers: str) -> None:
        """Send the head of an answer."""
        lines = ["Connection: close"]
        lines += [] if length is None else [f"Content-Length: {length}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.line.send(head(status, *lines) + b"\r\n")

    def body(self, data: bytes) -> None:
        """Send a body, unless only its head was asked for."""
        if self.method != "HEAD":
            self.line.send(data)

    def endless_body(self, *pieces: bytes, every_s: float = 0.1) -> None:
        """Send these pieces over and over, unless only the head was asked for."""
        if self.method != "HEAD":
            self.line.drip(pieces, every_s)

    def honest(self, clip: bytes | None = None, **headers: str) -> None:
        """A good answer."""
        clip = self.clip if clip is None else clip
        self.head(length=len(clip), ETag=f'"{zlib.crc32(clip):08x}"', **headers)
        self.body(clip)

    def cut(self) -> int:
        """A place in the middle of the clip."""
        return self.random.randrange(1, len(self.clip))


Kind = Callable[[Request], None]
_KINDS: dict[str, tuple[Kind, set[str]]] = {}


def kind(*codes: str) -> Callable[[Kind], Kind]:
    """A kind of hostile server, and the codes of the refusals that may follow; "ok" where the video is taken."""

    def remember(answer: Kind) -> Kind:
        _KINDS[answer.__name__] = (answer, set(codes))
        return answer

    return remember


@kind(*UNAVAILABLE)
def silent(request: Request) -> None:
    request.line.wait()


@kind(*UNAVAILABLE)
def trickled_status(request: Request) -> None:
    request.line.drip([b"H", b"T", b"P"], 0.1)


@kind(*UNAVAILABLE)
def trickled_headers(request: Request) -> None:
    request.line.send(head())
    request.line.drip([b"X-", b"Filler", b": 1", b"\r\n"], 0.1)


@kind(*UNAVAILABLE)
def endless_early_hints(request: Request) -> None:
    request.line.drip([head("103 Early Hints", "Link: </a>") + b"\r\n"], 0.1)


@kind(*UNAVAILABLE)
def huge_headers(request: Request) -> None:
    request.line.send(head() + b"X-Filler: ")
    request.line.drip([b"x" * (1 << 16)], 0)


@kind(*UNAVAILABLE)
def trickled_body(request: Request) -> None:
    request.head(length=len(request.clip))
    request.endless_body(request.clip[:1])


@kind(*UNAVAILABLE)
def body_that_stops(request: Request) -> None:
    request.head(length=len(request.clip))
    request.body(request.clip[: request.cut()])
    if request.method != "HEAD":
        request.line.wait()


@kind(*UNAVAILABLE)
def body_too_short(request: Request) -> None:
    request.head(length=len(request.clip))
    request.body(request.clip[: request.cut()])


@kind(*UNAVAILABLE)
def longer_than_announced(request: Request) -> None:
    shown = len(request.clip) - 1 if request.method == "HEAD" else len(request.clip)
    request.head(length=shown)
    request.body(request.clip)


@kind(*UNAVAILABLE)
def shorter_than_announced(request: Request) -> None:
    clip = request.clip if request.method == "HEAD" else request.clip[: request.cut()]
    request.head(length=len(clip))
    request.body(clip)


@kind(*UNAVAILABLE)
def part_for_the_whole(request: Request) -> None:
    """As if a range had been asked for."""
    if request.method == "HEAD":
        request.honest()
        return
    end = request.cut()
    request.head("206 Partial Content", end, Content_Range=f"bytes 0-{end - 1}/{len(request.clip)}")
    request.body(request.clip[:end])


@kind(*UNAVAILABLE)
def part_of_an_unknown_length(request: Request) -> None:
    if request.method == "HEAD":
        request.head("405 Method Not Allowed", 0)
        return
    request.head("206 Partial Content", Transfer_Encoding="chunked")
    request.body(f"{len(request.clip) - 1:x}\r\n".encode() + request.clip[:-1] + b"\r\n0\r\n\r\n")


@kind(*UNAVAILABLE)
def range_refused(request: Request) -> None:
    """416, where no range was asked for."""
    request.head("416 Range Not Satisfiable", 0, Content_Range=f"bytes */{request.random.choice(['*', 0, 10**30])}")


@kind(*UNAVAILABLE, *NO_VIDEO)
def nonsense_range(request: Request) -> None:
    """The whole, said to be parts that cannot be."""
    said = request.random.choice(["bytes 9-3/1", "bytes */*", f"bytes 0-{10**30}/{10**30}", "lines 1-2/3", "", "bytes"])
    request.head("206 Partial Content", len(request.clip), Content_Range=said)
    request.body(request.clip)


@kind(*UNAVAILABLE, *NO_VIDEO)
def odd_status(request: Request) -> None:
    status = request.random.choice(
        ["101 Switching Protocols", "204 No Content", "304 Not Modified", "429 Slow", "999 "]
    )
    request.head(status, 0, Retry_After=str(10**9), Upgrade="websocket")


@kind(*UNAVAILABLE, *NO_VIDEO)
def nonsense_length(request: Request) -> None:
    request.head(length=request.random.choice(["-1", "1e3", "9" * 40, "0x10", "1, 2", "", "٣"]))
    request.body(request.clip)


@kind(*UNAVAILABLE, *NO_VIDEO)
def two_lengths(request: Request) -> None:
    request.head(length=len(request.clip), Content_length="7")
    request.body(request.clip)


@kind(*UNAVAILABLE)
def more_than_the_cache(request: Request) -> None:
    request.head(length=10**12)
    request.body(request.clip)
    request.line.wait()


@kind(*UNAVAILABLE)
def endless_body(request: Request) -> None:
    request.head()
    request.endless_body(b"RIFF" * (1 << 14), every_s=0)


@kind(*UNAVAILABLE)
def endless_chunk(request: Request) -> None:
    request.head(Transfer_Encoding="chunked")
    request.body(b"1;")
    request.endless_body(b"x")


@kind(*UNAVAILABLE)
def endless_extensions(request: Request) -> None:
    """Chunks of one byte, whose headers say more than they bring."""
    request.head(Transfer_Encoding="chunked")
    request.endless_body(b"1;x=", b"y", b"\r\n", b"R", b"\r\n")


@kind(*UNAVAILABLE)
def endless_trailers(request: Request) -> None:
    request.head(Transfer_Encoding="chunked")
    request.body(f"{len(request.clip):x}\r\n".encode() + request.clip + b"\r\n0\r\n")
    request.endless_body(b"X-More: 1\r\n")


@kind(*UNAVAILABLE)
def endless_gzip_blocks(request: Request) -> None:
    """Compressed, of blocks that are empty."""
    request.head(Content_Encoding="gzip")
    request.body(gzip.compress(b"")[:10])
    request.endless_body(b"\0\0\0\xff\xff")


@kind(*UNAVAILABLE)
def broken_chunks(request: Request) -> None:
    request.head(Transfer_Encoding="chunked")
    request.body(b"zz\r\n" + request.clip)


@kind(*NO_VIDEO, *UNAVAILABLE)
def compressed_bomb(request: Request) -> None:
    bomb = zlib.compress(bytes(50 << 20), 9)
    request.head(length=len(bomb), Content_Encoding=request.random.choice(["deflate", "gzip", "br"]))
    request.body(bomb)


@kind(*UNAVAILABLE)
def reset_at_once(request: Request) -> None:
    request.line.reset()


@kind(*UNAVAILABLE)
def reset_in_the_headers(request: Request) -> None:
    request.line.send(head() + b"Content-Le")
    request.line.reset()


@kind(*UNAVAILABLE)
def reset_in_the_body(request: Request) -> None:
    request.head(length=len(request.clip))
    request.body(request.clip[: request.cut()])
    request.line.reset()


@kind(*UNAVAILABLE)
def no_http(request: Request) -> None:
    request.line.send(
        request.random.choice([request.random.randbytes(500), b"SSH-2.0-OpenSSH\r\n", b"HTTP/9.9 x y\r\n\r\n"])
    )


@kind(*UNAVAILABLE)
def redirect_to_itself(request: Request) -> None:
    request.head("302 Found", 0, Location=request.path)


@kind(*UNAVAILABLE)
def endless_redirects(request: Request) -> None:
    request.head("307 Temporary Redirect", 0, Location=f"{request.path}{request.random.randrange(10**9)}")


@kind(*UNAVAILABLE)
def redirect_inwards(request: Request) -> None:
    host = request.random.choice(["10.0.0.1", "169.254.169.254", "127.0.0.2", "[::1]", "0.0.0.0", "[fe80::1]"])
    request.head("301 Moved", 0, Location=f"http://{host}/clip.avi")


@kind(*UNAVAILABLE)
def redirect_to_a_file(request: Request) -> None:
    place = request.random.choice(["file:///etc/passwd", "ftp://127.0.0.1/a", "gopher://127.0.0.1/1", "//", "http://"])
    request.head("302 Found", 0, Location=place)


@kind(*UNAVAILABLE, *NO_VIDEO)
def redirect_to_nowhere(request: Request) -> None:
    request.head("302 Found", 0)


@kind(*UNAVAILABLE)
def another_at_each_look(request: Request) -> None:
    request.head(length=len(request.clip), ETag=f'"{request.number}"')
    request.body(request.clip)


@kind(*UNAVAILABLE)
def another_size_afterwards(request: Request) -> None:
    """The file grows while it is read."""
    request.honest(request.clip + bytes(request.number))


@kind("ok")
def etag_of_another(request: Request) -> None:
    """The mark that the honest clip will have, on a clip with other bytes."""
    clip = request.clip + bytes(1000)
    request.head(length=len(clip), ETag=f'"{zlib.crc32(request.clip):08x}"')
    request.body(clip)


@kind(*NO_VIDEO)
def page_for_a_video(request: Request) -> None:
    request.honest(b"<!doctype html><title>Sign in</title>", Content_Type="video/mp4")


@kind(*NO_VIDEO, *UNAVAILABLE)
def empty(request: Request) -> None:
    request.honest(b"")


@kind("ok", *NO_VIDEO)
def half_a_video(request: Request) -> None:
    request.honest(request.clip[: request.cut()])


@kind("ok", *NO_VIDEO)
def spoilt_video(request: Request) -> None:
    clip = bytearray(request.clip)
    for _ in range(50):
        clip[request.random.randrange(len(clip))] = request.random.randrange(256)
    request.honest(bytes(clip))


@kind("ok")
def slow_but_flowing(request: Request) -> None:
    """Longer in all than anything may take that does not flow."""
    clip = request.clip + bytes(5 * BLOCK_BYTES)
    request.head(length=len(clip))
    request.endless_body(
        *(clip[start : start + BLOCK_BYTES] for start in range(0, len(clip), BLOCK_BYTES)), every_s=PATIENCE_S / 4
    )


# What servers do with the first bytes of TLS.
TLS: dict[str, Behaviour] = {
    "tls_silent": Line.wait,
    "tls_refused": lambda line: line.send(b"\x15\x03\x01\x00\x02\x02\x28"),
    "tls_reset": Line.reset,
    "tls_answered_in_the_clear": lambda line: line.send(head("400 Bad Request") + b"\r\n"),
    "tls_trickled": lambda line: line.drip([b"\x16\x03\x03\xff\xff", b"\0"], 0.1),
}
KINDS: dict[str, set[str]] = {name: codes for name, (_, codes) in _KINDS.items()} | dict.fromkeys(TLS, UNAVAILABLE)


@dataclass
class Servers:
    """Servers of a clip: one whose answers are of the kind that begins the path, or honest ones, and those of TLS."""

    clip: bytes
    seed: int
    ports: dict[str, int] = field(default_factory=dict)
    is_honest: bool = False
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def url(self, kind: str) -> str:
        """The address of a video."""
        of_tls = None if self.is_honest else self.ports.get(kind)
        where = f"http://127.0.0.1:{self.ports['']}" if of_tls is None else f"https://127.0.0.1:{of_tls}"
        return f"{where}/{kind}/clip.avi"

    def answer(self, line: Line) -> None:
        """Answer one request."""
        method, path, _ = line.request().decode("latin-1").split(" ", 2)
        request = Request(line, method, path, self.clip, Random(f"{self.seed} {path}"), next(self.numbers))
        known = _KINDS.get(path.split("/")[1])
        answer: Kind = Request.honest if self.is_honest or known is None else known[0]
        answer(request)


@contextmanager
def serving(clip: bytes, seed: int) -> Generator[Servers, None, None]:
    """Servers on 127.0.0.1 until the end of the block."""
    servers = Servers(clip, seed)
    with ExitStack() as stack:
        for name, behave in {"": servers.answer, **TLS}.items():
            servers.ports[name] = stack.enter_context(raw_server(behave)).port
        yield servers


def main(videos: int = 200, seed: Seed = None) -> None:
    """Ingest at least so many videos of hostile servers."""
    campaign = Campaign("media", seed)
    with empty_database() as (folder, engine):
        attack(engine, folder, videos, campaign)
    campaign.finish()


def attack(engine: Engine, folder: Path, videos: int, campaign: Campaign) -> None:
    """Ingest manifests with a video of every kind of server, and honest ones between them, until there were so many."""
    variables = {
        "REELSIEVE_MEDIA_PRIVATE_NETWORKS": '["127.0.0.1/32"]',
        "REELSIEVE_MEDIA_CACHE": str(folder / "cache"),
        "REELSIEVE_MEDIA_CACHE_GB": str(CACHE_GB),
        "REELSIEVE_MEDIA_PATIENCE_S": str(PATIENCE_S),
    }
    clip = write_clip(folder / "clip.avi").read_bytes()
    with patch.dict(os.environ, variables):
        while campaign.counts["videos"] < videos:
            with serving(clip, campaign.random.randrange(2**32)) as servers:
                _attack_once(engine, folder / f"manifest_{campaign.counts['ingests']}", servers, campaign)


def _attack_once(engine: Engine, folder: Path, servers: Servers, campaign: Campaign) -> None:
    kinds = [*KINDS, *(f"honest_{number}" for number in range(len(KINDS) // 4))]
    campaign.random.shuffle(kinds)
    campaign.counts["videos"] += len(kinds)
    _write(folder, kinds, servers)
    started = time.monotonic()
    ingest_folder(engine, folder, folder.name)
    took, limit = (
        time.monotonic() - started,
        math.ceil(len(kinds) / MAX_PARALLEL_REQUESTS) * WAITS * PATIENCE_S + SLACK_S,
    )
    campaign.expect(took < limit, f"{folder.name}: the ingest took {took:.0f} s, which is more than {limit:.0f} s")
    stored, refused = _state(engine, folder.name)
    for kind in kinds:
        _check(kind, stored.get(kind), refused.get(kind), campaign)
    honest = {name: row for name, row in stored.items() if name not in KINDS}

    servers.is_honest = True
    _write(folder, kinds, servers)
    ingest_folder(engine, folder, folder.name)
    campaign.counts["ingests"] += 2
    stored, refused = _state(engine, folder.name)
    campaign.expect(not refused, f"{folder.name}: honest servers are refused: {refused}")
    for kind in kinds:
        row = stored.get(kind)
        is_there = row is not None and (row.status, row.content) == ("ok", hashlib.sha256(servers.clip).digest())
        campaign.expect(is_there, f"{kind}: an honest server does not heal it: {row}")
    unharmed = {name: stored[name] for name in honest}
    campaign.expect(unharmed == honest, f"{folder.name}: videos of honest servers were changed")
    parts = [*(folder.parent / "cache").glob("*.part")]
    campaign.expect(not parts, f"{folder.name}: unfinished copies stay: {parts}")


def _write(folder: Path, kinds: Sequence[str], servers: Servers) -> None:
    write_manifest(folder, [{"video_id": kind, "path": servers.url(kind)} for kind in kinds])


def _check(kind: str, row: Any | None, refusal: Any | None, campaign: Campaign) -> None:
    codes = KINDS.get(kind, {"ok"})
    if refusal is not None:
        campaign.counts[f"refused as {refusal.code}"] += 1
        is_explained = refusal.code in codes and refusal.reason.strip() and "\n" not in refusal.reason
        campaign.expect(row is None, f"{kind}: it is stored and refused")
        campaign.expect(bool(is_explained), f"{kind}: {refusal.code}: {refusal.reason!r}")
    else:
        campaign.counts["taken"] += 1
        is_explained = row is not None and "ok" in codes and (row.status == "ok" or bool(row.error))
        campaign.expect(bool(is_explained), f"{kind}: neither refused nor with a status and a reason: {row}")


def _state(engine: Engine, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The videos of a dataset, each with the transaction that last wrote it, and the refusals, by kind of server."""
    of_dataset = "JOIN dataset d USING (dataset_id) WHERE d.name = :name"
    videos = f"SELECT v.key, v.xmin, v.status, v.error, v.content_sha256 AS content FROM video v {of_dataset}"
    refusals = f"SELECT r.raw, r.code, r.reason FROM ingest_reject r {of_dataset}"
    with engine.connect() as connection:
        stored = connection.execute(sa.text(videos), {"name": name}).all()
        refused = connection.execute(sa.text(refusals), {"name": name}).all()
    return {row.key: row for row in stored}, {json.loads(row.raw)["video_id"]: row for row in refused}


if __name__ == "__main__":
    typer.run(main)
