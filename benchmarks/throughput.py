"""How busy the models are kept: `python -m benchmarks.throughput`, a minute or two on two cores.

shares: what encoders and verifier do in a second, and how much of it is the model. On a GPU that is against a bare
loop: the same forward passes on the same batches, laid on the device beforehand. On a CPU it is the part of a run's CPU
seconds that forward passes take, which other load does not change. The rest is tokenising, batches and checks.
rates: EVQAScore from clip to score with decoding.
It measures the models that settings name, so a GPU is measured by `REELSIEVE_PROFILE=gpu python -m
benchmarks.throughput`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assets.media.decoders import count_cores, count_cores_per_encoder
from benchmarks.measure import RESULTS, Spread, alternate, save, seconds, spread
from metrics_core.evqa import evqa_from_prepared_frames, prepare_frames
from metrics_core.frames import DecodingWorker
from metrics_core.frames.features import FrameEncoder, FrameFeatures, VideoToEncode, compute_frame_features
from metrics_core.frames.pool import DecoderPool
from metrics_core.keywords import RuleKeywords, extract_keywords
from metrics_core.models.clip_encoder import OpenClipEncoder

RUNS = 5
N_CLIPS = 15
CLIP_SECONDS = 12
TEXT = "A man in a red coat lifts a heavy box. Two dogs run over the wet lawn while a child watches them."
WANTED = {"cpu": 0.95, "cuda": 0.6}


@dataclass(frozen=True)
class Loop:
    """A loop over n inputs, and the module inside that computes; of a text tower its first part and its last too."""

    n: int
    module: Any
    run: Callable[[], object]
    first: Any = None
    last: Any = None

    def share(self) -> float:
        """The part of a run's CPU seconds that its forward passes take."""
        inside, whole = [0.0], -time.process_time()
        first, last = self.first or self.module, self.last or self.module
        before = first.register_forward_pre_hook(lambda *_: inside.append(-time.process_time()))
        after = last.register_forward_hook(lambda *_: inside.append(time.process_time()))
        self.run()
        whole += time.process_time()
        before.remove()
        after.remove()
        return sum(inside) / whole

    def bare(self) -> float:
        """Seconds of a run's forward passes alone, one after the other."""
        import torch

        passes: list[tuple[Any, Any]] = []
        handle = self.module.register_forward_pre_hook(
            lambda _, args, given: passes.append((_copied(args), dict(given))), with_kwargs=True
        )
        self.run()
        handle.remove()

        def run() -> None:
            with torch.inference_mode():
                for args, given in passes:
                    self.module(*_copied(args), **given)
            torch.cuda.synchronize()

        run()
        return seconds(run)


def _copied(args: tuple[Any, ...]) -> tuple[Any, ...]:
    # A module of sentence-transformers writes its output into the mapping that it is given.
    return tuple(dict(arg) if isinstance(arg, Mapping) else arg for arg in args)


def loops(settings: Any) -> dict[str, Loop]:
    """The loops of this project, on captions, keypoints and pictures of the demo's world."""
    from assets.models.verifiers import make_verifier
    from lab.demo.build import build_manifest_rows, make_demo_clips
    from lab.encoder.data import frames_at
    from metrics_core.ecs.verifier.model import OfflineVerifier

    clips = make_demo_clips(N_CLIPS, 7)
    rows = build_manifest_rows(clips)
    texts = [str(row["text"]) for row in rows["captions"]]
    keypoints: dict[object, list[str]] = {}
    for row in rows["keypoints"]:
        keypoints.setdefault(row["video_id"], []).append(str(row["text"]))
    captions = [(str(row["text"]), keypoints.get(row["video_id"], [])) for row in rows["captions"]]
    pairs = [(text.split(". ")[0], keypoint) for text, of_video in captions for keypoint in of_video][::3]
    encoder = settings.make_text_encoder()
    images = settings.make_image_text_encoder()
    verifier: Any = make_verifier(settings.ecs_verifier.model, settings.ecs_verifier.precision)
    pictures = [picture for clip in clips.values() for picture in frames_at(clip, range(0, clip.n_frames, 30))]
    prepared = [images.preprocess(picture) for picture in pictures]
    for model in (lambda: encoder.encode(texts[:2]), lambda: verifier.entailment(pairs[:2])):
        model()
    clip = images._loaded.model
    tower = getattr(clip, "text", clip)

    def run_texts() -> object:
        return images.encode_texts(texts)

    judge = verifier._network[1] if isinstance(verifier, OfflineVerifier) else verifier._loaded.model
    return {
        "VCS texts": Loop(len(texts), encoder._loaded, lambda: encoder.encode(texts)),
        "ECS pairs": Loop(len(pairs), judge, lambda: verifier.entailment(pairs)),
        "EVQAScore frames": Loop(len(prepared), clip.visual, lambda: images.encode_preprocessed(prepared)),
        "EVQAScore texts": Loop(len(texts), tower.transformer, run_texts, tower.token_embedding, tower.ln_final),
    }


