"""The explanation of a VCS score: the matching chunks of caption and reference, and where their order differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assets.scores.base import Explanation
from metrics_core.vcs import VCSResult


def explain_vcs(
    reference: Sequence[str], generated: Sequence[str], similarity: NDArray[np.floating[Any]], result: VCSResult
) -> Explanation:
    """Return the explanation of a VCS score: its parts in one line, and a row for every caption chunk with its most
    similar reference chunk. Every reference chunk that no caption chunk matches gets another line. reference,
    generated: the texts of the chunks of reference and caption. similarity: the cosines (R, G) of these R reference and
    G caption chunks, from which `result` was computed.
    """
    rows = [
        {
            "caption": f"{i + 1} {text}",
            "meets in the reference": f"{met + 1} {reference[met]}",
            "similarity": float(similarity[met, i]),
            "order": _explain_order(result, i),
        }
        for i, (text, met) in enumerate(zip(generated, result.match_precision, strict=True))
    ]
    unmet = sorted(set(range(len(reference))) - set(result.match_precision))
    lines = [
        f"same content (SAS) {result.sas:.4f}, same order (NAS) {result.nas:.4f}: whole texts {result.gas:.4f}, "
        f"chunk by chunk {result.las:.4f}, places {result.nas_d:.4f}, steps {result.nas_l:.4f}, permissive windows "
        f"{result.window_regularizer:.4f}"
    ]
    lines += [f"no chunk of the caption matches chunk {i + 1} of the reference: {reference[i]}" for i in unmet]
    return Explanation(lines, rows)


def _explain_order(result: VCSResult, i: int) -> str:
    """Return how the match of caption chunk i differs from the reference's order; "" if it does not."""
    met, (start, end) = result.match_precision[i], result.windows_precision[i]
    notes = []
    if not start <= met < end:
        expected = f"{start + 1}" if end - start == 1 else f"{start + 1} to {end}"
        notes.append(f"expected at {expected}")
    if i and met < result.match_precision[i - 1]:
        notes.append("goes back")
    return ", ".join(notes)
