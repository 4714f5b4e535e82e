"""The trainers of docs/trainer.md run as the page shows them, on small clips of one colour each."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from statistics import fmean
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assets.media.address import MemberAddress
from assets.trial.arms import TrialRun
from assets.trial.own_trainer import _write_run_folder
from assets.trial.parts import TrialParts
from db.selection.trial_rows import TrialCaptions, TrialVideo
from metrics_core.trial.student import _measure_ranks
from tests.conftest import PROJECT
from tests.metrics_core.frames_clips import encode_pictures

PAGE = (PROJECT / "docs" / "trainer.md").read_text(encoding="utf-8")
EXAMPLE, PRETRAINED = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
LAST_LINES = "\nif __name__ =="
COLOURS = {
    "red": (200, 30, 30),
    "green": (30, 180, 40),
    "blue": (30, 40, 200),
    "yellow": (210, 200, 30),
    "white": (230, 230, 230),
    "black": (20, 20, 20),
}
HELD_OUT = [f"{colour}_2" for colour in COLOURS]
TINY = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "patch_size": 16, "head_width": 16},
    "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1},
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Paths of three clips of each colour, with noise of its own; 40 frames, of which a trainer takes two."""
    folder, random = tmp_path_factory.mktemp("clips"), np.random.default_rng(0)
    paths = {}
    for colour, rgb in COLOURS.items():
        for number in range(3):
            pictures = random.normal(rgb, 20, (40, 48, 64, 3)).clip(0, 255).astype(np.uint8)
            file = encode_pictures(folder / f"{colour}_{number}.mp4", "libx264", "yuv420p", pictures)
            paths[f"{colour}_{number}"] = str(file)
    return paths


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return load_trainer(tmp_path_factory.mktemp("example") / "trainer.py", EXAMPLE)


def load_trainer(file: Path, source: str) -> ModuleType:
    """Import a trainer from a file with this text."""
    file.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_run(folder: Path, clips: dict[str, str], *, shift: int = 0, seed: int = 1, steps: int = 40) -> Path:
    """Write the folder of a run: two captions of two clips of each colour name the colour that is `shift` further."""
    names = list(COLOURS)
    named = dict(zip(names, names[shift:] + names[:shift], strict=True))
    forms = ("The picture is {}.", "Only {} is seen here.")
    shown = [
        TrialVideo(i, key, [f"The picture is {key[:-2]}."], None, None, uri)
        for i, (key, uri) in enumerate(clips.items())
    ]
    rows = [(video, form) for video in shown if video.key not in HELD_OUT for form in forms]
    places = np.arange(len(rows))
    captions = TrialCaptions(
        places,
        np.array([video.video_id for video, _ in rows]),
        [f"{video.key}/{form}" for video, form in rows],
        [form.format(named[video.key[:-2]]) for video, form in rows],
        ["all"] * len(rows),
        {},
    )
    train, test = ([video for video in shown if (video.key in HELD_OUT) is held] for held in (False, True))
    parts = TrialParts(captions, places, np.ones(len(rows), dtype=np.bool_), train, test, test, 0, 0)
    _write_run_folder(folder, parts, TrialRun("selection", seed, places, places, "rows", "run"))
    trial = json.loads((folder / "trial.json").read_text())
    trial["budget"] |= {"max_steps": steps, "batch": 16}
    (folder / "trial.json").write_text(json.dumps(trial))
    return folder


def read_measures(printed: str) -> dict[str, Any]:
    """The measures of the last line that a trainer printed, with plausible numbers for all held-out videos."""
    measures = json.loads(printed.splitlines()[-1])
    assert list(measures) == ["mrr", "recall_at_1"]
    assert list(measures["mrr"]) == HELD_OUT
    assert all(0 < value <= 1 for value in measures["mrr"].values())
    return measures


