"""What a batch runner does: it answers files of requests by the script of a server of the tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from assets.metrics.registry import list_source_classes
from assets.models.request_files import Pictures, RequestWriter
from assets.scores.base import Scorer
from assets.scores.pending import make_evidence
from assets.sources.base import walk_sources
from tests.assets.verifying import Bench, order_for
from tests.metrics_core.chat_server import Script

Line = dict[str, Any]


def export(
    bench: Bench, scorer: Scorer, folder: Path, pictures: Pictures = "inline", max_bytes: int = 10**9
) -> dict[str, int]:
    """Write what the scorer would ask about all shards into a folder; the number of requests by purpose."""
    dataset = bench.dataset
    assets = dict.fromkeys(source.asset for source in walk_sources(scorer.sources) if source.chat_models)
    with RequestWriter(folder, pictures, max_bytes, {"metric": scorer.metric}) as writer:
        for asset in assets:
            for shard in range(dataset.n_shards):
                order = replace(order_for(bench.engine, scorer, dataset, shard), outbox=writer)
                make_evidence(scorer, list_source_classes()[asset], [order])
    return dict(writer.n_by_purpose)


def read_requests(folder: Path) -> list[Line]:
    """The requests of a folder, in the order of its files."""
    files = sorted(folder.glob("requests-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def answer(folder: Path, script: Script, change: Callable[[int, Line], Line] = lambda _, line: line) -> None:
    """Answer every file of requests into a file of answers, as vLLM does. change: of the line with this number."""
    for file in sorted(folder.glob("requests-*.jsonl")):
        asked = [json.loads(line) for line in file.read_text().splitlines()]
        lines = [change(n, _answer_one(n, request, script)) for n, request in enumerate(asked)]
        path = file.with_name(file.name.replace("requests", "answers"))
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def _answer_one(n: int, request: Line, script: Script) -> Line:
    assert (request["method"], request["url"]) == ("POST", "/v1/chat/completions")
    assert all(path.is_file() for path in _list_picture_files(request["body"]))
    served = script(n, request["body"])
    body = json.loads(served.body)
    response = {"status_code": served.status, "request_id": "r"}
    if served.status == 200:
        return {"id": str(n), "custom_id": request["custom_id"], "response": {**response, "body": body}, "error": None}
    return {"id": str(n), "custom_id": request["custom_id"], "response": response, "error": body}


def _list_picture_files(body: Line) -> Iterator[Path]:
    content = body["messages"][-1]["content"]
    for part in content if isinstance(content, list) else ():
        if part["type"] == "image_url" and not (url := part["image_url"]["url"]).startswith("data:image/jpeg;base64,"):
            yield Path(unquote(urlsplit(url).path))
