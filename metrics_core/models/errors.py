"""Errors of models that cannot be used. They name the model, where the libraries raise many kinds over its files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class ModelUnusable(ValueError):
    """A model whose files do not load, or whose output means nothing; the message names it."""

    plain = True


class CheckpointMismatch(ValueError):
    """A checkpoint does not fit the architecture, or lacks weights."""

    plain = True


class PackageMissing(ImportError):
    """An optional package that a setting asks for; the message says how to install it."""

    plain = True


@contextmanager
def convert_load_errors(model: str) -> Iterator[None]:
    """Raise ModelUnusable for whatever a library raises over the files of a model: folder, file or hub id.

    Errors that are plain already stay as they are, and so does an ImportError, which no file of a model can mend.
    """
    try:
        yield
    except ImportError:
        raise
    except Exception as error:  # transformers alone raises a dozen kinds over broken files, and few name the model
        if getattr(error, "plain", False):
            raise
        said = str(error).strip().splitlines()
        reason = f"{type(error).__name__}: {said[0]}" if said else type(error).__name__
        lacks_memory = type(error).__name__ == "OutOfMemoryError"
        remedy = "end what else runs on the GPU" if lacks_memory else "check its files"
        raise ModelUnusable(f"model {model} cannot be loaded ({reason}): {remedy}, or name another one") from error


def check_tokenizer(tokenizer: Any, model: str) -> None:
    """Raise ModelUnusable for a tokenizer that knows no word: transformers makes one where the files are missing."""
    words = tokenizer.get_vocab().keys() - set(tokenizer.all_special_tokens)
    if not any(letter.isalnum() for word in words for letter in word):
        raise ModelUnusable(f"model {model} has no vocabulary: the files of its tokenizer are missing")
