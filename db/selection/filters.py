"""The parser behind `reelsieve select --where`: a small language of conditions, turned into bound SQL.

Two allow-lists stand between a user's text and the database: one of tokens, before sqlglot's parser sees
them, and one of nodes in the parsed tree. Nothing of the text itself reaches SQL: names become columns that
the caller handed in, and literals become bound parameters.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import sqlalchemy as sa
from sqlglot import Token, TokenType
from sqlglot import expressions as exp
from sqlglot.dialects import Postgres
from sqlglot.errors import SqlglotError

from db.scores.present import names_of
from db.spelling import did_you_mean

# Turns the tree of a filter into an SQL expression: columns that the caller hands in, and bound literals.

Columns = Mapping[str, sa.ColumnElement[Any]]
Condition = sa.ColumnElement[bool]
# An "untyped" column may be compared with anything, an "other" one (a time, JSON, ...) only with null.
Kind = Literal["number", "text", "boolean", "untyped", "other"]

COMPARISONS: dict[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}
PYTHON_KINDS: dict[type, Kind] = {
    bool: "boolean",
    int: "number",
    float: "number",
    Decimal: "number",
    str: "text",
}
NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


class FilterError(ValueError):
    """The text is not a condition of the filter language; the message says in one sentence what is wrong.

    brief: the message without what may be chosen instead.
    """

    plain = True

    def __init__(self, brief: str, choice: str = "") -> None:
        super().__init__(brief + choice)
        self.brief = brief


@dataclass(frozen=True)
class Operand:
    """One side of a comparison: a column, a literal, or minus one of these."""

    expression: sa.ColumnElement[Any]
    kind: Kind
    name: str
    """The operand's name in error messages."""


def condition_of(node: exp.Expr, columns: Columns) -> Condition:
    """The condition that a checked tree stands for. Raises FilterError where it compares what cannot be compared."""
    if isinstance(node, exp.Paren):
        return condition_of(node.this, columns)
    if isinstance(node, (exp.And, exp.Or)):
        parts = [condition_of(part, columns) for part in node.flatten(unnest=False)]
        return sa.and_(*parts) if isinstance(node, exp.And) else sa.or_(*parts)
    if isinstance(node, exp.Not):
        return sa.not_(condition_of(node.this, columns))
    if type(node) in COMPARISONS:
        left, right = _operand(node.this, columns), _operand(node.expression, columns)
        _check_comparable(left, right)
        comparison: Condition = COMPARISONS[type(node)](left.expression, right.expression)
        return comparison
    if type(node) in PREDICATES:
        condition = PREDICATES[type(node)](node, columns)
        return sa.not_(condition) if node.args.get("negate") else condition
    operand = _operand(node, columns)
    if operand.kind not in ("boolean", "untyped"):
        raise FilterError(f"{operand.name} is not a condition: compare it with something")
    return operand.expression


def _between(node: exp.Expr, columns: Columns) -> Condition:
    value, low, high = (_operand(node.args[name], columns) for name in ("this", "low", "high"))
    _check_comparable(value, low)
    _check_comparable(value, high)
    return value.expression.between(low.expression, high.expression)


def _in(node: exp.Expr, columns: Columns) -> Condition:
    value = _operand(node.this, columns)
    if not node.expressions or any(choice.find(exp.Column) for choice in node.expressions):
        raise FilterError("in needs a list of literals in parentheses, such as system in ('brief', 'long')")
    choices = [_operand(choice, columns) for choice in node.expressions]
    for choice in choices:
        _check_comparable(value, choice)
    return value.expression.in_([choice.expression for choice in choices])


def _is(node: exp.Expr, columns: Columns) -> Condition:
    if not isinstance(node.expression, exp.Null):
        raise FilterError("is may only be followed by null or not null: compare with = instead")
    return _operand(node.this, columns).expression.is_(None)


