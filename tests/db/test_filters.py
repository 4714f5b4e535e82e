"""The filter language against a real SQL engine, and everything that must not get through it."""

from __future__ import annotations

import doctest
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

import db.selection.filters
from db.selection.conditions import FilterError
from db.selection.filters import MAX_DEPTH, MAX_LENGTH, SYMBOLS, WORDS, parse_filter

SAMPLES = sa.Table(
    "sample_scores",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("vcs", sa.Double),
    sa.Column("shard", sa.Integer),
    sa.Column("System", sa.Text),
    sa.Column("kept", sa.Boolean),
    sa.Column("scored_at", sa.DateTime),
)
POSTGRES = sa.create_engine("postgresql+psycopg://").dialect
COLUMNS = dict(SAMPLES.columns.items())
ROWS = [
    (1, 0.9, 0, "brief", True),
    (2, 0.3, 0, "Brief", False),
    (3, -0.2, 1, "it's; --long", True),
    (4, None, 1, "long", None),
    (5, 0.5, 2, None, False),
    (6, 2.0, 2, "50%", None),
]


@pytest.fixture(scope="module")
def connection() -> Iterator[sa.Connection]:
    engine = sa.create_engine("sqlite://")
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA case_sensitive_like = ON")  # as in Postgres
        SAMPLES.metadata.create_all(connection)
        names = ("id", "vcs", "shard", "System", "kept")
        connection.execute(SAMPLES.insert(), [dict(zip(names, row, strict=True)) for row in ROWS])
        yield connection


def chosen(connection: sa.Connection, text: str) -> list[int]:
    query = sa.select(SAMPLES.c.id).where(parse_filter(text, COLUMNS)).order_by(SAMPLES.c.id)
    return list(connection.scalars(query))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vcs > 0.3", [1, 5, 6]),
        ("vcs >= 0.3", [1, 2, 5, 6]),
        ("vcs < 0.3", [3]),
        ("vcs <= 0.3", [2, 3]),
        ("vcs = 3e-1", [2]),
        ("vcs <> 2.", [1, 2, 3, 5]),
        ("vcs != 0.3", [1, 3, 5, 6]),
        ("0.5 > vcs", [2, 3]),
        ("vcs > shard", [1, 2]),
        ("-vcs > -0.4", [2, 3]),
        ("vcs < - - 0.4", [2, 3]),
        ("vcs between 0.3 and 0.9", [1, 2, 5]),
        ("vcs not between 0.3 and 0.9", [3, 6]),
        ("vcs between shard and 1", [1, 2]),
        ("shard in (0, 2)", [1, 2, 5, 6]),
        ("shard in (0.5, -1, 1)", [3, 4]),
        ("shard not in (0, 2)", [3, 4]),
        ("shard > 1.5", [5, 6]),
        ("vcs is null", [4]),
        ("vcs is not null", [1, 2, 3, 5, 6]),
        ("not vcs is null", [1, 2, 3, 5, 6]),
        ("scored_at is null", [1, 2, 3, 4, 5, 6]),
        ("system = 'brief'", [1]),
        ("system != 'brief'", [2, 3, 4, 6]),
        ("system = 'it''s; --long'", [3]),
        ("system like '%long'", [3, 4]),
        ("system not like '%long'", [1, 2, 6]),
        ("system like 'b%'", [1]),
        ("system ilike 'b%'", [1, 2]),
        ("system not ilike 'b%'", [3, 4, 6]),
        ("system in ('brief', '50%')", [1, 6]),
        ("kept", [1, 3]),
        ("not kept", [2, 5]),
        ("not not kept", [1, 3]),
        ("kept = false", [2, 5]),
        ("kept in (true, false)", [1, 2, 3, 5]),
        ("true", [1, 2, 3, 4, 5, 6]),
        ("false", []),
        ("1 = 1", [1, 2, 3, 4, 5, 6]),
        # Unknown stays unknown: row 4 has no vcs, row 5 no system.
        ("vcs > 0 or system = 'long'", [1, 2, 4, 5, 6]),
        ("not (vcs > 0 or system = 'long')", [3]),
        # `and` binds closer than `or`, `not` closer than both.
        ("shard = 0 or shard = 1 and vcs < 0", [1, 2, 3]),
        ("(shard = 0 or shard = 1) and vcs < 0", [3]),
        ("not shard = 0 and kept", [3]),
        ("not (shard = 0 and kept)", [2, 3, 4, 5, 6]),
        # Names and words in any case, quoted or not, over several lines.
        ('VCS > 0.3\n\tAnd "SYSTEM" Is Not Null', [1, 6]),
    ],
)
def test_truth_table(connection: sa.Connection, text: str, expected: list[int]) -> None:
    assert chosen(connection, text) == expected


