"""QEVA through the platform: `python -m benchmarks.qeva_platform`, some minutes on two cores.

Without a server: 200 videos of ActivityNet Captions, the first annotator as the video, the second as the summary, as it
was written, shuffled and with a quarter exchanged (`benchmarks/qeva_anet.py` says how); ingested and scored by the
jobs of `reelsieve`, with the seconds of every asset.

With `--server PYTHON` instead one of ../shared/data/clips, against llama.cpp's server and random weights
(`benchmarks/chat_server.py`): the answers mean nothing, the way from a server to rows is what is shown. The tiny model
takes no images, so it stands in the text roles, and the clip's reference stands for the video.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.chat_server import llama_server
from benchmarks.ecs_data import require
from benchmarks.installation import installation, read_rows, write_rows
from benchmarks.measure import RESULTS, save
from benchmarks.qeva_anet import cell, exchanged, read, reported, segments_of, shuffled
from benchmarks.qeva_run import mean_with_interval
from metrics_core.qeva.records import DIMENSIONS

SYSTEMS = ("written", "shuffled", "exchanged")
MIN_EVENTS = 3


def write_manifest(folder: Path) -> None:
    """Videos without a file, one timed reference each, and three summaries."""
    from random import Random

    one, other = read(1), read(2)
    names = reported()
    told = {name: [segment.text for segment in segments_of(other[name])] for name in names}
    rows: list[dict[str, Any]] = []
    for name in names:
        segments = [{"start_s": s.start_s, "end_s": s.end_s, "text": s.text} for s in segments_of(one[name])]
        text = " ".join(segment["text"] for segment in segments)
        reference = {"caption_id": f"{name} reference", "role": "reference", "text": text, "segments": segments}
        strangers = [sentence for stranger in names if stranger != name for sentence in told[stranger]]
        rng = Random(name)
        texts = {
            "written": told[name],
            "exchanged": exchanged(told[name], strangers, rng),
            "shuffled": shuffled(told[name], rng) if len(told[name]) > 1 else told[name],
        }
        captions = [
            {"caption_id": f"{name} {system}", "role": "candidate", "system": system, "text": " ".join(texts[system])}
            for system in SYSTEMS
        ]
        rows += [{"video_id": name, **row} for row in (reference, *captions)]
    folder.mkdir()
    write_rows(folder / "videos.jsonl", [{"video_id": name} for name in names])
    write_rows(folder / "captions.jsonl", rows)


def scored(dataset: str, folder: Path) -> dict[str, Any]:
    """Ingest and score a folder; components by video and system, statuses, and the seconds of every asset."""
    from db.scores.sample_scores import list_scores
    from orchestration.installation import get_installation
    from orchestration.launch import run_ingest, run_scoring

    run_ingest(get_installation(), folder, dataset, None, None)
    written = {shard: counts["qeva"] for shard, counts in run_scoring(get_installation(), dataset, ["qeva"])}
    assert not list(run_scoring(get_installation(), dataset, ["qeva"])), "a second run has nothing to do"
    with get_installation().engine.connect() as connection:
        rows = list_scores(connection, dataset, "qeva", None, components=True)
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        found.setdefault(row["video"], {})[row["system"]] = row
    return {"written": written, "rows": found, "seconds": step_seconds()}


def step_seconds() -> dict[str, float]:
    """Seconds that the assets' steps of all runs took together."""
    from orchestration.installation import get_installation

    seconds: Counter[str] = Counter()
    for run in get_installation().instance.get_runs():
        for stats in get_installation().instance.get_run_step_stats(run.run_id):
            if stats.start_time and stats.end_time:
                seconds[stats.step_key] += stats.end_time - stats.start_time
    return {name: round(total, 1) for name, total in seconds.most_common() if total >= 0.1}


