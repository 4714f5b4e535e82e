"""The command init: makes a manifest of the user's own data."""

from __future__ import annotations

import json
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assets.new_manifest.tool_names import Tool
from orchestration.cli.column_options import ColumnOption, RatingOption, parse_column_names
from orchestration.cli.output import (
    AsJson,
    Progress,
    console,
    print_error,
    print_json,
    print_plan,
    print_rows,
    print_sentence,
    show_progress,
)
from orchestration.cli.pass_installation import pass_installation

if TYPE_CHECKING:
    from assets.new_manifest.findings import Findings
    from assets.new_manifest.make import NewManifest
    from orchestration.installation import Installation

MEDIA_ROOTS = "REELSIEVE_MEDIA_ROOTS"
ToolOption = Annotated[
    Tool | None, typer.Option("--from", help="Tool that wrote the folder, whose clips, captions and numbers are read.")
]


@pass_installation
def init(
    installation: Installation,
    source: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder of videos, tables or tar shards; or a file.")
    ],
    to: Annotated[
        Path | None,
        typer.Option(help="Folder to write the manifest to (default: FOLDER itself, which keeps paths relative)."),
    ] = None,
    column: ColumnOption = None,
    rating: RatingOption = None,
    tool: ToolOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be written, and write nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a manifest, which `ingest` reads, of your own videos and tables; print what was guessed and left out.

    It reads videos with captions next to them (.txt, .json, .vtt, .srt), tables with columns of videos and of captions
    (.csv, .tsv, .jsonl, .parquet), folders of Hugging Face datasets, and WebDataset shards. It overwrites nothing.
    """
    from assets.new_manifest.make import create_manifest

    # A wrong setting ends the command before it writes anything.
    _ = installation.settings
    named = parse_column_names(column, rating)
    with show_progress() as tell:
        made = create_manifest(
            source,
            to,
            column_names=named,
            tool=tool,
            is_trial=dry_run,
            tell=tell,
            choose_ratings=partial(choose_ratings, tell),
        )
    if as_json:
        print_json(_as_dict(installation, made, dry_run))
    else:
        _print(installation, made, dry_run)


def choose_ratings(progress: Progress, findings: Findings) -> list[str]:
    """Ask on a terminal whether columns are ratings of people, and return the values of the option --rating for those
    that are. Elsewhere print the options, and return none.
    """
    from assets.new_manifest.rating_offers import list_rating_offers

    offers = [offer for offer in list_rating_offers(findings) if offer.question]
    if offers and not sys.stdin.isatty():
        options = " ".join(offer.arguments for offer in offers)
        print_error(
            f"ratings: no number was taken as a rating of people, since nobody could be asked: if one is, add {options}"
        )
        return []
    return [option for offer in offers if progress.confirm(offer.question or "") for option in offer.options]


def list_next_commands(made: NewManifest) -> list[str]:
    """Return the shell commands that the user should run after a manifest was made: ingest, then score. If the manifest
    needs a new media root, the command that exports it comes first.
    """
    from assets.new_manifest.make import suggest_dataset_name

    folder_shown, dataset = shlex.quote(str(made.folder)), suggest_dataset_name(made.folder)
    return [
        *([f"export {MEDIA_ROOTS}={shlex.quote(format_media_roots(made.new_root))}"] if made.new_root else []),
        f"reelsieve ingest {folder_shown} --dataset {dataset}",
        f"reelsieve score --dataset {dataset}",
    ]


def format_media_roots(root: tuple[str, Path]) -> str:
    """Return the JSON for REELSIEVE_MEDIA_ROOTS, {name: folder}: the media roots of the settings, and this (name,
    folder) in addition.
    """
    from assets.home.settings import read_settings
    from assets.media.settings import MediaSettings

    name, folder = root
    return json.dumps({**read_settings(MediaSettings).media_roots, name: str(folder)})


def print_findings(made: NewManifest) -> None:
    """Print on standard output how a source was understood, what was guessed, and what the new manifest has: videos,
    captions of the five largest systems, references and ratings.
    """
    from assets.new_manifest.rating_offers import list_rating_offers
    from assets.words.text import format_count

    systems, holdings, extracted = made.tables.systems, made.holdings, made.extractor
    console.print(f"found: {made.source_description}")
    for guess in made.findings.guesses:
        print_sentence(f"guessed: {guess}")
    captions = [f"{format_count(n, 'caption')} of system {system!r}" for system, n in systems.most_common(5)]
    captions += [format_count(n_more, "more system")] if (n_more := len(systems) - 5) > 0 else []
    captions += [format_count(holdings.references, "reference")] if holdings.references else []
    captions += [format_count(holdings.questions, "question-answer pair")] if holdings.questions else []
    captions += [format_count(holdings.ratings, "rating")] if holdings.ratings else []
    captions += [f"{format_count(n, 'vector')} of {name}" for name, n in made.tables.vectors.items()]
    has = ", ".join([format_count(holdings.videos, "video"), *captions])
    print_sentence(f"manifest: {has}")
    if extracted.n_videos:
        size = f"{format_count(extracted.n_videos, 'video')}, {extracted.size_bytes / 1e6:.1f} MB"
        console.print(f"videos: {size}, in {made.folder / 'videos'}")
    for offer in list_rating_offers(made.findings):
        print_sentence(f"ratings: {offer.sentence}")


def print_written_files(made: NewManifest) -> None:
    """Print on standard output the names of the new manifest's files, and its folder."""
    from assets.ingest.declarations import SCALES_FILE

    files = [f"{table}.jsonl" for table in made.tables.table_names]
    files += [SCALES_FILE] if made.findings.rating_scales else []
    console.print(f"written: {', '.join(files)} in {made.folder}")


def _print(installation: Installation, made: NewManifest, dry_run: bool) -> None:
    from orchestration.forecasts import build_holdings_plan

    print_findings(made)
    print_rows(made.findings.list_left_out(), empty="nothing was left out")
    print_plan(build_holdings_plan(installation, made.holdings))
    if dry_run:
        print_sentence("nothing was written: the same command without --dry-run writes the manifest")
        return
    print_written_files(made)
    for command in list_next_commands(made):
        console.print(f"next: {command}")


def _as_dict(installation: Installation, made: NewManifest, dry_run: bool) -> dict[str, Any]:
    from assets.new_manifest.rating_offers import list_rating_offers
    from orchestration.forecasts import build_holdings_plan

    holdings = made.holdings
    return {
        "folder": str(made.folder),
        "kind": made.source_description,
        "guesses": made.findings.guesses,
        "videos": holdings.videos,
        "captions": holdings.captions,
        "references": holdings.references,
        "questions": holdings.questions,
        "systems": dict(made.tables.systems),
        "ratings": holdings.ratings,
        "vectors": dict(made.tables.vectors),
        "offers": [offer.sentence for offer in list_rating_offers(made.findings)],
        "needs": dict(build_holdings_plan(installation, made.holdings).needs),
        "left_out": made.findings.list_left_out(),
        "extracted": made.extractor.n_videos,
        "written": not dry_run,
        "next": list_next_commands(made),
    }