numbers = st.sampled_from(["vcs", "shard", "-vcs", "0", "0.3", "-1", "2", "(shard)"])
texts = st.sampled_from(["system", "'brief'", "'it''s; --long'", "('long')", "'B'"])
tests_of_one_value = st.one_of(
    st.builds("{} {} {}".format, numbers, st.sampled_from(["=", "!=", "<>", "<", "<=", ">", ">="]), numbers),
    st.builds("{} {} {}".format, texts, st.sampled_from(["=", "<>", "<", ">="]), texts),
    st.builds("{} {}between {} and {}".format, numbers, st.sampled_from(["", "not "]), numbers, numbers),
    st.builds("{} {}in (0, 0.3, -1)".format, numbers, st.sampled_from(["", "not "])),
    st.builds("{} is {}null".format, st.one_of(numbers, texts), st.sampled_from(["", "not "])),
    st.builds("{} {}like '%r_e%'".format, texts, st.sampled_from(["", "not "])),
    st.sampled_from(["kept", "true", "kept = false", "kept is null"]),
)
conditions = st.recursive(
    tests_of_one_value,
    lambda inner: st.one_of(
        st.builds("({})".format, inner),
        st.builds("not {}".format, inner),
        st.builds("{} {} {}".format, inner, st.sampled_from(["and", "or"]), inner),
    ),
    max_leaves=8,
)


@given(conditions)
def test_agrees_with_an_engine_that_reads_the_text_itself(connection: sa.Connection, text: str) -> None:
    by_engine = connection.exec_driver_sql(f"SELECT id FROM sample_scores WHERE {text} ORDER BY id")
    assert chosen(connection, text) == list(by_engine.scalars())


@given(st.text())
def test_a_text_literal_is_bound_unchanged(value: str) -> None:
    quoted = "'" + value.replace("'", "''") + "'"
    try:
        query = parse_filter(f"system = {quoted} or system in ({quoted})", COLUMNS).compile()
    except FilterError:
        assert "\0" in value
        return
    assert list(query.params.values()) == [value, value]
    assert str(query) == 'sample_scores."System" = :param_1 OR sample_scores."System" IN (:param_2)'


def test_the_example_in_the_docstring_runs() -> None:
    result = doctest.testmod(db.selection.filters)
    assert result.attempted
    assert not result.failed


def test_every_literal_is_bound() -> None:
    text = "vcs > 31.5 and system like '32%' and shard in (33, -34) and kept = true or kept in (false)"
    query = parse_filter(text, COLUMNS).compile(dialect=POSTGRES)
    assert list(query.params.values()) == [31.5, "32%", 33, 34, True, False]
    assert not any(literal in str(query) for literal in ["31", "32", "33", "34", "true", "false"])


