"""The metrics of installed packages: a broken one is named with its reason, and all others are loaded."""

from __future__ import annotations

import itertools
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from assets.metrics.installed import ENTRY_POINTS, InstalledMetrics, import_installed_metrics
from assets.metrics.vcs.scorer import VCSScorer, VCSShortScorer
from tests.outside.letters import LetterScorer
from tests.outside.words import words

GOOD = (("letters", "tests.outside.letters:LetterScorer"), ("words", "tests.outside.words:words"))
NUMBERS = itertools.count()


def load(*named: tuple[str, str]) -> InstalledMetrics:
    return import_installed_metrics(
        [EntryPoint(name, value, ENTRY_POINTS) for name, value in named], [VCSScorer, VCSShortScorer]
    )


def test_good_metrics_are_loaded_in_order() -> None:
    assert load(*GOOD) == ((LetterScorer, words), ())


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import no_such_package", "raises ModuleNotFoundError (No module named 'no_such_package')"),
        ("def broken(:", "raises SyntaxError (invalid syntax"),
        ("raise SystemExit(3)", "raises SystemExit (3)"),
        ("raise ValueError('first\\nsecond')", "raises ValueError (first)"),
        ("class Worse(Exception):\n    def __str__(self): raise self\nraise Worse", "raises Worse"),
        ("other = 1", "raises AttributeError (module"),
        ("broken = 5", "is not a scorer: it lacks metric, code_version, value_range"),
        ("class broken(LetterScorer):\n    score = None", "is not a scorer: its member score is not a method"),
        ("class broken(LetterScorer):\n    metric = 'No Name'", "has metric name 'No Name', which is not at most 40"),
        ("class broken(LetterScorer):\n    metric = 7", "has metric name 7, which is not at most 40"),
        ("class broken(LetterScorer):\n    metric = 'vcs'", "has metric name 'vcs', which another metric has"),
        ("class broken(LetterScorer):\n    metric = 'motion'", "but 'motion' is another column of sample_scores"),
        ("class broken(LetterScorer):\n    metric = 'vcs_models'", "but 'vcs_models' is another column"),
        ("class broken(LetterScorer):\n    metric = 'video'", "but 'video' is another column of sample_scores"),
        ("class broken(LetterScorer):\n    metric = 'chance'", "but 'chance' is another column of sample_scores"),
        ("class broken(LetterScorer):\n    code_version = 2", "has code_version 2, which is not text"),
        ("class broken(LetterScorer):\n    value_range = (1, 0)", "has value_range (1, 0), which is not a pair"),
        ("class broken(LetterScorer):\n    value_range = 1", "has value_range 1, which is not a pair"),
        (
            "class broken(LetterScorer):\n    settings = dict",
            "has settings that are not a subclass of pydantic's BaseModel",
        ),
        (
            "class Needy(BaseModel):\n    my_key: str\nclass broken(LetterScorer):\n    settings = Needy",
            "has the setting my_key without a default, which every command would need",
        ),
        ("class broken(LetterScorer):\n    inputs = ('text',)", "has inputs that are not a list of at least one Input"),
        ("class broken(LetterScorer):\n    inputs = ()", "has inputs that are not a list of at least one Input"),
        (
            "class broken(LetterScorer):\n    inputs = (TEXT, TEXT)",
            "has inputs that cannot be used: two inputs are named 'text': give each its own name",
        ),
        ("class broken(LetterScorer):\n    rests_on = (int,)", "has an item in rests_on that is not a subclass of"),
        ("class broken(LetterScorer):\n    rests_on = 5", "raises TypeError"),
        (
            "class broken(LetterScorer):\n    inputs = (replace(TEXT, tables=('nowhere',)),)",
            "has an input that reads table 'nowhere', which neither Reelsieve nor an installed package has",
        ),
        (
            "class Counts(LetterCounts):\n    asset = 'text_embedding'\n"
            "class broken(LetterScorer):\n    rests_on = (Counts,)",
            "needs a source whose asset 'text_embedding' is also that of another source",
        ),
    ],
)
def test_a_broken_metric_is_named_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, reason: str
) -> None:
    module = f"broken_metric_{next(NUMBERS)}"
    imports = (
        "from dataclasses import replace\nfrom pydantic import BaseModel\nfrom reelsieve.metrics import TEXT\n"
        "from tests.outside.letters import LetterCounts, LetterScorer as Letters\n"
        "class LetterScorer(Letters):\n    metric = 'other_letters'\n"
    )
    (tmp_path / f"{module}.py").write_text(imports + source)
    monkeypatch.syspath_prepend(str(tmp_path))
    scorers, (broken,) = load(GOOD[0], ("bad", f"{module}:broken"), GOOD[1])
    assert scorers == (LetterScorer, words)
    assert (broken.name, broken.package) == ("bad", f"the package of {module}")
    assert reason in broken.reason
    assert "\n" not in broken.remedy
    assert broken.remedy.endswith(f": correct, update or uninstall the package of {module}")


def test_of_two_metrics_with_one_name_the_first_counts() -> None:
    scorers, (broken,) = load(*GOOD, ("again", GOOD[0][1]))
    assert scorers == (LetterScorer, words)
    assert broken.reason == f"{GOOD[0][1]} has metric name 'letters', which another metric has"