def falls(rows: dict[str, dict[str, Any]], dimension: str, system: str, min_events: int = 0) -> dict[str, Any]:
    """How much a dimension falls against the summary as written, and in which share of the videos."""
    differences = [
        None if None in (values := [of[s]["qeva_components"][dimension] for s in ("written", system)]) else values
        for of in rows.values()
        if of["written"]["qeva_components"]["questions"]["coverage"]["generated"] >= min_events
    ]
    known = [pair[0] - pair[1] for pair in differences if pair is not None]
    return {
        "difference": mean_with_interval(known),
        "share": mean_with_interval([float(each > 1e-12) for each in known]),
        "ties": sum(abs(each) <= 1e-12 for each in known),
    }


def without_server(folder: Path) -> dict[str, Any]:
    """The ActivityNet study."""
    write_manifest(folder / "anet")
    done = scored("anet", folder / "anet")
    rows = done["rows"]
    means = {
        system: {
            name: mean_with_interval([of[system]["qeva_components"][name] for of in rows.values()])
            for name in DIMENSIONS
        }
        for system in SYSTEMS
    }
    return {
        "videos": len(rows),
        "statuses": dict(Counter(row["qeva_status"] for of in rows.values() for row in of.values())),
        "means": means,
        "chronology_shuffled": falls(rows, "chronology", "shuffled", MIN_EVENTS),
        "factuality_exchanged": falls(rows, "factuality", "exchanged"),
        "seconds": done["seconds"],
    }


def write_clip(folder: Path) -> None:
    """One of the ten clips, with its reference and one caption: random weights write as long as they may."""
    captions = read_rows(require("clips") / "captions.jsonl")
    videos = sorted({row["video_id"] for row in captions if row["role"] == "reference"})[:1]
    systems = sorted({row["system"] for row in captions if row["role"] == "candidate"})[:1]
    chosen = [
        row
        for row in captions
        if row["video_id"] in videos and (row["role"] == "reference" or row["system"] in systems)
    ]
    folder.mkdir()
    write_rows(folder / "videos.jsonl", [{"video_id": video} for video in videos])
    write_rows(folder / "captions.jsonl", chosen)


def with_server(folder: Path) -> dict[str, Any]:
    """A clip, by a server of random weights; the calls are rows of table chat_call."""
    import sqlalchemy as sa

    from db.schema import chat_call
    from orchestration.installation import get_installation

    write_clip(folder)
    done = scored("clips", folder)
    kinds = (chat_call.c.purpose, chat_call.c.outcome)
    with get_installation().engine.connect() as connection:
        rows = connection.execute(sa.select(*kinds, sa.func.count()).group_by(*kinds).order_by(*kinds)).all()
    statuses = Counter(row["qeva_status"] for of in done["rows"].values() for row in of.values())
    calls = {f"{purpose}: {outcome}": n for purpose, outcome, n in rows}
    return {"statuses": dict(statuses), "calls": calls, "seconds": done["seconds"]}


def main() -> None:
    """Run one of the parts, print it and write it to results/."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", help="Python of an environment with llama-cpp-python[server] and gguf")
    python = parser.parse_args().server
    with tempfile.TemporaryDirectory() as folder, installation(Path(folder) / "home"):
        if python:
            with llama_server(python) as url:
                # Read when the installation is first used.
                os.environ.update(REELSIEVE_QEVA_TEXT_MODEL="tiny", REELSIEVE_QEVA_TEXT_URL=url)
                server = with_server(Path(folder) / "clips")
            print(server, f"written to {save(RESULTS / 'qeva_server.json', server)}", sep="\n")
            return
        anet = without_server(Path(folder))
    for system, dimensions in anet["means"].items():
        print(f"{system:10s}" + "".join(f"  {name} {cell(each)}" for name, each in dimensions.items()))
    for name in ("chronology_shuffled", "factuality_exchanged"):
        print(f"{name}: by {cell(anet[name]['difference'])}, in {cell(anet[name]['share'])} of the videos")
    print(anet["statuses"], anet["seconds"], sep="\n")
    print(f"written to {save(RESULTS / 'qeva_platform.json', anet)}")


if __name__ == "__main__":
    main()