def test_a_number_keeps_its_fraction_beside_an_integer_column_in_postgres() -> None:
    """A cast of the parameter to the column's type would make 1.5 a 2."""
    query = parse_filter("shard > 1.5 or shard > 5000000000", COLUMNS)
    rendered = str(query.compile(dialect=POSTGRES))
    assert "param_1)s::INTEGER" not in rendered
    assert "param_2)s::BIGINT" in rendered


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vcs > 0; drop table sample", "';' is not allowed"),
        ("vcs > 0;", "';' is not allowed"),
        ("1=1) or (select 1", "unknown name 'select'"),
        ("shard in (select 1)", "unknown name 'select'"),
        ("exists (select 1)", "function 'exists'"),
        ("vcs > 0 union select 1", "unknown name 'union'"),
        ("system = candidate_1", "unknown name 'candidate_1': a text needs single quotes, as in 'candidate_1'. The"),
        ('system != "candidate_1"', "unknown name 'candidate_1': a text needs single quotes, as in 'candidate_1'. The"),
        ("system in ('a', gpt-4o)", "unknown name 'gpt': a text needs single quotes, as in 'gpt-4o'. The columns"),
        ("system like brief%", "unknown name 'brief': a text needs single quotes, as in 'brief%'. The columns are"),
        ("vcs = vsc", r"unknown name 'vsc': a text needs single quotes, as in 'vsc'; or did you mean 'vcs'\?"),
        ("system = 1", "the number 1: write a text in single quotes, and a number in none"),
        ("select 1", "unknown name 'select'"),
        ("vcs > 0 -- and kept", "comment is not allowed"),
        ("vcs > /* all */ 0", "comment is not allowed"),
        ("/* all */ vcs > 0", "comment is not allowed"),
        ("-- all", "comment is not allowed"),
        ("pg_sleep(10)", "function 'pg_sleep'"),
        ("pg_sleep(10) is null", "function 'pg_sleep'"),
        ('"pg_sleep"(10) is null', "unknown name 'pg_sleep'"),
        ("vcs(1) > 0", "function 'vcs'"),
        ('"vcs"(1) > 0', "is not allowed"),
        ("current_user = 'x'", "unknown name 'current_user'"),
        ("system = $$x$$", r"'\$\$x\$\$' is not allowed"),
        ("system = $a$x$a$", "is not allowed"),
        ("system = E'\\x27'", "is not allowed"),
        ("system = U&'\\0027'", "is not allowed"),
        ('U&"\\0076cs" > 0', "unknown name 'U'"),
        ("system = N'x'", "is not allowed"),
        ("system = X'27'", "is not allowed"),
        ("system = B'01'", "is not allowed"),
        ("vcs > 0x1f", "is not allowed"),
        ("vcs::int > 0", "'::' is not allowed"),
        ("cast(vcs as int) > 0", "function 'cast'"),
        ("date '2026-01-01' = vcs", "unknown name 'date'"),
        ("sample_scores.vcs > 0", "unknown name 'sample_scores'"),
        ("vcs.shard > 0", "a column has no table in a filter: write shard, not vcs.shard"),
        ("vcs . shard > 0", "a point is only allowed inside a number"),
        ("vcs between .9 and 1", "a number needs a digit before its point: write 0.9"),
        ("vcs > 1.2.3", "a point is only allowed inside a number"),
        ("* is null", r"'\*' is not allowed"),
        ("vcs = ?", r"'\?' is not allowed"),
        ("vcs = :p", "':' is not allowed"),
        ("vcs = %s", "'%' is not allowed"),
        ("vcs = %(p)s", "'%' is not allowed"),
        ("vcs = $1", r"'\$' is not allowed"),
        ("vcs = @p", "'@' is not allowed"),
        ("vcs + 1 > 0", r"'\+' is not allowed"),
        ("vcs - 1 > 0", "'Sub' is not allowed"),
        ("system || 'x' = 'x'", "is not allowed"),
        ("system = 'x' 'y'", "'Concat' is not allowed"),
        ("system = 'x'\n'y'", "'Concat' is not allowed"),
        ("system ~ 'x'", "'~' is not allowed"),
        ("system like 'x' escape 'y'", "unknown name 'escape'"),
        ("(vcs, shard) = (1, 2)", "'Tuple' is not allowed"),
        ("vcs[1] > 0", "is not allowed"),
        ("vcs == 0", "'==' is not allowed"),
        ("vcs > 0 as kept", "unknown name 'as'"),
        ("vcs > 0 kept", "'Alias' is not allowed"),
        ("vcs between symmetric 1 and 0", "unknown name 'symmetric'"),
        ("vcs is distinct from 0", "unknown name 'distinct'"),
        ("case when kept then kept end", "unknown name 'case'"),
        ("shard in shard", "this form of 'In'"),
    ],
)
def test_nothing_else_gets_through(text: str, message: str) -> None:
    with pytest.raises(FilterError, match=message):
        parse_filter(text, COLUMNS)


