"""open_clip models through the real loading code, on small random checkpoints that the tests make."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from metrics_core.models.clip_encoder import OpenClipEncoder
from metrics_core.models.clip_loading import merge_adapters
from metrics_core.models.errors import CheckpointMismatch, ModelUnusable
from tests.metrics_core.broken_models import assert_halves_batches

CONFIGURATION = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "patch_size": 8, "head_width": 16},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 2},
}
TEXTS = ["a dog", "a red ball rolls over the blue box", "", "word " * 200, "a dog"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A random CLIP of open_clip; its configuration lies beside its weights."""
    import open_clip

    folder = tmp_path_factory.mktemp("clip")
    (folder / "tiny_test_clip.json").write_text(json.dumps(CONFIGURATION))
    open_clip.add_model_config(folder / "tiny_test_clip.json")
    torch.manual_seed(3)
    made = open_clip.create_model("tiny_test_clip", pretrained=None, load_weights=False).eval()
    save_file({name: value.contiguous() for name, value in made.state_dict().items()}, folder / "clip.safetensors")
    torch.save({"state_dict": {f"module.{n}": v for n, v in made.state_dict().items()}}, folder / "clip.pt")
    made.folder = folder
    return made


def encoder_of(model: Any, checkpoint: str = "clip.safetensors") -> OpenClipEncoder:
    return OpenClipEncoder(str(model.folder / "tiny_test_clip.json"), str(model.folder / checkpoint), batch_size=2)


@pytest.mark.parametrize("checkpoint", ["clip.safetensors", "clip.pt"])
def test_texts_at_their_own_length_equal_padded_ones(model: Any, checkpoint: str) -> None:
    import open_clip

    with torch.inference_mode():
        padded = model.encode_text(open_clip.get_tokenizer("tiny_test_clip")(TEXTS)).numpy()
    features = encoder_of(model, checkpoint).encode_texts(TEXTS)
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, padded, atol=1e-5)
    np.testing.assert_array_equal(features[0], features[4])


def test_tokens_are_counted_uncut(model: Any) -> None:
    encoder = encoder_of(model)
    assert [encoder.count_tokens(text) for text in TEXTS] == [4, 10, 2, 202, 4]
    assert encoder.context_length == 77


def test_batches_that_do_not_fit_into_the_memory_are_encoded_in_parts(model: Any) -> None:
    encoder, pictures = encoder_of(model), [np.full((20, 30, 3), grey, np.uint8) for grey in (0, 120, 240)]
    tower, setting = encoder._loaded.model, "REELSIEVE_IMAGE_TEXT_PRECISION"
    assert_halves_batches(tower.visual, lambda: encoder.encode_images(pictures), setting)
    assert_halves_batches(tower.transformer, lambda: encoder.encode_texts(TEXTS), setting)


def test_images_of_any_size_keep_their_order(model: Any) -> None:
    random = np.random.default_rng(0)
    images = [random.integers(0, 256, size, dtype=np.uint8) for size in ((20, 50, 3), (64, 64, 3), (90, 31, 3))]
    encoder = encoder_of(model)
    together = encoder.encode_images(images)
    assert together.shape == (3, 16)
    for image, row in zip(images, together, strict=True):
        np.testing.assert_allclose(encoder.encode_images([image])[0], row, atol=1e-5)
    with torch.inference_mode():
        direct = model.encode_image(encoder.preprocess(images[0])[None]).numpy()[0]
    np.testing.assert_allclose(together[0], direct, atol=1e-5)


def test_nothing_in_nothing_out(model: Any) -> None:
    encoder = encoder_of(model)
    assert encoder.encode_texts([]).shape == (0, 16)
    assert encoder.encode_images([]).shape == (0, 16)


def test_a_fine_tuned_checkpoint_with_adapters_equals_the_merged_weights(model: Any) -> None:
    state = {name: value.clone() for name, value in model.state_dict().items()}
    key = "transformer.resblocks.0.mlp.c_fc.weight"
    down, up = torch.randn(4, state[key].shape[1]), torch.randn(state[key].shape[0], 4)
    adapted = {**state, "transformer.resblocks.0.mlp.c_fc.lora_A": down, "transformer.resblocks.0.mlp.c_fc.lora_B": up}
    save_file({name: value.contiguous() for name, value in adapted.items()}, model.folder / "adapted.safetensors")
    state[key] += up @ down
    save_file({name: value.contiguous() for name, value in state.items()}, model.folder / "merged.safetensors")
    features = encoder_of(model, "adapted.safetensors").encode_texts(TEXTS)
    np.testing.assert_allclose(features, encoder_of(model, "merged.safetensors").encode_texts(TEXTS), atol=1e-6)
    assert np.abs(features - encoder_of(model).encode_texts(TEXTS)).max() > 1e-3


def test_half_an_adapter_is_refused() -> None:
    with pytest.raises(CheckpointMismatch, match="has only matrix A"):
        merge_adapters({"block.weight": torch.zeros(2, 2), "block.lora_A": torch.zeros(1, 2)})


def test_weights_of_another_architecture_are_refused(model: Any) -> None:
    save_file({"visual.conv1.weight": torch.zeros(1)}, model.folder / "other.safetensors")
    with pytest.raises(CheckpointMismatch, match=r"other\.safetensors does not fit"):
        encoder_of(model, "other.safetensors").encode_texts(["a"])


def test_an_unknown_checkpoint_is_named(model: Any) -> None:
    with pytest.raises(FileNotFoundError, match="no_such_tag"):
        OpenClipEncoder("ViT-B-32", "no_such_tag").encode_texts(["a"])


def test_a_checkpoint_that_would_run_code_is_not_loaded(model: Any) -> None:
    class Attack:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (model.folder / "attacked",))

    torch.save({"state_dict": Attack()}, model.folder / "attack.pt")
    with pytest.raises(Exception, match=r"[Ww]eights"):
        encoder_of(model, "attack.pt").encode_texts(["a"])
    assert not (model.folder / "attacked").exists()


def test_the_identity_names_weights_and_configuration(model: Any) -> None:
    first, second = encoder_of(model).identity, encoder_of(model, "clip.pt").identity
    assert first.revision.startswith("sha256:")
    assert first.revision != second.revision
    assert first.params["configuration"] == second.params["configuration"]


@pytest.mark.parametrize(("name", "content"), [("torn.safetensors", b"torn"), ("torn.pt", b"torn"), ("empty.pt", b"")])
def test_a_file_that_holds_no_weights_is_named(model: Any, tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    encoder = OpenClipEncoder(str(model.folder / "tiny_test_clip.json"), str(tmp_path / name))
    with pytest.raises(CheckpointMismatch, match=rf"{name} holds no readable weights"):
        encoder.load()


@pytest.mark.parametrize("configuration", ["{}", "[]", '{"embed_dim": 8, "vision_cfg": 1, "text_cfg": 2}'])
def test_a_configuration_of_no_model_is_named(model: Any, tmp_path: Path, configuration: str) -> None:
    file = tmp_path / "strange_clip.json"
    file.write_text(configuration)
    encoder = OpenClipEncoder(str(file), str(model.folder / "clip.pt"))
    with pytest.raises(ModelUnusable, match=str(file)):
        encoder.encode_texts(["a"])
