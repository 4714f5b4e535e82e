"""Loads chat models of transformers: image-text-to-text models with their processor, and text models."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from typing import Any

from metrics_core.models.precision import torch_dtype
from metrics_core.models.unusable import CheckpointMismatch, ModelUnusable, check_tokenizer

# Models of which a test shows that going on from a stored prefix with images writes the same as a fresh start.
_IMAGE_PREFIX_MODELS = frozenset({"qwen2_5_vl"})


@dataclass(frozen=True, slots=True)
class LoadedChat:
    """A model ready to write. processor: of images and text, or the tokenizer of a text model.

    end_tokens: tokens that end an answer. longest: tokens of prompt and answer that the model takes.
    """

    model: Any
    processor: Any
    tokenizer: Any
    takes_images: bool
    keeps_image_prefix: bool
    end_tokens: list[int]
    longest: int


def load_chat(source: str, revision: str, precision: str) -> LoadedChat:
    """Load a local folder or a hub id at a revision from `model_revision`, in "fp32", "bf16" or "fp16".

    Reads safetensors only, and no code of the model. Raises CheckpointMismatch for incomplete weights, ModelUnusable
    for a model without a chat template or without the processor of its images.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING

    where: dict[str, Any] = {"trust_remote_code": False}
    if not revision.startswith("sha256:"):
        where["revision"] = revision
    config = AutoConfig.from_pretrained(source, **where)
    takes_images = type(config) in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
    kind: Any = AutoModelForImageTextToText if takes_images else AutoModelForCausalLM
    # transformers draws a progress bar of its own while it loads weights, which would break up ours.
    with contextlib.redirect_stderr(io.StringIO()):
        model, report = kind.from_pretrained(
            source, config=config, dtype=torch_dtype(precision), use_safetensors=True, output_loading_info=True, **where
        )
    if missing := sorted(report["missing_keys"]):
        raise CheckpointMismatch(f"{source} lacks {len(missing)} weights, {missing[0]!r} for one: its files are cut")
    processor, tokenizer = _processor(source, takes_images, where)
    model = model.to("cuda" if torch.cuda.is_available() else "cpu").eval().requires_grad_(False)
    return LoadedChat(
        model=model,
        processor=processor,
        tokenizer=tokenizer,
        takes_images=takes_images,
        keeps_image_prefix=config.model_type in _IMAGE_PREFIX_MODELS,
        end_tokens=_end_tokens(model, tokenizer, source),
        longest=_longest(config),
    )


def _processor(source: str, takes_images: bool, where: dict[str, Any]) -> tuple[Any, Any]:
    from transformers import AutoProcessor, AutoTokenizer

    kind: Any = AutoProcessor if takes_images else AutoTokenizer
    processor = kind.from_pretrained(source, **where)
    tokenizer = getattr(processor, "tokenizer", processor)
    check_tokenizer(tokenizer, source)
    if takes_images and getattr(processor, "image_processor", None) is None:
        raise ModelUnusable(f"model {source} takes images, but lacks preprocessor_config.json: add the file")
    if not (getattr(processor, "chat_template", None) or getattr(tokenizer, "chat_template", None)):
        raise ModelUnusable(f"model {source} has no chat template: name a model that was trained to answer")
    return processor, tokenizer


def _end_tokens(model: Any, tokenizer: Any, source: str) -> list[int]:
    said = model.generation_config.eos_token_id
    ends = said if isinstance(said, list) else [said] if said is not None else []
    if tokenizer.eos_token_id is not None and tokenizer.eos_token_id not in ends:
        ends = [*ends, tokenizer.eos_token_id]
    if not ends:
        raise ModelUnusable(f"model {source} has no token that ends an answer: set eos_token in its tokenizer")
    return [int(token) for token in ends]


def _longest(config: Any) -> int:
    text = config.get_text_config()
    return int(getattr(text, "max_position_embeddings", None) or 1 << 30)
