"""Maps of a dataset: its samples as points in two dimensions, by the stored vectors of their texts or videos."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.engine import Connection, Engine

from assets.scores.base import Scorer
from assets.sources.frames import SampledFrames
from assets.sources.texts import TextVectors
from db.evidence.models import find_model_id
from db.evidence.sample_vectors import SamplesWithVectors, VectorKind, load_sample_vectors, load_samples_with_vectors
from db.evidence.search import count_captions_with_vectors, has_frame_vectors
from db.evidence.video_vectors import build_identity, list_encoders
from db.manifest.datasets import Dataset
from metrics_core.projection import NothingToProject, project_vectors, require_projectable

MOST_POINTS = 100_000
"""The most points of a map; of more samples so many are drawn at random, always the same ones."""
_MOST_MAPS = 4


class MapUnknown(ValueError):
    """Raised for vectors that a dataset does not have, or an area of a map that is another one now."""

    plain = True


class MapArea(NamedTuple):
    """A rectangle on a map. vectors, stamp: the map, as `SampleMap` names it. The limits belong to the rectangle."""

    vectors: str
    stamp: str
    left: float
    right: float
    bottom: float
    top: float


@dataclass(frozen=True, slots=True, eq=False)
class SampleMap:
    """Samples as points. vectors: the name of the vectors, as `list_map_vectors` gives it. stamp: the same only for the
    same samples and vectors. sample_ids: (n,), in random order. coordinates: (n, 2), to four decimals. shares: of the
    variance, by dimension. n_all: samples with a vector; n_placeless: drawn ones left out, because their vector is
    zero.
    """

    vectors: str
    stamp: str
    sample_ids: NDArray[np.int64]
    coordinates: NDArray[np.float64]
    shares: tuple[float, float]
    n_all: int
    n_placeless: int

    def list_inside(self, area: MapArea) -> list[int]:
        """List the ids of the samples in an area, its limits included."""
        low, high = [area.left, area.bottom], [area.right, area.top]
        is_inside = ((self.coordinates >= low) & (self.coordinates <= high)).all(axis=1)
        inside: list[int] = self.sample_ids[is_inside].tolist()
        return inside


def list_map_vectors(
    connection: Connection, dataset: Dataset, scorers: Mapping[str, Scorer]
) -> dict[str, tuple[VectorKind, int]]:
    """Return {name: (kind, id of the model)} of the vectors that samples of a dataset have: those of the text encoder
    and the frame encoder of these scorers, and those that manifests brought. No model is loaded.
    """
    choices: dict[str, tuple[VectorKind, int]] = {}
    sources = [source for scorer in scorers.values() for source in scorer.sources]
    texts = next((source.model for source in sources if isinstance(source, TextVectors)), None)
    frames = next((source.model for source in sources if isinstance(source, SampledFrames)), None)
    model_id = texts and find_model_id(connection, texts.as_dict())
    if texts and model_id and count_captions_with_vectors(connection, model_id, dataset.dataset_id)[0]:
        choices[f"texts by {texts.model_id}"] = "text", model_id
    model_id = frames and find_model_id(connection, frames.as_dict())
    if frames and model_id and has_frame_vectors(connection, model_id, dataset.dataset_id):
        choices[f"frames by {frames.model_id}"] = "frames", model_id
    for encoder in list_encoders(connection, dataset):
        if model_id := find_model_id(connection, build_identity(encoder)):
            choices[f"videos by {encoder}"] = "video", model_id
    return choices


class MapCache:
    """A cache of at most four maps, for the pages of a server."""

    def __init__(self, engine: Engine, find_scorers: Callable[[], Mapping[str, Scorer]]) -> None:
        """find_scorers: returns the scorers whose text encoder and frame encoder made vectors, by metric."""
        self._engine, self._find_scorers = engine, find_scorers
        self._made: dict[tuple[Dataset, str], SampleMap] = {}
        self._locks: dict[tuple[Dataset, str], Lock] = {}

    def load(self, dataset: Dataset, vectors: str) -> SampleMap:
        """Return the map of a dataset by these vectors, computed from the database unless samples and vectors are the
        same as at the last call. Raises MapUnknown for vectors that it does not have, and NothingToProject.
        """
        scorers, name = self._find_scorers(), (dataset, vectors)
        with self._engine.connect() as connection:
            choices = list_map_vectors(connection, dataset, scorers)
        if vectors not in choices:
            raise MapUnknown(f"dataset {dataset.name} has no vectors of {vectors[:80]!r}: open its map again")
        kind, model_id = choices[vectors]
        # A lock for each map: nobody waits for another one.
        with self._locks.setdefault(name, Lock()):
            with self._engine.connect() as connection:
                samples = load_samples_with_vectors(connection, dataset, kind, model_id, MOST_POINTS)
                if not samples.n_all:
                    raise NothingToProject(
                        f"no sample of dataset {dataset.name} has one of these vectors: choose others"
                    )
                if (made := self._made.get(name)) and made.stamp == samples.stamp:
                    return made
                loaded = load_sample_vectors(connection, kind, model_id, samples, require_projectable)
            if loaded is None:
                raise MapUnknown(f"vectors of {vectors} changed meanwhile, or have several lengths: open the map again")
            made = _build_map(vectors, samples, *loaded)
            self._made.pop(name, None)
            self._made[name] = made
            for oldest in [*self._made][:-_MOST_MAPS]:
                self._made.pop(oldest, None)
            return made

    def list_area(self, dataset: Dataset, area: MapArea) -> list[int]:
        """List the ids of the samples in an area of a map. Raises MapUnknown if the map is another one now: then the
        area may hold other samples.
        """
        # Without the lock: a page of samples need not wait until another map is computed.
        made = self._made.get((dataset, area.vectors))
        if made is None or made.stamp != area.stamp:
            made = self.load(dataset, area.vectors)
        if made.stamp != area.stamp:
            raise MapUnknown("samples or vectors changed since this area was chosen: choose it on the map again")
        return made.list_inside(area)


def _build_map(
    name: str, samples: SamplesWithVectors, vectors: NDArray[np.float32], rows: NDArray[np.intp]
) -> SampleMap:
    """Build the map of samples whose vectors are these rows of `vectors`. Raises NothingToProject."""
    projection = project_vectors(vectors)
    coordinates = projection.coordinates[rows].round(4)
    has_place = ~np.isnan(coordinates[:, 0])
    # Without negative zeros, which pages would show.
    placed, n_placeless = coordinates[has_place] + 0.0, int((~has_place).sum())
    ids = samples.sample_ids[has_place]
    return SampleMap(name, samples.stamp, ids, placed, projection.shares, samples.n_all, n_placeless)
