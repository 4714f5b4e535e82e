"""The group of commands dataset: lists datasets, what is in one, and what was refused, and drops one."""

from __future__ import annotations

import typer

from orchestration.cli import dataset_drop, dataset_holds, dataset_list, dataset_rejects, dataset_scores

dataset = typer.Typer(
    help="List datasets, scores and refused rows; find a video; drop a dataset.", no_args_is_help=True
)
dataset.command("list")(dataset_list.show_datasets)
dataset.command("scores")(dataset_scores.show_scores)
dataset.command("rejects")(dataset_rejects.show_rejects)
dataset.command("holds")(dataset_holds.show_holders)
dataset.command("drop")(dataset_drop.drop)
