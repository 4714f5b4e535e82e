"""Records of everything on a report's page, without pictures and markup. `report.json` holds them, under the same
names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from assets.agreement.progress import RaterConsistency
from db.reports.facts import Extreme, FactSubject, FactSummary
from db.reports.judgements import LABELS_ASPECT, CheckCount
from db.reports.summary import Origins, OwnNumber, Spread
from db.scores.imported_scores import IMPORTED_VERSION
from db.scores.quality import StatusCount
from db.scores.stress import Stress
from metrics_core.agreement import AgreementRow
from metrics_core.agreement.conclusions import Conclusion
from metrics_core.intervals import ClusterMean, Estimate


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """A metric that has results on the dataset, with the models and code version of its active scorer, and its numbers
    of samples by kind and status (`statuses`). label: its name with the stand-ins for real models. stand_ins: remedies
    by stand-in. n_defined: samples with a value. ranges: its lowest and highest value, by kind of samples; kinds
    without a value are left out.
    """

    name: str
    label: str
    models: tuple[str, ...]
    code_version: str
    stand_ins: Mapping[str, str]
    statuses: tuple[StatusCount, ...]
    n_defined: int
    ranges: Mapping[str, tuple[float, float]]

    @property
    def is_imported(self) -> bool:
        """Whether the metric's scores were imported from elsewhere, so that no command here can compute them again."""
        return self.code_version == IMPORTED_VERSION

    @property
    def n_stale(self) -> int:
        """The number of samples whose score is stale: computed from an input that has changed since."""
        return sum(count.n for count in self.statuses if count.status == "stale")

    def has_values(self, kind: str) -> bool:
        """Return whether at least one sample of the kind ("caption" or "qa") has a value of the metric."""
        return kind in self.ranges

    def count_values(self, kind: str) -> int:
        """Return how many samples of the kind ("caption" or "qa") have a value of the metric."""
        return sum(count.n for count in self.statuses if (count.kind, count.status) == (kind, "ok"))


@dataclass(frozen=True, slots=True)
class SystemCount:
    """How many samples of one kind ("caption" or "qa") a system wrote, and for how many videos."""

    kind: str
    system: str
    samples: int
    videos: int


@dataclass(frozen=True, slots=True)
class DataSummary:
    """Counts of what a dataset holds: videos by status, samples by system, ratings by rater and by aspect, with
    quantiles of durations and of words by system. counts: the row of view dataset_summary, by column. refused: rows
    that ingest refused, by code. labelled: samples with a label of a keypoint. n_drawn_apart: ratings of chosen
    captions, which are no random sample; all numbers but counts leave them out.

    rated_between: the days of the first and the last answer in a browser; None without any. repeats: how consistent
    raters are who judged the same sample twice. origins: licences and sources of the videos; None if none is known.
    own_numbers: own fields of the videos that are numbers, such as those of another tool. checks: how many attention
    checks raters passed.
    """

    counts: Mapping[str, int]
    video_statuses: Mapping[str, int]
    duration_s: Spread | None
    words: tuple[Spread, ...]
    systems: tuple[SystemCount, ...]
    raters: Mapping[str, int]
    ratings: Mapping[str, int]
    refused: Mapping[str, int]
    labelled: int
    synthetic_ratings: bool
    n_drawn_apart: int
    turned_aspects: Mapping[str, float]
    rated_between: tuple[str, str] | None = None
    repeats: tuple[RaterConsistency, ...] = ()
    origins: Origins | None = None
    own_numbers: tuple[OwnNumber, ...] = ()
    checks: tuple[CheckCount, ...] = ()


@dataclass(frozen=True, slots=True)
class FactDistribution:
    """How one fact is distributed over the videos or captions that have it: median, extremes and histogram (`summary`).
    of: "video" or "caption". meaning: unit or meaning of its numbers.
    """

    fact: str
    meaning: str
    of: FactSubject
    summary: FactSummary

    def list_extremes(self) -> Iterator[tuple[str, Extreme]]:
        """Yield ("least", extreme) and ("most", extreme): the lowest and the highest value, each with the key that has
        it. An end that equals the median is left out.
        """
        for word, end in (("least", self.summary.least), ("most", self.summary.greatest)):
            if end.value != self.summary.median:
                yield word, end


@dataclass(frozen=True, slots=True)
class NotableFact:
    """A sentence on videos or captions that are unusual in one way. condition: the condition of a recipe that selects
    them, or for copies the option that leaves them out, such as `dedupe: 1`.
    """

    sentence: str
    condition: str


@dataclass(frozen=True, slots=True)
class VideoCopy:
    """A video that is nearly the same as an earlier one. key, original: the keys of the copy and of the other video.
    similarity: cosine of their signatures, at most 1.
    """

    key: str
    original: str
    similarity: float


