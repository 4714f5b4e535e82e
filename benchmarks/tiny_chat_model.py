"""A tiny chat model with random weights in the format of transformers, which `transformers serve` can serve."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen2VLImageProcessor,
    Qwen2VLVideoProcessor,
)

END, START = "<|im_end|>", "<|im_start|>"
VISION = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}"
    "{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tokenizer() -> PreTrainedTokenizerFast:
    """One token for each byte, so that the model can write any text."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({letter: rank for rank, letter in enumerate(letters)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=made, eos_token=END, pad_token=END)
    fast.add_special_tokens({"additional_special_tokens": [START, *VISION]})
    fast.chat_template = TEMPLATE
    return fast


def write_video_model(folder: Path, seed: int = 0) -> Path:
    """A Qwen2.5-VL with two layers of text and two of vision."""
    torch.manual_seed(seed)
    words = tokenizer()
    ids = {f"{name[2:-2]}_id": words.convert_tokens_to_ids(name) for name in VISION}
    config = Qwen2_5_VLConfig(
        text_config={**_text(words), "rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3]}},
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "out_hidden_size": 64,
            "fullatt_block_indexes": [1],
        },
        image_token_id=ids["image_pad_id"],
        video_token_id=ids["video_pad_id"],
        vision_start_token_id=ids["vision_start_id"],
        vision_end_token_id=ids["vision_end_id"],
        tie_word_embeddings=False,
    )
    Qwen2_5_VLForConditionalGeneration(config).save_pretrained(folder)
    images = Qwen2VLImageProcessor(min_pixels=28 * 28, max_pixels=28 * 28 * 16)
    Qwen2_5_VLProcessor(
        image_processor=images, tokenizer=words, video_processor=Qwen2VLVideoProcessor(), chat_template=TEMPLATE
    ).save_pretrained(folder)
    return folder


def _text(words: PreTrainedTokenizerFast) -> dict[str, object]:
    return {
        "vocab_size": len(words),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        # Else random weights write the same letter for ever.
        "initializer_range": 0.5,
        "eos_token_id": words.eos_token_id,
        "pad_token_id": words.eos_token_id,
        "bos_token_id": None,
    }
