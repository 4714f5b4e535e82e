"""The command line of the OmniDCBench adapter; the package shows how to run it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from assets.ingest.hygiene import format_value
from assets.ingest.rejects import ManifestError
from lab.adapters.omnidcbench.convert import convert
from lab.adapters.tables import print_counts


def _by_system(option: str, given: Sequence[str]) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for text in given:
        system, equals, file = text.partition("=")
        if not equals or not file:
            raise ManifestError(f"{option} {text}: write SYSTEM=FILE")
        if system in files:
            raise ManifestError(
                f"{option} {text}: system {format_value(system)} has a file already: give one per system"
            )
        files[system] = Path(file)
    return files


def main(
    references: Annotated[Path, typer.Argument(help="OmniDCBench's references as JSON Lines, one clip per line.")],
    folder: Annotated[Path, typer.Argument(help="Manifest folder to write.")],
    predictions: Annotated[list[str], typer.Option(help="SYSTEM=FILE: what a system predicted; once per system.")],
    labels: Annotated[
        list[str] | None, typer.Option(help="SYSTEM=FILE: which keypoints a judge found in the system's captions.")
    ] = None,
) -> None:
    """Rewrite files of OmniDCBench as a manifest folder."""
    print_counts(
        lambda: convert(
            references,
            folder,
            predictions=_by_system("--predictions", predictions),
            labels=_by_system("--labels", labels or []),
        )
    )


if __name__ == "__main__":
    typer.run(main)
