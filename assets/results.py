"""What a run has come to, shard by shard: for its later steps, and for the command that started it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from assets.datasets import RunShard
    from assets.scores.run import ShardScores


class CheckFailed(RuntimeError):
    """Blocking checks failed; the scores are kept, and the message says where to look."""

    plain = True


class ShardsFailed(RuntimeError):
    """A step did not get through all shards of its run; the message says why, and the others are done."""

    plain = True


R = TypeVar("R")


class RunResults:
    """What the assets of a run report, the scores of a run by shard, and the shards that failed.

    One bad shard keeps no other one from being scored: it is noted here, what rests on the asset where it failed leaves
    it out, and the run fails at its end.
    """

    def __init__(self) -> None:
        self._reports: dict[str, object] = {}
        self._scores: dict[tuple[str, str], ShardScores] = {}
        self._failed: dict[str, dict[str, RuntimeError]] = {}

    def keep_report(self, asset: str, report: object) -> None:
        """Keep the report of an asset for the command that started the run."""
        self._reports[asset] = report

    def find_report(self, asset: str, kind: type[R]) -> R | None:
        """The report of an asset, which is of this kind; None where the run did not get so far."""
        report = self._reports.get(asset)
        return report if isinstance(report, kind) else None

    def add_scores(self, metric: str, shard: str, scores: ShardScores) -> None:
        """Note what was scored on a shard; counts of an earlier run are added."""
        if before := self._scores.get((metric, shard)):
            n_pending, n_written = before.n_pending + scores.n_pending, before.n_written + scores.n_written
            scores = replace(scores, n_pending=n_pending, n_written=n_written)
        self._scores[metric, shard] = scores

    def find_scores(self, metric: str, shard: str) -> ShardScores | None:
        """What was scored on a shard; None where the run did not get so far."""
        return self._scores.get((metric, shard))

    def add_errors(self, asset: str, errors: Mapping[str, RuntimeError]) -> None:
        """Note shards that failed at an asset, each with the reason. The first reason of a shard counts."""
        self._failed[asset] = {**errors, **self._failed.get(asset, {})}

    def collect_errors(self, assets: Iterable[str] | None = None) -> dict[str, RuntimeError]:
        """The shards that failed at one of these assets, or with None at any, each with the first reason."""
        found: dict[str, RuntimeError] = {}
        for asset in self._failed if assets is None else assets:
            found = {**self._failed.get(asset, {}), **found}
        return found

    def list_unfailed_shards(self, shards: Sequence[RunShard], assets: Collection[str]) -> list[RunShard]:
        """The shards that failed at none of these assets."""
        failed = self.collect_errors(assets)
        return [shard for shard in shards if shard.key not in failed]

    def forget_errors(self, shards: Collection[str]) -> None:
        """Forget why shards failed, since they are tried again."""
        self._failed = {
            asset: {key: error for key, error in errors.items() if key not in shards}
            for asset, errors in self._failed.items()
        }

    def build_error(self) -> RuntimeError | None:
        """One error for all shards that failed; None where none did."""
        failed = self.collect_errors()
        first = next(iter(failed.values()), None)
        if len(failed) < 2:
            return first
        return CheckFailed(f"{first}; it is one of {len(failed)} shards that failed: {', '.join(sorted(failed))}")


def build_check_errors(asset: str, failed: Mapping[str, Collection[str]]) -> dict[str, RuntimeError]:
    """An error for each shard in which blocking checks of an asset failed.

    failed: by check, the shards in which it failed.

    >>> print(build_check_errors("vcs_score", {"coverage": ["d:0001"], "in_range": []})["d:0001"])
    a blocking check failed, the scores are kept: coverage of vcs_score in d:0001; look at it with reelsieve ui
    """
    names: dict[str, list[str]] = {}
    for name, keys in failed.items():
        for key in keys:
            names.setdefault(key, []).append(name)
    lead, remedy = "a blocking check failed, the scores are kept", "look at it with reelsieve ui"
    return {key: CheckFailed(f"{lead}: {', '.join(of)} of {asset} in {key}; {remedy}") for key, of in names.items()}
