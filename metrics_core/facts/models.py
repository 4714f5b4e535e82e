"""The small models behind facts about text on screen and speech, which the packages of the extra `facts` carry."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

# Raised by hand when a rule of these facts changes; videos are then measured anew.
MODEL_FACTS_VERSION = "3"

TEXT_DETECTOR = ("rapidocr", "models/PP-OCRv6_det_small.onnx")
TEXT_RECOGNIZER = ("rapidocr", "models/PP-OCRv6_rec_small.onnx")
LINE_TURNER = ("rapidocr", "models/ch_ppocr_mobile_v2.0_cls_mobile.onnx")
SPEECH_DETECTOR = ("silero_vad", "data/silero_vad_16k_sequence.onnx")
_FILES = (TEXT_DETECTOR, TEXT_RECOGNIZER, LINE_TURNER, SPEECH_DETECTOR)
_PACKAGES = ("rapidocr", "silero-vad")
# Without one of these every video would fail, with all its other facts.
_IMPORTED = ("onnxruntime", "cv2")


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Facts about one video that models measured; None where not measured, or where there is nothing to measure.

    Attributes:
        text_share: share of the examined moments, one every two seconds, with a line of text that the model reads.
        text_area: share of the frame that boxes around these lines cover, mean over all examined moments.
        speech_share: share of the time with speech; None without a sound track of which nine tenths decode.
    """

    text_share: float | None = None
    text_area: float | None = None
    speech_share: float | None = None


def find_fact_models() -> str | None:
    """Return the names and versions of the packages whose models measure text on screen and speech, with the version of
    the rules, such as "rapidocr 3.10.0, silero-vad 6.2.3, rules 3". None unless the extra `facts` is installed, with
    the model files of these packages. Loads no model.
    """
    if not all(map(find_spec, _IMPORTED)) or any(find_model_file(file) is None for file in _FILES):
        return None
    try:
        packages = [f"{name} {version(name)}" for name in _PACKAGES]
    except PackageNotFoundError:
        return None
    return ", ".join([*packages, f"rules {MODEL_FACTS_VERSION}"])


def find_model_file(file: tuple[str, str]) -> Path | None:
    """Return the path of a model file, given as (package, path inside it); None where it is not installed. The package
    is not imported, since `silero_vad` would import torch.
    """
    package, name = file
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec and spec.submodule_search_locations else ()
    return next((path for folder in folders if (path := Path(folder) / name).is_file()), None)
