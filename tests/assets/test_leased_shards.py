"""Assets take a lease on what they compute: one process at a time per asset and shard."""

from __future__ import annotations

import pytest
from sqlalchemy.engine import Engine

from assets.datasets.leases import format_dataset_lease_name, lease_partitions
from db.server.leases import LeaseLost, Leases


def test_an_asset_waits_for_another_process_and_says_for_whom(engine: Engine) -> None:
    said: list[str] = []
    with Leases(engine.url) as other:
        other.take("vcs_score of d:0000")

        def tell(line: str) -> None:
            said.append(line)
            other.give_back("vcs_score of d:0000")

        done = [key for (key,), _ in lease_partitions(engine, "vcs_score", ["d:0000", "d:0001"], tell, pytest.fail)]
        holder = other.find_holder("evqa_score of d:0000")
    assert done == ["d:0001", "d:0000"]
    assert holder is None
    assert len(said) == 1
    assert said[0].startswith("waits for shard d:0000, on which process ")


def test_other_assets_of_the_shard_wait_for_nobody(engine: Engine) -> None:
    with Leases(engine.url) as other:
        other.take("text_embedding of d:0000")
        (done,) = [keys for keys, _ in lease_partitions(engine, "vcs_score", ["d:0000"], pytest.fail, pytest.fail)]
        assert done == ["d:0000"]


def test_the_dataset_is_kept_from_being_dropped_meanwhile(engine: Engine) -> None:
    with Leases(engine.url) as other:
        for _ in lease_partitions(engine, "vcs_score", ["d:0000", "d:0001", "e:0000"], pytest.fail, pytest.fail):
            assert not other.take_if_free(format_dataset_lease_name("d"))
            assert not other.take_if_free(format_dataset_lease_name("e"))
        assert other.take_if_free(format_dataset_lease_name("d"))


def test_who_reports_progress_must_still_hold_the_lease(engine: Engine) -> None:
    said: list[str] = []
    with Leases(engine.url) as other:
        for _, tell in lease_partitions(engine, "vcs_score", ["d:0000"], pytest.fail, said.append):
            assert not other.take_if_free("vcs_score of d:0000")
            tell("first")
            with engine.begin() as connection:
                connection.exec_driver_sql(
                    "SELECT pg_terminate_backend(pid, 60000) FROM pg_locks WHERE locktype = 'advisory' "
                    "AND database = (SELECT oid FROM pg_database WHERE datname = 'dagster')"
                )
            assert other.take_if_free("vcs_score of d:0000")
            with pytest.raises(LeaseLost, match="'vcs_score of d:0000'"):
                tell("second")
            other.give_back("vcs_score of d:0000")
            tell("third")
    assert said == ["first", "third"]
