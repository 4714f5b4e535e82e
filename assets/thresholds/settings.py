"""Settings of thresholds: the shares they keep, and the ratings from which a sample counts as good."""

from __future__ import annotations

from pydantic import Field, FiniteFloat
from pydantic_settings import BaseSettings, SettingsConfigDict

from assets.settings import PREFIX

KEPT_SHARES = (0.5, 0.25, 0.125, 0.0625)
"""The best half, quarter, eighth and sixteenth."""
METHOD_QUANTILE = "quantile"
"""The method of these thresholds in table `score_threshold`."""


def format_objective(share: float) -> str:
    """Return the name that recipes use for the threshold that keeps a share of the samples.

    >>> format_objective(0.125)
    'keep 0.125'
    """
    return f"keep {share:g}"


class RatingSettings(BaseSettings):
    """The least ratings of a good sample, by aspect. Field X is read from the environment variable REELSIEVE_X."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True)

    good_ratings: dict[str, FiniteFloat] = Field(
        default={}, description='least mean rating of a good sample by aspect, as JSON: {"consistency": 4}'
    )