def _like(node: exp.Expr, columns: Columns) -> Condition:
    value, pattern = _operand(node.this, columns), node.expression
    if value.kind not in ("text", "untyped"):
        raise FilterError(f"like and ilike are for text, and {value.name} is none")
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        raise FilterError("like and ilike need a literal pattern, such as system like 'brief%'")
    n_backslashes = len(pattern.name) - len(pattern.name.rstrip("\\"))
    if n_backslashes % 2:
        raise FilterError("a pattern of like or ilike must not end with a single backslash: write two")
    compare = value.expression.ilike if isinstance(node, exp.ILike) else value.expression.like
    return compare(_literal(pattern).expression)


PREDICATES: dict[type[exp.Expr], Callable[[exp.Expr, Columns], Condition]] = {
    exp.Between: _between,
    exp.In: _in,
    exp.Is: _is,
    exp.Like: _like,
    exp.ILike: _like,
}


def _operand(node: exp.Expr, columns: Columns) -> Operand:
    if isinstance(node, exp.Paren):
        return _operand(node.this, columns)
    if isinstance(node, exp.Column):
        return column_of(node.name, columns)
    if isinstance(node, exp.Neg):
        value = _operand(node.this, columns)
        if value.kind not in ("number", "untyped"):
            raise FilterError(f"{value.name} cannot follow a minus sign: only a number can")
        return Operand(-value.expression, value.kind, f"minus {value.name}")
    return _literal(node)


def column_of(name: str, columns: Columns) -> Operand:
    """The column of this name, in any case. Raises FilterError where there is none, and names the nearest."""
    by_lower_name = {key.lower(): column for key, column in columns.items()}
    column = by_lower_name.get(name.lower())
    if column is None:
        meant = did_you_mean(name, columns)
        hint = f", did you mean {meant!r}?" if meant else "."
        raise FilterError(f"unknown name {name[:40]!r}{hint}", f" The columns are: {names_of(columns)}")
    is_typed = not isinstance(column.type, sa.types.NullType)
    kind = PYTHON_KINDS.get(column.type.python_type, "other") if is_typed else "untyped"
    adjective = f"{kind} " if kind in PYTHON_KINDS.values() else ""
    return Operand(column, kind, f"the {adjective}column {name!r}")


def _literal(node: exp.Expr) -> Operand:
    if isinstance(node, exp.Literal) and node.is_string:
        return Operand(sa.literal(node.name, sa.Text), "text", f"the text {node.name[:40]!r}")
    if isinstance(node, exp.Literal):
        return Operand(sa.literal(_number(node.name)), "number", f"the number {node.name}")
    if isinstance(node, exp.Boolean):
        return Operand(sa.literal(bool(node.this), sa.Boolean), "boolean", f"the value {node.this}")
    if isinstance(node, exp.Null):
        raise FilterError("null equals nothing: write is null or is not null")
    raise FilterError("a condition stands where a column or a literal belongs: use and, or and not")


def _number(text: str) -> int | float:
    if not NUMBER.fullmatch(text):
        raise FilterError(f"{text[:40]!r} is not a number: write it like 12, 0.3 or 1e-3")
    if text.isdecimal() and len(text) < 19:  # more digits may not fit a bigint
        return int(text)
    if math.isinf(float(text)):
        raise FilterError(f"the number {text[:40]} is too large")
    return float(text)


def _check_comparable(left: Operand, right: Operand) -> None:
    for side in (left, right):
        if side.kind == "other":
            raise FilterError(f"{side.name} is no number, text or boolean: it only allows is [not] null")
    if left.kind != right.kind and "untyped" not in (left.kind, right.kind):
        raise FilterError(f"{left.name} cannot be compared with {right.name}")


MAX_LENGTH = 10_000
MAX_DEPTH = 20  # sqlglot needs some 20 Python frames a level: far below the interpreter's limit of 1,000

