"""Check names and sentences for words that strangers stumble over: `python -m tests.wording [FOLDER ...]`.

It reads the product and the documentation that git tracks, and prints every place with a better word. `make lint` and
the pre-commit hook run it.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).resolve().parents[1]
ROOMS = ("metrics_core", "db", "assets", "orchestration", "demo", "reelsieve")
PROSE = (".md", ".html", ".txt", ".sql")
# A frozen migration never changes, a record of training and the tables of the papers are made by programs.
LEFT_OUT = ("db/migrations/", "demo/encoder/", "demo/dataset/", "metrics_core/ecs/verifier/RECORD.md", "docs/papers.md")

# Lines of docstrings are indented by up to eight spaces.
_AT = "".join(rf"(?<!at{end})" for end in (" ", r"\n", *(rf"\n {{{n}}}" for n in (2, 4, 6, 8, 12))))

# What a reader stumbles over, and what to write instead. Words of an option or an identifier do not count.
PHRASES = {
    r"dear(?:er|est)?": "expensive",
    # Not identifiers in quotes, fields of f-strings and templates, and descriptions of parameters.
    rf"{_AT}(?<![\"{{(=])least(?![\"}}|:=),]| squares| is None)": "lowest, smallest; 'at least' stays",
    r"(?<![\"{(=])greatest(?![\"}|:=),])": "highest, largest",
    r"(?<![\"{(=])alike(?![\"}|=)])": "the same, in the same way, similar",
    r"(?<![\"{(=|])(?<!groups of )pictures?(?![\"}|:=)?]|\.shape)": "frame of a video, image, plot",
    r"(?<!server )of yours": "your",
    r"go(?:es)? on(?! until)": "continue",
    r"asked about": "judged, scored, named",
    r"whoever": "anyone who, or name the person",
    r"wherever": "everywhere that",
    r"beside(?! one rater)": "next to, in addition to, with",
    r"told": "given, shown, named",
    r"tells(?! apart)": "shows, names",
    r"said": "stated, named, shown",
    r"says? nothing": "has no",
    r"stands? (?:in|at|on|under|beside|still|here|there|below|above|first|last|alone)": "is",
    r"rests? (?:up)?on": "needs, is computed from",
    r"(?:the|a|all|no|every) found": "name what was found",
    r"each(?= (?:has|is|was|gets|of (?:them|these|those))\b)": "every one, or each with its noun",
    r"(?:of|to|for|from|by|with|in) each(?=[.,;:)]|$| (?:is|are|has|and|or|in|of|the)\b)": "each with its noun",
    r"(?<!chance )(?<!\bit )(?<!\bthem )alone": "only, by itself",
    r"as far as": "if, where, up to",
    r"likewise": "also, in the same way",
}
# A docstring that begins so is a riddle without its neighbour.
OPENING = re.compile(
    r"(?:The above|That of|Those|What|Whoever|Whatever|Wherever|As (?:of|above)|The same|Of|Its|Likewise|One of|"
    r"The (?:one|rest|others?))\b"
)
# Words of a docstring's first paragraph: what comes back and when nothing does.
MOST_WORDS = 60
PREPOSITIONS = {"of", "in", "on", "at", "by", "for", "with", "beside", "behind", "before", "after", "below"}
PARTICIPLE = re.compile(r"(?!(?:need|feed|read|embed|seed|add|speed|open|shorten)$)[a-z]+(?:ed|en|wn)$")
# Names that metrics of other packages implement or call.
KEPT = {"in_chunks", "of_samples", "wanted"}
# Commands, jobs and steps that keep their names.
COMMANDS = {"drop_dataset", "prune", "prune_job", "prune_runs"}
# Strings of these are prompts, patterns and lists of words: scores depend on them.
WORD_LISTS = {
    "metrics_core/judge/prompt.py",
    "metrics_core/facts/texts.py",
    "metrics_core/keywords.py",
    "metrics_core/qeva/by_chat/requests.py",
    "metrics_core/qeva/offline/rules.py",
    "metrics_core/qeva/replies.py",
}


class Place(NamedTuple):
    """A word or name to replace: file relative to the project, line from 1, and the advice that is printed."""

    file: str
    line: int
    advice: str


def list_tracked_files() -> list[str]:
    """Paths of the product's modules and templates and of the documentation, relative to the project, sorted."""
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [
        file
        for file in tracked
        if not file.startswith(LEFT_OUT)
        and (
            (file.startswith(tuple(f"{room}/" for room in ROOMS)) and file.endswith((".py", *PROSE)))
            or (file.endswith(".md") and ("/" not in file or file.startswith("docs/")))
        )
    ]


