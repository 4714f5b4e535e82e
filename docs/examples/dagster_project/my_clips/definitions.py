"""What Dagster loads: what stands in the folder `defs`, an asset of this project, and all that Reelsieve defines."""

from pathlib import Path

import dagster as dg

from reelsieve.dagster import definitions


@dg.asset(deps=[dg.AssetKey(["clips", "training_subset"])], group_name="training")
def trained_model(context: dg.AssetExecutionContext) -> None:
    """Stands for what is made of the captions."""
    context.log.info("here a model would be trained")


@dg.definitions
def defs() -> dg.Definitions:
    """Reelsieve's definitions beside those of this project, which are merged with them as they are."""
    folder = dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
    # In one process the models stay loaded from step to step.
    return definitions(folder, dg.Definitions(assets=[trained_model], executor=dg.in_process_executor))
