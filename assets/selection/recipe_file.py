"""Reads recipes from YAML files, without anchors, aliases, tags, merge keys and repeated names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from assets.ingest.files import open_regular
from db.selection.recipes import Recipe, SelectionError, parse_recipe

_MOST_BYTES = 1_000_000


def read_recipe(path: Path) -> Recipe:
    """Read a recipe from a YAML file of at most 1 MB. Raises SelectionError, in one sentence that names the file, where
    it cannot be read, is not plain YAML or is no valid recipe. Anchors, aliases, tags, merge keys and repeated names
    are refused.
    """
    try:
        with open_regular(path) as file:
            text = file.read(_MOST_BYTES + 1)
    except OSError as error:
        why = str(error.strerror).partition(":")[0]
        raise SelectionError(f"{path}: the recipe cannot be read ({why}): give another file") from error
    if len(text) > _MOST_BYTES:
        raise SelectionError(
            f"{path}: too large for a recipe, which has at most {_MOST_BYTES:,} bytes: give another file"
        )
    try:
        content: Any = yaml.load(text, Loader=_PlainLoader)
        return parse_recipe(content)
    except SelectionError as error:
        raise SelectionError(f"{path}: {error}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        raise SelectionError(f"{path}{place}: the recipe is not YAML: write lines such as by: vcs") from error


class _PlainLoader(yaml.SafeLoader):
    """A YAML loader that refuses tags, whose values may be anything, and aliases, which may expand to millions of
    values.

    It also refuses a name that a mapping has twice, of which PyYAML takes the last one though YAML does not allow it,
    and merge keys, `<<`, which may hide further names.
    """

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        sign = next((kind for kind in ("tag", "anchor") if getattr(event, kind, None)), None)
        if sign:
            raise SelectionError(
                f"line {event.start_mark.line + 1}: a recipe may have no anchors, aliases or tags: write the value out"
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: set[str] = set()
        for key, _ in node.value:
            name = str(key.value)
            if key.tag == "tag:yaml.org,2002:merge":
                raise SelectionError(
                    f"line {key.start_mark.line + 1}: a recipe may have no merge keys (<<): write the values out"
                )
            if name in seen:
                raise SelectionError(f"line {key.start_mark.line + 1}: {name[:40]!r} is given twice: remove one")
            seen.add(name)
        return super().construct_mapping(node, deep)
