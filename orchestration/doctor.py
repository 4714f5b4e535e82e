"""The checks of `reelsieve doctor`: settings, folders, database, decoders and models that this installation needs."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from assets.home.files import is_open_to_others
from assets.metrics.registry import BROKEN_METRICS
from assets.sources.base import Source
from assets.words.labels import STAND_INS
from metrics_core.models.revision import ModelNotFound
from orchestration.installation import Installation

ENOUGH_DISK_GB = 2
# Written on trial: more than a file system keeps in reserve for small files.
TRIAL_BYTES = 4 << 20
# Texts that Postgres does not compress.
_TRIAL = "CREATE TABLE trial_of_doctor AS SELECT repeat(md5(n::text), 32) AS x FROM generate_series(1, {}) AS n"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check of `reelsieve doctor`. what: the name of the check. ok: whether it passed. detail: what
    was seen, or the fault and its remedy if it failed.
    """

    what: str
    ok: bool
    detail: str

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name: what, ok and detail."""
        return asdict(self)


def run_doctor_checks(installation: Installation) -> list[CheckResult]:
    """Run every check of `reelsieve doctor` and return their results: first the broken metrics, the models last.
    A check that raises an error has failed. Starts the database server, and makes every model do a small piece of work:
    it is loaded, or its server is asked.
    """
    results = [_run_check(name, check) for name, check in _list_checks(installation).items()]
    # Some metrics turn out to be broken when they are made, or when the database is opened.
    broken = [*BROKEN_METRICS, *installation.curation.broken_metrics.values()]
    return [
        CheckResult(f"metric {metric.name} of {metric.package}", False, metric.remedy) for metric in broken
    ] + results


def _list_checks(installation: Installation) -> dict[str, Callable[[], tuple[bool, str]]]:
    """Return the checks by what they check, the models' last."""
    return {
        "Python": _python,
        "packages": _packages,
        "home folder": partial(_home, installation),
        "temporary folder": _temporary,
        "database": partial(_database, installation),
        "read-only role": partial(_reader, installation),
        "sentence splitter": partial(_splitter, installation),
        "video decoders": partial(_decoders, installation),
        "media": partial(_media, installation),
        "device": _device,
        "web interface": _web,
        **_list_model_checks(installation),
    }


def _run_check(name: str, check: Callable[[], tuple[bool, str]]) -> CheckResult:
    from orchestration.cli.errors import report_error

    try:
        return CheckResult(name, *check())
    except Exception as error:
        return CheckResult(name, False, report_error(error).sentence)


def _python() -> tuple[bool, str]:
    version = ".".join(str(part) for part in sys.version_info[:3])
    return (3, 10) <= sys.version_info < (3, 14), f"{version} (3.10 to 3.13 are supported)"


def _packages() -> tuple[bool, str]:
    names = [
        "av",
        "dagster_postgres",
        "open_clip",
        "pyarrow",
        "sentence_transformers",
        "sentencex",
        "torch",
    ]
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    return not missing, f"not installed: {', '.join(missing)}; run make setup" if missing else "all installed"


def _home(installation: Installation) -> tuple[bool, str]:
    home = installation.home
    free = shutil.disk_usage(home).free / 1e9
    if fault := _explain_unwritable(home, "REELSIEVE_HOME"):
        return False, fault
    if is_open_to_others(home):
        quoted = shlex.quote(str(home))
        # As root the server runs as another user, who must be able to enter the folder.
        passage = f" && chmod go+x {quoted}" if os.geteuid() == 0 else ""
        return False, f"other accounts can read {home}: run chmod -R go-rwx {quoted}{passage}"
    return free > ENOUGH_DISK_GB, f"{home}, {free:.0f} GB free (at least {ENOUGH_DISK_GB} GB are needed)"


def _temporary() -> tuple[bool, str]:
    folder = Path(tempfile.gettempdir())
    fault = _explain_unwritable(folder, "TMPDIR")
    return not fault, fault or str(folder)


