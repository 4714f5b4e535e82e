"""A picture that was cut down where it was decoded leads to the same numbers as the whole one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from metrics_core.frames.fit import MAX_PIXELS, PictureFit, PictureRefused
from metrics_core.models.clip_fit import build_fit

CONFIGURATIONS: list[dict[str, Any]] = [
    {"size": 32},
    {"size": 32, "interpolation": "bilinear"},
    {"size": 33, "resize_mode": "shortest", "interpolation": "random"},
    {"size": (24, 40), "interpolation": "bilinear"},
    {"size": (40, 24), "resize_mode": "squash"},
    {"size": 32, "resize_mode": "squash", "interpolation": "bilinear"},
    {"size": 32, "resize_mode": "longest", "fill_color": 90},
    {"size": (24, 40), "resize_mode": "longest", "interpolation": "bilinear", "fill_color": 255},
]


def noise(height: int, width: int) -> NDArray[np.uint8]:
    return np.random.default_rng(height * 1000 + width).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=str)
@given(height=st.integers(2, 120), width=st.integers(2, 120))
@example(height=32, width=32)
@example(height=24, width=40)
@example(height=1, width=7)
@example(height=33, width=97)
@example(height=360, width=640)
def test_what_open_clip_makes_of_it_is_the_same_bit_for_bit(
    configuration: dict[str, Any], height: int, width: int
) -> None:
    from open_clip.transform import PreprocessCfg, image_transform_v2
    from PIL import Image

    preprocess = PreprocessCfg(**configuration)
    transform, fit = image_transform_v2(preprocess, is_train=False), build_fit(preprocess)
    picture = noise(height, width)
    if not all(fit.compute_resized_size(height, width)):
        return  # open_clip cannot resize it either
    fitted = fit(picture)
    assert (fitted.shape, fitted.dtype) == ((fit.height, fit.width, 3), np.uint8)
    assert torch.equal(transform(Image.fromarray(fitted)), transform(Image.fromarray(picture)))


@pytest.mark.parametrize(
    ("fit", "shape"),
    [
        (PictureFit(224, 224), (1, 65535)),
        (PictureFit(224, 224), (65535, 1)),
        (PictureFit(224, 224, "longest"), (1, 65535)),
        (PictureFit(200, 224), (1, 65535)),
    ],
)
def test_a_strip_that_resizing_would_blow_up_is_refused(fit: PictureFit, shape: tuple[int, int]) -> None:
    with pytest.raises(PictureRefused, match=r"too narrow .* less extreme shape"):
        fit(np.zeros((*shape, 3), np.uint8))


def test_a_strip_that_stays_small_is_not_refused() -> None:
    assert PictureFit(80, 80, "squash")(np.zeros((1, 65535, 3), np.uint8)).shape == (80, 80, 3)
    assert MAX_PIXELS > 224 * 224 * 700
    assert PictureFit(224, 224)(np.zeros((1, 700, 3), np.uint8)).shape == (224, 224, 3)
