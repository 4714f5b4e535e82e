"""The commands requests: writes what a metric would ask model servers, and takes in the answers of others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from orchestration.cli.metric_names import choose_metrics
from orchestration.cli.output import (
    AsJson,
    DatasetName,
    print_error,
    print_json,
    print_rows,
    print_sentence,
    show_progress,
)
from orchestration.cli.pass_installation import pass_installation

if TYPE_CHECKING:
    from orchestration.installation import Installation

_BYTES_PER_MB = 1_000_000
requests = typer.Typer(help="Write requests to model servers into files, and import the answers.")


@requests.command("export")
@pass_installation
def export_requests(
    installation: Installation,
    dataset: DatasetName,
    metric: Annotated[str, typer.Option(help="Metric whose requests to write: judge, qeva or evqa.")],
    to: Annotated[Path, typer.Option(help="Folder to create, or an empty one.")],
    draw: Annotated[
        int | None,
        typer.Option(min=1, max=2**63 - 1, help="Number of samples to ask about, drawn at random, as in score."),
    ] = None,
    pictures: Annotated[
        Literal["inline", "files"],
        typer.Option(help="Way to pass frames: within the requests, or as files that they name by path."),
    ] = "inline",
    file_mb: Annotated[int, typer.Option(min=1, help="Number of megabytes that a file of requests has at most.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Write what a metric would ask a model server now into files that `vllm run-batch` reads.

    Requests with a stored answer are left out. After the import, the next round of a metric is exported again.
    """
    from assets.words.text import format_count
    from orchestration.written_requests import write_requests

    (name,) = choose_metrics(installation, [metric])
    with show_progress() as tell:
        writer = write_requests(installation, dataset, name, draw, to, pictures, file_mb * _BYTES_PER_MB, tell)
    rows = [{"purpose": purpose, "requests": n} for purpose, n in writer.n_by_purpose.items()]
    if as_json:
        print_json({"metric": name, "dataset": dataset, "folder": str(to), "files": writer.n_by_file, "round": rows})
        return
    print_rows(rows, empty=f"nothing to ask: reelsieve score --dataset {dataset} --metric {name} needs no server")
    if rows:
        written, files = format_count(sum(writer.n_by_file), "request"), format_count(len(writer.n_by_file), "file")
        print_sentence(
            f"{written} written to {to} in {files}; next: write the answers to requests-00001.jsonl into "
            f"answers-00001.jsonl, and so on, and reelsieve requests import {to}"
        )


@requests.command("import")
@pass_installation
def import_requests(
    installation: Installation,
    folder: Annotated[Path, typer.Argument(help="Folder of an export, with files answers*.jsonl.")],
    as_json: AsJson = False,
) -> None:
    """Store the answers to written requests, computed anywhere; then score needs no server for them.

    Answers are matched by their ids. A second import of the same files changes nothing.
    """
    from dataclasses import asdict

    from assets.models.answer_files import import_answers
    from assets.words.text import format_count
    from orchestration.written_requests import explain_other_settings

    with show_progress() as tell:
        found = import_answers(installation.engine, folder, tell)
    if as_json:
        print_json(asdict(found))
        return
    for trouble, (n, first) in found.troubles.items():
        print_error(f"{format_count(n, 'line')} {trouble}; the first: {first}")
    if sentence := explain_other_settings(installation, found.about):
        print_error(sentence)
    rows = [{"outcome": outcome, "answers": n} for outcome, n in found.n_by_outcome.items()]
    print_rows(rows, empty="no new answer")
    print_sentence(_describe_import(found.n_written, found.n_known, found.n_open))


def _describe_import(n_written: int, n_known: int, n_open: int) -> str:
    """Return the sentence that ends an import.

    >>> _describe_import(1000, 0, 20)
    '980 of 1,000 requests have a stored answer; 20 are open: answer and import them, or export again'
    """
    known = f", {n_known:,} of which were stored before" if n_known else ""
    are_open = f"; {n_open:,} {'is' if n_open == 1 else 'are'} open: answer and import them, or export again"
    return f"{n_written - n_open:,} of {n_written:,} requests have a stored answer{known}{are_open if n_open else ''}"
