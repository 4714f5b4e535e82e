"""The candidates of a selection as arrays: the values that rank them, their strata, texts and videos; and those that
are picked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import BIT
from sqlalchemy.engine import Connection

from db.evidence.video_vectors import list_encoders, load_video_vectors
from db.manifest.datasets import Dataset
from db.schema import sample, text_embedding, video, video_fact
from db.scores.sample_scores import Column
from db.selection.eligible import EligibleSamples
from db.selection.missing_scores import explain_no_candidates
from db.selection.recipes import SelectionError
from db.server.arrays import pack_column, unpack_column

WHOLE_STRATUM = "all"
"""Name of the only stratum of a recipe without strata."""


class NothingToSelect(SelectionError):
    """Raised when a recipe selects no sample, usually because no sample has a value to rank it by; the message gives
    the reason and the remedy.
    """


@dataclass(frozen=True, slots=True)
class Candidates:
    """The samples that a recipe chooses from, as arrays in the same, arbitrary order; n is their number. `values` has
    the numbers that rank them, with a column for every column of the recipe's `by`. `stratum_places` has every sample's
    stratum as its index in `strata`, the sorted names.

    values: (n, m), the columns of `by` in their order, all finite. strata: names of the strata, sorted; stratum_places:
    (n,), the index of each sample's stratum in them. sample_ids: (n,). draws: (n,), random numbers that depend only on
    seed, kind and key; empty for a diverse subset. text_sha256: (n,), hashes of 32 bytes; empty unless the recipe
    compares texts. video_ids: (n,), empty unless the recipe compares videos; then there are signatures or video_vectors
    (dim,), by video, of those that have one.
    """

    values: npt.NDArray[np.float64]
    strata: Sequence[str]
    stratum_places: npt.NDArray[np.intp]
    sample_ids: npt.NDArray[np.int64]
    draws: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    text_sha256: npt.NDArray[np.void] = field(default_factory=lambda: np.empty(0, dtype="V32"))
    video_ids: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    signatures: Mapping[int, bytes] = field(default_factory=dict)
    video_vectors: Mapping[int, npt.NDArray[np.float32]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PickedSamples:
    """The samples that a recipe takes, in order of rank, with the values that ranked them (`values`) and counts of
    those left out. `n_eligible` is how many samples there were to choose from. `n_duplicates` is how many were left out
    because they are near-duplicates of better ones.

    sample_ids, values: (n,). n_tied: how many of those taken have exactly the value at which the size asked for ends,
    summed over the strata; n_tied_left: how many with this value are left out. Both are None if no value decides, as in
    a random draw. encoder: the identity of the model whose vectors compared texts, None without one.
    """

    sample_ids: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    n_eligible: int
    n_tied: int | None
    n_tied_left: int | None
    n_duplicates: int
    encoder: Mapping[str, Any] | None


class _PackedColumn(NamedTuple):
    """A number per candidate: its SQL, and the types in which Postgres sends it and in which it is read."""

    value: Column
    sent: str
    read: str


def load_candidates(connection: Connection, eligible: EligibleSamples) -> Candidates:
    """Load all samples that a recipe may choose from as arrays, at least one. Raises NothingToSelect if there is none.
    Raises SelectionError if the recipe compares signatures of videos and one of them that decodes was never measured by
    `reelsieve facts`, or if no video has a vector by the encoder that it names.
    """
    recipe = eligible.recipe
    by = {
        f"by {place}": _PackedColumn(sa.cast(value, sa.Double), "f8", "f8")
        for place, value in enumerate(eligible.rank_columns)
    }
    packed_columns = {**by, **_choose_columns(eligible)}
    by_stratum = {
        row["stratum"]: row for row in connection.execute(_build_packed_query(eligible, packed_columns)).mappings()
    }
    if not by_stratum:
        raise NothingToSelect(explain_no_candidates(connection, eligible.dataset, recipe, eligible.unjudged))
    strata = sorted(by_stratum)
    parts = {
        name: [unpack_column(by_stratum[stratum][name], column.sent) for stratum in strata]
        for name, column in packed_columns.items()
    }
    sizes = [len(part) for part in parts["sample_ids"]]
    arrays = {name: np.concatenate(part).view(packed_columns[name].read) for name, part in parts.items()}
    values = np.stack([arrays.pop(name) for name in by], axis=1)
    signatures: Mapping[int, bytes] = {}
    vectors: Mapping[int, npt.NDArray[np.float32]] = {}
    if recipe.dedupe_videos is not None:
        video_ids = set(arrays["video_ids"].tolist())
        if recipe.video_encoder is None:
            signatures = _load_signatures(connection, eligible.dataset, video_ids)
        else:
            vectors = _load_vectors(connection, eligible.dataset, recipe.video_encoder, video_ids)
    places = np.repeat(np.arange(len(strata)), sizes)
    return Candidates(values, strata, places, **arrays, signatures=signatures, video_vectors=vectors)


def load_key_places(connection: Connection, sample_ids: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """Return for n distinct samples the place (n,), from 0, that every sample would have if they were sorted by kind
    and key. The result is in the order of `sample_ids`; kinds and keys are read from the database.
    """
    if not len(sample_ids):
        return np.empty(0, dtype=np.intp)
    query = sa.text(
        'SELECT array_send(array_agg(sample_id ORDER BY kind, key COLLATE "C")) FROM sample WHERE sample_id = ANY(:ids)'
    )
    packed = connection.execute(query, {"ids": sample_ids.tolist()}).scalar_one()
    places = np.empty(len(sample_ids), dtype=np.intp)
    places[np.argsort(sample_ids)] = np.argsort(unpack_column(packed, "i8"))
    return places


def list_texts_without_vector(connection: Connection, eligible: EligibleSamples, model_id: int | None) -> list[str]:
    """List the distinct texts of eligible samples for which the encoder `model_id` has no stored vector, in the order
    of their hashes. `model_id` None stands for an encoder that the database does not know yet; then all texts are
    listed.
    """
    query = sa.select(sample.c.text_sha256, sample.c.text).select_from(eligible.scores.from_clause)
    query = query.where(*eligible.conditions).distinct().order_by(sample.c.text_sha256)
    if model_id is not None:
        has_vector = sa.and_(
            text_embedding.c.model_id == model_id, text_embedding.c.text_sha256 == sample.c.text_sha256
        )
        query = query.where(~sa.exists().where(has_vector))
    return [row.text for row in connection.execute(query)]


def _choose_columns(eligible: EligibleSamples) -> dict[str, _PackedColumn]:
    """Return the columns to read of every sample, in addition to those that rank it, by the field of `Candidates`."""
    recipe, columns = eligible.recipe, eligible.scores.columns
    chosen = {"sample_ids": _PackedColumn(columns["sample_id"], "i8", "i8")}
    if recipe.choose != "diverse":
        # Not draw_number: promises ask in its order by the same seed, and of a set that ended by it they would ask the
        # samples at the cut first.
        drawn = sa.func.md5(sa.func.concat_ws("\t", str(recipe.seed), columns["kind"], columns["sample"]))
        # The first 64 bits: Postgres reads them with a sign, which they do not have.
        bits = sa.cast(sa.cast(sa.literal("x", sa.Text) + sa.func.left(drawn, 16), BIT(64)), sa.BigInteger)
        chosen["draws"] = _PackedColumn(bits, "i8", "u8")
    if recipe.needs_vectors:
        chosen["text_sha256"] = _PackedColumn(sample.c.text_sha256, "V32", "V32")
    if recipe.dedupe_videos is not None:
        chosen["video_ids"] = _PackedColumn(sample.c.video_id, "i8", "i8")
    return chosen


def _build_packed_query(eligible: EligibleSamples, packed_columns: Mapping[str, _PackedColumn]) -> sa.Select[Any]:
    """Return a query for a row of packed columns per stratum."""
    stratum = sa.literal(WHOLE_STRATUM, sa.Text) if eligible.stratum is None else eligible.stratum
    rows = sa.select(stratum.label("stratum"), *[column.value.label(name) for name, column in packed_columns.items()])
    rows = rows.select_from(eligible.scores.from_clause).where(*eligible.conditions)
    row_columns = rows.subquery("eligible").c
    packed = [pack_column(row_columns[name]).label(name) for name in packed_columns]
    return sa.select(row_columns.stratum, *packed).group_by(row_columns.stratum)


def _load_signatures(connection: Connection, dataset: Dataset, video_ids: Collection[int]) -> dict[int, bytes]:
    """Return the signatures of these videos by id; a video that does not decode has none.

    Raises SelectionError if a video that decodes was never measured.
    """
    is_present = sa.and_(
        video_fact.c.video_id == video.c.video_id, video_fact.c.content_sha256 == video.c.content_sha256
    )
    is_unmeasured = sa.and_(video.c.status.in_(["ok", "damaged"]), video_fact.c.video_id.is_(None))
    query = sa.select(video.c.video_id, video_fact.c.signature, is_unmeasured.label("is_unmeasured"))
    query = query.select_from(video.outerjoin(video_fact, is_present)).where(video.c.dataset_id == dataset.dataset_id)
    rows = [row for row in connection.execute(query) if row.video_id in video_ids]
    if n := sum(row.is_unmeasured for row in rows):
        raise SelectionError(
            f"dedupe_videos compares signatures of videos, and {n:,} {'video has' if n == 1 else 'videos have'} none: "
            f"run reelsieve facts --dataset {dataset.name} first"
        )
    return {row.video_id: bytes(row.signature) for row in rows if row.signature is not None}


def _load_vectors(
    connection: Connection, dataset: Dataset, encoder: str, video_ids: Collection[int]
) -> dict[int, npt.NDArray[np.float32]]:
    """Return the vectors that an encoder gave to these videos, by id. Raises SelectionError if none of them has one."""
    vectors = load_video_vectors(connection, dataset, encoder, video_ids)
    if not vectors:
        names = [name for name in list_encoders(connection, dataset) if name != encoder]
        remedy = f"name one of {', '.join(names)}" if names else "ingest the dataset with a table of vectors"
        raise SelectionError(
            f"video_encoder is {encoder!r}, of which no eligible video has a vector of its present file: {remedy}"
        )
    return vectors
