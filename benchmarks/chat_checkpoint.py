"""Writes a tiny llama checkpoint with random weights as a GGUF file: `python chat_checkpoint.py FILE`.

It runs in the server's environment and needs only its package `gguf`. The tokenizer has one token for each byte, so
that the model can write any text; a grammar decides which.
"""

from __future__ import annotations

import sys

import gguf
import numpy as np

WIDTH, HEADS, LAYERS, HIDDEN, CONTEXT = 64, 4, 2, 128, 8192
SPECIAL = ("<|end|>", "<|system|>", "<|user|>", "<|assistant|>")
TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def letters_of_bytes() -> list[str]:
    """The letter by which tokenizers of the GPT-2 kind write each byte: itself where it prints, else one above 255."""
    prints = [byte for byte in range(256) if 33 <= byte <= 126 or 161 <= byte <= 172 or 174 <= byte <= 255]
    others = [byte for byte in range(256) if byte not in prints]
    shown = {byte: chr(byte) for byte in prints} | {byte: chr(256 + rank) for rank, byte in enumerate(others)}
    return [shown[byte] for byte in range(256)]


def write_checkpoint(file: str, seed: int = 0) -> None:
    """Write the checkpoint; the same seed gives the same file."""
    random = np.random.default_rng(seed)
    letters = letters_of_bytes()
    tokens = [*SPECIAL, *letters, "th"]
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    writer.add_token_types([control if token in SPECIAL else normal for token in tokens])
    # The format demands at least one.
    writer.add_token_merges(["t h"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
    # Of a text's vectors, where vectors are asked for.
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    for name, shape in shapes(len(tokens)).items():
        is_norm = len(shape) == 1
        weights = np.ones(shape) if is_norm else random.normal(0, 0.3, shape)
        writer.add_tensor(name, weights.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def shapes(n_tokens: int) -> dict[str, tuple[int, ...]]:
    """Shape of every tensor, by the names of the format."""
    found: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (n_tokens, WIDTH),
        "output.weight": (n_tokens, WIDTH),
        "output_norm.weight": (WIDTH,),
    }
    for layer in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            found[f"blk.{layer}.{name}.weight"] = (WIDTH,)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            found[f"blk.{layer}.{name}.weight"] = (WIDTH, WIDTH)
        for name, shape in (("gate", (HIDDEN, WIDTH)), ("up", (HIDDEN, WIDTH)), ("down", (WIDTH, HIDDEN))):
            found[f"blk.{layer}.ffn_{name}.weight"] = shape
    return found


if __name__ == "__main__":
    write_checkpoint(sys.argv[1])
