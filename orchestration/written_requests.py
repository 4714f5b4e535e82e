"""Requests to model servers written into files: what a metric would ask about a dataset now."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from assets.datasets.lookup import RunShard, choose_shards
from assets.definitions.curation import Step
from assets.definitions.steps import compute_step
from assets.models.request_files import Pictures, RequestWriter
from assets.progress import LineWriter
from assets.scores.draws import extend_stored_draws, store_draw
from assets.scores.pending import compute_scorer_fingerprint
from assets.sources.base import walk_sources
from db.selection.draws import Draw
from orchestration.dataset_holds import hold_dataset
from orchestration.installation import Installation


class NothingToWrite(ValueError):
    """Raised for a metric whose requests cannot be written to files; the message names the remedy."""

    plain = True


def write_requests(
    installation: Installation,
    dataset: str,
    metric: str,
    n_drawn: int | None,
    folder: Path,
    pictures: Pictures,
    max_bytes: int,
    tell: LineWriter,
) -> RequestWriter:
    """Write the requests that scoring a dataset by a metric would send now into a new folder; return the writer with
    its counts. n_drawn: draw so many samples first, as `score --draw` does; None draws none. Evidence for which all
    answers are stored is made meanwhile. See RequestWriter for the other arguments.

    Raises NothingToWrite where the metric asks no chat model, and the errors of draws, sources and the writer.
    """
    curation = installation.curation
    scorer = curation.scorers[metric]
    assets = list(dict.fromkeys(source.asset for source in walk_sources(scorer.sources) if source.chat_models))
    if not assets:
        raise NothingToWrite(f"{metric} asks no chat model: name one in the settings, such as REELSIEVE_JUDGE_MODEL")
    about = {"dataset": dataset, "metric": metric, "scorer": compute_scorer_fingerprint(scorer)}
    with (
        hold_dataset(installation.engine, dataset) as stored,
        RequestWriter(folder, pictures, max_bytes, about) as writer,
    ):
        if n_drawn is not None:
            store_draw(installation.engine, stored, scorer, Draw(n_drawn, 0, None, 1))
        extend_stored_draws(installation.engine, stored, scorer)
        shards = tuple(RunShard(key, stored, number) for key, number in choose_shards(stored, None).items())
        for asset in assets:
            for _ in compute_step(curation, Step(asset, shards, (metric,), writer.run_id, outbox=writer), tell):
                pass
    return writer


def explain_other_settings(installation: Installation, about: Mapping[str, str]) -> str | None:
    """Return a sentence where the present settings ask otherwise than the export whose `about` is given, so that
    scoring would not find its answers; else None.
    """
    scorer = installation.curation.scorers.get(about["metric"])
    if scorer is not None and compute_scorer_fingerprint(scorer) == about["scorer"]:
        return None
    return (
        f"the present settings ask {about['metric']} otherwise than this export did, so that score does not find these "
        "answers: use the settings of the export"
    )
