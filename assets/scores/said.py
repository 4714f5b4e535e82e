"""What the scores of a shard or of a dataset are like, in sentences."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from assets.reports.tables import escaped, excerpt
from assets.reports.text import number, plural, quantified, spelled
from db.scores.quality import MeanScore, StatusCount
from metrics_core.intervals import mean_interval

INTERVALS = (
    "Means have a 95 % interval over videos, since samples of one video resemble each other: Student's t with a "
    "cluster-robust standard error, one degree of freedom fewer than videos."
)
KINDS = {"caption": "caption", "qa": "question-answer pair"}
# The width of a reason, in characters.
WIDTH = 200


def thing_of(kinds: Collection[str]) -> str:
    """What samples of these kinds are called.

    >>> thing_of(["qa"]), thing_of(["caption", "qa"])
    ('question-answer pair', 'sample')
    """
    distinct = set(kinds)
    return KINDS[distinct.pop()] if len(distinct) == 1 else "sample"


def scored_lines(counts: Sequence[StatusCount]) -> str:
    """Say in markdown how many samples have a score, and for each other status how many have it and why.

    counts: most first. Samples that the metric does not concern come last, and do not count among those without.

    >>> print(scored_lines([StatusCount("caption", "ok", 2, None), StatusCount("caption", "no_frames", 1, "no file")]))
    2 of 3 captions have a score.
    <BLANKLINE>
    - 1 caption has none, no frames: no file
    """
    concerned = [each for each in counts if each.status != "not_applicable"]
    n, n_ok = sum(each.n for each in concerned), sum(each.n for each in concerned if each.status == "ok")
    said = quantified(n_ok, n, thing_of([each.kind for each in concerned]), "has a score", "have a score")
    said = said if n else "There is no sample that the metric concerns"
    others = [each for each in concerned if each.status != "ok"]
    others += [each for each in counts if each.status == "not_applicable"]
    lines = [f"- {_without(each)}" for each in others]
    return "\n".join([f"{said}.", *([""] if lines else []), *lines])


def _without(count: StatusCount) -> str:
    things = plural(count.n, KINDS[count.kind])
    reason = f": {escaped(excerpt(count.reason, WIDTH))}" if count.reason else ""
    return f"{things} {'has' if count.n == 1 else 'have'} none, {spelled(count.status)}{reason}"


def mean_line(mean: MeanScore, value_range: tuple[float, float]) -> str:
    """Say a mean with its interval, or why it has none.

    >>> mean_line(MeanScore("caption", 8, 4, 0.5, True, 0.1), (0.0, 1.0))
    '0.500 from 8 scores of 4 videos; 95 % interval 0.182 to 0.818 (cluster-robust)'
    >>> mean_line(MeanScore("caption", 2, 1, 0.5, True, None), (0.0, 1.0))
    '0.500 from 2 scores of 1 video; no interval: one video does not tell how far videos differ'
    """
    found = mean_interval(mean.mean, mean.standard_error, mean.n_videos, value_range)
    said = f"{number(mean.mean, 3)} from {plural(mean.n, 'score')} of {plural(mean.n_videos, 'video')}"
    if found is None:
        return f"{said}; no interval: {_why_none(mean)}"
    return f"{said}; 95 % interval {number(found[0], 3)} to {number(found[1], 3)} (cluster-robust)"


def _why_none(mean: MeanScore) -> str:
    if mean.n_videos == 1:
        return "one video does not tell how far videos differ"
    return "every video has the same mean" if mean.varies else "all scores are equal"
