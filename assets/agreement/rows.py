"""How the metrics of a dataset agree with its ratings and labels, stored in table `agreement`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sqlalchemy.engine import Connection, Engine

from db.manifest.datasets import Dataset
from db.reports.agreement import (
    JudgedSample,
    Preference,
    judged_samples,
    preferences_of,
    ratings_of,
    replace_agreement,
)
from db.scores.decided_keypoints import DecidedKeypoint, decided_keypoints
from db.scores.present import SIMPLE_SCORES
from db.scores.scorers import values_of
from db.scores.stored import active_scorer
from metrics_core.agreement import (
    AgreementRow,
    Choices,
    agreement_rows,
    choice_rows,
    label_rows,
)
from metrics_core.calibration import calibration_mask
from metrics_core.facts.texts import words_in

# Decisions on single keypoints against people's labels, beside answers that do not look at the caption.

KEYPOINTS = "keypoints (labels)"
"""The aspect of all labelled keypoints together; of one dimension: `keypoints: NAME (labels)`."""


def keypoint_rows(decided: Sequence[DecidedKeypoint], *, seed: int) -> list[AgreementRow]:
    """Compute accuracy, F1, MCC and kappa on the labels that chose no threshold, in total and by dimension.

    n_undefined counts the labels without a decision.
    """
    held_out = without_calibration(decided)
    by_aspect = {KEYPOINTS: held_out} if held_out else {}
    dimensions = sorted({each.dimension for each in held_out})
    if len(dimensions) > 1:
        by_aspect |= {
            f"keypoints: {name} (labels)": [each for each in held_out if each.dimension == name] for name in dimensions
        }
    return [row for aspect, of_aspect in by_aspect.items() for row in _of_aspect(aspect, of_aspect, seed=seed)]


def without_calibration(decided: Sequence[DecidedKeypoint]) -> list[DecidedKeypoint]:
    """Leave out the labels that a threshold was chosen on: on these it looks better than it is."""
    calibrates = calibration_mask(each.group for each in decided).tolist()
    return [
        each
        for each, inside in zip(decided, calibrates, strict=True)
        if each.chosen_on is None or (each.chosen_on == "calibration" and not inside)
    ]


def _of_aspect(aspect: str, decided: Sequence[DecidedKeypoint], *, seed: int) -> Iterator[AgreementRow]:
    """Yield the rows of one aspect; a metric's labels are those that it was asked about."""
    for metric in sorted({each.metric for each in decided}):
        asked = [each for each in decided if each.metric == metric]
        found = [each for each in asked if each.covered is not None]
        rows = label_rows(
            {metric: [bool(each.covered) for each in found]},
            [each.label for each in found],
            [each.group for each in found],
            aspect,
            seed=seed,
        )
        yield from (replace(row, n_undefined=len(asked) - len(found)) for row in rows)


SEED = 0
RESAMPLES, RESAMPLES_OF_MANY = 1000, 200
MANY = 20_000
"""More samples than these get fewer resamples, so that 100,000 take minutes; their intervals are narrow."""
LABELS = "coverage (labels)"
"""The aspect of labels: the share of a caption's keypoints labelled as covered. All labels are of one rater."""
LENGTH, COMMON_WORDS, COSINE = "length in words", "words in common", "cosine of whole texts"
"""The names of the simple scores in the table of agreement."""
STORED: Mapping[str, str] = dict(zip((COMMON_WORDS, COSINE), SIMPLE_SCORES, strict=True))
"""The column of sample_scores that has a simple score, by its name in the table."""
COLUMNS: Mapping[str, str] = {LENGTH: "words", **STORED}
"""The same of all simple scores: the length is a fact."""
MAJORITY = "majority"
"""What gives every caption the commonest rating, and so ties all pairs: only pairwise accuracies exist."""


@dataclass(frozen=True, slots=True)
class StoredRow(AgreementRow):
    """A row of table `agreement`. n_stale: the stale scores or decisions that were left out."""

    scorer_id: int | None
    n_stale: int
    seed: int = SEED


# The last table that this process computed, by the digest of what it rests on.
_LAST: dict[bytes, list[StoredRow]] = {}


@dataclass(frozen=True)
class Rated:
    """Ratings of one aspect (n, raters), NaN where there is none. raters: their names, in the order of the columns."""

    values: npt.NDArray[np.float64]
    raters: tuple[str, ...]


