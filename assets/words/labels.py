"""Names of metrics and models for people, which mention a stand-in for a real model, and notes on ratings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy.engine import Connection

from assets.models.settings import DEMO_ENCODER, HUMAN_NOTES
from assets.words.text import format_name, join_names
from db.manifest.rating_scales import load_turned_aspects
from db.reports.judgements import count_ratings
from db.scores.store import list_active_models

# Stand-ins for models that a metric needs, with the remedy.
STAND_INS: Mapping[str, str] = {
    DEMO_ENCODER: "it only works on the demo: for other videos set REELSIEVE_IMAGE_TEXT_ENCODER and _CHECKPOINT",
    HUMAN_NOTES: "no model sees the video: for a score without references set REELSIEVE_QEVA_VIDEO_MODEL",
}
# This many first characters identify a revision.
REVISION_LENGTH = 12


def filter_stand_ins(models: Iterable[str]) -> list[str]:
    """Return those of the given model ids that are stand-ins for real models, in the given order."""
    return [model for model in models if model in STAND_INS]


def load_metric_label(connection: Connection, metric: str) -> str:
    """Load the label of a metric: its name, followed by the stand-ins for real models that its active scorer uses, as
    in `evqa (demo encoder)`. Only the name if there are none.
    """
    return format_metric_label(metric, filter_stand_ins(list_active_models(connection, metric)))


# Metrics that texts call otherwise than commands do; another one has the name that commands use.
_NAMES = {"vcs": "VCS", "vcs_short": "VCS_short", "ecs": "ECS", "evqa": "EVQAScore", "qeva": "QEVA"}


def format_metric_name(label: str) -> str:
    """Return a metric's name, or its label, as texts write it: published metrics as their papers do.

    >>> format_metric_name("vcs_short"), format_metric_name("evqa (demo encoder)"), format_metric_name("judge")
    ('VCS_short', 'EVQAScore (demo encoder)', 'judge')
    """
    metric, space, stand_ins = label.partition(" ")
    return f"{_NAMES.get(metric, metric)}{space}{stand_ins}"


def format_metric_label(metric: str, names: Iterable[str]) -> str:
    """Return a metric's name, followed in brackets by `names`, the stand-ins for real models that it uses, if any.

    >>> format_metric_label("evqa", ["demo encoder"]), format_metric_label("vcs", [])
    ('evqa (demo encoder)', 'vcs')
    """
    joined = ", ".join(names)
    return f"{metric} ({joined})" if joined else metric


def format_models(models: Mapping[str, Mapping[str, Any]]) -> str:
    """Return models as text: role, id and the first 12 characters of the revision, separated by semicolons, with a note
    on any stand-in. models: by role, with `model_id` and, if known, `revision`.

    >>> format_models({"text_encoder": {"model_id": "minilm", "revision": "sha256:0123456789abcdef0123"}})
    'text encoder minilm (revision 0123456789ab)'
    """
    return "; ".join(f"{format_name(role)} {format_model(model)}" for role, model in models.items())


def format_model(model: Mapping[str, Any]) -> str:
    """Return a model's `model_id` and the first 12 characters of its `revision` as text, with a note if it is a
    stand-in for a real model. A revision that is not given is `unknown`.
    """
    name, revision = model["model_id"], str(model.get("revision", "unknown")).removeprefix("sha256:")[:REVISION_LENGTH]
    caution = f", a stand-in: {STAND_INS[name].partition(':')[0]}" if name in STAND_INS else ""
    return f"{name} (revision {revision}{caution})"


def load_ratings_note(connection: Connection, dataset_id: int) -> dict[str, str]:
    """Load notes for a page that shows a dataset's ratings, as texts by title: whether they are synthetic, of which
    aspects the lowest is best, how many are left out, and how many are of older texts. Empty where no note is needed.
    """
    note, counts = {}, count_ratings(connection, dataset_id)
    if counts.has_synthetic:
        note["ratings"] = "synthetic: made by a program, not by people"
    if turned := load_turned_aspects(connection, dataset_id):
        note["lowest is best"] = explain_turned_aspects(turned)
    if counts.n_chosen:
        note["ratings left out"] = explain_excluded_ratings(counts.n_chosen)
    if counts.n_old:
        note["old ratings"] = explain_old_ratings(counts.n_old)
    return note


def explain_turned_aspects(turned: Mapping[str, float]) -> str:
    """Return a sentence without a full stop on the aspects of which the lowest number is best: statistics use the given
    number minus the rating.

    >>> explain_turned_aspects({"errors": 20.0, "z": 0.0})
    'statistics use 20 minus the rating of errors and 0 minus the rating of z, since the lowest is best'
    """
    parts = [f"{total:g} minus the rating of {aspect}" for aspect, total in turned.items()]
    return f"statistics use {join_names(parts)}, since the lowest is best"


def format_goodness(aspect: str, turned: Mapping[str, float]) -> str:
    """Return the name of the numbers that statistics use for an aspect. turned: as from `load_turned_aspects`.

    >>> format_goodness("errors", {"errors": 20.0}), format_goodness("overall", {"errors": 20.0})
    ('20 − errors', 'overall')
    """
    return f"{turned[aspect]:g} − {aspect}" if aspect in turned else aspect


def format_rating(written: str, aspect: str, scale_ends: Mapping[str, float]) -> str:
    """Return a rating, or a mean of ratings, with the end of its scale: `1.0 of 5`. Nothing is added for an aspect
    without an end. written: the number as text. scale_ends: as from `load_scale_ends`.

    >>> format_rating("1.0", "coverage", {"coverage": 5.0}), format_rating("0.3", "z", {})
    ('1.0 of 5', '0.3')
    """
    return f"{written} of {scale_ends[aspect]:g}" if aspect in scale_ends else written


def explain_old_ratings(n: int) -> str:
    """Return a sentence without a full stop: n ratings do not count, since their texts have changed, and which command
    asks for them again.

    >>> explain_old_ratings(1)
    '1 rating does not count, since its text has changed: reelsieve rate asks for it again'
    """
    does, its = ("rating does", "its text has") if n == 1 else ("ratings do", "their texts have")
    return f"{n:,} {does} not count, since {its} changed: reelsieve rate asks for {'it' if n == 1 else 'them'} again"


def explain_excluded_ratings(n: int) -> str:
    """Return a sentence without a full stop: n ratings are left out of statistics, since their captions were chosen.

    >>> explain_excluded_ratings(1)
    '1 rating is left out, since its caption was chosen for a promise or a question and is no random sample'
    """
    if n == 1:
        return "1 rating is left out, since its caption was chosen for a promise or a question and is no random sample"
    return (
        f"{n:,} ratings are left out, since their captions were chosen for a promise or a question and are no random "
        "sample"
    )
