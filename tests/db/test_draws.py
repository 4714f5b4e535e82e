"""Permanent random numbers of samples: what they depend on, their range, and their order."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from db import schema
from db.manifest.draws import build_draw_number, build_draw_order, load_drawable_captions
from db.server.reader import run_read_only
from tests.db.builders import add_sample, add_video, make_dataset

N = 400
LEAST, GREATEST = -(2**63), 2**63 - 1


def numbers(engine: Engine, seed: int) -> dict[tuple[str, str], float]:
    query = sa.select(schema.sample.c.kind, schema.sample.c.key, build_draw_number(seed))
    with engine.connect() as connection:
        return {(row[0], row[1]): row[2] for row in connection.execute(query)}


def test_numbers_depend_on_kind_key_and_seed_only(engine: Engine) -> None:
    first, second = make_dataset(engine, "first"), make_dataset(engine, "second")
    for dataset in (first, second):
        video = add_video(engine, dataset, "v")
        add_sample(engine, dataset, video, "a", text=f"in {dataset.name}", system=dataset.name)
        add_sample(engine, dataset, video, "a", text="why? so", kind="qa", question="why?", answer="so")
    # Two datasets, two kinds: an equal kind and key has an equal number, whatever the text.
    query = sa.select(build_draw_number(7)).select_from(schema.sample)
    with engine.connect() as connection:
        assert len(set(connection.scalars(query))) == 2
    assert numbers(engine, 7) != numbers(engine, 8)


def test_numbers_spread_evenly_and_captions_have_the_same(engine: Engine) -> None:
    dataset = make_dataset(engine)
    video = add_video(engine, dataset, "v")
    for i in range(N):
        add_sample(engine, dataset, video, f"c{i}")
    drawn = sorted(numbers(engine, 3).values())
    assert drawn[0] >= 0
    assert drawn[-1] < 1
    # Kolmogorov's bound for a uniform distribution at a chance of 1 in 1,000.
    assert max(abs(number - (i + 0.5) / N) for i, number in enumerate(drawn)) < 1.95 / N**0.5
    with engine.connect() as connection:
        query = sa.select(schema.sample.c.sample_id).order_by(*build_draw_order(3))
        order = list(connection.scalars(query))
        captions = load_drawable_captions(connection, dataset, 3, ())
    assert order == captions.sample_ids[captions.numbers.argsort()].tolist()


def test_the_least_and_the_greatest_hash_stay_within_the_range(engine: Engine) -> None:
    with engine.connect() as connection:
        body = connection.scalar(sa.text("SELECT pg_get_functiondef('draw_number'::regproc)"))
        expression = body.partition("RETURN ")[2].strip()
        start = expression.index("hashtextextended(")
        depth = end = 0
        for end in range(start + len("hashtextextended"), len(expression)):
            depth += (expression[end] == "(") - (expression[end] == ")")
            if depth == 0:
                break
        call = expression[start : end + 1]
        for value, expected in ((LEAST, 0.0), (GREATEST, 1 - 2.0**-53), (0, 0.5)):
            text = expression.replace(call, f"CAST('{value}' AS bigint)")
            assert connection.scalar(sa.text("SELECT " + text.replace("::", "\\:\\:"))) == expected


def test_analysts_may_call_it(engine: Engine) -> None:
    rows = run_read_only(engine.url, "SELECT draw_number('caption', 'a', 0) AS u", tell=print)
    with engine.connect() as connection:
        assert rows == [{"u": connection.scalar(sa.text("SELECT draw_number('caption', 'a', 0)"))}]
