"""What a recipe takes of a dataset now: the best share is cut by the database, all else is picked from arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.scores.imported import imported_scorers
from db.scores.present import (
    SIMPLE_SCORES,
    ActiveScorer,
    active_scorers,
    known_scores,
    prepare_for_joins,
    present_scores,
)
from db.scores.stored import status_counts
from db.selection.candidates import KINDS, Candidates, Eligible, columns_named, eligible, own_columns, read_candidates
from db.selection.filters import names_in
from db.selection.freezing import Size, choose_best, choose_these, cut_all, cut_some
from db.selection.recipes import Recipe, SelectionError
from db.selection.ties import SizeCut, check_ties, count_ties


class NothingToSelect(SelectionError):
    """No sample has a score that a selection could rank it by."""


class Picked(NamedTuple):
    """What a recipe takes of its candidates: positions in order of rank with the values that ranked them.

    cuts: where the size ends in each stratum that it takes samples of; None where no value decides. n_duplicates: how
    many candidates were left out as near-duplicates. encoder: the identity of the model by whose vectors they were
    picked, None where none was asked.
    """

    positions: Sequence[int]
    values: Sequence[float]
    cuts: Sequence[SizeCut] | None
    n_duplicates: int
    encoder: Mapping[str, Any] | None = None


Pick = Callable[[Connection, Candidates], Picked]


class Chosen(NamedTuple):
    """What a recipe takes now; its rows stand in the temporary table `chosen` until the transaction ends."""

    found: Eligible
    size: Size
    n_duplicates: int
    score_hash: str
    unjudged: dict[str, dict[str, int]]
    spec: dict[str, Any]
    models: dict[str, str | None]


class _Taken(NamedTuple):
    size: Size
    score_hash: str
    n_duplicates: int = 0
    encoder: Mapping[str, Any] | None = None


class _Ground(NamedTuple):
    """What a recipe chooses from, in the snapshot of one transaction.

    metrics: those whose scores its rows keep, with the simple scores that the recipe names. deciding: those among them
    that the recipe names and that have a scorer.
    """

    found: Eligible
    metrics: list[str]
    scorers: dict[str, ActiveScorer]
    deciding: list[str]
    unjudged: dict[str, dict[str, int]]


def choose_by_recipe(
    connection: Connection, dataset: Dataset, recipe: Recipe, pick: Pick | None, *, lock: bool
) -> Chosen:
    """Put what a recipe takes into the temporary table `chosen`. Must begin a transaction.

    A plain recipe takes floor(keep * eligible) rows, at least 1, of those with a value; ties are broken by kind and
    sample id. pick: what another recipe takes of its candidates. lock: whether no other process may freeze meanwhile.
    Raises SelectionError, or FilterError for a `where` that is not allowed.
    """
    ground = _ground(connection, dataset, recipe, lock=lock)
    taken = _best(connection, recipe, ground) if recipe.is_plain else _picked(connection, recipe, ground, pick)
    if taken is None:
        raise NothingToSelect(_nothing(connection, dataset, recipe, ground.unjudged))
    scorers, spec = ground.scorers, _spec(recipe, ground, taken.encoder)
    models = {metric: scorers[metric].models if metric in scorers else None for metric in ground.metrics}
    return Chosen(ground.found, taken.size, taken.n_duplicates, taken.score_hash, ground.unjudged, spec, models)


def candidates_now(connection: Connection, dataset: Dataset, recipe: Recipe) -> Candidates:
    """What a recipe would choose among now, one sample at least. Must begin a transaction.

    Raises as `choose_by_recipe` does.
    """
    ground = _ground(connection, dataset, recipe, lock=False)
    candidates = read_candidates(connection, recipe, ground.found)
    if not len(candidates.sample_ids):
        raise NothingToSelect(_nothing(connection, dataset, recipe, ground.unjudged))
    return candidates


def _ground(connection: Connection, dataset: Dataset, recipe: Recipe, *, lock: bool) -> _Ground:
    # One snapshot for all statements, while others still score. The lock comes before it: two processes may freeze at
    # once, and the second one waits here, then finds the selection of the first.
    connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    if lock:
        connection.exec_driver_sql("LOCK TABLE selection IN SHARE ROW EXCLUSIVE MODE")
    known, named = known_scores(connection, dataset), columns_named(recipe)
    prepare_for_joins(connection)
    scorers = active_scorers(connection, dataset)
    scores = present_scores(dataset, known, scorers, next((name for name in recipe.by if name in scorers), None))
    columns = {**scores.shown, **own_columns(connection, dataset, named, scores)}
    found = eligible(connection, dataset, recipe, scores, columns)
    deciding = _deciding(recipe, scorers)
    unjudged = _unjudged(connection, dataset, recipe, {name: scorers[name] for name in deciding})
    metrics = [name for name in known if name not in SIMPLE_SCORES or name in named]
    return _Ground(found, metrics, scorers, deciding, unjudged)


def _spec(recipe: Recipe, ground: _Ground, encoder: Mapping[str, Any] | None) -> dict[str, Any]:
    """The recipe as plain data, with all that decides what it takes: scorers, stored cuts, and the encoder of texts."""
    fingerprints = {name: ground.scorers[name].fingerprint for name in ground.deciding}
    spec = recipe.spec()
    if recipe.is_plain and list(fingerprints) == list(recipe.by):
        # As in the selections of earlier versions, so that the same rule finds them again.
        spec |= {"where": recipe.where, "scorer": next(iter(fingerprints.values()))}
    else:
        spec |= {"scorers": fingerprints}
    spec["kind"] = ground.found.kind
    if ground.found.cuts:
        spec["cuts"] = {name: dict(cut) for name, cut in ground.found.cuts.items()}
    if encoder is not None:
        spec["encoder"] = dict(encoder)
    return spec


def _best(connection: Connection, recipe: Recipe, ground: _Ground) -> _Taken | None:
    """Choose the best share by one column, which the database cuts by itself."""
    (by,), share, found = recipe.by, recipe.keep, ground.found
    assert share is not None
    value, condition = found.columns[by], sa.and_(*found.filters) if found.filters else None
    if by in ground.scorers and condition is None:
        n_eligible = ground.scorers[by].n_defined
        cut = cut_all(connection, found.scores, by, share, n_eligible)
    else:
        n_eligible, cut = cut_some(connection, found.scores, value, share, condition) or (0, None)
    if cut is None:
        return None
    check_ties(recipe, [cut])
    size = Size(n_eligible, cut.n_asked, cut.value, cut.n_tied, cut.n_left)
    return _Taken(size, choose_best(connection, found.scores, value, size, condition, ground.metrics))


def _picked(connection: Connection, recipe: Recipe, ground: _Ground, pick: Pick | None) -> _Taken | None:
    """Choose what `pick` takes of the candidates."""
    assert pick is not None, "only a plain recipe needs none"
    candidates = read_candidates(connection, recipe, ground.found)
    if not len(candidates.sample_ids):
        return None
    picked = pick(connection, candidates)
    check_ties(recipe, picked.cuts or ())
    if not picked.positions:
        of_ties = ", or let ties include all" if recipe.ties == "exclude" else ""
        raise NothingToSelect(f"the recipe takes no sample: raise its count, share or quotas{of_ties}")
    sample_ids = [int(candidates.sample_ids[position]) for position in picked.positions]
    score_hash = choose_these(connection, ground.found.scores, sample_ids, picked.values, ground.metrics)
    tied = (None, None) if picked.cuts is None else count_ties(picked.cuts, recipe.ties)
    size = Size(len(candidates.sample_ids), len(sample_ids), min(picked.values), *tied)
    return _Taken(size, score_hash, picked.n_duplicates, picked.encoder)


def _deciding(recipe: Recipe, scorers: Mapping[str, ActiveScorer]) -> list[str]:
    """The metrics that a recipe names and that have a scorer: those that it ranks by come first."""
    in_filter = names_in(recipe.where or "")
    others = [name for name in scorers if name in (*recipe.at_least, recipe.per) or name.lower() in in_filter]
    return [name for name in dict.fromkeys([*recipe.by, *others]) if name in scorers]


def _nothing(
    connection: Connection, dataset: Dataset, recipe: Recipe, unjudged: Mapping[str, Mapping[str, int]]
) -> str:
    """Say that there is no sample to choose from, and what to do about it."""
    nobody = f"no sample of dataset {dataset.name!r} has a {' and '.join(recipe.by)} score"
    said = [f"kind {recipe.kind}"] if recipe.kind in KINDS else []
    said += [repr(recipe.where)] if recipe.where else []
    said += [f"{name} >= {least}" for name, least in recipe.at_least.items()]
    if said:
        return f"{nobody} and passes {', '.join(said)}: loosen it"
    counts = {name: counts for name, counts in unjudged.items() if counts.keys() - {"unscored"}}
    if not counts:
        return f"{nobody}: {_how_to_score(connection, dataset, recipe.by)} first"
    reasons = "; ".join(f"{name}: {n} {status}" for name, of in counts.items() for status, n in of.items())
    return f"{nobody} ({reasons}): column error of view current_score says why, and what to do"


def _unjudged(
    connection: Connection, dataset: Dataset, recipe: Recipe, scorers: Mapping[str, ActiveScorer]
) -> dict[str, dict[str, int]]:
    """The samples without a value of each metric, by status.

    Raises SelectionError where a score is stale, unless the recipe leaves such samples out.
    """
    found: dict[str, dict[str, int]] = {}
    for name, scorer in scorers.items():
        counts = status_counts(connection, scorer.scorer_id, dataset.dataset_id)
        if missing := {status: n for status, n in counts.items() if status != "ok" and n}:
            found[name] = missing
    stale = {name: counts["stale"] for name, counts in found.items() if "stale" in counts}
    if stale and recipe.stale == "refuse":
        counted = ", ".join(f"{name}: {n}" for name, n in stale.items())
        raise SelectionError(
            f"dataset {dataset.name!r} has scores of other inputs than now ({counted}): "
            f"{_how_to_score(connection, dataset, stale)} first, or leave their samples out with --stale leave_out"
        )
    return found


def _how_to_score(connection: Connection, dataset: Dataset, names: Iterable[str]) -> str:
    """What gives these metrics scores of the inputs as they are: a command, and a function for imported ones."""
    imported = imported_scorers(connection).keys() & set(names)
    ways = [f"run reelsieve score --dataset {dataset.name}"] if set(names) - imported else []
    ways += [f"import {', '.join(sorted(imported))} again by rs.import_scores"] if imported else []
    return " and ".join(ways)
