"""The files of a model on this machine: where they lie, which are missing, and how big they are."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from metrics_core.models.revision import (
    ModelNotFound,
    build_cache_path,
    is_hub_reachable,
    list_hub_ids,
    read_cached_commit,
    split_model_name,
)

# The name in place of a commit that this machine does not know.
UNKNOWN_COMMIT = "COMMIT"
# Of the files in which a tokenizer may be kept, one is enough.
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "spm.model", "sentencepiece.bpe.model", "tokenizer.model")
# Modules of sentence-transformers that have a configuration besides the transformer.
_CONFIGURED = ("Pooling", "Dense", "WeightedLayerPooling")


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The files of one model on this machine. folder: where they are or belong; for a checkpoint, the file itself.
    missing: files that are not there, below the folder. n_bytes: the size of those that are. revision: the hub commit;
    None for a local path or if unknown. other_commits: those that the cache has instead.
    """

    folder: Path
    missing: tuple[str, ...]
    n_bytes: int
    revision: str | None = None
    other_commits: tuple[str, ...] = ()

    @property
    def remedy(self) -> str:
        """Advice for a model that has missing files, as a clause: which files to put into which folder, and which other
        commits the local cache has.
        """
        be = "is commit" if len(self.other_commits) == 1 else "are commits"
        instead = f"; there {be} {', '.join(self.other_commits)} instead" if self.other_commits else ""
        main = (
            f", and the commit into {self.folder.parents[1] / 'refs' / 'main'}"
            if self.folder.name == UNKNOWN_COMMIT
            else ""
        )
        return f"put {', '.join(self.missing)} into {self.folder}{main}{instead}"


def find_model_files(model: str, *, is_sentence_model: bool = False) -> ModelFiles:
    """Return where the files of a transformer lie or belong, which are missing, and their size. Asks no hub. model: a
    local folder, or a hub id with or without "@commit". is_sentence_model: whether sentence-transformers runs it; the
    cache of a hub id must then also have modules.json.
    """
    folder = Path(model).expanduser()
    if folder.exists():
        return ModelFiles(folder, tuple(_list_missing(folder, False)), _measure_bytes(folder))
    files = _find_in_cache(model)
    return replace(files, missing=tuple(_list_missing(files.folder, is_sentence_model)))


def find_folder_files(folder: Path) -> ModelFiles:
    """Return a folder and its size as ModelFiles with no file missing. What a model needs is not checked."""
    return ModelFiles(folder, (), _measure_bytes(folder))


def find_checkpoint_files(architecture: str, checkpoint: str) -> ModelFiles:
    """Return where the files of an open_clip model lie or belong, which are missing, and their size. Asks no hub. A
    checkpoint that is a file counts as complete, and its architecture is not checked. Any other checkpoint must be a
    tag of the architecture, else this raises ModelNotFound.
    """
    path = Path(checkpoint).expanduser()
    if path.is_file():
        return ModelFiles(path, (), path.stat().st_size)
    import open_clip
    from open_clip.constants import HF_SAFE_WEIGHTS_NAME, HF_WEIGHTS_NAME

    from metrics_core.models.clip_loading import check_clip_exists

    check_clip_exists(architecture, checkpoint)
    known = open_clip.get_pretrained_cfg(architecture, checkpoint)
    if not known.get("hf_hub"):
        path = Path("~/.cache/clip").expanduser() / Path(known["url"]).name
        return ModelFiles(path.parent, () if path.is_file() else (path.name,), _measure_bytes(path))
    name, _, file = known["hf_hub"].rpartition("/")
    cached, weights = _find_in_cache(name), [file] if file else [HF_SAFE_WEIGHTS_NAME, HF_WEIGHTS_NAME]
    missing = [] if any((cached.folder / weight).is_file() for weight in weights) else weights[:1]
    return replace(cached, missing=(*missing, *_list_missing_tokenizer(open_clip.get_model_config(architecture))))


def check_model_files(model: str, *, is_sentence_model: bool = False) -> None:
    """Raise ModelNotFound where the local cache lacks files of a hub id and the model hub cannot be reached. A local
    path is not checked. is_sentence_model: whether the cache must also have modules.json. The hub is asked only if
    files are missing, see `is_hub_reachable`.
    """
    if Path(model).expanduser().exists():
        return
    files = find_model_files(model, is_sentence_model=is_sentence_model)
    if files.missing and not is_hub_reachable():
        raise ModelNotFound(
            f"model {model} is not complete here, and no model hub answers: {files.remedy}; "
            "`reelsieve doctor --models` lists all missing files"
        )


def _find_in_cache(model: str) -> ModelFiles:
    """Find the cache's folder and commit of a hub id. Which files are missing is not checked."""
    name, commit = split_model_name(model)
    names = list_hub_ids(name)
    name = next((hub_id for hub_id in names if build_cache_path(hub_id).is_dir()), names[0])
    commit = commit or read_cached_commit(name)
    snapshots = build_cache_path(name) / "snapshots"
    folder = snapshots / (commit or UNKNOWN_COMMIT)
    others = (
        ()
        if folder.is_dir() or not snapshots.is_dir()
        else tuple(sorted(snapshot.name for snapshot in snapshots.iterdir()))
    )
    return ModelFiles(folder, (), _measure_bytes(folder), commit, others)


def _list_missing(folder: Path, is_sentence_model: bool) -> Iterator[str]:
    modules = folder / "modules.json"
    if not modules.is_file():
        # Without it sentence-transformers would make other vectors, and say so in a warning only.
        if is_sentence_model:
            yield modules.name
        yield from _list_missing_of_transformer(folder, "")
        return
    for module in json.loads(modules.read_text(encoding="utf-8")):
        module_type, place = module["type"].rpartition(".")[2], f"{module['path']}/" if module["path"] else ""
        if module_type == "Transformer":
            yield from _list_missing_of_transformer(folder, place)
        elif module_type in _CONFIGURED and not (folder / f"{place}config.json").is_file():
            yield f"{place}config.json"


def _list_missing_of_transformer(folder: Path, place: str) -> Iterator[str]:
    if not (folder / f"{place}config.json").is_file():
        yield f"{place}config.json"
    # It may lie next to the modules, where the transformer's own folder has no tokenizer.
    if not any((folder / at / name).is_file() for at in {place, ""} for name in _TOKENIZERS):
        yield f"{place}{_TOKENIZERS[0]}"
    index, weights = folder / f"{place}model.safetensors.index.json", ["model.safetensors"]
    if index.is_file():
        weights = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    yield from (f"{place}{name}" for name in weights if not (folder / place / name).is_file())


def _list_missing_tokenizer(architecture: dict[str, dict[str, str]]) -> Iterator[str]:
    """Yield the missing tokenizer file of an architecture that takes its tokenizer from a model of the hub."""
    name = architecture["text_cfg"].get("hf_tokenizer_name")
    if name and not any((_find_in_cache(name).folder / file).is_file() for file in _TOKENIZERS):
        yield f"{_TOKENIZERS[0]} of {name}"


def _measure_bytes(place: Path) -> int:
    """Return the bytes of a file, or of all files below a folder except code; 0 for neither. Links count as their
    targets.
    """
    if place.is_file():
        return place.stat().st_size
    paths = (Path(at) / name for at, _, names in os.walk(place) for name in names)
    return sum(path.stat().st_size for path in paths if path.is_file() and path.suffix not in {".py", ".pyc"})
