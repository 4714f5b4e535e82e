"""How a metric is called where people read its scores, and who made them: a stand-in for a real model is named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy.engine import Connection

from assets.models.settings import DEMO_ENCODER, HUMAN_NOTES
from assets.reports.text import spelled
from db.reports.summary import count_old_ratings, drawn_apart, has_synthetic_ratings
from db.scores.stored import active_models

# What stands in for a model that a metric asks for, with the remedy.
STAND_INS: Mapping[str, str] = {
    DEMO_ENCODER: "it knows the demo's clips alone: for others set REELSIEVE_IMAGE_TEXT_ENCODER and _CHECKPOINT",
    HUMAN_NOTES: "they stand in for the video: for a score without references set REELSIEVE_QEVA_VIDEO_MODEL",
}
# So many characters of a revision tell it from any other.
REVISION = 12


def stand_ins(connection: Connection, metric: str) -> list[str]:
    """What stands in for a real model behind the metric's active scorer."""
    return stand_ins_among(active_models(connection, metric))


def stand_ins_among(models: Iterable[str]) -> list[str]:
    """The names of models that stand in for real ones."""
    return [model for model in models if model in STAND_INS]


def metric_label(connection: Connection, metric: str) -> str:
    """The metric's name, with the stand-ins where its active scorer has any: `evqa (demo encoder)`."""
    return labelled(metric, stand_ins(connection, metric))


def shown_name(label: str) -> str:
    """A metric's name as people write it.

    >>> shown_name("vcs_short"), shown_name("evqa (demo encoder)")
    ('VCS_short', 'EVQA (demo encoder)')
    """
    for end, character in enumerate(label):
        if not character.isalnum():
            return label[:end].upper() + label[end:]
    return label.upper()


def labelled(metric: str, names: Iterable[str]) -> str:
    """The metric's name, with the names of what stands in for real models.

    >>> labelled("evqa", ["demo encoder"]), labelled("vcs", [])
    ('evqa (demo encoder)', 'vcs')
    """
    joined = ", ".join(names)
    return f"{metric} ({joined})" if joined else metric


def model_names(models: Mapping[str, Mapping[str, Any]]) -> str:
    """Models in their roles, with revisions, and whether one only stands in for a real model.

    >>> model_names({"text_encoder": {"model_id": "minilm", "revision": "sha256:0123456789abcdef0123"}})
    'text encoder minilm (revision 0123456789ab)'
    """
    return "; ".join(f"{spelled(role)} {model_name(model)}" for role, model in models.items())


def model_name(model: Mapping[str, Any]) -> str:
    """A model with its revision, and whether it only stands in for a real one."""
    name, revision = model["model_id"], str(model.get("revision", "unknown")).removeprefix("sha256:")[:REVISION]
    caution = f", a stand-in: {STAND_INS[name].partition(':')[0]}" if name in STAND_INS else ""
    return f"{name} (revision {revision}{caution})"


def ratings_note(connection: Connection, dataset_id: int) -> dict[str, str]:
    """What a page that shows ratings of a dataset must say of them: who made them, and which are left out."""
    note = {}
    if has_synthetic_ratings(connection, dataset_id):
        note["ratings"] = "synthetic: made by a program, not by people"
    if n := drawn_apart(connection, dataset_id):
        note["ratings left out"] = apart(n)
    if n := count_old_ratings(connection, dataset_id):
        note["old ratings"] = explain_old_ratings(n)
    return note


def explain_old_ratings(n: int) -> str:
    """Return why n ratings do not count, and what to do.

    >>> explain_old_ratings(1)
    '1 rating does not count, since its text has changed: reelsieve rate asks for it again'
    """
    does, its = ("rating does", "its text has") if n == 1 else ("ratings do", "their texts have")
    return f"{n:,} {does} not count, since {its} changed: reelsieve rate asks for {'it' if n == 1 else 'them'} again"


def apart(n: int) -> str:
    """Why n ratings are not among those that statistics rest on.

    >>> apart(1)
    '1 rating was drawn to settle a question and is no part of a random sample: reelsieve compare weighs it'
    """
    were, they = ("rating was", "it") if n == 1 else ("ratings were", "them")
    are = "is no part" if n == 1 else "are no part"
    return f"{n:,} {were} drawn to settle a question and {are} of a random sample: reelsieve compare weighs {they}"
