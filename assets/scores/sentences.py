"""Sentences about the scores of a shard or dataset: how many samples have one, why others have none, and the mean."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from assets.words.tables import escape_markdown, shorten_text
from assets.words.text import format_count, format_name, format_number, format_portion
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
    """Return the noun for samples of these kinds, "caption" or "question-answer pair"; "sample" for both kinds or none.
    kinds: "caption" and "qa", in any number.

    >>> choose_kind_name(["qa"]), choose_kind_name(["caption", "qa"])
    ('question-answer pair', 'sample')
    """
    distinct = set(kinds)
    return KIND_NAMES[distinct.pop()] if len(distinct) == 1 else "sample"


def format_score_counts(counts: Sequence[StatusCount]) -> str:
    """Return markdown: how many samples have a score, then a list line for every other status with count and reason,
    cut at 200 characters. counts: most first. Samples with status not_applicable come last and are not counted in the
    first sentence.

    >>> counts = [StatusCount("caption", "ok", 2, None), StatusCount("caption", "no_frames", 1, "no file")]
    >>> print(format_score_counts(counts))
    2 of 3 captions have a score.
    <BLANKLINE>
    - 1 caption has none, no frames: no file
    """
    scorable = [count for count in counts if count.status != "not_applicable"]
    n, n_ok = sum(count.n for count in scorable), sum(count.n for count in scorable if count.status == "ok")
    kind = choose_kind_name([count.kind for count in scorable])
    first = (
        format_portion(n_ok, n, kind, "has a score", "have a score") if n else "The metric applies to no sample here"
    )
    others = [count for count in scorable if count.status != "ok"]
    others += [count for count in counts if count.status == "not_applicable"]
    lines = [f"- {_format_status_count(count)}" for count in others]
    return "\n".join([f"{first}.", *([""] if lines else []), *lines])


def _format_status_count(count: StatusCount) -> str:
    things = format_count(count.n, KIND_NAMES[count.kind])
    reason = f": {escape_markdown(shorten_text(count.reason, REASON_WIDTH))}" if count.reason else ""
    return f"{things} {'has' if count.n == 1 else 'have'} none, {format_name(count.status)}{reason}"


def format_mean(mean: MeanScore, value_range: tuple[float, float]) -> str:
    """Return a mean with its 95 % interval in words, or with the reason why it has no interval. value_range: the lowest
    and highest possible score; the interval is cut there.

    >>> format_mean(MeanScore("caption", 8, 4, 0.5, True, 0.1), (0.0, 1.0))
    '0.500 from 8 scores of 4 videos; 95 % interval 0.182 to 0.818 (cluster-robust)'
    >>> format_mean(MeanScore("caption", 2, 1, 0.5, True, None), (0.0, 1.0))
    '0.500 from 2 scores of 1 video; no interval: it takes at least 2 videos'
    """
    interval = mean_interval(mean.mean, mean.standard_error, mean.n_videos, value_range)
    text = (
        f"{format_number(mean.mean, 3)} from {format_count(mean.n, 'score')} of {format_count(mean.n_videos, 'video')}"
    )
    if interval is None:
        return f"{text}; no interval: {_explain_no_interval(mean)}"
    low, high = interval
    return f"{text}; 95 % interval {format_number(low, 3)} to {format_number(high, 3)} (cluster-robust)"


def _explain_no_interval(mean: MeanScore) -> str:
    if mean.n_videos == 1:
        return "it takes at least 2 videos"
    return "every video has the same mean" if mean.varies else "all scores are equal"
