"""How a table is made, and everything that its figures follow from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from benchmarks.measure import DATA, TEXT_ENCODER
from benchmarks.papers.records import Table
from benchmarks.papers.stages import PROJECT, Stages, digest_of_files
from metrics_core.models.text_encoder import SentenceTransformerEncoder, make_text_encoder


@dataclass(frozen=True)
class Recipe:
    """A table to make. `make` keeps its long stages under keys of their own.

    data: folders of the test data. packages: of which other versions may give other numbers. code: files and folders of
    this project. models: identities by role, known without loading a model.
    """

    name: str
    data: Sequence[str]
    packages: Sequence[str]
    code: Sequence[str]
    models: Callable[[], Mapping[str, Any]]
    make: Callable[[Stages], Table]

    def follows_from(self) -> dict[str, Any]:
        """Digests of data and code, versions of packages and identities of models."""
        return follows_from(self.data, self.packages, self.code, self.models())


def follows_from(
    data: Sequence[str], packages: Sequence[str], code: Sequence[str], models: Mapping[str, Any]
) -> dict[str, Any]:
    """What figures follow from, as plain data."""
    return {
        "data": {name: digest_of_files([DATA / name]) for name in data},
        "packages": {name: metadata.version(name) for name in packages},
        "code": digest_of_files(PROJECT / path for path in code),
        "models": dict(models),
    }


def text_encoder() -> SentenceTransformerEncoder:
    """The text encoder that REELSIEVE_TEXT_ENCODER names, else the bundled one."""
    return make_text_encoder(TEXT_ENCODER)
