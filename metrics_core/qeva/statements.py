"""The statements of a summary by rule: its sentences, and the clauses of a sentence that says several things."""

from __future__ import annotations

import re

from metrics_core.ecs.plan import premise_sentences
from metrics_core.protocols import SentenceSplitter
from metrics_core.qeva.texts import distinct

MIN_WORDS = 3
"""A shorter text is no statement but an exclamation or a scrap."""

# A conjunction joins two clauses only where a subject follows it; "and leaves" would be a clause without one.
_SUBJECT = (
    r"(?:the|a|an|this|that|these|those|he|she|it|they|we|his|her|its|their|someone|somebody|everyone|another|"
    r"one|two|three|four|five|several|some|many|both|all)"
)
_WHEN = r"(?:then|later|next|afterwards|after that|finally|meanwhile|in the end|at the end|at last)"
JOINT = re.compile(
    rf"(?:;|,? (?:and|but|while|whereas|before|until|so)(?: {_WHEN})?,?|, {_WHEN},?) (?={_SUBJECT} )", re.IGNORECASE
)

VERB = re.compile(
    r"\b(?:is|are|was|were|has|have|had|can|will|do|does|did|come|go|[a-z]{2,}(?:[^s]s|es|ed))\b", re.IGNORECASE
)


def statements(summary: str, splitter: SentenceSplitter) -> list[str]:
    """Parse a summary into what it states, in order; a repeated statement and one of fewer than 3 words are left out.

    >>> from metrics_core.models.sentence_splitter import RuleSplitter
    >>> statements("A man waits at a door, and later the dog comes back. Wow! He and his dog leave.", RuleSplitter())
    ['A man waits at a door.', 'The dog comes back.', 'He and his dog leave.']
    """
    found = [clause for sentence in premise_sentences(summary, splitter) for clause in clauses(sentence)]
    return distinct(clause for clause in found if len(clause.split()) >= MIN_WORDS)


def clauses(sentence: str) -> list[str]:
    """Split a sentence where a conjunction joins clauses: parts with a subject, a verb and at least 4 words.

    >>> clauses("A dog runs to a ball and the boy follows it, then the ball and the dog are gone.")
    ['A dog runs to a ball.', 'The boy follows it.', 'The ball and the dog are gone.']
    >>> clauses("The tall man with a hat and the old woman are dancing.")
    ['The tall man with a hat and the old woman are dancing.']
    """
    pieces = JOINT.split(sentence)
    joints = [joint.group() for joint in JOINT.finditer(sentence)]
    parts = [pieces[0]]
    for joint, piece in zip(joints, pieces[1:], strict=True):
        # A piece that is no clause belongs to what follows: in "the ball and the dog are gone" the ball is gone too.
        if is_clause(parts[-1]):
            parts.append(piece)
        else:
            parts[-1] += joint + piece
    if len(parts) > 1 and not is_clause(parts[-1]):
        return [sentence]
    return [sentence] if len(parts) == 1 else [f"{part[0].upper()}{part[1:].rstrip(' .,;')}." for part in parts]


def is_clause(text: str) -> bool:
    """Whether a text has at least 4 words and something that looks like a verb.

    >>> is_clause("the dog comes back"), is_clause("a tall man with a hat")
    (True, False)
    """
    return len(text.split()) >= 4 and VERB.search(text) is not None
