"""Writes answers with a loaded model, and goes on from the prompt before where two prompts begin alike."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from metrics_core.models.chat.protocol import ChatRequest, ImagePart, TextPart
from metrics_core.models.chat.structured import schema_instruction
from metrics_core.models.precision import torch_dtype
from metrics_core.models.unusable import CheckpointMismatch, ModelUnusable, check_tokenizer

# Loads chat models of transformers: image-text-to-text models with their processor, and text models.

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


class Unanswerable(ValueError):
    """A request that the model cannot be asked: its prompt is too long, or one of its images is none."""


@dataclass(frozen=True, slots=True)
class Written:
    """An answer's text and tokens. cut: it reached its token limit. reused: tokens of the prompt taken from before."""

    text: str
    tokens_in: int
    tokens_out: int
    cut: bool
    reused: int


@dataclass
class Generator:
    """Keeps what the model computed for the last prompt: its tokens, images and attention cache."""

    loaded: LoadedChat
    _tokens: list[int] = field(default_factory=list)
    _images: tuple[bytes, ...] = ()
    _cache: Any = None
    _pictures: dict[bytes, Any] = field(default_factory=dict)

    def write(self, request: ChatRequest, limiter: Any, sampling: Mapping[str, Any]) -> Written:
        """Write one answer. limiter: a logits processor, or None. sampling: arguments of `generate`.

        Raises Unanswerable where prompt and answer together exceed what the model takes, and for a broken image.
        """
        import torch
        from transformers import DynamicCache

        inputs = self._inputs(request)
        tokens = inputs["input_ids"][0].tolist()
        if len(tokens) + request.max_tokens > self.loaded.longest:
            raise Unanswerable(
                f"{len(tokens)} tokens of the prompt and {request.max_tokens} of the answer exceed the "
                f"{self.loaded.longest} that the model takes: give fewer frames or less text"
            )
        images = tuple(part.jpeg for part in request.parts if isinstance(part, ImagePart))
        reused = self._keep_common(tokens, images, inputs)
        cache = self._cache if reused else DynamicCache(config=self.loaded.model.config.get_text_config())
        # Forgotten until the end: an error in the middle would leave it half written.
        self._cache = None
        with torch.inference_mode():
            output = self.loaded.model.generate(
                **inputs.to(self.loaded.model.device),
                past_key_values=cache,
                max_new_tokens=request.max_tokens,
                eos_token_id=self.loaded.end_tokens,
                pad_token_id=self.loaded.end_tokens[0],
                logits_processor=[limiter] if limiter is not None else None,
                **sampling,
            )
        written = output[0, len(tokens) :].tolist()
        self._tokens, self._images, self._cache = [*tokens, *written], images, cache
        is_ended = bool(written) and written[-1] in self.loaded.end_tokens
        text = self.loaded.tokenizer.decode(written, skip_special_tokens=True)
        return Written(text, len(tokens), len(written), not is_ended, reused)

    def forget(self) -> None:
        """Give the memory of the last prompt back."""
        self._tokens, self._images, self._cache, self._pictures = [], (), None, {}

    def _keep_common(self, tokens: list[int], images: tuple[bytes, ...], inputs: Any) -> int:
        """Cut the stored cache to the beginning that both prompts share; returns its tokens, 0 for a fresh start."""
        if self._cache is None or (images and not self.loaded.keeps_image_prefix) or images != self._images:
            return 0
        common = _n_common(self._tokens[: self._cache.get_seq_length()], tokens[:-1])
        kinds = inputs.get("mm_token_type_ids")
        if images and (kinds is None or bool(kinds[0, common:].any())):
            return 0
        if not common or not all(type(layer).__name__ == "DynamicLayer" for layer in self._cache.layers):
            return 0
        self._cache.crop(common - self._cache.get_seq_length())
        # The images are in the cache.
        for name in ("pixel_values", "image_grid_thw"):
            inputs.pop(name, None)
        return common

    def _inputs(self, request: ChatRequest) -> Any:
        parts = [*request.parts, TextPart(schema_instruction(request.schema))]
        images = [part.jpeg for part in request.parts if isinstance(part, ImagePart)]
        self._pictures = {jpeg: self._pictures.get(jpeg) or _picture(jpeg) for jpeg in images}
        if self.loaded.takes_images:
            content: Any = [self._content(part) for part in parts]
            system: Any = [{"type": "text", "text": request.system}]
        else:
            content = "\n\n".join(part.text for part in parts if isinstance(part, TextPart))
            system = request.system
        return self.loaded.processor.apply_chat_template(
            [{"role": "system", "content": system}, {"role": "user", "content": content}],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            # A caption that spells a control token stays text.
            sanitize_control_tokens=True,
        )

    def _content(self, part: TextPart | ImagePart) -> dict[str, Any]:
        if isinstance(part, TextPart):
            return {"type": "text", "text": part.text}
        return {"type": "image", "image": self._pictures[part.jpeg]}


def _picture(jpeg: bytes) -> Any:
    from PIL import Image, UnidentifiedImageError

    try:
        return Image.open(io.BytesIO(jpeg)).convert("RGB")
    except (UnidentifiedImageError, OSError) as error:
        raise Unanswerable(f"an image of the request cannot be read ({type(error).__name__})") from None


def _n_common(first: list[int], second: list[int]) -> int:
    n = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        n += 1
    return n
