"""Load open_clip models: configuration, weights, adapters, tokenizer and image transform.

Two files may lie next to a JSON configuration NAME.json: NAME.vocab.json lists words for the WordTokenizer, which then
replaces CLIP's tokenizer; NAME.preprocess.json sets fields of open_clip's PreprocessCfg such as resize_mode.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metrics_core.frames.fit import PictureFit
from metrics_core.models.clip_fit import build_fit
from metrics_core.models.errors import CheckpointMismatch
from metrics_core.models.precision import choose_precision, find_torch_dtype
from metrics_core.models.revision import ModelNotFound, is_hub_reachable
from metrics_core.models.word_tokenizer import WordTokenizer

_ADAPTER = re.compile(r"(?P<target>.+)\.lora_(?P<half>[AB])(\.weight)?$")
_FILE_ENDINGS = {"vocabulary": "vocab", "preprocess": "preprocess"}


@dataclass(frozen=True)
class LoadedClip:
    """An open_clip model ready for inference, with its tokenizer and its image transform. fit: the resizing and
    cropping of that transform. device, dtype: where the model is and the torch number type that it computes in.
    """

    model: Any
    tokenizer: Any
    transform: Any
    fit: PictureFit
    device: Any
    dtype: Any


def make_clip(architecture: str, checkpoint: str, precision: str) -> LoadedClip:
    """Load an open_clip model, onto a GPU where there is one, with its tokenizer and image transform. architecture: a
    name of open_clip or the path of a JSON configuration. checkpoint: a file of weights, or a tag to download.
    precision: for a GPU only. Raises CheckpointMismatch where files do not fit, ModelNotFound for an unknown
    architecture or checkpoint.
    """
    import open_clip
    import torch
    from open_clip.model import get_model_preprocess_cfg
    from open_clip.transform import PreprocessCfg, image_transform_v2

    name = _register_architecture(architecture)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = find_torch_dtype(choose_precision(precision))
    check_clip_exists(architecture, checkpoint)
    file = Path(checkpoint).expanduser()
    if file.is_file():
        with _hide_warning("No pretrained weights loaded"):
            model = open_clip.create_model(name, pretrained=None, load_weights=False)
        _load_weights(model, file)
    else:
        _download_weights(name, checkpoint)
        model = open_clip.create_model(name, pretrained=checkpoint)
    model = model.to(device=device, dtype=dtype).eval().requires_grad_(False)
    preprocess = PreprocessCfg(**(get_model_preprocess_cfg(model) | _read_own_preprocess(architecture)))
    transform = image_transform_v2(preprocess, is_train=False)
    return LoadedClip(model, make_tokenizer(architecture), transform, build_fit(preprocess), device, dtype)


def _download_weights(name: str, tag: str) -> None:
    """Download the weights of a tag into the local cache, unless they are there. Raises ModelNotFound on failure."""
    import open_clip

    answers = is_hub_reachable()
    try:
        open_clip.download_pretrained(open_clip.get_pretrained_cfg(name, tag))
    except OSError as error:
        why = f"cannot be downloaded ({error})" if answers else "the model hub does not answer"
        raise ModelNotFound(
            f"the weights {tag!r} of {name} are not in the local cache, and {why}: bring them there, or name a file"
        ) from error


def read_embedding_size(architecture: str) -> int:
    """Return the number of components of an architecture's features, read from its configuration without loading
    weights. architecture: a name of open_clip, or the path of a JSON configuration, which is registered with open_clip.
    Raises ModelNotFound for another one, CheckpointMismatch for a file that is not JSON.
    """
    import open_clip

    return int(open_clip.get_model_config(_register_architecture(architecture))["embed_dim"])


def check_clip_exists(architecture: str, checkpoint: str) -> None:
    """Raise ModelNotFound unless the architecture is a name of open_clip or a JSON file, and the checkpoint a file or
    one of the architecture's tags. No weights are loaded. A JSON file is registered with open_clip; one that is not
    JSON raises CheckpointMismatch.
    """
    import open_clip

    name = _register_architecture(architecture)
    tags = open_clip.list_pretrained_tags_by_model(name)
    if Path(checkpoint).expanduser().is_file() or checkpoint in tags:
        return
    remedy = f"name one of {', '.join(tags)}, or a file" if tags else "name a file"
    raise ModelNotFound(
        f"checkpoint {checkpoint!r} is neither a file nor a tag that open_clip knows for {name}: {remedy}"
    )


def make_tokenizer(architecture: str) -> Any:
    """Make an architecture's tokenizer, without weights. It is a WordTokenizer if a vocabulary file lies next to the
    architecture's JSON configuration. A tokenizer of the hub may be downloaded. Raises CheckpointMismatch where the
    vocabulary does not fit the configuration, ModelNotFound for an unknown architecture.
    """
    files = list_configuration_files(architecture)
    if "vocabulary" in files:
        return _make_word_tokenizer(**files)
    import open_clip

    name = _register_architecture(architecture)
    if "hf_tokenizer_name" in open_clip.get_model_config(name)["text_cfg"]:
        is_hub_reachable()
    return open_clip.get_tokenizer(name)


def _make_word_tokenizer(configuration: Path, vocabulary: Path, **_: Path) -> WordTokenizer:
    """Make the tokenizer of a model with a vocabulary file. open_clip, whose import takes seconds, is not needed for
    it.
    """
    text = _read_configuration(configuration)["text_cfg"]
    tokenizer = WordTokenizer.read_vocabulary(vocabulary, text["context_length"])
    if tokenizer.vocab_size != text["vocab_size"]:
        raise CheckpointMismatch(
            f"{vocabulary.name} has {tokenizer.vocab_size:,} tokens, the four special ones included, but vocab_size of "
            f"{configuration} is {text['vocab_size']}: use the vocabulary that the model was trained with"
        )
    return tokenizer


def _read_configuration(file: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except ValueError as error:
        raise CheckpointMismatch(f"{file} is not JSON ({error}): correct it, or name another file") from error


def list_configuration_files(architecture: str) -> dict[str, Path]:
    """Return the existing files of an architecture that is the path of a JSON configuration, as {kind: path}.
    "configuration" is always there; "vocabulary" and "preprocess" are if such a file lies next to it. {} for an
    architecture that is a name of open_clip or names no file.
    """
    path = Path(architecture).expanduser()
    if path.suffix != ".json" or not path.is_file():
        return {}
    companions = {kind: path.with_suffix(f".{ending}.json") for kind, ending in _FILE_ENDINGS.items()}
    return {"configuration": path} | {kind: file for kind, file in companions.items() if file.is_file()}


def merge_adapters(state: dict[str, Any], scale: float = 1.0) -> dict[str, Any]:
    """Return a checkpoint's weights by name, with its low-rank adapters added and their own entries left out. An
    adapter has two matrices A and B; its weight W becomes W + scale * B @ A. state: all tensors by name. Raises
    CheckpointMismatch for an adapter without a weight, or with only one of A and B.
    """
    halves: dict[str, dict[str, Any]] = {}
    merged = {}
    for key, value in state.items():
        if adapter := _ADAPTER.match(key):
            halves.setdefault(adapter["target"], {})[adapter["half"]] = value
        else:
            merged[key] = value
    for target, pair in halves.items():
        key = target if target in merged else f"{target}.weight"
        if len(pair) < 2:
            raise CheckpointMismatch(f"the adapter of {target} has only matrix {min(pair)}: give a file with A and B")
        if key not in merged:
            raise CheckpointMismatch(f"the adapter of {target} has no weight {key}: give a file with that weight")
        merged[key] = merged[key] + scale * (pair["B"] @ pair["A"]).to(merged[key].dtype)
    return merged


def _register_architecture(architecture: str) -> str:
    import open_clip

    if configuration := list_configuration_files(architecture).get("configuration"):
        _read_configuration(configuration)
        open_clip.add_model_config(configuration)
        return configuration.stem
    if architecture not in open_clip.list_models():
        raise ModelNotFound(
            f"{architecture!r} is neither an architecture that open_clip knows nor a JSON file of one: correct it"
        )
    return architecture


def _read_own_preprocess(architecture: str) -> dict[str, Any]:
    file = list_configuration_files(architecture).get("preprocess")
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file else {}


@contextmanager
def _hide_warning(beginning: str) -> Iterator[None]:
    """Keep open_clip's warning that begins so out of the log during the block: it is expected there."""

    def is_other(record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith(beginning)

    logging.getLogger().addFilter(is_other)
    try:
        yield
    finally:
        logging.getLogger().removeFilter(is_other)


def _load_weights(model: Any, file: Path) -> None:
    try:
        state = merge_adapters(_read_state(file))
    except CheckpointMismatch:
        raise
    except Exception as error:  # every format has errors of its own, and none of them names the file
        raise CheckpointMismatch(
            f"{file} holds no readable weights ({type(error).__name__}): name another file, or download it again"
        ) from error
    expected = model.state_dict()
    # Buffers that a checkpoint may or may not carry.
    optional = {"attn_mask", "input_resolution", "context_length", "vocab_size"}
    missing = [key for key in expected if key not in state and key.rpartition(".")[2] not in optional]
    unknown = [key for key in state if key not in expected and key.rpartition(".")[2] not in optional]
    wrong = [key for key in expected if key in state and expected[key].shape != state[key].shape]
    if missing or unknown or wrong:
        first = (missing or unknown or wrong)[0]
        raise CheckpointMismatch(
            f"{file.name} does not fit the architecture: {len(missing)} missing, {len(unknown)} unknown and "
            f"{len(wrong)} misshapen weights, such as {first!r}: name the architecture that it was trained with"
        )
    model.load_state_dict(state, strict=False)


def _read_state(file: Path) -> dict[str, Any]:
    import torch
    from safetensors.torch import load_file

    if file.suffix == ".safetensors":
        return load_file(file)
    # weights_only: a checkpoint of unknown origin must not run code.
    loaded = torch.load(file, map_location="cpu", weights_only=True)
    state = loaded.get("state_dict", loaded) if isinstance(loaded, dict) else loaded
    return {key.removeprefix("module."): value for key, value in state.items()}
