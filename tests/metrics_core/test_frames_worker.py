"""Decoding in a process of its own: what hangs or crashes there leaves the caller alive."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from metrics_core import frames
from metrics_core.frames import DecodingWorker, FrameReadError, decoding, get_shared_worker
from tests.metrics_core.frames_clips import encode, encode_sound, shown_number


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return encode(tmp_path_factory.mktemp("clips") / "clip.mp4", 40)


def process_of(worker: DecodingWorker, clip: Path) -> int:
    return worker.read_frames(clip, reader="frames_fakes:ProcessReader").n_frames


def test_the_public_surface() -> None:
    assert all(hasattr(frames, name) for name in frames.__all__)
    assert frames.__all__ == sorted(frames.__all__)


def test_a_reader_that_hangs_is_stopped_and_the_next_read_works(worker: DecodingWorker, clip: Path) -> None:
    before = process_of(worker, clip)
    with pytest.raises(FrameReadError, match=r"clip\.mp4: decoding exceeded the limit of 0.2 s"):
        worker.read_frames(clip, reader="frames_fakes:HangingReader", timeout_s=0.2)
    with pytest.raises(ProcessLookupError):
        os.kill(before, 0)
    assert worker.read_frames(clip).n_frames == 40


def test_a_reader_that_crashes_is_reported_and_the_next_read_works(worker: DecodingWorker, clip: Path) -> None:
    with pytest.raises(FrameReadError, match=r"the decoder crashed \(SIGSEGV\)"):
        worker.read_frames(clip, reader="frames_fakes:CrashingReader")
    assert worker.read_frames(clip).n_frames == 40


def test_a_reader_that_ends_the_process_is_quoted(worker: DecodingWorker, clip: Path) -> None:
    with pytest.raises(FrameReadError, match=r"the decoder crashed \(exit status 3: out of cheese\)"):
        worker.read_frames(clip, reader="frames_fakes:ExitingReader")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("frames_fakes:RaisingReader", "unexpected ZeroDivisionError: the fake divides by zero"),
        ("frames_fakes:CrashingReader", "crashed"),
        ("frames_fakes:FourChannelsReader", r"indices, times and pixels of .* uint8 \(1, 2, 2, 4\)"),
        ("no_such_module:Reader", "No module named 'no_such_module'"),
    ],
)
def test_pyav_reads_where_decord_fails(
    worker: DecodingWorker, clip: Path, monkeypatch: pytest.MonkeyPatch, name: str, reason: str
) -> None:
    with pytest.raises(FrameReadError, match=reason):
        worker.read_frames(clip, reader=name)
    monkeypatch.setitem(decoding._READERS, "decord", name)
    sampled = worker.read_frames(clip, every=10, reader="decord")
    assert sampled.reader == "pyav"
    assert [shown_number(picture) for picture in sampled.pixels] == [0, 10, 20, 30]


def test_what_a_library_prints_does_not_disturb(worker: DecodingWorker, clip: Path) -> None:
    sampled = worker.read_frames(clip, reader="frames_fakes:NoisyReader")
    assert np.array_equal(sampled.pixels, np.full((1, 2, 2, 3), 7, np.uint8))
    assert sampled.reader == "noisy"


def test_the_child_loads_no_model_library(worker: DecodingWorker, clip: Path) -> None:
    with pytest.raises(FrameReadError, match=r"loaded: \[\]"):
        worker.read_frames(clip, reader="frames_fakes:ModulesReader")


def test_one_process_serves_many_reads_and_ends_with_the_worker(clip: Path) -> None:
    with DecodingWorker() as worker:
        first = process_of(worker, clip)
        assert first != os.getpid()
        assert process_of(worker, clip) == first
        os.kill(first, signal.SIGKILL)
        os.waitpid(first, 0)
        second = process_of(worker, clip)
        assert second != first
    with pytest.raises(ProcessLookupError):
        os.kill(second, 0)
    third = process_of(worker, clip)
    worker.close()
    assert third != second


def test_threads_share_a_worker(worker: DecodingWorker, clip: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        steps = list(range(1, 13))
        sampled = list(threads.map(lambda every: worker.read_frames(clip, every=every), steps))
    for every, result in zip(steps, sampled, strict=True):
        assert [shown_number(picture) for picture in result.pixels] == list(range(0, 40, every))


def test_files_that_cannot_be_read(worker: DecodingWorker, tmp_path: Path) -> None:
    text, empty = tmp_path / "text.mp4", tmp_path / "empty.mp4"
    text.write_text("no video")
    empty.write_bytes(b"")
    for path in (text, empty):
        with pytest.raises(FrameReadError, match=rf"{path.name}: it is not a video container"):
            worker.read_frames(path)
    with pytest.raises(FrameReadError, match="holds no video stream"):
        worker.read_frames(encode_sound(tmp_path / "sound.m4a"))
    with pytest.raises(FrameReadError, match=r"missing\.mp4: there is no such file"):
        worker.read_frames(tmp_path / "missing.mp4")
    with pytest.raises(FrameReadError, match="it is a folder, not a file"):
        worker.read_frames(tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [{"every": 0}, {"cap": 0}, {"timeout_s": 0}, {"timeout_s": float("inf")}, {"reader": ""}, {"reader": "ffmpeg"}],
)
def test_wrong_arguments_are_the_callers_error(
    worker: DecodingWorker, clip: Path, arguments: dict[str, object]
) -> None:
    with pytest.raises(ValueError, match=r"every|cap|timeout_s|reader"):
        worker.read_frames(clip, **arguments)  # type: ignore[arg-type]  # wrong on purpose


def test_odd_file_names(worker: DecodingWorker, clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = ["file:x.mp4", "concat:a|b.mp4", "-i.mp4", "é %03d.mp4"]
    if sys.platform == "linux":  # elsewhere a name must be valid UTF-8
        names.append(os.fsdecode(b"\xff.mp4"))
    for name in names:
        path = Path(name)
        path.write_bytes(clip.read_bytes())
        assert worker.read_frames(path).n_frames == 40
        assert worker.probe_video(path).status == "ok"


@pytest.mark.parametrize("how", ["as a script without a guard", "typed into a shell"])
def test_it_works_wherever_it_is_called_from(clip: Path, tmp_path: Path, how: str) -> None:
    program = f"""
