"""Texts without a vector are counted and timed before they are embedded, and each is embedded once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from sqlalchemy.engine import Engine

from assets.selection.select import make_selection
from assets.selection.vectors import embed_missing_texts
from db.evidence.embeddings import list_missing_texts
from db.evidence.models import find_model_id
from db.selection.recipes import SelectionError, parse_recipe
from metrics_core.protocols import ModelIdentity
from tests.db.builders import add_sample, add_video, make_dataset, set_scores

SECONDS_FOR_A_CHARACTER = 0.01


class Slow:
    """An encoder whose clock runs by the characters that it encodes."""

    identity = ModelIdentity("slow", "1", {})

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.asked.extend(texts)
        return np.eye(1, 3, dtype=np.float32).repeat(len(texts), axis=0)

    def clock(self) -> float:
        return SECONDS_FOR_A_CHARACTER * sum(map(len, self.asked))


def test_what_is_left_is_told_before_it_is_embedded(engine: Engine) -> None:
    """Texts of 10 characters take .1 s: the first counts as loading, then 4 and 8 make more than a second."""
    encoder, texts = Slow(), [f"text {number:05}" for number in range(613)]
    lines: list[tuple[str, int]] = []
    embed_missing_texts(engine, encoder, texts, lambda line: lines.append((line, len(encoder.asked))), encoder.clock)
    assert lines[:2] == [
        ("613 texts without a vector of slow: embedding them first", 0),
        ("600 texts left to embed: about 60 s, measured on the first 13", 13),
    ]
    assert sorted(encoder.asked) == texts
    with engine.connect() as connection:
        model_id = find_model_id(connection, encoder.identity.as_dict())
    assert model_id is not None
    assert list_missing_texts(engine, model_id, texts) == []


def test_what_is_left_is_embedded_only_if_that_is_approved(engine: Engine) -> None:
    texts, asked = [f"text {number:05}" for number in range(613)], list[str]()
    for answer, n_embedded in ((False, 13), (True, 613)):
        encoder = Slow()

        def approve(sentence: str, answer: bool = answer) -> bool:
            asked.append(sentence)
            return answer

        arguments = (engine, encoder, texts, lambda _: None, encoder.clock, approve)
        if answer:
            embed_missing_texts(*arguments)
        else:
            with pytest.raises(SelectionError, match="since you declined to embed 600 texts of this recipe"):
                embed_missing_texts(*arguments)
        assert len(encoder.asked) == n_embedded
    assert asked == ["600 texts left to embed: about 60 s, measured on the first 13"] * 2


@pytest.mark.parametrize("n", [0, 1, 5])
def test_few_texts_need_no_estimate(engine: Engine, n: int) -> None:
    encoder, lines, texts = Slow(), list[str](), [f"text {number}" for number in range(n)]
    embed_missing_texts(engine, encoder, texts, lines.append, encoder.clock)
    assert sorted(encoder.asked) == texts
    assert len(lines) == min(n, 1)


def test_only_eligible_texts_are_embedded_once(engine: Engine) -> None:
    dataset, told = make_dataset(engine), list[str]()
    video, encoder = add_video(engine, dataset, "v"), Slow()
    texts = {"a": "a dog", "b": "a dog", "c": "a cat", "d": "unscored", "e": "too low"}
    ids = {key: add_sample(engine, dataset, video, key, text) for key, text in texts.items()}
    set_scores(engine, {ids[key]: value for key, value in zip("abce", (0.9, 0.8, 0.7, 0.1), strict=True)})
    recipe = parse_recipe({"by": "vcs", "where": "vcs > 0.5", "dedupe": 1, "keep": 1})
    make_selection(engine, dataset, recipe, lambda: encoder, told.append)
    assert sorted(encoder.asked) == ["a cat", "a dog"]
    assert told[0] == "2 texts without a vector of slow: embedding them first"
    again = make_selection(engine, dataset, recipe, lambda: encoder, told.append)
    assert (again.is_new, len(encoder.asked)) == (False, 2)
