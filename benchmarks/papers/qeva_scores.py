"""QEVA and simple metrics of summaries as written and spoilt in four ways; kept for twenty videos at a time."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any

import numpy as np

from benchmarks.ecs_run import Answers
from benchmarks.papers import meteor
from benchmarks.papers.meteor import METEOR
from benchmarks.papers.ngrams import bleu, caption_words, rouge_l
from benchmarks.papers.recipes import follows_from, text_encoder
from benchmarks.papers.stages import Stages
from benchmarks.qeva_anet import reported, videos_of
from benchmarks.qeva_run import SPLITTER, Bench, Judged, scores
from metrics_core.agreement import compute_words_in_common, count_words
from metrics_core.arrays import FloatArray
from metrics_core.models.lexical_verifier import LexicalVerifier
from metrics_core.qeva.by_chat.answerers import ChatAnswerer
from metrics_core.qeva.offline.answerers import DEFAULT_R, EntailmentAnswerer
from metrics_core.qeva.records import DIMENSIONS
from metrics_core.qeva.score import QevaScore

DATA_SET = "anet_captions"
SYSTEMS = {"written": "written", "shuffled 0": "shuffled", "exchanged": "exchanged"}
HALVED, WRONG = "halved", "wrong sentence"
QEVA, OFFLINE, LEXICAL = "QEVA", "entailment by the offline verifier", "content words in common"
CHAT = "a served chat model"
COSINE = "cosine of whole texts"
NGRAMS = ("BLEU-1", "BLEU-4", "ROUGE-L", METEOR)
SIMPLE = ("length", "words in common", COSINE, *NGRAMS)
AT_ONCE = 20
# The verifier's own threshold does not fit a share of words: half of them must be found.
LEXICAL_THRESHOLD = 0.5
VALUE_CODE = (
    "benchmarks/papers/qeva_scores.py",
    "benchmarks/papers/ngrams.py",
    *meteor.CODE,
    "benchmarks/qeva_anet.py",
    "benchmarks/qeva_run.py",
    "metrics_core/qeva",
    "metrics_core/ecs",
    "metrics_core/models",
)


class LexicalBench(Bench):
    """The same questions, answered by words in common."""

    def answerer(self, r: int = DEFAULT_R) -> EntailmentAnswerer:
        """The answerer with a threshold for shares of words."""
        return EntailmentAnswerer(self.verifier, LEXICAL_THRESHOLD, SPLITTER, self.encoder, r)


class ChatBench(Bench):
    """The same questions, answered by the chat model that REELSIEVE_QEVA_TEXT_MODEL and its URL name."""

    def answerer(self, r: int = DEFAULT_R) -> ChatAnswerer:
        """The answerer that asks the model; r does not matter, since a model reads the whole text."""
        from assets.home.settings import read_settings
        from orchestration.settings.groups import list_settings_groups

        settings: Any = read_settings(list_settings_groups()[0])
        return ChatAnswerer(settings.make_chat_model("qeva_text"))


@dataclass(frozen=True)
class Values:
    """n summaries: videos, systems, QEVA and its dimensions by answerer, NaN where undefined; simple metrics."""

    videos: list[str]
    systems: list[str]
    scores: Mapping[str, Mapping[str, FloatArray]]
    simple: Mapping[str, FloatArray]


@lru_cache(maxsize=1)
def answerers() -> dict[str, Bench]:
    """What answers the questions, by name."""
    served = {CHAT: ChatBench()} if "REELSIEVE_QEVA_TEXT_MODEL" in os.environ else {}
    return {OFFLINE: Bench(), LEXICAL: LexicalBench(verifier=Answers(LexicalVerifier())), **served}


@lru_cache(maxsize=1)
def judged() -> dict[str, Judged]:
    """The reported videos with the summaries of each: as written, and spoilt."""
    names = reported()
    videos = dict(zip(names, videos_of(names), strict=True))
    written = {name: video.summaries["written"].split("\n") for name, video in videos.items()}
    found = {}
    for name, video in videos.items():
        summaries = {shown: video.summaries[system] for system, shown in SYSTEMS.items() if system in video.summaries}
        strangers = [sentence for stranger in names if stranger != name for sentence in written[stranger]]
        found[name] = Judged(
            video.notes, {**summaries, **shortened_and_extended(written[name], strangers, Random(name))}
        )
    return found


def shortened_and_extended(sentences: Sequence[str], strangers: Sequence[str], rng: Random) -> dict[str, str]:
    """A summary without half of its sentences, where it has two or more, and with a stranger's sentence put in.

    >>> shortened_and_extended(["A man sits."], ["A dog barks."], Random(2))
    {'wrong sentence': 'A dog barks.\\nA man sits.'}
    """
    kept = sorted(rng.sample(range(len(sentences)), len(sentences) // 2))
    place = rng.randrange(len(sentences) + 1)
    extended = [*sentences[:place], rng.choice(strangers), *sentences[place:]]
    halved = {HALVED: "\n".join(sentences[i] for i in kept)} if kept else {}
    return {**halved, WRONG: "\n".join(extended)}


def values(stages: Stages) -> Values:
    """Every summary's values; QEVA is kept for some videos at a time."""
    names = list(judged())
    parts = [names[first : first + AT_ONCE] for first in range(0, len(names), AT_ONCE)]
    by_answerer: dict[str, dict[str, FloatArray]] = {}
    for answerer, bench in answerers().items():
        key = follows_from([DATA_SET], (), VALUE_CODE, {"answerer": bench.answerer().identity.as_dict()})
        rows = stages.each(
            f"qeva {answerer}", key, map(str, range(len(parts))), lambda i, b=bench: of_part(parts[int(i)], b)
        )
        by_answerer[answerer] = as_arrays([row for part in rows.values() for row in part])
    keys = [(name, system) for name in names for system in judged()[name].summaries]
    return Values([name for name, _ in keys], [system for _, system in keys], by_answerer, simple_values(keys))


