"""How well text on screen and speech are found, and at what cost: `python -m benchmarks.fact_models [RESULT.json]`.

Needs the extra `facts`, the clips of the test data, and for speech the program espeak-ng.
Text: a line is drawn over frames of filmed clips, white with a black edge as subtitles are, or white and half
transparent as watermarks are, in letters of several heights; the table has the share of the frames where it is found,
and the median of the area by the area of the ink. Frames as they are come first.
Speech: sentences by a synthesizer in several languages with pauses of two seconds, clean and with noise. The true share
is that of the windows in which the clean voice is louder than -40 dB.
Cost: CPU seconds for a second of video: decoding only, all facts without models, and with them, at several heights.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import matplotlib
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from benchmarks.encodings import decode, frames_of
from benchmarks.measure import DATA, RESULTS, save
from metrics_core.facts.measure import measure_video
from metrics_core.facts.models import find_fact_models
from metrics_core.facts.screen_text import measure_text_area, read_lines_by_model
from metrics_core.facts.speech import WINDOW, measure_speech
from metrics_core.frames.sound import RATE

RESULT = RESULTS / "fact_models.json"
# Filmed clips in which a person finds no text larger than signs far away.
CLIPS = ("arm_wrestling.mp4", "basketball_gym.mp4", "great_wall_aerial.mp4", "hair_brushing.mp4", "lobby_fern.mp4")
CLIPS = (*CLIPS, "pancake_flip.mkv", "pool_cleaning.mp4", "traffic_bangkok.mp4", "eye_makeup.avi")
FRAMES_PER_CLIP = 4
ROWS = 360
HEIGHTS = (8, 10, 12, 16, 24, 40)
LINE = "They meet again at the old harbour"
FONT = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
SENTENCES = {
    "en": "The quick brown fox jumps over the lazy dog, and then it sleeps in the warm sun of the garden.",
    "de": "Der schnelle braune Fuchs springt über den faulen Hund und schläft dann im Garten in der Sonne.",
    "fr": "Le renard brun et rapide saute par dessus le chien paresseux, puis il dort au soleil du jardin.",
    "es": "El veloz zorro marrón salta sobre el perro perezoso y luego duerme al sol en el jardín.",
    "ru": "Быстрая коричневая лиса прыгает через ленивую собаку и потом спит в саду.",
    "hi": "तेज़ भूरी लोमड़ी आलसी कुत्ते के ऊपर से कूदती है और फिर बगीचे में सोती है।",
}
SIZES = (240, 720, 1080)


def list_frames(folder: Path) -> list[Image.Image]:
    """Frames of the filmed clips, at 360 rows."""
    found = []
    for name in CLIPS:
        frames = list(frames_of(folder / name))
        shown = frames[:: max(1, len(frames) // FRAMES_PER_CLIP)][:FRAMES_PER_CLIP]
        width = round(frames[0].width * ROWS / frames[0].height)
        found += [frame.reformat(width, ROWS, format="rgb24").to_image() for frame in shown]
    return found


def draw_line(frame: Image.Image, height: int, is_subtitle: bool) -> tuple[Image.Image, float]:
    """The frame with a line near its lower edge, and the share of the picture that the ink's box covers."""
    font = ImageFont.truetype(FONT, height)
    layer = Image.new("RGBA", frame.size)
    pen, at = ImageDraw.Draw(layer), (20, ROWS - 30 - height)
    if is_subtitle:
        pen.text(at, LINE, font=font, fill="white", stroke_width=max(1, height // 12), stroke_fill="black")
    else:
        pen.text(at, LINE, font=font, fill=(255, 255, 255, 128))
    left, top, right, bottom = pen.textbbox(at, LINE, font=font)
    shown = Image.alpha_composite(frame.convert("RGBA"), layer).convert("RGB")
    inside = (min(right, frame.width) - left) * (bottom - top)
    return shown, inside / (frame.width * frame.height)


def area(frame: Image.Image) -> float:
    """The share of a frame under text."""
    return measure_text_area(np.asarray(frame)[..., ::-1].copy(), read_lines_by_model)


def find_text(folder: Path) -> dict[str, Any]:
    """Shares of frames with text found, without a line and with lines of all heights."""
    frames = list_frames(folder)
    plain = [area(frame) for frame in frames]
    rows = []
    print(f"{len(frames)} frames as they are: text in {np.mean([one > 0 for one in plain]):.3f}")
    for is_subtitle in (True, False):
        for height in HEIGHTS:
            drawn = [draw_line(frame, height, is_subtitle) for frame in frames]
            pairs = [(area(shown), ink) for shown, ink in drawn]
            ratios = [one / ink for one, ink in pairs if one]
            row = {"is_subtitle": is_subtitle, "height": height, "found": float(np.mean([one > 0 for one, _ in pairs]))}
            row["area_by_ink"] = float(np.median(ratios)) if ratios else None
            rows.append(row)
            print(f"  {'subtitle' if is_subtitle else 'watermark'} {height:>3} px of {ROWS}: {row}", flush=True)
    return {"frames": len(frames), "as_they_are": float(np.mean([one > 0 for one in plain])), "drawn": rows}


def speak(language: str) -> NDArray[np.float32]:
    """A sentence three times, with two seconds of silence around each."""
    command = ["espeak-ng", "-v", language, "--stdout", SENTENCES[language]]
    raw = subprocess.run(command, capture_output=True, check=True).stdout
    with av.open(io.BytesIO(raw)) as container:
        resampler = av.AudioResampler("flt", "mono", RATE)
        parts = [part.to_ndarray()[0] for frame in container.decode(audio=0) for part in resampler.resample(frame)]
    pause = np.zeros(2 * RATE, np.float32)
    return np.concatenate([pause, *[np.concatenate([*parts, pause])] * 3])


def find_speech() -> list[dict[str, Any]]:
    """True and measured shares of time with speech, by language and loudness of noise."""
    rows = []
    for language in SENTENCES:
        voice = speak(language)
        whole = voice[: len(voice) // WINDOW * WINDOW].reshape(-1, WINDOW)
        true = float((np.sqrt((whole**2).mean(axis=1)) > 0.01 * np.abs(voice).max()).mean())
        row: dict[str, Any] = {"language": language, "true": true}
        level = np.sqrt((voice[voice != 0] ** 2).mean())
        for name, decibels in {"clean": None, "noise -20 dB": -20, "noise -10 dB": -10}.items():
            loudness = 0.0 if decibels is None else level * 10 ** (decibels / 20)
            noise = np.random.default_rng(0).normal(0, 1, len(voice)).astype(np.float32) * np.float32(loudness)
            speech_s, sound_s = measure_speech([voice + noise])
            row[name] = speech_s / sound_s
        rows.append(row)
        print("  ", {key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()})
    return rows


def cpu_seconds(call: Callable[[], object]) -> float:
    """CPU time of the second of two calls."""
    call()
    began = time.process_time()
    call()
    return time.process_time() - began


def resize(source: Path, path: Path, rows: int) -> tuple[Path, float]:
    """The first six seconds of a clip at another height, and their length; coded as H.264 at crf 23."""
    with av.open(str(source)) as clip:
        rate = Fraction(clip.streams.video[0].average_rate or 25)
    n = 0
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=rate, options={"crf": "23", "preset": "veryfast"})
        for frame in _first(frames_of(source), round(6 * rate)):
            if not n:
                stream.height, stream.width, stream.pix_fmt = (
                    rows,
                    frame.width * rows // frame.height // 2 * 2,
                    "yuv420p",
                )
            container.mux(stream.encode(frame.reformat(stream.width, rows)))
            n += 1
        container.mux(stream.encode())
    return path, float(n / rate)


def _first(frames: Iterator[av.VideoFrame], n: int) -> Iterator[av.VideoFrame]:
    return (frame for _, frame in zip(range(n), frames, strict=False))


def find_costs(folder: Path) -> list[dict[str, Any]]:
    """CPU seconds for a second of video, median over the clips, at several heights."""
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        for size in SIZES:
            taken: dict[str, list[float]] = {"decoding": [], "facts": [], "facts with models": []}
            for name in ("traffic_bangkok.mp4", "great_wall_aerial.mp4", "pancake_flip.mkv", "coloured_eggs.mp4"):
                path, length_s = resize(folder / name, Path(temporary) / f"{size}.mp4", size)
                calls = (decode, measure_video, lambda path: measure_video(path, with_models=True))
                for times, call in zip(taken.values(), calls, strict=True):
                    times.append(cpu_seconds(lambda call=call, path=path: call(path)) / length_s)
            rows.append({"rows": size, **{name: float(np.median(times)) for name, times in taken.items()}})
            print("  ", rows[-1], flush=True)
    return rows


def main(result: Path) -> None:
    """Measure all, print it, write it to `result`."""
    folder = DATA / "clips" / "videos"
    if not folder.is_dir():
        raise SystemExit(f"no clips in {folder}: set REELSIEVE_TEST_DATA to the folder of the test data")
    if (models := find_fact_models()) is None:
        raise SystemExit("the extra `facts` is not installed: run make develop")
    speech = find_speech() if shutil.which("espeak-ng") else None
    costs, text = find_costs(folder), find_text(folder)
    save(result, {"models": models, "speech": speech, "costs": costs, "text": text}, av=av.__version__)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULT)