def shares(settings: Any, device: str) -> dict[str, Any]:
    """Inputs a second of each loop, and its share of the bare one's."""
    found = {}
    print(f"\n{'':<20}{'n':>7}  {'a second':<24}{'share of the model':<28}wanted {WANTED[device]:g}")
    for name, loop in loops(settings).items():
        loop.run()
        rates, of_model = [], []
        for _ in range(RUNS):
            taken = seconds(loop.run)
            rates.append(loop.n / taken)
            of_model.append(loop.share() if device == "cpu" else loop.bare() / taken)
        print(f"{name:<20}{loop.n:>7}  {Spread.of(rates)!s:<24}{Spread.of(of_model)}", flush=True)
        found[name] = {"n": loop.n, "a_second": spread(rates), "share": spread(of_model), "wanted": WANTED[device]}
    return found


def pipeline_calls(encoder: OpenClipEncoder, paths: Sequence[Path]) -> dict[str, Callable[[], object]]:
    """From clips to scores, and the encoder alone on the same frames."""
    frames = FrameEncoder(encoder, every=30)
    keywords = extract_keywords(TEXT, RuleKeywords()).cleaned
    with DecodingWorker() as worker:
        images = [encoder.preprocess(pixels) for path in paths for pixels in worker.read_frames(path, every=30).pixels]

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

    return {"encoder": lambda: encoder.encode_preprocessed(images), "pipeline": score}


def file_to_score(settings: Any, folder: Path) -> dict[str, Any]:
    """Clips a second from file to EVQAScore, and the share of time in which the encoder works."""
    from lab.demo.build import create_demo

    create_demo(folder, n_clips=20)
    paths = sorted(folder.rglob("*.mp4"))
    calls = pipeline_calls(settings.make_image_text_encoder(), paths)
    calls["pipeline"]()
    taken = alternate(calls, RUNS)
    rate = [len(paths) / whole for whole in taken["pipeline"]]
    share = [encoder / whole for encoder, whole in zip(taken["encoder"], taken["pipeline"], strict=True)]
    print(f"\nEVQAScore: {Spread.of(rate)} clips a second; the encoder works in {Spread.of(share)} of the time")
    return {"clips": len(paths), "a_second": spread(rate), "encoder_share": spread(share)}


def main() -> None:
    """Measure, print and write results/throughput.json."""
    import torch

    from orchestration.settings import get_settings

    argparse.ArgumentParser(description=__doc__).parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    before = os.getloadavg()
    result: dict[str, Any] = {"device": torch.cuda.get_device_name() if device == "cuda" else device, "runs": RUNS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result["shares"] = shares(get_settings(), device)
        result["file_to_score"] = file_to_score(get_settings(), folder / "clips")
    least = min(row["share"]["median"] for row in result["shares"].values())
    print(f"the least share is {least:.3f}, wanted {WANTED[device]:g}")
    if device == "cpu":
        result["gpu"] = "not measured"
    print(f"\nwritten to {save(RESULTS / 'throughput.json', result, load_before=before)}")


if __name__ == "__main__":
    main()
