"""The facts on a report's page: plain records without pictures and markup, which report.json holds, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from assets.agreement.judged import LABELS_ASPECT
from assets.agreement.progress import RaterConsistency
from assets.agreement.table import StoredAgreementRow
from assets.reports.answer_records import ReportAnswers
from assets.reports.sample_records import SampleGroup, ShownSample
from db.reports.facts import Extreme, FactSubject, FactSummary
from db.reports.values import Spread
from db.scores.imported_scores import IMPORTED_VERSION
from db.scores.quality import StatusCount
from metrics_core.agreement.baseline_comparison import Coefficient
from metrics_core.agreement.conclusions import Conclusion, OrderConclusion
from metrics_core.calibration import RatedThreshold
from metrics_core.intervals import ClusterMean


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """A metric with a score on the dataset.

    label: its name with the stand-ins behind it; stand_ins: with remedies. ranges: its extremes, by kind of samples.
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
        """Whether its scores were made elsewhere, so that no command here can renew them."""
        return self.code_version == IMPORTED_VERSION

    @property
    def n_stale(self) -> int:
        """How many samples have a score of earlier inputs."""
        return sum(each.n for each in self.statuses if each.status == "stale")

    def has_values(self, kind: str) -> bool:
        """Whether some sample of the kind has a value."""
        return kind in self.ranges

    def count_values(self, kind: str) -> int:
        """How many samples of the kind have a value."""
        return sum(each.n for each in self.statuses if (each.kind, each.status) == (kind, "ok"))


@dataclass(frozen=True, slots=True)
class SystemCount:
    """How much a system wrote."""

    kind: str
    system: str
    samples: int
    videos: int


@dataclass(frozen=True, slots=True)
class DataSummary:
    """The dataset's content. counts: the row of view dataset_summary. refused: rows that ingest refused, by code.

    raters, ratings: the number of ratings by rater and by aspect. labelled: the samples with a label of a keypoint.
    rated_between: the days of the first and the last answer in a browser. repeats: how consistent raters are, who were
    asked the same twice.
    n_drawn_apart: the ratings that a question drew and that are no random sample, left out of all numbers but counts.
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
    rated_between: tuple[str, str] | None = None
    repeats: tuple[RaterConsistency, ...] = ()


@dataclass(frozen=True, slots=True)
class FactDistribution:
    """How a fact spreads over the videos or captions that have it. meaning: what its numbers are, in few words."""

    fact: str
    meaning: str
    of: FactSubject
    summary: FactSummary

    def list_extremes(self) -> Iterator[tuple[str, Extreme]]:
        """The least and the greatest value, without one that half of all have."""
        for word, end in (("least", self.summary.least), ("most", self.summary.greatest)):
            if end.value != self.summary.median:
                yield word, end


@dataclass(frozen=True, slots=True)
class NotableFact:
    """Which videos or captions stand out, in a sentence; condition: what finds them, as a recipe has it."""

    sentence: str
    condition: str


@dataclass(frozen=True, slots=True)
class VideoCopy:
    """A video that is a copy of another one, or nearly, by their keys. similarity: of their signatures, at most 1."""

    key: str
    original: str
    similarity: float


@dataclass(frozen=True, slots=True)
class ProposedCondition:
    """A condition on facts that n of the captions meet: half of them or more, and not all."""

    condition: str
    n: int


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """What facts tell of so many videos and captions that have some.

    copies: by key, each with the video before it that is most like it; none where too many videos are to be compared.
    proposed: a condition to select captions by, None where none takes a proper part of them.
    """

    n_videos: int
    n_captions: int
    facts: tuple[FactDistribution, ...]
    notable: tuple[NotableFact, ...]
    copies: tuple[VideoCopy, ...]
    proposed: ProposedCondition | None


@dataclass(frozen=True, slots=True)
class SystemTable:
    """The mean of every metric, or of the ratings by every aspect, for every system of one kind of samples.

    leads: for every column, how likely chance alone puts the highest mean so far above the next, see `ClusterMean`.
    """

    kind: str
    systems: tuple[str, ...]
    columns: tuple[str, ...]
    means: Mapping[str, Mapping[str, ClusterMean]]
    n_videos: int
    n_left_out: int
    leads: Mapping[str, float | None]


@dataclass(frozen=True, eq=False)
class ScatterPoints:
    """A metric's values and the mean ratings of at most so many of n samples, with the mean rating of each tenth."""

    metric: str
    aspect: str
    values: list[float]
    ratings: list[float]
    trend: list[tuple[float, float]]
    n: int


def format_aspect(aspect: str) -> str:
    """Return an aspect as a sentence names it."""
    return "labelled coverage" if aspect == LABELS_ASPECT else aspect


@dataclass(frozen=True, slots=True)
class ReferenceCount:
    """How many references the videos of compared captions have: the fewest, the median and the most."""

    least: int
    median: float
    most: int


