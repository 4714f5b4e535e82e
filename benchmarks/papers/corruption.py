"""Table 1 of the VCS paper on the authors' own corruption test: every metric's values of every variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.papers import meteor, ngrams
from benchmarks.papers.meteor import METEOR
from benchmarks.papers.mpii import UNPUNCTUATED, Base, bases, segments_of, segments_recovered
from benchmarks.papers.recipes import follows_from
from benchmarks.papers.stages import Stages
from metrics_core.agreement import compute_words_in_common, count_words
from metrics_core.arrays import FloatArray
from metrics_core.protocols import TextEncoder
from metrics_core.vcs import vcs_per_tolerance
from metrics_core.vcs.embeddings import compute_similarities

TOLERANCES = {"VCS_LCT0": 0.0, "VCS_LCT1": 1.0}
SENTENCES, WHOLE = "cosine of mean sentences", "cosine of whole texts"
SIMPLE = ("length", "words in common", SENTENCES, WHOLE)
DATA_SET = "mpii_corruption"
PACKAGES = ("nltk", "rouge-score")
NGRAM_CODE = ("benchmarks/papers/ngrams.py",)
VCS_CODE = (
    "benchmarks/papers/corruption.py",
    "benchmarks/papers/mpii.py",
    "benchmarks/papers/recovered.py",
    "metrics_core/vcs",
    "metrics_core/long_text.py",
    "metrics_core/models/text_encoder.py",
    "metrics_core/models/sentence_splitter.py",
)


@dataclass(frozen=True)
class Values:
    """Values of n variants: names, categories, base descriptions and validity (n,), and each metric's values (n,).

    published: the authors' values of every metric, VCS with NV-Embed-v2. ours: of the same metrics, METEOR only with
    WordNet, of the simple ones, and of VCS on the texts as they are (`raw`). shape_zeros: how many raw values are 0 by
    shape alone.
    """

    names: list[str]
    categories: list[str]
    base: list[str]
    valid: FloatArray
    published: Mapping[str, FloatArray]
    ours: Mapping[str, FloatArray]
    shape_zeros: int


def values(stages: Stages, encoder: TextEncoder | None) -> Values:
    """The values of every variant, all stages kept description by description; of words only without an encoder."""
    for_ngrams = follows_from([DATA_SET], PACKAGES, NGRAM_CODE, {})
    kept = [stages.each("corruption n-grams", for_ngrams, bases(), lambda name: ngrams_of(bases()[name]))]
    if meteor.identity():
        for_meteor = follows_from([DATA_SET], PACKAGES, (*NGRAM_CODE, *meteor.CODE), meteor.identity())
        kept.append(stages.each("corruption METEOR", for_meteor, bases(), lambda name: meteor_of(bases()[name])))
    if encoder is not None:
        for_vcs = follows_from([DATA_SET], (), VCS_CODE, {"text encoder": encoder.identity.as_dict()})
        kept.append(stages.each("corruption VCS", for_vcs, bases(), lambda name: vcs_of(bases()[name], encoder)))
    rows = [(base, variant, i) for base in bases().values() for i, variant in enumerate(base.variants)]
    ours = [{name: value for stage in kept for name, value in stage[base.name][i].items()} for base, _, i in rows]
    texts, references = [variant.text for _, variant, _ in rows], [[base.text] for base, _, _ in rows]
    simple = {"length": length_ratio(texts, references), "words in common": compute_words_in_common(texts, references)}
    return Values(
        [variant.name for _, variant, _ in rows],
        [variant.category for _, variant, _ in rows],
        [base.name for base, _, _ in rows],
        np.array([variant.valid for _, variant, _ in rows]),
        {name: np.array([variant.published[name] for _, variant, _ in rows]) for name in rows[0][1].published},
        {**{name: np.array([row[name] for row in ours]) for name in ours[0] if name != "shape_zero"}, **simple},
        sum(row.get("shape_zero", False) for row in ours),
    )


def length_ratio(texts: Sequence[str], references: Sequence[Sequence[str]]) -> FloatArray:
    """The shorter of both lengths in words, divided by the longer one: 1 for texts of equal length.

    >>> length_ratio(["a b"], [["a b c d"]]).tolist()
    [0.5]
    """
    sides = count_words(texts), count_words([own[0] for own in references])
    ratios: FloatArray = np.minimum(*sides) / np.maximum(*sides)
    return ratios


def ngrams_of(base: Base) -> list[dict[str, float]]:
    """BLEU and ROUGE of a description's variants."""
    return [ngrams.scores_of(base.text, variant.text) for variant in base.variants]


def meteor_of(base: Base) -> list[dict[str, float]]:
    """METEOR of a description's variants."""
    reference = meteor.words_with_punctuation(base.text)
    texts = [meteor.words_with_punctuation(variant.text) for variant in base.variants]
    return [{METEOR: meteor.meteor([reference], text)} for text in texts]


def vcs_of(base: Base, encoder: TextEncoder) -> list[dict[str, Any]]:
    """VCS of a description's variants, with one segment for each chunk.

    Variants without punctuation have recovered segments; the columns `raw` have the segments of the rule splitter.
    """
    raw = [segments_of(variant.text) for variant in base.variants]
    chunks = [
        segments_recovered(variant.text, base.text) if variant.name in UNPUNCTUATED else own
        for variant, own in zip(base.variants, raw, strict=True)
    ]
    told = segments_of(base.text)
    texts = [base.text, *(variant.text for variant in base.variants)]
    strings = list(dict.fromkeys([*texts, *told, *(part for own in (*raw, *chunks) for part in own)]))
    vectors = dict(zip(strings, encoder.encode(strings), strict=True))

    mean_told = np.mean([vectors[part] for part in told], axis=0)

    def scored(segments: Sequence[str], text: str) -> tuple[dict[str, float], float, bool]:
        """VCS at both tolerances, the cosine of the whole texts, and whether the shape alone makes VCS 0."""
        sides = [np.stack([vectors[part] for part in own]) for own in (told, segments)]
        similarity, cosine = compute_similarities(*sides, vectors[base.text], vectors[text])
        results = vcs_per_tolerance(similarity, cosine, list(TOLERANCES.values()))
        named = {name: result.vcs for name, result in zip(TOLERANCES, results, strict=True)}
        return named, cosine, results[0].always_zero

    rows = []
    for variant, own, cut in zip(base.variants, raw, chunks, strict=True):
        by_tolerance, cosine, _ = scored(cut, variant.text)
        as_it_is, _, shape_zero = scored(own, variant.text)
        raw_columns = {f"{name} raw": value for name, value in as_it_is.items()}
        mean_own = np.mean([vectors[part] for part in own], axis=0)
        of_means = float(mean_told @ mean_own / np.linalg.norm(mean_told) / np.linalg.norm(mean_own))
        cosines = {SENTENCES: of_means, WHOLE: cosine}
        rows.append({**by_tolerance, **cosines, **raw_columns, "shape_zero": shape_zero})
    return rows
