"""Loading open_clip models: configuration, weights, adapters, tokenizer and image transform."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ADAPTER = re.compile(r"(?P<target>.+)\.lora_(?P<half>[AB])(\.weight)?$")


class CheckpointMismatch(ValueError):
    """A checkpoint that does not belong to the architecture."""


@dataclass(frozen=True)
class LoadedClip:
    """An open_clip model ready for inference, with everything that belongs to it."""

    model: Any
    tokenizer: Any
    transform: Any
    device: Any
    dtype: Any
    dim: int


def load_clip(architecture: str, checkpoint: str, precision: str) -> LoadedClip:
    """Build the model and load its weights.

    Raises CheckpointMismatch when the weights do not fit, FileNotFoundError when neither file nor tag is known.
    """
    import open_clip
    import torch
    from open_clip.model import get_model_preprocess_cfg
    from open_clip.transform import PreprocessCfg, image_transform_v2

    name = _register(architecture)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    if device.type == "cpu":
        dtype = torch.float32
    file = Path(checkpoint).expanduser()
    if file.is_file():
        model = open_clip.create_model(name, pretrained=None, load_weights=False)
        _load_weights(model, file)
    elif checkpoint in open_clip.list_pretrained_tags_by_model(name):
        model = open_clip.create_model(name, pretrained=checkpoint)
    else:
        raise FileNotFoundError(
            f"checkpoint {checkpoint!r} is neither a file nor a tag that open_clip knows for {name}"
        )
    model = model.to(device=device, dtype=dtype).eval().requires_grad_(False)
    transform = image_transform_v2(PreprocessCfg(**get_model_preprocess_cfg(model)), is_train=False)
    dim = open_clip.get_model_config(name)["embed_dim"]
    return LoadedClip(model, open_clip.get_tokenizer(name), transform, device, dtype, dim)


def merge_adapters(state: dict[str, Any], scale: float = 1.0) -> dict[str, Any]:
    """Weights with their low-rank adapters added: W + scale * B @ A, the adapters themselves left out."""
    halves: dict[str, dict[str, Any]] = {}
    merged = {}
    for key, value in state.items():
        if found := _ADAPTER.match(key):
            halves.setdefault(found["target"], {})[found["half"]] = value
        else:
            merged[key] = value
    for target, pair in halves.items():
        key = target if target in merged else f"{target}.weight"
        if key not in merged or set(pair) != {"A", "B"}:
            raise CheckpointMismatch(f"the adapter of {target} has no weight to be added to, or only one half")
        merged[key] = merged[key] + scale * (pair["B"] @ pair["A"]).to(merged[key].dtype)
    return merged


def _register(architecture: str) -> str:
    import open_clip

    path = Path(architecture).expanduser()
    if path.suffix == ".json" and path.is_file():
        open_clip.add_model_config(path)
        return path.stem
    return architecture


def _load_weights(model: Any, file: Path) -> None:
    state = merge_adapters(_read_state(file))
    own = model.state_dict()
    # Buffers that a checkpoint may or may not carry.
    optional = {"attn_mask", "input_resolution", "context_length", "vocab_size"}
    missing = [key for key in own if key not in state and key.rpartition(".")[2] not in optional]
    strange = [key for key in state if key not in own and key.rpartition(".")[2] not in optional]
    wrong = [key for key in own if key in state and own[key].shape != state[key].shape]
    if missing or strange or wrong:
        first = (missing or strange or wrong)[0]
        raise CheckpointMismatch(
            f"{file.name} does not fit the architecture: {len(missing)} weights are missing, {len(strange)} unknown, "
            f"{len(wrong)} of another shape, {first!r} for one; name the architecture it was trained with"
        )
    model.load_state_dict(state, strict=False)


def _read_state(file: Path) -> dict[str, Any]:
    import torch
    from safetensors.torch import load_file

    if file.suffix == ".safetensors":
        return load_file(file)
    # weights_only: a checkpoint of unknown origin must not run code.
    found = torch.load(file, map_location="cpu", weights_only=True)
    state = found.get("state_dict", found) if isinstance(found, dict) else found
    return {key.removeprefix("module."): value for key, value in state.items()}
