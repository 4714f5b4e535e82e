"""Random recipes over random samples take what a plain walk over lists takes, and are made again from what is shown."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy.engine import Engine

from assets.selection.recipe_file import read_recipe
from assets.selection.select import make_selection
from db import schema
from db.manifest.datasets import Dataset
from db.schema.views import create_views
from db.selection.freeze import Selection
from db.selection.recipes import Recipe, SelectionError, parse_recipe
from db.selection.stored_selections import load_selection_rows, require_selection
from orchestration.cli.selections import format_recipe_file
from tests.assets.verifying import HashEncoder
from tests.db.builders import TWO_METRICS, add_sample, add_video, change, make_dataset, set_scores

# The beginnings of the score hashes, by seed, as they were when the database itself cut the best share, or a tie at the
# cut was drawn; null where a recipe is refused.
HASHES = json.loads((Path(__file__).parents[1] / "golden" / "selections.json").read_text())
TEXTS = (
    "a dog runs",
    "a dog runs fast",
    "the cat sleeps",
    "the cat sleeps now",
    "red circle",
    "one two",
    "one two six",
)


@dataclass
class Row:
    """A sample with all that the recipes name; None where it has no value."""

    key: str
    kind: str
    system: str
    text: str
    duration_s: float | None
    extra_year: float | None
    vcs: float | None = None
    evqa: float | None = None
    values: tuple[float, ...] = field(default=())


WHERE: Mapping[str, Callable[[Row], bool]] = {
    "kind = 'caption'": lambda row: row.kind == "caption",
    "vcs > 0.1 and system != 'none'": lambda row: row.vcs is not None and row.vcs > 0.1 and row.system != "none",
    "evqa is null or not extra_year = 2": lambda row: row.evqa is None or row.extra_year not in (None, 2),
    "text like '%vcs%' or duration_s between 10 and 30": lambda row: (
        row.duration_s is not None and 10 <= row.duration_s <= 30
    ),
}


class Refused(Exception):
    """What the recipe asks for is not there."""


def fill(engine: Engine, random: Random) -> tuple[Dataset, list[Row]]:
    """Store random samples with equal texts, equal and missing scores, in strata of all sizes."""
    with engine.begin() as connection:
        create_views(connection, TWO_METRICS)
    dataset, rows, ids = make_dataset(engine, n_shards=random.choice([1, 3])), [], []
    for number in range(random.randint(2, 6)):
        video = add_video(engine, dataset, f"v{number}")
        duration = random.choice([None, 5.0, 10.0, 29.5, 30.0, 60.0])
        change(engine, schema.video, video, duration_s=duration)
        for place in range(random.randint(1, 8)):
            key = random.choice(["s{}", "S{}", "é{}", "_{}"]).format(10 * number + place)
            kind, system = random.choice(["caption", "caption", "qa"]), random.choice(["a", "B", "none", "o'brien"])
            year = random.choice([None, 1, 2, 2.5])
            row = Row(key, kind, system, random.choice(TEXTS), duration, year)
            extra = None if year is None else {"year": year}
            asked = {"question": "what?", "answer": row.text} if kind == "qa" else {}
            ids.append(
                add_sample(engine, dataset, video, key, row.text, kind=kind, system=system, extra=extra, **asked)
            )
            rows.append(row)
    for metric, scale in (("vcs", 1), ("evqa", 100)):
        for row in rows:
            setattr(row, metric, random.choice([None, -0.5, 0.0, 0.1, 0.3, 0.3, 0.7, random.random()]))
            if getattr(row, metric) is not None:
                setattr(row, metric, scale * getattr(row, metric))
        set_scores(engine, {sample: getattr(row, metric) for sample, row in zip(ids, rows, strict=True)}, metric=metric)
    return dataset, rows


def random_recipe(random: Random) -> dict[str, Any]:
    """Any fields that agree with one another; what they ask for may not be there."""
    columns = random.sample(["vcs", "evqa", "duration_s", "extra_year"], random.choice([1, 1, 2, 3]))
    said: dict[str, Any] = {"by": {name: random.choice([1, 2, 0.1, 0.3, 1 / 3]) for name in columns}}
    said["combine"] = random.choice(["ranks", "values"])
    if random.random() < 0.5:
        said["where"] = random.choice(list(WHERE))
    if random.random() < 0.5:
        said["kind"] = random.choice(["caption", "qa", "all"])
    if random.random() < 0.3:
        said["at_least"] = {"vcs": random.choice([-0.5, 0.1, 0.3])}
    if random.random() < 0.3:
        said["dedupe"] = random.choice([1, 0.9, 0.5])
    if random.random() < 0.4:
        said |= {"choose": "random", "seed": random.randint(0, 3)}
    if random.random() < 0.6:
        said["per"] = random.choice(["system", "kind", "duration_s", "extra_year"])
        if said["per"] in ("duration_s", "extra_year"):
            said["bands"] = random.choice([[2], [10, 30], [2.5, 29.5]])
    how = random.choice(["keep", "keep", "count", "count", "quotas", "nothing"])
    if how == "keep":
        said["keep"] = random.choice([0.1, 0.29, 0.5, 0.7, 1])
    elif how == "count":
        said["count"] = random.choice([1, 2, 5, 9])
    elif how == "quotas" and "per" in said:
        said["quotas"] = {"none": random.randint(0, 2), "*": random.randint(0, 4)}
    if "choose" not in said and random.random() < 0.7:
        random.randrange(3)  # once another field: the stored hashes are of the recipes that follow it
        said |= {"seed": random.randint(0, 3)}
    return said


def expected(rows: Sequence[Row], recipe: Recipe, encoder: HashEncoder) -> list[tuple[Row, Fraction]]:
    """What the recipe takes, in order of rank, with the values that ranked it."""
    kinds = kinds_of(rows, recipe)
    found = [row for row in rows if row.kind in kinds and is_eligible(row, recipe)]
    found.sort(key=lambda row: (row.kind, row.key.encode()))
    if not found:
        raise Refused("no sample of dataset")
    for row in found:
        row.values = tuple(getattr(row, name) for name in recipe.by)
    if recipe.keep is None and recipe.count is None and not recipe.quotas and not recipe.at_least:
        raise Refused("nothing is selected, because the recipe has no size")
    ranked = [(row, value(row, found, recipe)) for row in found]
    ranked.sort(key=lambda pair: -pair[1])
    if recipe.dedupe is not None:
        kept: list[tuple[Row, Fraction]] = []
        for pair in ranked:
            if all(cosine(encoder, pair[0].text, other.text) < recipe.dedupe - 1e-6 for other, _ in kept):
                kept.append(pair)
        ranked = kept
    names = sorted({stratum(row, recipe) for row in found})
    places = divided(recipe, {name: sum(stratum(row, recipe) == name for row, _ in ranked) for name in names})
    if recipe.choose == "random":
        ranked.sort(key=lambda pair: draw(pair[0], recipe))
        best = ranked
    else:
        best = sorted(ranked, key=lambda pair: (-pair[1], draw(pair[0], recipe)))
    chosen = set()
    for row, _ in best:
        if places[stratum(row, recipe)]:
            places[stratum(row, recipe)] -= 1
            chosen.add((row.kind, row.key))
    taken = [(row, number) for row, number in ranked if (row.kind, row.key) in chosen]
    if not taken:
        raise Refused("the recipe selects no sample")
    return taken


def draw(row: Row, recipe: Recipe) -> bytes:
    return hashlib.md5(f"{recipe.seed}\t{row.kind}\t{row.key}".encode()).digest()[:8]


def kinds_of(rows: Sequence[Row], recipe: Recipe) -> set[str]:
    """Captions, where nobody says otherwise and both kinds could be taken."""
    if recipe.kind not in (None, "all"):
        return {str(recipe.kind)}
    there = {row.kind for row in rows if could_be_taken(row, recipe)}
    is_free = recipe.kind == "all" or recipe.per == "kind" or len(there) < 2
    return there if is_free else {"caption"}


def could_be_taken(row: Row, recipe: Recipe) -> bool:
    has_values = all(getattr(row, name) is not None for name in recipe.by)
    return has_values and (recipe.where is None or WHERE[recipe.where](row))


def is_eligible(row: Row, recipe: Recipe) -> bool:
    return could_be_taken(row, recipe) and all(
        getattr(row, name) is not None and getattr(row, name) >= least for name, least in recipe.at_least.items()
    )


def value(row: Row, found: Sequence[Row], recipe: Recipe) -> Fraction:
    """The value or, of several, the weighted mean, without any rounding."""
    weights = [Fraction(str(weight)) for weight in recipe.by.values()]
    numbers = [Fraction(number) for number in row.values]
    if len(numbers) > 1 and recipe.combine == "ranks":
        columns = list(zip(*(other.values for other in found), strict=True))
        below = [sum(other < own for other in column) for own, column in zip(row.values, columns, strict=True)]
        equal = [column.count(own) for own, column in zip(row.values, columns, strict=True)]
        numbers = [(low + Fraction(same, 2)) / len(found) for low, same in zip(below, equal, strict=True)]
    return sum((w * number for w, number in zip(weights, numbers, strict=True)), Fraction(0)) / sum(weights)


def cosine(encoder: HashEncoder, text: str, other: str) -> float:
    return float(encoder.vector(text).astype(float) @ encoder.vector(other).astype(float))


def stratum(row: Row, recipe: Recipe) -> str:
    if recipe.per is None:
        return "all"
    said, limits = getattr(row, recipe.per), recipe.bands
    if said is None or not limits:
        return "none" if said is None else str(said)
    inside = [limit for limit in limits if limit <= said]
    if not inside:
        return f"below {limits[0]:g}"
    return f"{limits[-1]:g} and more" if len(inside) == len(limits) else f"{inside[-1]:g} to {limits[len(inside)]:g}"


def divided(recipe: Recipe, sizes: dict[str, int]) -> dict[str, int]:
    """The places of each stratum."""
    if recipe.quotas:
        if "none" not in sizes:
            raise Refused("for which there is a quota")
        if recipe.quotas["none"] > sizes["none"]:
            raise Refused("the quota of")
        return {
            name: recipe.quotas["none"] if name == "none" else min(recipe.quotas["*"], n) for name, n in sizes.items()
        }
    if recipe.count is not None:
        n = sum(sizes.values())
        if recipe.count > n:
            raise Refused("the recipe asks for")
        exact = {name: Fraction(recipe.count * size, n) for name, size in sizes.items()}
        places = {name: int(share) for name, share in exact.items()}
        for name in sorted(sizes, key=lambda name: (places[name] - exact[name], name))[
            : recipe.count - sum(places.values())
        ]:
            places[name] += 1
        return places
    if recipe.keep is None and recipe.at_least:
        return sizes
    share = Fraction(str(recipe.keep))
    return {name: max(1, int(share * size)) if size else 0 for name, size in sizes.items()}


@pytest.mark.parametrize("seed", range(3))
def test_a_recipe_takes_what_a_plain_walk_takes(engine: Engine, seed: int, tmp_path: Path) -> None:
    random, encoder = Random(seed), HashEncoder()
    dataset, rows = fill(engine, random)
    n_taken = 0

    def make(recipe: Recipe) -> Selection:
        return make_selection(engine, dataset, recipe, lambda: encoder, lambda _: None)

    for score_hash in HASHES[str(seed)]:
        said = random_recipe(random)
        recipe = parse_recipe(said)
        try:
            wanted = expected(rows, recipe, encoder)
        except Refused as refused:
            assert score_hash is None, said
            with pytest.raises(SelectionError, match=str(refused)):
                make(recipe)
            continue
        chosen = make(recipe)
        assert chosen.score_hash[:16] == score_hash, said
        found = [row for part in load_selection_rows(engine, chosen.selection_id) for row in part]
        assert [(row["kind"], row["sample"]) for row in found] == [(row.kind, row.key) for row, _ in wanted], said
        assert [row["value"] for row in found] == pytest.approx([float(number) for _, number in wanted]), said
        with engine.connect() as connection:
            stored = require_selection(connection, chosen.selection_id)
        (tmp_path / "again.yaml").write_text(format_recipe_file(dict(stored)), encoding="utf-8")
        again = make(read_recipe(tmp_path / "again.yaml"))
        assert (again.selection_id, again.score_hash) == (chosen.selection_id, chosen.score_hash), said
        n_taken += 1
    assert n_taken > len(HASHES[str(seed)]) / 3


def test_the_plain_data_of_a_recipe_make_an_equal_one() -> None:
    recipes = [parse_recipe(random_recipe(Random(seed))) for seed in range(300)]
    assert [parse_recipe(json.loads(json.dumps(recipe.spec()))) for recipe in recipes] == recipes


def test_the_weight_of_a_single_column_does_not_matter() -> None:
    assert parse_recipe({"by": {"vcs": 0.3}, "count": 1}) == parse_recipe({"by": "vcs", "count": 1})
