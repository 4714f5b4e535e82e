"""The command init: makes a manifest of one's own data."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestration.cli.installation import with_installation
from orchestration.cli.output import AsJson, console, print_json, print_plan, print_rows, progress

if TYPE_CHECKING:
    from assets.new_manifest.make import Made
    from orchestration.platform import Installation

MEDIA_ROOTS = "REELSIEVE_MEDIA_ROOTS"


@with_installation
def init(
    installation: Installation,
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

    # A wrong setting ends the command before it writes anything.
    _ = installation.settings
    named = Named(video_column, caption_column, tuple(rating or ()))
    with progress() as tell:
        made = make_manifest(source, to, named=named, is_trial=dry_run, tell=tell)
    if as_json:
        print_json(_as_dict(installation, made, dry_run))
    else:
        _print(installation, made, dry_run)


def next_commands(made: Made) -> list[str]:
    """What to type next."""
    folder_shown = shlex.quote(str(made.folder))
    return [
        *([f"export {MEDIA_ROOTS}={shlex.quote(roots_with(made.new_root))}"] if made.new_root else []),
        f"reelsieve ingest {folder_shown} --dataset {made.dataset}",
        f"reelsieve score --dataset {made.dataset}",
    ]


def roots_with(root: tuple[str, Path]) -> str:
    """Return the value of REELSIEVE_MEDIA_ROOTS that names this folder besides those that have a name already."""
    from assets.media.settings import MediaSettings
    from assets.settings import read_settings

    name, folder = root
    return json.dumps({**read_settings(MediaSettings).media_roots, name: str(folder)})


def print_findings(made: Made) -> None:
    """Print what a source was taken for, what was guessed, and what the manifest has."""
    from assets.reports.text import plural

    systems, holdings, extracted = made.written.systems, made.holdings, made.extracted
    console.print(f"found: {made.kind}", markup=False, soft_wrap=True)
    for guess in made.findings.guesses:
        console.print(f"guessed: {guess}", markup=False, soft_wrap=True)
    captions = [f"{plural(n, 'caption')} of system {system!r}" for system, n in systems.most_common(5)]
    captions += [plural(n_more, "more system")] if (n_more := len(systems) - 5) > 0 else []
    captions += [plural(holdings.references, "reference")] if holdings.references else []
    captions += [plural(holdings.ratings, "rating")] if holdings.ratings else []
    has = ", ".join([plural(holdings.videos, "video"), *captions])
    console.print(f"manifest: {has}", markup=False, soft_wrap=True)
    if extracted.n:
        size = f"{plural(extracted.n, 'video')}, {extracted.size_bytes / 1e6:.1f} MB"
        console.print(f"videos: {size}, in {made.folder / 'videos'}", markup=False, soft_wrap=True)
    for offer in made.findings.offers():
        console.print(f"ratings: {offer}", markup=False, soft_wrap=True)


def _print(installation: Installation, made: Made, dry_run: bool) -> None:
    from orchestration.forecasts import plan_of

    print_findings(made)
    print_rows(made.findings.rows(), empty="nothing was left out")
    print_plan(plan_of(installation, made.holdings))
    if dry_run:
        console.print("nothing was written: the same command without --dry-run writes")
        return
    tables = ", ".join(f"{table}.jsonl" for table in made.written.tables)
    console.print(f"written: {tables} in {made.folder}", markup=False, soft_wrap=True)
    for command in next_commands(made):
        console.print(f"next: {command}", markup=False, soft_wrap=True)


def _as_dict(installation: Installation, made: Made, dry_run: bool) -> dict[str, Any]:
    from orchestration.forecasts import plan_of

    holdings = made.holdings
    return {
        "folder": str(made.folder),
        "kind": made.kind,
        "guesses": made.findings.guesses,
        "videos": holdings.videos,
        "captions": holdings.captions,
        "references": holdings.references,
        "systems": dict(made.written.systems),
        "ratings": holdings.ratings,
        "offers": made.findings.offers(),
        "needs": dict(plan_of(installation, made.holdings).needs),
        "left_out": made.findings.rows(),
        "extracted": made.extracted.n,
        "written": not dry_run,
        "next": next_commands(made),
    }
