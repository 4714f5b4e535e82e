"""Turn the syntax tree of a filter into an SQL expression, from the caller's columns and bound literals."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import sqlalchemy as sa
from sqlglot import expressions as exp

from db.scores.sample_scores import format_column_names
from db.spelling import suggest_name

Columns = Mapping[str, sa.ColumnElement[Any]]
Condition = sa.ColumnElement[bool]
# An "untyped" column may be compared with anything, an "other" one (a time, JSON, ...) only with null.
OperandKind = Literal["number", "text", "boolean", "untyped", "other"]

COMPARISONS: dict[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}
PYTHON_KINDS: dict[type, OperandKind] = {
    bool: "boolean",
    int: "number",
    float: "number",
    Decimal: "number",
    str: "text",
}
_QUOTED = {"number", "text"}
NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


class FilterError(ValueError):
    """Raised for a text that is no condition of the filter language; the message is one sentence about what is wrong.
    `brief` is the message without the list of possible column names.
    """

    plain = True

    def __init__(self, brief: str, choice: str = "") -> None:
        super().__init__(brief + choice)
        self.brief = brief


@dataclass(frozen=True)
class Operand:
    """One side of a comparison in a filter: a column, a literal, or minus one of these. It has the SQL expression, the
    kind of its values ("number", "text", "boolean", "untyped" or "other"), and a name for error messages.
    """

    expression: sa.ColumnElement[Any]
    kind: OperandKind
    name: str
    """The operand's name in error messages."""


def build_condition(node: exp.Expr, columns: Columns) -> Condition:
    """Return the SQL condition for a syntax tree that `parse_filter` has checked; `columns` has the SQL columns by
    name. Raises FilterError for an unknown column, for a comparison of values of different types, and for a tree that
    is a value instead of a condition.
    """
    if isinstance(node, exp.Paren):
        return build_condition(node.this, columns)
    if isinstance(node, (exp.And, exp.Or)):
        parts = [build_condition(part, columns) for part in node.flatten(unnest=False)]
        return sa.and_(*parts) if isinstance(node, exp.And) else sa.or_(*parts)
    if isinstance(node, exp.Not):
        return sa.not_(build_condition(node.this, columns))
    if type(node) in COMPARISONS:
        left, right = _build_operand(node.this, columns), _build_operand(node.expression, columns)
        _check_comparable(left, right)
        comparison: Condition = COMPARISONS[type(node)](left.expression, right.expression)
        return comparison
    if type(node) in PREDICATES:
        condition = PREDICATES[type(node)](node, columns)
        return sa.not_(condition) if node.args.get("negate") else condition
    operand = _build_operand(node, columns)
    if operand.kind not in ("boolean", "untyped"):
        raise FilterError(f"{operand.name} is not a condition: compare it with a column or a literal")
    return operand.expression


def _build_between(node: exp.Expr, columns: Columns) -> Condition:
    value, low, high = (_build_operand(node.args[name], columns) for name in ("this", "low", "high"))
    _check_comparable(value, low)
    _check_comparable(value, high)
    return value.expression.between(low.expression, high.expression)


def _build_in(node: exp.Expr, columns: Columns) -> Condition:
    value = _build_operand(node.this, columns)
    if not node.expressions or any(choice.find(exp.Column) for choice in node.expressions):
        raise FilterError("'in' needs a list of literals in parentheses, such as system in ('brief', 'long')")
    choices = [_build_operand(choice, columns) for choice in node.expressions]
    for choice in choices:
        _check_comparable(value, choice)
    return value.expression.in_([choice.expression for choice in choices])


def _build_is_null(node: exp.Expr, columns: Columns) -> Condition:
    if not isinstance(node.expression, exp.Null):
        raise FilterError("'is' may only be followed by null or not null: compare with = instead")
    return _build_operand(node.this, columns).expression.is_(None)