@dataclass(frozen=True)
class Judged:
    """A dataset's judged samples with their numbers, each (n,), and ratings by aspect, NaN where there is none.

    They are all of one `kind`, whose scores lie on one scale: captions where people judged some. n_others: the judged
    samples of the other kind, which are left out. n_stale: for each score the judged samples whose score is stale, and
    left out. baselines: the values of what `load_simple_scores` loads. keypoints: the decisions on labelled keypoints.
    preferences: between two of the samples.
    """

    samples: list[JudgedSample]
    metrics: dict[str, npt.NDArray[np.float64]]
    scorers: dict[str, int]
    n_stale: dict[str, int]
    rated: dict[str, Rated]
    baselines: dict[str, npt.NDArray[np.float64]]
    keypoints: Sequence[DecidedKeypoint] = ()
    kind: str = "caption"
    n_others: int = 0
    preferences: Sequence[Preference] = ()

    @property
    def ratings(self) -> dict[str, npt.NDArray[np.float64]]:
        """The ratings (n, raters) by aspect."""
        return {aspect: each.values for aspect, each in self.rated.items()}

    @property
    def choices(self) -> dict[str, Choices]:
        """What people prefer of two captions side by side, by aspect."""
        return choices_of(self.samples, self.preferences)


def store_agreement(engine: Engine, dataset: Dataset, metrics: Sequence[str]) -> list[StoredRow]:
    """Compare the metrics' active scorers with people and replace the dataset's rows; none without a judgement."""
    with engine.connect() as connection:
        judged = load_judged(connection, dataset, metrics)
    rows = rows_of(judged)
    with engine.begin() as connection:
        replace_agreement(connection, dataset.dataset_id, [asdict(row) for row in rows])
    return rows


def resamples_for(n: int) -> int:
    """The number of resamples for n samples: their cost grows with n, and the interval's width shrinks."""
    return RESAMPLES if n <= MANY else RESAMPLES_OF_MANY


def load_judged(connection: Connection, dataset: Dataset, metrics: Sequence[str]) -> Judged:
    """Read the judgements of a dataset and the scores beside them. Metrics that scored none of them are left out."""
    everyone = judged_samples(connection, dataset.dataset_id)
    kind = min((each.kind for each in everyone), default="caption")
    samples = [each for each in everyone if each.kind == kind]
    ids = [each.sample_id for each in samples]
    # Without a judgement no score is read.
    stored = {name: load_values(connection, dataset.dataset_id, name, ids) for name in (metrics if samples else ())}
    loaded = {metric: found for metric, found in stored.items() if found}
    simple = load_simple_scores(connection, dataset.dataset_id, samples)
    everything = {**loaded, **simple}
    return Judged(
        samples,
        {metric: found.values for metric, found in loaded.items() if found.has_rows},
        {name: found.scorer_id for name, found in everything.items() if found.scorer_id is not None},
        {name: found.n_stale for name, found in everything.items()},
        by_aspect(samples, ratings_of(connection, dataset.dataset_id)),
        {name: found.values for name, found in simple.items()},
        decided_keypoints(connection, dataset.dataset_id) if samples else (),
        kind,
        len(everyone) - len(samples),
        preferences_of(connection, dataset.dataset_id) if samples else (),
    )


class Loaded(NamedTuple):
    """The values (n,) of n samples, NaN where there is none, and the scorer that stored them.

    n_stale: how many of its scores are stale, and have no value. has_rows: whether it scored any of the samples.
    """

    scorer_id: int | None
    values: npt.NDArray[np.float64]
    n_stale: int = 0
    has_rows: bool = True


def load_values(connection: Connection, dataset_id: int, name: str, sample_ids: Sequence[int]) -> Loaded | None:
    """Load what the active scorer of a metric or a simple score stored of these samples; None without a scorer."""
    scorer_id = active_scorer(connection, name)
    if scorer_id is None:
        return None
    scores = values_of(connection, scorer_id, dataset_id, sample_ids)
    values = np.array([_number(scores.get(sample_id, (None, ""))[0]) for sample_id in sample_ids])
    return Loaded(scorer_id, values, sum(status == "stale" for _, status in scores.values()), bool(scores))


def load_simple_scores(connection: Connection, dataset_id: int, samples: Sequence[JudgedSample]) -> dict[str, Loaded]:
    """Load by name what a metric has to beat: the simple scores, and the majority.

    A score that is stored is absent where none of the samples has a value of it.
    """
    if not samples:
        return {}
    # The number of column `words`, which is there only where somebody asked for facts.
    lengths = np.array([len(words_in(each.text)) for each in samples], dtype=np.float64)
    computed = {LENGTH: Loaded(None, lengths), MAJORITY: Loaded(None, np.zeros(len(samples)))}
    ids = [each.sample_id for each in samples]
    stored = {name: load_values(connection, dataset_id, column, ids) for name, column in STORED.items()}
    return computed | {name: found for name, found in stored.items() if found and np.isfinite(found.values).any()}


