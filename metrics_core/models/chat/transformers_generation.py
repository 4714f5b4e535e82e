"""Writes answers with a loaded model, and goes on from the prompt before where two prompts begin alike."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from metrics_core.models.chat.protocol import ChatRequest, ImagePart, TextPart
from metrics_core.models.chat.structured import schema_instruction
from metrics_core.models.chat.transformers_loading import LoadedChat


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
