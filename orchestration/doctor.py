"""What this installation needs in order to work, examined one by one."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from orchestration.settings import settings

ENOUGH_DISK_GB = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing examined: whether it is as it should be, and else the remedy."""

    what: str
    ok: bool
    detail: str

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def examine() -> list[Finding]:
    """Every finding, in the order in which a newcomer would mend them."""
    return [_guarded(name, check) for name, check in _CHECKS.items()]


def _guarded(name: str, check: Callable[[], tuple[bool, str]]) -> Finding:
    from orchestration.cli.errors import explain

    try:
        return Finding(name, *check())
    except Exception as error:
        return Finding(name, False, explain(error) or f"{type(error).__name__}: {error}")


def _python() -> tuple[bool, str]:
    version = ".".join(str(part) for part in sys.version_info[:3])
    return (3, 10) <= sys.version_info < (3, 14), f"{version} (3.10 to 3.13 are supported)"


def _packages() -> tuple[bool, str]:
    wanted = [
        "av",
        "dagster_postgres",
        "matplotlib",
        "open_clip",
        "pyarrow",
        "sentence_transformers",
        "sentencex",
        "torch",
    ]
    missing = [name for name in wanted if importlib.util.find_spec(name) is None]
    return not missing, f"not installed: {', '.join(missing)}; run make setup" if missing else "all installed"


def _home() -> tuple[bool, str]:
    home = settings().home_folder
    home.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(home).free / 1e9
    if not os.access(home, os.W_OK):
        return False, f"{home} is not writable: set REELSIEVE_HOME to a folder of yours"
    return free > ENOUGH_DISK_GB, f"{home}, {free:.0f} GB free (at least {ENOUGH_DISK_GB} GB are needed)"


def _database() -> tuple[bool, str]:
    from orchestration.platform import database_url, engine

    with engine().connect() as connection:
        server = connection.exec_driver_sql("SHOW server_version").scalar()
        vector = connection.exec_driver_sql("SELECT extversion FROM pg_extension WHERE extname = 'vector'").scalar()
    kind = "from CURATION_DB_URL" if settings().database else "embedded"
    return vector is not None, f"Postgres {server} ({kind}, database {database_url().database}), pgvector {vector}"


def _reader() -> tuple[bool, str]:
    from db.reader import run_read_only
    from orchestration.platform import database_url

    run_read_only(database_url(), "SELECT count(*) FROM sample_scores")
    return True, "the read-only role behind reelsieve sql answers"


def _text_encoder() -> tuple[bool, str]:
    from metrics_core.models.text_encoder import make_text_encoder

    identity = make_text_encoder(settings().text_encoder).identity
    return True, f"{identity.model_id}, revision {identity.revision[:19]}"


def _verifier() -> tuple[bool, str]:
    from assets.scores.verifiers import make_verifier

    identity = make_verifier(settings().ecs_verifier, settings().ecs_verifier_precision).identity
    return True, f"{identity.model_id}, revision {identity.revision[:19]}"


def _image_text_encoder() -> tuple[bool, str]:
    from assets.scores.image_text import DEMO, make_image_text_encoder

    given = settings()
    encoder = make_image_text_encoder(given.image_text_encoder, given.image_text_checkpoint, given.image_text_precision)
    encoder.check()
    detail = f"{encoder.identity.model_id}, revision {encoder.identity.revision[:19]}, {encoder.dim} dimensions"
    if given.image_text_encoder == DEMO:
        detail += "; it knows the demo's clips alone: for others set REELSIEVE_IMAGE_TEXT_ENCODER and _CHECKPOINT"
    return True, detail


def _splitter() -> tuple[bool, str]:
    from metrics_core.models.sentence_splitter import make_splitter

    identity = make_splitter(settings().sentence_splitter).identity
    return True, f"{identity.model_id} {identity.revision[:19]}"


def _decoders() -> tuple[bool, str]:
    from metrics_core.frames import default_readers

    return True, ", ".join(reader.name for reader in default_readers())


def _device() -> tuple[bool, str]:
    import torch

    return True, "GPU" if torch.cuda.is_available() else "CPU only: fine for small models, slow for large ones"


def _web() -> tuple[bool, str]:
    found = importlib.util.find_spec("dagster_webserver") is not None
    return found, "installed" if found else "not installed: pip install 'reelsieve[ui]'"


_CHECKS: dict[str, Callable[[], tuple[bool, str]]] = {
    "Python": _python,
    "packages": _packages,
    "home folder": _home,
    "database": _database,
    "read-only role": _reader,
    "text encoder": _text_encoder,
    "verifier": _verifier,
    "image-text encoder": _image_text_encoder,
    "sentence splitter": _splitter,
    "video decoders": _decoders,
    "device": _device,
    "web interface": _web,
}