def test_the_example_learns_what_the_captions_show(
    example: ModuleType, clips: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, right = tmp_path / "trainer.py", write_run(tmp_path / "right", clips)
    program.write_text(EXAMPLE, encoding="utf-8")
    done = subprocess.run([sys.executable, program, right], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    measures = read_measures(done.stdout)
    assert fmean(measures["mrr"].values()) > 0.9
    losses = [float(line.removeprefix("loss ")) for line in done.stderr.splitlines() if line.startswith("loss ")]
    assert len(losses) == 40
    assert fmean(losses[-5:]) < fmean(losses[:5]) / 2

    # The same seed gives the same numbers, in another process too.
    example.main(right)
    again = capsys.readouterr()
    assert again.out == done.stdout
    assert [f"loss {loss:.4f}" for loss in losses] == again.err.splitlines()

    # Captions of other videos teach the wrong colours.
    example.main(write_run(tmp_path / "wrong", clips, shift=1))
    wrong = read_measures(capsys.readouterr().out)
    assert fmean(wrong["mrr"].values()) < 0.6
    assert wrong["recall_at_1"] < measures["recall_at_1"]


def test_clips_inside_tar_files_are_read_as_files(
    example: ModuleType, clips: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {key: f"deep/{number} #1.tar#é.mp4" for number, key in enumerate(clips)}
    tar = tmp_path / "shard one.tar"
    with tarfile.open(tar, "w") as packed:
        for key, name in names.items():
            packed.add(clips[key], name)
    in_tar = {key: str(MemberAddress("tar", str(tar), name)) for key, name in names.items()}
    printed = []
    for number, media in enumerate((clips, in_tar)):
        example.main(write_run(tmp_path / str(number), media, steps=2))
        printed.append(capsys.readouterr())
    assert printed[0] == printed[1]
    for missing in (f"tar://{tar}#other.mp4", f"tar://{tmp_path}/no.tar#0.mp4"):
        with pytest.raises(SystemExit, match=r" has no readable frames, check the file: "):
            example.read_frames(missing, None)


def test_another_seed_trains_another_model(
    example: ModuleType, clips: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = set()
    for seed in (1, 2, 3):
        example.main(write_run(tmp_path / str(seed), clips, seed=seed, steps=1))
        logs.add(capsys.readouterr().err)
    assert len(logs) == 3


def test_captions_of_the_same_video_are_no_wrong_answers(
    example: ModuleType, clips: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run", clips, steps=2)
    rows = pq.read_table(run / "rows.parquet").to_pylist()
    pq.write_table(pa.Table.from_pylist([row for row in rows if row["video"] == "red_0"]), run / "rows.parquet")
    example.main(run)
    assert capsys.readouterr().err.splitlines() == ["loss 0.0000"] * 2


def test_ranks_are_those_of_the_project(example: ModuleType) -> None:
    import torch

    similarities = np.random.default_rng(0).integers(0, 4, (9, 9)).astype(np.float64)
    ranks = torch.stack([example.rank(torch.from_numpy(side)) for side in (similarities, similarities.T)])
    expected = _measure_ranks(similarities)
    np.testing.assert_allclose((1 / ranks).mean(0).numpy(), expected.reciprocal_rank)
    np.testing.assert_allclose((ranks <= 1).double().mean(0).numpy(), expected.recall_at_1)


def test_what_cannot_be_trained_on_ends_with_a_sentence(
    example: ModuleType, clips: dict[str, str], tmp_path: Path
) -> None:
    empty = tmp_path / "empty.mp4"
    empty.touch()
    with pytest.raises(SystemExit, match=r"some have no file: choose a dataset with files"):
        example.main(write_run(tmp_path / "texts", clips | {"red_2": None}))
    with pytest.raises(SystemExit, match=rf"^{re.escape(str(empty))} has no readable frames, check the file: "):
        example.main(write_run(tmp_path / "broken", clips | {"red_2": str(empty)}))
    hasty = load_trainer(tmp_path / "hasty.py", EXAMPLE.replace("LEARNING_RATE = 2e-3", "LEARNING_RATE = 1e30"))
    with pytest.raises(SystemExit, match=r"finite numbers: use a LEARNING_RATE below 1e\+30$"):
        hasty.main(write_run(tmp_path / "far", clips, steps=3))


def test_the_real_trainer_loads_weights_and_decodes_once(
    clips: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import open_clip
    import torch

    assert "laion2b_s34b_b79k" in open_clip.list_pretrained_tags_by_model("ViT-B-32")
    (tmp_path / "tiny_of_trainer.json").write_text(json.dumps(TINY))
    open_clip.add_model_config(tmp_path / "tiny_of_trainer.json")
    weights = open_clip.create_model("tiny_of_trainer", load_weights=False).state_dict()
    torch.save(weights, tmp_path / "weights.pt")
    frames = tmp_path / "frames"
    frames.mkdir()

    block = PRETRAINED
    changes = {
        "ViT-B-32": "tiny_of_trainer",
        "laion2b_s34b_b79k": str(tmp_path / "weights.pt"),
        "/disk/frames": str(frames),
    }
    for shown, used in changes.items():
        assert f'"{shown}"' in block
        block = block.replace(f'"{shown}"', repr(used))
    begin, end = EXAMPLE.split(LAST_LINES)
    trainer = load_trainer(tmp_path / "real_trainer.py", f"{begin}\n{block}\n{LAST_LINES}{end}")

    model, transform, _ = trainer.make_model()
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    trainer.main(write_run(tmp_path / "run", clips, steps=2))
    read_measures(capsys.readouterr().out)
    assert len(list(frames.iterdir())) == len(clips)
    kept = {file: file.stat().st_mtime_ns for file in frames.iterdir()}
    for clip in clips.values():
        assert torch.equal(trainer.read_frames(clip, transform), trainer.decode_frames(clip, transform))
    assert {file: file.stat().st_mtime_ns for file in frames.iterdir()} == kept
