"""A dataset that changes at random, and an oracle that knows what has to be shown of it at any moment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.ingest.run import ingest_folder
from assets.metrics.vcs.scorer import VCSScorer, VCSSettings
from metrics_core.models.sentence_splitter import RuleSplitter
from metrics_core.vcs.references import compute_text_similarities
from tests.assets.manifests import candidate, reference, write_manifest
from tests.assets.verifying import HashEncoder
from tests.metrics_core.vcs_oracle import vcs

DATASET, N_SHARDS = "world", 2
WHO = ("A cook", "A swimmer", "Two children", "An old man", "A dancer", "A brown dog", "The painter")
DOES = ("opens the red door", "crosses the wet street", "lifts a box", "pours hot water", "waves", "sits down", "sings")
PARAMETERS = {"lct": 0.0, "context_cutoff": 0.6, "context_window_control": 4.0}
# Second implementation and metric differ by the rounding of float32.
ROUNDING = 1e-6
# What a score depends on: the caption's text, and the texts of its video's references by their ids.
Inputs = tuple[str, tuple[tuple[str, str], ...]]
# Status and value of a sample.
Answer = tuple[str, float | None]


@dataclass
class World:
    """The rows of a manifest: the texts of captions and references by id, and the video of each id."""

    random: Random
    captions: dict[str, str] = field(default_factory=dict)
    references: dict[str, str] = field(default_factory=dict)
    videos: list[str] = field(default_factory=list)

    def change(self) -> None:
        """Add a video, a caption or a reference, or give one another text, sometimes that of another one."""
        if not self.videos or self.random.random() < 0.1:
            self.videos.append(f"v{len(self.videos)}")
            return
        texts = self.random.choice([self.captions, self.captions, self.references])
        if not texts or self.random.random() < 0.3:
            place = f"{self.random.choice(self.videos)}_{'c' if texts is self.captions else 'r'}{len(texts)}"
        else:
            place = self.random.choice([*texts])
        texts[place] = self._text()

    def _text(self) -> str:
        known = [*self.captions.values(), *self.references.values()]
        match self.random.randrange(20):
            case 0:
                return "..."
            case 1 | 2 | 3 | 4 if known:
                return self.random.choice(known)
            case 5 | 6 | 7 | 8 if known:
                sentences = self.random.choice(known).split("\n")
                self.random.shuffle(sentences)
                return "\n".join(sentences)
        n = self.random.choice([1, 2, 3, 5, 5, 6, 7, 8])
        return "\n".join(f"{self.random.choice(WHO)} {self.random.choice(DOES)}." for _ in range(n))

    def ingest(self, engine: Engine, folder: Path) -> Mapping[str, int]:
        """Ingest the rows as they are now; how many of each table were new or changed."""
        captions = [candidate(key, _video(key), text) for key, text in self.captions.items()]
        captions += [reference(key, _video(key), text) for key, text in self.references.items()]
        self.random.shuffle(captions)
        write_manifest(folder, self.videos, captions=captions)
        report = ingest_folder(engine, folder, DATASET, n_shards=N_SHARDS)
        assert report.rejected == 0
        return report.accepted

    def inputs(self) -> dict[str, Inputs]:
        """What the score of every caption depends on, as the rows are now."""
        of_video: dict[str, list[tuple[str, str]]] = {video: [] for video in self.videos}
        for key, text in sorted(self.references.items()):
            of_video[_video(key)].append((key, text))
        return {key: (text, tuple(of_video[_video(key)])) for key, text in self.captions.items()}


def _video(key: str) -> str:
    return key.partition("_")[0]


@cache
def answer(inputs: Inputs) -> Answer:
    """What VCS says, by the second implementation; sentences of these texts stand on lines of their own."""
    text, of_video = inputs
    references = [other for _, other in of_video if _sentences(other)]
    if not of_video:
        return "no_reference", None
    if not _sentences(text):
        return "empty_text", None
    if not references:
        return "no_reference", None
    pairs = [(other, text) for other in references]
    whole = {each for pair in pairs for each in pair}
    vectors = {each: HashEncoder().vector(each) for one in whole for each in (one, *_sentences(one))}
    alike = compute_text_similarities(pairs, vectors, _sentences)
    found = [vcs(similarities.tolist(), float(gas), **PARAMETERS) for similarities, gas in alike]
    if all(map(_has_zero_shape, found)):
        return "too_short", None
    return "ok", max(each["vcs"] for each in found)


def _has_zero_shape(found: Mapping[str, Any]) -> bool:
    """Whether the numbers of sentences alone make a pair 0."""
    return found["window_regularizer"] == 1 or any(
        found[f"nas_d_detail_{side}"]["max_penalty"] == 0 == found[f"nas_d_{side}"] for side in ("precision", "recall")
    )


def _sentences(text: str) -> list[str]:
    return [] if text == "..." else text.split("\n")


def same(found: Answer, expected: Answer) -> bool:
    """Whether two answers are the same but for rounding."""
    if found[0] != expected[0] or found[1] is None or expected[1] is None:
        return found == expected
    return math.isclose(found[1], expected[1], abs_tol=ROUNDING)


def shown(engine: Engine) -> dict[str, Answer]:
    """The status and value of every caption with a score, as views show them."""
    query = (
        "SELECT c.key, c.status, c.value, s.vcs_status, s.vcs FROM current_score c "
        "JOIN sample_scores s ON (s.sample, s.kind) = (c.key, c.kind) WHERE c.metric = 'vcs'"
    )
    with engine.connect() as connection:
        rows = connection.execute(sa.text(query)).all()
    for row in rows:
        assert (row.status, row.value) == (row.vcs_status, row.vcs), "two views show the same"
    return {row.key: (row.status, row.value) for row in rows}


def invent_text(random: Random, n_sentences: int = 1) -> str:
    """A text of so many sentences, which hardly any other one is equal to."""
    return " ".join(
        f"{random.choice(WHO)} {random.choice(DOES)} {random.randrange(10**6)} times." for _ in range(n_sentences)
    )


def scorer() -> VCSScorer:
    """VCS with an encoder that needs no weights."""
    return VCSScorer(VCSSettings(), HashEncoder(), RuleSplitter())