def check_prose(file: str, first_line: int, text: str) -> Iterator[Place]:
    """Phrases of a text that a reader stumbles over; its first line has the number `first_line`."""
    for phrase, better in PHRASES.items():
        for match in re.finditer(rf"(?<![\w.`/-]){phrase}(?![\w`(-])", text, flags=re.IGNORECASE | re.MULTILINE):
            line = first_line + text.count("\n", 0, match.start())
            yield Place(file, line, f"'{match[0]}': write {better}")


def read_texts(source: str) -> Iterator[tuple[int, str]]:
    """Line and content of every string and comment of a module, without the lines of examples that run."""
    for token in tokenize.generate_tokens(iter(source.splitlines(keepends=True)).__next__):
        # From Python 3.12 on the text of an f-string comes in pieces of a type of its own.
        if token.type in (tokenize.STRING, tokenize.COMMENT) or tokenize.tok_name[token.type] == "FSTRING_MIDDLE":
            yield token.start[0], re.sub(r"^ *(?:>>>|\.\.\.) .*$", "", token.string, flags=re.MULTILINE)


def check_function_name(name: str) -> str | None:
    """Advice for a function's name that is an adjective or begins or ends with a preposition; None for a good one."""
    words = name.split("_")
    if name in KEPT or name.startswith("_"):
        return None
    if words[0] in {"drop", "remove", "prune", "erase", "purge"} and name not in COMMANDS:
        return f"function {name}: delete_ for rows and files, else say what it does: strip_, exclude_, omit_"
    if len(words) == 1 and PARTICIPLE.match(name):
        return f"function {name}: begin with a verb, as docs/words.md asks"
    if len(words) > 1 and (words[0] in PREPOSITIONS or words[-1] in PREPOSITIONS):
        return f"function {name}: begin with a verb, end with a noun"
    return None


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a decorator makes the function an attribute."""
    return any("property" in ast.dump(decorator) for decorator in node.decorator_list)


def check_summary(docstring: str | None) -> str | None:
    """Advice for a docstring whose first paragraph is too long to be taken in at once; None for a good one or none."""
    n_words = len((docstring or "").split("\n\n")[0].split())
    return f"{n_words} words in the first paragraph: at most {MOST_WORDS}" if n_words > MOST_WORDS else None


def check_module(file: str, source: str) -> Iterator[Place]:
    """Names, docstrings, strings and comments of a module that a reader stumbles over."""
    for line, text in read_texts(source):
        if file not in WORD_LISTS or text.startswith("#"):
            yield from check_prose(file, line, text)
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        line = 1 if isinstance(node, ast.Module) else node.lineno
        opening = OPENING.match(ast.get_docstring(node) or "")
        if opening:
            yield Place(file, line, f"docstring begins with '{opening[0]}': say what it is or returns")
        if advice := check_summary(ast.get_docstring(node)):
            yield Place(file, line, advice)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_property(node):
            advice = check_function_name(node.name)
            if advice:
                yield Place(file, line, advice)


def check_file(file: str) -> list[Place]:
    """Places of a file of the project that a reader stumbles over, by line; none for a good one."""
    text = (PROJECT / file).read_text(encoding="utf-8")
    places = check_module(file, text) if file.endswith(".py") else check_prose(file, 1, text)
    return sorted(places, key=lambda place: place.line)


def main() -> None:
    """Print the places in all files, or in those under the folders named on the command line; exit with 1 for any."""
    under = tuple(sys.argv[1:]) or ("",)
    places = [place for file in list_tracked_files() if file.startswith(under) for place in check_file(file)]
    for place in places:
        print(f"{place.file}:{place.line}: {place.advice}")
    sys.exit(1 if places else 0)


if __name__ == "__main__":
    main()
