"""Which keypoints can be verified at all, and which deserve a warning."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from metrics_core.ecs.result import ECSWarning

LONG_KEYPOINT = 40
"""Words beyond which NLI models, trained on short hypotheses, become unreliable."""


def usable_keypoints(texts: Sequence[str]) -> list[int]:
    """Positions of the keypoints that have a text; repeated keypoints all stay.

    Blank ones are left out. They and keypoints of more than LONG_KEYPOINT words are told of in one ECSWarning.

    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     usable_keypoints(["A man sits.", " ", "A man sits."])
    [0, 2]
    >>> print(caught[0].message)
    1 keypoint(s) are blank and are left out, the first at position 1.
    """
    blank = [i for i, text in enumerate(texts) if not text.strip()]
    long = [i for i, text in enumerate(texts) if len(text.split()) > LONG_KEYPOINT]
    sentences = []
    if blank:
        sentences.append(f"{len(blank)} keypoint(s) are blank and are left out, the first at position {blank[0]}.")
    if long:
        sentences.append(
            f"{len(long)} keypoint(s) have more than {LONG_KEYPOINT} words, the first at position {long[0]}: "
            "NLI models are weak there, so write several short ones or verify their sentences apart (combine_parts)."
        )
    if sentences:
        warnings.warn("\n".join(sentences), ECSWarning, stacklevel=2)
    left_out = set(blank)
    return [i for i in range(len(texts)) if i not in left_out]
