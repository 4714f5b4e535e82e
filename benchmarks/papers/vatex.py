"""Table 2 of the VCS paper: VATEX-EVAL, every metric against three raters, with one and with nine references."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import vatex_eval
from benchmarks.agreement import texts_of
from benchmarks.ecs_data import require
from benchmarks.installation import temporary_engine
from benchmarks.papers import meteor
from benchmarks.papers.meteor import METEOR
from benchmarks.papers.over_raters import over_raters
from benchmarks.papers.recipes import Recipe, follows_from, text_encoder
from benchmarks.papers.records import Comparison, Row, Table, number, strongest
from benchmarks.papers.stages import Stages
from benchmarks.papers.vatex_ngrams import ngram_scores
from benchmarks.papers.vcs_published import ABSTRACT, JUDGED, SHORT_JUDGED, TABLE_2
from metrics_core.agreement import Estimate, compute_words_in_common, count_words

NAME, DATA_SET = "vcs_2", "vatex_eval"
SHORT, COSINE = "VCS_short, lct 1", "highest cosine of whole texts"
SIMPLE = ("length", "words in common", COSINE)
PLATFORM_NAMES = {"vcs_short": "VCS_short", "highest gas": COSINE}
STATISTICS = {"kendall_b": "Kendall", "spearman": "Spearman"}
NOTES = {
    METEOR: "NLTK's, which gives the authors' values in Table 1; their figures here may come from another METEOR",
    **dict.fromkeys(("BERT-S", "BERT-S++", "EMScore", "RefPAC-S"), "the model, or the videos, are not at hand"),
}
SCORE_CODE = ("metrics_core/vcs", "metrics_core/models/text_encoder.py", "benchmarks/vatex_eval.py")
NGRAM_CODE = ("benchmarks/papers/vatex_ngrams.py", "benchmarks/papers/ngrams.py", *meteor.CODE)
CODE = (
    "benchmarks/papers/vatex.py",
    "benchmarks/papers/over_raters.py",
    "benchmarks/papers/vcs_published.py",
    "metrics_core/agreement",
    *SCORE_CODE,
    *NGRAM_CODE,
)
PACKAGES = ("nltk", "rouge-score")


def models() -> dict[str, Any]:
    """The identities of the text encoder and of WordNet."""
    return {"text encoder": text_encoder().identity.as_dict(), **meteor.identity()}


def platform_scores() -> dict[str, Any]:
    """Captions with their ratings and scores, by number of references, made through the platform."""
    source, clock = require(DATA_SET) / "vatex_eval.jsonl", vatex_eval.Clock()
    with (
        tempfile.TemporaryDirectory(prefix="reelsieve-") as temporary,
        temporary_engine(Path(temporary) / "home") as engine,
    ):
        return {
            str(count): of_platform(engine, source, Path(temporary) / f"references_{count}", count, clock)
            for count in vatex_eval.REFERENCE_COUNTS
        }


def of_platform(engine: Any, source: Path, folder: Path, count: int, clock: vatex_eval.Clock) -> dict[str, Any]:
    """The same with so many references."""
    dataset, found = vatex_eval.ingested(engine, source, folder, count, clock), {}
    for lct in vatex_eval.TOLERANCES:
        judged, _ = vatex_eval.judged_captions(engine, dataset, lct, clock)
        for name, values in vatex_eval.scores_by_name(engine, judged, lct).items():
            if name in PLATFORM_NAMES:
                shown = PLATFORM_NAMES[name]
                found[shown if shown == COSINE else f"{shown}, lct {lct:g}"] = values.tolist()
    texts, references = texts_of(engine, [row.sample_id for row in judged])
    return {
        "texts": texts,
        "references": references,
        "videos": [row.video_id for row in judged],
        "ratings": [[float(value) for value in row.ratings] for row in judged],
        "scores": found,
    }


def table(stages: Stages) -> Table:
    """Every metric's agreement with people, times 100."""
    key = follows_from([DATA_SET], (), SCORE_CODE, {"text encoder": text_encoder().identity.as_dict()})
    captions = stages.whole("vatex scores", key, platform_scores)
    for_ngrams = {**follows_from([DATA_SET], PACKAGES, NGRAM_CODE, meteor.identity()), "counts": sorted(captions)}
    ngrams = {
        count: stages.whole(f"vatex n-grams {count}", for_ngrams, lambda own=own: ngram_scores(own))  # type: ignore[misc]
        for count, own in captions.items()
    }
    rows = [row for count, own in captions.items() for row in rows_of(int(count), own, ngrams[count])]
    baseline = strongest({row.row: row.ours for row in rows if row.row in SIMPLE and row.column == "9 refs, Kendall"})
    shown = {"text encoder": text_encoder().identity.model_id}
    title = "VCS, Table 2: VCS_short and n-gram metrics against people on VATEX-EVAL"
    return Table(NAME, title, [compared_with_paper(rows)], shown, rows, 1, REMARKS, baseline, comparisons_of(rows))


