"""What is materialised: ingest, embeddings, scores, thresholds, selection, reports and their checks."""

import warnings
from importlib.metadata import requires, version

# Virtual assets and runs over ranges of partitions are new in Dagster 1.13, and its version is pinned: nobody need be
# told.
warnings.filterwarnings("ignore", message=r".*is currently in (preview|beta).*")


class WrongDagster(ImportError):
    """The installed Dagster is not the one that Reelsieve is made for."""

    plain = True


# Before any module that imports Dagster: another version fails somewhere, and nobody would know why.
_PIN = "dagster=="
_WANTED = next(text for text in requires("reelsieve") or () if text.startswith(_PIN)).removeprefix(_PIN)
if (_found := version("dagster")) != _WANTED:
    raise WrongDagster(
        f"Reelsieve works with Dagster {_WANTED}, and {_found} is installed: pip install {_PIN}{_WANTED}"
    )
