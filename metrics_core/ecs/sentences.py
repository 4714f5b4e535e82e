"""The text that is held against keypoints, as sentences."""

from __future__ import annotations

import re

from metrics_core.protocols import SentenceSplitter

FIELD_TAG = re.compile(r"^\s*\[[^\]\t]*\]\t")


def premise_sentences(text: str, splitter: SentenceSplitter) -> list[str]:
    """The sentences of a predicted caption, in order; [] for a text that holds no letter or digit.

    A line break ends a sentence. A line that begins with the name of a field, as in "[camera_state]<TAB>Slow pan.",
    loses that name. A short sentence stays: one word of dialogue may be a keypoint.

    >>> from metrics_core.models.sentence_splitter import RuleSplitter
    >>> premise_sentences("[events]\\tA man sits. He waves.\\n[speech]\\tHi!\\n...", RuleSplitter())
    ['A man sits.', 'He waves.', 'Hi!']
    """
    lines = (FIELD_TAG.sub("", line) for line in text.splitlines())
    found = (sentence for line in lines for sentence in splitter.split(line))
    return [sentence for sentence in found if any(character.isalnum() for character in sentence)]