def _number(value: float | None) -> float:
    """The value, and NaN for none."""
    return math.nan if value is None else value


def by_aspect(samples: Sequence[JudgedSample], ratings: Iterable[tuple[int, str, str, float]]) -> dict[str, Rated]:
    """Ratings of these samples by aspect, and labels as the aspect LABELS of one rater, whose name is "labels"."""
    row_of = {each.sample_id: row for row, each in enumerate(samples)}
    raters: dict[str, dict[str, npt.NDArray[np.float64]]] = {}
    for sample_id, rater, aspect, value in ratings:
        if sample_id not in row_of:
            continue
        of_aspect = raters.setdefault(aspect, {})
        if rater not in of_aspect:
            of_aspect[rater] = np.full(len(samples), math.nan)
        of_aspect[rater][row_of[sample_id]] = value
    found = {
        aspect: Rated(np.stack(list(of_aspect.values()), axis=1), tuple(of_aspect))
        for aspect, of_aspect in raters.items()
    }
    if any(each.covered is not None for each in samples):
        found[LABELS] = Rated(np.array([[_number(each.covered)] for each in samples]), ("labels",))
    return found


def choices_of(samples: Sequence[JudgedSample], preferences: Iterable[Preference]) -> dict[str, Choices]:
    """Preferences between these samples by aspect; positions are those of the samples."""
    row_of = {each.sample_id: row for row, each in enumerate(samples)}
    by_aspect: dict[str, list[Preference]] = {}
    for each in preferences:
        if each.sample_id in row_of and each.other_id in row_of:
            by_aspect.setdefault(each.aspect, []).append(each)
    return {
        aspect: Choices.of(
            [row_of[each.sample_id] for each in own],
            [row_of[each.other_id] for each in own],
            [each.better for each in own],
            [each.rater for each in own],
            [samples[row_of[each.sample_id]].video_id for each in own],
        )
        for aspect, own in by_aspect.items()
    }


def rows_of(judged: Judged) -> list[StoredRow]:
    """Compute the agreement table of judged samples; of the same ones again, as a job's next asset asks, recall it."""
    same = _digest(judged)
    if same not in _LAST:
        _LAST.clear()
        _LAST[same] = _computed(judged)
    return list(_LAST[same])


def _digest(judged: Judged) -> bytes:
    """A digest of everything that the table rests on."""
    names = (judged.scorers, judged.n_stale, *judged.metrics, *judged.ratings, *judged.baselines)
    digest = sha256()
    # Row by row: the text of everything at once would be as big as all captions.
    for row in chain(judged.samples, judged.keypoints, judged.preferences, names):
        digest.update(repr(row).encode("utf-8", "surrogatepass") + b"\0")
    for numbers in (*judged.metrics.values(), *judged.ratings.values(), *judged.baselines.values()):
        digest.update(numbers.tobytes())
    return digest.digest()


def _computed(judged: Judged) -> list[StoredRow]:
    if not judged.samples:
        return []
    n_resamples = resamples_for(len(judged.samples))
    rows = agreement_rows(
        judged.metrics,
        judged.ratings,
        [each.video_id for each in judged.samples],
        [each.system for each in judged.samples],
        lengths=judged.baselines[LENGTH],
        baselines=judged.baselines,
        n_resamples=n_resamples,
        seed=SEED,
    )
    beside = {name: values for name, values in judged.baselines.items() if name != MAJORITY}
    of_choices = [
        row
        for aspect, choices in judged.choices.items()
        for row in choice_rows(judged.metrics, beside, choices, aspect, seed=SEED)
    ]
    of_keypoints = keypoint_rows(judged.keypoints, seed=SEED)
    n_stale = Counter(each.metric for each in judged.keypoints if each.is_stale)
    return [
        *(_stored(row, judged, judged.n_stale) for row in (*rows, *of_choices)),
        *(_stored(row, judged, n_stale) for row in of_keypoints),
    ]


def _stored(row: AgreementRow, judged: Judged, n_stale: Mapping[str, int]) -> StoredRow:
    """A row with its scorer and the number of stale scores or decisions left out."""
    scorer_id = judged.scorers.get(row.metric)
    return StoredRow(scorer_id=scorer_id, n_stale=n_stale.get(row.metric, 0), **asdict(row))