@pytest.mark.parametrize("name", ["symmetric", "any", "distinct", "interval", "date", "select", "case"])
@pytest.mark.parametrize(
    "text",
    [
        "vcs between symmetric 1 and 0",
        "vcs = any (1)",
        "vcs is distinct from 1",
        "interval '1' = 'x'",
        "date '2026-01-01' = 'x'",
        "shard in (select 1)",
        "case vcs = 1",
    ],
)
def test_a_column_named_like_a_keyword_opens_no_door(name: str, text: str) -> None:
    with pytest.raises(FilterError):
        parse_filter(text, COLUMNS | {name: sa.column(name, sa.Integer)})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        ("vcs", "number column 'vcs' is not a condition"),
        ("1", "number 1 is not a condition"),
        ("'kept'", "text 'kept' is not a condition"),
        ("system and kept", "text column 'system' is not a condition"),
        ("scored_at", "column 'scored_at' is not a condition"),
        ("vcs >", "not a complete condition"),
        ("(vcs > 0", "not a complete condition"),
        ("vcs > 0)", "not a complete condition"),
        ("system = 'x", "not a complete condition"),
        ("vcs > 0 /*", "not a complete condition"),
        ("vcs = null", "write is null"),
        ("shard in (1, null)", "write is null"),
        ("null", "write is null"),
        ("kept is true", "'is' may only be followed by null"),
        ("shard in ()", "list of literals"),
        ("shard in (id)", "list of literals"),
        ("vcs > 0.3 > 0.1", "a condition cannot be compared"),
        ("kept = (vcs > 0)", "a condition cannot be compared"),
        ("(vcs > 0) is null", "a condition cannot be compared"),
        ("system = 3", "text column 'system' cannot be compared with the number 3"),
        ("vcs = '3'", "number column 'vcs' cannot be compared with the text '3'"),
        ("3 = '3'", "number 3 cannot be compared with the text '3'"),
        ("vcs = system", "cannot be compared"),
        ("vcs = kept", "cannot be compared"),
        ("kept = 1", "cannot be compared"),
        ("vcs between 0 1", "an 'and' or a comma is missing"),
        ("kept and vcs between 0 1", "an 'and' or a comma is missing"),
        ("(, kept)", "an 'and' or a comma is missing or misplaced"),
        ("vcs not is null", "'not is' is not allowed"),
        ("vcs\u00a0> 0", r"the space '\\xa0' is not allowed"),
        ("vcs > 0 \u2003", r"the space '\\u2003' is not allowed"),
        ("vcs not null", "'not null' needs an 'is'"),
        ("vcs > 0 and not null", "'not null' needs an 'is'"),
        ("vcs between 0 and '1'", "cannot be compared"),
        ("system in ('brief', 1)", "cannot be compared"),
        ("scored_at > '2026-01-01'", "column 'scored_at' is not a number, text or boolean"),
        ("vcs like '0%'", "like and ilike are for text"),
        ("system like system", "literal pattern"),
        ("system like 'x\\'", "single backslash"),
        ("-system = 'x'", "minus sign"),
        ("vcs > 1e", "is not a number"),
        ("vcs > 1e999", "too large"),
        ("vcs > " + "9" * 5000, "too large"),
        ("system = 'a\0b'", "cannot store"),
        ("system = '\ud800'", "cannot store"),
    ],
)
def test_a_mistake_is_named(text: str, message: str) -> None:
    with pytest.raises(FilterError, match=message):
        parse_filter(text, COLUMNS)


