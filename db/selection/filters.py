"""The parser behind `reelsieve select --where`: a small language of conditions, turned into bound SQL.

Two allow-lists stand between a user's text and the database: one of tokens, before sqlglot's parser sees
them, and one of nodes in the parsed tree. Nothing of the text itself reaches SQL: names become columns that
the caller handed in, and literals become bound parameters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import Token, TokenType
from sqlglot import expressions as exp
from sqlglot.dialects import Postgres
from sqlglot.errors import SqlglotError

from db.selection.conditions import COMPARISONS, Columns, Condition, FilterError, build_condition, require_column

MAX_LENGTH = 10_000
MAX_DEPTH = 20  # sqlglot needs some 20 Python frames a level: far below the interpreter's limit of 1,000

WORDS = {"and", "or", "not", "between", "in", "is", "null", "like", "ilike", "true", "false"}
# What may stand before a text; the rest of a text without quotes ends at a space, a comma or a parenthesis.
_BEFORE_TEXT = {"=", "!=", "<>", ",", "like", "ilike"}
_WORD = re.compile(r"[\s,()]")
_NAME = r'(?:"[^"]*"|[^\W\d]\w*)'
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
    """Return the SQL expression, with bound literals, for a condition such as `vcs > 0.3 and system != 'brief'`.
    `columns` has by name the SQL columns that the text may use. Raises FilterError for text that is no such condition,
    is too long or too deep, names an unknown column, or compares values of different types.

    The language is SQL's, with SQL's precedence and three-valued logic, cut down to comparisons, `between`, `in` with a
    list of literals, `is [not] null`, `like` and `ilike` with a literal pattern, `and`, `or`, `not` and parentheses.
    Column names are matched without regard to case, quoted or not.

    >>> import sqlalchemy as sa
    >>> columns = {"vcs": sa.column("vcs", sa.Double), "system": sa.column("system", sa.Text)}
    >>> condition = parse_filter("vcs > 0.3 and system != 'brief'", columns)
    >>> print(condition)
    vcs > :param_1 AND system != :param_2
    >>> condition.compile().params
    {'param_1': 0.3, 'param_2': 'brief'}
    >>> parse_filter("vsc > 0.3", columns)
    Traceback (most recent call last):
    db.selection.conditions.FilterError: unknown name 'vsc', did you mean 'vcs'? The columns are: system, vcs
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
    return build_condition(trees[0], columns)


def list_column_names(text: str) -> set[str]:
    """Return the names of columns in a condition, in lower case. Names are not checked, so any other word of a text
    that is no condition is returned too. Empty for a text that is too long or that the SQL tokenizer refuses.

    >>> sorted(list_column_names('VCS > 0.3 and "extra_my year" = 2001'))
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
        raise FilterError(f"the filter has {len(text):,} characters, more than {MAX_LENGTH:,}: shorten it")
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in text):
        raise FilterError(
            "the filter holds a character that Postgres cannot store (NUL or a lone surrogate): remove it"
        )


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
        before = text[tokens[index - 1].start : token.start].strip().lower() if index else ""
        if source == ".":
            _refuse_point(text[: token.start], text[end:])
        is_value = before in _BEFORE_TEXT or (before == "(" and tokens[index - 2].text.lower() == "in")
        _check_token(token, source, is_call, columns, _WORD.split(text[token.start :])[0] if is_value else None)
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
        raise FilterError(f"a comment is not allowed in a filter: remove {rest[:40]!r}")


def _refuse_point(before: str, after: str) -> None:
    """Refuse a point that is no part of a number. before, after: the text of the filter around it."""
    table, column = re.search(f"{_NAME}$", before), re.match(_NAME, after)
    if table and column:
        raise FilterError(
            f"a column has no table in a filter: write {column[0][:40]}, not {table[0][:40]}.{column[0][:40]}"
        )
    if (digits := re.match(r"\d+", after)) and not re.search(r"[\w\".]$", before):
        raise FilterError(f"a number needs a digit before its point: write 0.{digits[0][:40]}")
    raise FilterError("a point is only allowed inside a number, such as 0.5: remove it")


def _check_token(token: Token, source: str, is_call: bool, columns: Columns, value: str | None) -> None:
    """Refuse a token that is not of the language. value: the text from it on to the next space, where a literal may
    be; None elsewhere.
    """
    is_literal = token.token_type in (TokenType.STRING, TokenType.NUMBER)
    if is_literal or source in SYMBOLS or source.lower() in WORDS:
        return
    if token.token_type is TokenType.IDENTIFIER:
        require_column(token.text, columns, None if value is None else token.text)
    elif not source.isidentifier():
        raise FilterError(f"{source[:40]!r} is not allowed in a filter: {ALLOWED}")
    elif is_call:
        raise FilterError(f"the function {source[:40]!r} is not allowed in a filter: {ALLOWED}")
    else:
        require_column(source, columns, value)


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
