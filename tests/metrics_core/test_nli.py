"""The NLI adapter on small random checkpoints made here, against transformers and sentence-transformers themselves."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics_core.models.batches import split_by_tokens
from metrics_core.models.errors import CheckpointMismatch, ModelUnusable
from metrics_core.models.nli import NliClassifier, compute_class_probabilities
from metrics_core.models.nli_inputs import HypothesisTooLong
from metrics_core.models.nli_loading import NoEntailmentClass, find_entailment_class, find_max_length
from metrics_core.models.revision import ModelNotFound
from tests.metrics_core.broken_models import BREAKS, assert_halves_batches, assert_names_broken_folder, spoil_word

WORDS = ["a", "cat", "dog", "runs", "sleeps", "red", "box", "the", "man", "opens", "."]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
MAX_LENGTH = 20
BATCHES = (1, 30, 70, 400)
ENTAILMENT = {0: "contradiction", 1: "entailment", 2: "neutral"}
PAIRS = [
    ("a cat runs .", "the cat sleeps ."),
    ("the man opens the red box .", "a man opens a box"),
    ("dog", "a"),
    ("a", "dog"),
    ("a dog sleeps . the cat runs .", "red"),
    ("", "a man"),
    ("the red box", "the box is red and the man opens it"),
    ("a man opens the box . a cat runs .", "the cat"),
]


def save_tokenizer(folder: Path, model_max_length: int) -> None:
    """A tokenizer of whole words; one whose file carries a truncation of its own, as published ones do."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from tokenizers.processors import BertProcessing
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(WordLevel({word: i for i, word in enumerate([*SPECIAL, *WORDS])}, unk_token="[UNK]"))
    words.pre_tokenizer = WhitespaceSplit()
    words.post_processor = BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    words.enable_truncation(6)
    PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=model_max_length,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    ).save_pretrained(folder)