def of_part(names: Sequence[str], bench: Bench) -> list[dict[str, float | None]]:
    """QEVA and its dimensions of the summaries of some videos, one after the other."""
    found = scores([judged()[name] for name in names], bench)
    return [numbers_of(each) for of_video in found for each in of_video.values()]


def numbers_of(score: QevaScore) -> dict[str, float | None]:
    """QEVA and its dimensions; None where they are undefined."""
    return {QEVA: score.value, **{name: getattr(score, name).value for name in DIMENSIONS}}


def as_arrays(rows: Sequence[Mapping[str, float | None]]) -> dict[str, FloatArray]:
    """Columns (n,) of rows, with NaN for None."""
    return {name: np.array([row[name] for row in rows], dtype=np.float64) for name in rows[0]}


def simple_values(keys: Sequence[tuple[str, str]]) -> dict[str, FloatArray]:
    """Metrics without questions, against the sentences of the first annotator."""
    texts = [judged()[video].summaries[system].replace("\n", " ") for video, system in keys]
    told = [" ".join(judged()[video].notes.events) for video, _ in keys]
    words = [(caption_words(one), caption_words(other)) for one, other in zip(told, texts, strict=True)]
    strings = list(dict.fromkeys([*texts, *told]))
    vector = dict(zip(strings, text_encoder().encode(strings), strict=True))
    return {
        "length": count_words(texts),
        "words in common": compute_words_in_common(texts, [[each] for each in told]),
        COSINE: np.array([float(vector[one] @ vector[other]) for one, other in zip(told, texts, strict=True)]),
        "BLEU-1": np.array([bleu([one], other, 1) for one, other in words]),
        "BLEU-4": np.array([bleu([one], other, 4) for one, other in words]),
        "ROUGE-L": np.array([rouge_l([one], other) for one, other in words]),
        **({METEOR: np.array([meteor.meteor([one], other) for one, other in words])} if meteor.identity() else {}),
    }