from pathlib import Path
from metrics_core.frames import get_shared_worker
worker, clip = get_shared_worker(), Path({str(clip)!r})
print(worker.read_frames(clip, every=20).indices.tolist(), worker.probe_video(clip).status)
"""
    # A folder with somebody's data must not become a place to import from.
    (tmp_path / "numpy.py").write_text("raise SystemExit('imported from the working folder')")
    script = tmp_path / "scripts" / "read.py"
    script.parent.mkdir()
    script.write_text(program)
    typed = how == "typed into a shell"
    done = subprocess.run(
        [sys.executable, "-" if typed else str(script)],
        input=program if typed else None,
        cwd=script.parent if typed else tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.stdout, done.stderr) == ("[0, 20] ok\n", "")


def test_the_shared_worker_of_the_process(clip: Path) -> None:
    first = get_shared_worker().read_frames(clip, reader="frames_fakes:ProcessReader").n_frames
    assert get_shared_worker().read_frames(clip, reader="frames_fakes:ProcessReader").n_frames == first


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_gets_a_worker_of_its_own(clip: Path) -> None:
    program = f"""
import os
from pathlib import Path
from metrics_core.frames import get_shared_worker
def worker():
    return get_shared_worker().read_frames(Path({str(clip)!r}), reader="frames_fakes:ProcessReader").n_frames
before = worker()
child = os.fork()
if not child:
    os._exit(0 if worker() != before else 1)
assert os.waitpid(child, 0)[1] == 0
assert worker() == before
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
