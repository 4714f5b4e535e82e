"""Separation of valid and invalid variants, the form of Table 1 of the VCS paper that a classifier is judged by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.measure import TEXT_ENCODER
from benchmarks.papers import meteor
from benchmarks.papers.corruption import SENTENCES, SIMPLE, TOLERANCES, Values, values
from benchmarks.papers.meteor import METEOR
from benchmarks.papers.mpii import UNPUNCTUATED
from benchmarks.papers.ngrams import CORRUPTION_METRICS
from benchmarks.papers.recipes import text_encoder
from benchmarks.papers.records import Comparison, Row, Table, number, strongest
from benchmarks.papers.separation import accuracy, area
from benchmarks.papers.stages import Stages
from benchmarks.rank_agreement import correlation

SEPARATION = "vcs_1_separation"
SOURCE = "VCS authors' published value of every variant, MPII corruption test; the paper's Table 1 gives means of them"
READS_ALL = "VCS with an encoder that reads whole descriptions"
NOT_MEASURED = (
    "not measured: no package brings such an encoder. With a GPU and a model hub: "
    "REELSIEVE_TEXT_ENCODER=nvidia/NV-Embed-v2 make papers TABLES='vcs_1_separation vcs_1_variants vcs_3_authors'"
)
REMARKS = (
    "AUC: the chance that a valid variant scores higher than an invalid one; by category against all valid ones. "
    "Published figures of this table are computed here from the published values of the same variants.",
    "Below .5 a rule points the wrong way. Content corruptions keep a text's length and most of its words, while valid "
    "variants change both: so length and n-grams fail here, and length turned round would tell the two apart.",
    "cosine of whole texts is the GAS inside VCS. cosine of mean sentences: of the mean vectors of both texts' "
    "sentences by the rule splitter. length: the shorter length divided by the longer one. Intervals draw base "
    "descriptions.",
)
IN_CHUNKS = (
    "all-MiniLM-L6-v2 reads 256 word pieces, about half of a description: the vector of a longer text is the mean of "
    "its chunks. NV-Embed-v2 reads a description at once."
)


def shown_models() -> dict[str, str]:
    """Models as the page names them."""
    return {
        "text encoder of our VCS": text_encoder().identity.model_id,
        "sentences": "rules (sentencex)",
        "the published VCS": "NV-Embed-v2, segments by SaT",
    }


def separation(stages: Stages) -> Table:
    """Valid against invalid variants, by every metric."""
    found = values(stages, text_encoder())
    columns = parts(found)
    rows = list(separation_rows(found, columns))
    of = {part: {row.row: row.ours for row in rows if row.column == f"AUC, {part}"} for part in columns}
    rivals = (*SIMPLE, *CORRUPTION_METRICS, METEOR)
    best = {part: strongest({name: side[name] for name in rivals}) for part, side in of.items()}
    comparisons = [
        Comparison(f"AUC of {name}, {part}", side[name], best[part], side[best[part]])
        for part, side in of.items()
        for name in TOLERANCES
    ]
    majority = number(float(max(found.valid.mean(), 1 - found.valid.mean())), 3)
    rest = (
        f"Always saying invalid is right for {majority} of the {len(found.names):,} variants. The paper cuts at .5; "
        "our accuracy is at thresholds that Youden's index chose on other descriptions."
    )
    title = "VCS, Table 1 in form: does a metric tell valid from invalid variants?"
    summary = [*(explained(name, found, of["all"]) for name in TOLERANCES), rest]
    remarks = separation_remarks(found)
    return Table(SEPARATION, title, summary, shown_models(), rows, 3, remarks, best["all"], comparisons)


def explained(name: str, found: Values, areas: Mapping[str, float | None]) -> str:
    """How much of what VCS can do the cosine of mean sentences does, too, which knows no order."""
    whole, part = areas[name], areas[SENTENCES]
    assert whole is not None
    assert part is not None
    rank = correlation(found.ours[name], found.ours[SENTENCES]).spearman
    assert rank is not None
    return (
        f"Of the {number(whole - 0.5, 3)} by which {name} is above chance, {SENTENCES} has {number(part - 0.5, 3)}, "
        f"{(part - 0.5) / (whole - 0.5):.0%}; the ranks of both over all variants correlate by {number(rank, 3)}."
    )


def separation_remarks(found: Values) -> list[str]:
    """What a reader has to know of the variants and of the encoder."""
    kinds = {said: ", ".join(names_of(found, said)) for said in (True, False)}
    return [
        *REMARKS,
        f"Valid: {kinds[True]}. Invalid: {kinds[False]}. The paper names neither repeated segments nor corruptions of "
        "a single part of speech; they count as invalid here.",
        f"{', '.join(UNPUNCTUATED)} stand in the file without punctuation. Rows `raw` take them as they are: "
        f"{found.shape_zeros:,} variants then score 0 by their shape alone, nearly all as one segment, which is no "
        "merit. The other rows have recovered segments: cut where the words pass from one sentence of the base "
        "description to another.",
        *([IN_CHUNKS] if TEXT_ENCODER == "offline" else []),
    ]


def parts(found: Values) -> dict[str, Any]:
    """Which variants each column compares: all, or the valid ones and the invalid ones of a category."""
    categories = np.array(found.categories)
    valid = found.valid.astype(bool)
    invalid = dict.fromkeys(categories[~valid].tolist())
    return {"all": np.ones(valid.size, dtype=bool), **{name: valid | (categories == name) for name in invalid}}


def separation_rows(found: Values, columns: Mapping[str, Any]) -> Iterator[Row]:
    """AUC in every column and accuracy, of ours and of the published values."""
    raw = [f"{name} raw" for name in TOLERANCES]
    yield Row(SEPARATION, READS_ALL, "AUC, all", note=NOT_MEASURED)
    for name in (*TOLERANCES, *raw, *CORRUPTION_METRICS, METEOR, *SIMPLE):
        measures = {f"AUC, {part}": (area, kept) for part, kept in columns.items()}
        for column, (measure, kept) in {**measures, "accuracy": (accuracy, columns["all"])}.items():
            sides = [
                measure(side[name][kept], found.valid[kept].astype(bool), [found.base[i] for i in np.flatnonzero(kept)])
                if name in side
                else None
                for side in (found.published, found.ours)
            ]
            published, ours = sides
            limits = {"low": ours.low, "high": ours.high} if ours else {}
            note = meteor.ABSENT if name == METEOR and not ours else ""
            yield Row(
                SEPARATION,
                name,
                column,
                published.value if published else None,
                ours.value if ours else None,
                **limits,
                n=int(kept.sum()),
                note=note,
                source=SOURCE if published else "",
            )


def names_of(found: Values, valid: bool) -> list[str]:
    """The kinds of variants that count as valid, or as invalid."""
    return list(dict.fromkeys(name for name, each in zip(found.names, found.valid, strict=True) if bool(each) == valid))
