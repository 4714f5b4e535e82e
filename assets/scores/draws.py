"""Draws of the samples for which an expensive metric is computed: taken, kept up to date, and what they would cost."""

from __future__ import annotations

from sqlalchemy.engine import Engine

from assets.scores.base import Scorer, find_missing_setting
from assets.scores.pending import store_scorer
from assets.sources.base import Forecast, Order, walk_sources
from db.manifest.datasets import Dataset
from db.schema.inputs import DRAW_NAME
from db.selection.draws import (
    Draw,
    count_unscored_samples,
    extend_draws,
    list_coming_samples,
    list_drawn_samples,
    list_wanted_samples,
    store_undrawn_scores,
    take_draw,
)
from db.server.conflicts import retry_conflicts


class CannotBeDrawn(ValueError):
    """Raised when a part of a dataset is drawn for a metric that scores all samples or lacks its model, and when
    further answers are wanted of a metric that has one answer only.
    """

    plain = True


def is_drawable(scorer: Scorer) -> bool:
    """Whether the scorer's metric can be computed for a drawn part of a dataset, as draws are among its inputs."""
    return any(needed.name == DRAW_NAME for needed in scorer.inputs)


def check_drawable(scorer: Scorer, draw: Draw) -> None:
    """Raise CannotBeDrawn for a scorer whose metric scores all samples, that lacks its model, or that has only one
    answer per sample where the draw wants more.
    """
    if not is_drawable(scorer):
        raise CannotBeDrawn(
            f"{scorer.metric} scores every sample, so a draw has no effect on it: name a metric that can be "
            "computed for a part, such as --metric judge"
        )
    if setting := find_missing_setting(scorer):
        raise CannotBeDrawn(f"{scorer.metric} has no model to score a draw with: set {setting}")
    if draw.n_answers > 1 and not any(source.can_repeat for source in walk_sources(scorer.sources)):
        raise CannotBeDrawn(f"{scorer.metric} gives one answer per sample: leave out --repeat")


@retry_conflicts
def store_draw(engine: Engine, dataset: Dataset, scorer: Scorer, draw: Draw) -> int:
    """Store a draw for the scorer's metric and the samples that it reaches; return how many of them no draw had reached
    before. Their scores are pending now. A smaller draw than before changes nothing. Raises CannotBeDrawn, and
    FilterError and SelectionError for a condition that cannot be used.
    """
    check_drawable(scorer, draw)
    scorer_id = store_scorer(engine, scorer)
    with engine.begin() as connection:
        return take_draw(connection, dataset, scorer.metric, scorer_id, draw)


@retry_conflicts
def extend_stored_draws(engine: Engine, dataset: Dataset, scorer: Scorer) -> int:
    """Let samples that came after the draws for the scorer's metric take their places in them; return how many did. A
    dataset without draws, or without newer samples, stays as it is. Raises FilterError and SelectionError for a stored
    condition that can no longer be used.
    """
    if not is_drawable(scorer):
        return 0
    scorer_id = store_scorer(engine, scorer)
    with engine.begin() as connection:
        return extend_draws(connection, dataset, scorer.metric, scorer_id)


def settle_undrawn_samples(engine: Engine, dataset: Dataset, scorer: Scorer, shard: int, run_id: str) -> int:
    """Store the status of the samples of a shard that no draw has reached and that the scorer has still to score, all
    at once; return their number, 0 for a scorer that scores all samples. The other ones are left to score.
    """
    if not is_drawable(scorer):
        return 0
    scorer_id = store_scorer(engine, scorer)
    return store_undrawn_scores(engine, scorer_id, dataset, shard, run_id, metric=scorer.metric, inputs=scorer.inputs)


def forecast_draw(engine: Engine, dataset: Dataset, scorer: Scorer, draw: Draw) -> tuple[int, list[Forecast]]:
    """Return what scoring asks after this draw: (number of samples without a score that this draw or an earlier one
    reaches, newer samples included, forecasts of the requests for them). Asks no model, and stores nothing but the
    scorer. Raises as `store_draw` does.
    """
    check_drawable(scorer, draw)
    scorer_id = store_scorer(engine, scorer)
    with engine.connect() as connection:
        wanted = list_wanted_samples(connection, dataset, draw)
        drawn = list_drawn_samples(connection, dataset, scorer.metric)
        coming = list_coming_samples(connection, dataset, scorer.metric)
        others = sorted(coming.union(drawn).difference(wanted))
        n_pending = count_unscored_samples(connection, scorer_id, [*wanted, *others])
    parts = []
    for sample_ids, n_answers in ((wanted, draw.n_answers), (others, 1)):
        order = Order(engine, dataset, 0, scorer_id, run_id="", n_answers=n_answers)
        parts += [part for source in walk_sources(scorer.sources) for part in source.forecast(order, sample_ids)]
    return n_pending, parts
