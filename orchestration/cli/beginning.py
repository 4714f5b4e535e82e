"""The command init: makes a manifest of one's own data."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestration.cli.output import AsJson, console, print_json, print_rows, progress

if TYPE_CHECKING:
    from assets.new_manifest.make import Made
    from assets.new_manifest.write import Written


def init(
    source: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder of videos, tables or tar shards; or a file.")
    ],
    to: Annotated[
        Path | None, typer.Option(help="Folder of the manifest (default: FOLDER itself, which keeps paths relative).")
    ] = None,
    video_column: Annotated[str | None, typer.Option(help="Column of the videos (default: guessed).")] = None,
    caption_column: Annotated[str | None, typer.Option(help="Column of the captions (default: guessed).")] = None,
    rating: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="Column of ratings by people, whole numbers from 1 to 5; may be given several times."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be written; write nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a manifest of your own data, and say what was guessed, what was left out, and what to run next.

    It reads videos with captions beside them (.txt, .json, .vtt, .srt), tables with columns of videos and of captions
    (.csv, .tsv, .jsonl, .parquet), folders of Hugging Face datasets, and WebDataset shards. It overwrites nothing.
    """
    from assets.new_manifest.columns import Named
    from assets.new_manifest.make import make_manifest
    from orchestration.settings import settings

    # A wrong setting ends the command before it writes anything.
    settings()
    named = Named(video_column, caption_column, tuple(rating or ()))
    with progress() as tell:
        made = make_manifest(source, to, named=named, is_trial=dry_run, tell=tell)
    if as_json:
        print_json(_as_dict(made, dry_run))
    else:
        _print(made, dry_run)


def next_commands(made: Made) -> list[str]:
    """What to type next."""
    commands = []
    if made.new_root:
        name, folder = made.new_root
        commands.append(f"export REELSIEVE_MEDIA_ROOTS={shlex.quote(json.dumps(_roots() | {name: str(folder)}))}")
    folder_shown = shlex.quote(str(made.folder))
    return [
        *commands,
        f"reelsieve ingest {folder_shown} --dataset {made.dataset}",
        f"reelsieve score --dataset {made.dataset}",
    ]


def metrics_that_lack(written: Written) -> dict[str, str]:
    """By metric, what it would need to score captions of a new manifest; without the metrics that can score some."""
    from assets.reports.labels import STAND_INS
    from assets.scores.registry import SCORERS
    from db.schema.inputs import KEYPOINTS, REFERENCES, VIDEO
    from orchestration.settings import settings

    has = {REFERENCES: written.references > 0, KEYPOINTS: False, VIDEO: written.files > 0}
    lacks = {}
    for metric, scorer in SCORERS.items():
        needs = {each: f"{each.label}s" for each in has if each in scorer.inputs}
        stand_in = None
        if VIDEO in needs:
            models = scorer.from_settings(settings()).models().values()
            stand_in = next((model["model_id"] for model in models if model["model_id"] in STAND_INS), None)
        if stand_in is not None:
            needs[VIDEO] = f"videos and another model than {stand_in!r} ({STAND_INS[stand_in]})"
        if not written.candidates:
            lacks[metric] = "captions that are no references"
        elif needs and not any(has[each] and (each is not VIDEO or stand_in is None) for each in needs):
            lacks[metric] = " or ".join(needs.values())
    return lacks


def _roots() -> dict[str, str]:
    from assets.media.settings import MediaSettings
    from assets.settings import read_settings

    return dict(read_settings(MediaSettings).media_roots)


def _print(made: Made, dry_run: bool) -> None:
    written, extracted = made.written, made.extracted
    console.print(f"found: {made.kind}", markup=False, soft_wrap=True)
    for guess in made.findings.guesses:
        console.print(f"guessed: {guess}", markup=False, soft_wrap=True)
    captions = [f"{n} captions of system {system!r}" for system, n in written.systems.most_common(5)]
    captions += [f"{len(written.systems) - 5} more systems"] if len(written.systems) > 5 else []
    captions += [f"{written.references} references"] if written.references else []
    captions += [f"{written.ratings} ratings"] if written.ratings else []
    console.print(f"manifest: {written.videos} videos, {', '.join(captions)}", markup=False, soft_wrap=True)
    if extracted.n:
        size = f"{extracted.n} videos, {extracted.size_bytes / 1e6:.1f} MB"
        console.print(f"videos: {size}, in {made.folder / 'videos'}", markup=False, soft_wrap=True)
    for offer in made.findings.offers():
        console.print(f"ratings: {offer}", markup=False, soft_wrap=True)
    print_rows(made.findings.rows(), empty="nothing was left out")
    _print_metrics(metrics_that_lack(written))
    if dry_run:
        console.print("nothing was written: the same command without --dry-run writes")
        return
    tables = ", ".join(f"{table}.jsonl" for table in written.tables)
    console.print(f"written: {tables} in {made.folder}", markup=False, soft_wrap=True)
    for command in next_commands(made):
        console.print(f"next: {command}", markup=False, soft_wrap=True)


def _print_metrics(lacks: Mapping[str, str]) -> None:
    from assets.scores.registry import METRICS

    can_score = [metric for metric in METRICS if metric not in lacks]
    scored_by = f"can be scored by {', '.join(can_score)}" if can_score else "nothing can be scored yet"
    console.print(f"scores: {scored_by}", markup=False, soft_wrap=True)
    for metric, needs in lacks.items():
        console.print(f"scores: {metric} needs {needs}", markup=False, soft_wrap=True)


def _as_dict(made: Made, dry_run: bool) -> dict[str, Any]:
    written = made.written
    return {
        "folder": str(made.folder),
        "kind": made.kind,
        "guesses": made.findings.guesses,
        "videos": written.videos,
        "captions": written.candidates,
        "references": written.references,
        "systems": dict(written.systems),
        "ratings": written.ratings,
        "offers": made.findings.offers(),
        "needs": metrics_that_lack(written),
        "left_out": made.findings.rows(),
        "extracted": made.extracted.n,
        "written": not dry_run,
        "next": next_commands(made),
    }
