"""Search for captions and videos by what they show: a text is encoded and compared with the stored vectors."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.engine import Engine

from assets.home.folder import DEMO_DATASET
from assets.models.settings import DEMO_ENCODER, FrameSettings, ImageTextSettings, TextEncoderSettings
from assets.progress import LineWriter
from assets.selection.vectors import embed_missing_texts
from assets.words.labels import STAND_INS
from assets.words.text import join_names
from db.evidence.embeddings import load_vectors_by_digest, text_sha256
from db.evidence.frames import load_frames
from db.evidence.models import find_model_id
from db.evidence.search import (
    count_captions_with_vectors,
    has_frame_vectors,
    list_captions_without_vector,
    list_nearest_captions,
    list_nearest_videos,
)
from db.evidence.video_vectors import list_encoders, list_nearest_to_video, list_vectors_by_key
from db.manifest.datasets import Dataset
from metrics_core.frames.features import FrameEncoder
from metrics_core.models.clip_encoder import ClipTextEncoder
from metrics_core.models.served_encoder import ServedTextEncoder
from metrics_core.models.word_tokenizer import split_words
from metrics_core.protocols import ModelIdentity, TextEncoder

# Measured on the demo: of 150 facts, searched among the 60 videos, half have their video at place 29 or later.
TOO_SMALL = "it is too small to find one video among others, so the order is hardly better than chance"


class NothingToSearch(RuntimeError):
    """Raised when no stored vector can be compared with the text, or when the encoder has no vector for the text."""

    plain = True


class SearchSettings(TextEncoderSettings, ImageTextSettings, FrameSettings):
    """The settings of the text encoder, the image-text encoder and the frame sampling whose vectors are searched."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The rows nearest to a text or video, nearest first, the name of the encoder, and notes about the limits of the
    answer. A row has dataset, video and similarity; for captions also sample, sample_id, system and text, for frames
    also video_id and time_s. The similarity is a cosine in [-1, 1]; it orders the rows and is no score.
    """

    rows: list[dict[str, Any]]
    encoder: str
    notes: tuple[str, ...] = ()


def embed_captions(engine: Engine, encoder: TextEncoder, dataset: Dataset | None, tell: LineWriter) -> None:
    """Store vectors of the captions of a dataset that have none of this encoder. An encoder that asks a server, which
    may cost money, embeds nothing here. dataset: None for all datasets. tell: takes lines about progress.
    """
    if isinstance(encoder, ServedTextEncoder):
        return
    with engine.connect() as connection:
        model_id = find_model_id(connection, encoder.identity.as_dict())
        missing = list_captions_without_vector(connection, model_id, dataset.dataset_id if dataset else None)
    embed_missing_texts(engine, encoder, missing, tell)


def search_captions(
    engine: Engine,
    settings: TextEncoderSettings,
    text: str,
    dataset: Dataset | None,
    limit: int,
    tell: LineWriter = lambda _: None,
) -> SearchResult:
    """Find the captions whose stored vectors are nearest to a text, at most `limit`, by the text encoder of the
    settings. Captions of the dataset without a vector get one first, unless that asks a server; `tell` takes lines
    about it. dataset: None searches all. Raises NothingToSearch where no caption has a vector, or the encoder gives the
    text none.
    """
    encoder = settings.make_text_encoder()
    name = encoder.identity.model_id
    dataset_id = dataset.dataset_id if dataset else None
    with engine.connect() as connection:
        model_id = find_model_id(connection, encoder.identity.as_dict())
        n_stored, n = count_captions_with_vectors(connection, model_id, dataset_id)
    if n_stored < n and (dataset or not n_stored):
        embed_captions(engine, encoder, dataset, tell)
        with engine.connect() as connection:
            model_id = find_model_id(connection, encoder.identity.as_dict())
            n_stored, n = count_captions_with_vectors(connection, model_id, dataset_id)
    if not n:
        raise NothingToSearch(f"there is no caption{_format_dataset(dataset)} to search: ingest captions first")
    if model_id is None or not n_stored:
        raise NothingToSearch(
            f"no caption{_format_dataset(dataset)} has a vector of {name} yet: "
            f"run reelsieve score{_format_dataset_option(dataset)} --metric vcs, which makes them for captions with "
            "references"
        )
    vector = _encode_text(encoder, text)
    with engine.connect() as connection:
        rows = list_nearest_captions(connection, model_id, vector, dataset_id, limit)
    unseen = f"{n - n_stored} of {n} captions have no vector of {name} and were not searched"
    return SearchResult(rows, name, (unseen,) if n_stored < n else ())


def search_frames(
    engine: Engine, settings: SearchSettings, text: str, dataset: Dataset | None, limit: int
) -> SearchResult:
    """Find the videos with the frames nearest to a text, at most `limit`, by the image-text encoder of the settings,
    which is loaded. dataset: None searches all datasets. Raises NothingToSearch where no frame has a vector of that
    encoder with this sampling, and where the encoder knows no word of the text.
    """
    images = settings.make_image_text_encoder()
    frames = FrameEncoder(images, settings.frames_every, settings.frames_cap).identity
    name = images.identity.model_id
    dataset_id = dataset.dataset_id if dataset else None
    with engine.connect() as connection:
        model_id = find_model_id(connection, frames.as_dict())
        is_stored = has_frame_vectors(connection, model_id, dataset_id)
        brought = list_encoders(connection, dataset)
    if model_id is None or not is_stored:
        raise NothingToSearch(_explain_no_frames(name, dataset, f"no frame{_format_dataset(dataset)}", brought))
    unknown = images.list_unknown_words(text)
    if unknown and set(unknown) == set(split_words(text)):
        raise NothingToSearch(f"the {name} knows no word of {text!r}: {STAND_INS.get(name, 'use other words')}")
    vector = _encode_text(ClipTextEncoder(images), text)
    with engine.connect() as connection:
        rows = list_nearest_videos(connection, model_id, vector, dataset_id, limit)
    notes = [f"{name}: {TOO_SMALL}; {STAND_INS[name]}"] if name == DEMO_ENCODER else []
    if unknown:
        notes.append(f"{name} does not know: {', '.join(unknown)}")
    return SearchResult(rows, name, tuple(notes))


def search_similar_captions(
    engine: Engine, encoder: ModelIdentity, dataset: Dataset, video_id: int, text: str, limit: int
) -> SearchResult:
    """Find the captions of a dataset, of other videos, whose stored vectors are nearest to that of a caption, at most
    `limit`. No model is loaded. encoder: identity of the text encoder. video_id, text: of the caption. Raises
    NothingToSearch if it has no vector of that encoder.
    """
    with engine.connect() as connection:
        model_id = find_model_id(connection, encoder.as_dict())
        vectors = None if model_id is None else load_vectors_by_digest(connection, model_id, [text_sha256(text)])
        if model_id is None or vectors is None:
            raise NothingToSearch(
                f"this caption has no vector of {encoder.model_id} yet: run reelsieve search TEXT"
                f"{_format_dataset_option(dataset)}, which makes it"
            )
        rows = list_nearest_captions(connection, model_id, vectors[0], dataset.dataset_id, limit, video_id)
    return SearchResult(rows, encoder.model_id)


def search_similar_videos(
    engine: Engine, encoder: ModelIdentity, dataset: Dataset, video_id: int, limit: int
) -> SearchResult:
    """Find the other videos of a dataset with a frame nearest to the mean of a video's frames, by stored vectors, at
    most `limit`. No model is loaded. encoder: identity of the image encoder with its frame sampling. Raises
    NothingToSearch if the video has no frame with a vector of that encoder.
    """
    with engine.connect() as connection:
        model_id = find_model_id(connection, encoder.as_dict())
    frames = {} if model_id is None else load_frames(engine, model_id, [video_id])
    if model_id is None or video_id not in frames or not len(frames[video_id].features):
        raise NothingToSearch(_explain_no_frames(encoder.model_id, dataset, "no frame of this video", ()))
    vector = frames[video_id].features.mean(axis=0)
    with engine.connect() as connection:
        rows = list_nearest_videos(connection, model_id, vector, dataset.dataset_id, limit, video_id)
    return SearchResult(rows, encoder.model_id)


def search_like_video(
    engine: Engine, key: str, encoder: str | None, dataset: Dataset | None, limit: int
) -> SearchResult:
    """Find the videos nearest to the video with a key, at most `limit`, by vectors that their manifests brought, as
    rows of dataset, video and similarity; no model is loaded. encoder: its name; None for the only one with a vector of
    the video. dataset: None searches all. Raises NothingToSearch where none, or more than one, fits.
    """
    with engine.connect() as connection:
        found = [known for known in list_vectors_by_key(connection, dataset, key) if encoder in (None, known.encoder)]
        names = list(dict.fromkeys(known.encoder for known in found))
        if not found:
            known_encoders = join_names(list(list_encoders(connection, dataset)))
            others = f" (others have vectors of {known_encoders})" if known_encoders else ""
            raise NothingToSearch(
                f"no video {key!r}{_format_dataset(dataset)} has a vector{f' of {encoder}' if encoder else ''} of its "
                f"present file{others}: correct the name, or ingest a vector with the manifest's table vectors"
            )
        if len(names) > 1:
            raise NothingToSearch(f"video {key!r} has vectors of {join_names(names)}: name one with --encoder")
        if len(found) > 1:
            raise NothingToSearch(f"several datasets have a video {key!r}: name one with --dataset")
        return SearchResult(list_nearest_to_video(connection, found[0], dataset, limit), found[0].encoder)


def _explain_no_frames(encoder: str, dataset: Dataset | None, nothing: str, brought: Collection[str]) -> str:
    if brought:
        return (
            f"{nothing} has a vector of {encoder}, and a text cannot be compared with the "
            f"vectors of {join_names(list(brought))}, which Reelsieve does not run: search by a video (--like VIDEO)"
        )
    if encoder == DEMO_ENCODER and (dataset is None or dataset.name != DEMO_DATASET):
        return (
            f"{nothing} has a vector of the {encoder}: the built-in encoder only works on the "
            "demo. Set REELSIEVE_IMAGE_TEXT_ENCODER and _CHECKPOINT, then score the metric evqa"
        )
    return (
        f"{nothing} has a vector of {encoder} with this sampling yet: run reelsieve score"
        f"{_format_dataset_option(dataset)} --metric evqa, which makes them for videos that decode"
    )


def _encode_text(encoder: TextEncoder, text: str) -> NDArray[np.float32]:
    (vector,) = encoder.encode([text])
    if not vector.any():
        raise NothingToSearch(f"{encoder.identity.model_id} has no vector for {text!r}: use other words")
    return np.asarray(vector)


def _format_dataset(dataset: Dataset | None) -> str:
    return f" of dataset {dataset.name}" if dataset else ""


def _format_dataset_option(dataset: Dataset | None) -> str:
    return f" --dataset {dataset.name}" if dataset else " --dataset NAME"