def _explain_unwritable(folder: Path, variable: str) -> str | None:
    """Return why a folder cannot be written to, with the remedy; None if it can. `variable` names another folder."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(os.urandom(TRIAL_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        return f"{folder} cannot be written to ({why}): make room there, or set {variable} to another folder"
    return None


def _database(installation: Installation) -> tuple[bool, str]:
    with installation.engine.connect() as connection:
        server = connection.exec_driver_sql("SHOW server_version").scalar()
        vector = connection.exec_driver_sql("SELECT extversion FROM pg_extension WHERE extname = 'vector'").scalar()
        # Rolled back when the connection ends. On a full disk this raises the error.
        connection.exec_driver_sql(_TRIAL.format(TRIAL_BYTES >> 10))
    kind = "from CURATION_DB_URL" if installation.settings.database_url else "embedded"
    return (
        vector is not None,
        f"Postgres {server} ({kind}, database {installation.database_url.database}), pgvector {vector or 'missing'}",
    )


def _reader(installation: Installation) -> tuple[bool, str]:
    from db.server.reader import run_read_only

    notes: list[str] = []
    run_read_only(installation.database_url, "SELECT count(*) FROM sample_scores", tell=notes.append)
    return True, notes[0] if notes else "the read-only role behind reelsieve sql answers"


def _list_model_checks(installation: Installation) -> dict[str, Callable[[], tuple[bool, str]]]:
    """Return one check for every model of a metric, by name; the check makes the model do a piece of work."""
    from assets.sources.base import walk_sources

    sources = [source for scorer in installation.curation.scorers.values() for source in walk_sources(scorer.sources)]
    return {_format_source_name(source): partial(_try_source, source) for source in sources}


def _format_source_name(source: Source[Any]) -> str:
    """Return the asset and its model; only the asset if the model is missing, which its check then reports."""
    try:
        return f"{source.asset}: {source.model.model_id}"
    except ModelNotFound:
        return source.asset


def _try_source(source: Source[Any]) -> tuple[bool, str]:
    detail = f"revision {source.model.revision[:19]}, {source.try_out()}"
    remedy = STAND_INS.get(source.model.model_id)
    return True, f"{detail}; {remedy}" if remedy else detail


def _splitter(installation: Installation) -> tuple[bool, str]:
    from assets.models.settings import SplitterSettings

    splitter = SplitterSettings.model_validate(installation.settings, from_attributes=True).make_splitter()
    splitter.split("A dog runs over the lawn.")
    return True, f"{splitter.identity.model_id} {splitter.identity.revision[:19]}"


def _decoders(installation: Installation) -> tuple[bool, str]:
    from assets.models.settings import FrameSettings

    settings = FrameSettings.model_validate(installation.settings, from_attributes=True)
    is_decord = settings.frame_reader == "decord" and importlib.util.find_spec("decord") is not None
    return True, "decord, pyav" if is_decord else "pyav"


def _media(installation: Installation) -> tuple[bool, str]:
    """Check the media roots and the folder of copies. Remote stores are asked only at ingest: it may cost money."""
    from assets.home.settings import read_settings
    from assets.media.settings import MediaSettings

    _ = installation.home  # in somebody else's home no folder is made
    media = read_settings(MediaSettings)
    missing = [name for name, place in media.media_roots.items() if "://" not in place and not Path(place).is_dir()]
    if missing:
        return False, f"media root {missing[0]} is not a folder here: mount it, or correct REELSIEVE_MEDIA_ROOTS"
    media.cache_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if fault := _explain_unwritable(media.cache_folder, "REELSIEVE_MEDIA_CACHE"):
        return False, fault
    roots = ", ".join(media.media_roots) or "none"
    return True, f"media roots: {roots}; copies in {media.cache_folder}, at most {media.media_cache_gb:g} GB"


def _device() -> tuple[bool, str]:
    import torch

    return True, "GPU" if torch.cuda.is_available() else "CPU only: fine for small models, slow for large ones"


def _web() -> tuple[bool, str]:
    is_installed = importlib.util.find_spec("dagster_webserver") is not None
    return is_installed, "installed" if is_installed else "not installed: pip install 'reelsieve[ui]'"
