"""Kinds of hostile chat servers: what each does with a connection, drawn by chance, and how the client may end."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.metrics_core.key_escapes import escape_key
from tests.metrics_core.raw_server import Behaviour, Line, chunked, head

DATA = {"answer": "a dog"}
# Statuses of a reply where the server gave no good answer.
BAD = frozenset({"error", "malformed", "refused"})
GOOD = frozenset({"ok"})
_CONTROL = "".join(map(chr, range(32))) + "\x7f\x85\u2028\u202e\ud800"
_JSON = "content-type: application/json"


@dataclass(frozen=True, slots=True)
class Kind:
    """drawn: makes a behaviour by chance, for a client with this key. may_be: statuses of the reply.

    is_slow: it goes on until the client ends it.
    """

    drawn: Callable[[Random, str], Behaviour]
    may_be: frozenset[str] = BAD
    is_slow: bool = False


def said(content: Any = None, **more: Any) -> dict[str, Any]:
    """The body of a completion whose message has this content; `more` goes beside the choices, or into the choice."""
    text = json.dumps(DATA) if content is None else content
    choice = {"message": {"content": text}, "finish_reason": "stop"}
    choice |= {name: more.pop(name) for name in ("message", "finish_reason") if name in more}
    return {"choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 3}, **more}


def answered(body: Any, *headers: str, status: str = "200 OK") -> bytes:
    """A whole answer with this body: bytes, text, or what becomes JSON."""
    text = body if isinstance(body, bytes | str) else json.dumps(body)
    content = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return head(status, _JSON, f"content-length: {len(content)}", *headers) + b"\r\n" + content


def sends(content: bytes) -> Behaviour:
    """Reads the request, answers with these bytes and closes the connection."""

    def behave(line: Line) -> None:
        line.request()
        line.send(content)

    return behave


def dawdles(begin: bytes, *pieces: bytes) -> Behaviour:
    """Reads the request, answers with these bytes, and then with these pieces without end."""

    def behave(line: Line) -> None:
        line.request()
        line.send(begin)
        line.drip(pieces or [b""])

    return behave


def _one_of(*contents: bytes) -> Kind:
    return Kind(lambda random, key: sends(random.choice(contents)))


def _good(*contents: bytes) -> Kind:
    return Kind(lambda random, key: sends(random.choice(contents)), GOOD)


def _slow(begin: bytes, *pieces: bytes) -> Kind:
    return Kind(lambda random, key: dawdles(begin, *pieces), is_slow=True)


def _bodies(*bodies: Any) -> Kind:
    return _one_of(*(answered(body) for body in bodies))


# What stands in headers cannot hold every sign.
def _plain(text: str) -> str:
    return "".join(sign if " " <= sign <= "~" else "_" for sign in text)


def _echo(place: Callable[[str], bytes], may_be: frozenset[str] = BAD | GOOD) -> Kind:
    """The key somewhere in the answer."""
    return Kind(lambda random, key: sends(place(key)), may_be)


def _echo_in_json(place: Callable[[str], bytes], may_be: frozenset[str] = BAD | GOOD) -> Kind:
    """The key within the JSON of the answer, behind escapes."""
    return Kind(lambda random, key: sends(place(escape_key(key, random))), may_be)


def _any_status(random: Random, key: str) -> Behaviour:
    status = random.choice([*range(201, 600), 600, 999])
    body = random.choice([{"error": {"message": "no", "code": status}}, {"detail": [{"msg": "no"}]}, "no", b"\xff\xfe"])
    return sends(answered(body, status=f"{status} {random.choice(['No', '', 'Sure'])}"))


def _any_bytes(random: Random, key: str) -> Behaviour:
    noise = random.randbytes(random.randrange(1, 3000))
    return sends(
        random.choice([noise, answered(noise), chunked() + noise, head() + noise, answered(noise, status="400 ")])
    )


def _spoilt(random: Random, key: str) -> Behaviour:
    """A good answer with some bytes changed, anywhere but in what the model says."""
    content = bytearray(answered(said(model="tiny")))
    for _ in range(random.randrange(1, 8)):
        content[random.randrange(len(content))] = random.randrange(256)
    return sends(bytes(content))


def _any_json(random: Random, key: str) -> Behaviour:
    """A completion in which values are exchanged for others of any type."""
    values: list[Any] = [None, True, -1, 10**30, 1.5, "", "x", [], {}, [[]], [{}], {"x": []}, float("nan"), "\ud800"]

    def other(value: Any) -> Any:
        if random.random() < 0.25:
            return random.choice(values)
        if isinstance(value, dict):
            return {name: other(member) for name, member in value.items()}
        return [other(member) for member in value] if isinstance(value, list) else value

    whole = said(model="tiny", error={"message": "x", "code": None}, created=1)
    return sends(answered(other(whole), status=random.choice(["200 OK", "400 Bad", "422 ", "500 ", "429 "])))


def _cut(random: Random, key: str) -> Behaviour:
    """A good answer that ends before its end, by closing or by a reset, at any byte."""
    whole = answered(said())
    end, is_reset = random.randrange(len(whole)), random.random() < 0.5

    def behave(line: Line) -> None:
        line.request()
        line.send(whole[:end])
        if is_reset:
            line.reset()

    return behave


def _reset_early(random: Random, key: str) -> Behaviour:
    return Line.reset if random.random() < 0.5 else lambda line: None


def _deep(random: Random, key: str) -> Behaviour:
    depth = random.choice([90, 150, 400, 990, 5_000, 100_000])
    left, right = random.choice([("[", "]"), ('{"a":', "}")])
    nested = left * depth + "1" + right * depth
    good = json.dumps(DATA)
    return sends(
        random.choice(
            [
                answered(nested),
                answered(nested, status="400 No"),
                answered(f'{{"error": {{"message": {nested}}}}}', status="400 No"),
                answered(said(nested)),
                answered(said(good[:-1] + f', "more": {nested}}}')),
                answered(json.dumps(said())[:-1] + f', "usage": {nested}, "choices": {nested}}}'),
                answered(
                    json.dumps(said())[:-1]
                    + f', "error": {nested}, "choices": [{{"message": {{"refusal": {nested}}}}}]}}'
                ),
            ]
        )
    )


def _counts(random: Random, key: str) -> Behaviour:
    """A good answer whose counts of tokens are not."""
    count = random.choice(
        ["-1", "9223372036854775808", "1" + "0" * 400, "1e400", "NaN", "-Infinity", '"9"', "true", "[1]", "0.5"]
    )
    counts = random.choice([(count, "1"), ("1", count), (count, count)])
    usage = f'{{"prompt_tokens": {counts[0]}, "completion_tokens": {counts[1]}}}'
    usage = random.choice([usage, usage, usage, f"[{usage}]", '"many"', "null"])
    return sends(answered(json.dumps(said(usage=0)).replace('"usage": 0', f'"usage": {usage}')))


def _waits(random: Random, key: str) -> Behaviour:
    date = "Tue, 01 Jan 2030 00:00:00 GMT"
    told = [
        "nan",
        "inf",
        "-1",
        "1e999",
        "9" * 400,
        "9" * 5000,
        "\xb2",
        "soon",
        "",
        date,
        date.replace("2030", "9" * 20),
    ]
    told += [date.replace("GMT", "+" + "9" * 30), date.replace("Tue", "\x01"), "0", "86400, 1"]
    status = random.choice(["429 Slow down", "503 Later", "200 OK"])
    return sends(answered("no", f"retry-after: {random.choice(told)}", f"date: {date}", status=status))


def _redirects(random: Random, key: str) -> Behaviour:
    there = [
        "http://127.0.0.1:1/v1",
        "//",
        "http://[",
        "https://a\u00e9:99999/",
        f"/?key={key}",
        "\x01",
        "data:,",
        "http://" + "a" * 9000,
    ]
    status = random.choice(["301 Moved", "302 Found", "303 See Other", "307 There", "308 There", "300 Many"])
    return sends(answered("", f"location: {random.choice(there)}", status=status))


def _spoilt_headers(random: Random, key: str) -> Behaviour:
    sign = random.choice(_CONTROL)
    bad = [f"x{sign}y: z", f"x: y{sign}z", "no colon", ": no name", " folded: x", "x : y", "", f"{sign}", "x: \u20ac"]
    bad += ["content-type: application/json; charset=utf-99", "content-type: \x01", "connection: \xff"]
    chosen = random.choice(bad)
    # The good body behind them may be taken where the headers are harmless.
    return sends(answered(said(), chosen))


def _cookies(random: Random, key: str) -> Behaviour:
    bad = [
        "a=b; expires=" + "9" * 50,
        "=",
        ";;;",
        "a=\x01",
        f"a={key}; domain=.",
        "a=b; max-age=" + "9" * 400,
        "\xff=\xfe",
    ]
    cookies = [f"set-cookie: {random.choice(bad)}" for _ in range(random.choice([1, 3, 500]))]
    return sends(answered(said(), *cookies))


def _lengths(random: Random, key: str) -> Behaviour:
    body = json.dumps(said()).encode()
    length = random.choice(
        ["-1", "x", "1" * 30, "0x10", "", "1, 2", "5\r\ncontent-length: 7", str(len(body) + 10), "+5"]
    )
    return sends(head("200 OK", f"content-length: {length}") + b"\r\n" + body)


def _chunks(random: Random, key: str) -> Behaviour:
    body = json.dumps(said()).encode()
    size = random.choice([b"-1", b"zz", b"", b"f" * 20, b"0x5", f"{len(body) + 5:x}".encode(), b"1\r\n{\r\n", b" "])
    return sends(chunked() + size + b"\r\n" + body + random.choice([b"\r\n0\r\n\r\n", b"", b"\r\n", b"0\r\n"]))


def _compressed(random: Random, key: str) -> Behaviour:
    good = gzip.compress(json.dumps(said()).encode())
    spoilt = bytearray(good)
    spoilt[random.randrange(10, len(good))] ^= 0xFF
    bad = [good[: len(good) // 2], bytes(spoilt), b"", b"plain", zlib.compress(good), good + good, random.randbytes(50)]
    names = ["gzip", "deflate", "br", "zstd", "gzip, gzip", ", ".join(["gzip"] * 9), "x-unknown", "\x01"]
    return sends(answered(random.choice(bad), f"content-encoding: {random.choice(names)}"))


def _bomb(random: Random, key: str) -> Behaviour:
    content, n_layers = gzip.compress(bytes(1 << 26), 1), random.choice([1, 2])
    content = gzip.compress(content) if n_layers == 2 else content
    return sends(answered(content, f"content-encoding: {', '.join(['gzip'] * n_layers)}"))


def _charsets(random: Random, key: str) -> Behaviour:
    body, code = json.dumps(said("\u00e9\u4e2d")), random.choice(["utf-16", "utf-32", "utf-16-le", "utf-7", "cp037"])
    return sends(
        answered(body.encode(code), f"content-type: application/json; charset={random.choice([code, 'utf-8'])}")
    )


def _upgrades(random: Random, key: str) -> Behaviour:
    return sends(
        head("101 Switching Protocols", "upgrade: websocket", "connection: upgrade") + b"\r\n" + random.randbytes(50)
    )


def _dialects(random: Random, key: str) -> Behaviour:
    words = ["response_format", "seed", "max_completion_tokens", "json_schema grammar", "max_tokens", "guided"]
    status = random.choice(["400 Bad", "422 Bad", "500 Bad", "501 Bad"])
    return sends(answered({"error": {"message": f"unknown: {random.choice(words)}"}}, status=status))


def _unasked(random: Random, key: str) -> Behaviour:
    """Answers before it has read the request, and reads none of it."""
    return lambda line: line.send(answered(said() if random.random() < 0.5 else "no", status="200 OK"))


def _silent(line: Line) -> None:
    line.request()
    line.wait()


def _handshake(line: Line) -> None:
    line.send(b"\x16\x03\x03\x40\x00")
    line.drip([b"\2"])


_LONG = "x" * 900_000
_BOM = "\ufeff"

KINDS: dict[str, Kind] = {
    "a good answer": _good(answered(said()), answered(said(model="Tiny-2024-08-06"))),
    "a good answer in another form": _good(
        answered(said(f"<think>{{</think>\n```json\n{json.dumps(DATA)}\n```")),
        answered(said([{"type": "text", "text": '{"answer": '}, {"type": "text", "text": '"a dog"}'}])),
        head() + b"\r\n" + json.dumps(said()).encode(),
        head("200") + b"\r\n" + json.dumps(said()).encode(),
        answered(gzip.compress(json.dumps(said()).encode()), "content-encoding: gzip"),
        head("103 Early Hints", "link: <x>") + b"\r\n" + answered(said()),
        answered(said()) + b"HTTP/1.1 200 OK\r\n\r\nmore",
    ),
    "any status": Kind(_any_status),
    "any bytes": Kind(_any_bytes),
    "a good answer with spoilt bytes": Kind(_spoilt, BAD | GOOD),
    "JSON with values of other types": Kind(_any_json, BAD | GOOD),
    "an answer that ends before its end": Kind(_cut),
    "an early end": Kind(_reset_early),
    "deep nesting": Kind(_deep, BAD | GOOD),
    "absurd counts of tokens": Kind(_counts, GOOD),
    "absurd waits": Kind(_waits),
    "redirects": Kind(_redirects),
    "spoilt headers": Kind(_spoilt_headers, BAD | GOOD),
    "cookies": Kind(_cookies, BAD | GOOD),
    "wrong lengths": Kind(_lengths),
    "wrong chunks": Kind(_chunks),
    "spoilt compression": Kind(_compressed, BAD | GOOD),
    "a bomb": Kind(_bomb),
    "wrong charsets": Kind(_charsets),
    "another protocol": Kind(_upgrades),
    "complaints about the request": Kind(_dialects),
    "an answer before the request": Kind(_unasked, BAD | GOOD),
    "nothing in the body": _bodies(b"", " ", "null", "0", '""', "[]", "{}"),
    "numbers that are none": _bodies(
        *(said(f'{{"answer": {number}}}') for number in ("NaN", "-Infinity", "1e999", "9" * 5000, "1" * 400 + ".0")),
        "NaN",
        "9" * 5000,
        f'{{"choices": [{"1" * 4000}]}}',
    ),
    "answers of another form": _bodies(
        *(
            said(text)
            for text in ('{"answer": 1}', '{"answer": "x", "y": 1}', "{}", "[]", '{"answer": "' + "x" * 99 + '"}')
        ),
        said(f'{{"{_LONG[:5000]}": 1, "answer": "x"}}'),
        said(json.dumps({str(n): n for n in range(20_000)})),
    ),
    "texts that cannot be stored": _bodies(
        said('{"answer": "\\u0000"}'),
        said('{"answer": "\\ud800"}'),
        said(None, message={"content": None, "refusal": _CONTROL}),
        said(None, model=f"other{_CONTROL}"),
        {"choices": _CONTROL},
    ),
    "long texts": _one_of(
        answered(said(_LONG)),
        answered(said(None, message={"refusal": _LONG})),
        answered(said(None, model=_LONG)),
        answered({"error": {"message": _LONG, "code": _LONG}}, status="400 No"),
        answered(_LONG, status="500 No"),
        answered(_LONG * 2),
    ),
    "a longer head than any": _one_of(
        answered(said(), f"x: {_LONG}"),
        answered(said(), *(f"x-{n}: y" for n in range(20_000))),
        b"HTTP/1.1 200 " + _LONG.encode(),
    ),
    "a version that is none": _one_of(
        b"HTTP/0.9 200 OK\r\n\r\n{}",
        b"HTTP/3 200\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
        b"{}",
        b"\r\n" * 50,
    ),
    "a stream of events": _bodies('data: {"choices": [{"delta": {"content": "x"}}]}\n\ndata: [DONE]\n\n'),
    "challenges": _one_of(
        *(
            answered("no", f"www-authenticate: {how}", f"proxy-authenticate: {how}", status=status)
            for status in ("401 Who", "407 Who")
            for how in ('Basic realm="x"', 'Digest realm="x", nonce="y"', "Negotiate", "\x01")
        )
    ),
    "two lengths, or none that holds": _one_of(
        head("200 OK", "content-length: 5", "transfer-encoding: chunked") + b"\r\n0\r\n\r\n",
        head("200 OK", "transfer-encoding: gzip") + b"\r\n{}",
        head("200 OK", "transfer-encoding: chunked, chunked") + b"\r\n0\r\n\r\n",
        head("204 No Content", "content-length: 9") + b"\r\n",
        head("304 Not Modified") + b"\r\n",
    ),
    "refusals": _bodies(
        *(said(None, finish_reason=reason) for reason in ("content_filter", "length")),
        said(None, message={"refusal": "No."}),
        said(None, message={"refusal": [{"why": ["No."]}]}),
    ),
    "another model": _bodies(*(said(None, model=name) for name in ("huge", "tiny-but-not", "../tiny2", "x" * 5000))),
    "silence": Kind(lambda random, key: _silent, is_slow=True),
    "a slow status line": _slow(b"HTTP/1.1 200 ", b"O"),
    "slow header lines": _slow(head(), b"x: y\r\n"),
    "interim answers without end": _slow(
        b"", head("103 Early Hints", "link: <x>") + b"\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"
    ),
    "a chunk extension without end": _slow(chunked() + b"5;", b"a", b"=", b"b;"),
    "empty compressed blocks": _slow(
        chunked("content-encoding: gzip") + b"a\r\n" + gzip.compress(b"")[:10] + b"\r\n", b"5\r\n\0\0\0\xff\xff\r\n"
    ),
    "a slow body": _slow(head("200 OK", "content-length: 100000") + b"\r\n", b" "),
    "a slow body without a length": _slow(head("500 Oops") + b"\r\n", b"no "),
    "slow trailers": _slow(chunked() + b"2\r\n{}\r\n0\r\n", b"x: y\r\n"),
    "a slow handshake": Kind(lambda random, key: _handshake, is_slow=True),
    "the key in an error": _echo(lambda said: answered({"error": {"message": f"key {said}"}}, status="400 No"), BAD),
    "the key in an error's JSON": _echo_in_json(
        lambda said: answered(f'{{"error": {{"message": "key {said}", "code": "{said}"}}}}', status="403 No"), BAD
    ),
    "the key in a passing error": _echo(lambda said: answered(f"Traceback: Bearer {said}", status="503 No"), BAD),
    "the key in a page": _echo(lambda said: answered(f"<html><pre>authorization: Bearer {said}</pre>"), BAD),
    "the key in an answer": _echo(lambda text: answered(said(json.dumps({"answer": text})))),
    "the key in an answer's JSON": _echo_in_json(lambda text: answered(said(f'{{"answer": "{text}"}}'))),
    "the key in parts": _echo(
        lambda text: answered(said([{"text": '{"answer": "'}, *({"text": part} for part in text), {"text": '"}'}]))
    ),
    "the key in names": _echo(lambda text: answered(said(json.dumps({"answer": "x", text: text}))), BAD),
    "the key in a refusal": _echo(lambda text: answered(said(None, message={"refusal": f"not for {text}"})), BAD),
    "the key as the model": _echo(lambda text: answered(said(None, model=text)), BAD),
    "the key in headers": _echo(
        lambda text: answered(
            said(), f"x-{_plain(text)}: y", f"location: {_plain(text)}", f"retry-after: {_plain(text)}"
        )
    ),
    "the key in the status line": _echo(lambda text: answered("no", status=f"500 {_plain(text)}"), BAD),
    "the key where the protocol breaks": _echo(lambda text: head(f"200 {text}\x00", f"{text}") + b"\r\n", BAD),
}
"""By name."""
