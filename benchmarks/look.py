"""How long pages of `reelsieve look` take: `python -m benchmarks.look [--samples 1000000] [--json RESULT]`.

Fills a database as `benchmarks.million` does, and asks a server for pages as a browser does. The first answer of each
stands apart from the median of the others, which find in memory what they read. A rater answers, and is asked again.
"""

from __future__ import annotations

import argparse
import html
import os
import re
import socket
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from urllib.parse import quote
from urllib.request import Request, urlopen

import uvicorn

from benchmarks.installation import temporary_engine
from benchmarks.measure import RESULTS, save_with_load
from benchmarks.million import SAMPLES_PER_SHARD
from benchmarks.million_fill import NAME, fill
from orchestration.look.app import make_look_app
from orchestration.web.guard import RequestGuard

# Wanted is a second for each.
PAGES = {
    "first page, best by a metric": "",
    "first page, worst by a metric": "?order=asc",
    "first page, order of ingest": "?sort=",
    "first page, longest video first": "?sort=duration_s",
    "page in the middle": "?after=[0.5,1]",
    "brush on the metric": f"?only={quote('vcs >= 0.2 and vcs < 0.3')}",
    "brushes on two metrics": f"?only={quote('vcs >= 0.2 and vcs < 0.3')}&only={quote('evqa > 0.9')}",
    "condition on a system": f"?where={quote('system = ' + repr('system_3'))}",
    "histogram of a metric": "/histogram?column=vcs",
    "histogram under a brush": f"/histogram?column=vcs&only={quote('evqa > 0.9')}",
    "histogram of durations": "/histogram?column=duration_s",
    "systems": "/histogram?column=system",
    "systems under a brush": f"/histogram?column=system&only={quote('vcs >= 0.2 and vcs < 0.3')}",
    "sample": "/sample/{sample_id}",
    "systems on a video": "/video/{video_id}",
}
# What a rater is asked, and answers again and again.
RATED = {
    "captions at random": ("/rate?rater=ann&aspect=coverage", "4"),
    "pairs": ("/rate?rater=ann&aspect=coverage&pairs=1", "tie"),
    "facts": ("/rate/facts?rater=ann", "yes"),
}
N_ANSWERS = 20


def main() -> None:
    """Fill, ask, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, default=RESULTS / "look.json")
    given = parser.parse_args()
    before = os.getloadavg()
    with tempfile.TemporaryDirectory(prefix="reelsieve-") as home, temporary_engine(Path(home), NAME) as engine:
        fill(engine, given.samples, max(1, given.samples // SAMPLES_PER_SHARD))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            app = RequestGuard(make_look_app(engine, dict, has_lineage=False), port)
            server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="warning"))
            thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
            thread.start()
            found = {}
            middle = {"sample_id": given.samples // 2 + 1, "video_id": given.samples // 10 + 1}
            for name, path in PAGES.items():
                found[name] = _seconds(f"http://127.0.0.1:{port}/look/{NAME}{path.format(**middle)}", given.repeats)
                print(f"{name:<36}{found[name][0]:>8.3f} s first {found[name][1]:>8.3f} s median", flush=True)
            for name, (path, answer) in RATED.items():
                found[name] = _rated(f"http://127.0.0.1:{port}", f"/look/{NAME}{path}", answer)
                print(f"{name:<36}{found[name][0]:>8.3f} s first {found[name][1]:>8.3f} s median", flush=True)
            server.should_exit = True
            thread.join()
    result = {"samples": given.samples, "seconds": found}
    save_with_load(given.json, result, before)


def _seconds(address: str, repeats: int) -> tuple[float, float]:
    """Of the first answer, and the median of the others."""
    taken = []
    for _ in range(1 + repeats):
        started = time.perf_counter()
        with urlopen(address, timeout=120) as answer:
            answer.read()
        taken.append(time.perf_counter() - started)
    return taken[0], median(taken[1:])


def _rated(server: str, path: str, answer: str) -> tuple[float, float]:
    """The seconds to the first question, and the median from an answer until the next question is there."""
    taken: list[float] = []
    page = ""
    for _ in range(1 + N_ANSWERS):
        started = time.perf_counter()
        for about in re.findall('data-answer="([^"]+)"', page):
            address = f"{server}{html.unescape(about)}&answer={answer}"
            with urlopen(Request(address, b"{}", {"Content-Type": "application/json"}), timeout=120):
                pass
        with urlopen(f"{server}{path}", timeout=120) as shown:
            page = shown.read().decode()
        taken.append(time.perf_counter() - started)
    return taken[0], median(taken[1:])


if __name__ == "__main__":
    main()
