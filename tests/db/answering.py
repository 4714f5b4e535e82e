"""Answers as pages give them: about what was seen, whatever it is by now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy.engine import Connection

from db.evidence.embeddings import text_sha256
from db.manifest.answers import Question, Rater, ShownCaption, TextChanged, load_question, require_seen, store_answer


def seen_caption(sample_id: int, text: str) -> Question:
    """The question about a caption that had this text."""
    return Question((ShownCaption(sample_id, text, text_sha256(text), 0),))


def ask_about(
    connection: Connection, rater: Rater, sample_ids: Sequence[int], keypoint_id: int | None = None
) -> Question:
    """The question about captions as they are now."""
    question = load_question(connection, rater, sample_ids, keypoint_id)
    assert question is not None
    return question


def require(connection: Connection, rater: Rater, seen: Question) -> Question:
    """What is asked where a page showed this."""
    keypoint_id = None if seen.keypoint is None else seen.keypoint[0]
    check = None if seen.planted_id is None else seen
    return require_seen(connection, rater, seen.seen, seen.sample_ids, keypoint_id, check)


def give_answer(
    connection: Connection, rater: Rater, seen: Question, value: float, extra: dict[str, Any], **more: Any
) -> bool:
    """Whether the answer to what a page showed was stored; a changed text is no error here."""
    try:
        return store_answer(connection, rater, require(connection, rater, seen), value, extra, **more)
    except TextChanged:
        return False
