"""The scale on which an aspect is rated in a stored dataset, and the ratings from which a sample counts as good."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field, FiniteFloat
from pydantic_settings import BaseSettings, SettingsConfigDict
from sqlalchemy.engine import Connection

from assets.home.settings import PREFIX
from assets.ingest.scales import DEFAULT_SCALE, Scale, parse_scale
from db.manifest.datasets import Dataset
from db.manifest.rating_scales import find_scale_name


class RatingSettings(BaseSettings):
    """The lowest ratings of a good sample, by aspect. Field X is read from the environment variable REELSIEVE_X."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True)

    good_ratings: dict[str, FiniteFloat] = Field(
        default={}, description='lowest mean rating of a good sample by aspect, as JSON: {"consistency": 4}'
    )


def load_scale_ends(connection: Connection, dataset: Dataset, aspects: Iterable[str]) -> dict[str, float]:
    """Load the highest number of the scale of every given aspect; aspects rated by real numbers are left out."""
    ends = {aspect: load_scale(connection, dataset, aspect).most for aspect in aspects}
    return {aspect: end for aspect, end in ends.items() if end is not None}


def load_scale(connection: Connection, dataset: Dataset, aspect: str) -> Scale:
    """Load the scale of an aspect: the declared one, else that from 1 to 5."""
    name = find_scale_name(connection, dataset, aspect)
    return (parse_scale(name) if name else None) or DEFAULT_SCALE