@dataclass(frozen=True, eq=False)
class AspectAgreement:
    """How the metrics agree with people by one aspect. Coefficients are Kendall's tau-b.

    coefficients, verdicts, n_videos: of captions, over all samples that a metric has a value for. strongest: of the
    simple scores, turned round where it is negative; rivals: the same on the samples of each metric that has one.
    system_coefficients: of the systems' means, by metric and simple score; order_verdicts: by metric.
    references: how many references the videos have, by metric and simple score that compares captions with them.
    missing, fewer, orders: sentences on what cannot be compared, metrics with fewer samples, and orders of systems.
    raters, ties, beside_rater: sentences on raters who are left out or far from the others, on the pairs that metrics
    tie, and on each metric beside one more rater.
    """

    aspect: str
    n_samples: int
    n_ratings: int
    n_raters: int
    synthetic: bool
    missing: tuple[str, ...]
    coefficients: Mapping[str, Coefficient]
    baselines: tuple[Coefficient, ...]
    strongest: Coefficient | None
    ceiling: Coefficient | None
    raters: tuple[str, ...]
    ties: tuple[str, ...]
    beside_rater: tuple[str, ...]
    verdicts: Mapping[str, Conclusion]
    n_videos: Mapping[str, int]
    rivals: Mapping[str, Coefficient]
    system_coefficients: Mapping[str, Coefficient]
    order_verdicts: Mapping[str, OrderConclusion]
    references: Mapping[str, ReferenceCount]
    fewer: tuple[str, ...]
    orders: tuple[str, ...]
    rows: tuple[StoredAgreementRow, ...]
    scatters: tuple[ScatterPoints, ...]


@dataclass(frozen=True, eq=False)
class TrustSummary:
    """Metrics against people, on n_judged samples. unscored: by metric, how many of these have no value, by why.

    side_by_side: by aspect, how often metrics, simple scores and raters prefer what people prefer of two captions.
    age: a sentence where the stored agreement is missing, or older than scores or judgements; else None.
    """

    aspects: tuple[AspectAgreement, ...]
    n_judged: int
    unscored: Mapping[str, Mapping[str, int]]
    side_by_side: Mapping[str, tuple[StoredAgreementRow, ...]] = field(default_factory=dict)
    age: str | None = None


@dataclass(frozen=True, eq=False)
class MetricPair:
    """Spearman's rho of two metrics over the n samples that have both; None where undefined."""

    metric: str
    other: str
    spearman: float | None
    n: int


@dataclass(frozen=True, eq=False)
class MetricSpread:
    """A metric's distribution: counts of equal bins from low to high, and the quantiles by system and by shard."""

    metric: str
    kind: str
    low: float
    high: float
    counts: tuple[int, ...]
    by_system: tuple[Spread, ...]
    by_shard: tuple[Spread, ...]


@dataclass(frozen=True, eq=False)
class ShareThresholdRow:
    """A threshold that keeps a share of all samples of a kind with a value, and what it keeps of each system.

    n_asked: how many samples the share is; n_kept: how many reach the value, more where several samples have it. n_at:
    how many have exactly the value.
    """

    metric: str
    kind: str
    share: float
    n_asked: int
    n_kept: int
    n_at: int
    n: int
    value: float
    by_system: Mapping[str, tuple[int, int]]
    ratings: Mapping[str, tuple[float | None, float | None]]


@dataclass(frozen=True, slots=True)
class LabelThresholdRow:
    """A threshold in force of ECS's keypoints, chosen on n labels."""

    metric: str
    dimension: str
    value: float
    objective: str
    n: int
    n_positive: int


@dataclass(frozen=True, slots=True)
class RatingThresholdRow:
    """The threshold of a metric by what people find good in one aspect.

    sentence: all in words, or why there is no threshold. beside: how it stands to simple numbers; "" without one.
    """

    metric: str
    objective: str
    cut: RatedThreshold
    sentence: str
    beside: str


@dataclass(frozen=True, eq=False)
class Report:
    """Everything on a report's page, all from one state of the database."""

    dataset: str
    made_at: datetime
    version: str
    notices: tuple[str, ...]
    answers: ReportAnswers
    metrics: tuple[MetricSummary, ...]
    data: DataSummary
    described: DatasetFacts | None
    systems: tuple[SystemTable, ...]
    people: tuple[SystemTable, ...]
    trust: TrustSummary
    pairs: tuple[MetricPair, ...]
    n_paired: int
    spreads: tuple[MetricSpread, ...]
    cuts: tuple[ShareThresholdRow, ...]
    rating_cuts: tuple[RatingThresholdRow, ...]
    label_cuts: tuple[LabelThresholdRow, ...]
    groups: tuple[SampleGroup[ShownSample], ...]
    agreement: tuple[StoredAgreementRow, ...] = field(default=())
