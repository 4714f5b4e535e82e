"""Mixes the pairs of one epoch: SNLI, pairs that differ in a word, generated pairs, news summaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeVar

from lab.verifier.data import CHOICE, TEST, TRAIN, Pair, Statement, contrasts, realsumm, snli
from lab.verifier.generated import altered, lengthened, scenes, unrelated
from metrics_core.ecs.verifier.lexical import LEXICAL_FEATURES, compute_lexical_features

Item = TypeVar("Item")


@dataclass(frozen=True)
class Shares:
    """How much an epoch draws from every source but SNLI, which comes in full.

    Numbers of pairs, except altered_premises: the number of SNLI premises that altered pairs are made from.
    """

    contrasts: int = 2000
    altered_premises: int = 800
    lengthened: int = 400
    unrelated: int = 300
    scenes: int = 500
    news_sentences: int = 2400
    news_summaries: int = 500


@dataclass(frozen=True)
class Sources:
    """The pairs that training draws from."""

    snli: Sequence[Pair]
    contrasts: Sequence[Pair]
    news_sentences: Sequence[Pair]
    news_summaries: Sequence[Pair]


def read_sources(folder: Path) -> Sources:
    """Read the training parts of all data below a folder."""
    pairs, news = snli(folder), realsumm(folder)[TRAIN]
    return Sources(
        pairs[TRAIN], contrasts(folder, pairs[TEST] + pairs[CHOICE]), sentence_pairs(news), summary_pairs(news)
    )


def epoch(sources: Sources, shares: Shares, rng: Random) -> list[Pair]:
    """Draw the pairs of one epoch, in no particular order. Every call draws anew."""
    premises = sorted({pair.premise for pair in sources.snli})
    chosen = [pair for premise in _some(premises, shares.altered_premises, rng) for pair in altered(premise, rng)]
    return [
        *sources.snli,
        *_some(sources.contrasts, shares.contrasts, rng),
        *chosen,
        *lengthened(_some(sources.snli, shares.lengthened, rng), rng),
        *unrelated(_some(sources.snli, shares.unrelated, rng), rng),
        *scenes(shares.scenes, rng),
        *_some(sources.news_sentences, shares.news_sentences, rng),
        *_some(sources.news_summaries, shares.news_summaries, rng),
    ]


def sentence_pairs(statements: Sequence[Statement]) -> list[Pair]:
    """Pair every statement with the nearest sentence of every summary, labelled with the mean share of votes.

    Votes are about whole summaries, and the nearest sentence stands for its summary. Where people did not find the
    statement in the summary, no sentence entails it; where they did, the nearest sentence most likely does.
    """
    votes: dict[tuple[str, str], list[float]] = {}
    for statement in statements:
        if statement.sentences:
            votes.setdefault((nearest_sentence(statement), statement.text), []).append(statement.share)
    return [Pair(premise, text, sum(shares) / len(shares)) for (premise, text), shares in votes.items()]


def summary_pairs(statements: Sequence[Statement]) -> list[Pair]:
    """Pair every statement with every whole summary, labelled with the share of votes."""
    return [Pair(" ".join(statement.sentences), statement.text, statement.share) for statement in statements]


def nearest_sentence(statement: Statement) -> str:
    """Choose the sentence that contains most of the statement, by words and by letters; of equal ones the first."""
    recall, letters = LEXICAL_FEATURES.index("content_recall"), LEXICAL_FEATURES.index("letter_recall")

    def shared(sentence: str) -> float:
        features = compute_lexical_features(sentence, statement.text)
        return features[recall] + features[letters]

    return max(statement.sentences, key=shared)


def _some(items: Sequence[Item], count: int, rng: Random) -> list[Item]:
    return rng.sample(list(items), min(count, len(items)))
