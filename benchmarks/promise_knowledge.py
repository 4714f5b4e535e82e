"""Conditions that know the answers: `python -m benchmarks.promise_knowledge`.

Every world has 600 captions, and 150 answers in the order of the draw. A condition is then made from the answers in one
of eight ways, where up to .15 of the captions are errors, or from nothing, where up to .06 are. Then
`reelsieve promise --errors-at-most 0.1` runs, by the functions behind it.
A promise is broken where the frozen set has more errors than it allows.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.ingest.run import ingest_folder
from assets.metrics.registry import METRIC_INPUTS
from assets.promise.select import PromisedSelection, PromiseUnconfirmed, make_promised_selection
from assets.promise.terms import PromiseTerms
from benchmarks.installation import temporary_engine
from benchmarks.measure import RESULTS, save
from db.manifest.answers import Rater, load_question, store_answer
from db.manifest.datasets import Dataset, find_dataset
from db.manifest.draws import build_draw_order
from db.manifest.remarks import Remark, store_remarks
from db.schema import sample
from db.scores.pending import load_samples
from db.scores.store import ScoreRow, activate_scorer, register_scorer, store_scores
from db.selection.draws import Draw, take_draw
from db.selection.recipes import Recipe, SelectionError

N, N_ASKED, SEED = 600, 150, 50
TERMS = PromiseTerms(limit=0.1, error_below=3, aspect="overall", shares=(0.5, 1.0))
ASK = {"seed": 0}


@dataclass
class World:
    """Captions of a dataset in the order of the draw: ids, keys, digests of texts, and whether they are errors."""

    engine: Engine
    folder: Path
    dataset: Dataset
    random: np.random.Generator
    ids: list[int]
    keys: list[str]
    texts: list[bytes]
    is_error: np.ndarray[Any, np.dtype[np.bool_]]
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def bad(self) -> list[int]:
        """The places of the errors that were asked."""
        return np.flatnonzero(self.is_error[:N_ASKED]).tolist()

    def rate(self, places: Iterable[int], aspect: str = "overall") -> None:
        """Rate captions, an error with 1 and others with 5."""
        with self.engine.begin() as connection:
            for place in places:
                rater, value = Rater(self.dataset, "ann", aspect), 1.0 if self.is_error[place] else 5.0
                question = load_question(connection, rater, [self.ids[place]])
                assert question is not None
                assert store_answer(connection, rater, question, value, ASK)

    def tag(self, name: str, places: Iterable[int]) -> None:
        """Tag captions."""
        remarks = [Remark(self.ids[place], "tag", name, "ann") for place in places]
        with self.engine.begin() as connection:
            store_remarks(connection, self.dataset, remarks)

    def ingest(self, name: str, keys: Iterable[str], ratings: Iterable[tuple[str, int]] = ()) -> Dataset:
        """Ingest captions, with ratings of some."""
        return ingest_rows(self.engine, self.folder, name, [self.rows[key] for key in keys], ratings)


def ingest_rows(
    engine: Engine, folder: Path, name: str, rows: Iterable[dict[str, Any]], ratings: Iterable[tuple[str, int]] = ()
) -> Dataset:
    """Ingest rows of captions, with ratings by key, and return the dataset."""
    captions = list(rows)
    tables: dict[str, list[dict[str, Any]]] = {
        "videos": [{"video_id": video} for video in sorted({row["video_id"] for row in captions})],
        "captions": captions,
        "ratings": [{"caption_id": key, "rater": "ann", "aspect": "overall", "value": value} for key, value in ratings],
    }
    for table, lines in tables.items():
        (folder / f"{table}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ingest_folder(engine, folder, name)
    with engine.connect() as connection:
        dataset = find_dataset(connection, name)
    assert dataset is not None
    return dataset


def make_world(engine: Engine, folder: Path, name: str, random: np.random.Generator, errors: float) -> World:
    """A dataset of captions of different lengths, so many of which are errors."""
    rows = {
        f"{name}c{number}": {
            "caption_id": f"{name}c{number}",
            "video_id": f"{name}v{number // 4}",
            "role": "candidate",
            "system": f"s{number % 4}",
            "text": f"A dog of {name} runs past {number} trees" + " and barks" * int(random.integers(0, 20)),
        }
        for number in range(N)
    }
    dataset = ingest_rows(engine, folder, name, rows.values())
    query = sa.select(sample.c.sample_id, sample.c.key, sample.c.text_sha256)
    with engine.connect() as connection:
        of_dataset = query.where(sample.c.dataset_id == dataset.dataset_id)
        ids, keys, texts = zip(*connection.execute(of_dataset.order_by(*build_draw_order(0))), strict=True)
    is_error = random.permutation(N) < round(errors * N)
    return World(engine, folder, dataset, random, [*ids], [*keys], [bytes(text) for text in texts], is_error, rows)


Way = Callable[[World], tuple[Dataset, str | None]]


def choose_plainly(world: World) -> tuple[Dataset, str | None]:
    """No condition."""
    world.rate(range(N_ASKED))
    return world.dataset, None


def tag_by_chance(world: World) -> tuple[Dataset, str | None]:
    """A tag that knows nothing."""
    world.rate(range(N_ASKED))
    world.tag("blurred", np.flatnonzero(world.random.random(N) < 0.2).tolist())
    return world.dataset, "not tag_blurred"


def tag_the_bad(world: World) -> tuple[Dataset, str | None]:
    """A tag on the errors."""
    world.rate(range(N_ASKED))
    world.tag("bad", world.bad)
    return world.dataset, "not tag_bad" if world.bad else None


def tag_as_many(world: World) -> tuple[Dataset, str | None]:
    """A tag on the good ones that were asked, and on as large a share of the others."""
    world.rate(range(N_ASKED))
    share = 1 - len(world.bad) / N_ASKED
    others = N_ASKED + np.flatnonzero(world.random.random(N - N_ASKED) < share)
    world.tag("keep", [*np.flatnonzero(~world.is_error[:N_ASKED]).tolist(), *others.tolist()])
    return world.dataset, "tag_keep"


def rate_another_aspect(world: World) -> tuple[Dataset, str | None]:
    """A second aspect, rated as the first."""
    world.rate(range(N_ASKED))
    world.rate(range(N_ASKED), "second")
    return world.dataset, "rating_second is null or rating_second >= 3"


def write_a_field(world: World) -> tuple[Dataset, str | None]:
    """An own field of the manifest, written from the answers."""
    world.rate(range(N_ASKED))
    for place in range(N_ASKED):
        world.rows[world.keys[place]]["verdict"] = "bad" if world.is_error[place] else "good"
    world.ingest(world.dataset.name, world.keys)
    return world.dataset, "extra_verdict is null or extra_verdict != 'bad'"


def name_the_keys(world: World) -> tuple[Dataset, str | None]:
    """A condition that lists the keys of the errors."""
    world.rate(range(N_ASKED))
    keys = ", ".join(f"'{world.keys[place]}'" for place in world.bad)
    return world.dataset, f"sample not in ({keys})" if keys else None


def ingest_the_rest(world: World) -> tuple[Dataset, str | None]:
    """Another dataset without the errors."""
    world.rate(range(N_ASKED))
    bad = set(world.bad)
    keys = [key for place, key in enumerate(world.keys) if place not in bad]
    ratings = [(key, 5) for key in keys[: N_ASKED - len(bad)]]
    return world.ingest(f"{world.dataset.name}_rest", keys, ratings), None


def raise_the_ratings(world: World) -> tuple[Dataset, str | None]:
    """Ratings of the manifest that are raised."""
    given = [(key, 1 if world.is_error[place] else 5) for place, key in enumerate(world.keys[:N_ASKED])]
    world.ingest(world.dataset.name, world.keys, given)
    return world.ingest(world.dataset.name, world.keys, [(key, 5) for key, _ in given]), None


def ask_a_judge(world: World) -> tuple[Dataset, str | None]:
    """A judge that knows the errors, asked by the same draw."""
    world.rate(range(N_ASKED))
    with world.engine.begin() as connection:
        scorer_id = register_scorer(connection, metric="judge", models={}, params={}, code_version="1")
        take_draw(connection, world.dataset, "judge", scorer_id, Draw(N_ASKED))
        samples = load_samples(connection, world.ids[:N_ASKED], METRIC_INPUTS["judge"], scorer_id)
    of_error = dict(zip(world.ids, world.is_error.tolist(), strict=True))
    rows = [
        ScoreRow(
            one.sample_id, one.input_sha256, one.input_marks, 0.1 if of_error[one.sample_id] else 0.9, {}, "ok", None
        )
        for one in samples
    ]
    store_scores(world.engine, scorer_id, "run", rows)
    with world.engine.begin() as connection:
        activate_scorer(connection, scorer_id, [world.dataset.dataset_id])
    return world.dataset, "judge is null or judge >= 0.5"


HONEST: dict[str, Way] = {"no condition": choose_plainly, "a tag by chance": tag_by_chance}
KNOWING: dict[str, Way] = {
    "tag": tag_the_bad,
    "tag on as many others": tag_as_many,
    "second aspect": rate_another_aspect,
    "own field": write_a_field,
    "keys": name_the_keys,
    "another dataset": ingest_the_rest,
    "raised ratings": raise_the_ratings,
    "judge by the same draw": ask_a_judge,
}


def select(world: World, dataset: Dataset, where: str | None, terms: PromiseTerms = TERMS) -> PromisedSelection:
    """Select with the promise, in an order that knows nothing."""

    def make_no_encoder() -> Any:
        raise AssertionError("this recipe compares no texts")

    recipe = Recipe(by={"n_characters": 1.0}, where=where)
    return make_promised_selection(world.engine, dataset, recipe, terms, make_no_encoder, lambda _line: None)


def is_broken(world: World, made: PromisedSelection) -> bool:
    """Whether the frozen set holds more errors than promised."""
    query = "SELECT sample FROM selection_item WHERE selection_id = :id"
    with world.engine.connect() as connection:
        frozen = set(connection.scalars(sa.text(query), {"id": made.selection.selection_id}))
    wrong = {key for key, is_error in zip(world.keys, world.is_error, strict=True) if is_error}
    return len(frozen & wrong) > TERMS.limit * len(frozen)


def main() -> None:
    """Run worlds, print and write the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=300)
    given = parser.parse_args()
    before, ways = os.getloadavg(), HONEST | KNOWING
    counts: dict[str, Counter[str]] = {name: Counter() for name in ways}
    with tempfile.TemporaryDirectory(prefix="reelsieve-") as home, temporary_engine(Path(home)) as engine:
        folder = Path(home) / "manifest"
        folder.mkdir()
        for number in range(given.worlds):
            random = np.random.default_rng([SEED, number])
            name, way = [*ways.items()][number % len(ways)]
            errors = random.uniform(0.0, 0.15 if name in KNOWING else 0.06)
            world = make_world(engine, folder, f"w{number}", random, errors)
            try:
                made = select(world, *way(world))
                outcome = "broken" if is_broken(world, made) else "kept"
            except PromiseUnconfirmed:
                outcome = "not confirmed"
            except SelectionError:
                outcome = "refused"
            counts[name][outcome] += 1
            counts[name]["worlds"] += 1
    for name, count in counts.items():
        print(f"{name:<25}", ", ".join(f"{n} {outcome}" for outcome, n in sorted(count.items())))
    found = {"seed": SEED, "worlds": given.worlds, "counts": {name: dict(count) for name, count in counts.items()}}
    print(save(RESULTS / "promise_knowledge.json", found, load_before=before).name)


if __name__ == "__main__":
    main()
