"""A whole installation in a temporary home: embedded Postgres, Dagster's storage on it, and tiny text models."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from db.server.embedded import stop_embedded
from tests.homes import copy_home, made_once

if TYPE_CHECKING:
    from transformers import BertConfig

    from tests.orchestration.divided import State
    from tests.orchestration.survival import Home

SYSTEMS = ("faithful", "shuffled", "brief")
# Of the keypoints of each video.
DIMENSIONS = ("segment_detail", "segment_detail", "shooting_style")
SUBJECTS = ("a man", "a woman", "two children", "a dog", "a cook", "a swimmer")
ACTIONS = ("opens a red door", "crosses the wet street", "lifts a heavy box", "pours hot water into a cup")


@dataclass(frozen=True, slots=True)
class Installation:
    """A temporary home folder, and a folder with manifests that may be ingested into it."""

    home: Path
    manifest: Path


@pytest.fixture(scope="session")
def prepared_home(migrated_home: Path) -> Path:
    """A home to copy, as it is before the first ingest: database and Dagster's storage are there, the server stands."""

    def make(home: Path) -> None:
        from orchestration.installation import get_installation

        copy_home(migrated_home, home)
        with here(home):
            _ = get_installation().instance

    return made_once("prepared", make)


@pytest.fixture(scope="module")
def installation(
    tmp_path_factory: pytest.TempPathFactory, prepared_home: Path, tiny_text_encoder: Path, tiny_verifier: Path
) -> Generator[Installation, None, None]:
    """This process set up for a fresh home; afterwards as it was before, with the embedded server stopped."""
    home = tmp_path_factory.mktemp("home")
    copy_home(prepared_home, home)
    manifest = write_manifest(tmp_path_factory.mktemp("manifest"))
    models = {"REELSIEVE_TEXT_ENCODER": str(tiny_text_encoder), "REELSIEVE_ECS_VERIFIER": str(tiny_verifier)}
    with here(home, **models):
        yield Installation(home, manifest)


@contextmanager
def here(home: Path, **variables: str) -> Iterator[None]:
    """This process set up for a home, with further environment variables; its server is stopped afterwards.

    Settings, engine and instance are kept per process; those of an earlier home must not be found, nor left behind.
    """
    forget_installation()
    with patch.dict(os.environ, {"REELSIEVE_HOME": str(home), **variables}):
        os.environ.pop("CURATION_DB_URL", None)
        try:
            yield
        finally:
            forget_installation()
            stop_embedded(home)


@pytest.fixture(scope="session")
def divided_home(prepared_home: Path, request: pytest.FixtureRequest) -> Home:
    """A home to copy with a dataset of several shards that nobody has scored, its server stopped."""
    from tests.orchestration.divided import N_SHARDS, N_VIDEOS
    from tests.orchestration.survival import Home, warm_up

    warm_up()
    # Asked for only now: making the models imports torch, and so does the process that warms up.
    encoder, verifier = (request.getfixturevalue(name) for name in ("tiny_text_encoder", "tiny_verifier"))

    def make(folder: Path) -> None:
        home = Home(folder / "home", encoder, verifier)
        copy_home(prepared_home, home.folder)
        manifest = folder / "manifest"
        manifest.mkdir()
        write_manifest(manifest, n_videos=N_VIDEOS)
        home.run("ingest", str(manifest), "--dataset", "d", "--shards", str(N_SHARDS), "--json").json()
        stop_embedded(home.folder)

    return Home(made_once("divided", make) / "home", encoder, verifier)


@pytest.fixture(scope="session")
def scored_alone(
    divided_home: Home, tmp_path_factory: pytest.TempPathFactory
) -> Generator[tuple[Home, State], None, None]:
    """A copy of it without the scores that one worker has made there, its server stopped, and what that one stored."""
    from tests.orchestration.divided import SCORE, SHARDS, stored
    from tests.orchestration.survival import connect, copied, removed

    copy = copied(divided_home, tmp_path_factory.mktemp("alone"))
    assert [row["shard"] for row in copy.run(*SCORE).json()["shards"]] == SHARDS
    state = stored(copy.url)
    with connect(copy.url) as connection:
        connection.execute("DELETE FROM score")
    stop_embedded(copy.folder)
    yield copy, state
    removed(copy)


@pytest.fixture(scope="session")
def alone(scored_alone: tuple[Home, State]) -> State:
    """What one worker stores on the dataset of several shards."""
    return scored_alone[1]


@pytest.fixture
def divided(divided_home: Home, tmp_path: Path) -> Generator[Home, None, None]:
    """That dataset for a test of its own, with a count of every row that is computed."""
    yield from _counting(divided_home, tmp_path)


