"""Profiles: models chosen together by one word, with their licences and sizes, and their agreement with people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from metrics_core.models.revision import split_model_name


def build_url_setting(setting: str) -> str:
    """Return the name of the setting for a model's server address, from the name of the setting for the model.

    >>> build_url_setting("qeva_video_model"), build_url_setting("text_encoder")
    ('qeva_video_url', 'text_encoder_url')
    """
    return f"{setting.removesuffix('_model')}_url"


@dataclass(frozen=True, slots=True)
class ProfileModel:
    """A model that a profile chooses, with its licence, size and purpose. setting, value: the setting that names the
    model, and its value. size_gb: the gigabytes to fetch or copy, None if not known. other_settings: values of further
    settings that belong to the model, by name.
    """

    setting: str
    value: str
    licence: str
    size_gb: float | None
    purpose: str
    other_settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, str]:
        """The values of the setting that names the model and of those that belong to it, by name."""
        return {self.setting: self.value, **self.other_settings}

    @property
    def size_text(self) -> str:
        """The size in gigabytes as text, "not known" without one."""
        return "not known" if self.size_gb is None else f"{self.size_gb:.3g}"

    @property
    def commit(self) -> str | None:
        """The commit of the model that the profile pins; None if it pins none."""
        return self.other_settings.get("text_encoder_revision") or split_model_name(self.value)[1]

    @property
    def revision_note(self) -> str:
        """A note for a model whose commit is not pinned: "installed" if it comes with the program, "the server's" if a
        server runs it, "of the tag" for a tag of open_clip, else "pin one".
        """
        if self.value in {"offline", "demo"}:
            return "installed"
        if build_url_setting(self.setting) in self.other_settings:
            return "the server's"
        return "of the tag" if "image_text_checkpoint" in self.other_settings else "pin one"

    @property
    def name(self) -> str:
        """The model's name without its commit; for an image-text encoder "ARCHITECTURE / CHECKPOINT" if it has a
        checkpoint.
        """
        checkpoint = self.other_settings.get("image_text_checkpoint")
        return f"{self.value} / {checkpoint}" if checkpoint else split_model_name(self.value)[0]


@dataclass(frozen=True, slots=True)
class Profile:
    """Models that are chosen together by one word, such as "gpu". meaning: what they are meant for, as a text.
    agreement: their agreement with people on VATEX-EVAL, with who measured it and when, as a text.
    """

    meaning: str
    models: tuple[ProfileModel, ...]
    agreement: str

    @property
    def settings(self) -> dict[str, str]:
        """The values of all settings that the profile chooses, by name."""
        return {name: value for model in self.models for name, value in model.settings.items()}


_NLI = ProfileModel(
    "ecs_verifier",
    "cross-encoder/nli-deberta-v3-large",
    "apache-2.0",
    # Its 434 million weights in float32, as its architecture has them.
    1.7,
    "ECS: judges whether a sentence entails a keypoint",
    {"ecs_verifier_precision": "bf16"},
)
LAPTOP, GPU, PAPER = "laptop", "gpu", "paper"
PROFILES: Mapping[str, Profile] = {
    LAPTOP: Profile(
        "Reelsieve's own defaults: everything is installed, no network, no GPU",
        (
            ProfileModel("text_encoder", "offline", "apache-2.0", 0.09, "VCS, VCS_short, ECS: all-MiniLM-L6-v2"),
            ProfileModel(
                "image_text_encoder", "demo", "Reelsieve's own", 0.004, "EVQAScore, only of the demo's drawn videos"
            ),
            ProfileModel(
                "ecs_verifier", "offline", "Reelsieve's own", 0.004, "ECS: a small NLI model on all-MiniLM-L6-v2"
            ),
        ),
        "VCS_short at lct 1, Kendall 22.6 (20.9 to 24.3) with 1 reference and 36.1 (34.7 to 37.6) with 9: this "
        "project, 2026-11-23; other metrics: not measured",
    ),
    GPU: Profile(
        "open models that fit a GPU of 24 GB together; those of QEVA and the judge behind Ollama on this machine",
        (
            ProfileModel(
                "text_encoder",
                "Qwen/Qwen3-Embedding-0.6B@b22da495047858cce924d27d76261e96be6febc0",
                "apache-2.0",
                1.2,
                "VCS, VCS_short, ECS; reads 32,768 tokens",
            ),
            ProfileModel(
                "image_text_encoder",
                "ViT-H-14",
                "mit",
                3.9,
                "EVQAScore; laion/CLIP-ViT-H-14-laion2B-s32B-b79K on the hub",
                {"image_text_checkpoint": "laion2b_s32b_b79k", "image_text_precision": "bf16"},
            ),
            _NLI,
            ProfileModel(
                "qeva_video_model", "qwen2.5vl:7b", "apache-2.0", 6.0, "QEVA: sees frames", {"qeva_video_url": "ollama"}
            ),
            ProfileModel(
                "qeva_text_model", "qwen2.5:7b", "apache-2.0", 4.7, "QEVA: reads summaries", {"qeva_text_url": "ollama"}
            ),
            ProfileModel(
                "judge_model", "qwen2.5vl:7b", "apache-2.0", 6.0, "judge: sees frames", {"judge_url": "ollama"}
            ),
        ),
        "not measured",
    ),
    PAPER: Profile(
        "models of the papers that can run on your own machines; three servers",
        (
            ProfileModel(
                "text_encoder",
                "nvidia/NV-Embed-v2",
                "cc-by-nc-4.0",
                15.7,
                "VCS, VCS_short; a server must run it, since it brings code. ECS's paper has BAAI/bge-m3 (mit, 2.3 GB)",
                {
                    "text_encoder_url": "http://127.0.0.1:8002/v1",
                    "text_encoder_revision": "7604d305b621f14095a1aa23d351674c2859553a",
                },
            ),
            ProfileModel(
                "sentence_splitter",
                "sat:sat-12l-sm",
                "mit",
                None,
                "VCS: segments; needs the package wtpsplit, and the tokenizer of FacebookAI/xlm-roberta-base",
            ),
            ProfileModel(
                "image_text_encoder",
                "ViT-B-32-quickgelu",
                "mit",
                0.6,
                "EVQAScore: CLIP as the paper names it; the weights of PAC-S in its tables have no licence",
                {"image_text_checkpoint": "openai"},
            ),
            replace(_NLI, other_settings={}),
            ProfileModel(
                "qeva_video_model",
                "Qwen/Qwen2.5-VL-7B-Instruct",
                "apache-2.0",
                None,
                "QEVA: sees frames; of the open pair in Table 4. The paper's first choice, Gemini 1.5 Pro, is hosted",
                {"qeva_video_url": "vllm"},
            ),
            ProfileModel(
                "qeva_text_model",
                "meta-llama/Llama-3.1-8B-Instruct",
                "llama3.1",
                None,
                "QEVA: reads summaries; of the same pair; the first choice is GPT-4o",
                {"qeva_text_url": "http://127.0.0.1:8001/v1"},
            ),
        ),
        "not measured here; the authors of VCS_short print Kendall 30.0 with 1 reference and 41.5 with 9",
    ),
}
# Settings of models that a profile does not choose have their default, whatever a settings file has: models belong
# together.
PROFILE_SETTINGS = frozenset(name for profile in PROFILES.values() for name in profile.settings)


def find_profile_model(setting: str, value: str) -> ProfileModel | None:
    """Return the first model of any profile that has this setting and this value; None if there is none. A commit after
    @ makes no difference.
    """
    name = split_model_name(value)[0]
    models = (model for profile in PROFILES.values() for model in profile.models)
    return next(
        (model for model in models if model.setting == setting and split_model_name(model.value)[0] == name), None
    )
