"""What Dagster stores of a failed step: a sentence for a user's mistake, a traceback for a fault of the program."""

import errno
from collections.abc import Callable, Iterator
from typing import Any

import dagster as dg
import pytest

from assets.datasets.lookup import UnknownDataset
from assets.definitions.step_errors import explain_failure

Fail = Callable[[], None]


def refuse() -> None:
    raise UnknownDataset("there is no dataset 'd': reelsieve dataset scores lists them")


def meet_a_full_disk() -> None:
    raise OSError(errno.ENOSPC, "No space left on device", "selection.parquet")


def fault() -> None:
    raise KeyError("frames")


def run_asset(fail: Fail) -> dg.ExecuteInProcessResult:
    @dg.asset
    @explain_failure
    def part(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
        """A part."""
        fail()
        return dg.MaterializeResult(metadata={"run": context.run_id})

    assert part.specs_by_key[dg.AssetKey("part")].description == "A part."
    return dg.materialize([part], raise_on_error=False)


def run_multi_asset(fail: Fail) -> dg.ExecuteInProcessResult:
    @dg.multi_asset(specs=[dg.AssetSpec("one"), dg.AssetSpec("two")])
    @explain_failure
    def parts() -> Iterator[dg.MaterializeResult]:
        yield dg.MaterializeResult(asset_key="one")
        fail()
        yield dg.MaterializeResult(asset_key="two")

    done = dg.materialize([parts], raise_on_error=False)
    assert len(done.asset_materializations_for_node("parts")) == (1 if not done.success else 2)
    return done


def run_checks(fail: Fail) -> dg.ExecuteInProcessResult:
    @dg.asset
    def part() -> None:
        pass

    @dg.multi_asset_check(specs=[dg.AssetCheckSpec("fine", asset="part")])
    @explain_failure
    def checks() -> Iterator[dg.AssetCheckResult]:
        fail()
        yield dg.AssetCheckResult(passed=True, asset_key="part", check_name="fine")

    job = dg.Definitions([part], asset_checks=[checks]).resolve_implicit_global_asset_job_def()
    return job.execute_in_process(raise_on_error=False)


def run_op(fail: Fail) -> dg.ExecuteInProcessResult:
    @dg.op
    @explain_failure
    def work() -> None:
        fail()

    @dg.job
    def job() -> None:
        work()

    return job.execute_in_process(raise_on_error=False)


KINDS = pytest.mark.parametrize("run", [run_asset, run_multi_asset, run_checks, run_op])


def find_failure(done: dg.ExecuteInProcessResult) -> Any:
    (failure,) = [event.step_failure_data for event in done.all_events if event.is_step_failure]
    return failure


@KINDS
@pytest.mark.parametrize(
    ("fail", "sentence"),
    [
        (refuse, "there is no dataset 'd': reelsieve dataset scores lists them"),
        (
            meet_a_full_disk,
            "selection.parquet: No space left on device; fix that and run the same command again",
        ),
    ],
)
def test_a_mistake_of_a_user_is_one_sentence(
    run: Callable[[Fail], dg.ExecuteInProcessResult], fail: Fail, sentence: str
) -> None:
    failure = find_failure(run(fail))
    assert failure.error.message.strip().endswith(f": {sentence}")
    cause = failure.error.cause
    assert cause.message == f"assets.definitions.step_errors.StepRefused: {sentence}\n"
    assert (cause.stack, cause.cause, cause.context) == ([], None, None)
    # With this source Dagster's page leaves out the outer traceback, as this text does.
    assert failure.error_source.value == "USER_CODE_ERROR"
    shown = failure.error_display_string
    assert sentence in shown
    assert 'File "' not in shown


@KINDS
def test_a_fault_of_the_program_keeps_its_traceback(run: Callable[[Fail], dg.ExecuteInProcessResult]) -> None:
    shown = find_failure(run(fault)).error_display_string
    assert "KeyError: 'frames'" in shown
    assert 'in fault\n    raise KeyError("frames")' in shown


@KINDS
def test_a_step_that_does_not_fail_succeeds(run: Callable[[Fail], dg.ExecuteInProcessResult]) -> None:
    assert run(lambda: None).success


def test_hooks_and_callers_get_the_error_itself() -> None:
    caught: list[BaseException | None] = []

    @dg.failure_hook
    def keep(context: dg.HookContext) -> None:
        caught.append(context.op_exception)

    @dg.op
    @explain_failure
    def work() -> None:
        refuse()

    @dg.job(hooks={keep})
    def job() -> None:
        work()

    job.execute_in_process(raise_on_error=False)
    assert [type(error) for error in caught] == [UnknownDataset]
    with pytest.raises(UnknownDataset, match="no dataset 'd'"):
        job.execute_in_process()