@pytest.fixture(scope="module")
def deberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random DeBERTa-v2 of two layers with relative positions, as nli-deberta-v3 has them."""
    import torch
    from transformers import DebertaV2Config, DebertaV2ForSequenceClassification

    folder = tmp_path_factory.mktemp("deberta")
    torch.manual_seed(3)
    config = DebertaV2Config(
        vocab_size=len(SPECIAL) + len(WORDS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        relative_attention=True,
        position_buckets=8,
        pos_att_type=["p2c", "c2p"],
        position_biased_input=False,
        type_vocab_size=0,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pooler_hidden_size=32,
        initializer_range=0.3,
        id2label=ENTAILMENT,
        label2id={label: index for index, label in ENTAILMENT.items()},
    )
    DebertaV2ForSequenceClassification(config).save_pretrained(folder)
    save_tokenizer(folder, MAX_LENGTH)
    return folder


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random BERT with two token types, entailment first and no limit in its tokenizer, saved as a CrossEncoder."""
    import torch
    from sentence_transformers import CrossEncoder
    from transformers import BertConfig, BertForSequenceClassification

    base, folder = (tmp_path_factory.mktemp(name) for name in ("bert", "cross_encoder"))
    torch.manual_seed(4)
    config = BertConfig(
        vocab_size=len(SPECIAL) + len(WORDS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=32,
        initializer_range=0.3,
        id2label={0: "ENTAILMENT", 1: "not_entailment"},
        label2id={"ENTAILMENT": 0, "not_entailment": 1},
    )
    BertForSequenceClassification(config).save_pretrained(base)
    save_tokenizer(base, int(1e30))
    CrossEncoder(str(base), device="cpu").save(str(folder))
    limits = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    (folder / "tokenizer_config.json").write_text(json.dumps({**limits, "model_max_length": 10**30}), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def model(deberta: Path) -> NliClassifier:
    """Shared by the tests that only judge pairs, in batches of several lengths."""
    return NliClassifier(str(deberta), max_tokens=40)


def copied(folder: Path, to: Path, **config: Any) -> Path:
    """A copy of a checkpoint with other entries in its configuration."""
    shutil.copytree(folder, to)
    fields = json.loads((to / "config.json").read_text(encoding="utf-8"))
    (to / "config.json").write_text(json.dumps({**fields, **config}), encoding="utf-8")
    return to


def directly(folder: Path, pairs: list[tuple[str, str]], index: int, max_length: int) -> list[float]:
    """What transformers gives for each pair alone, without padding."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    classifier = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    found = []
    for premise, hypothesis in pairs:
        tokens = tokenizer(premise, hypothesis, truncation="only_first", max_length=max_length, return_tensors="pt")
        with torch.no_grad():
            found.append(float(classifier(**tokens).logits[0].softmax(dim=0)[index]))
    return found


# Probabilities


def test_equals_transformers_pair_by_pair(deberta: Path, model: NliClassifier) -> None:
    found = model.entailment(PAIRS)
    np.testing.assert_allclose(found.probabilities, directly(deberta, PAIRS, 1, MAX_LENGTH), atol=1e-6, rtol=0)
    assert found.probabilities.dtype == np.float64
    assert not found.truncated.any()
    # The pairs differ by far more than the tolerance, and so do a pair and its reverse.
    assert np.diff(np.sort(found.probabilities)).min() > 1e-4
    assert abs(found.probabilities[2] - found.probabilities[3]) > 1e-2


def test_equals_a_cross_encoder_with_softmax(cross_encoder: Path) -> None:
    from sentence_transformers import CrossEncoder

    assert (cross_encoder / "modules.json").is_file()
    classifier = NliClassifier(str(cross_encoder), max_tokens=60)
    found = classifier.entailment(PAIRS).probabilities
    theirs = CrossEncoder(str(cross_encoder), device="cpu").predict(PAIRS, apply_softmax=True)
    np.testing.assert_allclose(found, theirs[:, 0], atol=1e-6, rtol=0)
    np.testing.assert_allclose(found, directly(cross_encoder, PAIRS, 0, 32), atol=1e-6, rtol=0)
    assert np.ptp(found) > 0.05


@pytest.fixture(scope="module")
def batching(deberta: Path) -> dict[int, NliClassifier]:
    """By the tokens that a batch may hold: each pair alone, two or three, some, and all of them at once."""
    return {max_tokens: NliClassifier(str(deberta), max_tokens=max_tokens) for max_tokens in BATCHES}


@pytest.fixture(scope="module")
def alone(model: NliClassifier) -> list[float]:
    """The probability of each of PAIRS, judged alone."""
    return [float(model.entailment([pair]).probabilities[0]) for pair in PAIRS]


@settings(max_examples=25)
@given(
    st.lists(st.sampled_from(range(len(PAIRS))), min_size=1, max_size=12),
    st.sampled_from(BATCHES),
)
def test_a_probability_depends_on_its_pair_alone(
    batching: dict[int, NliClassifier], alone: list[float], rows: list[int], max_tokens: int
) -> None:
    together = batching[max_tokens].entailment([PAIRS[row] for row in rows]).probabilities
    np.testing.assert_allclose(together, [alone[row] for row in rows], atol=1e-6, rtol=0)


def test_case_k_probability_of_a_class() -> None:
    logits = np.array([[0.0, math.log(3), 0.0], [1000.0, 1000.0, -1000.0]])
    np.testing.assert_allclose(compute_class_probabilities(logits, 1), [0.6, 0.5], rtol=1e-15)
    np.testing.assert_allclose(compute_class_probabilities(logits, 0), [0.2, 0.5], rtol=1e-15)


def test_no_pairs_need_no_model() -> None:
    found = NliClassifier("no-such-owner/no-such-model").entailment([])
    assert (found.probabilities.shape, found.truncated.shape) == ((0,), (0,))


# The class by name


def test_the_order_of_the_classes_does_not_matter(deberta: Path, model: NliClassifier, tmp_path: Path) -> None:
    """The same classifier with its classes in another order, weights and names alike."""
    from safetensors.torch import load_file, save_file

    turned = copied(
        deberta,
        tmp_path / "turned",
        id2label={"0": "Entailment", "1": "neutral", "2": "contradiction"},
        label2id={"Entailment": 0, "neutral": 1, "contradiction": 2},
    )
    weights = load_file(turned / "model.safetensors")
    for name in ("classifier.weight", "classifier.bias"):
        weights[name] = weights[name][[1, 2, 0]].contiguous()
    save_file(weights, turned / "model.safetensors", metadata={"format": "pt"})
    found = NliClassifier(str(turned)).entailment(PAIRS).probabilities
    np.testing.assert_allclose(found, model.entailment(PAIRS).probabilities, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("labels", "index"),
    [
        (["contradiction", "entailment", "neutral"], 1),
        (["ENTAILMENT", "NEUTRAL", "CONTRADICTION"], 0),
        (["not_entailment", "entailment"], 1),
        (["neutral", "contradiction", " Entails "], 2),
    ],
)
def test_entailment_is_found_by_name(labels: list[str], index: int) -> None:
    assert find_entailment_class(dict(enumerate(labels)), "m") == index


@pytest.mark.parametrize(
    ("labels", "what"),
    [
        (["LABEL_0", "LABEL_1", "LABEL_2"], "no classes named entailment; its classes are LABEL_0, LABEL_1, LABEL_2"),
        (["not_entailment", "other"], "no classes named entailment"),
        (["non-entailment", "no entailment"], "no classes named entailment"),
        (["entailment", "entailed in part"], "2 classes named entailment"),
        (["entailment"], "the single output entailment"),
        (["LABEL_0"], "no classes named entailment"),
    ],
)
def test_no_class_is_guessed(labels: list[str], what: str) -> None:
    with pytest.raises(NoEntailmentClass, match=f"some/model has {what}"):
        find_entailment_class(dict(enumerate(labels)), "some/model")


def test_a_classifier_without_the_class_is_refused_before_its_weights_are_read(deberta: Path, tmp_path: Path) -> None:
    nameless = copied(
        deberta,
        tmp_path / "nameless",
        id2label={str(i): f"LABEL_{i}" for i in range(3)},
        label2id={f"LABEL_{i}": i for i in range(3)},
    )
    (nameless / "model.safetensors").unlink()
    with pytest.raises(NoEntailmentClass, match=r"its classes are LABEL_0, LABEL_1, LABEL_2\. Give .* id2label"):
        NliClassifier(str(nameless)).entailment(PAIRS)


# Long premises


def words(n: int, start: int = 0) -> list[str]:
    return [WORDS[(start + 3 * i) % len(WORDS)] for i in range(n)]


def test_only_the_premise_is_cut_and_only_where_it_must_be(model: NliClassifier) -> None:
    """20 tokens: three special ones and two of the hypothesis leave fifteen for the premise."""
    hypothesis = "red box"
    premises = [" ".join(words(n)) for n in (15, 16, 40)]
    pairs = [*((premise, hypothesis) for premise in premises), PAIRS[0]]
    found = model.entailment(pairs)
    assert found.truncated.tolist() == [False, True, True, False]
    assert found.probabilities[1] == pytest.approx(found.probabilities[0], abs=1e-6)
    assert found.probabilities[2] == pytest.approx(found.probabilities[0], abs=1e-6)
    # The words that fit do count: one word less, or another hypothesis, is another probability.
    others = model.entailment([(" ".join(words(14)), hypothesis), (premises[0], "red cat")]).probabilities
    assert np.abs(others - found.probabilities[0]).min() > 1e-4
    assert found.probabilities[3] == pytest.approx(model.entailment(PAIRS[:1]).probabilities[0], abs=1e-6)


def test_cut_pairs_equal_transformers(deberta: Path, model: NliClassifier) -> None:
    pairs = [(" ".join(words(n, n)), " ".join(words(k, n + 1))) for n, k in [(30, 1), (17, 16), (3, 16), (50, 9)]]
    found = model.entailment(pairs)
    assert found.truncated.tolist() == [True, True, True, True]
    np.testing.assert_allclose(found.probabilities, directly(deberta, pairs, 1, MAX_LENGTH), atol=1e-6, rtol=0)


def test_the_end_is_cut_whatever_the_tokenizer_would_cut(deberta: Path, model: NliClassifier, tmp_path: Path) -> None:
    from_left = copied(deberta, tmp_path / "from_left")
    file = from_left / "tokenizer_config.json"
    fields = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**fields, "truncation_side": "left"}), encoding="utf-8")
    pairs = [(" ".join(words(30)), "a cat")]
    found = NliClassifier(str(from_left)).entailment(pairs).probabilities
    np.testing.assert_allclose(found, model.entailment(pairs).probabilities, atol=1e-6, rtol=0)


def test_the_models_positions_are_a_limit_where_the_tokenizer_knows_none(cross_encoder: Path) -> None:
    found = NliClassifier(str(cross_encoder)).entailment([(" ".join(words(n)), "a cat") for n in (27, 28)])
    assert found.truncated.tolist() == [False, True]
    assert found.probabilities[0] == pytest.approx(found.probabilities[1], abs=1e-6)


def test_a_hypothesis_without_room_for_a_premise_is_named_before_any_pair_is_judged(deberta: Path) -> None:
    classifier = NliClassifier(str(deberta))
    long, longer, fits = (" ".join(words(n)) for n in (17, 30, 16))
    pairs = [PAIRS[0], ("a cat", long), ("a", longer), ("a dog", long), ("a", fits)]
    with pytest.raises(HypothesisTooLong, match=r"2 hypotheses leave no room for a premise in the 20 tokens") as e:
        classifier.entailment(pairs)
    assert e.value.hypotheses == (long, longer)
    kept = [pair for pair in pairs if pair[1] not in e.value.hypotheses]
    assert classifier.entailment(kept).truncated.tolist() == [False, False]
    # Nothing is cut, nothing refused.
    assert classifier.entailment([("", long)]).truncated.tolist() == [False]


def test_padding_that_has_a_position_of_its_own_shortens_the_input() -> None:
    from types import SimpleNamespace

    from transformers import RobertaConfig, RobertaForSequenceClassification

    config = RobertaConfig(
        vocab_size=20,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=34,
        pad_token_id=1,
    )
    roberta = RobertaForSequenceClassification(config)
    assert find_max_length(roberta, SimpleNamespace(model_max_length=int(1e30)), "m") == 32
    assert find_max_length(roberta, SimpleNamespace(model_max_length=24), "m") == 24


def test_an_input_without_a_known_limit_is_refused() -> None:
    from types import SimpleNamespace

    class Endless:
        config = SimpleNamespace(max_position_embeddings=-1)

        def named_modules(self) -> list[Any]:
            return []

    with pytest.raises(ValueError, match="m does not say how long an input may be"):
        find_max_length(Endless(), SimpleNamespace(model_max_length=int(1e30)), "m")


# Batches


def test_pairs_that_do_not_fit_into_the_memory_are_judged_in_smaller_batches(model: NliClassifier) -> None:
    def run() -> Any:
        return model.entailment(PAIRS).probabilities

    assert_halves_batches(model._loaded.model, run, "REELSIEVE_ECS_VERIFIER_PRECISION")


@given(st.lists(st.integers(1, 60), max_size=40), st.integers(1, 200))
def test_batches_hold_each_row_once_by_falling_length_within_the_budget(lengths: list[int], max_tokens: int) -> None:
    batches = list(split_by_tokens(lengths, max_tokens))
    rows = [row for batch in batches for row in batch]
    assert sorted(rows) == list(range(len(lengths)))
    assert [lengths[row] for row in rows] == sorted(lengths, reverse=True)
    for batch in batches:
        longest = lengths[batch[0]]
        assert len(batch) == 1 or longest * len(batch) <= max_tokens
        # Only the last may stop while more would fit.
        assert batch is batches[-1] or longest * (len(batch) + 1) > max_tokens


# Loading


def test_identity_is_of_files_and_of_the_precision_in_use(deberta: Path, tmp_path: Path) -> None:
    import torch

    identity = NliClassifier(str(deberta), precision="bf16").identity.as_dict()
    precision = "bf16" if torch.cuda.is_available() else "fp32"
    assert identity["model_id"] == str(deberta)
    assert identity["revision"].startswith("sha256:")
    assert identity["params"] == {"precision": precision}
    relabelled = copied(deberta, tmp_path / "relabelled", id2label={"0": "entailment", "1": "b", "2": "c"})
    assert NliClassifier(str(relabelled)).identity.revision != identity["revision"]


def test_half_precision_is_for_gpus_alone(deberta: Path, model: NliClassifier) -> None:
    import torch

    half = NliClassifier(str(deberta), precision="bf16")
    found = half.entailment(PAIRS).probabilities
    full = model.entailment(PAIRS).probabilities
    if torch.cuda.is_available():
        np.testing.assert_allclose(found, full, atol=0.05)
    else:
        np.testing.assert_allclose(found, full, atol=1e-6, rtol=0)


def test_an_output_that_is_not_finite_is_an_error_that_quotes_the_pair(deberta: Path, tmp_path: Path) -> None:
    folder = spoil_word(copied(deberta, tmp_path / "broken"), len(SPECIAL) + WORDS.index("dog"))
    classifier = NliClassifier(str(folder))
    assert np.isfinite(classifier.entailment([("a cat", "a box")]).probabilities).all()
    message = "not finite for the premise 'the box' and the hypothesis 'a dog sleeps'"
    with pytest.raises(ValueError, match=message):
        classifier.entailment([("a cat", "a box"), ("the box", "a dog sleeps"), ("a man", "red")])


@pytest.mark.parametrize("how", BREAKS)
def test_a_broken_folder_is_named_in_one_sentence(deberta: Path, tmp_path: Path, how: str) -> None:
    assert_names_broken_folder(deberta, tmp_path / "model", how, lambda folder: NliClassifier(folder).entailment(PAIRS))


def test_code_that_comes_with_a_model_does_not_run(deberta: Path, model: NliClassifier, tmp_path: Path) -> None:
    own_code = {"AutoConfig": "own.Config", "AutoModelForSequenceClassification": "own.Model"}
    carrying = copied(deberta, tmp_path / "carrying", auto_map=own_code)
    (carrying / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n", encoding="utf-8")
    found = NliClassifier(str(carrying)).entailment(PAIRS).probabilities
    np.testing.assert_allclose(found, model.entailment(PAIRS).probabilities, atol=1e-6, rtol=0)
    unknown = copied(carrying, tmp_path / "unknown", model_type="of-its-own")
    with pytest.raises(ModelUnusable, match="custom code"):
        NliClassifier(str(unknown)).entailment(PAIRS)
    assert not (tmp_path / "ran").exists()


def test_a_head_that_was_never_trained_is_refused(deberta: Path, tmp_path: Path) -> None:
    """transformers would draw one at random, with no more than a line in the log."""
    from safetensors.torch import load_file, save_file

    headless = copied(deberta, tmp_path / "headless")
    weights = load_file(headless / "model.safetensors")
    kept = {name: value for name, value in weights.items() if not name.startswith("classifier.")}
    save_file(kept, headless / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CheckpointMismatch, match=r"lacks 2 weights of the classifier, 'classifier\.bias' for one"):
        NliClassifier(str(headless)).entailment(PAIRS)


def test_an_unknown_model_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    classifier = NliClassifier("no-such-owner/no-such-model")
    with pytest.raises(ModelNotFound, match=r"'no-such-owner/no-such-model' is neither .* give a path"):
        classifier.entailment(PAIRS)


def test_settings_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="precision is 'int8': give one of fp32, bf16, fp16"):
        NliClassifier("m", precision="int8")
    with pytest.raises(ValueError, match="max_tokens is 0: give the tokens that a batch may hold"):
        NliClassifier("m", max_tokens=0)
