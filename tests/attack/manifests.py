"""Spoilt manifests: every line is accepted, unchanged, refused or blank, and a second ingest changes nothing.

Run it with `python -m tests.attack.manifests --lines 10000 --seed 1`.
"""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from random import Random
from typing import Any

import sqlalchemy as sa
import typer
from sqlalchemy.engine import Engine

from assets.ingest.manifest_tables import MANIFEST_TABLES
from assets.ingest.rejects import CODES
from assets.ingest.report import IngestReport
from assets.ingest.run import ingest_folder
from tests.assets.manifests import write_clip
from tests.attack.campaign import Campaign, Seed, empty_database
from tests.attack.manifest_rows import FORMATS, N_VIDEOS, Table, good_row, rows_of, write_lines, write_table

# By name of a manifest's table, the database's rows of one dataset.
STORED = {
    "videos": "SELECT v.xmin, v::text FROM video v WHERE dataset_id = :dataset",
    "captions": "SELECT r.xmin, r::text FROM reference r JOIN video v USING (video_id) WHERE v.dataset_id = :dataset "
    "UNION ALL SELECT s.xmin, s::text FROM sample s WHERE kind = 'caption' AND dataset_id = :dataset",
    "keypoints": "SELECT k.xmin, k::text FROM keypoint k JOIN video v USING (video_id) WHERE v.dataset_id = :dataset",
    "keypoint_labels": "SELECT l.xmin, l::text FROM keypoint_label l JOIN sample s USING (sample_id) "
    "WHERE s.dataset_id = :dataset",
    "qa": "SELECT s.xmin, s::text FROM sample s WHERE kind = 'qa' AND dataset_id = :dataset",
    "ratings": "SELECT r.xmin, r::text FROM rating r JOIN sample s USING (sample_id) WHERE s.dataset_id = :dataset",
    "vectors": "SELECT e.xmin, e::text FROM video_embedding e JOIN video v USING (video_id) "
    "WHERE v.dataset_id = :dataset",
}
REFUSED = "SELECT source, line, code, reason, raw FROM ingest_reject WHERE dataset_id = :dataset ORDER BY 1, 2, 3, 4, 5"
State = dict[str, list[tuple[Any, ...]]]


def main(lines: int = 10_000, seed: Seed = None) -> None:
    """Ingest at least so many spoilt lines."""
    campaign = Campaign("manifests", seed)
    with empty_database() as (folder, engine):
        attack(engine, folder, lines, campaign)
    campaign.finish()


def attack(engine: Engine, folder: Path, lines: int, campaign: Campaign) -> None:
    """Ingest manifest folders, each twice and into a dataset of its own, until they have had so many lines."""
    while campaign.counts["lines"] < lines:
        name = f"manifest_{campaign.counts['folders']}"
        tables = write_folder(campaign.random, folder / name)
        campaign.counts["folders"] += 1
        campaign.counts["lines"] += sum(table.rows for table in tables)
        campaign.counts["blank lines"] += sum(table.blank for table in tables)
        try:
            _ingest_twice(engine, folder / name, tables, campaign)
        except Exception as error:
            campaign.expect(False, f"{name}: the ingest ended early: {error!r}\n{traceback.format_exc(limit=-3)}")


def write_folder(random: Random, folder: Path) -> list[Table]:
    """A manifest folder with every table, each in a format of its own, a file of mixed rows, and some media."""
    (folder / "media" / "folder.mp4").mkdir(parents=True)
    write_clip(folder / "media" / "clip.avi")
    (folder / "media" / "text.mp4").write_text("no video")
    (folder / "media" / "away.avi").symlink_to("/etc/passwd")
    os.mkfifo(folder / "media" / "fifo.mp4")
    sizes = {"video": N_VIDEOS, "caption": 4 * N_VIDEOS}
    tables = [
        write_table(random, folder, kind, rows_of(random, kind, sizes.get(kind, 30)), random.choice(FORMATS))
        for kind in MANIFEST_TABLES
    ]
    kinds = [random.choice(list(MANIFEST_TABLES)) for _ in range(30)]
    mixed = [{"kind": kind, **good_row(random, kind, number)} for number, kind in enumerate(kinds, 1000)]
    return [*tables, write_lines(random, folder / "rows.jsonl", mixed)]


def _ingest_twice(engine: Engine, folder: Path, tables: list[Table], campaign: Campaign) -> None:
    first = ingest_folder(engine, folder, folder.name, mixed_rows=tables[-1].path)
    state = _state(engine, folder.name)
    _check_accounts(first, tables, folder.name, campaign)
    _check_refusals(state["refused"], first, tables, campaign)
    for table, n in first.accepted.items():
        campaign.counts[f"{table} accepted"] += n
        campaign.expect(len(state[table]) == n, f"{folder.name}: {len(state[table])} {table} stored, {n} accepted")
    campaign.counts["unchanged (repeats)"] += sum(first.unchanged.values())
    campaign.counts["refused"] += first.rejected

    second = ingest_folder(engine, folder, folder.name, mixed_rows=tables[-1].path)
    _check_accounts(second, tables, f"{folder.name} again", campaign)
    n_accepted = sum(second.accepted.values())
    campaign.expect(n_accepted == 0, f"{folder.name}: the second ingest accepted {n_accepted} rows")
    campaign.expect(_state(engine, folder.name) == state, f"{folder.name}: the second ingest changed something")


def _check_accounts(report: IngestReport, tables: list[Table], name: str, campaign: Campaign) -> None:
    lines, blank = sum(table.rows for table in tables), sum(table.blank for table in tables)
    accepted, unchanged = sum(report.accepted.values()), sum(report.unchanged.values())
    campaign.expect(
        accepted + unchanged + report.rejected + blank == lines,
        f"{name}: {accepted} accepted + {unchanged} unchanged + {report.rejected} refused + {blank} blank "
        f"are not {lines} lines",
    )


def _check_refusals(
    refused: list[tuple[Any, ...]], report: IngestReport, tables: list[Table], campaign: Campaign
) -> None:
    where = report.dataset
    campaign.expect(len(refused) == report.rejected, f"{where}: {len(refused)} refusals kept of {report.rejected}")
    # A record of CSV may have several lines, so that a file has at least as many lines as rows.
    n_lines = {table.path.name: max(table.rows, table.path.read_bytes().count(b"\n") + 1) for table in tables}
    for source, line, code, reason, _ in refused:
        is_explained = 1 <= line <= n_lines[source] and code in CODES and reason.strip() and "\n" not in reason
        campaign.expect(bool(is_explained), f"{where}: {source}, line {line}: {code!r}: {reason!r} explains nothing")
        campaign.counts[f"refused as {code}"] += 1
    places = {(source, line) for source, line, *_ in refused}
    campaign.expect(len(places) == len(refused), f"{where}: a line was refused twice")


def _state(engine: Engine, name: str) -> State:
    """Every row of a dataset, with the transaction that last wrote it, and its refusals."""
    with engine.connect() as connection:
        dataset = connection.scalar(sa.text("SELECT dataset_id FROM dataset WHERE name = :name"), {"name": name})
        queries = {**{table: f"{query} ORDER BY 2" for table, query in STORED.items()}, "refused": REFUSED}
        return {
            table: [tuple(row) for row in connection.execute(sa.text(query), {"dataset": dataset})]
            for table, query in queries.items()
        }


if __name__ == "__main__":
    typer.run(main)
