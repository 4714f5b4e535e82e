"""Errors of models that cannot be used. They name the model, while the libraries raise many types of errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class ModelUnusable(ValueError):
    """Raised where a model gives no usable output: its files do not load, memory is short, its server fails, or its
    output is useless. The message names the model. `vectors` holds, by text, the unit vectors (dim,) that a server gave
    before it failed.
    """

    plain = True
    vectors: Mapping[str, NDArray[np.float32]] = {}


class CheckpointMismatch(ValueError):
    """Raised for a checkpoint that does not fit the architecture, lacks weights, or cannot be read."""

    plain = True


class PackageMissing(ImportError):
    """Raised when an optional package that a setting needs is not installed; the message says how to install it."""

    plain = True


@contextmanager
def convert_load_errors(model: str) -> Iterator[None]:
    """Turn an exception of the `with` block, in which a library loads a model, into ModelUnusable, which names the
    model. ImportError passes unchanged, since no file of a model can mend it, and so do errors of this project that
    already explain themselves (`plain`). model: a folder, file or hub id.
    """
    try:
        yield
    except ImportError:
        raise
    except Exception as error:  # transformers raises a dozen types for broken files, and few name the model
        if getattr(error, "plain", False):
            raise
        lines = str(error).strip().splitlines()
        reason = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
        lacks_memory = type(error).__name__ == "OutOfMemoryError"
        remedy = "end other programs on the GPU" if lacks_memory else "check its files"
        raise ModelUnusable(f"model {model} cannot be loaded ({reason}): {remedy}, or name another one") from error


def check_tokenizer(tokenizer: Any, model: str) -> None:
    """Raise ModelUnusable for a tokenizer whose vocabulary has no letter or digit outside its special tokens.
    transformers makes such a tokenizer where its files are missing. model: the name for the message.
    """
    words = tokenizer.get_vocab().keys() - set(tokenizer.all_special_tokens)
    if not any(letter.isalnum() for word in words for letter in word):
        raise ModelUnusable(f"model {model} has no vocabulary: add the files of its tokenizer, or name another model")