@pytest.fixture
def judged(scored_alone: tuple[Home, State], tmp_path: Path) -> Generator[Home, None, None]:
    """The same with all evidence, so that only scores are to be computed."""
    yield from _counting(scored_alone[0], tmp_path)


def _counting(home: Home, folder: Path) -> Generator[Home, None, None]:
    from tests.orchestration.divided import COUNTED, count_computed
    from tests.orchestration.survival import copied, removed

    copy = copied(home, folder)
    for table, key in COUNTED.items():
        count_computed(copy.url, table, key)
    yield copy
    removed(copy)


@pytest.fixture(scope="session")
def tiny_text_encoder() -> Path:
    """See save_text_encoder."""
    return made_once("encoder", save_text_encoder) / "model"


@pytest.fixture(scope="session")
def tiny_verifier() -> Path:
    """See save_verifier."""
    return made_once("verifier", save_verifier)


def save_text_encoder(folder: Path) -> Path:
    """A random BERT of 16 dimensions over letters, saved in the folder as sentence-transformers saves a model."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertModel

    torch.manual_seed(0)
    BertModel(letters(folder / "bert")).save_pretrained(folder / "bert")
    words = Transformer(str(folder / "bert"), max_seq_length=128)
    model = SentenceTransformer(modules=[words, Pooling(words.get_embedding_dimension())], device="cpu")
    model.save(str(folder / "model"), safe_serialization=True)
    return folder / "model"


def save_verifier(folder: Path) -> Path:
    """An NLI classifier as tiny and as random, saved in the folder."""
    import torch
    from transformers import BertForSequenceClassification

    # Of the first seeds the one whose probabilities lie widest around a half.
    torch.manual_seed(15)
    config = letters(folder)
    config.id2label = {0: "contradiction", 1: "entailment", 2: "neutral"}
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def letters(folder: Path) -> BertConfig:
    """The configuration of a small BERT over letters, whose tokenizer is saved in the folder."""
    from transformers import BertConfig, BertTokenizerFast  # type: ignore[attr-defined]  # made when asked for

    pieces = [f"{prefix}{letter}" for letter in "abcdefghijklmnopqrstuvwxyz0123456789.,-'" for prefix in ("", "##")]
    folder.mkdir(exist_ok=True)
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces]))
    BertTokenizerFast(vocab=str(vocabulary)).save_pretrained(folder)
    return BertConfig(
        vocab_size=len(pieces) + 5,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        initializer_range=0.5,
    )


def write_manifest(folder: Path, *, n_videos: int = 12, prefix: str = "clip") -> Path:
    """Write a text-only manifest: per video two references, a candidate of each system, and labelled keypoints."""
    tables: dict[str, list[dict[str, Any]]] = {"videos": [], "captions": [], "keypoints": [], "keypoint_labels": []}
    for number in range(n_videos):
        video = f"{prefix}_{number:02d}"
        subject = SUBJECTS[number % len(SUBJECTS)]
        sentences = [f"{subject.capitalize()} number {number} {action}." for action in ACTIONS]
        texts = {
            "reference": [" ".join(sentences), " ".join(sentences[:3]) + " Then it rains."],
            "faithful": [" ".join(sentences)],
            "shuffled": [" ".join(sentences[::-1])],
            "brief": [f"{sentences[0]} A bird sings {number} songs."],
        }
        tables["videos"].append({"video_id": video, "duration_s": 10.0 + number})
        for system, versions in texts.items():
            tables["captions"] += [
                {
                    "caption_id": f"{video}_{system}_{version}",
                    "video_id": video,
                    "role": "reference" if system == "reference" else "candidate",
                    "system": system if system != "reference" else f"annotator_{version}",
                    "text": text,
                }
                for version, text in enumerate(versions)
            ]
        for place, dimension in enumerate(DIMENSIONS):
            keypoint = {"keypoint_id": f"{video}_{place}", "video_id": video}
            tables["keypoints"].append({**keypoint, "dimension": dimension, "text": sentences[place]})
            tables["keypoint_labels"] += [
                {
                    "keypoint_id": f"{video}_{place}",
                    "caption_id": f"{video}_{system}_0",
                    "covered": sentences[place] in texts[system][0],
                }
                for system in SYSTEMS
            ]
    for name, rows in tables.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def forget_installation() -> None:
    """Close and forget what orchestration keeps of a home per process.

    The definitions stay: they take half a second, and the only setting in them is that of the owners.
    """
    from orchestration import installation, settings

    if installation.get_installation.cache_info().currsize:
        installation.get_installation().close()
    for kept in (settings.get_settings, installation.get_installation):
        kept.cache_clear()