WORDS = {"and", "or", "not", "between", "in", "is", "null", "like", "ilike", "true", "false"}
SYMBOLS = {"=", "!=", "<>", "<", "<=", ">", ">=", "(", ")", ",", "-"}
# Every node of a filter's tree with the parts it may have; the table of a column, for one, is not among them.
NODES: dict[type[exp.Expr], frozenset[str]] = {
    **dict.fromkeys([exp.And, exp.Or, *COMPARISONS], frozenset({"this", "expression"})),
    **dict.fromkeys([exp.Is, exp.Like, exp.ILike], frozenset({"this", "expression", "negate"})),
    **dict.fromkeys([exp.Not, exp.Paren, exp.Neg, exp.Column, exp.Boolean], frozenset({"this"})),
    exp.Between: frozenset({"this", "low", "high"}),
    exp.In: frozenset({"this", "expressions"}),
    exp.Identifier: frozenset({"this", "quoted"}),
    exp.Literal: frozenset({"this", "is_string"}),
    exp.Null: frozenset(),
}
ALLOWED = (
    "a filter holds comparisons (= != <> < <= > >=), between, in, is [not] null, like and ilike, "
    "on columns and literals, joined by and, or, not and parentheses"
)
TOO_DEEP = f"the filter is nested too deeply: {MAX_DEPTH} levels are allowed"


def parse_filter(text: str, columns: Columns) -> Condition:
    """Turn a condition such as `vcs > 0.3 and system != 'brief'` into an SQL expression with bound literals.

    The language is SQL's, with SQL's precedence and three-valued logic, cut down to comparisons, `between`,
    `in` with a list of literals, `is [not] null`, `like` and `ilike` with a literal pattern, `and`, `or`,
    `not` and parentheses. Column names are matched without regard to case, quoted or not.

    Raises:
        FilterError: the text is anything else, names an unknown column, or compares text with a number.

    >>> import sqlalchemy as sa
    >>> columns = {"vcs": sa.column("vcs", sa.Double), "system": sa.column("system", sa.Text)}
    >>> condition = parse_filter("vcs > 0.3 and system != 'brief'", columns)
    >>> print(condition)
    vcs > :param_1 AND system != :param_2
    >>> condition.compile().params
    {'param_1': 0.3, 'param_2': 'brief'}
    >>> parse_filter("vsc > 0.3", columns)
    Traceback (most recent call last):
    db.selection.filters.FilterError: unknown name 'vsc', did you mean 'vcs'? The columns are: system, vcs
    """
    _check_text(text)
    dialect = Postgres()
    try:
        tokens = dialect.tokenize(text)
        _check_tokens(text, tokens, columns)
        trees = dialect.parser().parse(tokens, text)
    except SqlglotError as error:
        raise FilterError(f"the filter is not a complete condition: {ALLOWED}") from error
    except RecursionError as error:
        raise FilterError(TOO_DEEP) from error
    if len(trees) != 1 or trees[0] is None:
        raise FilterError("the filter is empty: give one condition, such as vcs > 0.3")
    n_joints = sum(token.token_type in (TokenType.AND, TokenType.COMMA) for token in tokens)
    _check_tree(trees[0], n_joints)
    return condition_of(trees[0], columns)


def names_in(text: str) -> set[str]:
    """The names of columns in a condition, in lower case; none where `parse_filter` would not even find its parts.

    >>> sorted(names_in('VCS > 0.3 and "extra_my year" = 2001'))
    ['extra_my year', 'vcs']
    """
    if len(text) > MAX_LENGTH:
        return set()
    try:
        tokens = Postgres().tokenize(text)
    except SqlglotError:
        return set()
    quoted = {token.text for token in tokens if token.token_type is TokenType.IDENTIFIER}
    # A name may be a word that sqlglot knows, such as text; its token then says so.
    bare = {text[token.start : token.end + 1] for token in tokens}
    return {name.lower() for name in quoted | {name for name in bare if name.isidentifier()}} - WORDS