REMARKS = (
    "Kendall's tau-b and Spearman's rho times 100, the mean over three raters; scores are rounded to four decimals as "
    "the authors do. 9,048 captions of 1,508 videos. Intervals draw videos.",
    "BLEU: NLTK, smoothing method 1. ROUGE-L: rouge-score, METEOR: NLTK, both by the best reference. CIDEr: by its "
    "formula, without the penalties of CIDEr-D.",
    "one rater: each rater against each other one, the ceiling that people set.",
)


def rows_of(count: int, captions: Mapping[str, Any], ngrams: Mapping[str, Sequence[float]]) -> Iterator[Row]:
    """The rows with so many references."""
    ratings, videos = np.array(captions["ratings"]), captions["videos"]
    texts, references = captions["texts"], captions["references"]
    simple = {"length": count_words(texts), "words in common": compute_words_in_common(texts, references)}
    found = {name: np.array(values) for name, values in {**captions["scores"], **ngrams}.items()} | simple
    judged = {name: over_raters(np.round(values, 4), ratings, videos) for name, values in found.items()}
    order = [name for name in found if name.startswith("VCS")] + [*JUDGED, *SIMPLE]
    for name in order:
        yield from cells(count, name, judged.get(name), len(texts))
    yield from cells(count, "one rater", between_raters(ratings, videos), len(texts))


def between_raters(ratings: Any, videos: Sequence[object]) -> dict[str, Estimate]:
    """How well one rater agrees with the others."""
    raters = range(ratings.shape[1])
    parts = [over_raters(ratings[:, i], np.delete(ratings, i, axis=1), videos) for i in raters]
    means = {name: [part[name] for part in parts] for name in parts[0]}
    return {name: Estimate(float(np.mean([each.value for each in own])), None, None) for name, own in means.items()}


def cells(count: int, name: str, judged: Mapping[str, Estimate] | None, n: int) -> Iterator[Row]:
    """Both coefficients of a metric."""
    for (statistic, label), published in zip(STATISTICS.items(), published_of(count, name), strict=True):
        ours = judged and judged[statistic]
        column = f"{count} ref{'s' if count > 1 else ''}, {label}"
        note = meteor.ABSENT if name == METEOR and not ours else NOTES.get(name, "")
        numbers = (
            [None if limit is None else 100 * limit for limit in (ours.value, ours.low, ours.high)] if ours else []
        )
        yield Row(NAME, name, column, published, *(numbers or (None,) * 3), n=n, note=note, source=source_of(name))


def published_of(count: int, name: str) -> tuple[float | None, float | None]:
    """The paper's Kendall and Spearman with so many references; None where it prints none."""
    figures = SHORT_JUDGED if name == SHORT else JUDGED.get(name)
    if figures is None:
        return None, None
    return figures[:2] if count == 1 else figures[2:]


def source_of(name: str) -> str:
    """Where a metric's published figures stand."""
    return ABSTRACT if name == SHORT else TABLE_2 if name in JUDGED else ""


def comparisons_of(rows: Sequence[Row]) -> list[Comparison]:
    """VCS_short against the strongest simple rule."""
    comparisons = []
    for count in ("1 ref", "9 refs"):
        ours = {row.row: row.ours for row in rows if row.column == f"{count}, Kendall"}
        best = strongest({name: ours[name] for name in SIMPLE})
        comparisons.append(Comparison(f"Kendall of {SHORT}, {count}", ours[SHORT], best, ours[best]))
    return comparisons


def compared_with_paper(rows: Sequence[Row]) -> str:
    """How far our figures of the metrics of words are from the published ones."""
    gaps = {
        f"{row.row}, {row.column}": abs(row.ours - row.published)
        for row in rows
        if row.row != SHORT and row.ours is not None and row.published is not None
    }
    most = max(gaps, key=gaps.__getitem__)
    mean = number(float(np.mean(list(gaps.values()))), 1)
    return f"Metrics of words differ from the paper by {mean} on average, at most by {gaps[most]:.1f} ({most})."


RECIPES = (Recipe(NAME, (DATA_SET,), PACKAGES, CODE, models, table),)
