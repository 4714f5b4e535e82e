"""Random filters of `select --where` against raw SQL on the same rows: the same rows, or a FilterError.

Run it with `python -m tests.attack.filters --filters 1000 --seed 1`.
"""

from __future__ import annotations

from random import Random

import sqlalchemy as sa
import typer
from sqlalchemy.engine import URL, Engine

from db.manifest.datasets import Dataset
from db.schema import selection_item
from db.selection.conditions import FilterError
from db.selection.filters import SYMBOLS, WORDS
from db.selection.recipes import SelectionError, parse_recipe
from db.server.reader import run_read_only
from tests.attack.campaign import Campaign, Seed, empty_database
from tests.db.builders import add_sample, add_video, make_dataset, set_scores
from tests.db.freezing import freeze_recipe

NUMBERS = ("vcs", "evqa", "duration_s", "shard")
TEXTS = ("system", "text", "sample", "video", "kind", "vcs_status", "vcs_models", "video_status")
NUMERALS = ("0", "1", "-1", "0.3", "1.", "3e-1", "1e300", "99999999999999999999", "0.1", "- 2")
STRINGS = ("'brief'", "'it''s'", "''", "'50%'", "'a_b'", "'é'", "'--'", "'caption'", "'ok'", "'C:\\\\x'", "'\x1b[2J'")
PATTERNS = ("'%'", "'b%'", "'_rief'", "'%''%'", "'%\\%%'", "'C:\\\\\\\\%'", "''", "'É'", "'%a\\_b%'")
HOSTILE = (
    "; DROP TABLE sample; --", "-- ", "/*", "*/", "::text", "$$x$$", "$1", ":x", "%s", "E'\\x41'", "U&'\\0041'",
    "B'1'", "N'a'", "pg_sleep(60)", "(select 1)", "exists (select 1)", "case when true then 1 end",
    "cast(vcs as text)", "current_user", "version()", "array[1]", "vcs[1]", "sample_scores.vcs", "\"vcs\"", "\"no\"",
    "`vcs`", "[vcs]", "any(array[1])", "similar to 'a'", "~ 'a'", "|| 'a'", "+ 1", "* 2", "/ 0", "% 1", "^ 2",
    "is true", "is distinct from", "collate \"C\"", "at time zone 'x'", "over ()", "@> 1", "interval '1 day'",
    "date '2020-01-01'", "null", "nan", "'NaN'", "Infinity", "0x1F", "1_000", "1e999", "é", "＝", "‘a’", "\u2028",
    "\u00a0", "\x00", "\ud800", "\\", "'", '"', "sample_id", "xmin", "ctid", "oid", "between", "between 1 2", "in ()",
    "in (1,)", "in (select 1)", "not not", "union select 1", "limit 1", "order by 1", "returning 1", "true",
    "escape '!'", "(" * 30, ")" * 30, "not " * 50,
)  # fmt: skip
N_SAMPLES = 60


def main(filters: int = 1_000, seed: Seed = None) -> None:
    """Try so many filters."""
    campaign = Campaign("filters", seed)
    with empty_database() as (_, engine):
        attack(engine, engine.url, filters, campaign)
    campaign.finish()


def attack(engine: Engine, url: URL, filters: int, campaign: Campaign) -> None:
    """Select with random filters from a dataset made for it, half of them well-formed and half of them spoilt."""
    dataset = fill(engine, campaign.random)
    for number in range(filters):
        text = condition(campaign.random, campaign.random.randrange(4))
        if number % 2:
            text = spoilt(campaign.random, text)
        _compare(engine, url, dataset, text, campaign)


def fill(engine: Engine, random: Random) -> Dataset:
    """Samples with values and texts of every kind that a filter may meet, nulls among them."""
    dataset = make_dataset(engine, n_shards=3)
    systems = ("brief", "it's", "50%", "a_b", "É", "C:\\x", "--", "")
    samples = []
    for number in range(N_SAMPLES):
        video = add_video(engine, dataset, f"v{number}", status=random.choice(["ok", "text_only"]))
        key, system = f"s{number}", random.choice(systems)
        samples.append(add_sample(engine, dataset, video, key, random.choice(systems), system=system))
    for metric in ("vcs", "evqa"):
        values = (None, 0.0, -1.0, 0.1, 0.3, 1.0, random.random())
        set_scores(engine, {sample: random.choice(values) for sample in samples}, metric)
    return dataset