def _build_like(node: exp.Expr, columns: Columns) -> Condition:
    value, pattern = _build_operand(node.this, columns), node.expression
    if value.kind not in ("text", "untyped"):
        raise FilterError(f"like and ilike are for text, and {value.name} is not text: compare it with =, < or >")
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        raise FilterError("like and ilike need a literal pattern, such as system like 'brief%'")
    n_backslashes = len(pattern.name) - len(pattern.name.rstrip("\\"))
    if n_backslashes % 2:
        raise FilterError("a pattern of like or ilike must not end with a single backslash: write two")
    compare = value.expression.ilike if isinstance(node, exp.ILike) else value.expression.like
    return compare(_build_literal(pattern).expression)


PREDICATES: dict[type[exp.Expr], Callable[[exp.Expr, Columns], Condition]] = {
    exp.Between: _build_between,
    exp.In: _build_in,
    exp.Is: _build_is_null,
    exp.Like: _build_like,
    exp.ILike: _build_like,
}


def _build_operand(node: exp.Expr, columns: Columns) -> Operand:
    if isinstance(node, exp.Paren):
        return _build_operand(node.this, columns)
    if isinstance(node, exp.Column):
        return require_column(node.name, columns)
    if isinstance(node, exp.Neg):
        value = _build_operand(node.this, columns)
        if value.kind not in ("number", "untyped"):
            raise FilterError(f"{value.name} cannot follow a minus sign: only a number can")
        return Operand(-value.expression, value.kind, f"minus {value.name}")
    return _build_literal(node)


def require_column(name: str, columns: Columns, text: str | None = None) -> Operand:
    """Return the column of this name with the kind of its values; upper and lower case count as equal. Raises
    FilterError if there is none; the message suggests the most similar name and lists all. text: the condition from the
    name on, where a literal may have been meant, for a message that first shows how to write one.
    """
    by_lower_name = {key.lower(): column for key, column in columns.items()}
    column = by_lower_name.get(name.lower())
    if column is None:
        hint = suggest_name(name, columns, ".")
        if text is not None:
            hint = f": a text needs single quotes, as in '{text[:40]}'{hint if hint == '.' else f'; or{hint[1:]}'}"
        raise FilterError(f"unknown name {name[:40]!r}{hint}", f" The columns are: {format_column_names(columns)}")
    is_typed = not isinstance(column.type, sa.types.NullType)
    kind = PYTHON_KINDS.get(column.type.python_type, "other") if is_typed else "untyped"
    adjective = f"{kind} " if kind in PYTHON_KINDS.values() else ""
    return Operand(column, kind, f"the {adjective}column {name!r}")


def _build_literal(node: exp.Expr) -> Operand:
    if isinstance(node, exp.Literal) and node.is_string:
        return Operand(sa.literal(node.name, sa.Text), "text", f"the text {node.name[:40]!r}")
    if isinstance(node, exp.Literal):
        return Operand(sa.literal(_parse_number(node.name)), "number", f"the number {node.name}")
    if isinstance(node, exp.Boolean):
        return Operand(sa.literal(bool(node.this), sa.Boolean), "boolean", f"the value {node.this}")
    if isinstance(node, exp.Null):
        raise FilterError("a comparison with null is never true: write is null or is not null")
    raise FilterError("a condition cannot be compared like a column or a literal: join conditions by and, or, not")


def _parse_number(text: str) -> int | float:
    if not NUMBER.fullmatch(text):
        raise FilterError(f"{text[:40]!r} is not a number: write it like 12, 0.3 or 1e-3")
    if text.isdecimal() and len(text) < 19:  # more digits may not fit a bigint
        return int(text)
    if math.isinf(float(text)):
        raise FilterError(f"the number {text[:40]} is too large: write one below 1e308")
    return float(text)


def _check_comparable(left: Operand, right: Operand) -> None:
    for side in (left, right):
        if side.kind == "other":
            raise FilterError(
                f"{side.name} is not a number, text or boolean: only is null and is not null can follow it"
            )
    if left.kind != right.kind and "untyped" not in (left.kind, right.kind):
        hint = ": write a text in single quotes, and a number in none" if {left.kind, right.kind} == _QUOTED else ""
        raise FilterError(f"{left.name} cannot be compared with {right.name}{hint}")
