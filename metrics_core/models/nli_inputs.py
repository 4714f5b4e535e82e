"""Turn (premise, hypothesis) pairs into a model's input: tokenised, and cut where they are too long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


class HypothesisTooLong(ValueError):
    """Raised for hypotheses so long that the model has no room for a premise. `hypotheses` lists the distinct ones."""

    def __init__(self, hypotheses: Sequence[str], max_length: int) -> None:
        self.hypotheses = tuple(hypotheses)
        n = len(self.hypotheses)
        super().__init__(
            f"{n} {'hypothesis leaves' if n == 1 else 'hypotheses leave'} no room for a premise in the {max_length} "
            f"tokens of the model, the first {self.hypotheses[0][:80]!r}: shorten or split it"
        )


@dataclass(frozen=True, slots=True, eq=False)
class TokenizedPairs:
    """Tokenised (premise, hypothesis) pairs, in order. columns: what the tokenizer returned, by name such as
    "input_ids", with one list of numbers per pair. truncated (n,): whether the premise of the pair was cut.
    """

    tokenizer: Any
    columns: dict[str, list[list[int]]]
    truncated: npt.NDArray[np.bool_]

    @property
    def n_tokens(self) -> list[int]:
        """Return the number of tokens of every pair, in the order of the pairs, special tokens included."""
        return [len(tokens) for tokens in self.columns["input_ids"]]

    def build_batch(self, rows: Sequence[int]) -> Any:
        """Build the model's input, torch tensors by name, for the pairs with these numbers, padded to the longest of
        them.
        """
        chosen = {name: [column[row] for row in rows] for name, column in self.columns.items()}
        return self.tokenizer.pad(chosen, return_tensors="pt")


def tokenize_pairs(tokenizer: Any, pairs: Sequence[tuple[str, str]], max_length: int) -> TokenizedPairs:
    """Return the tokens of one or more (premise, hypothesis) pairs, in order. A pair of more than `max_length` tokens,
    special tokens included, loses the end of its premise; a hypothesis is never cut. Raises HypothesisTooLong where the
    hypothesis of such a pair leaves no room for any token of the premise.
    """
    # Pairs are cut here, so the tokenizer need not warn of pairs beyond its own limit.
    columns = dict(tokenizer(*map(list, zip(*pairs, strict=True)), verbose=False))
    truncated = np.array([len(tokens) > max_length for tokens in columns["input_ids"]])
    rows = np.flatnonzero(truncated).tolist()
    if rows:
        premises, hypotheses = ([pairs[row][side] for row in rows] for side in (0, 1))
        _check_hypothesis_lengths(tokenizer, hypotheses, max_length)
        cut = tokenizer(premises, hypotheses, truncation="only_first", max_length=max_length)
        for name, column in columns.items():
            for row, values in zip(rows, cut[name], strict=True):
                column[row] = values
    return TokenizedPairs(tokenizer, columns, truncated)


def _check_hypothesis_lengths(tokenizer: Any, hypotheses: Sequence[str], max_length: int) -> None:
    """Raise HypothesisTooLong unless every hypothesis leaves room for at least one token of a premise. max_length: the
    most tokens of a pair, special tokens included.
    """
    different = list(dict.fromkeys(hypotheses))
    alone = tokenizer([""] * len(different), different, verbose=False)["input_ids"]
    too_long = [text for text, tokens in zip(different, alone, strict=True) if len(tokens) >= max_length]
    if too_long:
        raise HypothesisTooLong(too_long, max_length)
