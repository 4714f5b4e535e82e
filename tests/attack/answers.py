"""Random histories of a dataset, without any fault, against an oracle that knows the right answer after every step.

What is stored, pending, stale and shown, and what a selection takes. Faults have a campaign of their own (kills.py):
after one of them no oracle knows what was done. Run it with `python -m tests.attack.answers --steps 500 --seed 1`.
"""

from __future__ import annotations

from collections import Counter
from hashlib import md5
from pathlib import Path

import sqlalchemy as sa
import typer
from sqlalchemy.engine import Engine

from assets.scores.run import score_shard
from assets.selection.select import make_selection
from db.schema import sample, selection_item
from db.selection.recipes import SelectionError, parse_recipe
from tests.assets.verifying import HashEncoder, dataset_of, make_sources
from tests.attack.campaign import Campaign, Seed, empty_database
from tests.attack.world import DATASET, N_SHARDS, Answer, Inputs, World, answer, same, scorer, shown


def main(steps: int = 500, seed: Seed = None) -> None:
    """Take so many steps."""
    campaign = Campaign("answers", seed)
    with empty_database() as (folder, engine):
        attack(engine, folder / "manifest", steps, campaign)
    campaign.finish()


def attack(engine: Engine, folder: Path, steps: int, campaign: Campaign) -> None:
    """Change and ingest the rows, score a shard or select, so many times, and compare after each step."""
    history = _History(engine, folder, campaign)
    history.ingest(n_changes=40)
    for _ in range(steps):
        step = campaign.random.choice([history.ingest, history.score, history.score, history.select])
        campaign.counts[f"steps: {step.__name__}"] += 1
        step()
        history.compare()


class _History:
    """The rows as they are, as they were ingested, and as they were when each caption was scored."""

    def __init__(self, engine: Engine, folder: Path, campaign: Campaign) -> None:
        self._engine, self._folder, self._campaign = engine, folder, campaign
        self._world = World(campaign.random)
        self._ingested: dict[str, str] = {}
        self._scored: dict[str, Inputs] = {}
        self._scorer = scorer()

    def ingest(self, n_changes: int | None = None) -> None:
        """Change some rows and ingest all of them."""
        for _ in range(self._campaign.random.randrange(12) if n_changes is None else n_changes):
            self._world.change()
        accepted = self._world.ingest(self._engine, self._folder)
        now = {**self._world.captions, **self._world.references}
        changed = now.items() - self._ingested.items()
        self._expect(accepted["captions"] == len(changed), f"{accepted['captions']} accepted, {len(changed)} changed")
        self._ingested = now

    def score(self) -> None:
        """Score what is pending in a shard."""
        shard = self._campaign.random.randrange(N_SHARDS)
        dataset = dataset_of(self._engine, DATASET)
        with self._engine.connect() as connection:
            here = set(connection.scalars(sa.select(sample.c.key).where(sample.c.shard == shard)))
        inputs = {key: each for key, each in self._world.inputs().items() if key in here}
        pending = [key for key, each in inputs.items() if self._scored.get(key) != each]
        make_sources(self._engine, self._scorer, dataset, shard)
        found = score_shard(self._engine, self._scorer, dataset, shard, run_id="run")
        self._expect(found.n_pending == len(pending), f"{found.n_pending} pending, not {len(pending)}: {pending}")
        self._scored |= {key: inputs[key] for key in pending}

    def select(self) -> None:
        """Freeze the best captions, leaving stale ones out."""
        count = self._campaign.random.randrange(1, 12)
        recipe = parse_recipe({"by": "vcs", "count": count, "stale": "leave_out"})
        values = {key: value for key, (_, value) in shown(self._engine).items() if value is not None}
        best = sorted(values, key=lambda key: (-values[key], md5(f"0\tcaption\t{key}".encode()).digest()))[:count]
        best.sort(key=lambda key: (-values[key], key.encode()))
        try:
            frozen = make_selection(self._engine, dataset_of(self._engine, DATASET), recipe, HashEncoder, print)
        except SelectionError as error:
            self._expect(len(values) < count, f"of {len(values)} captions {count} cannot be selected: {error}")
            return
        item = selection_item.c
        with self._engine.connect() as connection:
            rows = sa.select(item.sample).where(item.selection_id == frozen.selection_id).order_by(item.rank)
            chosen = list(connection.scalars(rows))
        self._expect(chosen == best, f"{chosen} selected, not {best}")

    def compare(self) -> None:
        """What is shown is what the oracle says."""
        inputs = self._world.inputs()
        expected: dict[str, Answer] = {
            key: answer(then) if then == inputs[key] else ("stale", None) for key, then in self._scored.items()
        }
        found = shown(self._engine)
        self._campaign.counts.update(f"shown: {status}" for status, _ in found.values())
        self._expect(found.keys() == expected.keys(), f"shown: {found.keys() ^ expected.keys()}")
        for key in found.keys() & expected.keys():
            self._expect(same(found[key], expected[key]), f"{key}: {found[key]} is shown, not {expected[key]}")

    def _expect(self, holds: bool, fault: str) -> None:
        done = Counter({name: n for name, n in self._campaign.counts.items() if name.startswith("steps")}).total()
        self._campaign.expect(holds, f"step {done}: {fault}")


if __name__ == "__main__":
    typer.run(main)
