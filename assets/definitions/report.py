"""Dagster asset `dataset_report`: the HTML page of a dataset, written from what the database holds."""

from collections.abc import Sequence

import dagster as dg

from assets.datasets.lookup import require_dataset
from assets.definitions.curation import Curation
from assets.definitions.lineage import depend_on_all_partitions
from assets.definitions.partitions import DATASETS
from assets.definitions.score_metadata import load_mean_metadata
from assets.definitions.step_errors import explain_failure
from assets.metrics.registry import SCORERS, build_score_asset_name
from assets.progress import throttle_lines
from assets.promise.watch import watch_promise
from assets.reports.report import choose_report_folder, write_stored_report
from assets.words.tables import escape_markdown
from db.scores.sample_scores import list_dataset_metrics

PROMISE_CHECK = "promise_holds"


@dg.asset(
    group_name="reports",
    partitions_def=DATASETS,
    deps=[
        "agreement",
        "rating_threshold",
        "selection_trial",
        "rating",
        "keypoint_label",
        *[depend_on_all_partitions(build_score_asset_name(name)) for name in SCORERS],
    ],
    kinds={"html"},
    check_specs=[
        dg.AssetCheckSpec(
            PROMISE_CHECK,
            asset="dataset_report",
            partitions_def=DATASETS,
            description="Captions that came after the newest selection with a promise, and that its rule would take, "
            "are confirmed to keep it. The check warns where the upper bound of their errors is above the limit.",
        )
    ],
)
@explain_failure
def dataset_report(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
    """Page of a dataset: what is in it, which systems are best, which metrics agree with people, and samples to look
    at. Written with its numbers to folder `reports/DATASET` of the home, in place of the earlier ones.
    """
    dataset = require_dataset(curation.engine, context.partition_key)
    folder = choose_report_folder(curation.home, dataset.name)
    judged = curation.judgements.load(context.run.run_id, curation.engine, dataset)
    files = write_stored_report(
        curation.engine, dataset, curation.scorers, judged, folder, throttle_lines(context.log.info)
    )
    with curation.engine.connect() as connection:
        mean_metadata = load_mean_metadata(connection, dataset.dataset_id, list_dataset_metrics(connection, dataset))
    watched = watch_promise(curation.engine, dataset)
    check = dg.AssetCheckResult(
        check_name=PROMISE_CHECK,
        passed=watched is None or watched.is_kept,
        severity=dg.AssetCheckSeverity.WARN,
        description="No selection has a promise." if watched is None else watched.explain(),
    )
    return dg.MaterializeResult(
        check_results=[check],
        metadata={
            **({"read this first": _format_list(files.notices)} if files.notices else {}),
            **mean_metadata,
            "answers": _format_list([f"{name}: {line}" for name, line in files.answers.format_lines()]),
            "path": dg.MetadataValue.path(str(files.page)),
            "numbers": dg.MetadataValue.path(str(files.numbers)),
            # A link of `reelsieve ui`, which serves these pages next to Dagster's.
            "samples": dg.MetadataValue.md(f"[look at them](/look/{dataset.name}), or `reelsieve look {dataset.name}`"),
        },
    )


def _format_list(lines: Sequence[str]) -> dg.MetadataValue:
    """Return lines as a markdown list, with their markup escaped."""
    return dg.MetadataValue.md("\n".join(f"- {escape_markdown(line)}" for line in lines))
