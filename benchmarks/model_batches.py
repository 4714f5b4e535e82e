"""Times requests in flight, written requests and imported answers: `python -m benchmarks.model_batches`.

A server of this machine, in a process of its own, answers as a GPU does that computes `--slots` requests at once: an
answer takes .25 s with an idle server and .5 s with a full one, and more requests queue. It is asked `--requests` times
by 8 at once, by as many as it has slots, and by as many as its answers allow. Then `--answers` requests of the judge,
with eight frames of 448 pixels for every ten of them, are written in both forms of pictures, and their answers imported
into a fresh database, and imported again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from assets.models.answer_files import import_answers
from assets.models.request_files import Pictures, RequestWriter
from benchmarks.measure import RESULTS, peak_kb, save, seconds
from benchmarks.server_cost import measured_server
from metrics_core.judge import ChatJudge, JudgedText
from metrics_core.models.chat.client import HttpChatModel
from metrics_core.models.server.address import Server
from metrics_core.models.server.endpoint import Endpoint
from metrics_core.qeva.records import JpegFrame, VideoAsFrames

RESULT = RESULTS / "model_batches.json"
IDLE_S, SIDE, N_FRAMES, CAPTIONS = 0.25, 448, 8, 10
VERDICT = json.dumps({"spans": [], "why": "It fits the video.", "score": 80})
USAGE = {"prompt_tokens": 2600, "completion_tokens": 30}
BODY = {"model": "tiny", "choices": [{"message": {"content": VERDICT}, "finish_reason": "stop"}], "usage": USAGE}


def serve(port_to: Connection, slots: int) -> None:
    """Answer judges as a GPU with so many slots would, until the process ends."""

    async def run() -> None:
        free, running = asyncio.Semaphore(slots), 0

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal running
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(head.partition(b"content-length:")[2].split()[0]))
            async with free:
                running += 1
                await asyncio.sleep(IDLE_S * (1 + running / slots))
                running -= 1
            body = json.dumps(BODY).encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n")
            writer.write(b"content-length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
        port_to.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


@contextmanager
def server_of(slots: int) -> Iterator[str]:
    """The address of such a server."""
    context = multiprocessing.get_context("spawn")
    port_from, port_to = context.Pipe(duplex=False)
    process = context.Process(target=serve, args=(port_to, slots), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{port_from.recv()}/v1"
    finally:
        process.terminate()
        process.join()


def draw_videos(n: int) -> Iterator[VideoAsFrames]:
    """Videos of eight different frames each."""
    blocks = np.kron(np.random.default_rng(0).integers(0, 255, (14, 14, 3), np.uint8), np.ones((32, 32, 1), np.uint8))
    for number in range(n):
        frames = []
        for place in range(N_FRAMES):
            file = BytesIO()
            Image.fromarray(np.roll(blocks, 8 * place + number, axis=1)).save(file, "JPEG", quality=85)
            frames.append(JpegFrame(file.getvalue() + number.to_bytes(4, "big"), float(place), SIDE, SIDE))
        yield VideoAsFrames(tuple(frames), {})


def time_requests(url: str, n: int, concurrency: int | None) -> dict[str, Any]:
    """Ask for judgements of n texts without frames, 256 in a call."""
    model = HttpChatModel(Endpoint("tiny", Server(url), concurrency=concurrency))
    texts = [JudgedText(f"A dog runs {number}.", VideoAsFrames((), {})) for number in range(n)]

    def ask() -> None:
        for start in range(0, n, 256):
            answers = ChatJudge(model).judge_texts(texts[start : start + 256])
            assert all(answer.value == 0.8 for answer in answers)

    taken = seconds(ask)
    return {"seconds": taken, "a_second": n / taken, "in_flight_at_the_end": model.endpoint.most_at_once}


def time_writing(folder: Path, n: int, pictures: Pictures) -> dict[str, Any]:
    """Write the requests of n captions, ten about a video."""
    with RequestWriter(folder, pictures, 10**9, {"metric": "judge"}) as writer:
        judge = ChatJudge(HttpChatModel(Endpoint("tiny", Server("http://127.0.0.1:1/v1"))).divert(writer))
        taken = 0.0
        for number, video in enumerate(draw_videos(n // CAPTIONS)):
            texts = [JudgedText(f"A dog runs {number} {of}.", video) for of in range(CAPTIONS)]
            taken += seconds(lambda texts=texts: judge.judge_texts(texts))
    n_bytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return {"seconds": taken, "a_second": n / taken, "bytes_a_request": n_bytes / n}


def time_importing(folder: Path, home: Path, n: int) -> dict[str, Any]:
    """Import an answer to each of n requests, and import the same again."""
    with (folder / "answers.jsonl").open("w") as answers, (folder / "ids.jsonl").open() as ids:
        for line in ids:
            answer = {"custom_id": json.loads(line)["custom_id"], "error": None}
            answers.write(json.dumps({**answer, "response": {"status_code": 200, "body": BODY}}) + "\n")
    with measured_server(home) as server, server.fresh() as engine:
        before = peak_kb()
        first = seconds(lambda: import_answers(engine, folder, lambda _: None))
        again = seconds(lambda: import_answers(engine, folder, lambda _: None))
        with engine.connect() as connection:
            stored = connection.exec_driver_sql(
                "SELECT pg_total_relation_size('chat_reply'), pg_total_relation_size('chat_call')"
            ).one()
    return {
        "seconds": first,
        "a_second": n / first,
        "again_seconds": again,
        "peak_kb_more": peak_kb() - before,
        "bytes_a_row": {"chat_reply": stored[0] / n, "chat_call": stored[1] / n},
    }


def main() -> None:
    """Measure, write the result to a file and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--requests", type=int, default=1024)
    parser.add_argument("--answers", type=int, default=20_000)
    parser.add_argument("result", type=Path, nargs="?", default=RESULT)
    given = parser.parse_args()
    before, began = os.getloadavg(), time.monotonic()
    with server_of(given.slots) as url:
        paces = {"8": 8, "slots": given.slots, "by_answers": None}
        asked = {name: time_requests(url, given.requests, n) for name, n in paces.items()}
    with tempfile.TemporaryDirectory(prefix="reelsieve-") as temporary:
        folder = Path(temporary)
        written = {
            "inline": time_writing(folder / "inline", given.answers // 20, "inline"),
            "files": time_writing(folder / "files", given.answers, "files"),
        }
        imported = time_importing(folder / "files", folder / "home", given.answers)
    content = {"slots": given.slots, "requests": given.requests, "answers": given.answers}
    content |= {"asked": asked, "written": written, "imported": imported, "took_s": time.monotonic() - began}
    save(given.result, content, load_average_before=before)
    print(json.dumps(content, indent=1))


if __name__ == "__main__":
    main()
