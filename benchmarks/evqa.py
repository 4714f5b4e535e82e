"""EVQAScore from video file to score: `python -m benchmarks.evqa`, some minutes on two cores.

pipeline: 720p clips, drawn here, through decoder, an untrained CLIP ViT-B/32 and the metric, as the platform runs them,
against the decoder alone and the encoder alone on the same frames. What the model computes does not depend on training.
frames: every l-th frame of the demo's clips against every frame, by the demo encoder: how many frames are encoded, and
how alike the two rankings of the captions are (the form of Table 1 in arXiv 2411.06908).
texts: keywords at their own length against keywords padded to CLIP's 77 tokens, by the same untrained CLIP.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assets.media.decoders import count_cores, count_cores_per_encoder
from benchmarks.measure import RESULTS, Spread, alternate, save
from demo.encoder import make_demo_encoder
from lab.demo.build import make_demo_clips
from lab.demo.systems import build_candidates, find_least_similar_clip
from lab.encoder.data import frames_at
from metrics_core.evqa import evqa_from_prepared_frames, prepare_frames
from metrics_core.frames import DecodingWorker
from metrics_core.frames.features import FrameEncoder, FrameFeatures, VideoToEncode, compute_frame_features
from metrics_core.frames.pool import DecoderPool
from metrics_core.keywords import RuleKeywords, extract_keywords
from metrics_core.models.clip_encoder import OpenClipEncoder

RUNS = 3
N_CLIPS, CLIP_SECONDS, FPS = 2, 12, 30
WIDTH, HEIGHT = 1280, 720
ARCHITECTURE = "ViT-B-32"
TEXT = "A man in a red coat lifts a heavy box. Two dogs run over the wet lawn while a child watches them."
INTERVALS = (1, 10, 20, 30)
TARGETS = {"pipeline": 1.15, "fewer_frames": 20.0, "rank_correlation": 0.99, "texts": 13.0}


def write_clip(path: Path, seed: int) -> Path:
    """A 720p H.264 clip of moving textures with noise, some Mb/s like a camera's."""
    import av

    noise = np.random.default_rng(seed)
    texture = np.kron(noise.integers(0, 255, (90, 160, 3), dtype=np.uint8), np.ones((16, 16, 1), np.uint8))
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=Fraction(FPS), options={"preset": "veryfast", "crf": "27"})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for number in range(CLIP_SECONDS * FPS):
            window = texture[number : number + HEIGHT, number : number + WIDTH]
            grain = noise.integers(0, 80, window.shape, dtype=np.uint8)
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(window // 2 + grain), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def untrained_clip(folder: Path) -> OpenClipEncoder:
    """A CLIP ViT-B/32 with random weights, saved and loaded as a real one is."""
    import open_clip
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    model = open_clip.create_model(ARCHITECTURE, pretrained=None, load_weights=False)
    save_file(model.state_dict(), folder / "untrained.safetensors")
    return OpenClipEncoder(ARCHITECTURE, str(folder / "untrained.safetensors"))


def pipeline_calls(encoder: OpenClipEncoder, paths: Sequence[Path]) -> dict[str, Callable[[], object]]:
    """The pipeline, and its two large parts alone."""
    frames = FrameEncoder(encoder, every=30)
    keywords = extract_keywords(TEXT, RuleKeywords()).cleaned
    with DecodingWorker() as worker:
        images = [encoder.preprocess(pixels) for path in paths for pixels in worker.read_frames(path, every=30).pixels]

    def decode() -> None:
        with DecodingWorker() as worker:
            for path in paths:
                worker.read_frames(path, every=30)

    def score() -> list[float | None]:
        scores = []
        whole, *units = encoder.encode_texts([TEXT, *keywords])
        for _, encoded in compute_frame_features(
            frames,
            [VideoToEncode(path, path, CLIP_SECONDS) for path in paths],
            DecoderPool(count_cores_per_encoder(count_cores())),
        ):
            assert isinstance(encoded, FrameFeatures)
            scores.append(evqa_from_prepared_frames(prepare_frames(encoded.features), units, whole).score)
        return scores

    return {"decoder": decode, "encoder": lambda: encoder.encode_preprocessed(images), "pipeline": score}


def pipeline(folder: Path, encoder: OpenClipEncoder) -> dict[str, Any]:
    """Wall time from file to score against decoder and encoder alone."""
    paths = [write_clip(folder / f"{seed}.mp4", seed) for seed in range(N_CLIPS)]
    calls = pipeline_calls(encoder, paths)
    taken = alternate(calls, RUNS)
    ratios = [p / (d + e) for d, e, p in zip(taken["decoder"], taken["encoder"], taken["pipeline"], strict=True)]
    megabits = sum(path.stat().st_size for path in paths) * 8e-6 / (N_CLIPS * CLIP_SECONDS)
    result = {name: Spread.of(values).as_dict() for name, values in taken.items()}
    result |= {"ratio": Spread.of(ratios).as_dict(), "target": TARGETS["pipeline"], "megabits_per_s": megabits}
    print(f"\npipeline: {N_CLIPS} clips of {CLIP_SECONDS} s, 720p, {megabits:.1f} Mb/s, every 30th frame, seconds")
    for name, values in taken.items():
        print(f"  {name:10} {Spread.of(values)}")
    print(f"  pipeline / (decoder + encoder) {Spread.of(ratios)}, wanted at most {TARGETS['pipeline']}")
    return result


def frames() -> dict[str, Any]:
    """Sampling against all frames on the demo's clips."""
    from scipy.stats import kendalltau, spearmanr

    encoder = make_demo_encoder()
    scores: dict[int, list[float]] = {every: [] for every in INTERVALS}
    encoded = dict.fromkeys(INTERVALS, 0)
    clips = list(make_demo_clips(60, 7).values())
    for index, clip in enumerate(clips):
        features = encoder.encode_images(list(frames_at(clip, range(clip.n_frames))))
        texts = [candidate.text for candidate in build_candidates(clip, find_least_similar_clip(clips, index))]
        units = [encoder.encode_texts([text, *extract_keywords(text, RuleKeywords()).cleaned]) for text in texts]
        for every in INTERVALS:
            sampled = features[::every]
            encoded[every] += len(sampled)
            scores[every] += _scores(sampled, units)
    print("\nframes: the demo's 60 clips and 360 captions, against every frame")
    rows = {}
    for every in INTERVALS[1:]:
        rho, tau = spearmanr(scores[1], scores[every]).statistic, kendalltau(scores[1], scores[every]).statistic
        fewer = encoded[1] / encoded[every]
        rows[str(every)] = {"frames": encoded[every], "fewer": fewer, "spearman": rho, "kendall": tau}
        print(f"  l = {every:2}: {encoded[every]:6} of {encoded[1]} frames, {fewer:.1f}x fewer, Spearman {rho:.4f}")
    print(f"  wanted at l = 30: {TARGETS['fewer_frames']:g}x fewer, Spearman above {TARGETS['rank_correlation']}")
    return {"all_frames": encoded[1], "every": rows, "target": [TARGETS["fewer_frames"], TARGETS["rank_correlation"]]}


def _scores(sampled: NDArray[np.float32], units: Sequence[NDArray[np.float32]]) -> list[float]:
    video = prepare_frames(sampled)
    found = [evqa_from_prepared_frames(video, rows[1:], rows[0]).score for rows in units]
    assert None not in found
    return [score for score in found if score is not None]


def texts(encoder: OpenClipEncoder) -> dict[str, Any]:
    """Keywords at their own length against padded ones."""
    import torch

    clip = make_demo_clips(60, 7)
    keywords = [keyword for story in list(clip.values())[:12] for keyword in _keywords(list(clip.values()), story)]
    distinct = list(dict.fromkeys(keywords))[:96]
    loaded = encoder._loaded
    tokens = loaded.tokenizer(distinct)

    def padded() -> NDArray[np.float32]:
        with torch.inference_mode():
            parts = [loaded.model.encode_text(tokens[start : start + 64]) for start in range(0, len(tokens), 64)]
        return np.asarray(torch.cat(parts).numpy())

    difference = float(np.abs(padded() - encoder.encode_texts(distinct)).max())
    taken = alternate({"padded": padded, "own_length": lambda: encoder.encode_texts(distinct)}, RUNS)
    ratio = Spread.of([a / b for a, b in zip(taken["padded"], taken["own_length"], strict=True)])
    print(f"\ntexts: {len(distinct)} keywords at their own length {ratio} times as fast as padded to {tokens.shape[1]}")
    print(f"  greatest difference of a number {difference:.1e}; 13 to 30 times was measured before")
    rates = {name: Spread.of([len(distinct) / s for s in values]).as_dict() for name, values in taken.items()}
    return {"texts_per_s": rates, "ratio": ratio.as_dict(), "greatest_difference": difference}


def _keywords(clips: list[Any], clip: Any) -> Sequence[str]:
    (faithful, *_) = build_candidates(clip, find_least_similar_clip(clips, clips.index(clip)))
    return extract_keywords(faithful.text, RuleKeywords()).cleaned


def main() -> None:
    """Run all three and write results/evqa.json."""
    with tempfile.TemporaryDirectory() as folder:
        encoder = untrained_clip(Path(folder))
        result: Mapping[str, Any] = {
            "frames": frames(),
            "texts": texts(encoder),
            "pipeline": pipeline(Path(folder), encoder),
        }
    print(f"\nwritten to {save(RESULTS / 'evqa.json', result)}")


if __name__ == "__main__":
    main()