def test_an_unknown_column_gets_a_suggestion_and_the_list() -> None:
    message = "unknown name 'vsc', did you mean 'vcs'.* System, id, kept, scored_at, shard, vcs$"
    with pytest.raises(FilterError, match=message):
        parse_filter("VCS > 0 and vsc > 1", COLUMNS)


def test_an_untyped_column_is_compared_with_anything() -> None:
    raw: dict[str, sa.ColumnElement[object]] = {"raw": sa.column("raw")}
    assert str(parse_filter("raw = 1 or raw = 'x' or -raw > 0 or raw like 'x' or raw", raw)).count("raw") == 5


@pytest.mark.parametrize(
    "text",
    [
        "(" * 4000 + "kept" + ")" * 4000,
        "(" * (MAX_DEPTH + 1) + "kept" + ")" * (MAX_DEPTH + 1),
        "not " * 2000 + "kept",
        "vcs > " + "- " * 2000 + "1",
        "not (" * 1000 + "kept" + ")" * 1000,
        "(kept or " * 500 + "kept" + ")" * 500,
        "vcs = " * 1000 + "1",
    ],
)
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(FilterError, match="nested too deeply"):
        parse_filter(text, COLUMNS)


def test_the_limits_are_generous(connection: sa.Connection) -> None:
    assert chosen(connection, "(" * MAX_DEPTH + "vcs > 1" + ")" * MAX_DEPTH) == [6]
    assert chosen(connection, " or ".join(["vcs > 1"] * 800)) == [6]
    assert chosen(connection, "vcs > 1".ljust(MAX_LENGTH)) == [6]
    with pytest.raises(FilterError, match="10,001 characters"):
        parse_filter("vcs > 1".ljust(MAX_LENGTH + 1), COLUMNS)


def accept_or_refuse(text: str) -> None:
    try:
        str(parse_filter(text, COLUMNS))
    except FilterError:
        return


@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    accept_or_refuse(text)


known_pieces = sorted(WORDS | SYMBOLS | COLUMNS.keys())
foreign_pieces = ["'x'", "1", "0.5", '"vcs"', ".", "--", "/*", "*/", ";", "::", "$$", "E'", "'", '"', "["]


@given(st.lists(st.sampled_from(known_pieces + foreign_pieces), max_size=20).map(" ".join))
def test_any_sequence_of_tokens_is_parsed_or_refused(text: str) -> None:
    accept_or_refuse(text)


@st.composite
def spoilt_conditions(draw: st.DrawFn) -> str:
    """A condition with one word taken out, doubled or replaced."""
    words = draw(conditions).replace("(", " ( ").replace(")", " ) ").replace(",", " , ").split(" ")
    place = draw(st.integers(0, len(words) - 1))
    new_words = draw(st.lists(st.sampled_from([*known_pieces, words[place], "1"]), max_size=2))
    return " ".join([*words[:place], *new_words, *words[place + 1 :]])


@settings(derandomize=True)
@given(spoilt_conditions())
def test_what_is_accepted_is_sql_for_an_engine_too(connection: sa.Connection, text: str) -> None:
    """sqlglot is laxer than an engine, the filter is not: SQLite reads what it accepts in the same way."""
    try:
        condition = parse_filter(text, COLUMNS)
    except FilterError:
        return
    if "ilike" in text:
        return  # SQLite has none
    query = sa.select(SAMPLES.c.id).where(condition).order_by(SAMPLES.c.id)
    try:
        by_engine = connection.exec_driver_sql(f"SELECT id FROM sample_scores WHERE {text} ORDER BY id")
    except sa.exc.OperationalError as error:
        pytest.fail(f"accepted, but not SQL: {text!r}: {error}")
    assert list(connection.scalars(query)) == list(by_engine.scalars())
