"""The plan of a dataset or a manifest, by the settings of this installation."""

from __future__ import annotations

from collections.abc import Collection

from assets.datasets import dataset_of_key
from assets.holdings import Holdings, of_dataset
from assets.plan import Plan, make_plan
from assets.scores.registry import METRICS
from orchestration.platform import installed


def plan_of(holdings: Holdings, metrics: Collection[str] = METRICS) -> Plan:
    """The plan of what is there, for these metrics. Opens no database and loads no model."""
    return make_plan(holdings, {metric: installed().curation.scorers[metric] for metric in metrics})


def plan_of_dataset(dataset: str, metrics: Collection[str] = METRICS) -> Plan:
    """The plan of what is stored. Raises UnknownDataset."""
    found = dataset_of_key(installed().engine, dataset)
    with installed().engine.connect() as connection:
        return plan_of(of_dataset(connection, found), metrics)
