"""A tokenizer of whole words with a small vocabulary from a file, used like the tokenizers of open_clip."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# A compound such as "five-pointed" is two words.
_WORD = re.compile(r"[^\W_]+")


class WordTokenizer:
    """A tokenizer that turns words into numbers: 0 is padding, 1 any unknown word, then come `words` in order, the
    start and the end of a text. words: distinct words in lower case. context_length: how many numbers a text becomes;
    longer texts are cut.

    The end has the highest number, because CLIP's text tower reads its feature at the highest number.

    >>> tokenizer = WordTokenizer(["red", "star"], context_length=5)
    >>> tokenizer.encode("A red star."), tokenizer.vocab_size, tokenizer.eot_token_id
    ([1, 2, 3], 6, 5)
    >>> tokenizer(["red", "red star red star"]).tolist()
    [[4, 2, 5, 0, 0], [4, 2, 3, 2, 5]]
    """

    def __init__(self, words: Sequence[str], context_length: int) -> None:
        self.context_length = context_length
        self._numbers = {word: number for number, word in enumerate(words, start=2)}
        self.sot_token_id = len(self._numbers) + 2
        self.eot_token_id = len(self._numbers) + 3

    @classmethod
    def read_vocabulary(cls, file: Path, context_length: int) -> WordTokenizer:
        """Make a tokenizer whose vocabulary is a JSON file: a list of distinct words. context_length: how many numbers
        a text becomes. Raises ValueError for another file.
        """
        words = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError(f'{file.name} is not a JSON list of words: write it as ["red", "star"]')
        if len(set(words)) < len(words):
            repeated = next(word for word in words if words.count(word) > 1)
            raise ValueError(f"{file.name} holds {repeated!r} more than once: list every word once")
        return cls(words, context_length)

    @property
    def vocab_size(self) -> int:
        """The number of words in the vocabulary plus the four special numbers; it equals vocab_size in the model's
        configuration.
        """
        return len(self._numbers) + 4

    def encode(self, text: str) -> list[int]:
        """Return the numbers of a text's words, in order, without start and end, uncut. An unknown word is 1."""
        return [self._numbers.get(word, 1) for word in split_words(text)]

    def list_unknown_words(self, text: str) -> list[str]:
        """List the distinct words of a text that are not in the vocabulary, in lower case and in their order.

        >>> WordTokenizer(["red", "star"], context_length=5).list_unknown_words("a red elephant")
        ['a', 'elephant']
        """
        return [word for word in dict.fromkeys(split_words(text)) if word not in self._numbers]

    def __call__(self, texts: Sequence[str]) -> Any:
        """Tokenise texts: LongTensor (n, context_length) from start to end, padded with 0. A cut text keeps its end."""
        import torch

        rows = []
        for text in texts:
            row = [self.sot_token_id, *self.encode(text)[: self.context_length - 2], self.eot_token_id]
            rows.append(row + [0] * (self.context_length - len(row)))
        # One tensor for all: making one per text takes longer than a small model.
        return torch.tensor(rows, dtype=torch.long).reshape(len(texts), self.context_length)


def split_words(text: str) -> list[str]:
    """Split a text into its words of letters and digits, in lower case and in order.

    >>> split_words("A five-pointed Star!")
    ['a', 'five', 'pointed', 'star']
    """
    return _WORD.findall(text.lower())
