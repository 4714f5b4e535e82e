"""The results of a run, shard by shard, for its later steps and for the command that started it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from assets.datasets.lookup import RunShard
    from assets.scores.run import ShardScores


class CheckFailed(RuntimeError):
    """Raised when blocking checks failed; rows and scores are kept, and the message says what failed."""

    plain = True


class ShardsFailed(RuntimeError):
    """Raised at the end of an asset some of whose shards failed; the errors are in the run's RunResults."""

    plain = True


R = TypeVar("R")


class RunResults:
    """The reports of a run's assets, the counts of scores that it wrote by metric and shard, and the errors of shards
    that failed. They are kept in memory.

    One bad shard keeps no other one from being scored: its error is kept here, later assets leave it out, and the run
    fails at its end.
    """

    def __init__(self) -> None:
        self._reports: dict[str, object] = {}
        self._scores: dict[tuple[str, str], ShardScores] = {}
        self._failed: dict[str, dict[str, RuntimeError]] = {}

    def keep_report(self, asset: str, report: object) -> None:
        """Keep the report of an asset, any object, for the command that started the run; it replaces an earlier one."""
        self._reports[asset] = report

    def find_report(self, asset: str, kind: type[R]) -> R | None:
        """Return the report that an asset kept, if it is an instance of the class `kind`. None where the run did not
        get so far, or the report is of another class.
        """
        report = self._reports.get(asset)
        return report if isinstance(report, kind) else None

    def add_scores(self, metric: str, shard: str, scores: ShardScores) -> None:
        """Keep the counts of what a metric scored on a shard, which is named by its partition key. The counts of an
        earlier call for the same shard are added.
        """
        if before := self._scores.get((metric, shard)):
            n_pending, n_written = before.n_pending + scores.n_pending, before.n_written + scores.n_written
            scores = replace(scores, n_pending=n_pending, n_written=n_written)
        self._scores[metric, shard] = scores

    def find_scores(self, metric: str, shard: str) -> ShardScores | None:
        """Return the counts of what a metric scored on a shard, named by its partition key; None where the run did not
        get so far.
        """
        return self._scores.get((metric, shard))

    def add_errors(self, asset: str, errors: Mapping[str, RuntimeError]) -> None:
        """Keep the errors of shards that failed at an asset, by partition key. The first error of a shard at the asset
        stays.
        """
        self._failed[asset] = {**errors, **self._failed.get(asset, {})}

    def collect_errors(self, assets: Iterable[str] | None = None) -> dict[str, RuntimeError]:
        """Return the error of every shard that failed at one of these assets, by partition key; None means all assets.
        Where a shard failed at several, the error of the first of these assets counts.
        """
        errors: dict[str, RuntimeError] = {}
        for asset in self._failed if assets is None else assets:
            errors = {**self._failed.get(asset, {}), **errors}
        return errors

    def list_unfailed_shards(self, shards: Sequence[RunShard], assets: Collection[str]) -> list[RunShard]:
        """List the shards, in the order given, that failed at none of these assets so far."""
        failed = self.collect_errors(assets)
        return [shard for shard in shards if shard.key not in failed]

    def forget_errors(self, shards: Collection[str]) -> None:
        """Forget the errors of these shards, by partition key, since they are tried again."""
        self._failed = {
            asset: {key: error for key, error in errors.items() if key not in shards}
            for asset, errors in self._failed.items()
        }

    def build_error(self) -> RuntimeError | None:
        """Return the error to end the run with: None where no shard failed, the shard's own error where one failed. For
        several, return a CheckFailed that names all failed shards and quotes the first error.
        """
        failed = self.collect_errors()
        first = next(iter(failed.values()), None)
        if len(failed) < 2:
            return first
        return CheckFailed(f"{len(failed)} shards failed: {', '.join(sorted(failed))}; the first error: {first}")
