"""Dagster asset `training_subset`: rows of a dataset that a recipe selects, frozen and written as Parquet."""

from typing import Any

import dagster as dg
from pydantic import Field

from assets.datasets.lookup import require_dataset
from assets.definitions.curation import Curation
from assets.definitions.lineage import depend_on_all_partitions
from assets.definitions.partitions import DATASETS
from assets.definitions.score_metadata import load_mean_metadata
from assets.definitions.step_errors import explain_failure
from assets.metrics.registry import METRICS, SCORERS, build_score_asset_name
from assets.progress import LineWriter
from assets.selection.export import export_selection
from assets.selection.select import make_selection
from assets.selection.vectors import find_text_encoder
from assets.selection.wording import explain_thresholds, explain_ties
from assets.words.labels import load_metric_label
from assets.words.tables import format_markdown_table
from assets.words.text import format_items
from db.manifest.datasets import Dataset
from db.selection.candidates import NothingToSelect
from db.selection.recipes import Recipe, parse_recipe
from db.selection.stored_selections import load_selection_rows


class SelectionConfig(dg.Config):
    """The recipe of a selection, as in its YAML file. The default has no size: with it the asset fails where samples
    have scores, and its message lists what each share keeps.
    """

    recipe: dict[str, Any] = Field(default={"by": METRICS[0], "stale": "leave_out"})


@dg.asset(
    group_name="selection",
    partitions_def=DATASETS,
    # A recipe may name a stored threshold, and mean ratings.
    deps=[
        "threshold",
        "rating_threshold",
        *[depend_on_all_partitions(build_score_asset_name(name)) for name in SCORERS],
    ],
    kinds={"postgres", "parquet"},
)
@explain_failure
def training_subset(
    context: dg.AssetExecutionContext, config: SelectionConfig, curation: dg.ResourceParam[Curation]
) -> dg.MaterializeResult:
    """The rows of the dataset that a recipe selects, frozen in the database and written as Parquet to folder
    `selections` of the home.
    """
    dataset, recipe = require_dataset(curation.engine, context.partition_key), parse_recipe(config.recipe)
    return make_training_subset(curation, dataset, recipe, context.log.info)


def make_training_subset(
    curation: Curation, dataset: Dataset, recipe: Recipe, tell: LineWriter
) -> dg.MaterializeResult:
    """Freeze the subset that a recipe selects from a dataset, write it as Parquet to folder `selections` of the home,
    and return it as an asset's metadata. Where a recipe without a condition finds nothing, return 0 rows and a reason,
    and write nothing. Else this raises what `make_selection` raises. tell: takes lines of progress.

    A file of the same dataset and selection number is replaced.
    """
    try:
        selection = make_selection(curation.engine, dataset, recipe, lambda: find_text_encoder(curation.scorers), tell)
    except NothingToSelect as error:
        if recipe.where or recipe.at_least:
            raise
        # A dataset that is not scored yet is no mistake: its subset waits for the scores.
        return dg.MaterializeResult(metadata={"dagster/row_count": 0, "why none": str(error)})
    path = curation.create_folder("selections") / f"{dataset.name}-{selection.selection_id}.parquet"
    # Written even if the file exists: it may come from another database that this home folder was used with.
    export_selection(curation.engine, selection.selection_id, path, replace=True)
    first = next(load_selection_rows(curation.engine, selection.selection_id, batch_size=10))
    with curation.engine.connect() as connection:
        label = " and ".join(load_metric_label(connection, metric) for metric in recipe.by)
        mean_metadata = load_mean_metadata(connection, dataset.dataset_id, recipe.by)
    unjudged = {metric: format_items(by_status) for metric, by_status in selection.unjudged.items() if by_status}
    tie_sentences = [
        *explain_ties(selection.n, selection.n_tied, selection.n_tied_left),
        *explain_thresholds(selection.cuts),
    ]
    preview = [[str(row["rank"]), row["sample"], row["system"], f"{row['value']:.4f}"] for row in first]
    return dg.MaterializeResult(
        metadata={
            "selection": f"number {selection.selection_id}, {'new' if selection.is_new else 'made before, unchanged'}",
            "dagster/row_count": selection.n,
            "eligible": selection.n_eligible,
            "near-duplicates left out": f"{selection.n_duplicates:,}",
            **{f"samples without {metric}": counts for metric, counts in unjudged.items()},
            "ranked by": label,
            "cutoff": round(selection.cutoff, 4),
            **({"at the cut": "; ".join(tie_sentences)} if tie_sentences else {}),
            **mean_metadata,
            "path": dg.MetadataValue.path(str(path)),
            "first rows": dg.MetadataValue.md(format_markdown_table(["rank", "sample", "system", label], preview)),
        }
    )
