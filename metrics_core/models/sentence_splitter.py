"""Sentence splitters: rules by default, Segment any Text (SaT) by setting."""

from __future__ import annotations

from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from metrics_core.models.errors import PackageMissing, convert_load_errors
from metrics_core.models.revision import find_model_revision, find_model_source, split_model_name
from metrics_core.protocols import ModelIdentity, SentenceSplitter

# Kept, since reading a version parses a file and identities are asked for often.
_read_version = lru_cache(metadata.version)


class RuleSplitter:
    """A SentenceSplitter by the rules of the Wikimedia library sentencex: no download, no model. language: a code that
    sentencex knows, such as "en".

    >>> RuleSplitter().split("Dr. Ray lifts a pan. She smiles!")
    ['Dr. Ray lifts a pan.', 'She smiles!']
    """

    def __init__(self, language: str = "en") -> None:
        self._language = language

    @property
    def identity(self) -> ModelIdentity:
        """Return sentencex, its installed version and the language."""
        return ModelIdentity("sentencex", _read_version("sentencex"), {"language": self._language})

    def split(self, text: str) -> list[str]:
        """Split a text into sentences, in order, without those that hold no letter or digit. A line break ends a
        sentence.
        """
        import sentencex

        lines = text.splitlines()
        sentences = (part.strip() for line in lines for part in sentencex.segment(self._language, line))
        return [sentence for sentence in sentences if any(character.isalnum() for character in sentence)]


class SaTSplitter:
    """A SentenceSplitter that runs Segment any Text (SaT) from the package wtpsplit, which is installed separately.
    `model` is a name inside the hub's organisation of SaT such as sat-12l-sm, perhaps with "@commit", or a local
    folder. It loads at the first `split`.
    """

    def __init__(self, model: str) -> None:
        self._model_id = split_model_name(model)[0]
        self._source = find_sat_source(model)
        self._model: Any = None

    @property
    def identity(self) -> ModelIdentity:
        """Return the name of the SaT model and its revision. Loads no model, but may ask the hub for the revision."""
        return ModelIdentity(f"sat:{self._model_id}", find_model_revision(self._source))

    def split(self, text: str) -> list[str]:
        """Split a text into sentences, in order, without empty ones. Loads the model at the first call, which may
        download it. Raises PackageMissing without wtpsplit, ModelUnusable where the model does not load.
        """
        if self._model is None:
            try:
                from wtpsplit import SaT  # type: ignore[import-not-found]  # optional, installed by its users
            except ModuleNotFoundError as error:
                if error.name != "wtpsplit":
                    raise
                raise PackageMissing(
                    "REELSIEVE_SENTENCE_SPLITTER needs SaT: install it with `pip install wtpsplit`"
                ) from None
            revision = find_model_revision(self._source)
            is_local = revision.startswith("sha256:")
            where = {} if is_local else {"revision": revision}
            with convert_load_errors(self._model_id):
                self._model = SaT(self._source if is_local else self._model_id, from_pretrained_kwargs=where)
        return [part.strip() for part in self._model.split(text) if part.strip()]


def find_sat_source(model: str) -> str:
    """Return the folder or hub id of a SaT model: a name without a folder belongs to the organisation segment-any-text.

    >>> find_sat_source("sat-12l-sm")
    'segment-any-text/sat-12l-sm'
    """
    source = find_model_source(model)
    return source if Path(source).is_dir() else f"segment-any-text/{model}"


@lru_cache(maxsize=4)
def make_sentence_splitter(name: str) -> SentenceSplitter:
    """Return the sentence splitter for "rules" or "sat:MODEL", made once per process. Raises ValueError for another
    name.
    """
    if name == "rules":
        return RuleSplitter()
    if name.startswith("sat:"):
        return SaTSplitter(name.removeprefix("sat:"))
    raise ValueError(f"sentence splitter {name!r} is unknown: use rules or sat:MODEL")
