"""The demo encoder: its files, what it can tell apart on fresh clips, and its training."""

from __future__ import annotations

import hashlib
import json
import math
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch

from demo.encoder import FOLDER, WEIGHTS, make_demo_encoder
from lab.demo.render import render_frames
from lab.demo.story import make_clip
from lab.encoder.batches import draw_batch
from lab.encoder.data import frames_at, training_clip
from lab.encoder.evaluate import evaluate
from lab.encoder.losses import info_nce
from lab.encoder.texts import COLOUR_NAMES, altered, statements
from lab.encoder.train import Settings, train
from metrics_core.models.clip_encoder import OpenClipEncoder
from metrics_core.models.errors import CheckpointMismatch
from metrics_core.models.word_tokenizer import WordTokenizer, split_words

TINY = Settings(n_clips=2, frames_per_clip=3, steps=3, clips_per_step=2, frames_per_step=2, image_size=64)


@pytest.fixture(scope="module")
def encoder() -> OpenClipEncoder:
    return make_demo_encoder()


def test_the_record_agrees_with_the_files() -> None:
    record = json.loads((FOLDER / "record.json").read_text())
    files = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in FOLDER.glob("demo_clip.*")}
    assert WEIGHTS in files
    assert record["sha256"] == files
    assert (FOLDER / WEIGHTS).stat().st_size <= 4_000_000
    text = (FOLDER / "RECORD.md").read_text()
    assert all(f"- {name}: {value}" in text for name, value in record["fresh_clips"]["measured"].items())


def test_the_identity_covers_every_file_of_the_model(encoder: OpenClipEncoder) -> None:
    identity = encoder.identity
    assert identity.model_id == "demo encoder"
    assert set(identity.params) == {"architecture", "precision", "configuration", "vocabulary", "preprocess"}


@pytest.mark.slow
def test_true_captions_of_fresh_clips_score_above_false_ones(encoder: OpenClipEncoder) -> None:
    measured = evaluate(encoder, 12, first_seed=3_000_000)
    assert measured["faithful above sys_offtopic"] >= 11 / 12 - 1e-4
    assert measured["faithful above sys_wrong_details"] >= 9 / 12


def test_texts_of_one_token_and_long_texts_are_encoded(encoder: OpenClipEncoder) -> None:
    features = encoder.encode_texts(["", "red", "red " * 200, "Red!", "zeppelin"])
    assert np.isfinite(features).all()
    np.testing.assert_array_equal(features[1], features[3])
    assert encoder.count_tokens("red " * 200) == 202 > encoder.context_length


def test_training_sees_frames_as_the_encoder_does(encoder: OpenClipEncoder) -> None:
    clip = training_clip(11, 2, 80)
    rng = Random("frames/11")
    n_frames = make_clip(11).n_frames
    number = int(rng.random() * n_frames / 2)
    shown = encoder.preprocess(next(frames_at(make_clip(11), [number]))).numpy()
    colours = clip.pixels[0].reshape(-1, 3)
    flat = shown.reshape(3, -1).T
    # Normalising is one straight line per channel.
    for channel in range(3):
        assert np.corrcoef(colours[:, channel], flat[:, channel])[0, 1] > 0.99999


def test_single_frames_are_those_of_the_clip() -> None:
    clip = make_clip(4)
    numbers = [0, 60, 61, 150]
    drawn = list(islice(render_frames(clip), 151))
    for number, frame in zip(numbers, frames_at(clip, numbers), strict=True):
        np.testing.assert_array_equal(frame, drawn[number])


def test_statements_cover_the_clip_and_hold_what_the_keyword_rules_find() -> None:
    clip = make_clip(1000)
    told = statements(clip)
    assert (told[0].start, told[0].end) == (0, clip.n_frames)
    assert "three red stars" in {phrase for statement in told for phrase in statement.phrases}
    for number in range(clip.n_frames):
        assert sum(statement.start <= number < statement.end for statement in told) >= 3


@pytest.mark.parametrize("seed", range(5))
def test_altered_texts_name_only_colours_that_the_clip_has_not(seed: int) -> None:
    clip, rng = training_clip(seed, 2, 32), Random(seed)
    changed = 0
    for text in sorted(clip.true):
        false = altered(text, clip.words, rng)
        if false is None:
            continue
        changed += 1
        assert false != text
        new = set(split_words(false)) - set(split_words(text))
        assert not new & COLOUR_NAMES & clip.words
    assert changed > 20


def test_true_texts_are_left_out_of_the_negatives() -> None:
    clips = [training_clip(seed, 4, 32) for seed in (1, 2, 3)]
    batch = draw_batch(clips, 4, Random(0))
    assert batch.pixels.shape == (12, 32, 32, 3)
    for frame in range(12):
        clip = clips[frame // 4]
        assert batch.texts[frame] in clip.true
        for other in range(12):
            assert batch.also_true[frame, other] == (frame != other and batch.texts[other] in clip.true)
    assert batch.also_true[0, 1]


def test_the_loss_leaves_out_ignored_texts_and_adds_false_ones() -> None:
    logits, false = torch.tensor([[1.0, 3.0], [0.5, 2.0]]), torch.tensor([0.25, 9.0])
    ignored = torch.tensor([[False, True], [False, False]])
    # Frame 0 against its own and the false text; frame 1 against both texts, its own has no false form.
    frames = -math.log(math.e / (math.e + math.exp(0.25))) - math.log(math.exp(2) / (math.exp(0.5) + math.exp(2)))
    # Text 0 against both frames; text 1 against its own alone, because it is true of frame 0, too.
    texts = -math.log(math.e / (math.e + math.exp(0.5)))
    assert info_nce(logits, false, ignored, ["false", ""]).item() == pytest.approx((frames + texts) / 4, abs=1e-6)


def test_training_runs_end_to_end_and_repeats_itself(tmp_path: Path) -> None:
    first, second = (train(TINY, tmp_path / name) for name in ("first", "second"))
    assert first["losses"] == second["losses"]
    weights = [(tmp_path / name / WEIGHTS).read_bytes() for name in ("first", "second")]
    assert weights[0] == weights[1]
    assert make_demo_encoder(tmp_path / "first").encode_texts(["a red star"]).shape == (1, 96)


def test_a_vocabulary_that_does_not_fit_the_configuration_is_refused(tmp_path: Path) -> None:
    train(TINY, tmp_path)
    (tmp_path / "demo_clip.vocab.json").write_text('["red"]')
    with pytest.raises(CheckpointMismatch, match=r"demo_clip\.vocab\.json has 5 tokens"):
        make_demo_encoder(tmp_path).encode_texts(["red"])


def test_words_become_numbers_with_the_end_as_the_highest(tmp_path: Path) -> None:
    tokenizer = WordTokenizer(["red", "star"], context_length=4)
    assert tokenizer.encode("RED, zeppelin star") == [2, 1, 3]
    tokens = tokenizer(["", "red star red"])
    assert tokens.tolist() == [[4, 5, 0, 0], [4, 2, 3, 5]]
    assert int(tokens.max()) == tokenizer.eot_token_id == tokenizer.vocab_size - 1


@pytest.mark.parametrize(
    ("content", "message"), [('{"red": 2}', "not a JSON list"), ('["red", "red"]', "more than once")]
)
def test_a_vocabulary_that_is_no_list_of_different_words_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "x.vocab.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        WordTokenizer.read_vocabulary(tmp_path / "x.vocab.json", 8)
