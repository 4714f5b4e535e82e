"""The files of a model on this machine: which it needs, which are missing, how big they are, where they belong."""

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

# In place of a commit that this machine does not know.
UNKNOWN_COMMIT = "COMMIT"
# Of the files in which a tokenizer may be kept, one is enough.
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "spm.model", "sentencepiece.bpe.model", "tokenizer.model")
# Modules of sentence-transformers that have a configuration besides the transformer.
_CONFIGURED = ("Pooling", "Dense", "WeightedLayerPooling")


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """folder: where the files lie, or belong. revision: a commit; None for a local path, and where none is known.

    n_bytes: of all that lies there. others: commits that the local cache has instead.
    """

    folder: Path
    missing: tuple[str, ...]
    n_bytes: int
    revision: str | None = None
    other_commits: tuple[str, ...] = ()

    @property
    def remedy(self) -> str:
        """Where the missing files belong."""
        instead = f"; there is commit {', '.join(self.other_commits)} instead" if self.other_commits else ""
        main = (
            f", and the commit into {self.folder.parents[1] / 'refs' / 'main'}"
            if self.folder.name == UNKNOWN_COMMIT
            else ""
        )
        return f"put {', '.join(self.missing)} into {self.folder}{main}{instead}"


def find_model_files(model: str, *, is_sentence_model: bool = False) -> ModelFiles:
    """The files of a transformer by local folder or hub id, with or without a commit. Asks no hub.

    of_sentences: whether it is a model of sentence-transformers, which says in modules.json how vectors are made.
    """
    folder = Path(model).expanduser()
    if folder.exists():
        return ModelFiles(folder, tuple(_list_missing(folder, False)), _measure_bytes(folder))
    found = _find_in_cache(model)
    return replace(found, missing=tuple(_list_missing(found.folder, is_sentence_model)))


def find_folder_files(folder: Path) -> ModelFiles:
    """A folder whose files are all there."""
    return ModelFiles(folder, (), _measure_bytes(folder))


def find_checkpoint_files(architecture: str, checkpoint: str) -> ModelFiles:
    """The files of an open_clip model: a checkpoint file, or what a tag of open_clip means. Asks no hub."""
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
    found, wanted = _find_in_cache(name), [file] if file else [HF_SAFE_WEIGHTS_NAME, HF_WEIGHTS_NAME]
    missing = [] if any((found.folder / each).is_file() for each in wanted) else wanted[:1]
    return replace(found, missing=(*missing, *_list_missing_tokenizer(open_clip.get_model_config(architecture))))


def check_model_files(model: str, *, is_sentence_model: bool = False) -> None:
    """Raise ModelNotFound where the local cache lacks files of a hub id and no hub can give them."""
    if Path(model).expanduser().exists():
        return
    found = find_model_files(model, is_sentence_model=is_sentence_model)
    if found.missing and not is_hub_reachable():
        raise ModelNotFound(
            f"model {model} is not complete here, and no model hub answers: {found.remedy}; "
            "`reelsieve doctor --models` lists all that is missing"
        )


def _find_in_cache(model: str) -> ModelFiles:
    """What the cache has of a hub id; which files are missing is left open."""
    name, commit = split_model_name(model)
    names = list_hub_ids(name)
    name = next((each for each in names if build_cache_path(each).is_dir()), names[0])
    commit = commit or read_cached_commit(name)
    snapshots = build_cache_path(name) / "snapshots"
    folder = snapshots / (commit or UNKNOWN_COMMIT)
    others = (
        () if folder.is_dir() or not snapshots.is_dir() else tuple(sorted(each.name for each in snapshots.iterdir()))
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
        kind, place = module["type"].rpartition(".")[2], f"{module['path']}/" if module["path"] else ""
        if kind == "Transformer":
            yield from _list_missing_of_transformer(folder, place)
        elif kind in _CONFIGURED and not (folder / f"{place}config.json").is_file():
            yield f"{place}config.json"


def _list_missing_of_transformer(folder: Path, place: str) -> Iterator[str]:
    if not (folder / f"{place}config.json").is_file():
        yield f"{place}config.json"
    # Beside the modules, where the transformer has a folder of its own and no tokenizer in it.
    if not any((folder / at / name).is_file() for at in {place, ""} for name in _TOKENIZERS):
        yield f"{place}{_TOKENIZERS[0]}"
    index, weights = folder / f"{place}model.safetensors.index.json", ["model.safetensors"]
    if index.is_file():
        weights = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    yield from (f"{place}{name}" for name in weights if not (folder / place / name).is_file())


def _list_missing_tokenizer(architecture: dict[str, dict[str, str]]) -> Iterator[str]:
    """The tokenizer of an architecture that takes it from a model of the hub."""
    name = architecture["text_cfg"].get("hf_tokenizer_name")
    if name and not any((_find_in_cache(name).folder / each).is_file() for each in _TOKENIZERS):
        yield f"{_TOKENIZERS[0]} of {name}"


def _measure_bytes(place: Path) -> int:
    """Bytes of a file, or of all files below a folder but code; links of the cache count as what they point to."""
    if place.is_file():
        return place.stat().st_size
    paths = (Path(at) / name for at, _, names in os.walk(place) for name in names)
    return sum(path.stat().st_size for path in paths if path.is_file() and path.suffix not in {".py", ".pyc"})
