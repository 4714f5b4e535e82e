"""Measures the time with speech in a sound track, with the model of Silero VAD on the CPU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metrics_core.facts.models import SPEECH_DETECTOR, find_model_file
from metrics_core.frames.sound import RATE

Samples = NDArray[np.float32]

# The model judges windows of 32 ms, and sees the end of the window before.
WINDOW, CONTEXT = 512, 64
# Windows of a call, 16 s: however long the sound is, this much is in memory.
WINDOWS_PER_CALL = 512
LEAST_PROBABILITY = 0.5


class SpeechTime(NamedTuple):
    """Seconds with speech, and seconds of the whole sound; both 0 without sound."""

    speech_s: float
    sound_s: float


def measure_speech(sound: Iterable[Samples]) -> SpeechTime:
    """Measure how many seconds of a sound have speech, in steps of 32 ms. Pauses between words of some tenths of a
    second do not count. Needs the extra `facts`; the model loads at the first call and stays loaded.

    Args:
        sound: consecutive parts of any length, float32 of shape (n,), one channel with 16,000 samples a second, from -1
            to 1. Values outside are cut off, and values that are no numbers count as silence.
    """
    session = _load_session()
    hidden = cell = np.zeros((1, 1, 128), np.float32)
    last = np.zeros((1, CONTEXT), np.float32)
    n_speech = n_samples = 0
    for windows, n in _cut_windows(sound):
        before = np.concatenate([last, windows[:-1, -CONTEXT:]])
        inputs = {"input": np.concatenate([before, windows], axis=1), "h": hidden, "c": cell}
        probabilities, hidden, cell = session.run(None, inputs)
        last = windows[-1:, -CONTEXT:]
        n_speech += int((probabilities >= LEAST_PROBABILITY).sum())
        n_samples += n
    return SpeechTime(min(n_speech * WINDOW, n_samples) / RATE, n_samples / RATE)


def _cut_windows(sound: Iterable[Samples]) -> Iterator[tuple[Samples, int]]:
    """Yield windows, shape (n, 512), and how many of their samples are sound; the rest of the last one is silence."""
    parts: list[Samples] = []
    n = 0
    for part in sound:
        parts.append(np.clip(np.nan_to_num(part), -1, 1))
        n += len(part)
        if n >= WINDOWS_PER_CALL * WINDOW:
            joined, n_whole = np.concatenate(parts), n // WINDOW * WINDOW
            yield joined[:n_whole].reshape(-1, WINDOW), n_whole
            parts, n = [joined[n_whole:]], n - n_whole
    if n:
        yield np.pad(np.concatenate(parts), (0, -n % WINDOW)).reshape(-1, WINDOW), n


@lru_cache(maxsize=1)
def _load_session() -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(find_model_file(SPEECH_DETECTOR)), options, ["CPUExecutionProvider"])