def condition(random: Random, depth: int) -> str:
    """A condition of the language, nested so deeply."""
    if depth:
        match random.randrange(4):
            case 0:
                return f"({condition(random, depth - 1)})"
            case 1:
                return f"not {_group(random, depth)}"
            case _:
                joint = random.choice(["and", "or", "AND", "\nor\t"])
                return f"{condition(random, depth - 1)} {joint} {condition(random, depth - 1)}"
    is_number = random.random() < 0.5
    columns, literals = (NUMBERS, NUMERALS) if is_number else (TEXTS, STRINGS)
    column = random.choice(columns)
    column = random.choice([column, column, column.upper(), f'"{column}"', f"({column})"])
    one, two = (random.choice([*literals, *literals, *columns]) for _ in range(2))
    negated = random.choice(["", "not "])
    match random.randrange(5):
        case 0 | 1:
            return f"{column} {random.choice(['=', '!=', '<>', '<', '<=', '>', '>='])} {one}"
        case 2:
            return f"{column} {negated}between {one} and {two}"
        case 3:
            choices = ", ".join(random.choice(literals) for _ in range(random.randint(1, 4)))
            return f"{column} {negated}in ({choices})"
        case _:
            is_null = f"{column} is {negated}null"
            like = f"{column} {negated}{random.choice(['like', 'ilike'])} {random.choice(PATTERNS)}"
            return is_null if is_number or random.random() < 0.4 else like


def _group(random: Random, depth: int) -> str:
    inner = condition(random, depth - 1)
    return random.choice([inner, f"({inner})"])


def spoilt(random: Random, text: str) -> str:
    """The condition with one to three words or characters changed, gone, doubled, or with something hostile in it."""
    pieces = [*WORDS, *SYMBOLS, *HOSTILE, *HOSTILE]
    for _ in range(random.randint(1, 3)):
        words = text.split(" ")
        place = random.randrange(len(words))
        match random.randrange(5):
            case 0:
                words.insert(place, random.choice(pieces))
            case 1:
                words[place] = random.choice(pieces)
            case 2:
                del words[place]
            case 3:
                words.insert(place, words[place])
            case _:
                cut = random.randrange(len(text) + 1)
                words = [
                    text[:cut] + random.choice([random.choice(pieces), chr(random.randrange(1, 0x2100))]) + text[cut:]
                ]
        text = " ".join(words)
    return text


def _compare(engine: Engine, url: URL, dataset: Dataset, text: str, campaign: Campaign) -> None:
    campaign.counts["filters"] += 1
    try:
        chosen = _selected(engine, dataset, text)
    except FilterError as error:
        campaign.counts["refused"] += 1
        campaign.expect("\n" not in str(error), f"{text!r}: the sentence has several lines: {str(error)!r}")
        return
    except Exception as error:
        campaign.expect(False, f"{text!r}: {error!r}")
        return
    campaign.counts["accepted"] += 1
    campaign.counts["rows compared"] += len(chosen)
    by = "SELECT sample FROM sample_scores WHERE vcs IS NOT NULL AND dataset = "
    try:
        # The reader runs it: what the filter took for a condition may be none.
        raw = run_read_only(url, f"{by}'{dataset.name}' AND (\n{text}\n) ORDER BY sample COLLATE \"C\"", tell=print)
    except Exception as error:
        campaign.expect(False, f"{text!r} was accepted and is not SQL: {error}")
        return
    expected = [row["sample"] for row in raw]
    campaign.expect(chosen == expected, f"{text!r}: {chosen} instead of {expected}")


def _selected(engine: Engine, dataset: Dataset, text: str) -> list[str]:
    """The samples that `select --by vcs --keep 1 --where TEXT` chooses; nothing is kept of the selection."""
    with engine.connect() as connection:
        try:
            chosen = freeze_recipe(connection, dataset, parse_recipe({"by": "vcs", "keep": 1, "where": text}))
        except SelectionError as error:
            if "no sample" in str(error):
                return []
            raise
        rows = sa.select(selection_item.c.sample).where(selection_item.c.selection_id == chosen.selection_id)
        return sorted(connection.scalars(rows))


if __name__ == "__main__":
    typer.run(main)
