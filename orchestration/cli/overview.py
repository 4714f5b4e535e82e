"""Commands that show the state of data and installation: status, doctor, ui."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from orchestration.cli.output import AsJson, console, print_json, print_rows


def status(as_json: AsJson = False) -> None:
    """Show every dataset, what it holds, and how many of its samples every metric has still to score."""
    from assets.scores.pending import pending_by_shard
    from db.manifest.datasets import list_datasets
    from db.reports.values_of_report import dataset_summary
    from orchestration.platform import curation, engine

    scorers = curation().scorers
    rows = []
    with engine().connect() as connection:
        datasets = list_datasets(connection)
    # Counted first: the summary reads the counts that this look keeps.
    pending = {metric: pending_by_shard(engine(), scorer, datasets) for metric, scorer in scorers.items()}
    with engine().connect() as connection:
        for dataset in datasets:
            row = dataset_summary(connection, dataset.name)
            for metric, counts in pending.items():
                row[f"{metric}_pending"] = sum(n for (name, _), n in counts.items() if name == dataset.name)
            rows.append(row)
    if as_json:
        print_json(rows)
    else:
        print_rows(rows, empty="no dataset yet: try reelsieve demo, or reelsieve ingest FOLDER --dataset NAME")


def doctor(as_json: AsJson = False) -> None:
    """Check everything that this installation needs, and say how to mend faults. Exit code 1 if there are any."""
    from orchestration.doctor import examine

    findings = examine()
    if as_json:
        print_json([finding.as_dict() for finding in findings])
    else:
        for finding in findings:
            mark = "[green]ok[/green]     " if finding.ok else "[red]missing[/red]"
            console.print(f"{mark} {finding.what}: {escape(finding.detail)}", soft_wrap=True)
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)


def ui(port: Annotated[int, typer.Option(min=1, max=65535, help="Port on 127.0.0.1.")] = 3000) -> None:
    """Open Dagster's web interface with its daemon on this machine: lineage, runs, checks, plots. Ctrl-C ends it."""
    import importlib.util
    import socket

    from orchestration.cli.errors import Refused

    if importlib.util.find_spec("dagster_webserver") is None:
        raise Refused("the web interface is not installed: install the extra `ui` (pip install 'reelsieve[ui]')")
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            raise Refused(f"port {port} is in use: choose another one with --port")
    console.print(f"http://127.0.0.1:{port} in a moment; Ctrl-C ends it")
    from orchestration.web.serving import serve

    serve(port)
    raise typer.Exit(1)