def _check_text(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise FilterError(f"the filter has {len(text)} characters: {MAX_LENGTH} are allowed")
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in text):
        raise FilterError("the filter holds a character that Postgres cannot store (NUL or a lone surrogate)")


def _check_tokens(text: str, tokens: Sequence[Token], columns: Columns) -> None:
    """Refuse every token that is not of the language, and all but white space between tokens."""
    end = depth = 0
    for index, token in enumerate(tokens):
        _check_gap(text[end : token.start])
        _check_null_test([other.token_type for other in tokens[max(0, index - 2) : index + 1]])
        end = token.end + 1
        source = text[token.start : end]
        depth += (source == "(") - (source == ")")
        if depth > MAX_DEPTH:
            raise FilterError(TOO_DEEP)
        is_call = index + 1 < len(tokens) and tokens[index + 1].token_type is TokenType.L_PAREN
        _check_token(token, source, is_call, columns)
    _check_gap(text[end:])


def _check_null_test(last: Sequence[TokenType]) -> None:
    """Refuse spellings of `is not null` that only sqlglot accepts; `last` holds a token and the two before it."""
    if last[-2:] == [TokenType.NOT, TokenType.IS]:
        raise FilterError("'not is' is not allowed in a filter: write is not null")
    if last[-2:] == [TokenType.NOT, TokenType.NULL] and last[:-2] != [TokenType.IS]:
        raise FilterError("'not null' needs an 'is' before it: write is not null")


def _check_gap(gap: str) -> None:
    # The tokenizer drops comments, so a comment shows only as text that no token covers.
    rest = gap.strip(" \t\n\r\f\v")
    if rest.isspace():
        raise FilterError(f"the space {rest[0]!r} is not allowed in a filter: write a plain one")
    if rest:
        raise FilterError(f"a comment is not allowed in a filter: {rest[:40]!r}")


def _check_token(token: Token, source: str, is_call: bool, columns: Columns) -> None:
    is_literal = token.token_type in (TokenType.STRING, TokenType.NUMBER)
    if is_literal or source in SYMBOLS or source.lower() in WORDS:
        return
    if token.token_type is TokenType.IDENTIFIER:
        column_of(token.text, columns)
    elif source == ".":
        raise FilterError("a point is only allowed inside a number: write 0.5, and columns without a table")
    elif not source.isidentifier():
        raise FilterError(f"{source[:40]!r} is not allowed in a filter: {ALLOWED}")
    elif is_call:
        raise FilterError(f"the function {source[:40]!r} is not allowed in a filter: {ALLOWED}")
    else:
        column_of(source, columns)


def _check_tree(tree: exp.Expr, n_joints: int) -> None:
    """Refuse nodes that are not of the language, and deep trees, where a chain of `and` or `or` is one level.

    sqlglot is laxer than Postgres (`between 1 2`, `in (, 1)`): so all `n_joints` of the text, its words `and`
    and its commas, must have their place in the tree.
    """
    stack = [(tree, 0)]
    while stack:
        node, depth = stack.pop()
        unexpected = {name for name, part in node.args.items() if part} - NODES.get(type(node), frozenset())
        if type(node) not in NODES or unexpected:
            form = "this form of" if type(node) in NODES else "the SQL construct"
            raise FilterError(f"{form} {type(node).__name__!r} is not allowed in a filter: {ALLOWED}")
        if depth > 2 * MAX_DEPTH:  # a parenthesis and what it holds are two nodes
            raise FilterError(TOO_DEEP)
        if isinstance(node, (exp.And, exp.Between)):
            n_joints -= 1
        elif isinstance(node, exp.In):
            n_joints -= max(0, len(node.expressions) - 1)
        for child in node.iter_expressions():
            is_chain = isinstance(node, exp.Connector) and type(child) is type(node)
            stack.append((child, depth if is_chain else depth + 1))
    if n_joints:
        raise FilterError("an 'and' or a comma is missing or misplaced: write between 1 and 2, in (1, 2)")
