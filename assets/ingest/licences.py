"""The check whether all videos of a dataset have an allowed licence."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict
from sqlalchemy.engine import Engine

from assets.home.settings import PREFIX
from assets.words.text import format_portion
from db.manifest.datasets import Dataset
from db.reports.summary import count_video_statuses, list_disallowed_licences

# Licences named where the check fails.
_MOST_NAMED = 10


class OriginSettings(BaseSettings):
    """The licences that videos may have. Field X is read from the environment variable REELSIEVE_X."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True)

    allowed_licences: tuple[str, ...] = Field(
        default=(), description='the only licences that videos may have, as JSON: ["CC0-1.0", "CC-BY-4.0"]; empty: any'
    )


def check_licences(engine: Engine, dataset: Dataset, allowed: tuple[str, ...]) -> tuple[bool, str]:
    """Return whether every video of a dataset has one of the allowed licences, and a sentence on it, which names the
    other licences with the number of their videos and the first one. Without allowed licences every dataset passes.
    """
    if not allowed:
        return True, "Videos may have any licence: REELSIEVE_ALLOWED_LICENCES is not set."
    with engine.connect() as connection:
        n_videos = sum(count_video_statuses(connection, dataset.dataset_id).values())
        refused = list_disallowed_licences(connection, dataset.dataset_id, allowed)
    if not refused:
        return True, f"{format_portion(n_videos, n_videos, 'video', 'has', 'have')} an allowed licence."
    named = [f"{licence or 'no licence'} ({n:,}, such as {key})" for licence, n, key in refused[:_MOST_NAMED]]
    more = f", and {len(refused) - _MOST_NAMED} more" if len(refused) > _MOST_NAMED else ""
    lacks = format_portion(sum(n for _, n, _ in refused), n_videos, "video", "lacks", "lack")
    return False, f"{lacks} an allowed licence: {', '.join(named)}{more}"
