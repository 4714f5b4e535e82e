"""Sentences about the camera: they say how a scene is filmed, and little of what the people in it do."""

from __future__ import annotations

import re

from metrics_core.models.word_tokenizer import split_words

# When something happens, which may stand before the subject of a sentence.
_WHEN = (
    r"(?:(?:at|in|toward|towards|near|by) the (?:very )?(?:end|start|beginning|close)|after (?:that|this)|all at once|"
    r"then|next|now|later|again|first|finally|lastly|suddenly|slowly|meanwhile|afterwards|eventually)"
)
_OPENING = rf"(?:{_WHEN},? (?:and )?)*"
_HOW = (
    r"(?:hand|held|handheld|shaky|unsteady|steady|static|fixed|moving|still|first|second|last|next|opening|final|whole|"
    r"entire|same|wide|close|long|aerial|high|low|overhead|mobile|phone|video|point|of)"
)
_PICTURE = r"(?:cameras?|lens|viewpoint|framing|angle|zoom|shot|view|frame|footage|video|clip|film|picture|image)"
_CAMERA_SUBJECT = re.compile(
    rf"{_OPENING}(?:the|a|an|this|our) (?:{_HOW}[ -])*{_PICTURE}\b(?!['’-]| (?:man|woman|person|operator|crew)\b)",
    re.IGNORECASE,
)
_SUBJECT = re.compile(
    rf"{_OPENING}(?:there (?:is|are|was|were) )?(?:(?:the|an?|this|that|these|those|its|some|several|both|two|three|"
    r"four|five|\d+)\b ?)*(\w+)",
    re.IGNORECASE,
)


def is_about_camera(sentence: str) -> bool:
    """Whether the subject of a sentence is the camera, or the picture that it takes.

    >>> [is_about_camera(text) for text in ("Then the camera pans left.", "A man looks at the camera.")]
    [True, False]
    """
    return _CAMERA_SUBJECT.match(sentence.strip()) is not None


def may_prove(sentence: str, statement: str) -> bool:
    """Whether a sentence may prove a statement. What the camera does tells little of what a person does.

    A sentence about the camera may prove a statement about the camera. It may prove another one only where it names
    the subject, and where the statement does not speak of the camera: that the camera follows a woman does not say that
    she looks at it.

    >>> [may_prove("The camera turns to the crowd.", text) for text in ("He turns to the crowd.", "The crowd waits.")]
    [False, True]
    >>> may_prove("The camera follows a woman.", "The woman looks at the camera.")
    False
    """
    if not is_about_camera(sentence) or is_about_camera(statement):
        return True
    subject = _SUBJECT.match(statement.strip())
    is_named = subject is None or subject[1].lower() in split_words(sentence)
    return is_named and not {"camera", "cameras"} & set(split_words(statement))
