"""What `reelsieve selections show` prints is a file that makes the selection again, whatever stands in its recipe."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from assets.selection.recipe_file import read_recipe
from assets.words.text import escape_controls
from db.selection.recipes import parse_recipe
from orchestration.cli.selections import format_recipe_file

# Words of any length, with all that YAML, a terminal and a console could take for something else.
WORDS = st.lists(st.text(alphabet="ab'\":#-,%é犬[]{}&*!|> \t\n\r_😀\x07\x85\u2028\u202e", max_size=60), max_size=6)
TEXTS = st.tuples(WORDS, st.sampled_from([" ", "  ", "x" * 90])).map(lambda said: said[1].join(said[0]))
CUT = {"objective": "good overall", "at_least": 0.1 + 0.2, "low": 0.25, "high": 0.5, "n": 12_345, "n_kept": 17}


@given(TEXTS, TEXTS, st.floats(1e-6, 1e6), st.floats(allow_nan=False, allow_infinity=False), TEXTS)
def test_a_shown_recipe_is_read_back_unchanged(
    where: str, stratum: str, weight: float, least: float, model: str
) -> None:
    said: dict[str, Any] = {
        "by": {"vcs": weight, "ecs": 1},
        "where": where,
        "at_least": {"ecs": least, "vcs": "good overall"},
        "kind": "all",
        "per": f"extra_{stratum}",
        "quotas": {stratum: 3, "*": 1},
    }
    encoder = {"model_id": f"a-company/with-a-long-name/{model}", "revision": "0" * 40}
    spec = parse_recipe(said).spec() | {"cuts": {"vcs": CUT}, "encoder": encoder}
    counts = {
        "n": 5,
        "n_eligible": 9,
        "n_tied": 2,
        "n_tied_left": 1,
        "n_duplicates": 0,
        "unjudged": {"ecs": {"unscored": 3}},
    }
    shown = format_recipe_file({"selection_id": 7, "score_hash": "f" * 64, "spec": spec, **counts})
    assert escape_controls(shown) == shown, "a terminal obeys nothing of it"
    with TemporaryDirectory() as folder:
        path = Path(folder) / "again.yaml"
        path.write_text(shown, encoding="utf-8")
        assert read_recipe(path) == parse_recipe(said | {"at_least": {"ecs": least, "vcs": 0.1 + 0.2}})
