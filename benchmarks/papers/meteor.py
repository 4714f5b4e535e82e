"""METEOR by NLTK over WordNet 3.0, as Debian's package wordnet-base installs it."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.papers.mpii import SPLITTER
from benchmarks.papers.ngrams import Tokens, word_tokenizer
from benchmarks.papers.stages import digest

METEOR = "METEOR"
FOLDER = Path(os.environ.get("WORDNET_FOLDER", "/usr/share/wordnet"))
ABSENT = (
    "not measured without WordNet: install Debian's package wordnet-base, or name its folder by WORDNET_FOLDER "
    "(docs/papers-data.md)"
)
CODE = ("benchmarks/papers/meteor.py",)
LEXICOGRAPHER_FILES = 45


@lru_cache(maxsize=1)
def identity() -> dict[str, str]:
    """The digest of WordNet's files under the name WordNet; empty where they are not installed."""
    if not (FOLDER / "data.noun").is_file():
        return {}
    names = sorted(file for kind in ("data.*", "index.*", "*.exc") for file in FOLDER.glob(kind))
    return {"WordNet": digest("\n".join(f"{file.name} {digest(file.read_bytes())}" for file in names).encode())}


def meteor(references: Sequence[Tokens], text: Tokens, folder: Path = FOLDER) -> float:
    """METEOR of tokens with the best reference: words, then stems, then synonyms of WordNet; NLTK's parameters."""
    from nltk.translate.meteor_score import meteor_score

    return float(meteor_score(list(references), list(text), wordnet=make_wordnet(folder)))


def words_with_punctuation(text: str) -> list[str]:
    """Tokens as the VCS authors' METEOR takes them: of one sentence after the other, with punctuation.

    >>> words_with_punctuation("The man's dog sits. It can't swim.")
    ['The', 'man', "'s", 'dog', 'sits', '.', 'It', 'ca', "n't", 'swim', '.']
    """
    return [word for sentence in SPLITTER.split(text) for word in word_tokenizer().tokenize(sentence)]


@lru_cache(maxsize=1)
def make_wordnet(folder: Path) -> Any:
    """Make the reader of a folder with WordNet's files."""
    import nltk
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    class InstalledWordNet(WordNetCorpusReader):  # type: ignore[misc]
        def open(self, file: str) -> Any:
            # Debian leaves out the names of lexicographer files, which METEOR does not read.
            names = "".join(f"{number:02d} unnamed 0\n" for number in range(LEXICOGRAPHER_FILES))
            return io.StringIO(names) if file == "lexnames" else super().open(file)

        def map_wn(self, version: str = "wordnet") -> None:
            """Map no other WordNet's synsets onto these: NLTK would ask for one of its own."""

    # NLTK opens files below its own folders only, and warns that this WordNet is English.
    nltk.data.path.append(str(folder))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return InstalledWordNet(str(folder), None)