@dataclass(frozen=True, slots=True)
class ProposedCondition:
    """A condition on facts to select captions by, in the filter language. n: how many captions meet it: at least half
    of them, but not all.
    """

    condition: str
    n: int


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """A dataset described by its facts: distributions (`facts`), notable groups of videos or captions, copies, and a
    proposed condition. n_videos, n_captions: those that have facts. copies: in order of keys, each with the earlier
    video that it is most similar to; empty where there are too many videos to compare. proposed: None where no
    condition leaves out some captions, but at most half.
    """

    n_videos: int
    n_captions: int
    facts: tuple[FactDistribution, ...]
    notable: tuple[NotableFact, ...]
    copies: tuple[VideoCopy, ...]
    proposed: ProposedCondition | None


@dataclass(frozen=True, slots=True)
class SystemTable:
    """Means of every system, with intervals over videos, for one kind of samples; the columns are metrics, or rated
    aspects. systems: the highest mean rank first. means: by system, then by column. n_left_out: systems beyond those
    shown. leads: by column the p-value of the best system's lead, the greatest over all other systems; None where it is
    undefined. A report corrects it.
    """

    kind: str
    systems: tuple[str, ...]
    columns: tuple[str, ...]
    means: Mapping[str, Mapping[str, ClusterMean]]
    n_videos: int
    n_left_out: int
    leads: Mapping[str, float | None]


def format_aspect(aspect: str) -> str:
    """Return the name of an aspect for a sentence: "labelled coverage" for the aspect of keypoint labels
    (LABELS_ASPECT), and any other as it is.
    """
    return "labelled coverage" if aspect == LABELS_ASPECT else aspect


@dataclass(frozen=True, slots=True)
class ReferenceCount:
    """How many references the videos of the compared captions have: the fewest, the median and the most."""

    least: int
    median: float
    most: int


@dataclass(frozen=True, eq=False)
class AspectAgreement:
    """How well every metric's order of captions and of systems matches people's, by one aspect. Numbers are rows of
    table `agreement`, most of them of tau-b, with p-values corrected for the page. coefficients, verdicts: of captions,
    by metric, over all samples that it has a value for. baselines: of the simple scores. ceiling: of one more rater
    with the others; None without two raters. careless: the raters who count for it although the page calls them far
    from the others, answering in a pattern or failing checks; ceiling_without_careless: of the others. synthetic:
    whether a program made the ratings.

    strongest: the simple score farthest from 0, with its sign turned where it is negative; rivals: the same by metric,
    on the samples that the metric has a value for, where `against` is the simple score. system_coefficients: of the
    systems' means, by metric and simple score; order_verdicts: conclusions on these, by metric. references: how many
    references the videos have, by metric and simple score that compares captions with them.

    missing, fewer, orders: sentences on what cannot be compared, on metrics with fewer samples, and on orders of
    systems. raters, ties, beside_rater: sentences on raters who are left out or far from the others, on pairs that
    metrics tie, and on every metric compared with one more rater.
    """

    aspect: str
    n_samples: int
    n_ratings: int
    n_raters: int
    synthetic: bool
    missing: tuple[str, ...]
    coefficients: Mapping[str, AgreementRow]
    baselines: tuple[AgreementRow, ...]
    strongest: AgreementRow | None
    ceiling: AgreementRow | None
    careless: tuple[str, ...]
    ceiling_without_careless: Estimate | None
    raters: tuple[str, ...]
    ties: tuple[str, ...]
    beside_rater: tuple[str, ...]
    verdicts: Mapping[str, Conclusion]
    rivals: Mapping[str, AgreementRow]
    system_coefficients: Mapping[str, AgreementRow]
    order_verdicts: Mapping[str, Conclusion]
    references: Mapping[str, ReferenceCount]
    fewer: tuple[str, ...]
    orders: tuple[str, ...]
    rows: tuple[AgreementRow, ...]


@dataclass(frozen=True, slots=True)
class MetricStress:
    """The stress of a metric's active scorer (`stress`, as it is stored): a sentence on the whole (`summary`), and a
    sentence on every hole, gains from text without truth first. warning: the largest hole, with the remedy; None
    without a hole.
    """

    metric: str
    summary: str
    warning: str | None
    holes: tuple[str, ...]
    stress: Stress


@dataclass(frozen=True, eq=False)
class MetricSpread:
    """The histogram of a metric's values for one kind of samples. counts: of equal bins from `low` to `high`."""

    metric: str
    kind: str
    low: float
    high: float
    counts: tuple[int, ...]
