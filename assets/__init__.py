"""Assets of the platform: ingest, evidence, scores, thresholds, selections and reports, with their checks."""

import warnings
from importlib.metadata import requires, version

from packaging.requirements import Requirement

# Virtual assets and runs over ranges of partitions are new in Dagster 1.13, and another minor version is refused below:
# the warning is of no use.
warnings.filterwarnings("ignore", message=r".*is currently in (preview|beta).*")


class WrongDagster(ImportError):
    """Raised on import where Reelsieve does not work with the installed Dagster; the message names the right one."""

    plain = True


# Before any module that imports Dagster: another version fails somewhere without a clear reason.
_WANTED = next(wanted for text in requires("reelsieve") or () if (wanted := Requirement(text)).name == "dagster")
if (_installed := version("dagster")) not in _WANTED.specifier:
    raise WrongDagster(
        f"Reelsieve needs Dagster {_WANTED.specifier}, but {_installed} is installed: "
        f"pip install '{_WANTED.name}{_WANTED.specifier}'"
    )
