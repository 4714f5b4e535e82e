"""Settings of this installation: from the environment, and behind it from one file `reelsieve.toml` with profiles."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Iterable
from functools import lru_cache

from assets.models.settings import DEVICE
from assets.scores.registry import BROKEN
from assets.settings import PREFIX, SettingsError, give, read_settings, variable_of
from db.spelling import did_you_mean
from orchestration.settings.files import read_values_of_files
from orchestration.settings.groups import Settings, fields, groups

# Variables that no class of settings has: of a machine's pool of models, Dagster's files, tests and benchmarks.
_OTHERS = (
    *(DEVICE, "REELSIEVE_DAGSTER_DIR"),
    *("REELSIEVE_TEST_DATA", "REELSIEVE_REQUIRE_ALL", "REELSIEVE_RENEW_GRAPH", "REELSIEVE_CHAT_SERVER_PYTHON"),
)
# How like PREFIX the first word of a variable is that is taken for a misspelt one of ours.
_LIKENESS = 0.8


@lru_cache(maxsize=1)
def settings() -> Settings:
    """The settings of the installation and of every metric, read once per process.

    Values of the settings file become variables of this process and of those that it starts. Raises SettingsError for a
    value that cannot be used and for a name that nothing reads. Warns of the broken metrics of installed packages.
    """
    _warn_of_broken()
    give(read_values_of_files())
    everything, *others = groups()
    found = read_settings(everything)
    for group in others:
        read_settings(group)
    known = known_variables(found)
    unread = [_unread(name, known) for name in _of_ours(os.environ) if name.upper() not in known]
    # They may be settings of a broken metric, which nobody can ask for its own.
    if unread and not BROKEN:
        raise SettingsError("; ".join(unread))
    return found


def _warn_of_broken() -> None:
    if BROKEN:
        # Imported late: it imports Dagster, and most commands have nothing to warn of.
        from orchestration.terminal import warn_of_broken

        warn_of_broken(BROKEN)


def known_variables(found: Settings) -> set[str]:
    """Every variable of ours that something reads. found: the settings, which name the variables that hold keys."""
    keys = {str(key).upper() for name, key in found if name.endswith("_key_variable")}
    return {*map(variable_of, fields()), *_OTHERS, *keys}


def _of_ours(names: Iterable[str]) -> list[str]:
    """The variables that begin with our prefix, or with a word so like it that it must be misspelt."""
    return [
        name
        for name in names
        if name[:4].upper() == PREFIX[:4]
        and difflib.SequenceMatcher(None, f"{name.upper().partition('_')[0]}_", PREFIX).ratio() >= _LIKENESS
    ]


def _unread(name: str, known: Collection[str]) -> str:
    """What is wrong with a variable that nothing reads. Its value is not quoted: it may be a secret."""
    # All begin alike: what follows tells them apart.
    meant = {variable.removeprefix(PREFIX): variable for variable in (*known, "CURATION_DB_URL")}
    said = did_you_mean(name.partition("_")[2], meant)
    hint = f", did you mean {meant[said]}?" if said else ": unset it, or correct its name"
    return f"environment variable {name} is not read by anything{hint}"
