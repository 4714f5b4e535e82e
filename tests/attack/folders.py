"""Hostile folders through `reelsieve init`, and what it wrote through ingest.

Every caption ends in the manifest, unchanged and with its own video, or is named with a reason; no file of the user is
changed; no command hangs or ends as a fault of the program. Run it with `python -m tests.attack.folders --seed 1`.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import typer
from sqlalchemy.engine import Engine

from assets.ingest.run import ingest_folder
from tests.assets.init_sources import read_video
from tests.assets.manifests import write_clip
from tests.attack.campaign import Campaign, Seed, empty_database, limited
from tests.attack.hostile_folders import SECRET, Source, hostile_source
from tests.command_line import Done, run_command

# More than any of these folders takes on a busy machine.
HANGS_S = 120
# Refusals that only a look into a video's content, or at its length, can tell.
BY_CONTENT = {"not_a_video", "dangling_reference", "segment_outside_clip"}
STORED = (
    "SELECT c.text, v.content_sha256 FROM (SELECT text, video_id FROM sample WHERE dataset_id = :dataset "
    "UNION ALL SELECT text, video_id FROM reference WHERE dataset_id = :dataset) c JOIN video v USING (video_id)"
)
Row = dict[str, Any]


def main(folders: int = 200, seed: Seed = None) -> None:
    """Try so many folders."""
    campaign = Campaign("folders", seed)
    with empty_database() as (folder, engine):
        attack(engine, folder, folders, campaign)
    campaign.finish()


def attack(engine: Engine, folder: Path, folders: int, campaign: Campaign) -> None:
    """Make so many sources, and of each a manifest and a dataset."""
    clip = write_clip(folder / "clip.avi", n_frames=2).read_bytes()
    for number in range(folders):
        place = folder / f"folder_{number}"
        try:
            source = hostile_source(campaign.random, place, clip)
            _check(engine, source, campaign)
        finally:
            # Folders may be nested deeper than Python removes them.
            subprocess.run(["rm", "-rf", place], check=True)
        campaign.counts["folders"] += 1


def _check(engine: Engine, source: Source, campaign: Campaign) -> None:
    name = source.folder.name
    before = _state(source.folder)
    tried = _init(source, campaign, "--dry-run")
    campaign.expect(_state(source.folder) == before, f"{name}: a trial changed the folder")
    done = _init(source, campaign)
    after = _state(source.folder)
    changed = [path for path, state in before.items() if after.get(path) != state]
    campaign.expect(not changed, f"{name}: these were changed or removed: {changed}")
    if done.returncode != 0:
        campaign.counts["folders refused"] += 1
        campaign.expect(not source.good or source.may_fail, f"{name}: refused: {done.stderr}")
        campaign.expect(after == before, f"{name}: a refused folder has new files: {after.keys() - before.keys()}")
        return
    new = {path for path in after.keys() - before.keys() if path.split("/")[0] != "videos"}
    campaign.expect(new == {"videos.jsonl", "captions.jsonl"}, f"{name}: new files: {new}")
    said, said_before = json.loads(done.stdout), json.loads(tried.stdout)
    same = ("kind", "videos", "captions", "references", "left_out", "extracted")
    campaign.expect(
        # A trial does not find out what stands in the way of a video.
        source.may_fail or all(said[key] == said_before[key] for key in same),
        f"{name}: a trial said {said_before}, init {said}",
    )
    videos, captions = _read(source.folder / "videos.jsonl"), _read(source.folder / "captions.jsonl")
    _check_captions(source, videos, captions, said["left_out"], campaign)
    _check_ingest(engine, source, captions, campaign)
    for table in new:
        (source.folder / table).unlink()
    again = _init(source, campaign)
    campaign.expect(again.returncode == 0, f"{name}: init again was refused: {again.stderr}")
    same_tables = (_read(source.folder / "videos.jsonl"), _read(source.folder / "captions.jsonl")) == (videos, captions)
    campaign.expect(same_tables, f"{name}: init again made another manifest")
    more = _state(source.folder).keys() - after.keys()
    campaign.expect(not more, f"{name}: init again wrote {more}")


def _init(source: Source, campaign: Campaign, *options: str) -> Done:
    with limited(HANGS_S):
        done = run_command("init", str(source.folder), "--json", *options)
    is_plain = done.returncode == 0 or (done.returncode == 1 and done.stderr.count("\n") == 1 and not done.stdout)
    campaign.expect(is_plain, f"{source.folder.name}: init ended with {done.returncode}: {done.stderr}")
    return done


def _check_captions(
    source: Source, videos: list[Row], captions: list[Row], left_out: list[Row], campaign: Campaign
) -> None:
    name = source.folder.name
    paths = {row["video_id"]: row.get("path") for row in videos}
    campaign.expect(len(paths) == len(videos), f"{name}: a video_id stands twice")
    campaign.expect(len({row["caption_id"] for row in captions}) == len(captions), f"{name}: a caption_id stands twice")
    planted = {**source.spoilt, **source.good}
    for row in captions:
        expected = planted.get(row["text"])
        if expected is None:
            campaign.expect(SECRET not in json.dumps(row), f"{name}: the content of another folder: {row}")
            campaign.counts["other captions"] += 1
            continue
        path = paths[row["video_id"]]
        content = None if path is None else read_video(source.folder, path)
        campaign.expect(content == expected.content, f"{name}: {row} has the video of another caption, {path}")
        own = {key: row.get(key) for key in expected.own}
        campaign.expect(
            json.dumps(own) == json.dumps(dict(expected.own)), f"{name}: {row} has other fields than {expected.own}"
        )
    texts = [row["text"] for row in captions]
    lost = source.good.keys() - set(texts)
    campaign.expect(not lost, f"{name}: lost: {sorted(lost)}; left out: {left_out}")
    repeated = {text for text in planted if texts.count(text) > 1}
    campaign.expect(not repeated, f"{name}: several times in the manifest: {repeated}")
    n = sum(row["n"] for row in left_out)
    campaign.expect(n >= source.n_named, f"{name}: {source.n_named} things had to be named, left out: {left_out}")
    campaign.counts["captions planted"] += len(planted)
    campaign.counts["captions in manifests"] += len(captions)
    campaign.counts["things left out"] += n


def _check_ingest(engine: Engine, source: Source, captions: list[Row], campaign: Campaign) -> None:
    name = source.folder.name
    with limited(HANGS_S):
        report = ingest_folder(engine, source.folder, name)
    with engine.connect() as connection:
        dataset = connection.scalar(sa.text("SELECT dataset_id FROM dataset WHERE name = :name"), {"name": name})
        refused = connection.execute(
            sa.text("SELECT code, reason FROM ingest_reject WHERE dataset_id = :dataset"), {"dataset": dataset}
        ).all()
        stored = {row.text: row.content_sha256 for row in connection.execute(sa.text(STORED), {"dataset": dataset})}
    for code, reason in refused:
        campaign.counts[f"refused by ingest as {code}"] += 1
        campaign.expect(code in BY_CONTENT, f"{name}: init let through what ingest refuses: {code}: {reason}")
    for text, planted in source.good.items():
        sha256 = None if planted.content is None else hashlib.sha256(planted.content).digest()
        found = stored.get(text)
        campaign.expect(
            text in stored and (None if found is None else bytes(found)) == sha256, f"{name}: {text!r} was not ingested"
        )
    campaign.counts["captions ingested"] += report.accepted["captions"]
    written = report.accepted["captions"] + sum(code == "dangling_reference" for code, _ in refused)
    written += sum(code == "segment_outside_clip" for code, _ in refused)
    campaign.expect(written == len(captions), f"{name}: {written} of {len(captions)} captions are accounted for")


def _state(folder: Path) -> dict[str, tuple[Any, ...]]:
    """What stands at every path of a folder: its kind and times, the content of files, the targets of links."""
    found: dict[str, tuple[Any, ...]] = {}
    folders = [""]
    while folders:
        inner = folders.pop()
        try:
            entries = [(entry, entry.stat(follow_symlinks=False)) for entry in os.scandir(os.path.join(folder, inner))]
        except OSError:
            continue  # deeper than a path may be long
        for entry, state in entries:
            path = f"{inner}/{entry.name}".lstrip("/")
            content: Any = None
            if stat.S_ISDIR(state.st_mode):
                folders.append(path)
                found[path] = (state.st_mode, state.st_ino)
                continue
            if stat.S_ISREG(state.st_mode):
                content = hashlib.sha256(Path(entry.path).read_bytes()).hexdigest()
            elif stat.S_ISLNK(state.st_mode):
                content = os.readlink(entry.path)
            found[path] = (state.st_mode, state.st_ino, state.st_mtime_ns, content)
    return found


def _read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


if __name__ == "__main__":
    typer.run(main)
