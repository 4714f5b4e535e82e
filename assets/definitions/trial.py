"""Dagster asset `selection_trial`: whether a model trains better on a dataset's selection."""

import dagster as dg
from pydantic import Field

from assets.datasets.lookup import require_dataset
from assets.definitions.curation import Curation
from assets.definitions.partitions import DATASETS
from assets.definitions.step_errors import explain_failure
from assets.progress import throttle_lines
from assets.trial.parts import TooFewTestVideos
from assets.trial.sentences import explain_trial
from assets.trial.setup import N_SEEDS, TrialRequest
from assets.trial.trial import run_trial
from assets.words.tables import escape_markdown
from db.selection.recipes import SelectionError
from db.selection.stored_selections import list_selections, require_selection


class TrialConfig(dg.Config):
    """The configuration of a trial; by default the newest selection of the dataset, without a curve."""

    selection: int | None = Field(default=None, description="number of the selection; by default the newest one")
    beside: list[int] = Field(default=[], description="further selections of the dataset")
    curve: list[float] = Field(default=[], description="shares of the samples to try, such as 0.25")
    seeds: int = Field(default=N_SEEDS, ge=5, description="students trained for every arm")


@dg.asset(
    group_name="selection",
    partitions_def=DATASETS,
    deps=["training_subset", "sample", "reference", "rating"],
    kinds={"pytorch", "postgres"},
)
@explain_failure
def selection_trial(
    context: dg.AssetExecutionContext, config: TrialConfig, curation: dg.ResourceParam[Curation]
) -> dg.MaterializeResult:
    """Training trial: small students trained on a selection and on other captions of the dataset, compared on held-out
    videos with intervals.
    """
    dataset = require_dataset(curation.engine, context.partition_key)
    number = config.selection
    if number is None:
        with curation.engine.connect() as connection:
            number = next((row["selection_id"] for row in list_selections(connection, dataset.name)), None)
    if number is None:
        return dg.MaterializeResult(metadata={"why none": f"dataset {dataset.name} has no selection yet"})
    with curation.engine.connect() as connection:
        owner = require_selection(connection, number)["dataset_name"]
    if owner != dataset.name:
        raise SelectionError(f"selection {number} belongs to dataset {owner}: try it in the partition {owner}")
    request = TrialRequest(number, config.beside, config.curve, config.seeds)
    try:
        trial = run_trial(curation.engine, curation.scorers, curation.home, request, throttle_lines(context.log.info))
    except TooFewTestVideos as error:
        # A small dataset is no mistake.
        return dg.MaterializeResult(metadata={"why none": str(error)})
    return dg.MaterializeResult(
        metadata={
            "selection": number,
            "conclusions": dg.MetadataValue.md(
                "\n".join(f"- {escape_markdown(line)}" for line in explain_trial(trial))
            ),
            "students": len(trial.arms) * trial.n_seeds,
            **({} if trial.trial_id is None else {"trial": trial.trial_id}),
        }
    )
