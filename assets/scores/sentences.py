"""What the scores of a shard or of a dataset are like, in sentences."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from assets.reports.tables import escape_markdown, shorten_text
from assets.reports.text import format_count, format_name, format_number, format_portion
from db.scores.quality import MeanScore, StatusCount
from metrics_core.intervals import mean_interval

INTERVAL_NOTE = (
    "Means have a 95 % interval over videos, since samples of one video resemble each other: Student's t with a "
    "cluster-robust standard error, one degree of freedom fewer than videos."
)
KIND_NAMES = {"caption": "caption", "qa": "question-answer pair"}
# The width of a reason, in characters.
REASON_WIDTH = 200


def choose_kind_name(kinds: Collection[str]) -> str:
    """What samples of these kinds are called.

    >>> choose_kind_name(["qa"]), choose_kind_name(["caption", "qa"])
    ('question-answer pair', 'sample')
    """
    distinct = set(kinds)
    return KIND_NAMES[distinct.pop()] if len(distinct) == 1 else "sample"


def format_score_counts(counts: Sequence[StatusCount]) -> str:
    """Say in markdown how many samples have a score, and for each other status how many have it and why.

    counts: most first. Samples that the metric does not concern come last, and do not count among those without.

    >>> print(format_score_counts([StatusCount("caption", "ok", 2, None), StatusCount("caption", "no_frames", 1, "no file")]))
    2 of 3 captions have a score.
    <BLANKLINE>
    - 1 caption has none, no frames: no file
    """
    concerned = [each for each in counts if each.status != "not_applicable"]
    n, n_ok = sum(each.n for each in concerned), sum(each.n for each in concerned if each.status == "ok")
    said = format_portion(n_ok, n, choose_kind_name([each.kind for each in concerned]), "has a score", "have a score")
    said = said if n else "There is no sample that the metric concerns"
    others = [each for each in concerned if each.status != "ok"]
    others += [each for each in counts if each.status == "not_applicable"]
    lines = [f"- {_format_status_count(each)}" for each in others]
    return "\n".join([f"{said}.", *([""] if lines else []), *lines])


def _format_status_count(count: StatusCount) -> str:
    things = format_count(count.n, KIND_NAMES[count.kind])
    reason = f": {escape_markdown(shorten_text(count.reason, REASON_WIDTH))}" if count.reason else ""
    return f"{things} {'has' if count.n == 1 else 'have'} none, {format_name(count.status)}{reason}"


def format_mean(mean: MeanScore, value_range: tuple[float, float]) -> str:
    """Say a mean with its interval, or why it has none.

    >>> format_mean(MeanScore("caption", 8, 4, 0.5, True, 0.1), (0.0, 1.0))
    '0.500 from 8 scores of 4 videos; 95 % interval 0.182 to 0.818 (cluster-robust)'
    >>> format_mean(MeanScore("caption", 2, 1, 0.5, True, None), (0.0, 1.0))
    '0.500 from 2 scores of 1 video; no interval: one video does not tell how far videos differ'
    """
    found = mean_interval(mean.mean, mean.standard_error, mean.n_videos, value_range)
    said = (
        f"{format_number(mean.mean, 3)} from {format_count(mean.n, 'score')} of {format_count(mean.n_videos, 'video')}"
    )
    if found is None:
        return f"{said}; no interval: {_explain_no_interval(mean)}"
    return f"{said}; 95 % interval {format_number(found[0], 3)} to {format_number(found[1], 3)} (cluster-robust)"


def _explain_no_interval(mean: MeanScore) -> str:
    if mean.n_videos == 1:
        return "one video does not tell how far videos differ"
    return "every video has the same mean" if mean.varies else "all scores are equal"
