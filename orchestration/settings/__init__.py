"""Settings of this installation: from the environment, then from the settings file with profiles, then defaults."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Iterable
from functools import lru_cache

from assets.home.settings import (
    PREFIX,
    NamedModel,
    SettingsError,
    apply_settings_file,
    format_variable_name,
    read_settings,
)
from assets.metrics.registry import BROKEN_METRICS
from assets.models.settings import DEVICE_VARIABLE
from db.spelling import find_similar_name
from metrics_core.child_processes import STARTED_IN
from orchestration.settings.files import CONFIG_VARIABLE, read_settings_values
from orchestration.settings.groups import Settings, list_setting_fields, list_settings_groups

# Variables that no class of settings has: of the settings file, a machine's pool of models, Dagster's files, tests and
# benchmarks.
_OTHERS = (
    *(CONFIG_VARIABLE, DEVICE_VARIABLE, "REELSIEVE_DAGSTER_DIR", STARTED_IN),
    *("REELSIEVE_TEST_DATA", "REELSIEVE_REQUIRE_ALL", "REELSIEVE_RENEW_GOLDEN"),
)
# How similar to PREFIX the first word of a variable is that counts as a misspelt one of ours.
_LIKENESS = 0.8


@lru_cache(maxsize=1)
def get_settings() -> Settings:
    """Return the settings of the installation and of every metric as one object, read once per process from the
    environment and the settings file. Values of the file become environment variables of this process. Raises
    SettingsError for a value that cannot be used and for a variable that nothing reads. Warns of broken metrics of
    installed packages.
    """
    _warn_of_broken()
    if not os.environ.get(format_variable_name("home"), "unset"):
        # An empty path would mean the current folder.
        del os.environ[format_variable_name("home")]
    apply_settings_file(read_settings_values())
    everything, *others = list_settings_groups()
    settings = read_settings(everything)
    for group in others:
        read_settings(group)
    known = list_known_variables(settings)
    unread = [_explain_unread(name, known) for name in _list_own_variables(os.environ) if name.upper() not in known]
    # They may be settings of a broken metric, whose settings are unknown.
    if unread and not BROKEN_METRICS:
        raise SettingsError("; ".join(unread))
    return settings


def _warn_of_broken() -> None:
    if BROKEN_METRICS:
        # Imported late: it imports Dagster, and most commands have nothing to warn of.
        from orchestration.terminal import warn_of_broken_metrics

        warn_of_broken_metrics(BROKEN_METRICS)


def list_known_variables(settings: Settings) -> set[str]:
    """Return the names of the environment variables of all settings, and of the few others that begin with REELSIEVE_.
    Includes the variables that these settings name as holders of keys.
    """
    keys = {served.key_variable.upper() for _, served in settings if isinstance(served, NamedModel)}
    return {*map(format_variable_name, list_setting_fields()), *_OTHERS, *keys}


def _list_own_variables(names: Iterable[str]) -> list[str]:
    """Return the variables that begin with our prefix, or with a word so similar that it must be misspelt."""
    return [
        name
        for name in names
        if name[:4].upper() == PREFIX[:4]
        and difflib.SequenceMatcher(None, f"{name.upper().partition('_')[0]}_", PREFIX).ratio() >= _LIKENESS
    ]


def _explain_unread(name: str, known: Collection[str]) -> str:
    """Return what is wrong with a variable that nothing reads. Its value is not quoted: it may be a secret."""
    # All have the same prefix: only the rest of the name is compared.
    meant = {variable.removeprefix(PREFIX): variable for variable in (*known, "CURATION_DB_URL")}
    text = name.partition("_")[2].upper()
    # A role for the variable of its model, a key instead of its variable, and the other way round for an encoder.
    near = (f"{text}_MODEL", f"{text}_VARIABLE", text.removesuffix("_MODEL"))
    similar = next((variable for variable in near if variable in meant), None) or find_similar_name(text, meant)
    hint = f"did you mean {meant[similar]}?" if similar else "unset it, or correct its name"
    return f"environment variable {name} is not a setting: {hint}"
